// SPDX-License-Identifier: GPL-2.0-only
//! A policy's timers (`bpf_timer`), and moves between queues, which these may make.

use std::collections::HashMap;

use policy::native::Expires;

use super::Runtime;
use super::dsq::{self, DsqIndex};
use super::flags::ENQ_DSQ_PRIQ;
use crate::event::{Due, Irq};
use crate::ids::TaskId;
use crate::kernel::Kernel;

/// A policy's timers. A policy may have several tables of them: each table has its own function, and its own numbers.
#[derive(Default)]
pub(super) struct Timers {
    timers: Vec<Timer>,
    by_number: HashMap<(usize, u32), u32>,
    /// One expires.
    expires: bool,
}

struct Timer {
    expires: Expires,
    number: u32,
    /// How often it was started.
    starts: u32,
}

impl Timers {
    /// Starts one. Returns its index, and how often it has been started.
    fn start(&mut self, expires: Expires, number: u32) -> (u32, u32) {
        let new = self.timers.len() as u32;
        let at = *self.by_number.entry((expires as usize, number)).or_insert(new);
        if at == new {
            self.timers.push(Timer { expires, number, starts: 0 });
        }
        let timer = &mut self.timers[at as usize];
        timer.starts += 1;
        (at, timer.starts)
    }

    /// What to call for a start, with which number. None: the timer was started anew since.
    fn due(&self, at: u32, start: u32) -> Option<(Expires, u32)> {
        let timer = &self.timers[at as usize];
        (timer.starts == start).then_some((timer.expires, timer.number))
    }
}

impl Runtime {
    /// `bpf_timer_start`: the timer expires on this CPU.
    pub(super) fn timer_start(&mut self, k: &mut Kernel, expires: Expires, number: u32, ns: u64) {
        let (number, start) = self.timers.start(expires, number);
        let cpu = k.this_cpu() as u16;
        k.queue.push(k.now_ns() + ns, Due::Irq { cpu, irq: Irq::Class { number, start } });
    }

    /// Calls a timer's function, unless the timer was started anew.
    pub(super) fn timer_expires(&mut self, k: &mut Kernel, at: u32, start: u32) {
        let Some((expires, number)) = self.timers.due(at, start) else { return };
        k.enter(self.calls.timer);
        self.timers.expires = true;
        // SAFETY: the copy is loaded, and its kfuncs' kernel is set for the call.
        self.with_kernel(k, || unsafe { expires(number) });
        self.timers.expires = false;
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
        if !self.timers.expires && self.dispatching.is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn of_cpus(_: u32) {
        std::hint::black_box(1);
    }

    unsafe extern "C" fn of_limits(_: u32) {
        std::hint::black_box(2);
    }

    #[test]
    fn timers_of_two_tables_with_one_number_are_two() {
        let mut timers = Timers::default();
        let first = timers.start(of_cpus, 3);
        let second = timers.start(of_limits, 3);
        let called = |(at, start): (u32, u32), timers: &Timers| {
            timers.due(at, start).map(|(expires, number)| (expires as usize, number))
        };
        assert_eq!(called(first, &timers), Some((of_cpus as *const () as usize, 3)));
        assert_eq!(called(second, &timers), Some((of_limits as *const () as usize, 3)));
        let anew = timers.start(of_cpus, 3);
        assert_eq!(called(first, &timers), None);
        assert_eq!(called(anew, &timers), Some((of_cpus as *const () as usize, 3)));
    }
}
