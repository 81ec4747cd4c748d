// SPDX-License-Identifier: GPL-2.0-only
//! Random cases: `cargo run --release -p sim --example swarm [FIRST [LAST]]`; one seed alone is
//! repeated and shown.

use policy::Policy;

const REGISTRY: &[&Policy] =
    &[&flsched::FLSCHED, &cas::CAS, &cas::O1, &baseline::FIFO, &baseline::RR];

fn main() {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("a seed is a number")).collect();
    let (first, last) = match numbers[..] {
        [] => (0, 1000),
        [one] => (one, one + 1),
        [first, last, ..] => (first, last),
    };
    let all = sim::swarm(first..last, REGISTRY);
    for failure in &all.failures {
        println!("seed {}: {}: {}", failure.seed, failure.what, failure.error);
    }
    println!(
        "{} of {} cases failed; {:.2e} decisions in the others",
        all.failures.len(),
        last - first,
        all.decisions as f64
    );
}
