// SPDX-License-Identifier: GPL-2.0-only
//! Programs beside others with vector code that lowers their clock, simulated: how unfair that is to them.
//!
//! The talk on fair scheduling for AVX2 and AVX-512 measures slowdowns by completion times. A program's s is its time
//! beside the other as a multiple of its time in a reference. Here all run for the same time, so s is the work in the
//! reference over the work beside the other. The victim's reference is the same run with the culprit's wide code
//! switched off. The culprit's reference is the culprit beside itself. So shares of CPU time and of cores' threads
//! cancel. Unfairness is 1 - s of the culprit / s of the victim.

use std::collections::BTreeMap;
use std::rc::Rc;

use comparison::Contender;
use machine::{LEVELS, Machine, Turbo};
use measuring::find_machine;
use report::plot;
use report::stats::median;
use report::text::percent;
use serde::Deserialize;
use sim::Scenario;
use terminal::{Failure, Progress};
use trace::Outcome;
use workload::vector::{Beside, Programs, beside};
use workload::{Step, Task, Workload};

use crate::extremes::greatest;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::views::{Chart, View};

const SECOND_NS: u64 = 1_000_000_000;
/// Longer than any run.
const FOR_EVER_NS: u64 = 3600 * SECOND_NS;

/// A culprit and its victims, and the CPUs they run on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    machine: String,
    culprit: String,
    /// All known ones if missing; each is a mix of its own.
    #[serde(default)]
    victims: Vec<String>,
    /// Part of the culprit's work in wide code, in place of its own value.
    #[serde(default)]
    duty: Option<f64>,
    /// Threads of the culprit, and of the victim.
    threads: [usize; 2],
    /// CPUs of both; all if missing. The other cores are kept busy.
    #[serde(default)]
    cpus: Vec<usize>,
    /// Costs that differ from the machine's file, for those only known as a range.
    #[serde(default)]
    costs: BTreeMap<String, f64>,
    /// A granted license stays.
    #[serde(default)]
    permanent: bool,
    /// Length of each run.
    seconds: u64,
    /// Number of seeds; one with `--quick`.
    seeds: u64,
}

/// The neighbours of the paper with this name.
pub fn named<'a>(name: &str, lab: &Laboratory<'a>) -> Result<&'a Neighbours, Failure> {
    lab.paper.neighbours.get(name).ok_or_else(|| lab.unknown("neighbours", name))
}

/// Programs beside others with vector code that slows them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Name of the neighbours.
    of: String,
    /// The policy.
    policy: String,
    /// The value that is taken.
    value: Taken,
    /// The policy that it is compared with.
    #[serde(default)]
    against: Option<String>,
}

impl Kind for Simulated {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (own, effort) = (named(&self.of, lab)?, (lab.effort.quick, lab.progress));
        let policies = (self.policy.as_str(), self.against.as_deref());
        let neighbourhood = lab.kept::<Neighbourhood>();
        Ok(neighbourhood.measure((&self.of, own), policies, self.value, effort)?.into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

/// The same in a guest, by virtual cycles.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Virtual {
    /// Names of three experiments of one shape: both programs, the culprit without wide code, culprits alone.
    experiments: [String; 3],
    /// The policy.
    of: String,
    /// The value that is taken.
    value: Taken,
    /// Name of simulated neighbours: the difference from their value is taken, in points.
    #[serde(default)]
    agrees: Option<String>,
}

impl Kind for Virtual {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let [mixed, scalar, culprits] = &self.experiments;
        let machine = lab.experiment(mixed)?.machine.as_deref();
        let runs = [lab.outcomes(mixed)?, lab.outcomes(scalar)?, lab.outcomes(culprits)?];
        let taken = virtually(machine, &runs, &self.of, self.value)?;
        let Some(twin) = &self.agrees else { return Ok(taken.into()) };
        let (own, effort) = (named(twin, lab)?, (lab.effort.quick, lab.progress));
        let (neighbourhood, policy) = (lab.kept::<Neighbourhood>(), simulated(&self.of));
        let sim = neighbourhood.measure((twin, own), (&policy, None), self.value, effort)?;
        let sim = median(&sim).unwrap_or(f64::NAN);
        Ok(taken.into_iter().map(|taken| (taken - sim).abs()).collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiments[0])
    }
}

/// A guest's policy in the simulator: with counters of its own, and told by traps.
fn simulated(policy: &str) -> String {
    policy.replace("source=model", "source=events").replace("detect=told", "detect=trap")
}

