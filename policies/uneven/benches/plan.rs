// SPDX-License-Identifier: GPL-2.0-only
//! The cost of an interval of the control plane: every task's estimate is updated, then shares are
//! planned.
//!
//! Gates: 0.17 ms with 6 cores (slide 32), 5 ms with 228 cores and 1,000 tasks.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use uneven::{Base, Counts, Estimator, Policy, Problem, Rules, plan};

/// Estimators that were updated for a while, and their tasks' counts in an interval.
fn measured(tasks: usize, rules: &Rules) -> (Vec<Estimator>, Vec<Vec<Counts>>) {
    let mut random = Pcg64::seed_from_u64(1);
    let types = rules.unknown.len();
    let counts = |random: &mut Pcg64| -> Vec<Counts> {
        let s = 1.7 + 1.7 * random.random::<f64>();
        let ips = |number: usize| s + (1.0 - s) * number as f64 / (types - 1) as f64;
        let time_ns = 500_000_000;
        let count = |number| Counts {
            instructions: (ips(number) * 5e8) as u64,
            counted_ns: time_ns,
            time_ns,
        };
        (0..types).map(count).collect()
    };
    let counts: Vec<_> = (0..tasks).map(|_| counts(&mut random)).collect();
    let mut estimators = vec![Estimator::new(types); tasks];
    for _ in 0..3 {
        let pairs = estimators.iter_mut().zip(&counts);
        pairs.for_each(|(estimator, counts)| assert!(estimator.update(counts, rules)));
    }
    (estimators, counts)
}

fn interval(estimators: &mut [Estimator], counts: &[Vec<Counts>], rules: &Rules, cores: &[f64]) {
    let pairs = estimators.iter_mut().zip(counts);
    let task = |(estimator, counts): (&mut Estimator, &Vec<Counts>)| {
        estimator.update(counts, rules);
        estimator.task(rules)
    };
    let tasks = pairs.map(task).collect();
    let problem = Problem { cores: cores.to_vec(), tasks, base: Base::MaxFair };
    let policy = Policy::SimilarMinFair { similarity: 0.2, target: 0.85 };
    black_box(plan(&problem, &policy).expect("even shares are enough"));
}

fn intervals(criterion: &mut Criterion) {
    let cases: [(&str, &[f64], usize); 3] = [
        ("6 cores, 6 tasks", &[2.0, 4.0], 6),
        ("228 cores, 1000 tasks", &[76.0, 152.0], 1000),
        ("228 cores of 3 types, 1000 tasks", &[38.0, 38.0, 152.0], 1000),
    ];
    let mut group = criterion.benchmark_group("interval");
    for (name, cores, tasks) in cases {
        let rules = Rules::new(if cores.len() == 2 { vec![3.5, 1.0] } else { vec![3.5, 2.0, 1.0] });
        let (mut estimators, counts) = measured(tasks, &rules);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| interval(&mut estimators, &counts, &rules, cores));
        });
    }
    group.finish();
}

criterion_group!(benches, intervals);
criterion_main!(benches);
