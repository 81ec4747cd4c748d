// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that go offline and online, and masks and nice values that change during a run.

use std::collections::BTreeMap;

use policy::{Instance, Policy};
use sim::{Change, Fault, Scheduler, Traced, run, run_traced};
use trace::{Event, IDLE, Kind, Tid};
use workload::{Step, Task};

use crate::common::{MS, burn, cores, every_scheduler, policy, scenario, task, workload};

fn at(ms: u64, change: Change) -> Fault {
    Fault { at_ns: ms * MS, change }
}

fn burners(n: usize, ms: u64) -> workload::Workload {
    workload((0..n).map(|n| task(&format!("t{n}"), vec![burn(ms)])).collect())
}

fn schedulers() -> Vec<Scheduler> {
    vec![policy("all"), Scheduler::Default, Scheduler::Cfs]
}

#[test]
fn tasks_leave_a_cpu_that_goes_offline() {
    for scheduler in schedulers() {
        let mut scenario = scenario(cores(4), burners(8, 20), scheduler);
        scenario.faults = vec![at(5, Change::Offline(2)), at(30, Change::Online(2))];
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let between = |t_ns| (6 * MS..30 * MS).contains(&t_ns);
        let used = traced.events.iter().any(|event| {
            let runs = matches!(event.kind, Kind::Switch { next, .. } if next != IDLE);
            runs && event.cpu == 2 && between(event.t_ns)
        });
        assert!(!used, "{} ran a task on an offline CPU", traced.outcome.policy);
    }
}

/// One runs, one waits for a CPU, one sleeps, and one has not begun.
#[test]
fn tasks_that_are_ended_soon_leave() {
    for scheduler in every_scheduler() {
        let sleeps = |ms| Step::Sleep { ns: ms * MS };
        let late = Task { delay_ns: 20 * MS, ..task("late", vec![burn(1000)]) };
        let tasks = vec![
            task("a", vec![burn(1000)]),
            task("b", vec![burn(1000)]),
            task("sleeper", vec![sleeps(15), burn(1000), sleeps(1000)]),
            late,
            task("stays", vec![burn(20)]),
        ];
        let mut scenario = scenario(cores(1), workload(tasks), scheduler);
        scenario.faults = (0..4).map(|task| at(10, Change::End(task))).collect();
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let ended_ms = traced.ended_ns.iter().map(|ns| ns.unwrap() / MS).collect::<Vec<_>>();
        assert!(ended_ms.iter().all(|ms| *ms < 100), "{}: {ended_ms:?}", traced.outcome.policy);
        assert!(ended_ms[2] >= 15 && ended_ms[3] >= 20, "{ended_ms:?}");
        let work: f64 = traced.outcome.progress.values().sum();
        assert!((25e6..50e6).contains(&work), "{}: {work} ns of work", traced.outcome.policy);
    }
}

