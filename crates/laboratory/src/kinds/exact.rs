// SPDX-License-Identifier: GPL-2.0-only
//! Figures that need no run: results of shares on uneven cores, from the control planes alone.

use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use report::plot;
use report::text::{count, percent};
use serde::Deserialize;
use terminal::Failure;
use uneven::{Base, Metrics, Policy, Problem, Task, plan};

use crate::extremes::{greatest, least};
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::views::{Chart, View};

/// A guarantee is broken if more than rounding is missing.
const ROUNDING: f64 = 1e-9;
/// Width of the histogram's bins.
const BIN: f64 = 0.05;

/// Computed without a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exact {
    /// The computed figure.
    of: Of,
}

impl Kind for Exact {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let quick = lab.effort.quick;
        let some = |draws: usize| if quick { draws.div_ceil(10) } else { draws };
        let value = match &self.of {
            Of::MaxPerf { cores, speedups, value } => {
                let problem = Problem::two_types(cores[0], cores[1], speedups);
                let metrics = metrics(&problem, &Policy::MaxPerf)?;
                let value = match value {
                    Value::Throughput => metrics.throughput,
                    Value::Min => metrics.min,
                    Value::Uniformity => metrics.uniformity,
                };
                (100.0 * (value - 1.0)).round()
            }
            Of::ProgramError { draws } => worst(some(*draws), program_error)? / ROUNDING,
            Of::Broken { draws } => broken(some(*draws))?,
            Of::Mixes(what) => planned(lab)?.value(*what),
        };
        Ok(vec![value].into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("exact"))
    }
}

/// The computed figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Of {
    /// Difference of max-perf from max-fair, in whole percent as a slide prints it.
    MaxPerf {
        /// Cores of each type, fastest first.
        cores: [f64; 2],
        /// Speedup of each task.
        speedups: Vec<f64>,
        /// The metric.
        value: Value,
    },
    /// The greatest distance between the closed form of min-fair and the linear program, in billionths of throughput.
    /// Random problems of two core types; naming the slow cores as two types leads to the linear program.
    ProgramError {
        /// Number of problems; a tenth with `--quick`.
        draws: usize,
    },
    /// In how many of such problems min-fair and similar-min-fair broke a guarantee.
    Broken {
        /// Number of problems; a tenth with `--quick`.
        draws: usize,
    },
    /// A value over all mixes.
    Mixes(OfMixes),
}

/// One of a plan's metrics.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// Mean of relative performance.
    Throughput,
    /// The least relative performance.
    Min,
    /// Uniformity, with the standard deviation of the sample.
    Uniformity,
}

/// Values over all mixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OfMixes {
    /// Number of mixes.
    Count,
    /// Mean gain of throughput under max-perf.
    Gain,
    /// Mean loss of minimum fairness under max-perf.
    Loss,
    /// Least loss of a mix.
    LeastLoss,
    /// The part of that gain that min-fair keeps.
    KeptByMinFair,
    /// The part of it that similar-min-fair keeps.
    KeptBySimilar,
    /// The least minimum fairness of a mix under both.
    WorstMinimum,
    /// How much more uniform similar-min-fair is than min-fair, mean of all mixes.
    MoreUniform,
}

/// All mixes of `programs` out of a list of programs, from a paper's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixes {
    /// Cores of each type, fastest first.
    pub cores: [f64; 2],
    /// Programs in a mix.
    programs: usize,
    /// Speedup of each program in the list.
    speedups: Vec<f64>,
    /// Target of min-fair and similar-min-fair.
    target: f64,
    /// Similarity of similar-min-fair.
    similarity: f64,
}

/// Ideal max-perf, min-fair and similar-min-fair on one mix.
struct Mix([Metrics; 3]);

/// All mixes, planned.
pub struct Planned(Vec<Mix>);

/// The plans of a paper, made once.
#[derive(Default)]
struct Plans(Option<Rc<Planned>>);

/// The paper's list of mixes.
pub fn listed<'a>(lab: &Laboratory<'a>) -> Result<&'a Mixes, Failure> {
    let name = &lab.paper.name;
    let none = || Failure::input(format!("papers/{name}.toml: no [mixes]"));
    lab.paper.mixes.as_ref().ok_or_else(none)
}

