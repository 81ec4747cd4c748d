// SPDX-License-Identifier: GPL-2.0-only
//! One run: its input and its result.

use std::collections::BTreeMap;
use std::time::Duration;

use machine::{CpuSet, Machine, Misses, Paths};
use policy::table::TYPES_MAX;
use policy::{Instance, Profile, Promises};
use rayon::prelude::*;
use trace::{Event, MemoryUse, Missed, Outcome, Program, Tid};
use workload::{Cut, Happened, Played, RealTime, Workload, program_of};

use crate::acts::Acts;
use crate::checkers::{Checkers, Violation, check_locks, check_time};
use crate::class::Class;
use crate::cpu::Spent;
use crate::domains::{Domains, Whereabouts};
use crate::engine::{End, Engine};
use crate::ext::class::Ext;
use crate::fault::{Change, Fault};
use crate::housekeeping::Housekeeping;
use crate::hw::Hw;
use crate::ids::{TaskId, tid};
use crate::kernel::Kernel;
use crate::linux;
use crate::objects::{Funcs, PLACES};
use crate::related::Related;
use crate::rt::Ranked;
use crate::sink::{CallbackRecord, Kept, Record, Sink};
use crate::task::Task;
use crate::turns::Turns;

/// The scheduler of a run.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// Linux's own class as of today: EEVDF.
    Default,
    /// Linux's own class as of 2.6: CFS, with ticket locks if the machine has them.
    Cfs,
    /// A sched_ext policy.
    Policy(Instance),
    /// The same, with learned groups of siblings in the place of address spaces.
    Related(Instance, Related),
}

/// All inputs of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The hardware.
    pub machine: Machine,
    /// Lengths of its kernel's functions.
    pub paths: Paths,
    /// The workload.
    pub workload: Workload,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Seed of random numbers: phases of ticks, small differences in work.
    pub seed: u64,
    /// Changes from outside.
    pub faults: Vec<Fault>,
    /// The policy's control plane's prior knowledge of programs.
    pub profile: Profile,
    /// Further settings.
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
    /// Records to keep beside the measures.
    pub record: Record,
    /// Hold a policy to its variant's promises. It costs time on large machines.
    pub check: bool,
    /// Tasks wait until all are ready, then start together, as those of `worker` do. The workload's time and its
    /// observation begin there.
    pub together: bool,
    /// CPUs count instructions for policies: one for each ns of work on the reference CPU.
    pub counters: bool,
    /// Standard deviation of the counts, relative to themselves, in each 2 s on each kind of core.
    pub counter_noise: f64,
    /// Clocks of CPUs differ by up to this, as policies read them.
    pub clock_skew_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cap_ns: 3_600_000_000_000,
            jitter: 0.01,
            record: Record::default(),
            check: false,
            together: false,
            counters: true,
            counter_noise: 0.0,
            clock_skew_ns: 0,
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
            profile: Profile::new(),
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

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SimError {
    #[error("machine {machine} has no CPUs")]
    NoCpus { machine: String },
    #[error("task {task} may run on none of the machine's {cpus} CPUs; give it one of them")]
    NoAffinity { task: String, cpus: usize },
    #[error(
        "task {task}: nodes_membind names a node that the machine has not; it has {nodes}, from 0 on"
    )]
    NoNode { task: String, nodes: usize },
    #[error(
        "the workload says what its tasks touch, and machine {machine} has no [memory] to say what \
         that costs; name one that has: {known}"
    )]
    NoMemory { machine: String, known: String },
    #[error(
        "{name} of machine {machine} is unknown ({why}), and this run needs it; give it a value and \
         its source in the machine's file"
    )]
    Unknown { machine: String, name: &'static str, why: String },
    #[error(
        "the workload's tasks are in cgroups, and cfs is modelled without them; take the cgroups out, or name another \
         policy, such as default"
    )]
    Cgroups,
    #[error(
        "it learns from what tasks touch of memory, and needs a workload that says so (\"hw\"); leave it out, or name \
         such a workload"
    )]
    NothingTouched,
    #[error("{0}")]
    Load(String),
    #[error("{0}")]
    Failed(String),
    #[error("nothing runs any more at {at_ms} ms, and these have not ended: {left}")]
    Stuck { at_ms: u64, left: String },
    #[error(
        "the workload has not ended after {} of simulated time; raise the limit or mend it",
        humantime::format_duration(*.limit)
    )]
    Cap { limit: Duration },
    #[error("checker {}: {} at {} ns", .0.checker, .0.what, .0.t_ns)]
    Violation(Violation),
}

