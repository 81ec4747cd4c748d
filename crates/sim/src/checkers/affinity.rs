// SPDX-License-Identifier: GPL-2.0-only
//! No task runs outside its mask, in two places at once, or after its end. None becomes runnable while it runs: the
//! kernel holds the runqueue's lock from an enqueue until the wakeup's event.

use trace::{Event, IDLE, Kind, Tid};

use super::checker::Checker;

pub(super) struct Affinity {
    running: Vec<Tid>,
    /// By thread id: the simulator gives them out from 1.
    tasks: Vec<Task>,
}

#[derive(Clone, Default)]
struct Task {
    runs_on: Option<u32>,
    /// None: it may run everywhere.
    allowed: Option<Vec<u64>>,
    /// When its mask was last changed from outside: it may stay until its CPU has noticed.
    changed_ns: Option<u64>,
    ended: bool,
}

impl Affinity {
    pub fn new(cpus: usize) -> Self {
        Affinity { running: vec![IDLE; cpus], tasks: Vec::new() }
    }

    fn task(&mut self, tid: Tid) -> &mut Task {
        let at = tid as usize;
        if at >= self.tasks.len() {
            self.tasks.resize(at + 1, Task::default());
        }
        &mut self.tasks[at]
    }

    fn switch(&mut self, t_ns: u64, cpu: u32, prev: Tid, next: Tid) -> Result<(), String> {
        let was = std::mem::replace(&mut self.running[cpu as usize], next);
        if was != prev {
            return Err(format!("CPU {cpu} leaves {prev}, but ran {was}"));
        }
        self.task(prev).runs_on = None;
        if next == IDLE {
            return Ok(());
        }
        let task = self.task(next);
        if task.ended {
            return Err(format!("{next} runs on CPU {cpu} after its end"));
        }
        if let Some(other) = task.runs_on.replace(cpu) {
            return Err(format!("{next} runs on CPUs {other} and {cpu}"));
        }
        let bit = |words: &Vec<u64>| {
            words.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
        };
        let allowed = task.allowed.as_ref().is_none_or(bit);
        if !allowed && task.changed_ns != Some(t_ns) {
            return Err(format!("{next} runs on CPU {cpu}, which its mask does not have"));
        }
        Ok(())
    }
}

impl Checker for Affinity {
    fn name(&self) -> &'static str {
        "affinity"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            Kind::Affinity { tid, cpus } => {
                let task = self.task(*tid);
                task.allowed = Some(cpus.clone());
                task.changed_ns = Some(event.t_ns);
            }
            Kind::Switch { prev, next, .. } => {
                return self.switch(event.t_ns, event.cpu, *prev, *next);
            }
            Kind::Wake { tid, .. } => {
                if let Some(cpu) = self.task(*tid).runs_on {
                    return Err(format!("{tid} is woken while it runs on CPU {cpu}"));
                }
            }
            Kind::Exit { tid } => self.task(*tid).ended = true,
            Kind::Fork { .. } => {}
        }
        Ok(())
    }

    fn hears_hints(&self) -> bool {
        false
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
    fn switch_from_a_task_that_did_not_run_is_found() {
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
