// SPDX-License-Identifier: GPL-2.0-only
//! Text of `perf script`, `trace-cmd report` or ftrace itself, or a trace of Perfetto's, as a recording.
//!
//! Two passes: the first (`survey.rs`) finds the CPUs, the threads that existed before, and contradictions
//! (`audit.rs`). The second (`write.rs`) writes, and omits CPU time that belongs to no task. Facts that such text lacks
//! are left out: the carriers of wakeups, and the CPUs that threads may use. Without a process column each thread is a
//! process of its own.

mod audit;
mod clock;
mod error;
mod fields;
mod line;
mod pace;
mod perfetto;
mod survey;
mod write;

use std::io::{BufRead, Read, Write};

pub use audit::Doubts;
pub use error::ImportError;
use line::{Line, parsed};
pub use perfetto::{Timeline, may_be as may_be_perfetto};
pub use survey::Survey;
use survey::Surveying;
pub use write::Found;
use write::Second;

/// A longer line is no event: no name or field is that long.
const LINE_MAX: u64 = 1 << 20;
/// The command that records the input of a good replay: switches, wakeups, forks, and which wakeups interrupts and
/// timers make.
pub const RECIPE: &str = "perf record -a -m 4M -e 'sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,\
    sched:sched_process_*' -e 'irq:*,timer:hrtimer_expire_*' -- ./job; perf script -F \
    comm,pid,tid,cpu,time,event,trace --show-lost-events --ns >job.txt";

/// First bytes of files that are not text, and why they are refused.
fn no_text(start: &[u8]) -> Option<ImportError> {
    let compressed = ImportError::Compressed;
    let known: [(&[u8], ImportError); 6] = [
        (b"PERFILE2", ImportError::PerfData),
        (b"\x17\x08\x44tracing", ImportError::TraceData),
        (b"\x28\xb5\x2f\xfd", compressed("zstd", "zstd -dc")),
        (b"\xfd7zXZ\0", compressed("xz", "xz -dc")),
        (b"BZh", compressed("bzip2", "bzip2 -dc")),
        (b"PK\x03\x04", compressed("zip", "unzip -p")),
    ];
    if start.is_empty() {
        return Some(ImportError::Empty);
    }
    let is_json = start.trim_ascii_start().starts_with(b"{")
        || start.trim_ascii_start().starts_with(b"[") && start.contains(&b'{');
    let by_magic = known.into_iter().find(|(magic, _)| start.starts_with(magic));
    by_magic.map(|(_, error)| error).or_else(|| is_json.then_some(ImportError::Json))
}

/// Reads the text once.
///
/// # Errors
/// It is in no known format, or cannot be read.
pub fn survey(mut text: impl BufRead) -> Result<Survey, ImportError> {
    if let Some(error) = no_text(text.fill_buf()?) {
        return Err(error);
    }
    let mut first = Surveying::default();
    each(text, |number, line| first.line(number, &line))?;
    first.end()
}

/// Reads the same text again, and writes it as a recording.
///
/// # Errors
/// As reading or writing fails.
pub fn import<W: Write>(
    text: impl BufRead,
    found: &Survey,
    command: &str,
    out: W,
) -> Result<Found<W>, ImportError> {
    let mut second = Second::begin(found, command, out)?;
    each(text, |_, line| line.event.map_or(Ok(()), |event| second.take(&event)))?;
    second.end()
}

/// Calls `take` with each line and its number, in memory that does not grow with the text.
fn each(
    mut text: impl BufRead,
    mut take: impl FnMut(u64, Line<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        let mut limited = (&mut text).take(LINE_MAX);
        let length = limited.read_until(b'\n', &mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        number += 1;
        if length as u64 == LINE_MAX && !bytes.ends_with(b"\n") {
            return Err(ImportError::LongLine(number));
        }
        take(number, parsed(&String::from_utf8_lossy(&bytes)))?;
    }
}