/// They come while the only other CPU is offline, and may not run there when it is online again: it may idle then.
#[test]
fn task_forked_while_a_cpu_is_offline_is_known_to_be_pinned() {
    for scheduler in every_scheduler() {
        let bound = |n: usize| Task {
            cpus: Some(vec![0]),
            forked: true,
            ..task(&format!("t{n}"), vec![burn(100)])
        };
        let forks = vec![Step::Sleep { ns: 10 * MS }, Step::Fork(1), Step::Fork(2)];
        let load = workload(vec![task("parent", forks), bound(1), bound(2)]);
        let mut scenario = scenario(cores(2), load, scheduler);
        scenario.options.check = true;
        scenario.faults = vec![at(5, Change::Offline(1)), at(30, Change::Online(1))];
        run(&scenario).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Two cores of two threads. One thread is offline, and the other of its core is a whole core from then on. It is
/// chosen before the second thread of a half-busy core.
#[test]
fn what_is_left_of_a_core_is_a_whole_one() {
    let text = include_str!("../../../../machines/numa-2x4.toml")
        .replace("nodes = { value = 2", "nodes = { value = 1")
        .replace("cores_per_llc = { value = 4", "cores_per_llc = { value = 2")
        .replace("threads_per_core = { value = 1", "threads_per_core = { value = 2")
        .replace("[[10, 20], [20, 10]]", "[[10]]")
        .replace("\n[costs]\n", "\n[costs]\nsmt_rate_2 = { value = 0.6, unit = \"1\", source = \"by definition\", tag = \"assumed\" }\n");
    let machine = machine::Machine::from_toml(&text, "smt").unwrap();
    let (left, gone) = (0, (1..4).find(|cpu| machine.cpus[*cpu].core == machine.cpus[0].core));
    let other: Vec<usize> = (1..4).filter(|cpu| Some(*cpu) != gone).collect();
    let bound = |cpu, ms| Task { cpus: Some(vec![cpu]), ..task("bound", vec![burn(ms)]) };
    let nap = vec![Step::Run { work_ns: MS / 10 }, Step::Sleep { ns: MS }];
    let naps = vec![Step::Repeat { times: Some(50), steps: nap }];
    let naps = Task { cpus: Some(vec![left, other[1]]), delay_ns: 10 * MS, ..task("naps", naps) };
    // It begins beside a pinned task, as the whole core is busy until later.
    let load = workload(vec![bound(left, 20), bound(other[0], 200), naps]);
    let mut scenario =
        scenario(machine, load, Scheduler::Policy(Instance::default(&baseline::FIFO)));
    scenario.faults = vec![at(5, Change::Offline(gone.unwrap()))];
    let traced = run_traced(&scenario).unwrap();
    let naps =
        |event: &&Event| matches!(event.kind, Kind::Switch { next: 3, .. }) && event.t_ns > 25 * MS;
    let cpus: Vec<u32> = traced.events.iter().filter(naps).map(|event| event.cpu).collect();
    assert!(cpus.len() > 20 && cpus.iter().all(|cpu| *cpu == left as u32), "{cpus:?}");
}

#[test]
fn a_policy_without_hotplug_callbacks_is_unloaded() {
    let pile = Scheduler::Policy(Instance::default(&baseline::PILE));
    let mut scenario = scenario(cores(4), burners(8, 20), pile);
    scenario.faults = vec![at(5, Change::Offline(2))];
    let error = run(&scenario).unwrap_err().to_string();
    assert_eq!(error, "policy pile: cpu 2 going offline, exiting scheduler");
}

/// The abandoned queue of an offline CPU looks the shortest: new tasks must not be put there.
#[test]
fn tasks_that_come_are_not_put_where_a_cpu_went() {
    const REGISTRY: &[&Policy] = &[&flsched::FLSCHED, &cas::CAS, &baseline::FIFO];
    for label in ["flsched", "flsched:pull=true", "cas", "cas:slack=3ms,aggregate=2", "fifo"] {
        let mut load = burners(8, 60);
        let late = |n| Task { process: n, ..task(&format!("late{n}"), vec![burn(10)]) };
        let forker = (8..24).map(Step::Fork).collect();
        load.tasks.extend((8..24).map(|n| Task { forked: true, ..late(n) }));
        load.tasks.push(Task { delay_ns: 7 * MS, ..task("forker", forker) });
        let instance = Instance::parse(label, REGISTRY).unwrap();
        let mut scenario = scenario(cores(4), load, Scheduler::Policy(instance));
        let gone = [1, 2].map(|cpu| at(5, Change::Offline(cpu)));
        scenario.faults = gone.into_iter().chain([at(500, Change::Online(1))]).collect();
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let late = |name: &str| name.starts_with("late");
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        for event in &traced.events {
            if let Kind::Switch { next, .. } = event.kind
                && traced.outcome.names.get(&next).is_some_and(|name| late(name))
            {
                first.entry(next).or_insert(event.cpu);
            }
        }
        let on = |cpu| first.values().filter(|own| **own == cpu).count();
        assert_eq!(on(0) + on(3), 16, "{label}: {first:?}");
        assert!(on(0).min(on(3)) >= 4, "{label}: {} and {} begin", on(0), on(3));
    }
}

#[test]
fn a_running_task_moves_when_its_mask_changes() {
    for scheduler in schedulers() {
        let mut load = burners(1, 20);
        load.tasks[0].cpus = Some(vec![0]);
        let mut scenario = scenario(cores(2), load, scheduler);
        scenario.faults = vec![at(5, Change::Affinity(0, [1].into_iter().collect()))];
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.observed.tasks[&1].migrations, 1, "{}", outcome.policy);
        assert!(outcome.elapsed_ns < 22 * MS);
    }
}

/// It may wait, run, sleep, or be on its way to a CPU. The checkers see where it runs.
#[test]
fn masks_are_kept_whatever_a_task_does_when_they_change() {
    const US: u64 = 1_000;
    let naps = |n: u64| {
        let steps = vec![Step::Run { work_ns: (20 + n) * US }, Step::Sleep { ns: 10 * US }];
        vec![Step::Repeat { times: Some(300), steps }]
    };
    let load = workload((0..12).map(|n| task(&format!("t{n}"), naps(n))).collect());
    let flsched = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
    for scheduler in [Scheduler::Default, Scheduler::Cfs, flsched] {
        for seed in 0..3 {
            let machine = machine::find("icount-2x4").unwrap();
            let mut scenario = scenario(machine, load.clone(), scheduler.clone()).seed(seed);
            let mask = |n: usize| [n % 7, n * n % 8].into_iter().collect();
            let change = |n| Fault {
                at_ns: MS + n as u64 * 37_123,
                change: Change::Affinity(n % 12, mask(n)),
            };
            scenario.faults = (0..500).map(change).collect();
            run(&scenario).unwrap_or_else(|error| panic!("{scheduler:?}, seed {seed}: {error}"));
        }
    }
}

/// Each leaves CPU 0 by itself, for any of seven others.
#[test]
fn tasks_that_leave_a_cpu_are_spread_over_their_new_mask() {
    let of = |policy| Scheduler::Policy(Instance::default(policy));
    for scheduler in [Scheduler::Default, of(&flsched::FLSCHED), of(&baseline::FIFO)] {
        let steps = vec![burn(1), Step::Cpus(Some((1..8).collect())), burn(20)];
        let one = |n| Task { cpus: Some(vec![0]), ..task(&format!("t{n}"), steps.clone()) };
        let load = workload((0..7).map(one).collect());
        let outcome = run(&scenario(cores(8), load, scheduler)).unwrap();
        let (policy, elapsed_ns) = (&outcome.policy, outcome.elapsed_ns);
        assert!(elapsed_ns < 30 * MS, "{policy}: a CPU for each, in {elapsed_ns} ns");
    }
}

/// It runs on these CPUs one after the other, and goes back to CPU 0 before each.
#[test]
fn linux_2_6_had_all_go_to_the_first_cpu_of_their_mask() {
    for (scheduler, expected) in [(Scheduler::Default, [1, 2, 3]), (Scheduler::Cfs, [1, 1, 1])] {
        let there = [Step::Cpus(Some(vec![1, 2, 3])), burn(1), Step::Cpus(Some(vec![0])), burn(1)];
        let one = Task { cpus: Some(vec![0]), ..task("one", vec![there; 3].concat()) };
        let traced = run_traced(&scenario(cores(4), workload(vec![one]), scheduler)).unwrap();
        let on = |event: &Event| match event.kind {
            Kind::Switch { next: 1, .. } if event.cpu != 0 => Some(event.cpu),
            _ => None,
        };
        let used: Vec<u32> = traced.events.iter().filter_map(on).collect();
        assert_eq!(used, expected, "{}", traced.outcome.policy);
    }
}

#[test]
fn a_waiting_task_moves_when_its_mask_changes() {
    for scheduler in schedulers() {
        let mut load = burners(2, 20);
        load.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
        let mut scenario = scenario(cores(2), load, scheduler);
        scenario.faults = vec![at(2, Change::Affinity(1, [1].into_iter().collect()))];
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.elapsed_ns < 25 * MS, "{}: {}", outcome.policy, outcome.elapsed_ns);
    }
}

