// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `compare` as a plan: which options go with which ground.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use comparison::guest::{guest_shape, shape_of};
use comparison::plan::{check_affinity, check_learners, check_real, check_simulated};
use comparison::profile::Given;
use comparison::{
    Contender, Ground, Guest, Here, Job, On, Plan, SEED, Simulated, contender, loading, replay,
    turbo,
};
use machine::CpuSet;
use measuring::{core_types, find_machine};
use policy::Profile;
use policy::table::TYPES_MAX;
use terminal::{Failure, failed, output};

use crate::cli::Compare;

/// The default number of boots of the guest.
const BOOTS: u32 = 3;
/// The default simulated machine.
pub const MACHINE: &str = "numa-2x4";
/// The default number of CPUs of the guest.
const CPUS: u32 = 8;
const NODES: u32 = 4;

/// The longest limit: the kernel's timers take no more than some hundred years.
const LIMIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn limit(arguments: &Compare) -> Duration {
    Duration::from(arguments.limit).min(LIMIT_MAX)
}

/// Checks the command line of `compare`.
pub fn plan(arguments: &Compare) -> Result<Plan, Failure> {
    let mut contenders = contender::parse_all(&arguments.policy)?;
    let mut job = job(arguments)?;
    if Duration::from(arguments.limit).is_zero() {
        return Err(Failure::input("--limit: expected a time of more than 0, such as 90s"));
    }
    if arguments.on != On::Sim {
        let why = "is for --on sim; `paceline record --perfetto` has the timeline of a real kernel";
        refuse(&[("--perfetto", arguments.exports.perfetto.is_some())], why)?;
    }
    let ground: Arc<dyn Ground> = match arguments.on {
        On::Sim => Arc::new(sim(arguments, &contenders, &mut job)?),
        On::Vm => Arc::new(vm(arguments, &contenders, &job)?),
        On::Here => Arc::new(here(arguments, &contenders, &job)?),
    };
    scale_times(&mut contenders, &arguments.scale_option, &*ground)?;
    let profile = match &arguments.profile {
        Some(file) => profile(file, &contenders, &job, &*ground)?,
        None => Profile::new(),
    };
    Ok(Plan {
        profile,
        profile_file: arguments.profile.clone(),
        runs: arguments.runs.unwrap_or(1) as usize,
        seed: arguments.seed.unwrap_or(SEED),
        locks: arguments.locks,
        show: arguments.show_output,
        events: arguments.exports.take_events(),
        ..Plan::new(contenders, job, ground)
    })
}

fn job(arguments: &Compare) -> Result<Job, Failure> {
    match &arguments.workload {
        Some(path) => Job::named(path),
        None if arguments.command.is_empty() => Err(Failure::input(
            "nothing to run; name a workload, rt-app JSON or a recording with --workload, or a command after --",
        )),
        None => Ok(Job::Command { argv: arguments.command.clone(), with: arguments.with.clone() }),
    }
}

/// Multiplies the times of programs' options where the ground's clock is dilated. The options have to be there.
fn scale_times(
    contenders: &mut [Contender],
    options: &[String],
    ground: &dyn Ground,
) -> Result<(), Failure> {
    let scale = match ground.clock() {
        report::Clock::Dilated => ground.cpus() as u64,
        _ => 1,
    };
    for option in options {
        if !contenders.iter().filter_map(Contender::program).any(|one| one.has_option(option)) {
            return Err(Failure::input(format!(
                "--scale-option {option}: no exec: scheduler has --{option}; name it there with its time"
            )));
        }
    }
    for contender in contenders {
        if let Contender::Program(program) = contender {
            program.argv = program.scaled(options, scale)?;
        }
    }
    Ok(())
}

/// Checks that the programs of schedulers exist on this machine.
fn find_programs(contenders: &[Contender]) -> Result<(), Failure> {
    for program in contenders.iter().filter_map(Contender::program) {
        vm::which(program.argv[0].as_ref()).map_err(Failure::input)?;
    }
    Ok(())
}

/// A profile file's figures for this job on this machine. Warns of programs that do not run.
fn profile(
    file: &Path,
    contenders: &[Contender],
    job: &Job,
    ground: &dyn Ground,
) -> Result<Profile, Failure> {
    let given = Given::read(file)?;
    let profile =
        given.profile(ground.kinds()?, contenders.iter().filter_map(Contender::policy))?;
    // It is not known which programs a command will start.
    if matches!(job, Job::Command { .. }) && ground.runs_programs() {
        return Ok(profile);
    }
    let tasks: Vec<String> = job.model()?.tasks.into_iter().map(|task| task.name).collect();
    let (profile, absent) = given.of_tasks(&profile, tasks.iter().map(String::as_str))?;
    if let Some(warning) = given.warning(&absent) {
        output::say(&warning);
    }
    Ok(profile)
}

