// SPDX-License-Identifier: GPL-2.0-only
//! How a run ends: the reason, the command's own end, and its status.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use live::Standing;
use terminal::{Failure, failed, interrupt, output};

use crate::cli::{By, Run};

/// Why it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ctrl-C, a hangup or SIGTERM.
    Interrupted,
    /// `--for` is over.
    Time,
    /// The command has ended.
    Command(ExitStatus),
    /// The kernel ejected the policy.
    Kernel,
    /// The reader of its lines has gone.
    Unread,
}

/// No policy is in charge any more: signals have their default actions, and writes wait for readers again.
pub fn released() {
    interrupt::heed_no_more();
    output::wait_again();
}

/// Starts the command, with this process's scheduling before it went above policies.
pub fn start(args: &Run, standing: Standing) -> Result<Child, Failure> {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    standing.give(&mut command);
    if args.json {
        // Standard output is for the lines.
        command.stdout(Stdio::from(std::io::stderr()));
    }
    if args.partial && args.by == By::SchedExt {
        live::ask_for_sched_ext(&mut command);
    }
    command
        .spawn()
        .map_err(|error| Failure::input(format!("cannot start {}: {error}", args.command[0])))
}

/// A command's status as a shell reports it: 128 plus the number of a signal that ended it.
pub fn as_shell(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Ends with no policy in charge. The command runs to its end, whatever else failed. If it fails, its status is this
/// command's, and other errors are only printed.
pub fn conclude(
    end: Result<End, Failure>,
    said: Result<(), Failure>,
    child: Option<Child>,
    suspended: &AtomicBool,
) -> Result<(), Failure> {
    // Signals are not checked from here on.
    released();
    if child.is_some() && suspended.load(Ordering::Relaxed) {
        // Stop together with the command, which the same key has stopped.
        live::stop();
    }
    let status = match (&end, child) {
        (Ok(End::Command(status)), _) => Some(*status),
        (_, Some(mut child)) => Some(child.wait().map_err(|error| failed(error.into()))?),
        (_, None) => None,
    };
    let finished = finish(*end.as_ref().unwrap_or(&End::Unread), status);
    match end.err().or(said.err()) {
        // The reader has gone: neither a failure nor an end for the command.
        None | Some(Failure::Closed) => finished,
        Some(failure) if finished.is_err() => {
            output::say(&format!("paceline: {failure}"));
            finished
        }
        Some(failure) => Err(failure),
    }
}

/// Passes on the command's own status. An ejected policy is a failure if the command has none.
fn finish(end: End, status: Option<ExitStatus>) -> Result<(), Failure> {
    match (end, status.map_or(0, as_shell)) {
        (End::Kernel, 0) => Err(Failure::Status(1)),
        (End::Interrupted, 0) => Err(Failure::Status(130)),
        (_, 0) => Ok(()),
        (_, own) => Err(Failure::Status(own as u8)),
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::SIGTSTP;

    use super::*;

    #[test]
    fn a_command_passes_its_status_on() {
        let raw = |status| Some(ExitStatus::from_raw(status));
        let command = |status| End::Command(ExitStatus::from_raw(status));
        assert_eq!(finish(command(0), raw(0)), Ok(()));
        assert_eq!(finish(command(3 << 8), raw(3 << 8)), Err(Failure::Status(3)));
        assert_eq!(finish(command(9), raw(9)), Err(Failure::Status(137)), "killed");
        assert_eq!(finish(End::Time, None), Ok(()));
        assert_eq!(finish(End::Interrupted, None), Err(Failure::Status(130)));
        assert_eq!(finish(End::Kernel, raw(0)), Err(Failure::Status(1)));
        assert_eq!(finish(End::Unread, raw(3 << 8)), Err(Failure::Status(3)));
    }

    #[test]
    fn a_command_ends_and_its_status_comes_first_whatever_else_fails() {
        let raw = |status| ExitStatus::from_raw(status);
        let fails = || Some(Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap());
        let ends = || Some(Command::new("true").spawn().unwrap());
        let full = || Failure::run("no space left");
        let own = Err(Failure::Status(3));
        let conclude = |end, said, child| conclude(end, said, child, &AtomicBool::new(false));
        assert_eq!(conclude(Ok(End::Command(raw(3 << 8))), Err(Failure::Closed), None), own);
        assert_eq!(conclude(Ok(End::Time), Err(Failure::Closed), fails()), own);
        assert_eq!(
            conclude(Ok(End::Kernel), Err(Failure::Closed), ends()),
            Err(Failure::Status(1))
        );
        assert_eq!(conclude(Ok(End::Time), Err(full()), fails()), own);
        assert_eq!(conclude(Err(full()), Ok(()), fails()), own);
        assert_eq!(conclude(Err(full()), Ok(()), ends()), Err(full()));
        assert_eq!(conclude(Ok(End::Time), Err(Failure::Closed), ends()), Ok(()));
    }

    #[test]
    fn a_terminal_is_not_left_to_a_command_that_was_stopped_alone() {
        let suspended = interrupt::suspends().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.3; grep SigCgt /proc/$PPID/status"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        assert_eq!(conclude(Ok(End::Time), Ok(()), Some(child), &suspended), Ok(()));
        let handled = std::io::read_to_string(&mut out).unwrap();
        let handled =
            u64::from_str_radix(handled.trim_start_matches("SigCgt:").trim(), 16).unwrap();
        assert_eq!(handled >> (SIGTSTP - 1) & 1, 0, "Ctrl-Z stops the command and not its parent");
    }
}
