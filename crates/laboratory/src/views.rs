// SPDX-License-Identifier: GPL-2.0-only
//! A paper's charts again, as tables and plots of our sweeps.

use std::collections::BTreeSet;

use report::plot::{self, Line};
use report::text::{count, digits, time};
use serde::{Deserialize, Serialize};
use trace::FunctionCost;

use crate::outcomes::policies;
use crate::paper::{Jobs, Quantity};
use crate::sweep::{Point, SwitchCost, switch_costs};

/// A chart of the paper, redrawn from a sweep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Short and unique, for `--only`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// A note for the reader, such as that the paper's numbers were not published.
    pub note: String,
    /// Name of the sweep; empty if mixes are shown.
    #[serde(default)]
    pub sweep: String,
    /// The shown values.
    pub shown: Shown,
}

/// The values of a view.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// One quantity: a row for each job, a column for each policy.
    Quantity(Quantity),
    /// The first policy's over the second's: a row for each job, with its range over the costs.
    Ratio(Quantity),
    /// Quantities of the last job: a row for each policy.
    Policies(Vec<Quantity>),
    /// Scheduler functions of the last job: calls and time.
    Functions,
    /// Cost of a switch in a ring of processes and in one of threads, over working sets.
    Rings,
    /// Gains and losses of max-perf: a histogram of all mixes.
    Mixes,
    /// Results of policies on simulated mixes: the metrics of slide 15.
    Simulated {
        /// Number of mixes; a tenth with `--quick`.
        mixes: usize,
        /// For `--policy`, without `deviations`.
        policies: Vec<String>,
    },
    /// Slide 24's table, filled from measurements.
    Comparison {
        /// Number of mixes; a tenth with `--quick`.
        mixes: usize,
        /// For `--policy`, without `deviations`.
        policies: Vec<String>,
    },
    /// The memory nodes of each thread and its pages over time: a picture for each policy.
    Domains {
        /// The mix.
        mix: String,
        /// The policies.
        policies: Vec<String>,
    },
    /// Every policy in each of several experiments: time, waits, switches, idling, and its speed against the first.
    Bench {
        /// Their names.
        experiments: Vec<String>,
    },
    /// Every cell of the matrix under each policy, and a heat map of speeds, where the named policy does worst on top.
    Cells {
        /// The policy.
        of: String,
    },
    /// Losses of each victim of a culprit beside it, under each policy.
    Neighbours {
        /// Its name.
        of: String,
        /// For `--policy`.
        policies: Vec<String>,
    },
    /// Throughput, minimum fairness and uniformity of trials under policies, and their ideals.
    Trials {
        /// Their names.
        trials: Vec<String>,
        /// For `--policy`.
        policies: Vec<String>,
    },
}

impl View {
    /// What it is drawn from: it shares runs with figures that are taken from one of these.
    pub fn sources(&self) -> BTreeSet<String> {
        match &self.shown {
            Shown::Mixes => ["exact".to_string()].into(),
            Shown::Simulated { .. } | Shown::Comparison { .. } => ["mixes".to_string()].into(),
            Shown::Domains { mix, .. } => [format!("mix {mix}")].into(),
            Shown::Bench { experiments } => experiments.iter().cloned().collect(),
            Shown::Cells { .. } => ["cells".to_string()].into(),
            Shown::Neighbours { of, .. } => [of.clone()].into(),
            Shown::Trials { trials, .. } => trials.iter().cloned().collect(),
            _ => [self.sweep.clone()].into(),
        }
    }
}

/// A chart: its table, and its plots as SVG.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chart {
    /// Its title, and the chart of the paper that it stands for.
    pub title: String,
    /// A note for the reader.
    pub note: String,
    /// Headings of its table.
    pub headings: Vec<String>,
    /// Rows of its table.
    pub rows: Vec<Vec<String>>,
    /// Plots, each with its caption.
    pub plots: Vec<(String, String)>,
}

impl Chart {
    /// A chart with nothing drawn yet.
    pub fn of(view: &View) -> Self {
        Chart {
            title: view.title.clone(),
            note: view.note.clone(),
            headings: Vec::new(),
            rows: Vec::new(),
            plots: Vec::new(),
        }
    }
}

