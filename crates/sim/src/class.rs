// SPDX-License-Identifier: GPL-2.0-only
//! A scheduling class: the simulated kernel's view of sched_ext and of Linux's own classes.
//!
//! # How to write one
//!
//! The core (`core.rs`) does the work of kernel/sched/core.c for every class: it wakes, forks, blocks and switches
//! tasks, takes runqueue locks, sends interrupts and charges for all that. A class keeps its own queues, with an entry
//! for each CPU and each task, indexed by their numbers, and answers the calls below. They come in the kernel's order,
//! on the CPU [`Kernel::this_cpu`], at [`Kernel::now_ns`].
//!
//! - **Costs.** A class charges for its own functions: [`Kernel::enter`] and [`Kernel::leave`] around a function's
//!   work, [`Kernel::call`] for a leaf. It looks functions up by name in `machines/paths.toml` once, in its constructor
//!   ([`Kernel::function`]). Spinning and cache lines are charged by [`Kernel::lock`], [`Kernel::atomic`],
//!   [`Kernel::read`] and [`Kernel::touch_task`] where they happen, and by nothing else.
//! - **Locks.** If a call says that the runqueue is locked, it is by [`Kernel::rq_lock`], and must be again when the
//!   call returns. In between a class may release it, as the kernel does. Locks of the class's own come from
//!   [`Kernel::new_lock`].
//! - **Moving tasks.** A class that balances dequeues a task from its own queue and calls [`Kernel::set_task_cpu`] with
//!   both runqueues locked. It then enqueues the task in its own queue of the new CPU and calls [`Kernel::resched`] if
//!   that CPU should look at it. Only tasks of [`State::Queued`](crate::State::Queued) can be moved, and only to CPUs
//!   in their mask.
//! - **The running task** is in no queue in most classes; it is queued again by [`Class::put_prev`]. Its time is
//!   charged by [`Kernel::update_curr`]; [`Class::set_next`] must start that by setting `exec_start_ns` to now.
//! - **Higher classes.** Real-time tasks are of a class above (`rt`), which takes a CPU whenever it has a task to run
//!   there. A class is called for its own tasks only, except for calls that say otherwise. The running task
//!   ([`Cpu::curr`](crate::Cpu::curr)) may be of the class above.
//! - **Determinism.** No clock, no environment, no hash order; random numbers only from [`Kernel::random_u32`].

use std::collections::BTreeMap;

use trace::Placed;

use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

/// Why a task becomes runnable; bits as the kernel's `WF_*`.
pub mod wake {
    /// It was just forked.
    pub const FORK: u64 = 0x04;
    /// It was woken.
    pub const TTWU: u64 = 0x08;
    /// The waker is about to block.
    pub const SYNC: u64 = 0x10;
}

/// How a task is enqueued; bits as the kernel's `ENQUEUE_*`.
pub mod enqueue {
    /// It was woken.
    pub const WAKEUP: u64 = 0x01;
    /// It is put back after a change of its properties.
    pub const RESTORE: u64 = 0x02;
    /// It comes from another CPU's runqueue.
    pub const MOVE: u64 = 0x04;
    /// It moved to another CPU since it last ran.
    pub const MIGRATED: u64 = 0x40;
    /// It was just forked.
    pub const INITIAL: u64 = 0x80;
}

/// How a task is dequeued; bits as the kernel's `DEQUEUE_*`.
pub mod dequeue {
    /// It blocks or ends.
    pub const SLEEP: u64 = 0x01;
    /// It is put back at once: its properties change.
    pub const SAVE: u64 = 0x02;
    /// It is put back at once on another CPU.
    pub const MOVE: u64 = 0x04;
}

/// A scheduling class.
pub trait Class {
    /// Its name in results.
    fn name(&self) -> String;

    /// Called once before any task exists, at no cost.
    ///
    /// # Errors
    /// A reason the run cannot start.
    fn start(&mut self, _k: &mut Kernel) -> Result<(), String> {
        Ok(())
    }

    /// A task has been forked (`sched_fork`); it is not runnable yet. No lock is held.
    fn fork(&mut self, k: &mut Kernel, task: TaskId);

