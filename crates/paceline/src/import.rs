// SPDX-License-Identifier: GPL-2.0-only
//! `import`: another tool's recording as a recording of ours.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use record::import::{ImportError, RECIPE, Survey, Timeline, import, may_be_perfetto, survey};
use report::Draft;
use report::text::{count, plural};
use serde_json::json;
use terminal::files::{refused, unwritable};
use terminal::{Failure, interrupt, output};

use crate::cli::Import;
use crate::{export, perfetto};

/// Longest trace of Perfetto's; reading it takes several times as much memory.
const PERFETTO_MAX: u64 = 512 << 20;

/// First bytes of gzip's files (RFC 1952).
const GZIP: &[u8] = b"\x1f\x8b";
const READ_AT_A_TIME: usize = 1 << 20;

/// Reads the text twice, or a trace of Perfetto's once, and writes it as a recording.
pub fn run(args: &Import) -> Result<(), Failure> {
    interrupt::ends()?;
    let text = &args.text;
    let timeline = args.perfetto.iter().map(|path| ("--perfetto", path.clone()));
    let written: Vec<_> = timeline.chain([("-o", args.output.clone())]).collect();
    export::check_files(&written, &[("the text itself", text.clone())])?;
    let cannot = |error: ImportError| match error {
        ImportError::Write(error) => unwritable(&args.output, &error),
        error => Failure::input(format!("{}: {error}", text.display())),
    };
    let timeline =
        perfettos(text)?.map(|bytes| Timeline::read(&bytes, args.machine_id)).transpose();
    let timeline = timeline.map_err(cannot)?;
    if let (None, Some(_)) = (&timeline, args.machine_id) {
        return Err(Failure::input(format!(
            "--machine-id is for a trace of Perfetto's, and {} is text, of one machine",
            text.display()
        )));
    }
    let found = match &timeline {
        Some(timeline) => timeline.survey(),
        None => survey(open(text)?),
    };
    let found = found.map_err(cannot)?;
    if !args.partial_trace {
        found.check_whole().map_err(cannot)?;
    }
    let name = text.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let from = open(text)?;
    let draft = Draft::new(&args.output).map_err(refused)?;
    let out = BufWriter::new(draft.writer().map_err(refused)?);
    let written = match &timeline {
        Some(timeline) => timeline.import(&found, &name, out),
        None => import(from, &found, &name, out),
    };
    let (_, bytes, records) = written.map_err(cannot)?;
    draft.keep().map_err(refused)?;
    if let Some(timeline) = &args.perfetto {
        perfetto::write(&args.output, timeline)?;
    }
    if args.json {
        let late =
            |(cpu, late_ns): &(u32, u64)| json!({"cpu": cpu, "late_s": *late_ns as f64 / 1e9});
        let doubts = &found.doubts;
        let all = json!({
            "file": args.output.to_string_lossy(), "events": found.events, "records": records, "bytes": bytes,
            "span_s": found.span_s(), "lost": found.lost, "cpus": found.cpus, "interrupts": found.interrupts, "clock_jumps": found.jumps,
            "processes": found.processes, "affinity": false,
            "missing_switches": doubts.gaps, "missing_wakeups": doubts.unwoken, "backwards": doubts.backwards,
            "unreadable_lines": doubts.unread, "numbers_used_again": doubts.reused,
            "late_cpus": doubts.late.iter().map(late).collect::<Vec<_>>(),
            "unattributed": doubts.unattributed(), "realtime_tasks": found.realtime,
            "deadline_tasks": found.deadline, "tasks_woken_by_timers_by_pace": found.timed.len(),
        });
        output::print(&format!("{all}\n"))?;
    }
    let lost = match found.lost {
        0 if found.doubts.none() => "none lost, as far as it tells".to_string(),
        0 => "it does not fit together (see below)".to_string(),
        some => format!("{} LOST", count(some as f64)),
    };
    let file = args.output.display();
    let events = count(found.events as f64);
    output::say(&format!(
        "paceline: {file}: {events} events of {}, {lost}; {:.1} MB; all of the machine is in it; not in it: {}",
        plural(found.cpus as usize, "CPU"),
        bytes as f64 / 1e6,
        match found.processes {
            true => "which CPUs tasks may use",
            false => "which CPUs tasks may use, and which threads share memory",
        },
    ));
    for line in remarks(&found) {
        output::say(&format!("paceline: {file}: {line}"));
    }
    Ok(())
}

