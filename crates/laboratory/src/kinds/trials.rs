// SPDX-License-Identifier: GPL-2.0-only
//! Mixes of programs on a machine of uneven cores, simulated under one policy after the other. They are compared with a
//! fair run of the same mix, and with the policy's plan without costs.

use std::collections::BTreeMap;
use std::rc::Rc;

use comparison::Contender;
use machine::{Kinds, Machine};
use measuring::find_machine;
use policy::table::TYPES_MAX;
use policy::{Instance, Profile};
use report::plot;
use report::stats::median;
use report::text::percent;
use serde::Deserialize;
use sim::{Scenario, Traced};
use terminal::{Failure, Progress};
use trace::Outcome;
use uneven::{Metrics, Problem, plan};
use workload::programs::{Features, Programs};
use workload::{Step, Task, Workload};

use super::exact;
use crate::extremes::{greatest, least};
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::views::{Chart, View};

const SECOND_NS: u64 = 1_000_000_000;
/// A program of a mix that has not ended once by this time gives no measurement: one of the greatest speedup takes 35 s
/// on a slow core.
const FIRST_RUNS_S: u64 = 80;
/// The run that others are compared with.
const FAIR: &str = "max-fair";
/// Mixes, and how they are run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    #[serde(default = "phenom")]
    machine: String,
    /// Every core is as fast as the fastest, but kinds stay distinct.
    #[serde(default)]
    level: bool,
    /// Mixes by name, for `--workload`.
    #[serde(default)]
    mixes: Vec<String>,
    /// Number of further mixes of 6 of all programs, evenly spread over all such mixes; a tenth with `--quick`.
    #[serde(default)]
    spread: usize,
    /// Length of each run.
    #[serde(default = "window_s")]
    seconds: u64,
    /// The talk's method instead (slide 12): every program restarts when it ends, until all have ended once, and counts
    /// by the time of its first run.
    #[serde(default)]
    first_runs: bool,
    /// Programs are short: each run is this much work, s on a fast core, and the next run is a new process of the same
    /// executable (slide 27).
    #[serde(default)]
    run_s: Option<f64>,
    /// Features of the programs that are modelled beside their speedups.
    #[serde(default)]
    modelled: Vec<Modelled>,
    /// Costs of the machine that differ from its file.
    #[serde(default)]
    costs: BTreeMap<String, f64>,
    #[serde(default)]
    speeds: Speeds,
    /// Standard deviation of the counters' error.
    #[serde(default)]
    noise: f64,
    /// Runs of each mix, with as many seeds; one with `--quick`.
    #[serde(default = "one")]
    seeds: usize,
}

fn phenom() -> String {
    "phenom-2f4s".into()
}

fn window_s() -> u64 {
    20
}

fn one() -> usize {
    1
}

/// See [`Features`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Modelled {
    Phases,
    Pressure,
}

/// A policy's source of speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Speeds {
    /// They are given, and nothing is counted.
    #[default]
    Told,
    /// It counts, from a cold start.
    Counted,
    /// It counts, and a profile gives its first values.
    Profiled,
    /// None.
    Unknown,
}

/// The trial of the paper with this name.
pub fn named<'a>(name: &str, lab: &Laboratory<'a>) -> Result<&'a Trial, Failure> {
    lab.paper.trial.get(name).ok_or_else(|| lab.unknown("trial", name))
}

/// A value of simulated mixes under a policy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Name of the trial.
    trial: String,
    /// The policy.
    policy: String,
    /// The value that is taken.
    value: TrialValue,
    /// The run that it is compared with: max-fair's if missing.
    #[serde(default)]
    against: Option<String>,
    /// The policy with the ideal plan: its own if missing.
    #[serde(default)]
    ideal: Option<String>,
}

