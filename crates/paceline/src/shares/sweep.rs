// SPDX-License-Identifier: GPL-2.0-only
//! `paceline shares --sweep`: costs and benefits of a target.

use report::html;
use report::plot::{Line, lines};
use report::text::{Align, known, table, wrapped};
use serde::Serialize;
use terminal::files::write_report;
use terminal::{Failure, output};
use uneven::{Base, Error, Metrics, energy_per_work, plan};

use super::ask::Asked;
use crate::cli::Shares;

const STEPS: u32 = 20;

/// The assumption about energy.
const ASSUMED: &str = "energy: of the same work relative to max-fair, assuming that a core draws the \
    same whoever runs on it and that all policies keep the same cores busy.";

#[derive(Serialize)]
struct Swept<'a> {
    policy: &'a str,
    sweep: &'a [Point],
}

/// A target with its results.
#[derive(Serialize)]
struct Point {
    target: f64,
    throughput: f64,
    min: f64,
    uniformity: f64,
    uniformity_population: f64,
    /// Energy for the same work relative to max-fair; null with another base.
    energy: Option<f64>,
}

/// Plans for each target, and shows the results.
pub fn run(arguments: &Shares, asked: &Asked) -> Result<(), Failure> {
    let points = points(asked)?;
    let shown = match arguments.json {
        false => output::print(&text(asked, &points)),
        true => output::print(&json(&Swept { policy: asked.name(), sweep: &points })),
    };
    if let Some(path) = &arguments.report {
        write_report(path, &page(asked, &points), arguments.json)?;
    }
    output::end(shown, Ok(()))
}

/// Points up to the greatest target that can be kept for all.
fn points(asked: &Asked) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for step in 0..=STEPS {
        let target = f64::from(step) / f64::from(STEPS);
        let policy = asked.policy.with_target(target).expect("checked: the policy has a target");
        match plan(&asked.problem, &policy) {
            Ok(plan) => {
                let Metrics { throughput, min, uniformity, uniformity_population } =
                    Metrics::of(&plan.relative);
                let energy = (asked.problem.base == Base::MaxFair)
                    .then(|| energy_per_work(&plan.cpu, &plan.relative));
                points.push(Point {
                    target,
                    throughput,
                    min,
                    uniformity,
                    uniformity_population,
                    energy,
                });
            }
            Err(Error::OutOfReach { .. }) => break,
            Err(error) => return Err(Failure::input(error)),
        }
    }
    Ok(points)
}

fn rows(points: &[Point]) -> Vec<Vec<String>> {
    let row = |point: &Point| {
        let mut row = vec![format!("{:.2}", point.target)];
        let values = [point.throughput, point.min, point.uniformity];
        row.extend(values.map(|value| format!("{value:.3}")));
        row.push(known(point.energy, |energy| format!("{energy:.3}")));
        row
    };
    points.iter().map(row).collect()
}

const HEADINGS: [&str; 5] = ["target", "throughput", "minimum", "uniformity", "energy"];

fn text(asked: &Asked, points: &[Point]) -> String {
    let style = output::style();
    let table = table(&HEADINGS, &rows(points), Align::Right, style);
    asked.heading() + "\n\n" + &table + "\n" + &wrapped(&notes(asked), style)
}

fn notes(asked: &Asked) -> String {
    format!("relative to {}; {ASSUMED}", asked.base_name())
}

fn page(asked: &Asked, points: &[Point]) -> String {
    let line = |name: &str, value: fn(&Point) -> Option<f64>| Line {
        name: name.into(),
        points: points.iter().filter_map(|point| Some((point.target, value(point)?))).collect(),
    };
    let series = [
        line("throughput", |point| Some(point.throughput)),
        line("minimum", |point| Some(point.min)),
        line("uniformity", |point| Some(point.uniformity)),
        line("energy of the same work", |point| point.energy),
    ];
    let title = asked.heading();
    let svg = lines(&title, "target", &format!("relative to {}", asked.base_name()), &series);
    let mut body = html::figure("What a target costs, and what it buys", &svg);
    body += &html::table("By target", &HEADINGS, &rows(points));
    body += &format!("<p>{}</p>\n", html::escape(&notes(asked)));
    html::page(&title, &body)
}
/// JSON for other programs, with a line end.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data") + "\n"
}
