// SPDX-License-Identifier: GPL-2.0-only
//! EEVDF as in Linux 6.12 to 7.2: the scheduler `default` of the simulator.
//!
//! Picks are in `eevdf_queue`, placement at wakeup in `eevdf_place`, balancing in `eevdf_balance`, and statistics of
//! groups of CPUs for both in `eevdf_group`.
//!
//! Features as the kernel's defaults: PLACE_LAG, PLACE_REL_DEADLINE, RUN_TO_PARITY, DELAY_DEQUEUE, WAKEUP_PREEMPTION,
//! TTWU_QUEUE, SIS_UTIL, UTIL_EST, NI_RANDOM, NI_RATE, HRTICK (slices end on time and not at a tick, as observed in
//! 7.2); NEXT_BUDDY off. With lazy preemption a task gives way when it next leaves the kernel, for a tick at the
//! latest, and other CPUs are not interrupted for it. Cores of different capacity are in
//! `eevdf_capacity`. Not modelled: groups, bandwidth, preferred nodes and caches (`llc_balancing` of 7.2).

use machine::{Machine, Paths};
use workload::Fair;

use super::capacity::Capacity;
use super::domains::Domains;
use super::eevdf_queue::{Entity, Placing, Queue};
use super::newidle::NewIdle;
use crate::account::Func;
use crate::class::{Class, dequeue, enqueue, wake};
use crate::event::{Due, Irq};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::line::Line;
use crate::pelt::{Avg, Estimate};

/// normalized_sysctl_sched_base_slice, scaled by `1 + log2(CPUs)`, CPUs counted up to 8.
const BASE_SLICE_NS: i64 = 700_000;

/// sysctl_sched_migration_cost.
pub(super) const MIGRATION_COST_NS: u64 = 500_000;

/// State of a task beside its place in virtual time.
#[derive(Clone, Debug, Default)]
pub(super) struct Habit {
    pub avg: Avg,
    pub estimate: Estimate,
    /// The CPU that has it on its queue, or its load in its average.
    pub cpu: Option<CpuId>,
    /// When it was put on its queue.
    pub queued_ns: u64,
    /// `recent_used_cpu`.
    pub recent: Option<CpuId>,
    pub last_wakee: Option<TaskId>,
    pub wakee_flips: u32,
    pub flips_since_ns: u64,
}

/// A CPU's runqueue.
#[derive(Debug)]
pub(super) struct Rq {
    pub queue: Queue,
    pub avg: Avg,
    /// The sum over its runnable tasks (`cfs_rq->avg.util_est`).
    pub estimated: f64,
    /// Runnable tasks: those of the queue that are not delayed.
    pub runnable: usize,
    /// SCHED_IDLE tasks among those (`h_nr_idle`).
    pub runnable_idle: usize,
    /// The load of its running task if that has too little room here (`misfit_task_load`); 0: it has enough.
    pub misfit_load: f64,
    /// The line of counters that other CPUs read.
    pub line: Line,
    pub idle_since_ns: Option<u64>,
    /// When it last became idle, for the choice among idle CPUs.
    pub idle_stamp_ns: u64,
    pub avg_idle_ns: u64,
    pub balance: Vec<Balance>,
    pub next_balance_ns: u64,
    /// When the running task's slice ends, if other tasks wait.
    slice_end_ns: Option<u64>,
    /// When the interrupt that checks it comes.
    slice_irq_ns: Option<u64>,
}

/// A CPU's state of balancing for one of its domains.
#[derive(Clone, Debug)]
pub(super) struct Balance {
    pub last_ns: u64,
    pub interval_ms: u64,
    pub failed: u32,
    /// `max_newidle_lb_cost`: the longest pass before going idle.
    pub newidle_max_ns: u64,
    pub newidle: NewIdle,
}

/// Functions that are charged.
pub(super) struct Funcs {
    pub enqueue: Func,
    pub dequeue: Func,
    /// For a task that is woken before its debt is paid.
    pub enqueue_delayed: Func,
    /// `dequeue` of a task that stays until its debt is paid, if the machine gives a separate length, and the rest of
    /// it when the task leaves.
    pub dequeue_delayed: Option<Func>,
    pub dequeue_rest: Func,
    pub update_curr: Func,
    pub update_load_avg: Func,
    pub place_entity: Func,
    pub pick_eevdf: Func,
    pub pick: Func,
    pub put_prev: Func,
    pub set_next: Func,
    pub preempt: Func,
    pub tick: Func,
    pub fork: Func,
    pub yield_task: Func,
    pub select: Func,
    pub wake_affine: Func,
    pub idle_sibling: Func,
    pub idle_cpu: Func,
    pub idlest_cpu: Func,
    pub rebalance: Func,
    pub newidle: Func,
    pub load_balance: Func,
    pub group_stats: Func,
    pub busiest_queue: Func,
    pub move_task: Func,
}

