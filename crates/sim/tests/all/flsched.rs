// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED's placement as a whole: its results when tasks outnumber CPUs.

use std::collections::BTreeMap;

use policy::{Instance, Policy};
use sim::{Change, Fault, Scenario, Scheduler, run};
use trace::Outcome;
use workload::hackbench::Hackbench;
use workload::{Object, RealTime, Step, Task, Workload};

use crate::common;
use crate::common::MS;

/// The longest waits of tasks with names that begin with `name`, in ms.
fn wait_ms(policy: &str, cpus: usize, workload: &Workload, name: &str) -> u64 {
    let instance = Instance::parse(policy, REGISTRY).unwrap();
    let workload = Workload { duration_ns: Some(20_000 * MS), ..workload.clone() };
    let scheduler = Scheduler::Policy(instance);
    let outcome = run(&common::scenario(common::cores(cpus), workload, scheduler)).unwrap();
    let own =
        outcome.observed.tasks.iter().filter(|(tid, _)| outcome.names[*tid].starts_with(name));
    own.map(|(_, task)| task.wait_max_ns).max().unwrap() / MS
}

fn for_ever(steps: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: None, steps }]
}

fn hogs(n: usize, cpus: &Option<Vec<usize>>) -> Vec<Task> {
    let hog = |at| common::task(&format!("hog-{at}"), for_ever(vec![common::burn(50)]));
    (0..n).map(|at| Task { cpus: cpus.clone(), ..hog(at) }).collect()
}

fn sleeper(name: &str, nice: i8, run_ms: u64, sleep_ms: u64) -> Task {
    let pause = Step::Sleep { ns: sleep_ms * MS };
    Task { nice, ..common::task(name, for_ever(vec![common::burn(run_ms), pause])) }
}

/// The kernel does not call select_cpu for a task with just one CPU.
#[test]
fn task_that_outranks_is_next_also_with_just_one_cpu() {
    let load = |nice, cpus: &Option<Vec<usize>>| {
        let urgent = Task { cpus: cpus.clone(), ..sleeper("urgent", nice, 1, 40) };
        common::workload([vec![urgent], hogs(4, cpus)].concat())
    };
    for (cpus, mask) in [(1, None), (2, Some(vec![1]))] {
        let waits = |nice| wait_ms("flsched", cpus, &load(nice, &mask), "urgent");
        assert!(waits(-5) <= 10, "a turn on {cpus} CPUs: {} ms", waits(-5));
    }
    assert!(wait_ms("flsched", 1, &load(0, &None), "urgent") > 10, "else it waits for all of them");
}

#[test]
fn what_the_kernel_does_for_all_is_next() {
    let waits = |kernel| {
        let worker = Task { kernel, ..sleeper("worker", 0, 1, 40) };
        wait_ms("flsched", 2, &common::workload([vec![worker], hogs(8, &None)].concat()), "worker")
    };
    assert!(waits(true) <= 10, "a turn: {} ms", waits(true));
    assert!(waits(false) > 10, "a user's waits for all that are ahead: {} ms", waits(false));
}

/// Whatever the number of waking tasks that outrank it, and the length of their turns.
#[test]
fn no_task_starves_behind_the_head_of_a_queue() {
    let urgent = (0..20).map(|at| sleeper(&format!("urgent-{at}"), -5, 50, 1)).collect();
    let load = common::workload([hogs(4, &None), urgent].concat());
    let waited_ms = wait_ms("flsched:variant=code", 2, &load, "hog");
    // of 12 on a CPU 11 are ahead, for a turn each of slice, deferral and tick; others overtake it in as many
    assert!(waited_ms <= 2 * 11 * 114, "{waited_ms} ms");
}

/// A real-time task that wakes on a CPU each `every_ms`, for `ns`.
fn visitor(cpu: usize, every_ms: u64, ns: u64) -> Task {
    let steps = for_ever(vec![Step::Run { work_ns: ns }, Step::Sleep { ns: every_ms * MS }]);
    let cpus = Some(vec![cpu]);
    Task { realtime: RealTime::Fifo(7), cpus, ..common::task(&format!("visitor-{cpu}"), steps) }
}

