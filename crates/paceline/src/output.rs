// SPDX-License-Identifier: GPL-2.0-only
//! Standard output: results go there and nothing else does. Standard error: all else.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use report::Style;

use crate::failure::Failure;

/// Prints a result. A reader that has gone away (`| head`) ends the command quietly.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Closed,
        ErrorKind::StorageFull => {
            Failure::input(format!("cannot write the result: {error}; make room"))
        }
        _ => Failure::run(format!("cannot write the result: {error}")),
    })
}

/// Says something on standard error. Where nobody can read it (a closed pipe, a full disk) the work
/// goes on all the same.
pub fn say(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// Boxes for a terminal, plain text for a pipe; never wider than 100 columns.
pub fn style() -> Style {
    match stdout().is_terminal() {
        true => Style { boxes: true, ..Style::PLAIN },
        false => Style::PLAIN,
    }
}
