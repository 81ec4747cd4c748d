// SPDX-License-Identifier: GPL-2.0-only
//! Tasks with known memory pay for their misses, once, and under every scheduler alike.

use machine::{Machine, find};
use policy::Instance;
use sim::{Scenario, Scheduler, SimError, run};
use trace::{MemoryUse, Outcome};
use workload::apps::{Apps, Ring};
use workload::{Step, Task, Workload};

use crate::common::{cores, workload};

fn core2() -> Machine {
    find("core2duo-1.86").unwrap()
}

fn fifo() -> Scheduler {
    Scheduler::Policy(Instance::default(&baseline::FIFO))
}

fn on(machine: Machine, workload: Workload, scheduler: Scheduler) -> Outcome {
    let mut scenario = Scenario::new(machine, workload, scheduler);
    scenario.options.jitter = 0.0;
    run(&scenario).unwrap_or_else(|error| panic!("{error}"))
}

fn ring(ring: Ring, kilobytes: u64) -> Outcome {
    on(core2(), Apps::embedded().ring(ring, 3, kilobytes * 1024), fifo())
}

fn memory(outcome: &Outcome) -> &MemoryUse {
    outcome.memory.as_ref().expect("its tasks say what they touch")
}

/// All costs of misses.
const MISS_COSTS: [&str; 4] = ["dtlb_miss_ns", "itlb_miss_ns", "l1d_miss_ns", "l2_miss_ns"];

fn free(machine: Machine) -> Machine {
    MISS_COSTS.iter().fold(machine, |machine, cost| machine.with_cost(cost, 0.0).unwrap())
}

#[test]
fn what_misses_cost_is_what_a_run_takes_longer() {
    for kind in [Ring::Threads, Ring::Processes] {
        let job = || Apps::embedded().ring(kind, 3, 256 * 1024);
        let dear = on(core2(), job(), fifo());
        let cheap = on(free(core2()), job(), fifo());
        let (lost, added) = (memory(&dear).total.ns, dear.elapsed_ns - cheap.elapsed_ns);
        assert_eq!(memory(&cheap).total.ns, 0);
        // Rounding to whole ns at each switch, and ticks at other times.
        let off = (lost as f64 - added as f64).abs() / lost as f64;
        assert!(lost > 0 && off < 0.02, "{kind:?}: {lost} ns lost, {added} ns longer");
    }
}

#[test]
fn counts_times_costs_are_the_time() {
    // With only the TLBs' costs left, all of the time is theirs.
    let machine = core2().with_cost("l1d_miss_ns", 0.0).unwrap();
    let machine = machine.with_cost("l2_miss_ns", 0.0).unwrap();
    let costs = machine.memory.clone().unwrap();
    let outcome = on(machine, Apps::embedded().ring(Ring::Processes, 3, 64 * 1024), fifo());
    let missed = memory(&outcome).total;
    let expected = (missed.dtlb_user + missed.dtlb_kernel) as f64 * costs.dtlb_miss_ns
        + (missed.itlb_user + missed.itlb_kernel) as f64 * costs.itlb_miss_ns;
    assert!((missed.ns as f64 / expected - 1.0).abs() < 1e-3, "{} {expected}", missed.ns);
}

#[test]
fn a_task_that_says_nothing_pays_the_flat_costs_and_one_that_does_pays_none() {
    let flat = ["mm_refill_ns", "switch_refill_ns", "migrate_llc_ns"];
    let zero = |machine: Machine| {
        flat.iter().fold(machine, |machine, cost| machine.with_cost(cost, 0.0).unwrap())
    };
    let told = || Apps::embedded().ring(Ring::Processes, 3, 4096);
    let mut untold = told();
    untold.tasks.iter_mut().for_each(|task| task.hw = None);
    let elapsed = |machine, workload| on(machine, workload, fifo()).elapsed_ns;
    let (flat_ns, none_ns) =
        (elapsed(core2(), untold.clone()), elapsed(zero(core2()), untold.clone()));
    assert!(flat_ns as f64 > 1.05 * none_ns as f64, "{flat_ns} {none_ns}");
    // The memory of the thread that starts the others is not known: it alone may differ.
    let (with, without) = (elapsed(core2(), told()), elapsed(zero(core2()), told()));
    assert!((with as f64 / without as f64 - 1.0).abs() < 0.005, "{with} {without}");
}

#[test]
fn without_hw_nothing_is_observed_and_nothing_changes() {
    let job = || {
        let mut job = Apps::embedded().ring(Ring::Processes, 3, 4096);
        job.tasks.iter_mut().for_each(|task| task.hw = None);
        job
    };
    let outcome = on(core2(), job(), fifo());
    assert!(outcome.memory.is_none());
    let mut bare = core2();
    bare.memory = None;
    assert_eq!(on(bare, job(), fifo()).elapsed_ns, outcome.elapsed_ns);
}

