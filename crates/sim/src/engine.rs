// SPDX-License-Identifier: GPL-2.0-only
//! The event loop: CPUs run tasks, take interrupts, and enter and leave the kernel.
//!
//! An `engine.rs` in a folder (`turns/engine.rs`) has more methods of [`Engine`]: those for the state that the file
//! beside that folder has. No file imports one of them.

use machine::Ticks;
use workload::{More, RealTime, Step, Workload};

use crate::acts::Acts;
use crate::cgroup::{cgroup_id, cgroups};
use crate::class::Class;
use crate::cpu::{Mode, Spent};
use crate::event::{Due, Irq};
use crate::fault::Fault;
use crate::housekeeping::Housekeeping;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::objects::{Funcs, Gate, Object, RELEASED, SPINNING};
use crate::program::{Cursor, Op, compile_between};
use crate::task::{State, Task};
use crate::turns::{Cuts, Turns};

/// Operations in a row that take no time before a loop is charged for an iteration.
const ROUNDS_MAX: u32 = 1000;
/// The charge: an empty loop is not free.
const ROUNDS_NS: f64 = 1000.0;
/// The kernel's own threads of a recording have existed for longer than the workload, and mostly slept; policies rely
/// on that. So they begin this long before the workload starts.
const RESTED_NS: u64 = 1_000_000_000;

/// One run.
pub(crate) struct Engine {
    pub k: Kernel,
    pub class: Box<dyn Class>,
    pub objects: Vec<Object>,
    pub funcs: Funcs,
    /// Tasks started and not ended, and those still to be started by themselves.
    pub alive: usize,
    pub to_start: usize,
    pub faults: Vec<Fault>,
    /// Tasks that faults start, each with the fault's place.
    pub hogs: Vec<(usize, TaskId)>,
    /// Each piece of work varies by up to this part of it.
    pub jitter: f64,
    /// When the run must have ended, whether that is its normal end, and how long the workload lasts from its start.
    pub stop_ns: u64,
    pub lasts_ns: u64,
    /// The gate at which tasks wait for the start, if they do.
    pub gate: Option<Gate>,
    /// When the workload started, and the time that CPUs had spent until then.
    pub start_ns: u64,
    pub spent_before: Vec<Spent>,
    /// The barrier at which the first task starts the workload's own clock, and when it did.
    pub timed_from: Option<usize>,
    pub timed_from_ns: Option<u64>,
    pub turns: Turns,
    /// Tasks burn CPU time until they see on a clock that it was enough, as `worker` has them. Tasks of a recording do
    /// the recorded work.
    pub burns: bool,
    pub housekeeping: Housekeeping,
    /// CPU time that is added to acts of a recording.
    pub acts: Option<Acts>,
}

/// The thread that forks these tasks. If one of them is real-time, so is this thread: else that task would keep it from
/// forking the others.
fn launcher(workload: &Workload, first: &[usize], make_ns: u64) -> workload::Task {
    workload::Task {
        name: "launcher".to_string(),
        process: 1 + workload.tasks.iter().map(|task| task.process).max().unwrap_or(0),
        steps: first
            .iter()
            .flat_map(|task| [Step::Run { work_ns: make_ns }, Step::Fork(*task)])
            .filter(|step| *step != Step::Run { work_ns: 0 })
            .collect(),
        realtime: match workload.has_realtime() {
            true => RealTime::Fifo(RealTime::MAX),
            false => RealTime::No,
        },
        ..workload::Task::default()
    }
}

