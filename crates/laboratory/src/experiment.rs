// SPDX-License-Identifier: GPL-2.0-only
//! Turns an experiment of a paper into a plan, and runs it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use comparison::guest::{clock_of, guest_shape, shape_of};
use comparison::{Contender, Ground, Guest, On, Plan, Simulated, contender};
use machine::Machine;
use measuring::{core_types, find_machine};
use policy::table::TYPES_MAX;
use terminal::{Failure, Progress};
use trace::Outcome;
use workload::vector::Beside;
use workload::{Object, Step, Task, Vector, Workload, mix};

use crate::faults;
use crate::measure::Effort;
use crate::paper::{Experiment, Job};

const MS: u64 = 1_000_000;

/// Built-in scripts, by name.
const SCRIPTS: &[(&str, &str)] = &[
    ("build", include_str!("../../../workloads/build.sh")),
    ("forks", include_str!("../../../workloads/forks.sh")),
    ("make", include_str!("../../../workloads/make.sh")),
    ("sqlite", include_str!("../../../workloads/sqlite.sh")),
    ("web", include_str!("../../../workloads/web.sh")),
];

/// Longest run of an experiment on its ground's clock.
const LIMIT: Duration = Duration::from_secs(600);
/// The same for a fault, which is done to one policy after the other in a run.
const FAULTS_LIMIT: Duration = Duration::from_secs(1800);

/// Beside the outcomes of an experiment: what its reader has to know of its ground.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The guest's kernel.
    pub kernel: Option<String>,
    /// Other people's schedulers that failed, and why.
    pub failed: Vec<String>,
}

/// Runs an experiment. If another program's scheduler fails, all others are still measured.
pub fn run(
    experiment: &Experiment,
    effort: &Effort,
    progress: &Progress,
) -> Result<(Vec<Outcome>, About), Failure> {
    let named = std::iter::once(experiment.policies.clone());
    let outside = peers_here(experiment).map(|peer| format!("exec:{peer}"));
    let named: Vec<String> = named.chain(outside.filter(|peer| effort.needs(peer))).collect();
    let (measured, apart) = match plan(experiment, &named, effort)?.run(progress) {
        Err(_) if named.len() > 1 => {
            (plan(experiment, &named[..1], effort)?.run(progress)?, &named[1..])
        }
        together => (together?, &[][..]),
    };
    let mut about = About { kernel: measured.kernel, ..About::default() };
    let mut outcomes = measured.outcomes;
    for peer in apart {
        match plan(experiment, std::slice::from_ref(peer), effort)?.run(progress) {
            Ok(own) => outcomes.extend(own.outcomes),
            Err(failure) => about.failed.push(format!("{peer}: {failure}")),
        }
    }
    Ok((outcomes, about))
}

/// The experiment's peers that are on this machine.
pub fn peers_here(experiment: &Experiment) -> impl Iterator<Item = &String> {
    experiment.peers.iter().filter(|peer| vm::which(peer.as_ref()).is_ok())
}

/// The clock of its seconds.
pub fn clock(experiment: &Experiment) -> report::Clock {
    match (experiment.ground, experiment.clock) {
        (On::Sim, _) => report::Clock::Simulated,
        (On::Here, _) => report::Clock::Real,
        (On::Vm, clock) => clock_of(clock.unwrap_or(vm::Clock::Dilated)),
    }
}

fn plan(experiment: &Experiment, named: &[String], effort: &Effort) -> Result<Plan, Failure> {
    let boots = if effort.quick { experiment.quick_boots } else { experiment.boots };
    let runs = if effort.quick { experiment.quick_runs } else { experiment.runs };
    let (ground, runs) = match experiment.ground {
        On::Sim => (sim(experiment)?, boots * runs),
        On::Vm => (vm(experiment, effort, boots)?, runs),
        On::Here => return Err(Failure::input("an experiment runs on sim or vm")),
    };
    let mut policies = contender::parse_all(named)?;
    policies.retain(|policy| effort.needs(policy.label()));
    let (contenders, job) = match &experiment.job {
        Job::Fault { name, programs, before } => {
            let job = fault(name, before, programs, &policies)?;
            (contender::parse_all(&["default".into()])?, job)
        }
        other => (policies, job(other)?),
    };
    let observe = !matches!(experiment.job, Job::Fault { .. });
    Ok(Plan {
        runs,
        profile: experiment.profile.clone(),
        locks: experiment.locks,
        observe,
        record: experiment.record,
        ..Plan::new(contenders, job, ground)
    })
}

