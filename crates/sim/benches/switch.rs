// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a simulated context switch with all its callbacks, hardware effects on. A loop of known length runs beside
//! it, for machines of varying speed. `paceline repro simulator` holds the same to gates.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use machine::Machine;
use policy::Instance;
use sim::yardstick::{calibration, eight_cpus, many_cpus, mix};
use sim::{Scenario, Scheduler, run, run_all};

fn scenario(machine: &Machine, tasks: usize, duration_ms: u64) -> Scenario {
    let scheduler = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
    Scenario::new(machine.clone(), mix(tasks, duration_ms), scheduler)
}

fn switches(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("switch");
    group.sample_size(10);
    for (machine, tasks, duration_ms) in [(eight_cpus(), 64, 20_000), (many_cpus(), 1_000, 5_000)] {
        let scenario = scenario(&machine, tasks, duration_ms);
        let name = format!("{} CPUs", machine.cpus.len());
        group.bench_function(BenchmarkId::new(name, format!("{tasks} tasks")), |bencher| {
            bencher.iter_custom(|times| per_switch(&scenario, times));
        });
    }
    group.finish();
}

/// Time of `times` switches.
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
    let scenario = scenario(&eight_cpus(), 64, 2_000);
    let two = [scenario.clone(), scenario.clone()];
    group.bench_function("one", |bencher| bencher.iter(|| run(&scenario).expect("it runs")));
    group.bench_function("two", |bencher| bencher.iter(|| run_all(&two)));
    group.finish();
}

fn known(bench: &mut Criterion) {
    bench.bench_function("calibration/1000", |bencher| {
        bencher.iter(|| calibration(black_box(1000)));
    });
}

criterion_group!(benches, known, switches, two_at_once);
criterion_main!(benches);
