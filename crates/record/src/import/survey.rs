// SPDX-License-Identifier: GPL-2.0-only
//! The first pass over a trace: its CPUs, its threads, and its contradictions.

use std::collections::{BTreeMap, BTreeSet};

use trace::{IDLE, Tid};

use super::audit::{Audit, Doubts, Repair};
use super::clock::Clock;
use super::error::{CPUS_MAX, ImportError};
use super::fields::{Named, What};
use super::line::{Event, Line, Unread};
use super::pace::Pace;
use crate::{Class, TaskInfo};

/// The part of lines or events that may be unreadable, or go back in time, before a trace is refused.
const ODD_MAX: f64 = 0.01;
/// The part of CPU time that may belong to no task before a trace counts as partial.
const UNATTRIBUTED_MAX: f64 = 0.05;
/// Most CPUs with late events that are named, and most sources of events that are distinguished.
const NAMED_MAX: usize = 4;
/// Starts of the names that the kernel gives to its own threads. Text does not mark those threads.
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

/// Findings of the first pass.
#[derive(Debug, Default)]
pub struct Survey {
    /// Hardware threads with events: the highest number and those below it.
    pub cpus: usize,
    /// Events that a recording can hold.
    pub events: u64,
    /// Missing events: as many as the trace reports, or as the contradictions show, whichever is more.
    pub lost: u64,
    /// Missing events that the trace itself reports.
    pub told_lost: u64,
    /// The contradictions.
    pub doubts: Doubts,
    /// It has interrupts, or says of each event whether one was being served. Otherwise a wakeup by a timer or device
    /// counts as one by the thread that ran there, unless its pace shows a timer.
    pub interrupts: bool,
    /// Times that its clock jumped; the jumps are left out.
    pub jumps: u64,
    /// It has no event for the start of a thread (sched_wakeup_new): each new thread starts where it is first seen.
    pub no_starts: bool,
    /// It says which threads share a process.
    pub processes: bool,
    /// Threads of the real-time class.
    pub realtime: usize,
    /// Threads of the deadline class.
    pub deadline: usize,
    /// Threads that timers wake, from their pace, if nothing else shows that.
    pub timed: BTreeSet<Tid>,
    pub(super) last_ns: u64,
    /// It has events at the beginning of wakeups.
    pub(super) waking: bool,
    /// Threads that existed before.
    pub(super) there: Vec<TaskInfo>,
    /// Threads, except the kernel's, that are first seen as they get a CPU, if `no_starts`: they may not have existed
    /// before that.
    pub(super) late: BTreeSet<Tid>,
    /// Corrections of each CPU for the second pass.
    pub(super) repairs: Vec<Repair>,
    /// Facts about threads from other sources than events.
    threads: BTreeMap<Tid, Thread>,
    /// The priority that each thread had most often.
    prios: BTreeMap<Tid, i32>,
}

/// Facts about a thread beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    /// Its process.
    pub pid: Tid,
    pub kernel: bool,
}

impl Survey {
    pub(super) fn described(&self, named: &Named) -> TaskInfo {
        let by_name = KERNEL.iter().any(|start| named.name.starts_with(start));
        let unknown = Thread { pid: named.tid, kernel: by_name };
        let Thread { pid, kernel } = self.threads.get(&named.tid).copied().unwrap_or(unknown);
        let usual = self.prios.get(&named.tid).copied();
        // A lock's holder may borrow a real-time priority for a while, so the class is that of the most frequent
        // priority.
        let class = usual.or(named.prio).map_or(Class::Other, Class::of_prio);
        let ordinary = |prio: &i32| (100..140).contains(prio);
        let prio = named.prio.filter(ordinary).or(usual.filter(ordinary));
        let nice = prio.map_or(0, |prio| (prio - 120) as i8);
        TaskInfo {
            nice,
            class,
            kernel,
            name: named.name.to_string(),
            ..TaskInfo::new(named.tid, pid)
        }
    }

    /// From its first event to its last, in s.
    pub fn span_s(&self) -> f64 {
        self.last_ns as f64 / 1e9
    }

    /// Refuses a trace if too much of it cannot be attributed.
    ///
    /// # Errors
    /// More than 5 % of its CPU time belongs to no task.
    pub fn check_whole(&self) -> Result<(), ImportError> {
        let part = self.doubts.unattributed();
        if part <= UNATTRIBUTED_MAX {
            return Ok(());
        }
        Err(ImportError::Partial { percent: part * 100.0, why: self.doubts_in_words().join(", ") })
    }

