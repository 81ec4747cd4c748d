// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling events and the measures taken from them.
//!
//! A ground (the simulator, a guest, this kernel) turns what its scheduler did into [`Event`]s in
//! the order of time; [`Measures`] folds them, one by one and in constant memory per task, into
//! [`Observed`]. Both grounds are measured by the same code, so their figures can be compared.

mod by_tid;
mod event;
mod intervals;
mod lengths;
mod measures;
mod outcome;
pub mod perfetto;
mod placed;
mod timeline;

pub use event::{Event, IDLE, Kind, MmId, Tid};
pub use intervals::{Interval, intervals};
pub use lengths::Lengths;
pub use measures::{Measures, Observed, Quantiles, TaskObserved};
pub use outcome::{
    FunctionCost, MemoryUse, Missed, NOT_FOUND, OBSERVER_LOST, OWN_CPU, Outcome, Program,
};
pub use placed::{Home, Placed, Placements};
pub use timeline::{Timeline, Waits};
