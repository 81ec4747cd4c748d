// SPDX-License-Identifier: GPL-2.0-only
//! No CPU stays idle for longer than promised while a task that it may run waits.

use std::collections::{BTreeMap, BTreeSet};

use machine::Machine;
use trace::{Event, IDLE, Kind, Tid};

use super::above::Above;
use super::checker::{Checker, Hint, in_flight_ns};

pub(super) struct WorkConservation {
    allowed_ns: u64,
    /// Start of each CPU's idling; None while it runs a task.
    idle_since: Vec<Option<u64>>,
    /// Start of each task's wait.
    waiting: BTreeMap<Tid, u64>,
    masks: BTreeMap<Tid, Vec<u64>>,
    exiting: Option<Tid>,
    /// Tasks of a class above, which are not the policy's.
    above: Above,
    /// Tasks that may wait for something else than a CPU.
    limited: BTreeSet<Tid>,
    /// Any task may, from now on.
    regrouped: bool,
    /// An offline CPU does not idle.
    offline: Vec<bool>,
}

impl WorkConservation {
    /// `idle_ns` is the promise; the time that a wakeup needs to arrive is added.
    pub fn new(machine: &Machine, idle_ns: u64, limited: BTreeSet<Tid>) -> Self {
        WorkConservation {
            allowed_ns: idle_ns + in_flight_ns(machine),
            idle_since: vec![Some(0); machine.cpus.len()],
            waiting: BTreeMap::new(),
            masks: BTreeMap::new(),
            exiting: None,
            above: Above::default(),
            limited,
            regrouped: false,
            offline: vec![false; machine.cpus.len()],
        }
    }

    fn may(&self, tid: Tid, cpu: usize) -> bool {
        let bit = |words: &Vec<u64>| words.get(cpu / 64).is_some_and(|w| w >> (cpu % 64) & 1 == 1);
        self.masks.get(&tid).is_none_or(bit)
    }

    fn check(&self, t_ns: u64, tid: Tid, waits_since: u64, cpu: usize) -> Result<(), String> {
        let Some(idle_since) = self.idle_since[cpu] else { return Ok(()) };
        let idled_ns = t_ns.saturating_sub(waits_since.max(idle_since));
        let excused = self.regrouped
            || self.offline[cpu]
            || !self.may(tid, cpu)
            || self.above.taken_since(waits_since);
        if idled_ns <= self.allowed_ns || excused {
            return Ok(());
        }
        Err(format!(
            "CPU {cpu} idled {idled_ns} ns while {tid} waited: at most {} was promised",
            self.allowed_ns
        ))
    }

    fn wait_ends(&mut self, t_ns: u64, tid: Tid) -> Result<(), String> {
        let Some(since) = self.waiting.remove(&tid) else { return Ok(()) };
        if t_ns.saturating_sub(since) <= self.allowed_ns {
            return Ok(());
        }
        (0..self.idle_since.len()).try_for_each(|cpu| self.check(t_ns, tid, since, cpu))
    }

    fn idle_ends(&mut self, t_ns: u64, cpu: usize) -> Result<(), String> {
        let idled_ns = self.idle_since[cpu].map_or(0, |since| t_ns.saturating_sub(since));
        if idled_ns > self.allowed_ns {
            self.waiting.iter().try_for_each(|(tid, since)| self.check(t_ns, *tid, *since, cpu))?;
        }
        self.idle_since[cpu] = None;
        Ok(())
    }
}