impl Funcs {
    fn new(paths: &Paths) -> Self {
        let id = |name| Func::from(paths.id(name));
        Funcs {
            enqueue: id("enqueue_task_fair"),
            dequeue: id("dequeue_task_fair"),
            enqueue_delayed: id("enqueue_task_fair"),
            dequeue_delayed: None,
            dequeue_rest: id("dequeue_task_fair"),
            update_curr: id("update_curr"),
            update_load_avg: id("update_load_avg"),
            place_entity: id("place_entity"),
            pick_eevdf: id("pick_eevdf"),
            pick: id("pick_next_task_fair"),
            put_prev: id("put_prev_task_fair"),
            set_next: id("set_next_entity"),
            preempt: id("check_preempt_wakeup"),
            tick: id("task_tick_fair"),
            fork: id("task_fork_fair"),
            yield_task: id("yield_task_fair"),
            select: id("select_task_rq_fair"),
            wake_affine: id("wake_affine"),
            idle_sibling: id("select_idle_sibling"),
            idle_cpu: id("idle_cpu"),
            idlest_cpu: id("find_idlest_cpu"),
            rebalance: id("rebalance_domains"),
            newidle: id("idle_balance"),
            load_balance: id("load_balance"),
            group_stats: id("update_sg_lb_stats"),
            busiest_queue: id("find_busiest_queue"),
            move_task: id("move_task"),
        }
    }
}

/// The class.
pub struct Eevdf {
    pub(super) func: Funcs,
    pub(super) entities: Vec<Entity>,
    pub(super) habits: Vec<Habit>,
    pub(super) rqs: Vec<Rq>,
    pub(super) domains: Domains,
    pub(super) capacity: Capacity,
    /// By cache: CPUs that a search for an idle one may look at (`nr_idle_scan`).
    pub(super) idle_scan: Vec<usize>,
    pub(super) nohz_next_ns: u64,
    /// Some CPU has had more than one task since the last pass over the whole machine (`rd->overloaded`).
    pub(super) overloaded: bool,
    slice_ns: i64,
    tick_ns: i64,
}

impl Eevdf {
    /// For this machine, with lazy preemption; `paths` gives the lengths of functions.
    pub fn new(machine: &Machine, paths: &Paths) -> Self {
        let domains = Domains::new(machine);
        let rq = |cpu| Rq {
            queue: Queue::default(),
            avg: Avg::default(),
            estimated: 0.0,
            runnable: 0,
            runnable_idle: 0,
            misfit_load: 0.0,
            line: Line::new(cpu),
            idle_since_ns: None,
            idle_stamp_ns: 0,
            avg_idle_ns: 2 * MIGRATION_COST_NS,
            balance: domains
                .around(cpu)
                .iter()
                .map(|domain| Balance {
                    last_ns: 0,
                    interval_ms: domains.all[*domain].span.len() as u64,
                    failed: 0,
                    newidle_max_ns: 0,
                    newidle: NewIdle::new(),
                })
                .collect(),
            next_balance_ns: 0,
            slice_end_ns: None,
            slice_irq_ns: None,
        };
        let caches = 1 + machine.cpus.iter().map(|cpu| cpu.llc).max().unwrap_or(0) as usize;
        let factor = 1 + i64::from(machine.cpus.len().clamp(1, 8).ilog2());
        Eevdf {
            func: Funcs::new(paths),
            entities: Vec::new(),
            habits: Vec::new(),
            rqs: (0..machine.cpus.len()).map(rq).collect(),
            capacity: Capacity::new(machine, &domains),
            domains,
            idle_scan: vec![CPUS_MANY; caches],
            nohz_next_ns: 0,
            overloaded: false,
            slice_ns: BASE_SLICE_NS * factor,
            tick_ns: machine.costs.tick_period_ns as i64,
        }
    }