/// A task that waits for `rest_ns` first, before the workload's time begins, and then for its delay. The delay of a
/// forked task counts from the begin of that time, and not from its fork: [`Op::Delay`].
fn new_task(
    k: &Kernel,
    task: &workload::Task,
    here: CpuId,
    rest_ns: u64,
    before: &[Op],
    after: &[Op],
) -> Task {
    let mut steps = task.steps.clone();
    let sleeps_ns = rest_ns + if task.forked { 0 } else { task.delay_ns };
    if sleeps_ns > 0 {
        steps.insert(0, Step::Sleep { ns: sleeps_ns });
    }
    let mask = |cpus: &Option<Vec<usize>>| match cpus {
        Some(cpus) => cpus.iter().copied().filter(|cpu| k.online.has(*cpu)).collect(),
        None => k.machine.all(),
    };
    let allowed = mask(&task.cpus);
    let (program, masks) = compile_between(before, &steps, after);
    let masks = masks.iter().map(mask).collect();
    let at = Cursor::new(program, task.script.as_ref(), task.delay_ns);
    let own = Task::new(task.name.clone(), allowed, task.process, here, at);
    Task {
        nice: task.nice,
        fair: task.fair,
        realtime: task.realtime,
        kernel: task.kernel,
        stalled: task.stalled,
        pressure: task.pressure,
        vector: task.vector.level(),
        cgroup: cgroup_id(task.group),
        masks,
        gil: task.gil,
        wakee_flips: task.wakee_flips,
        ..own
    }
}

/// The next whole ns; without the library's `ceil`, which is a call.
#[inline]
fn rounded_up(ns: f64) -> u64 {
    let whole = ns as i64;
    whole as u64 + u64::from((whole as f64) < ns)
}

/// How a run ended.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// All tasks ended, or the workload's time was over, at this time.
    At(u64),
    /// No event can happen any more, and these tasks have not ended.
    Stuck(Vec<TaskId>),
    /// The kernel gave the class up, or the run could not go on.
    Failed(String),
}

impl Engine {
    /// Makes the tasks and objects, and lets the tasks start that no task forks. A thread of its own forks them one by
    /// one, as a program's main thread does.
    pub fn load(&mut self, workload: &Workload, together: bool) -> Result<(), String> {
        let k = &mut self.k;
        k.cgroups = cgroups(workload);
        k.takes_more = workload.takes_more;
        self.objects = workload.objects.iter().map(|object| Object::new(object, k)).collect();
        let here = k.online.iter().nth(k.random_u32() as usize % k.online.len()).unwrap_or(0);
        let rests = |task: &workload::Task| task.kernel && !task.forked && !together;
        let first = (0..workload.tasks.len()).filter(|id| !workload.tasks[*id].forked);
        let (rested, first): (Vec<usize>, Vec<usize>) =
            first.partition(|id| rests(&workload.tasks[*id]));
        let costs = &k.machine.costs;
        let (make_ns, start_ns) = (costs.thread_make_ns as u64, costs.thread_start_ns as u64);
        let ready = [Op::Run { work_ns: start_ns }, Op::Gate];
        let (make_ns, gate, open): (u64, &[Op], &[Op]) = match together {
            true => (make_ns, &ready, &[Op::Open]),
            false => (0, &[], &[]),
        };
        for task in &workload.tasks {
            let rest_ns = if rests(task) { RESTED_NS } else { 0 };
            let before = match task.forked {
                true if task.delay_ns > 0 => &[Op::Delay][..],
                true => &[],
                false => gate,
            };
            let made = new_task(k, task, here, rest_ns, before, &[]);
            k.tasks.push(made);
        }
        let mut before: Vec<Op> = rested.iter().map(|task| Op::Fork(*task)).collect();
        if !rested.is_empty() {
            before.extend([Op::Sleep { ns: RESTED_NS }, Op::Open]);
        }
        let waits = together || !rested.is_empty();
        self.gate = waits.then(|| Gate::new(if together { first.len() } else { 0 }, k));
        let start = match first[..] {
            [] if rested.is_empty() => None,
            [one] if !waits => Some(one),
            _ => {
                let launcher = launcher(workload, &first, make_ns);
                let launcher = new_task(k, &launcher, here, 0, &before, open);
                k.tasks.push(launcher);
                Some(k.tasks.len() - 1)
            }
        };
        if let Some(task) = start {
            self.to_start += 1;
            let irq = Irq::Start { task: task as u32 };
            k.queue.push(0, Due::Irq { cpu: here as u16, irq });
        }
        self.make_hogs();
        let k = &mut self.k;
        let keepers = k.tasks.len();
        // With recorded kernel threads, the machine's would be in twice.
        if !workload.tasks.iter().any(|task| task.kernel) {
            self.housekeeping.make(k);
        }
        self.class.start(k)?;
        k.now = 0;
        self.keepers_rest(keepers);
        if self.gate.is_none() {
            self.stop_ns = self.lasts_ns;
            self.plan_faults();
        }
        let k = &mut self.k;
        if let Some(timeout_ns) = self.class.watchdog_ns() {
            k.queue.push(timeout_ns / 2, Due::Watchdog);
        }
        if self.k.domains.is_some() {
            self.k.queue.push(0, Due::Memory);
        }
        self.on_control(0);
        Ok(())
    }

