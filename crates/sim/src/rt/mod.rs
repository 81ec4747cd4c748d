// SPDX-License-Identifier: GPL-2.0-only
//! The real-time class above another: SCHED_FIFO and SCHED_RR (kernel/sched/rt.c, 6.12 to 7.2).
//!
//! [`Ranked`] stands before the class that a run is about and forwards calls about that class's tasks. It exists only
//! if a run has a real-time task. Queues and picks are in this file, moves between CPUs in `balance.rs`, and the share
//! of the class below in `server.rs`.
//!
//! Not modelled: groups, priority inheritance, and bandwidth that CPUs borrow from each other (`do_balance_runtime`).

mod balance;
mod server;

use std::collections::BTreeMap;

use trace::Placed;
use workload::RealTime;

use crate::account::Func;
use crate::class::{Class, dequeue, enqueue};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use server::Server;

/// How long a task of SCHED_RR runs while others of its priority wait (`RR_TIMESLICE`).
const RR_TIMESLICE_NS: u64 = 100_000_000;

/// The real-time class, and the class below it.
pub(crate) struct Ranked {
    below: Box<dyn Class>,
    rqs: Vec<Rq>,
    /// The rest of the turn of each task of SCHED_RR, ns, by task.
    turns_left_ns: BTreeMap<TaskId, u64>,
    func: Funcs,
    /// The kernel is Linux 2.6.38.
    old: bool,
}

/// A CPU's runqueue.
#[derive(Default)]
struct Rq {
    /// Waiting tasks: the highest priority first, and within a priority in the order of arrival.
    queue: Vec<TaskId>,
    /// The running task, if it is real-time.
    curr: Option<TaskId>,
    /// The running task has yielded, or its turn is over: it goes behind the tasks of its priority.
    gives_way: bool,
    /// A waiting task of the same priority goes before the running task, which comes next.
    goes_second: bool,
    server: Server,
}

/// Functions that are charged.
struct Funcs {
    enqueue: Func,
    dequeue: Func,
    pick: Func,
    put_prev: Func,
    set_next: Func,
    preempt: Func,
    tick: Func,
    yield_task: Func,
    update_curr: Func,
    select: Func,
    lowest: Func,
    push: Func,
    pull: Func,
}

impl Funcs {
    /// The functions of Linux 2.6.38, or of today.
    fn new(k: &Kernel, old: bool) -> Self {
        let id = |name: &str| match old {
            true => Func::from(k.paths.old_id(name)),
            false => k.function(name),
        };
        Funcs {
            enqueue: id("enqueue_task_rt"),
            dequeue: id("dequeue_task_rt"),
            pick: id("pick_task_rt"),
            put_prev: id("put_prev_task_rt"),
            set_next: id("set_next_task_rt"),
            preempt: id("wakeup_preempt_rt"),
            tick: id("task_tick_rt"),
            yield_task: id("yield_task_rt"),
            update_curr: id("update_curr_rt"),
            select: id("select_task_rq_rt"),
            lowest: id("find_lowest_rq"),
            push: id("push_rt_task"),
            pull: id("pull_rt_task"),
        }
    }
}

/// A task's priority; 0 if it is not real-time.
#[inline]
fn priority(k: &Kernel, task: TaskId) -> u8 {
    k.tasks[task].realtime.priority()
}

impl Ranked {
    /// Above `below`; `old` is whether the kernel is Linux 2.6.38.
    pub fn new(below: Box<dyn Class>, old: bool, k: &Kernel) -> Self {
        Ranked {
            below,
            rqs: (0..k.cpus.len()).map(|_| Rq::default()).collect(),
            turns_left_ns: BTreeMap::new(),
            func: Funcs::new(k, old),
            old,
        }
    }

    /// The priority of the first waiting task; 0 if none waits.
    fn waiting(&self, k: &Kernel, cpu: CpuId) -> u8 {
        self.rqs[cpu].queue.first().map_or(0, |task| priority(k, *task))
    }

