// SPDX-License-Identifier: GPL-2.0-only
//! Swarm: random machines, workloads, knobs and changes from outside, all from a seed.
//!
//! A seed identifies a case, so a failing case is repeated by its seed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use machine::{CpuSet, Machine, Paths};
use policy::{Instance, Knob, Policy, Profile, Unit};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use workload::{Fair, Group, Max, Object, Step, Task, Workload};

use crate::cgroup::quota;
use crate::fault::{Change, Failing, Fault};
use crate::run::{Options, Scenario, Scheduler, SimError, run};
use crate::sink::Record;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A failed case.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the case: [`case`] builds it again.
    pub seed: u64,
    /// The scheduler with its knobs, and the size of the case.
    pub what: String,
    /// The error.
    pub error: SimError,
}

/// The result of many cases.
#[derive(Clone, Debug, Default)]
pub struct Swarmed {
    /// The failed cases, in the order of their seeds.
    pub failures: Vec<Failure>,
    /// Number of scheduling decisions (`schedule`), also for the idle task, in all cases that did not fail.
    pub decisions: u64,
}

/// Runs the cases of these seeds on all cores, with the schedulers of `registry` and Linux's own.
pub fn swarm(seeds: std::ops::Range<u64>, registry: &[&'static Policy]) -> Swarmed {
    let one = |seed| {
        let scenario = case(seed, registry);
        // A broken invariant of a class is a finding like any other.
        let error = match catch_unwind(AssertUnwindSafe(|| run(&scenario))) {
            Ok(Ok(outcome)) => {
                let decisions = outcome.functions.get("schedule").map_or(0, |seen| seen.count);
                return Swarmed { decisions, ..Swarmed::default() };
            }
            Ok(Err(error)) => error,
            Err(panic) => SimError::Failed(format!("panicked: {}", words(&*panic))),
        };
        let failure = Failure { seed, what: describe(&scenario), error };
        Swarmed { failures: vec![failure], decisions: 0 }
    };
    let both = |mut all: Swarmed, more: Swarmed| {
        all.failures.extend(more.failures);
        all.decisions += more.decisions;
        all
    };
    let mut all = seeds.into_par_iter().map(one).reduce(Swarmed::default, both);
    all.failures.sort_by_key(|failure| failure.seed);
    all
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// The case of this seed.
pub fn case(seed: u64, registry: &[&'static Policy]) -> Scenario {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut machine = machine(&mut rng);
    let mut workload = workload(&mut rng, machine.cpus.len());
    // A random stream of its own: the other choices of a seed stay the same.
    let mut own = Pcg64Mcg::seed_from_u64(!seed);
    if own.random_bool(0.3) && workload.duration_ns.is_none() {
        chatter(&mut own, &mut workload);
    }
    if workload.duration_ns.is_none() {
        server(&mut Pcg64Mcg::seed_from_u64(seed.rotate_left(48)), &mut workload);
        bomb(&mut Pcg64Mcg::seed_from_u64(seed.rotate_left(24)), &mut workload);
    }
    policies(&mut Pcg64Mcg::seed_from_u64(seed.rotate_left(8)), &mut workload);
    uneven(&mut own, &mut machine);
    stall(&mut own, &mut workload);
    let scheduler = scheduler(&mut rng, registry);
    let mut faults = faults(&mut rng, &machine, &workload);
    if heeds_limits(&scheduler) {
        let own = &mut Pcg64Mcg::seed_from_u64(seed.rotate_left(56));
        cgroups(own, machine.cpus.len(), &mut workload, &mut faults);
    }
    hogs(&mut Pcg64Mcg::seed_from_u64(seed.rotate_left(32)), &machine, &mut faults);
    rare(&mut Pcg64Mcg::seed_from_u64(seed.rotate_left(40)), &workload, &mut faults);
    Scenario {
        paths: Paths::embedded(),
        seed: rng.random_range(0..u64::MAX),
        options: Options {
            cap_ns: 600_000 * MS,
            jitter: 0.05,
            record: Record::default(),
            check: true,
            together: false,
            counters: true,
            counter_noise: 0.0,
            clock_skew_ns: skew_ns(seed),
        },
        machine,
        workload,
        scheduler,
        profile: Profile::new(),
        faults,
    }
}

/// Skewed clocks, in some cases: by no more than the clocks of sockets.
fn skew_ns(seed: u64) -> u64 {
    let mut own = Pcg64Mcg::seed_from_u64(seed.rotate_left(16));
    if own.random_bool(0.25) { own.random_range(0..10 * US) } else { 0 }
}

fn describe(scenario: &Scenario) -> String {
    let scheduler = match &scenario.scheduler {
        Scheduler::Default => "default",
        Scheduler::Cfs => "cfs",
        Scheduler::Policy(instance) | Scheduler::Related(instance, _) => &instance.label,
    };
    format!(
        "{scheduler}, {} CPUs, {} tasks, {} changes",
        scenario.machine.cpus.len(),
        scenario.workload.tasks.len(),
        scenario.faults.len()
    )
}

/// A machine of few or many cores: costs of an embedded one, places of its own.
fn machine(rng: &mut Pcg64Mcg) -> Machine {
    let names: Vec<&str> = machine::names().collect();
    let name = names[rng.random_range(0..names.len())];
    let mut machine = machine::find(name).expect("embedded machines are sound");
    let threads = [1, 1, 2, 4][rng.random_range(0..4)];
    let cores_per_llc = rng.random_range(1..=4);
    let llcs_per_node = rng.random_range(1..=2);
    let nodes = rng.random_range(1..=3);
    let total = nodes * llcs_per_node * cores_per_llc * threads;
    let place = |cpu: usize| {
        let core = cpu / threads;
        machine::Cpu {
            core: core as u16,
            llc: (core / cores_per_llc) as u16,
            node: (core / cores_per_llc / llcs_per_node) as u16,
            core_type: 0,
        }
    };
    machine.cpus = (0..total).map(place).collect();
    let far = |a, b| if a == b { 10 } else { 20 };
    machine.node_distance = (0..nodes).map(|a| (0..nodes).map(|b| far(a, b)).collect()).collect();
    machine
}

/// Cores of up to four kinds, in a third of the cases.
fn uneven(rng: &mut Pcg64Mcg, machine: &mut Machine) {
    machine.core_rates = vec![1.0];
    if rng.random_bool(0.3) {
        let kinds = rng.random_range(2..=4);
        machine.core_rates = (0..kinds).map(|kind| 1.0 / (1.0 + f64::from(kind))).collect();
        let kinds: Vec<u16> =
            machine.cpus.iter().map(|_| rng.random_range(0..kinds) as u16).collect();
        for cpu in &mut machine.cpus {
            cpu.core_type = kinds[usize::from(cpu.core)];
        }
    }
}

/// In a quarter of the cases some tasks are SCHED_BATCH or SCHED_IDLE. The random stream is its own: nothing else
/// changes.
fn policies(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    if !rng.random_bool(0.25) {
        return;
    }
    let often = rng.random_range(0.1..0.9);
    for task in &mut workload.tasks {
        if rng.random_bool(often) {
            task.fair = [Fair::Idle, Fair::Idle, Fair::Batch][rng.random_range(0..3)];
        }
    }
}

fn heeds_limits(scheduler: &Scheduler) -> bool {
    match scheduler {
        Scheduler::Policy(instance) => instance.promises().heeds_cgroup_limits,
        Scheduler::Default => true,
        _ => false,
    }
}

/// In a third of the cases a tree of cgroups with weights and limits, and tasks in any of them. Some tasks move, and
/// some limits change.
fn cgroups(rng: &mut Pcg64Mcg, cpus: usize, workload: &mut Workload, faults: &mut Vec<Fault>) {
    if !rng.random_bool(0.33) {
        return;
    }
    let groups = rng.random_range(1..=6);
    for number in 0..groups {
        let parent = match rng.random_range(0..=number) {
            0 => String::new(),
            at => workload.groups[at - 1].path.clone(),
        };
        let max = rng.random_bool(0.6).then(|| max(rng, cpus));
        let weight = [1, 100, rng.random_range(1..=10_000)][rng.random_range(0..3)];
        let idle = rng.random_bool(0.1);
        workload.groups.push(Group { path: format!("{parent}/{number}"), weight, idle, max });
    }
    for task in &mut workload.tasks {
        task.group = rng.random_bool(0.7).then(|| rng.random_range(0..groups));
    }
    if !rng.random_bool(0.3) {
        return;
    }
    for _ in 0..rng.random_range(1..=10) {
        let group = rng.random_range(0..groups);
        let change = match rng.random_bool(0.5) {
            true => Change::Quota(group, rng.random_bool(0.7).then(|| quota(max(rng, cpus)))),
            false => {
                let task = rng.random_range(0..workload.tasks.len());
                Change::Cgroup(task, rng.random_bool(0.7).then_some(group))
            }
        };
        faults.push(Fault { at_ns: rng.random_range(0..500 * MS), change });
    }
}

/// A limit of a twentieth of a CPU up to twice as many as there are.
fn max(rng: &mut Pcg64Mcg, cpus: usize) -> Max {
    let period_us = [10_000, 100_000, rng.random_range(1_000..=1_000_000)][rng.random_range(0..3)];
    let part = 0.05 * (40.0 * cpus as f64).powf(rng.random_range(0.0..1.0));
    let quota_us = ((part * period_us as f64) as u64).max(1_000);
    let burst_us = if rng.random_bool(0.3) { rng.random_range(0..=quota_us) } else { 0 };
    Max { quota_us, period_us, burst_us }
}

fn stall(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    for task in &mut workload.tasks {
        task.stalled = f64::from(rng.random_range(0..=10)) / 10.0;
    }
}

fn scheduler(rng: &mut Pcg64Mcg, registry: &[&'static Policy]) -> Scheduler {
    match rng.random_range(0..registry.len() + 2) {
        0 => Scheduler::Default,
        1 => Scheduler::Cfs,
        n => {
            let mut instance = Instance::default(registry[n - 2]);
            for (value, knob) in instance.values.iter_mut().zip(instance.policy.knobs) {
                if rng.random_bool(0.5) {
                    *value = knob_value(rng, knob);
                }
            }
            let set = instance.values.iter().zip(instance.policy.knobs);
            let set: Vec<String> = set
                .filter(|(value, knob)| **value != knob.variable.default)
                .map(|(value, knob)| format!("{}={}", knob.name, knob.format(*value)))
                .collect();
            instance.label = format!("{}:{}", instance.policy.name, set.join(","));
            Scheduler::Policy(instance)
        }
    }
}

fn knob_value(rng: &mut Pcg64Mcg, knob: &Knob) -> u64 {
    match knob.unit {
        Unit::Duration { min, max } | Unit::Slice { min, max } => {
            // Short and long times alike; in whole µs, as a user writes them.
            let (low, high) = (min.max(1) as f64, max.max(1) as f64);
            let ns = low * (high / low).powf(rng.random_range(0.0..1.0));
            ((ns as u64) / US * US).clamp(min, max)
        }
        Unit::DurationOrOff { max } => match rng.random_bool(0.5) {
            true => 0,
            false => 1 + rng.random_range(0..=max / 100),
        },
        Unit::Switch => u64::from(rng.random_bool(0.5)),
        Unit::Count { min, max } | Unit::Decimal { min, max } => rng.random_range(min..=max),
        Unit::CountOrOff { max } => rng.random_range(0..=max + 1),
        Unit::Choice(words) => rng.random_range(0..words.len() as u64),
    }
}

/// Groups of tasks of one kind each, sized to end within a few simulated seconds, or a siege.
fn workload(rng: &mut Pcg64Mcg, cpus: usize) -> Workload {
    let mut workload = Workload { name: "swarm".into(), ..Workload::default() };
    if rng.random_bool(0.03) {
        siege(rng, cpus, &mut workload);
        return workload;
    }
    for _ in 0..rng.random_range(1..=4) {
        match rng.random_range(0..5) {
            0 => burners(rng, cpus, &mut workload),
            1 => sleepers(rng, cpus, &mut workload),
            2 => messengers(rng, &mut workload),
            3 => barrier(rng, cpus, &mut workload),
            _ => lockers(rng, &mut workload),
        }
    }
    for task in &mut workload.tasks {
        if rng.random_bool(0.1) {
            let some = rng.random_range(1..=cpus);
            task.cpus = Some(
                (0..some).map(|n| if n == 0 { 0 } else { rng.random_range(0..cpus) }).collect(),
            );
        }
        if rng.random_bool(0.2) {
            task.nice = rng.random_range(-20..=19);
        }
        if rng.random_bool(0.2) {
            task.delay_ns = rng.random_range(0..50 * MS);
        }
    }
    workload
}

fn add(workload: &mut Workload, name: &str, steps: Vec<Step>) {
    let number = workload.tasks.len();
    let task =
        Task { name: format!("{name}-{number}"), process: number / 3, steps, ..Task::default() };
    workload.tasks.push(task);
}

fn repeat(times: u64, steps: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: Some(times), steps }]
}

fn run_for(rng: &mut Pcg64Mcg, most_ns: u64) -> Step {
    Step::Run { work_ns: rng.random_range(1..=most_ns) }
}

fn burners(rng: &mut Pcg64Mcg, cpus: usize, workload: &mut Workload) {
    for _ in 0..rng.random_range(1..=2 * cpus) {
        let steps = vec![run_for(rng, 100 * MS)];
        add(workload, "burner", steps);
    }
}

fn sleepers(rng: &mut Pcg64Mcg, cpus: usize, workload: &mut Workload) {
    for _ in 0..rng.random_range(1..=2 * cpus) {
        let pause = Step::Sleep { ns: rng.random_range(10 * US..5 * MS) };
        let steps = repeat(rng.random_range(1..50), vec![run_for(rng, 2 * MS), pause]);
        add(workload, "sleeper", steps);
    }
}

/// Few CPUs, for longer than a watchdog waits: pinned and free hogs, and groups that outrank them and hardly sleep. No
/// task may starve.
fn siege(rng: &mut Pcg64Mcg, cpus: usize, workload: &mut Workload) {
    const CPUS: usize = 3;
    let first = rng.random_range(0..cpus);
    let field: Vec<usize> = (first..cpus.min(first + CPUS)).collect();
    let for_ever = |steps| vec![Step::Repeat { times: None, steps }];
    for _ in 0..rng.random_range(2..=4) {
        let nice = [-20, -5, 0, 0, 19][rng.random_range(0..5)];
        let bound = rng.random_bool(0.5).then(|| field[rng.random_range(0..field.len())]);
        let work = run_for(rng, 50 * MS);
        let pause = Step::Sleep { ns: rng.random_range(MS..3 * MS) };
        let steps = match rng.random_bool(0.5) {
            true => vec![work],
            false => vec![work, pause],
        };
        for _ in 0..rng.random_range(1..=6) {
            add(workload, "besieger", for_ever(steps.clone()));
            let task = workload.tasks.last_mut().expect("one was just added");
            task.nice = nice;
            task.cpus = Some(bound.map_or_else(|| field.clone(), |cpu| vec![cpu]));
        }
    }
    workload.duration_ns = Some(70_000 * MS);
}

fn messengers(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    let pairs = rng.random_range(1..=8);
    let bytes = rng.random_range(1..=10_000);
    workload.objects.push(match rng.random_bool(0.5) {
        true => Object::Pipe { capacity: 65_536 },
        false => Object::Socket { capacity: 212_992, overhead: 668 },
    });
    let channel = workload.objects.len() - 1;
    let times = rng.random_range(1..200);
    for _ in 0..pairs {
        let write = vec![run_for(rng, 20 * US), Step::Write { channel, bytes }];
        add(workload, "writer", repeat(times, write));
        let read = vec![Step::Read { channel, bytes }, run_for(rng, 20 * US)];
        add(workload, "reader", repeat(times, read));
    }
}

/// Few tasks that hand each other the CPU very often.
fn chatter(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    for _ in 0..rng.random_range(1..=4) {
        workload.objects.push(Object::Pipe { capacity: 4096 });
        let channel = workload.objects.len() - 1;
        let bytes = rng.random_range(500..=4096);
        let times = rng.random_range(2_000..10_000);
        let write = vec![run_for(rng, 5 * US), Step::Write { channel, bytes }];
        add(workload, "talker", repeat(times, write));
        let read = vec![Step::Read { channel, bytes }, run_for(rng, 5 * US)];
        add(workload, "listener", repeat(times, read));
    }
}

/// In a fifth of the cases threads that share an interpreter's lock: some serve clients that connect, others work.
fn server(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    if !rng.random_bool(0.2) {
        return;
    }
    let object = |workload: &mut Workload, object| {
        workload.objects.push(object);
        workload.objects.len() - 1
    };
    let (interval_ns, ask_ns) = (rng.random_range(100 * US..=5 * MS), rng.random_range(0..20 * US));
    let gil = object(workload, Object::Gil { interval_ns, ask_ns });
    let listener = object(workload, Object::Listener);
    let bytes = rng.random_range(1..=5000);
    let mut threads = vec![Vec::new(); rng.random_range(1..=5)];
    for client in 0..rng.random_range(1..=8) {
        let mut steps = Vec::new();
        for _ in 0..rng.random_range(1..=10) {
            let ways = [(); 2].map(|()| object(workload, Object::Pipe { capacity: 4096 }));
            let ends = [(); 2].map(|()| object(workload, Object::Accepted));
            steps.extend([
                run_for(rng, MS),
                Step::Connect { listener, connection: ways[0] },
                Step::Write { channel: ways[0], bytes },
                Step::Read { channel: ways[1], bytes },
            ]);
            let thread = rng.random_range(0..threads.len());
            threads[thread].extend([
                Step::Accept { listener, accepted: ends[0] },
                Step::Read { channel: ends[0], bytes },
                run_for(rng, 2 * MS),
                Step::Write { channel: ends[1], bytes },
            ]);
        }
        add(workload, &format!("client-{client}"), steps);
    }
    threads.extend((0..rng.random_range(0..=3)).map(|_| vec![run_for(rng, 30 * MS)]));
    for steps in threads {
        add(workload, "thread", steps);
        let thread = workload.tasks.last_mut().expect("it was added");
        // Far from the other processes' numbers.
        (thread.gil, thread.process) = (Some(gil), usize::MAX / 2);
    }
}

/// In a tenth of the cases tasks that fork two more each, up to some dozens.
fn bomb(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    if !rng.random_bool(0.1) {
        return;
    }
    let first = workload.tasks.len();
    let tasks = rng.random_range(3..=127);
    for number in 0..tasks {
        let children = [2 * number + 1, 2 * number + 2].into_iter().filter(|child| *child < tasks);
        let mut steps = vec![run_for(rng, 200 * US)];
        steps.extend(children.map(|child| Step::Fork(first + child)));
        steps.push(run_for(rng, 2 * MS));
        add(workload, "bomb", steps);
        workload.tasks.last_mut().expect("one was just added").forked = number > 0;
    }
}

fn barrier(rng: &mut Pcg64Mcg, cpus: usize, workload: &mut Workload) {
    let parties = rng.random_range(1..=2 * cpus as u32);
    let spin_ns = [0, 50 * US, 2 * MS][rng.random_range(0..3)];
    workload.objects.push(Object::Barrier { parties, spin_ns });
    let barrier = workload.objects.len() - 1;
    let times = rng.random_range(1..20);
    for _ in 0..parties {
        let steps = vec![run_for(rng, 3 * MS), Step::Barrier(barrier)];
        add(workload, "party", repeat(times, steps));
    }
}

fn lockers(rng: &mut Pcg64Mcg, workload: &mut Workload) {
    workload.objects.push(Object::Mutex);
    let mutex = workload.objects.len() - 1;
    for _ in 0..rng.random_range(2..=8) {
        let steps = vec![
            Step::Lock(mutex),
            run_for(rng, 100 * US),
            Step::Unlock(mutex),
            run_for(rng, 100 * US),
            Step::Yield,
        ];
        add(workload, "locker", repeat(rng.random_range(1..50), steps));
    }
}

/// Real-time tasks that keep CPUs for a while, in a fifth of the cases. The random stream is its own here, too.
fn hogs(rng: &mut Pcg64Mcg, machine: &Machine, faults: &mut Vec<Fault>) {
    if !rng.random_bool(0.2) {
        return;
    }
    for _ in 0..rng.random_range(1..=3) {
        let cpu = rng.random_range(0..machine.cpus.len());
        // Some for no longer than a slice, some so long that the class below gets its share meanwhile.
        let for_ns = [MS, 30 * MS, 300 * MS, 3_000 * MS][rng.random_range(0..4)];
        let for_ns = rng.random_range(for_ns / 10..=for_ns);
        let change = Change::Hog { cpu, for_ns, priority: rng.random_range(1..=99) };
        faults.push(Fault { at_ns: rng.random_range(0..100 * MS), change });
    }
}

/// In a tenth of the cases rare events: another program in a task, counters that fail, a governor.
fn rare(rng: &mut Pcg64Mcg, workload: &Workload, faults: &mut Vec<Fault>) {
    if !rng.random_bool(0.1) {
        return;
    }
    for _ in 0..rng.random_range(1..=4) {
        let change = match rng.random_range(0..4) {
            0 => Change::Counters(Failing::JumpBack),
            1 => Change::Counters(Failing::Stand),
            2 => Change::Governor(rng.random_range(500..4000)),
            _ => {
                let task = rng.random_range(0..workload.tasks.len());
                Change::Exec(task, 1_000 + rng.random_range(0..4))
            }
        };
        faults.push(Fault { at_ns: rng.random_range(0..100 * MS), change });
    }
}

/// Changes from outside, in a third of the cases. CPUs go offline only if all tasks may use the first.
fn faults(rng: &mut Pcg64Mcg, machine: &Machine, workload: &Workload) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !rng.random_bool(0.33) {
        return faults;
    }
    let cpus = machine.cpus.len();
    let besieged = workload.duration_ns.is_some();
    for _ in 0..rng.random_range(1..10) {
        let task = rng.random_range(0..workload.tasks.len());
        let cpu = rng.random_range(0..cpus);
        let at_ns = rng.random_range(0..100 * MS);
        let change = match rng.random_range(0..3) {
            0 => {
                let some = rng.random_range(1..=cpus);
                let mut mask: CpuSet = (0..some).map(|_| rng.random_range(0..cpus)).collect();
                mask.add(0);
                Change::Affinity(task, mask)
            }
            1 if !besieged && cpu != 0 => {
                // Never the first, which every mask has: no task is left without a CPU.
                let back_ns = at_ns + rng.random_range(MS..50 * MS);
                faults.push(Fault { at_ns: back_ns, change: Change::Online(cpu) });
                Change::Offline(cpu)
            }
            _ => Change::Nice(task, rng.random_range(-20..=19)),
        };
        faults.push(Fault { at_ns, change });
    }
    faults
}
