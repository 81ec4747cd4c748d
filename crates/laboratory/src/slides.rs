// SPDX-License-Identifier: GPL-2.0-only
//! Slides 15 and 24 again, from simulated mixes: results of policies, and their abilities.

use report::plot;
use report::text::percent;
use terminal::{Failure, Progress};
use uneven::{Metrics, Policy, Problem, plan};

use crate::extremes::least;
use crate::kinds::exact::{Mixes, choices};
use crate::kinds::mixes::{Run, Simulator, Told, kept, with};
use crate::views::{Chart, Shown, View};

/// A policy favours programs with larger gains if the program with the largest gets this much more of the fast cores
/// than the one with the least.
const AWARE: f64 = 0.05;
/// A larger gain of throughput from a cold start is not chance.
const GAINS: f64 = 0.005;

impl Simulator {
    /// A view of simulated mixes.
    pub fn chart(
        &mut self,
        view: &View,
        mixes: &Mixes,
        quick: bool,
        progress: &Progress,
    ) -> Result<Chart, Failure> {
        let some = |mixes: usize| if quick { mixes.div_ceil(10) } else { mixes };
        let mut chart = Chart::of(view);
        match &view.shown {
            Shown::Simulated { mixes: number, policies } => {
                self.all(&mut chart, mixes, some(*number), policies, progress)?;
            }
            Shown::Comparison { mixes: number, policies } => {
                self.compared(&mut chart, mixes, some(*number), policies, progress)?;
            }
            _ => {}
        }
        Ok(chart)
    }

    /// Slide 15: three metrics of all mixes.
    fn all(
        &mut self,
        chart: &mut Chart,
        mixes: &Mixes,
        number: usize,
        policies: &[String],
        progress: &Progress,
    ) -> Result<(), Failure> {
        let headings =
            ["policy", "of max-perf's gain", "minimum, worst", "minimum, mean", "uniformity, mean"];
        chart.headings = headings.map(String::from).to_vec();
        let mut bars: [Vec<(String, f64)>; 3] = Default::default();
        for policy in policies {
            let runs =
                self.runs(mixes, &with(policy, "deviations=0"), number, Told::Right, progress)?;
            let values = [
                kept(&runs),
                worst(&runs, |run| run.metrics.min),
                mean(&runs, |run| run.metrics.min),
                mean(&runs, |run| run.metrics.uniformity),
            ];
            let cells = values.iter().map(|value| percent(*value));
            chart.rows.push([policy.clone()].into_iter().chain(cells).collect());
            for (bars, value) in bars.iter_mut().zip([values[0], values[1], values[3]]) {
                bars.push((policy.clone(), 100.0 * value));
            }
        }
        let named = ["Throughput kept", "Minimum fairness, worst mix", "Uniformity, mean"];
        let units = ["% of max-perf's ideal gain", "% of max-fair", "% of max-fair"];
        for ((name, unit), bars) in named.into_iter().zip(units).zip(&bars) {
            chart.plots.push((name.to_string(), plot::bars(name, unit, bars)));
        }
        Ok(())
    }

    /// Slide 24: abilities of each policy, as measured.
    fn compared(
        &mut self,
        chart: &mut Chart,
        mixes: &Mixes,
        number: usize,
        policies: &[String],
        progress: &Progress,
    ) -> Result<(), Failure> {
        let headings = [
            "policy",
            "aware of programs",
            "estimates at run time",
            "throughput",
            "minimum, worst",
            "uniformity, worst",
            "guarantees",
        ];
        chart.headings = headings.map(String::from).to_vec();
        chart.rows.push(scaled_load(mixes, number)?);
        for policy in policies {
            let told =
                self.runs(mixes, &with(policy, "deviations=0"), number, Told::Right, progress)?;
            let cold = self.runs(mixes, policy, number, Told::Nothing, progress)?;
            let gained = mean(&cold, |run| run.metrics.throughput) - 1.0;
            let (minimum, uniformity) =
                (worst(&told, |run| run.metrics.min), worst(&told, |run| run.metrics.uniformity));
            let chosen = choices(mixes, number);
            let favours = told.iter().zip(&chosen);
            let favours = favours.map(|(run, mix)| favoured(mixes, mix, &run.relative));
            let favour = favours.sum::<f64>() / told.len().max(1) as f64;
            chart.rows.push(vec![
                policy.clone(),
                answer(favour > AWARE, favour),
                answer(gained > GAINS, gained),
                percent(mean(&told, |run| run.metrics.throughput)),
                percent(minimum),
                percent(uniformity),
                guarantees(minimum, uniformity),
            ]);
        }
        Ok(())
    }
}

/// Up to half a point below the target counts as kept: slices end where they end.
fn guarantees(minimum: f64, uniformity: f64) -> String {
    match (minimum > 0.845, uniformity > 0.845) {
        (true, true) => "minimum and uniformity",
        (true, false) => "minimum fairness",
        (false, true) => "uniformity",
        (false, false) => "–",
    }
    .to_string()
}

fn answer(yes: bool, by: f64) -> String {
    format!("{} ({:+.1} %)", if yes { "yes" } else { "no" }, 100.0 * by)
}

/// How much more of its time the program that gains most has on fast cores than the one that gains least. Shares follow
/// from performance relative to an even share.
fn favoured(mixes: &Mixes, mix: &[f64], relative: &[f64]) -> f64 {
    let even = mixes.cores[0] / mix.len() as f64;
    let fast = |(speedup, relative): (&f64, &f64)| {
        (relative * (1.0 + (speedup - 1.0) * even) - 1.0) / (speedup - 1.0)
    };
    let shares: Vec<f64> = mix.iter().zip(relative).map(fast).collect();
    shares.first().copied().unwrap_or(0.0) - shares.last().copied().unwrap_or(0.0)
}

/// Scaled load has no scheduler: this is its plan with programs in the order of their speedups, and in the reverse.
fn scaled_load(mixes: &Mixes, number: usize) -> Result<Vec<String>, Failure> {
    let policy = Policy::ScaledLoad { powers: None };
    let mut runs = Vec::new();
    for mix in choices(mixes, number) {
        for reversed in [false, true] {
            let mut order = mix.clone();
            if reversed {
                order.reverse();
            }
            let problem = Problem::two_types(mixes.cores[0], mixes.cores[1], &order);
            let plan = plan(&problem, &policy).map_err(Failure::input)?;
            let fast = |at: usize| plan.shares[at][0];
            let (most, least) = if reversed { (order.len() - 1, 0) } else { (0, order.len() - 1) };
            runs.push((Metrics::of(&plan.relative), fast(most) - fast(least)));
        }
    }
    let mean =
        |value: fn(&(Metrics, f64)) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
    let worst = |value: fn(&(Metrics, f64)) -> f64| least(runs.iter().map(value));
    let (minimum, uniformity) = (worst(|run| run.0.min), worst(|run| run.0.uniformity));
    let favour = mean(|run| run.1);
    Ok(vec![
        "scaled-load (plan)".into(),
        answer(favour > AWARE, favour),
        "no".into(),
        percent(mean(|run| run.0.throughput)),
        percent(minimum),
        percent(uniformity),
        guarantees(minimum, uniformity),
    ])
}

fn mean(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
}

fn worst(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    least(runs.iter().map(value))
}