    /// Behind the tasks of its priority, or before them.
    fn insert(&mut self, k: &Kernel, cpu: CpuId, task: TaskId, at_head: bool) {
        let own = priority(k, task);
        let goes_first = |other: &TaskId| match at_head {
            true => priority(k, *other) > own,
            false => priority(k, *other) >= own,
        };
        let at = self.rqs[cpu].queue.partition_point(goes_first);
        self.rqs[cpu].queue.insert(at, task);
    }

    /// Whether it waited there.
    fn remove(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let at = self.rqs[cpu].queue.iter().position(|other| *other == task);
        at.map(|at| self.rqs[cpu].queue.remove(at)).is_some()
    }

    /// Tasks of the class below that belong to a CPU and are runnable.
    fn others(&self, k: &Kernel, cpu: CpuId) -> usize {
        let rq = &self.rqs[cpu];
        k.cpus[cpu].nr_ready().saturating_sub(rq.queue.len() + usize::from(rq.curr.is_some()))
    }

    /// `update_curr_rt`.
    fn update_curr(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        k.call(self.func.update_curr);
        let delta_ns = k.update_curr(task);
        let now_ns = k.now_ns();
        k.cpus[cpu].taken.update(now_ns, 0, 1, true);
        let kept = self.others(k, cpu) > 0;
        self.rqs[cpu].server.kept_waiting(delta_ns, kept);
    }

    /// The task of this class to run: the running task, unless a waiting one goes before it.
    fn pick(&mut self, k: &mut Kernel, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        k.call(self.func.pick);
        let rq = &self.rqs[cpu];
        let Some(first) = rq.queue.first().copied() else { return prev };
        let Some(prev) = prev else { return Some(first) };
        let stays = match rq.gives_way || rq.goes_second {
            true => priority(k, prev) > priority(k, first),
            false => priority(k, prev) >= priority(k, first),
        };
        Some(if stays { prev } else { first })
    }

    /// `task_tick_rt`: SCHED_RR takes turns.
    fn tick_own(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId) {
        k.enter(self.func.tick);
        self.update_curr(k, cpu, curr);
        if matches!(k.tasks[curr].realtime, RealTime::Rr(_)) {
            let tick_ns = k.machine.costs.tick_period_ns as u64;
            let left_ns = self.turns_left_ns.entry(curr).or_insert(RR_TIMESLICE_NS);
            *left_ns = left_ns.saturating_sub(tick_ns);
            if *left_ns == 0 {
                *left_ns = RR_TIMESLICE_NS;
                if self.waiting(k, cpu) == priority(k, curr) {
                    self.rqs[cpu].gives_way = true;
                    k.resched(cpu);
                }
            }
        }
        k.leave();
    }
}

impl Class for Ranked {
    fn name(&self) -> String {
        self.below.name()
    }

    fn start(&mut self, k: &mut Kernel) -> Result<(), String> {
        self.below.start(k)
    }

    fn fork(&mut self, k: &mut Kernel, task: TaskId) {
        match k.tasks[task].realtime.yes() {
            true => self.below.fork_other(k, task),
            false => self.below.fork(k, task),
        }
    }

    fn dead(&mut self, k: &mut Kernel, task: TaskId) {
        match k.tasks[task].realtime.yes() {
            true => self.below.dead_other(k, task),
            false => self.below.dead(k, task),
        }
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        match k.tasks[task].realtime.yes() {
            true => self.place(k, task, prev),
            false => self.below.select_cpu(k, task, prev, flags),
        }
    }

    fn queued_wakeups(&self, k: &Kernel, task: TaskId) -> bool {
        self.below.queued_wakeups(k, task)
    }

    fn wakes_leaving_in_place(&self) -> bool {
        self.below.wakes_leaving_in_place()
    }

    fn still_queued(&self, task: TaskId) -> bool {
        self.below.still_queued(task)
    }

    fn wakes_under_lock(&self) -> bool {
        self.below.wakes_under_lock()
    }

