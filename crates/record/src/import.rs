// SPDX-License-Identifier: GPL-2.0-only
//! Text of `perf script`, `trace-cmd report` or ftrace itself, or a trace of Perfetto's, as a recording.
//!
//! Two passes: the first finds the CPUs and the threads that were there before, which a recording begins
//! with; the second writes. What such text does not say is left out: what carried a wakeup, which threads
//! share an address space (each is a process of its own) and which CPUs they may use.

mod line;
mod perfetto;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read, Write};

use trace::{IDLE, Tid};

use crate::raw::task_group;
use crate::{
    Carrier, Ending, Event, Header, Kind, Left, Raw, Source, TaskInfo, WriteError, Writer,
};
use line::{Line, Named, What, parsed};
pub use perfetto::{Timeline, may_be as may_be_perfetto};

/// Records of a CPU that are written at a time.
const BATCH: usize = 4096;
/// A longer line is no event: no name or field is that long.
const LINE_MAX: u64 = 1 << 16;
/// CPUs that text may name.
const CPUS_MAX: u32 = 4096;
/// Starts of the names that the kernel gives to its own threads. Text does not say which those are.
const KERNEL: [&str; 15] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuo",
    "rcub/",
    "rcuc/",
    "cpuhp/",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "kthreadd",
    "khungtaskd",
    "idle_inject/",
    "irq/",
];

/// Why text is no recording.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ImportError {
    #[error("it is empty; record again")]
    Empty,
    #[error("it is perf's own data; run `perf script -i` on it and import what that prints")]
    PerfData,
    #[error("it is trace-cmd's own data; run `trace-cmd report` on it and import what that prints")]
    TraceData,
    #[error(
        "no line of it is a scheduling event; import what `perf script` prints after `perf sched record`, or \
         `trace-cmd report` after `trace-cmd record -e sched`"
    )]
    Foreign,
    #[error(
        "it has no sched_switch; record with `perf sched record`, or `trace-cmd record -e sched`"
    )]
    NoSwitches,
    #[error(
        "it has no sched_waking and no sched_wakeup, so nobody knows who waited for whom; record with `perf \
         sched record`, or `trace-cmd record -e sched`"
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

/// What the first pass has found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Hardware threads that events happened on: the highest number and those below it.
    pub cpus: usize,
    /// Events that a recording has a place for.
    pub events: u64,
    /// Events that the text says were lost.
    pub lost: u64,
    /// Interrupts are in it, or it says of each event whether one was being served. If not, a wakeup by a
    /// timer or device is taken for one by whoever ran there.
    pub interrupts: bool,
    /// Times that its clock jumped; what it jumped over is left out.
    pub jumps: u64,
    /// Threads may have begun in it, and nothing says when (sched_wakeup_new): each does where it is first seen.
    pub no_starts: bool,
    last_ns: u64,
    /// Wakeups are seen where they begin.
    waking: bool,
    /// Threads that were there before.
    there: Vec<TaskInfo>,
    /// Threads, but for the kernel's, that are first seen as they get a CPU, where `no_starts`: before that, they may not
    /// have been there.
    late: BTreeSet<Tid>,
    /// What is known of them beside what events say.
    threads: BTreeMap<Tid, Thread>,
}

/// What is known of a thread beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    /// Its process.
    pid: Tid,
    kernel: bool,
}

impl Survey {
    fn described(&self, named: &Named) -> TaskInfo {
        let nice = named.prio.filter(|prio| (100..140).contains(prio)).map_or(0, |prio| prio - 120);
        let by_name = KERNEL.iter().any(|start| named.name.starts_with(start));
        let unknown = Thread { pid: named.tid, kernel: by_name };
        let Thread { pid, kernel } = self.threads.get(&named.tid).copied().unwrap_or(unknown);
        let (nice, name) = (nice as i8, named.name.to_string());
        TaskInfo { nice, kernel, name, ..TaskInfo::new(named.tid, pid) }
    }
}