/// Notes about a trace for the reader.
fn remarks(found: &Survey) -> Vec<String> {
    let mut lines = Vec::new();
    let doubts = found.doubts_in_words();
    if !doubts.is_empty() {
        lines.push(format!(
            "{}; {:.1} % of the CPU time is attributed to no task",
            doubts.join("; "),
            found.doubts.unattributed() * 100.0
        ));
    }
    if found.doubts.reused > 0 {
        lines.push(format!(
            "{} used again after the thread had ended: another thread each time",
            plural(found.doubts.reused as usize, "thread number")
        ));
    }
    if found.realtime > 0 {
        lines.push(format!(
            "{} of the real-time class, replayed as SCHED_FIFO: the trace does not tell it from SCHED_RR",
            plural(found.realtime, "task")
        ));
    }
    if found.deadline > 0 {
        lines.push(format!(
            "{} of the deadline class, which the simulator does not have: replayed as SCHED_FIFO of the highest priority",
            plural(found.deadline, "task")
        ));
    }
    if found.jumps > 0 {
        lines.push(format!(
            "its clock jumps {}: what it jumps over is left out; import several captures in one text one by one",
            plural(found.jumps as usize, "time")
        ));
    }
    if found.no_starts {
        lines.push(
            "no sched_wakeup_new is in it, so each thread begins where it is first seen; record that and \
             sched_process_fork as well"
                .to_string(),
        );
    }
    if !found.interrupts {
        let timed = match found.timed.len() {
            0 => String::new(),
            some => format!(
                "; {} woken at an even pace: taken for a timer's wakeups",
                plural(some, "task")
            ),
        };
        lines.push(format!(
            "it has no interrupts, so a wakeup by a timer or device is taken for one by the task that ran there\
             {timed}; to record them: {RECIPE}"
        ));
    }
    lines
}

/// The bytes of a trace of Perfetto's; None: the file is no such trace.
fn perfettos(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let cannot = |why: std::io::Error| Failure::input(format!("{}: {why}", path.display()));
    let mut from = open(path)?;
    if !may_be_perfetto(from.fill_buf().map_err(cannot)?) {
        return Ok(None);
    }
    let too_long = || {
        Failure::input(format!(
            "{}: a trace of Perfetto's is read whole, and this one has more than 512 MiB; record for a shorter time",
            path.display()
        ))
    };
    if path.metadata().map_err(cannot)?.len() > PERFETTO_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    from.take(PERFETTO_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() as u64 > PERFETTO_MAX {
        true => Err(too_long()),
        false => Ok(Some(bytes)),
    }
}

/// A file, unpacked if it is gzip's. It is read twice, so it cannot be a pipe.
fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", path.display()));
    // A pipe is not even opened: that would wait for a writer.
    match path.metadata() {
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(cannot(&"it is no file; write the text to one first")),
        Err(error) => return Err(cannot(&error)),
    }
    let file = File::open(path).map_err(|error| cannot(&error))?;
    let mut file = BufReader::with_capacity(READ_AT_A_TIME, file);
    let packed = file.fill_buf().map_err(|error| cannot(&error))?.starts_with(GZIP);
    Ok(match packed {
        true => Box::new(BufReader::with_capacity(READ_AT_A_TIME, MultiGzDecoder::new(file))),
        false => Box::new(file),
    })
}
