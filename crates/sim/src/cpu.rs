// SPDX-License-Identifier: GPL-2.0-only
//! A CPU of the simulated kernel.

use crate::event::Irq;
use crate::ids::TaskId;
use crate::lock::LockId;
use crate::pelt::Avg;

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Idle,
    /// Kernel code, until `free_ns`.
    Kernel,
    /// The present task's own code.
    User,
}

/// A CPU and its runqueue: the part that all classes share.
pub struct Cpu {
    /// The running task; None is the idle task.
    pub curr: Option<TaskId>,
    /// Runnable tasks that belong to it, the running one included.
    pub nr_running: usize,
    /// How many of these wait for their cgroup's limit, off the class's queues.
    pub(crate) throttled: usize,
    /// It is to schedule as soon as it can.
    pub need_resched: bool,
    /// The same on the way out of the kernel (TIF_NEED_RESCHED_LAZY): no interrupt is sent for it.
    pub lazy_resched: bool,
    /// A tick has asked for that.
    pub(crate) tick_asked: bool,
    /// It takes part in scheduling.
    pub online: bool,
    pub(crate) rq_lock: LockId,
    pub(crate) mode: Mode,
    /// Its kernel code is simulated up to here.
    pub(crate) free_ns: u64,
    /// Since when the present task's own code has run, and how fast.
    pub(crate) since_ns: u64,
    pub(crate) rate: f64,
    /// Interrupts that came while it was in the kernel.
    pub(crate) pending: Vec<Irq>,
    /// The part of its time that real-time tasks take (`avg_rt`).
    pub(crate) taken: Avg,
    /// The class has asked to run `Class::irq_work` as soon as interrupts are on.
    pub(crate) irq_work: bool,
    /// The same, asked for on another CPU; its interrupt is on its way.
    pub(crate) irq_work_sent: bool,
    /// Tasks that other CPUs woke for it.
    pub(crate) wake_list: Vec<(TaskId, u32)>,
    pub(crate) tick_armed: bool,
    /// When timers that were set here expire.
    timers: Vec<u64>,
    tick_phase_ns: u64,
    /// How long it has run since the last switch, ns; only time in its turns counts, if CPUs run in turn.
    pub(crate) worked_ns: f64,
    /// The tick that was armed last; 0: none was.
    pub(crate) tick_ns: u64,
    /// Address space loaded, as a process number plus one; 0 is none yet.
    pub(crate) mm: usize,
    /// Task that ran here last.
    pub(crate) last: Option<TaskId>,
    pub(crate) spent: Spent,
    /// Instructions of tasks' own code so far: one for each ns of work on the reference CPU.
    pub(crate) instructions: f64,
    mode_since_ns: u64,
}

/// The use of a CPU's time, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Idle.
    pub idle_ns: u64,
    /// In kernel code.
    pub kernel_ns: u64,
    /// In tasks' own code.
    pub user_ns: u64,
}

impl Spent {
    /// Without code that is already simulated ahead of `t_ns`.
    pub(crate) fn cut(mut self, t_ns: u64) -> Spent {
        let mut ahead_ns = (self.idle_ns + self.kernel_ns + self.user_ns).saturating_sub(t_ns);
        for part in [&mut self.kernel_ns, &mut self.user_ns, &mut self.idle_ns] {
            let cut_ns = ahead_ns.min(*part);
            *part -= cut_ns;
            ahead_ns -= cut_ns;
        }
        self
    }

    /// Since the state `before`. Kernel code that was to end just before then was counted until then.
    pub(crate) fn since(&self, before: &Spent) -> Spent {
        Spent {
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            kernel_ns: self.kernel_ns.saturating_sub(before.kernel_ns),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
        }
    }
}

impl Cpu {
    pub(crate) fn new(rq_lock: LockId, tick_phase_ns: u64) -> Self {
        Cpu {
            curr: None,
            nr_running: 0,
            throttled: 0,
            need_resched: false,
            lazy_resched: false,
            tick_asked: false,
            online: true,
            rq_lock,
            mode: Mode::Idle,
            free_ns: 0,
            since_ns: 0,
            rate: 1.0,
            pending: Vec::new(),
            taken: Avg::default(),
            irq_work: false,
            irq_work_sent: false,
            wake_list: Vec::new(),
            tick_armed: false,
            timers: Vec::new(),
            tick_phase_ns,
            worked_ns: 0.0,
            tick_ns: 0,
            mm: 0,
            last: None,
            spent: Spent::default(),
            instructions: 0.0,
            mode_since_ns: 0,
        }
    }

    /// Whether it schedules on the way out of the kernel.
    #[inline]
    pub(crate) fn gives_way(&self) -> bool {
        self.need_resched || self.lazy_resched
    }

    /// Runnable tasks that belong to it and do not wait for their cgroup's limit.
    #[inline]
    pub(crate) fn nr_ready(&self) -> usize {
        self.nr_running - self.throttled
    }

    /// Whether it runs the idle task.
    #[inline]
    pub fn idle(&self) -> bool {
        self.curr.is_none()
    }

    pub(crate) fn set_mode(&mut self, mode: Mode, at_ns: u64) {
        let spent_ns = at_ns - self.mode_since_ns;
        match self.mode {
            Mode::Idle => self.spent.idle_ns += spent_ns,
            Mode::Kernel => self.spent.kernel_ns += spent_ns,
            Mode::User => self.spent.user_ns += spent_ns,
        }
        self.mode_since_ns = at_ns;
        self.mode = mode;
    }

    /// The use of its time until `t_ns`.
    pub(crate) fn spent_until(&self, t_ns: u64) -> Spent {
        let mut spent = self.spent;
        let rest_ns = t_ns.saturating_sub(self.mode_since_ns);
        match self.mode {
            Mode::Idle => spent.idle_ns += rest_ns,
            Mode::Kernel => spent.kernel_ns += rest_ns,
            Mode::User => spent.user_ns += rest_ns,
        }
        spent
    }

    pub(crate) fn timer_set(&mut self, at_ns: u64, now_ns: u64) {
        self.timers.retain(|timer| *timer > now_ns);
        self.timers.push(at_ns);
    }

    /// Whether a timer that was set here expires within this span.
    pub(crate) fn timer_within(&self, from_ns: u64, to_ns: u64) -> bool {
        self.timers.iter().any(|at_ns| (from_ns..=to_ns).contains(at_ns))
    }

    /// The next tick after `now_ns`.
    pub(crate) fn next_tick_ns(&self, now_ns: u64, period_ns: u64) -> u64 {
        // Mostly the one after the last armed tick: that needs no division.
        let next_ns = self.tick_ns + period_ns;
        if self.tick_ns > 0 && (self.tick_ns..next_ns).contains(&now_ns) {
            return next_ns;
        }
        let since_ns = now_ns.saturating_sub(self.tick_phase_ns);
        self.tick_phase_ns + (since_ns / period_ns + 1) * period_ns
    }
}
