// SPDX-License-Identifier: GPL-2.0-only
//! Shares against linear programs, over random machines and tasks: fewer, as many, and more tasks
//! than cores.

mod reference;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use reference::Least;
use uneven::{
    Base, CoreTypes, Deviation, Error, Metrics, Plan, Policy, Problem, Reading, Task, plan,
};

const DRAWS: usize = 20_000;
const ERROR_MAX: f64 = 1e-9;

/// A machine and tasks; every third draw has fewer tasks than cores, every third as many.
fn draw(random: &mut Pcg64, number: usize, types: usize) -> Problem {
    let cores: Vec<f64> = (0..types).map(|_| f64::from(random.random_range(1..=4))).collect();
    let all = cores.iter().sum::<f64>() as usize;
    let tasks = match number % 3 {
        0 => random.random_range(1..all),
        1 => all,
        _ => all + random.random_range(1..=8),
    };
    let weighted = random.random_bool(0.3);
    let task = |random: &mut Pcg64| {
        let mut speeds: Vec<f64> = (0..types).map(|_| 1.0 + 2.5 * random.random::<f64>()).collect();
        speeds.sort_by(|a, b| b.total_cmp(a));
        speeds[types - 1] = 1.0;
        if random.random_bool(0.05) {
            speeds = vec![1.0; types];
        }
        let weight = if weighted { f64::from(random.random_range(1..=4)) } else { 1.0 };
        Task { weight, ..Task::new(speeds) }
    };
    let tasks = (0..tasks).map(|_| task(random)).collect();
    Problem { cores, tasks, base: Base::MaxFair }
}

/// All time is handed out, none twice, and no core type is used beyond its cores.
fn assert_sound(problem: &Problem, plan: &Plan) {
    let width: f64 = problem.tasks.len() as f64;
    let cores: f64 = problem.cores.iter().sum();
    let total: f64 = plan.cpu.iter().sum();
    assert!((total - width.min(cores)).abs() < 1e-12 * cores.max(1.0), "{total}");
    assert_shares(problem, plan);
}

/// No task has more than its time, and no core type is used beyond its cores.
fn assert_shares(problem: &Problem, plan: &Plan) {
    for row in &plan.shares {
        assert!(row.iter().all(|part| *part >= 0.0), "{row:?}");
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
    }
    for (number, cores) in problem.cores.iter().enumerate() {
        let pairs = plan.cpu.iter().zip(&plan.shares);
        let used: f64 = pairs.map(|(cpu, row)| cpu * row[number]).sum();
        assert!(used <= cores + 1e-9, "{used} of {cores}");
    }
}

fn gain(plan: &Plan) -> f64 {
    plan.cpu.iter().zip(&plan.relative).map(|(cpu, relative)| cpu * relative).sum()
}

/// The worst error of some draws.
fn worst(types: usize, draws: usize, error: impl Fn(&mut Pcg64, Problem) -> f64) -> f64 {
    let mut random = Pcg64::seed_from_u64(5);
    let one = |number| {
        let problem = draw(&mut random, number, types);
        error(&mut random, problem)
    };
    (0..draws).map(one).fold(0.0, f64::max)
}

/// How far a plan is from the best, per task, and whether it is sound.
fn error(problem: &Problem, policy: &Policy, least: Least) -> f64 {
    let plan = plan(problem, policy).unwrap();
    assert_sound(problem, &plan);
    let best = reference::most(problem, &plan.cpu, least);
    (best - gain(&plan)).abs() / problem.tasks.len() as f64
}

fn assert_exact(worst: f64) {
    assert!(worst <= ERROR_MAX, "{worst:e}");
}

#[test]
fn max_perf_is_the_best() {
    assert_exact(worst(2, DRAWS, |_, problem| error(&problem, &Policy::MaxPerf, Least::Nothing)));
}

#[test]
fn min_fair_is_the_best_that_keeps_its_target() {
    assert_exact(worst(2, DRAWS, |random, problem| {
        let target = random.random();
        error(&problem, &Policy::MinFair { target }, Least::Target(target))
    }));
}

#[test]
fn r_fair_is_the_best_above_its_part_of_even_shares() {
    assert_exact(worst(2, DRAWS, |random, problem| {
        let ratio = random.random();
        let policy = Policy::RFair { ratio, reading: Reading::Greedy };
        error(&problem, &policy, Least::PartOfEven(ratio))
    }));
}

