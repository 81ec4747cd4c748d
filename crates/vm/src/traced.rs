// SPDX-License-Identifier: GPL-2.0-only
//! What one run in the guest returns.

use live::Callback;
use trace::{Event, Outcome};

/// One run, with the records of its policy.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The outcome that [`crate::run()`] returns.
    pub outcome: Outcome,
    /// Every callback since the policy was loaded, if the policy writes them down, as `probe` does.
    pub callbacks: Vec<Callback>,
    /// Scheduling events of the observed run, within its span.
    pub events: Vec<Event>,
}
