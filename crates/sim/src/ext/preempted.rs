// SPDX-License-Identifier: GPL-2.0-only
//! A higher class takes a CPU and returns it: the callbacks of the policy, and its means for the waiting tasks.

use super::dsq;
use super::flags::*;
use super::{Runtime, callback};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

/// `SCX_CPU_PREEMPT_RT`: a real-time task has taken the CPU.
pub(super) const PREEMPT_RT: u32 = 0;
/// `SCX_CPU_PREEMPT_STOP`: the stopper has taken the CPU, for some µs.
pub(super) const PREEMPT_STOP: u32 = 2;

/// `struct scx_cpu_release_args`. Policies only know its name.
#[repr(C)]
struct ReleaseArgs {
    reason: u32,
    task: *mut policy::native::TaskStruct,
}

impl Runtime {
    /// `switch_class`: tells the policy, once until it has the CPU again.
    pub(super) fn release(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId, reason: u32) {
        if std::mem::replace(&mut self.rqs[cpu].released, true) {
            return;
        }
        let mut args = ReleaseArgs { reason, task: self.pointer(next) };
        let args = (&raw mut args).cast();
        self.releasing = true;
        callback!(self, k, cpu_release(cpu as i32, args), Some(next));
        self.releasing = false;
    }

    /// At the beginning of `balance_one`: the policy has the CPU again.
    pub(super) fn acquire(&mut self, k: &mut Kernel, cpu: CpuId) {
        if std::mem::take(&mut self.rqs[cpu].released) {
            callback!(self, k, cpu_acquire(cpu as i32, std::ptr::null_mut()), None);
        }
    }

    /// `reenq_local`: re-enqueues the tasks in the local queue of this CPU, and returns their number. The runqueue is
    /// locked. While a CPU runs a BPF program its present task may not migrate. Such a task goes to the policy only if
    /// the policy asks for it (`do_enqueue_task`).
    pub(super) fn reenqueue(&mut self, k: &mut Kernel, cpu: CpuId, in_program: bool) -> u32 {
        let mut waiting = Vec::new();
        let mut next = self.dsqs[cpu].first();
        while let Some(task) = next {
            // The stopper is about to take it [migration_pending].
            if !k.tasks[task].must_move {
                waiting.push(task);
            }
            next = dsq::next(&self.links, task);
        }
        for task in &waiting {
            self.dispatch_dequeue(k, cpu, *task);
        }
        let keeps = in_program && self.ops.flags & OPS_ENQ_MIGRATION_DISABLED == 0;
        for task in &waiting {
            match keeps && k.cpus[cpu].curr == Some(*task) {
                true => self.enqueue_refilled(k, cpu, cpu, *task, ENQ_REENQ),
                false => self.do_enqueue(k, cpu, *task, ENQ_REENQ, false),
            }
        }
        waiting.len() as u32
    }

    /// `process_deferred_reenq_locals`.
    pub(super) fn reenqueue_deferred(&mut self, k: &mut Kernel, cpu: CpuId) {
        if std::mem::take(&mut self.rqs[cpu].reenqueue) {
            self.reenqueue(k, cpu, false);
        }
    }
}
