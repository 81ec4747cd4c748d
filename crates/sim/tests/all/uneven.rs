// SPDX-License-Identifier: GPL-2.0-only
//! Cores of several kinds: a task's speed depends on both the task and the core.

use machine::{find, stalled_for, task_rate};
use policy::table::TaskView;
use policy::{Control, Instance, Plan, Policy, Told, View};
use sim::{Scenario, Scheduler, run};
use trace::Outcome;
use workload::{Step, Task, Workload};

use crate::common::{burn, cores, task, workload};

const MS: u64 = 1_000_000;

/// Time of one task of this speedup alone on each kind of core of the talk's machine, in ns.
fn alone(speedup: f64, cpu: usize) -> f64 {
    let machine = find("phenom-2f4s").unwrap();
    let stalled = stalled_for(speedup, machine.core_rates[1]).unwrap();
    let burner = task("burn", vec![burn(400)]);
    let one = Task { cpus: Some(vec![cpu]), stalled, ..burner };
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let mut scenario = Scenario::new(machine, workload(vec![one]), fifo);
    scenario.options.jitter = 0.0;
    run(&scenario).unwrap().elapsed_ns as f64
}

#[test]
fn a_task_gains_from_a_fast_core_what_it_is_to_gain() {
    for speedup in [1.0, 1.7, 2.6, 3.5] {
        let (fast, slow) = (alone(speedup, 0), alone(speedup, 5));
        assert!((slow / fast / speedup - 1.0).abs() < 0.002, "{speedup}: {slow} / {fast}");
        assert!(fast < 1.002 * (400 * MS) as f64, "the reference is the fast core: {fast}");
    }
}

/// Gives out the shares in the tasks' names: `t-0.25` is to be on fast cores for a quarter of its time.
struct AsNamed;

impl Control for AsNamed {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let share = |task: &TaskView| {
            let name = (view.name_of)(task.pid)?;
            let fast: f64 = name.strip_prefix("t-")?.split('-').next()?.parse().ok()?;
            let fast = (fast * 65535.0).round() as u64;
            Some((*task, fast | (65535 - fast) << 16))
        };
        let tasks = view.table.tasks();
        let shares: Vec<_> = tasks.iter().filter_map(share).collect();
        view.table.publish(0, &shares);
        100 * MS
    }
}

/// The part of its CPU time that each task was on a fast core, and CPU time, s.
fn shares(fast: &[f64], seconds: u64) -> (Vec<(f64, f64)>, Outcome) {
    let named = Box::leak(Box::new(Policy {
        control: Some(Plan { begin: |_, _, _| Box::new(AsNamed), told: |_| Told::Speeds }),
        name: "named",
        ..uneven::MAX_FAIR
    }));
    let burner = |(at, fast): (usize, &f64)| task(&format!("t-{fast}-{at}"), vec![burn(1_000_000)]);
    let tasks = fast.iter().enumerate().map(burner).collect();
    let job = Workload { duration_ns: Some(seconds * 1000 * MS), ..workload(tasks) };
    let scheduler = Scheduler::Policy(Instance::default(named));
    let scenario = Scenario::new(find("phenom-2f4s").unwrap(), job, scheduler);
    let outcome = run(&scenario).unwrap();
    let of = |at: usize| &outcome.observed.tasks[&(at as u32 + 1)];
    let share = |at| (of(at).kind_ns[0] as f64 / of(at).cpu_ns as f64, of(at).cpu_ns as f64 / 1e9);
    ((0..fast.len()).map(share).collect(), outcome)
}

