// SPDX-License-Identifier: GPL-2.0-only
//! Finds contradictions in a trace, and the CPU time that belongs to no task because of them.
//!
//! Problem: buffers overflow, files are cut and events are dropped, often without a word. If a switch is missing, its
//! thread would be charged for everything until its CPU is seen next.
//!
//! Approach: on each CPU the thread that leaves must be the one that came. If it is not, a switch is missing, and the
//! CPU's time since the last one belongs to no task. A thread that blocked and runs again must have been woken. A CPU's
//! first thread is charged from the CPU's first event on, as the time before is not known.

use std::collections::{BTreeMap, BTreeSet};

use trace::{IDLE, Tid};

use super::fields::{Named, What};
use crate::Left;

/// Clocks of CPUs may differ by this: a thread may seem to come to one before it left another.
const SKEW_NS: u64 = 1_000_000;

/// Recorders begin and end CPU by CPU, and perf also event by event. This long, or a hundredth of the trace if that is
/// longer, a CPU may be ahead of others in that.
const RAGGED_NS: u64 = 1_000_000;

/// Corrections of one CPU for the second pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Repair {
    /// The thread that has the CPU when its events begin, and that time.
    pub first: Option<(Tid, u64)>,
    /// Numbers of the CPU's switches, from 0, after which the next thread left without an event.
    pub broken: Vec<u64>,
    /// The number of the event behind which the CPU belongs to no task; None: its last thread has it until the end.
    pub ends_behind: Option<u64>,
}

/// The contradictions in a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doubts {
    /// Switches at which a thread left a CPU that another thread had, or at which a thread was on two CPUs at once.
    pub gaps: u64,
    /// Threads that blocked and ran again without a wakeup in between.
    pub unwoken: u64,
    /// Times at which a CPU's clock went back.
    pub backwards: u64,
    /// The line or event where one first did.
    pub backwards_at: Option<u64>,
    /// Lines that name a scheduling event and cannot be read.
    pub unread: u64,
    /// The first of these lines.
    pub unread_at: Option<u64>,
    /// Thread numbers that were used again after their thread had ended.
    pub reused: u64,
    /// CPUs with a late first event, and how late, ns.
    pub late: Vec<(u32, u64)>,
    /// CPU time that belongs to neither a task nor the idle task, ns.
    pub unattributed_ns: u64,
    /// All CPU time of the trace, ns.
    pub whole_ns: u64,
    /// Switches that could be checked.
    checked: u64,
}

impl Doubts {
    /// An estimate of the missing events, from the contradictions. If many are missing, some are missing in a row or
    /// beside each other, and show once or not at all. If a part p of the switches is missing, each gap stands for 1 /
    /// (1 - p) of them. A missing wakeup shows only if both switches around it are there.
    pub fn missing(&self) -> u64 {
        let p = self.gaps as f64 / self.checked.max(1) as f64;
        let there = (1.0 - p).max(0.5);
        (self.gaps as f64 / there + self.unwoken as f64 / (there * there)).round() as u64
    }

    /// The part of all CPU time that belongs to no task.
    pub fn unattributed(&self) -> f64 {
        self.unattributed_ns as f64 / (self.whole_ns as f64).max(1.0)
    }

    /// Whether there are no contradictions.
    pub fn none(&self) -> bool {
        self.missing() == 0 && self.backwards == 0 && self.unread == 0 && self.late.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    repair: Repair,
    /// Its current thread; None before its first switch.
    current: Option<Tid>,
    /// When the thread came, and the time of the CPU's last event.
    since_ns: u64,
    last_ns: u64,
    /// The time from which the CPU's events are known: its first event, if nothing else says so.
    begins_ns: Option<u64>,
    /// Older events have been overwritten.
    overwritten: bool,
    switches: u64,
    events: u64,
    /// When its current thread was seen to come to another CPU.
    elsewhere_ns: Option<u64>,
}

/// A thread's state, as far as events show it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Runs,
    /// It was woken while it ran: it may block next and need no other wakeup.
    RunsWoken,
    Ready,
    Blocked,
}

