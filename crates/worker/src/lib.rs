// SPDX-License-Identifier: GPL-2.0-only
//! Runs a [`Workload`] for real: a process for each address space, a thread for each task.
//!
//! So the same rt-app file can run in the simulator and on a kernel. Work is burnt in CPU time of the thread
//! ([`burn`]), not in loops, so that it means the same on a slow guest. Pipes and sockets are the kernel's. Locks,
//! conditions and barriers are futexes in memory that all processes share ([`sync`]). Nothing is printed while the
//! workload runs: results stay in shared memory until all have ended.
//!
//! Every thread exists before the workload starts; [`workload::Step::Fork`] releases a waiting thread, so a fork's own
//! cost is not part of the observation.
//!
//! **Invariant:** [`run`] leaves no process behind, even after a failure, and none outlives its caller.

mod available;
mod burn;
mod channel;
mod groups;
mod memory;
mod processes;
mod shared;
mod sync;
mod task;

pub use available::{available_bytes, bytes_of};
pub use groups::Groups;
pub use processes::run;

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

/// Why a workload could not run, in one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {what}: {cause}")]
    System { what: &'static str, cause: std::io::Error },
    #[error("task {task}: cannot {what}: {cause}")]
    Task { task: String, what: &'static str, cause: std::io::Error },
    #[error(
        "cannot make cgroup {path}: {cause}; workloads with cgroups need root, the cpu controller of \
         version 2, and no group of that name"
    )]
    Group { path: String, cause: std::io::Error },
    #[error("task {task}: none of its CPUs {cpus:?} is online here")]
    NoCpu { task: String, cpus: Vec<usize> },
    #[error("process {pid} of the workload died: {how}")]
    Died { pid: u32, how: String },
}