    /// The workload starts now: its time is counted and its tasks are seen from here.
    pub fn start(&mut self) {
        let k = &mut self.k;
        self.start_ns = k.now;
        self.stop_ns = self.lasts_ns.saturating_add(k.now);
        k.tasks.iter_mut().for_each(|task| task.at.origin_ns += k.now);
        let at_start = k.cpus.iter().map(|cpu| cpu.spent_until(k.now).cut(k.now));
        self.spent_before = at_start.collect();
        k.sink.restart(k.now);
        k.account.restart(k.now);
        if let Some(hw) = &mut k.hw {
            hw.restart();
        }
        self.plan_faults();
    }

    /// Runs until all tasks have ended or the time is over.
    pub fn run(&mut self) -> End {
        loop {
            if let Some(reason) = self.k.failure.take() {
                return End::Failed(reason);
            }
            if self.alive == 0 && self.to_start == 0 {
                return End::At(self.k.now);
            }
            let Some((t_ns, due)) = self.k.queue.pop() else { return self.stuck() };
            if t_ns >= self.stop_ns {
                return End::At(self.stop_ns);
            }
            self.k.sink.advance(t_ns);
            match due {
                Due::Watchdog if self.nothing_runs() => return self.stuck(),
                due if self.turns.none() => self.dispatch(due, t_ns),
                due => self.in_turn(due, t_ns),
            }
        }
    }

    /// Handles a due event.
    pub(crate) fn dispatch(&mut self, due: Due, t_ns: u64) {
        match due {
            Due::Cpu(cpu) => self.on_cpu(usize::from(cpu), t_ns),
            Due::Irq { cpu, irq } => self.on_irq(cpu as usize, irq, t_ns),
            Due::Turn { number } => self.end_turn(number, t_ns),
            Due::Watchdog => self.on_watchdog(t_ns),
            Due::Control => self.on_control(t_ns),
            Due::Memory => self.on_memory(t_ns),
            Due::License { core, timer } => self.on_license(usize::from(core), timer, t_ns),
            Due::Fault(index) => self.on_fault(index as usize, t_ns),
        }
    }

    fn nothing_runs(&mut self) -> bool {
        let waits = |task: &Task| matches!(task.state, State::Queued | State::Waking);
        self.k.queue.only_background()
            && self.k.cpus.iter().all(|cpu| cpu.idle())
            && !self.k.tasks.iter().any(waits)
    }

    fn stuck(&self) -> End {
        let left = |id: &TaskId| {
            let task = &self.k.tasks[*id];
            !matches!(task.state, State::Dead | State::New) && !task.kernel
        };
        End::Stuck((0..self.k.tasks.len()).filter(left).collect())
    }

    fn on_watchdog(&mut self, t_ns: u64) {
        self.k.now = t_ns;
        if let Some(reason) = self.class.stalled(&mut self.k) {
            self.k.fail(reason);
        }
        if let Some(timeout_ns) = self.class.watchdog_ns() {
            self.k.queue.push(t_ns + timeout_ns / 2, Due::Watchdog);
        }
    }

    /// Steps the policy's control plane: on no CPU of the machine, at no cost.
    fn on_control(&mut self, t_ns: u64) {
        self.k.now = t_ns;
        self.count_domains(t_ns);
        if let Some(after_ns) = self.class.control(&self.k) {
            self.k.queue.push(t_ns + after_ns.max(1), Due::Control);
        }
    }

    /// A CPU has finished its present activity.
    fn on_cpu(&mut self, cpu: CpuId, t_ns: u64) {
        if self.k.in_user(cpu) {
            self.pause(cpu, t_ns);
            self.k.cpus[cpu].set_mode(Mode::Kernel, t_ns);
        } else if !self.k.cpus[cpu].pending.is_empty() || self.is_to_schedule(cpu) {
            self.begin(cpu, t_ns);
            self.handle_pending();
            return self.finish_and_go_on();
        }
        self.go_on(cpu, t_ns);
    }

