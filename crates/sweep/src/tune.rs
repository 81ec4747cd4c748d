// SPDX-License-Identifier: GPL-2.0-only
//! Searches the values of a policy's knobs that are best for a user's own objective, and confirms what it found.

use std::collections::{BTreeMap, BTreeSet};

use report::text::plural;
use serde::Serialize;
use terminal::Failure;

use crate::design::{Design, Setting, Space, Variant};
use crate::digest::Digest;
use crate::perform::perform;
use crate::run::{Came, Run, Stages};
use crate::search::{Candidate, Defaults, LAST, Response, least, search};
use crate::statistics::Mean;
use crate::store::Store;

/// Seeds of the search and of what confirms it begin here, apart from those of sweeps.
const SEARCHED: u64 = 1_000_000;
const HELD_OUT: u64 = 2_000_000;
/// Seeds that confirm what was found: enough for a narrow range.
const CONFIRMED_BY: u64 = 10;
/// A smaller gain is worth no setting.
const GAIN_LEAST: f64 = 1.005;

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Title of the sweep, or the workload.
    pub title: String,
    /// The policy with its defaults.
    pub policy: String,
    /// What runs are judged by.
    pub objective: String,
    /// Settings that it was searched in.
    pub settings: usize,
    /// Simulations that the search took.
    pub searched_by: usize,
    /// All candidates, the best first.
    pub tried: Vec<Tried>,
    /// How the search ended.
    pub answer: Answer,
    /// What was found. None: the defaults stay.
    pub best: Option<String>,
    /// Whether the defaults have a result that keeps the objective's limits, with every seed.
    pub defaults_keep_limits: bool,
    /// What the best candidate gains over the defaults with seeds that the search has not seen. None: the defaults are
    /// the best candidate, or no candidate has a result.
    pub gain: Option<Mean>,
    /// The same with workloads that the search has not seen; None: none was held out.
    pub gain_elsewhere: Option<Mean>,
    /// 99th percentile of waits under it, times that under the defaults.
    pub wait_p99: Option<f64>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A candidate is better than the defaults.
    Found,
    /// No candidate gains more than the defaults in the search.
    NoneBetter,
    /// The gain of the best candidate may be chance.
    ByChance,
    /// The best candidate fails, or breaks a limit, with seeds that the search has not seen.
    NotWithOtherSeeds,
    /// The best candidate has no gain with workloads that were held out.
    NotElsewhere,
    /// Neither the defaults nor a candidate have a result that keeps the limits.
    NoResult,
}

/// A candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The policy with its knobs.
    pub label: String,
    /// The value of each knob; empty: the defaults.
    pub knobs: BTreeMap<String, String>,
    /// Its mean gain in the search. None: a run of it failed or broke a limit.
    pub gain: Option<f64>,
    /// Seeds that it had.
    pub seeds: usize,
}

/// Runs of candidates, and what they gain over the defaults.
struct Asked<'t> {
    design: &'t Design,
    space: &'t Space,
    store: &'t mut Store,
    program: Digest,
    threads: usize,
    stages: Stages,
    step: &'t mut dyn FnMut() -> Result<(), Failure>,
    /// Different simulations that were asked for.
    asked: BTreeSet<Digest>,
}

impl Asked<'_> {
    /// A policy's result with a seed, in a setting.
    fn run(&self, label: &str, seed: u64, setting: &Setting) -> (Digest, Run) {
        let variant = Variant { policy: 0, label: label.to_string(), levels: Vec::new() };
        let run = self.design.run(setting, &variant, seed);
        (run.key(self.program), run)
    }

    /// Runs the simulations that have no result yet, those of a setting one after the other.
    fn run_missing(
        &mut self,
        wanted: &[(String, u64)],
        settings: &[Setting],
    ) -> Result<(), Failure> {
        let mut left: Vec<(Digest, Run)> = Vec::new();
        for setting in settings {
            for (label, seed) in wanted {
                for one in [self.space.policy.as_str(), label] {
                    let (key, run) = self.run(one, *seed, setting);
                    let is_new = self.asked.insert(key);
                    if is_new && !self.store.has(key) {
                        left.push((key, run));
                    }
                }
            }
        }
        let on = (&self.design.inputs, &self.stages);
        perform(&left, on, self.store, self.threads, &mut *self.step)
    }

    /// The logarithm of a policy's gain with a seed: the mean over settings. None: a run failed, or broke a limit.
    fn gain(&self, label: &str, seed: u64, settings: &[Setting]) -> Result<Option<f64>, Failure> {
        let objective = &self.design.objective;
        let mut gains = Vec::new();
        for setting in settings {
            let came = |label: &str| self.store.get(self.run(label, seed, setting).0);
            let (own, base) = (came(label)?, came(&self.space.policy)?);
            let (Some(Came::Measured(own)), Some(Came::Measured(base))) = (own, base) else {
                return Ok(None);
            };
            match objective.ratio(&own, &base).filter(|_| objective.holds(&own)) {
                Some(ratio) => gains.push(ratio.ln()),
                None => return Ok(None),
            }
        }
        Ok(Mean::of(&gains).map(|mean| mean.mean))
    }

    /// The mean gain of a policy with seeds that the search has not seen, and how many times as long its waits are.
    fn confirm(
        &mut self,
        label: &str,
        settings: &[Setting],
    ) -> Result<(Option<Mean>, Option<f64>), Failure> {
        let seeds = HELD_OUT..HELD_OUT + CONFIRMED_BY;
        let wanted: Vec<(String, u64)> = seeds.map(|seed| (label.to_string(), seed)).collect();
        self.run_missing(&wanted, settings)?;
        let (mut gains, mut waits) = (Vec::new(), Vec::new());
        for (_, seed) in &wanted {
            gains.extend(self.gain(label, *seed, settings)?);
            for setting in settings {
                let came = |label: &str| self.store.get(self.run(label, *seed, setting).0);
                let both = (came(label)?, came(&self.space.policy)?);
                if let (Some(Came::Measured(own)), Some(Came::Measured(base))) = both {
                    waits.push(own.wait.longer_than(base.wait).ln());
                }
            }
        }
        // With runs that failed, the rest would be a choice.
        let gain = if gains.len() == wanted.len() { Mean::of(&gains) } else { None };
        Ok((gain.map(Mean::exp), Mean::of(&waits).map(|mean| mean.mean.exp())))
    }
}

