// SPDX-License-Identifier: GPL-2.0-only
//! CFS as of Linux 2.6.38: the baseline of the FLSCHED talk on the Xeon Phi.
//!
//! Each CPU has a timeline of tasks by vruntime, CPU time weighted by nice. The task with the least runs next. A tick
//! ends a run that is longer than the task's part of the latency period. A wakeup ends it if the woken task is behind
//! by more than the wakeup granularity. Placement is in `cfs_place`, balancing in `cfs_balance`.
//!
//! If the kernel reads or writes a runqueue of another CPU, the model pays for its lines; if it takes a lock, so does
//! the model. 2.6.38 has no queued wakeups (3.0) and no bandwidth control for fair tasks (3.2). Not modelled: group
//! scheduling, hrticks, active balancing by the stopper thread, and the averages of load for periodic balancing
//! (`cpu_load[]`: the model uses the present load). Nor is it modelled that the idle balancer of 2.6.37 to 3.1 may give
//! up over a stale `idle_at_tick`.

use std::collections::BTreeSet;

use machine::{Machine, Paths};
use workload::Fair;

use super::domains::Domains;
use crate::account::Func;
use crate::class::{Class, dequeue, enqueue, wake};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::line::Line;

/// `NICE_0_LOAD`.
pub(super) const NICE_0_LOAD: u64 = 1024;

/// Where vruntimes start, so that none is ever below 0.
const ORIGIN_NS: u64 = 1 << 40;

/// sysctl_sched_migration_cost: below this a task's caches count as warm.
pub(super) const MIGRATION_COST_NS: u64 = 500_000;

/// The tunables of `kernel/sched_fair.c`, scaled by `1 + log2(CPUs)`, CPUs counted up to 8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tunables {
    pub latency_ns: u64,
    pub min_granularity_ns: u64,
    pub wakeup_granularity_ns: u64,
    /// Tasks beyond which the period is stretched.
    pub nr_latency: u64,
}

impl Tunables {
    pub fn new(cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.clamp(1, 8).ilog2());
        Tunables {
            latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: 1_000_000 * factor,
            nr_latency: 8,
        }
    }

    /// `__sched_period`: the time in which each of `tasks` runs once.
    fn period_ns(&self, tasks: u64) -> u64 {
        if tasks > self.nr_latency { self.min_granularity_ns * tasks } else { self.latency_ns }
    }
}

/// `struct sched_entity`.
#[derive(Clone, Debug, Default)]
pub(super) struct Entity {
    pub vruntime_ns: u64,
    /// The CPU with the clock that `vruntime_ns` counts by; None: it counts from that clock's minimum.
    pub base: Option<CpuId>,
    pub weight: u64,
    pub on_rq: bool,
    /// `prev_sum_exec_runtime`.
    pub ran_before_ns: u64,
    /// When it was put on its queue.
    queued_ns: u64,
    /// Its place among tasks of equal vruntime: in the order of arrival.
    seq: u64,
}

/// `struct cfs_rq`, with the state of balancing.
#[derive(Debug)]
pub(super) struct Rq {
    pub timeline: BTreeSet<(u64, u64, TaskId)>,
    pub curr: Option<TaskId>,
    pub min_vruntime_ns: u64,
    /// Weights of all its tasks, the running one included.
    pub load: u64,
    pub nr: u64,
    /// The task that was preempted by a wakeup, and prefers to go on.
    last: Option<TaskId>,
    /// The line of `rq->load`, `rq->nr_running` and the clock, which other CPUs read.
    pub line: Line,
    pub idle_since_ns: Option<u64>,
    pub avg_idle_ns: u64,
    /// By level of domain.
    pub balance: Vec<Balance>,
    pub next_balance_ns: u64,
}

/// A CPU's state of balancing for one of its domains.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    pub last_ns: u64,
    pub interval_ms: u64,
    pub failed: u32,
}

