// SPDX-License-Identifier: GPL-2.0-only
//! A bench: every policy under each of several loads, as one table and one heat map.

use std::collections::BTreeSet;
use std::process::Command;

use report::heat::heat;
use report::stats::median;
use report::text::digits;
use terminal::Failure;
use trace::Outcome;

use crate::experiment::peers_here;
use crate::measure::Laboratory;
use crate::outcomes::{bare, policies, ratios, values};
use crate::paper::{Experiment, Quantity};
use crate::views::{Chart, View, show};

/// The quantities of the table, each with its heading.
const COLUMNS: [(Quantity, &str); 7] = [
    (Quantity::Elapsed, "elapsed"),
    (Quantity::Work, "work"),
    (Quantity::WaitP50, "wait p50"),
    (Quantity::WaitP99, "p99"),
    (Quantity::WaitP999, "p99.9"),
    (Quantity::Switches, "switches"),
    (Quantity::IdleShare, "idle while runnable"),
];

/// Draws the bench. The first policy is the one that all are compared with.
pub fn chart(view: &View, experiments: &[String], lab: &mut Laboratory) -> Result<Chart, Failure> {
    let mut chart = Chart::of(view);
    let columns = COLUMNS.iter().map(|(_, heading)| heading.to_string());
    chart.headings =
        ["load", "policy", "speed"].map(String::from).into_iter().chain(columns).collect();
    let (mut loads, mut kernels) = (Vec::new(), BTreeSet::new());
    for name in experiments {
        let load = Load::of(name, lab)?;
        chart.rows.extend(load.rows());
        let about = lab.about(name);
        kernels.extend(about.kernel);
        let failed = about.failed.iter().map(|why| format!(" Failed in {name}: {why}."));
        chart.note += &failed.collect::<String>();
        loads.push(load);
    }
    let labels = policies(loads.iter().flat_map(|load: &Load| &load.outcomes));
    let cells = loads.iter().map(|load| {
        let speeds = labels.iter().map(|label| load.speed(label)).collect();
        (load.name.clone(), speeds)
    });
    let caption =
        format!("{}: speed, against {}", chart.title, labels.first().map_or("", |first| first));
    let map = heat(&caption, &labels, &cells.collect::<Vec<_>>());
    chart.plots.push((caption, map));
    if let Some(first) = experiments.first() {
        chart.note += &versions(lab.experiment(first)?, &kernels);
    }
    Ok(chart)
}

/// One load, run under every policy.
struct Load {
    name: String,
    /// The speed is work done, for it runs for a fixed time.
    by_work: bool,
    policies: Vec<String>,
    outcomes: Vec<Outcome>,
}

impl Load {
    fn of(name: &str, lab: &mut Laboratory) -> Result<Self, Failure> {
        let outcomes = lab.watched(name)?;
        let by_work = lab.experiment(name)?.watched.is_some();
        Ok(Load { name: name.to_string(), by_work, policies: policies(&outcomes), outcomes })
    }

    /// Above 1: faster than the first policy.
    fn speed(&self, policy: &str) -> Option<f64> {
        let first = self.policies.first()?;
        median(&match self.by_work {
            true => ratios(&self.outcomes, policy, first, Quantity::Work),
            false => ratios(&self.outcomes, first, policy, Quantity::Elapsed),
        })
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.policies.iter().map(|policy| {
            let speed = self.speed(policy).map_or("–".into(), digits);
            let cells = COLUMNS.iter().map(|(quantity, _)| {
                show(*quantity, median(&bare(values(&self.outcomes, policy, *quantity))))
            });
            [self.name.clone(), policy.clone(), speed].into_iter().chain(cells).collect()
        })
    }
}

/// The kernel, and each peer by its own words; those that are not on this machine by their names.
fn versions(experiment: &Experiment, kernels: &BTreeSet<String>) -> String {
    let here: Vec<&String> = peers_here(experiment).collect();
    let said = |peer: &&String| {
        let output = Command::new(peer).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().lines().next()?.to_string();
        Some(text)
    };
    let mut parts: Vec<String> = kernels.iter().map(|kernel| format!("kernel {kernel}")).collect();
    parts.push(format!("paceline {}", env!("CARGO_PKG_VERSION")));
    parts.extend(here.iter().map(|peer| said(peer).unwrap_or_else(|| (*peer).clone())));
    let mut text = format!(" Versions: {}.", parts.join(", "));
    let absent: Vec<&str> =
        experiment.peers.iter().filter(|peer| !here.contains(peer)).map(String::as_str).collect();
    if !absent.is_empty() {
        text += &format!(" Not on this machine, and left out: {}.", absent.join(", "));
    }
    text
}