/// All mixes of the paper, planned.
pub fn planned(lab: &mut Laboratory) -> Result<Rc<Planned>, Failure> {
    if let Plans(Some(planned)) = lab.kept::<Plans>() {
        return Ok(planned.clone());
    }
    let planned = Rc::new(plan_all(listed(lab)?)?);
    *lab.kept::<Plans>() = Plans(Some(planned.clone()));
    Ok(planned)
}

/// Plans every mix under all three.
fn plan_all(mixes: &Mixes) -> Result<Planned, Failure> {
    let (target, similarity) = (mixes.target, mixes.similarity);
    let policies = [
        Policy::MaxPerf,
        Policy::MinFair { target },
        Policy::SimilarMinFair { similarity, target },
    ];
    let mut all = Vec::new();
    let mut chosen: Vec<usize> = (0..mixes.programs).collect();
    loop {
        let speedups: Vec<f64> = chosen.iter().map(|program| mixes.speedups[*program]).collect();
        let problem = Problem::two_types(mixes.cores[0], mixes.cores[1], &speedups);
        let mut metrics = Vec::new();
        for policy in &policies {
            metrics.push(Metrics::of(&plan(&problem, policy).map_err(Failure::input)?.relative));
        }
        all.push(Mix([metrics[0], metrics[1], metrics[2]]));
        if !next(&mut chosen, mixes.speedups.len()) {
            return Ok(Planned(all));
        }
    }
}

/// `number` of all mixes, evenly spread over them: the speedups of each.
pub fn choices(mixes: &Mixes, number: usize) -> Vec<Vec<f64>> {
    let chosen = chosen(mixes.programs, mixes.speedups.len(), number);
    let speedups = |mix: Vec<usize>| mix.into_iter().map(|at| mixes.speedups[at]).collect();
    chosen.into_iter().map(speedups).collect()
}

/// `number` of all choices of `size` things out of `of`, evenly spread over them.
pub fn chosen(size: usize, of: usize, number: usize) -> Vec<Vec<usize>> {
    let mut one: Vec<usize> = (0..size).collect();
    let mut all = vec![one.clone()];
    while next(&mut one, of) {
        all.push(one.clone());
    }
    let number = number.clamp(1, all.len());
    (0..number).map(|at| all[at * all.len() / number].clone()).collect()
}

/// The next choice of programs, in order; whether there is one.
fn next(chosen: &mut [usize], of: usize) -> bool {
    let size = chosen.len();
    let Some(place) = (0..size).rev().find(|place| chosen[*place] < of - (size - place)) else {
        return false;
    };
    chosen[place] += 1;
    for after in place + 1..size {
        chosen[after] = chosen[after - 1] + 1;
    }
    true
}

impl Planned {
    /// One value of all mixes.
    fn value(&self, what: OfMixes) -> f64 {
        let mean =
            |value: fn(&Mix) -> f64| self.0.iter().map(value).sum::<f64>() / self.0.len() as f64;
        let least = |value: fn(&Mix) -> f64| least(self.0.iter().map(value));
        let gain = |policy: usize| {
            self.0.iter().map(|mix| mix.0[policy].throughput - 1.0).sum::<f64>()
                / self.0.len() as f64
        };
        match what {
            OfMixes::Count => self.0.len() as f64,
            OfMixes::Gain => gain(0),
            OfMixes::Loss => mean(|mix| 1.0 - mix.0[0].min),
            OfMixes::LeastLoss => least(|mix| 1.0 - mix.0[0].min),
            OfMixes::KeptByMinFair => gain(1) / gain(0),
            OfMixes::KeptBySimilar => gain(2) / gain(0),
            OfMixes::WorstMinimum => least(|mix| rounded(mix.0[1].min.min(mix.0[2].min))),
            OfMixes::MoreUniform => mean(|mix| mix.0[2].uniformity / mix.0[1].uniformity - 1.0),
        }
    }

