// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED's placement, whole: what comes of it where tasks outnumber CPUs.

use policy::{Instance, Policy};
use sim::{Scenario, Scheduler, run};
use trace::Outcome;
use workload::hackbench::Hackbench;
use workload::{Object, Step, Workload};

mod common;

use common::MS;

const REGISTRY: &[&Policy] = &[&flsched::FLSCHED];

fn outcome(policy: &str, machine: &str, workload: Workload) -> Outcome {
    let instance = Instance::parse(policy, REGISTRY).unwrap();
    let machine = machine::find(machine).unwrap();
    let scenario = Scenario::new(machine, workload, Scheduler::Policy(instance));
    run(&scenario).unwrap_or_else(|error| panic!("{error}"))
}

/// Where all wait on their last CPU, some queues run dry while others are long.
#[test]
fn a_second_choice_keeps_cpus_from_idling_while_tasks_wait() {
    let idle_ns = |policy| {
        let storm = Hackbench { groups: 4, loops: 20, ..Hackbench::default() };
        outcome(policy, "numa-2x4", storm.build()).observed.idle_while_runnable_ns
    };
    let (chosen, last) = (idle_ns("flsched"), idle_ns("flsched:variant=code"));
    assert!(chosen < last / 2, "{chosen} ns, and {last} ns where all wait on their last CPU");
}

/// So many threads, two for each CPU, that meet at a barrier and are not spread evenly by the wakeups
/// there; then each does these steps.
fn team(threads: usize, steps: Vec<Step>) -> Workload {
    let steps = [vec![Step::Barrier(0)], steps].concat();
    let tasks = (0..threads).map(|at| common::task(&format!("omp-{at}"), steps.clone()));
    let objects = vec![Object::Barrier { parties: threads as u32, spin_ns: 0 }];
    Workload { objects, ..common::workload(tasks.collect()) }
}

#[test]
fn queues_even_out_where_slices_end() {
    // No CPU idles before the end, so that nothing else evens them out.
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

/// Turns shorter than a slice, as FT with two threads a CPU has: all wait for the CPU with a third.
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
