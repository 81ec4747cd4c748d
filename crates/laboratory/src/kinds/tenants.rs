// SPDX-License-Identifier: GPL-2.0-only
//! Figures from experiments on uneven cores: results of tenants (threads, programs, cgroups, tasks of one nice value),
//! and whether each task's share and work are as the policy has them.

use std::collections::BTreeMap;

use machine::{Machine, task_rate};
use measuring::find_machine;
use policy::Instance;
use policy::table::TYPES_MAX;
use serde::Deserialize;
use terminal::Failure;
use trace::Outcome;
use uneven::{Problem, plan};
use workload::{Task, Workload};

use crate::experiment;
use crate::extremes::greatest;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::paper::Experiment;

/// The performance of the tenant with the greatest loss, as a part of its performance under `fair`, boot by boot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guaranteed {
    /// Name of an experiment on uneven cores.
    experiment: String,
    /// The way to group tasks into tenants.
    by: By,
    /// The policy with the guarantee.
    of: String,
    /// The policy that it is compared with.
    fair: String,
}

impl Kind for Guaranteed {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (experiment, outcomes) =
            (lab.experiment(&self.experiment)?, lab.outcomes(&self.experiment)?);
        Ok(guaranteed(experiment, &outcomes, self.by, &self.of, &self.fair)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// The greatest difference between a tenant's part of all CPU time and its due part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuError {
    /// Name of an experiment on uneven cores.
    experiment: String,
    /// The way to group tasks into tenants.
    by: By,
    /// The policy.
    of: String,
    /// Due parts by cgroup, in the order of the file; or by nice value, from the lowest.
    parts: Vec<f64>,
}

impl Kind for CpuError {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (experiment, outcomes) =
            (lab.experiment(&self.experiment)?, lab.outcomes(&self.experiment)?);
        Ok(cpu_error(experiment, &outcomes, self.by, &self.of, &self.parts)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// How near each task's work by the policy's own account of its placement is to the work by an observer's, 1 being
/// exact. Both follow from the machine's model. The value of the task that is farthest, in each run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wiring {
    /// Name of an experiment on uneven cores in a guest.
    experiment: String,
}

impl Kind for Wiring {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        Ok(wiring(lab.experiment(&self.experiment)?, &outcomes)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// How near the part of a task's CPU time on the fastest kind of core is to its policy's plan, 1 being exact. The
/// value of the task that is farthest, in each run of each policy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesReached {
    /// Name of the experiment.
    experiment: String,
}

impl Kind for SharesReached {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        Ok(shares_reached(lab.experiment(&self.experiment)?, &outcomes)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// The grouping of tasks into tenants.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each task by itself.
    Thread,
    /// An address space.
    Program,
    /// A cgroup.
    Cgroup,
    /// A nice value.
    Nice,
}

impl By {
    fn of(self, task: &Task, at: usize) -> usize {
        match self {
            By::Thread => at,
            By::Program => task.process,
            By::Cgroup => task.group.map_or(0, |group| group + 1),
            By::Nice => (i32::from(task.nice) + 20) as usize,
        }
    }
}

/// One tenant's result.
#[derive(Debug, Clone, Copy, Default)]
struct Got {
    /// Work: CPU time on the slowest kind of core for the same work.
    work: f64,
    cpu: f64,
}

/// The performance of the tenant with the greatest loss under `of`, as a part of its performance under `fair`, in each
/// boot. Empty if a task was not observed in one of them, or a tenant did nothing under `fair`.
fn guaranteed(
    experiment: &Experiment,
    outcomes: &[Outcome],
    by: By,
    of: &str,
    fair: &str,
) -> Result<Vec<f64>, Failure> {
    let (machine, job) = described(experiment)?;
    let by_policy = |policy: &str| -> Option<Vec<BTreeMap<usize, Got>>> {
        let own = outcomes.iter().filter(|outcome| outcome.policy == policy);
        own.map(|outcome| got(&machine, &job, outcome, by)).collect()
    };
    let (Some(ours), Some(fair)) = (by_policy(of), by_policy(fair)) else { return Ok(Vec::new()) };
    // Both are of one job: its tenants, in the same order.
    let worst = |(ours, fair): (&BTreeMap<usize, Got>, &BTreeMap<usize, Got>)| {
        let relative = ours.values().zip(fair.values());
        let relative = relative.map(|(got, fair)| (fair.work > 0.0).then(|| got.work / fair.work));
        relative.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
    };
    let all: Option<Vec<f64>> = ours.iter().zip(&fair).map(worst).collect();
    Ok(all.unwrap_or_default())
}

/// The greatest difference between a tenant's part of all CPU time and `parts`, in each run of the policy. `parts` are
/// in the order of cgroups in the file, or from the lowest nice value. Empty if a task was not observed in one of them,
/// or there was no CPU time at all.
fn cpu_error(
    experiment: &Experiment,
    outcomes: &[Outcome],
    by: By,
    of: &str,
    parts: &[f64],
) -> Result<Vec<f64>, Failure> {
    let (machine, job) = described(experiment)?;
    let wanted: f64 = parts.iter().sum();
    let error = |outcome: &Outcome| {
        let got = got(&machine, &job, outcome, by)?;
        let all: f64 = got.values().map(|got| got.cpu).sum();
        if got.len() != parts.len() {
            return Some(f64::INFINITY);
        }
        let off = got.values().zip(parts).map(|(got, part)| (got.cpu / all - part / wanted).abs());
        off.reduce(f64::max).filter(|_| all > 0.0)
    };
    let own = outcomes.iter().filter(|outcome| outcome.policy == of);
    let all: Option<Vec<f64>> = own.map(error).collect();
    Ok(all.unwrap_or_default())
}

/// How near modelled work by the policy's own account of each task's placement is to that by what was observed.
fn wiring(experiment: &Experiment, outcomes: &[Outcome]) -> Result<Vec<f64>, Failure> {
    let (machine, job) = described(experiment)?;
    let rates = machine.kinds(TYPES_MAX).rates;
    let near = |outcome: &Outcome| {
        let off = job.tasks.iter().map(|task| {
            let work = |kind_ns: &[u64]| -> f64 {
                let of = |(rate, ns): (&f64, &u64)| task_rate(*rate, task.stalled) * *ns as f64;
                rates.iter().zip(kind_ns).map(of).sum()
            };
            let Some(tid) = tid_of(outcome, task) else { return f64::INFINITY };
            let charged = outcome.charged.get(&tid).map_or(0.0, |kind_ns| work(kind_ns));
            let seen = outcome.observed.tasks.get(&tid).map_or(0.0, |task| work(&task.kind_ns));
            (charged / seen - 1.0).abs()
        });
        // NaN if a task was not seen.
        1.0 - greatest(off)
    };
    Ok(outcomes.iter().map(near).collect())
}

/// See [`SharesReached`].
fn shares_reached(experiment: &Experiment, outcomes: &[Outcome]) -> Result<Vec<f64>, Failure> {
    let machine = find_machine(experiment.machine.as_deref().unwrap_or("phenom-2f4s"))?;
    let tasks = experiment::tasks(&experiment.job)?;
    let kinds = machine.kinds(TYPES_MAX);
    let speeds = |task: &Task| uneven::Task::new(machine::speeds(&kinds.rates, task.stalled));
    let mut cores = vec![0.0; kinds.rates.len()];
    kinds.of.iter().for_each(|kind| cores[usize::from(*kind)] += 1.0);
    let mut reached = Vec::new();
    for outcome in outcomes {
        let instance = Instance::parse(&outcome.policy, uneven::ALL).map_err(Failure::input)?;
        let (policy, base) = uneven::shares_by(&instance);
        let problem =
            Problem { cores: cores.clone(), tasks: tasks.iter().map(speeds).collect(), base };
        let wanted = plan(&problem, &policy).map_err(Failure::input)?.shares;
        let share = |name: &str| {
            let (tid, _) = outcome.names.iter().find(|(_, other)| *other == name)?;
            let seen = outcome.observed.tasks.get(tid)?;
            Some(*seen.kind_ns.first()? as f64 / seen.cpu_ns.max(1) as f64)
        };
        let off = tasks.iter().zip(&wanted).map(|(task, wanted)| {
            share(&task.name).map_or(f64::INFINITY, |share| (share - wanted[0]).abs())
        });
        reached.push(1.0 - greatest(off));
    }
    Ok(reached)
}

fn tid_of(outcome: &Outcome, task: &Task) -> Option<u32> {
    // The kernel keeps 15 bytes of a name.
    let is_it = |name: &str| name == task.name || name.len() == 15 && task.name.starts_with(name);
    outcome.names.iter().find(|(_, name)| is_it(name)).map(|(tid, _)| *tid)
}

fn described(experiment: &Experiment) -> Result<(Machine, Workload), Failure> {
    let lacks = "an experiment with tenants names the machine whose cores are uneven";
    experiment::described(experiment, lacks)
}

/// None if one of the tasks was not seen: its tenant would seem to have had less than it had.
fn got(
    machine: &Machine,
    job: &Workload,
    outcome: &Outcome,
    by: By,
) -> Option<BTreeMap<usize, Got>> {
    let rates = machine.kinds(TYPES_MAX).rates;
    let mut tenants: BTreeMap<usize, Got> = BTreeMap::new();
    for (at, task) in job.tasks.iter().enumerate() {
        let got = tenants.entry(by.of(task, at)).or_default();
        let seen = outcome.observed.tasks.get(&tid_of(outcome, task)?)?;
        for (speed, ns) in machine::speeds(&rates, task.stalled).iter().zip(&seen.kind_ns) {
            got.work += speed * *ns as f64;
            got.cpu += *ns as f64;
        }
    }
    Some(tenants)
}

#[cfg(test)]
mod tests {
    use trace::TaskObserved;