/// Functions that are charged.
pub(super) struct Funcs {
    pub enqueue: Func,
    pub dequeue: Func,
    pub update_curr: Func,
    pub place_entity: Func,
    pub pick: Func,
    pub put_prev: Func,
    pub set_next: Func,
    pub check_preempt: Func,
    pub tick: Func,
    pub fork: Func,
    pub yield_task: Func,
    pub select: Func,
    pub wake_affine: Func,
    pub idle_sibling: Func,
    pub idle_cpu: Func,
    pub idlest_cpu: Func,
    pub rebalance: Func,
    pub idle_balance: Func,
    pub load_balance: Func,
    pub group_stats: Func,
    pub busiest_queue: Func,
    pub move_task: Func,
}

impl Funcs {
    fn new(paths: &Paths) -> Self {
        let id = |name| Func::from(paths.old_id(name));
        Funcs {
            enqueue: id("enqueue_task_fair"),
            dequeue: id("dequeue_task_fair"),
            update_curr: id("update_curr"),
            place_entity: id("place_entity"),
            pick: id("pick_next_task_fair"),
            put_prev: id("put_prev_task_fair"),
            set_next: id("set_next_entity"),
            check_preempt: id("check_preempt_wakeup"),
            tick: id("task_tick_fair"),
            fork: id("task_fork_fair"),
            yield_task: id("yield_task_fair"),
            select: id("select_task_rq_fair"),
            wake_affine: id("wake_affine"),
            idle_sibling: id("select_idle_sibling"),
            idle_cpu: id("idle_cpu"),
            idlest_cpu: id("find_idlest_cpu"),
            rebalance: id("rebalance_domains"),
            idle_balance: id("idle_balance"),
            load_balance: id("load_balance"),
            group_stats: id("update_sg_lb_stats"),
            busiest_queue: id("find_busiest_queue"),
            move_task: id("move_task"),
        }
    }
}

/// The class.
pub struct Cfs {
    pub(super) tunables: Tunables,
    pub(super) func: Funcs,
    pub(super) entities: Vec<Entity>,
    pub(super) rqs: Vec<Rq>,
    pub(super) domains: Domains,
    /// When one idle CPU may next balance for all that sleep (`nohz.next_balance`).
    pub(super) nohz_next_ns: u64,
    seq: u64,
}

impl Cfs {
    /// For this machine; `paths` gives the lengths of functions.
    pub fn new(machine: &Machine, paths: &Paths) -> Self {
        let domains = Domains::new(machine);
        let rq = |cpu| Rq {
            timeline: BTreeSet::new(),
            curr: None,
            min_vruntime_ns: ORIGIN_NS,
            load: 0,
            nr: 0,
            last: None,
            line: Line::new(cpu),
            idle_since_ns: None,
            avg_idle_ns: 2 * MIGRATION_COST_NS,
            balance: vec![
                Balance { last_ns: 0, interval_ms: 1, failed: 0 };
                domains.around(cpu).len()
            ],
            next_balance_ns: 0,
        };
        Cfs {
            tunables: Tunables::new(machine.cpus.len()),
            func: Funcs::new(paths),
            entities: Vec::new(),
            rqs: (0..machine.cpus.len()).map(rq).collect(),
            domains,
            nohz_next_ns: 0,
            seq: 0,
        }
    }

    pub(super) fn entity(&mut self, task: TaskId) -> &mut Entity {
        if task >= self.entities.len() {
            self.entities.resize(task + 1, Entity::default());
        }
        &mut self.entities[task]
    }

    /// The CPU writes its runqueue's counters, which other CPUs may have read.
    fn dirty(&mut self, k: &mut Kernel, cpu: CpuId) {
        k.read(&mut self.rqs[cpu].line);
        self.rqs[cpu].line = Line::new(k.this_cpu());
    }