    /// Lengths that the machine gives for sleeps and wakeups with delayed dequeueing.
    pub fn with_delayed(mut self, k: &mut Kernel) -> Self {
        let given = |k: &Kernel, name: &str| k.machine.delayed.get(name).copied();
        if let Some(instructions) = given(k, "enqueue_task_fair") {
            let name = "enqueue_task_fair (delayed)";
            self.func.enqueue_delayed = k.add_function(name, instructions, 0.0);
        }
        if let Some(instructions) = given(k, "dequeue_task_fair") {
            let whole = k.machine.paths.get("dequeue_task_fair").copied();
            let whole = whole.unwrap_or(k.paths.get(k.paths.id("dequeue_task_fair")).instructions);
            let rest = (whole - instructions).max(0.0);
            let name = "dequeue_task_fair (delayed)";
            self.func.dequeue_delayed = Some(k.add_function(name, instructions, 0.0));
            self.func.dequeue_rest = k.add_function("dequeue_task_fair (rest)", rest, 0.0);
        }
        self
    }

    fn task(&mut self, task: TaskId) -> &mut Habit {
        if task >= self.habits.len() {
            self.habits.resize(task + 1, Habit::default());
            self.entities.resize(task + 1, Entity::default());
        }
        &mut self.habits[task]
    }

    /// The CPU writes its runqueue's counters, which other CPUs may have read.
    fn dirty(&mut self, k: &mut Kernel, cpu: CpuId) {
        k.read(&mut self.rqs[cpu].line);
        self.rqs[cpu].line = Line::new(k.this_cpu());
    }

    /// `update_curr`.
    pub(super) fn update_curr(&mut self, k: &mut Kernel, cpu: CpuId) {
        let Some(curr) = self.rqs[cpu].queue.curr else { return };
        k.call(self.func.update_curr);
        let delta_ns = k.update_curr_by_clock(curr);
        if self.rqs[cpu].queue.charge(&mut self.entities, delta_ns as i64) {
            self.resched(k, cpu);
        }
    }

    /// `resched_curr_lazy` with CONFIG_PREEMPT_LAZY: no other CPU is interrupted for it, and no system call.
    fn resched(&mut self, k: &mut Kernel, cpu: CpuId) {
        if !k.cpus[cpu].gives_way() {
            k.cpus[cpu].lazy_resched = true;
            k.call(k.func.resched_curr);
        }
    }

    /// `update_load_avg` of a task and its runqueue, up to now.
    pub(super) fn update_load(&mut self, k: &mut Kernel, cpu: CpuId, task: Option<TaskId>) {
        k.call(self.func.update_load_avg);
        let now_ns = k.now_ns();
        let rate = self.busy_rate(cpu);
        let rq = &mut self.rqs[cpu];
        let load = rq.queue.load(&self.entities) as u64;
        rq.avg.update_at(rate, now_ns, load, rq.runnable, rq.queue.curr.is_some());
        if let Some(task) = task {
            let entity = &self.entities[task];
            let weight = if entity.on_rq { entity.weight as u64 } else { 0 };
            let waits = entity.on_rq && !entity.delayed;
            let runs = rq.queue.curr == Some(task);
            let rate = if entity.on_rq { rate } else { 1.0 };
            self.habits[task].avg.update_at(rate, now_ns, weight, usize::from(waits), runs);
        }
    }

    /// How fast time passes for a CPU's averages: more slowly while a CPU of less capacity is busy.
    pub(super) fn busy_rate(&self, cpu: CpuId) -> f64 {
        if self.rqs[cpu].queue.curr.is_some() { self.capacity.rate(cpu) } else { 1.0 }
    }

    /// A task's load leaves the CPU it was on, and joins `cpu`'s.
    fn follow(&mut self, cpu: CpuId, task: TaskId) {
        let habit = &mut self.habits[task];
        if habit.cpu == Some(cpu) {
            return;
        }
        let avg = habit.avg;
        if let Some(old) = habit.cpu.replace(cpu) {
            self.rqs[old].avg.sub(&avg);
        }
        self.rqs[cpu].avg.add(&avg);
    }