/// An interrupted task is first again, with a new slice of 20 ms.
#[test]
fn no_task_starves_behind_an_interrupted_one() {
    let mut uneven = Vec::new();
    for policy in ["flsched", "flsched:pull=true", "flsched:variant=code,defer=20ms"] {
        for (cpus, every_ms) in [1, 2].into_iter().flat_map(|n| [1, 4, 10, 18].map(|ms| (n, ms))) {
            let hogs = match cpus {
                1 => hogs(3, &Some(vec![0])),
                _ => hogs(6, &None),
            };
            let visitors = (0..cpus).map(|cpu| visitor(cpu, every_ms, 20_000)).collect();
            let load = common::workload([hogs, visitors].concat());
            let (_, ms) = migrations_and_ms(policy, cpus, &load);
            let hogs = ms.iter().filter(|(name, _)| name.starts_with("hog"));
            let ms: Vec<u64> = hogs.map(|(_, ms)| *ms).collect();
            // a third of a CPU each
            if ms.iter().any(|least| *least < 20_000 / 3 / 2) {
                uneven.push(format!("{policy}, {cpus} CPUs, each {every_ms} ms: {ms:?} ms"));
            }
        }
    }
    assert!(uneven.is_empty(), "{}", uneven.join("\n"));
}

#[test]
fn with_pull_no_task_starves_behind_pinned_ones() {
    let bound = |cpu: usize| hogs(2, &Some(vec![cpu]));
    let free = common::task("free", for_ever(vec![common::burn(5)]));
    let load = common::workload([bound(0), bound(1), vec![free]].concat());
    let waited_ms = wait_ms("flsched:pull=true", 2, &load, "free");
    assert!(waited_ms <= 30, "two are ahead of it: {waited_ms} ms");
}

/// Migrations of a load in 20 s, and the CPU time of each task by its name, in ms.
fn migrations_and_ms(policy: &str, cpus: usize, load: &Workload) -> (u64, BTreeMap<String, u64>) {
    let instance = Instance::parse(policy, REGISTRY).unwrap();
    let load = Workload { duration_ns: Some(20_000 * MS), ..load.clone() };
    let scheduler = Scheduler::Policy(instance);
    let outcome = run(&common::scenario(common::cores(cpus), load, scheduler)).unwrap();
    let tasks = outcome.observed.tasks.iter();
    let ms = tasks.map(|(tid, task)| (outcome.names[tid].clone(), task.cpu_ns / MS)).collect();
    (outcome.observed.migrations, ms)
}

#[test]
fn busy_cpus_pull_nothing() {
    let bound = (0..6).flat_map(|cpu| hogs(1, &Some(vec![cpu]))).collect();
    let load = common::workload([bound, hogs(9, &None)].concat());
    let (migrations, _) = migrations_and_ms("flsched:pull=true", 8, &load);
    assert!(migrations < 200, "{migrations} in 20 s, and no CPU idles");
}

#[test]
fn with_pull_slices_end_where_fewer_wait() {
    let sleepers = (0..10).map(|at| sleeper(&format!("nap-{at}"), 0, 1, 9)).collect();
    let load = common::workload([hogs(2, &None), sleepers].concat());
    let (_, ms) = migrations_and_ms("flsched:pull=true", 2, &load);
    let (a, b) = (ms["hog-0"], ms["hog-1"]);
    assert!(4 * a.max(b) < 5 * a.min(b), "{a} and {b} ms");
}

/// Eight tasks that slept on CPUs 0 and 1 wake together, and may run on the other six only.
#[test]
fn task_barred_from_its_last_cpu_goes_where_few_wait() {
    let steps = vec![Step::Barrier(0), Step::Sleep { ns: 10 * MS }, common::burn(50)];
    let bound = |at: usize| Task {
        cpus: Some(vec![0, 1]),
        ..common::task(&format!("moved-{at}"), steps.clone())
    };
    let busy = (2..8).flat_map(|cpu| hogs(1, &Some(vec![cpu])));
    let objects = vec![Object::Barrier { parties: 12, spin_ns: 0 }];
    let tasks = (0..12).map(bound).chain(busy).collect();
    let load = Workload { objects, duration_ns: Some(400 * MS), ..common::workload(tasks) };
    let scheduler = Scheduler::Policy(Instance::parse("flsched", REGISTRY).unwrap());
    let mut scenario = common::scenario(common::cores(8), load, scheduler);
    let allowed = |task| Fault { at_ns: 5 * MS, change: Change::Affinity(task, (2..8).collect()) };
    scenario.faults = (0..12).map(allowed).collect();
    let outcome = run(&scenario).unwrap();
    let waits = outcome.observed.tasks.values().map(|task| task.wait_max_ns / MS);
    let worst_ms = waits.max().unwrap();
    assert!(worst_ms <= 40, "two of them and a hog are on each CPU: {worst_ms} ms");
}

const REGISTRY: &[&Policy] = &[&flsched::FLSCHED];

