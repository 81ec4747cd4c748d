// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED's placement, whole: what comes of it where tasks outnumber CPUs.

use policy::{Instance, Policy};
use sim::{Scenario, Scheduler, run};
use trace::Outcome;
use workload::hackbench::Hackbench;
use workload::{Object, Step, Workload};

mod common;

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

/// Two tasks a CPU, that block at a barrier first and are not spread evenly by the wakeups there.
#[test]
fn queues_even_out_where_slices_end() {
    let elapsed_ns = |policy| {
        let steps = vec![Step::Barrier(0), common::burn(600)];
        let tasks = (0..456).map(|at| common::task(&format!("omp-{at}"), steps.clone()));
        let objects = vec![Object::Barrier { parties: 456, spin_ns: 0 }];
        let team = Workload { objects, ..common::workload(tasks.collect()) };
        outcome(policy, "xeon-phi-31s1p", team).elapsed_ns
    };
    let (slices, long) = (elapsed_ns("flsched:slice=20ms"), elapsed_ns("flsched:slice=1s"));
    assert!(slices < long / 10 * 9, "{slices} ns, and {long} ns where no slice ends");
}
