// SPDX-License-Identifier: GPL-2.0-only
//! Simulations at every point of a grid: jobs times costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use comparison::{Job, Plan, SEED, Simulated, contender};
use machine::Machine;
use measuring::find_machine;
use rayon::prelude::*;
use report::stats::median;
use sim::{Change, Fault};
use terminal::{Failure, Progress};
use trace::Outcome;
use workload::Workload;
use workload::apps::{Apps, Ring};
use workload::hackbench::{Channel, Hackbench};
use workload::mix;
use workload::npb::{Npb, Size};

use crate::measure::Effort;
use crate::outcomes::{bare, ratios, values};
use crate::paper::{Jobs, Quantity, Sweep, Unplug};

/// One point, with its runs.
#[derive(Debug)]
pub struct Point {
    /// Index of its set of costs: 0 is the machine's own.
    pub costs: usize,
    /// The difference from the machine's own costs, such as `line_transfer_ns=400`.
    pub set: String,
    /// Its job.
    pub at: At,
    /// Every seed under every policy that ended.
    pub outcomes: Vec<Outcome>,
    /// The runs that did not end: they are missing in `outcomes`.
    pub failed: Vec<Failed>,
}

/// A policy that did not end.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Its label.
    pub policy: String,
    /// Its job, and the reason.
    pub why: String,
}

/// A job's place in a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct At {
    /// The paper's label, such as `p4`.
    pub label: String,
    /// The line it belongs to.
    pub series: String,
    /// Its place on that line; None if jobs have names and no order.
    pub x: Option<f64>,
}

impl Point {
    /// The median over the seeds of `over / under`.
    pub fn ratio(&self, quantity: Quantity, over: &str, under: &str) -> Option<f64> {
        median(&ratios(&self.outcomes, over, under, quantity))
    }

    /// The median over the seeds.
    pub fn value(&self, quantity: Quantity, of: &str) -> Option<f64> {
        median(&bare(values(&self.outcomes, of, quantity)))
    }
}

