// SPDX-License-Identifier: GPL-2.0-only
//! Simulations at every point of a grid: jobs times costs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use machine::Machine;
use rayon::prelude::*;
use report::stats::median;
use trace::Outcome;
use workload::Workload;
use workload::hackbench::{self, Hackbench};
use workload::npb::{Npb, Size};

use super::measure::Effort;
use super::outcomes::{ratios, values};
use super::paper::{Channel, Jobs, Quantity, Sweep};
use crate::failure::Failure;
use crate::plan::{Job, Place, Plan, SEED, find_machine};
use crate::progress::Progress;
use crate::{contender, ground};

/// One point, with the runs made there.
#[derive(Debug)]
pub struct Point {
    /// Which set of costs: 0 is the machine's own.
    pub costs: usize,
    /// What differs from the machine's own costs, such as `line_transfer_ns=400`.
    pub set: String,
    /// Which job.
    pub at: At,
    /// Every seed under every policy that came to an end.
    pub outcomes: Vec<Outcome>,
    /// Why a policy came to none: it is missing in `outcomes`.
    pub failed: Vec<String>,
}

/// Where a job stands in a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct At {
    /// As the paper labels it, such as `p4`.
    pub label: String,
    /// The line it belongs to.
    pub series: String,
    /// Its place on that line; None where jobs have names and no order.
    pub x: Option<f64>,
}

impl Point {
    /// The median over the seeds of `over / under`.
    pub fn ratio(&self, quantity: Quantity, over: &str, under: &str) -> Option<f64> {
        median(&ratios(&self.outcomes, over, under, quantity))
    }

    /// The median over the seeds.
    pub fn value(&self, quantity: Quantity, of: &str) -> Option<f64> {
        let values: Vec<f64> =
            values(&self.outcomes, of, quantity).into_iter().map(|(_, value)| value).collect();
        median(&values)
    }
}

/// Runs every point, as many at a time as there are processors.
pub fn run(sweep: &Sweep, effort: &Effort, progress: &Progress) -> Result<Vec<Point>, Failure> {
    let machine = find_machine(&sweep.machine)?;
    let contenders = contender::parse_all(std::slice::from_ref(&sweep.policies))?;
    let jobs = jobs(&sweep.jobs, effort.quick, machine.cpus.len());
    let swept = if effort.quick { &sweep.swept[..sweep.swept.len().min(1)] } else { &sweep.swept };
    let mut plans = Vec::new();
    for (costs, (set, machine)) in machines(&machine, swept)?.into_iter().enumerate() {
        for (at, workload) in &jobs {
            let plan = Plan {
                contenders: contenders.clone(),
                job: Job::built(workload.clone()),
                place: Place::Sim { machine: Box::new(machine.clone()), limit: LIMIT },
                // Ends of ranges differ by far more than seeds do.
                runs: if effort.quick || costs > 0 { 1 } else { sweep.seeds },
                seed: SEED,
                locks: false,
            };
            plans.push((costs, set.clone(), at.clone(), plan));
        }
    }
    let (done, all) = (AtomicUsize::new(0), plans.len());
    let point = |(costs, set, at, plan): (usize, String, At, Plan)| {
        let (outcomes, failed) = each_policy(&plan, &at.label, progress);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.detail(&format!("{}: {done} of {all} points", sweep.title));
        Point { costs, set, at, outcomes, failed }
    };
    Ok(plans.into_par_iter().map(point).collect())
}

/// One policy that comes to no end must not take the others' results with it.
fn each_policy(plan: &Plan, at: &str, progress: &Progress) -> (Vec<Outcome>, Vec<String>) {
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for contender in &plan.contenders {
        let alone = Plan { contenders: vec![contender.clone()], ..plan.clone() };
        match ground::run(&alone, progress) {
            Ok(measured) => outcomes.extend(measured.outcomes),
            Err(failure) => {
                let why = failure.to_string();
                let why = why.split("; ").next().unwrap_or_default();
                failed.push(format!("{at}: {why}"));
            }
        }
    }
    (outcomes, failed)
}

/// A simulation that has not ended after so much virtual time is given up.
const LIMIT: Duration = Duration::from_secs(60);

/// The machine, and the same with each cost at either end of its range; with what differs.
fn machines(machine: &Machine, swept: &[String]) -> Result<Vec<(String, Machine)>, Failure> {
    let mut sets = vec![(String::new(), machine.clone())];
    for cost in swept {
        let range = machine.range(cost).ok_or_else(|| {
            Failure::input(format!("machine {} gives no range of {cost}", machine.name))
        })?;
        for value in range {
            let set = machine.clone().with_cost(cost, value).map_err(Failure::input)?;
            sets.push((format!("{cost}={value}"), set));
        }
    }
    Ok(sets)
}

fn jobs(jobs: &Jobs, quick: bool, cpus: usize) -> Vec<(At, Workload)> {
    match jobs {
        Jobs::Hackbench { groups, quick_groups, loops, channels } => {
            let groups = if quick { quick_groups } else { groups };
            let grid = channels.iter().flat_map(|channel| groups.iter().map(move |n| (channel, n)));
            grid.map(|(channel, groups)| storm(*channel, *groups, *loops)).collect()
        }
        Jobs::Npb { names, quick_names, tasks_per_thread, work_ms, waits, planes } => {
            let names = if quick { quick_names } else { names };
            let loads = tasks_per_thread.iter().zip(waits.iter().zip(planes));
            let grid = loads.flat_map(|load| names.iter().map(move |name| (load, name)));
            grid.filter_map(|((tasks, (waits, planes)), name)| {
                benchmark(name, *tasks, cpus, (work_ms * 1_000_000, *waits, *planes))
            })
            .collect()
        }
    }
}

/// A model with so many threads a CPU, bounded in work, waits and planes.
fn benchmark(
    name: &str,
    tasks: usize,
    cpus: usize,
    (work_ns, waits, planes_max): (u64, u64, u64),
) -> Option<(At, Workload)> {
    let models = Npb::embedded();
    let size = Size { threads: tasks * cpus, cpus, steps_max: 0, planes_max, seed: SEED };
    let steps_max = models.steps(name, size, work_ns, waits)?;
    let at = At {
        label: format!("{name} ×{tasks}"),
        series: format!("{tasks} task{} a thread", if tasks == 1 { "" } else { "s" }),
        x: None,
    };
    models.build(name, Size { steps_max, ..size }).map(|workload| (at, workload))
}

fn storm(channel: Channel, groups: usize, loops: u64) -> (At, Workload) {
    let (mark, series, kind) = match channel {
        Channel::Pipe => ("p", "pipes", hackbench::Channel::Pipe),
        Channel::Socket => ("", "sockets", hackbench::Channel::Socket),
    };
    let at =
        At { label: format!("{mark}{groups}"), series: series.to_string(), x: Some(groups as f64) };
    (at, Hackbench { groups, loops, channel: kind, ..Hackbench::default() }.build())
}