    /// An interrupt reaches a CPU.
    pub(crate) fn on_irq(&mut self, cpu: CpuId, irq: Irq, t_ns: u64) {
        let k = &mut self.k;
        match irq {
            Irq::Tick if k.cpus[cpu].idle() && k.machine.ticks == Ticks::Apart => {
                return k.cpus[cpu].tick_armed = false;
            }
            Irq::Timer { task, timer } => {
                let task = &k.tasks[task as usize];
                if task.timer != timer || task.state != State::Blocked {
                    return;
                }
            }
            _ => {}
        }
        match k.cpus[cpu].mode {
            Mode::Kernel => k.cpus[cpu].pending.push(irq),
            Mode::Idle if t_ns < k.cpus[cpu].free_ns => {
                let free_ns = k.cpus[cpu].free_ns;
                k.queue.push(free_ns, Due::Irq { cpu: cpu as u16, irq });
            }
            _ => {
                self.begin(cpu, t_ns);
                self.handle(irq);
                self.finish_and_go_on();
            }
        }
    }

    fn handle_pending(&mut self) {
        let cpu = self.k.this;
        let mut pending = std::mem::take(&mut self.k.cpus[cpu].pending);
        for irq in pending.drain(..) {
            self.handle(irq);
        }
        debug_assert!(self.k.cpus[cpu].pending.is_empty());
        self.k.cpus[cpu].pending = pending;
    }

    fn handle(&mut self, irq: Irq) {
        self.k.charge(self.k.whole.irq_ns);
        match irq {
            Irq::Tick => {
                self.tick();
                self.wake_keepers();
            }
            Irq::Resched => self.k.call(self.k.func.reschedule_ipi),
            Irq::Wakeups => self.wake_pending(),
            Irq::Timer { task, timer } => {
                self.k.call(self.k.func.timer_interrupt);
                if self.k.tasks[task as usize].timer == timer {
                    self.try_to_wake_up(task as usize, false);
                }
                self.k.charge(self.k.whole.timer_rearm_ns);
            }
            Irq::Start { task } => {
                self.to_start -= 1;
                self.fork(task as usize);
            }
            Irq::Slice => {
                let cpu = self.k.this;
                self.class.slice_ends(&mut self.k, cpu);
            }
            Irq::Class { number, start } => {
                self.k.call(self.k.func.timer_interrupt);
                self.class.timer(&mut self.k, number, start);
            }
            Irq::Balance => {
                let cpu = self.k.this;
                self.class.balance(&mut self.k, cpu);
            }
            Irq::Work => {
                let cpu = self.k.this;
                self.k.cpus[cpu].irq_work_sent = false;
                self.class.irq_work(&mut self.k, cpu);
            }
        }
    }

    /// [`Engine::finish`]. If no event comes before, the CPU's task then goes on at once.
    fn finish_and_go_on(&mut self) {
        self.settle();
        let (cpu, now) = (self.k.this, self.k.now);
        match self.goes_on(None) {
            true if self.works_on(cpu) => self.start_user(cpu, now),
            true => self.go_on(cpu, now),
            false => self.end(),
        }
    }

    /// Whether the present task of `cpu` is in the middle of a piece of work, and nothing else is pending for it.
    #[inline]
    fn works_on(&self, cpu: CpuId) -> bool {
        let Some(task) = self.k.cpus[cpu].curr.map(|task| &self.k.tasks[task]) else {
            return false;
        };
        let at = &task.at;
        at.phase == 1
            && matches!(at.op(), Op::Run { .. })
            && at.left >= 1.0
            && at.to_wake.is_empty()
            && task.gil.is_none()
            && self.acts.is_none()
    }