/// A run with its records.
#[derive(Debug)]
pub struct Traced {
    /// Its outcome.
    pub outcome: Outcome,
    /// Scheduling events from the start on, at ns after it, if asked for.
    pub events: Vec<Event>,
    /// The policy's callbacks, likewise.
    pub callbacks: Vec<CallbackRecord>,
    /// The use of each CPU's time.
    pub spent: Vec<Spent>,
    /// When each task of the workload ended, ns after the start; None: it did not.
    pub ended_ns: Vec<Option<u64>>,
    /// The progress of each task of the workload in its script.
    pub played: Vec<Played>,
    /// CPU time added to acts of a recording, by what happened meanwhile.
    pub added: Cut,
    /// If asked for: the speed of each thread on each kind of core as measured by the policy's control plane, relative
    /// to its speed on the slowest; the mean of all its looks.
    pub speeds: BTreeMap<Tid, Vec<f64>>,
    /// The places of threads and their memory, each second; empty if memory has no domains.
    pub whereabouts: Vec<Whereabouts>,
}

/// Runs a scenario.
///
/// # Errors
/// The policy was given up, a checker found a violation, or the workload cannot end.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimError> {
    run_traced(scenario).map(|traced| traced.outcome)
}

/// Runs many scenarios side by side, one a thread; results come in their order.
pub fn run_all(scenarios: &[Scenario]) -> Vec<Result<Outcome, SimError>> {
    scenarios.par_iter().map(run).collect()
}

/// The same with the records.
pub fn trace_all(scenarios: &[Scenario]) -> Vec<Result<Traced, SimError>> {
    scenarios.par_iter().map(run_traced).collect()
}

/// Runs a scenario and returns its records, too.
///
/// # Errors
/// As [`run`].
pub fn run_traced(scenario: &Scenario) -> Result<Traced, SimError> {
    check(scenario)?;
    let mut checkers = Checkers::always(&scenario.machine);
    if let Some(promises) = promises(scenario) {
        checkers.promised(&promises, &scenario.machine, &scenario.workload);
    }
    if scenario.options.check && matches!(scenario.scheduler, Scheduler::Default) {
        checkers.limits(&scenario.machine, &scenario.workload, linux::LIMIT_AHEAD_NS);
    }
    let kinds = scenario.machine.kinds(TYPES_MAX).of;
    let sink = Sink::new(&kinds, scenario.options.record, checkers);
    let (machine, paths) = (scenario.machine.clone(), scenario.paths.clone());
    let mut k = Kernel::new(machine, paths, scenario.seed, sink);
    k.noise.deviation = scenario.options.counter_noise;
    k.noise.clock_skew_ns = scenario.options.clock_skew_ns;
    k.domains = Domains::new(&scenario.machine, &scenario.workload).map(Box::new);
    k.hw = Hw::new(&scenario.machine, &scenario.workload).map(Box::new);
    let mut class = class(scenario, &mut k).map_err(SimError::Load)?;
    if scenario.options.record.speeds {
        class.keep_measured();
    }
    run_class(scenario, k, class)
}

/// The promises that the run is held to.
fn promises(scenario: &Scenario) -> Option<Promises> {
    match &scenario.scheduler {
        Scheduler::Policy(instance) if scenario.options.check => Some(instance.promises()),
        _ => None,
    }
}

/// Whether its policy must take no lock. If CPUs go offline the kernel takes some for it: a dispatch to a CPU that is
/// offline by then goes to the kernel's own global queue. And while real-time tasks come often, waiting tasks must be
/// in queues that other CPUs can take them from.
fn lockless(scenario: &Scenario) -> bool {
    let goes = |fault: &Fault| matches!(fault.change, Change::Offline(_));
    promises(scenario).is_some_and(|promises| promises.lockless)
        && !scenario.faults.iter().any(goes)
        && scenario.workload.tasks.iter().all(|task| task.realtime == RealTime::No)
}

fn class(scenario: &Scenario, k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    let Scenario { profile, options: Options { counters, .. }, .. } = scenario;
    let class: Box<dyn Class> = match &scenario.scheduler {
        Scheduler::Policy(instance) => Box::new(Ext::new(instance, profile, *counters, k)?),
        Scheduler::Related(instance, how) => Box::new(Ext::related(instance, *how, k)?),
        Scheduler::Default => linux::default(k)?,
        Scheduler::Cfs => linux::cfs(k)?,
    };
    let old = matches!(scenario.scheduler, Scheduler::Cfs);
    Ok(if realtime(scenario) { Box::new(Ranked::new(class, old, k)) } else { class })
}

/// Whether any task is real-time.
fn realtime(scenario: &Scenario) -> bool {
    let hog = |fault: &Fault| matches!(fault.change, Change::Hog { .. });
    scenario.workload.has_realtime() || scenario.faults.iter().any(hog)
}

