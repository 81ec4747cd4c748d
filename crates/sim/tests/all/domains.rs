// SPDX-License-Identifier: GPL-2.0-only
//! Memory domains: a task's speed depends on its CPU, on the places of its pages, and on other tasks' demand on memory.

use machine::find;
use policies::POLICIES;
use policy::Instance;
use sim::{Change, Fault, Scenario, Scheduler, Traced, run_traced};
use workload::{Demand, DomainMixes, Step, Task, Workload};

const SECOND_NS: u64 = 1_000_000_000;

fn devil(at: usize, cpu: Option<usize>, mpki: f64) -> Task {
    Task {
        name: format!("devil-{at}"),
        process: at + 1,
        cpus: cpu.map(|cpu| vec![cpu]),
        steps: vec![Step::Run { work_ns: 1000 * SECOND_NS }],
        memory: Some(Demand { mpki, cpi: 0.8, bytes: 256 << 20, overlap: None }),
        ..Task::default()
    }
}

fn runs(tasks: Vec<Task>, seconds: u64, scheduler: Scheduler) -> Traced {
    runs_with(tasks, seconds, scheduler, Vec::new())
}

fn runs_with(tasks: Vec<Task>, seconds: u64, scheduler: Scheduler, faults: Vec<Fault>) -> Traced {
    let workload =
        Workload { tasks, duration_ns: Some(seconds * SECOND_NS), ..Workload::default() };
    let mut scenario = Scenario::new(find("opteron-8356").unwrap(), workload, scheduler);
    scenario.options.jitter = 0.0;
    scenario.faults = faults;
    run_traced(&scenario).unwrap()
}

fn policy(name: &str) -> Scheduler {
    Scheduler::Policy(Instance::parse(name, &POLICIES).unwrap())
}

/// Work of each task in the time, relative to its work alone.
fn speeds(traced: &Traced, seconds: u64) -> Vec<f64> {
    let all = (seconds * SECOND_NS) as f64;
    traced.outcome.progress.values().map(|done| done / all).collect()
}

#[test]
fn tasks_that_share_a_controller_are_slower_as_the_machine_says() {
    let apart = runs((0..4).map(|n| devil(n, Some(4 * n), 30.0)).collect(), 5, Scheduler::Default);
    assert!(speeds(&apart, 5).iter().all(|speed| *speed > 0.99), "{:?}", speeds(&apart, 5));
    let together = runs((0..4).map(|n| devil(n, Some(n), 30.0)).collect(), 5, Scheduler::Default);
    let machine = find("opteron-8356").unwrap();
    let (fabric, links) = machine.fabric.clone().unwrap();
    let run = machine::Runs {
        node: 0,
        llc: 0,
        ips: machine.costs.clock_ghz * 1e9 / 0.8,
        mpki: 30.0,
        pages: vec![1.0, 0.0, 0.0, 0.0],
        overlap: None,
        copied: false,
    };
    let model = machine::shared_speeds(&fabric, &links, &vec![run; 4], &[])[0].of_alone;
    for speed in speeds(&together, 5) {
        assert!((speed / model - 1.0).abs() < 0.01, "{speed} of {model}");
    }
}

#[test]
fn memory_comes_from_the_nodes_that_it_is_bound_to() {
    let bound = |nodes: &[usize]| Task { nodes: Some(nodes.to_vec()), ..devil(0, Some(0), 30.0) };
    let run = |task: Task| runs(vec![task], 2, Scheduler::Default);
    let [home, far, both] = [&[0][..], &[3], &[1, 2]].map(|nodes| run(bound(nodes)));
    let resident = |traced: &Traced| traced.outcome.resident[&1].clone();
    assert_eq!(resident(&home), [256 << 20, 0, 0, 0]);
    assert_eq!(resident(&far), [0, 0, 0, 256 << 20]);
    assert_eq!(resident(&both), [0, 128 << 20, 128 << 20, 0]);
    assert!(speeds(&far, 2)[0] < 0.95 * speeds(&home, 2)[0], "it is far away");
    let workload = Workload { tasks: vec![bound(&[4])], ..Workload::default() };
    let scenario = Scenario::new(find("opteron-8356").unwrap(), workload, Scheduler::Default);
    let error = run_traced(&scenario).unwrap_err().to_string();
    assert_eq!(
        error,
        "task devil-0: nodes_membind names a node that the machine has not; it has 4, from 0 on"
    );
}

#[test]
fn others_are_not_touched_by_it() {
    let tasks = || -> Vec<Task> {
        (0..4).map(|n| Task { memory: None, ..devil(n, Some(n), 30.0) }).collect()
    };
    assert!(speeds(&runs(tasks(), 2, Scheduler::Default), 2).iter().all(|speed| *speed > 0.99));
    let traced = runs(tasks(), 2, Scheduler::Default);
    assert!(traced.whereabouts.is_empty() && !traced.outcome.extra.contains_key("memory_moves"));
}

