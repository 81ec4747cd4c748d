// SPDX-License-Identifier: GPL-2.0-only
//! No task runs where it may not, in two places at once, or after its end, and none becomes runnable
//! while it runs: the kernel holds the runqueue's lock from an enqueue until a wakeup is told.

use std::collections::{BTreeMap, BTreeSet};

use trace::{Event, IDLE, Kind, Tid};

use super::Checker;

pub(super) struct Affinity {
    running: Vec<Tid>,
    /// The same by task.
    runs_on: BTreeMap<Tid, usize>,
    allowed: BTreeMap<Tid, Vec<u64>>,
    /// A mask that changed while its task ran: it may stay until its CPU has heard of it.
    changed: BTreeMap<Tid, u64>,
    ended: BTreeSet<Tid>,
}

impl Affinity {
    pub fn new(cpus: usize) -> Self {
        Affinity {
            running: vec![IDLE; cpus],
            runs_on: BTreeMap::new(),
            allowed: BTreeMap::new(),
            changed: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }
}

impl Checker for Affinity {
    fn name(&self) -> &'static str {
        "affinity"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            Kind::Affinity { tid, cpus } => {
                self.allowed.insert(*tid, cpus.clone());
                self.changed.insert(*tid, event.t_ns);
            }
            Kind::Switch { prev, next, .. } => {
                let cpu = event.cpu as usize;
                let was = std::mem::replace(&mut self.running[cpu], *next);
                if was != *prev {
                    return Err(format!("CPU {cpu} leaves {prev}, but ran {was}"));
                }
                self.runs_on.remove(prev);
                if *next == IDLE {
                    return Ok(());
                }
                if self.ended.contains(next) {
                    return Err(format!("{next} runs on CPU {cpu} after its end"));
                }
                if let Some(other) = self.runs_on.insert(*next, cpu) {
                    return Err(format!("{next} runs on CPUs {other} and {cpu}"));
                }
                let bit = |words: &Vec<u64>| {
                    words.get(cpu / 64).is_some_and(|w| w >> (cpu % 64) & 1 == 1)
                };
                let allowed = self.allowed.get(next).is_none_or(bit);
                let just_changed = self.changed.get(next) == Some(&event.t_ns);
                if !allowed && !just_changed {
                    return Err(format!("{next} runs on CPU {cpu}, which its mask does not have"));
                }
            }
            Kind::Wake { tid, .. } => {
                if let Some(cpu) = self.runs_on.get(tid) {
                    return Err(format!("{tid} is woken while it runs on CPU {cpu}"));
                }
            }
            Kind::Exit { tid } => {
                self.ended.insert(*tid);
            }
            Kind::Fork { .. } => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{say, switch, wake};
    use super::*;

    fn only(tid: Tid, mask: u64) -> Event {
        Event { t_ns: 1, cpu: 0, kind: Kind::Affinity { tid, cpus: vec![mask] } }
    }

    #[test]
    fn a_task_on_a_forbidden_cpu_is_found() {
        let good = [only(7, 0b01), switch(5, 0, IDLE, 7, false)];
        let bad = [only(7, 0b10), switch(5, 0, IDLE, 7, false)];
        assert_eq!(say(Affinity::new(2), &good), Ok(()));
        assert!(say(Affinity::new(2), &bad).is_err());
    }

    #[test]
    fn a_task_in_two_places_is_found() {
        let events = [switch(5, 0, IDLE, 7, false), switch(6, 1, IDLE, 7, false)];
        assert!(say(Affinity::new(2), &events).is_err());
    }

    #[test]
    fn a_switch_from_somebody_else_is_found() {
        let events = [switch(5, 0, IDLE, 7, false), switch(6, 0, 8, IDLE, false)];
        assert!(say(Affinity::new(2), &events).is_err());
    }

    #[test]
    fn a_task_that_runs_after_its_end_is_found() {
        let end = Event { t_ns: 6, cpu: 0, kind: Kind::Exit { tid: 7 } };
        let ends = [switch(5, 0, IDLE, 7, false), end, switch(6, 0, 7, IDLE, false)];
        assert_eq!(say(Affinity::new(1), &ends), Ok(()));
        let again = [&ends[..], &[switch(9, 0, IDLE, 7, false)]].concat();
        assert!(say(Affinity::new(1), &again).is_err());
    }

    #[test]
    fn a_wakeup_of_a_task_that_runs_is_found() {
        let good = [wake(4, 7, 0), switch(5, 0, IDLE, 7, false)];
        let bad = [switch(5, 0, IDLE, 7, false), wake(6, 7, 0)];
        assert_eq!(say(Affinity::new(1), &good), Ok(()));
        assert!(say(Affinity::new(1), &bad).is_err());
    }
}
