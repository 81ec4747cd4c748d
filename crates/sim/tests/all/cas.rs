// SPDX-License-Identifier: GPL-2.0-only
//! CAS and the O(1) scheduler as whole policies: the orders of the talk, and the bound of an epoch.

use policy::{Instance, Policy};
use sim::{Change, Fault, Scheduler, run, run_traced};
use trace::Kind;
use workload::apps::Apps;
use workload::{Act, Met, Object, Step, Task, Then, Workload};

use crate::common::{MS, burn, cores, played, scenario, task, workload};

const REGISTRY: &[&Policy] = &[&cas::CAS, &cas::O1];

fn scheduler(policy: &str) -> Scheduler {
    Scheduler::Policy(Instance::parse(policy, REGISTRY).unwrap_or_else(|error| panic!("{error}")))
}

fn of(process: usize, nice: i8, task: Task) -> Task {
    Task { process, nice, ..task }
}

/// Tasks that become runnable one after the other while a task with precedence runs.
fn queued(tasks: &[(usize, i8)]) -> Workload {
    let one = |(number, &(process, nice)): (usize, &(usize, i8))| {
        let delay_ns = (number as u64 + 2) * MS;
        Task { delay_ns, ..of(process, nice, task(&format!("t{number}"), vec![burn(3)])) }
    };
    let mut all: Vec<Task> = tasks.iter().enumerate().map(one).collect();
    all.push(Task { delay_ns: MS, ..of(0, -20, task("first", vec![burn(20)])) });
    workload(all)
}

/// The order in which they run once all wait, and the number of changes of the address space among them.
fn order(policy: &str, tasks: &[(usize, i8)]) -> (String, usize) {
    order_of(policy, queued(tasks))
}

fn order_of(policy: &str, load: Workload) -> (String, usize) {
    let tasks = load.tasks.len() as u32 - 1;
    let traced = run_traced(&scenario(cores(1), load, scheduler(policy))).unwrap();
    let mut ran: Vec<(u32, u64)> = traced
        .events
        .iter()
        .filter(|event| event.t_ns > 15 * MS)
        .filter_map(|event| match event.kind {
            Kind::Switch { next, next_mm, .. } => Some((next, next_mm)),
            _ => None,
        })
        .filter(|(next, _)| (1..=tasks).contains(next))
        .collect();
    ran.dedup();
    let spaces: Vec<u64> = ran.iter().map(|(_, mm)| *mm).filter(|mm| *mm != 0).collect();
    let switches = spaces.windows(2).filter(|two| two[0] != two[1]).count();
    (ran.iter().map(|(tid, _)| (b'A' - 1 + *tid as u8) as char).collect(), switches)
}