/// The node of each thread at the end, and the node with most of its process's memory.
fn ends(traced: &Traced) -> Vec<(usize, usize)> {
    let last = traced.whereabouts.last().unwrap();
    let home = |process: usize| {
        let pages = &last.memory[&process];
        (0..pages.len()).max_by(|a, b| pages[*a].total_cmp(&pages[*b])).unwrap()
    };
    last.threads.iter().enumerate().map(|(at, node)| (node.unwrap(), home(at + 1))).collect()
}

/// Eight devils and as many turtles, forked in pairs.
fn crowded() -> Vec<Task> {
    let mut tasks = Vec::new();
    for n in 0..16 {
        // The first task of each process runs where it is made; a mask for the start would stay.
        let mpki = if n % 4 < 2 { 30.0 } else { 0.5 };
        tasks.push(devil(n, None, mpki));
    }
    tasks
}

#[test]
fn dino_spreads_devils_and_brings_their_memory_and_then_rests() {
    let traced = runs(crowded(), 30, policy("dino:gate=off"));
    let ends = ends(&traced);
    for node in 0..4 {
        let devils = (0..16).filter(|n| n % 4 < 2 && ends[*n].0 == node).count();
        assert_eq!(devils, 2, "node {node}: {ends:?}");
    }
    // A turtle's pages can stay: it asks for few.
    let devils = ends.iter().enumerate().filter(|(n, _)| n % 4 < 2);
    assert!(devils.into_iter().all(|(_, (thread, memory))| thread == memory), "{ends:?}");
    let at = |second: usize| &traced.whereabouts[second].threads;
    assert_eq!(at(20), at(29), "no task moves any more");
}

/// A task that waits at home while other tasks are busy everywhere else would wait until its CPUs are returned.
#[test]
fn a_domain_that_has_no_cpu_left_has_its_tasks_run_elsewhere() {
    let taken = |cpu| Change::Hog { cpu, for_ns: 60 * SECOND_NS, priority: 50 };
    let each: [&dyn Fn(usize) -> Change; 2] = [&taken, &Change::Offline];
    for change in each {
        let at_ns = 10 * SECOND_NS;
        let faults = (12..16).map(|cpu| Fault { at_ns, change: change(cpu) }).collect();
        let devils = (0..16).map(|n| devil(n, None, 30.0)).collect();
        let traced = runs_with(devils, 30, policy("dino"), faults);
        let ran = |tid| traced.outcome.observed.tasks[&tid].cpu_ns as f64 / 1e9;
        let least = (1..=16).map(ran).fold(f64::MAX, f64::min);
        // Three quarters of 20 s and 10 s before that, on average.
        let all: Vec<f64> = (1..=16).map(ran).collect();
        assert!(least > 20.0, "{:?}: {all:.1?} s of 30", change(0));
    }
}

#[test]
fn di_plain_leaves_memory_where_it_is() {
    let traced = runs(crowded(), 10, policy("di-plain"));
    assert_eq!(traced.outcome.extra["memory_moves"], 0.0);
    let first = &traced.whereabouts[2].memory;
    assert_eq!(first, &traced.whereabouts.last().unwrap().memory);
}

#[test]
fn pages_move_at_the_rate_of_the_order() {
    for (knob, least_s, most_s) in [("", 0.4, 6.0), (",rate=50", 5.0, 60.0)] {
        let traced = runs(crowded(), 60, policy(&format!("dino:gate=off{knob}")));
        let first = &traced.whereabouts[1].memory;
        let last = &traced.whereabouts.last().unwrap().memory;
        let reached = traced.whereabouts.iter().position(|at| at.memory == *last).unwrap() as f64;
        if first != last {
            assert!((least_s..=most_s).contains(&reached), "{knob}: {reached} s");
        }
    }
}

#[test]
fn one_seed_gives_one_result() {
    let mix = || DomainMixes::embedded().build("mpi-4x4", 20 * SECOND_NS).unwrap();
    let once = || {
        let machine = find("opteron-8356").unwrap();
        let scenario = Scenario::new(machine, mix(), policy("di-migrate:filter=off"));
        let traced = run_traced(&scenario).unwrap();
        (traced.outcome.progress, traced.whereabouts)
    };
    assert_eq!(once(), once());
}

/// No CPU idles while a thread it may run waits, and no mask is widened: the checkers hold it to that.
#[test]
fn what_it_promises_it_keeps() {
    for name in ["cpu", "mpi-2x8", "lamp", "turtles"] {
        for policies in ["di-plain", "di-migrate:filter=off", "dino:gate=off", "dino"] {
            let mut mix = DomainMixes::embedded().build(name, 8 * SECOND_NS).unwrap();
            for (at, task) in mix.tasks.iter_mut().enumerate().filter(|(at, _)| at % 5 == 0) {
                task.cpus = Some(vec![at % 16, (at + 5) % 16]);
            }
            let machine = find("opteron-8356").unwrap();
            let mut scenario = Scenario::new(machine, mix, policy(policies));
            scenario.options.check = true;
            run_traced(&scenario).unwrap_or_else(|error| panic!("{name}, {policies}: {error}"));
        }
    }
}