/// A script that loads the policies itself.
fn fault(
    name: &str,
    before: &str,
    programs: &[String],
    policies: &[Contender],
) -> Result<comparison::Job, Failure> {
    let labels: Vec<&str> = policies.iter().map(Contender::label).collect();
    let script = faults::script(name, before, &labels)?;
    let programs = faults::PROGRAMS.iter().map(|name| name.to_string()).chain(programs.to_vec());
    job(&Job::Shell { script, programs: programs.collect() })
}

fn sim(experiment: &Experiment) -> Result<Arc<dyn Ground>, Failure> {
    let name = experiment.machine.as_deref().unwrap_or("numa-2x4");
    let mut machine = find_machine(name)?;
    for (cost, value) in &experiment.costs {
        machine = machine.with_cost(cost, *value).map_err(Failure::input)?;
    }
    let (machine, named) = (Box::new(machine), name.to_string());
    Ok(Arc::new(Simulated { machine, named, limit: LIMIT, faults: Vec::new() }))
}

fn vm(experiment: &Experiment, effort: &Effort, boots: usize) -> Result<Arc<dyn Ground>, Failure> {
    let (mut shape, rates) = match &experiment.machine {
        Some(name) => {
            let machine = find_machine(name)?;
            let mut shape = shape_of(&machine);
            if let Some(cpus) = experiment.cpus {
                (shape.cpus, shape.core_types) = (cpus as usize, Vec::new());
            }
            if experiment.permanent_license {
                shape.clocks.release_ns = LIMIT.as_nanos() as u64;
            }
            (shape, machine.kinds(TYPES_MAX).rates)
        }
        None => {
            let (cpus, smt) = (experiment.cpus.unwrap_or(1), experiment.smt.unwrap_or(1));
            let nodes = experiment.nodes.unwrap_or(1);
            (guest_shape(cpus, nodes, smt, None), Vec::new())
        }
    };
    shape.numa_balancing = !experiment.no_numa_balancing;
    if let Some(kinds) = &experiment.core_types {
        shape.core_types = core_types(kinds, shape.cpus, &[])?;
    }
    let faults = matches!(experiment.job, Job::Fault { .. });
    Ok(Arc::new(Guest {
        shape,
        rates,
        clock: experiment.clock.unwrap_or(vm::Clock::Dilated),
        turn: experiment.turn_us.map(Duration::from_micros),
        boots,
        kernel: effort.kernel.clone(),
        emulator: None,
        keep: effort.keep.clone(),
        limit: if faults { FAULTS_LIMIT } else { LIMIT },
        or_in_turn: faults,
    }))
}

/// A workload's tasks.
pub fn tasks(wanted: &Job) -> Result<Vec<Task>, Failure> {
    Ok(workload(wanted)?.tasks)
}

/// The workload itself.
pub fn workload(wanted: &Job) -> Result<Workload, Failure> {
    job(wanted)?.model()
}

/// The machine that it names, and its workload. Fails with `lacks` if it names none.
pub fn described(experiment: &Experiment, lacks: &str) -> Result<(Machine, Workload), Failure> {
    let machine = experiment.machine.as_deref().ok_or_else(|| Failure::input(lacks))?;
    Ok((find_machine(machine)?, workload(&experiment.job)?))
}

/// Names of a workload's tasks.
pub fn task_names(wanted: &Job) -> Result<Vec<String>, Failure> {
    Ok(tasks(wanted)?.into_iter().map(|task| task.name).collect())
}

fn job(job: &Job) -> Result<comparison::Job, Failure> {
    match job {
        Job::Command(line) => Ok(comparison::Job::Command {
            argv: line.split_whitespace().map(String::from).collect(),
            with: Vec::new(),
        }),
        Job::Shell { script, programs } => Ok(comparison::Job::Command {
            argv: ["sh", "-c", script].map(String::from).to_vec(),
            with: programs
                .iter()
                .map(|name| vm::which(name.as_ref()).map_err(Failure::input))
                .collect::<Result<_, _>>()?,
        }),
        Job::Script { name, programs } => {
            let (_, text) = SCRIPTS
                .iter()
                .find(|(known, _)| known == name)
                .ok_or_else(|| Failure::input(format!("{name} is no script of workloads/")))?;
            self::job(&Job::Shell { script: text.to_string(), programs: programs.clone() })
        }
        Job::Fault { .. } => Err(Failure::input("a fault is done to a guest, and is no workload")),
        Job::File(name) => comparison::Job::file(Path::new(name)),
        Job::Burners { tasks, work_ms } => {
            Ok(comparison::Job::built(mix::burners(*tasks, work_ms * MS)))
        }
        Job::Mixed { cpus, duration_ms } => {
            Ok(comparison::Job::built(mix::mixed(*cpus, duration_ms * MS)))
        }
        Job::Beside { threads, how, duration_ms } => {
            Ok(comparison::Job::built(steady(*threads, *how, duration_ms * MS)))
        }
        Job::PingPong { rounds, after_wide } => {
            Ok(comparison::Job::built(ping_pong(*rounds, *after_wide)))
        }
        Job::Alone { rounds } => Ok(comparison::Job::built(alone(*rounds))),
    }
}

