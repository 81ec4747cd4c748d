// SPDX-License-Identifier: GPL-2.0-only
//! Into and out of the policy's custody: select_cpu, enqueue, direct dispatch, dequeue.

use super::dsq::{self, DsqIndex};
use super::flags::*;
use super::preempted::{PREEMPT_RT, PREEMPT_STOP};
use super::{Direct, Ops, Runtime, callback, deq_flags};
use crate::class::{dequeue, enqueue};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

impl Runtime {
    /// `select_task_rq_scx`.
    pub(super) fn select_cpu(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
    ) -> CpuId {
        if self.ops.select_cpu.is_none() {
            let local_nr = self.dsqs[k.this_cpu()].nr;
            let found = self.idle.select(k, task, prev, wake_flags, local_nr);
            if let Ok(cpu) = found {
                self.entity(task).slice = SLICE_DFL_NS;
                self.tasks[task].direct = Some((DSQ_LOCAL, 0));
                return cpu;
            }
            return prev;
        }
        self.direct = Direct::Task(task);
        let p = self.pointer(task);
        let answer = callback!(self, k, select_cpu(p, prev as i32, wake_flags), Some(task));
        self.direct = Direct::No;
        let cpu = answer.unwrap_or(prev as i32);
        if cpu < 0 || cpu as usize >= k.cpus.len() {
            self.error(k, format_args!("invalid CPU {cpu} from ops.select_cpu()"));
            return prev;
        }
        cpu as usize
    }

    /// `enqueue_task_scx`; `extra` are flags of sched_ext's own for a move between CPUs.
    pub(super) fn enqueue_task(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        flags: u64,
        extra: u64,
    ) {
        k.enter(self.func.enqueue_task_scx);
        let mut moved_to = self.tasks[task].moving_to.take();
        let moving = moved_to.is_some() || flags & enqueue::MOVE != 0;
        if flags & enqueue::RESTORE != 0 && k.cpus[cpu].curr == Some(task) {
            moved_to = Some(cpu);
        }
        if !self.is_queued(task) {
            self.set_waiting(k, task);
            self.entity(task).flags |= TASK_QUEUED;
            let enq_flags = (flags & ENQ_WAKEUP) | extra;
            if !moving {
                let p = self.pointer(task);
                callback!(self, k, runnable(p, enq_flags), Some(task));
            }
            self.do_enqueue(k, cpu, task, enq_flags, moved_to == Some(cpu));
        }
        k.leave();
    }

    /// `do_enqueue_task`: straight to a queue if that is decided, else to the policy.
    pub(super) fn do_enqueue(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        flags: u64,
        internal: bool,
    ) {
        k.enter(self.func.do_enqueue_task);
        if flags & ENQ_REENQ != 0 {
            self.count_again(k, task);
        }
        if internal {
            self.dispatch_enqueue(k, cpu, cpu, task, flags);
        } else if !k.cpus[cpu].online {
            self.enqueue_refilled(k, cpu, cpu, task, flags);
        } else if self.tasks[task].direct.is_some() {
            self.direct_dispatch(k, task, flags);
        } else if k.tasks[task].exiting && self.ops.flags & OPS_ENQ_EXITING == 0 {
            self.enqueue_refilled(k, cpu, cpu, task, flags);
        } else if self.ops.enqueue.is_none() {
            let global = self.global_dsq(k, cpu);
            self.enqueue_refilled(k, cpu, global, task, flags);
        } else {
            self.enqueue_by_policy(k, task, flags);
        }
        k.leave();
    }

    /// Kernels after 7.2 unload a policy that re-enqueues a task again and again, and never runs it.
    fn count_again(&mut self, k: &mut Kernel, task: TaskId) {
        let times = self.tasks[task].requeued + 1;
        self.tasks[task].requeued = times;
        if times > REENQ_MAX_REPEAT {
            let name = k.tasks[task].name.clone();
            self.error(k, format_args!("{name} reenqueued {times} times without running"));
        }
    }

    fn enqueue_by_policy(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        self.tasks[task].seq += 1;
        self.tasks[task].ops = Ops::Queueing;
        self.direct = Direct::Task(task);
        let p = self.pointer(task);
        callback!(self, k, enqueue(p, flags), Some(task));
        self.direct = Direct::No;
        if self.tasks[task].direct.is_some() {
            return self.direct_dispatch(k, task, flags);
        }
        let state = &mut self.tasks[task];
        state.in_custody = true;
        state.ops = Ops::Queued(state.seq);
    }

    pub(super) fn enqueue_refilled(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        to: DsqIndex,
        task: TaskId,
        flags: u64,
    ) {
        self.entity(task).slice = SLICE_DFL_NS;
        self.tasks[task].direct = None;
        self.dispatch_enqueue(k, cpu, to, task, flags);
    }

