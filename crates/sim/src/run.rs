// SPDX-License-Identifier: GPL-2.0-only
//! One run: what goes in, what comes out.

use machine::{CpuSet, Machine, Paths};
use policy::{Instance, Promises};
use rayon::prelude::*;
use trace::{Event, Outcome};
use workload::Workload;

use crate::checkers::{Checkers, Violation, check_locks, check_time};
use crate::class::Class;
use crate::cpu::Spent;
use crate::engine::{End, Engine};
use crate::ext::Ext;
use crate::fault::Fault;
use crate::kernel::{Kernel, tid};
use crate::native;
use crate::objects::{Funcs, PLACES};
use crate::sink::{CallbackRecord, Kept, Record, Sink};
use crate::turns::Turns;

/// Who schedules.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// Linux's own class as of today: EEVDF.
    Default,
    /// Linux's own class as of 2.6: CFS, with ticket locks where the machine has them.
    Cfs,
    /// A sched_ext policy.
    Policy(Instance),
}

/// Everything a run depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The hardware.
    pub machine: Machine,
    /// What its kernel's functions cost.
    pub paths: Paths,
    /// What is to be done.
    pub workload: Workload,
    /// Who schedules it.
    pub scheduler: Scheduler,
    /// Where chance comes from: phases of ticks, small differences in work.
    pub seed: u64,
    /// Changes from outside.
    pub faults: Vec<Fault>,
    /// The rest.
    pub options: Options,
}

/// Further settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A run that has not ended by then fails.
    pub cap_ns: u64,
    /// Each piece of users' work, and each refill of caches, is longer or shorter by up to this
    /// part of it.
    pub jitter: f64,
    /// What to keep beside the measures.
    pub record: Record,
    /// Hold a policy to what its variant declares. It costs time on large machines.
    pub check: bool,
    /// Tasks wait until all are there, then start together, as those of `worker` do; the workload's
    /// time and what is seen of it begin there.
    pub together: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cap_ns: 3_600_000_000_000,
            jitter: 0.01,
            record: Record::default(),
            check: false,
            together: false,
        }
    }
}

impl Scenario {
    /// With the embedded path lengths, seed 0, and nothing from outside.
    pub fn new(machine: Machine, workload: Workload, scheduler: Scheduler) -> Self {
        Scenario {
            machine,
            paths: Paths::embedded(),
            workload,
            scheduler,
            seed: 0,
            faults: Vec::new(),
            options: Options::default(),
        }
    }

    /// The same with another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Why a run came to no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SimError {
    #[error("machine {machine} has no CPUs")]
    NoCpus { machine: String },
    #[error("task {task} may run on none of the machine's {cpus} CPUs; give it one of them")]
    NoAffinity { task: String, cpus: usize },
    #[error("{0}")]
    Load(String),
    #[error("{0}")]
    Failed(String),
    #[error("nothing runs any more at {at_ms} ms, and these have not ended: {left}")]
    Stuck { at_ms: u64, left: String },
    #[error("the workload has not ended after {cap_s} simulated seconds; raise the cap or mend it")]
    Cap { cap_s: u64 },
    #[error("checker {}: {} at {} ns", .0.checker, .0.what, .0.t_ns)]
    Violation(Violation),
}

/// A run with what was recorded of it.
#[derive(Debug)]
pub struct Traced {
    /// What it came to.
    pub outcome: Outcome,
    /// Scheduling events, if asked for.
    pub events: Vec<Event>,
    /// The policy's callbacks, if asked for.
    pub callbacks: Vec<CallbackRecord>,
    /// Where each CPU's time went.
    pub spent: Vec<Spent>,
}

/// Runs a scenario.
///
/// # Errors
/// The policy was given up, a checker found something not kept, or the workload cannot end.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimError> {
    run_traced(scenario).map(|traced| traced.outcome)
}

/// Runs many scenarios side by side, one a thread; results come in their order.
pub fn run_all(scenarios: &[Scenario]) -> Vec<Result<Outcome, SimError>> {
    scenarios.par_iter().map(run).collect()
}

/// Runs a scenario and gives what was recorded as well.
///
/// # Errors
/// As [`run`].
pub fn run_traced(scenario: &Scenario) -> Result<Traced, SimError> {
    check(scenario)?;
    let mut checkers = Checkers::always(&scenario.machine);
    if let Some(promises) = promises(scenario) {
        checkers.promised(&promises, &scenario.machine);
    }
    let sink = Sink::new(scenario.machine.cpus.len(), scenario.options.record, checkers);
    let (machine, paths) = (scenario.machine.clone(), scenario.paths.clone());
    let mut k = Kernel::new(machine, paths, scenario.seed, sink);
    let class = class(&scenario.scheduler, &mut k).map_err(SimError::Load)?;
    run_class(scenario, k, class)
}