impl Kind for Tried {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (own, effort) = (named(&self.trial, lab)?, (lab.effort.quick, lab.progress));
        let policies = (self.policy.as_str(), self.against.as_deref(), self.ideal.as_deref());
        lab.kept::<Trials>().measure((&self.trial, own), policies, self.value, effort)
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

/// The value that is taken from a trial under a policy: for each mix and seed, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TrialValue {
    /// Mean of programs' work, as a part of their work in the fair run.
    Throughput,
    /// The least such part.
    Minimum,
    /// 1 − its standard deviation over its mean, as on the slides.
    Uniformity,
    /// Work lost against the other run.
    Lost,
    /// Migrations per second.
    Migrations,
    /// Idle-while-runnable as a part of all CPU time.
    IdleShare,
    /// Error of measured speedups against those of runs alone on either kind of core (slide 31): mean of all programs.
    MeanError,
    /// The same, the worst of all programs.
    WorstError,
    /// The greatest part by which a program takes longer or shorter in a mix than in its median one (slide 20), one
    /// value.
    CoRunners,
}

/// One mix with one seed under one policy.
struct Run {
    mix: Vec<String>,
    /// Work of each program, in any unit that runs of one trial share.
    done: Vec<f64>,
    traced: Traced,
}

/// Trials by name, and their runs by policy, each made once.
#[derive(Default)]
pub struct Trials {
    runs: BTreeMap<(String, String), Rc<Vec<Run>>>,
}

