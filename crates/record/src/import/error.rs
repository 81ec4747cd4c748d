// SPDX-License-Identifier: GPL-2.0-only
//! Why a trace cannot be imported.

use crate::WriteError;

/// CPUs that text may name.
pub(super) const CPUS_MAX: u32 = 4096;

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
        "it has no sched_waking and no sched_wakeup, so it is not known which task waited for which; record with `perf \
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