#[test]
fn min_fair_against_slow_and_fast_cores_is_the_best_or_says_how_far_it_reaches() {
    assert_exact(worst(2, DRAWS, |random, mut problem| {
        problem.base = if random.random() { Base::SlowCore } else { Base::FastCore };
        let target =
            random.random::<f64>() * if problem.base == Base::SlowCore { 3.0 } else { 1.0 };
        let cpu = plan(&problem, &Policy::MaxFair).unwrap().cpu;
        match plan(&problem, &Policy::MinFair { target }) {
            Ok(_) => error(&problem, &Policy::MinFair { target }, Least::Target(target)),
            Err(Error::OutOfReach { best }) => {
                assert!(target > best - ERROR_MAX, "{target} {best}");
                (best - reference::level(&problem, &cpu)).abs()
            }
            Err(error) => panic!("{error}"),
        }
    }));
}

#[test]
fn equal_progress_lifts_the_lowest_as_far_as_it_goes() {
    assert_exact(worst(2, DRAWS, |random, mut problem| {
        let base = if random.random() { Base::SlowCore } else { Base::FastCore };
        problem.base = base;
        let plan = plan(&problem, &Policy::EqualProgress { base }).unwrap();
        assert_sound(&problem, &plan);
        let level = Metrics::of(&plan.relative).min;
        (level - reference::level(&problem, &plan.cpu)).abs()
    }));
}

#[test]
fn three_types_are_as_exact_as_two() {
    assert_exact(worst(3, 1_000, |random, problem| {
        let target = random.random();
        error(&problem, &Policy::MaxPerf, Least::Nothing).max(error(
            &problem,
            &Policy::MinFair { target },
            Least::Target(target),
        ))
    }));
    assert_exact(worst(3, 60, |random, mut problem| {
        let base = if random.random() { Base::SlowCore } else { Base::FastCore };
        problem.base = base;
        let plan = plan(&problem, &Policy::EqualProgress { base }).unwrap();
        assert_sound(&problem, &plan);
        let level = Metrics::of(&plan.relative).min;
        (level - reference::level(&problem, &plan.cpu)).abs()
    }));
}

#[test]
fn four_types_are_as_exact_as_two() {
    assert_exact(worst(4, 300, |random, problem| {
        let target = random.random();
        error(&problem, &Policy::MinFair { target }, Least::Target(target))
    }));
}

#[test]
fn no_guarantee_is_broken_whatever_is_similar() {
    for types in [2, 3] {
        let missed = worst(types, if types == 2 { DRAWS } else { 1_000 }, |random, problem| {
            let (target, similarity) = (random.random(), 2.0 * random.random::<f64>());
            let policy = Policy::SimilarMinFair { similarity, target };
            let plan = plan(&problem, &policy).unwrap();
            assert_sound(&problem, &plan);
            target - Metrics::of(&plan.relative).min
        });
        assert!(missed <= ERROR_MAX, "{missed:e}");
    }
}

#[test]
fn uni_fair_has_the_uniformity_that_is_wanted_and_min_uni_fair_the_target_too() {
    let worst = worst(2, DRAWS, |random, problem| {
        let (uniformity, target) = (random.random(), random.random());
        let deviation = if random.random() { Deviation::Sample } else { Deviation::Population };
        let of = |plan: &Plan| match deviation {
            Deviation::Sample => Metrics::of(&plan.relative).uniformity,
            Deviation::Population => Metrics::of(&plan.relative).uniformity_population,
        };
        let start = of(&plan(&problem, &Policy::MaxPerf).unwrap());
        let policy = Policy::UniFair { uniformity, deviation };
        let blend = plan(&problem, &policy).unwrap();
        assert_sound(&problem, &blend);
        let policy = Policy::MinUniFair { similarity: 0.2, target, uniformity, deviation };
        let both = plan(&problem, &policy).unwrap();
        let missed = (target - Metrics::of(&both.relative).min).max(uniformity - of(&both));
        (of(&blend) - uniformity.max(start)).abs().max(missed)
    });
    assert_exact(worst);
}

/// If some tasks have no choice of types, or none has, there still is a plan.
#[test]
fn tasks_that_are_bound_to_a_type_leave_the_others_theirs() {
    let policies = [
        Policy::MaxPerf,
        Policy::MinFair { target: 0.6 },
        Policy::EqualProgress { base: Base::SlowCore },
    ];
    let mut random = Pcg64::seed_from_u64(7);
    for number in 0..3_000 {
        let mut problem = draw(&mut random, number, 2 + number % 2);
        problem.base = [Base::MaxFair, Base::SlowCore, Base::FastCore][number % 3];
        let types = problem.cores.len();
        let bound = if number % 5 == 0 { 1.0 } else { 0.5 };
        for task in &mut problem.tasks {
            if random.random_bool(bound) {
                task.allowed = CoreTypes::of(&[random.random_range(0..types)]);
            }
        }
        for policy in &policies {
            match plan(&problem, policy) {
                Ok(plan) => assert_shares(&problem, &plan),
                Err(Error::OutOfReach { .. }) => {}
                Err(error) => panic!("{number}: {error}: {problem:?}"),
            }
        }
    }
}
