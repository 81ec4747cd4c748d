// SPDX-License-Identifier: GPL-2.0-only
//! What a simulated context switch costs with all its callbacks, hardware effects on; beside a loop of known
//! length, for machines whose speed is not constant.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use machine::Machine;
use policy::Instance;
use sim::{Scenario, Scheduler, run, run_all};

#[path = "../tests/common/mix.rs"]
mod mix;

/// Four cores of two threads each, of a Xeon's; or the whole of a Xeon Phi.
fn machines() -> [Machine; 2] {
    let xeon = include_str!("../../../machines/xeon-e5-2699.toml");
    let eight = xeon.replace("cores_per_llc = { value = 18", "cores_per_llc = { value = 4");
    let eight = Machine::from_toml(&eight, "xeon").expect("it is sound");
    assert_eq!(eight.cpus.len(), 8);
    [eight, machine::find("xeon-phi-31s1p").expect("it comes along")]
}

fn scenario(machine: &Machine, tasks: usize, duration_ms: u64) -> Scenario {
    let scheduler = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
    Scenario::new(machine.clone(), mix::mix(tasks, duration_ms), scheduler)
}

/// So many steps of a xorshift generator: a step waits for the one before, so it takes what it takes.
fn calibration(steps: u64) -> u64 {
    (0..steps).fold(88_172_645_463_325_252, |mut x: u64, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    })
}

fn switches(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("switch");
    group.sample_size(10);
    let [eight, phi] = machines();
    for (machine, tasks, duration_ms) in [(eight, 64, 20_000), (phi, 1_000, 5_000)] {
        let scenario = scenario(&machine, tasks, duration_ms);
        let name = format!("{} CPUs", machine.cpus.len());
        group.bench_function(BenchmarkId::new(name, format!("{tasks} tasks")), |bencher| {
            bencher.iter_custom(|times| per_switch(&scenario, times));
        });
    }
    group.finish();
}

/// As long as so many of the switches took.
fn per_switch(scenario: &Scenario, times: u64) -> Duration {
    let (mut took, mut switches) = (Duration::ZERO, 0);
    while switches < times {
        let start = Instant::now();
        let outcome = run(scenario).expect("it runs");
        took += start.elapsed();
        switches += outcome.observed.context_switches;
    }
    took.mul_f64(times as f64 / switches as f64)
}

fn two_at_once(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("runs");
    group.sample_size(10);
    let scenario = scenario(&machines()[0], 64, 2_000);
    let two = [scenario.clone(), scenario.clone()];
    group.bench_function("one", |bencher| bencher.iter(|| run(&scenario).expect("it runs")));
    group.bench_function("two", |bencher| bencher.iter(|| run_all(&two)));
    group.finish();
}

fn known(bench: &mut Criterion) {
    bench.bench_function("calibration/1000", |bencher| {
        bencher.iter(|| calibration(black_box(1000)))
    });
}

criterion_group!(benches, known, switches, two_at_once);
criterion_main!(benches);
