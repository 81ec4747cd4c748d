// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of tasks and CPUs.

use trace::Tid;

/// Index into [`crate::Kernel::tasks`]; its thread id in traces is one more.
pub type TaskId = usize;

/// A CPU's number.
pub type CpuId = usize;

/// The thread id of a task in traces.
pub(crate) fn tid(task: TaskId) -> Tid {
    task as Tid + 1
}