    /// The present task of `cpu` goes on with its program.
    fn go_on(&mut self, cpu: CpuId, t_ns: u64) {
        let Some(mut task) = self.k.cpus[cpu].curr else { return };
        let mut t_ns = t_ns;
        let mut rounds = 0;
        // After kernel code: the CPU's task goes on, if it may do so at once.
        macro_rules! call_kernel {
            ($call:expr) => {{
                match self.call_kernel(cpu, task, t_ns, $call) {
                    Some(next) if next != task => (task, rounds) = (next, 0),
                    Some(_) => {}
                    None => return,
                }
                t_ns = self.k.now;
            }};
        }
        loop {
            rounds += 1;
            if self.is_at_gil(task) {
                call_kernel!(|engine| engine.pass_gil(task));
                continue;
            }
            let longer = self.jittered(task);
            let at = &mut self.k.tasks[task].at;
            if rounds % ROUNDS_MAX == 0 {
                at.debt += ROUNDS_NS;
            }
            if at.debt >= 1.0 {
                return self.start_user(cpu, t_ns);
            }
            self.act_ends(cpu, task);
            let at = &mut self.k.tasks[task].at;
            match at.op() {
                _ if !at.to_wake.is_empty() => call_kernel!(|engine| engine.wake_rest(task)),
                Op::Loop { times } => at.enter(times),
                Op::Again { start } => at.again(start),
                Op::Run { work_ns } if at.phase == 0 => {
                    at.phase = 1;
                    at.left = work_ns as f64 * longer;
                }
                Op::Run { .. } if at.left < 1.0 => {
                    at.next();
                    if self.burns && !self.k.tasks[task].kernel {
                        self.k.tasks[task].at.debt += self.until_seen_ns();
                    }
                }
                Op::Mem { bytes } => {
                    at.next();
                    at.debt += f64::from(bytes) * self.k.machine.costs.copy_byte_ns * longer;
                }
                Op::Runtime { wall_ns } if at.phase == 0 => {
                    at.phase = 1;
                    at.until_ns = t_ns + wall_ns;
                }
                Op::Runtime { .. } if at.until_ns <= t_ns => at.next(),
                Op::Barrier(_) | Op::Await { .. } if at.phase == RELEASED => at.next(),
                // It has slept: the rest of the system call takes no time, and no other CPU has an earlier event.
                Op::Sleep { .. }
                    if at.phase == 1
                        && !self.k.cpus[cpu].gives_way()
                        && self.k.cuts.is_none()
                        && self.k.queue.next_ns() > t_ns =>
                {
                    self.k.now = t_ns;
                    at.next();
                }
                Op::Run { .. } | Op::Runtime { .. } => return self.start_user(cpu, t_ns),
                Op::Barrier(_) | Op::Await { .. } if at.phase == SPINNING && at.left >= 1.0 => {
                    return self.start_user(cpu, t_ns);
                }
                Op::Stalled { part } => {
                    at.next();
                    self.k.tasks[task].stalled = part;
                }
                Op::Mpki { mpki } => {
                    at.next();
                    self.k.now = self.k.now.max(t_ns);
                    self.phase_domains(task, mpki);
                }
                Op::Vector { level } => {
                    at.next();
                    self.k.tasks[task].vector = level;
                    self.code_changes(cpu, t_ns);
                }
                op => call_kernel!(|engine| engine.system_call(task, op)),
            }
        }
    }

    /// Counts the additions to the acts that the task of `cpu` has finished.
    #[inline]
    fn act_ends(&mut self, cpu: CpuId, task: TaskId) {
        let Some(acts) = &mut self.acts else { return };
        let worked_ns = self.k.tasks[task].worked_ns + self.k.cpus[cpu].worked_ns;
        let Task { at, happened, .. } = &mut self.k.tasks[task];
        while let Some((work_ns, then)) = at.act_ended() {
            acts.ended(
                task,
                worked_ns,
                at.asked_ns(),
                std::mem::take(happened),
                work_ns as f64,
                then,
            );
        }
    }

    /// The task of `cpu` calls the kernel at `t_ns`. Returns the task that goes on at once after the call, or after a
    /// part of a long one. None: the kernel's code ends there, and other CPUs get their turn.
    #[inline]
    fn call_kernel(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        t_ns: u64,
        call: impl FnOnce(&mut Engine),
    ) -> Option<TaskId> {
        self.begin(cpu, t_ns);
        call(self);
        self.settle();
        if self.goes_on(Some(task)) {
            return self.k.cpus[cpu].curr;
        }
        self.end();
        None
    }

