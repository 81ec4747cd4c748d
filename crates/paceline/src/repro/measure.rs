// SPDX-License-Identifier: GPL-2.0-only
//! Takes each figure from the runs it needs, and runs what has not run yet.

use std::collections::BTreeMap;
use std::rc::Rc;

use report::stats::{median, quantile};
use trace::Outcome;

use super::experiment;
use super::outcomes::{ratios, values};
use super::paper::{Experiment, Figure, Job, Measure, Paper, Quantity};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::progress::Progress;

/// What a figure came to.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    /// One value for each boot, seed or point of a sweep; none where nothing could be measured.
    pub values: Vec<f64>,
    /// Where it was measured.
    pub ground: &'static str,
    /// What the seconds are there.
    pub clock: Option<report::Clock>,
    /// What a reader must know, or why nothing could be measured.
    pub why: Option<String>,
}

impl Ours {
    /// The figure to print: the median.
    pub fn middle(&self) -> Option<f64> {
        median(&self.values)
    }

    /// Least and greatest.
    pub fn range(&self) -> Option<(f64, f64)> {
        Some((quantile(&self.values, 0.0)?, quantile(&self.values, 1.0)?))
    }
}

/// How thorough to be.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Fewer boots, seeds and sizes.
    pub quick: bool,
    /// The guest's kernel, where the user names one.
    pub kernel: Option<std::path::PathBuf>,
}

/// Experiments by name, and their outcomes once they have run. A failed one is not tried again.
pub struct Laboratory<'a> {
    paper: &'a Paper,
    effort: Effort,
    progress: &'a Progress,
    done: BTreeMap<String, Result<Rc<Vec<Outcome>>, String>>,
}

impl<'a> Laboratory<'a> {
    /// Without any run yet.
    pub fn new(paper: &'a Paper, effort: Effort, progress: &'a Progress) -> Self {
        Laboratory { paper, effort, progress, done: BTreeMap::new() }
    }

    /// Measures a figure. A ground that fails is said in `why`.
    pub fn measure(&mut self, figure: &Figure) -> Result<Ours, Failure> {
        let Some(measure) = &figure.measure else {
            return Ok(Ours { ground: "none", why: figure.why.clone(), ..Ours::default() });
        };
        let (name, experiment) = self.experiment(measure.experiment())?;
        let mut ours = Ours {
            ground: experiment.ground.name(),
            clock: Some(experiment::clock(experiment)),
            why: figure.why.clone(),
            ..Ours::default()
        };
        match self.take(measure) {
            Ok(values) if values.is_empty() => {
                ours.why = Some(format!("the ground did not measure it in {name}"));
            }
            Ok(values) => ours.values = values,
            Err(failure) => ours.why = Some(failure.to_string()),
        }
        Ok(ours)
    }

    fn take(&mut self, measure: &Measure) -> Result<Vec<f64>, Failure> {
        match measure {
            Measure::Ratio { experiment, quantity, over, under } => {
                Ok(ratios(&self.outcomes(experiment)?, over, under, *quantity))
            }
            Measure::Value { experiment, quantity, of } => {
                Ok(bare(values(&self.outcomes(experiment)?, of, *quantity)))
            }
            Measure::Makespan { experiment, of } => {
                let ideal_s = self.ideal_s(experiment)?;
                let elapsed = values(&self.outcomes(experiment)?, of, Quantity::Elapsed);
                Ok(elapsed.into_iter().map(|(_, elapsed_s)| elapsed_s / ideal_s).collect())
            }
            Measure::WaitBound { experiment, of, ahead, tick_ms } => {
                let bound_s = *ahead as f64 * slice_s(of)? + tick_ms / 1e3;
                let waits = values(&self.outcomes(experiment)?, of, Quantity::WorstWait);
                Ok(waits.into_iter().map(|(_, wait_s)| wait_s / bound_s).collect())
            }
            Measure::Wakeup { pair, floor, of, over } => {
                let own = self.wakeup_ns(pair, floor, of)?;
                match over {
                    None => Ok(bare(own)),
                    Some(over) => {
                        let other = self.wakeup_ns(pair, floor, over)?;
                        Ok(report::stats::paired_ratios(&own, &other))
                    }
                }
            }
        }
    }

    /// Work of one wakeup in ns of guest time, which under icount are instructions.
    fn wakeup_ns(
        &mut self,
        pair: &str,
        floor: &str,
        of: &str,
    ) -> Result<super::outcomes::ByRun, Failure> {
        let Job::PingPong { rounds } = self.experiment(pair)?.1.job else {
            return Err(Failure::input(format!("experiment {pair} is no ping-pong")));
        };
        let wakeups = 2.0 * rounds as f64;
        let pair = values(&self.outcomes(pair)?, of, Quantity::Elapsed);
        let floor = bare(values(&self.outcomes(floor)?, of, Quantity::Elapsed));
        let Some(floor_s) = median(&floor) else { return Ok(Vec::new()) };
        let own = pair.into_iter().map(|(run, pair_s)| (run, (pair_s - floor_s) * 1e9 / wakeups));
        Ok(own.collect())
    }

    fn ideal_s(&self, name: &str) -> Result<f64, Failure> {
        let (_, experiment) = self.experiment(name)?;
        match experiment.job {
            Job::Burners { tasks, work_ms } => {
                let cpus = experiment.cpus.unwrap_or(1) as f64;
                Ok(tasks as f64 / cpus * work_ms as f64 / 1e3)
            }
            _ => Err(Failure::input(format!("experiment {name} has no burners"))),
        }
    }

    fn experiment(&self, name: &str) -> Result<(&'a str, &'a Experiment), Failure> {
        let found = self.paper.experiment.get_key_value(name);
        found.map(|(name, experiment)| (name.as_str(), experiment)).ok_or_else(|| {
            Failure::input(format!(
                "papers/{}.toml: no experiment is called {name}",
                self.paper.name
            ))
        })
    }

    fn outcomes(&mut self, name: &str) -> Result<Rc<Vec<Outcome>>, Failure> {
        if let Some(done) = self.done.get(name) {
            return done.clone().map_err(Failure::Run);
        }
        let (_, experiment) = self.experiment(name)?;
        self.progress.phase(&format!("experiment {name}"));
        let result = match experiment::run(experiment, &self.effort, self.progress) {
            Ok(outcomes) => Ok(Rc::new(outcomes)),
            Err(failure) => Err(failure.to_string()),
        };
        self.done.insert(name.to_string(), result.clone());
        result.map_err(Failure::Run)
    }
}

impl Measure {
    /// The experiment that says where it is measured.
    fn experiment(&self) -> &str {
        match self {
            Measure::Ratio { experiment, .. }
            | Measure::Value { experiment, .. }
            | Measure::Makespan { experiment, .. }
            | Measure::WaitBound { experiment, .. }
            | Measure::Wakeup { pair: experiment, .. } => experiment,
        }
    }
}

fn bare(values: super::outcomes::ByRun) -> Vec<f64> {
    values.into_iter().map(|(_, value)| value).collect()
}

/// The slice of a policy, as its label has it or by default.
fn slice_s(label: &str) -> Result<f64, Failure> {
    match Contender::parse(label)? {
        Contender::Policy(instance) => {
            let slice_ns = instance.promises().slice_ns_max;
            slice_ns.map(|ns| ns as f64 / 1e9).ok_or_else(|| {
                Failure::input(format!("{label} promises no slice, so no wait is bounded"))
            })
        }
        Contender::Class(class) => Err(Failure::input(format!("{} has no slice", class.name))),
    }
}
