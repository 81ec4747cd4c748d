// SPDX-License-Identifier: GPL-2.0-only
//! A runnable task waits at most for the turns of the tasks ahead of it.
//!
//! A turn is a slice and up to one tick, since slices end at ticks. Ahead are tasks that wait or run on the same CPU
//! when the wait begins (on any CPU if queues are shared). Also ahead are tasks that began to wait before it elsewhere
//! and were moved here, and tasks that come later and still go first. Of the latter at most one counts per turn, as a
//! policy's head of the queue allows.

use std::collections::BTreeMap;

use machine::Machine;
use trace::{Event, IDLE, Kind, Tid};

use super::above::Above;
use super::checker::{Checker, Hint, in_flight_ns};

pub(super) struct WaitBound {
    turn_ns: u64,
    slack_ns: u64,
    near_ns: u64,
    /// Each CPU has its own queue.
    own_queues: bool,
    waiting: BTreeMap<Tid, Wait>,
    running: Vec<Tid>,
    exiting: Option<Tid>,
    /// Tasks of a class above. No policy promises how long they keep its tasks waiting.
    above: Above,
    disturbed: bool,
}

#[derive(Clone, Copy)]
struct Wait {
    since_ns: u64,
    cpu: u32,
    ahead: u64,
    overtaken: u64,
}

impl WaitBound {
    pub fn new(machine: &Machine, slice_ns: u64, own_queues: bool) -> Self {
        let tick_ns = machine.costs.tick_period_ns as u64;
        // Kernel code lengthens each turn: interrupts, wakeups of others, the switch itself.
        let turn_ns = slice_ns + tick_ns + in_flight_ns(machine);
        WaitBound {
            turn_ns,
            slack_ns: 2 * tick_ns,
            near_ns: in_flight_ns(machine),
            own_queues,
            waiting: BTreeMap::new(),
            running: vec![IDLE; machine.cpus.len()],
            exiting: None,
            above: Above::default(),
            disturbed: false,
        }
    }

    fn start(&mut self, t_ns: u64, tid: Tid, cpu: u32) {
        let same = |other: &u32| !self.own_queues || *other == cpu;
        let waiting = self.waiting.values().filter(|wait| same(&wait.cpu)).count();
        let runs = (0..self.running.len() as u32)
            .filter(|other| same(other) && self.running[*other as usize] != IDLE)
            .count();
        let ahead = (waiting + runs) as u64;
        self.waiting.insert(tid, Wait { since_ns: t_ns, cpu, ahead, overtaken: 0 });
    }

    /// `tid` gets `cpu`. A task that waits there and had not counted `tid` as ahead is overtaken, or began to wait
    /// later.
    fn end(&mut self, t_ns: u64, tid: Tid, cpu: u32) -> Result<(), String> {
        let Some(wait) = self.waiting.remove(&tid) else { return Ok(()) };
        for other in self.waiting.values_mut() {
            let here = !self.own_queues || other.cpu == cpu;
            let from_elsewhere = self.own_queues && wait.cpu != cpu;
            let known = wait.since_ns <= other.since_ns && !from_elsewhere;
            // Of two that come at about the same time either may get the lock first.
            let later = wait.since_ns > other.since_ns + self.near_ns;
            other.overtaken += u64::from(here && !known && later);
            other.ahead += u64::from(here && !known && !later);
        }
        self.check(t_ns, tid, wait)
    }

    fn check(&self, t_ns: u64, tid: Tid, wait: Wait) -> Result<(), String> {
        let waited_ns = t_ns - wait.since_ns;
        let turns = wait.ahead + wait.overtaken.min(wait.ahead + 1);
        let bound_ns = turns * self.turn_ns + self.slack_ns;
        if waited_ns <= bound_ns || self.disturbed || self.above.taken_since(wait.since_ns) {
            return Ok(());
        }
        Err(format!(
            "{tid} waited {waited_ns} ns on CPU {} with {} ahead: at most {bound_ns} was promised",
            wait.cpu, wait.ahead
        ))
    }
}