/// Draws a view of a sweep's points, at the machine's own costs unless it says otherwise.
pub fn chart(view: &View, jobs: &Jobs, points: &[Point]) -> Chart {
    let policies = policies(points.iter().flat_map(|point| &point.outcomes));
    let shown: Vec<&Point> = points.iter().filter(|point| point.costs == 0).collect();
    let mut chart = Chart::of(view);
    match &view.shown {
        Shown::Quantity(quantity) => by_job(&mut chart, *quantity, &policies, &shown),
        Shown::Ratio(quantity) => by_cost(&mut chart, *quantity, &policies, points),
        Shown::Rings => rings(&mut chart, jobs, &policies, points),
        Shown::Functions => functions(&mut chart, &policies, &shown),
        Shown::Mixes
        | Shown::Simulated { .. }
        | Shown::Comparison { .. }
        | Shown::Bench { .. }
        | Shown::Cells { .. }
        | Shown::Domains { .. }
        | Shown::Neighbours { .. }
        | Shown::Trials { .. } => {} // drawn without a sweep
        Shown::Policies(quantities) => by_policy(&mut chart, quantities, &policies, &shown),
    }
    let missing: Vec<&str> =
        shown.iter().flat_map(|point| &point.failed).map(|failed| failed.why.as_str()).collect();
    if !missing.is_empty() {
        chart.note += &format!(" Missing: {}.", missing.join("; "));
    }
    chart
}

/// A quantity for a cell of a table.
pub fn show(quantity: Quantity, value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(value) if quantity.is_count() => count(value),
        Some(value) if quantity == Quantity::IdleShare => report::text::percent(value),
        Some(value) => time(value),
    }
}

/// A row for each job, a column for each policy; a plot for each series of jobs.
fn by_job(chart: &mut Chart, quantity: Quantity, policies: &[String], points: &[&Point]) {
    chart.headings = [vec!["job".to_string()], policies.to_vec()].concat();
    for point in points {
        let values = policies.iter().map(|policy| show(quantity, point.value(quantity, policy)));
        chart.rows.push([point.at.label.clone()].into_iter().chain(values).collect());
    }
    let mut series: Vec<&str> = points.iter().map(|point| point.at.series.as_str()).collect();
    series.dedup();
    for name in series {
        let own: Vec<&Point> =
            points.iter().filter(|point| point.at.series == name).copied().collect();
        let caption = format!("{}, {name}", chart.title);
        let svg = plotted(&caption, quantity, policies, &own);
        chart.plots.push((caption, svg));
    }
}

/// Lines over an ordered axis; bars if jobs have names only.
fn plotted(caption: &str, quantity: Quantity, policies: &[String], points: &[&Point]) -> String {
    let value = |point: &Point, policy: &str| point.value(quantity, policy);
    let all = points.iter().flat_map(|point| policies.iter().map(|policy| value(point, policy)));
    let most = all.flatten().fold(0.0, f64::max);
    let (unit, factor) = match quantity.is_count() {
        true => ("count", 1.0),
        false if most < 1.0 => ("milliseconds", 1e3),
        false => ("seconds", 1.0),
    };
    if points.iter().all(|point| point.at.x.is_some()) {
        let at =
            |point: &&Point, policy: &String| Some((point.at.x?, value(point, policy)? * factor));
        let line = |policy: &String| Line {
            name: policy.clone(),
            points: points.iter().filter_map(|point| at(point, policy)).collect(),
        };
        let lines: Vec<Line> = policies.iter().map(line).collect();
        return plot::lines(caption, "groups", unit, &lines);
    }
    let mut bars = Vec::new();
    for point in points {
        for policy in policies {
            let name = format!("{}, {policy}", point.at.label);
            bars.extend(value(point, policy).map(|value| (name, value * factor)));
        }
    }
    plot::bars(caption, unit, &bars)
}