/// What the run is to be held to.
fn promises(scenario: &Scenario) -> Option<Promises> {
    match &scenario.scheduler {
        Scheduler::Policy(instance) if scenario.options.check => Some(instance.promises()),
        _ => None,
    }
}

fn class(scheduler: &Scheduler, k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    match scheduler {
        Scheduler::Policy(instance) => Ok(Box::new(Ext::new(instance, k)?)),
        Scheduler::Default => native::default(k),
        Scheduler::Cfs => native::cfs(k),
    }
}

fn check(scenario: &Scenario) -> Result<(), SimError> {
    let cpus = scenario.machine.cpus.len();
    if cpus == 0 {
        return Err(SimError::NoCpus { machine: scenario.machine.name.clone() });
    }
    let all = CpuSet::first(cpus);
    let usable = |task: &&workload::Task| match &task.cpus {
        Some(mask) => mask.iter().any(|cpu| all.has(*cpu)),
        None => true,
    };
    match scenario.workload.tasks.iter().find(|task| !usable(task)) {
        Some(task) => Err(SimError::NoAffinity { task: task.name.clone(), cpus }),
        None => Ok(()),
    }
}

fn run_class(scenario: &Scenario, k: Kernel, class: Box<dyn Class>) -> Result<Traced, SimError> {
    let cap_ns = scenario.options.cap_ns;
    let stop_ns = scenario.workload.duration_ns.unwrap_or(cap_ns).min(cap_ns);
    let mut engine = Engine {
        funcs: Funcs::new(&k),
        k,
        class,
        objects: Vec::new(),
        alive: 0,
        to_start: 0,
        faults: scenario.faults.clone(),
        jitter: scenario.options.jitter,
        stop_ns,
        gate: None,
        start_ns: 0,
        spent_before: Vec::new(),
        turns: Turns::new(scenario.machine.costs.turn_ns, scenario.machine.cpus.len()),
    };
    engine.load(&scenario.workload, scenario.options.together).map_err(SimError::Load)?;
    let end = engine.run();
    let now_ns = engine.k.now;
    engine.class.stop(&mut engine.k);
    match end {
        End::At(at_ns) if at_ns >= cap_ns => Err(SimError::Cap { cap_s: cap_ns / 1_000_000_000 }),
        End::At(at_ns) => finish(scenario, engine, at_ns),
        End::Stuck(left) => {
            let left = left.join(", ");
            Err(SimError::Stuck { at_ms: now_ns / 1_000_000, left })
        }
        End::Failed(reason) => Err(SimError::Failed(reason)),
    }
}

fn finish(scenario: &Scenario, engine: Engine, at_ns: u64) -> Result<Traced, SimError> {
    let Engine { k, class, start_ns, spent_before, .. } = engine;
    let Kept { observed, events, callbacks, checkers } = k.sink.finish(at_ns);
    let spent: Vec<Spent> = k.cpus.iter().map(|cpu| cpu.spent_until(at_ns)).collect();
    let spent: Vec<Spent> = match spent_before.is_empty() {
        true => spent,
        false => spent.iter().zip(&spent_before).map(|(all, before)| all.since(before)).collect(),
    };
    let elapsed_ns = at_ns - start_ns;
    let mut violations = checkers.violations;
    violations.extend(check_time(elapsed_ns, &spent, &observed));
    let (spinlock_ns, lock_wait_ns) = k.account.spinning();
    let rq = "rq";
    let beyond: Vec<&str> = PLACES.iter().copied().chain([rq]).collect();
    let mut outcome = Outcome {
        policy: class.name(),
        elapsed_ns,
        observed,
        locks: k.account.locks(&beyond),
        functions: k.account.functions(),
        ..Outcome::default()
    };
    outcome.extra.insert("spinlock_ns".into(), spinlock_ns as f64);
    outcome.extra.insert("lock_wait_ns".into(), lock_wait_ns as f64);
    for (place, wait_ns) in k.account.waits() {
        outcome.extra.insert(format!("lock_wait_{place}_ns"), wait_ns as f64);
    }
    let scheduler_ns: u64 = outcome.functions.values().map(|function| function.ns).sum();
    outcome.extra.insert("scheduler_ns".into(), scheduler_ns as f64);
    for (id, task) in k.tasks.iter().enumerate() {
        outcome.names.insert(tid(id), task.name.clone());
        outcome.progress.insert(tid(id), task.at.done);
    }
    violations.extend(check_locks(promises(scenario).is_some_and(|p| p.lockless), &outcome));
    if let Some(violation) = violations.into_iter().next() {
        return Err(SimError::Violation(violation));
    }
    Ok(Traced { outcome, events, callbacks, spent })
}
