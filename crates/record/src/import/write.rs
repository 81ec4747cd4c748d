// SPDX-License-Identifier: GPL-2.0-only
//! The second pass over a trace: it writes the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use trace::{IDLE, Tid};

use super::audit::Repair;
use super::clock::Clock;
use super::error::ImportError;
use super::fields::{Named, What};
use super::line::Event as Seen;
use super::survey::Survey;
use crate::raw::task_group;
use crate::{Carrier, Ending, Event, Header, Kind, Left, Raw, Source, TaskInfo, Writer};

/// Records of a CPU that are written at a time.
const BATCH: usize = 4096;

/// The output of a recording, and its numbers of bytes and records.
pub type Found<W> = (W, u64, u64);

#[derive(Clone, Debug, Default)]
struct Cpu {
    current: Tid,
    in_interrupt: bool,
    in_softirq: bool,
    in_timer: bool,
    events: u64,
    switches: u64,
    /// How many entries of `broken` are done with.
    broken: usize,
    records: Vec<Raw>,
}

/// The second pass.
pub(super) struct Second<'a, W: Write> {
    found: &'a Survey,
    writer: Writer<W>,
    clock: Clock,
    cpus: Vec<Cpu>,
    waiting: usize,
    /// When CPUs' events begin, and the thread of each at that time: the last one first.
    beginnings: Vec<(u64, u32, Tid)>,
    /// Threads that have no start record yet.
    unborn: BTreeSet<Tid>,
    /// Those of these threads that no fork mentions.
    orphans: BTreeSet<Tid>,
    /// The last name of each thread.
    names: BTreeMap<Tid, String>,
}