fn outcome(policy: &str, machine: &str, workload: Workload) -> Outcome {
    let instance = Instance::parse(policy, REGISTRY).unwrap();
    let machine = machine::find(machine).unwrap();
    let scenario = Scenario::new(machine, workload, Scheduler::Policy(instance));
    run(&scenario).unwrap_or_else(|error| panic!("{error}"))
}

/// If all tasks wait on their last CPU, some queues run dry while others are long.
#[test]
fn a_second_choice_keeps_cpus_from_idling_while_tasks_wait() {
    let idle_ns = |policy| {
        let storm = Hackbench { groups: 4, loops: 20, ..Hackbench::default() };
        outcome(policy, "numa-2x4", storm.build()).observed.idle_while_runnable_ns
    };
    let (chosen, last) = (idle_ns("flsched"), idle_ns("flsched:variant=code"));
    assert!(chosen < last / 2, "{chosen} ns, and {last} ns where all wait on their last CPU");
}

/// `threads` threads, two for each CPU, wait for each other at a barrier. The wakeups there do not spread them evenly.
/// Then each does these steps.
fn team(threads: usize, steps: Vec<Step>) -> Workload {
    let steps = [vec![Step::Barrier(0)], steps].concat();
    let tasks = (0..threads).map(|at| common::task(&format!("omp-{at}"), steps.clone()));
    let objects = vec![Object::Barrier { parties: threads as u32, spin_ns: 0 }];
    Workload { objects, ..common::workload(tasks.collect()) }
}

#[test]
fn queues_even_out_where_slices_end() {
    // No CPU idles before the end, so no idle CPU evens them out.
    let team = || Workload { duration_ns: Some(600 * MS), ..team(456, vec![common::burn(5000)]) };
    let least_of_most = |policy| {
        let outcome = outcome(policy, "xeon-phi-31s1p", team());
        let times = || outcome.observed.tasks.values().map(|task| task.cpu_ns);
        times().min().unwrap() as f64 / times().max().unwrap() as f64
    };
    let (evened, last) =
        (least_of_most("flsched"), least_of_most("flsched:variant=code,defer=1ms"));
    assert!(evened > 0.6 && last < 0.4, "{evened}, and {last} where all wait on their last CPU");
}

/// Turns shorter than a slice, as in FT with two threads a CPU: all wait for the CPU with a third thread.
#[test]
fn a_third_task_goes_where_a_cpu_idles() {
    let rounds = Step::Repeat { times: Some(40), steps: vec![common::burn(4), Step::Barrier(0)] };
    let elapsed_ns =
        |policy| outcome(policy, "xeon-phi-31s1p", team(456, vec![rounds.clone()])).elapsed_ns;
    let (offered, last) = (elapsed_ns("flsched"), elapsed_ns("flsched:variant=code"));
    assert!(
        offered < last / 10 * 9,
        "{offered} ns, and {last} ns where all wait on their last CPU"
    );
}

#[test]
fn a_cpu_idles_for_a_tick_at_most_while_a_task_waits_behind_another() {
    let machine = common::cores(2);
    let tick_ns = machine.costs.tick_period_ns as u64;
    let tasks =
        [50, 5, 50, 5].map(|ms| common::task(&format!("burn-{ms}"), vec![common::burn(ms)]));
    let instance = Instance::parse("flsched:slice=1s", REGISTRY).unwrap();
    let workload = common::workload(tasks.to_vec());
    let outcome = run(&common::scenario(machine, workload, Scheduler::Policy(instance))).unwrap();
    let idle_ns = outcome.observed.idle_while_runnable_ns;
    assert!(idle_ns <= tick_ns + MS / 10, "idle for {idle_ns} ns, ticks every {tick_ns} ns");
    assert!(outcome.elapsed_ns < 65 * MS, "{} ns of 55 ms", outcome.elapsed_ns);
}

/// A CPU was claimed for a task that blocked first. The claim is no use to pinned tasks behind it, but to another task.
#[test]
fn claim_does_not_outlive_the_task_that_could_use_it() {
    let moves = Task { cpus: Some(vec![0, 1]), ..sleeper("moves", 0, 6, 20) };
    let short = Task { cpus: Some(vec![1]), ..common::task("short", vec![common::burn(3)]) };
    let load = common::workload([hogs(2, &Some(vec![0])), vec![short, moves]].concat());
    let load = Workload { duration_ns: Some(2_000 * MS), ..load };
    let scenario = common::scenario(common::cores(2), load, common::policy("offers"));
    let outcome = run(&scenario).unwrap();
    let of = &outcome.observed.tasks[&4];
    assert!(of.cpu_ns > 400 * MS, "a CPU idles, and it had {} of 2000 ms", of.cpu_ns / MS);
}
