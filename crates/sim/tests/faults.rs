// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go, masks and nice values that change under a run.

mod common;

use common::{MS, burn, cores, policy, scenario, task, workload};
use policy::Instance;
use sim::{Change, Fault, Scheduler, run, run_traced};
use trace::{IDLE, Kind};

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

#[test]
fn a_policy_without_hotplug_callbacks_is_unloaded() {
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let mut scenario = scenario(cores(4), burners(8, 20), fifo);
    scenario.faults = vec![at(5, Change::Offline(2))];
    let error = run(&scenario).unwrap_err().to_string();
    assert_eq!(error, "policy fifo: cpu 2 going offline, exiting scheduler");
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