    /// `direct_dispatch`: into the queue that select_cpu or enqueue named. A dispatch to another CPU's local queue
    /// waits until this runqueue can be unlocked.
    fn direct_dispatch(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        let cpu = k.tasks[task].cpu;
        let Some((id, direct_flags)) = self.tasks[task].direct else { return };
        self.tasks[task].ops = Ops::None;
        let to = self.find_dsq(k, id, cpu, cpu);
        let flags = direct_flags | flags;
        if to < k.cpus.len() && to != cpu {
            self.tasks[task].direct = Some((id, flags));
            self.tasks[task].deferred = true;
            self.rqs[cpu].deferred.push(task);
            return self.schedule_deferred(k, cpu, flags);
        }
        self.tasks[task].direct = None;
        self.dispatch_enqueue(k, cpu, to, task, flags);
    }

    /// After a wakeup, `task_woken` performs deferred dispatches; otherwise they need an interrupt of the runqueue's
    /// own CPU.
    fn schedule_deferred(&mut self, k: &mut Kernel, cpu: CpuId, flags: u64) {
        if flags & ENQ_WAKEUP == 0 {
            k.raise_irq_work_on(cpu);
        }
    }

    /// `run_deferred`, with the runqueue of `cpu` locked.
    pub(super) fn run_deferred(&mut self, k: &mut Kernel, cpu: CpuId) {
        while !self.rqs[cpu].deferred.is_empty() {
            let task = self.rqs[cpu].deferred.remove(0);
            self.tasks[task].deferred = false;
            let Some((id, flags)) = self.tasks[task].direct.take() else { continue };
            let to = self.find_dsq(k, id, cpu, k.tasks[task].cpu);
            self.dispatch_to_local(k, cpu, to, task, flags);
        }
    }

    /// `find_dsq_for_dispatch`: "local" means the runqueue of `cpu`, "global" the node of `task_cpu`.
    pub(super) fn find_dsq(
        &mut self,
        k: &mut Kernel,
        id: u64,
        cpu: CpuId,
        task_cpu: CpuId,
    ) -> DsqIndex {
        let global = self.global_dsq(k, task_cpu);
        if id == DSQ_LOCAL {
            return cpu;
        }
        if id & DSQ_LOCAL_ON == DSQ_LOCAL_ON {
            let on = (id & DSQ_LOCAL_CPU_MASK) as usize;
            if on < k.cpus.len() {
                return on;
            }
            self.error(k, format_args!("invalid CPU {on} in SCX_DSQ_LOCAL_ON dispatch verdict"));
            return global;
        }
        if id == DSQ_GLOBAL {
            return global;
        }
        self.user_dsqs.get(id).unwrap_or_else(|| {
            k.fail(format!("policy {}: non-existent DSQ {id:#x}", self.policy));
            global
        })
    }

    pub(super) fn global_dsq(&self, k: &Kernel, cpu: CpuId) -> DsqIndex {
        k.cpus.len() + k.machine.cpus[cpu].node as usize
    }

    /// `dispatch_enqueue`: puts the task into a queue. `cpu`'s runqueue is locked.
    pub(super) fn dispatch_enqueue(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        to: DsqIndex,
        task: TaskId,
        flags: u64,
    ) {
        k.enter(self.func.dispatch_enqueue);
        if let Some(lock) = self.dsqs[to].lock {
            k.lock(lock);
        }
        self.link(k, to, task, flags);
        match self.dsqs[to].lock {
            None => self.arrived_locally(k, to, task, flags),
            Some(lock) => {
                let leaves = self.dsqs[to].id == DSQ_GLOBAL && self.leave_custody(task);
                if self.dsqs[to].id != DSQ_GLOBAL {
                    self.tasks[task].in_custody = true;
                }
                k.unlock(lock);
                if leaves {
                    let p = self.pointer(task);
                    callback!(self, k, dequeue(p, 0), Some(task));
                }
            }
        }
        self.tasks[task].ops = Ops::None;
        let _ = cpu;
        k.leave();
    }