impl Checker for WaitBound {
    fn name(&self) -> &'static str {
        "wait bound"
    }

    fn hint(&mut self, _: u64, _: u32, hint: Hint) {
        self.disturbed |= hint == Hint::Disturbed;
        self.above.hint(hint);
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            Kind::Wake { tid, .. } if self.above.has(tid) => {}
            Kind::Wake { tid, target } if !self.running.contains(&tid) => {
                self.start(event.t_ns, tid, target);
            }
            Kind::Exit { tid } => self.exiting = Some(tid),
            Kind::Switch { prev, next, prev_runnable, .. } => {
                self.running[event.cpu as usize] = next;
                self.above.switch(event.t_ns, prev, next);
                let ours = prev != IDLE && !self.above.has(prev);
                if ours && prev_runnable && self.exiting != Some(prev) {
                    self.start(event.t_ns, prev, event.cpu);
                }
                return self.end(event.t_ns, next, event.cpu);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, t_ns: u64) -> Result<(), String> {
        self.waiting.iter().try_for_each(|(tid, wait)| self.check(t_ns, *tid, *wait))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{say, switch, wake};
    use super::*;

    const MS: u64 = 1_000_000;

    fn two_tasks(second_gets_it_after_ms: u64) -> Result<(), String> {
        let checker = WaitBound::new(&machine::find("numa-2x4").unwrap(), 20 * MS, true);
        let end = second_gets_it_after_ms * MS;
        say(
            checker,
            &[
                wake(0, 1, 0),
                switch(1, 0, IDLE, 1, false),
                wake(2, 2, 0),
                switch(end, 0, 1, 2, true),
            ],
        )
    }

    #[test]
    fn a_wait_beyond_the_turns_ahead_is_found() {
        assert_eq!(two_tasks(22), Ok(()));
        assert!(two_tasks(60).is_err());
    }

    #[test]
    fn wait_behind_a_higher_class_has_no_bound() {
        let mut checker = WaitBound::new(&machine::find("numa-2x4").unwrap(), 20 * MS, true);
        checker.hint(0, 0, Hint::RealTime(1));
        let events = [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0)];
        let late = [switch(900 * MS, 0, 1, 2, false)];
        assert_eq!(say(checker, &[&events[..], &late[..]].concat()), Ok(()));
    }

    /// Task 2 waits on CPU 0 from 3 ms on, with no task there that it could know of. Task 3 has waited on CPU 1 since
    /// `since_ns`, and goes first for 20 ms. So does task 4, at the head, for as long.
    fn moved_ahead(since_ns: u64) -> Result<(), String> {
        let checker = WaitBound::new(&machine::find("numa-2x4").unwrap(), 20 * MS, true);
        let mut events = vec![wake(since_ns, 3, 1), wake(3 * MS, 2, 0), wake(6 * MS, 4, 0)];
        events.sort_by_key(|event| event.t_ns);
        events.extend([
            switch(7 * MS, 0, IDLE, 3, false),
            switch(27 * MS, 0, 3, 4, false),
            switch(47 * MS, 0, 4, 2, false),
        ]);
        say(checker, &events)
    }

    #[test]
    fn moved_task_with_a_longer_wait_may_be_ahead() {
        assert_eq!(moved_ahead(2 * MS), Ok(()));
        assert_eq!(moved_ahead(3 * MS + 1), Ok(()), "at one time, as far as can be told");
        assert!(moved_ahead(5 * MS).is_err(), "two that came later");
    }

    #[test]
    fn a_wait_that_never_ends_is_found() {
        let checker = WaitBound::new(&machine::find("numa-2x4").unwrap(), 20 * MS, true);
        let events =
            [wake(0, 1, 0), switch(1, 0, IDLE, 1, false), wake(2, 2, 0), wake(900 * MS, 3, 1)];
        assert!(say(checker, &events).is_err());
    }
}
