// SPDX-License-Identifier: GPL-2.0-only
//! Searches the values of a policy's knobs that are best for a user's own objective, and confirms what it found.

use std::collections::{BTreeMap, BTreeSet};

use report::text::plural;
use serde::Serialize;
use terminal::Failure;

use crate::design::{Design, Setting, Space, Variant};
use crate::digest::Digest;
use crate::run::{Came, Run};
use crate::search::{Candidate, Defaults, LAST, Response, least, search};
use crate::statistics::Mean;
use crate::store::Store;

/// Seeds of the search and of what confirms it begin here, apart from those of sweeps.
const SEARCHED: u64 = 1_000_000;
const HELD_OUT: u64 = 2_000_000;
/// Seeds that confirm what was found: enough for a narrow range.
const CONFIRMED_BY: u64 = 10;
/// A smaller gain is worth no setting.
pub(crate) const GAIN_LEAST: f64 = 1.005;

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
    /// Why it has no gain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Seeds that it had.
    pub seeds: usize,
}

/// Runs of candidates, and what they gain over the defaults.
struct Asked<'t> {
    design: &'t Design,
    space: &'t Space,
    store: &'t mut Store,
    program: Digest,
    perform: &'t mut dyn Perform,
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
        (self.perform)(&left, self.store)
    }

    /// The logarithm of a policy's gain with a seed: the mean over settings. None: a run failed, or broke a limit.
    fn gain(&self, label: &str, seed: u64, settings: &[Setting]) -> Result<Option<f64>, Failure> {
        let mut gains = Vec::new();
        for setting in settings {
            match self.gain_in(label, seed, setting)? {
                Ok(gain) => gains.push(gain),
                Err(_) => return Ok(None),
            }
        }
        Ok(Mean::of(&gains).map(|mean| mean.mean))
    }

    /// The same in one setting, or why there is none.
    fn gain_in(
        &self,
        label: &str,
        seed: u64,
        setting: &Setting,
    ) -> Result<Result<f64, String>, Failure> {
        let (objective, base) = (&self.design.objective, &self.space.policy);
        let came = |label: &str| match self.store.get(self.run(label, seed, setting).0)? {
            Some(Came::Measured(run)) => Ok(Ok(run)),
            Some(Came::Failed(why)) => Ok(Err(why)),
            None => Ok(Err("it has not run".to_string())),
        };
        let own = match came(label)? {
            Ok(own) => own,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(broken) = objective.broken_by(&own) {
            return Ok(Err(broken));
        }
        let base_run = match came(base)? {
            Ok(run) => run,
            Err(why) => return Ok(Err(format!("{base}: {why}"))),
        };
        let ratio = objective.ratio(&own, &base_run);
        Ok(ratio.map(f64::ln).ok_or_else(|| format!("it has no figure for {objective}")))
    }

    /// Why a candidate failed in the search.
    fn why(&self, label: &str) -> Result<Option<String>, Failure> {
        for seed in SEARCHED..SEARCHED + LAST {
            for setting in &self.design.settings {
                let (key, _) = self.run(label, seed, setting);
                if self.asked.contains(&key)
                    && let Err(why) = self.gain_in(label, seed, setting)?
                {
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
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

impl Asked<'_> {
    fn tried(&self, candidate: &Candidate) -> Result<Tried, Failure> {
        let levels = self.space.levels(&candidate.place).into_iter().map(|level| level.text);
        let why = if candidate.failed { self.why(&candidate.name)? } else { None };
        Ok(Tried {
            label: candidate.name.clone(),
            knobs: self.space.knobs.iter().cloned().zip(levels).collect(),
            gain: Some(candidate.mean().exp()).filter(|_| !candidate.failed),
            why,
            seeds: candidate.gains.len(),
        })
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

/// Does runs, and keeps each result.
pub trait Perform: FnMut(&[(Digest, Run)], &mut Store) -> Result<(), Failure> {}

impl<F: FnMut(&[(Digest, Run)], &mut Store) -> Result<(), Failure>> Perform for F {}

/// Searches with at most so many simulations, which `perform` does, and confirms what it found.
///
/// # Errors
/// The user's input is bad, so few simulations tell nothing, or a result cannot be kept.
pub fn tune(
    design: &Design,
    store: &mut Store,
    program: Digest,
    most: usize,
    mut perform: impl Perform,
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
    let asked = BTreeSet::new();
    let mut asked = Asked { design, space, store, program, perform: &mut perform, asked };
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
        tried: all.iter().map(|it| asked.tried(it)).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Purpose;
    use crate::perform::perform;
    use crate::run::Stages;

    fn tuned(text: &str) -> Tuned {
        let folder = tempfile::tempdir().unwrap();
        let design = Design::parse("it.toml", text, folder.path(), Purpose::Tune).unwrap();
        let mut store = Store::open(&folder.path().join("it.results")).unwrap();
        let program = Digest::of(b"it");
        let mut search = |threads: usize| {
            let (mut done, stages) = (0, Stages::default());
            let tuned = tune(&design, &mut store, program, 200, |left, store| {
                perform(left, (&design.inputs, &stages), store, threads, || {
                    done += 1;
                    Ok(())
                })
            });
            (done, tuned.unwrap())
        };
        let (_, first) = search(2);
        // Again, all is known, and the same.
        let (done, again) = search(1);
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

    /// One node has no pages to move, one task has no turns, and scalar code lowers no frequency.
    #[test]
    fn knobs_that_do_nothing_gain_nothing() {
        for (policy, workload, knobs) in [
            ("dino", "agree-1", "copies = { from = 1, to = 1000 }"),
            ("flsched", "pulses-1", "slice = { from = '20ms', to = '100ms' }"),
            ("avx-fair", "agree-1", "detect = ['told', 'saved']"),
        ] {
            let found = tuned(&format!(
                "policy = '{policy}'\nmachine = 'plain-2'\nworkload = '{workload}'\n[knobs.{policy}]\n{knobs}"
            ));
            assert_eq!(found.best, None, "{found:?}");
            assert!(found.tried.len() > 1, "{found:?}");
        }
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
        let reasons: Vec<&String> = found.tried.iter().filter_map(|it| it.why.as_ref()).collect();
        assert_eq!(reasons.len(), found.tried.len() - kept);
        assert!(reasons.iter().all(|why| why.starts_with("it breaks p99:pulse <= 60ms: ")));
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
        let few = tune(&design, &mut store, Digest::of(b"it"), 50, |_, _| Ok(()));
        let said = few.unwrap_err().to_string();
        assert!(said.contains("1 knob in 6 settings needs"), "{said}");
    }
}
