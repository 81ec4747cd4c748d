// SPDX-License-Identifier: GPL-2.0-only
//! `record`: what the scheduler of this machine does while a command runs, or for a time, as a file.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::recorder::{Recorded, Recorder};
use record::Header;
use report::text::{count, time};
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
    let (recorded, took, status) = take(args)?;
    tell(args, &recorded, took)?;
    if let Some(timeline) = &args.perfetto {
        perfetto::write(&args.output, timeline)?;
    }
    end(status, recorded.cut.is_some())
}

/// Records, and waits for the command; says what came of it on standard error alone.
pub fn take_quietly(args: &Record) -> Result<(), Failure> {
    let (recorded, took, status) = take(args)?;
    say(args, &recorded, took);
    end(status, recorded.cut.is_some())
}

type Taken = (Recorded<File>, Duration, Option<ExitStatus>);

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
    if !missing.is_empty() {
        return Err(Failure::input(format!(
            "recording takes BPF, and this process lacks {}: run it with sudo",
            missing.join(" and ")
        )));
    }
    let stop = interrupts()?;
    let file = create(&args.output)?;
    let started = Instant::now();
    let recorder = begin(file, args)?;
    let mut child = start(&args.command, args.json)?;
    let from_ns = live::monotonic_ns();
    let status = wait(&recorder, child.as_mut(), until, &stop)?;
    let command_ns = child.is_some().then(|| (from_ns, live::monotonic_ns()));
    let recorded = recorder.finish(command_ns).map_err(failed)?;
    let took = started.elapsed();
    let status = match (status, child) {
        (None, Some(mut child)) => Some(child.wait().map_err(|error| failed(error.into()))?),
        (status, _) => status,
    };
    Ok((recorded, took, status))
}

/// The file; what was there before is lost.
pub fn create(path: &Path) -> Result<File, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::input(format!("cannot write {}: {why}; name another with -o", path.display()))
    };
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(cannot(&"it is there and no file"));
    }
    File::create(path).map_err(|error| cannot(&error))
}

fn begin(file: File, args: &Record) -> Result<Recorder<File>, Failure> {
    let header = Header {
        cpus: live::topology().map_err(failed)?.llc.len(),
        command: args.command.join(" "),
        kernel: live::kernel_release(),
        calls: args.calls,
        children: !args.command.is_empty(),
        ..Header::default()
    };
    Recorder::start(file, header).map_err(failed)
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

/// Until the command has ended, with its status; or the time is over, somebody interrupts, or the disk
/// is full.
fn wait(
    recorder: &Recorder<File>,
    mut child: Option<&mut Child>,
    until: Option<Duration>,
    stop: &Arc<AtomicBool>,
) -> Result<Option<ExitStatus>, Failure> {
    let started = Instant::now();
    loop {
        let ended = child.as_mut().map(|child| child.try_wait()).transpose();
        if let Some(status) = ended.map_err(|error| failed(error.into()))?.flatten() {
            return Ok(Some(status));
        }
        let over = until.is_some_and(|until| started.elapsed() >= until);
        if over || recorder.is_cut() || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

fn tell(args: &Record, recorded: &Recorded<File>, took: Duration) -> Result<(), Failure> {
    let Recorded { records, bytes, lost, cut, .. } = recorded;
    if !args.json {
        say(args, recorded, took);
        return Ok(());
    }
    let all = json!({
        "file": args.output, "records": records, "bytes": bytes, "lost": lost,
        "s": took.as_secs_f64(), "whole": cut.is_none(),
    });
    output::print(&format!("{all}\n"))
}

fn say(args: &Record, recorded: &Recorded<File>, took: Duration) {
    let Recorded { records, bytes, lost, cut, .. } = recorded;
    let file = args.output.display();
    if let Some(error) = cut {
        output::say(&format!(
            "paceline: the recording ends early, as it could not be written: {error}; what {file} has is \
             sound, make room for more"
        ));
    }
    let lost = match lost {
        0 => "none lost".to_string(),
        some => format!("{} LOST: the machine was too busy to keep up", count(*some as f64)),
    };
    output::say(&format!(
        "paceline: {file}: {} events in {}, {lost}; {:.1} MB",
        count(*records as f64),
        time(took.as_secs_f64()),
        *bytes as f64 / 1e6,
    ));
}

/// The command's own status is passed on.
fn end(status: Option<ExitStatus>, cut: bool) -> Result<(), Failure> {
    match (status.map_or(0, as_shell), cut) {
        (0, false) => Ok(()),
        (0, true) => Err(Failure::Status(1)),
        (own, _) => Err(Failure::Status(own as u8)),
    }
}
