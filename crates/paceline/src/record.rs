// SPDX-License-Identifier: GPL-2.0-only
//! `record`: records this machine's scheduler while a command runs, or for a time, into a file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use comparison::replay::coarse;
use live::recorder::{Lost, Recorded, Recorder};
use live::sampler::Sampler;
use record::{Header, WriteError};
use report::Draft;
use report::text::{count, time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid,
};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGTERM};
use terminal::files::{refused, unwritable};
use terminal::interrupt::{self, Signals};
use terminal::{Failure, failed, output};

use crate::cli::Record;

use crate::ending::as_shell;
use crate::{export, perfetto};

/// How often the command and the disk are checked.
const LOOK: Duration = Duration::from_millis(20);
/// A shell's exit status for an interrupted command.
const INTERRUPTED: u8 = 130;

/// Records, and prints a summary.
pub fn run(args: &Record) -> Result<(), Failure> {
    interrupt::ends()?;
    let timeline = args.perfetto.iter().map(|path| ("--perfetto", path.clone()));
    let written: Vec<_> = timeline.chain([("-o", args.output.clone())]).collect();
    export::check_files(&written, &programs(&args.command))?;
    let taken = take(args)?;
    let drawn = match &args.perfetto {
        Some(timeline) if !taken.left => perfetto::write(&args.output, timeline),
        _ => Ok(()),
    };
    let told = tell(args, &taken);
    if let Some(timeline) = args.perfetto.as_ref().filter(|_| taken.left) {
        output::say(&format!("paceline: interrupted, so {} is not written", timeline.display()));
    }
    drawn?;
    output::end(told, taken.end())
}

/// The command's own programs, which must not be overwritten.
pub fn programs(command: &[String]) -> Vec<(&'static str, PathBuf)> {
    let program = command.first().and_then(|program| vm::which(program.as_ref()).ok());
    program.map(|program| ("the command itself", program)).into_iter().collect()
}

/// A recording to be replayed.
pub struct Kept {
    /// How this command has to end all the same, because of the recorded command or a full disk.
    pub ended: Result<(), Failure>,
    /// It was interrupted.
    pub interrupted: bool,
}

/// Records, and waits for the command; prints its summary on standard error alone.
pub fn take_quietly(args: &Record) -> Result<Kept, Failure> {
    let taken = take(args)?;
    say(args, &taken);
    if taken.left {
        return Err(Failure::Status(INTERRUPTED));
    }
    if let Some(status) = taken.status.filter(|status| !status.success()) {
        output::say(&format!(
            "paceline: {} ended with status {}: what it did until then is replayed",
            args.command[0],
            as_shell(status)
        ));
    }
    Ok(Kept { ended: taken.end(), interrupted: taken.interrupted })
}

/// A finished recording.
struct Taken {
    recorded: Recorded<File>,
    /// Time from the command's start; without a command, from the recording's.
    took: Duration,
    status: Option<ExitStatus>,
    /// It is from procfs: the part of the command's CPU time that it missed, if known.
    coarse: Option<Option<f64>>,
    /// A signal ended it.
    interrupted: bool,
    /// A second signal came before the command had ended.
    left: bool,
}

impl Taken {
    /// Passes on the command's own status.
    fn end(&self) -> Result<(), Failure> {
        match (self.status.map_or(0, as_shell), self.recorded.cut.is_some()) {
            _ if self.left => Err(Failure::Status(INTERRUPTED)),
            // An interrupted command has a status of its own.
            (0, false) if self.interrupted && self.status.is_none() => {
                Err(Failure::Status(INTERRUPTED))
            }
            (0, false) => Ok(()),
            (0, true) => Err(Failure::Status(1)),
            (own, _) => Err(Failure::Status(own as u8)),
        }
    }
}

fn take(args: &Record) -> Result<Taken, Failure> {
    let until = args.duration.map(Duration::from);
    let coarse = is_coarse(args)?;
    let signals = Signals::watch()?;
    let draft = Draft::new(&args.output).map_err(refused)?;
    let observer = begin(&draft, args, coarse)?;
    if signals.take().is_some() {
        output::say("\npaceline: interrupted");
        return Err(Failure::Status(INTERRUPTED));
    }
    let started = Instant::now();
    let mut child = start(&args.command, args.json)?;
    let from_ns = live::monotonic_ns();
    let over = wait(&observer, child.as_ref(), until, &signals)?;
    let took = started.elapsed();
    let command_ns = child.is_some().then(|| (from_ns, live::monotonic_ns()));
    let signalled = matches!(over, Over::Signal(_));
    if let (Some(child), Over::Signal(signal)) = (&child, over) {
        pass_on(child, signal);
    }
    let ended = child.as_mut().filter(|_| over == Over::Ended);
    let finished = finish(observer, ended, command_ns);
    let finished = finished.and_then(|all| draft.keep().map_err(refused).map(|()| all));
    // The command is waited for, even if its recording failed.
    let outlasting = child.as_mut().filter(|_| over != Over::Ended);
    let outlasted = outlasting.map(|child| outlast(child, signalled, &signals)).transpose()?;
    let (recorded, coarse, status) = finished?;
    let status = outlasted.unwrap_or(status);
    let left = child.is_some() && status.is_none();
    let interrupted = signalled || signals.take().is_some();
    if interrupted && child.is_none() {
        output::say("\npaceline: interrupted");
    }
    Ok(Taken { recorded, took, status, coarse, interrupted, left })
}

