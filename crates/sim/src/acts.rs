// SPDX-License-Identifier: GPL-2.0-only
//! Estimates the CPU time that the model adds to the acts of a recorded task, by what happens to the task meanwhile.
//!
//! The recorded time of an act is the kernel's in part: a read that waits takes three times as long as one that finds
//! data. A replay charges for that itself, and in it other acts may wait than in the recording. So for each finished
//! act it counts the time beyond its own work, and how often its task has waited, was preempted, and woke others in it.

use workload::{Causes, Cut, Happened, Then};

/// State at the begin of an act.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    worked_ns: f64,
    asked_ns: f64,
}

/// For all recorded tasks of a run.
#[derive(Debug)]
pub(crate) struct Acts {
    marks: Vec<Mark>,
    happened: Vec<Happened>,
    causes: Causes,
}

impl Acts {
    pub fn new(tasks: usize) -> Self {
        Acts {
            marks: vec![Mark::default(); tasks],
            happened: vec![Happened::default(); tasks],
            causes: Causes::default(),
        }
    }

    /// A task has finished an act in which `happened` happened to it. Until now it has worked for `worked_ns`, of that
    /// `asked_ns` in asking again. The act had `work_ns` of work, and `then` came after it.
    pub fn ended(
        &mut self,
        task: usize,
        worked_ns: f64,
        asked_ns: f64,
        happened: Happened,
        work_ns: f64,
        then: Then,
    ) {
        let before = std::mem::replace(&mut self.marks[task], Mark { worked_ns, asked_ns });
        let added_ns = worked_ns - before.worked_ns - (asked_ns - before.asked_ns) - work_ns;
        self.happened[task] += happened;
        self.causes.add(then, happened, work_ns, added_ns);
    }

    /// Events that happened to a task in its finished acts.
    pub fn happened(&self, task: usize) -> Happened {
        self.happened[task]
    }

    /// CPU time that each of the three adds.
    pub fn added(&self) -> Cut {
        self.causes.take()
    }
}
