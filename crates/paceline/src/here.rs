// SPDX-License-Identifier: GPL-2.0-only
//! This machine's own kernel: the conditions for loading a policy, and comparisons on it.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live::{
    Executed, Execution, Groups, Interrupted, Limit, OwnClass, Scope, Show, Standing, Trial,
};
use policy::native::MAX_CPUS;
use policy::{Clocks, Instance};
use tempfile::TempDir;

use crate::contender::Contender;
use crate::failure::{Failure, failed};
use crate::ground::Measured;
use crate::plan::{Job, Plan};
use crate::progress::Progress;
use crate::{interrupt, output, scratch};

/// How a comparison runs here.
#[derive(Clone, Debug)]
pub struct Here {
    /// Hardware threads of this machine.
    pub cpus: usize,
    /// The tasks that policies are in charge of.
    pub scope: Scope,
    /// Its turbo table and licenses, which no kernel reports.
    pub clocks: Option<Clocks>,
    /// Longest time of one run.
    pub limit: Duration,
}

/// Runs every contender in turn, for as many rounds as there are runs. In each next round the first one moves to the
/// end.
pub fn compare(plan: &Plan, here: &Here, progress: &Progress) -> Result<Measured, Failure> {
    let standing = Standing::now();
    let stop = interrupt::in_charge()?;
    let files = Files::new(plan)?;
    if plan.contenders.iter().any(|contender| contender.policy().is_some()) {
        outrank_policies();
    }
    let mut notes = Vec::new();
    let blind = live::Observer::attach(here.cpus).err();
    if let Some(error) = &blind {
        notes.push(format!("switches, waits and idle time are not known: {error:#}"));
    }
    let (mut outcomes, mut cut) = (Vec::new(), None);
    'rounds: for run in 0..plan.runs {
        for place in live::rotated(run, plan.contenders.len()) {
            let contender = &plan.contenders[place];
            let trial = Trial {
                label: contender.label(),
                instance: contender.policy(),
                profile: &plan.profile,
                scope: here.scope,
                own: true,
                run,
                boot: 0,
                observe: blind.is_none(),
                record: None,
                count_locks: plan.locks,
            };
            let step = RefCell::new(String::new());
            let mut say = |text: &str| {
                anyhow::ensure!(!stop.load(Ordering::Relaxed), Interrupted);
                progress.phase(text);
                *step.borrow_mut() = text.to_string();
                Ok(())
            };
            let mut show = |line: &str| progress.known(&format!("[{}] {line}", step.borrow()));
            // CPUs may have come or gone since.
            let mut topology = live::topology().map_err(failed)?;
            topology.clocks = here.clocks.clone().unwrap_or_default();
            let mut execute = || {
                let show = plan.show.then_some(&mut show as Show<'_>);
                files.execute(plan, here, standing, &stop, show)
            };
            let mut run = || {
                let own = trial.instance.is_none().then(OwnClass::begin).transpose()?;
                let tried = trial.run(&topology, &mut say, &mut execute)?;
                own.map_or(Ok(()), OwnClass::end)?;
                tried.folded()
            };
            match run() {
                Ok(outcome) => outcomes.push((place, outcome)),
                Err(error) => {
                    cut = Some(of_trial(contender, &error));
                    break 'rounds;
                }
            }
            progress.step();
        }
    }
    if let Some(failure) = &cut {
        let whole = outcomes.len() / plan.contenders.len();
        if whole == 0 {
            return Err(failure.clone());
        }
        outcomes.truncate(whole * plan.contenders.len());
        notes.push(format!("{whole} of {} rounds: {}", plan.runs, why(failure)));
    }
    outcomes.sort_by_key(|(place, outcome)| (*place, outcome.run));
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    let kernel = Some(live::kernel_release());
    Ok(Measured { outcomes, kernel, notes, cut, ..Measured::default() })
}

/// Why a comparison has fewer rounds than requested.
fn why(failure: &Failure) -> String {
    match failure {
        Failure::Status(_) => "it was interrupted".into(),
        other => other.to_string(),
    }
}

/// Files of a run: its workload and its output.
struct Files {
    folder: TempDir,
    is_worker: bool,
}

impl Files {
    fn new(plan: &Plan) -> Result<Self, Failure> {
        let folder = scratch::folder()?;
        let json = plan.job.json()?;
        if let Some(json) = &json {
            let written = fs::write(folder.path().join(WORKLOAD), json);
            written.map_err(|error| scratch::no_room(&error))?;
        }
        Ok(Files { folder, is_worker: json.is_some() })
    }

    fn execute(
        &self,
        plan: &Plan,
        here: &Here,
        standing: Standing,
        stop: &Arc<AtomicBool>,
        show: Option<Show<'_>>,
    ) -> anyhow::Result<Executed> {
        let path = |name: &str| self.folder.path().join(name);
        let report = self.is_worker.then(|| path(REPORT));
        let mut command = match &plan.job {
            Job::Command { argv, .. } => {
                let mut command = Command::new(&argv[0]);
                command.args(&argv[1..]);
                command
            }
            Job::Model { .. } | Job::Npb { .. } | Job::Recording(_) => {
                let agent = std::env::current_exe()?;
                vm::guest::worker_command(agent, &plan.job.name(), path(WORKLOAD), path(REPORT))
            }
        };
        standing.give(&mut command);
        if here.scope == Scope::Asking {
            live::ask_for_sched_ext(&mut command);
        }
        let what = Execution {
            name: plan.job.name(),
            output: path(OUTPUT),
            errors: path(ERRORS),
            report,
            limit: here.limit,
            stop: Some(stop.clone()),
        };
        let _groups = match &plan.job {
            Job::Model { workload, .. } => Some(Groups::to_come(workload)),
            _ => None,
        };
        live::execute(command, &what, live::end_session, show)
    }
}

