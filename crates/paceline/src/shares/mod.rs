// SPDX-License-Identifier: GPL-2.0-only
//! `paceline shares`: each task's share of uneven cores, by the control plane alone.

mod ask;
mod sweep;

use report::text::{Align, Style, digits, percent, table, wrapped};
use serde::Serialize;
use terminal::files::check_writable;
use terminal::{Failure, interrupt, output};
use uneven::{Metrics, Plan, plan};

use crate::cli::Shares;
use ask::Asked;
use sweep::json;

/// Plans and shows; nothing is run.
pub fn run(arguments: &Shares) -> Result<(), Failure> {
    interrupt::ends()?;
    let asked = Asked::new(arguments)?;
    if arguments.sweep {
        if let Some(path) = &arguments.report {
            check_writable(path, "--report")?;
        }
        return sweep::run(arguments, &asked);
    }
    let plan = plan(&asked.problem, &asked.policy).map_err(Failure::input)?;
    output::print(&match arguments.json {
        true => json(&Printed::new(&plan)),
        false => text(&asked, &plan, output::style()),
    })
}

/// A result for other programs: keys keep their meaning.
#[derive(Serialize)]
struct Printed<'a> {
    /// For each task, in the given order: the part of its CPU time on each core type, fastest first.
    shares: &'a [Vec<f64>],
    /// Performance of each task relative to the base.
    relative: &'a [f64],
    throughput: f64,
    min: f64,
    uniformity: f64,
    uniformity_population: f64,
    /// CPU time of each task, in cores.
    cpu: &'a [f64],
}

impl<'a> Printed<'a> {
    fn new(plan: &'a Plan) -> Self {
        let Metrics { throughput, min, uniformity, uniformity_population } =
            Metrics::of(&plan.relative);
        let Plan { cpu, shares, relative } = plan;
        Printed { shares, relative, throughput, min, uniformity, uniformity_population, cpu }
    }
}

fn text(asked: &Asked, plan: &Plan, style: Style) -> String {
    let types = asked.type_names();
    let mut headings = vec!["task", "speed", "CPU time"];
    headings.extend(types.iter().map(String::as_str));
    headings.push("relative");
    let rows: Vec<Vec<String>> = (0..plan.cpu.len()).map(|task| row(asked, plan, task)).collect();
    let mut text = asked.heading() + "\n\n" + &table(&headings, &rows, Align::Right, style) + "\n";
    text += &wrapped(&summary(&Metrics::of(&plan.relative)), style);
    text + &wrapped(
        &format!(
            "CPU time: in cores; {}: parts of it on each core type; relative: performance relative to {}.",
            types.join(", "),
            asked.base_name()
        ),
        style,
    )
}

fn row(asked: &Asked, plan: &Plan, task: usize) -> Vec<String> {
    let speeds = &asked.problem.tasks[task].speeds;
    let fastest = &speeds[..speeds.len().max(2) - 1];
    let speeds: Vec<String> = fastest.iter().map(|speed| digits(*speed)).collect();
    let mut row = vec![(task + 1).to_string(), speeds.join("/"), digits(plan.cpu[task])];
    row.extend(plan.shares[task].iter().map(|part| percent(*part)));
    row.push(format!("{:.3}", plan.relative[task]));
    row
}

fn summary(metrics: &Metrics) -> String {
    format!(
        "throughput {:.3}, minimum {:.3}, uniformity {:.3} (population {:.3}).",
        metrics.throughput, metrics.min, metrics.uniformity, metrics.uniformity_population
    )
}