    use super::*;
    use crate::paper;

    /// Three cgroups of weight 1:2:4, and a run in which a task of each had this CPU time, in ms.
    fn run_of(policy: &str, ms: [u64; 3]) -> (Experiment, Outcome) {
        let mut papers = paper::find("min-fair").unwrap();
        let experiment = papers[0].experiment.remove("cgroups-sim").unwrap();
        let (_, job) = described(&experiment).unwrap();
        let mut run = Outcome { policy: policy.into(), ..Outcome::default() };
        for (at, task) in job.tasks.iter().enumerate() {
            let ns = ms[task.group.unwrap()] * 1_000_000;
            let seen = TaskObserved { cpu_ns: ns, kind_ns: vec![0, ns], ..TaskObserved::default() };
            run.names.insert(at as u32, task.name.clone());
            run.observed.tasks.insert(at as u32, seen);
        }
        (experiment, run)
    }

    const PARTS: [f64; 3] = [1.0, 2.0, 4.0];

    #[test]
    fn an_error_in_cpu_time_is_that_of_the_tenant_farthest_off() {
        let of = |ms| {
            let (experiment, run) = run_of("a", ms);
            cpu_error(&experiment, &[run], By::Cgroup, "a", &PARTS).unwrap()
        };
        assert!(of([10, 20, 40])[0] < 1e-9);
        assert!((of([10, 0, 40])[0] - 2.0 / 7.0).abs() < 1e-9, "one was starved");
    }