#[test]
fn tasks_get_their_shares_of_fast_cores() {
    for wanted in [
        vec![1.0 / 3.0; 6],
        vec![1.0, 0.4346, 0.1951, 0.1679, 0.1333, 0.0690],
        vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        vec![2.0 / 3.0; 3],
        vec![1.0 / 3.0; 12],
        vec![0.6, 0.6, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 0.0, 0.0],
        vec![1.0, 1.0],
        vec![1.0],
    ] {
        let (got, outcome) = shares(&wanted, 10);
        let even_s = 10.0 * (6.0 / wanted.len() as f64).min(1.0);
        for (got, wanted) in got.iter().zip(&wanted) {
            assert!((got.0 - wanted).abs() < 0.01, "{wanted} of fast cores, not {}", got.0);
            assert!((got.1 / even_s - 1.0).abs() < 0.02, "{} s of CPU time, not {even_s}", got.1);
        }
        let seen = &outcome.observed;
        assert!(seen.idle_while_runnable_ns < 60 * 10 * MS / 10, "{}", seen.idle_while_runnable_ns);
        // Six tasks that rotate swap places some 130 times a second: two migrations each.
        assert!(seen.migrations < 10 * 700, "{}", seen.migrations);
    }
}

/// The programs of slides 5 and 8, and a few more: speedups in the order of the tasks.
const SPEEDUPS: [f64; 6] = [3.5, 3.1, 2.7, 2.3, 2.0, 1.7];

/// Burners of these speedups on the talk's machine, for `seconds`; the profile gives their speeds.
fn mix(policy: &str, speedups: &[f64], seconds: u64) -> Scenario {
    let machine = find("phenom-2f4s").unwrap();
    let slow = machine.core_rates[1];
    let burner = |(at, speedup): (usize, &f64)| Task {
        stalled: stalled_for(*speedup, slow).unwrap(),
        ..task(&format!("s{at}"), vec![burn(1_000_000)])
    };
    let tasks: Vec<Task> = speedups.iter().enumerate().map(burner).collect();
    let known = |(at, speedup): (usize, &f64)| (format!("s{at}"), vec![*speedup, 1.0]);
    let job = Workload { duration_ns: Some(seconds * 1000 * MS), ..workload(tasks) };
    let instance = Instance::parse(policy, uneven::ALL).unwrap();
    let mut scenario = Scenario::new(machine, job, Scheduler::Policy(instance));
    scenario.profile = speedups.iter().enumerate().map(known).collect();
    scenario.options.counters = false;
    scenario
}

/// The part of its CPU time that each task was on a fast core.
fn fast_shares(outcome: &Outcome, tasks: usize) -> Vec<f64> {
    let share = |at: usize| {
        let seen = &outcome.observed.tasks[&(at as u32 + 1)];
        seen.kind_ns[0] as f64 / seen.cpu_ns as f64
    };
    (0..tasks).map(share).collect()
}

#[test]
fn each_policy_reaches_what_it_plans() {
    use uneven::{Base, Policy as Rule, Problem, Reading, plan};
    let rules = [
        ("max-fair", Rule::MaxFair),
        ("max-perf", Rule::MaxPerf),
        ("min-fair", Rule::MinFair { target: 0.85 }),
        ("min-fair:target=0.95", Rule::MinFair { target: 0.95 }),
        ("similar-min-fair:similarity=0.5", Rule::SimilarMinFair { similarity: 0.5, target: 0.85 }),
        ("r-fair", Rule::RFair { ratio: 0.5, reading: Reading::Greedy }),
        ("r-fair:reading=blend", Rule::RFair { ratio: 0.5, reading: Reading::Blend }),
        ("equal-progress", Rule::EqualProgress { base: Base::FastCore }),
        ("uni-fair", Rule::UniFair { uniformity: 0.85, deviation: uneven::Deviation::Sample }),
        (
            "guaranteed-fair",
            Rule::UniFair { uniformity: 0.85, deviation: uneven::Deviation::Sample },
        ),
    ];
    for (name, rule) in rules {
        let wanted = plan(&Problem::two_types(2.0, 4.0, &SPEEDUPS), &rule).unwrap();
        let exact = if name.contains(':') { ",deviations=0" } else { ":deviations=0" };
        let outcome = run(&mix(&format!("{name}{exact}"), &SPEEDUPS, 10)).unwrap();
        for (got, wanted) in fast_shares(&outcome, 6).iter().zip(&wanted.shares) {
            assert!((got - wanted[0]).abs() < 0.02, "{name}: {got}, planned {}", wanted[0]);
        }
    }
}

