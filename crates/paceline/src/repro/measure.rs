// SPDX-License-Identifier: GPL-2.0-only
//! Takes each figure from the runs that it needs, and runs those that have not run yet.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use report::stats::{median, quantile};
use trace::Outcome;

use super::answers::Tries;
use super::domains;
use super::exact::{self, Exact, Planned};
use super::extremes::greatest;
use super::long::Longs;
use super::mixes::Simulator;
use super::neighbours::{Neighbourhood, Neighbours};
use super::outcomes::{ByRun, of_program, paired, ratios, share_error_s, values};
use super::paper::{Agreed, Experiment, Figure, Job, Jobs, Measure, Paper, Quantity, Sweep};
use super::simulator::Costs;
use super::sweep::{self, Point};
use super::trials::{Trial, Trials, Tried};
use super::views::{self, Chart, Shown, View};
use super::{agreement, experiment, faults, mixes, neighbours, placements, predicted, tenants};
use crate::contender::{self, Contender};
use crate::failure::Failure;
use crate::progress::Progress;

/// The value of a figure.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    /// One value for each boot, seed or point of a sweep; none if nothing could be measured.
    pub values: Vec<f64>,
    /// The ground.
    pub ground: &'static str,
    /// The clock of the ground's seconds.
    pub clock: Option<report::Clock>,
    /// Points of a sweep that the figure needs and that did not end; no gate can hold then.
    pub missing: Vec<String>,
    /// Runs of a fault that were not survived, and why.
    pub lost: Vec<String>,
    /// Whether a run that it needs failed: `why` says how.
    pub failed: bool,
    /// The value that each would have without costs; empty if not known.
    pub ideal: Vec<f64>,
    /// A note for the reader, or why nothing could be measured.
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
    /// The guest's kernel, if the user names one.
    pub kernel: Option<std::path::PathBuf>,
    /// Folder for kept boots of the guest.
    pub keep: Option<std::path::PathBuf>,
}

type Done<T> = BTreeMap<String, Result<Rc<Vec<T>>, String>>;

/// Experiments and sweeps, and the outcomes of those that have run. A failed one is not repeated.
pub struct Laboratory<'a> {
    paper: &'a Paper,
    effort: Effort,
    progress: &'a Progress,
    experiments: Done<Outcome>,
    sweeps: Done<Point>,
    mixes: Option<Rc<Planned>>,
    simulator: Simulator,
    domains: domains::Simulator,
    trials: Trials,
    neighbours: Neighbourhood,
    longs: Longs,
    tries: Tries,
    costs: Costs,
}

impl<'a> Laboratory<'a> {
    /// A laboratory without runs.
    pub fn new(paper: &'a Paper, effort: Effort, progress: &'a Progress) -> Self {
        Laboratory {
            paper,
            effort,
            progress,
            experiments: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            mixes: None,
            simulator: Simulator::default(),
            domains: domains::Simulator::default(),
            trials: Trials::default(),
            neighbours: Neighbourhood::default(),
            longs: Longs::default(),
            tries: Tries::default(),
            costs: Costs::default(),
        }
    }

    /// Measures a figure. If a ground fails, `why` says so.
    pub fn measure(&mut self, figure: &Figure) -> Result<Ours, Failure> {
        let Some(measure) = &figure.measure else {
            return Ok(Ours { ground: "none", why: figure.why.clone(), ..Ours::default() });
        };
        let mut ours = Ours { why: figure.why.clone(), ..self.whereabouts(measure)? };
        match self.take(measure) {
            Ok(values) if values.is_empty() => {
                ours.missing = self.missing(measure);
                ours.why = Some(format!("{} did not measure it", ours.ground));
            }
            Ok(values) => {
                ours.values = values;
                ours.missing = self.missing(measure);
                ours.lost = self.lost(measure);
                ours.ideal = self.tried(measure)?.map_or(Vec::new(), |tried| tried.ideal);
            }
            Err(failure) => (ours.failed, ours.why) = (true, Some(failure.to_string())),
        }
        Ok(ours)
    }