#[test]
fn one_seed_gives_one_count() {
    for scheduler in [fifo(), Scheduler::Default, Scheduler::Cfs] {
        let job = || Apps::embedded().with("chat.rooms", 1.0).unwrap().build("chat").unwrap();
        let scenario = Scenario::new(core2(), job(), scheduler);
        let (a, b) = (run(&scenario).unwrap(), run(&scenario).unwrap());
        assert_eq!(a.memory, b.memory);
        assert_eq!(a.elapsed_ns, b.elapsed_ns);
        assert!(memory(&a).total.tlb() > 0);
    }
}

/// A pair that wakes each other through an idle CPU: idling keeps the address space, as lazy TLB does.
#[test]
fn idling_keeps_the_context() {
    let apps = Apps::embedded();
    let mut one = apps.ring(Ring::Processes, 2, 32 * 1024).tasks.remove(0);
    let sleeps = Step::Sleep { ns: 100_000 };
    let work = Step::Run { work_ns: one.hw.as_ref().unwrap().reach_ns };
    one.steps = vec![Step::Repeat { times: Some(100), steps: vec![work, sleeps] }];
    let outcome = on(core2(), workload(vec![one]), fifo());
    let missed = memory(&outcome).total;
    assert_eq!(missed.dtlb_user + missed.itlb_user, 3 + 8 + 6, "each page once: {missed:?}");
}

#[test]
fn a_machine_that_does_not_say_refuses_and_names_those_that_do() {
    let job = Apps::embedded().ring(Ring::Threads, 2, 1024);
    match run(&Scenario::new(cores(2), job, fifo())) {
        Err(error @ SimError::NoMemory { .. }) => {
            assert!(error.to_string().contains("core2duo-1.86"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// Slides 13 and 51: the cost of a switch to processes, beyond its cost to threads that share.
#[test]
fn processes_pay_more_than_siblings_until_nothing_fits() {
    let misses = |kind, kilobytes| {
        let total = memory(&ring(kind, kilobytes)).total;
        (total.tlb() as f64, total.cache as f64)
    };
    for kilobytes in [16, 256, 1024] {
        let (threads, processes) =
            (misses(Ring::Threads, kilobytes), misses(Ring::Processes, kilobytes));
        assert!(processes.0 > 1.5 * threads.0, "{kilobytes} KB: {threads:?} {processes:?}");
    }
    let (threads, processes) = (misses(Ring::Threads, 1024), misses(Ring::Processes, 1024));
    assert!(processes.1 > 2.0 * threads.1, "three arrays do not fit: {threads:?} {processes:?}");
    let (threads, processes) = (misses(Ring::Threads, 8192), misses(Ring::Processes, 8192));
    assert!(processes.1 < 1.05 * threads.1, "nothing fits: {threads:?} {processes:?}");
    assert!(processes.0 < 1.1 * threads.0, "nothing fits: {threads:?} {processes:?}");
}

/// With tags, three address spaces keep their entries; without, none does.
#[test]
fn tags_keep_what_a_flush_takes() {
    let job = || Apps::embedded().ring(Ring::Processes, 3, 16 * 1024);
    let plain = memory(&on(core2(), job(), fifo())).total.tlb();
    let tagged = core2().with_cost("tlb_tags", 6.0).unwrap();
    let kept = memory(&on(tagged, job(), fifo())).total.tlb();
    assert!(kept * 5 < plain, "{kept} {plain}");
}

#[test]
fn programs_are_told_apart_by_name() {
    let apps = ["chat.rooms", "volanomark.rooms"]
        .iter()
        .try_fold(Apps::embedded(), |apps, name| apps.with(name, 1.0));
    let outcome = on(core2(), apps.unwrap().build("together").unwrap(), Scheduler::Default);
    let programs = &memory(&outcome).programs;
    let names: Vec<&str> = programs.keys().map(String::as_str).collect();
    assert_eq!(names, ["chat", "dacapo", "sysbench", "volanomark"]);
    assert_eq!(programs["chat"].threads, 80);
    let sum: u64 = programs.values().map(|program| program.process_ns).sum();
    assert!(sum <= 2 * outcome.elapsed_ns);
    let last = programs.values().filter_map(|program| program.elapsed_ns).max().unwrap();
    assert!(last <= outcome.elapsed_ns && last * 10 > outcome.elapsed_ns * 9);
}

#[test]
fn a_task_without_hw_among_others_is_not_counted() {
    let mut job = Apps::embedded().ring(Ring::Processes, 2, 4096);
    let steps = vec![Step::Run { work_ns: 1_000_000 }];
    job.tasks.push(Task { name: "quiet".into(), process: 77, steps, ..Task::default() });
    let outcome = on(core2(), job, fifo());
    assert_eq!(memory(&outcome).tasks.len(), 2);
}
