// SPDX-License-Identifier: GPL-2.0-only
//! A thread of the simulated kernel.

use machine::CpuSet;
use workload::{Fair, Happened, RealTime};

use crate::cgroup::cgroup_id;
use crate::ids::CpuId;
use crate::program::Cursor;

/// The life cycle of a task.
///
/// ```text
/// New -> Queued <-> Running -> Dead
///           ^          |
///           +- Blocked <
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started.
    New,
    /// Waits for an event.
    Blocked,
    /// Woken, and on the wake list of a CPU that has not looked at it yet.
    Waking,
    /// Waits for a CPU.
    Queued,
    /// Has one.
    Running,
    /// Ended.
    Dead,
}

/// A thread.
pub struct Task {
    /// Shown in tables.
    pub name: String,
    /// Its state. Already `Blocked` or `Dead` in `Class::dequeue` of a task that blocks.
    pub state: State,
    /// The CPU with the runqueue it belongs to, or belonged to last: `task_cpu()`.
    pub cpu: CpuId,
    /// CPUs it may run on; never empty.
    pub allowed: CpuSet,
    /// −20 to 19.
    pub nice: i8,
    /// Its policy, if it is not real-time.
    pub fair: Fair,
    /// It is of the class above, that of real-time tasks.
    pub realtime: RealTime,
    /// Threads of one process share an address space.
    pub process: usize,
    /// Its cgroup, by number ([`crate::cgroup::cgroup_id`]).
    pub(crate) cgroup: u64,
    /// When it was last charged for its run: `se.exec_start`, kept by [`crate::Kernel::update_curr`].
    pub exec_start_ns: u64,
    /// Time on a CPU so far: `se.sum_exec_runtime`.
    pub sum_exec_ns: u64,
    /// The CPU it ran on last.
    pub last_ran: Option<CpuId>,
    /// It ends when it next leaves its CPU.
    pub exiting: bool,
    /// When it ended; 0 while it has not.
    pub(crate) ended_ns: u64,
    /// Since when it is runnable: it cannot run earlier.
    pub(crate) queued_ns: u64,
    /// Until when the lock of the queue that it was woken in is held: the CPU that runs it waits for that.
    pub(crate) locked_out_ns: u64,
    /// Until when the CPU it leaves still works on leaving it: `p->on_cpu`.
    pub(crate) on_cpu_until_ns: u64,
    /// How long it has run up to its last switch, ns; only time in its CPUs' turns counts, if CPUs run in turn.
    pub(crate) worked_ns: f64,
    pub(crate) happened: Happened,
    /// The CPU that wrote its `task_struct` last.
    pub(crate) line: CpuId,
    /// Its mask was changed from outside: it must leave its CPU.
    pub(crate) must_move: bool,
    /// The CPU to move it to, as chosen when its mask was changed.
    pub(crate) moves_to: Option<CpuId>,
    /// Its program, and its progress there.
    pub(crate) at: Cursor,
    /// The part of its time on the reference CPU that no faster core shortens.
    pub(crate) stalled: f64,
    /// How much it presses on the cache of the CPU that it runs on.
    pub(crate) pressure: f64,
    /// The license level that its code needs.
    pub(crate) vector: u8,
    /// A kernel thread: it has no address space, and no run is prolonged for it.
    pub(crate) kernel: bool,
    /// Masks of its phases with CPUs of their own.
    pub(crate) masks: Vec<CpuSet>,
    /// The interpreter's lock that it needs to work.
    pub(crate) gil: Option<usize>,
    /// How often its creator had woken a task other than the last one it woke.
    pub(crate) wakee_flips: u32,
    /// Counts its timers, to distinguish a late one from the present one.
    pub(crate) timer: u32,
}

impl Task {
    /// A user's thread of nice 0 that was made on this CPU and has not started.
    pub(crate) fn new(
        name: String,
        allowed: CpuSet,
        process: usize,
        here: CpuId,
        at: Cursor,
    ) -> Self {
        Task {
            name,
            state: State::New,
            cpu: here,
            allowed,
            nice: 0,
            fair: Fair::Normal,
            realtime: RealTime::No,
            process,
            cgroup: cgroup_id(None),
            exec_start_ns: 0,
            sum_exec_ns: 0,
            last_ran: None,
            exiting: false,
            ended_ns: 0,
            queued_ns: 0,
            locked_out_ns: 0,
            on_cpu_until_ns: 0,
            worked_ns: 0.0,
            happened: Happened::default(),
            line: here,
            must_move: false,
            moves_to: None,
            at,
            stalled: 0.0,
            pressure: 0.0,
            vector: 0,
            kernel: false,
            masks: Vec::new(),
            gil: None,
            wakee_flips: 0,
            timer: 0,
        }
    }

    /// It may run on one CPU only: the kernel then calls no select_task_rq.
    #[inline]
    pub fn pinned(&self) -> bool {
        self.allowed.is_one()
    }

    /// The stopper takes it from its CPU.
    pub fn is_stopped(&self) -> bool {
        self.must_move && self.state == State::Running
    }

    /// Makes its present timer void.
    pub(crate) fn drop_timer(&mut self) {
        self.timer = self.timer.wrapping_add(1);
    }

    /// Its weight: 1024 at nice 0 (`set_load_weight`).
    pub fn weight(&self) -> u32 {
        match self.fair {
            Fair::Idle => WEIGHT_IDLEPRIO,
            _ => SCHED_PRIO_TO_WEIGHT[(i32::from(self.nice) + 20) as usize],
        }
    }

    /// `p->policy`, the number of its scheduling policy.
    pub(crate) fn policy(&self) -> u32 {
        match self.realtime {
            RealTime::No => self.fair.number(),
            RealTime::Fifo(_) => 1,
            RealTime::Rr(_) => 2,
        }
    }

    /// `task_has_idle_policy`.
    #[inline]
    pub fn has_idle_policy(&self) -> bool {
        self.fair == Fair::Idle && !self.realtime.yes()
    }
}

/// The weight of a SCHED_IDLE task, whatever its nice value is.
const WEIGHT_IDLEPRIO: u32 = 3;

/// `sched_prio_to_weight` of kernel/sched/core.c: each step of nice is a factor of about 1.25.
pub const SCHED_PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