const WORKLOAD: &str = "workload.json";
const REPORT: &str = "report.json";
const OUTPUT: &str = "output";
const ERRORS: &str = "errors";

fn of_trial(contender: &Contender, error: &anyhow::Error) -> Failure {
    match error.is::<Interrupted>() {
        true => {
            output::say("\npaceline: interrupted");
            Failure::Status(130)
        }
        false => {
            output::say_last(error);
            Failure::run(format!("policy {}: {error:#}", contender.label()))
        }
    }
}

/// Options of Docker and Podman for a container that is to load schedulers.
pub const CONTAINER: &str = "--privileged --pid=host --cgroupns=host";

/// Refuses a policy with a control plane that knows threads by number, if the kernel has other numbers for them.
pub fn heed_numbers(instance: &Instance) -> Result<(), Failure> {
    match instance.policy.told().is_some() && live::namespaces().contains(&"pid") {
        true => Err(Failure::input(format!(
            "{} goes by threads' numbers, and in a PID namespace they have others than in the kernel: run it outside of \
             that (in a container: with {CONTAINER})",
            instance.policy.name
        ))),
        false => Ok(()),
    }
}

/// Checks the conditions for loading a policy before anything is changed.
pub fn may_load() -> Result<(), Failure> {
    let state = live::can_load().map_err(|error| {
        Failure::input(format!(
            "{error:#}; `paceline doctor` says how to mend it, `compare` on vm and sim needs none"
        ))
    })?;
    if state.state != "disabled" {
        return Err(Failure::input(format!("{} here: {}", state.of_whom(), live::STOP_IT)));
    }
    let missing = live::missing_to_load();
    if !missing.is_empty() {
        return Err(Failure::input(format!(
            "loading a scheduler needs {}: run it with sudo (in a container: with {CONTAINER})",
            missing.join(" and ")
        )));
    }
    let cpus = live::topology().map_err(failed)?.core_type.len();
    match cpus > MAX_CPUS {
        true => Err(Failure::input(format!(
            "this machine has {cpus} CPUs, and policies have room for {MAX_CPUS}: boot with nr_cpus={MAX_CPUS}"
        ))),
        false => Ok(()),
    }
}

/// Refuses a policy that would lift limits, because it ignores cgroups' limits. With `ignore`, only says so. `alone`:
/// it is in charge of no tasks but our command's.
pub fn heed_limits(instance: &Instance, alone: bool, ignore: bool) -> Result<(), Failure> {
    let root = Path::new(live::CGROUPS);
    let limits = if alone { live::own_limits(root) } else { live::limits(root) };
    let heeded = instance.promises().heeds_cgroup_weights;
    let mut limits: Vec<Limit> =
        limits.into_iter().filter(|limit| !(heeded && limit.file == "cpu.weight")).collect();
    // If there are many, only the first are named.
    limits.sort_by_key(|limit| !limit.caps());
    let name = instance.policy.name;
    if !alone && !ignore && live::namespaces().contains(&"cgroup") {
        return Err(Failure::input(format!(
            "{name} would ignore what cgroups are limited to, and those of others are not to be seen in a cgroup \
             namespace: run it outside of that (in a container: with {CONTAINER}), or say --ignore-cgroup-limits"
        )));
    }
    if limits.is_empty() {
        return Ok(());
    }
    let ignored = listed(&limits);
    if ignore {
        output::say(&format!("paceline: {name} ignores what cgroups are limited to: {ignored}"));
        return Ok(());
    }
    Err(Failure::input(format!(
        "{name} would ignore what cgroups are limited to: {ignored}; remove the limits, or say \
         --ignore-cgroup-limits"
    )))
}

/// The first few limits.
fn listed(limits: &[Limit]) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> = limits.iter().take(SHOWN).map(Limit::to_string).collect();
    if limits.len() > SHOWN {
        parts.push(format!("and {} more", limits.len() - SHOWN));
    }
    parts.join(", ")
}

/// Call it before a policy is loaded: its first act might be to starve us.
pub fn outrank_policies() {
    if let Err(error) = live::outrank_policies() {
        output::say(&format!("paceline: {error:#}: the policy may starve this process"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_limits_are_one_line() {
        let limit = |group: &str| Limit {
            group: group.into(),
            file: "cpu.max",
            value: "50000 100000".into(),
        };
        let all: Vec<Limit> = ["/", "/a", "/b", "/c", "/d", "/e", "/f"].map(limit).into();
        let line = listed(&all);
        assert!(line.starts_with("/cpu.max is 50000 100000, /a/cpu.max is"), "{line}");
        assert!(line.ends_with(", and 2 more"), "{line}");
    }
}
