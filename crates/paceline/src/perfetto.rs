// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a timeline for ui.perfetto.dev.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use record::{Kind, Left, Reader};
use report::{Draft, FileError};
use terminal::Failure;
use trace::perfetto::{Perfetto, State};

/// Writes the timeline of the recording at `from`.
pub fn write(from: &Path, to: &Path) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", from.display()));
    let refused = |error: FileError| Failure::input(format!("--perfetto: {error}"));
    let unwritable = |error: io::Error| {
        Failure::input(format!("--perfetto: cannot write {}: {error}", to.display()))
    };
    let file = File::open(from).map_err(|error| cannot(&error))?;
    let mut reader =
        Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|e| cannot(&e))?;
    let cpus = reader.header().cpus;
    let draft = Draft::new(to).map_err(refused)?;
    let mut timeline = Perfetto::new(BufWriter::new(draft.writer().map_err(refused)?), cpus);
    while let Some(event) = reader.next_event().map_err(|error| cannot(&error))? {
        let (t_ns, cpu) = (event.t_ns, event.cpu);
        match event.kind {
            Kind::Task(info) => timeline.thread(info.tid, info.pid, &info.name),
            Kind::Switch { prev, next, left } => {
                let state = match left {
                    Left::Preempted => State::Runnable,
                    Left::Blocked | Left::AtLock => State::Asleep,
                    Left::Dead => State::Dead,
                };
                timeline.switch(t_ns, cpu, prev, state, next)
            }
            // The target is not recorded; most often it is the task's last CPU.
            Kind::Wake { tid, .. } => timeline.waking(t_ns, cpu, tid, cpu),
            Kind::Start { tid, target } => timeline.waking(t_ns, cpu, tid, target),
            _ => Ok(()),
        }
        .map_err(unwritable)?;
    }
    timeline.finish().map(drop).map_err(unwritable)?;
    draft.keep().map_err(refused)
}
