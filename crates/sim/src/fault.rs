// SPDX-License-Identifier: GPL-2.0-only
//! Changes from outside during a run: affinity, nice values, cgroups and their limits, CPUs that go offline or online or are taken by a higher
//! class.

mod engine;

use machine::CpuSet;
use policy::Quota;

use crate::ids::{CpuId, TaskId};

/// A change, and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Nanoseconds after the start.
    pub at_ns: u64,
    /// The change.
    pub change: Change,
}

/// A change from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A task's mask of CPUs, by its index in the workload.
    Affinity(TaskId, CpuSet),
    /// A task's nice value.
    Nice(TaskId, i8),
    /// A task moves to a group of the workload; None: to the root.
    Cgroup(TaskId, Option<usize>),
    /// A group of the workload has another `cpu.max`; None: it limits no more.
    Quota(usize, Option<Quota>),
    /// A task calls exec: from then on its address space is that of this process. No class is told.
    Exec(TaskId, usize),
    /// A task ends: when it next leaves or enters the kernel if it runs, and when it wakes if it is blocked. It keeps
    /// what it holds. Only a [`workload::Step::Run`] is cut short.
    End(TaskId),
    /// A CPU goes offline.
    Offline(CpuId),
    /// A CPU goes online again.
    Online(CpuId),
    /// A kernel thread of SCHED_FIFO, bound to a CPU, runs there for `for_ns`. It is no task of the workload, and no
    /// run is prolonged for it.
    Hog {
        /// The CPU.
        cpu: CpuId,
        /// How long it runs, ns.
        for_ns: u64,
        /// Its priority, 1 to 99.
        priority: u8,
    },
    /// Counters fail: of instructions, and of cycles at each license level.
    Counters(Failing),
    /// From then on no core's clock rises above this many MHz, as a governor may choose.
    Governor(u32),
}

/// How counters fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// They go back to 0, and on from there.
    JumpBack,
    /// They stand still from then on.
    Stand,
}