/// Programs that only work, one with wide code all the time.
fn steady(threads: [usize; 2], how: Beside, duration_ns: u64) -> Workload {
    let task = |(name, at, vector): (&str, usize, Vector)| Task {
        name: format!("{name}-{at}"),
        process: usize::from(name == "b") + 1,
        vector,
        steps: vec![Step::Repeat { times: None, steps: vec![Step::Run { work_ns: 1_000_000 }] }],
        ..Task::default()
    };
    let (first, second) = match how {
        Beside::Mixed => (Vector::Avx512, Vector::None),
        Beside::Scalar => (Vector::None, Vector::None),
        Beside::Culprits => (Vector::Avx512, Vector::Avx512),
    };
    let all = (0..threads[0]).map(|at| ("a", at, first));
    let all = all.chain((0..threads[1]).map(|at| ("b", at, second)));
    Workload {
        name: "steady mix".into(),
        tasks: all.map(task).collect(),
        duration_ns: Some(duration_ns),
        ..Workload::default()
    }
}

/// Long enough for a policy to learn of a program while it runs.
const WIDE_NS: u64 = 400 * MS;

/// Two tasks and two pipes, a byte in flight: each read blocks, so each write is a wakeup.
fn ping_pong(rounds: u64, after_wide: bool) -> Workload {
    let write = |channel| Step::Write { channel, bytes: 1 };
    let read = |channel| Step::Read { channel, bytes: 1 };
    let task = |name: &str, steps| Task {
        name: name.to_string(),
        delay_ns: if after_wide { WIDE_NS + 100 * MS } else { 0 },
        steps: vec![Step::Repeat { times: Some(rounds), steps }],
        ..Task::default()
    };
    let wide = Task {
        name: "wide".to_string(),
        steps: vec![Step::Run { work_ns: WIDE_NS }],
        ..Task::default()
    };
    let pair = [task("ping", vec![write(0), read(1)]), task("pong", vec![read(0), write(1)])];
    Workload {
        name: format!("ping-pong of {rounds} rounds"),
        tasks: pair.into_iter().chain(after_wide.then_some(wide)).collect(),
        objects: vec![pipe(), pipe()],
        ..Workload::default()
    }
}

/// The same reads and writes by one task, which finds each byte ready.
fn alone(rounds: u64) -> Workload {
    let steps = vec![
        Step::Write { channel: 0, bytes: 1 },
        Step::Read { channel: 0, bytes: 1 },
        Step::Write { channel: 1, bytes: 1 },
        Step::Read { channel: 1, bytes: 1 },
    ];
    Workload {
        name: format!("{rounds} rounds alone"),
        tasks: vec![Task {
            name: "alone".to_string(),
            steps: vec![Step::Repeat { times: Some(rounds), steps }],
            ..Task::default()
        }],
        objects: vec![pipe(), pipe()],
        ..Workload::default()
    }
}

fn pipe() -> Object {
    Object::Pipe { capacity: workload::hackbench::PIPE_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policies_run_that_the_figures_need() {
        let mut paper = crate::paper::find("flsched").unwrap().pop().unwrap();
        let experiment = paper.experiment.get_mut("queue-sim").unwrap();
        experiment.policies = "default,flsched,fifo".into();
        let ran = |needed: Option<&[&str]>| {
            let needed = needed.map(|names| names.iter().map(|name| name.to_string()).collect());
            let effort = Effort { policies: needed, quick: true, ..Effort::default() };
            let (outcomes, _) = run(experiment, &effort, &Progress::new(0)).unwrap();
            let mut names: Vec<_> = outcomes.into_iter().map(|outcome| outcome.policy).collect();
            names.sort();
            names.dedup();
            names
        };
        assert_eq!(ran(None), ["default", "fifo", "flsched"]);
        assert_eq!(ran(Some(&["flsched", "cas"])), ["flsched"]);
    }
}