    /// Puts a task on a CPU's queue, without charge but for its lines.
    pub(super) fn attach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, placing: Placing) {
        if self.habits[task].cpu.is_some_and(|old| old != cpu) {
            // It has no warm cache here [ENQUEUE_MIGRATED].
            k.tasks[task].exec_start_ns = 0;
        }
        self.follow(cpu, task);
        self.habits[task].queued_ns = k.now_ns();
        self.rqs[cpu].queue.enqueue(&mut self.entities, task, placing);
        self.runnable_comes(k, cpu, task);
        self.overloaded |= self.nr_running(cpu) > 1;
        self.dirty(k, cpu);
    }

    /// A runnable task joins a CPU's queue (`util_est_enqueue`).
    fn runnable_comes(&mut self, k: &Kernel, cpu: CpuId, task: TaskId) {
        let rq = &mut self.rqs[cpu];
        rq.runnable += 1;
        rq.runnable_idle += usize::from(k.tasks[task].has_idle_policy());
        rq.estimated += self.habits[task].estimate.util;
    }

    /// A runnable task leaves a CPU's queue (`util_est_dequeue`).
    fn runnable_leaves(&mut self, k: &Kernel, cpu: CpuId, task: TaskId) {
        let rq = &mut self.rqs[cpu];
        rq.runnable -= 1;
        rq.runnable_idle -= usize::from(k.tasks[task].has_idle_policy());
        rq.estimated = (rq.estimated - self.habits[task].estimate.util).max(0.0);
    }

    /// `rq->nr_running`: delayed sleepers are included.
    pub(super) fn nr_running(&self, cpu: CpuId) -> usize {
        self.rqs[cpu].queue.len(&self.entities)
    }

    /// Takes a task off a CPU's queue, without charge but for its lines.
    pub(super) fn detach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, sleeps: bool) {
        let delayed = self.entities[task].delayed;
        self.rqs[cpu].queue.dequeue(&mut self.entities, task, sleeps, self.tick_ns);
        if !delayed {
            self.runnable_leaves(k, cpu, task);
        }
        self.dirty(k, cpu);
    }

    /// `sched_idle_rq`: all runnable tasks of a CPU are SCHED_IDLE tasks.
    pub(super) fn runs_idle_policy_only(&self, k: &Kernel, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu];
        rq.runnable > 0 && rq.runnable == rq.runnable_idle && !k.runs_realtime(cpu)
    }

    /// `wakeup_preempt_fair`: whether the new task would be picked now. The runqueue's clock stands since the task was
    /// enqueued, so no more time is charged to the running task.
    pub(super) fn check_preempt(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        curr: TaskId,
        task: TaskId,
        flags: u64,
    ) {
        let idle = |task: TaskId| k.tasks[task].has_idle_policy();
        let at_once = idle(curr) && !idle(task);
        // BATCH and IDLE tasks do not preempt others.
        let may = flags & wake::FORK == 0 && k.tasks[task].fair == Fair::Normal;
        if !at_once && !may {
            return;
        }
        k.call(self.func.preempt);
        if k.cpus[cpu].need_resched {
            return;
        }
        if at_once {
            // `cancel_protect_slice`
            self.entities[curr].protected = self.entities[curr].vruntime;
        }
        if at_once || self.pick_entity(k, cpu) == Some(task) {
            self.resched(k, cpu);
        }
    }

    /// `pick_task_fair`: sleepers that have paid their debt are dequeued on the way.
    fn pick_entity(&mut self, k: &mut Kernel, cpu: CpuId) -> Option<TaskId> {
        loop {
            k.call(self.func.pick_eevdf);
            let next = self.rqs[cpu].queue.pick(&self.entities)?;
            if !self.entities[next].delayed {
                return Some(next);
            }
            k.enter(self.func.dequeue_rest);
            self.update_load(k, cpu, Some(next));
            self.detach(k, cpu, next, true);
            k.leave();
        }
    }

    /// `hrtick_start_fair`: an interrupt for the end of the slice, if a task waits.
    fn arm_slice_end(&mut self, k: &mut Kernel, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        rq.slice_end_ns = None;
        let Some(curr) = rq.queue.curr.filter(|_| rq.queue.len(&self.entities) > 1) else {
            return;
        };
        let left_ns = self.entities[curr].left_ns().max(0) as u64;
        let end_ns = (k.tasks[curr].exec_start_ns + left_ns).max(k.now_ns() + HRTICK_MIN_NS);
        rq.slice_end_ns = Some(end_ns);
        if rq.slice_irq_ns.is_none_or(|irq_ns| irq_ns > end_ns) {
            rq.slice_irq_ns = Some(end_ns);
            k.queue.push(end_ns, Due::Irq { cpu: cpu as u16, irq: Irq::Slice });
        }
    }

    /// The interrupt has come: `hrtick`. If it was armed for another slice, it only checks.
    fn slice_irq(&mut self, k: &mut Kernel, cpu: CpuId) {
        if self.rqs[cpu].slice_irq_ns.is_none_or(|irq_ns| irq_ns > k.now_ns()) {
            return;
        }
        self.rqs[cpu].slice_irq_ns = None;
        let Some(end_ns) = self.rqs[cpu].slice_end_ns else { return };
        if end_ns > k.now_ns() {
            self.rqs[cpu].slice_irq_ns = Some(end_ns);
            k.queue.push(end_ns, Due::Irq { cpu: cpu as u16, irq: Irq::Slice });
            return;
        }
        k.charge_ns(k.machine.costs.timer_ns);
        k.enter(self.func.tick);
        k.rq_lock(cpu);
        self.rqs[cpu].slice_end_ns = None;
        self.update_curr(k, cpu);
        k.resched(cpu);
        k.rq_unlock(cpu);
        k.leave();
    }

    /// A CPU's idle time ends: `update_rq_avg_idle`.
    fn idle_ended(&mut self, k: &Kernel, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        let Some(since_ns) = rq.idle_since_ns.take() else { return };
        let idle_ns = k.now_ns().saturating_sub(since_ns);
        let avg_ns = rq.avg_idle_ns - rq.avg_idle_ns / 8 + idle_ns / 8;
        rq.avg_idle_ns = avg_ns.min(2 * MIGRATION_COST_NS);
    }
}

