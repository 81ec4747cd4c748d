// SPDX-License-Identifier: GPL-2.0-only
//! What the model adds to what a recorded task does, told apart by what happens to it meanwhile.
//!
//! The time that a recording has for an act is the kernel's in part: a read that waits takes three times as long as one
//! that finds data. A replay charges for that itself, and in it others may wait than did. So each act that ends is
//! counted: what it took beyond its own work, and how often its task has waited, was preempted, and woke others in it.

use workload::{Causes, Cut, Happened, Then};

/// What is known when an act begins.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    worked_ns: f64,
    asked_ns: f64,
}

/// Of all recorded tasks of a run.
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

    /// A task has come to the end of an act, in which so much has happened to it: until now it has worked so long, and
    /// asked again for so long. The act had so much work, and this came after it.
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

    /// What has happened to a task in its acts that have ended.
    pub fn happened(&self, task: usize) -> Happened {
        self.happened[task]
    }

    /// What each of the three adds.
    pub fn added(&self) -> Cut {
        self.causes.take()
    }
}