fn check(scenario: &Scenario) -> Result<(), SimError> {
    let cpus = scenario.machine.cpus.len();
    if cpus == 0 {
        return Err(SimError::NoCpus { machine: scenario.machine.name.clone() });
    }
    let all = CpuSet::first(cpus);
    let some = |mask: &Vec<usize>| mask.iter().any(|cpu| all.has(*cpu));
    let usable = |task: &&workload::Task| task.masks().into_iter().all(some);
    if scenario.machine.memory.is_none()
        && scenario.workload.tasks.iter().any(|task| task.hw.is_some())
    {
        let knows = |name: &&str| machine::find(name).is_ok_and(|machine| machine.memory.is_some());
        return Err(SimError::NoMemory {
            machine: scenario.machine.name.clone(),
            known: machine::names().filter(knows).collect::<Vec<_>>().join(", "),
        });
    }
    let touches = scenario.workload.tasks.iter().any(|task| task.hw.is_some());
    let policy = matches!(scenario.scheduler, Scheduler::Policy(_) | Scheduler::Related(..));
    if matches!(scenario.scheduler, Scheduler::Related(..)) && !touches {
        return Err(SimError::NothingTouched);
    }
    if let Some((name, why)) = scenario.machine.lacks(touches, policy) {
        let (machine, why) = (scenario.machine.name.clone(), why.to_string());
        return Err(SimError::Unknown { machine, name, why });
    }
    let in_groups = scenario.workload.tasks.iter().any(|task| task.group.is_some());
    if matches!(scenario.scheduler, Scheduler::Cfs) && in_groups {
        return Err(SimError::Cgroups);
    }
    let nodes = scenario.machine.cpus.iter().map(|cpu| usize::from(cpu.node) + 1).max();
    let nodes = nodes.unwrap_or(0).max(scenario.machine.node_distance.len());
    let lacks = |task: &&workload::Task| task.nodes.iter().flatten().any(|node| *node >= nodes);
    if let Some(task) = scenario.workload.tasks.iter().find(lacks) {
        return Err(SimError::NoNode { task: task.name.clone(), nodes });
    }
    match scenario.workload.tasks.iter().find(|task| !usable(task)) {
        Some(task) => Err(SimError::NoAffinity { task: task.name.clone(), cpus }),
        None => Ok(()),
    }
}

fn run_class(scenario: &Scenario, k: Kernel, class: Box<dyn Class>) -> Result<Traced, SimError> {
    let cap_ns = scenario.options.cap_ns;
    let lasts_ns = scenario.workload.duration_ns.unwrap_or(cap_ns).min(cap_ns);
    let mut engine = Engine {
        funcs: Funcs::new(&k),
        k,
        class,
        objects: Vec::new(),
        alive: 0,
        to_start: 0,
        faults: scenario.faults.clone(),
        hogs: Vec::new(),
        jitter: scenario.options.jitter,
        stop_ns: cap_ns,
        lasts_ns,
        gate: None,
        start_ns: 0,
        spent_before: Vec::new(),
        timed_from: scenario.workload.timed_from,
        timed_from_ns: None,
        turns: Turns::new(scenario.machine.costs.turn_ns, scenario.machine.cpus.len()),
        burns: !scenario.workload.recorded,
        housekeeping: Housekeeping::default(),
        acts: scenario.workload.recorded.then(|| Acts::new(scenario.workload.tasks.len())),
    };
    engine.load(&scenario.workload, scenario.options.together).map_err(SimError::Load)?;
    let end = engine.run();
    let began = engine.gate.is_none() || !engine.spent_before.is_empty();
    let now_ns = engine.k.now;
    let speeds = engine.class.measured();
    let totals = engine.class.totals();
    let placed = engine.class.placed();
    engine.class.stop(&mut engine.k);
    match end {
        End::At(at_ns)
            if at_ns >= cap_ns
                && (!began || scenario.workload.duration_ns.is_none_or(|ns| ns > cap_ns)) =>
        {
            Err(SimError::Cap { limit: Duration::from_nanos(cap_ns) })
        }
        End::At(at_ns) => {
            let mut traced = finish(scenario, engine, at_ns)?;
            let named = totals.into_iter().map(|(name, total)| (name.to_string(), total as f64));
            traced.outcome.extra.extend(named);
            traced.outcome.placed = placed;
            Ok(Traced { speeds, ..traced })
        }
        End::Stuck(left) => {
            let place = |id: TaskId| {
                let task = &engine.k.tasks[id];
                format!("{} at {}", task.name, task.at.op().describe(&scenario.workload))
            };
            let left = left.into_iter().map(place).collect::<Vec<_>>().join(", ");
            Err(SimError::Stuck { at_ms: now_ns / 1_000_000, left })
        }
        End::Failed(reason) => Err(SimError::Failed(reason)),
    }
}

