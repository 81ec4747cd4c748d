// SPDX-License-Identifier: GPL-2.0-only
//! One scheduling event.

/// Thread id as the kernel gives it; [`IDLE`] is every CPU's idle task.
pub type Tid = u32;

/// An address space; 0 means none (a kernel thread or the idle task).
pub type MmId = u64;

/// The idle task of any CPU.
pub const IDLE: Tid = 0;

/// Something that happened at `t_ns` on `cpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since any fixed point; never decreasing within one stream.
    pub t_ns: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cpu` left `prev` for `next`.
    Switch {
        /// The task that left the CPU.
        prev: Tid,
        /// The task that got it.
        next: Tid,
        /// `prev` could have gone on: its slice ended or it was preempted.
        prev_runnable: bool,
        /// The address space of `next`.
        next_mm: MmId,
    },
    /// `tid` became runnable and was queued for `target`.
    Wake {
        /// The task that woke.
        tid: Tid,
        /// The CPU it was placed on.
        target: u32,
    },
    /// `tid` exists from now on; it is not yet runnable (a [`Kind::Wake`] follows).
    Fork {
        /// The new thread.
        tid: Tid,
    },
    /// `tid` will never run again once it leaves its CPU.
    Exit {
        /// The task that ended.
        tid: Tid,
    },
    /// From now on `tid` may only run on these CPUs, as a bit set of 64-bit words; empty means any.
    Affinity {
        /// The task that the mask is of.
        tid: Tid,
        /// The allowed CPUs.
        cpus: Vec<u64>,
    },
}
