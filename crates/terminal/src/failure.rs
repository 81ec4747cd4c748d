// SPDX-License-Identifier: GPL-2.0-only
//! How the command ends if it cannot do what was asked.

use std::fmt::{self, Display};
use std::process::ExitCode;

use report::text::visible;

/// One line for the user, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Bad usage or input: what is wrong and how to fix it. Exit code 2.
    Input(String),
    /// A run failed. Exit code 1.
    Run(String),
    /// The command succeeded, but a gate does not hold or could not be judged; that has been printed. Exit code 1.
    Gate,
    /// It ends with this status; the reason has been printed.
    Status(u8),
    /// The output's reader has gone: not a failure. Exit code 0.
    Closed,
}

impl Failure {
    /// Bad usage or input.
    pub fn input(reason: impl Display) -> Self {
        Failure::Input(reason.to_string())
    }

    /// A run that failed.
    pub fn run(reason: impl Display) -> Self {
        Failure::Run(reason.to_string())
    }

    /// The exit code of the process.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Closed => 0,
            Failure::Status(status) => *status,
            Failure::Run(_) | Failure::Gate => 1,
            Failure::Input(_) => 2,
        })
    }
}

impl Display for Failure {
    /// One line: line ends within a reason become semicolons.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Input(reason) | Failure::Run(reason) => {
                let lines = reason.lines().map(str::trim).filter(|line| !line.is_empty());
                let line = lines.collect::<Vec<_>>().join("; ");
                out.write_str(&visible(&line))
            }
            Failure::Gate => write!(out, "not all of it holds; see what is marked above"),
            Failure::Closed | Failure::Status(_) => Ok(()),
        }
    }
}

/// A failure on this machine.
pub fn failed(error: anyhow::Error) -> Failure {
    let why = format!("{error:#}");
    let mend = if why.contains("Too many open files") { "; raise `ulimit -n`" } else { "" };
    Failure::run(why + mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_that_commands_no_terminal() {
        let said = Failure::run("sh failed:\n\x1b[2J\x07ünï ☃\r\n").to_string();
        assert_eq!(said, "sh failed:; \u{fffd}[2J\u{fffd}ünï ☃");
    }
}