fn sim(arguments: &Compare, contenders: &[Contender], job: &mut Job) -> Result<Simulated, Failure> {
    refuse(&of_guest(arguments), "is for --on vm; sim takes --machine, --seed and --runs")?;
    only_here(arguments)?;
    check_simulated(contenders)?;
    let why = "shows what a workload writes, and on sim nothing runs that writes; leave it out";
    refuse(&[("--show-output", arguments.show_output)], why)?;
    let named = match (&arguments.machine.machine, &*job) {
        (Some(named), _) => named.clone(),
        (None, Job::Recording(path)) => as_recorded(path)?,
        (None, _) => MACHINE.to_string(),
    };
    let machine = find_machine(&named)?;
    *job = job.clone().fit(&machine)?;
    let workload = job.model()?;
    check_affinity(&workload, machine.cpus.len())?;
    check_learners(contenders, workload.tasks.iter().any(|task| task.hw.is_some()))?;
    Ok(Simulated { machine: Box::new(machine), named, limit: limit(arguments), faults: Vec::new() })
}

/// The plain machine with as many CPUs as the recording's: nothing else is known of the recording's machine.
pub fn as_recorded(path: &Path) -> Result<String, Failure> {
    let cpus = replay::recorded_cpus(path)?;
    machine::plain(cpus).map(|machine| machine.name).ok_or_else(|| {
        Failure::input(format!(
            "{}: recorded on {cpus} CPUs, more than sim has room for ({}); name a machine with --machine",
            path.display(),
            CpuSet::MAX
        ))
    })
}

/// Checks all conditions of a comparison on this machine before anything is loaded.
fn here(arguments: &Compare, contenders: &[Contender], job: &Job) -> Result<Here, Failure> {
    let why =
        "is not for --on here, which has the machine, kernel and chance that it has; leave it out";
    refuse(&of_guest(arguments), why)?;
    let chosen =
        [("--machine", arguments.machine.machine.is_some()), ("--seed", arguments.seed.is_some())];
    refuse(&chosen, why)?;
    check_real(contenders)?;
    find_programs(contenders)?;
    let cpus = live::topology().map_err(failed)?.llc.len();
    match job {
        Job::Command { argv, .. } => {
            let program = vm::which(argv[0].as_ref()).map_err(Failure::input)?;
            let argv: Vec<_> = argv.iter().map(Into::into).collect();
            let is_there =
                |word: &str| vm::which(word.as_ref()).is_ok() || Path::new(word).exists();
            let missing = vm::missing(&argv, &program, &is_there);
            if let Some(one) = missing.iter().find(|one| one.sure) {
                return Err(Failure::input(vm::nowhere(one)));
            }
        }
        Job::Model { workload, .. } => check_affinity(workload, cpus)?,
        Job::Npb { .. } | Job::Recording(_) => job.json().map(drop)?,
    }
    let policies: Vec<_> = contenders.iter().filter_map(Contender::policy).collect();
    if arguments.partial
        && let Some(program) = contenders.iter().find_map(Contender::program)
    {
        return Err(Failure::input(format!(
            "--partial is for policies of paceline; {} has options of its own for that",
            program.label
        )));
    }
    if arguments.partial && policies.is_empty() {
        return Err(Failure::input("--partial is for policies that are loaded; name one"));
    }
    if !policies.is_empty() || contenders.iter().any(|one| one.program().is_some()) {
        loading::may_load()?;
    }
    for policy in policies {
        loading::heed_numbers(policy)?;
        let ignore = arguments.ignore_cgroup_limits;
        loading::heed_limits(policy, arguments.partial, ignore, loading::IGNORE_LIMITS)?;
    }
    if arguments.locks {
        // If this fails, the user is told before the runs.
        live::LockCounter::attach(cpus)
            .map_err(|error| Failure::input(format!("--locks: {error:#}; leave it out")))?;
    }
    let scope = if arguments.partial { live::Scope::Asking } else { live::Scope::All };
    let clocks = arguments.clocks.as_deref().map(turbo::of).transpose()?;
    Ok(Here { cpus, scope, clocks, limit: limit(arguments) })
}

