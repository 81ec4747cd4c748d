// SPDX-License-Identifier: GPL-2.0-only
//! Checkers: properties that every run must have, watched from outside the scheduler.
//!
//! Each has a file of its own with a test that plants a fault and sees it caught. Time and affinity are checked in
//! every run. The declarations of a policy's variant ([`Promises`]) are checked if [`crate::Options::check`] asks for
//! it.

mod above;
mod affinity;
mod checker;
mod idle_wait;
mod lockless;
mod preemption;
mod quota;
#[cfg(test)]
mod testing;
mod time;
mod wait_bound;
mod work_conservation;

use std::collections::BTreeSet;

use machine::Machine;
use policy::Promises;
use trace::{Event, Tid};
use workload::{Fair, Group, Task, Workload};

use crate::ids::tid;

use checker::Checker;
pub(crate) use checker::Hint;
pub use checker::Violation;
pub(crate) use lockless::check as check_locks;
pub(crate) use time::check as check_time;

/// Tasks that may have to wait for their cgroup's limit.
fn limited(workload: &Workload) -> BTreeSet<Tid> {
    let limits: Vec<&Group> = workload.groups.iter().filter(|group| group.max.is_some()).collect();
    let is_limited = |task: &Task| {
        let group = task.group.map(|group| &workload.groups[group]);
        group.is_some_and(|group| limits.iter().any(|limit| group.is_within(limit)))
    };
    let tasks = workload.tasks.iter().enumerate();
    tasks.filter(|(_, task)| is_limited(task)).map(|(at, _)| tid(at)).collect()
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
        let limited = match promises.heeds_cgroup_limits {
            true => limited(workload),
            false => BTreeSet::new(),
        };
        if let Some(idle_ns) = promises.idle_while_runnable_ns_max {
            self.add(work_conservation::WorkConservation::new(machine, idle_ns, limited.clone()));
        }
        if promises.heeds_cgroup_limits {
            self.limits(machine, workload, 0);
        }
        if let Some(slice_ns) = promises.slice_ns_max {
            self.add(wait_bound::WaitBound::new(machine, slice_ns, promises.lockless));
        }
        if let Some(wait_ns) = promises.sched_idle_wait_ns_max {
            let tasks = workload.tasks.iter().enumerate();
            let idle = tasks.filter(|(_, task)| task.fair == Fair::Idle).map(|(at, _)| tid(at));
            let judged = idle.filter(|tid| !limited.contains(tid)).collect();
            self.add(idle_wait::IdleWait::new(judged, wait_ns));
        }
        if promises.never_preempts {
            self.add(preemption::Preemption::new(machine));
        }
    }

    /// The checker of cgroups' limits, for a scheduler that has up to `ahead_ns` of them in advance on each CPU.
    pub fn limits(&mut self, machine: &Machine, workload: &Workload, ahead_ns: u64) {
        if workload.groups.iter().any(|group| group.max.is_some()) {
            self.add(quota::Quota::new(machine, workload, ahead_ns));
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