/// Linux cuts masks to the online CPUs (sched_setaffinity, cpusets): a task that may run on all of them is not pinned.
#[test]
fn task_that_may_run_on_all_online_cpus_rotates() {
    let mut scenario = mix("min-fair:deviations=0", &SPEEDUPS[..5], 10);
    scenario.workload.tasks.iter_mut().for_each(|task| task.cpus = Some((0..5).collect()));
    scenario.faults = vec![sim::Fault { at_ns: 0, change: sim::Change::Offline(5) }];
    let got = fast_shares(&run(&scenario).unwrap(), 5);
    let rule = uneven::Policy::MinFair { target: 0.85 };
    let problem = uneven::Problem::two_types(2.0, 3.0, &SPEEDUPS[..5]);
    let wanted = uneven::plan(&problem, &rule).unwrap();
    for (got, wanted) in got.iter().zip(&wanted.shares) {
        assert!((got - wanted[0]).abs() < 0.02, "{got}, planned {}", wanted[0]);
    }
}

/// It is bound to a slow core, and may run on all online CPUs until a fast one goes online again. That one is to take
/// it over then, and finds that it cannot leave.
#[test]
fn task_that_cannot_move_runs_on() {
    let change = |ms: u64, change| sim::Fault { at_ns: ms * MS, change };
    let mut machine = cores(2);
    machine.core_rates = vec![1.0, 0.5];
    machine.cpus[0].core_type = 1;
    for policy in uneven::ALL {
        let late = Task { cpus: Some(vec![0]), delay_ns: 20 * MS, ..task("late", vec![burn(50)]) };
        let scheduler = Scheduler::Policy(Instance::default(policy));
        let mut scenario = Scenario::new(machine.clone(), workload(vec![late]), scheduler);
        scenario.faults =
            vec![change(10, sim::Change::Offline(1)), change(50, sim::Change::Online(1))];
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{}: {error}", policy.name));
        let waited_ns = outcome.observed.tasks[&1].wait_max_ns;
        assert!(waited_ns < MS, "{}: it waited for {waited_ns} ns", policy.name);
    }
}

/// Two tasks swap places several times in a turn, so that a task is always sent to either CPU. A third wakes on one of
/// them now and then. It has that CPU when the turn is over, and so does another one that began just before.
#[test]
fn task_that_waits_where_others_swap_is_not_starved() {
    let mut machine = cores(2);
    machine.core_rates = vec![1.0, 0.5];
    machine.cpus[1].core_type = 1;
    let tick_ms = machine.costs.tick_period_ns as u64 / MS;
    let naps =
        || vec![Step::Repeat { times: None, steps: vec![burn(1), Step::Sleep { ns: 50 * MS }] }];
    for cpu in 0..2 {
        let waits = Task { cpus: Some(vec![cpu]), ..task("waits", naps()) };
        let changes = |name| task(name, vec![burn(100_000)]);
        let mut load = workload(vec![changes("one"), changes("other"), waits]);
        load.duration_ns = Some(10_000 * MS);
        let policy = Instance::parse("max-fair:slice=60ms,round=16ms", uneven::ALL).unwrap();
        let outcome =
            run(&Scenario::new(machine.clone(), load, Scheduler::Policy(policy))).unwrap();
        assert!(outcome.observed.migrations > 100, "{} in 10 s", outcome.observed.migrations);
        let waited_ms = outcome.observed.tasks[&3].wait_max_ns / MS;
        assert!(waited_ms <= 2 * (60 + tick_ms), "on CPU {cpu} it waited for {waited_ms} ms");
    }
}

/// Three may run on one fast core and two slow ones, three on the others: each group has a fast core to share.
#[test]
fn tasks_that_may_run_on_each_others_cpus_rotate() {
    let mut scenario = mix("max-fair", &SPEEDUPS, 20);
    for (at, task) in scenario.workload.tasks.iter_mut().enumerate() {
        task.cpus = Some(if at < 3 { vec![0, 2, 3] } else { vec![1, 4, 5] });
    }
    let got = fast_shares(&run(&scenario).unwrap(), 6);
    assert!(got.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.02), "{got:?}");
}

