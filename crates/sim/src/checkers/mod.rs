// SPDX-License-Identifier: GPL-2.0-only
//! Checkers: properties that every run must have, watched from outside the scheduler.
//!
//! Each has a file of its own with a test that plants a fault and sees it caught. Time and affinity are checked in
//! every run. The declarations of a policy's variant ([`Promises`]) are checked if [`crate::Options::check`] asks for
//! it.

mod above;
mod affinity;
mod idle_wait;
mod lockless;
mod preemption;
mod time;
mod wait_bound;
mod work_conservation;

use machine::Machine;
use policy::Promises;
use trace::{Event, Tid};
use workload::{Fair, Workload};

use crate::kernel::tid;

pub(crate) use lockless::check as check_locks;
pub(crate) use time::check as check_time;

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// When it was first seen.
    pub t_ns: u64,
    /// The violation in words.
    pub what: String,
}

/// Facts for a checker beyond the events of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The CPU took its tick, or schedules because of one.
    Tick,
    /// The CPU saw that its task's slice is used up, at a tick or a call to schedule. That may be long after its end.
    SliceOver,
    /// The task yielded.
    Yield(Tid),
    /// The task is real-time: of the class above, which no policy's promise covers. Sent before it first runs.
    RealTime(Tid),
    /// The task's properties or its CPU were changed from outside: no promise covers that.
    Disturbed,
    /// The CPU goes offline.
    Offline,
    /// The CPU goes online again.
    Online,
}

/// Watches a run.
pub(crate) trait Checker {
    /// Its name.
    fn name(&self) -> &'static str;
    /// An event, in the order of time.
    fn event(&mut self, event: &Event) -> Result<(), String>;
    /// A hint, in the same order.
    fn hint(&mut self, _t_ns: u64, _cpu: u32, _hint: Hint) {}
    /// Whether it uses hints.
    fn hears_hints(&self) -> bool {
        true
    }
    /// The end.
    fn finish(&mut self, _t_ns: u64) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers of a run.
#[derive(Default)]
pub(crate) struct Checkers {
    checkers: Vec<Box<dyn Checker>>,
    pub violations: Vec<Violation>,
}

impl Checkers {
    /// The checkers of every run.
    pub fn always(machine: &Machine) -> Self {
        let mut checkers = Checkers::default();
        checkers.add(affinity::Affinity::new(machine.cpus.len()));
        checkers
    }

    /// The checkers of a policy's promises.
    pub fn promised(&mut self, promises: &Promises, machine: &Machine, workload: &Workload) {
        if let Some(idle_ns) = promises.idle_while_runnable_ns_max {
            self.add(work_conservation::WorkConservation::new(machine, idle_ns));
        }
        if let Some(slice_ns) = promises.slice_ns_max {
            self.add(wait_bound::WaitBound::new(machine, slice_ns, promises.lockless));
        }
        if let Some(wait_ns) = promises.sched_idle_wait_ns_max {
            let tasks = workload.tasks.iter().enumerate();
            let idle = tasks.filter(|(_, task)| task.fair == Fair::Idle);
            self.add(idle_wait::IdleWait::new(idle.map(|(at, _)| tid(at)).collect(), wait_ns));
        }
        if promises.never_preempts {
            self.add(preemption::Preemption::new(machine));
        }
    }

    fn add(&mut self, checker: impl Checker + 'static) {
        self.checkers.push(Box::new(checker));
    }

    pub fn event(&mut self, event: &Event) {
        self.ask(event.t_ns, |checker| checker.event(event));
    }

    pub fn hint(&mut self, t_ns: u64, cpu: u32, hint: Hint) {
        for checker in &mut self.checkers {
            checker.hint(t_ns, cpu, hint);
        }
    }

    /// Whether any checker uses hints.
    pub fn hear_hints(&self) -> bool {
        self.checkers.iter().any(|checker| checker.hears_hints())
    }

    pub fn finish(&mut self, t_ns: u64) {
        self.ask(t_ns, |checker| checker.finish(t_ns));
    }

    /// A checker that has reported a violation is not called again.
    fn ask(&mut self, t_ns: u64, ask: impl Fn(&mut dyn Checker) -> Result<(), String>) {
        let mut at = 0;
        while let Some(checker) = self.checkers.get_mut(at) {
            match ask(checker.as_mut()) {
                Ok(()) => at += 1,
                Err(what) => {
                    let checker = self.checkers.remove(at).name();
                    self.violations.push(Violation { checker, t_ns, what });
                }
            }
        }
    }
}

/// The longest wakeup or switch on this machine, ns: an interrupt to an idle CPU, and two passes of the scheduler with
/// cold lines, behind every other CPU at one lock. If CPUs run in turn, all others have their turn before the interrupt
/// is taken, and whenever a turn ends meanwhile.
fn in_flight_ns(machine: &Machine) -> u64 {
    let cpus = machine.cpus.len() as f64;
    let instructions = 20_000.0 + 2_000.0 * cpus;
    let lines = 200.0 + 20.0 * cpus;
    let costs = &machine.costs;
    let slowest = costs.instruction_ns() / costs.smt_rate_4.min(costs.smt_rate_2);
    let interrupt = costs.ipi_delivery_ns + costs.ipi_send_ns + costs.idle_exit_ns + costs.irq_ns;
    let own_ns = 2.0 * interrupt + instructions * slowest + lines * costs.line_remote_ns;
    let turns = if costs.turn_ns > 0.0 { 1.0 + (own_ns / costs.turn_ns).ceil() } else { 0.0 };
    (own_ns + turns * (cpus - 1.0) * costs.turn_ns) as u64
}

#[cfg(test)]
pub(crate) mod testing {
    //! Events for the checkers' tests.

    use trace::{Event, Kind, Tid};

    use super::Checker;

    pub fn wake(t_ns: u64, tid: Tid, target: u32) -> Event {
        Event { t_ns, cpu: target, kind: Kind::Wake { tid, target } }
    }

    pub fn switch(t_ns: u64, cpu: u32, prev: Tid, next: Tid, prev_runnable: bool) -> Event {
        Event { t_ns, cpu, kind: Kind::Switch { prev, next, prev_runnable, next_mm: 1 } }
    }

    /// The checker's answer to these events.
    pub fn say(mut checker: impl Checker, events: &[Event]) -> Result<(), String> {
        events.iter().try_for_each(|event| checker.event(event))?;
        checker.finish(events.last().map_or(0, |event| event.t_ns))
    }
}
