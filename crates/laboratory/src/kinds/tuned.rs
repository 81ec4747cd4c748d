// SPDX-License-Identifier: GPL-2.0-only
//! What a search for the best knobs finds for recorded runs, and what that does to the same job in the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::rc::Rc;
use std::thread::available_parallelism;

use ::sweep::{Design, Digest, Mean, Objective, Space, Stages, Store, paired};
use comparison::Contender;
use report::stats::median;
use serde::Deserialize;
use terminal::Failure;
use trace::Outcome;

use crate::experiment;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::{Effort, Laboratory};

/// Simulations of a search.
const BUDGET: usize = 200;
/// The longest simulation, on its own clock.
const LIMIT_NS: u64 = 600_000_000_000;

/// One value for each recorded run: the knobs that are found for it, against the defaults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// Name of an experiment in a guest that records.
    experiment: String,
    /// The guest as a machine.
    machine: String,
    /// The policy of the recorded runs.
    from: String,
    /// The policy whose knobs are searched.
    of: String,
    /// Knobs, as `tune --knob` takes them.
    knobs: Vec<String>,
    /// What the run is judged by, as `tune --objective` takes it.
    objective: String,
    /// The value.
    value: TunedValue,
}

/// The value that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TunedValue {
    /// How many times as good as the defaults it is in the guest.
    Gain,
    /// How far that is from what the search has predicted, as a part of it; 0: within the range that it told.
    Distance,
}

impl Kind for Tuned {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let found = self.found(lab).map_err(Failure::Run)?;
        let value = |one: &Found| match self.value {
            TunedValue::Gain => one.guest,
            TunedValue::Distance => distance(one),
        };
        let (values, missing) = (found.iter().flatten().map(value).collect(), found.iter());
        let missing = missing.filter_map(|one| one.as_ref().err().cloned()).collect();
        Ok(Sample { values, missing, ..Sample::default() })
    }

    fn policies(&self) -> Option<Vec<&str>> {
        Some(vec![&self.from])
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.experiment(&self.experiment)?;
        Ok(Setting::without_clock("sim and vm"))
    }
}

/// What was found for a recorded run.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Its gain over the defaults in the simulator, and in the guest.
    sim: Mean,
    guest: f64,
}

/// 0 if the guest's gain is within the range of the simulator's.
fn distance(Found { sim, guest }: &Found) -> f64 {
    let within = sim.low.zip(sim.high).is_some_and(|(low, high)| (low..=high).contains(guest));
    if within { 0.0 } else { (guest / sim.mean - 1.0).abs() }
}

/// Found for each recorded run, or why nothing was; or why no run could be confirmed.
type All = Result<Rc<Vec<Result<Found, String>>>, String>;

/// Searches that have been made and confirmed, by all but the value that is taken.
#[derive(Default)]
struct Searches(BTreeMap<String, All>);

impl Tuned {
    fn found(&self, lab: &mut Laboratory) -> All {
        let Tuned { experiment, machine, from, of, knobs, objective, .. } = self;
        let key = format!("{:?}", (experiment, machine, from, of, knobs, objective));
        if let Some(known) = lab.kept::<Searches>().0.get(&key) {
            return known.clone();
        }
        let all = self.searched(lab).map(Rc::new).map_err(|failure| failure.to_string());
        lab.kept::<Searches>().0.insert(key, all.clone());
        all
    }

    fn searched(&self, lab: &mut Laboratory) -> Result<Vec<Result<Found, String>>, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        let objective: Objective = self.objective.parse().map_err(Failure::input)?;
        let recorded = outcomes.iter().filter(|run| run.policy == self.from);
        let mut best = Vec::new();
        for run in recorded {
            lab.progress.phase(&format!("tuning {} for boot {}", self.of, run.boot));
            best.push(match self.tuned(run, objective.clone()) {
                Ok(Some(found)) => Ok(found),
                Ok(None) => Err(format!("boot {}: the search found nothing to gain", run.boot)),
                Err(failure) => Err(format!("boot {}: {failure}", run.boot)),
            });
        }
        let labels: BTreeSet<&str> =
            best.iter().flatten().map(|(label, _)| label.as_str()).collect();
        let confirmed = self.confirmed(lab, &labels)?;
        let found = best.into_iter().map(|best| match best {
            Err(why) => Err(why),
            Ok((label, sim)) => match gain(&confirmed, &label, &self.of, &objective) {
                Some(guest) => Ok(Found { sim, guest }),
                None => Err(format!("{label}: the guest did not measure {objective}")),
            },
        });
        Ok(found.collect())
    }

    /// The experiment again, under the defaults and what was found.
    fn confirmed(
        &self,
        lab: &mut Laboratory,
        found: &BTreeSet<&str>,
    ) -> Result<Vec<Outcome>, Failure> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<&str> = found.iter().copied().collect();
        let found = found.join(",");
        lab.progress.phase(&format!("confirming {found}"));
        let mut experiment = lab.experiment(&self.experiment)?.clone();
        experiment.policies = format!("{},{found}", self.of);
        experiment.record = None;
        let effort = Effort { policies: None, ..lab.effort.clone() };
        Ok(experiment::run(&experiment, &effort, lab.progress)?.0)
    }

    /// The best knobs for a recorded run, and their gain in the simulator. None: nothing is better than the defaults.
    fn tuned(
        &self,
        run: &Outcome,
        objective: Objective,
    ) -> Result<Option<(String, Mean)>, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::run)?;
        let (recording, results) = (folder.path().join("recording"), folder.path().join("results"));
        std::fs::write(&recording, run.recording.as_slice()).map_err(Failure::run)?;
        let space = Space::of_words(&Contender::parse(&self.of)?, &self.knobs)?;
        let (path, machine) = (recording.display().to_string(), &self.machine);
        let design = Design::of_one("recording", &path, machine, space, objective, LIMIT_NS)?;
        let (on, mut store) = ((&design.inputs, &Stages::default()), Store::open(&results)?);
        let threads = available_parallelism().map_or(1, NonZero::get);
        let program = Digest::of(b"this program, whose results are not kept");
        let tuned = ::sweep::tune(&design, &mut store, program, BUDGET, |left, store| {
            ::sweep::perform(left, on, store, threads, || Ok(()))
        })?;
        Ok(tuned.best.zip(tuned.gain))
    }
}

/// How many times as good a policy is as another in the same boots: the median.
fn gain(outcomes: &[Outcome], own: &str, base: &str, objective: &Objective) -> Option<f64> {
    let gains = paired(outcomes, own, base).filter_map(|(own, base)| objective.ratio(&own, &base));
    median(&gains.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_within_the_range_is_as_predicted() {
        let found = |guest| {
            let sim = Mean { mean: 1.5, low: Some(1.4), high: Some(1.6) };
            distance(&Found { sim, guest })
        };
        assert_eq!((found(1.4), found(1.6)), (0.0, 0.0));
        assert!((found(1.2) - 0.2).abs() < 1e-12 && (found(1.8) - 0.2).abs() < 1e-12);
    }
}
