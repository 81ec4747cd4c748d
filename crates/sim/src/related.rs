// SPDX-License-Identifier: GPL-2.0-only
//! Two earlier schedulers that put threads together by what they learn of them, as arms of comparison
//! for CAS, as far as its talk defines them. Both take turns between a phase that learns and a phase
//! that schedules by it. What to run in a row once that is known is CAS's own rule, with
//! the group in the place of the address space: so what differs is how siblings are found, and what that costs.
//!
//! * **Traced**: Koka et al., Opportunities for Cache Friendly Process Scheduling (2005; the talk, slide
//!   41). Each thread's execution is traced, and threads that share memory are put together. Work
//!   takes [`TRACED`] times as long while it is traced.
//! * **Sampled**: Parekh et al., Thread-Sensitive Scheduling for SMT Processors (2000; slide 32). Counters
//!   are read at each switch, and threads are put together of which one misses little after the other.
//!   That is for threads side by side; on a CPU of one thread "after" takes the place of "beside".
//!
//! Lengths of the phases, the cost of tracing and what counts as little are assumed: the talk has none.

use std::collections::BTreeMap;

use crate::kernel::Kernel;
use crate::task::TaskId;

/// How siblings are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Related {
    /// By tracing what memory each touches.
    Traced,
    /// By counting what each misses after others.
    Sampled,
}

/// A phase that learns: a slice of nice 0, so that about as many threads are seen as the CPUs get through.
const LEARNING_NS: u64 = 100_000_000;
/// A phase that schedules by it.
const SCHEDULING_NS: u64 = 1_000_000_000;
/// How much longer work takes while every access to memory is recorded.
const TRACED: f64 = 10.0;
/// It misses little after one of these that costs it less than so much of what it costs on average.
const LITTLE: f64 = 0.5;

/// What is known of siblings, and until when.
pub(crate) struct Siblings {
    how: Related,
    learning: bool,
    until_ns: u64,
    /// CPU time of each task when the present phase began.
    began_ns: Vec<u64>,
}

impl Siblings {
    /// Begins to learn. None: the workload does not say what tasks touch.
    pub fn new(how: Related, k: &mut Kernel) -> Option<Self> {
        k.hw.as_ref()?;
        let mut siblings =
            Siblings { how, learning: false, until_ns: 0, began_ns: vec![0; k.tasks.len()] };
        siblings.begin(k, true, 0);
        Some(siblings)
    }

    /// At a tick: where a phase is over, the group of each task from here on, from 1; 0: none is known.
    pub fn tick(&mut self, k: &mut Kernel) -> Option<Vec<usize>> {
        let now_ns = k.now_ns();
        if now_ns < self.until_ns {
            return None;
        }
        let groups = match self.learning {
            true => self.groups(k),
            false => vec![0; k.tasks.len()],
        };
        self.begin(k, !self.learning, now_ns);
        Some(groups)
    }

    fn begin(&mut self, k: &mut Kernel, learning: bool, now_ns: u64) {
        self.learning = learning;
        self.until_ns = now_ns + if learning { LEARNING_NS } else { SCHEDULING_NS };
        self.began_ns = k.tasks.iter().map(|task| task.sum_exec_ns).collect();
        if let Some(hw) = &mut k.hw {
            hw.slowed = if learning && self.how == Related::Traced { TRACED } else { 1.0 };
            hw.sampled = (learning && self.how == Related::Sampled).then(BTreeMap::new);
        }
    }

    fn groups(&self, k: &Kernel) -> Vec<usize> {
        let Some(hw) = &k.hw else { return vec![0; k.tasks.len()] };
        let mut groups = Groups::new(k.tasks.len());
        match self.how {
            Related::Traced => {
                let mut first: BTreeMap<u32, TaskId> = BTreeMap::new();
                for (task, began_ns) in self.began_ns.iter().enumerate() {
                    let seen = k.tasks[task].sum_exec_ns > *began_ns;
                    if let Some(set) = hw.shares(task).filter(|_| seen) {
                        groups.join(task, *first.entry(set).or_insert(task));
                    }
                }
            }
            Related::Sampled => {
                let samples = hw.sampled.iter().flatten();
                let cost = |(pair, (missed, worked)): (&(TaskId, TaskId), &(f64, f64))| {
                    (*pair, missed / worked.max(1.0))
                };
                let costs: Vec<((TaskId, TaskId), f64)> = samples.map(cost).collect();
                let mut sums: BTreeMap<TaskId, (f64, f64)> = BTreeMap::new();
                for ((_, task), cost) in &costs {
                    let sum = sums.entry(*task).or_default();
                    *sum = (sum.0 + cost, sum.1 + 1.0);
                }
                for ((before, task), cost) in costs {
                    let (sum, count) = sums[&task];
                    if cost < LITTLE * sum / count {
                        groups.join(task, before);
                    }
                }
            }
        }
        groups.numbers()
    }
}

/// Tasks that were joined, directly or by others.
struct Groups {
    parent: Vec<TaskId>,
    joined: Vec<bool>,
}

impl Groups {
    fn new(tasks: usize) -> Self {
        Groups { parent: (0..tasks).collect(), joined: vec![false; tasks] }
    }

    fn root(&self, mut task: TaskId) -> TaskId {
        while self.parent[task] != task {
            task = self.parent[task];
        }
        task
    }

    fn join(&mut self, a: TaskId, b: TaskId) {
        self.joined[a] = true;
        self.joined[b] = true;
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    fn numbers(&self) -> Vec<usize> {
        let number = |task: TaskId| if self.joined[task] { self.root(task) + 1 } else { 0 };
        (0..self.parent.len()).map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_tasks_have_one_number_and_others_none() {
        let mut groups = Groups::new(5);
        groups.join(4, 2);
        groups.join(1, 4);
        assert_eq!(groups.numbers(), [0, 2, 2, 0, 2]);
    }
}