    /// `update_curr`: the running task's time becomes vruntime.
    pub(super) fn update_curr(&mut self, k: &mut Kernel, cpu: CpuId) {
        let Some(curr) = self.rqs[cpu].curr else { return };
        k.call(self.func.update_curr);
        let delta_ns = k.update_curr(curr);
        let entity = &mut self.entities[curr];
        if entity.on_rq {
            entity.vruntime_ns += fair_ns(delta_ns, entity.weight);
        }
        self.update_min(cpu);
    }

    fn update_min(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        let curr = rq.curr.filter(|curr| self.entities[*curr].on_rq);
        let curr = curr.map(|curr| self.entities[curr].vruntime_ns);
        let first = rq.timeline.first().map(|(vruntime_ns, ..)| *vruntime_ns);
        let least = match (curr, first) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(rq.min_vruntime_ns),
        };
        rq.min_vruntime_ns = rq.min_vruntime_ns.max(least);
    }

    /// `sched_slice`: the task's part of the period, on `cpu`.
    fn slice_ns(&self, cpu: CpuId, task: TaskId) -> u64 {
        let (rq, entity) = (&self.rqs[cpu], &self.entities[task]);
        let extra = if entity.on_rq { 0 } else { entity.weight };
        let tasks = rq.nr + u64::from(!entity.on_rq);
        self.tunables.period_ns(tasks) * entity.weight / (rq.load + extra).max(1)
    }

    /// `place_entity`: a new task starts one slice late, a woken one at most half a period early.
    fn place_entity(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, initial: bool) {
        k.call(self.func.place_entity);
        let min_ns = self.rqs[cpu].min_vruntime_ns;
        let place_ns = if initial {
            min_ns + fair_ns(self.slice_ns(cpu, task), self.entities[task].weight)
        } else {
            min_ns - self.tunables.latency_ns / 2
        };
        let entity = &mut self.entities[task];
        entity.vruntime_ns = entity.vruntime_ns.max(place_ns);
    }

    /// Converts a vruntime to another CPU's clock.
    fn rebase(&mut self, task: TaskId, to: Option<CpuId>) {
        let entity = &mut self.entities[task];
        let from_ns = entity.base.map_or(ORIGIN_NS, |cpu| self.rqs[cpu].min_vruntime_ns);
        let to_ns = to.map_or(ORIGIN_NS, |cpu| self.rqs[cpu].min_vruntime_ns);
        entity.vruntime_ns = (entity.vruntime_ns + to_ns).saturating_sub(from_ns);
        entity.base = to;
    }

    fn insert(&mut self, cpu: CpuId, task: TaskId) {
        self.seq += 1;
        let entity = &mut self.entities[task];
        entity.seq = self.seq;
        self.rqs[cpu].timeline.insert((entity.vruntime_ns, entity.seq, task));
    }

    fn remove(&mut self, cpu: CpuId, task: TaskId) {
        let entity = &self.entities[task];
        let was = self.rqs[cpu].timeline.remove(&(entity.vruntime_ns, entity.seq, task));
        debug_assert!(was, "task {task} is in the timeline of CPU {cpu}");
    }

    /// Puts a task on a CPU's runqueue, without charge.
    pub(super) fn attach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        if self.entities[task].base != Some(cpu) {
            self.rebase(task, Some(cpu));
        }
        self.entities[task].on_rq = true;
        self.entities[task].queued_ns = k.now_ns();
        let rq = &mut self.rqs[cpu];
        rq.load += self.entities[task].weight;
        rq.nr += 1;
        if rq.curr != Some(task) {
            self.insert(cpu, task);
        }
        self.dirty(k, cpu);
    }

    /// Takes a task off a CPU's runqueue, without charge.
    pub(super) fn detach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        let rq = &mut self.rqs[cpu];
        rq.last = rq.last.filter(|last| *last != task);
        if rq.curr != Some(task) {
            self.remove(cpu, task);
        }
        let rq = &mut self.rqs[cpu];
        rq.load -= self.entities[task].weight;
        rq.nr -= 1;
        self.entities[task].on_rq = false;
        self.update_min(cpu);
        self.dirty(k, cpu);
    }

    /// `wakeup_preempt_entity`: whether `task` is so far behind `curr` that it takes the CPU.
    fn beats(&self, task: TaskId, curr: TaskId) -> bool {
        let gran_ns = fair_ns(self.tunables.wakeup_granularity_ns, self.entities[task].weight);
        self.entities[curr].vruntime_ns > self.entities[task].vruntime_ns + gran_ns
    }

    /// `check_preempt_wakeup`.
    pub(super) fn check_preempt(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId, task: TaskId) {
        if k.tasks[task].fair != Fair::Normal {
            return;
        }
        k.call(self.func.check_preempt);
        if k.cpus[cpu].need_resched {
            return;
        }
        // SCHED_IDLE tasks are preempted by every task, and do not prefer to go on.
        if k.tasks[curr].has_idle_policy() {
            return k.resched(cpu);
        }
        self.update_curr(k, cpu);
        if !self.beats(task, curr) {
            return;
        }
        k.resched(cpu);
        if self.rqs[cpu].nr >= self.tunables.nr_latency {
            self.rqs[cpu].last = Some(curr);
        }
    }

    /// `check_preempt_tick`: whether the running task has had its part.
    fn check_tick(&self, k: &Kernel, cpu: CpuId, curr: TaskId) -> bool {
        let entity = &self.entities[curr];
        let ideal_ns = self.slice_ns(cpu, curr);
        let ran_ns = k.tasks[curr].sum_exec_ns - entity.ran_before_ns;
        if ran_ns > ideal_ns {
            return true;
        }
        if ran_ns < self.tunables.min_granularity_ns {
            return false;
        }
        let first = self.rqs[cpu].timeline.first();
        first.is_some_and(|(first_ns, ..)| entity.vruntime_ns > first_ns + ideal_ns)
    }

    /// `pick_next_entity`: the least vruntime, or the preempted task if it is close to it.
    fn pick_entity(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let rq = &self.rqs[cpu];
        let first = rq.timeline.first().map(|(_, _, task)| *task);
        let left = match (first, prev) {
            (Some(first), Some(prev)) => {
                let ahead = self.entities[prev].vruntime_ns < self.entities[first].vruntime_ns;
                if ahead { prev } else { first }
            }
            (first, prev) => first.or(prev)?,
        };
        let last = rq.last.filter(|last| !self.beats(left, *last));
        let next = last.unwrap_or(left);
        let rq = &mut self.rqs[cpu];
        rq.last = rq.last.filter(|last| *last != next);
        Some(next)
    }
}

