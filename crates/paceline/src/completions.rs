// SPDX-License-Identifier: GPL-2.0-only
//! `paceline completions`. The shell's own script asks this binary, so its answers match this version.

use std::io;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;
use terminal::{Failure, output};

use crate::cli::Cli;

/// Environment variable that a shell's script sets when it asks.
const ASKS: &str = "COMPLETE";

/// Answers a shell's request and ends; returns if there is none.
pub fn answer() {
    CompleteEnv::with_factory(Cli::command).var(ASKS).complete();
}

/// The script that a shell reads, which asks this binary.
fn script(shell: clap_complete::Shell) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let own = shells.completer(&shell.to_string()).expect("each shell of the list has one");
    own.write_registration(ASKS, "paceline", "paceline", "paceline", &mut script)?;
    Ok(script)
}

/// Prints the script of a shell.
pub fn run(shell: clap_complete::Shell) -> Result<(), Failure> {
    let script =
        script(shell).map_err(|error| Failure::run(format!("cannot write the script: {error}")))?;
    output::print(&String::from_utf8_lossy(&script))
}