/// The value that is taken; over several mixes, the mean unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Taken {
    /// Unfairness, %.
    Unfairness,
    /// Distance of unfairness from 0, in either direction, %.
    Distance,
    /// How much longer a victim takes than in its reference, %.
    Slowed,
    /// The same for the victim with the greatest loss, %.
    Worst,
    /// The most that a victim loses beyond its loss under `against`, in points.
    Worse,
    /// The distance under `against` divided by the distance.
    Reduced,
    /// Part of the work of all programs that is lost against `against`, %.
    Lost,
    /// Distance of both from 2r/(1+r), where r is the clock of the widest code over that of scalar code, %.
    OffFormula,
    /// Refund in the run without wide code, ns.
    FalseRefund,
}

/// One mix under one policy, of one seed.
#[derive(Debug, Clone)]
struct Mix {
    /// s of the culprit and of the victim.
    slowed: [f64; 2],
    /// Mean work of all tasks, beside each other.
    work_ns: f64,
    false_refund_ns: f64,
}

impl Mix {
    fn unfairness(&self) -> f64 {
        1.0 - self.slowed[0] / self.slowed[1]
    }
}

/// By seed, then by victim.
type Mixes = Vec<Vec<Mix>>;

/// Mixes by name and policy, each run once.
#[derive(Default)]
pub struct Neighbourhood {
    done: BTreeMap<(String, String), Rc<Mixes>>,
}

impl Neighbourhood {
    /// One value for each seed.
    fn measure(
        &mut self,
        (name, of): (&str, &Neighbours),
        (policy, against): (&str, Option<&str>),
        taken: Taken,
        (quick, progress): (bool, &Progress),
    ) -> Result<Vec<f64>, Failure> {
        let mixes = self.mixes((name, of), policy, (quick, progress))?;
        let others = match against {
            Some(against) => self.mixes((name, of), against, (quick, progress))?,
            None => mixes.clone(),
        };
        let formula = of.formula()?;
        let value = |(mixes, others): (&Vec<Mix>, &Vec<Mix>)| match taken {
            Taken::Unfairness => 100.0 * mean(mixes, Mix::unfairness),
            Taken::Distance => 100.0 * mean(mixes, |mix| mix.unfairness().abs()),
            Taken::Slowed => 100.0 * mean(mixes, |mix| mix.slowed[1] - 1.0),
            Taken::Worst => 100.0 * greatest(mixes.iter().map(Mix::unfairness)),
            Taken::Worse => {
                let pairs = mixes.iter().zip(others);
                100.0 * greatest(pairs.map(|(own, other)| own.unfairness() - other.unfairness()))
            }
            Taken::Reduced => {
                mean(others, |mix| mix.unfairness().abs())
                    / mean(mixes, |mix| mix.unfairness().abs())
            }
            Taken::Lost => {
                100.0 * (1.0 - mean(mixes, |mix| mix.work_ns) / mean(others, |mix| mix.work_ns))
            }
            Taken::OffFormula => {
                let off = |slowed: &f64| (1.0 / slowed / formula - 1.0).abs();
                100.0 * greatest(mixes.iter().flat_map(|mix| mix.slowed.iter().map(off)))
            }
            Taken::FalseRefund => greatest(mixes.iter().map(|mix| mix.false_refund_ns)),
        };
        Ok(mixes.iter().zip(others.iter()).map(value).collect())
    }

    /// A bar for each victim and policy.
    pub fn chart(
        &mut self,
        view: &View,
        (name, of): (&str, &Neighbours),
        policies: &[String],
        (quick, progress): (bool, &Progress),
    ) -> Result<Chart, Failure> {
        let mut chart = Chart::of(view);
        chart.headings = [vec!["beside".to_string()], policies.to_vec()].concat();
        let mut columns = Vec::new();
        for policy in policies {
            columns.push(self.mixes((name, of), policy, (quick, progress))?);
        }
        let mut bars = Vec::new();
        for (at, victim) in of.victims().iter().enumerate() {
            let mut row = vec![victim.clone()];
            for (policy, seeds) in policies.iter().zip(&columns) {
                let sum: f64 = seeds.iter().map(|mixes| mixes[at].unfairness()).sum();
                let unfairness = sum / seeds.len() as f64;
                row.push(percent(unfairness));
                bars.push((format!("{victim}, {policy}"), 100.0 * unfairness));
            }
            chart.rows.push(row);
        }
        chart.plots.push((chart.title.clone(), plot::bars(&chart.title, "%", &bars)));
        Ok(chart)
    }

