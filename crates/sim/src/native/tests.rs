// SPDX-License-Identifier: GPL-2.0-only
//! Both classes at work on whole machines: shares, latency, and that no task is lost.

use machine::{Machine, find};
use trace::Outcome;
use workload::hackbench::{Channel, Hackbench, Worker};
use workload::{Workload, mix, rtapp};

use crate::{Scenario, Scheduler, run};

const BOTH: [Scheduler; 2] = [Scheduler::Default, Scheduler::Cfs];

fn machine(name: &str) -> Machine {
    find(name).unwrap()
}

/// `numa-2x4` with its first `cpus` CPUs only.
fn small(cpus: usize) -> Machine {
    let mut machine = machine("numa-2x4");
    machine.cpus.truncate(cpus);
    machine
}

fn ran(machine: &Machine, workload: &Workload, scheduler: &Scheduler) -> Outcome {
    let scenario = Scenario::new(machine.clone(), workload.clone(), scheduler.clone());
    run(&scenario).unwrap_or_else(|error| panic!("{scheduler:?} on {}: {error}", machine.name))
}

fn json(text: &str) -> Workload {
    rtapp::parse("test.json", text).unwrap()
}

/// CPU seconds of tasks whose names begin so.
fn cpu_s(outcome: &Outcome, name: &str) -> f64 {
    let named = outcome.names.iter().filter(|(_, known)| known.starts_with(name));
    named.map(|(tid, _)| outcome.observed.tasks[tid].cpu_ns as f64 / 1e9).sum()
}

#[test]
fn shares_of_one_cpu_follow_the_weights() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {
            "nice0": {"run": 5000}, "nice5": {"priority": 5, "run": 5000},
            "nice-5": {"priority": -5, "run": 5000}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let total = 1024.0 + 335.0 + 3121.0;
        for (name, weight) in [("nice0", 1024.0), ("nice5", 335.0), ("nice-5", 3121.0)] {
            let share = cpu_s(&outcome, name) / 2.0;
            let due = weight / total;
            assert!((share - due).abs() < 0.02, "{scheduler:?} {name}: {share} of {due}");
        }
    }
}

#[test]
fn as_many_burners_as_cpus_have_one_each() {
    for scheduler in &BOTH {
        for (machine, cpus) in [(machine("numa-2x4"), 8), (machine("xeon-phi-31s1p"), 228)] {
            let one = ran(&machine, &mix::burners(1, 100_000_000), scheduler).elapsed_ns as f64;
            let all = ran(&machine, &mix::burners(cpus, 100_000_000), scheduler).elapsed_ns as f64;
            let threads = machine.costs.smt_rate(cpus / 57);
            let ideal = one / threads;
            assert!(all < 1.3 * ideal, "{scheduler:?} on {}: {all} of {ideal}", machine.name);
        }
    }
}

#[test]
fn twice_as_many_burners_as_cpus_share_them_evenly() {
    for scheduler in &BOTH {
        let outcome = ran(&machine("numa-2x4"), &mix::burners(16, 300_000_000), scheduler);
        let ideal_ns = 2.0 * 300e6;
        let ratio = outcome.elapsed_ns as f64 / ideal_ns;
        assert!(ratio < 1.25, "{scheduler:?}: {ratio}");
    }
}

#[test]
fn a_periodic_task_is_served_soon_beside_hogs() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {"hog": {"instance": 4, "run": 100000},
            "beat": {"run": 300, "timer": {"ref": "unique", "period": 50000, "mode": "absolute"}}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let due_s = 40.0 * 0.0003;
        assert!(
            cpu_s(&outcome, "beat") > 0.9 * due_s,
            "{scheduler:?}: {}",
            cpu_s(&outcome, "beat")
        );
        let beat = outcome.names.iter().find(|(_, name)| *name == "beat").unwrap().0;
        let worst_ms = outcome.observed.tasks[beat].wait_max_ns as f64 / 1e6;
        // Four hogs, each at most a minimal slice, and the tick's coarseness.
        assert!(worst_ms < 25.0, "{scheduler:?}: {worst_ms} ms");
    }
}

#[test]
fn nobody_is_lost_in_a_storm() {
    for scheduler in &BOTH {
        for (name, groups) in [("numa-2x4", 3), ("xeon-e5-2699", 2), ("xeon-phi-31s1p", 3)] {
            for (channel, worker) in
                [(Channel::Pipe, Worker::Process), (Channel::Socket, Worker::Thread)]
            {
                let storm = Hackbench { groups, loops: 5, channel, worker, ..Hackbench::default() };
                let outcome = ran(&machine(name), &storm.build(), scheduler);
                assert_eq!(outcome.names.len(), 40 * groups + 1);
            }
        }
    }
}

#[test]
fn one_seed_gives_one_result() {
    let storm = Hackbench { groups: 2, loops: 10, ..Hackbench::default() }.build();
    for scheduler in &BOTH {
        let scenario = Scenario::new(machine("numa-2x4"), storm.clone(), scheduler.clone()).seed(7);
        let text = |outcome: Outcome| format!("{outcome:?}");
        assert_eq!(text(run(&scenario).unwrap()), text(run(&scenario).unwrap()));
    }
}

#[test]
fn affinity_is_kept() {
    let workload = json(
        r#"{"global": {"duration": 1}, "tasks": {
            "pinned": {"instance": 3, "cpus": [2], "run": 2000},
            "pair": {"instance": 4, "cpus": [5, 6], "run": 2000, "sleep": 300},
            "free": {"instance": 6, "run": 2000, "sleep": 100}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&machine("numa-2x4"), &workload, scheduler);
        assert!(cpu_s(&outcome, "pinned") <= 1.0);
        assert!(cpu_s(&outcome, "pair") <= 2.0 && cpu_s(&outcome, "pair") > 1.5, "{scheduler:?}");
    }
}

#[test]
fn yielding_lets_the_other_run() {
    let workload = json(
        r#"{"global": {"duration": 1}, "tasks": {"polite": {"run": 100, "yield": ""},
            "hog": {"run": 100000}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let share = cpu_s(&outcome, "hog");
        assert!(share > 0.4, "{scheduler:?}: {share}");
    }
}
