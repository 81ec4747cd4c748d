// SPDX-License-Identifier: GPL-2.0-only
//! The simulated ground: a discrete-event model of the sched_ext runtime, of Linux's own scheduling
//! classes, and of the hardware under them.
//!
//! [`run()`] takes a [`Scenario`] and gives a [`trace::Outcome`]. One seed gives one result, bit for
//! bit; any number of runs may go on side by side.
//!
//! **Invariant:** nothing here reads a clock, the environment, or the order of a hash table, and no
//! cost depends on which policy runs.

mod account;
mod acts;
mod cgroup;
mod channel;
mod checkers;
mod class;
mod core;
mod cpu;
mod domains;
mod engine;
mod event;
mod ext;
mod fault;
mod frequency;
mod housekeeping;
mod hw;
mod ids;
mod kernel;
mod line;
mod linux;
mod lock;
mod noise;
mod objects;
mod pelt;
mod program;
mod related;
mod rt;
mod run;
mod sink;
mod swarm;
mod task;
mod turns;
mod whole;
pub mod yardstick;

pub use account::Func;
pub use checkers::Violation;
pub use class::{Class, dequeue, enqueue, wake};
pub use cpu::{Cpu, Spent};
pub use domains::Whereabouts;
pub use ext::class::clocks;
pub use fault::{Change, Failing, Fault};
pub use ids::{CpuId, TaskId};
pub use kernel::Kernel;
pub use line::Line;
pub use lock::LockId;
pub use related::Related;
pub use run::{
    Options, Scenario, Scheduler, SimError, Traced, run, run_all, run_traced, trace_all,
};
pub use sink::{CallbackRecord, Record};
pub use swarm::{Failure, Swarmed, case, swarm};
pub use task::{SCHED_PRIO_TO_WEIGHT, State, Task};