/// Whether it has to be a recording of procfs, for lack of rights; refuses what cannot be recorded.
fn is_coarse(args: &Record) -> Result<bool, Failure> {
    if args.duration.is_some_and(|until| until.is_zero()) {
        return Err(Failure::input("--for 0s: expected a time such as 10s"));
    }
    if args.command.is_empty() && args.duration.is_none() {
        return Err(Failure::input(
            "nothing to record; name a command after --, or a time with --for 10s",
        ));
    }
    if let Some(program) = args.command.first() {
        vm::which(program.as_ref()).map_err(Failure::input)?;
    }
    let Some((why, mend)) = obstacle() else { return Ok(false) };
    check_coarse(args, &why, mend)?;
    output::say(&format!(
        "paceline: {why}, so the recording is coarse: how long threads run and wait, sampled from procfs, and not what \
         they wait for; {mend} for all of it"
    ));
    Ok(true)
}

/// Why tracepoints cannot be used, and how to fix it.
fn obstacle() -> Option<(String, &'static str)> {
    let missing = live::missing_rights();
    if !missing.is_empty() {
        return Some((format!("this process lacks {}", missing.join(" and ")), "run it with sudo"));
    }
    let why = "this process is in a PID namespace, where threads have other numbers than in the kernel's tracepoints";
    let mend = "run it outside of that (in a container: with --pid=host)";
    live::namespaces().contains(&"pid").then(|| (why.into(), mend))
}

/// Ends the recording; and reaps the command, if it has ended.
#[allow(clippy::type_complexity)]
fn finish(
    observer: Observer,
    ended: Option<&mut Child>,
    command_ns: Option<(u64, u64)>,
) -> Result<(Recorded<File>, Option<Option<f64>>, Option<ExitStatus>), Failure> {
    let known = ended.is_some();
    let mut status = Ok(None);
    let reap = || status = ended.map(Child::wait).transpose();
    let (recorded, coarse) = match observer {
        Observer::Tracepoints(recorder) => {
            let recorded = recorder.finish(command_ns).map_err(failed)?;
            reap();
            (recorded, None)
        }
        // The CPU time of a child is known after it was waited for.
        Observer::Procfs(sampler) => {
            let (recorded, unseen) = sampler.finish(command_ns, reap).map_err(failed)?;
            (recorded, Some(unseen.filter(|_| known)))
        }
    };
    Ok((recorded, coarse, status.map_err(|error| failed(error.into()))?))
}

/// Waits for a command that outlives its recording, until it is interrupted again. Returns its status, if it has ended.
fn outlast(
    child: &mut Child,
    mut signalled: bool,
    signals: &Signals,
) -> Result<Option<ExitStatus>, Failure> {
    while !has_ended(child)? {
        if let Some(signal) = signals.take() {
            pass_on(child, signal);
            if signalled {
                output::say("\npaceline: interrupted; the command has not ended yet");
                return Ok(None);
            }
            signalled = true;
        }
        thread::sleep(LOOK);
    }
    child.wait().map(Some).map_err(|error| failed(error.into()))
}