    /// The contradictions, in words.
    pub fn doubts_in_words(&self) -> Vec<String> {
        let doubts = &self.doubts;
        let mut said = Vec::new();
        if self.told_lost > 0 {
            said.push(format!("the trace says that {} events are lost", self.told_lost));
        }
        let times = |count: u64| if count == 1 { "once".into() } else { format!("{count} times") };
        if doubts.gaps > 0 {
            said.push(format!(
                "{} a switch is missing (the task that leaves a CPU is not the one that had it)",
                times(doubts.gaps)
            ));
        }
        if doubts.unwoken > 0 {
            said.push(format!(
                "{} a task that had blocked runs, and nothing woke it",
                times(doubts.unwoken)
            ));
        }
        let late = doubts.late.iter().take(NAMED_MAX);
        said.extend(late.map(|(cpu, late_ns)| {
            let late = match *late_ns as f64 / 1e9 {
                s if s < 0.1 => format!("{:.0} ms", s * 1000.0),
                s => format!("{s:.1} s"),
            };
            format!("the events of CPU {cpu} begin {late} late")
        }));
        if doubts.late.len() > NAMED_MAX {
            said.push(format!("and those of {} CPUs more", doubts.late.len() - NAMED_MAX));
        }
        if doubts.backwards > 0 {
            let at = doubts.backwards_at.unwrap_or(0);
            said.push(format!(
                "time goes back on a CPU {}, first at {at}",
                times(doubts.backwards)
            ));
        }
        if doubts.unread > 0 {
            let at = doubts.unread_at.unwrap_or(0);
            said.push(format!("{} a line cannot be read, first line {at}", times(doubts.unread)));
        }
        said
    }
}

/// The first pass.
#[derive(Debug, Default)]
pub(super) struct Surveying {
    found: Survey,
    clock: Clock,
    audit: Audit,
    pace: Pace,
    /// Threads that are known to have begun.
    seen: BTreeSet<Tid>,
    /// How often each thread had each priority.
    prios: BTreeMap<Tid, BTreeMap<i32, u64>>,
    /// Sources of events, where several files were put together.
    sources: BTreeSet<String>,
    without_source: bool,
    lost: u64,
    forks: u64,
    starts: u64,
    switches: u64,
    wakeups: u64,
    events: u64,
    /// Lines that cannot be read: the first one without a CPU, without a time, with odd fields.
    no_cpu: Option<u64>,
    no_time: Option<u64>,
    odd: Option<u64>,
    /// Events of interrupts, and events with flags that tell the context.
    interrupts: u64,
    with_flags: u64,
}

impl Surveying {
    /// Begins with these facts about threads.
    pub fn new(threads: BTreeMap<Tid, Thread>) -> Self {
        let found = Survey { processes: !threads.is_empty(), threads, ..Survey::default() };
        Surveying { found, ..Surveying::default() }
    }

    /// Events that the trace says are missing.
    pub fn lost(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
    }

    /// A CPU's events are known from this time on, of the trace's own clock. None: from its next event on.
    pub fn begins(&mut self, cpu: u32, t_ns: Option<u64>) {
        if cpu < CPUS_MAX {
            // A CPU that begins before the trace's start is known from the start on.
            let t_ns = t_ns.map(|t_ns| self.clock.beside(t_ns).unwrap_or(0));
            self.audit.begins(cpu, t_ns);
        }
    }

    /// The next line of a text.
    pub fn line(&mut self, number: u64, line: &Line<'_>) -> Result<(), ImportError> {
        self.lost(line.lost);
        if let Some(cpu) = line.begins {
            self.begins(cpu, None);
        }
        if let Some(unread) = line.unread {
            let doubts = &mut self.audit.doubts;
            doubts.unread += 1;
            doubts.unread_at.get_or_insert(number);
            let first = match unread {
                Unread::NoCpu => &mut self.no_cpu,
                Unread::NoTime => &mut self.no_time,
                Unread::Fields => &mut self.odd,
            };
            first.get_or_insert(number);
        }
        line.event.as_ref().map_or(Ok(()), |event| self.take(number, event))
    }