    /// Slide 34 again: how many mixes gain and lose how much under max-perf.
    pub fn histogram(&self, view: &View) -> Chart {
        let bins = |value: fn(&Mix) -> f64| -> Vec<(String, f64)> {
            let bin = |mix: &Mix| (value(mix) / BIN + ROUNDING).floor() as usize;
            let last = self.0.iter().map(bin).max().unwrap_or(0);
            let mut bins = vec![0.0; last + 1];
            self.0.iter().for_each(|mix| bins[bin(mix)] += 1.0);
            let named = bins.into_iter().enumerate();
            let name = |at: usize| {
                format!("{} – {}", percent(at as f64 * BIN), percent((at + 1) as f64 * BIN))
            };
            named.map(|(at, mixes)| (name(at), mixes)).filter(|(_, mixes)| *mixes > 0.0).collect()
        };
        let gains = bins(|mix| mix.0[0].throughput - 1.0);
        let losses = bins(|mix| 1.0 - mix.0[0].min);
        let rows = |what: &str, bins: &[(String, f64)]| -> Vec<Vec<String>> {
            bins.iter().map(|(bin, mixes)| vec![what.into(), bin.clone(), count(*mixes)]).collect()
        };
        let drawn = |what: &str, bins: &[(String, f64)]| {
            (what.to_string(), plot::bars(what, "mixes", bins))
        };
        Chart {
            title: view.title.clone(),
            note: view.note.clone(),
            headings: ["under max-perf", "by", "mixes"].map(String::from).to_vec(),
            rows: [rows("throughput gained", &gains), rows("minimum fairness lost", &losses)]
                .concat(),
            plots: vec![
                drawn("Throughput gained under max-perf", &gains),
                drawn("Minimum fairness lost under max-perf", &losses),
            ],
        }
    }
}

/// Rounds the last digits away.
fn rounded(value: f64) -> f64 {
    (value / ROUNDING).round() * ROUNDING
}

/// In how many of so many random problems a guarantee was broken.
fn broken(draws: usize) -> Result<f64, Failure> {
    let mut broken = 0.0;
    worst(draws, |problem, target, similarity| {
        let plans = [Policy::MinFair { target }, Policy::SimilarMinFair { similarity, target }];
        for policy in &plans {
            broken += f64::from(metrics(problem, policy)?.min < target - ROUNDING);
        }
        Ok(0.0)
    })?;
    Ok(broken)
}

fn metrics(problem: &Problem, policy: &Policy) -> Result<Metrics, Failure> {
    Ok(Metrics::of(&plan(problem, policy).map_err(Failure::input)?.relative))
}

/// The greatest value over random problems, with a target and a similarity each.
fn worst(
    draws: usize,
    mut value: impl FnMut(&Problem, f64, f64) -> Result<f64, Failure>,
) -> Result<f64, Failure> {
    let mut random = Pcg64::seed_from_u64(5);
    let mut worst: f64 = 0.0;
    for number in 0..draws {
        let cores = [1, 2].map(|least| random.random_range(least..=6_usize));
        let all = cores[0] + cores[1];
        let tasks = match number % 3 {
            0 => random.random_range(1..all),
            1 => all,
            _ => all + random.random_range(1..=8_usize),
        };
        let speedups: Vec<f64> = (0..tasks).map(|_| 1.0 + 2.5 * random.random::<f64>()).collect();
        let problem = Problem::two_types(cores[0] as f64, cores[1] as f64, &speedups);
        let own = value(&problem, random.random(), 2.0 * random.random::<f64>())?;
        worst = greatest([worst, own]);
    }
    Ok(worst)
}

/// The machine with its slow cores as two types has no closed form.
fn program_error(problem: &Problem, target: f64, _: f64) -> Result<f64, Failure> {
    let policy = Policy::MinFair { target };
    let cores = vec![problem.cores[0], 1.0, problem.cores[1] - 1.0];
    let task = |task: &Task| Task::new(vec![task.speeds[0], 1.0, 1.0]);
    let tasks = problem.tasks.iter().map(task).collect();
    let split = Problem { cores, tasks, base: Base::MaxFair };
    Ok((metrics(problem, &policy)?.throughput - metrics(&split, &policy)?.throughput).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_comes_once() {
        let mut chosen = vec![0, 1, 2];
        let mut all = vec![chosen.clone()];
        while next(&mut chosen, 5) {
            all.push(chosen.clone());
        }
        assert_eq!(all.len(), 10);
        assert_eq!(all.last(), Some(&vec![2, 3, 4]));
        all.dedup();
        assert_eq!(all.len(), 10);
    }
}
