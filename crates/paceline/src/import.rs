// SPDX-License-Identifier: GPL-2.0-only
//! `import`: what another tool has recorded, as a recording.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::path::Path;

use record::import::{ImportError, Timeline, import, may_be_perfetto, survey};
use report::Draft;
use report::text::{count, plural};
use serde_json::json;

use crate::cli::Import;
use crate::failure::Failure;
use crate::files::{refused, unwritable};
use crate::{export, interrupt, output, perfetto};

/// Longest trace of Perfetto's, which takes several times as much memory.
const PERFETTO_MAX: u64 = 512 << 20;

/// Reads the text twice, or a trace of Perfetto's once, and writes what it says.
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
    let timeline = perfettos(text)?.map(|bytes| Timeline::read(&bytes)).transpose();
    let timeline = timeline.map_err(cannot)?;
    let found = match &timeline {
        Some(timeline) => timeline.survey(),
        None => survey(open(text)?),
    };
    let found = found.map_err(cannot)?;
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
        let all = json!({
            "file": args.output.to_string_lossy(), "events": found.events, "records": records, "bytes": bytes,
            "lost": found.lost, "cpus": found.cpus, "interrupts": found.interrupts, "clock_jumps": found.jumps,
        });
        output::print(&format!("{all}\n"))?;
    }
    let lost = match found.lost {
        0 => "none lost, as far as it tells".to_string(),
        some => format!("{} LOST, as it tells", count(some as f64)),
    };
    let file = args.output.display();
    let events = count(found.events as f64);
    output::say(&format!(
        "paceline: {file}: {events} events of {}, {lost}; {:.1} MB; all of the machine is in it{}",
        plural(found.cpus as usize, "CPU"),
        bytes as f64 / 1e6,
        if timeline.is_some() { "" } else { ", and which threads share memory is not" },
    ));
    if found.jumps > 0 {
        output::say(&format!(
            "paceline: {file}: the text's clock jumps {}: what it jumps over is left out, and several captures in one \
             text are better imported one by one",
            plural(found.jumps as usize, "time")
        ));
    }
    if found.no_starts {
        output::say(&format!(
            "paceline: {file}: no sched_wakeup_new is in it, so each thread begins where it is first seen; record \
             that and sched_process_fork as well"
        ));
    }
    if !found.interrupts {
        output::say(&format!(
            "paceline: {file}: it was not recorded what happened in an interrupt, so a wakeup by a timer or \
             device is taken for one by who ran there; record irq:* and timer:hrtimer_expire_* as well"
        ));
    }
    Ok(())
}

/// All of a trace of Perfetto's; None: it is none.
fn perfettos(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let cannot = |why: std::io::Error| Failure::input(format!("{}: {why}", path.display()));
    let mut file = open(path)?;
    if !may_be_perfetto(file.fill_buf().map_err(cannot)?) {
        return Ok(None);
    }
    if file.get_ref().metadata().map_err(cannot)?.len() > PERFETTO_MAX {
        return Err(Failure::input(format!(
            "{}: a trace of Perfetto's is read whole, and this one has more than 512 MiB; record for a shorter time",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(cannot)?;
    Ok(Some(bytes))
}

/// It is read twice, which a pipe cannot be.
fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", path.display()));
    // A pipe is not even opened: that would wait for somebody to write to it.
    match path.metadata() {
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(cannot(&"it is no file; write the text to one first")),
        Err(error) => return Err(cannot(&error)),
    }
    let file = File::open(path).map_err(|error| cannot(&error))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}
