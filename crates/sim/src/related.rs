// SPDX-License-Identifier: GPL-2.0-only
//! Two earlier schedulers that group threads by observation, as arms of comparison for CAS, as far as its talk defines
//! them. Both alternate between a learning phase and a scheduling phase that uses the result. Which tasks then run in a
//! row is CAS's own rule, with the group in the place of the address space. So they differ only in how siblings are
//! found, and in its cost.
//!
//! * **Traced**: Koka et al., Opportunities for Cache Friendly Process Scheduling (2005; the talk, slide 41). Each
//!   thread's execution is traced, and threads that share memory form a group. Work takes [`TRACED`] times as long
//!   while it is traced.
//! * **Sampled**: Parekh et al., Thread-Sensitive Scheduling for SMT Processors (2000; slide 32). Counters are read at
//!   each switch. Threads form a group if one misses little after the other. The paper is about threads side by side;
//!   on a CPU of one thread "after" takes the place of "beside".
//!
//! Lengths of the phases, the cost of tracing and the threshold for "little" are assumed: the talk has none.

use std::collections::BTreeMap;

use crate::ids::TaskId;
use crate::kernel::Kernel;

/// How siblings are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Related {
    /// By tracing the memory that each touches.
    Traced,
    /// By counting the misses of each after others.
    Sampled,
}

/// A learning phase: a slice of nice 0, so that about as many threads are seen as the CPUs run in it.
const LEARNING_NS: u64 = 100_000_000;
/// A scheduling phase.
const SCHEDULING_NS: u64 = 1_000_000_000;
/// How much longer work takes while every access to memory is recorded.
const TRACED: f64 = 10.0;
/// It misses little after a task that costs it less than this part of its mean cost.
const LITTLE: f64 = 0.5;

/// The known siblings, and until when they are used.
pub(crate) struct Siblings {
    how: Related,
    learning: bool,
    until_ns: u64,
    /// CPU time of each task when the present phase began.
    began_ns: Vec<u64>,
}

impl Siblings {
    /// Starts to learn. None: the workload does not say what memory tasks touch.
    pub fn new(how: Related, k: &mut Kernel) -> Option<Self> {
        k.hw.as_ref()?;
        let mut siblings =
            Siblings { how, learning: false, until_ns: 0, began_ns: vec![0; k.tasks.len()] };
        siblings.begin(k, true, 0);
        Some(siblings)
    }

    /// At a tick: if a phase is over, the group of each task from here on, from 1; 0: none is known.
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

/// Tasks that were joined, directly or through others.
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
