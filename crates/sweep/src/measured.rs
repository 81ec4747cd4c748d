// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of a run: figures of the whole, and of each program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trace::{Lengths, Outcome};
use workload::program_of;

/// Figures of a run. Times are ns of the simulated machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Measured {
    /// From the start of the workload to its end.
    pub elapsed_ns: u64,
    /// CPU time of all tasks.
    pub cpu_ns: u64,
    /// CPU time idle while a task waited that might have used it.
    pub idle_while_runnable_ns: u64,
    pub switches: u64,
    pub involuntary_switches: u64,
    pub address_space_switches: u64,
    pub migrations: u64,
    /// Misses of both TLBs; None: the machine's file does not say what memory costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb_misses: Option<u64>,
    /// Waits of all tasks.
    pub wait: Waits,
    /// By the name of the program: the task's name before a dash.
    pub programs: BTreeMap<String, OfProgram>,
}

/// Waits for a CPU, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Waits {
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Shorter waits count as this long, ns: a ratio to nothing tells nothing.
pub const WAIT_LEAST_NS: u64 = 1_000;

impl Waits {
    /// How many times as long 99 % of the waits are as those of another run.
    pub fn longer_than(self, other: Waits) -> f64 {
        let ns = |waits: Waits| waits.p99_ns.max(WAIT_LEAST_NS) as f64;
        ns(self) / ns(other)
    }
}

/// Figures of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct OfProgram {
    pub tasks: u64,
    pub cpu_ns: u64,
    pub wait: Waits,
    /// Work done by all its tasks, in the workload's unit. None: the workload ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<f64>,
}

impl Measured {
    /// Of an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        let seen = &outcome.observed;
        let mut programs: BTreeMap<String, (OfProgram, Lengths)> = BTreeMap::new();
        let name = |tid: &u32| outcome.names.get(tid).map_or("", |name| program_of(name));
        for (tid, task) in &seen.tasks {
            let (of, lengths) = programs.entry(name(tid).to_string()).or_default();
            of.tasks += 1;
            of.cpu_ns += task.cpu_ns;
            of.wait.max_ns = of.wait.max_ns.max(task.wait_max_ns);
            lengths.merge(&task.wait_lengths);
        }
        for (tid, done) in outcome.progress.iter().filter(|(_, done)| **done > 0.0) {
            let (of, _) = programs.entry(name(tid).to_string()).or_default();
            *of.work.get_or_insert(0.0) += done;
        }
        let finished = |(name, (mut of, lengths)): (String, (OfProgram, Lengths))| {
            let at = |part| lengths.quantile(part).unwrap_or(0);
            of.wait = Waits { p50_ns: at(0.5), p95_ns: at(0.95), p99_ns: at(0.99), ..of.wait };
            (name, of)
        };
        Measured {
            elapsed_ns: outcome.elapsed_ns,
            cpu_ns: seen.tasks.values().map(|task| task.cpu_ns).sum(),
            idle_while_runnable_ns: seen.idle_while_runnable_ns,
            switches: seen.context_switches,
            involuntary_switches: seen.involuntary_switches,
            address_space_switches: seen.address_space_switches,
            migrations: seen.migrations,
            tlb_misses: outcome.memory.as_ref().map(|memory| memory.total.tlb()),
            wait: Waits {
                p50_ns: seen.wait.p50_ns,
                p95_ns: seen.wait.p95_ns,
                p99_ns: seen.wait.p99_ns,
                max_ns: seen.wait.max_ns,
            },
            programs: programs.into_iter().map(finished).collect(),
        }
    }

    /// Work of all programs. None: the workload ends by itself.
    pub fn work(&self) -> Option<f64> {
        let work = self.programs.values().filter_map(|program| program.work);
        work.reduce(|all, one| all + one)
    }

    /// How many times as fast as another run: the geometric mean over programs of their work, or the time of a workload
    /// that ends by itself.
    pub fn speed_against(&self, base: &Measured) -> f64 {
        let logarithms: Vec<f64> = base
            .programs
            .iter()
            .filter_map(|(name, of)| {
                let own = self.programs.get(name).and_then(|own| own.work).unwrap_or(0.0);
                Some((own / of.work?).max(1e-9).ln())
            })
            .collect();
        match logarithms.len() {
            0 => base.elapsed_ns as f64 / self.elapsed_ns.max(1) as f64,
            programs => (logarithms.iter().sum::<f64>() / programs as f64).exp(),
        }
    }
}

/// Runs of two policies on a kernel, each with the other's of the same boot and round.
pub fn paired<'o>(
    outcomes: &'o [Outcome],
    own: &'o str,
    base: &'o str,
) -> impl Iterator<Item = (Measured, Measured)> + 'o {
    outcomes.iter().filter(move |run| run.policy == own).filter_map(move |own| {
        let beside = |run: &&Outcome| (run.boot, run.run) == (own.boot, own.run);
        let base = outcomes.iter().filter(|run| run.policy == base).find(beside)?;
        Some((Measured::of(own), Measured::of(base)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(work: &[(&str, f64)], elapsed_ns: u64) -> Measured {
        let mut outcome = Outcome { elapsed_ns, ..Outcome::default() };
        for (at, (name, done)) in work.iter().enumerate() {
            outcome.names.insert(at as u32, name.to_string());
            outcome.progress.insert(at as u32, *done);
        }
        Measured::of(&outcome)
    }

    #[test]
    fn programs_count_alike_however_many_tasks_they_have() {
        let base = outcome(&[("a-0", 1.0), ("a-1", 3.0), ("b", 2.0)], 10);
        let own = outcome(&[("a-0", 4.0), ("a-1", 4.0), ("b", 1.0)], 10);
        assert_eq!(own.speed_against(&base), 1.0);
        assert_eq!((own.work(), own.programs["a"].work), (Some(9.0), Some(8.0)));
    }

    #[test]
    fn a_workload_that_ends_counts_by_its_time() {
        assert_eq!(outcome(&[("a", 0.0)], 50).speed_against(&outcome(&[("a", 0.0)], 100)), 2.0);
    }
}