    fn take(&mut self, measure: &Measure) -> Result<Vec<f64>, Failure> {
        match measure {
            Measure::Survived { experiment } => {
                let runs = self.faced(experiment)?;
                Ok(runs.iter().map(|run| f64::from(run.why.is_none())).collect())
            }
            Measure::Caught { experiment, by } => {
                let runs = self.faced(experiment)?;
                Ok(runs.iter().map(|run| f64::from(run.is_caught(by))).collect())
            }
            Measure::SharesReached { experiment } => {
                let outcomes = self.outcomes(experiment)?;
                mixes::shares_reached(self.experiment(experiment)?, &outcomes)
            }
            Measure::Wiring { experiment } => {
                tenants::wiring(self.experiment(experiment)?, &self.outcomes(experiment)?)
            }
            Measure::Placed { experiment } => {
                placements::alike(self.experiment(experiment)?, &self.outcomes(experiment)?)
            }
            Measure::Resident { experiment } => {
                placements::wiring(self.experiment(experiment)?, &self.outcomes(experiment)?)
            }
            Measure::Predicted { experiment, machine: Some(machine), from, of, what } => {
                predicted::distances(&self.outcomes(experiment)?, machine, from, of, *what)
            }
            Measure::Predicted { experiment, machine: None, from, of, what } => {
                predicted::between_boots(&self.outcomes(experiment)?, from, of, *what)
            }
            Measure::Long { of, what } => {
                self.progress.phase("a long recording");
                Ok(vec![self.longs.measure(of, *what)?])
            }
            Measure::Answers { of, what } => {
                self.tries.measure(of, *what, self.effort.quick, self.progress)
            }
            Measure::Simulator { of } => self.costs.take(of, self.effort.quick, self.progress),
            Measure::Longer { experiment, than, of } => {
                let (own, other) = (self.outcomes(experiment)?, self.outcomes(than)?);
                let took = |outcomes: &[Outcome]| values(outcomes, of, Quantity::Elapsed);
                let ratios = paired(&took(&own), &took(&other));
                Ok(ratios.into_iter().map(|ratio| ratio - 1.0).collect())
            }
            Measure::Guaranteed { experiment, by, of, fair } => {
                let outcomes = self.outcomes(experiment)?;
                tenants::guaranteed(self.experiment(experiment)?, &outcomes, *by, of, fair)
            }
            Measure::CpuError { experiment, by, of, parts } => {
                let outcomes = self.outcomes(experiment)?;
                tenants::cpu_error(self.experiment(experiment)?, &outcomes, *by, of, parts)
            }
            Measure::Neighbours { of, policy, value, against } => {
                let (own, effort) = (self.neighbours(of)?, (self.effort.quick, self.progress));
                let policies = (policy.as_str(), against.as_deref());
                self.neighbours.measure((of, own), policies, *value, effort)
            }
            Measure::Virtual { experiments: [mixed, scalar, culprits], of, value, agrees } => {
                let machine = self.experiment(mixed)?.machine.clone();
                let runs =
                    [self.outcomes(mixed)?, self.outcomes(scalar)?, self.outcomes(culprits)?];
                let taken = neighbours::virtually(machine.as_deref(), &runs, of, *value)?;
                let Some(twin) = agrees else { return Ok(taken) };
                let (own, effort) = (self.neighbours(twin)?, (self.effort.quick, self.progress));
                let sim =
                    self.neighbours.measure((twin, own), (&simulated(of), None), *value, effort)?;
                let sim = median(&sim).unwrap_or(f64::NAN);
                Ok(taken.into_iter().map(|taken| (taken - sim).abs()).collect())
            }
            Measure::Dearer { pair, of, than } => {
                let Job::PingPong { rounds, .. } = self.experiment(pair)?.job else {
                    return Err(Failure::input(format!("experiment {pair} is no ping-pong")));
                };
                let outcomes = self.outcomes(pair)?;
                let took = |policy: &str| values(&outcomes, policy, Quantity::Elapsed);
                let (own, others) = (took(of), bare(took(than)));
                let other = median(&others).unwrap_or(f64::NAN);
                let more = own.into_iter().map(|(_, s)| (s - other) * 1e9 / (2.0 * rounds as f64));
                Ok(more.collect())
            }
            Measure::Trial { .. } => Ok(self.tried(measure)?.map_or(Vec::new(), |it| it.values)),
            Measure::Mixes(wanted) => {
                let mixes = self.paper.mixes.as_ref().ok_or_else(|| self.no_mixes())?;
                let (quick, progress) = (self.effort.quick, self.progress);
                Ok(vec![self.simulator.measure(mixes, wanted, quick, progress)?])
            }
            Measure::Domains(wanted) => {
                self.domains.measure(wanted, self.effort.quick, self.progress)
            }
            Measure::Exact { of: Exact::Mixes(what) } => Ok(vec![self.mixes()?.value(*what)]),
            Measure::Exact { of } => Ok(vec![exact::compute(of, self.effort.quick)?]),
            Measure::Ratio { experiment, quantity, over, under, program } => {
                let outcomes = of_program(&self.outcomes(experiment)?, program.as_deref());
                Ok(ratios(&outcomes, over, under, *quantity))
            }
            Measure::Value { experiment, quantity, of, program } => {
                let outcomes = of_program(&self.outcomes(experiment)?, program.as_deref());
                Ok(bare(values(&outcomes, of, *quantity)))
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
            Measure::ShareError { experiment, of, slice_ms } => {
                let outcomes = self.outcomes(experiment)?;
                let own = outcomes.iter().filter(|outcome| outcome.policy == *of);
                let errors = own.map(|run| Some(share_error_s(run)? * 1e3 / slice_ms));
                Ok(errors.collect::<Option<_>>().unwrap_or_default())
            }
            Measure::Points { sweep, quantity, over, under, job, program } => {
                let points = self.points(sweep)?;
                let own =
                    points.iter().filter(|at| job.as_ref().is_none_or(|job| *job == at.at.label));
                let ratio = |at: &Point| {
                    let outcomes = of_program(&at.outcomes, program.as_deref());
                    median(&ratios(&outcomes, over, under, *quantity))
                };
                Ok(each(measure, own, ratio))
            }
            Measure::Rings { sweep, of, from_kb, to_kb } => {
                let Jobs::Ring { tasks, .. } = self.sweep(sweep)?.jobs else {
                    return Err(Failure::input(format!("sweep {sweep} has no rings")));
                };
                let costs = sweep::switch_costs(&self.points(sweep)?, of, tasks);
                let within =
                    costs.into_iter().filter(|cost| (*from_kb..=*to_kb).contains(&cost.kilobytes));
                Ok(within.map(|cost| cost.processes_s / cost.threads_s).collect())
            }
            Measure::At { sweep, quantity, of, job } => {
                let points = self.points(sweep)?;
                let own = points.iter().filter(|point| *job == point.at.label);
                Ok(each(measure, own, |point| point.value(*quantity, of)))
            }
            Measure::Best { sweep, quantity, over, under } => {
                let points = self.points(sweep)?;
                let ratio =
                    |point: &Point| Some((point.costs, point.ratio(*quantity, over, under)?));
                let mut best: BTreeMap<usize, f64> = BTreeMap::new();
                for (costs, ratio) in each(measure, points.iter(), ratio) {
                    let most = best.entry(costs).or_insert(ratio);
                    *most = greatest([*most, ratio]);
                }
                Ok(best.into_values().collect())
            }
            Measure::Fewer { sweep, than, besides } => {
                let points = self.points(sweep)?;
                let fewer = points.iter().map(|point| fewer_locks(point, than, besides));
                Ok(fewer.collect::<Option<_>>().unwrap_or_default())
            }
            Measure::Agreement { guest, sim, of, what } => self.agreement(guest, sim, of, *what),
            Measure::Wakeup { pair, floor, of, over } => {
                let own = self.wakeup_ns(pair, floor, of)?;
                match over {
                    None => Ok(bare(own)),
                    Some(over) => {
                        let other = self.wakeup_ns(pair, floor, over)?;
                        Ok(paired(&own, &other))
                    }
                }
            }
        }
    }

    /// Draws a chart of the paper again, or says why it cannot be drawn.
    pub fn chart(&mut self, view: &View) -> Result<Chart, Failure> {
        if matches!(view.shown, Shown::Mixes) {
            return Ok(self.mixes()?.histogram(view));
        }
        if let Shown::Domains { mix, policies } = &view.shown {
            return self.domains.chart(view, mix, policies, self.effort.quick, self.progress);
        }
        if let Shown::Neighbours { of, policies } = &view.shown {
            let (own, effort) = (self.neighbours(of)?, (self.effort.quick, self.progress));
            return self.neighbours.chart(view, (of, own), policies, effort);
        }
        if let Shown::Trials { trials, policies } = &view.shown {
            let trials: Result<Vec<(&str, &Trial)>, Failure> =
                trials.iter().map(|name| Ok((name.as_str(), self.trial(name)?))).collect();
            let effort = (self.effort.quick, self.progress);
            return self.trials.chart(view, (&trials?, policies), effort);
        }
        if let Shown::Simulated { .. } | Shown::Comparison { .. } = &view.shown {
            let mixes = self.paper.mixes.as_ref().ok_or_else(|| self.no_mixes())?;
            return self.simulator.chart(view, mixes, self.effort.quick, self.progress);
        }
        let points = self.points(&view.sweep)?;
        Ok(views::chart(view, &self.sweep(&view.sweep)?.jobs, &points))
    }

    /// A value of a trial; None for another measure.
    fn tried(&mut self, measure: &Measure) -> Result<Option<Tried>, Failure> {
        let Measure::Trial { trial: name, policy, value, against, ideal } = measure else {
            return Ok(None);
        };
        let (trial, effort) = (self.trial(name)?, (self.effort.quick, self.progress));
        let policies = (policy.as_str(), against.as_deref(), ideal.as_deref());
        self.trials.measure((name, trial), policies, *value, effort).map(Some)
    }

    fn trial(&self, name: &str) -> Result<&'a Trial, Failure> {
        self.paper.trial.get(name).ok_or_else(|| self.unknown("trial", name))
    }

