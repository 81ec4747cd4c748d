// SPDX-License-Identifier: GPL-2.0-only
//! What one run of one policy came to, on any ground.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Observed, Tid};

/// One run of one policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The instance's label, or the name of one of Linux's own classes.
    pub policy: String,
    /// Which of the policy's runs, from 0.
    pub run: usize,
    /// Which boot of the guest, from 0; 0 on grounds without boots.
    pub boot: usize,
    /// From the start of the workload to its end, without the observer where the ground can: under
    /// icount this is guest work, the instructions of all CPUs.
    pub elapsed_ns: u64,
    /// What the scheduler was seen to do. Where observing costs work, this comes from a second run
    /// of the same workload in the same boot.
    pub observed: Observed,
    /// Names of the tasks in `observed`, by thread id.
    pub names: BTreeMap<Tid, String>,
    /// How far each task got, in its workload's own unit, where the ground knows.
    pub progress: BTreeMap<Tid, f64>,
    /// Lock acquisitions in scheduler code beyond the runqueue's own, by place.
    pub locks: BTreeMap<String, u64>,
    /// Scheduler functions: how often each ran and the time it took.
    pub functions: BTreeMap<String, FunctionCost>,
    /// What the workload printed, where it printed.
    pub output: String,
    /// Anything else the ground measured, by name with its unit last (`spinlock_ns`).
    pub extra: BTreeMap<String, f64>,
}

/// How often a function ran, and for how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// Calls.
    pub count: u64,
    /// Total time, or instructions under icount.
    pub ns: u64,
}