impl Response for Asked<'_> {
    type Error = Failure;

    fn name(&self, place: &[f64]) -> String {
        self.space.label(&self.space.levels(place))
    }

    fn gains(&mut self, wanted: &[(String, u64)]) -> Result<Vec<Option<f64>>, Failure> {
        let wanted: Vec<(String, u64)> =
            wanted.iter().map(|(label, seed)| (label.clone(), SEARCHED + seed)).collect();
        let settings = &self.design.settings;
        self.run_missing(&wanted, settings)?;
        wanted.iter().map(|(label, seed)| self.gain(label, *seed, settings)).collect()
    }
}

/// Searches with at most so many simulations, and confirms what it found. `step` is called after each simulation.
///
/// # Errors
/// The user's input is bad, so few simulations tell nothing, or a result cannot be kept.
pub fn tune(
    design: &Design,
    store: &mut Store,
    program: Digest,
    threads: usize,
    most: usize,
    mut step: impl FnMut() -> Result<(), Failure>,
) -> Result<Tuned, Failure> {
    let space = design.space.as_ref().expect("it was read for this");
    let (axes, settings) = (space.axes(), design.settings.len());
    // The defaults have a run for each seed, too.
    let needed = (least(axes.len()) + LAST as usize) * settings;
    if most < needed {
        return Err(Failure::input(format!(
            "--budget {most}: a search of {} in {} needs {needed} simulations",
            plural(axes.len(), "knob"),
            plural(settings, "setting")
        )));
    }
    let mut asked = Asked {
        design,
        space,
        store,
        program,
        threads,
        stages: Stages::default(),
        step: &mut step,
        asked: BTreeSet::new(),
    };
    let defaults = space.policy.clone();
    let first: Vec<(String, u64)> =
        (SEARCHED..SEARCHED + LAST).map(|seed| (defaults.clone(), seed)).collect();
    asked.run_missing(&first, &design.settings)?;
    let mut keep = true;
    for (_, seed) in &first {
        keep &= asked.gain(&defaults, *seed, &design.settings)?.is_some();
    }
    let at = space.defaults();
    let from = Defaults { name: &defaults, at: &at, keep };
    let all = search(&mut asked, &axes, from, most / settings - LAST as usize)?;
    let searched_by = asked.asked.len();
    let best = all.first().filter(|it| !it.failed && it.name != defaults);
    let (mut gain, mut wait_p99, mut gain_elsewhere) = (None, None, None);
    if let Some(best) = best {
        (gain, wait_p99) = asked.confirm(&best.name, &design.settings)?;
        if !design.held_out.is_empty() {
            (gain_elsewhere, _) = asked.confirm(&best.name, &design.held_out)?;
        }
    }
    // What keeps limits that the defaults break is worth a loss.
    let gains = |of: Option<Mean>, least: f64| of.is_some_and(|of| !keep || of.mean >= least);
    let answer = match best {
        None if all.iter().all(|it| it.failed) => Answer::NoResult,
        None => Answer::NoneBetter,
        Some(_) if gain.is_none() => Answer::NotWithOtherSeeds,
        Some(_) if keep && !gain.is_some_and(|gain| gain.is_above(GAIN_LEAST)) => Answer::ByChance,
        Some(_) if !design.held_out.is_empty() && !gains(gain_elsewhere, 1.0) => {
            Answer::NotElsewhere
        }
        Some(_) => Answer::Found,
    };
    Ok(Tuned {
        title: design.title.clone(),
        policy: defaults,
        objective: design.objective.to_string(),
        settings,
        searched_by,
        answer,
        best: best.filter(|_| answer == Answer::Found).map(|it| it.name.clone()),
        defaults_keep_limits: keep,
        gain,
        gain_elsewhere,
        wait_p99,
        tried: all.iter().map(|it| tried(it, space)).collect(),
    })
}

