// SPDX-License-Identifier: GPL-2.0-only
//! Policies by virtual time, in cases where some tasks advance faster in it than others.

use policies::HONEST;
use policy::Instance;
use sim::{Change, Fault, Scheduler, run};
use trace::Outcome;
use workload::{Step, Task};

use crate::common::{MS, burn, cores, scenario, task, workload};

const POLICIES: [&str; 3] = ["min-fair", "dino", "avx-fair"];

fn scheduler(name: &str) -> Scheduler {
    Scheduler::Policy(Instance::parse(name, &HONEST).unwrap())
}

fn bound(name: &str, cpu: usize, nice: i8, steps: Vec<Step>) -> Task {
    Task { cpus: Some(vec![cpu]), nice, ..task(name, steps) }
}

/// Starts again and again, so that it soon passes all others in virtual time.
fn starts_often() -> Vec<Step> {
    vec![Step::Repeat { times: None, steps: vec![burn(4), Step::Sleep { ns: 50_000 }] }]
}

fn runs(tasks: Vec<Task>, seconds: u64, policy: &str) -> Outcome {
    runs_with(Vec::new(), tasks, seconds, policy)
}

fn runs_with(faults: Vec<Fault>, tasks: Vec<Task>, seconds: u64, policy: &str) -> Outcome {
    let mut load = workload(tasks);
    load.duration_ns = Some(seconds * 1000 * MS);
    let mut scenario = scenario(cores(2), load, scheduler(policy));
    scenario.faults = faults;
    run(&scenario).unwrap()
}

/// From 5 s on each CPU has a real-time task that does not leave.
fn runs_beside_hogs(tasks: Vec<Task>, seconds: u64, policy: &str) -> Outcome {
    let hog = |cpu| Change::Hog { cpu, for_ns: 60_000 * MS, priority: 50 };
    let hogs = [0, 1].map(|cpu| Fault { at_ns: 5_000 * MS, change: hog(cpu) });
    runs_with(hogs.to_vec(), tasks, seconds, policy)
}

fn cpu_ms(outcome: &Outcome, tid: u32) -> u64 {
    outcome.observed.tasks[&tid].cpu_ns / MS
}

/// A task that has had its CPU all the time was never stopped and never started: it must not look as if it had run for
/// 0 s.
#[test]
fn late_task_gets_its_part_beside_a_task_that_was_never_stopped() {
    for policy in POLICIES {
        let hog = task("hog", vec![burn(100_000)]);
        let late = Task { delay_ns: 5_000 * MS, ..bound("late", 1, 0, vec![burn(100_000)]) };
        let outcome = runs(vec![bound("often", 0, 19, starts_often()), hog, late], 15, policy);
        assert!(cpu_ms(&outcome, 3) > 4_000, "{policy}: {} of 10000 ms", cpu_ms(&outcome, 3));
    }
}

/// Ten of them share one CPU, and a task on another CPU advances ten times as fast.
#[test]
fn weights_hold_among_those_that_have_nowhere_else_to_go() {
    for policy in POLICIES {
        let mut tasks = vec![bound("often", 0, 0, starts_often())];
        tasks.push(bound("heavy", 1, -9, vec![burn(100_000)]));
        tasks.extend((0..9).map(|n| bound(&format!("t{n}"), 1, 0, vec![burn(100_000)])));
        let outcome = runs(tasks, 10, policy);
        // 7.45 parts of 16.45.
        let heavy_ms = cpu_ms(&outcome, 2);
        assert!((4_300..4_700).contains(&heavy_ms), "{policy}: {heavy_ms} of 10000 ms");
        for tid in 3..12 {
            let ms = cpu_ms(&outcome, tid);
            assert!((550..670).contains(&ms), "{policy}: {tid} has {ms} ms");
        }
    }
}

