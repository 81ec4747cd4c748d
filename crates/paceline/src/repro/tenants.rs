// SPDX-License-Identifier: GPL-2.0-only
//! What tenants on uneven cores got: threads, programs, cgroups, those of one nice value.

use std::collections::BTreeMap;

use machine::{Machine, task_rate};
use policy::table::TYPES_MAX;
use serde::Deserialize;
use trace::Outcome;
use workload::{Task, Workload};

use super::experiment;
use super::paper::Experiment;
use crate::failure::Failure;

/// What makes a tenant of tasks.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each by itself.
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

/// What one tenant got.
#[derive(Debug, Clone, Copy, Default)]
struct Got {
    /// Work: CPU time on the slowest kind of core that does as much.
    work: f64,
    cpu: f64,
}

/// The performance of the tenant that is worst off under `of`, as a part of its performance under `fair`: in each
/// boot.
pub fn guaranteed(
    experiment: &Experiment,
    outcomes: &[Outcome],
    by: By,
    of: &str,
    fair: &str,
) -> Result<Vec<f64>, Failure> {
    let (machine, job) = described(experiment)?;
    let by_policy = |policy: &str| -> Vec<BTreeMap<usize, Got>> {
        let own = outcomes.iter().filter(|outcome| outcome.policy == policy);
        own.map(|outcome| got(&machine, &job, outcome, by)).collect()
    };
    let worst = |(ours, fair): (&BTreeMap<usize, Got>, &BTreeMap<usize, Got>)| {
        let relative = ours
            .iter()
            .map(|(tenant, got)| fair.get(tenant).map_or(0.0, |fair| got.work / fair.work));
        relative.fold(f64::INFINITY, f64::min)
    };
    Ok(by_policy(of).iter().zip(&by_policy(fair)).map(worst).collect())
}

/// The greatest difference between a tenant's part of all CPU time and `parts`, in the order of cgroups in the file
/// and from the lowest nice value: in each run of the policy.
pub fn cpu_error(
    experiment: &Experiment,
    outcomes: &[Outcome],
    by: By,
    of: &str,
    parts: &[f64],
) -> Result<Vec<f64>, Failure> {
    let (machine, job) = described(experiment)?;
    let wanted: f64 = parts.iter().sum();
    let error = |outcome: &Outcome| {
        let got = got(&machine, &job, outcome, by);
        let all: f64 = got.values().map(|got| got.cpu).sum();
        if got.len() != parts.len() {
            return f64::INFINITY;
        }
        let off = got.values().zip(parts).map(|(got, part)| (got.cpu / all - part / wanted).abs());
        off.fold(0.0, f64::max)
    };
    Ok(outcomes.iter().filter(|outcome| outcome.policy == of).map(error).collect())
}

/// How near modelled work by the policy's own account of each task's placement is to that by what was observed.
pub fn wiring(experiment: &Experiment, outcomes: &[Outcome]) -> Result<Vec<f64>, Failure> {
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
        // A task of which nothing is known is as far off as can be.
        1.0 - off.fold(0.0, |worst, off| if off.is_nan() { f64::INFINITY } else { off.max(worst) })
    };
    Ok(outcomes.iter().map(near).collect())
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

fn got(machine: &Machine, job: &Workload, outcome: &Outcome, by: By) -> BTreeMap<usize, Got> {
    let rates = machine.kinds(TYPES_MAX).rates;
    let mut tenants: BTreeMap<usize, Got> = BTreeMap::new();
    for (at, task) in job.tasks.iter().enumerate() {
        let got = tenants.entry(by.of(task, at)).or_default();
        let Some(tid) = tid_of(outcome, task) else { continue };
        let Some(seen) = outcome.observed.tasks.get(&tid) else { continue };
        for (speed, ns) in machine::speeds(&rates, task.stalled).iter().zip(&seen.kind_ns) {
            got.work += speed * *ns as f64;
            got.cpu += *ns as f64;
        }
    }
    tenants
}