    fn neighbours(&self, name: &str) -> Result<&'a Neighbours, Failure> {
        self.paper.neighbours.get(name).ok_or_else(|| self.unknown("neighbours", name))
    }

    fn missing(&mut self, measure: &Measure) -> Vec<String> {
        let (Measure::Points { sweep, .. }
        | Measure::At { sweep, .. }
        | Measure::Best { sweep, .. }
        | Measure::Fewer { sweep, .. }
        | Measure::Rings { sweep, .. }) = measure
        else {
            return Vec::new();
        };
        self.points(sweep).map_or(Vec::new(), |points| missing(measure, &points))
    }

    /// The outcome of each run of a fault under each policy.
    fn faced(&mut self, name: &str) -> Result<Vec<faults::Faced>, Failure> {
        let policies =
            contender::parse_all(std::slice::from_ref(&self.experiment(name)?.policies))?;
        let labels: Vec<&str> = policies.iter().map(Contender::label).collect();
        let outcomes = self.outcomes(name)?;
        Ok(outcomes.iter().flat_map(|outcome| faults::faced(outcome, &labels)).collect())
    }

    fn lost(&mut self, measure: &Measure) -> Vec<String> {
        let (Measure::Survived { experiment } | Measure::Caught { experiment, .. }) = measure
        else {
            return Vec::new();
        };
        let runs = self.faced(experiment).unwrap_or_default();
        runs.iter().filter_map(faults::Faced::told).collect()
    }

    /// The ground of a figure.
    fn whereabouts(&self, measure: &Measure) -> Result<Ours, Failure> {
        let (ground, clock) = match measure.experiment() {
            Some(name) => {
                let experiment = self.experiment(name)?;
                (experiment.ground.name(), experiment::clock(experiment))
            }
            None => ("sim", report::Clock::Simulated),
        };
        Ok(match measure {
            Measure::Exact { .. } => Ours { ground: "exact", ..Ours::default() },
            Measure::Long { .. } | Measure::Answers { .. } | Measure::Simulator { .. } => {
                Ours { ground: "here", ..Ours::default() }
            }
            Measure::Mixes(_)
            | Measure::Domains(_)
            | Measure::Trial { .. }
            | Measure::Neighbours { .. } => Ours { ground: "sim", ..Ours::default() },
            Measure::Agreement { .. } => Ours { ground: "sim and vm", ..Ours::default() },
            _ => Ours { ground, clock: Some(clock), ..Ours::default() },
        })
    }

    fn agreement(
        &mut self,
        guest: &[String],
        sim: &[String],
        of: &str,
        what: Agreed,
    ) -> Result<Vec<f64>, Failure> {
        let mut worst = Vec::new();
        for (guest, sim) in guest.iter().zip(sim) {
            let names = experiment::task_names(&self.experiment(guest)?.job)?;
            let (guest, sim) = (self.outcomes(guest)?, self.outcomes(sim)?);
            let own = |all: &Rc<Vec<Outcome>>| -> Vec<Outcome> {
                all.iter().filter(|one| one.policy == of).cloned().collect()
            };
            let (guest, sim) = (own(&guest), own(&sim));
            let (guest, sim): (Vec<&Outcome>, Vec<&Outcome>) =
                (guest.iter().collect(), sim.iter().collect());
            match agreement::distance(what, &guest, &sim, &names) {
                Some(distance) => worst.push(distance),
                None => return Ok(Vec::new()),
            }
        }
        // The gate applies to each file, so the worst decides.
        Ok(quantile(&worst, 1.0).into_iter().collect())
    }

    /// Work of one wakeup in ns of guest time, which under icount are instructions.
    fn wakeup_ns(&mut self, pair: &str, floor: &str, of: &str) -> Result<ByRun, Failure> {
        let Job::PingPong { rounds, .. } = self.experiment(pair)?.job else {
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
        let experiment = self.experiment(name)?;
        match experiment.job {
            Job::Burners { tasks, work_ms } => {
                let cpus = experiment.cpus.unwrap_or(1) as f64;
                Ok(tasks as f64 / cpus * work_ms as f64 / 1e3)
            }
            _ => Err(Failure::input(format!("experiment {name} has no burners"))),
        }
    }

    fn experiment(&self, name: &str) -> Result<&'a Experiment, Failure> {
        self.paper.experiment.get(name).ok_or_else(|| self.unknown("experiment", name))
    }

    fn sweep(&self, name: &str) -> Result<&'a Sweep, Failure> {
        self.paper.sweep.get(name).ok_or_else(|| self.unknown("sweep", name))
    }

    fn unknown(&self, what: &str, name: &str) -> Failure {
        Failure::input(format!("papers/{}.toml: no {what} is called {name}", self.paper.name))
    }

    fn no_mixes(&self) -> Failure {
        Failure::input(format!("papers/{}.toml: no [mixes]", self.paper.name))
    }

    fn mixes(&mut self) -> Result<Rc<Planned>, Failure> {
        if let Some(planned) = &self.mixes {
            return Ok(planned.clone());
        }
        let mixes = self.paper.mixes.as_ref().ok_or_else(|| self.no_mixes())?;
        let planned = Rc::new(exact::plan_all(mixes)?);
        self.mixes = Some(planned.clone());
        Ok(planned)
    }

    fn outcomes(&mut self, name: &str) -> Result<Rc<Vec<Outcome>>, Failure> {
        let experiment = self.experiment(name)?;
        let (effort, progress) = (&self.effort, self.progress);
        once(&mut self.experiments, name, || {
            progress.phase(&format!("experiment {name}"));
            experiment::run(experiment, effort, progress)
        })
    }

    fn points(&mut self, name: &str) -> Result<Rc<Vec<Point>>, Failure> {
        let sweep = self.sweep(name)?;
        let (effort, progress) = (&self.effort, self.progress);
        once(&mut self.sweeps, name, || {
            progress.phase(&sweep.title);
            sweep::run(sweep, effort, progress)
        })
    }
}

