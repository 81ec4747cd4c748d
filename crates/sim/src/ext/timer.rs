// SPDX-License-Identifier: GPL-2.0-only
//! A policy's timers (`bpf_timer`), and moves between queues, which these may make.

use policy::native::Expires;

use super::Runtime;
use super::dsq::{self, DsqIndex};
use super::flags::ENQ_DSQ_PRIQ;
use crate::event::{Due, Irq};
use crate::ids::TaskId;
use crate::kernel::Kernel;

impl Runtime {
    /// `bpf_timer_start`: the timer expires on this CPU.
    pub(super) fn timer_start(&mut self, k: &mut Kernel, expires: Expires, number: u32, ns: u64) {
        let (at, start) = self.timers.start(expires, number);
        let cpu = k.this_cpu() as u16;
        let irq = Irq::Class { number: at, start };
        k.queue.push(k.now_ns() + ns, Due::Irq { cpu, irq });
    }

    /// Calls a timer's function, unless the timer was started anew.
    pub(super) fn timer_expires(&mut self, k: &mut Kernel, at: u32, start: u32) {
        let Some((expires, number)) = self.timers.due(at, start) else { return };
        k.enter(self.calls.timer);
        self.in_timer = true;
        // SAFETY: the copy is loaded, and its kfuncs' kernel is set for the call.
        self.with_kernel(k, || unsafe { expires(number) });
        self.in_timer = false;
        k.leave();
    }

    /// `scx_bpf_dsq_move_vtime` between queues of the policy's own: from dispatch, with this CPU's runqueue locked, or
    /// from a timer, with no lock.
    pub(super) fn move_between_dsqs(
        &mut self,
        k: &mut Kernel,
        [from, to]: [DsqIndex; 2],
        task: TaskId,
        vtime: u64,
    ) {
        if !self.in_timer && self.dispatching.is_none() {
            return self.error(k, "scx_bpf_dsq_move_vtime outside of dispatch and timers");
        }
        k.enter(self.func.move_task_between_dsqs);
        let (cpu, here) = (k.tasks[task].cpu, self.dispatching);
        if here != Some(cpu) {
            here.into_iter().for_each(|here| k.rq_unlock(here));
            k.rq_lock(cpu);
        }
        if self.links[task].dsq == Some(from) {
            let lock = self.dsqs[from].lock;
            lock.into_iter().for_each(|lock| k.lock(lock));
            self.left_behind = Some((task, dsq::next(&self.links, task)));
            dsq::remove(&mut self.dsqs[from], &mut self.links, task);
            lock.into_iter().for_each(|lock| k.unlock(lock));
            self.entity(task).dsq_vtime = vtime;
            self.dispatch_enqueue(k, cpu, to, task, ENQ_DSQ_PRIQ);
        }
        if here != Some(cpu) {
            k.rq_unlock(cpu);
            here.into_iter().for_each(|here| k.rq_lock(here));
        }
        k.leave();
    }
}
