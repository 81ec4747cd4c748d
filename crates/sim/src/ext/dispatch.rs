// SPDX-License-Identifier: GPL-2.0-only
//! From the policy to a CPU: dispatch, the queues it consumes, moves between CPUs, kicks.

use super::dsq::{self, DsqIndex};
use super::flags::*;
use super::{Inserted, Ops, Runtime, callback};
use crate::checkers::Hint;
use crate::class::{dequeue, enqueue};
use crate::ids::{CpuId, TaskId, tid};
use crate::kernel::Kernel;

/// The result of a balance: what can run.
#[derive(PartialEq)]
enum Verdict {
    Nothing,
    /// The local queue has tasks.
    Local,
    /// The present task goes on.
    Prev,
}

impl Runtime {
    /// `pick_task_scx`, with the runqueue of `cpu` locked.
    pub(super) fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: Option<TaskId>,
    ) -> Option<TaskId> {
        k.enter(self.func.pick_task_scx);
        self.rqs[cpu].in_balance = true;
        k.enter(self.func.balance_one);
        let verdict = self.balance(k, cpu, prev);
        k.leave();
        self.rqs[cpu].in_balance = false;
        if !self.rqs[cpu].deferred.is_empty() {
            k.raise_irq_work();
        }
        let next = match verdict {
            Verdict::Prev => prev,
            _ => self.dsqs[cpu].first(),
        };
        if let Some(next) = next
            && self.entity(next).slice == 0
        {
            self.entity(next).slice = SLICE_DFL_NS;
        }
        k.leave();
        next
    }

    /// `balance_one`: the present task goes on while it has slice left; then the local queue; then the tasks that the
    /// policy dispatches. The present task runs again if there is no other.
    fn balance(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) -> Verdict {
        self.acquire(k, cpu);
        if let Some(prev) = prev {
            self.update_curr(k, prev);
            if self.may_go_on(prev) {
                return Verdict::Prev;
            }
        }
        if self.dsqs[cpu].nr > 0 {
            return Verdict::Local;
        }
        let verdict = self.dispatch(k, cpu, prev);
        if verdict != Verdict::Nothing {
            return verdict;
        }
        let last = prev.is_some_and(|prev| self.is_queued(prev));
        if last && self.ops.flags & OPS_ENQ_LAST == 0 { Verdict::Prev } else { Verdict::Nothing }
    }

    fn may_go_on(&mut self, prev: TaskId) -> bool {
        self.is_queued(prev) && self.entity(prev).slice > 0
    }

    /// `scx_dispatch_sched`: calls dispatch until this CPU has a task to run, or it produces no more tasks.
    fn dispatch(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) -> Verdict {
        let global = self.global_dsq(k, cpu);
        if self.consume(k, cpu, global) {
            return Verdict::Local;
        }
        if self.ops.dispatch.is_none() || !k.cpus[cpu].online {
            return Verdict::Nothing;
        }
        for _ in 0..DISPATCH_LOOPS_MAX {
            let p = prev.map_or(std::ptr::null_mut(), |prev| self.pointer(prev));
            self.dispatching = Some(cpu);
            self.produced = 0;
            callback!(self, k, dispatch(cpu as i32, p), prev);
            self.dispatching = None;
            self.flush(k, cpu);
            if prev.is_some_and(|prev| self.may_go_on(prev)) {
                return Verdict::Prev;
            }
            if self.dsqs[cpu].nr > 0 || self.consume(k, cpu, global) {
                return Verdict::Local;
            }
            if self.produced == 0 {
                return Verdict::Nothing;
            }
        }
        self.kick(k, cpu, 0);
        Verdict::Nothing
    }

    /// `flush_dispatch_buf`: performs the insertions of a call of dispatch.
    pub(super) fn flush(&mut self, k: &mut Kernel, cpu: CpuId) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.produced += buffer.len();
        for inserted in buffer.drain(..) {
            k.enter(self.func.flush_dispatch_buf);
            self.finish_dispatch(k, cpu, &inserted);
            k.leave();
        }
        self.buffer = buffer;
    }

    /// `finish_dispatch`: an insertion counts only if the task has stayed with the policy since.
    fn finish_dispatch(&mut self, k: &mut Kernel, cpu: CpuId, inserted: &Inserted) {
        let task = inserted.task;
        match self.tasks[task].ops {
            Ops::Queued(seq) if Some(seq) == inserted.seq => {}
            _ => return,
        }
        let to = self.find_dsq(k, inserted.dsq, cpu, k.tasks[task].cpu);
        match to < k.cpus.len() {
            true => self.dispatch_to_local(k, cpu, to, task, inserted.flags),
            false => self.dispatch_enqueue(k, cpu, to, task, inserted.flags),
        }
    }

    /// `dispatch_to_local_dsq`, with the runqueue of `cpu` locked.
    pub(super) fn dispatch_to_local(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        to: CpuId,
        task: TaskId,
        flags: u64,
    ) {
        k.enter(self.func.dispatch_to_local_dsq);
        let from = k.tasks[task].cpu;
        if cpu == from && cpu == to {
            self.dispatch_enqueue(k, cpu, to, task, flags);
            return k.leave();
        }
        self.tasks[task].ops = Ops::None;
        let mut locked = cpu;
        if locked != from {
            k.rq_unlock(locked);
            k.rq_lock(from);
            locked = from;
        }
        if from == to {
            self.dispatch_enqueue(k, to, to, task, flags);
        } else if !k.tasks[task].allowed.has(to) {
            self.not_allowed(k, to, task);
        } else if !k.cpus[to].online {
            let global = self.global_dsq(k, from);
            self.dispatch_enqueue(k, from, global, task, flags);
        } else {
            self.move_remote(k, task, flags, from, to);
            locked = to;
        }
        if locked == to && k.cpus[to].idle() {
            k.resched(to);
        }
        if locked != cpu {
            k.rq_unlock(locked);
            k.rq_lock(cpu);
        }
        k.leave();
    }

    fn not_allowed(&mut self, k: &mut Kernel, to: CpuId, task: TaskId) {
        let name = k.tasks[task].name.clone();
        let target = "SCX_DSQ_LOCAL[_ON] target CPU";
        self.error(k, format_args!("{target} {to} not allowed for {name}[{}]", tid(task)));
    }

    /// `move_remote_task_to_local_dsq`: with `from` locked; `to` is locked afterwards.
    fn move_remote(&mut self, k: &mut Kernel, task: TaskId, flags: u64, from: CpuId, to: CpuId) {
        self.tasks[task].moving_to = Some(to);
        self.dequeue_task(k, from, task, dequeue::MOVE);
        k.set_task_cpu(task, to);
        k.rq_unlock(from);
        k.rq_lock(to);
        self.enqueue_task(k, to, task, enqueue::MOVE, flags);
    }

    /// `consume_dispatch_q`: moves the first task that may run on `cpu` into its local queue.
    pub(super) fn consume(&mut self, k: &mut Kernel, cpu: CpuId, from: DsqIndex) -> bool {
        let Some(lock) = self.dsqs[from].lock else { return false };
        k.call(self.func.consume_dispatch_q);
        if self.dsqs[from].nr == 0 {
            return false;
        }
        k.lock(lock);
        let mut next = self.dsqs[from].first();
        while let Some(task) = next {
            let of = k.tasks[task].cpu;
            if of == cpu || k.tasks[task].allowed.has(cpu) && k.cpus[cpu].online {
                k.enter(self.func.move_task_between_dsqs);
                self.move_here(k, cpu, from, task);
                k.leave();
                return true;
            }
            // A task that may not run here: its line is read, and it is skipped.
            k.charge_ns(k.machine.line_ns(of, cpu));
            next = dsq::next(&self.links, task);
        }
        k.unlock(lock);
        false
    }

    /// `scx_dsq_move`: moves this task of a queue into the local queue of `cpu`.
    pub(super) fn take(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        from: DsqIndex,
        task: TaskId,
    ) -> bool {
        let Some(lock) = self.dsqs[from].lock else { return false };
        k.enter(self.func.move_task_between_dsqs);
        k.lock(lock);
        let waits = self.links[task].dsq == Some(from);
        if waits && (k.tasks[task].cpu == cpu || k.tasks[task].allowed.has(cpu)) {
            self.move_here(k, cpu, from, task);
        } else {
            k.unlock(lock);
            if waits {
                self.not_allowed(k, cpu, task);
            }
        }
        k.leave_with(waits)
    }

    /// Moves a task out of a queue into the local queue. The queue's lock is held, and released.
    fn move_here(&mut self, k: &mut Kernel, cpu: CpuId, from: DsqIndex, task: TaskId) {
        let of = k.tasks[task].cpu;
        if of != cpu {
            k.rq_unlock(cpu);
        }
        dsq::remove(&mut self.dsqs[from], &mut self.links, task);
        if let Some(lock) = self.dsqs[from].lock {
            k.unlock(lock);
        }
        if of == cpu {
            dsq::insert(&mut self.dsqs[cpu], cpu, &mut self.links, task, false);
            return self.arrived_locally(k, cpu, task, 0);
        }
        k.rq_lock(of);
        self.move_remote(k, task, 0, of, cpu);
    }

    // ---- kicks ----

    /// `scx_kick_cpu`: done in an interrupt of this CPU.
    pub(super) fn kick(&mut self, k: &mut Kernel, cpu: CpuId, flags: u64) {
        k.enter(self.func.scx_kick_cpu);
        let this = k.this_cpu();
        if flags & KICK_IDLE != 0 {
            let lock = k.rq_lock_of(cpu);
            // The holder may be this code itself, as it may in the kernel: no kick is skipped then.
            let skip = k.trylock(lock) && {
                k.unlock(lock);
                !k.cpus[cpu].idle() && !self.rqs[cpu].in_balance
            };
            if skip {
                return k.leave();
            }
            self.rqs[this].kick_if_idle.add(cpu);
        } else {
            self.rqs[this].kick.add(cpu);
            if flags & KICK_PREEMPT != 0 {
                self.rqs[this].kick_preempt.add(cpu);
                if self.dispatching.is_some() {
                    k.hint_early(Hint::Wants(cpu as u32));
                }
            }
        }
        k.raise_irq_work();
        k.leave();
    }

    /// `kick_cpus_irq_workfn`, and direct dispatches that no hook has performed.
    pub(super) fn irq_work(&mut self, k: &mut Kernel, this: CpuId) {
        if !self.rqs[this].deferred.is_empty() || self.rqs[this].reenqueue {
            k.rq_lock(this);
            self.run_deferred(k, this);
            self.reenqueue_deferred(k, this);
            k.rq_unlock(this);
        }
        let kick = std::mem::take(&mut self.rqs[this].kick);
        let preempt = std::mem::take(&mut self.rqs[this].kick_preempt);
        let if_idle = std::mem::take(&mut self.rqs[this].kick_if_idle).without(&kick);
        for cpu in kick.or(&if_idle).iter() {
            k.enter(self.func.kick_cpus_irq_workfn);
            k.rq_lock(cpu);
            let busy = !k.cpus[cpu].idle() && !self.rqs[cpu].in_balance;
            let usable = k.cpus[cpu].online || cpu == this;
            // A higher class does not give way for it [kick_one_cpu].
            if usable && !k.runs_realtime(cpu) && !(if_idle.has(cpu) && busy) {
                if let Some(curr) = k.cpus[cpu].curr.filter(|_| preempt.has(cpu)) {
                    self.entity(curr).slice = 0;
                }
                k.resched(cpu);
            }
            k.rq_unlock(cpu);
            k.leave();
        }
    }
}