#[test]
fn nice_values_change_shares() {
    for scheduler in [Scheduler::Default, Scheduler::Cfs] {
        let mut load = burners(2, 1000);
        load.duration_ns = Some(600 * MS);
        let mut scenario = scenario(cores(1), load, scheduler);
        scenario.faults = vec![at(1, Change::Nice(1, 10))];
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let cpu_ns = |tid| outcome.observed.tasks[&tid].cpu_ns;
        // Weights 1024 and 110.
        let ratio = cpu_ns(1) as f64 / cpu_ns(2) as f64;
        assert!((6.0..12.0).contains(&ratio), "{}: {ratio}", outcome.policy);
    }
}

#[test]
fn the_policy_hears_of_changes() {
    let mut scenario = scenario(cores(2), burners(1, 10), policy("all"));
    scenario.faults = vec![
        at(2, Change::Affinity(0, [0, 1].into_iter().collect())),
        at(4, Change::Nice(0, 5)),
        at(6, Change::Offline(1)),
    ];
    let traced = run_traced(&scenario).unwrap();
    for op in ["set_cpumask", "set_weight", "cpu_offline"] {
        assert!(traced.callbacks.iter().any(|call| call.op == op && call.t_ns > MS), "{op}");
    }
}

/// The longest time from `from_ns` on, up to the end, in which a task that never sleeps has no CPU.
fn longest_wait_ns(traced: &Traced, tid: Tid, from_ns: u64) -> u64 {
    let (mut longest, mut since_ns) = (0, Some(from_ns));
    for event in traced.events.iter().filter(|event| event.t_ns >= from_ns) {
        let Kind::Switch { prev, next, .. } = event.kind else { continue };
        if next == tid {
            longest = longest.max(event.t_ns - since_ns.take().unwrap_or(event.t_ns));
        } else if prev == tid {
            since_ns = Some(event.t_ns);
        }
    }
    let end_ns = traced.events.last().map_or(from_ns, |event| event.t_ns);
    longest.max(since_ns.map_or(0, |since_ns| end_ns - since_ns))
}