/// A row for each job: the first policy's value over the second's at the machine's own costs. Beside it, its least and
/// greatest over the sets of costs, with the set of each.
fn by_cost(chart: &mut Chart, quantity: Quantity, policies: &[String], points: &[Point]) {
    let [over, under, ..] = policies else { return };
    chart.headings = vec![
        format!("{over} / {under}"),
        "machine's costs".into(),
        "least".into(),
        "at".into(),
        "greatest".into(),
        "at".into(),
    ];
    let mut nominal: Vec<(String, f64)> = Vec::new();
    for point in points.iter().filter(|point| point.costs == 0) {
        let mut ratios: Vec<(f64, &str)> = points
            .iter()
            .filter(|other| other.at == point.at)
            .filter_map(|other| Some((other.ratio(quantity, over, under)?, other.set.as_str())))
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let own = point.ratio(quantity, over, under);
        nominal.extend(own.map(|own| (point.at.label.clone(), own)));
        let mut row = vec![point.at.label.clone(), own.map_or("–".into(), digits)];
        for end in [ratios.first(), ratios.last()] {
            row.push(end.map_or("–".into(), |(ratio, _)| digits(*ratio)));
            row.push(end.map_or(String::new(), |(_, set)| set.to_string()));
        }
        chart.rows.push(row);
    }
    chart.plots.push((chart.title.clone(), plot::bars(&chart.title, "ratio", &nominal)));
}

/// A row for each working set: cost of a switch among processes and among threads, under the first policy.
fn rings(chart: &mut Chart, jobs: &Jobs, policies: &[String], points: &[Point]) {
    let (Jobs::Ring { tasks, .. }, Some(policy)) = (jobs, policies.first()) else { return };
    let costs = switch_costs(points, policy, *tasks);
    chart.headings =
        ["KB", "threads", "processes", "ratio"].into_iter().map(String::from).collect();
    for cost in &costs {
        chart.rows.push(vec![
            cost.kilobytes.to_string(),
            time(cost.threads_s),
            time(cost.processes_s),
            digits(cost.processes_s / cost.threads_s),
        ]);
    }
    let line = |name: &str, seconds: fn(&SwitchCost) -> f64| Line {
        name: name.into(),
        points: costs.iter().map(|cost| (cost.kilobytes as f64, seconds(cost) * 1e6)).collect(),
    };
    let lines =
        [line("threads", |cost| cost.threads_s), line("processes", |cost| cost.processes_s)];
    let svg = plot::lines(&chart.title, "KB", "microseconds", &lines);
    chart.plots.push((chart.title.clone(), svg));
}

/// A row for each policy: its value, and the first policy's over its own, for the last job.
fn by_policy(chart: &mut Chart, quantities: &[Quantity], policies: &[String], points: &[&Point]) {
    let (Some(point), Some(first)) = (points.last(), policies.first()) else { return };
    let named = quantities.iter().flat_map(|quantity| [quantity.name(), format!("{first} / it")]);
    chart.headings = ["policy".to_string()].into_iter().chain(named).collect();
    for policy in policies {
        let cells = quantities.iter().flat_map(|quantity| {
            let ratio = point.ratio(*quantity, first, policy);
            let ratio = ratio.map_or("–".into(), |ratio| format!("{ratio:.3}"));
            [show(*quantity, point.value(*quantity, policy)), ratio]
        });
        chart.rows.push([policy.clone()].into_iter().chain(cells).collect());
    }
    for quantity in quantities {
        let bar = |policy: &String| Some((policy.clone(), point.value(*quantity, policy)?));
        let bars: Vec<(String, f64)> = policies.iter().filter_map(bar).collect();
        let unit = if quantity.is_count() { "count" } else { "seconds" };
        let caption = format!("{}: {}", chart.title, quantity.name());
        let svg = plot::bars(&caption, unit, &bars);
        chart.plots.push((caption, svg));
    }
}

/// A row for each scheduler function of each policy, at the last job.
fn functions(chart: &mut Chart, policies: &[String], points: &[&Point]) {
    let Some(point) = points.last() else { return };
    chart.headings =
        ["policy", "function", "calls", "time"].into_iter().map(String::from).collect();
    for policy in policies {
        let Some(run) = point.outcomes.iter().find(|run| run.policy == *policy) else { continue };
        let mut functions: Vec<(&String, &FunctionCost)> = run.functions.iter().collect();
        functions.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then(a.0.cmp(b.0)));
        for (name, cost) in &functions {
            let seconds = cost.ns as f64 / 1e9;
            chart.rows.push(vec![
                policy.clone(),
                (*name).clone(),
                count(cost.count as f64),
                time(seconds),
            ]);
        }
        let bars: Vec<(String, f64)> =
            functions.iter().map(|(name, cost)| ((*name).clone(), cost.ns as f64 / 1e9)).collect();
        let caption = format!("{}, {policy}, job {}", chart.title, point.at.label);
        let svg = plot::bars(&caption, "seconds", &bars);
        chart.plots.push((caption, svg));
    }
}
