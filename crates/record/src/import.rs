// SPDX-License-Identifier: GPL-2.0-only
//! Text of `perf script`, `trace-cmd report` or ftrace itself, or a trace of Perfetto's, as a recording.
//!
//! Two passes: the first (`survey.rs`) finds the CPUs, the threads that existed before, and contradictions
//! (`audit.rs`). The second (`write.rs`) writes, and omits CPU time that belongs to no task. Facts that such text lacks
//! are left out: the carriers of wakeups, and the CPUs that threads may use. Without a process column each thread is a
//! process of its own.

mod audit;
mod fields;
mod line;
mod pace;
mod perfetto;
mod survey;
mod write;

use std::io::{BufRead, Read, Write};

use crate::WriteError;
pub use audit::Doubts;
use line::{Line, parsed};
pub use perfetto::{Timeline, may_be as may_be_perfetto};
pub use survey::Survey;
use survey::Surveying;
pub use write::Found;
use write::Second;

/// A longer line is no event: no name or field is that long.
const LINE_MAX: u64 = 1 << 20;
/// CPUs that text may name.
const CPUS_MAX: u32 = 4096;
/// The command that records the input of a good replay: switches, wakeups, forks, and which wakeups interrupts and
/// timers make.
pub const RECIPE: &str = "perf record -a -m 4M -e 'sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,\
    sched:sched_process_*' -e 'irq:*,timer:hrtimer_expire_*' -- ./job; perf script -F \
    comm,pid,tid,cpu,time,event,trace --show-lost-events --ns >job.txt";

/// Why a text cannot be imported.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ImportError {
    #[error("it is empty; record again")]
    Empty,
    #[error("it is perf's own data; run `perf script -i` on it and import what that prints")]
    PerfData,
    #[error("it is trace-cmd's own data; run `trace-cmd report` on it and import what that prints")]
    TraceData,
    #[error("it is compressed by {0}; run `{1}` on it and import what that prints")]
    Compressed(&'static str, &'static str),
    #[error(
        "it is JSON of a trace viewer; if it holds ftrace's text, take that out with `python3 -c \
         'import json,sys; print(json.load(sys.stdin)[\"systemTraceEvents\"])' <FILE >text.txt` and import text.txt"
    )]
    Json,
    #[error(
        "no line of it is a scheduling event; import what `perf script` prints after `perf record -a -e sched:*`, or \
         `trace-cmd report` after `trace-cmd record -e sched`"
    )]
    Foreign,
    #[error(
        "line {0} names no CPU; print that column too: perf script -F comm,pid,tid,cpu,time,event,trace"
    )]
    NoCpu(u64),
    #[error(
        "line {0} has no time; print that column too: perf script -F comm,pid,tid,cpu,time,event,trace"
    )]
    NoTime(u64),
    #[error(
        "line {0} has a scheduling event whose fields cannot be read, as have {1} lines in all; print it in another \
         form: `perf script`, or `trace-cmd report` without options"
    )]
    Unreadable(u64, u64),
    #[error("line {0} is longer than a megabyte; import text with one event on each line")]
    LongLine(u64),
    #[error(
        "its time goes back on a CPU at {1} of {2} events, first at {0}; print absolute times: `perf script` without \
         --deltatime"
    )]
    Backwards(u64, u64, u64),
    #[error(
        "{percent:.0} % of its CPU time cannot be attributed to any task, and 5 % is the most: {why}; record again with \
         larger buffers (perf record -m 16M, trace-cmd record -b 65536) and on all CPUs (-a), or import what is there \
         with --partial-trace"
    )]
    Partial { percent: f64, why: String },
    #[error("it is a trace of several machines ({0}); name one with --machine-id")]
    Machines(String),
    #[error("it has no machine {0}, but {1}")]
    NoMachine(u32, String),
    #[error(
        "it has the events of several files or machines ({0}); run `trace-cmd report` on each file by itself and import \
         one of them"
    )]
    Sources(String),
    #[error(
        "it has no sched_switch; record with `perf record -a -e sched:*`, or `trace-cmd record -e sched`"
    )]
    NoSwitches,
    #[error(
        "it has no sched_waking and no sched_wakeup, so nobody knows which task waited for which; record with `perf \
         record -a -e sched:*`, or `trace-cmd record -e sched`"
    )]
    NoWakeups,
    #[error("it has changed while it was read; import it when it is whole")]
    Changed,
    #[error("line {0} names CPU {1}, and there may be {CPUS_MAX}")]
    Cpus(u64, u32),
    #[error("{0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Write(#[from] WriteError),
}

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

/// A trace's clock, from its first event on.
#[derive(Debug, Default)]
struct Clock {
    /// Subtracted from its times.
    base_ns: Option<i128>,
    latest_ns: u64,
    /// The latest time of each CPU.
    of_cpus: Vec<u64>,
    jumps: u64,
    /// Times that went back on a CPU.
    backwards: u64,
}

impl Clock {
    /// Events of several CPUs are out of order by no more than this.
    const BACK_NS: i128 = 1_000_000_000;
    /// Every machine has events more often than this.
    const FORTH_NS: i128 = 60_000_000_000;

    /// The time of an event since the first one. If the clock jumps, as to another capture in the same text, it
    /// continues from the last time. Otherwise a running task would have worked, and a sleeping one slept, for all of
    /// the jump. If a CPU's time goes back a little, its clock stands still.
    fn at(&mut self, t_ns: u64, cpu: u32) -> u64 {
        let latest_ns = i128::from(self.latest_ns);
        let base_ns = self.base_ns.get_or_insert(t_ns.into());
        let mut at_ns = i128::from(t_ns) - *base_ns;
        if !(-Self::BACK_NS..=Self::FORTH_NS).contains(&(at_ns - latest_ns)) {
            *base_ns += at_ns - latest_ns;
            at_ns = latest_ns;
            self.jumps += 1;
        }
        let at_ns = u64::try_from(at_ns).unwrap_or(0);
        let count = self.of_cpus.len().max(cpu as usize + 1);
        self.of_cpus.resize(count, 0);
        let of_cpu_ns = &mut self.of_cpus[cpu as usize];
        self.backwards += u64::from(at_ns < *of_cpu_ns);
        *of_cpu_ns = at_ns.max(*of_cpu_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
        *of_cpu_ns
    }

    /// A time that is no event's, if it is not before the first event.
    fn beside(&self, t_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(t_ns) - self.base_ns?).ok()
    }
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
