// SPDX-License-Identifier: GPL-2.0-only
//! Random cases: `cargo run --release -p sim --example swarm [FIRST [LAST]]`; one seed alone is
//! repeated and shown. Exit code 1 if one failed.

use std::process::ExitCode;

use policies::HONEST;

/// Seeds between two progress messages: a night covers many.
const PART: u64 = 5_000;

fn main() -> ExitCode {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("a seed is a number")).collect();
    let (first, last) = match numbers[..] {
        [] => (0, 1000),
        [one] => (one, one + 1),
        [first, last, ..] => (first, last),
    };
    let (mut failed, mut decisions) = (0, 0);
    for part in (first..last).step_by(PART as usize) {
        let end = last.min(part + PART);
        let all = sim::swarm(part..end, &HONEST);
        for failure in &all.failures {
            println!("seed {}: {}: {}", failure.seed, failure.what, failure.error);
        }
        failed += all.failures.len();
        decisions += all.decisions;
        println!(
            "{failed} of {} cases failed; {:.2e} decisions in the others",
            end - first,
            decisions as f64
        );
    }
    ExitCode::from(u8::from(failed > 0))
}