fn once<T>(
    done: &mut Done<T>,
    name: &str,
    run: impl FnOnce() -> Result<Vec<T>, Failure>,
) -> Result<Rc<Vec<T>>, Failure> {
    let result = match done.get(name) {
        Some(result) => result.clone(),
        None => {
            let result = run().map(Rc::new).map_err(|failure| failure.to_string());
            done.insert(name.to_string(), result.clone());
            result
        }
    };
    result.map_err(Failure::Run)
}

impl Measure {
    /// The experiment that determines the ground. None: a sweep, so the simulator.
    fn experiment(&self) -> Option<&str> {
        match self {
            Measure::Ratio { experiment, .. }
            | Measure::Value { experiment, .. }
            | Measure::Survived { experiment }
            | Measure::Caught { experiment, .. }
            | Measure::Makespan { experiment, .. }
            | Measure::SharesReached { experiment }
            | Measure::Wiring { experiment }
            | Measure::Placed { experiment }
            | Measure::Resident { experiment }
            | Measure::Longer { experiment, .. }
            | Measure::Predicted { experiment, .. }
            | Measure::Guaranteed { experiment, .. }
            | Measure::CpuError { experiment, .. }
            | Measure::WaitBound { experiment, .. }
            | Measure::ShareError { experiment, .. }
            | Measure::Dearer { pair: experiment, .. }
            | Measure::Wakeup { pair: experiment, .. } => Some(experiment),
            Measure::Virtual { experiments: [mixed, ..], .. } => Some(mixed),
            Measure::Agreement { guest, .. } => guest.first().map(String::as_str),
            Measure::Exact { .. }
            | Measure::Long { .. }
            | Measure::Answers { .. }
            | Measure::Simulator { .. }
            | Measure::Mixes(_)
            | Measure::Domains(_)
            | Measure::Trial { .. }
            | Measure::Neighbours { .. }
            | Measure::Points { .. }
            | Measure::At { .. }
            | Measure::Best { .. }
            | Measure::Rings { .. }
            | Measure::Fewer { .. } => None,
        }
    }
}

