// SPDX-License-Identifier: GPL-2.0-only
//! Standard output: results go there and nothing else does. Standard error: all else.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use report::Style;
use report::text::visible;

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

/// How a command ends that has shown a result: a reader that has gone away changes nothing.
pub fn end(shown: Result<(), Failure>, end: Result<(), Failure>) -> Result<(), Failure> {
    match shown {
        Ok(()) | Err(Failure::Closed) => end,
        Err(failure) => Err(failure),
    }
}

/// Says something on standard error. Where nobody can read it (a closed pipe, a full disk) the work
/// goes on all the same. Nothing of it commands the terminal: names in it are from files, and from other programs.
pub fn say(text: &str) {
    let _ = writeln!(stderr(), "{}", said(text));
}

fn said(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Boxes for a terminal, plain text for a pipe; never wider than 100 columns.
pub fn style() -> Style {
    match stdout().is_terminal() {
        true => Style { boxes: true, ..Style::PLAIN },
        false => Style::PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_is_said_has_lines_and_no_commands_for_the_terminal() {
        assert_eq!(
            said("under \u{1b}]0;x\u{7},\nand so on"),
            "under \u{fffd}]0;x\u{fffd},\nand so on"
        );
    }
}
