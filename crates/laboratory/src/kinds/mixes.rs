// SPDX-License-Identifier: GPL-2.0-only
//! Mixes of programs on uneven cores, simulated with the policies themselves: slide 15 and slide 34 again, with
//! switches, migrations and rounds.

use std::collections::BTreeMap;
use std::rc::Rc;

use machine::{Machine, stalled_for};
use measuring::find_machine;
use policy::{Instance, Profile};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;
use sim::{Scenario, Scheduler};
use terminal::{Failure, Progress};
use uneven::{Metrics, Policy, Problem, plan};
use workload::{Step, Task, Workload};

use super::exact::{self, Mixes, choices};
use crate::extremes::{greatest, least};
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;

/// Length of each run; in the first tenth of a second nothing is planned yet.
const SECONDS: u64 = 20;
const SECOND_NS: u64 = 1_000_000_000;
/// Mixes that are simulated side by side between updates of the progress.
const AT_ONCE: usize = 64;

/// Mixes of the paper's programs, simulated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// The quantity.
    what: What,
    /// The policy for `--policy`. For a frontier: without `deviations`.
    policy: String,
    /// For a frontier: the points of `deviations`, and the mean relative error of the policy's given speedups. The
    /// error has a normal distribution that ends at the greatest.
    #[serde(default)]
    frontier: Option<Frontier>,
    /// Number of mixes, evenly spread over all; a tenth with `--quick`.
    mixes: usize,
}

impl Kind for Simulated {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (mixes, quick, progress) = (exact::listed(lab)?, lab.effort.quick, lab.progress);
        let value = lab.kept::<Simulator>().measure(mixes, self, quick, progress)?;
        Ok(vec![value].into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frontier {
    deviations: Vec<f64>,
    mean_error: f64,
    greatest_error: f64,
    /// Points that keep less of max-perf's ideal gain do not count.
    keep: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// The least minimum fairness of a mix.
    WorstMinimum,
    /// The least loss of minimum fairness of a mix.
    LeastLoss,
    /// Mean gain of throughput.
    Gain,
    /// Part of ideal max-perf's gain, mean of all mixes.
    Kept,
    /// How much more uniform it is than min-fair, mean of all mixes.
    MoreUniform,
    /// The best worst minimum of the points that keep enough.
    Frontier,
}

/// The source of speedups for a policy.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// It is given the true ones.
    Right,
    /// It is given wrong ones, with a mean relative error and the greatest.
    Wrong(f64, f64),
    /// None: it counts, from a cold start.
    Nothing,
}

/// One mix under one policy, against max-fair's run of it.
pub struct Run {
    /// Metrics of all its programs.
    pub metrics: Metrics,
    /// Relative performance of each program, in the order of their speedups.
    pub relative: Vec<f64>,
    /// Ideal gain of max-perf.
    ideal: f64,
}

/// Runs of mixes by policy, each made once.
#[derive(Default)]
pub struct Simulator {
    fair: BTreeMap<usize, Rc<Vec<Vec<f64>>>>,
    runs: BTreeMap<(String, usize, String), Rc<Vec<Run>>>,
}

impl Simulator {
    /// The value of the figure.
    fn measure(
        &mut self,
        mixes: &Mixes,
        wanted: &Simulated,
        quick: bool,
        progress: &Progress,
    ) -> Result<f64, Failure> {
        let number = if quick { wanted.mixes.div_ceil(10) } else { wanted.mixes };
        if let Some(frontier) = &wanted.frontier {
            return self.frontier(mixes, wanted, frontier, number, progress);
        }
        let policy = with(&wanted.policy, "deviations=0");
        let runs = self.runs(mixes, &policy, number, Told::Right, progress)?;
        let mean = |value: &dyn Fn(&Run) -> f64| {
            runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
        };
        let least = |value: fn(&Run) -> f64| least(runs.iter().map(value));
        Ok(match wanted.what {
            What::WorstMinimum | What::Frontier => least(|run| run.metrics.min),
            What::LeastLoss => least(|run| 1.0 - run.metrics.min),
            What::Gain => mean(&|run| run.metrics.throughput - 1.0),
            What::Kept => kept(&runs),
            What::MoreUniform => {
                let other =
                    self.runs(mixes, "min-fair:deviations=0", number, Told::Right, progress)?;
                let more = runs.iter().zip(other.iter());
                let more = more.map(|(run, min)| run.metrics.uniformity / min.metrics.uniformity);
                more.sum::<f64>() / runs.len().max(1) as f64 - 1.0
            }
        })
    }

    fn frontier(
        &mut self,
        mixes: &Mixes,
        wanted: &Simulated,
        frontier: &Frontier,
        number: usize,
        progress: &Progress,
    ) -> Result<f64, Failure> {
        let mut best: f64 = 0.0;
        for deviations in &frontier.deviations {
            let policy = with(&wanted.policy, &format!("deviations={deviations}"));
            let wrong = Told::Wrong(frontier.mean_error, frontier.greatest_error);
            let runs = self.runs(mixes, &policy, number, wrong, progress)?;
            let worst = least(runs.iter().map(|run| run.metrics.min));
            let kept = kept(&runs);
            progress.known(&format!("  {policy}: minimum {worst:.4}, keeps {kept:.4}"));
            if kept >= frontier.keep {
                best = greatest([best, worst]);
            }
        }
        Ok(best)
    }