impl Checker for WorkConservation {
    fn name(&self) -> &'static str {
        "work conservation"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            Kind::Wake { tid, .. } if self.above.has(*tid) || self.limited.contains(tid) => {}
            Kind::Wake { tid, .. } => {
                self.waiting.entry(*tid).or_insert(event.t_ns);
            }
            Kind::Affinity { tid, cpus } => {
                // A new mask: its wait counts from now.
                self.masks.insert(*tid, cpus.clone());
                self.waiting.entry(*tid).and_modify(|since| *since = event.t_ns);
            }
            Kind::Exit { tid } => self.exiting = Some(*tid),
            Kind::Fork { .. } => {}
            Kind::Switch { prev, next, prev_runnable, .. } => {
                let cpu = event.cpu as usize;
                self.above.switch(event.t_ns, *prev, *next);
                self.wait_ends(event.t_ns, *next)?;
                let ours = *prev != IDLE && !self.above.has(*prev) && !self.limited.contains(prev);
                if ours && *prev_runnable && self.exiting != Some(*prev) {
                    self.waiting.insert(*prev, event.t_ns);
                }
                match *next {
                    IDLE => self.idle_since[cpu] = Some(event.t_ns),
                    _ => self.idle_ends(event.t_ns, cpu)?,
                }
            }
        }
        Ok(())
    }

    fn hint(&mut self, t_ns: u64, cpu: u32, hint: Hint) {
        let cpu = cpu as usize;
        match hint {
            Hint::Offline => self.offline[cpu] = true,
            Hint::Online => {
                self.offline[cpu] = false;
                self.idle_since[cpu] = self.idle_since[cpu].and(Some(t_ns));
            }
            Hint::RealTime(_) => self.above.hint(hint),
            Hint::Regrouped => self.regrouped = true,
            Hint::Tick | Hint::SliceOver | Hint::Yield(_) | Hint::Wants(_) | Hint::Disturbed => {}
        }
    }

    fn finish(&mut self, t_ns: u64) -> Result<(), String> {
        let idle: Vec<usize> =
            (0..self.idle_since.len()).filter(|cpu| self.idle_since[*cpu].is_some()).collect();
        idle.into_iter().try_for_each(|cpu| self.idle_ends(t_ns, cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{say, switch, wake};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two tasks on CPU 0 while CPU 1 idles, until the second moves there.
    fn stacked(until_ms: u64, mask_of_second: Option<u64>) -> Result<(), String> {
        let checker =
            WorkConservation::new(&machine::find("numa-2x4").unwrap(), MS, BTreeSet::new());
        let mut events = vec![wake(0, 1, 0), switch(1, 0, IDLE, 1, false)];
        if let Some(mask) = mask_of_second {
            events.push(Event {
                t_ns: 1,
                cpu: 0,
                kind: Kind::Affinity { tid: 2, cpus: vec![mask] },
            });
        }
        events.extend([wake(2, 2, 0), switch(until_ms * MS, 1, IDLE, 2, false)]);
        say(checker, &events)
    }

    #[test]
    fn a_cpu_that_idles_while_a_task_waits_is_found() {
        assert_eq!(stacked(1, None), Ok(()));
        assert!(stacked(3, None).is_err());
    }

    #[test]
    fn a_cpu_idles_from_when_it_comes_back() {
        let back = |after_ms: u64| {
            let mut checker =
                WorkConservation::new(&machine::find("numa-2x4").unwrap(), MS, BTreeSet::new());
            let stacked = [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0)];
            stacked.iter().try_for_each(|event| checker.event(event)).unwrap();
            (1..8).for_each(|cpu| checker.hint(2, cpu, Hint::Offline));
            checker.hint(5 * MS, 1, Hint::Online);
            checker.event(&switch((5 + after_ms) * MS, 1, IDLE, 2, false))
        };
        assert_eq!(back(1), Ok(()));
        assert!(back(3).is_err());
    }

    #[test]
    fn task_that_a_limit_may_hold_is_not_judged() {
        let numa = machine::find("numa-2x4").unwrap();
        let checker = WorkConservation::new(&numa, MS, BTreeSet::from([2]));
        let events = [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0)];
        let late = [switch(9 * MS, 1, IDLE, 2, false)];
        assert_eq!(say(checker, &[&events[..], &late[..]].concat()), Ok(()));
    }

    #[test]
    fn task_of_a_higher_class_is_not_judged() {
        let mut checker =
            WorkConservation::new(&machine::find("numa-2x4").unwrap(), MS, BTreeSet::new());
        checker.hint(0, 0, Hint::RealTime(2));
        let events = [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0)];
        let late = [switch(9 * MS, 1, IDLE, 2, false)];
        assert_eq!(say(checker, &[&events[..], &late[..]].concat()), Ok(()));
    }

    #[test]
    fn task_behind_a_higher_class_is_not_judged_until_that_leaves() {
        let waits = |until_ms: u64| {
            let mut checker =
                WorkConservation::new(&machine::find("numa-2x4").unwrap(), MS, BTreeSet::new());
            checker.hint(0, 0, Hint::RealTime(1));
            let taken = [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0)];
            let free = [switch(9 * MS, 0, 1, 2, false), wake(9 * MS + 1, 3, 0)];
            let late = [switch(until_ms * MS, 1, IDLE, 3, false)];
            say(checker, &[&taken[..], &free, &late].concat())
        };
        assert_eq!(waits(10), Ok(()));
        assert!(waits(12).is_err());
    }

    #[test]
    fn a_cpu_that_may_not_run_the_task_may_idle() {
        assert!(stacked(3, Some(0b11)).is_err());
        assert!(stacked(3, Some(0b01)).is_ok(), "only CPU 0 may run it, and that is busy");
    }
}
