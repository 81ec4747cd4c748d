// SPDX-License-Identifier: GPL-2.0-only
//! One run of a sweep: what it follows from, and how it is done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use comparison::Contender;
use comparison::plan::{check_affinity, check_learners};
use machine::Machine;
use serde::{Deserialize, Serialize};
use sim::{Scenario, SimError};
use terminal::{Failure, meant};
use workload::{Workload, program_of};

use crate::digest::Digest;
use crate::input::{Input, Inputs};
use crate::measured::Measured;
use crate::objective::Objective;

/// All that a result follows from, apart from the program that makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The policy with its knobs, as `--policy` reads it.
    pub policy: String,
    /// The machine.
    pub machine: Input,
    /// Costs of the machine that are set to other values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, f64>,
    /// The workload.
    pub workload: Input,
    /// How many copies of it run side by side.
    pub pressure: u32,
    /// The seed of chance.
    pub seed: u64,
    /// The longest that it may take on the simulated clock, ns.
    pub limit_ns: u64,
}

/// What came of a run. Each of them is always the same for the same run and program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Came {
    /// Its figures.
    Measured(Box<Measured>),
    /// It did not end well, and why.
    Failed(String),
}

impl Run {
    /// What this run's result is found by: another program, file, seed or knob has another one. A file that only has
    /// another name has the same.
    pub fn key(&self, program: Digest) -> Digest {
        let (machine, workload) = (self.machine.unnamed(), self.workload.unnamed());
        let run = Run { machine, workload, ..self.clone() };
        let all = serde_json::to_vec(&(program, run)).expect("it is plain data");
        Digest::of(&all)
    }

    /// Simulates it.
    ///
    /// # Errors
    /// The user's input is bad: there is no result to keep.
    pub fn simulate(&self, inputs: &Inputs, kept: &Stages) -> Result<Came, Failure> {
        self.simulate_on(&*kept.stage(self, inputs)?)
    }

    /// Simulates it on its stage.
    ///
    /// # Errors
    /// The user's input is bad: there is no result to keep.
    pub fn simulate_on(&self, stage: &Stage) -> Result<Came, Failure> {
        let scheduler = Contender::parse(&self.policy)?.scheduler()?;
        let mut scenario =
            Scenario::new(stage.machine.clone(), stage.workload.clone(), scheduler).seed(self.seed);
        scenario.options.cap_ns = self.limit_ns;
        scenario.options.together = stage.together;
        match sim::run(&scenario) {
            Ok(outcome) => Ok(Came::Measured(Box::new(Measured::of(&outcome)))),
            Err(error) if is_input(&error) => Err(Failure::input(error)),
            Err(error) => Ok(Came::Failed(error.to_string())),
        }
    }
}

/// Whether the user's input is at fault, and no policy.
fn is_input(error: &SimError) -> bool {
    !matches!(
        error,
        SimError::Failed(_)
            | SimError::Stuck { .. }
            | SimError::Cap { .. }
            | SimError::Violation(_)
    )
}

/// A machine with its costs set, and the workload fitted to it.
#[derive(Debug)]
pub struct Stage {
    machine: Machine,
    workload: Workload,
    together: bool,
}

/// What a stage is made of.
type Made = (Input, Vec<(String, u64)>, Input, u32);

/// A stage that one thread makes, and for which others wait.
type Place = Arc<OnceLock<Result<Arc<Stage>, Failure>>>;

/// The stages of the last runs: runs that differ in policy and seed alone share one.
#[derive(Debug, Default)]
pub struct Stages(Mutex<VecDeque<(Made, Place)>>);

/// Most programs of a workload that an error names.
const NAMED: usize = 12;

/// So many stages are kept: more than there are threads, so that none is made twice.
const KEPT: usize = 64;

impl Stages {
    /// The stage of a run.
    ///
    /// # Errors
    /// The user's input is bad.
    pub fn stage(&self, run: &Run, inputs: &Inputs) -> Result<Arc<Stage>, Failure> {
        let costs = run.costs.iter().map(|(name, value)| (name.clone(), value.to_bits()));
        let made = (run.machine.clone(), costs.collect(), run.workload.clone(), run.pressure);
        let place = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match all.iter().find(|(known, _)| *known == made) {
                Some((_, place)) => place.clone(),
                None => {
                    all.truncate(KEPT - 1);
                    let place = Place::default();
                    all.push_front((made, Arc::clone(&place)));
                    place
                }
            }
        };
        place.get_or_init(|| Stage::new(run, inputs).map(Arc::new)).clone()
    }

    /// Checks that the programs of an objective are tasks of the workload.
    ///
    /// # Errors
    /// One is not.
    pub fn check_programs(
        &self,
        run: &Run,
        inputs: &Inputs,
        objective: &Objective,
    ) -> Result<(), Failure> {
        let stage = self.stage(run, inputs)?;
        let there: BTreeSet<&str> =
            stage.workload.tasks.iter().map(|task| program_of(&task.name)).collect();
        match objective.programs().find(|program| !there.contains(program)) {
            None => Ok(()),
            Some(absent) => {
                let proposal = meant::proposal(absent, there.iter().copied());
                let there: Vec<&str> = there.into_iter().take(NAMED).collect();
                Err(Failure::input(format!(
                    "objective: {} has no program `{absent}`; {proposal}it has: {}",
                    run.workload.name,
                    there.join(", ")
                )))
            }
        }
    }

    /// Checks that a run can be begun.
    ///
    /// # Errors
    /// The user's input is bad.
    pub fn check(&self, run: &Run, inputs: &Inputs) -> Result<(), Failure> {
        let stage = self.stage(run, inputs)?;
        let contender = [Contender::parse(&run.policy)?];
        comparison::plan::check_simulated(&contender)?;
        check_affinity(&stage.workload, stage.machine.cpus.len())?;
        check_learners(&contender, stage.workload.tasks.iter().any(|task| task.hw.is_some()))
    }
}

impl Stage {
    fn new(run: &Run, inputs: &Inputs) -> Result<Self, Failure> {
        let mut machine = inputs.machine(&run.machine).clone();
        for (cost, value) in &run.costs {
            machine = machine.with_cost(cost, *value).map_err(Failure::input)?;
        }
        let job = inputs.job(&run.workload, &machine)?;
        let workload = match run.pressure {
            1 => job.model()?,
            copies => job.model()?.copies(copies as usize),
        };
        Ok(Stage { machine, workload, together: job.starts_together() })
    }
}