/// CPU time as vruntime: `calc_delta_fair`.
pub(super) fn fair_ns(ns: u64, weight: u64) -> u64 {
    if weight == NICE_0_LOAD { ns } else { (u128::from(ns) * 1024 / u128::from(weight)) as u64 }
}

impl Class for Cfs {
    fn name(&self) -> String {
        "cfs".to_string()
    }

    fn fork(&mut self, k: &mut Kernel, task: TaskId) {
        let here = k.this_cpu();
        k.enter(self.func.fork);
        self.update_curr(k, here);
        let weight = u64::from(k.tasks[task].weight());
        let vruntime_ns = match self.rqs[here].curr {
            Some(parent) => self.entity(parent).vruntime_ns,
            None => self.rqs[here].min_vruntime_ns,
        };
        *self.entity(task) = Entity { vruntime_ns, weight, base: Some(here), ..Entity::default() };
        self.place_entity(k, here, task, true);
        self.rebase(task, None);
        k.leave();
    }

    fn fork_other(&mut self, _k: &mut Kernel, task: TaskId) {
        self.entity(task);
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        self.place(k, task, prev, flags)
    }

    /// As in server kernels of that time.
    fn preempts_kernel(&self) -> bool {
        false
    }

    fn queued_wakeups(&self, _k: &Kernel, _task: TaskId) -> bool {
        false
    }

    fn wakes_leaving_in_place(&self) -> bool {
        true
    }

    fn wakes_under_lock(&self) -> bool {
        true
    }