/// The same mix with measured speeds; its counters fail at this second.
fn measured(fault: Option<(u64, sim::Failing)>, seconds: u64) -> Vec<f64> {
    let policy = "min-fair:memo=off,deviations=0,interval=500ms";
    let mut scenario = mix(policy, &SPEEDUPS, seconds);
    scenario.profile.clear();
    scenario.options.counters = true;
    scenario.faults = fault
        .map(|(at_s, how)| sim::Fault {
            at_ns: at_s * 1000 * MS,
            change: sim::Change::Counters(how),
        })
        .into_iter()
        .collect();
    fast_shares(&run(&scenario).unwrap(), 6)
}

#[test]
fn counters_that_stand_still_make_tasks_unknown_again() {
    let known = measured(None, 5);
    let mut unknown = mix("min-fair:deviations=0,interval=500ms", &SPEEDUPS, 15);
    unknown.profile.clear();
    let unknown = fast_shares(&run(&unknown).unwrap(), 6);
    for (at, got) in measured(Some((5, sim::Failing::Stand)), 20).iter().enumerate() {
        let wanted = 0.25 * known[at] + 0.75 * unknown[at];
        assert!((got - wanted).abs() < 0.03, "{at}: {got}, not {wanted}");
        assert!(at == 0 || at == 1 || (unknown[at] - known[at]).abs() > 0.02, "it tells nothing");
    }
}

#[test]
fn counters_that_jump_back_are_measured_anew() {
    let known = measured(None, 10);
    for (got, wanted) in measured(Some((5, sim::Failing::JumpBack)), 10).iter().zip(known) {
        assert!((got - wanted).abs() < 0.02, "{got}, not {wanted}");
    }
}

/// Slide 27: short programs one after the other, beside five that stay. From the second on they start right.
#[test]
fn a_short_program_starts_right_where_it_is_remembered() {
    let fast = |memo: &str| {
        let mut scenario = mix(&format!("max-perf:interval=500ms,memo={memo}"), &SPEEDUPS, 10);
        scenario.profile.clear();
        scenario.options.counters = true;
        let best = Task { process: 6, ..scenario.workload.tasks[0].clone() };
        scenario.workload.tasks.remove(0);
        for at in 0..8 {
            let (name, process) = (format!("short-{at}"), 10 + at as usize);
            let steps = vec![burn(250)];
            let delay_ns = 3000 * MS + at * 700 * MS;
            let short = Task { name, process, steps, delay_ns, ..best.clone() };
            scenario.workload.tasks.push(short);
        }
        let outcome = run(&scenario).unwrap();
        let of = |kind: usize| {
            (7..=12).map(|tid| outcome.observed.tasks[&tid].kind_ns[kind]).sum::<u64>() as f64
        };
        of(0) / (of(0) + of(1))
    };
    let (with, without) = (fast("on"), fast("off"));
    assert!(with > without + 0.1, "{with} of the time on fast cores, {without} without");
}

#[test]
fn a_phase_begins_where_the_program_says() {
    let machine = find("phenom-2f4s").unwrap();
    let stalled_for = |part: f64| {
        let steps = vec![Step::Stalled { part: 1.0 }, burn(200), Step::Stalled { part }, burn(200)];
        let one = Task { cpus: Some(vec![5]), ..task("phases", steps) };
        let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
        let mut scenario = Scenario::new(machine.clone(), workload(vec![one]), fifo);
        scenario.options.jitter = 0.0;
        run(&scenario).unwrap().elapsed_ns as f64 / MS as f64
    };
    assert!((stalled_for(1.0) / 400.0 - 1.0).abs() < 0.002);
    assert!((stalled_for(0.0) / (200.0 + 200.0 * 3.5) - 1.0).abs() < 0.002);
}

