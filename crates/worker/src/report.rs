// SPDX-License-Identifier: GPL-2.0-only
//! What a workload did.

use serde::{Deserialize, Serialize};

/// The result of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When all tasks started together, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// From the common start until the last task had ended.
    pub elapsed_ns: u64,
    /// Every task, in the order of [`workload::Workload::tasks`].
    pub tasks: Vec<TaskReport>,
}

/// The result of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its name; the kernel's name of the thread is its first 15 bytes.
    pub name: String,
    /// Its thread id.
    pub tid: u32,
    /// Its process id.
    pub pid: u32,
    /// CPU time since the common start, as the kernel accounts it.
    pub cpu_ns: u64,
    /// CPU time that it was asked to burn and did ([`workload::Step::Run`]).
    pub work_ns: u64,
    /// Steps it has finished.
    pub steps: u64,
    /// Bytes of its memory on each node, at its end; empty if it asks for no memory, or the kernel does not tell.
    pub resident: Vec<u64>,
}