/// The shortest time an hrtick is armed for.
const HRTICK_MIN_NS: u64 = 10_000;

/// A search for an idle CPU is not limited before the first balancing.
const CPUS_MANY: usize = usize::MAX / 2;

impl Class for Eevdf {
    fn name(&self) -> String {
        "default".to_string()
    }

    fn fork(&mut self, k: &mut Kernel, task: TaskId) {
        k.call(self.func.fork);
        let weight = u64::from(k.tasks[task].weight());
        let now_ns = k.now_ns();
        let wakee_flips = k.tasks[task].wakee_flips;
        *self.task(task) = Habit {
            avg: Avg::new(now_ns, weight),
            recent: Some(k.tasks[task].cpu),
            wakee_flips,
            ..Habit::default()
        };
        self.entities[task] = Entity::new(weight as i64, self.slice_ns);
    }

    /// A waker is tracked all the same [record_wakee].
    fn fork_other(&mut self, _k: &mut Kernel, task: TaskId) {
        self.task(task);
    }

    fn dead(&mut self, _k: &mut Kernel, task: TaskId) {
        let avg = self.habits[task].avg;
        if let Some(cpu) = self.habits[task].cpu.take() {
            self.rqs[cpu].avg.sub(&avg);
        }
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        self.place(k, task, prev, flags)
    }

    fn queued_wakeups(&self, _k: &Kernel, _task: TaskId) -> bool {
        true
    }

