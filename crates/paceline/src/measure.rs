// SPDX-License-Identifier: GPL-2.0-only
//! `paceline measure`: describes this machine for the simulator.

use measuring::Measurement;
use report::write_whole;
use terminal::files::check_writable;
use terminal::{Failure, interrupt, output};

use crate::cli::Measure;

/// Measures, and writes or prints the file; compares the simulator with it if requested.
pub fn run(arguments: &Measure) -> Result<(), Failure> {
    interrupt::ends()?;
    if let Some(path) = &arguments.output {
        check_writable(path, "--output")?;
    }
    let measurement = Measurement::take()?;
    let text = measurement.to_toml();
    match &arguments.output {
        Some(path) => {
            write_whole(path, &text).map_err(Failure::input)?;
            output::say(&format!("machine: {}", path.display()));
        }
        None if arguments.check => {}
        None => output::print(&text)?,
    }
    if !arguments.check {
        return Ok(());
    }
    let check = measurement.check();
    let shown = output::print(&check.text);
    output::end(shown, if check.holds { Ok(()) } else { Err(Failure::Gate) })
}
