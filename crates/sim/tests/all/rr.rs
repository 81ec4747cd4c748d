// SPDX-License-Identifier: GPL-2.0-only
//! The 15 locks of `rr`: each is taken in its situation, and each can be left out.

use policy::{Instance, Policy, Unit};
use sim::{Change, Fault, Scheduler, run};
use workload::{Step, Task};

use crate::common::{MS, burn, cores, scenario, task, workload};

const REGISTRY: &[&Policy] = &[&baseline::RR];

/// Number of locks rr takes on three CPUs in more than a period. One CPU uses up its allowance, borrows from the
/// others, goes offline in debt and online again.
fn taken(policy: &str) -> u64 {
    let at = |ms: u64, change| Fault { at_ns: ms * MS, change };
    let forever = |steps| vec![Step::Repeat { times: None, steps }];
    let on = |cpu, task: Task| Task { cpus: Some(vec![cpu]), ..task };
    let seldom = vec![burn(1), Step::Sleep { ns: 100 * MS }];
    let mut load = workload(vec![
        on(0, task("seldom", forever(seldom.clone()))),
        on(1, task("busy", forever(vec![burn(50)]))),
        task("anywhere", forever(seldom)),
    ]);
    load.duration_ns = Some(3500 * MS);
    let instance = Instance::parse(policy, REGISTRY).unwrap();
    let mut scenario = scenario(cores(3), load, Scheduler::Policy(instance));
    // before the period that begins at 1 s is over, and after 950 ms of it are used
    let all = (0..3).collect();
    scenario.faults = vec![
        at(1980, Change::Affinity(1, all)),
        at(1981, Change::Offline(1)),
        at(2100, Change::Online(1)),
    ];
    let outcome = run(&scenario).unwrap_or_else(|error| panic!("{policy}: {error}"));
    outcome.locks.values().sum()
}

#[test]
fn each_lock_is_taken_and_can_be_left_out() {
    let Unit::Choice(words) = baseline::RR.knobs[1].unit else { panic!("a knob of words") };
    let locks = &words[1..words.len() - 1];
    assert_eq!(locks.len(), 15);
    let all = taken("rr");
    let parts: Vec<u64> =
        locks.iter().map(|lock| all.saturating_sub(taken(&format!("rr:without={lock}")))).collect();
    let never: Vec<_> = locks.iter().zip(&parts).filter(|(_, taken)| **taken == 0).collect();
    assert!(never.is_empty(), "never taken: {never:?}");
    assert_eq!(parts.iter().sum::<u64>(), all, "each lock is left out once: {parts:?}");
    assert_eq!(taken("rr:without=all"), 0);
}
