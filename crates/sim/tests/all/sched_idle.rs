// SPDX-License-Identifier: GPL-2.0-only
//! SCHED_IDLE and SCHED_BATCH, under Linux's own classes and under each policy that honours them.

use policies::HONEST;
use policy::{Extent, Instance};
use sim::{Scheduler, run};
use trace::Outcome;
use workload::{Fair, Step, Task};

use crate::common::{MS, burn, cores, scenario, task, workload};

/// The policies that declare to honour SCHED_IDLE tasks.
const HEED: [&str; 11] = [
    "cas",
    "cas:threshold=40,slots=32",
    "cas:slack=3ms",
    "o1",
    "o1:slice=1s",
    "dino",
    "di-migrate",
    "avx-fair",
    "avx-fair:pick=balanced",
    "min-fair",
    "max-fair",
];

fn schedulers() -> Vec<(&'static str, Scheduler)> {
    let policies = HEED.map(|name| (name, Instance::parse(name, &HONEST).unwrap()));
    let policies = policies.into_iter().map(|(name, instance)| {
        assert_eq!(instance.policy.keeps.sched_idle.kept, Extent::Yes, "{name}");
        (name, Scheduler::Policy(instance))
    });
    let own = [("default", Scheduler::Default), ("cfs", Scheduler::Cfs)];
    own.into_iter().chain(policies).collect()
}

fn of(fair: Fair, name: &str, steps: Vec<Step>) -> Task {
    Task { fair, ..task(name, steps) }
}

fn idle(name: &str, steps: Vec<Step>) -> Task {
    of(Fair::Idle, name, steps)
}

fn hog() -> Vec<Step> {
    vec![burn(1_000_000)]
}

/// Works for a millisecond and sleeps for five, again and again.
fn naps() -> Vec<Step> {
    let nap = vec![burn(1), Step::Sleep { ns: 5 * MS }];
    vec![Step::Repeat { times: None, steps: nap }]
}

fn ran(cpus: usize, seconds: u64, tasks: &[Task], scheduler: &Scheduler) -> Outcome {
    let mut load = workload(tasks.to_vec());
    load.duration_ns = Some(seconds * 1000 * MS);
    let mut scenario = scenario(cores(cpus), load, scheduler.clone());
    scenario.options.check = true;
    run(&scenario).unwrap_or_else(|error| panic!("{}: {error}", scheduler_name(scheduler)))
}

fn scheduler_name(scheduler: &Scheduler) -> &str {
    match scheduler {
        Scheduler::Policy(instance) => &instance.label,
        _ => "Linux's own",
    }
}

/// A task's part of the time, 0 to 1.
fn part(outcome: &Outcome, tid: u32) -> f64 {
    outcome.observed.tasks[&tid].cpu_ns as f64 / outcome.observed.elapsed_ns as f64
}

fn longest_wait_ms(outcome: &Outcome, tid: u32) -> u64 {
    outcome.observed.tasks[&tid].wait_max_ns / MS
}

#[test]
fn a_sched_idle_task_gets_next_to_nothing_beside_another() {
    for (name, scheduler) in schedulers() {
        let tasks = [task("hog", hog()), idle("idle", hog())];
        let outcome = ran(1, 60, &tasks, &scheduler);
        assert!(part(&outcome, 2) <= 0.02, "{name}: {}", part(&outcome, 2));
        assert!(part(&outcome, 2) >= 0.0005, "{name}: {}", part(&outcome, 2));
        let waited_ms = longest_wait_ms(&outcome, 2);
        assert!(waited_ms < 4_000, "{name}: waited {waited_ms} ms");
    }
}

/// As many as a build starts: none waits so long that the kernel's watchdog unloads the policy after 30 s.
#[test]
fn many_sched_idle_tasks_have_a_bounded_wait_beside_others() {
    for (name, scheduler) in schedulers().into_iter().skip(2) {
        let others = (0..4).map(|n| task(&format!("hog-{n}"), hog()));
        let idle = (0..40).map(|n| idle(&format!("idle-{n}"), hog()));
        let tasks: Vec<Task> = others.chain(idle).collect();
        let outcome = ran(1, 60, &tasks, &scheduler);
        let of_idle: f64 = (5..45).map(|tid| part(&outcome, tid)).sum();
        assert!(of_idle <= 0.2, "{name}: {of_idle}");
        let waited_ms = (5..45).map(|tid| longest_wait_ms(&outcome, tid)).max().unwrap();
        assert!(waited_ms < 10_000, "{name}: waited {waited_ms} ms");
    }
}

#[test]
fn two_sched_idle_tasks_alone_share_evenly() {
    for (name, scheduler) in schedulers() {
        let outcome = ran(1, 10, &[idle("a", hog()), idle("b", hog())], &scheduler);
        let parts = [part(&outcome, 1), part(&outcome, 2)];
        assert!(parts.iter().all(|part| (0.47..0.53).contains(part)), "{name}: {parts:?}");
    }
}

/// To other tasks a CPU that runs a SCHED_IDLE task is as good as an idle one.
#[test]
fn tasks_spread_over_cpus_that_run_sched_idle_tasks() {
    for (name, scheduler) in schedulers() {
        let late = |name: &str| Task { delay_ns: 100 * MS, ..task(name, hog()) };
        let tasks = [idle("a", hog()), idle("b", hog()), late("c"), late("d")];
        let outcome = ran(2, 10, &tasks, &scheduler);
        let parts = [part(&outcome, 3), part(&outcome, 4)];
        assert!(parts.iter().all(|part| *part > 0.93), "{name}: {parts:?}");
    }
}

#[test]
fn a_waking_task_preempts_a_sched_idle_one_at_once() {
    for (name, scheduler) in schedulers() {
        for fair in [Fair::Normal, Fair::Batch] {
            // They have no other CPU: the waking task's wait is the time to preempt.
            let tasks = [idle("idle", hog()), of(fair, "naps", naps())];
            let outcome = ran(1, 10, &tasks, &scheduler);
            let naps = &outcome.observed.tasks[&2];
            // Under cfs neither of the two preempts if it is SCHED_BATCH; nor does it under avx-fair.
            let waits = fair == Fair::Batch
                && ["cfs", "avx-fair", "avx-fair:pick=balanced"].contains(&name);
            if !waits {
                let p99_ns = naps.wait_lengths.quantile(0.99).unwrap_or(0);
                assert!(p99_ns < MS, "{name}, {fair:?}: {p99_ns} ns");
            }
            assert!(part(&outcome, 1) > 0.7, "{name}: what is left is the SCHED_IDLE task's");
        }
    }
}

/// When a SCHED_BATCH task wakes, it leaves the CPU to the running task.
#[test]
fn waking_batch_tasks_wait_for_the_one_that_runs() {
    for (name, scheduler) in schedulers() {
        let mean_wait_ns = |fair| {
            let outcome = ran(1, 5, &[task("hog", hog()), of(fair, "naps", naps())], &scheduler);
            let naps = &outcome.observed.tasks[&2];
            naps.wait_ns / naps.waits
        };
        let (normal, batch) = (mean_wait_ns(Fair::Normal), mean_wait_ns(Fair::Batch));
        println!("{name}: {normal} and {batch} ns");
        // Under the others no wakeup preempts.
        if ["default", "cfs", "o1", "cas", "avx-fair"].contains(&name) {
            assert!(
                10 * batch > 13 * normal,
                "{name}: {batch} ns, and {normal} ns where it is not"
            );
        }
    }
}
