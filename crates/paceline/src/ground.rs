// SPDX-License-Identifier: GPL-2.0-only
//! Hands a plan to the ground that it names.

use indicatif::MultiProgress;
use trace::Outcome;
use workload::Dialect;

use crate::contender::Contender;
use crate::failure::Failure;
use crate::plan::{Job, Place, Plan};
use crate::progress::Progress;

/// What came back.
#[derive(Debug, Default)]
pub struct Measured {
    /// Every run, in the order of the policies.
    pub outcomes: Vec<Outcome>,
    /// The kernel that ran, where one did.
    pub kernel: Option<String>,
    /// What a reader must know about these figures.
    pub notes: Vec<String>,
}

/// Runs it all.
pub fn run(plan: &Plan, progress: &Progress) -> Result<Measured, Failure> {
    match &plan.place {
        Place::Sim { .. } => on_sim(plan),
        Place::Vm { .. } => on_vm(plan, progress.bars()),
    }
}

fn on_sim(_plan: &Plan) -> Result<Measured, Failure> {
    Err(Failure::run("sim is not built in yet"))
}

fn on_vm(plan: &Plan, bars: &MultiProgress) -> Result<Measured, Failure> {
    let agent = std::env::current_exe()
        .map_err(|error| Failure::run(format!("cannot find this program's own file: {error}")))?;
    let request = request(plan)?;
    let outcomes = vm::run(&request, &agent, bars).map_err(of_vm)?;
    Ok(Measured { outcomes, ..Measured::default() })
}

/// What the caller can mend is exit code 2, all else is a run that failed.
fn of_vm(error: anyhow::Error) -> Failure {
    match error.downcast_ref::<vm::BadInput>() {
        Some(bad) => Failure::input(bad),
        None => Failure::run(format!("{error:#}")),
    }
}

fn request(plan: &Plan) -> Result<vm::Request, Failure> {
    let Place::Vm { shape, clock, boots, kernel, limit } = &plan.place else {
        unreachable!("only plans for the guest come here")
    };
    Ok(vm::Request {
        policies: plan.contenders.iter().map(reference).collect(),
        workload: match &plan.job {
            Job::Command { argv, with } => vm::WorkloadRef::Command {
                argv: argv.iter().map(Into::into).collect(),
                with: with.clone(),
            },
            Job::Model { name, json, workload } => vm::WorkloadRef::RtApp {
                name: name.clone(),
                json: match json {
                    Some(json) => json.clone(),
                    None => workload::write(workload, Dialect::Paceline).map_err(Failure::input)?,
                },
            },
        },
        shape: shape.clone(),
        clock: *clock,
        boots: *boots,
        runs_per_boot: plan.runs,
        kernel: kernel.clone(),
        cache: None,
        observe: true,
        count_locks: plan.locks,
        seed: plan.seed,
        limit: *limit,
    })
}

fn reference(contender: &Contender) -> vm::PolicyRef {
    match contender {
        Contender::Class(_) => vm::PolicyRef::Default,
        Contender::Policy(instance) => vm::PolicyRef::Instance(instance.clone()),
    }
}
