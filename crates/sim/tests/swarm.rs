// SPDX-License-Identifier: GPL-2.0-only
//! Random cases keep what is promised; a promise that is not kept is found, by a seed that repeats.

use policy::{Policy, Promises};
use sim::{SimError, case, run, swarm};

const REGISTRY: &[&Policy] =
    &[&flsched::FLSCHED, &cas::CAS, &cas::O1, &baseline::FIFO, &baseline::RR];

#[test]
fn random_cases_come_out_well() {
    let failures = swarm(0..300, REGISTRY);
    let all: Vec<String> = failures
        .iter()
        .map(|failure| format!("seed {}: {}: {}", failure.seed, failure.what, failure.error))
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_policy_that_promises_too_much_is_found() {
    let fifo = &baseline::FIFO;
    let liar: &'static Policy = Box::leak(Box::new(Policy {
        name: "liar",
        summary: fifo.summary,
        about: fifo.about,
        knobs: fifo.knobs,
        ops: fifo.ops,
        bpf: fifo.bpf,
        native: fifo.native,
        promises: |_| Promises { lockless: true, ..Promises::default() },
    }));
    let failures = swarm(0..60, &[liar]);
    let found = failures.iter().find(|failure| failure.what.starts_with("liar"));
    let failure = found.expect("some case makes FIFO take its queue's lock");
    let again = run(&case(failure.seed, &[liar])).unwrap_err();
    assert_eq!(again, failure.error, "the seed repeats it");
    assert!(matches!(again, SimError::Violation(_)), "{again}");
}
