// SPDX-License-Identifier: GPL-2.0-only
//! A comparison, checked before anything runs, and the ground that runs it.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use policy::Profile;
use record::Detail;
use report::Clock;
use serde::Deserialize;
use terminal::{Failure, Progress};
use workload::Workload;

use crate::contender::{Class, Contender, Model};
use crate::job::{Job, SEED};
use crate::measured::Measured;

/// The grounds, by their names for `--on`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// A simulated machine: any hardware, every seed repeatable
    Sim,
    /// A stock kernel in QEMU: the real scheduler core, no need for KVM
    Vm,
    /// This machine's own kernel, run by run (policies need root)
    Here,
}

impl On {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            On::Sim => "sim",
            On::Vm => "vm",
            On::Here => "here",
        }
    }
}

/// A place that runs policies. All that other code asks of one is here.
pub trait Ground: Debug + Send + Sync {
    /// Its name.
    fn on(&self) -> On;

    /// Its machine, in results.
    fn machine(&self) -> String;

    /// CPUs of that machine.
    fn cpus(&self) -> usize;

    /// The clock of its seconds.
    fn clock(&self) -> Clock;

    /// Kinds of cores of that machine.
    fn kinds(&self) -> Result<usize, Failure>;

    /// Runs every contender of a plan.
    fn run(&self, plan: &Plan, progress: &Progress) -> Result<Measured, Failure>;

    /// A note about a program that was not found, with a way to get it.
    fn lacks(&self, program: &str) -> String {
        not_found(program)
    }

    /// The ground that would confirm its results. None: loading the policy would.
    fn confirmed_by(&self) -> Option<On>;

    /// Steps of its progress. One: it shows bars of its own.
    fn steps(&self, _: &Plan) -> u64 {
        1
    }

    /// Whether a seed repeats a run, or a part of it.
    fn is_seeded(&self) -> bool {
        true
    }

    /// Whether programs run there, and write. Else they are models.
    fn runs_programs(&self) -> bool {
        true
    }

    /// Whether it ends by itself on Ctrl-C, and leaves nothing behind.
    fn handles_signals(&self) -> bool {
        false
    }
}

/// A note about a program that neither the ground nor this machine has.
pub(crate) fn not_found(program: &str) -> String {
    format!("`{program}` was not found, and did not run; install it, or name another")
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The participants, in the order of the results.
    pub contenders: Vec<Contender>,
    /// The job that runs under each.
    pub job: Job,
    /// The ground.
    pub ground: Arc<dyn Ground>,
    /// Runs of each contender; if the ground boots, in each boot.
    pub runs: usize,
    /// The seed of the first run; others follow from it.
    pub seed: u64,
    /// Speeds of programs on each kind of core, from the user's profile.
    pub profile: Profile,
    /// The file of the profile.
    pub profile_file: Option<PathBuf>,
    /// Count locks beyond the runqueue's own.
    pub locks: bool,
    /// Show the workload's output as it is written.
    pub show: bool,
    /// Run it again with the observer attached, if the ground is a guest.
    pub observe: bool,
    /// Run it once more with the recorder.
    pub record: Option<Detail>,
    /// Keep the scheduling events of each contender's first run, if the ground is simulated.
    pub events: bool,
}

impl Plan {
    /// One run of each contender, observed, and nothing else.
    pub fn new(contenders: Vec<Contender>, job: Job, ground: Arc<dyn Ground>) -> Self {
        Plan {
            contenders,
            job,
            ground,
            runs: 1,
            seed: SEED,
            profile: Profile::new(),
            profile_file: None,
            locks: false,
            show: false,
            observe: true,
            record: None,
            events: false,
        }
    }

    /// Whether there are kernels that can load the policy of this label.
    pub fn is_real(&self, label: &str) -> bool {
        let mut own = self.contenders.iter().filter(|one| one.label() == label);
        own.any(|one| !matches!(one, Contender::Class(class) if !class.in_guest))
    }

    /// Runs every contender on the ground.
    pub fn run(&self, progress: &Progress) -> Result<Measured, Failure> {
        self.ground.run(self, progress)
    }

    /// Steps of its progress.
    pub fn steps(&self) -> u64 {
        self.ground.steps(self)
    }

    /// Its contenders, for a line of progress.
    pub fn labels(&self) -> String {
        self.contenders.iter().map(Contender::label).collect::<Vec<_>>().join(", ")
    }

    /// The result's description of the ground.
    pub fn setting(&self) -> report::Setting {
        let ground = &self.ground;
        report::Setting {
            ground: ground.on().name().into(),
            machine: ground.machine(),
            cpus: ground.cpus(),
            workload: self.job.name(),
            seed: ground.is_seeded().then_some(self.seed),
            clock: ground.clock(),
            kernel: None,
        }
    }
}

/// Refuses policies that learn from memory accesses of tasks, if there are none: no recording has them.
pub fn check_learners(contenders: &[Contender], touches: bool) -> Result<(), Failure> {
    let learns = |contender: &&Contender| {
        matches!(contender, Contender::Class(Class { model: Model::Related(_), .. }))
    };
    match contenders.iter().find(learns).filter(|_| !touches) {
        None => Ok(()),
        Some(contender) => {
            let why = sim::SimError::NothingTouched;
            Err(Failure::input(format!("{}: {why}", contender.label())))
        }
    }
}

/// Refuses contenders that the simulator has no model of.
pub fn check_simulated(contenders: &[Contender]) -> Result<(), Failure> {
    contenders.iter().try_for_each(|contender| contender.scheduler().map(drop))
}

/// Refuses contenders that cannot run on a real kernel.
pub fn check_real(contenders: &[Contender]) -> Result<(), Failure> {
    let absent = contenders.iter().find_map(|contender| match contender {
        Contender::Class(class) if !class.in_guest => Some(class.name),
        _ => None,
    });
    match absent {
        None => Ok(()),
        Some(name) => Err(Failure::input(format!(
            "no kernel of today has {name}; use --on sim, or --policy default"
        ))),
    }
}

/// Refuses a task that may run on no CPU of the machine: it would wait for ever.
pub fn check_affinity(workload: &Workload, cpus: usize) -> Result<(), Failure> {
    let nowhere = |mask: &Vec<usize>| !mask.iter().any(|cpu| *cpu < cpus);
    match workload.tasks.iter().find(|task| task.masks().into_iter().any(nowhere)) {
        None => Ok(()),
        Some(task) => Err(Failure::input(format!(
            "{}: task {} may run on none of the machine's CPUs (0 to {}); name one of them",
            workload.name,
            task.name,
            cpus.saturating_sub(1)
        ))),
    }
}
