// SPDX-License-Identifier: GPL-2.0-only
//! Policies keep the promises of their variants, and a cheating policy is found.

use std::collections::BTreeSet;

use policies::{BUILDS, HONEST, POLICIES};
use policy::{Instance, Promises};
use sim::{Scenario, Scheduler, SimError, run};
use trace::Outcome;
use workload::hackbench::{Channel, Hackbench};
use workload::mix::{burners, mixed};
use workload::{Object, Step, Task, Workload};

use crate::common;
use crate::common::MS;

fn checked(policy: &str, workload: Workload) -> Result<Outcome, SimError> {
    checked_on("numa-2x4", 3, policy, workload)
}

fn checked_on(
    machine: &str,
    seed: u64,
    policy: &str,
    workload: Workload,
) -> Result<Outcome, SimError> {
    let instance = Instance::parse(policy, &POLICIES).unwrap_or_else(|error| panic!("{error}"));
    let machine = machine::find(machine).unwrap();
    let mut scenario = Scenario::new(machine, workload, Scheduler::Policy(instance)).seed(seed);
    scenario.options.check = true;
    run(&scenario)
}

fn loads() -> Vec<Workload> {
    let storm =
        |channel| Hackbench { groups: 2, loops: 10, channel, ..Hackbench::default() }.build();
    vec![
        storm(Channel::Pipe),
        storm(Channel::Socket),
        burners(8, 50 * MS),
        burners(24, 50 * MS),
        mixed(8, 300 * MS),
    ]
}

#[test]
fn promises_are_kept() {
    let plain = BUILDS.iter().map(|policy| policy.name);
    let trials = HONEST.iter().flat_map(|policy| [policy.trials.day, policy.trials.night].concat());
    let short = [
        "fifo:slice=2ms",
        "flsched:slice=5ms",
        "flsched:slice=5ms,variant=code,defer=5ms",
        "flsched:slice=5ms,pull=true",
        "o1:slice=10ms",
        "cas:slice=10ms,threshold=1,look=iterate",
        "cas:threshold=40,slots=2",
    ];
    let variants: BTreeSet<&str> = plain.chain(trials).chain(short).collect();
    for policy in variants {
        for load in loads() {
            let name = load.name.clone();
            if let Err(error) = checked(policy, load) {
                panic!("{policy} on {name}: {error}");
            }
        }
    }
}

/// A slice's end may fall into the turns of seven other CPUs, with a wakeup just before the switch.
#[test]
fn promises_are_kept_where_cpus_run_in_turn() {
    for seed in 0..20 {
        for policy in ["flsched:slice=5ms", "rr:slice=5ms", "o1"] {
            if let Err(error) = checked_on("icount-2x4", seed, policy, mixed(24, 300 * MS)) {
                panic!("{policy}, seed {seed}: {error}");
            }
        }
    }
}

/// Its slice ends with no task behind it, and it goes on; then a task wakes.
#[test]
fn promises_are_kept_behind_a_task_that_was_alone() {
    let nap = vec![Step::Sleep { ns: 7 * MS }, Step::Run { work_ns: MS }];
    let naps = vec![Step::Repeat { times: Some(20), steps: nap }];
    let mut load = burners(1, 1000 * MS);
    for name in ["nap-0", "nap-1"] {
        load.tasks.push(Task { name: name.into(), steps: naps.clone(), ..Task::default() });
    }
    load.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
    for policy in ["flsched:slice=5ms", "rr:slice=2ms"] {
        if let Err(error) = checked(policy, load.clone()) {
            panic!("{policy}: {error}");
        }
    }
}

/// A task that opens a barrier wakes hundreds, in one system call. A tick ends its slice meanwhile, and it gives way
/// when the call is over.
#[test]
fn a_slice_may_end_in_a_long_system_call() {
    let mut load = burners(0, MS);
    load.objects.push(Object::Barrier { parties: 300, spin_ns: 0 });
    for at in 0..300 {
        let steps = vec![Step::Run { work_ns: 20_000 }, Step::Barrier(0)];
        let steps = vec![Step::Repeat { times: Some(20), steps }];
        load.tasks.push(Task { name: format!("party-{at}"), steps, ..Task::default() });
    }
    for seed in 0..2 {
        if let Err(error) = checked_on("icount-2x4", seed, "fifo:slice=1ms", load.clone()) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// Slices are shorter than the time between two ticks, and each woken task makes its CPU schedule.
#[test]
fn slice_may_end_when_the_cpu_is_asked_to_schedule() {
    let nap = vec![Step::Sleep { ns: 7 * MS / 3 }, Step::Run { work_ns: 100_000 }];
    let naps = vec![Step::Repeat { times: Some(40), steps: nap }];
    let load = common::workload(vec![
        common::task("hog", vec![common::burn(200)]),
        common::task("nap", naps),
    ]);
    let keeps = |_: &Instance| Promises { never_preempts: true, ..Promises::default() };
    let scheduler = common::policy_that_promises("kicks", keeps);
    let mut scenario = common::scenario(common::cores(1), load, scheduler);
    scenario.options.check = true;
    let outcome = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.observed.tasks[&1].involuntary > 20, "it is not left at a wakeup");
}

#[test]
fn flsched_takes_no_lock_and_pull_takes_some() {
    let locks = |policy| checked(policy, loads().remove(0)).unwrap().locks;
    assert!(locks("flsched").is_empty());
    assert!(locks("flsched:pull=true")["dsq"] > 0);
}

#[test]
fn piling_up_shows_in_idle_while_runnable_and_makespan() {
    let pile = checked("pile", burners(8, 50 * MS)).unwrap();
    let pull = checked("flsched:pull=true", burners(8, 50 * MS)).unwrap();
    let idle = |outcome: &Outcome| {
        let whole = (outcome.observed.elapsed_ns * 8) as f64;
        outcome.observed.idle_while_runnable_ns as f64 / whole
    };
    assert!(idle(&pile) > 0.3, "{}", idle(&pile));
    assert!(idle(&pull) < 0.01, "{}", idle(&pull));
    assert!(pile.elapsed_ns > 7 * pull.elapsed_ns);
    assert!(pull.elapsed_ns < 53 * MS, "8 burners on 8 CPUs: {}", pull.elapsed_ns);
}