fn tried(candidate: &Candidate, space: &Space) -> Tried {
    let levels = space.levels(&candidate.place);
    let knobs = space.knobs.iter().cloned().zip(levels.into_iter().map(|level| level.text));
    Tried {
        label: candidate.name.clone(),
        knobs: knobs.collect(),
        gain: Some(candidate.mean().exp()).filter(|_| !candidate.failed),
        seeds: candidate.gains.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Purpose;

    fn tuned(text: &str) -> Tuned {
        let folder = tempfile::tempdir().unwrap();
        let design = Design::parse("it.toml", text, folder.path(), Purpose::Tune).unwrap();
        let mut store = Store::open(&folder.path().join("it.results")).unwrap();
        let program = Digest::of(b"it");
        let first = tune(&design, &mut store, program, 2, 200, || Ok(())).unwrap();
        // Again, all is known, and the same.
        let mut done = 0;
        let again = tune(&design, &mut store, program, 1, 200, || {
            done += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((done, again.best), (0, first.best.clone()));
        first
    }

    /// Short turns are what short tasks beside hogs need, and flsched's are long.
    #[test]
    fn a_slice_for_short_waits_is_found() {
        let found = tuned(
            "policy = 'flsched'\nmachine = 'plain-2'\nworkload = 'pulses-8'\nobjective = 'p99:pulse'\n\
             [knobs.flsched]\nslice = { from = '1ms', to = '100ms', scale = 'log' }",
        );
        let slice = found.tried[0].knobs["slice"].split("ms").next().unwrap().parse::<f64>();
        assert!(found.best.is_some() && slice.is_ok_and(|ms| ms < 8.0), "{found:?}");
        assert!(
            found.gain.unwrap().low.unwrap() > 1.5 && found.wait_p99.unwrap() < 1.0,
            "{found:?}"
        );
    }

    /// The copies of pages are what moves cost, and there is one node.
    #[test]
    fn a_knob_that_does_nothing_gains_nothing() {
        let found = tuned(
            "policy = 'dino'\nmachine = 'plain-2'\nworkload = 'agree-1'\n\
             [knobs.dino]\ncopies = { from = 1, to = 1000 }",
        );
        assert_eq!(found.best, None, "{found:?}");
        assert!(found.tried.len() > 5);
    }

    #[test]
    fn a_limit_goes_before_the_objective() {
        let found = tuned(
            "policy = 'flsched:slice=50ms'\nmachine = 'plain-2'\nworkload = 'pulses-8'\n\
             objective = 'switches s.t. p99:pulse <= 20ms'\n[knobs.flsched]\ndefer = ['1ms', '50ms']",
        );
        assert!(
            !found.defaults_keep_limits && found.best.is_none(),
            "no candidate keeps it: {found:?}"
        );
        let found = tuned(
            "policy = 'flsched'\nmachine = 'plain-2'\nworkload = 'pulses-8'\n\
             objective = 'switches s.t. p99:pulse <= 60ms'\n[knobs.flsched]\n\
             slice = ['2ms', '5ms', '10ms', '30ms', '90ms']",
        );
        let kept = found.tried.iter().filter(|it| it.gain.is_some()).count();
        assert!((1..5).contains(&kept), "some break the limit: {found:?}");
    }

    #[test]
    fn workloads_that_are_held_out_confirm_it() {
        let found = tuned(
            "policy = 'flsched'\nmachine = 'plain-2'\nworkload = 'pulses-8'\nobjective = 'p99:pulse'\n\
             held_out = ['pulses-1', 'pulses-16']\n[knobs.flsched]\nslice = ['2ms', '10ms', '40ms']",
        );
        assert!(found.gain_elsewhere.unwrap().mean > 1.0, "{found:?}");
    }

    #[test]
    fn a_search_of_many_settings_ends_with_an_answer_or_says_what_it_needs() {
        let text = "policy = 'flsched'\nmachine = ['plain-2', 'plain-4', 'numa-2x4']\n\
                    workload = ['pulses-8', 'pulses-16']\nobjective = 'p99:pulse'\n\
                    [knobs.flsched]\nslice = { from = '1ms', to = '100ms', scale = 'log' }";
        let found = tuned(text);
        assert_eq!(found.answer, Answer::Found, "{found:?}");
        assert!(found.searched_by <= 200 && found.tried.iter().all(|it| it.seeds > 0), "{found:?}");
        let design = Design::parse("it.toml", text, "".as_ref(), Purpose::Tune).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("it.results")).unwrap();
        let few = tune(&design, &mut store, Digest::of(b"it"), 1, 50, || Ok(()));
        let said = few.unwrap_err().to_string();
        assert!(said.contains("1 knob in 6 settings needs"), "{said}");
    }
}