    #[test]
    fn the_worst_off_decides_what_is_guaranteed() {
        let ((experiment, fair), (_, ours)) =
            (run_of("fair", [10, 20, 40]), run_of("a", [9, 20, 60]));
        let worst = guaranteed(&experiment, &[fair, ours], By::Cgroup, "a", "fair").unwrap();
        assert!(worst.len() == 1 && (worst[0] - 0.9).abs() < 1e-9, "{worst:?}");
    }

    #[test]
    fn a_tenant_that_was_not_observed_has_no_value() {
        let (experiment, seen) = run_of("a", [10, 20, 40]);
        let (_, idle) = run_of("a", [0; 3]);
        let (mut one_gone, mut all_gone, mut nameless) = (seen.clone(), seen.clone(), seen.clone());
        one_gone.observed.tasks.pop_last();
        all_gone.observed.tasks.clear();
        nameless.names.clear();
        let (_, fair) = run_of("fair", [10, 20, 40]);
        for unseen in [one_gone, all_gone, nameless, idle] {
            let runs = [seen.clone(), unseen.clone()];
            let error = cpu_error(&experiment, &runs, By::Cgroup, "a", &PARTS).unwrap();
            assert!(error.is_empty(), "{error:?}");
            // A tenant that did nothing under the fair policy counts as not observed.
            let as_fair = Outcome { policy: "fair".into(), ..unseen };
            let runs = [seen.clone(), as_fair];
            let worst = guaranteed(&experiment, &runs, By::Cgroup, "a", "fair").unwrap();
            assert!(worst.is_empty(), "{worst:?}");
        }
        let (_, mut unseen) = run_of("a", [10, 20, 40]);
        unseen.observed.tasks.clear();
        assert!(
            guaranteed(&experiment, &[fair, unseen], By::Cgroup, "a", "fair").unwrap().is_empty()
        );
    }
}