    fn still_queued(&self, task: TaskId) -> bool {
        self.entities.get(task).is_some_and(|entity| entity.delayed)
    }

    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        let delayed = self.entities[task].delayed;
        k.enter(if delayed { self.func.enqueue_delayed } else { self.func.enqueue });
        self.update_curr(k, cpu);
        self.update_load(k, cpu, Some(task));
        k.call(self.func.place_entity);
        if self.entities[task].delayed {
            // Still on the queue it slept on, which is this one: see `still_queued`.
            self.habits[task].queued_ns = k.now_ns();
            self.rqs[cpu].queue.revive(&mut self.entities, task, self.tick_ns);
            self.runnable_comes(k, cpu, task);
            self.dirty(k, cpu);
        } else {
            let initial = flags & enqueue::INITIAL != 0;
            let placing = if initial { Placing::Initial } else { Placing::Back };
            if initial {
                let weight = u64::from(k.tasks[task].weight());
                let capacity = self.capacity.of[cpu];
                self.habits[task].avg.guess(&self.rqs[cpu].avg, weight, capacity);
            }
            self.attach(k, cpu, task, placing);
        }
        if self.rqs[cpu].slice_end_ns.is_none() {
            self.arm_slice_end(k, cpu);
        }
        k.leave();
    }

    fn dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        k.enter(self.func.dequeue_delayed.unwrap_or(self.func.dequeue));
        self.update_curr(k, cpu);
        self.update_load(k, cpu, Some(task));
        let sleeps = flags & dequeue::SLEEP != 0;
        if sleeps {
            let Habit { avg, estimate, .. } = &mut self.habits[task];
            self.rqs[cpu].estimated += estimate.sleeps(avg);
        }
        let stays =
            sleeps && !k.tasks[task].exiting && !self.rqs[cpu].queue.eligible(&self.entities, task);
        if stays {
            self.rqs[cpu].queue.delay(&mut self.entities, task, self.tick_ns);
            self.runnable_leaves(k, cpu, task);
            self.dirty(k, cpu);
        } else {
            if self.func.dequeue_delayed.is_some() {
                k.call(self.func.dequeue_rest);
            }
            self.detach(k, cpu, task, sleeps);
        }
        k.leave();
    }

    fn preempt(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId, task: TaskId, flags: u64) {
        self.check_preempt(k, cpu, curr, task, flags);
    }

    fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        _prev: Option<TaskId>,
        runnable: bool,
    ) -> Option<TaskId> {
        k.enter(self.func.pick);
        if runnable {
            self.update_curr(k, cpu);
            // The charge may ask for the pass that is under way.
            k.cpus[cpu].lazy_resched = false;
        }
        let mut next = self.pick_entity(k, cpu);
        if next.is_none() && self.newidle_balance(k, cpu) {
            next = self.pick_entity(k, cpu);
        }
        if let Some(next) = next {
            super::not_before(k, self.habits[next].queued_ns);
            // A task that goes on is not set again, but has a new slice all the same.
            let rq = &self.rqs[cpu];
            if rq.queue.curr == Some(next) && rq.slice_end_ns.is_none() {
                self.arm_slice_end(k, cpu);
            }
        }
        k.leave();
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
            self.update_load(k, cpu, Some(prev));
        }
        // The pick has dequeued a sleeper with a paid debt; it may be awake elsewhere.
        if self.rqs[cpu].queue.curr == Some(prev) {
            self.rqs[cpu].queue.put_prev(&mut self.entities, prev);
        }
        k.leave();
    }

    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId) {
        k.enter(self.func.set_next);
        self.update_load(k, cpu, Some(next));
        self.rqs[cpu].queue.set_next(&mut self.entities, next);
        self.note_misfit(k, cpu, next);
        k.tasks[next].exec_start_ns = k.rq_clock_ns();
        self.arm_slice_end(k, cpu);
        k.leave();
    }

    fn idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool, entered: bool) {
        match idle {
            true if entered => {
                self.rqs[cpu].idle_stamp_ns = k.now_ns();
                self.rqs[cpu].misfit_load = 0.0;
            }
            true => {}
            false => self.idle_ended(k, cpu),
        }
    }

    fn tick(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId) {
        k.enter(self.func.tick);
        if k.cpus[cpu].lazy_resched {
            k.resched(cpu);
        }
        self.update_curr(k, cpu);
        self.update_load(k, cpu, Some(curr));
        self.note_misfit(k, cpu, curr);
        k.leave();
    }

    fn balance(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.periodic(k, cpu);
    }

    fn idle_tick(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.balance_idle(k, cpu);
    }

    fn slice_irq_ns(&self, cpu: CpuId) -> Option<u64> {
        self.rqs[cpu].slice_irq_ns
    }

    fn slice_ends(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.slice_irq(k, cpu);
    }

    fn yield_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        k.enter(self.func.yield_task);
        self.update_curr(k, cpu);
        if self.rqs[cpu].queue.len(&self.entities) > 1 {
            self.rqs[cpu].queue.give_way(&mut self.entities, task);
        }
        k.leave();
    }

    fn forget_sleeper(&mut self, k: &mut Kernel, task: TaskId) {
        if self.entities.get(task).is_some_and(|entity| entity.delayed) {
            let cpu = k.tasks[task].cpu;
            self.detach(k, cpu, task, true);
        }
    }

    fn set_nice(&mut self, k: &mut Kernel, task: TaskId) {
        let weight = i64::from(k.tasks[task].weight());
        self.task(task);
        self.entities[task].weight = weight;
    }
}