impl<'a, W: Write> Second<'a, W> {
    pub fn begin(found: &'a Survey, command: &str, out: W) -> Result<Self, ImportError> {
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
        let orphans = unborn.clone();
        let first = |(cpu, repair): (usize, &Repair)| {
            let (tid, from_ns) = repair.first?;
            Some((from_ns, cpu as u32, tid))
        };
        let mut beginnings: Vec<_> = found.repairs.iter().enumerate().filter_map(first).collect();
        beginnings.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Second { found, writer, clock, cpus, waiting: 0, beginnings, unborn, orphans, names })
    }

    pub fn end(mut self) -> Result<Found<W>, ImportError> {
        let end_ns = self.found.last_ns;
        self.flush(end_ns)?;
        let ending = Ending { end_ns, lost: self.found.lost, ..Ending::default() };
        Ok(self.writer.finish(&ending)?)
    }

    /// Takes in the next event.
    pub fn take(&mut self, event: &Seen<'_>) -> Result<(), ImportError> {
        let cpu = event.cpu;
        if cpu as usize >= self.cpus.len() {
            return Err(ImportError::Changed);
        }
        let t_ns = self.clock.at(event.t_ns, cpu);
        self.first(t_ns);
        self.cpus[cpu as usize].events += 1;
        let at = |kind| Event { t_ns, cpu, kind };
        match &event.what {
            What::Switch { prev, next, left } => self.switch(t_ns, cpu, prev.as_ref(), next, *left),
            What::Waking(named) => self.wake(t_ns, event, named),
            What::Wakeup(named) if !self.found.waking => self.wake(t_ns, event, named),
            What::WakeupNew(named, target) => {
                self.unborn.remove(&named.tid);
                self.orphans.remove(&named.tid);
                self.describe(t_ns, cpu, &self.found.described(named));
                self.put(at(Kind::Start { tid: named.tid, target: *target }));
            }
            What::Fork { parent, child } => {
                self.unborn.insert(*child);
                self.orphans.remove(child);
                self.put(at(Kind::Fork { parent: *parent, child: *child }));
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
            What::Wakeup(_) | What::Other | What::Unreadable => {}
        }
        self.last(t_ns, cpu);
        if self.waiting >= BATCH * self.cpus.len() {
            self.flush(t_ns)?;
        }
        Ok(())
    }

    fn repair(&self, cpu: u32) -> Option<&'a Repair> {
        self.found.repairs.get(cpu as usize)
    }

    /// Gives each CPU its first thread when its events begin: that thread's earlier acts are not known.
    fn first(&mut self, t_ns: u64) {
        while let Some((from_ns, cpu, tid)) =
            self.beginnings.pop_if(|(from_ns, ..)| *from_ns <= t_ns)
        {
            self.has(from_ns, cpu, IDLE, tid, Left::Preempted);
        }
    }

    /// Takes a CPU from its last thread behind its last event, if it belongs to no task from there on.
    fn last(&mut self, t_ns: u64, cpu: u32) {
        let Cpu { events, current, .. } = self.cpus[cpu as usize];
        if self.repair(cpu).and_then(|repair| repair.ends_behind) == Some(events) && current != IDLE
        {
            self.has(t_ns, cpu, current, IDLE, Left::Preempted);
        }
    }

    fn has(&mut self, t_ns: u64, cpu: u32, prev: Tid, next: Tid, left: Left) {
        self.put(Event { t_ns, cpu, kind: Kind::Switch { prev, next, left } });
        self.cpus[cpu as usize].current = next;
    }

    fn switch(&mut self, t_ns: u64, cpu: u32, prev: Option<&Named>, next: &Named, left: Left) {
        for named in prev.into_iter().chain([next]) {
            self.born(t_ns, cpu, named);
        }
        if let Some(prev) = prev {
            self.renamed(t_ns, cpu, prev);
        }
        let current = self.cpus[cpu as usize].current;
        let prev_tid = prev.map_or(current, |prev| prev.tid);
        if prev_tid != current {
            // A switch is missing: the thread that leaves got the CPU at an unknown time.
            self.has(t_ns, cpu, current, prev_tid, Left::Preempted);
        }
        self.has(t_ns, cpu, prev_tid, next.tid, left);
        if left == Left::Dead && prev_tid != IDLE {
            // The next thread with this number is another one.
            self.unborn.insert(prev_tid);
            self.orphans.insert(prev_tid);
        }
        let number = self.cpus[cpu as usize].switches;
        self.cpus[cpu as usize].switches += 1;
        let broken = self.repair(cpu).map_or(&[][..], |repair| &repair.broken);
        let seen = &mut self.cpus[cpu as usize];
        if broken.get(seen.broken) == Some(&number) {
            // It is not known when the next thread left: the CPU belongs to no task from here on.
            seen.broken += 1;
            if next.tid != IDLE {
                self.has(t_ns, cpu, next.tid, IDLE, Left::Preempted);
            }
        }
    }

    /// A running thread that wakes itself was about to sleep, and does not.
    fn wake(&mut self, t_ns: u64, event: &Seen<'_>, named: &Named) {
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
            None if self.found.timed.contains(&tid) => Carrier::Timer,
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
        if self.orphans.remove(&tid) {
            // Its parent is not known.
            self.put(Event { t_ns, cpu, kind: Kind::Fork { parent: IDLE, child: tid } });
        }
        self.names.insert(tid, named.name.to_string());
        self.describe(t_ns, cpu, &self.found.described(named));
        self.put(Event { t_ns, cpu, kind: Kind::Start { tid, target: cpu } });
    }

    /// A new name shows that the thread runs another program.
    fn renamed(&mut self, t_ns: u64, cpu: u32, named: &Named) {
        let before = self.names.get(&named.tid).map(String::as_str);
        if named.tid != IDLE && before != Some(named.name) {
            self.names.insert(named.tid, named.name.to_string());
            self.describe(t_ns, cpu, &self.found.described(named));
        }
    }

    fn describe(&mut self, t_ns: u64, cpu: u32, info: &TaskInfo) {
        let group = task_group(t_ns, info);
        self.cpus[cpu as usize].records.extend(group);
        self.waiting += group.len();
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