    /// Takes in the next event, at this line or place.
    pub fn take(&mut self, number: u64, event: &Event<'_>) -> Result<(), ImportError> {
        self.events += 1;
        if event.cpu >= CPUS_MAX {
            return Err(ImportError::Cpus(number, event.cpu));
        }
        self.found.cpus = self.found.cpus.max(event.cpu as usize + 1);
        let before = self.clock.backwards;
        let t_ns = self.clock.at(event.t_ns, event.cpu);
        if self.clock.backwards > before {
            self.audit.doubts.backwards_at.get_or_insert(number);
        }
        self.audit.take(t_ns, event.cpu, &event.what);
        self.pace.take(t_ns, event.cpu, &event.what);
        self.columns(event);
        self.interrupts += u64::from(matches!(event.what, What::Interrupt { .. }));
        self.with_flags += u64::from(event.flags.is_some());
        let counts = !matches!(event.what, What::Interrupt { .. } | What::Other);
        self.found.events += u64::from(counts);
        match &event.what {
            What::Switch { prev, next, .. } => {
                self.switches += 1;
                if let Some(prev) = prev {
                    self.there(prev);
                }
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
            _ => {}
        }
        Ok(())
    }

    /// Takes in the columns before the event.
    fn columns(&mut self, event: &Event<'_>) {
        if let Some((tid, pid)) = event.process.filter(|(tid, pid)| *tid != IDLE && *pid != IDLE) {
            self.found.processes = true;
            let kernel = self.found.threads.get(&tid).is_some_and(|thread| thread.kernel);
            self.found.threads.insert(tid, Thread { pid, kernel });
        }
        match event.source {
            None => self.without_source = true,
            Some(source) if self.sources.len() <= NAMED_MAX => {
                if !self.sources.contains(source) {
                    self.sources.insert(source.to_string());
                }
            }
            Some(_) => {}
        }
    }

    /// Whether this thread is seen for the first time.
    fn there(&mut self, named: &Named) -> bool {
        if named.tid == IDLE {
            return false;
        }
        if let Some(prio) = named.prio {
            *self.prios.entry(named.tid).or_default().entry(prio).or_default() += 1;
        }
        let first = self.seen.insert(named.tid);
        if first {
            self.found.there.push(self.found.described(named));
        }
        first
    }

    /// The trace ends.
    pub fn end(self) -> Result<Survey, ImportError> {
        self.refuse()?;
        let Surveying { mut found, clock, mut audit, pace, forks, starts, .. } = self;
        (found.last_ns, found.jumps) = (clock.latest_ns, clock.jumps);
        found.no_starts = starts == 0 && (forks > 0 || !found.late.is_empty());
        match found.no_starts {
            true => found.there.retain(|info| !found.late.contains(&info.tid)),
            false => found.late.clear(),
        }
        audit.doubts.backwards = clock.backwards;
        (found.doubts, found.repairs) = audit.end(found.last_ns, self.lost);
        found.told_lost = self.lost;
        found.lost = self.lost.max(found.doubts.missing());
        found.interrupts = self.interrupts > 0 || self.with_flags > 0;
        if !found.interrupts {
            found.timed = pace.timed();
        }
        let usual = |prios: &BTreeMap<i32, u64>| {
            prios.iter().max_by_key(|(_, count)| **count).map(|(prio, _)| *prio)
        };
        found.prios = self.prios.iter().filter_map(|(tid, of)| Some((*tid, usual(of)?))).collect();
        let of_class = |is: fn(Class) -> bool| {
            found.prios.values().filter(|prio| is(Class::of_prio(**prio))).count()
        };
        found.realtime = of_class(|class| matches!(class, Class::Fifo(_)));
        found.deadline = of_class(|class| class == Class::Deadline);
        // Less was known of them when they were first seen.
        let described = |info: &TaskInfo| {
            let prio = found.prios.get(&info.tid).copied();
            found.described(&Named { name: &info.name, tid: info.tid, prio })
        };
        found.there = found.there.iter().map(described).collect();
        Ok(found)
    }

    /// Refuses a trace with too many contradictions.
    fn refuse(&self) -> Result<(), ImportError> {
        let doubts = &self.audit.doubts;
        if doubts.unread as f64 > ODD_MAX * (self.events + doubts.unread) as f64 {
            return Err(match (self.no_cpu, self.no_time) {
                (Some(line), None) => ImportError::NoCpu(line),
                (None, Some(line)) => ImportError::NoTime(line),
                (Some(cpu), Some(time)) if cpu < time => ImportError::NoCpu(cpu),
                (Some(_), Some(time)) => ImportError::NoTime(time),
                (None, None) => ImportError::Unreadable(self.odd.unwrap_or(0), doubts.unread),
            });
        }
        match (self.events, self.switches, self.wakeups) {
            (0, ..) => return Err(ImportError::Foreign),
            (_, 0, _) => return Err(ImportError::NoSwitches),
            (_, _, 0) => return Err(ImportError::NoWakeups),
            _ => {}
        }
        if self.sources.len() > 1 && !self.without_source {
            let named: Vec<&str> = self.sources.iter().map(String::as_str).collect();
            return Err(ImportError::Sources(named.join(", ")));
        }
        let backwards = self.clock.backwards;
        if backwards > 1 && backwards as f64 > ODD_MAX * self.events as f64 {
            let first = doubts.backwards_at.unwrap_or(0);
            return Err(ImportError::Backwards(first, backwards, self.events));
        }
        Ok(())
    }
}
