// SPDX-License-Identifier: GPL-2.0-only
//! CPython's global interpreter lock [Python/ceval_gil.c]: its threads work one at a time.
//!
//! A thread that finds it taken waits for it, a few ms at most. Then it asks for it, and waits again. The holder sees
//! the request, releases the lock, and waits until another thread has it (`FORCE_SWITCHING`). A thread that blocks or
//! ends, or makes a call that may block, releases it as well, and does not wait.

use super::{Object, object};
use crate::engine::Engine;
use crate::ids::TaskId;
use crate::program::Op;

impl Engine {
    /// Whether a task may work as far as its lock is concerned.
    #[inline]
    pub(crate) fn has_gil(&self, task: TaskId) -> bool {
        let Some(gil) = self.k.tasks[task].gil else { return true };
        !matches!(&self.objects[gil], Object::Gil(gil) if gil.holder != Some(task))
    }

    /// Whether a task must handle its lock before it goes on.
    #[inline]
    pub(crate) fn is_at_gil(&self, task: TaskId) -> bool {
        let Some(gil) = self.k.tasks[task].gil else { return false };
        let Object::Gil(gil) = &self.objects[gil] else { return false };
        let at = &self.k.tasks[task].at;
        let works = matches!(at.op(), Op::Run { .. });
        if gil.holder == Some(task) {
            let may_wait =
                matches!(at.op(), Op::Read { .. } | Op::Write { .. } | Op::Accept { .. });
            return gil.asked && works || may_wait && at.phase == 0;
        }
        // It pays its debt first.
        gil.within == Some(task) || works && at.debt < 1.0
    }

    /// Takes the lock, waits for it, asks for it, or releases it. The task is left running, or blocked and off its CPU.
    pub(crate) fn pass_gil(&mut self, task: TaskId) {
        let Some(at) = self.k.tasks[task].gil else { return };
        self.take_or_drop_gil(task, at);
        self.leave_if_blocked(task);
    }

    fn take_or_drop_gil(&mut self, task: TaskId, at: usize) {
        let gil = object!(self, Gil, at);
        if gil.holder == Some(task) {
            gil.was_asked = gil.asked;
            gil.within = Some(task);
            let next = gil.drop();
            self.wake_first(next, false);
            return;
        }
        if gil.within == Some(task) {
            gil.within = None;
            let waits = gil.was_asked && gil.holder.is_none();
            if waits {
                gil.switching = Some(task);
            }
            for waiter in std::mem::take(&mut gil.outside) {
                self.wake_first(Some(waiter), false);
            }
            if waits {
                self.block(task);
            }
            return;
        }
        if gil.within.is_some() {
            gil.waiters.retain(|(waiter, _)| *waiter != task);
            gil.outside.push_back(task);
            self.k.tasks[task].drop_timer();
            return self.block(task);
        }
        if let Some(place) = gil.waiters.iter().position(|(waiter, _)| *waiter == task)
            && let Some((_, since)) = gil.waiters.remove(place)
        {
            // A task that waited while it changed hands waits once more.
            if let Some(holder) = gil.holder
                && since == gil.switches
            {
                gil.asked = true;
                let ask_ns = gil.ask_ns;
                self.k.tasks[task].at.asks(ask_ns as f64);
                return self.looks_up(holder);
            }
        }
        self.k.tasks[task].drop_timer();
        if gil.holder.is_none() {
            gil.holder = Some(task);
            gil.switches += u64::from(gil.last != Some(task));
            gil.last = Some(task);
            let switched = gil.switching.take();
            self.wake_first(switched, false);
            return;
        }
        gil.waiters.push_back((task, gil.switches));
        let until_ns = self.k.now + gil.interval_ns;
        self.block_until(task, until_ns);
    }

    /// A task blocks or ends.
    pub(crate) fn drop_gil(&mut self, task: TaskId) {
        let Some(at) = self.k.tasks[task].gil else { return };
        let Object::Gil(gil) = &mut self.objects[at] else { return };
        if gil.holder == Some(task) {
            let next = gil.drop();
            self.wake_first(next, false);
        }
    }

    /// The holder sees the request at once if it works now; else before it works on.
    fn looks_up(&mut self, holder: TaskId) {
        let (cpu, now) = (self.k.tasks[holder].cpu, self.k.now);
        if self.k.cpus[cpu].curr == Some(holder) && self.k.in_user(cpu) {
            self.due_at(cpu, now.max(self.k.cpus[cpu].since_ns));
        }
    }
}
