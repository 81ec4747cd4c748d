// SPDX-License-Identifier: GPL-2.0-only
//! This machine's own kernel as a ground.

use std::cell::RefCell;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live::{
    Executed, Execution, Groups, Interrupted, OwnClass, Scheduler, Scope, Show, Standing, Trial,
};
use policy::Clocks;
use report::Clock;
use tempfile::TempDir;
use terminal::{Failure, Progress, failed, interrupt, output, scratch};

use crate::contender::Contender;
use crate::job::Job;
use crate::loading::outrank_policies;
use crate::measured::Measured;
use crate::plan::{Ground, On, Plan};

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

impl Ground for Here {
    fn on(&self) -> On {
        On::Here
    }

    fn machine(&self) -> String {
        "this machine".into()
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn kinds(&self) -> Result<usize, Failure> {
        Ok(live::topology().map_err(failed)?.kinds())
    }

    /// Runs every contender in turn, for as many rounds as there are runs. In each next round the first one moves to
    /// the end.
    fn run(&self, plan: &Plan, progress: &Progress) -> Result<Measured, Failure> {
        let standing = Standing::now();
        let stop = interrupt::in_charge()?;
        let files = Files::new(plan)?;
        if plan.contenders.iter().any(|one| !matches!(one, Contender::Class(_))) {
            outrank_policies();
        }
        let mut notes = Vec::new();
        let blind = live::Observer::attach(self.cpus).err();
        if let Some(error) = &blind {
            notes.push(format!("switches, waits and idle time are not known: {error:#}"));
        }
        let (mut outcomes, mut cut) = (Vec::new(), None);
        'rounds: for run in 0..plan.runs {
            for place in live::rotated(run, plan.contenders.len()) {
                let contender = &plan.contenders[place];
                let trial = Trial {
                    label: contender.label(),
                    scheduler: scheduler(contender),
                    profile: &plan.profile,
                    scope: self.scope,
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
                topology.clocks = self.clocks.clone().unwrap_or_default();
                let mut execute = |_| {
                    let show = plan.show.then_some(&mut show as Show<'_>);
                    files.execute(plan, self, standing, &stop, show)
                };
                let mut run = || {
                    let is_own = matches!(trial.scheduler, Scheduler::Own);
                    let own = is_own.then(OwnClass::begin).transpose()?;
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

    fn confirmed_by(&self) -> Option<On> {
        None
    }

    fn steps(&self, plan: &Plan) -> u64 {
        (plan.runs * plan.contenders.len()) as u64
    }

    fn is_seeded(&self) -> bool {
        false
    }

    fn handles_signals(&self) -> bool {
        true
    }
}

fn scheduler(contender: &Contender) -> Scheduler<'_> {
    match contender {
        Contender::Class(_) => Scheduler::Own,
        Contender::Policy(instance) => Scheduler::Policy(instance),
        Contender::Program(outside) => Scheduler::Program(&outside.argv),
    }
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
