// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler of the kernel tree, unmodified.

use std::path::Path;

use policy::Promises;
use sim::run;

use crate::common::{MS, burn, cores, policy_of, scenario, task, workload};

/// The kernel tree's scx_simple divides a CPU by weight, as its comments say, and leaves none idle.
#[test]
fn scx_simple_of_the_kernel_tree_shares_by_weight() {
    let source = match policy_build::scx_simple(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(source) => source,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let simple = || policy_of("simple", &source, |_| Promises::default());
    let nice = |name: &str, nice| {
        let mut one = task(name, vec![burn(4000)]);
        one.nice = nice;
        one
    };
    let tasks = (0..4).map(|n| nice(&format!("plain-{n}"), 0));
    let tasks = tasks.chain((0..4).map(|n| nice(&format!("nice-{n}"), 5)));
    let mut load = workload(tasks.collect());
    load.duration_ns = Some(8000 * MS);
    let outcome = run(&scenario(cores(2), load, simple())).unwrap();
    let cpu_ns = |tids: std::ops::RangeInclusive<u32>| -> f64 {
        tids.map(|tid| outcome.observed.tasks[&tid].cpu_ns as f64).sum()
    };
    let (plain, nice) = (cpu_ns(1..=4), cpu_ns(5..=8));
    // Weights 1024 and 335: a task that stops is not in the queue when the next one is chosen.
    assert!((2.3..3.2).contains(&(plain / nice)), "{}", plain / nice);
    assert!(plain + nice > 0.999 * 2.0 * 8e9, "of two CPUs: {} ns", plain + nice);
}