/// Of two tasks on one CPU the light one has its part by weight, or one short turn in 5 s if that is more.
#[test]
fn nice_keeps_its_meaning_to_both_ends_with_the_wait_bounded() {
    let pairs = [((-20, 0), 100.0 / 8768.0), ((0, 19), 1.0 / 101.0), ((-20, 19), 1.0 / 8669.0)];
    for policy in POLICIES {
        for ((heavy, light), ideal) in pairs {
            let hog = |name, nice| bound(name, 0, nice, vec![burn(100_000)]);
            let outcome = runs(vec![hog("heavy", heavy), hog("light", light)], 60, policy);
            let part = cpu_ms(&outcome, 2) as f64 / 60_000.0;
            let most = 1.1 * f64::max(ideal, 12.0 / 5_000.0);
            let case = format!("{policy}, nice {heavy} and {light}: the light task");
            assert!((0.9 * ideal..most).contains(&part), "{case} has {part:.5}, ideal {ideal:.5}");
            let waited_ms = outcome.observed.tasks[&2].wait_max_ns / MS;
            assert!(waited_ms < 5_500, "{case} waited for {waited_ms} ms");
        }
    }
}

/// A CPU with a clock that is behind stops and starts the running task of another one. Between that start and this stop
/// the time must be near 0, and not wrap around.
#[test]
fn skewed_clocks_cost_no_task_its_part() {
    for policy in POLICIES.into_iter().chain(["cas"]) {
        for seed in 0..4 {
            let mut load = workload(vec![
                bound("reniced", 1, 0, vec![burn(100_000)]),
                bound("other", 1, 0, vec![burn(100_000)]),
            ]);
            load.duration_ns = Some(2_000 * MS);
            let mut scenario = scenario(cores(2), load, scheduler(policy));
            scenario.seed = seed;
            scenario.options.clock_skew_ns = MS / 10;
            scenario.faults = (1..1_400)
                .flat_map(|n| [n * 1_370_000, n * 1_370_000 + 20_000])
                .enumerate()
                .map(|(n, at_ns)| Fault { at_ns, change: Change::Nice(0, 1 - (n % 2) as i8) })
                .collect();
            let outcome = run(&scenario).unwrap();
            let ms = cpu_ms(&outcome, 1);
            assert!((900..1_100).contains(&ms), "{policy}, seed {seed}: {ms} of 2000 ms");
        }
    }
}

/// Two tasks waited for one CPU, and now have CPUs of their own, one of them faster. A task that still waits there must
/// be behind neither.
#[test]
fn task_that_left_a_queue_does_not_move_its_clock() {
    let nap = |times| Step::Repeat { times, steps: vec![burn(14), Step::Sleep { ns: MS }] };
    // They sleep until they may run elsewhere, and then find an idle CPU: they do not pass a queue any more.
    let moves = || vec![nap(Some(3)), Step::Sleep { ns: 2_000 * MS }, nap(None)];
    for policy in POLICIES {
        let mut load = workload(vec![
            bound("slow", 3, 0, moves()),
            bound("fast", 3, 9, moves()),
            bound("naps", 3, 0, vec![nap(None)]),
            bound("burns", 3, 0, vec![burn(100_000)]),
        ]);
        load.duration_ns = Some(40_000 * MS);
        let mut scenario = scenario(cores(4), load, scheduler(policy));
        let leaves = |task: usize, cpu: usize| Fault {
            at_ns: 1_500 * MS,
            change: Change::Affinity(task, [cpu, 3].into_iter().collect()),
        };
        scenario.faults = vec![leaves(0, 0), leaves(1, 1)];
        let outcome = run(&scenario).unwrap();
        for tid in [3, 4] {
            let waited_ms = outcome.observed.tasks[&tid].wait_max_ns / MS;
            assert!(waited_ms < 1_000, "{policy}: {tid} waited for {waited_ms} ms");
        }
    }
}

/// Each is new, and so has had less than the tasks that are there, and there is always one. A task waits only until the
/// virtual clock reaches the limit for tasks ahead of it.
#[test]
fn no_task_starves_while_new_ones_keep_coming() {
    for policy in POLICIES {
        let fresh = |at: u64| Task { delay_ns: at * 2 * MS, ..task("fresh", vec![burn(6)]) };
        let tasks = [task("old", vec![burn(100_000)])].into_iter().chain((1..10_000).map(fresh));
        let outcome = runs(tasks.collect(), 20, policy);
        let longest_ms = outcome.observed.tasks[&1].wait_max_ns / MS;
        assert!(longest_ms < 6_000, "{policy}: it waited for {longest_ms} ms");
    }
}