/// Follows the events of a trace, in order.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub doubts: Doubts,
    cpus: Vec<Cpu>,
    threads: BTreeMap<Tid, State>,
    /// CPUs that threads are believed to be on.
    places: BTreeMap<Tid, u32>,
    /// Numbers of ended threads.
    ended: BTreeSet<Tid>,
    /// When threads that had blocked ran again without a wakeup, and on which CPU.
    unwoken: Vec<(u64, u32)>,
}

impl Audit {
    /// The events of a CPU are known from this time on; None: from its next event on. Older ones have been overwritten
    /// if that is after the trace's start.
    pub fn begins(&mut self, cpu: u32, t_ns: Option<u64>) {
        let cpu = self.cpu(cpu);
        if cpu.switches == 0 {
            cpu.overwritten = t_ns != Some(0);
            cpu.begins_ns = t_ns;
        }
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let count = self.cpus.len().max(cpu as usize + 1);
        self.cpus.resize_with(count, Cpu::default);
        &mut self.cpus[cpu as usize]
    }

    /// Takes in an event on this CPU.
    pub fn take(&mut self, t_ns: u64, cpu: u32, what: &What<'_>) {
        let seen = self.cpu(cpu);
        seen.events += 1;
        seen.last_ns = t_ns;
        seen.begins_ns.get_or_insert(t_ns);
        match what {
            What::Switch { prev, next, left } => self.switch(t_ns, cpu, prev.as_ref(), next, *left),
            What::Waking(named) | What::Wakeup(named) => self.woken(named.tid),
            What::WakeupNew(named, _) => {
                self.begun(named.tid);
                self.threads.insert(named.tid, State::Ready);
            }
            What::Fork { child, .. } => self.begun(*child),
            _ => {}
        }
    }

    /// A thread begins, according to an event.
    fn begun(&mut self, tid: Tid) {
        self.seen(tid);
        self.threads.remove(&tid);
    }

    /// A thread is seen. If the last thread of its number has ended, it is a new one.
    fn seen(&mut self, tid: Tid) {
        if self.ended.remove(&tid) {
            self.doubts.reused += 1;
        }
    }

    fn woken(&mut self, tid: Tid) {
        self.seen(tid);
        let state = self.threads.entry(tid).or_insert(State::Ready);
        *state = match *state {
            State::Runs | State::RunsWoken => State::RunsWoken,
            State::Ready | State::Blocked => State::Ready,
        };
    }

    fn switch(&mut self, t_ns: u64, cpu: u32, prev: Option<&Named>, next: &Named, left: Left) {
        let prev_tid = prev.map(|prev| prev.tid);
        let seen = &mut self.cpus[cpu as usize];
        let elsewhere_ns = seen.elsewhere_ns.take();
        match (seen.current, prev_tid) {
            (None, prev) => self.first_switch(cpu, prev),
            (Some(tid), Some(prev)) if tid == prev => {
                self.doubts.checked += 1;
                // It was on another CPU in between, and no event shows how it came back.
                if elsewhere_ns.is_some_and(|since_ns| t_ns.saturating_sub(since_ns) > SKEW_NS) {
                    self.gap(t_ns, cpu);
                }
            }
            (Some(_), _) => {
                self.doubts.checked += 1;
                self.gap(t_ns, cpu);
            }
        }
        if let Some(prev) = prev_tid.filter(|prev| *prev != IDLE) {
            self.seen(prev);
            self.leaves(prev, cpu);
            match (left, self.threads.get(&prev)) {
                (Left::Dead, _) => {
                    self.threads.remove(&prev);
                    self.ended.insert(prev);
                }
                (Left::Preempted, _) | (_, Some(State::RunsWoken)) => {
                    self.threads.insert(prev, State::Ready);
                }
                (Left::Blocked | Left::AtLock, _) => {
                    self.threads.insert(prev, State::Blocked);
                }
            }
        }
        if next.tid != IDLE {
            self.seen(next.tid);
            if self.threads.insert(next.tid, State::Runs) == Some(State::Blocked) {
                self.unwoken.push((t_ns, cpu));
            }
            if let Some(other) = self.places.insert(next.tid, cpu).filter(|other| *other != cpu) {
                self.cpus[other as usize].elsewhere_ns = Some(t_ns);
            }
        }
        let seen = &mut self.cpus[cpu as usize];
        (seen.current, seen.since_ns) = (Some(next.tid), t_ns);
        seen.switches += 1;
    }