/// A guest's policy in the simulator: with counters of its own, and told by traps.
fn simulated(policy: &str) -> String {
    policy.replace("source=model", "source=events").replace("detect=told", "detect=trap")
}

fn bare(values: ByRun) -> Vec<f64> {
    values.into_iter().map(|(_, value)| value).collect()
}

/// How many policies take fewer locks than `than`; None if one of them has no count.
fn fewer_locks(point: &Point, than: &str, besides: &[String]) -> Option<f64> {
    let locks = |policy: &str| point.value(Quantity::Locks, policy);
    let others: BTreeSet<&str> = point.outcomes.iter().map(|run| run.policy.as_str()).collect();
    let counts = |policy: &&str| **policy != *than && !besides.iter().any(|other| other == *policy);
    let own = locks(than)?;
    let others: Option<Vec<f64>> = others.into_iter().filter(counts).map(locks).collect();
    Some(others?.into_iter().filter(|locks| *locks < own).count() as f64)
}

/// A value of each point that is not [`missing`]. Empty if one has none.
fn each<'p, T>(
    measure: &Measure,
    points: impl Iterator<Item = &'p Point>,
    value: impl Fn(&Point) -> Option<T>,
) -> Vec<T> {
    let ended = points.filter(|point| unended(measure, point).next().is_none());
    ended.map(value).collect::<Option<_>>().unwrap_or_default()
}