    fn mixes(
        &mut self,
        (name, of): (&str, &Neighbours),
        policy: &str,
        (quick, progress): (bool, &Progress),
    ) -> Result<Rc<Mixes>, Failure> {
        let key = (name.to_string(), policy.to_string());
        if let Some(done) = self.done.get(&key) {
            return Ok(done.clone());
        }
        let contender = Contender::parse(policy)?;
        let mut all = Mixes::new();
        for seed in 0..if quick { 1 } else { of.seeds } {
            progress.phase(&format!("{name}, {policy}, seed {seed}"));
            all.push(of.run(&contender, seed)?);
        }
        let all = Rc::new(all);
        self.done.insert(key, all.clone());
        Ok(all)
    }
}

impl Neighbours {
    fn victims(&self) -> Vec<String> {
        match self.victims.is_empty() {
            true => Programs::embedded().victims().map(String::from).collect(),
            false => self.victims.clone(),
        }
    }

    fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = find_machine(&self.machine)?;
        let license = machine.frequency.as_mut().and_then(|own| own.license.as_mut());
        if let (true, Some(license)) = (self.permanent, license) {
            license.release_ns = FOR_EVER_NS;
        }
        for (cost, value) in &self.costs {
            machine = machine.with_cost(cost, *value).map_err(Failure::input)?;
        }
        Ok(machine)
    }

    fn formula(&self) -> Result<f64, Failure> {
        let machine = find_machine(&self.machine)?;
        let Some(frequency) = &machine.frequency else { return Ok(1.0) };
        let cores = frequency.turbo.cores();
        let r = frequency.turbo.ghz(2, cores) / frequency.turbo.ghz(0, cores);
        Ok(2.0 * r / (1.0 + r))
    }

    /// Runs every victim beside the culprit, and the references of each, all side by side.
    fn run(&self, policy: &Contender, seed: u64) -> Result<Vec<Mix>, Failure> {
        let (machine, victims) = (self.machine()?, self.victims());
        let first = victims.first().ok_or_else(|| Failure::input("no victims"))?;
        let mut runs = vec![(first, Beside::Culprits)];
        runs.extend(
            victims.iter().flat_map(|victim| [(victim, Beside::Mixed), (victim, Beside::Scalar)]),
        );
        let mut scenarios = Vec::new();
        for (victim, how) in &runs {
            let workload = self.workload(&machine, victim, *how)?;
            let scheduler = policy.scheduler()?;
            scenarios.push(Scenario::new(machine.clone(), workload, scheduler).seed(seed));
        }
        let mut outcomes = Vec::new();
        for outcome in sim::run_all(&scenarios) {
            let outcome = outcome.map_err(|error| {
                Failure::run(format!("{}, seed {seed}: {error}", policy.label()))
            })?;
            outcomes.push(outcome);
        }
        let alone = work(&outcomes[0], "");
        let pairs = outcomes[1..].chunks_exact(2);
        Ok(pairs.map(|pair| Mix::of(alone, &pair[0], &pair[1])).collect())
    }

    fn workload(&self, machine: &Machine, victim: &str, how: Beside) -> Result<Workload, Failure> {
        let programs = Programs::embedded();
        let unknown = |name: &str| Failure::input(format!("workloads/vector.toml has no {name}"));
        let culprit = programs.culprit(&self.culprit).ok_or_else(|| unknown(&self.culprit))?;
        let culprit = self.duty.map_or(culprit.clone(), |duty| culprit.with_duty(duty));
        let victim = programs.victim(victim).ok_or_else(|| unknown(victim))?;
        let mut workload = beside(&culprit, victim, self.threads, how, self.seconds * SECOND_NS);
        if !self.cpus.is_empty() {
            workload.tasks.iter_mut().for_each(|task| task.cpus = Some(self.cpus.clone()));
            workload.tasks.extend(self.elsewhere(machine));
        }
        Ok(workload)
    }

    /// Tasks that keep the cores busy that the mix may not use.
    fn elsewhere(&self, machine: &Machine) -> Vec<Task> {
        let core = |cpu: usize| machine.cpus[cpu].core;
        let used = |other: u16| self.cpus.iter().any(|cpu| core(*cpu) == other);
        let mut cores: Vec<u16> = Vec::new();
        let mut hogs = Vec::new();
        for cpu in 0..machine.cpus.len() {
            if !used(core(cpu)) && !cores.contains(&core(cpu)) {
                cores.push(core(cpu));
                let steps = vec![Step::Run { work_ns: SECOND_NS / 100 }];
                hogs.push(Task {
                    name: format!("hog-{cpu}"),
                    cpus: Some(vec![cpu]),
                    process: 3 + cpu,
                    steps: vec![Step::Repeat { times: None, steps }],
                    ..Task::default()
                });
            }
        }
        hogs
    }
}

