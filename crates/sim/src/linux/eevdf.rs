// SPDX-License-Identifier: GPL-2.0-only
//! EEVDF as in Linux 6.12 to 7.2: the scheduler `default` of the simulator.
//!
//! Picks are in `eevdf_queue`, placement at wakeup in `eevdf_place`, balancing in `eevdf_balance`, and statistics of
//! groups of CPUs for both in `eevdf_group`. The tree of cgroups is in `eevdf_tree`, and the work on its levels in
//! `eevdf_cgroup`. Their limits are in `eevdf_pool` and `eevdf_bandwidth`.
//!
//! Features as the kernel's defaults: PLACE_LAG, PLACE_REL_DEADLINE, RUN_TO_PARITY, DELAY_DEQUEUE, WAKEUP_PREEMPTION,
//! TTWU_QUEUE, SIS_UTIL, UTIL_EST, NI_RANDOM, NI_RATE, HRTICK (slices end on time and not at a tick, as observed in
//! 7.2); NEXT_BUDDY off. With lazy preemption a task gives way when it next leaves the kernel, for a tick at the
//! latest, and other CPUs are not interrupted for it. Cores of different capacity are in
//! `eevdf_capacity`. Not modelled: preferred nodes and caches (`llc_balancing` of 7.2).

use machine::{Machine, Paths};
use workload::Fair;

use super::capacity::Capacity;
use super::domains::Domains;
use super::eevdf_funcs::Funcs;
use super::eevdf_queue::{Entity, Placing, SCALE};
use super::eevdf_tree::{CfsId, CfsRq, Tree};
use super::newidle::NewIdle;
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
    /// The queue that it is on, or whose average still counts its load.
    pub cfs: Option<CfsId>,
    /// It waits for its group's limit (`p->throttled`).
    pub throttled: bool,
    /// When it was put on its queue.
    pub queued_ns: u64,
    /// `recent_used_cpu`.
    pub recent: Option<CpuId>,
    pub last_wakee: Option<TaskId>,
    pub wakee_flips: u32,
    pub flips_since_ns: u64,
}

/// How a task leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Sleeps,
    /// It is put back at once, here or elsewhere.
    Moves,
    /// It waits for its group's limit.
    Throttled,
}