    fn spreads_over_new_masks(&self) -> bool {
        self.below.spreads_over_new_masks()
    }

    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if !k.tasks[task].realtime.yes() {
            return self.below.enqueue(k, cpu, task, flags);
        }
        k.enter(self.func.enqueue);
        // A task with changed properties has kept its place [move_entity], and the running task is in no queue.
        let restored = flags & enqueue::RESTORE != 0;
        let stays =
            restored && (k.cpus[cpu].curr == Some(task) || self.rqs[cpu].queue.contains(&task));
        if !stays {
            self.insert(k, cpu, task, false);
        }
        k.leave();
    }

    fn dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if !k.tasks[task].realtime.yes() {
            return self.below.dequeue(k, cpu, task, flags);
        }
        k.enter(self.func.dequeue);
        if self.rqs[cpu].curr == Some(task) {
            self.update_curr(k, cpu, task);
        } else if flags & dequeue::SAVE == 0 {
            self.remove(cpu, task);
        }
        k.leave();
    }

    fn preempt(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId, task: TaskId, flags: u64) {
        let (new, old) = (priority(k, task), priority(k, curr));
        match (new > 0, old > 0) {
            (false, false) => self.below.preempt(k, cpu, curr, task, flags),
            (false, true) => {}
            // A task that runs for the server has the server's deadline.
            (true, false) if self.rqs[cpu].server.serves() => {}
            (true, false) => k.resched(cpu),
            (true, true) => {
                k.call(self.func.preempt);
                if new > old || (new == old && self.goes_before(k, cpu, curr, task)) {
                    k.resched(cpu);
                }
            }
        }
    }

    fn woken(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        match k.tasks[task].realtime.yes() {
            true => self.push_woken(k, cpu, task),
            false => self.below.woken(k, cpu, task),
        }
    }

    fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: Option<TaskId>,
        runnable: bool,
    ) -> Option<TaskId> {
        let own = prev.filter(|prev| k.tasks[*prev].realtime.yes());
        let theirs = prev.filter(|_| own.is_none());
        match own {
            Some(own) if runnable => self.update_curr(k, cpu, own),
            // `balance_rt`: the task that ran leaves no task of its priority behind here.
            Some(own) if self.waiting(k, cpu) < priority(k, own) => self.pull(k, cpu),
            _ => {}
        }
        let runs_on = runnable && theirs.is_some();
        if self.rqs[cpu].server.serves() {
            if let Some(next) = self.below.pick_next(k, cpu, theirs, runs_on) {
                return Some(next);
            }
            self.rqs[cpu].server.has_nobody();
        }
        let next = self.pick(k, cpu, own.filter(|_| runnable));
        if own.is_some() && next == own {
            (self.rqs[cpu].gives_way, self.rqs[cpu].goes_second) = (false, false);
        }
        next.or_else(|| self.below.pick_next(k, cpu, theirs, runs_on))
    }

    fn put_prev(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: TaskId,
        runnable: bool,
        next: Option<TaskId>,
    ) {
        if !k.tasks[prev].realtime.yes() {
            self.rqs[cpu].server.ran_until(k.now_ns());
            return self.below.put_prev(k, cpu, prev, runnable, next);
        }
        k.enter(self.func.put_prev);
        if runnable {
            self.update_curr(k, cpu, prev);
        }
        self.rqs[cpu].curr = None;
        self.rqs[cpu].goes_second = false;
        let gives_way = std::mem::take(&mut self.rqs[cpu].gives_way);
        if runnable {
            self.insert(k, cpu, prev, !gives_way);
        }
        k.leave();
    }

    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId) {
        if !k.tasks[next].realtime.yes() {
            self.rqs[cpu].server.runs_from(k.now_ns());
            self.below.set_next(k, cpu, next);
        } else {
            k.enter(self.func.set_next);
            self.remove(cpu, next);
            self.rqs[cpu].curr = Some(next);
            let now_ns = k.now_ns();
            k.tasks[next].exec_start_ns = now_ns;
            k.cpus[cpu].taken.update(now_ns, 0, 0, false);
            k.leave();
            // `rt_queue_push_tasks`: after the switch, waiting tasks are pushed to CPUs where they can run.
            if self.rqs[cpu].queue.iter().any(|task| !k.tasks[*task].pinned()) {
                k.raise_irq_work();
            }
        }
    }

    fn idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool, entered: bool) {
        self.below.idle(k, cpu, idle, entered);
    }

    fn tick(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId) {
        let now_ns = k.now_ns();
        match k.tasks[curr].realtime.yes() {
            true => self.tick_own(k, cpu, curr),
            false => {
                self.rqs[cpu].server.ran_until(now_ns);
                self.rqs[cpu].server.runs_from(now_ns);
                self.below.tick(k, cpu, curr);
            }
        }
        let starved = k.tasks[curr].realtime.yes() && self.others(k, cpu) > 0;
        if self.rqs[cpu].server.tick(starved) && (starved || !self.rqs[cpu].queue.is_empty()) {
            k.resched(cpu);
        }
    }

    fn balance(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.below.balance(k, cpu);
    }

    fn idle_tick(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.below.idle_tick(k, cpu);
    }

    fn preempts_kernel(&self) -> bool {
        self.below.preempts_kernel()
    }

    fn slice_irq_ns(&self, cpu: CpuId) -> Option<u64> {
        self.below.slice_irq_ns(cpu)
    }

    fn slice_ends(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.below.slice_ends(k, cpu);
    }

    fn timer(&mut self, k: &mut Kernel, number: u32, start: u32) {
        self.below.timer(k, number, start);
    }

    fn yield_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        if !k.tasks[task].realtime.yes() {
            return self.below.yield_task(k, cpu, task);
        }
        k.call(self.func.yield_task);
        self.rqs[cpu].gives_way = true;
    }

    fn irq_work(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.push_all(k, cpu);
        self.below.irq_work(k, cpu);
    }

    fn set_affinity(&mut self, k: &mut Kernel, task: TaskId) {
        if !k.tasks[task].realtime.yes() {
            self.below.set_affinity(k, task);
        }
    }

    fn forget_sleeper(&mut self, k: &mut Kernel, task: TaskId) {
        if !k.tasks[task].realtime.yes() {
            self.below.forget_sleeper(k, task);
        }
    }

    fn set_nice(&mut self, k: &mut Kernel, task: TaskId) {
        if !k.tasks[task].realtime.yes() {
            self.below.set_nice(k, task);
        }
    }

    fn set_cgroup(&mut self, k: &mut Kernel, task: TaskId, from: u64) {
        self.below.set_cgroup(k, task, from);
    }

    fn set_quota(&mut self, k: &mut Kernel, cgroup: usize) {
        self.below.set_quota(k, cgroup);
    }

    fn has_executed(&mut self, k: &Kernel, task: TaskId) {
        self.below.has_executed(k, task);
    }

    fn hotplug(&mut self, k: &mut Kernel, cpu: CpuId, online: bool) -> Result<(), String> {
        self.below.hotplug(k, cpu, online)
    }

    fn watchdog_ns(&self) -> Option<u64> {
        self.below.watchdog_ns()
    }

    fn stalled(&mut self, k: &mut Kernel) -> Option<String> {
        self.below.stalled(k)
    }

    fn control(&mut self, k: &Kernel) -> Option<u64> {
        self.below.control(k)
    }

    fn keep_measured(&mut self) {
        self.below.keep_measured();
    }

    fn measured(&self) -> BTreeMap<u32, Vec<f64>> {
        self.below.measured()
    }

    fn placed(&mut self) -> Vec<Placed> {
        self.below.placed()
    }

    fn totals(&self) -> Vec<(&'static str, u64)> {
        self.below.totals()
    }

    fn stop(&mut self, k: &mut Kernel) {
        self.below.stop(k);
    }
}
