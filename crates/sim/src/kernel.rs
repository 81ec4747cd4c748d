// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel as a scheduling class sees it: time, locks, tasks, CPUs.
//!
//! Kernel code of a CPU runs at a cursor of virtual time ([`Kernel::now_ns`]), which every action moves. It is
//! simulated in one go from an event to its end, then other CPUs get their turn. So it can be ahead of them by the
//! length of a system call or a pass of the scheduler.

use machine::{CpuSet, Machine, Paths, Ticks, contended_rate};
use policy::Cgroup;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use trace::Kind;
use workload::Cut;

use crate::account::{Account, Caller, Func};
use crate::checkers::Hint;
use crate::cpu::{Cpu, Mode};
use crate::domains::Domains;
use crate::event::{Due, Irq, Queue};
use crate::frequency::{Clocks, Counted};
use crate::hw::Hw;
use crate::ids::{CpuId, TaskId};
use crate::line::Line;
use crate::lock::{Lock, LockId};
use crate::noise::Noise;
use crate::program::{Cursor, Op};
use crate::sink::Sink;
use crate::task::{State, Task};
use crate::turns::Cuts;
use crate::whole::{LineCost, Whole};

/// Functions of the core that every class's tasks pass through.
pub(crate) struct CoreFuncs {
    pub try_to_wake_up: Func,
    pub ttwu_do_activate: Func,
    pub ttwu_queue_wakelist: Func,
    pub sched_ttwu_pending: Func,
    pub activate_task: Func,
    pub deactivate_task: Func,
    pub wake_up_new_task: Func,
    pub schedule: Func,
    pub finish_task_switch: Func,
    pub context_switch: Func,
    pub switch_mm: Func,
    pub resched_curr: Func,
    pub update_rq_clock: Func,
    pub scheduler_tick: Func,
    pub do_sched_yield: Func,
    pub sched_setaffinity: Func,
    pub sched_setscheduler: Func,
    pub migration_stop: Func,
    pub copy_process: Func,
    pub do_exit: Func,
    pub timer_interrupt: Func,
    pub reschedule_ipi: Func,
    pub cpu_idle_enter: Func,
    pub cpu_idle_exit: Func,
}

impl CoreFuncs {
    fn new(paths: &Paths) -> Self {
        let id = |name| Func::from(paths.id(name));
        CoreFuncs {
            try_to_wake_up: id("try_to_wake_up"),
            ttwu_do_activate: id("ttwu_do_activate"),
            ttwu_queue_wakelist: id("ttwu_queue_wakelist"),
            sched_ttwu_pending: id("sched_ttwu_pending"),
            activate_task: id("activate_task"),
            deactivate_task: id("deactivate_task"),
            wake_up_new_task: id("wake_up_new_task"),
            schedule: id("schedule"),
            finish_task_switch: id("finish_task_switch"),
            context_switch: id("context_switch"),
            switch_mm: id("switch_mm"),
            resched_curr: id("resched_curr"),
            update_rq_clock: id("update_rq_clock"),
            scheduler_tick: id("scheduler_tick"),
            do_sched_yield: id("do_sched_yield"),
            sched_setaffinity: id("sched_setaffinity"),
            sched_setscheduler: id("sched_setscheduler"),
            migration_stop: id("migration_stop"),
            copy_process: id("copy_process"),
            do_exit: id("do_exit"),
            timer_interrupt: id("timer_interrupt"),
            reschedule_ipi: id("reschedule_ipi"),
            cpu_idle_enter: id("cpu_idle_enter"),
            cpu_idle_exit: id("cpu_idle_exit"),
        }
    }
}