    /// Links the task into the queue, at the place its flags and vtime give it.
    fn link(&mut self, k: &mut Kernel, to: DsqIndex, task: TaskId, flags: u64) {
        let dsq = &mut self.dsqs[to];
        let by_vtime = flags & ENQ_DSQ_PRIQ != 0;
        let id = dsq.id;
        let wrong = match by_vtime {
            true if id & DSQ_FLAG_BUILTIN != 0 => {
                Some("cannot use vtime ordering for built-in DSQs")
            }
            true if dsq.nr > dsq.by_vtime => Some("already had FIFO-enqueued tasks"),
            false if dsq.by_vtime > 0 => Some("already had PRIQ-enqueued tasks"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            k.fail(format!("policy {}: DSQ {id:#x} {wrong}", self.policy));
        }
        if by_vtime {
            let structs = &self.structs;
            let vtime = |task: TaskId| structs[task].scx.dsq_vtime;
            let before = |a, b| (vtime(a).wrapping_sub(vtime(b)) as i64) < 0;
            dsq::insert_by_vtime(dsq, to, &mut self.links, task, before);
        } else {
            let at_head = flags & (ENQ_HEAD | ENQ_PREEMPT) != 0;
            dsq::insert(dsq, to, &mut self.links, task, at_head);
        }
    }

    /// `local_dsq_post_enq`: the CPU is woken if it idles, and made to switch if it should.
    pub(super) fn arrived_locally(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if self.leave_custody(task) {
            let p = self.pointer(task);
            callback!(self, k, dequeue(p, 0), Some(task));
        }
        if self.rqs[cpu].in_balance {
            return;
        }
        match k.cpus[cpu].curr {
            None => k.resched(cpu),
            // The slice of a task of another class does not end its run.
            Some(curr) if k.tasks[curr].realtime.yes() => {}
            Some(curr) if flags & ENQ_PREEMPT != 0 && curr != task => {
                self.entity(curr).slice = 0;
                k.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// `task_leave_custody`: whether the policy must be told that it no longer has the task.
    pub(super) fn leave_custody(&mut self, task: TaskId) -> bool {
        let state = &mut self.tasks[task];
        if !state.in_custody || state.moving_to.is_some() {
            return false;
        }
        state.in_custody = false;
        true
    }

    /// `dequeue_task_scx`.
    pub(super) fn dequeue_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if !self.is_queued(task) {
            return;
        }
        k.enter(self.func.dequeue_task_scx);
        let moving = flags & dequeue::MOVE != 0;
        self.ops_dequeue(k, task, deq_flags(flags));
        let p = self.pointer(task);
        if !moving {
            if self.ops.stopping.is_some() && k.cpus[cpu].curr == Some(task) {
                self.update_curr(k, task);
                callback!(self, k, stopping(p, false), Some(task));
            }
            callback!(self, k, quiescent(p, deq_flags(flags)), Some(task));
        }
        self.entity(task).flags &= !TASK_QUEUED;
        self.dispatch_dequeue(k, cpu, task);
        self.tasks[task].direct = None;
        k.leave();
    }

    /// `ops_dequeue`: takes the task back from the policy.
    pub(super) fn ops_dequeue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        self.clear_waiting(task, false);
        self.tasks[task].ops = Ops::None;
        if self.leave_custody(task) {
            let p = self.pointer(task);
            callback!(self, k, dequeue(p, flags), Some(task));
        }
    }

    /// `dispatch_dequeue`: takes the task out of the queue it is in.
    pub(super) fn dispatch_dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        if std::mem::take(&mut self.tasks[task].deferred) {
            self.rqs[cpu].deferred.retain(|other| *other != task);
        }
        let Some(from) = self.links[task].dsq else { return };
        k.enter(self.func.dispatch_dequeue);
        let lock = self.dsqs[from].lock;
        if let Some(lock) = lock {
            k.lock(lock);
        }
        dsq::remove(&mut self.dsqs[from], &mut self.links, task);
        if let Some(lock) = lock {
            k.unlock(lock);
        }
        k.leave();
    }

    /// `put_prev_task_scx`: the task that ran goes back to a queue or to the policy.
    pub(super) fn put_prev(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: TaskId,
        next: Option<TaskId>,
    ) {
        self.put(k, cpu, prev, next);
        if let Some(next) = next.filter(|next| k.tasks[*next].realtime.yes()) {
            self.release(k, cpu, next, PREEMPT_RT);
        }
    }

    /// The stopper takes a CPU from a running task that may not run there any more. The policy sees it as another
    /// class, like a real-time task. The task is then removed from whatever queue the policy has put it into.
    pub(super) fn stop(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.put(k, cpu, task, Some(task));
        self.release(k, cpu, task, PREEMPT_STOP);
    }

    fn put(&mut self, k: &mut Kernel, cpu: CpuId, prev: TaskId, next: Option<TaskId>) {
        self.update_curr(k, prev);
        if !self.is_queued(prev) {
            return;
        }
        let p = self.pointer(prev);
        callback!(self, k, stopping(p, true), Some(prev));
        self.set_waiting(k, prev);
        if self.entity(prev).slice > 0 {
            // Another class, or an offline CPU, took it away: it is next again.
            return self.dispatch_enqueue(k, cpu, cpu, prev, ENQ_HEAD);
        }
        let flags = if next.is_none() { ENQ_LAST } else { 0 };
        self.do_enqueue(k, cpu, prev, flags, false);
    }
}