    fn spreads_over_new_masks(&self) -> bool {
        false
    }

    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        k.enter(self.func.enqueue);
        self.update_curr(k, cpu);
        if self.entities[task].base != Some(cpu) {
            self.rebase(task, Some(cpu));
        }
        if flags & enqueue::WAKEUP != 0 {
            self.place_entity(k, cpu, task, false);
            self.idle_ended(k, cpu);
        }
        self.attach(k, cpu, task);
        k.leave();
    }

    fn dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        k.enter(self.func.dequeue);
        self.update_curr(k, cpu);
        self.detach(k, cpu, task);
        if flags & dequeue::SLEEP == 0 {
            self.rebase(task, None);
        }
        k.leave();
    }

    fn preempt(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId, task: TaskId, _flags: u64) {
        self.check_preempt(k, cpu, curr, task);
    }

    fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: Option<TaskId>,
        runnable: bool,
    ) -> Option<TaskId> {
        let prev = prev.filter(|_| runnable);
        if prev.is_none() && self.rqs[cpu].timeline.is_empty() {
            self.idle_balance(k, cpu);
        }
        if prev.is_some() {
            self.update_curr(k, cpu);
        }
        k.call(self.func.pick);
        let next = self.pick_entity(cpu, prev);
        if let Some(next) = next {
            super::not_before(k, self.entities[next].queued_ns);
        }
        if next.is_some() && next == prev {
            // The kernel puts it back into the timeline and takes it out again.
            k.call(self.func.put_prev);
            k.call(self.func.set_next);
            self.start_slice(k, prev);
        }
        next
    }

    fn put_prev(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: TaskId,
        runnable: bool,
        _next: Option<TaskId>,
    ) {
        k.enter(self.func.put_prev);
        if runnable {
            self.update_curr(k, cpu);
        }
        self.rqs[cpu].curr = None;
        if self.entities[prev].on_rq {
            self.insert(cpu, prev);
        }
        k.leave();
    }

    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId) {
        k.call(self.func.set_next);
        self.remove(cpu, next);
        self.rqs[cpu].curr = Some(next);
        k.tasks[next].exec_start_ns = k.now_ns();
        self.start_slice(k, Some(next));
        self.update_min(cpu);
    }

    fn tick(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId) {
        k.enter(self.func.tick);
        self.update_curr(k, cpu);
        if self.rqs[cpu].nr > 1 && self.check_tick(k, cpu, curr) {
            self.rqs[cpu].last = None;
            k.resched(cpu);
        }
        k.leave();
    }

    fn balance(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.periodic(k, cpu);
    }

    fn yield_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        k.enter(self.func.yield_task);
        let rq = &mut self.rqs[cpu];
        rq.last = rq.last.filter(|last| *last != task);
        self.update_curr(k, cpu);
        k.leave();
    }

    fn set_nice(&mut self, k: &mut Kernel, task: TaskId) {
        let weight = u64::from(k.tasks[task].weight());
        self.entity(task).weight = weight;
    }
}

impl Cfs {
    fn start_slice(&mut self, k: &Kernel, task: Option<TaskId>) {
        if let Some(task) = task {
            self.entities[task].ran_before_ns = k.tasks[task].sum_exec_ns;
        }
    }

    /// A wakeup ends a CPU's idle time: `rq->avg_idle`.
    fn idle_ended(&mut self, k: &Kernel, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        let Some(since_ns) = rq.idle_since_ns.take() else { return };
        let idle_ns = k.now_ns().saturating_sub(since_ns);
        rq.avg_idle_ns = if idle_ns > 2 * MIGRATION_COST_NS {
            2 * MIGRATION_COST_NS
        } else {
            rq.avg_idle_ns - rq.avg_idle_ns / 8 + idle_ns / 8
        };
    }

    /// Whether a wakeup's waker is about to block.
    pub(super) fn sync(flags: u64) -> bool {
        flags & wake::SYNC != 0
    }
}
