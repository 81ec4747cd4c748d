// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons: which policies run which job, on which ground.
//!
//! A [`Plan`] is checked before anything runs. Its [`Ground`] runs it, and returns what was measured. A new
//! ground implements that trait.

pub mod contender;
pub mod guest;
mod hackbench;
mod here;
mod job;
pub mod loading;
mod measured;
pub mod plan;
pub mod profile;
pub mod replay;
mod simulated;
pub mod turbo;

pub use contender::{CLASSES, Class, Contender, Model, POLICIES};
pub use guest::Guest;
pub use here::Here;
pub use job::{Job, SEED, WORKLOADS};
pub use measured::{Measured, Watched};
pub use plan::{Ground, On, Plan};
pub use simulated::Simulated;