    /// Kernel code of this CPU is over. Returns whether its task goes on at once, as no event comes before. If CPUs run
    /// in turn, only the task that called the kernel does.
    #[inline]
    fn goes_on(&mut self, caller: Option<TaskId>) -> bool {
        let k = &mut self.k;
        let state = &k.cpus[k.this];
        let in_turn = |cuts: &Cuts| !cuts.spins() && state.curr == caller;
        let goes_on = state.curr.is_some()
            && state.pending.is_empty()
            && k.cuts.as_deref().is_none_or(in_turn)
            && k.queue.next_ns() > k.now
            && k.now < self.stop_ns
            && k.failure.is_none()
            && self.alive + self.to_start > 0;
        if goes_on {
            debug_assert_eq!(k.lock_held(), None, "kernel code ends with a lock held");
            k.cpus[k.this].free_ns = k.now;
            k.credit();
        }
        goes_on
    }

    /// Whether this CPU schedules here, where a piece of kernel code ends. A long system call lets other CPUs have
    /// their turn in between. There it takes interrupts, and schedules if its kernel preempts itself: between two
    /// wakeups of a futex (`wake_up_q`), and for no lazy flag. A task that wakes the waiters of a queue holds its lock,
    /// and does not schedule.
    pub(crate) fn is_to_schedule(&self, cpu: CpuId) -> bool {
        let state = &self.k.cpus[cpu];
        if !state.gives_way() {
            return false;
        }
        match state.curr.map(|task| &self.k.tasks[task].at) {
            Some(at) if at.giving == More::Locked => false,
            Some(at) if at.giving == More::Free || !at.to_wake.is_empty() => {
                state.need_resched && self.class.preempts_kernel()
            }
            _ => true,
        }
    }

    /// Time until a task sees that its work is done.
    fn until_seen_ns(&mut self) -> f64 {
        let costs = &self.k.machine.costs;
        let (look_ns, end_ns) = (costs.burn_look_ns, costs.burn_end_ns);
        if look_ns == 0.0 {
            return end_ns;
        }
        end_ns + look_ns * f64::from(self.k.random_u32()) / f64::from(u32::MAX)
    }

    /// The factor for the task's next piece of work, if one begins now.
    fn jittered(&mut self, task: TaskId) -> f64 {
        let at = &self.k.tasks[task].at;
        let begins = at.phase == 0 && matches!(at.op(), Op::Run { .. } | Op::Mem { .. });
        if begins { self.varied() } else { 1.0 }
    }

    /// A random factor near 1 for lengths of users' work.
    pub(crate) fn varied(&mut self) -> f64 {
        if self.jitter == 0.0 {
            return 1.0;
        }
        let unit = f64::from(self.k.random_u32()) / f64::from(u32::MAX);
        1.0 + self.jitter * (2.0 * unit - 1.0)
    }

    /// The present task's own code runs from now on.
    pub(crate) fn start_user(&mut self, cpu: CpuId, t_ns: u64) {
        let k = &mut self.k;
        if k.clocks.as_mut().is_some_and(|clocks| clocks.traps(cpu))
            && let Some(task) = k.cpus[cpu].curr
        {
            k.tasks[task].at.debt += k.machine.costs.vector_trap_ns;
        }
        let rate = k.rate_of(cpu);
        let Some(task) = k.cpus[cpu].curr else { return };
        let works = self.has_gil(task);
        let k = &mut self.k;
        let at = &k.tasks[task].at;
        let need_ns = match at.op() {
            Op::Run { .. } if at.phase == 1 && works => {
                let effort_ns = k.hw.as_ref().map_or(at.left, |hw| hw.effort_ns(cpu, at.left));
                (at.debt + effort_ns) / rate
            }
            // Its time may be over while it waits: it still pays its debt.
            Op::Runtime { .. } if at.phase == 1 => {
                (at.until_ns.saturating_sub(t_ns) as f64).max(at.debt / rate)
            }
            Op::Barrier(_) | Op::Await { .. } if at.phase == SPINNING => at.debt / rate + at.left,
            _ => at.debt / rate,
        };
        let cpu_state = &mut k.cpus[cpu];
        if cpu_state.mode != Mode::User {
            cpu_state.set_mode(Mode::User, t_ns);
        }
        cpu_state.since_ns = t_ns;
        cpu_state.rate = rate;
        if !self.stands_still(cpu) {
            self.due_at(cpu, t_ns.saturating_add(rounded_up(need_ns)));
        }
    }

