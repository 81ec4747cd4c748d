// SPDX-License-Identifier: GPL-2.0-only
//! What a ground returns.

use terminal::Failure;
use trace::{Event, Outcome};

/// The measurements of a plan.
#[derive(Debug, Default)]
pub struct Measured {
    /// Every run, in the order of the policies.
    pub outcomes: Vec<Outcome>,
    /// The kernel that ran, if one did.
    pub kernel: Option<String>,
    /// Notes about these figures for the reader.
    pub notes: Vec<String>,
    /// Why there are fewer rounds than requested, if the rounds before are complete.
    pub cut: Option<Failure>,
    /// First runs, event by event, if requested and the ground is simulated.
    pub watched: Vec<Watched>,
}

/// A run, event by event.
#[derive(Debug)]
pub struct Watched {
    /// Index of its outcome.
    pub outcome: usize,
    /// Number of CPUs.
    pub cpus: usize,
    /// The process of each task, in the workload's order.
    pub processes: Vec<usize>,
    /// Its events.
    pub events: Vec<Event>,
}
