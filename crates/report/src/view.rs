// SPDX-License-Identifier: GPL-2.0-only
//! What a picture of one run is drawn from.

use std::collections::BTreeMap;

use trace::{IDLE, Lengths, Outcome, Tid, Timeline, Waits};

use crate::nodes::Nodes;
use crate::text::program;

/// The data for drawing a policy's first run.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) policy: String,
    pub(crate) timeline: Timeline,
    pub(crate) names: BTreeMap<Tid, String>,
    pub(crate) waits: Lengths,
    /// Lengths of waits by program.
    pub(crate) program_waits: BTreeMap<String, Lengths>,
    pub(crate) nodes: Nodes,
}

impl View {
    /// The view of a run, if any of it was observed.
    pub(crate) fn new(outcome: &Outcome) -> Option<Self> {
        let seen = &outcome.observed;
        let mut waits = Lengths::default();
        let mut program_waits: BTreeMap<String, Lengths> = BTreeMap::new();
        for (tid, task) in &seen.tasks {
            waits.merge(&task.wait_lengths);
            let name = outcome.names.get(tid).map_or("", |name| program(name));
            program_waits.entry(name.to_string()).or_default().merge(&task.wait_lengths);
        }
        let view = View {
            policy: outcome.policy.clone(),
            timeline: seen.timeline.clone(),
            names: outcome.names.clone(),
            waits,
            program_waits,
            nodes: Nodes::new(outcome),
        };
        view.timeline.cpus.iter().any(|cpu| cpu.iter().any(|tid| *tid != IDLE)).then_some(view)
    }

    /// A thread's program, as far as its name shows it; empty if it has none.
    pub(crate) fn program(&self, tid: Tid) -> &str {
        self.names.get(&tid).map_or("", |name| program(name))
    }

    pub(crate) fn columns(&self) -> usize {
        self.timeline.cpus.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(crate) fn long_ns(&self) -> f64 {
        self.columns() as f64 * self.timeline.column_ns as f64
    }

    /// Averages of a column: how many tasks waited, and how many CPUs idled that these tasks were allowed on.
    pub(crate) fn waited(&self, column: usize) -> (f64, f64) {
        let Waits { waiting_ns, idle_ns } =
            self.timeline.waits.get(column).copied().unwrap_or_default();
        let of = |ns: u64| ns as f64 / self.timeline.column_ns as f64;
        (of(waiting_ns), of(idle_ns))
    }
}
