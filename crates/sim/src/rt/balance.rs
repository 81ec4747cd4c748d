// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU a real-time task gets: placement at wakeup, and pushes and pulls when CPUs change hands.

use machine::CpuSet;

use super::{Ranked, priority};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::task::State;

/// Tasks that one call pushes or pulls at most.
const MOVES_MAX: usize = 32;

impl Ranked {
    /// The highest priority that runs or waits on a CPU (`cpupri`); 0: only tasks of the class below, or none.
    fn highest(&self, k: &Kernel, cpu: CpuId) -> u8 {
        let runs = self.rqs[cpu].curr.map_or(0, |curr| priority(k, curr));
        runs.max(self.waiting(k, cpu))
    }

    /// `select_task_rq_rt`: its last CPU, unless a real-time task runs there that is pinned or has no lower priority.
    pub(super) fn place(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId) -> CpuId {
        k.enter(self.func.select);
        let own = priority(k, task);
        let stands = |curr: TaskId| {
            k.tasks[curr].realtime.yes() && (k.tasks[curr].pinned() || priority(k, curr) >= own)
        };
        let elsewhere = k.cpus[prev].curr.is_some_and(stands)
            || !k.tasks[task].allowed.has(prev)
            || !k.online.has(prev);
        let found = if elsewhere { self.lowest(k, task, prev) } else { None };
        k.leave();
        found.unwrap_or(prev)
    }

    /// `find_lowest_rq`: of the CPUs where the lowest priority runs, lower than its own, the nearest to its last CPU.
    /// Idle CPUs count like CPUs that run tasks of the class below.
    fn lowest(&mut self, k: &mut Kernel, task: TaskId, near: CpuId) -> Option<CpuId> {
        k.call(self.func.lowest);
        let usable = k.tasks[task].allowed.and(&k.online);
        let least = usable.iter().map(|cpu| self.highest(k, cpu)).min()?;
        if least >= priority(k, task) {
            return None;
        }
        let lowest: CpuSet = usable.iter().filter(|cpu| self.highest(k, *cpu) == least).collect();
        let (here, of) = (k.this_cpu(), &k.machine.cpus);
        // `this_cpu` is cheaper to interrupt than others at the same distance.
        let distance = |cpu: &CpuId| {
            let (own, other) = (&of[near], &of[*cpu]);
            let far = match () {
                () if *cpu == near => 0,
                () if own.core == other.core => 1,
                () if own.llc == other.llc => 2,
                () if own.node == other.node => 3,
                () => 4,
            };
            (far, *cpu != here)
        };
        let nearest = lowest.iter().map(|cpu| distance(&cpu)).min()?;
        let best: CpuSet = lowest.iter().filter(|cpu| distance(cpu) == nearest).collect();
        // `cpumask_any_and_distribute` today, `cpumask_first_and` then.
        if self.old { best.lowest() } else { k.any_and_distribute(&best, &usable) }
    }

    /// `check_preempt_equal_prio`: a woken task that can run nowhere else goes before a running task of its priority
    /// that can, which is then pushed away. Returns whether it does.
    pub(super) fn goes_before(
        &mut self,
        k: &Kernel,
        cpu: CpuId,
        curr: TaskId,
        task: TaskId,
    ) -> bool {
        let elsewhere = |this: &Self, task: TaskId| {
            let usable = k.tasks[task].allowed.and(&k.online);
            usable.iter().any(|other| this.highest(k, other) < priority(k, task))
        };
        let goes = !k.cpus[cpu].need_resched && elsewhere(self, curr) && !elsewhere(self, task);
        if goes && self.remove(cpu, task) {
            self.insert(k, cpu, task, true);
            self.rqs[cpu].goes_second = true;
        }
        goes
    }

    /// `task_woken_rt`: pushes a woken task that must wait behind the running one to a CPU where it need not wait.
    pub(super) fn push_woken(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        let waits = self.rqs[cpu]
            .curr
            .is_some_and(|curr| k.tasks[curr].pinned() || priority(k, curr) >= priority(k, task));
        if waits && !k.cpus[cpu].need_resched && !k.tasks[task].pinned() {
            self.push(k, cpu);
        }
    }

    /// `push_rt_tasks`, after a switch.
    pub(super) fn push_all(&mut self, k: &mut Kernel, cpu: CpuId) {
        if self.rqs[cpu].queue.is_empty() {
            return;
        }
        k.rq_lock(cpu);
        self.push(k, cpu);
        k.rq_unlock(cpu);
    }

    /// `push_rt_task`, until it moves no task; the runqueue is locked.
    fn push(&mut self, k: &mut Kernel, cpu: CpuId) {
        for _ in 0..MOVES_MAX {
            let queue = &self.rqs[cpu].queue;
            let Some(task) = queue.iter().copied().find(|task| movable(k, *task)) else { return };
            k.enter(self.func.push);
            let runs = running(k, cpu);
            if priority(k, task) > runs {
                // It is about to run here, now or after the server's task has had its time.
                k.resched(cpu);
                return k.leave();
            }
            let Some(to) = self.lowest(k, task, cpu).filter(|to| *to != cpu) else {
                return k.leave();
            };
            self.move_task(k, task, cpu, to);
            k.leave();
        }
    }

    /// `pull_rt_task`: a task that waits elsewhere and outranks all tasks here.
    pub(super) fn pull(&mut self, k: &mut Kernel, cpu: CpuId) {
        for other in (0..self.rqs.len()).filter(|other| *other != cpu) {
            let own = self.waiting(k, cpu);
            let runs = running(k, other);
            let fits = |task: &TaskId| {
                movable(k, *task) && k.tasks[*task].allowed.has(cpu) && priority(k, *task) > own
            };
            let Some(task) = self.rqs[other].queue.iter().copied().find(fits) else { continue };
            // A task that outranks the running one there is about to run there.
            if !k.online.has(cpu) || priority(k, task) > runs {
                continue;
            }
            k.enter(self.func.pull);
            self.move_task(k, task, other, cpu);
            k.leave();
        }
    }

    /// Between two CPUs. The CPU that is being simulated has its runqueue locked.
    fn move_task(&mut self, k: &mut Kernel, task: TaskId, from: CpuId, to: CpuId) {
        let (locked, other) = if k.holds(k.rq_lock_of(from)) { (from, to) } else { (to, from) };
        k.rq_double_lock(locked, other);
        k.call(self.func.dequeue);
        self.remove(from, task);
        k.set_task_cpu(task, to);
        k.call(self.func.enqueue);
        self.insert(k, to, task, false);
        let runs = running(k, to);
        if k.cpus[to].curr.is_none() || priority(k, task) > runs {
            k.resched(to);
        }
        k.rq_unlock(other);
    }
}

/// The priority of the running task of a CPU; 0 if it is not real-time.
fn running(k: &Kernel, cpu: CpuId) -> u8 {
    k.cpus[cpu].curr.map_or(0, |curr| priority(k, curr))
}

/// Whether it waits, and may do so elsewhere. A task that has not left its CPU yet may not.
fn movable(k: &Kernel, task: TaskId) -> bool {
    let of = &k.tasks[task];
    of.state == State::Queued && !of.pinned() && of.on_cpu_until_ns <= k.now_ns()
}