    /// A task of a higher class has been forked. No lock is held.
    fn fork_other(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// A task has ended and left its CPU (`task_dead`). No lock is held.
    fn dead(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// A task of a higher class has ended. No lock is held.
    fn dead_other(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// The CPU on which a task is to become runnable (`select_task_rq`), `flags` as in [`wake`]. Not called for a task
    /// that may run on one CPU only. No runqueue is locked, unless [`Class::wakes_under_lock`]. The kernel replaces an
    /// answer outside the task's mask.
    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId;

    /// Whether a task's wakeup for a CPU far away may be left to that CPU (TTWU_QUEUE, Linux 3.0 and
    /// later). The waker then takes no foreign lock, and the CPU enqueues the task itself.
    fn queued_wakeups(&self, k: &Kernel, task: TaskId) -> bool;

    /// Whether a task that is woken while it still leaves its CPU is activated there at once, as before Linux 3.0
    /// (`task_running` in `try_to_wake_up`). Later kernels wait until it has left.
    fn wakes_leaving_in_place(&self) -> bool {
        false
    }

    /// Whether a blocked task is still on its queue, because the class delays its dequeue (DELAY_DEQUEUE). It is then
    /// woken there, and no CPU is selected (`ttwu_runnable`).
    fn still_queued(&self, _task: TaskId) -> bool {
        false
    }

    /// Whether a wakeup calls [`Class::select_cpu`] with the runqueue of the task's last CPU locked (`task_rq_lock` in
    /// `try_to_wake_up`), as before Linux 3.0.
    fn wakes_under_lock(&self) -> bool {
        false
    }

    /// Whether tasks that lose their CPU by a change of their mask are spread over the new mask, as since Linux 5.7.
    /// Before, each went to its first CPU.
    fn spreads_over_new_masks(&self) -> bool {
        true
    }

    /// A task becomes runnable on `cpu`; `flags` as in [`enqueue`]. The runqueue is locked.
    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64);

    /// A task is no longer runnable on `cpu`; `flags` as in [`dequeue`]. The runqueue is locked.
    /// Called for the running task (still [`Cpu::curr`](crate::Cpu::curr)) when it blocks, and for
    /// any task before a change of its properties.
    fn dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64);

    /// A task was enqueued on `cpu`, which runs `curr` of the same class: call [`Kernel::resched`] if `curr` is to be
    /// preempted (`wakeup_preempt`). The core asks an idle CPU to schedule. The runqueue is locked.
    fn preempt(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId, task: TaskId, flags: u64);

    /// After the wakeup is complete, runqueue still locked (`task_woken`).
    fn woken(&mut self, _k: &mut Kernel, _cpu: CpuId, _task: TaskId) {}

    /// The next task on this CPU (`pick_next_task`, with balancing for a CPU that would go idle). `prev` is the task
    /// that ran, if it is of this class; it is `runnable` unless it blocks. Returns `prev` itself to let it go on. The
    /// runqueue is locked, and may be released meanwhile.
    fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: Option<TaskId>,
        runnable: bool,
    ) -> Option<TaskId>;

    /// `prev` leaves the CPU for `next`, which may be of a higher class, or for the idle task (`put_prev_task`); if
    /// it is `runnable` it goes back into a queue. The runqueue is locked.
    fn put_prev(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: TaskId,
        runnable: bool,
        next: Option<TaskId>,
    );