/// A third of the watchdog's limit.
const LONG_MS: u64 = 10_000;

/// Tasks that may use two CPUs wait for the one that goes offline, while the other one always has other tasks to run.
#[test]
fn task_of_an_offline_cpu_is_run_by_a_busy_one() {
    for scheduler in every_scheduler() {
        let mut load = burners(12, 100_000);
        let steps = |n: u64| vec![burn(1 + n), Step::Sleep { ns: (1 + n) * MS / 3 }];
        let bound = |n: u64| Task {
            cpus: Some(vec![0, 1]),
            ..task(&format!("b{n}"), vec![Step::Repeat { times: None, steps: steps(n) }])
        };
        load.tasks.extend((0..6).map(bound));
        load.duration_ns = Some(14_000 * MS);
        let mut scenario = scenario(cores(4), load, scheduler);
        // At any moment of a turn.
        scenario.faults = (0..8)
            .map(|n| {
                at(500 + 103 * n, if n % 2 == 0 { Change::Offline(1) } else { Change::Online(1) })
            })
            .chain([at(2_000, Change::Offline(1))])
            .collect();
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let longest = (1..=18).map(|tid| longest_wait_ns(&traced, tid, 500 * MS) / MS).max();
        let name = &traced.outcome.policy;
        assert!(longest < Some(LONG_MS), "{name}: one waits for {longest:?} ms");
    }
}

/// It ran while no other task wanted to. That is no debt for which the others get minutes first.
#[test]
fn task_that_was_alone_does_not_wait_for_its_past_cpu_time() {
    for scheduler in every_scheduler() {
        let late =
            |n| Task { delay_ns: 2_000 * MS, ..task(&format!("late{n}"), vec![burn(100_000)]) };
        let early = Task { nice: 19, ..task("early", vec![burn(100_000)]) };
        let mut load = workload([early].into_iter().chain((0..9).map(late)).collect());
        load.duration_ns = Some(30_000 * MS);
        let traced = run_traced(&scenario(cores(1), load, scheduler)).unwrap();
        let longest = longest_wait_ns(&traced, 1, 0) / MS;
        assert!(longest < LONG_MS, "{}: it waits for {longest} ms", traced.outcome.policy);
    }
}