/// Of each second they leave the other tasks a twentieth, twelve turns of a tick. A few slices of 40 others take half a
/// minute then. 160 for each CPU take 13 s if all have their turns one after the other.
#[test]
fn no_task_starves_behind_real_time_tasks() {
    for (others, at_most_ms) in [(80, 15_000), (300, 18_000)] {
        for policy in POLICIES {
            let busy = (0..others).map(|n| task(&format!("busy{n}"), vec![burn(100_000)]));
            let nice = |n| Task { nice: 19, ..task(&format!("nice{n}"), vec![burn(100_000)]) };
            let tasks = busy.chain((0..others / 15).map(nice)).collect();
            let outcome = runs_beside_hogs(tasks, 60, policy);
            let longest_ms =
                outcome.observed.tasks.values().map(|task| task.wait_max_ns / MS).max().unwrap();
            assert!(longest_ms < at_most_ms, "{policy}: a task waited for {longest_ms} ms");
        }
    }
}

/// RCU's threads, and the watchdog's: the kernel unloads a policy that leaves them waiting. By epochs, too.
#[test]
fn the_kernels_own_threads_wait_for_no_crowd() {
    for policy in POLICIES.into_iter().chain(["cas", "o1"]) {
        // One comes seldom enough for a turn before the others each time, and one with each tick.
        let longest_ms = [100, 4].map(|sleeps_ms| {
            let busy = (0..400).map(|n| task(&format!("busy{n}"), vec![burn(100_000)]));
            let steps = vec![Step::Run { work_ns: 50_000 }, Step::Sleep { ns: sleeps_ms * MS }];
            let steps = vec![Step::Repeat { times: None, steps }];
            let own = Task { kernel: true, ..task("rcu", steps) };
            let outcome = runs_beside_hogs(busy.chain([own]).collect(), 30, policy);
            outcome.observed.tasks[&401].wait_max_ns / MS
        });
        // The real-time tasks have both CPUs for 950 ms of each second. A thread that has waited for eight slices goes
        // first once a CPU looks, which it does every 250 ms.
        assert!(
            longest_ms.iter().all(|ms| *ms < 1_000 + 80 + 250),
            "{policy}: it waited for {longest_ms:?} ms"
        );
    }
}

/// A kernel thread that nearly always has work, as with encrypted disks.
#[test]
fn the_kernels_own_threads_have_no_more_than_their_part_in_a_crowd() {
    for policy in POLICIES {
        let busy = (0..40).map(|n| task(&format!("busy{n}"), vec![burn(100_000)]));
        let own = Task { kernel: true, ..task("crypt", starts_often()) };
        let outcome = runs(busy.chain([own]).collect(), 20, policy);
        // 41 share two CPUs.
        let ms = cpu_ms(&outcome, 41);
        assert!(ms < 2 * 40_000 / 41, "{policy}: {ms} ms");
    }
}

/// It waits in the queue of an idle CPU: that CPU has to look, whichever other CPUs are near.
#[test]
fn idle_cpu_sees_a_waiting_task_after_its_mask_has_grown() {
    for seed in 0..20 {
        let mut load = workload(vec![
            bound("first", 6, 0, vec![burn(100)]),
            bound("leaves", 6, 0, vec![burn(100)]),
            bound("stays", 6, 0, vec![burn(100)]),
        ]);
        load.duration_ns = Some(100 * MS);
        let machine = machine::find("numa-2x4").unwrap();
        let mut scenario = scenario(machine, load, scheduler("dino"));
        scenario.seed = seed;
        let change = Change::Affinity(1, [0, 2, 4, 6].into_iter().collect());
        scenario.faults = vec![Fault { at_ns: MS / 2, change }];
        let outcome = run(&scenario).unwrap();
        let waited_ms = outcome.observed.tasks[&2].wait_max_ns / MS;
        assert!(waited_ms < 10, "seed {seed}: it waited for {waited_ms} ms");
    }
}
