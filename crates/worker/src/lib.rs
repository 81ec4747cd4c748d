// SPDX-License-Identifier: GPL-2.0-only
//! Runs a [`workload::Workload`] for real: a process for each address space, a thread for each task.
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
mod error;
mod groups;
mod memory;
mod processes;
mod report;
mod shared;
mod sync;
mod task;

pub use available::{available_bytes, bytes_of};
pub use error::Error;
pub use groups::Groups;
pub use processes::run;
pub use report::{Report, TaskReport};
