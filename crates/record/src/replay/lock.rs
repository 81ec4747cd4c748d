// SPDX-License-Identifier: GPL-2.0-only
//! Which task holds its interpreter's lock, if its process has one ([`crate::gil`]).

use super::{Cpu, Replay, Task};
use crate::gil::{HAS_NS, NO_WORD};

impl Replay {
    /// A task holds no interpreter's lock from now on.
    pub(super) fn lets_go(&mut self, task: usize) {
        let of = &mut self.tasks[task];
        of.stint_ns = 0.0;
        if std::mem::take(&mut of.has_lock)
            && let Some(threads) = self.threads.get_mut(&of.process)
        {
            threads.have -= 1;
        }
    }

    /// How many other tasks of its process hold an interpreter's lock, if there is one.
    pub(super) fn others_with_lock(&self, task: usize) -> u32 {
        let process = self.tasks[task].process;
        let known = self.threads.get(&process).map_or(0, |threads| threads.have);
        let takes = |cpu: &Cpu| {
            let Some(other) = self.index.get(&cpu.current).filter(|_| cpu.current != 0) else {
                return false;
            };
            let of = &self.tasks[*other];
            let Some(on) = of.on.filter(|_| *other != task && of.process == process) else {
                return false;
            };
            let ran_ns = (self.clocks.ran_ns(on.cpu) - on.since_ran_ns) as f64;
            !of.has_lock && !of.dead && of.stint_ns + ran_ns > HAS_NS
        };
        known + self.cpus.iter().filter(|cpu| takes(cpu)).count() as u32
    }

    /// A task gives up waiting in this call. The holder of the lock that it waits for is awake. It may not have worked
    /// for long yet, if other tasks have its CPU.
    pub(super) fn gives_up(&mut self, task: usize, call: u32) {
        let process = self.tasks[task].process;
        let awake =
            |of: &Task| !of.dead && of.blocked.is_none_or(|blocked| blocked.woken.is_some());
        let others = self.tasks.iter().enumerate().filter(|(other, _)| *other != task);
        let meanwhile = others.filter(|(_, of)| of.process == process).any(|(_, of)| awake(of));
        self.threads.entry(process).or_default().gave_up(call, meanwhile);
    }

    /// A task wakes another by a futex: the word's number, if both are of one process.
    pub(super) fn woken_at(&mut self, waker: usize, woken: usize, object: u32) -> u32 {
        let process = self.tasks[waker].process;
        if process != self.tasks[woken].process {
            return NO_WORD;
        }
        if let Some(call) = self.tasks[woken].timed {
            self.threads.entry(process).or_default().woken(call, object);
        }
        self.words.number(process, object)
    }
}