/// A CPU's runqueue. Its queues are in [`Eevdf::cfs`].
#[derive(Debug)]
pub(super) struct Rq {
    /// The running task of this class.
    pub curr: Option<TaskId>,
    /// Tasks on its queues, the running one and delayed ones included (`h_nr_queued`).
    queued: usize,
    /// Queues that have got time from another CPU, to be unthrottled (`cfsb_csd_list`).
    pub given: Vec<CfsId>,
    /// The sum over its runnable tasks (`cfs_rq->avg.util_est`).
    pub estimated: f64,
    /// Runnable tasks: those on its queues that are not delayed.
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

/// The class.
pub struct Eevdf {
    pub(super) func: Funcs,
    /// First those of tasks, then those of cgroups: see [`Tree`].
    pub(super) entities: Vec<Entity>,
    pub(super) habits: Vec<Habit>,
    pub(super) rqs: Vec<Rq>,
    /// The queues of all cgroups on all CPUs: see [`Tree`].
    pub(super) cfs: Vec<CfsRq>,
    pub(super) tree: Tree,
    pub(super) domains: Domains,
    pub(super) capacity: Capacity,
    /// By cache: CPUs that a search for an idle one may look at (`nr_idle_scan`).
    pub(super) idle_scan: Vec<usize>,
    pub(super) nohz_next_ns: u64,
    /// Some CPU has had more than one task since the last pass over the whole machine (`rd->overloaded`).
    pub(super) overloaded: bool,
    slice_ns: i64,
    pub(super) tick_ns: i64,
}

impl Eevdf {
    /// For this machine, with lazy preemption; `paths` gives the lengths of functions.
    pub fn new(machine: &Machine, paths: &Paths) -> Self {
        let domains = Domains::new(machine);
        let rq = |cpu| Rq {
            curr: None,
            queued: 0,
            given: Vec::new(),
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
            cfs: Vec::new(),
            tree: Tree::default(),
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

    /// The CPU writes its runqueue's counters, which other CPUs may have read.
    fn dirty(&mut self, k: &mut Kernel, cpu: CpuId) {
        k.read(&mut self.rqs[cpu].line);
        self.rqs[cpu].line = Line::new(k.this_cpu());
    }

    /// `update_curr`.
    pub(super) fn update_curr(&mut self, k: &mut Kernel, cpu: CpuId) {
        let Some(curr) = self.rqs[cpu].curr else { return };
        k.call(self.func.update_curr);
        let delta_ns = k.update_curr_by_clock(curr) as i64;
        let mut cfs = self.cfs_of(k, cpu, curr);
        let mut gives_way = self.cfs[cfs].queue.charge(&mut self.entities, delta_ns);
        while let Some((_, above)) = self.tree.above(cfs) {
            if self.cfs[cfs].limited {
                self.account_runtime(k, cfs, delta_ns);
            }
            k.call(self.func.update_curr);
            cfs = above;
            gives_way |= self.cfs[cfs].queue.charge(&mut self.entities, delta_ns);
        }
        if gives_way {
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

    /// `update_load_avg` of a task and its group's queue on a CPU, up to now.
    pub(super) fn update_load(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        k.call(self.func.update_load_avg);
        let now_ns = k.now_ns();
        let cfs = self.cfs_of(k, cpu, task);
        self.update_cfs(now_ns, cfs);
        if cfs != cpu {
            self.contribute(k, cfs);
        }
        let entity = &self.entities[task];
        let waits = entity.on_rq && !entity.delayed;
        let runs = self.rqs[cpu].curr == Some(task);
        let (load, rate) =
            if entity.on_rq { (entity.load(), self.busy_rate(cpu)) } else { (0, 1.0) };
        self.habits[task].avg.update_at(rate, now_ns, load, usize::from(waits), runs);
    }

    /// How fast time passes for a CPU's averages: more slowly while a CPU of less capacity is busy.
    pub(super) fn busy_rate(&self, cpu: CpuId) -> f64 {
        if self.cfs[cpu].queue.curr.is_some() { self.capacity.rate(cpu) } else { 1.0 }
    }

    /// A task's load leaves the queue that had it, and joins this one.
    fn follow(&mut self, cfs: CfsId, task: TaskId) {
        let Habit { avg, cfs: had, .. } = &mut self.habits[task];
        let (avg, had) = (*avg, had.replace(cfs));
        if had == Some(cfs) {
            return;
        }
        if let Some(had) = had {
            self.leave_load(had, &avg);
        }
        self.join_load(cfs, &avg, self.entities[task].load());
    }

    /// Puts a task on a CPU's queue, without charge but for its lines.
    pub(super) fn attach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, placing: Placing) {
        if self.habits[task].cfs.is_some_and(|had| self.tree.cpu(had) != cpu) {
            // It has no warm cache here [ENQUEUE_MIGRATED].
            k.tasks[task].exec_start_ns = 0;
        }
        let cfs = self.cfs_of(k, cpu, task);
        self.follow(cfs, task);
        self.habits[task].queued_ns = k.now_ns();
        self.cfs[cfs].queue.enqueue(&mut self.entities, task, placing);
        self.rqs[cpu].queued += 1;
        self.runnable_comes(k, cpu, task);
        self.enqueue_above(k, cfs);
        self.overloaded |= self.nr_running(cpu) > 1;
        self.dirty(k, cpu);
    }

    /// A runnable task joins a CPU's queue (`util_est_enqueue`).
    fn runnable_comes(&mut self, k: &Kernel, cpu: CpuId, task: TaskId) {
        let idle = self.counts_as_idle(k, task);
        let rq = &mut self.rqs[cpu];
        rq.runnable += 1;
        rq.runnable_idle += usize::from(idle);
        rq.estimated += self.habits[task].estimate.util;
    }

    /// A runnable task leaves a CPU's queue (`util_est_dequeue`).
    fn runnable_leaves(&mut self, k: &Kernel, cpu: CpuId, task: TaskId) {
        let idle = self.counts_as_idle(k, task);
        let rq = &mut self.rqs[cpu];
        rq.runnable -= 1;
        rq.runnable_idle -= usize::from(idle);
        rq.estimated = (rq.estimated - self.habits[task].estimate.util).max(0.0);
    }

    /// `rq->nr_running`: delayed sleepers are included.
    pub(super) fn nr_running(&self, cpu: CpuId) -> usize {
        self.rqs[cpu].queued
    }

    /// Takes a task off a CPU's queue, without charge but for its lines.
    pub(super) fn detach(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, leaving: Leaving) {
        let delayed = self.entities[task].delayed;
        let cfs = self.cfs_of(k, cpu, task);
        let sleeps = leaving != Leaving::Moves;
        self.cfs[cfs].queue.dequeue(&mut self.entities, task, sleeps, self.tick_ns);
        self.rqs[cpu].queued -= 1;
        if !delayed {
            self.runnable_leaves(k, cpu, task);
        }
        self.dequeue_above(k, cfs, leaving);
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
        let (curr_at, new_at) = (self.cfs_of(k, cpu, curr), self.cfs_of(k, cpu, task));
        let (cfs, [curr, new]) = self.tree.matching((curr, curr_at), (task, new_at));
        let idle = [curr, new].map(|entity| self.is_idle_entity(k, entity));
        let at_once = idle == [true, false];
        // BATCH and IDLE tasks do not preempt others.
        let normal = k.tasks[task].fair == Fair::Normal;
        let may = idle[0] == idle[1] && flags & wake::FORK == 0 && normal;
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
        if at_once || self.pick_entity(k, cfs) == Some(new) {
            self.resched(k, cpu);
        }
    }

    /// `hrtick_start_fair`: an interrupt for the end of the slice, if a task waits.
    fn arm_slice_end(&mut self, k: &mut Kernel, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        rq.slice_end_ns = None;
        let Some(curr) = rq.curr.filter(|_| rq.queued > 1) else { return };
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

    fn start(&mut self, k: &mut Kernel) -> Result<(), String> {
        let (cpus, tasks) = (self.rqs.len(), k.tasks.len());
        let cgroups = k.cgroups.clone();
        self.tree = Tree::new(cpus, tasks, &cgroups, || k.new_lock("cfs_b"));
        let (queues, entities) = self.tree.sizes();
        self.habits = vec![Habit::default(); tasks];
        self.entities = vec![Entity::new(1024, self.slice_ns); tasks + entities];
        self.cfs.resize_with(queues, CfsRq::default);
        for (cfs, of) in self.cfs.iter_mut().enumerate() {
            of.limited = self.tree.is_limited(cfs);
        }
        Ok(())
    }

    fn fork(&mut self, k: &mut Kernel, task: TaskId) {
        k.call(self.func.fork);
        let weight = u64::from(k.tasks[task].weight());
        let now_ns = k.now_ns();
        let wakee_flips = k.tasks[task].wakee_flips;
        self.habits[task] = Habit {
            avg: Avg::new(now_ns, weight),
            recent: Some(k.tasks[task].cpu),
            wakee_flips,
            ..Habit::default()
        };
        self.entities[task] = Entity::new(weight as i64, self.slice_ns);
    }

    fn dead(&mut self, _k: &mut Kernel, task: TaskId) {
        let avg = self.habits[task].avg;
        if let Some(cfs) = self.habits[task].cfs.take() {
            self.leave_load(cfs, &avg);
        }
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        self.place(k, task, prev, flags)
    }

    fn queued_wakeups(&self, _k: &Kernel, _task: TaskId) -> bool {
        true
    }

    fn still_queued(&self, task: TaskId) -> bool {
        self.entities[task].delayed
    }

    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if self.still_waits(k, cpu, task) {
            return;
        }
        let delayed = self.entities[task].delayed;
        k.enter(if delayed { self.func.enqueue_delayed } else { self.func.enqueue });
        self.update_curr(k, cpu);
        self.update_load(k, cpu, task);
        k.call(self.func.place_entity);
        if self.entities[task].delayed {
            // Still on the queue it slept on, which is this one: see `still_queued`.
            self.habits[task].queued_ns = k.now_ns();
            let cfs = self.cfs_of(k, cpu, task);
            self.cfs[cfs].queue.revive(&mut self.entities, task, self.tick_ns);
            self.runnable_comes(k, cpu, task);
            self.dirty(k, cpu);
        } else {
            let initial = flags & enqueue::INITIAL != 0;
            let placing = if initial { Placing::Initial } else { Placing::Back };
            if initial {
                let weight = u64::from(k.tasks[task].weight());
                let capacity = self.capacity.of[cpu];
                let cfs = self.cfs_of(k, cpu, task);
                self.habits[task].avg.guess(&self.cfs[cfs].avg, weight, capacity);
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
        if self.habits[task].throttled {
            self.leave_limbo(k, cpu, task);
            return k.leave();
        }
        self.update_curr(k, cpu);
        self.update_load(k, cpu, task);
        let sleeps = flags & dequeue::SLEEP != 0;
        if sleeps {
            let Habit { avg, estimate, .. } = &mut self.habits[task];
            self.rqs[cpu].estimated += estimate.sleeps(avg);
        }
        let cfs = self.cfs_of(k, cpu, task);
        let queue = &mut self.cfs[cfs].queue;
        let stays = sleeps && !k.tasks[task].exiting && !queue.eligible(&self.entities, task);
        if stays {
            queue.delay(&mut self.entities, task, self.tick_ns);
            self.runnable_leaves(k, cpu, task);
            self.dirty(k, cpu);
        } else {
            if self.func.dequeue_delayed.is_some() {
                k.call(self.func.dequeue_rest);
            }
            self.detach(k, cpu, task, if sleeps { Leaving::Sleeps } else { Leaving::Moves });
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
            // The charge may ask for the pass that is under way.
            let asked = k.cpus[cpu].need_resched;
            self.update_curr(k, cpu);
            k.cpus[cpu].need_resched = asked;
            k.cpus[cpu].lazy_resched = false;
        }
        let mut next = self.pick_task(k, cpu);
        if next.is_none() && self.newidle_balance(k, cpu) {
            next = self.pick_task(k, cpu);
        }
        if let Some(next) = next {
            super::not_before(k, self.habits[next].queued_ns);
            // A task that goes on is not set again, but has a new slice all the same.
            let rq = &self.rqs[cpu];
            if rq.curr == Some(next) && rq.slice_end_ns.is_none() {
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
        next: Option<TaskId>,
    ) {
        k.enter(self.func.put_prev);
        if runnable {
            self.update_load(k, cpu, prev);
        }
        // The pick has dequeued a sleeper with a paid debt; it may be awake elsewhere.
        if self.rqs[cpu].curr == Some(prev) {
            self.rqs[cpu].curr = None;
            let next = next.filter(|next| !k.tasks[*next].realtime.yes());
            self.put_path(k, cpu, prev, runnable, next);
        }
        k.leave();
    }

    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId) {
        k.enter(self.func.set_next);
        self.update_load(k, cpu, next);
        self.set_path(k, cpu, next);
        self.rqs[cpu].curr = Some(next);
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
        self.update_load(k, cpu, curr);
        self.tick_above(k, self.cfs_of(k, cpu, curr));
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
        if self.nr_running(cpu) > 1 {
            let cfs = self.cfs_of(k, cpu, task);
            self.cfs[cfs].queue.give_way(&mut self.entities, task);
        }
        k.leave();
    }

    fn forget_sleeper(&mut self, k: &mut Kernel, task: TaskId) {
        if self.entities[task].delayed {
            let cpu = k.tasks[task].cpu;
            self.detach(k, cpu, task, Leaving::Sleeps);
        }
    }

    fn set_nice(&mut self, k: &mut Kernel, task: TaskId) {
        self.entities[task].weight = i64::from(k.tasks[task].weight()) * SCALE;
    }

    fn set_cgroup(&mut self, k: &mut Kernel, task: TaskId, _from: u64) {
        if let Some(had) = self.habits[task].cfs {
            self.follow(self.cfs_of(k, self.tree.cpu(had), task), task);
        }
    }

    fn set_quota(&mut self, k: &mut Kernel, cgroup: usize) {
        self.set_limit(k, cgroup, k.cgroups[cgroup].quota);
    }

    fn timer(&mut self, k: &mut Kernel, number: u32, start: u32) {
        self.bandwidth_timer(k, number, start);
    }

    fn irq_work(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.unthrottle_given(k, cpu);
    }

    fn hotplug(&mut self, k: &mut Kernel, cpu: CpuId, online: bool) -> Result<(), String> {
        if self.tree.groups.len() > 1 {
            self.hotplug_groups(k, cpu, online);
        }
        Ok(())
    }
}
