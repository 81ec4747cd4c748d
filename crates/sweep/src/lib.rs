// SPDX-License-Identifier: GPL-2.0-only
//! Sweeps: thousands of simulations from one file.
//!
//! A [`Design`] is read from a file, and says which [`Run`]s there are. Each run's result follows from the run and the
//! program alone, so results are kept in a [`Store`] by the digest of both, and no run is done twice.

mod choice;
mod design;
mod digest;
mod draw;
mod findings;
mod input;
mod measured;
mod objective;
mod perform;
mod run;
mod search;
pub mod show;
mod statistics;
mod store;
mod tune;

pub use design::{Design, Purpose, Setting, Space, Variant};
pub use digest::Digest;
pub use findings::{Findings, Lost, Shown, each, findings};
pub use input::{Input, Inputs};
pub use measured::{Measured, OfProgram, Waits, paired};
pub use objective::{NoObjective, Objective};
pub use perform::{Missing, check, missing, perform};
pub use run::{Came, Run, Stage, Stages};
pub use statistics::Mean;
pub use store::{Data, Entry, Store};
pub use tune::{Answer, Perform, Tried, Tuned, tune};
