// SPDX-License-Identifier: GPL-2.0-only
//! The watchdog: a policy that leaves a task waiting for too long is given up.

use super::Runtime;
use crate::ids::{TaskId, tid};
use crate::kernel::Kernel;

impl Runtime {
    /// `set_task_runnable`: the task waits from now on, or still.
    pub(super) fn set_waiting(&mut self, k: &Kernel, task: TaskId) {
        let state = &mut self.tasks[task];
        if std::mem::take(&mut state.reset_wait) || state.waits_since_ns == 0 {
            state.waits_since_ns = k.now_ns().max(1);
        }
        state.waits = true;
    }

    /// `clr_task_runnable`; `ran` is whether it got a CPU, so that its next wait is a new one.
    pub(super) fn clear_waiting(&mut self, task: TaskId, ran: bool) {
        let state = &mut self.tasks[task];
        state.waits = false;
        state.reset_wait |= ran;
    }

    /// `check_rq_for_timeouts`, for every runqueue.
    pub(super) fn stalled(&self, k: &Kernel) -> Option<String> {
        let now = k.now_ns();
        let waited_ns = |task: TaskId| now.saturating_sub(self.tasks[task].waits_since_ns);
        let stalled = (0..self.tasks.len())
            .find(|task| self.tasks[*task].waits && waited_ns(*task) > self.timeout_ns)?;
        Some(format!(
            "policy {}: runnable task stall: {}[{}] failed to run for {:.3}s",
            self.policy,
            k.tasks[stalled].name,
            tid(stalled),
            waited_ns(stalled) as f64 / 1e9,
        ))
    }
}