/// The simulated kernel.
pub struct Kernel {
    /// The hardware under it.
    pub machine: Machine,
    /// Its costs in whole ns, as charged.
    pub(crate) whole: Whole,
    /// The lengths of its functions.
    pub paths: Paths,
    /// Its CPUs.
    pub cpus: Vec<Cpu>,
    /// Its tasks: those of the workload, in its order.
    pub tasks: Vec<Task>,
    /// The task that creates another one at this moment.
    pub(crate) forker: Option<TaskId>,
    /// Its cgroups, the root first: those of the workload, in its order.
    pub cgroups: Vec<Cgroup>,
    /// CPUs that take part in scheduling.
    pub online: CpuSet,
    pub(crate) func: CoreFuncs,
    pub(crate) account: Account,
    pub(crate) queue: Queue,
    pub(crate) sink: Sink,
    pub(crate) rng: Pcg64Mcg,
    /// Errors of counters and clocks.
    pub(crate) noise: Noise,
    /// Pressure of the running tasks on each last-level cache.
    pub(crate) pressure: Vec<f64>,
    /// TLBs and caches, if the workload says what memory its tasks touch.
    pub(crate) hw: Option<Box<Hw>>,
    /// Memory domains, if the machine has them and the workload gives its tasks' demand on memory.
    pub(crate) domains: Option<Box<Domains>>,
    /// Clocks, if the machine gives their rules.
    pub(crate) clocks: Option<Box<Clocks>>,
    /// Counters of instructions have failed.
    pub(crate) counters_stand: bool,
    /// The CPU that is being simulated, the cost class of functions there, and its cursor.
    pub(crate) this: CpuId,
    caller: Caller,
    pub(crate) now: u64,
    /// While a pass of the scheduler or a wakeup holds a runqueue, its clock stands (`rq_clock`). The time of that code
    /// is charged to the next task, or appears at the next update.
    pub(crate) standing_ns: Option<u64>,
    /// Extra CPU time of recorded tasks for waiting and waking, beyond the charges here.
    pub(crate) takes_more: Cut,
    /// Start of the CPU time that no task has been credited with yet ([`Kernel::credit`]).
    since_ns: u64,
    /// Why the run must end, first reason first.
    pub(crate) failure: Option<String>,
    locks: Vec<Lock>,
    /// State of turns, if CPUs run in turn.
    pub(crate) cuts: Option<Box<Cuts>>,
    core_busy: Vec<usize>,
    core_cpus: Vec<CpuSet>,
    /// The same as a list.
    core_threads: Vec<Vec<CpuId>>,
    /// The CPU that each CPU last got from [`Kernel::any_and_distribute`].
    given: Vec<CpuId>,
}

/// A reading of the clock, for [`Kernel::took_ns`].
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    own_ns: u64,
    rounds: u64,
}