    /// `next` gets the CPU (`set_next_task`). The runqueue is locked.
    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId);

    /// The CPU begins (`idle`) or ceases to run the idle task. `entered` is false if the idle loop merely went round
    /// once more without finding work. The runqueue is locked.
    fn idle(&mut self, _k: &mut Kernel, _cpu: CpuId, _idle: bool, _entered: bool) {}

    /// The periodic tick of a busy CPU; its runqueue is locked (`task_tick`).
    fn tick(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId);

    /// After each tick of a busy CPU, and when another CPU called [`Kernel::kick_balance`] for this
    /// one, which may be idle then: periodic balancing. No lock is held.
    fn balance(&mut self, _k: &mut Kernel, _cpu: CpuId) {}

    /// A tick that finds its CPU idle ([`machine::Ticks::Together`]). No lock is held.
    fn idle_tick(&mut self, _k: &mut Kernel, _cpu: CpuId) {}

    /// Whether an interrupt may take the CPU away from kernel code (CONFIG_PREEMPTION), unless that holds a spinlock.
    fn preempts_kernel(&self) -> bool {
        true
    }

    /// When the class's timer for the end of a slice on this CPU expires.
    fn slice_irq_ns(&self, _cpu: CpuId) -> Option<u64> {
        None
    }

    /// The class's timer for the end of a slice has expired. No lock is held.
    fn slice_ends(&mut self, _k: &mut Kernel, _cpu: CpuId) {}

    /// A timer of the class's own has expired, as started for the `start`-th time. No lock is held.
    fn timer(&mut self, _k: &mut Kernel, _number: u32, _start: u32) {}

    /// The running task lets other tasks run first (`sched_yield`); the core schedules afterwards. The runqueue is
    /// locked.
    fn yield_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId);

    /// The work that [`Kernel::raise_irq_work`] or [`Kernel::raise_irq_work_on`] asked for. No lock is held.
    fn irq_work(&mut self, _k: &mut Kernel, _cpu: CpuId) {}

    /// A task's mask of CPUs has changed; `task.allowed` is the new one. Its runqueue is locked, except for a task that
    /// is being queued with none of its CPUs left (`select_fallback_rq`). As in the kernel's `sched_change`, a runnable
    /// task was dequeued before and is enqueued afterwards. The running task is also put ([`Class::put_prev`], not
    /// runnable, with no next task) and set again ([`Class::set_next`]).
    fn set_affinity(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// A blocked task's properties are about to change, or its CPU goes offline. A class that keeps sleepers in its
    /// queue for a while dequeues this one now. The runqueue is locked.
    fn forget_sleeper(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// A task's nice value has changed; as [`Class::set_affinity`].
    fn set_nice(&mut self, _k: &mut Kernel, _task: TaskId) {}

    /// A task has moved from this cgroup to its present one; as [`Class::set_affinity`].
    fn set_cgroup(&mut self, _k: &mut Kernel, _task: TaskId, _from: u64) {}

    /// A cgroup has another limit, by its index in [`Kernel::cgroups`]. No lock is held.
    fn set_quota(&mut self, _k: &mut Kernel, _cgroup: usize) {}

    /// A task has another address space: for a class that exports it, not a callback.
    fn has_executed(&mut self, _k: &Kernel, _task: TaskId) {}

    /// A CPU goes online or offline. Queued tasks of a CPU that goes offline were moved away before. No lock is held.
    ///
    /// # Errors
    /// A reason the class cannot go on.
    fn hotplug(&mut self, _k: &mut Kernel, _cpu: CpuId, _online: bool) -> Result<(), String> {
        Ok(())
    }

    /// How long a runnable task may wait before the kernel gives the class up, in ns; None: forever.
    fn watchdog_ns(&self) -> Option<u64> {
        None
    }

    /// The watchdog checks: a reason to give the class up, if there is one.
    fn stalled(&mut self, _k: &mut Kernel) -> Option<String> {
        None
    }

    /// The class's control plane looks at its tasks. Returns the ns until its next look; None: it has no control plane.
    /// Called at the start and then as it says, at no cost.
    fn control(&mut self, _k: &Kernel) -> Option<u64> {
        None
    }

    /// Starts to keep its control plane's measurements of threads.
    fn keep_measured(&mut self) {}

    /// Mean measured speed of each thread on each kind of core, by its control plane.
    fn measured(&self) -> BTreeMap<u32, Vec<f64>> {
        BTreeMap::new()
    }

    /// Which task its control plane has placed in which memory domain, and when.
    fn placed(&mut self) -> Vec<Placed> {
        Vec::new()
    }

    /// Its totals of the run, by name with the unit last.
    fn totals(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The run is over; called once, at no cost.
    fn stop(&mut self, _k: &mut Kernel) {}
}