fn vm(arguments: &Compare, contenders: &[Contender], job: &Job) -> Result<Guest, Failure> {
    check_real(contenders)?;
    find_programs(contenders)?;
    only_here(arguments)?;
    if !matches!(job, Job::Command { .. }) {
        let why = "is for a command's files, and a workload needs none; leave it out";
        refuse(&[("--with", !arguments.with.is_empty())], why)?;
    }
    let wanted = &arguments.machine;
    let (mut shape, rates) = match &wanted.machine {
        Some(name) => {
            let machine = find_machine(name)?;
            (shape_of(&machine), machine.kinds(TYPES_MAX).rates)
        }
        None => {
            let cpus = wanted.cpus.unwrap_or(CPUS);
            let nodes = wanted.nodes.unwrap_or(if wanted.cpus.is_some() { 1 } else { NODES });
            (guest_shape(cpus, nodes, wanted.smt.unwrap_or(1), wanted.distance), Vec::new())
        }
    };
    if let Some(kinds) = &wanted.core_types {
        shape.core_types = core_types(kinds, shape.cpus, &[])?;
    }
    shape.check().map_err(Failure::input)?;
    let (clock, emulator) = clock(arguments);
    check_turn(arguments.turn.map(Into::into), clock, shape.cpus)?;
    if let Job::Model { workload, .. } = job {
        check_affinity(workload, shape.cpus)?;
    }
    let emulator = emulator.map_err(Failure::input)?;
    Ok(Guest {
        shape,
        rates,
        clock,
        turn: arguments.turn.map(Into::into),
        boots: arguments.boots.unwrap_or(BOOTS) as usize,
        kernel: arguments.kernel.clone(),
        emulator: Some(emulator),
        keep: None,
        limit: limit(arguments),
        or_in_turn: false,
    })
}

/// The clock and its emulator. Without an option, the clock that tells most: the parallel one where the emulator has it.
fn clock(arguments: &Compare) -> (vm::Clock, Result<PathBuf, vm::BadInput>) {
    let by = |clock| (clock, vm::emulator(arguments.qemu.as_deref(), clock));
    match arguments.clock {
        Some(clock) => by(clock),
        None => match by(vm::Clock::Parallel) {
            (_, Err(_)) => by(vm::Clock::Dilated),
            parallel => parallel,
        },
    }
}

/// Refuses options that only make sense on the user's own kernel.
fn only_here(arguments: &Compare) -> Result<(), Failure> {
    let given = [
        ("--partial", arguments.partial),
        ("--clocks", arguments.clocks.is_some()),
        ("--ignore-cgroup-limits", arguments.ignore_cgroup_limits),
    ];
    refuse(&given, "is for --on here")
}

/// Options of the guest, and whether they were given.
fn of_guest(arguments: &Compare) -> [(&'static str, bool); 12] {
    let machine = &arguments.machine;
    [
        ("--clock", arguments.clock.is_some()),
        ("--turn", arguments.turn.is_some()),
        ("--boots", arguments.boots.is_some()),
        ("--kernel", arguments.kernel.is_some()),
        ("--qemu", arguments.qemu.is_some()),
        ("--scale-option", !arguments.scale_option.is_empty()),
        ("--with", !arguments.with.is_empty()),
        ("--cpus", machine.cpus.is_some()),
        ("--nodes", machine.nodes.is_some()),
        ("--smt", machine.smt.is_some()),
        ("--distance", machine.distance.is_some()),
        ("--core-types", machine.core_types.is_some()),
    ]
}

/// Fails with the first option that was given.
fn refuse(options: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::input(format!("{option} {why}"))),
    }
}

/// Longest turn on the clock `parallel`.
const PARALLEL_TURN_MAX: Duration = Duration::from_millis(1);

/// Checks that the emulator can keep the turns, on a clock with turns.
fn check_turn(turn: Option<Duration>, clock: vm::Clock, cpus: usize) -> Result<(), Failure> {
    let possible = Duration::from_micros(1)..=Duration::from_secs(1);
    match turn {
        Some(_) if clock == vm::Clock::Threads => Err(Failure::input(
            "--turn is for CPUs that run in turn; with --clock threads they run side by side",
        )),
        Some(turn) if clock == vm::Clock::Parallel && turn > PARALLEL_TURN_MAX => Err(
            Failure::input("--turn: with --clock parallel a time from 1us to 1ms, such as 20us"),
        ),
        Some(turn) if !possible.contains(&turn) => {
            Err(Failure::input("--turn: expected a time from 1us to 1s, such as 20us"))
        }
        Some(_) if clock != vm::Clock::Parallel && cpus > 127 => Err(Failure::input(
            "--turn: the emulator has short turns for up to 127 CPUs; take fewer CPUs, or leave --turn out",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The help has them as text.
    #[test]
    fn the_help_names_the_defaults() {
        let command = Cli::command();
        let compare = command.find_subcommand("compare").unwrap();
        for (option, default) in [
            (
                "machine",
                format!(
                    "[default on sim: {MACHINE}; for a recording, plain-N of its number of CPUs]"
                ),
            ),
            ("cpus", format!("(vm only) [default: {CPUS}, on {NODES} nodes]")),
            ("nodes", format!("(vm only) [default: {NODES}; 1 with --cpus]")),
            ("boots", format!("(vm only) [default: {BOOTS}]")),
            ("seed", format!("[default: {SEED}]")),
        ] {
            let argument = compare.get_arguments().find(|it| it.get_id() == option).unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.ends_with(&default), "{option}: {help}");
        }
    }
}