/// Goes through the text once.
///
/// # Errors
/// It is not what this reads, or cannot be read.
pub fn survey(mut text: impl BufRead) -> Result<Survey, ImportError> {
    match text.fill_buf()? {
        [] => return Err(ImportError::Empty),
        start if start.starts_with(b"PERFILE2") => return Err(ImportError::PerfData),
        start if start.starts_with(b"\x17\x08\x44tracing") => return Err(ImportError::TraceData),
        _ => {}
    }
    let mut first = Surveying::new(BTreeMap::new());
    each(text, |number, line| {
        first.found.lost = first.found.lost.saturating_add(line.lost);
        line.event.map_or(Ok(()), |event| first.take(number, &event))
    })?;
    first.end()
}

/// The first pass.
struct Surveying {
    found: Survey,
    clock: Clock,
    /// Threads that are known to have begun.
    seen: BTreeSet<Tid>,
    forks: u64,
    starts: u64,
    switches: u64,
    wakeups: u64,
    any: bool,
}

impl Surveying {
    fn new(threads: BTreeMap<Tid, Thread>) -> Self {
        let found = Survey { threads, ..Survey::default() };
        let (clock, seen) = Default::default();
        Surveying { found, clock, seen, forks: 0, starts: 0, switches: 0, wakeups: 0, any: false }
    }

    /// What happened next, at this line or place.
    fn take(&mut self, number: u64, event: &line::Event<'_>) -> Result<(), ImportError> {
        self.any = true;
        if event.cpu >= CPUS_MAX {
            return Err(ImportError::Cpus(number, event.cpu));
        }
        let found = &mut self.found;
        found.cpus = found.cpus.max(event.cpu as usize + 1);
        self.clock.at(event.t_ns);
        found.interrupts |= event.flags.is_some() || matches!(event.what, What::Interrupt { .. });
        found.events += u64::from(!matches!(event.what, What::Interrupt { .. } | What::Other));
        match &event.what {
            What::Switch { prev, next, .. } => {
                self.switches += 1;
                self.there(prev);
                let first = self.there(next) && self.clock.latest_ns > 0;
                if first && !self.found.described(next).kernel {
                    self.found.late.insert(next.tid);
                }
            }
            What::Waking(named) | What::Wakeup(named) => {
                self.wakeups += 1;
                self.found.waking |= matches!(event.what, What::Waking(_));
                self.there(named);
            }
            What::Fork { child, .. } => {
                self.forks += 1;
                self.seen.insert(*child);
            }
            What::WakeupNew(named, _) => {
                self.starts += 1;
                self.seen.insert(named.tid);
            }
            What::Exec { .. } | What::Exit { .. } | What::Interrupt { .. } | What::Other => {}
        }
        Ok(())
    }

    /// Whether this thread is seen for the first time.
    fn there(&mut self, named: &Named) -> bool {
        let first = named.tid != IDLE && self.seen.insert(named.tid);
        if first {
            self.found.there.push(self.found.described(named));
        }
        first
    }

    fn end(self) -> Result<Survey, ImportError> {
        let Surveying { mut found, clock, forks, starts, .. } = self;
        (found.last_ns, found.jumps) = (clock.latest_ns, clock.jumps);
        found.no_starts = starts == 0 && (forks > 0 || !found.late.is_empty());
        match found.no_starts {
            true => found.there.retain(|info| !found.late.contains(&info.tid)),
            false => found.late.clear(),
        }
        match (self.any, self.switches, self.wakeups) {
            (false, ..) => Err(ImportError::Foreign),
            (_, 0, _) => Err(ImportError::NoSwitches),
            (_, _, 0) => Err(ImportError::NoWakeups),
            _ => Ok(found),
        }
    }
}

/// How a recording is written to, and how many bytes and records it has.
pub type Found<W> = (W, u64, u64);

/// Goes through the same text again, and writes it as a recording.
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
    each(text, |_, line| {
        if let Some(cpu) = line.begins.and_then(|cpu| second.cpus.get_mut(cpu as usize)) {
            cpu.begins = true;
        }
        line.event.map_or(Ok(()), |event| second.take(&event))
    })?;
    second.end()
}