/// The kernel's threads have existed for longer than any workload, and mostly slept.
#[test]
fn a_recorded_thread_of_the_kernels_has_slept() {
    let kworker = Task { kernel: true, delay_ns: 20 * MS, ..task("kworker", vec![burn(1)]) };
    let load = Workload { recorded: true, ..workload(vec![task("hog", vec![burn(60)]), kworker]) };
    let outcome = run(&scenario(cores(1), load, scheduler("o1"))).unwrap();
    let waited_ns = outcome.observed.tasks[&2].wait_max_ns;
    assert!(waited_ns < MS, "it waited for {waited_ns} ns");
    assert!((61 * MS..62 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

#[test]
fn the_orders_of_the_talk() {
    let slide_17 = [(1, 0), (2, 0), (1, 2), (2, 2), (1, 2)];
    for (policy, expected) in [
        ("o1", ("ABCDE", 4)),
        ("cas:threshold=off", ("ABCDE", 4)),
        ("cas:threshold=0", ("ABDCE", 2)),
        ("cas:threshold=1", ("ABDCE", 2)),
        ("cas:threshold=2", ("ACEBD", 1)),
        ("cas:threshold=2,look=iterate", ("ACEBD", 1)),
        ("cas:threshold=2,slots=2", ("ABCDE", 4)),
    ] {
        let (names, switches) = order(policy, &slide_17);
        assert_eq!((names.as_str(), switches), expected, "{policy}");
    }
    let slide_47 = [(1, 0), (2, 0), (1, 0), (1, 0), (2, 0)];
    assert_eq!(order("o1", &slide_47), ("ABCDE".into(), 3));
    assert_eq!(order("cas", &slide_47), ("ACDBE".into(), 1));
}

/// It runs in whatever address space is loaded.
#[test]
fn kernel_thread_is_a_sibling_of_every_task() {
    let tasks = [(1, 0), (3, 0), (2, 0), (1, 0), (2, 0)];
    let mut load = queued(&tasks);
    load.tasks[1].kernel = true;
    assert_eq!(order_of("cas", load), ("BADCE".into(), 1));
    assert_eq!(order("cas", &tasks), ("ADBCE".into(), 2));
}

/// A policy is not told of exec: it looks when a task is queued.
#[test]
fn exec_takes_a_task_out_of_its_context() {
    let order = |faults: Vec<Fault>| {
        let mut scenario = scenario(cores(1), queued(&[(1, 0), (2, 0), (1, 0)]), scheduler("cas"));
        scenario.faults = faults;
        let traced = run_traced(&scenario).unwrap();
        let mut ran: Vec<u32> = traced
            .events
            .iter()
            .filter(|event| event.t_ns > 15 * MS)
            .filter_map(|event| match event.kind {
                Kind::Switch { next, .. } if (1..=3).contains(&next) => Some(next),
                _ => None,
            })
            .collect();
        ran.dedup();
        ran
    };
    assert_eq!(order(Vec::new()), [1, 3, 2]);
    // the third sleeps until 4 ms
    let exec = Fault { at_ns: 3 * MS + MS / 2, change: Change::Exec(2, 3) };
    assert_eq!(order(vec![exec]), [1, 2, 3]);
}

/// Of the 100 ms of its slice the parent has 60 left.
#[test]
fn a_child_begins_with_half_of_what_its_parent_has_left() {
    let act = |ms: u64, then| Act { work_ns: (ms * MS) as f32, met: Met::default(), then };
    let parent = played("parent", &[act(40, Then::Fork(1)), act(200, Then::End)]);
    let child = Task { forked: true, ..played("child", &[act(200, Then::End)]) };
    let load = Workload { recorded: true, ..workload(vec![parent, child]) };
    let traced = run_traced(&scenario(cores(1), load, scheduler("o1"))).unwrap();
    let switch = |kind: &Kind| match kind {
        Kind::Switch { prev, next, .. } => Some((*prev, *next)),
        _ => None,
    };
    let when = |wanted: fn((u32, u32)) -> bool| {
        let mut all = traced.events.iter().filter(|event| switch(&event.kind).is_some_and(wanted));
        all.next().expect("it runs").t_ns
    };
    let first_ns = when(|(prev, _)| prev == 2) - when(|(_, next)| next == 2);
    assert!((26 * MS..34 * MS).contains(&first_ns), "{first_ns}");
}

/// Four hogs of one context and one of another. Whatever the threshold, the one waits for a slice of each of the four
/// and no longer, and gets as much as they do.
#[test]
fn an_epoch_bounds_what_a_context_takes() {
    for policy in ["o1", "cas:threshold=1", "cas:threshold=40"] {
        let hog = |number: usize| {
            let process = usize::from(number == 4) + 1;
            of(process, 0, task(&format!("hog{number}"), vec![burn(2000)]))
        };
        let mut load = workload((0..5).map(hog).collect());
        load.duration_ns = Some(2020 * MS);
        let outcome = run(&scenario(cores(1), load, scheduler(policy))).unwrap();
        let tasks = &outcome.observed.tasks;
        for tid in 1..=5 {
            let (cpu_ns, wait_ns) = (tasks[&tid].cpu_ns, tasks[&tid].wait_max_ns);
            assert!(cpu_ns.abs_diff(400 * MS) <= 100 * MS, "{policy}: {tid} had {cpu_ns} ns");
            // two epochs may join: the last of one, the first of the next
            assert!(wait_ns < 9 * 100 * MS, "{policy}: {tid} waited {wait_ns} ns");
        }
    }
}

/// Four hogs of one context and one of another by virtual time. No task is ahead by more than the slack, a turn (a 32nd
/// of the slice, rounded up to ticks) and a tick; and the slack is used.
#[test]
fn the_slack_bounds_the_service_error() {
    let mut changes = Vec::new();
    for slack_ms in [0, 30] {
        let hog = |number: usize| {
            let process = usize::from(number == 4) + 1;
            of(process, 0, task(&format!("hog{number}"), vec![burn(2000)]))
        };
        let mut load = workload((0..5).map(hog).collect());
        load.duration_ns = Some(2020 * MS);
        let policy = format!("cas:slack={slack_ms}ms");
        let outcome = run(&scenario(cores(1), load, scheduler(&policy))).unwrap();
        let had: Vec<u64> = (1..=5).map(|tid| outcome.observed.tasks[&tid].cpu_ns).collect();
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        assert!(most - least <= (slack_ms + 3 + 2 * 4) * MS, "{policy}: {had:?}");
        changes.push(outcome.observed.address_space_switches);
    }
    assert!(changes[1] * 4 < changes[0], "{changes:?}");
}

/// Fifteen tasks that run 1 ms of 10 take more than a CPU together, and all are interactive. A task that computes, and
/// a sixteenth of another process, have their turn all the same.
#[test]
fn no_task_starves_behind_interactive_tasks() {
    for policy in ["o1", "o1:slice=1s", "cas:threshold=0", "cas", "cas:threshold=40"] {
        let nap =
            || vec![Step::Repeat { times: None, steps: vec![burn(1), Step::Sleep { ns: 9 * MS }] }];
        let napper = |number: usize| Task {
            delay_ns: number as u64 * 700_000,
            ..of(1, 0, task(&format!("nap{number}"), nap()))
        };
        for last in [vec![burn(60_000)], nap()] {
            let mut tasks: Vec<Task> = (0..15).map(napper).collect();
            tasks.push(Task { delay_ns: 3000 * MS, ..of(2, 0, task("last", last)) });
            let mut load = workload(tasks);
            load.duration_ns = Some(60_000 * MS);
            let outcome = run(&scenario(cores(1), load, scheduler(policy))).unwrap();
            let waits: Vec<u64> =
                outcome.observed.tasks.values().map(|task| task.wait_max_ns / MS).collect();
            // two epochs of 5 s, and of each the last turns
            assert!(waits.iter().all(|ms| *ms <= 10_500), "{policy}: {waits:?}");
        }
    }
}

/// By virtual time too, the lightest has its turn in time beside the heaviest.
#[test]
fn the_nicest_does_not_starve_behind_the_least_nice() {
    let hog = |nice| of(1, nice, task(&format!("nice{nice}"), vec![burn(60_000)]));
    let mut load = workload(vec![hog(-20), hog(-20), hog(19)]);
    load.duration_ns = Some(60_000 * MS);
    let outcome = run(&scenario(cores(1), load, scheduler("cas:slack=3ms"))).unwrap();
    let last = &outcome.observed.tasks[&3];
    // turns of 2 ticks, 8 times as heavy for one and as light for the other
    assert!(last.wait_max_ns <= 2 * 8 * 8 * 8 * MS, "{last:?}");
}

/// A context is kept at home while few of its tasks wait there; if many wait, they spread.
#[test]
fn a_home_that_fills_up_overflows() {
    let steps = || vec![Step::Run { work_ns: 15_000 }, Step::Sleep { ns: 200_000 }];
    let one = |number: usize| {
        let delay_ns = number as u64 * 7_000;
        let steps = vec![Step::Repeat { times: Some(200), steps: steps() }];
        Task { delay_ns, ..of(1, 0, task(&format!("t{number}"), steps)) }
    };
    let elapsed = |policy: &str| {
        let load = workload((0..60).map(one).collect());
        run(&scenario(cores(16), load, scheduler(policy))).unwrap().elapsed_ns
    };
    let (spread, kept) = (elapsed("cas"), elapsed("cas:aggregate=1"));
    assert!(kept as f64 <= 1.1 * spread as f64, "{kept} ns at home, {spread} ns spread");
}

/// Homes do not share a core while other cores idle, wherever the first wakeups put them.
#[test]
fn homes_have_cores_of_their_own() {
    let apps = Apps::embedded().with("pipelines.requests", 200.0).unwrap();
    let elapsed = |policy: &str| {
        let machine = machine::find("xeon-e5-2699").unwrap();
        let load = apps.build("pipelines-6").unwrap();
        let mut scenario = scenario(machine, load, scheduler(policy));
        scenario.options.together = true;
        run(&scenario).unwrap().elapsed_ns
    };
    let (spread, kept) = (elapsed("cas"), elapsed("cas:aggregate=1"));
    assert!(kept < spread, "{kept} ns at home, {spread} ns spread");
}

/// By virtual time each CPU's clock is its own. A task that is pulled to another CPU, or moved, is neither ahead nor
/// behind for that. There are six hogs on three CPUs. Two of the CPUs are
/// reserved for two of the hogs.
#[test]
fn clocks_of_cpus_that_run_apart_do_no_harm() {
    let hog = |number: usize| of(number, 0, task(&format!("hog{number}"), vec![burn(600)]));
    let mut load = workload((1..=6).map(hog).collect());
    load.tasks[0].cpus = Some(vec![0]);
    load.tasks[1].cpus = Some(vec![1]);
    let outcome = run(&scenario(cores(3), load, scheduler("cas:slack=3ms"))).unwrap();
    let waited = |tid: u32| outcome.observed.tasks[&tid].wait_max_ns;
    assert!((1..=6).all(|tid| waited(tid) < 200 * MS), "{:?}", [1, 2, 3, 4, 5, 6].map(waited));
}

/// A task that sleeps more than it runs is preferred, and goes on while hogs wait for the next epoch.
#[test]
fn interactive_task_is_served_first() {
    let nap =
        vec![Step::Repeat { times: Some(200), steps: vec![Step::Sleep { ns: 9 * MS }, burn(1)] }];
    let mut tasks: Vec<Task> = (1..4).map(|n| of(n, 0, task("hog", vec![burn(2000)]))).collect();
    tasks.push(of(9, 0, task("napper", nap)));
    let mut load = workload(tasks);
    load.duration_ns = Some(3000 * MS);
    let outcome = run(&scenario(cores(1), load, scheduler("o1"))).unwrap();
    let napper = &outcome.observed.tasks[&4];
    assert!(napper.cpu_ns > 190 * MS, "{napper:?}");
    let mean_ns = napper.wait_ns / 200;
    assert!(mean_ns < 5 * MS, "{mean_ns}");
}

/// More processes than a policy could have queues for, each short-lived.
#[test]
fn ten_thousand_short_lived_processes_come_and_go() {
    let one = |number: usize| {
        let delay_ns = number as u64 * 20_000;
        let steps = vec![Step::Run { work_ns: 50_000 }];
        Task { delay_ns, ..of(number, 0, task(&format!("t{number}"), steps)) }
    };
    let mut scenario =
        scenario(cores(4), workload((0..10_000).map(one).collect()), scheduler("cas"));
    scenario.options.check = true;
    scenario.options.record = sim::Record::default();
    let outcome = run(&scenario).unwrap();
    assert!((1..=10_000).all(|tid| outcome.observed.tasks[&tid].cpu_ns >= 40_000));
}

/// A task is kept at home behind one with short turns until now. It may not use the nearest of the idle CPUs: the tick
/// must wake an idle CPU that it may use.
#[test]
fn an_idle_cpu_is_found_for_a_task_that_may_not_run_on_the_nearest() {
    let nap = vec![Step::Run { work_ns: 5_000 }, Step::Sleep { ns: 100_000 }];
    let naps = Step::Repeat { times: Some(200), steps: nap };
    let hog = Task { cpus: Some(vec![4]), ..of(0, 0, task("hog", vec![naps.clone(), burn(100)])) };
    let sleeper = Task { cpus: Some(vec![4, 7]), ..of(0, 0, task("sleeper", vec![naps, burn(5)])) };
    let machine = machine::find("numa-2x4").unwrap();
    for policy in ["cas:aggregate=1", "cas:aggregate=1,slack=1ms", "cas:aggregate=1,slots=2"] {
        let load = workload(vec![hog.clone(), sleeper.clone()]);
        let mut scenario = scenario(machine.clone(), load, scheduler(policy));
        scenario.options.check = true;
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{policy}: {error}"));
        let waited_ns = outcome.observed.tasks[&2].wait_max_ns;
        assert!(waited_ns < 10 * MS, "{policy}: {waited_ns}");
    }
}

/// Three wake at once, each with precedence over the one before. They take the CPU from the running task and from each
/// other. Soon afterwards the other CPU idles.
#[test]
fn preempted_woken_tasks_are_not_left_behind() {
    let hog = |cpu: usize, nice: i8, steps: Vec<Step>| Task {
        cpus: Some(vec![cpu]),
        ..of(cpu, nice, task("hog", steps))
    };
    let party = |delay_ms: u64, nice: i8, ms: u64| Task {
        cpus: Some(vec![0]),
        delay_ns: delay_ms * MS,
        ..of(9, nice, task("party", vec![burn(1), Step::Barrier(0), burn(ms)]))
    };
    let tasks = vec![
        party(0, 0, 3),
        party(5, -8, 3),
        party(10, -16, 50),
        hog(0, 19, vec![burn(400)]),
        hog(1, -20, vec![burn(40), Step::Barrier(0), burn(2)]),
    ];
    let both = cores(2).all();
    let free = |at: usize| Fault { at_ns: 30 * MS, change: Change::Affinity(at, both) };
    for policy in ["o1", "cas"] {
        let mut load = workload(tasks.clone());
        load.objects.push(Object::Barrier { parties: 4, spin_ns: 0 });
        let mut scenario = scenario(cores(2), load, scheduler(policy));
        scenario.faults = (0..3).map(free).collect();
        scenario.options.check = true;
        run(&scenario).unwrap_or_else(|error| panic!("{policy}: {error}"));
    }
}
