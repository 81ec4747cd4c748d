// SPDX-License-Identifier: GPL-2.0-only
//! The result of one run of one policy, on any ground.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Home, Observed, Placed, Tid};

/// In [`Outcome::extra`]: events that the observer lost for lack of room, if any; nothing is observed then.
pub const OBSERVER_LOST: &str = "observer_lost_events";

/// In [`Outcome::extra`]: processes that ended with status 127, if any. A shell ends so if it does not find a program.
pub const NOT_FOUND: &str = "status_127_processes";

/// In [`Outcome::extra`]: CPU time of the command and all its descendants in the observed run, seconds.
pub const OWN_CPU: &str = "observed_own_s";

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
    /// Energy of the machine's processors meanwhile, its launch included, J. None: the machine does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// The scheduler's observed behaviour. If observing costs work, this comes from a second run of the same workload
    /// in the same boot.
    pub observed: Observed,
    /// The same of all tasks of the machine, where `observed` is of the workload's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Observed>>,
    /// Names of the tasks in `observed`, by thread id.
    pub names: BTreeMap<Tid, String>,
    /// How far each task got, in its workload's own unit, where the ground knows.
    pub progress: BTreeMap<Tid, f64>,
    /// CPU time that the policy itself charged each task for on each kind of core, ns; empty where it does not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub charged: BTreeMap<Tid, Vec<u64>>,
    /// Which task was placed in which memory domain, in the order of time; empty if the policy places no task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<Placed>,
    /// Where threads and their pages were, look by look; empty where the ground does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub homes: Vec<Home>,
    /// Bytes of memory of each task on each node at its end, or of its whole process where tasks share it; no task
    /// where the ground does not tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resident: BTreeMap<Tid, Vec<u64>>,
    /// Lock acquisitions in scheduler code beyond the runqueue's own, by place; from the launch of the
    /// workload on, which is before its start.
    pub locks: BTreeMap<String, u64>,
    /// Scheduler functions: how often each ran and the time it took, from the start on.
    pub functions: BTreeMap<String, FunctionCost>,
    /// The last of what the workload wrote to standard output, where it wrote.
    pub output: String,
    /// The last of what it wrote to standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub errors: String,
    /// Anything else the ground measured, by name with its unit last (`spinlock_ns`).
    pub extra: BTreeMap<String, f64>,
    /// A recording of the workload under this policy, in a run of its own, as `record` reads it; empty where none
    /// was made.
    #[serde(skip)]
    pub recording: Vec<u8>,
    /// Misses of TLBs and caches, if the ground knows.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
}

impl Outcome {
    /// The memory domains that a task was placed in, one after the other.
    pub fn domains_of(&self, tid: Tid) -> impl Iterator<Item = usize> {
        self.placed.iter().filter(move |placed| placed.tid == tid).map(|placed| placed.domain)
    }
}

/// Misses in TLBs and caches, and the CPU time they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Data TLB, pages of users.
    pub dtlb_user: u64,
    /// Data TLB, pages of the kernel.
    pub dtlb_kernel: u64,
    /// Instruction TLB, pages of users.
    pub itlb_user: u64,
    /// Instruction TLB, pages of the kernel.
    pub itlb_kernel: u64,
    /// Lines of the last-level cache.
    pub cache: u64,
    /// CPU time lost to them and to misses of nearer caches, in ns.
    pub ns: u64,
}

impl Missed {
    /// Misses of both TLBs, for pages of users and of the kernel.
    pub fn tlb(&self) -> u64 {
        self.dtlb_user + self.dtlb_kernel + self.itlb_user + self.itlb_kernel
    }
}

/// Misses of a run's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// All tasks.
    pub total: Missed,
    /// Each task with known misses, by thread id.
    pub tasks: BTreeMap<Tid, Missed>,
    /// Programs that ran side by side, by name: the part of their tasks' names before the first `-`.
    pub programs: BTreeMap<String, Program>,
}

/// One of several programs that ran side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its threads, in all its processes.
    pub threads: usize,
    /// CPU time of all its threads, their system calls included.
    pub process_ns: u64,
    /// When its last thread ended, from the start of the workload; None: one has not.
    pub elapsed_ns: Option<u64>,
    /// Its misses.
    pub missed: Missed,
}

/// How often a function ran, and for how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// Calls.
    pub count: u64,
    /// Total time, or instructions under icount.
    pub ns: u64,
}