/// The text's clock, from its first event on.
#[derive(Debug, Default)]
struct Clock {
    /// What is to be taken from its times.
    base_ns: Option<i128>,
    latest_ns: u64,
    jumps: u64,
}

impl Clock {
    /// Events of several CPUs are out of order by no more than this.
    const BACK_NS: i128 = 1_000_000_000;
    /// Something happens on every machine more often than this.
    const FORTH_NS: i128 = 60_000_000_000;

    /// The time of an event since the first one. Where the clock jumps, to another capture in the same text say, it
    /// goes on from there: who has a CPU would have worked, and who sleeps slept, for all of that time.
    fn at(&mut self, t_ns: u64) -> u64 {
        let latest_ns = i128::from(self.latest_ns);
        let base_ns = self.base_ns.get_or_insert(t_ns.into());
        let mut at_ns = i128::from(t_ns) - *base_ns;
        if !(-Self::BACK_NS..=Self::FORTH_NS).contains(&(at_ns - latest_ns)) {
            *base_ns += at_ns - latest_ns;
            at_ns = latest_ns;
            self.jumps += 1;
        }
        let at_ns = u64::try_from(at_ns).unwrap_or(0);
        self.latest_ns = self.latest_ns.max(at_ns);
        at_ns
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
        if limited.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        number += 1;
        take(number, parsed(&String::from_utf8_lossy(&bytes)))?;
    }
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    current: Tid,
    in_interrupt: bool,
    in_softirq: bool,
    in_timer: bool,
    /// Who had it until now has been overwritten.
    begins: bool,
    records: Vec<Raw>,
}

struct Second<'a, W: Write> {
    found: &'a Survey,
    writer: Writer<W>,
    clock: Clock,
    cpus: Vec<Cpu>,
    waiting: usize,
    /// Threads whose start nothing has told yet.
    unborn: BTreeSet<Tid>,
    /// What threads were called last.
    names: BTreeMap<Tid, String>,
}

impl<'a, W: Write> Second<'a, W> {
    fn begin(found: &'a Survey, command: &str, out: W) -> Result<Self, ImportError> {
        let header = Header {
            cpus: found.cpus,
            command: command.to_string(),
            source: Source::Import,
            ..Header::default()
        };
        let mut writer = Writer::new(out, &header)?;
        let there: Vec<Raw> = found.there.iter().flat_map(|info| task_group(0, info)).collect();
        writer.records(0, &there)?;
        let cpus = vec![Cpu::default(); found.cpus];
        let names = found.there.iter().map(|info| (info.tid, info.name.clone())).collect();
        let (clock, unborn) = (Clock::default(), found.late.clone());
        Ok(Second { found, writer, clock, cpus, waiting: 0, unborn, names })
    }

    fn end(mut self) -> Result<Found<W>, ImportError> {
        let end_ns = self.found.last_ns;
        self.flush(end_ns)?;
        let ending = Ending { end_ns, lost: self.found.lost, ..Ending::default() };
        Ok(self.writer.finish(&ending)?)
    }

