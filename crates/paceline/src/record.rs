// SPDX-License-Identifier: GPL-2.0-only
//! `record`: what the scheduler of this machine does while a command runs, or for a time, as a file.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::recorder::{Lost, Recorded, Recorder};
use live::sampler::Sampler;
use record::Header;
use report::text::{count, percent, time};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;

use crate::cli::Record;
use crate::failure::Failure;
use crate::here::{failed, interrupts};
use crate::output;
use crate::perfetto;
use crate::run::as_shell;

/// How often the command and the disk are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Records, and says what.
pub fn run(args: &Record) -> Result<(), Failure> {
    let taken = take(args)?;
    tell(args, &taken)?;
    if let Some(timeline) = &args.perfetto {
        perfetto::write(&args.output, timeline)?;
    }
    end(taken.status, taken.recorded.cut.is_some())
}

/// Records, and waits for the command; says what came of it on standard error alone. What the command, or a full disk,
/// has this end with, where there is something to be replayed all the same.
pub fn take_quietly(args: &Record) -> Result<Option<Failure>, Failure> {
    let taken = take(args)?;
    say(args, &taken);
    if let Some(status) = taken.status.filter(|status| !status.success()) {
        output::say(&format!(
            "paceline: {} ended with status {}: what it did until then is replayed",
            args.command[0],
            as_shell(status)
        ));
    }
    Ok(end(taken.status, taken.recorded.cut.is_some()).err())
}

/// A recording that was made.
struct Taken {
    recorded: Recorded<File>,
    took: Duration,
    status: Option<ExitStatus>,
    /// It is of procfs: which part of the command's CPU time it has not seen, where that is known.
    coarse: Option<Option<f64>>,
}

fn take(args: &Record) -> Result<Taken, Failure> {
    let until = args.duration.map(Duration::from);
    if until.is_some_and(|until| until.is_zero()) {
        return Err(Failure::input("--duration 0s: give it a time such as 10s"));
    }
    if args.command.is_empty() && until.is_none() {
        return Err(Failure::input(
            "nothing to record; name a command after --, or a time with --duration 10s",
        ));
    }
    if let Some(program) = args.command.first() {
        vm::which(program.as_ref()).map_err(Failure::input)?;
    }
    let missing = live::missing_rights();
    let coarse = !missing.is_empty();
    if coarse {
        let missing = missing.join(" and ");
        check_coarse(args, &missing)?;
        output::say(&format!(
            "paceline: this process lacks {missing}, so the recording is coarse: how long threads run and wait, \
             sampled from procfs, and not what they wait for; run it with sudo for all of it"
        ));
    }
    let stop = interrupts()?;
    let file = create(&args.output)?;
    let started = Instant::now();
    let observer = begin(file, args, coarse)?;
    let mut child = start(&args.command, args.json)?;
    let from_ns = live::monotonic_ns();
    let ended = wait(&observer, child.as_ref(), until, &stop)?;
    let command_ns = child.is_some().then(|| (from_ns, live::monotonic_ns()));
    let mut status = Ok(None);
    let mut reap = || status = child.as_mut().map(Child::wait).transpose();
    let (recorded, coarse) = match observer {
        Observer::Tracepoints(recorder) => (recorder.finish(command_ns).map_err(failed)?, None),
        Observer::Procfs(sampler) => {
            // What it was charged is known of who has been waited for.
            let charged = || {
                if ended {
                    reap()
                }
            };
            let (recorded, unseen) = sampler.finish(command_ns, charged).map_err(failed)?;
            (recorded, Some(unseen.filter(|_| ended)))
        }
    };
    let took = started.elapsed();
    // A second time says the same.
    reap();
    let status = status.map_err(|error| failed(error.into()))?;
    Ok(Taken { recorded, took, status, coarse })
}

/// What takes more than procfs tells.
fn check_coarse(args: &Record, missing: &str) -> Result<(), Failure> {
    let asked = [
        ("--calls", args.calls),
        ("--perfetto", args.perfetto.is_some()),
        ("recording without a command", args.command.is_empty()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((what, _)) => Err(Failure::input(format!(
            "{what} takes BPF, and this process lacks {missing}: run it with sudo"
        ))),
    }
}

/// Who sees what happens.
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

/// The file; what was there before is lost.
pub fn create(path: &Path) -> Result<File, Failure> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(unwritable(path, &"it is there and no file"));
    }
    File::create(path).map_err(|error| unwritable(path, &error))
}

/// No recording can be written there.
pub fn unwritable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("cannot write {}: {why}; name another with -o", path.display()))
}

fn begin(file: File, args: &Record, coarse: bool) -> Result<Observer, Failure> {
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
    .map_err(failed)
}

fn start(command: &[String], json: bool) -> Result<Option<Child>, Failure> {
    let Some(program) = command.first() else { return Ok(None) };
    let mut child = Command::new(program);
    child.args(&command[1..]);
    if json {
        // Standard output is the result's.
        child.stdout(Stdio::from(std::io::stderr()));
    }
    child
        .spawn()
        .map(Some)
        .map_err(|error| Failure::input(format!("cannot start {program}: {error}")))
}

/// Until the command has ended, and is there to be waited for, or the time is over, somebody interrupts, or the disk
/// is full. Whether it has ended.
fn wait(
    observer: &Observer,
    child: Option<&Child>,
    until: Option<Duration>,
    stop: &Arc<AtomicBool>,
) -> Result<bool, Failure> {
    let started = Instant::now();
    loop {
        if child.map(has_ended).transpose()? == Some(true) {
            return Ok(true);
        }
        let over = until.is_some_and(|until| started.elapsed() >= until);
        if over || observer.is_cut() || stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        thread::sleep(LOOK);
    }
}

/// Whether a child has; it keeps what it was charged for until it is waited for.
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
        "file": args.output, "records": records, "bytes": bytes,
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

/// What a reader has to know of events that a recording has not.
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

/// What a reader has to know of a recording of procfs.
pub fn coarse(unseen: Option<f64>) -> String {
    let unseen = unseen.map_or("an unknown part".to_string(), percent);
    format!(
        "coarse: sampled from procfs, wakeups not known; {unseen} of the CPU time is missing, of threads that ended \
         between two samples"
    )
}

/// The command's own status is passed on.
fn end(status: Option<ExitStatus>, cut: bool) -> Result<(), Failure> {
    match (status.map_or(0, as_shell), cut) {
        (0, false) => Ok(()),
        (0, true) => Err(Failure::Status(1)),
        (own, _) => Err(Failure::Status(own as u8)),
    }
}