/// The misses of each task, and of each program.
fn memory_use(tasks: &[Task], hw: &Hw, start_ns: u64, outcome: &Outcome) -> MemoryUse {
    let mut memory = MemoryUse::default();
    let mut programs: BTreeMap<&str, (Program, Misses)> = BTreeMap::new();
    let mut total = Misses::default();
    for (id, misses) in hw.misses.iter().enumerate().filter(|(id, _)| hw.knows(*id)) {
        let task = &tasks[id];
        let name = program_of(&task.name);
        let first = Program { elapsed_ns: Some(0), ..Program::default() };
        let (program, sum) = programs.entry(name).or_insert((first, Misses::default()));
        program.threads += 1;
        program.process_ns += outcome.observed.tasks.get(&tid(id)).map_or(0, |seen| seen.cpu_ns);
        program.elapsed_ns = match task.ended_ns {
            0 => None,
            at_ns => program.elapsed_ns.map(|ns| ns.max(at_ns.saturating_sub(start_ns))),
        };
        sum.add(misses, 1.0);
        total.add(misses, 1.0);
        memory.tasks.insert(tid(id), missed(misses));
    }
    memory.total = missed(&total);
    let whole = |(name, (program, sum)): (&str, (Program, Misses))| {
        (name.to_string(), Program { missed: missed(&sum), ..program })
    };
    memory.programs = programs.into_iter().map(whole).collect();
    memory
}

fn missed(misses: &Misses) -> Missed {
    let whole = |n: f64| n.round() as u64;
    Missed {
        dtlb_user: whole(misses.dtlb_user),
        dtlb_kernel: whole(misses.dtlb_kernel),
        itlb_user: whole(misses.itlb_user),
        itlb_kernel: whole(misses.itlb_kernel),
        cache: whole(misses.cache),
        ns: whole(misses.ns),
    }
}

fn finish(scenario: &Scenario, engine: Engine, at_ns: u64) -> Result<Traced, SimError> {
    let Engine { mut k, class, start_ns, spent_before, timed_from_ns, acts, .. } = engine;
    let Kept { observed, events, callbacks, checkers } = k.sink.finish(at_ns, start_ns);
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
    outcome.memory = k.hw.as_ref().map(|hw| memory_use(&k.tasks, hw, start_ns, &outcome));
    if let Some(from_ns) = timed_from_ns {
        outcome.extra.insert("own_time_s".into(), (at_ns - from_ns) as f64 / 1e9);
    }
    outcome.extra.insert("spinlock_ns".into(), spinlock_ns as f64);
    if let Some(domains) = &k.domains {
        outcome.homes = domains.homes(start_ns);
        outcome.extra.insert("memory_moves".into(), domains.moves as f64);
        outcome.extra.insert("memory_moved_gb".into(), domains.moved_bytes / 1e9);
    }
    outcome.extra.insert("lock_wait_ns".into(), lock_wait_ns as f64);
    for (place, wait_ns) in k.account.waits() {
        outcome.extra.insert(format!("lock_wait_{place}_ns"), wait_ns as f64);
    }
    let scheduler_ns: u64 = outcome.functions.values().map(|function| function.ns).sum();
    outcome.extra.insert("scheduler_ns".into(), scheduler_ns as f64);
    for (id, task) in k.tasks.iter().enumerate() {
        outcome.names.insert(tid(id), task.name.clone());
        // Not the launcher of the workload's tasks, nor kernel threads, which come after them.
        if id < scenario.workload.tasks.len() && !task.kernel {
            outcome.progress.insert(tid(id), task.at.done);
            let pages = k.domains.as_ref().and_then(|domains| domains.memory_of(id));
            outcome.resident.extend(pages.map(|pages| (tid(id), pages)));
        }
    }
    violations.extend(check_locks(lockless(scenario), &outcome));
    if let Some(violation) = violations.into_iter().next() {
        return Err(SimError::Violation(violation));
    }
    for cpu in &k.cpus {
        if let Some(curr) = cpu.curr {
            k.tasks[curr].worked_ns += cpu.worked_ns;
        }
    }
    let of_workload = &k.tasks[..scenario.workload.tasks.len()];
    let ended = |task: &Task| (task.ended_ns > 0).then(|| task.ended_ns.saturating_sub(start_ns));
    let ended_ns = of_workload.iter().map(ended).collect();
    let played = |(id, task): (usize, &Task)| {
        let happened = acts.as_ref().map_or(Happened::default(), |acts| acts.happened(id));
        task.at.played(task.worked_ns, happened)
    };
    let played = of_workload.iter().enumerate().map(played).collect();
    let whereabouts = k.domains.map_or(Vec::new(), |domains| domains.whereabouts);
    let speeds = BTreeMap::new();
    let added = acts.map_or(Cut::default(), |acts| acts.added());
    Ok(Traced { outcome, events, callbacks, spent, ended_ns, played, added, speeds, whereabouts })
}