impl Trials {
    /// A value under a policy, compared with `against`, by mix and seed. The ideals are those of the plan of `ideal`, in
    /// the same order; none if it has no plan.
    fn measure(
        &mut self,
        (name, trial): (&str, &Trial),
        (policy, against, ideal): (&str, Option<&str>, Option<&str>),
        value: TrialValue,
        (quick, progress): (bool, &Progress),
    ) -> Result<Sample, Failure> {
        let runs = self.runs(name, trial, policy, quick, progress)?;
        if let TrialValue::MeanError | TrialValue::WorstError = value {
            let errors = errors(trial, &runs)?;
            let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
            let worst = greatest(errors.iter().copied());
            let value = if value == TrialValue::MeanError { mean } else { worst };
            return Ok(vec![value].into());
        }
        if value == TrialValue::CoRunners {
            return Ok(vec![co_runners(&runs)].into());
        }
        let fair = self.runs(name, trial, against.unwrap_or(FAIR), quick, progress)?;
        let values = runs.iter().zip(fair.iter()).map(|(run, fair)| match value {
            TrialValue::Lost => 1.0 - run.done.iter().sum::<f64>() / fair.done.iter().sum::<f64>(),
            TrialValue::Migrations => {
                let seen = &run.traced.outcome.observed;
                seen.migrations as f64 / (seen.elapsed_ns as f64 / SECOND_NS as f64)
            }
            TrialValue::IdleShare => idle_share(&run.traced.outcome),
            _ => metric(&relative(run, fair), value),
        });
        let values = values.collect();
        let ideal = match value {
            TrialValue::Throughput | TrialValue::Minimum | TrialValue::Uniformity => {
                let rule = ideal.unwrap_or(policy);
                let of = |run: &Run| planned(trial, &run.mix, rule);
                let plans: Vec<Option<Vec<f64>>> = runs.iter().map(of).collect::<Result<_, _>>()?;
                plans.iter().flatten().map(|relative| metric(relative, value)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Sample { values, ideal, ..Sample::default() })
    }

    /// Slides 13 and 14 again: the three metrics of trials under policies, and their ideals.
    pub fn chart(
        &mut self,
        view: &View,
        (trials, policies): (&[(&str, &Trial)], &[String]),
        effort: (bool, &Progress),
    ) -> Result<Chart, Failure> {
        const METRICS: [(&str, TrialValue); 3] = [
            ("throughput", TrialValue::Throughput),
            ("minimum fairness", TrialValue::Minimum),
            ("uniformity", TrialValue::Uniformity),
        ];
        let (mut rows, mut plots) = (Vec::new(), Vec::new());
        for (name, trial) in trials {
            let mut bars = Vec::new();
            for policy in policies {
                let mut row = vec![name.to_string(), policy.clone()];
                for (metric, value) in METRICS {
                    let tried = self.measure((name, trial), (policy, None, None), value, effort)?;
                    let ours = median(&tried.values).unwrap_or(f64::NAN);
                    row.push(percent(ours));
                    row.push(median(&tried.ideal).map_or("–".into(), percent));
                    let word = metric.split(' ').next().unwrap_or(metric);
                    bars.push((format!("{word}, {}", short(policy, policies)), 100.0 * ours));
                }
                rows.push(row);
            }
            bars.sort_by_key(|(bar, _)| {
                METRICS.iter().position(|(name, _)| name.split(' ').next() == bar.split(',').next())
            });
            let caption = format!("{}: {name}", view.title);
            let drawn = plot::bars(&caption, "% of max-fair", &bars);
            plots.push((caption, drawn));
        }
        let of = |(metric, _): &(&str, TrialValue)| [metric.to_string(), "ideal".into()];
        let headings = ["mix", "policy"].map(String::from).into_iter();
        Ok(Chart {
            title: view.title.clone(),
            note: view.note.clone(),
            headings: headings.chain(METRICS.iter().flat_map(of)).collect(),
            rows,
            plots,
        })
    }

    fn runs(
        &mut self,
        name: &str,
        trial: &Trial,
        policy: &str,
        quick: bool,
        progress: &Progress,
    ) -> Result<Rc<Vec<Run>>, Failure> {
        let key = (name.to_string(), policy.to_string());
        if let Some(runs) = self.runs.get(&key) {
            return Ok(runs.clone());
        }
        progress.phase(&format!("{name}: {policy}"));
        let contender = Contender::parse(policy)?;
        let programs = Programs::embedded();
        let mut planned = Vec::new();
        for mix in mixes(trial, &programs, quick)? {
            for seed in 0..if quick { 1 } else { trial.seeds } {
                planned.push((mix.clone(), scenario(trial, &programs, &mix, &contender, seed)?));
            }
        }
        let scenarios: Vec<Scenario> = planned.iter().map(|(_, one)| one.clone()).collect();
        let mut runs = Vec::new();
        for ((mix, _), traced) in planned.into_iter().zip(sim::trace_all(&scenarios)) {
            let traced =
                traced.map_err(|error| Failure::run(format!("{name}, {policy}: {error}")))?;
            let done = done(trial, &mix, &traced).ok_or_else(|| {
                Failure::run(format!("{name}, {policy}: a first run never ended"))
            })?;
            runs.push(Run { mix, done, traced });
        }
        let runs = Rc::new(runs);
        self.runs.insert(key, runs.clone());
        Ok(runs)
    }
}

/// A policy's name without the parts that all compared ones share, such as their name.
fn short(policy: &str, all: &[String]) -> String {
    let name = |policy: &str| policy.split(':').next().unwrap_or_default().to_string();
    let bare = policy.replace(":deviations=0", "").replace(",deviations=0", "");
    match all.iter().all(|other| name(other) == name(policy)) {
        true => bare.split_once(':').map_or("default".into(), |(_, knobs)| knobs.to_string()),
        false => bare,
    }
}

fn mixes(trial: &Trial, programs: &Programs, quick: bool) -> Result<Vec<Vec<String>>, Failure> {
    let unknown = |name: &String| Failure::input(format!("there is no mix {name}"));
    let named = trial.mixes.iter().map(|name| programs.mix(name).ok_or_else(|| unknown(name)));
    let mut all: Vec<Vec<String>> = named.collect::<Result<_, _>>()?;
    if trial.spread > 0 {
        let names: Vec<&str> = programs.all().map(|(name, _)| name).collect();
        let number = if quick { trial.spread.div_ceil(10) } else { trial.spread };
        let named = |mix: Vec<usize>| mix.into_iter().map(|at| names[at].to_string()).collect();
        all.extend(exact::chosen(6, names.len(), number).into_iter().map(named));
    }
    Ok(all)
}

fn hardware(trial: &Trial) -> Result<(Machine, Kinds), Failure> {
    let mut machine = find_machine(&trial.machine)?;
    for (cost, value) in &trial.costs {
        machine = machine.with_cost(cost, *value).map_err(Failure::input)?;
    }
    if trial.level {
        machine.core_rates.fill(1.0);
    }
    let kinds = machine.kinds(TYPES_MAX);
    Ok((machine, kinds))
}

fn scenario(
    trial: &Trial,
    programs: &Programs,
    mix: &[String],
    contender: &Contender,
    seed: usize,
) -> Result<Scenario, Failure> {
    let (machine, kinds) = hardware(trial)?;
    let has = |feature: Modelled| trial.modelled.contains(&feature);
    let with = Features { phases: has(Modelled::Phases), pressure: has(Modelled::Pressure) };
    let work_ns = (trial.run_s.unwrap_or(programs.work_s) * SECOND_NS as f64) as u64;
    let (mut tasks, mut again) = (Vec::new(), Vec::new());
    for (at, name) in mix.iter().enumerate() {
        let program =
            programs.get(name).ok_or_else(|| Failure::input(format!("no program {name}")))?;
        let task = |called: &str, times| program.task(called, at + 1, times, work_ns, with);
        match (trial.first_runs, trial.run_s) {
            (true, _) => {
                let mut first = task(&format!("{name}-{at}"), Some(1));
                first.steps.push(Step::Fork(mix.len() + at));
                tasks.push(first);
                let more = task(&format!("{name}-{at}-again"), None);
                again.push((1, Task { forked: true, ..more }));
            }
            (_, Some(run_s)) => {
                // As many as fit on the fastest of cores.
                let most = (trial.seconds as f64 / run_s).ceil() as usize + 1;
                for run in 0..most {
                    let mut one = task(&format!("{name}-{at}-{run}"), Some(1));
                    one.process = 1 + at + run * mix.len();
                    one.forked = run > 0;
                    if run + 1 < most {
                        one.steps.push(Step::Fork(mix.len() * (run + 1) + at));
                    }
                    match run {
                        0 => tasks.push(one),
                        _ => again.push((run, one)),
                    }
                }
            }
            _ => tasks.push(task(&format!("{name}-{at}"), None)),
        }
    }
    again.sort_by_key(|(run, _)| *run);
    tasks.extend(again.into_iter().map(|(_, task)| task));
    let told = |task: &Task| (task.name.clone(), machine::speeds(&kinds.rates, task.stalled));
    let profile: Profile = match trial.speeds {
        Speeds::Told | Speeds::Profiled => tasks.iter().map(told).collect(),
        Speeds::Counted | Speeds::Unknown => Profile::new(),
    };
    let seconds = if trial.first_runs { FIRST_RUNS_S } else { trial.seconds };
    let workload = Workload {
        name: mix.join("-"),
        tasks,
        duration_ns: Some(seconds * SECOND_NS),
        ..Workload::default()
    };
    let mut scenario = Scenario::new(machine, workload, contender.scheduler()?);
    scenario.seed = seed as u64;
    scenario.profile = profile;
    scenario.options.counters = matches!(trial.speeds, Speeds::Counted | Speeds::Profiled);
    scenario.options.counter_noise = trial.noise;
    scenario.options.record.speeds = true;
    Ok(scenario)
}

/// Work of each program of the mix. None: a first run did not end.
fn done(trial: &Trial, mix: &[String], traced: &Traced) -> Option<Vec<f64>> {
    match trial.first_runs {
        true => {
            traced.ended_ns[..mix.len()].iter().map(|at| at.map(|ns| 1e9 / ns as f64)).collect()
        }
        false => {
            let mut done = vec![0.0; mix.len()];
            let progress = traced.outcome.progress.values();
            progress.enumerate().for_each(|(at, work)| done[at % mix.len()] += work);
            Some(done)
        }
    }
}

fn relative(run: &Run, fair: &Run) -> Vec<f64> {
    run.done.iter().zip(&fair.done).map(|(own, fair)| own / fair).collect()
}

fn metric(relative: &[f64], value: TrialValue) -> f64 {
    let metrics = Metrics::of(relative);
    match value {
        TrialValue::Throughput => metrics.throughput,
        TrialValue::Minimum => least(relative.iter().copied()),
        _ => metrics.uniformity,
    }
}

/// Relative performance in the policy's plan, with the true speedups. None: it has no plan.
fn planned(trial: &Trial, mix: &[String], policy: &str) -> Result<Option<Vec<f64>>, Failure> {
    let Ok(instance) = Instance::parse(policy, uneven::ALL) else { return Ok(None) };
    let (machine, kinds) = hardware(trial)?;
    let programs = Programs::embedded();
    let task = |name: &String| {
        let stalled = programs.get(name).map_or(0.0, |program| program.stalled());
        uneven::Task::new(machine::speeds(&kinds.rates, stalled))
    };
    let mut cores = vec![0.0; kinds.rates.len()];
    kinds.of.iter().take(machine.cpus.len()).for_each(|kind| cores[usize::from(*kind)] += 1.0);
    let (rule, base) = uneven::shares_by(&instance);
    let problem = Problem { cores, tasks: mix.iter().map(task).collect(), base };
    Ok(Some(plan(&problem, &rule).map_err(Failure::input)?.relative))
}

fn idle_share(outcome: &Outcome) -> f64 {
    let seen = &outcome.observed;
    let busy: u64 = seen.tasks.values().map(|task| task.cpu_ns).sum();
    seen.idle_while_runnable_ns as f64 / (busy + seen.idle_ns).max(1) as f64
}

/// Relative error of each program's measured speedup in each run. The true one is its time alone on a core of the
/// slowest kind over its time on one of the fastest.
fn errors(trial: &Trial, runs: &[Run]) -> Result<Vec<f64>, Failure> {
    let programs = Programs::embedded();
    let mut real: BTreeMap<&str, f64> = BTreeMap::new();
    let mut errors = Vec::new();
    for run in runs {
        for (at, name) in run.mix.iter().enumerate() {
            let real = match real.get(name.as_str()) {
                Some(real) => *real,
                None => *real.entry(name).or_insert(alone(trial, &programs, name)?),
            };
            let Some(speeds) = run.traced.speeds.get(&(at as u32 + 1)) else {
                return Err(Failure::run(format!("{name} was never measured")));
            };
            errors.push((speeds[0] / real - 1.0).abs());
        }
    }
    Ok(errors)
}

/// Speedup of a program by itself: pinned to one core of either kind, one run (slide 31).
fn alone(trial: &Trial, programs: &Programs, name: &str) -> Result<f64, Failure> {
    let mut took = Vec::new();
    let (_, kinds) = hardware(trial)?;
    for kind in [0, kinds.rates.len() as u16 - 1] {
        let fair = Contender::parse("fifo")?;
        let mut one = scenario(trial, programs, &[name.to_string()], &fair, 0)?;
        let cpu = kinds.of.iter().position(|own| *own == kind);
        let task = &mut one.workload.tasks[0];
        task.cpus = cpu.map(|cpu| vec![cpu]);
        if let Some(Step::Repeat { times, .. }) = task.steps.first_mut() {
            *times = Some(1);
        }
        task.steps.truncate(1);
        one.workload.tasks.truncate(1);
        one.workload.duration_ns = None;
        took.push(sim::run(&one).map_err(Failure::run)?.elapsed_ns as f64);
    }
    Ok(took[1] / took[0])
}

/// The greatest part by which a program takes longer or shorter in a mix than in its median one.
fn co_runners(runs: &[Run]) -> f64 {
    let mut took: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (name, done) in run.mix.iter().zip(&run.done) {
            took.entry(name).or_default().push(1.0 / done);
        }
    }
    let off = |times: &Vec<f64>| {
        let usual = median(times).unwrap_or(f64::NAN);
        greatest(times.iter().map(|time| (time / usual - 1.0).abs()))
    };
    greatest(took.values().map(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_called_by_what_differs() {
        let all = ["min-fair:interval=5s".to_string(), "min-fair".to_string()];
        assert_eq!(short(&all[0], &all), "interval=5s");
        assert_eq!(short(&all[1], &all), "default");
        let all = ["min-fair:target=0.95,deviations=0".to_string(), "max-perf".to_string()];
        assert_eq!(short(&all[0], &all), "min-fair:target=0.95");
    }

    #[test]
    fn a_program_is_off_by_its_farthest_mix() {
        let run = |done: f64| Run {
            mix: vec!["p01".into()],
            done: vec![done],
            traced: Traced {
                outcome: Outcome::default(),
                events: Vec::new(),
                callbacks: Vec::new(),
                spent: Vec::new(),
                ended_ns: Vec::new(),
                played: Vec::new(),
                added: workload::Cut::default(),
                speeds: BTreeMap::new(),
                whereabouts: Vec::new(),
            },
        };
        let off = co_runners(&[run(1.0), run(1.0), run(0.8)]);
        assert!((off - 0.25).abs() < 1e-12, "{off}");
    }
}
