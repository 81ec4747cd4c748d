// SPDX-License-Identifier: GPL-2.0-only
//! Random cases keep all promises; a broken promise is found, by a seed that repeats.

use policies::HONEST;
use policy::{Instance, Policy, Promises};
use sim::{Failure, SimError, Swarmed, case, run, swarm};
use workload::Fair;

/// Cases of a run, which make 10^7 decisions.
const CASES: u64 = 1100;

/// The same, or fewer: `script/test --fast` asks for 100.
fn cases() -> u64 {
    let asked = std::env::var("SWARM_CASES").ok();
    asked.map_or(CASES, |text| text.parse().expect("SWARM_CASES is a whole number"))
}

fn come_out_well(swarmed: &Swarmed) {
    let all: Vec<String> = swarmed
        .failures
        .iter()
        .map(|failure| format!("seed {}: {}: {}", failure.seed, failure.what, failure.error))
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn random_cases_come_out_well() {
    let cases = cases();
    let swarmed = swarm(0..cases, &HONEST);
    come_out_well(&swarmed);
    let least = if cases < CASES { 8_000 * cases } else { 10_000_000 };
    assert!(swarmed.decisions >= least, "{} decisions", swarmed.decisions);
}

/// Cgroups within cgroups, with limits and weights that change.
#[test]
fn random_trees_of_cgroups_come_out_well() {
    let policies = ["paceline", "min-fair", "dino", "avx-fair"];
    let policies = policies.map(|name| policy::find(name, &HONEST).unwrap());
    let swarmed = swarm(0..cases(), &policies);
    come_out_well(&swarmed);
}

/// Findings of long runs: chance brings each about once in some hundred thousand cases. A slice was used up before its
/// tick; a task moved before its wakeup. A change from outside left interrupts pending on an idle CPU. A nice value
/// changed between a task's blocking and its CPU's next turn. A seed gives the same case for as long as cases are made
/// as they are now, of the same policies.
#[test]
fn cases_that_failed_once_come_out_well() {
    let then = [
        "flsched",
        "cas",
        "o1",
        "max-fair",
        "min-fair",
        "guaranteed-fair",
        "avx-fair",
        "dino",
        "di-migrate",
        "fifo",
        "rr",
    ];
    let then = then.map(|name| policy::find(name, &HONEST).unwrap());
    for seed in [50_052_127, 51_098_325, 70_032_612, 72_011_470] {
        let case = case(seed, &then);
        // They failed before cases had tasks of other policies, which these do not draw.
        assert!(case.workload.tasks.iter().all(|task| task.fair == Fair::Normal), "seed {seed}");
        run(&case).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The same policy with other promises.
fn liar(policy: &'static Policy, promises: fn(&Instance) -> Promises) -> &'static Policy {
    Box::leak(Box::new(Policy { name: "liar", promises, ..*policy }))
}

/// A fault is planted for each of the promises. No policy can break affinity and time: the checkers' own tests cover
/// those.
#[test]
fn a_policy_that_promises_too_much_is_found() {
    type Lie = (&'static str, &'static Policy, fn(&Instance) -> Promises);
    let lies: [Lie; 6] = [
        ("lockless", &baseline::FIFO, |_| Promises { lockless: true, ..Promises::default() }),
        ("work conservation", &baseline::PILE, |_| Promises {
            idle_while_runnable_ns_max: Some(1_000_000),
            ..Promises::default()
        }),
        ("wait bound", &baseline::STARVE, |_| Promises {
            slice_ns_max: Some(1_000_000),
            ..Promises::default()
        }),
        ("idle wait", &baseline::FIFO, |_| Promises {
            sched_idle_wait_ns_max: Some(1_000_000),
            ..Promises::default()
        }),
        ("quota", &baseline::FIFO, |_| Promises {
            heeds_cgroup_limits: true,
            ..Promises::default()
        }),
        ("preemption", &cas::O1, |_| Promises { never_preempts: true, ..Promises::default() }),
    ];
    for (checker, policy, promises) in lies {
        let liar = liar(policy, promises);
        let failures = swarm(0..200, &[liar]).failures;
        let by_it = |failure: &&Failure| match &failure.error {
            SimError::Violation(violation) => violation.checker == checker,
            _ => false,
        };
        let failure = failures.iter().find(by_it).unwrap_or_else(|| panic!("{checker}"));
        let again = run(&case(failure.seed, &[liar])).unwrap_err();
        assert_eq!(again, failure.error, "the seed repeats it");
    }
}
