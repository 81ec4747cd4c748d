// SPDX-License-Identifier: GPL-2.0-only
//! Wakes kernel threads and lets them rest: the engine's part of `housekeeping.rs`.

use machine::Each;
use trace::Kind;

use super::{Housekeeping, Keeper};
use crate::engine::Engine;
use crate::ids::{CpuId, TaskId, tid};
use crate::task::State;

impl Engine {
    /// Announces them to the class, from `first` on; they wait for their timers.
    pub(crate) fn keepers_rest(&mut self, first: TaskId) {
        for task in first..self.k.tasks.len() {
            self.class.fork(&mut self.k, task);
            self.k.tasks[task].state = State::Blocked;
            let cpus = self.k.tasks[task].allowed.words().to_vec();
            self.k.emit(Kind::Affinity { tid: tid(task), cpus });
        }
        // That was long ago in virtual time.
        self.k.now = 0;
    }

    /// After a tick: wakes the threads with expired timers. A timer is on its thread's last CPU. If that CPU has no
    /// ticks, other CPUs check the timers of threads that are not bound to it (`tmigr_handle_remote`).
    pub(crate) fn wake_keepers(&mut self) {
        let (this, now) = (self.k.this, self.k.now);
        for index in 0..self.housekeeping.keepers.len() {
            let Keeper { task, ref kind, due_ns, .. } = self.housekeeping.keepers[index];
            let cpu = self.k.tasks[task].cpu;
            let looks = cpu == this || kind.each == Each::Node && self.k.sleeps(cpu);
            let usable = self.k.tasks[task].allowed.and(&self.k.online).lowest().is_some();
            if looks && usable && due_ns.is_some_and(|due_ns| due_ns <= now) {
                self.housekeeping.keepers[index].due_ns = None;
                self.try_to_wake_up(task, false);
            }
        }
    }

    /// A CPU is online again: its threads are bound to it again [rebind_workers, kthreads_online_cpu].
    pub(crate) fn rebind_keepers(&mut self, cpu: CpuId) {
        for index in 0..self.housekeeping.keepers.len() {
            let Keeper { task, cpus, .. } = self.housekeeping.keepers[index];
            if cpus.has(cpu) && self.k.tasks[task].allowed != cpus {
                self.set_affinity(task, cpus, self.k.now);
            }
        }
    }

    /// A keeper has done its work: it sets its timer and waits for it.
    pub(crate) fn rest(&mut self, task: TaskId) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        let Housekeeping { keepers, clock_ns } = &mut self.housekeeping;
        if let Some(keeper) = keepers.iter_mut().find(|keeper| keeper.task == task) {
            let expires_ns = keeper.expires_ns(*clock_ns + self.k.now);
            keeper.due_ns = Some(expires_ns - *clock_ns);
        }
        self.set_phase(task, 1);
        self.block(task);
    }
}
