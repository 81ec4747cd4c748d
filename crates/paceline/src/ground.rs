// SPDX-License-Identifier: GPL-2.0-only
//! Hands a plan to the ground that it names.

use std::io;
use std::time::Duration;

use machine::Machine;
use policy::{Instance, Profile, Told};
use sim::{Scenario, Scheduler, SimError};
use trace::{Event, Outcome};

use crate::contender::{Contender, Model};
use crate::failure::Failure;
use crate::plan::{Job, Place, Plan};
use crate::progress::Progress;
use crate::{here, output, shell};

/// The measurements of a plan.
#[derive(Debug, Default)]
pub struct Measured {
    /// Every run, in the order of the policies.
    pub outcomes: Vec<Outcome>,
    /// The kernel that ran, if one did.
    pub kernel: Option<String>,
    /// Notes about these figures for the reader.
    pub notes: Vec<String>,
    /// Why there are fewer rounds than requested, if the rounds before are complete.
    pub cut: Option<Failure>,
    /// First runs, event by event, if requested and the ground is simulated.
    pub watched: Vec<Watched>,
}

/// A run, event by event.
#[derive(Debug)]
pub struct Watched {
    /// Index of its outcome.
    pub outcome: usize,
    /// Number of CPUs.
    pub cpus: usize,
    /// The process of each task, in the workload's order.
    pub processes: Vec<usize>,
    /// Its events.
    pub events: Vec<Event>,
}

/// Runs the plan.
pub fn run(plan: &Plan, progress: &Progress) -> Result<Measured, Failure> {
    match &plan.place {
        Place::Sim { machine, named, limit, faults } => {
            on_sim(plan, machine, named, *limit, faults)
        }
        Place::Vm { .. } => on_vm(plan, progress),
        Place::Here(here) => here::compare(plan, here, progress),
    }
}

/// Every contender at every seed, as many at a time as there are processors.
fn on_sim(
    plan: &Plan,
    machine: &Machine,
    named: &str,
    limit: Duration,
    faults: &[sim::Fault],
) -> Result<Measured, Failure> {
    let workload = plan.job.model()?;
    let runs: Vec<(&Contender, usize)> = plan
        .contenders
        .iter()
        .flat_map(|contender| (0..plan.runs).map(move |run| (contender, run)))
        .collect();
    let scenario = |(contender, run): &(&Contender, usize)| {
        let scheduler = scheduler(contender);
        let mut scenario =
            Scenario::new(machine.clone(), workload.clone(), scheduler).seed(seed_of(plan, *run));
        scenario.options.cap_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        scenario.options.together = plan.job.starts_together();
        scenario.options.record.events = plan.events && *run == 0;
        scenario.faults = faults.to_vec();
        scenario.profile = plan.profile.clone();
        scenario
    };
    let scenarios: Vec<Scenario> = runs.iter().map(scenario).collect();
    let (mut outcomes, mut watched) = (Vec::new(), Vec::new());
    for ((contender, run), result) in runs.iter().zip(sim::trace_all(&scenarios)) {
        let traced = result.map_err(|error| of_sim(plan, named, contender, *run, &error))?;
        if plan.events && *run == 0 {
            watched.push(Watched {
                outcome: outcomes.len(),
                cpus: machine.cpus.len(),
                processes: workload.tasks.iter().map(|task| task.process).collect(),
                events: traced.events,
            });
        }
        let policy = contender.label().to_string();
        outcomes.push(Outcome { policy, run: *run, ..traced.outcome });
    }
    Ok(Measured { outcomes, notes: plan.job.notes(), watched, ..Measured::default() })
}

/// The simulator's scheduler for a contender.
pub fn scheduler(contender: &Contender) -> Scheduler {
    match contender {
        Contender::Class(class) => match class.model {
            Model::Default => Scheduler::Default,
            Model::Cfs => Scheduler::Cfs,
            Model::Related(how) => Scheduler::Related(Instance::default(&cas::CAS), how),
        },
        Contender::Policy(instance) => Scheduler::Policy(instance.clone()),
    }
}

/// Seeds of further runs follow the first one, modulo the range of numbers.
fn seed_of(plan: &Plan, run: usize) -> u64 {
    plan.seed.wrapping_add(run as u64)
}

/// The outcome of a run. The error of a failed run includes the command that repeats it.
fn of_sim(
    plan: &Plan,
    machine: &str,
    contender: &Contender,
    run: usize,
    error: &SimError,
) -> Failure {
    if matches!(
        error,
        SimError::NoCpus { .. }
            | SimError::NoAffinity { .. }
            | SimError::NoNode { .. }
            | SimError::NoMemory { .. }
            | SimError::Unknown { .. }
            | SimError::Cgroups
            | SimError::NothingTouched
    ) {
        return Failure::input(error);
    }
    let again = match again(plan, machine, contender, run) {
        Some(line) => format!("again with: {line}"),
        None => "to do it again, keep the recording with -o".into(),
    };
    Failure::run(format!("{} on {machine}: {error}; {again}", contender.label()))
}