    fn take(&mut self, event: &line::Event<'_>) -> Result<(), ImportError> {
        let t_ns = self.clock.at(event.t_ns);
        let cpu = event.cpu;
        if cpu as usize >= self.cpus.len() {
            return Err(ImportError::Changed);
        }
        let at = |kind| Event { t_ns, cpu, kind };
        match &event.what {
            What::Switch { prev, next, left } => {
                [prev, next].into_iter().for_each(|named| self.born(t_ns, cpu, named));
                self.renamed(t_ns, cpu, prev);
                if std::mem::take(&mut self.cpus[cpu as usize].begins) {
                    // Who leaves got it at an unknown time: what it did there until now is not known.
                    let (next, left) = (prev.tid, Left::Preempted);
                    self.put(at(Kind::Switch { prev: IDLE, next, left }));
                }
                self.put(at(Kind::Switch { prev: prev.tid, next: next.tid, left: *left }));
                self.cpus[cpu as usize].current = next.tid;
            }
            What::Waking(named) => self.wake(t_ns, event, named),
            What::Wakeup(named) if !self.found.waking => self.wake(t_ns, event, named),
            What::WakeupNew(named, target) => {
                self.unborn.remove(&named.tid);
                self.describe(t_ns, cpu, &self.found.described(named));
                self.put(at(Kind::Start { tid: named.tid, target: *target }));
            }
            What::Fork { parent, child } => {
                self.unborn.insert(*child);
                self.put(at(Kind::Fork { parent: *parent, child: *child }))
            }
            What::Exec { tid, old } => self.put(at(Kind::Exec { tid: *tid, old: *old })),
            What::Exit { tid } => self.put(at(Kind::Exit { tid: *tid })),
            What::Interrupt { of, entered } => {
                let cpu = &mut self.cpus[cpu as usize];
                match of {
                    Carrier::Timer => cpu.in_timer = *entered,
                    Carrier::Softirq => cpu.in_softirq = *entered,
                    _ => cpu.in_interrupt = *entered,
                }
            }
            What::Wakeup(_) | What::Other => {}
        }
        if self.waiting >= BATCH * self.cpus.len() {
            self.flush(t_ns)?;
        }
        Ok(())
    }

    /// Who runs and wakes itself was about to sleep, and does not.
    fn wake(&mut self, t_ns: u64, event: &line::Event<'_>, named: &Named) {
        let tid = named.tid;
        self.born(t_ns, event.cpu, named);
        let cpu = &self.cpus[event.cpu as usize];
        if tid == cpu.current {
            return;
        }
        let by = match event.flags {
            _ if cpu.in_timer => Carrier::Timer,
            _ if cpu.in_interrupt => Carrier::Interrupt,
            _ if cpu.in_softirq => Carrier::Softirq,
            Some(by) => by,
            None if cpu.current == IDLE => Carrier::Interrupt,
            None => Carrier::Task,
        };
        self.put(Event { t_ns, cpu: event.cpu, kind: Kind::Wake { tid, by, object: 0 } });
    }

    /// A thread begins at the latest where it is first seen.
    fn born(&mut self, t_ns: u64, cpu: u32, named: &Named) {
        if !self.unborn.remove(&named.tid) {
            return;
        }
        let tid = named.tid;
        if self.found.late.contains(&tid) {
            // Nobody's child, as far as is known.
            self.put(Event { t_ns, cpu, kind: Kind::Fork { parent: IDLE, child: tid } });
        }
        self.names.insert(tid, named.name.to_string());
        self.describe(t_ns, cpu, &self.found.described(named));
        self.put(Event { t_ns, cpu, kind: Kind::Start { tid, target: cpu } });
    }

    /// A program that has begun meanwhile is seen by its name.
    fn renamed(&mut self, t_ns: u64, cpu: u32, named: &Named) {
        let before = self.names.get(&named.tid).map(String::as_str);
        if named.tid != IDLE && before != Some(named.name) {
            self.names.insert(named.tid, named.name.to_string());
            self.describe(t_ns, cpu, &self.found.described(named));
        }
    }

    fn describe(&mut self, t_ns: u64, cpu: u32, info: &TaskInfo) {
        self.cpus[cpu as usize].records.extend(task_group(t_ns, info));
        self.waiting += 3;
    }

    fn put(&mut self, event: Event) {
        let raw = Raw::of(&event);
        self.cpus[event.cpu as usize].records.extend(raw);
        self.waiting += 1;
    }

    fn flush(&mut self, t_ns: u64) -> Result<(), ImportError> {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            self.writer.records(number as u32, &cpu.records)?;
            cpu.records.clear();
        }
        self.waiting = 0;
        Ok(self.writer.time(t_ns)?)
    }
}

/// Why a task left its CPU, by the letters of its state.
fn left(state: &str) -> Left {
    match state.trim() {
        state if state.starts_with('R') => Left::Preempted,
        state if state.contains(['X', 'Z', 'x']) => Left::Dead,
        _ => Left::Blocked,
    }
}