    /// A thread leaves this CPU, and is on no other.
    fn leaves(&mut self, tid: Tid, cpu: u32) {
        if self.places.get(&tid) == Some(&cpu) {
            self.places.remove(&tid);
        }
    }

    fn first_switch(&mut self, cpu: u32, prev: Option<Tid>) {
        let seen = &mut self.cpus[cpu as usize];
        let begins_ns = seen.begins_ns.unwrap_or(0);
        // An idle CPU has no events, and no task is charged for its time.
        let idle = prev.is_none_or(|prev| prev == IDLE);
        seen.repair.first = prev.filter(|prev| *prev != IDLE).map(|prev| (prev, begins_ns));
        if begins_ns > 0 && (!idle || seen.overwritten) {
            self.doubts.unattributed_ns += begins_ns;
            self.doubts.late.push((cpu, begins_ns));
        }
    }

    /// A switch is missing here, between the last one and now.
    fn gap(&mut self, t_ns: u64, cpu: u32) {
        self.doubts.gaps += 1;
        let seen = &mut self.cpus[cpu as usize];
        self.doubts.unattributed_ns += t_ns.saturating_sub(seen.since_ns);
        seen.repair.broken.push(seen.switches - 1);
        if let Some(tid) = seen.current {
            self.leaves(tid, cpu);
        }
    }

    /// Whether another CPU has no events before this time, or none after it, so that it may not have been recorded then.
    fn another_is_silent(&self, t_ns: u64, cpu: u32) -> bool {
        (0..).zip(&self.cpus).any(|(other, of)| {
            let begins_later = of.begins_ns.is_some_and(|begins_ns| begins_ns > t_ns);
            other != cpu && of.events > 0 && (begins_later || of.last_ns < t_ns)
        })
    }

    /// The trace ends. `lost`: events that the trace itself reports as missing.
    pub fn end(mut self, last_ns: u64, lost: u64) -> (Doubts, Vec<Repair>) {
        let ragged_ns = RAGGED_NS.max(last_ns / 100);
        self.doubts.late.retain(|(_, late_ns)| *late_ns > ragged_ns);
        self.doubts.unwoken = self
            .unwoken
            .iter()
            .filter(|(t_ns, cpu)| {
                let to_edge_ns = last_ns.saturating_sub(*t_ns).min(*t_ns);
                to_edge_ns > ragged_ns || !self.another_is_silent(*t_ns, *cpu)
            })
            .count() as u64;
        self.doubts.whole_ns = last_ns.saturating_mul(self.cpus.len() as u64);
        // If events are missing, the last switch of a CPU may be among them.
        let doubted = lost > 0 || self.doubts.gaps > 0;
        for cpu in &mut self.cpus {
            let busy = cpu.current.is_some_and(|tid| tid != IDLE);
            if busy && (doubted || cpu.elsewhere_ns.is_some()) {
                self.doubts.unattributed_ns += last_ns.saturating_sub(cpu.last_ns);
                cpu.repair.ends_behind = Some(cpu.events);
            }
        }
        (self.doubts, self.cpus.into_iter().map(|cpu| cpu.repair).collect())
    }
}
