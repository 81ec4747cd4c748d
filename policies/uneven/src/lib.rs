// SPDX-License-Identifier: GPL-2.0-only
//! Fairness on uneven cores: how much of which core type each task gets.
//!
//! **Problem.** Some cores are faster than others, and some tasks gain more from a fast core than
//! others do. Giving the fast cores to the tasks that gain most is best for throughput and starves
//! the rest; dividing them evenly gains nothing.
//!
//! **Approach.** First fairness, then throughput. Every task gets the share that keeps a target
//! fraction of its fair performance. The rest of the fast cores goes to the tasks that gain most
//! ([`Policy::MinFair`]). [`plan`] is a pure function from a [`Problem`] (cores, tasks, speeds) to
//! a [`Plan`] (shares of core types); [`Estimator`] learns the speeds from counters.
//!
//! **Source.** Changdae Kim, Jaehyuk Huh: *Fairness-oriented Scheduling Support for Multicore
//! Systems* (talk of 34 slides; ICS'16, 10.1145/2925426.2926262; IEEE TC 67(8),
//! 10.1109/TC.2018.2796077). Slide numbers are those of the talk.
//!
//! Symbols: s is a task's speed on a core type (slowest type: 1), c its CPU time in cores, f the
//! fraction of its CPU time on a type, F that fraction if all tasks share alike, T the target, r
//! its performance relative to the base.
//!
//! **Invariant:** the control plane does no I/O and reads no clock, environment or hash order.

mod blend;
mod control;
mod cpu_time;
mod energy;
mod equal;
mod error;
mod estimate;
mod even;
mod guaranteed;
mod hierarchy;
mod known;
mod limits;
mod lp;
mod memory;
mod metrics;
mod policies;
mod policy;
mod prices;
mod problem;
mod scaled;
mod similar;
mod start;
mod surplus;
mod tenant;

pub use self::policy::{Policy, Reading, plan};
pub use energy::energy_per_work;
pub use error::Error;
pub use estimate::{Counts, Estimator, Rules, interpolate};
pub use guaranteed::{GuaranteedFair, Mode};
pub use memory::REMEMBERED;
pub use metrics::{Deviation, Metrics};
pub use policies::{
    ALL, EQUAL_PROGRESS, GUARANTEED_FAIR, MAX_FAIR, MAX_PERF, MIN_FAIR, R_FAIR, SIMILAR_MIN_FAIR,
    UNI_FAIR, shares, shares_by, speedup_bound,
};
pub use problem::{Base, CoreTypes, Plan, Problem, Task};
pub use surplus::required;
pub use tenant::{Thread, by_utility, evenly};