/// Points and policies that a figure needs and that did not end.
fn missing(measure: &Measure, points: &[Point]) -> Vec<String> {
    let all: BTreeSet<String> = points.iter().flat_map(|point| unended(measure, point)).collect();
    all.into_iter().collect()
}

/// The same for one point.
fn unended(measure: &Measure, point: &Point) -> impl Iterator<Item = String> {
    let counts = |policy: &String| match measure {
        Measure::Points { over, under, job, .. } => {
            job.as_ref().is_none_or(|job| *job == point.at.label) && [over, under].contains(&policy)
        }
        Measure::At { of, job, .. } => *job == point.at.label && of == policy,
        Measure::Best { over, under, .. } => [over, under].contains(&policy),
        Measure::Rings { of, from_kb, to_kb, .. } => {
            let within = *from_kb as f64..=*to_kb as f64;
            point.costs == 0 && point.at.x.is_some_and(|kb| within.contains(&kb)) && of == policy
        }
        Measure::Fewer { besides, .. } => !besides.contains(policy),
        _ => false,
    };
    let failed = point.failed.iter().filter(move |failed| counts(&failed.policy));
    failed.map(|failed| failed.why.clone())
}

/// The slice of a policy, from its label or the default.
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

#[cfg(test)]
mod tests {
    use super::super::sweep::{At, Failed};
    use super::*;

