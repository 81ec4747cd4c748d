// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a timeline for ui.perfetto.dev.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use record::{Kind, Left, Reader};
use trace::perfetto::{Perfetto, State};

use crate::failure::Failure;
use crate::import::same_file;
use crate::record::create;

/// Writes the timeline of the recording at `from`.
pub fn write(from: &Path, to: &Path) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", from.display()));
    let unwritable = |error: io::Error| {
        Failure::input(format!("cannot write {}: {error}; name another file", to.display()))
    };
    let file = File::open(from).map_err(|error| cannot(&error))?;
    if same_file(&file, to) {
        return Err(Failure::input(format!(
            "--perfetto {}: it is the recording itself, which is kept; name another file",
            to.display()
        )));
    }
    let mut reader =
        Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|e| cannot(&e))?;
    let cpus = reader.header().cpus;
    let mut timeline = Perfetto::new(BufWriter::new(create(to)?), cpus);
    while let Some(event) = reader.next_event().map_err(|error| cannot(&error))? {
        let (t_ns, cpu) = (event.t_ns, event.cpu);
        match event.kind {
            Kind::Task(info) => timeline.thread(info.tid, info.pid, &info.name),
            Kind::Switch { prev, next, left } => {
                let state = match left {
                    Left::Preempted => State::Runnable,
                    Left::Blocked => State::Asleep,
                    Left::Dead => State::Dead,
                };
                timeline.switch(t_ns, cpu, prev, state, next)
            }
            // Where it goes is not written down: to where it was, most often.
            Kind::Wake { tid, .. } => timeline.waking(t_ns, cpu, tid, cpu),
            Kind::Start { tid, target } => timeline.waking(t_ns, cpu, tid, target),
            _ => Ok(()),
        }
        .map_err(unwritable)?;
    }
    timeline.finish().map(drop).map_err(unwritable)
}