#[test]
fn pressure_on_a_cache_slows_the_other_tasks_of_that_cache() {
    let mut machine = find("phenom-2f4s").unwrap();
    machine.costs.llc_contention = 0.5;
    let mut took = |pressure: f64, other: usize| {
        let hog = Task { cpus: Some(vec![other]), pressure, ..task("hog", vec![burn(100)]) };
        let one = Task { cpus: Some(vec![0]), stalled: 0.6, ..task("one", vec![burn(400)]) };
        let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
        let job = workload(vec![hog, one]);
        let mut scenario = Scenario::new(machine.clone(), job, fifo);
        scenario.options.jitter = 0.0;
        let elapsed_ns = run(&scenario).unwrap().elapsed_ns;
        // From here on the other CPU is under another cache.
        machine.cpus[1].llc = 1;
        elapsed_ns as f64 / MS as f64
    };
    // For 100 ms stalls take 1.3 times as long: 100 / 1.3 of the work is done in them.
    let slowed = took(1.0, 1);
    assert!((slowed - (400.0 + 100.0 - 100.0 / 1.3)).abs() < 2.0, "{slowed}");
    assert!(
        (took(1.0, 1) - 400.0).abs() < 2.0,
        "a hog under another cache is none of its business"
    );
    assert!((took(0.0, 0) - 500.0).abs() < 3.0, "on one CPU they take turns");
}

/// The talk's machines and other machines with different cores.
const UNEVEN: [&str; 5] = ["phenom-2f4s", "odroid-xu3", "die-8", "tensor-g1", "core-ultra-255h"];

#[test]
fn every_policy_runs_on_every_uneven_machine_and_keeps_its_promises() {
    for name in UNEVEN {
        let machine = find(name).unwrap();
        let kinds = machine.kinds(policy::table::TYPES_MAX);
        assert!(kinds.rates.len() > 1, "{name}");
        let cpus = machine.cpus.len();
        for policy in uneven::ALL {
            for tasks in [cpus / 2, cpus, cpus + cpus / 2] {
                let stalled = |at: usize| 0.7 * at as f64 / tasks as f64;
                let burner = |at| Task {
                    stalled: stalled(at),
                    ..task(&format!("s{at}"), vec![burn(1_000_000)])
                };
                let speeds = |at| {
                    let slowest = task_rate(*kinds.rates.last().unwrap(), stalled(at));
                    let of = |rate: &f64| task_rate(*rate, stalled(at)) / slowest;
                    (format!("s{at}"), kinds.rates.iter().map(of).collect())
                };
                let job = Workload {
                    duration_ns: Some(1000 * MS),
                    ..workload((0..tasks).map(burner).collect())
                };
                let instance = Instance::default(policy);
                let mut scenario = Scenario::new(machine.clone(), job, Scheduler::Policy(instance));
                scenario.profile = (0..tasks).map(speeds).collect();
                scenario.options.check = true;
                let outcome = run(&scenario).unwrap_or_else(|error| {
                    panic!("{} on {name}, {tasks} tasks: {error}", policy.name)
                });
                let busy: u64 = outcome.observed.tasks.values().map(|task| task.cpu_ns).sum();
                let most = 1000 * MS * tasks.min(cpus) as u64;
                assert!(
                    busy as f64 > 0.98 * most as f64,
                    "{} on {name}: {busy} of {most}",
                    policy.name
                );
            }
        }
    }
}

#[test]
fn what_a_control_plane_measures_is_told() {
    let mut scenario = mix("max-fair", &SPEEDUPS, 10);
    scenario.profile.clear();
    scenario.options.counters = true;
    scenario.options.record.speeds = true;
    let measured = sim::run_traced(&scenario).unwrap().speeds;
    for (at, speedup) in SPEEDUPS.iter().enumerate() {
        let speeds = &measured[&(at as u32 + 1)];
        assert!((speeds[0] / speedup - 1.0).abs() < 0.02, "{speeds:?}, not {speedup}");
        assert_eq!(speeds[1], 1.0);
    }
    scenario.options.counter_noise = 0.05;
    let noisy = sim::run_traced(&scenario).unwrap().speeds;
    assert_ne!(noisy, measured);
}