    fn point(label: &str, costs: usize, failed: &[&str]) -> Point {
        let why = |policy: &str| format!("{label}: {policy} does not end");
        let one = |policy: &&str| Failed { policy: policy.to_string(), why: why(policy) };
        Point {
            costs,
            set: String::new(),
            at: At { label: label.into(), series: String::new(), x: Some(64.0) },
            outcomes: Vec::new(),
            failed: failed.iter().map(one).collect(),
        }
    }

    fn measure(text: &str) -> Measure {
        #[derive(serde::Deserialize)]
        struct Line {
            measure: Measure,
        }
        toml::from_str::<Line>(&format!("measure = {{ {text} }}")).unwrap().measure
    }

    #[test]
    fn what_a_figure_is_not_taken_from_may_come_to_no_end() {
        let points = [point("a", 0, &["cas"]), point("b", 0, &[]), point("b", 1, &["cfs"])];
        let missing = |text: &str| missing(&measure(text), &points).len();
        let points_of = r#"kind = "points", sweep = "s", quantity = "elapsed""#;
        assert_eq!(missing(&format!(r#"{points_of}, over = "o1", under = "cas""#)), 1);
        assert_eq!(missing(&format!(r#"{points_of}, over = "cfs", under = "cas""#)), 2);
        assert_eq!(missing(&format!(r#"{points_of}, over = "o1", under = "cas", job = "a""#)), 1);
        assert_eq!(missing(&format!(r#"{points_of}, over = "o1", under = "cas", job = "b""#)), 0);
        let at = r#"kind = "at", sweep = "s", quantity = "elapsed""#;
        assert_eq!(missing(&format!(r#"{at}, of = "cfs", job = "b""#)), 1);
        assert_eq!(missing(&format!(r#"{at}, of = "cfs", job = "a""#)), 0);
        let rings = r#"kind = "rings", sweep = "s", of = "cas", from_kb = 16"#;
        assert_eq!(missing(&format!("{rings}, to_kb = 64")), 1);
        assert_eq!(missing(&format!("{rings}, to_kb = 32")), 0);
        let fewer = r#"kind = "fewer", sweep = "s", than = "o1""#;
        assert_eq!(missing(&format!(r#"{fewer}, besides = ["cas"]"#)), 1);
    }

    #[test]
    fn a_point_without_a_value_leaves_none() {
        let of =
            measure(r#"kind = "at", sweep = "s", quantity = "elapsed", of = "cas", job = "a""#);
        let taken = |points: &[Point], of_first: Option<f64>| {
            each(&of, points.iter(), |point| if point.costs == 0 { of_first } else { Some(2.0) })
        };
        let ended = [point("a", 0, &[]), point("a", 1, &[])];
        assert_eq!(taken(&ended, Some(1.0)), [1.0, 2.0]);
        assert!(taken(&ended, None).is_empty(), "it ended, and nobody measured it");
        let unended = [point("a", 0, &["cas"]), point("a", 1, &[])];
        assert_eq!(taken(&unended, None), [2.0], "the first is told as missing");
    }

    #[test]
    fn a_policy_that_did_not_end_has_not_taken_fewer_locks() {
        let run = |policy: &str, locks: u64| Outcome {
            policy: policy.into(),
            locks: [("dsq".to_string(), locks)].into(),
            extra: [("spinlock_ns".to_string(), 1.0)].into(),
            ..Outcome::default()
        };
        let mut point = point("a", 0, &[]);
        assert_eq!(fewer_locks(&point, "rr", &[]), None);
        point.outcomes = vec![run("rr", 9), run("rr:without=a", 8), run("rr:without=b", 9)];
        assert_eq!(fewer_locks(&point, "rr", &[]), Some(1.0));
        assert_eq!(fewer_locks(&point, "rr", &["rr:without=a".into()]), Some(0.0));
        point.outcomes.remove(0);
        assert_eq!(fewer_locks(&point, "rr", &[]), None);
    }
}