/// Runs every point, as many at a time as there are processors.
pub fn run(sweep: &Sweep, effort: &Effort, progress: &Progress) -> Result<Vec<Point>, Failure> {
    let machine = find_machine(&sweep.machine)?;
    let machine = match sweep.cpus {
        Some(cpus) => machine.booted_with(cpus),
        None => machine,
    };
    let contenders = contender::parse_all(std::slice::from_ref(&sweep.policies))?;
    let swept = if effort.quick { &sweep.swept[..sweep.swept.len().min(1)] } else { &sweep.swept };
    let mut plans = Vec::new();
    let touched = if effort.quick { &[][..] } else { &sweep.touched[..] };
    let apps = Apps::embedded();
    let mut sets: Vec<(String, Machine, Apps)> = machines(&machine, swept)?
        .into_iter()
        .map(|(set, machine)| (set, machine, apps.clone()))
        .collect();
    let ends = programs(&apps, touched)?.into_iter();
    sets.extend(ends.map(|(set, apps)| (set, machine.clone(), apps)));
    for (costs, (set, machine, apps)) in sets.into_iter().enumerate() {
        let jobs = jobs(&sweep.jobs, effort.quick, machine.cpus.len(), &apps)?;
        for (at, workload) in &jobs {
            let job = match sweep.together {
                true => Job::together(workload.clone()),
                false => Job::built(workload.clone()),
            };
            let ground = Arc::new(Simulated {
                machine: Box::new(machine.clone()),
                named: machine.name.clone(),
                limit: LIMIT,
                faults: sweep.unplug.as_ref().map_or(Vec::new(), faults),
            });
            // Also at ends of ranges: if threads are placed by chance, a seed may be far from the median.
            let runs = if effort.quick { 1 } else { sweep.seeds };
            let plan = Plan { runs, ..Plan::new(contenders.clone(), job, ground) };
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

/// A CPU that goes offline and comes back.
fn faults(unplug: &Unplug) -> Vec<Fault> {
    let at = |ms: u64, change| Fault { at_ns: ms * 1_000_000, change };
    vec![
        at(unplug.from_ms, Change::Offline(unplug.cpu)),
        at(unplug.to_ms, Change::Online(unplug.cpu)),
    ]
}

/// Runs each policy separately: one that does not end must not lose the others' results.
fn each_policy(plan: &Plan, at: &str, progress: &Progress) -> (Vec<Outcome>, Vec<Failed>) {
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    for contender in &plan.contenders {
        let alone = Plan { contenders: vec![contender.clone()], ..plan.clone() };
        match alone.run(progress) {
            Ok(measured) => outcomes.extend(measured.outcomes),
            Err(failure) => {
                let why = failure.to_string();
                let why = why.split("; ").next().unwrap_or_default();
                let policy = contender.label().to_string();
                failed.push(Failed { policy, why: format!("{at}: {why}") });
            }
        }
    }
    (outcomes, failed)
}

/// A simulation that has not ended after this much virtual time is given up.
const LIMIT: Duration = Duration::from_secs(60);

/// The machine, and the same with each cost at either end of its range; each with its difference.
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

/// The models with each number at either end of its range; each with its difference.
fn programs(apps: &Apps, touched: &[String]) -> Result<Vec<(String, Apps)>, Failure> {
    let mut sets = Vec::new();
    for name in touched {
        let unknown = || Failure::input(format!("the models give no range of {name}"));
        for value in apps.range(name).ok_or_else(unknown)? {
            let set = apps.clone().with(name, value).ok_or_else(unknown)?;
            sets.push((format!("{name}={value}"), set));
        }
    }
    Ok(sets)
}

fn jobs(
    jobs: &Jobs,
    quick: bool,
    cpus: usize,
    apps: &Apps,
) -> Result<Vec<(At, Workload)>, Failure> {
    Ok(match jobs {
        Jobs::Models { names, quick_names } => {
            let names = if quick { quick_names } else { names };
            names.iter().map(|name| model(apps, name)).collect::<Result<_, _>>()?
        }
        Jobs::Ring { tasks, kilobytes, quick_kilobytes } => {
            let sizes = if quick { quick_kilobytes } else { kilobytes };
            let rings = [(ALONE, Ring::Threads, 1), (THREADS, Ring::Threads, *tasks)];
            let rings = rings.into_iter().chain([(PROCESSES, Ring::Processes, *tasks)]);
            let grid = rings.flat_map(|ring| sizes.iter().map(move |size| (ring, *size)));
            grid.map(|(ring, size)| ring_of(apps, ring, size)).collect()
        }
        Jobs::Busy { duration_ms } => {
            let workload = mix::hogs_and_sleepers(cpus, duration_ms * 1_000_000);
            let label = workload.name.clone();
            vec![(At { series: label.clone(), label, x: None }, workload)]
        }
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
    })
}

fn model(apps: &Apps, name: &str) -> Result<(At, Workload), Failure> {
    let unknown = || Failure::input(format!("no model is called {name}"));
    let at = At { label: name.to_string(), series: "models".into(), x: None };
    Ok((at, apps.build(name).ok_or_else(unknown)?))
}

const ALONE: &str = "alone";
const THREADS: &str = "threads";
const PROCESSES: &str = "processes";

fn ring_of(apps: &Apps, (series, ring, tasks): (&str, Ring, usize), kb: u64) -> (At, Workload) {
    let at = At { label: format!("{series}, {kb} KB"), series: series.into(), x: Some(kb as f64) };
    (at, apps.ring(ring, tasks, kb * 1024))
}

/// Cost of a switch in a ring, beyond the cost of the same sum and pipe for a task alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchCost {
    /// Array of each task.
    pub kilobytes: u64,
    /// Among threads of one process, in s: all turns of one task in the run together.
    pub threads_s: f64,
    /// Among processes.
    pub processes_s: f64,
}

/// As in lat_ctx: the time of a task's turn in a ring of `tasks`, less that of a task which passes the token to itself.
/// At the machine's own costs.
pub fn switch_costs(points: &[Point], of: &str, tasks: usize) -> Vec<SwitchCost> {
    let elapsed = |series: &str, x: Option<f64>| {
        let at = |point: &&Point| point.costs == 0 && point.at.series == series && point.at.x == x;
        points.iter().find(at)?.value(Quantity::Elapsed, of)
    };
    let sizes = points.iter().filter(|point| point.costs == 0 && point.at.series == ALONE);
    let cost = |point: &Point| {
        let alone_s = elapsed(ALONE, point.at.x)?;
        let beyond = |series| Some(elapsed(series, point.at.x)? / tasks as f64 - alone_s);
        Some(SwitchCost {
            kilobytes: point.at.x? as u64,
            threads_s: beyond(THREADS)?,
            processes_s: beyond(PROCESSES)?,
        })
    };
    sizes.filter_map(cost).collect()
}

/// A model with so many threads per CPU, bounded in work, waits and planes.
fn benchmark(
    name: &str,
    tasks: usize,
    cpus: usize,
    (work_ns, waits, planes_max): (u64, u64, u64),
) -> Option<(At, Workload)> {
    let models = Npb::embedded();
    let size = Size { threads: tasks * cpus, cpus, steps_max: u64::MAX, planes_max, seed: SEED };
    let at = At {
        label: format!("{name} ×{tasks}"),
        series: format!("{tasks} task{} a thread", if tasks == 1 { "" } else { "s" }),
        x: None,
    };
    models.build_for(name, size, work_ns, waits).map(|workload| (at, workload))
}

fn storm(channel: Channel, groups: usize, loops: u64) -> (At, Workload) {
    let (mark, series) = match channel {
        Channel::Pipe => ("p", "pipes"),
        Channel::Socket => ("", "sockets"),
    };
    let at =
        At { label: format!("{mark}{groups}"), series: series.to_string(), x: Some(groups as f64) };
    (at, Hackbench { groups, loops, channel, ..Hackbench::default() }.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(series: &str, elapsed_ns: u64) -> Point {
        let outcome = Outcome { policy: "o1".into(), elapsed_ns, ..Outcome::default() };
        let at = At { label: String::new(), series: series.into(), x: Some(64.0) };
        Point { costs: 0, set: String::new(), at, outcomes: vec![outcome], failed: Vec::new() }
    }

    #[test]
    fn a_switch_costs_what_a_turn_takes_beyond_a_task_alone() {
        let points = [ring(ALONE, 1_000), ring(THREADS, 6_000), ring(PROCESSES, 12_000)];
        let [cost] = switch_costs(&points, "o1", 3)[..] else { panic!("one size") };
        assert_eq!(cost.kilobytes, 64);
        assert!((cost.threads_s - 1e-6).abs() < 1e-12, "{cost:?}");
        assert!((cost.processes_s - 3e-6).abs() < 1e-12, "{cost:?}");
        assert!(switch_costs(&points[..2], "o1", 3).is_empty(), "no processes, no ratio");
    }

    #[test]
    fn numbers_of_models_are_set_to_both_ends() {
        let sets = programs(&Apps::embedded(), &["chat.shared_pages".into()]).unwrap();
        let names: Vec<&str> = sets.iter().map(|(set, _)| set.as_str()).collect();
        assert_eq!(names, ["chat.shared_pages=5", "chat.shared_pages=60"]);
        assert!(programs(&Apps::embedded(), &["chat.none".into()]).is_err());
    }
}