impl Mix {
    fn of(culprits: f64, mixed: &Outcome, scalar: &Outcome) -> Mix {
        Mix {
            slowed: [culprits / work(mixed, "a-"), work(scalar, "b-") / work(mixed, "b-")],
            work_ns: work(mixed, ""),
            false_refund_ns: scalar.extra.get("refunded_ns").copied().unwrap_or(f64::NAN),
        }
    }
}

/// The same from the time that a policy's model charges each task at each license level, run by run. The runs are of
/// both programs, of the culprit without wide code, and of culprits alone. All cores are active all the time. Empty if
/// the numbers of runs differ.
fn virtually(
    machine: Option<&str>,
    [mixed, scalar, culprits]: &[Rc<Vec<Outcome>>; 3],
    of: &str,
    taken: Taken,
) -> Result<Vec<f64>, Failure> {
    let machine = find_machine(machine.unwrap_or("xeon-w-2104"))?;
    let turbo = machine.frequency.as_ref().map(|frequency| &frequency.turbo);
    let turbo = turbo.ok_or_else(|| Failure::input(format!("{} has no clocks", machine.name)))?;
    let own = |outcomes: &'_ Rc<Vec<Outcome>>| -> Vec<Outcome> {
        let worked = outcomes.iter().filter(|outcome| outcome.policy == of).cloned();
        worked
            .map(|outcome| Outcome { progress: virtual_work(turbo, &outcome), ..outcome })
            .collect()
    };
    let (mixed, scalar, culprits) = (own(mixed), own(scalar), own(culprits));
    if [&scalar, &culprits].iter().any(|others| others.len() != mixed.len()) {
        return Ok(Vec::new()); // some runs have no counterpart
    }
    let formula = 2.0 / (1.0 + turbo.ghz(0, turbo.cores()) / turbo.ghz(2, turbo.cores()));
    let runs = mixed.into_iter().zip(scalar).zip(culprits);
    let mixes =
        runs.map(|((mixed, scalar), culprits)| Mix::of(work(&culprits, ""), &mixed, &scalar));
    let value = |mix: Mix| match taken {
        Taken::OffFormula => {
            let off = |slowed: &f64| (1.0 / slowed / formula - 1.0).abs();
            Ok(100.0 * greatest(mix.slowed.iter().map(off)))
        }
        Taken::FalseRefund => Ok(mix.false_refund_ns),
        Taken::Unfairness => Ok(100.0 * mix.unfairness()),
        Taken::Distance => Ok(100.0 * mix.unfairness().abs()),
        other => Err(Failure::input(format!("{other:?} is not taken of a guest"))),
    };
    mixes.map(value).collect()
}

/// Work of each task at the machine's clocks, ns at the scalar clock.
fn virtual_work(turbo: &Turbo, outcome: &Outcome) -> BTreeMap<u32, f64> {
    let cores = turbo.cores();
    let work = |ns: &Vec<u64>| {
        let at = |(level, ns): (usize, &u64)| *ns as f64 * turbo.ghz(level as u8, cores);
        ns.iter().take(LEVELS).enumerate().map(at).sum::<f64>() / turbo.ghz(0, cores)
    };
    outcome.charged.iter().map(|(tid, ns)| (*tid, work(ns))).collect()
}

/// Mean work of the tasks with this beginning of their names; hogs are not part of the mix.
fn work(outcome: &Outcome, named: &str) -> f64 {
    let counts = |name: &String| name.starts_with(named) && !name.starts_with("hog-");
    let own =
        outcome.progress.iter().filter(|(tid, _)| outcome.names.get(*tid).is_some_and(counts));
    let done: Vec<f64> = own.map(|(_, done)| *done).collect();
    done.iter().sum::<f64>() / done.len().max(1) as f64
}

fn mean(mixes: &[Mix], value: impl Fn(&Mix) -> f64) -> f64 {
    mixes.iter().map(value).sum::<f64>() / mixes.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_a_counterpart_leave_no_value() {
        let mut one = Outcome { policy: "a".into(), ..Outcome::default() };
        (one.names, one.charged) = ([(1, "b-0".into())].into(), [(1, vec![5])].into());
        one.names.insert(2, "a-0".into());
        one.charged.insert(2, vec![5]);
        let runs = |number: usize| Rc::new(vec![one.clone(); number]);
        let of = |numbers: [usize; 3]| {
            virtually(None, &numbers.map(runs), "a", Taken::Distance).unwrap()
        };
        assert_eq!(of([2, 2, 2]), [0.0, 0.0]);
        assert!(of([2, 1, 2]).is_empty() && of([1, 2, 2]).is_empty());
    }
}
