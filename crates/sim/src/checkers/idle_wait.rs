// SPDX-License-Identifier: GPL-2.0-only
//! A runnable SCHED_IDLE task waits no longer than its policy declares, whatever the other tasks do.

use std::collections::{BTreeMap, BTreeSet};

use trace::{Event, IDLE, Kind, Tid};

use super::above::Above;
use super::checker::{Checker, Hint};

pub(super) struct IdleWait {
    wait_ns_max: u64,
    /// The SCHED_IDLE tasks.
    tids: BTreeSet<Tid>,
    /// Start of the wait of each waiting one.
    waiting: BTreeMap<Tid, u64>,
    exiting: Option<Tid>,
    above: Above,
    /// When a task or a CPU was last changed from outside.
    disturbed_ns: Option<u64>,
}

impl IdleWait {
    pub fn new(tids: BTreeSet<Tid>, wait_ns_max: u64) -> Self {
        IdleWait {
            wait_ns_max,
            tids,
            waiting: BTreeMap::new(),
            exiting: None,
            above: Above::default(),
            disturbed_ns: None,
        }
    }

    fn start(&mut self, t_ns: u64, tid: Tid) {
        if self.tids.contains(&tid) {
            self.waiting.entry(tid).or_insert(t_ns);
        }
    }

    fn check(&self, t_ns: u64, tid: Tid, since_ns: u64) -> Result<(), String> {
        let waited_ns = t_ns - since_ns;
        let excused = self.above.taken_since(since_ns)
            || self.disturbed_ns.is_some_and(|at_ns| at_ns >= since_ns);
        if waited_ns <= self.wait_ns_max || excused {
            return Ok(());
        }
        Err(format!(
            "{tid}, SCHED_IDLE, waited {waited_ns} ns: at most {} was promised",
            self.wait_ns_max
        ))
    }
}

impl Checker for IdleWait {
    fn name(&self) -> &'static str {
        "idle wait"
    }

    fn hint(&mut self, t_ns: u64, _: u32, hint: Hint) {
        if matches!(hint, Hint::Disturbed | Hint::Offline | Hint::Online) {
            self.disturbed_ns = Some(t_ns);
        }
        if hint == Hint::Regrouped {
            // Any of them may wait for a limit from now on.
            self.tids.clear();
            self.waiting.clear();
        }
        self.above.hint(hint);
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            Kind::Wake { tid, .. } => self.start(event.t_ns, tid),
            Kind::Exit { tid } => self.exiting = Some(tid),
            Kind::Switch { prev, next, prev_runnable, .. } => {
                self.above.switch(event.t_ns, prev, next);
                if prev != IDLE && prev_runnable && self.exiting != Some(prev) {
                    self.start(event.t_ns, prev);
                }
                if let Some(since_ns) = self.waiting.remove(&next) {
                    return self.check(event.t_ns, next, since_ns);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, t_ns: u64) -> Result<(), String> {
        self.waiting.iter().try_for_each(|(tid, since_ns)| self.check(t_ns, *tid, *since_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{say, switch, wake};
    use super::*;

    const MS: u64 = 1_000_000;

    fn idle_wait() -> IdleWait {
        IdleWait::new([2].into(), 1000 * MS)
    }

    /// Task `waits` wakes behind task 1, and gets the CPU after `ms`.
    fn waited(waits: Tid, ms: u64) -> Result<(), String> {
        let events = [
            wake(0, 1, 0),
            switch(1, 0, IDLE, 1, false),
            wake(2, waits, 0),
            switch(2 + ms * MS, 0, 1, waits, true),
        ];
        say(idle_wait(), &events)
    }

    #[test]
    fn a_sched_idle_task_that_waits_beyond_the_bound_is_found() {
        assert_eq!(waited(2, 1000), Ok(()));
        assert!(waited(2, 1001).is_err());
        assert_eq!(waited(3, 1001), Ok(()), "it is not SCHED_IDLE");
    }

    #[test]
    fn a_wait_that_never_ends_is_found() {
        let events = [wake(0, 2, 0), wake(1, 3, 1), switch(1001 * MS, 1, IDLE, 3, false)];
        assert!(say(idle_wait(), &events).is_err());
    }

    #[test]
    fn a_wait_for_a_higher_class_is_excused() {
        let mut checker = idle_wait();
        checker.hint(0, 0, Hint::RealTime(1));
        let events =
            [switch(1, 0, IDLE, 1, false), wake(2, 2, 0), switch(5000 * MS, 0, 1, 2, false)];
        assert_eq!(say(checker, &events), Ok(()));
    }
}