/// Passes a signal on to the command. A terminal sends Ctrl-C to the command as well; a hangup and SIGTERM may have
/// been for this process alone.
fn pass_on(child: &Child, signal: i32) {
    let signal = match signal {
        SIGTERM => Signal::TERM,
        SIGHUP => Signal::HUP,
        _ => return,
    };
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Refuses options that need more than procfs.
fn check_coarse(args: &Record, why: &str, mend: &str) -> Result<(), Failure> {
    // A procfs of another namespace has other threads by these numbers.
    let own = fs::read_link("/proc/self");
    if own.is_ok_and(|own| own != Path::new(&std::process::id().to_string())) {
        return Err(Failure::input(
            "/proc is of another PID namespace than this process; mount one of its own (unshare --mount-proc)",
        ));
    }
    let asked = [
        ("--calls", args.calls),
        ("--perfetto", args.perfetto.is_some()),
        ("recording without a command", args.command.is_empty()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((what, _)) => Err(Failure::input(format!("{what} takes BPF, and {why}: {mend}"))),
    }
}

/// The observer of the events.
enum Observer {
    Tracepoints(Recorder<File>),
    Procfs(Sampler<File>),
}

impl Observer {
    fn is_cut(&self) -> bool {
        match self {
            Observer::Tracepoints(recorder) => recorder.is_cut(),
            Observer::Procfs(sampler) => sampler.is_cut(),
        }
    }
}

fn begin(draft: &Draft, args: &Record, coarse: bool) -> Result<Observer, Failure> {
    let file = draft.writer().map_err(refused)?;
    let header = Header {
        cpus: live::topology().map_err(failed)?.llc.len(),
        command: args.command.join(" "),
        kernel: live::kernel_release(),
        scheduler: live::scheduler(),
        calls: args.calls,
        children: !args.command.is_empty(),
        ..Header::default()
    };
    match coarse {
        false => Recorder::start(file, header).map(Observer::Tracepoints),
        true => Sampler::start(file, header).map(Observer::Procfs),
    }
    .map_err(|error| match error.downcast::<WriteError>() {
        Ok(full) => unwritable(&args.output, &full),
        Err(error) => failed(error),
    })
}

fn start(command: &[String], json: bool) -> Result<Option<Child>, Failure> {
    let Some(program) = command.first() else { return Ok(None) };
    let mut child = Command::new(program);
    child.args(&command[1..]);
    if json {
        // Standard output is for the result.
        child.stdout(Stdio::from(std::io::stderr()));
    }
    child
        .spawn()
        .map(Some)
        .map_err(|error| Failure::input(format!("cannot start {program}: {error}")))
}

/// Why the recording is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The command has ended, and can be waited for.
    Ended,
    /// A signal came.
    Signal(i32),
    /// The time is over, or the disk is full.
    Enough,
}

fn wait(
    observer: &Observer,
    child: Option<&Child>,
    until: Option<Duration>,
    signals: &Signals,
) -> Result<Over, Failure> {
    let started = Instant::now();
    loop {
        if child.map(has_ended).transpose()? == Some(true) {
            return Ok(Over::Ended);
        }
        if let Some(signal) = signals.take() {
            return Ok(Over::Signal(signal));
        }
        if until.is_some_and(|until| started.elapsed() >= until) || observer.is_cut() {
            return Ok(Over::Enough);
        }
        let left = until.map_or(LOOK, |until| until.saturating_sub(started.elapsed()).min(LOOK));
        sleep_until_ended(child, left);
    }
}

/// Sleeps for this long, or until a child has ended: later events are not the command's.
fn sleep_until_ended(child: Option<&Child>, most: Duration) {
    let watched = child.map(|child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()));
    match (watched, Timespec::try_from(most)) {
        (Some(Ok(watched)), Ok(most)) => {
            // A signal ends it too: the caller checks everything.
            let _ = poll(&mut [PollFd::new(&watched, PollFlags::IN)], Some(&most));
        }
        // Kernels before 5.3 have no pidfd.
        _ => thread::sleep(most),
    }
}

/// Whether a child has ended; its CPU time stays readable until it is waited for.
fn has_ended(child: &Child) -> Result<bool, Failure> {
    let id = Pid::from_child(child);
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(id), how) {
        Ok(ended) => Ok(ended.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(failed(error.into())),
    }
}

fn tell(args: &Record, taken: &Taken) -> Result<(), Failure> {
    let Recorded { records, bytes, lost, cut, .. } = &taken.recorded;
    if !args.json {
        say(args, taken);
        return Ok(());
    }
    let all = json!({
        "file": args.output.to_string_lossy(), "records": records, "bytes": bytes,
        "lost": lost.all(), "not_called": lost.not_called,
        "s": taken.took.as_secs_f64(), "whole": cut.is_none(),
        "coarse": taken.coarse.is_some(), "unseen": taken.coarse.flatten(),
    });
    output::print(&format!("{all}\n"))
}

fn say(args: &Record, taken: &Taken) {
    let Recorded { records, bytes, lost, cut, .. } = &taken.recorded;
    let file = args.output.display();
    if let Some(error) = cut {
        output::say(&format!(
            "paceline: the recording ends early, as it could not be written: {error}; what {file} has is \
             sound, make room for more"
        ));
    }
    let (what, doubt) = match taken.coarse {
        Some(unseen) => ("records", coarse(unseen)),
        None => ("events", missing(*lost)),
    };
    output::say(&format!(
        "paceline: {file}: {} {what} in {}, {doubt}; {:.1} MB",
        count(*records as f64),
        time(taken.took.as_secs_f64()),
        *bytes as f64 / 1e6,
    ));
}

/// A note about events that a recording lacks.
fn missing(lost: Lost) -> String {
    let why = match lost {
        Lost { no_room: 0, not_called: 0 } => return "none lost".into(),
        Lost { not_called: 0, .. } => "the machine was too busy to take them away".into(),
        Lost { no_room: 0, .. } => {
            "the kernel was in the recorder already when they happened".into()
        }
        Lost { not_called, .. } => format!(
            "the machine was too busy to take them away, and of {} the kernel was in the recorder already",
            count(not_called as f64)
        ),
    };
    format!("{} LOST: {why}", count(lost.all() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleep that ignores the end would take an hour.
    #[test]
    fn a_command_that_ends_is_not_slept_through() {
        let mut child = Command::new("true").spawn().unwrap();
        while !has_ended(&child).unwrap() {
            sleep_until_ended(Some(&child), Duration::from_secs(3600));
        }
        assert!(child.wait().unwrap().success());
    }
}
