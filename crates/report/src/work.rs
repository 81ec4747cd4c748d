// SPDX-License-Identifier: GPL-2.0-only
//! How far each program got. If a workload runs for a fixed time, only this tells policies apart.

use std::collections::BTreeMap;

use crate::text::{digits, known, program};
use crate::{Results, Run, Summary};

/// Programs with differences below this part under all policies get no row.
const WORTH: f64 = 0.02;
/// Most rows: those that differ most.
const ROWS: usize = 24;

/// Caption of the table.
pub const CAPTION: &str = "Work that a thread got done, against the first policy";

/// A program: its name, its number of threads, and its work under each further policy as a part of its work under the
/// first.
pub struct Work {
    program: String,
    threads: usize,
    against_first: Vec<Option<f64>>,
}

impl Work {
    /// The row of the table.
    pub fn row(&self) -> Vec<String> {
        let ratio = |ratio: &Option<f64>| known(*ratio, |ratio| format!("{}×", digits(ratio)));
        let first = [self.program.clone(), self.threads.to_string()];
        first.into_iter().chain(self.against_first.iter().map(ratio)).collect()
    }

    fn apart(&self) -> f64 {
        let apart = self.against_first.iter().flatten().map(|ratio| (ratio - 1.0).abs());
        apart.fold(0.0, f64::max)
    }
}

/// The column headings.
pub fn headings(results: &Results) -> Vec<&str> {
    let others = results.summary.iter().skip(1).map(|one| one.policy.as_str());
    ["program", "threads"].into_iter().chain(others).collect()
}

/// Programs at each end that a sentence names.
const TOLD: usize = 2;

/// For each policy but the first, how far programs got against the first: `cas: waits 0.64×, nice 0.65×, busy 1.19×`.
/// Of many programs, those with the least and the most work. None if all runs did all their work.
pub fn told(results: &Results) -> Vec<String> {
    let rows = rows(results);
    let of = |(at, one): (usize, &Summary)| {
        let mut programs: Vec<(&str, f64)> = rows
            .iter()
            .filter_map(|row| Some((row.program.as_str(), row.against_first.get(at).copied()??)))
            .collect();
        programs.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let words = |part: &[(&str, f64)]| {
            let words: Vec<String> =
                part.iter().map(|(name, ratio)| format!("{name} {}×", digits(*ratio))).collect();
            words.join(", ")
        };
        let told = match programs.len() {
            0 => return None,
            few if few <= 2 * TOLD => words(&programs),
            many => format!("{} to {}", words(&programs[..TOLD]), words(&programs[many - TOLD..])),
        };
        Some(format!("{}: {told}", one.policy))
    };
    results.summary.iter().skip(1).enumerate().filter_map(of).collect()
}

/// Programs with differing work, in the order of their names. Empty if all runs did all their work.
pub fn rows(results: &Results) -> Vec<Work> {
    let by_policy: Vec<BTreeMap<&str, (usize, f64)>> =
        results.summary.iter().map(|one| of_policy(results, &one.policy)).collect();
    let Some((first, others)) = by_policy.split_first() else { return Vec::new() };
    let of = |(program, (threads, work)): (&&str, &(usize, f64))| Work {
        program: program.to_string(),
        threads: *threads,
        against_first: others
            .iter()
            .map(|other| Some(other.get(program)?.1 / work).filter(|ratio| ratio.is_finite()))
            .collect(),
    };
    let mut rows: Vec<Work> = first.iter().map(of).collect();
    if rows.iter().all(|row| row.apart() < WORTH) {
        return Vec::new();
    }
    rows.sort_by(|one, other| other.apart().total_cmp(&one.apart()));
    rows.truncate(ROWS);
    rows.sort_by(|one, other| one.program.cmp(&other.program));
    rows
}

/// Threads of each program, and the mean of their work over all runs.
fn of_policy<'a>(results: &'a Results, policy: &str) -> BTreeMap<&'a str, (usize, f64)> {
    let runs: Vec<&Run> = results.runs.iter().filter(|run| run.policy == policy).collect();
    let mut all: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for task in runs.iter().flat_map(|run| &run.tasks) {
        let Some(progress) = task.progress else { continue };
        let of = all.entry(program(&task.name)).or_default();
        *of = (of.0 + 1, of.1 + progress);
    }
    for (threads, work) in all.values_mut() {
        *work /= *threads as f64;
        *threads /= runs.len();
    }
    all
}