/// The command that repeats only this run, if there can be one.
fn again(plan: &Plan, machine: &str, contender: &Contender, run: usize) -> Option<String> {
    let mut words = ["paceline", "compare", "--on", "sim"].map(String::from).to_vec();
    let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
    option("--machine", machine.to_string());
    option("--policy", contender.label().to_string());
    option("--seed", seed_of(plan, run).to_string());
    if let Place::Sim { limit, .. } = &plan.place {
        option("--limit", humantime::format_duration(*limit).to_string());
    }
    if let Some(file) = &plan.profile_file {
        option("--profile", file.display().to_string());
    }
    match &plan.job {
        Job::Command { argv, .. } => {
            words.push("--".into());
            words.extend(argv.iter().cloned());
        }
        Job::Model { named, .. } => option("--workload", named.clone()?),
        Job::Npb { .. } | Job::Recording(_) => option("--workload", plan.job.name()),
    }
    Some(shell::line(words.iter().map(String::as_str)))
}

fn on_vm(plan: &Plan, progress: &Progress) -> Result<Measured, Failure> {
    let agent = std::env::current_exe()
        .map_err(|error| Failure::run(format!("cannot find this program's own file: {error}")))?;
    let bars = progress.bars();
    let request = vm::Request { say: progress.log(), ..request(plan)? };
    let kernel = vm::kernel::find(plan.kernel(), None, bars).map_err(of_vm)?;
    let (outcomes, notes) = vm::run_noted(&request, &agent, bars).map_err(of_vm)?;
    Ok(Measured { outcomes, notes, kernel: Some(kernel.release), ..Measured::default() })
}

/// Errors that the caller can fix have exit code 2; all others are failed runs.
pub fn of_vm(error: anyhow::Error) -> Failure {
    let full = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::StorageFull)
    };
    if let Some(bad) = error.downcast_ref::<vm::BadInput>() {
        return Failure::input(bad);
    }
    match error.chain().any(full) {
        true => {
            Failure::input(format!("{error:#}; make room, or set TMPDIR to where there is some"))
        }
        false => {
            output::say_last(&error);
            Failure::run(format!("{error:#}"))
        }
    }
}

fn request(plan: &Plan) -> Result<vm::Request, Failure> {
    let Place::Vm { shape, rates, clock, turn, boots, kernel, keep, limit, or_in_turn } =
        &plan.place
    else {
        unreachable!("only plans for the guest come here")
    };
    Ok(vm::Request {
        policies: plan.contenders.iter().map(reference).collect(),
        workload: match (&plan.job, plan.job.json()?) {
            (Job::Command { argv, with }, _) => vm::WorkloadRef::Command {
                argv: argv.iter().map(Into::into).collect(),
                with: with.clone(),
            },
            (job, json) => {
                vm::WorkloadRef::RtApp { name: job.name(), json: json.unwrap_or_default() }
            }
        },
        shape: shape.clone(),
        clock: *clock,
        turn: *turn,
        boots: *boots,
        runs_per_boot: plan.runs,
        kernel: kernel.clone(),
        cache: None,
        observe: plan.observe,
        record: plan.record,
        count_locks: plan.locks,
        seed: plan.seed,
        profile: profile(plan, rates),
        limit: *limit,
        or_in_turn: *or_in_turn,
        plugin: None,
        keep: keep.clone().map(|folder| vm::Keep {
            folder,
            write: |path, bytes| Ok(report::write_whole(path, bytes)?),
        }),
        say: None,
        show: plan.show.then_some(output::say as fn(&str)),
    })
}

/// Figures of each task of the workload for the policies' control planes: what counters would show, which a guest does
/// not have. Figures from the user take precedence.
fn profile(plan: &Plan, rates: &[f64]) -> Profile {
    let Job::Model { workload, .. } = &plan.job else { return plan.profile.clone() };
    let numbers = |told: Told, task: &workload::Task| match told {
        Told::Misses => Some(vec![task.memory?.mpki]),
        Told::Levels => Some(vec![f64::from(task.widest().level())]),
        Told::Speeds if rates.is_empty() => None,
        Told::Speeds => Some(machine::speeds(rates, task.stalled)),
    };
    // If policies need different figures, the first policy's are used.
    let told =
        plan.contenders.iter().filter_map(Contender::policy).find_map(|own| own.policy.told());
    let known = |task: &workload::Task| Some((task.name.clone(), numbers(told?, task)?));
    let mut profile: Profile = workload.tasks.iter().filter_map(known).collect();
    profile.extend(plan.profile.clone());
    profile
}

fn reference(contender: &Contender) -> vm::PolicyRef {
    match contender {
        Contender::Class(_) => vm::PolicyRef::Default,
        Contender::Policy(instance) => vm::PolicyRef::Instance(instance.clone()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    #[test]
    fn a_recording_is_named_by_its_file_and_one_that_is_not_kept_by_nothing() {
        let words = ["compare", "--on", "sim", "--policy", "fifo", "--workload", "agree-1"];
        let words = [&["paceline"], &words[..]].concat();
        let Verb::Compare(compare) = Cli::try_parse_from(words).unwrap().verb else {
            unreachable!("it compares")
        };
        let mut plan = Plan::new(&compare).unwrap();
        let mut line = |file: Option<&str>| {
            let Job::Model { name, named, .. } = &mut plan.job else { unreachable!("a model") };
            (*name, *named) = ("make -j8".into(), file.map(String::from));
            again(&plan, "numa-2x4", &plan.contenders[0], 1)
        };
        assert!(
            line(Some("make.trace"))
                .unwrap()
                .ends_with(" --seed 2 --limit 10m --workload make.trace")
        );
        assert_eq!(line(None), None);
    }
}
