// SPDX-License-Identifier: GPL-2.0-only
//! Standard output carries results and nothing else. Standard error carries everything else.

use std::io::{Error, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use live::Broken;
use report::Style;
use report::text::{plural, visible};

use crate::Failure;
use crate::outbox::Outbox;

/// Text that waits for standard output and standard error; None: each write waits until it is done.
static HURRIED: Mutex<Option<[Outbox; 2]>> = Mutex::new(None);

/// From now on printed text never blocks this process, whether or not it is read.
pub fn wait_for_nobody() {
    *HURRIED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Default::default());
}

/// Writes the waiting text; from now on each write waits until it is done.
pub fn wait_again() {
    let hurried = HURRIED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some([mut out, mut err]) = hurried else { return };
    // If the reader has gone, the next print reports it.
    let left_out = out.finish(stdout()).unwrap_or(0) + err.finish(stderr()).unwrap_or(0);
    if left_out > 0 {
        say(&format!(
            "paceline: {} left out, for they were not read",
            plural(left_out as usize, "line")
        ));
    }
}

/// Writes text on standard output, or adds it to the waiting text.
fn put(text: &str) -> Result<(), Error> {
    let mut hurried = HURRIED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some([out, _]) = &mut *hurried {
        return Ok(out.offer(stdout(), text)?);
    }
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a result. If the reader has gone (`| head`), the command ends quietly.
pub fn print(text: &str) -> Result<(), Failure> {
    put(text).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Closed,
        ErrorKind::StorageFull => {
            Failure::input(format!("cannot write the result: {error}; make room"))
        }
        _ => Failure::run(format!("cannot write the result: {error}")),
    })
}

/// The end of a command that has shown a result: a reader that has gone does not matter.
pub fn end(shown: Result<(), Failure>, end: Result<(), Failure>) -> Result<(), Failure> {
    match shown {
        Ok(()) | Err(Failure::Closed) => end,
        Err(failure) => Err(failure),
    }
}

/// Prints a line on standard error. If it cannot be written (a closed pipe, a full disk), the work continues. No part
/// of it can control the terminal: names in it are from files, and from other programs.
pub fn say(text: &str) {
    let mut hurried = HURRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match &mut *hurried {
        Some([_, err]) => err.offer(stderr(), &(said(text) + "\n")).map_err(Error::from),
        None => writeln!(stderr(), "{}", said(text)),
    };
}

/// Prints the last lines of a failed command's output, if they are more than the line that its failure ends with.
pub fn say_last(error: &anyhow::Error) {
    let Some(Broken { last, .. }) = error.downcast_ref() else { return };
    if last.len() > 1 {
        say("the last lines that the command wrote:");
        last.iter().for_each(|line| say(&format!("  {line}")));
    }
}

fn said(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Narrower terminals count as this wide: no table fits in fewer columns.
const NARROWEST: u16 = 40;
/// Longer lines are hard to read.
const WIDEST: u16 = 120;

/// The style for a terminal: its width, boxes, and colours unless NO_COLOR or TERM=dumb is set. Else plain text.
pub fn style() -> Style {
    if !stdout().is_terminal() {
        return Style::PLAIN;
    }
    let width = terminal_size::terminal_size().map_or(Style::PLAIN.width, |(width, _)| width.0);
    let choice = anstream::AutoStream::choice(&stdout());
    let color = choice != anstream::ColorChoice::Never;
    Style { width: width.clamp(NARROWEST, WIDEST), boxes: true, color, ..Style::PLAIN }
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