    /// Credits the present task of `cpu` for its own code since [`Engine::start_user`].
    pub(crate) fn pause(&mut self, cpu: CpuId, t_ns: u64) {
        let stands_still = self.stands_still(cpu);
        let k = &mut self.k;
        let state = &mut k.cpus[cpu];
        let elapsed_ns = match stands_still {
            true => 0.0,
            false => t_ns.saturating_sub(state.since_ns) as f64,
        };
        state.since_ns = state.since_ns.max(t_ns);
        state.worked_ns += elapsed_ns;
        let Some(task) = state.curr else { return };
        let counted = match k.counters_stand {
            true => 0.0,
            false => k.noise.factor(task, k.machine.cpus[cpu].core_type, t_ns),
        };
        let at = &mut k.tasks[task].at;
        let work = elapsed_ns * state.rate;
        let paid = work.min(at.debt);
        at.debt -= paid;
        match at.op() {
            Op::Run { .. } if at.phase == 1 => {
                let effort_ns = work - paid;
                let done = match &mut k.hw {
                    None => effort_ns.min(at.left),
                    Some(hw) => hw.worked_ns(cpu, task, effort_ns, at.left),
                };
                at.left = if at.ends { 0.0 } else { at.left - done };
                at.done += done;
                state.instructions += done * counted;
                if let Some(domains) = &mut k.domains {
                    domains.count(cpu, task, elapsed_ns);
                }
            }
            Op::Runtime { .. } if at.phase == 1 => {
                let done = match &mut k.hw {
                    None => work - paid,
                    Some(hw) => hw.worked_ns(cpu, task, work - paid, f64::MAX),
                };
                state.instructions += done * counted;
            }
            Op::Barrier(_) | Op::Await { .. } if at.phase == SPINNING => {
                let spun_ns = (elapsed_ns - paid / state.rate).max(0.0);
                at.left = (at.left - spun_ns).max(0.0);
            }
            _ => {}
        }
        if at.debt < 1.0 {
            at.debt = 0.0;
        }
    }

    /// The task in its own code on `cpu` has another speed from `t_ns` on.
    pub(crate) fn rerate(&mut self, cpu: CpuId, t_ns: u64) {
        if self.k.in_user(cpu) {
            self.pause(cpu, t_ns);
            let since_ns = self.k.cpus[cpu].since_ns;
            self.start_user(cpu, since_ns);
        }
    }

    /// The other threads of a core have another speed from now on.
    pub(crate) fn rerate_siblings(&mut self, cpu: CpuId) {
        let now = self.k.now;
        for at in 0.. {
            match self.k.thread_of_core(cpu, at) {
                None => return,
                Some(other) if other == cpu => {}
                Some(other) => self.rerate(other, now),
            }
        }
    }

    /// Another task runs on a CPU. If it presses on the cache more or less than the one before, tasks on the other
    /// cores of that cache have another speed from now on.
    pub(crate) fn rerate_cache(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) {
        let k = &mut self.k;
        let of = |task: Option<TaskId>| task.map_or(0.0, |task| k.tasks[task].pressure);
        let change = of(next) - of(prev);
        if change == 0.0 || k.machine.costs.llc_contention == 0.0 {
            return;
        }
        let llc = k.machine.cpus[cpu].llc;
        k.pressure[usize::from(llc)] += change;
        let now = k.now;
        for other in (0..k.cpus.len()).filter(|other| *other != cpu) {
            if self.k.machine.cpus[other].llc == llc {
                self.rerate(other, now);
            }
        }
    }

    /// A task that spins at a barrier sees it open, `after_ns` from now.
    pub(crate) fn release_spinner(&mut self, task: TaskId, after_ns: u64) {
        let cpu = self.k.tasks[task].cpu;
        let now = self.k.now;
        let spins_now = self.k.cpus[cpu].curr == Some(task) && self.k.in_user(cpu);
        if spins_now {
            self.pause(cpu, now);
        }
        self.k.tasks[task].at.phase = RELEASED;
        if spins_now {
            let since_ns = self.k.cpus[cpu].since_ns.max(now);
            self.due_at(cpu, since_ns + after_ns);
        }
    }
}