    /// Runs each of `number` mixes under this policy, which gets speedups in this way.
    pub fn runs(
        &mut self,
        mixes: &Mixes,
        policy: &str,
        number: usize,
        told: Told,
        progress: &Progress,
    ) -> Result<Rc<Vec<Run>>, Failure> {
        let key = (policy.to_string(), number, format!("{told:?}"));
        if let Some(runs) = self.runs.get(&key) {
            return Ok(runs.clone());
        }
        let chosen = choices(mixes, number);
        let fair = match self.fair.get(&number) {
            Some(fair) => fair.clone(),
            None => Rc::new(simulate("max-fair", &chosen, &chosen, progress)?),
        };
        self.fair.insert(number, fair.clone());
        let mut random = Pcg64::seed_from_u64(27);
        let mut say = |speedup: &f64| match told {
            Told::Right => Some(*speedup),
            Told::Wrong(mean, most) => Some((speedup * wrong(&mut random, mean, most)).max(1.0)),
            Told::Nothing => None,
        };
        let told: Vec<Vec<f64>> =
            chosen.iter().map(|mix| mix.iter().filter_map(&mut say).collect()).collect();
        let done = simulate(policy, &chosen, &told, progress)?;
        let run = |((mix, done), fair): ((&Vec<f64>, &Vec<f64>), &Vec<f64>)| {
            let relative: Vec<f64> = done.iter().zip(fair).map(|(own, fair)| own / fair).collect();
            let problem = Problem::two_types(mixes.cores[0], mixes.cores[1], mix);
            let ideal = plan(&problem, &Policy::MaxPerf).map_err(Failure::input)?;
            let ideal = Metrics::of(&ideal.relative).throughput - 1.0;
            let min = least(relative.iter().copied());
            Ok(Run { metrics: Metrics { min, ..Metrics::of(&relative) }, relative, ideal })
        };
        let runs: Result<Vec<Run>, Failure> =
            chosen.iter().zip(&done).zip(fair.iter()).map(run).collect();
        let runs = Rc::new(runs?);
        self.runs.insert(key, runs.clone());
        Ok(runs)
    }
}

/// Part of max-perf's ideal gain.
pub fn kept(runs: &[Run]) -> f64 {
    let gain: f64 = runs.iter().map(|run| run.metrics.throughput - 1.0).sum();
    gain / runs.iter().map(|run| run.ideal).sum::<f64>()
}

/// A policy with one more knob set.
pub fn with(policy: &str, knob: &str) -> String {
    let sign = if policy.contains(':') { ',' } else { ':' };
    format!("{policy}{sign}{knob}")
}

/// A random factor near 1: normal, of this mean distance from 1 and at most the greatest.
fn wrong(random: &mut Pcg64, mean: f64, most: f64) -> f64 {
    // The mean distance of a normal distribution is its deviation times the root of 2/pi.
    let deviation = mean / (2.0 / std::f64::consts::PI).sqrt();
    loop {
        let (radius, angle): (f64, f64) = (random.random(), random.random());
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        if (normal * deviation).abs() <= most {
            return 1.0 + normal * deviation;
        }
    }
}

/// Work of each program of each mix, ns on a fast core. A mix without given speedups is counted.
fn simulate(
    policy: &str,
    mixes: &[Vec<f64>],
    told: &[Vec<f64>],
    progress: &Progress,
) -> Result<Vec<Vec<f64>>, Failure> {
    let machine = find_machine("phenom-2f4s")?;
    let instance = Instance::parse(policy, uneven::ALL).map_err(Failure::input)?;
    let mut done = Vec::new();
    for (mixes, told) in mixes.chunks(AT_ONCE).zip(told.chunks(AT_ONCE)) {
        progress.phase(&format!("{policy}, mix {}", done.len()));
        let scenarios: Result<Vec<Scenario>, Failure> = mixes
            .iter()
            .zip(told)
            .map(|(mix, told)| scenario(&machine, &instance, mix, told))
            .collect();
        for outcome in sim::run_all(&scenarios?) {
            let outcome = outcome.map_err(|error| Failure::run(format!("{policy}: {error}")))?;
            done.push(outcome.progress.values().copied().collect());
        }
    }
    Ok(done)
}

fn scenario(
    machine: &Machine,
    instance: &Instance,
    mix: &[f64],
    told: &[f64],
) -> Result<Scenario, Failure> {
    let slow = *machine.core_rates.last().unwrap_or(&1.0);
    let mut tasks = Vec::new();
    for (at, speedup) in mix.iter().enumerate() {
        let stalled = stalled_for(*speedup, slow).ok_or_else(|| {
            Failure::input(format!("{}: no task is {speedup} times as fast", machine.name))
        })?;
        let steps = vec![Step::Run { work_ns: 1000 * SECOND_NS }];
        tasks.push(Task { name: name(at), process: at, steps, stalled, ..Task::default() });
    }
    let workload = Workload {
        name: "mix".into(),
        tasks,
        duration_ns: Some(SECONDS * SECOND_NS),
        ..Workload::default()
    };
    let mut scenario =
        Scenario::new(machine.clone(), workload, Scheduler::Policy(instance.clone()));
    scenario.options.counters = told.is_empty();
    scenario.profile =
        told.iter().enumerate().map(|(at, s)| (name(at), vec![*s, 1.0])).collect::<Profile>();
    Ok(scenario)
}

fn name(at: usize) -> String {
    format!("program-{at}")
}