impl Kernel {
    pub(crate) fn new(machine: Machine, paths: Paths, seed: u64, sink: Sink) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut account = Account::new(&machine, &paths);
        let rq_place = account.place("rq");
        let period_ns = machine.costs.tick_period_ns.max(1.0) as u64;
        let mut locks = Vec::new();
        let mut phase_ns = 0;
        let cpus = (0..machine.cpus.len()).map(|cpu| {
            locks.push(Lock::new(rq_place, cpu));
            if cpu == 0 || machine.ticks == Ticks::Apart {
                phase_ns = rng.random_range(0..period_ns);
            }
            Cpu::new(LockId(cpu), phase_ns)
        });
        let cpus: Vec<Cpu> = cpus.collect();
        let cores = 1 + machine.cpus.iter().map(|cpu| cpu.core).max().unwrap_or(0) as usize;
        let llcs = 1 + machine.cpus.iter().map(|cpu| usize::from(cpu.llc)).max().unwrap_or(0);
        let mut core_cpus = vec![CpuSet::EMPTY; cores];
        machine.cpus.iter().enumerate().for_each(|(n, cpu)| core_cpus[cpu.core as usize].add(n));
        Kernel {
            func: CoreFuncs::new(&paths),
            whole: Whole::new(&machine.costs),
            cgroups: vec![Cgroup::ROOT],
            online: machine.all(),
            counters_stand: false,
            account,
            paths,
            tasks: Vec::new(),
            forker: None,
            queue: Queue::default(),
            sink,
            rng,
            noise: Noise { deviation: 0.0, clock_skew_ns: 0, seed },
            pressure: vec![0.0; llcs],
            hw: None,
            domains: None,
            clocks: Clocks::new(&machine).map(Box::new),
            this: 0,
            caller: Caller::new(1, true),
            now: 0,
            standing_ns: None,
            takes_more: Cut::default(),
            since_ns: 0,
            failure: None,
            locks,
            cuts: (machine.costs.turn_ns > 0.0).then(|| Box::new(Cuts::new(machine.cpus.len()))),
            core_busy: vec![0; cores],
            core_threads: core_cpus.iter().map(|cpus| cpus.iter().collect()).collect(),
            core_cpus,
            given: vec![0; cpus.len()],
            cpus,
            machine,
        }
    }

    /// The cursor: the virtual time that the simulated code has reached, in ns.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// The CPU that is being simulated.
    #[inline]
    pub fn this_cpu(&self) -> CpuId {
        self.this
    }

    /// Ends the run with this reason, at the next event.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.failure.get_or_insert(reason.into());
    }

    /// A random number from the run's seed.
    pub fn random_u32(&mut self) -> u32 {
        self.rng.next_u32()
    }

    // ---- costs ----

    /// The function of `machines/paths.toml` of this name; for a class's start.
    pub fn function(&self, name: &str) -> Func {
        self.paths.id(name).into()
    }

    /// A function of the class's own, of `instructions` and an extra `fixed_ns`.
    pub fn add_function(&mut self, name: &str, instructions: f64, fixed_ns: f64) -> Func {
        self.account.add(name, true, instructions, fixed_ns, &self.machine)
    }

    /// Enters a function: charges its instructions, and counts all time up to [`Kernel::leave`] for it, except the time
    /// of functions called from it.
    #[inline]
    pub fn enter(&mut self, func: Func) {
        self.now = self.account.enter(func, self.now, self.caller);
    }

    /// Leaves the function entered last.
    #[inline]
    pub fn leave(&mut self) {
        self.account.leave(self.now);
    }

    /// [`Kernel::leave`], as the last call of a function.
    #[inline]
    pub(crate) fn leave_with<T>(&mut self, answer: T) -> T {
        self.leave();
        answer
    }

    /// Calls a function that calls nothing itself.
    #[inline]
    pub fn call(&mut self, func: Func) {
        self.now = self.account.call(func, self.now, self.caller);
    }

    /// Moves the cursor by a cost of the machine.
    #[inline]
    pub fn charge_ns(&mut self, ns: f64) {
        // Converted through a signed number, which takes fewer instructions; a cost is at most 2^63 ns.
        self.charge(ns as i64 as u64);
    }

    /// Moves the cursor by a cost in whole ns.
    #[inline]
    pub(crate) fn charge(&mut self, ns: u64) {
        self.now += ns;
    }

    /// Cost to this CPU of a line that `cpu` wrote last.
    #[inline]
    fn line_from(&self, cpu: CpuId) -> LineCost {
        self.whole.line(self.machine.distance(cpu, self.this))
    }

    /// Credits the CPU's present task with the time of the code simulated so far.
    #[inline]
    pub(crate) fn credit(&mut self) {
        let took_ns = self.now - std::mem::replace(&mut self.since_ns, self.now);
        self.cpus[self.this].worked_ns += took_ns as f64;
    }

    /// An atomic operation on a line that other CPUs use too.
    #[inline]
    pub fn atomic(&mut self, line: &mut Line) {
        self.now = line.atomic(self.now, self.this, self.line_from(line.owner()));
    }

    /// Reads a line that other CPUs write.
    #[inline]
    pub fn read(&mut self, line: &mut Line) {
        if !line.has(self.this) {
            self.charge(self.line_from(line.owner()).fetch_ns);
            line.read(self.this);
        }
    }

    /// Writes a task's `task_struct`, which another CPU may have written last.
    #[inline]
    pub fn touch_task(&mut self, task: TaskId) {
        let last = std::mem::replace(&mut self.tasks[task].line, self.this);
        self.charge(self.line_from(last).fetch_ns);
    }

    /// Code of this CPU is simulated from now on.
    pub(crate) fn begin(&mut self, cpu: CpuId, now_ns: u64) {
        self.this = cpu;
        (self.now, self.since_ns) = (now_ns, now_ns);
        self.account.begin(now_ns);
        self.look_at_caller();
    }

    /// Costs of functions have changed: another CPU is simulated, or it has become idle or busy.
    fn look_at_caller(&mut self) {
        let busy = self.core_busy[self.machine.cpus[self.this].core as usize].clamp(1, 4);
        self.caller = Caller::new(busy, self.cpus[self.this].idle());
    }

    // ---- locks ----

    /// A lock of the class's own. Acquisitions are counted by place.
    pub fn new_lock(&mut self, place: &'static str) -> LockId {
        let place = self.account.place(place);
        self.locks.push(Lock::new(place, 0));
        LockId(self.locks.len() - 1)
    }

    /// Takes a lock: waits for its holder, and pays for the line.
    #[inline]
    pub fn lock(&mut self, id: LockId) {
        let cost = self.line_from(self.locks[id.0].last);
        let lock = &mut self.locks[id.0];
        let taken = lock.take(self.now, self.this, &self.machine, cost);
        self.account.lock_taken(lock.place, taken.waited_ns, taken.at_ns - self.now);
        self.now = taken.at_ns;
        if let Some(cuts) = &mut self.cuts {
            cuts.taken(id, self.this, self.now);
        }
    }

    /// Releases a lock.
    #[inline]
    pub fn unlock(&mut self, lock: LockId) {
        self.locks[lock.0].give(self.now);
        if let Some(cuts) = &mut self.cuts {
            cuts.given(lock, self.this, self.now);
        }
    }

    /// Takes a lock only if that needs no waiting; returns whether it did.
    pub fn trylock(&mut self, lock: LockId) -> bool {
        let free = self.locks[lock.0].free(self.now);
        if free {
            self.lock(lock);
        }
        free
    }

    /// Whether the code simulated now holds this lock.
    pub fn holds(&self, lock: LockId) -> bool {
        self.locks[lock.0].holder.is_some()
    }

    /// The lock of a CPU's runqueue.
    #[inline]
    pub fn rq_lock_of(&self, cpu: CpuId) -> LockId {
        self.cpus[cpu].rq_lock
    }

    /// Takes the lock of a CPU's runqueue.
    #[inline]
    pub fn rq_lock(&mut self, cpu: CpuId) {
        self.lock(self.cpus[cpu].rq_lock);
    }

    /// Releases the lock of a CPU's runqueue.
    #[inline]
    pub fn rq_unlock(&mut self, cpu: CpuId) {
        self.unlock(self.cpus[cpu].rq_lock);
    }

    /// `double_lock_balance`: with `this`'s runqueue locked, locks `other`'s too, in the order of their numbers;
    /// `this`'s may be released and taken again meanwhile.
    pub fn rq_double_lock(&mut self, this: CpuId, other: CpuId) {
        if self.trylock(self.cpus[other].rq_lock) {
            return;
        }
        if other < this {
            self.rq_unlock(this);
            self.rq_lock(other);
            self.rq_lock(this);
        } else {
            self.rq_lock(other);
        }
    }

    pub(crate) fn lock_held(&self) -> Option<usize> {
        self.locks.iter().position(|lock| lock.holder.is_some())
    }

    // ---- tasks ----

    /// The clock of the runqueue in use: `rq_clock_task`.
    pub fn rq_clock_ns(&self) -> u64 {
        self.standing_ns.unwrap_or(self.now)
    }

    /// [`Kernel::update_curr`], up to the runqueue's clock.
    pub fn update_curr_by_clock(&mut self, task: TaskId) -> u64 {
        let clock_ns = self.rq_clock_ns();
        let now = std::mem::replace(&mut self.now, clock_ns);
        let delta_ns = self.update_curr(task);
        self.now = now;
        delta_ns
    }

    /// Charges the running task's time up to now: returns the ns since it was last charged.
    pub fn update_curr(&mut self, task: TaskId) -> u64 {
        let now = self.now;
        let task = &mut self.tasks[task];
        let delta_ns = now.saturating_sub(task.exec_start_ns);
        task.exec_start_ns = task.exec_start_ns.max(now);
        task.sum_exec_ns += delta_ns;
        delta_ns
    }

    /// Adds a kernel thread, in a process of its own; no task has forked it.
    pub(crate) fn add_thread(&mut self, name: String, allowed: CpuSet, program: &[Op]) -> TaskId {
        let process = self.tasks.iter().map(|task| task.process + 1).max().unwrap_or(0);
        let at = Cursor::new(program.into(), None, 0);
        let task = Task::new(name, allowed, process, allowed.lowest().unwrap_or(0), at);
        self.tasks.push(Task { kernel: true, ..task });
        self.tasks.len() - 1
    }

    /// A task's address space; 0 if it has none.
    pub(crate) fn space_of(&self, task: TaskId) -> usize {
        let task = &self.tasks[task];
        if task.kernel { 0 } else { task.process + 1 }
    }

    /// Makes a queued task belong to another CPU: `set_task_cpu`. The class has dequeued it from the old one's queue
    /// and enqueues it on the new one's. Both runqueues are locked, or the task is in no queue.
    pub fn set_task_cpu(&mut self, task: TaskId, cpu: CpuId) {
        let was = std::mem::replace(&mut self.tasks[task].cpu, cpu);
        if was != cpu && self.tasks[task].state == State::Queued {
            self.cpus[was].nr_running -= 1;
            self.cpus[cpu].nr_running += 1;
        }
        self.touch_task(task);
    }

    /// Asks a CPU to schedule: `resched_curr`. Sends an interrupt to another CPU.
    pub fn resched(&mut self, cpu: CpuId) {
        if std::mem::replace(&mut self.cpus[cpu].need_resched, true) {
            return;
        }
        self.call(self.func.resched_curr);
        if cpu != self.this {
            self.send(cpu, Irq::Resched);
        }
    }

    /// Asks another CPU to call [`crate::Class::balance`]: the kick of nohz idle balancing.
    pub fn kick_balance(&mut self, cpu: CpuId) {
        self.send(cpu, Irq::Balance);
    }

    /// Whether a real-time task runs on a CPU.
    pub(crate) fn runs_realtime(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].curr.is_some_and(|curr| self.tasks[curr].realtime.yes())
    }

    /// The capacity of a CPU that real-time tasks leave to the class below, of 1024 (`scale_rt_capacity`).
    pub(crate) fn capacity_left(&mut self, cpu: CpuId) -> f64 {
        let runs = self.runs_realtime(cpu);
        let now = self.now;
        let taken = &mut self.cpus[cpu].taken;
        if !runs && taken.util == 0.0 {
            return 1024.0;
        }
        taken.update(now, 0, usize::from(runs), runs);
        (1024.0 - taken.util).max(1.0)
    }

    /// Whether a CPU idles without ticks.
    pub fn sleeps(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].idle() && (self.machine.ticks == Ticks::Apart || !self.cpus[cpu].tick_armed)
    }

    /// Has [`crate::Class::irq_work`] called on this CPU as soon as its interrupts are on again.
    pub fn raise_irq_work(&mut self) {
        self.cpus[self.this].irq_work = true;
    }

    /// The same on any CPU, by an interrupt if it is another one: `irq_work_queue_on`.
    pub fn raise_irq_work_on(&mut self, cpu: CpuId) {
        if cpu == self.this {
            self.raise_irq_work();
        } else if !std::mem::replace(&mut self.cpus[cpu].irq_work_sent, true) {
            self.send(cpu, Irq::Work);
        }
    }

    pub(crate) fn send(&mut self, cpu: CpuId, irq: Irq) {
        self.charge(self.whole.ipi_send_ns);
        let at_ns = self.now + self.whole.ipi_delivery_ns;
        self.queue.push(at_ns, Due::Irq { cpu: cpu as u16, irq });
    }

    /// Threads of the core of `cpu`, itself included.
    pub fn siblings(&self, cpu: CpuId) -> CpuSet {
        self.core_cpus[self.machine.cpus[cpu].core as usize]
    }

    /// Thread `at` of the core of `cpu`, itself included; None: the core has fewer.
    #[inline]
    pub(crate) fn thread_of_core(&self, cpu: CpuId, at: usize) -> Option<CpuId> {
        self.core_threads[self.machine.cpus[cpu].core as usize].get(at).copied()
    }

    /// Any CPU that is in both sets: the next one after the last answer to this CPU, so that successive callers are
    /// spread. `cpumask_any_and_distribute`.
    #[inline]
    pub fn any_and_distribute(&mut self, set: &CpuSet, allowed: &CpuSet) -> Option<CpuId> {
        if !set.meets(allowed) {
            return None;
        }
        let given = &mut self.given[self.this];
        *given = set.and(allowed).next_from(*given + 1)?;
        Some(*given)
    }

    /// Reads the clock on this CPU.
    pub fn stamp(&self) -> Stamp {
        let turn_ns = self.machine.costs.turn_ns as u64;
        let rounds = self.cuts.as_ref().map_or(0, |cuts| cuts.rounds(self.now, turn_ns));
        Stamp { own_ns: self.now, rounds }
    }

    /// How long this CPU's code has taken since then, by a clock. If CPUs run in turn, a turn may have ended meanwhile
    /// or been given away for a lock: all other busy CPUs have had theirs then.
    pub fn took_ns(&self, since: Stamp) -> u64 {
        let now = self.stamp();
        let busy = |cpu: &CpuId| *cpu != self.this && !self.cpus[*cpu].idle();
        let others = (0..self.cpus.len()).filter(busy).count() as u64;
        now.own_ns - since.own_ns
            + (now.rounds - since.rounds) * others * self.machine.costs.turn_ns as u64
    }

    /// Whether two CPUs share a last-level cache.
    pub fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.machine.cpus[a].llc == self.machine.cpus[b].llc
    }

    pub(crate) fn emit(&mut self, kind: Kind) {
        self.sink.emit(self.now, self.this, kind);
    }

    pub(crate) fn hint(&mut self, hint: Hint) {
        self.sink.hint(self.now, self.this, hint);
    }

    pub(crate) fn hint_early(&mut self, hint: Hint) {
        self.sink.hint_early(self.this, hint);
    }

    // ---- progress ----

    /// Speed of a CPU's present task, relative to the reference CPU.
    pub(crate) fn rate_of(&self, cpu: CpuId) -> f64 {
        let place = &self.machine.cpus[cpu];
        let busy = self.core_busy[place.core as usize];
        let of = |task: TaskId| (self.tasks[task].stalled, self.tasks[task].pressure);
        let (stalled, own) = self.cpus[cpu].curr.map_or((0.0, 0.0), of);
        let others = (self.pressure[usize::from(place.llc)] - own).max(0.0);
        let longer = self.machine.costs.llc_contention * others;
        let clock = self.clocks.as_ref().map_or(1.0, |clocks| clocks.rate(cpu));
        let core_rate = clock * self.machine.core_rates[place.core_type as usize];
        let shared = self.domains.as_ref().map_or(1.0, |domains| domains.rate(cpu));
        contended_rate(core_rate, stalled, longer) * self.machine.costs.smt_rate(busy) * shared
    }

    /// `cpu` has started or stopped being busy. Returns whether other threads of its core have another speed now.
    pub(crate) fn set_busy(&mut self, cpu: CpuId, busy: bool) -> bool {
        let core = self.machine.cpus[cpu].core as usize;
        let was = self.core_busy[core];
        self.core_busy[core] = if busy { was + 1 } else { was - 1 };
        self.look_at_caller();
        self.core_threads[core].len() > 1
            && self.machine.costs.smt_rate(was) != self.machine.costs.smt_rate(self.core_busy[core])
    }

    /// Whether `cpu` runs a task's own code.
    pub(crate) fn in_user(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].mode == Mode::User
    }

    /// Clock counters of the CPU that this code runs on, if there are any that work.
    pub(crate) fn clocks_counted(&mut self) -> Option<Counted> {
        let (cpu, now) = (self.this, self.now);
        self.clocks.as_mut()?.counted(cpu, now)
    }
}
