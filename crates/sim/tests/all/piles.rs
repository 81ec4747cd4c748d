// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that are all busy, some with more tasks than others: in the end each is to have as many.

use sim::{Change, Fault, run};
use workload::{Object, Step, Task, Workload};

use crate::common::{MS, burn, cores, every_scheduler, scenario, task, workload};

/// A pool: forked one by one, each thread finds an idle CPU, mostly the same, and blocks. Then there is work for all.
fn pool(threads: usize, ms: u64) -> Workload {
    let worker = |at: usize| Task {
        forked: true,
        ..task(&format!("worker-{at}"), vec![Step::Barrier(0), burn(1_000_000)])
    };
    let forks = (1..=threads).flat_map(|at| [Step::Fork(at), Step::Sleep { ns: MS / 5 }]);
    let opens = forks.chain([Step::Barrier(0)]).collect();
    let tasks = [task("main", opens)].into_iter().chain((1..=threads).map(worker)).collect();
    let parties = threads as u32 + 1;
    Workload {
        objects: vec![Object::Barrier { parties, spin_ns: 0 }],
        duration_ns: Some(ms * MS),
        ..workload(tasks)
    }
}

#[test]
fn a_pool_that_was_piled_up_spreads() {
    let mut uneven = Vec::new();
    for scheduler in every_scheduler() {
        let machine = machine::find("xeon-5160-2s").unwrap();
        let outcome = run(&scenario(machine, pool(24, 30_000), scheduler)).unwrap();
        let workers =
            outcome.observed.tasks.iter().filter(|(tid, _)| outcome.names[*tid] != "main");
        let mut ms: Vec<u64> = workers.map(|(_, of)| of.cpu_ns / MS).collect();
        ms.sort_unstable();
        if ms[0] * 20 < ms[23] * 19 {
            uneven.push(format!(
                "{}: {ms:?} ms, {} migrations",
                outcome.policy, outcome.observed.migrations
            ));
        }
    }
    assert!(uneven.is_empty(), "{}", uneven.join("\n"));
}

/// Most tasks wait for a CPU that they are all pinned to. Six of the others may leave their CPU, later on, for that of
/// a seventh.
#[test]
fn pile_that_cannot_spread_does_not_hinder_other_tasks() {
    let mut uneven = Vec::new();
    for scheduler in every_scheduler().split_off(2) {
        let hog = |cpu: usize| Task {
            cpus: Some(vec![cpu]),
            ..task(&format!("hog-{cpu}"), vec![burn(1_000_000)])
        };
        let bound = [vec![0; 9], vec![1; 6], vec![2]].concat();
        let load = workload(bound.into_iter().map(hog).collect());
        let mut load = Workload { duration_ns: Some(20_000 * MS), ..load };
        load.tasks.iter_mut().for_each(|task| task.process = 1);
        let mut scenario = scenario(cores(3), load, scheduler);
        let free = |at| Fault {
            at_ns: 500 * MS,
            change: Change::Affinity(at, [1, 2].into_iter().collect()),
        };
        scenario.faults = (9..15).map(free).collect();
        let outcome = run(&scenario).unwrap();
        let ms: Vec<u64> = (10..=16).map(|tid| outcome.observed.tasks[&tid].cpu_ns / MS).collect();
        // three and four on a CPU each, or all alike; avx-fair looks at the one queue that is most behind
        if outcome.policy != "avx-fair" && ms.iter().any(|ms| !(4_000..7_500).contains(ms)) {
            uneven.push(format!("{}: {ms:?} ms", outcome.policy));
        }
    }
    assert!(uneven.is_empty(), "{}", uneven.join("\n"));
}
