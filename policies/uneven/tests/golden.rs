// SPDX-License-Identifier: GPL-2.0-only
//! The talk's slides, and vectors worked out by hand, to every printed digit.

use uneven::{
    Base, CoreTypes, Deviation, GuaranteedFair, Metrics, Mode, Plan, Policy, Problem, Reading,
    Task, plan, required,
};

const SPEEDUPS: [f64; 6] = [3.5, 3.1, 2.7, 2.3, 2.0, 1.7];

fn fast(plan: &Plan) -> Vec<f64> {
    plan.shares.iter().map(|row| row[0]).collect()
}

fn assert_near(ours: &[f64], wanted: &[f64], digit: f64) {
    assert_eq!(ours.len(), wanted.len());
    for (ours, wanted) in ours.iter().zip(wanted) {
        assert!((ours - wanted).abs() <= 0.5 * digit + 1e-12, "{ours} is not {wanted}");
    }
}

fn metrics(problem: &Problem, policy: &Policy) -> Metrics {
    Metrics::of(&plan(problem, policy).unwrap().relative)
}

fn percents(problem: &Problem, policy: &Policy) -> [i64; 3] {
    let metrics = metrics(problem, policy);
    [metrics.throughput, metrics.min, metrics.uniformity]
        .map(|value| (100.0 * (value - 1.0)).round() as i64)
}

#[test]
fn slides_3_to_6_max_perf_gains_little_or_much_and_is_unfair() {
    let diverse = Problem::two_types(1.0, 1.0, &[3.0, 1.5]);
    let similar = Problem::two_types(1.0, 1.0, &[3.0, 2.9]);
    assert_eq!(fast(&plan(&diverse, &Policy::MaxPerf).unwrap()), [1.0, 0.0]);
    assert_eq!(fast(&plan(&diverse, &Policy::MaxFair).unwrap()), [0.5, 0.5]);
    assert_eq!(percents(&diverse, &Policy::MaxFair), [0, 0, 0]);
    assert_eq!(percents(&diverse, &Policy::MaxPerf), [15, -20, -43]);
    assert_eq!(percents(&similar, &Policy::MaxPerf), [1, -49, -69]);
    let population = metrics(&diverse, &Policy::MaxPerf).uniformity_population;
    assert_near(&[population - 1.0], &[-0.304], 1e-3); // not what the slide prints
}

#[test]
fn slides_8_and_9_one_fast_core_and_two_slow_ones() {
    let problem = Problem::two_types(1.0, 2.0, &[3.0, 2.9, 1.5]);
    let target = 0.85;
    let min_fair = plan(&problem, &Policy::MinFair { target }).unwrap();
    let need: Vec<f64> = [3.0, 2.9, 1.5].iter().map(|s| required(*s, target, 1.0 / 3.0)).collect();
    assert_eq!(fast(&min_fair)[1..], need[1..]);
    assert_near(&[fast(&min_fair)[0]], &[1.0 - need[1] - need[2]], 1e-15);
    let policy = Policy::SimilarMinFair { similarity: 0.2, target };
    let similar = fast(&plan(&problem, &policy).unwrap());
    assert_eq!(similar[0], similar[1], "both leaders share alike");
    assert_near(&similar, &[(1.0 - need[2]) / 2.0, (1.0 - need[2]) / 2.0, need[2]], 1e-15);
}

#[test]
fn slide_25_the_share_that_a_target_takes() {
    let ours = [1.7, 2.0, 2.5, 3.0, 3.5].map(|s| required(s, 0.85, 1.0 / 3.0));
    assert_near(&ours, &[0.0690, 0.1333, 0.1833, 0.2083, 0.2233], 1e-4);
    assert_eq!(required(1.0, 0.85, 0.5), 0.0);
    assert_eq!(required(3.0, 1.0, 0.4), 0.4);
}

/// Fast shares, throughput, minimum, uniformity of the sample and of the population.
fn assert_golden(policy: &Policy, shares: [f64; 6], values: [f64; 4]) {
    let plan = plan(&Problem::two_types(2.0, 4.0, &SPEEDUPS), policy).unwrap();
    assert_near(&fast(&plan), &shares, 1e-4);
    let ours = Metrics::of(&plan.relative);
    let ours = [ours.throughput, ours.min, ours.uniformity, ours.uniformity_population];
    assert_near(&ours, &values, 1e-4);
}

#[test]
fn golden_vectors_to_every_printed_digit() {
    let target = 0.85;
    assert_golden(
        &Policy::MaxPerf,
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [1.1049, 0.6383, 0.4632, 0.5099],
    );
    assert_golden(
        &Policy::MinFair { target },
        [1.0, 0.4346, 0.1951, 0.1679, 0.1333, 0.0690],
        [1.0724, 0.8500, 0.6042, 0.6387],
    );
    assert_golden(
        &Policy::SimilarMinFair { similarity: 0.5, target },
        [0.7173, 0.7173, 0.1951, 0.1679, 0.1333, 0.0690],
        [1.0663, 0.8500, 0.6854, 0.7128],
    );
    assert_golden(
        &Policy::RFair { ratio: 0.5, reading: Reading::Greedy },
        [1.0, 0.3333, 0.1667, 0.1667, 0.1667, 0.1667],
        [1.0596, 0.8191, 0.6029, 0.6375],
    );
    assert_golden(
        &Policy::RFair { ratio: 0.5, reading: Reading::Blend },
        [0.6667, 0.6667, 0.1667, 0.1667, 0.1667, 0.1667],
        [1.0525, 0.8191, 0.7182, 0.7428],
    );
    assert_golden(
        &Policy::UniFair { uniformity: 0.85, deviation: Deviation::Sample },
        [0.5065, 0.5065, 0.2467, 0.2467, 0.2467, 0.2467],
        [1.0273, 0.9060, 0.8500, 0.8631],
    );
}

#[test]
fn slide_21_a_core_of_twice_the_power_has_twice_the_tasks() {
    let problem = Problem::two_types(1.0, 2.0, &[2.0; 8]);
    let plan = plan(&problem, &Policy::ScaledLoad { powers: Some(vec![2.0, 1.0]) }).unwrap();
    let on_fast: Vec<f64> = plan
        .cpu
        .iter()
        .zip(fast(&plan))
        .filter(|(_, fast)| *fast == 1.0)
        .map(|(cpu, _)| *cpu)
        .collect();
    assert_eq!(on_fast, [0.25; 4], "4 tasks share the fast core");
    assert_eq!(plan.cpu.iter().filter(|cpu| **cpu == 0.5).count(), 4, "2 each slow core");
}

#[test]
fn slide_22_half_max_fair() {
    let problem = Problem::two_types(1.0, 2.0, &[3.0, 2.9, 1.5]);
    for reading in [Reading::Greedy, Reading::Blend] {
        let plan = plan(&problem, &Policy::RFair { ratio: 0.5, reading }).unwrap();
        assert_near(&fast(&plan), &[4.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0], 1e-15);
    }
}

#[test]
fn slide_23_takes_turns_that_come_to_uni_fairs_blend() {
    let problem = Problem::two_types(2.0, 4.0, &SPEEDUPS);
    let wild = plan(&problem, &Policy::MaxPerf).unwrap();
    let policy = Policy::GuaranteedFair { uniformity: 0.85, deviation: Deviation::Sample };
    let blend = plan(&problem, &policy).unwrap();
    let mut machine = GuaranteedFair::new(0.85, 6, Deviation::Sample);
    let (mut mode, mut turns) = (Mode::MaxPerf, 0);
    for _ in 0..100_000 {
        turns += u32::from(mode == Mode::MaxPerf);
        mode = match mode {
            Mode::MaxPerf => machine.step(&wild.relative),
            Mode::MaxFair => machine.step(&[1.0; 6]),
        };
    }
    let duty = f64::from(turns) / 1e5;
    let part = (fast(&blend)[0] - 1.0 / 3.0) / (1.0 - 1.0 / 3.0);
    assert_near(&[duty, part], &[0.2598, 0.2598], 1e-4);
    assert!((machine.uniformity() - 0.85).abs() < 1e-4);
}

#[test]
fn twelve_tasks_on_six_cores_share_four_tasks_worth_of_fast_cores() {
    let plan = plan(&Problem::two_types(2.0, 4.0, &[2.0; 12]), &Policy::MaxPerf).unwrap();
    assert_eq!(fast(&plan)[..4], [1.0; 4], "half of the time of four tasks is two cores");
    assert_eq!(fast(&plan)[4..], [0.0; 8]);
}

#[test]
fn a_sampling_floor_takes_from_those_that_have_too_much_and_breaks_no_guarantee() {
    let mut problem = Problem::two_types(2.0, 4.0, &[10.0 / 3.0; 6]);
    problem.tasks.iter_mut().for_each(|task| task.floor = 0.04);
    let floored = plan(&problem, &Policy::MaxPerf).unwrap();
    assert_near(&fast(&floored), &[0.96, 0.88, 0.04, 0.04, 0.04, 0.04], 1e-12);
    assert_near(&[Metrics::of(&floored.relative).min], &[0.615], 1e-3);
    let kept = metrics(&problem, &Policy::MinFair { target: 0.85 });
    assert!(kept.min >= 0.85 - 1e-12, "{}", kept.min);
}

#[test]
fn a_task_bound_to_one_type_has_its_share_fixed_and_the_others_keep_their_guarantee() {
    let mut problem = Problem::two_types(2.0, 4.0, &SPEEDUPS);
    problem.tasks[5].allowed = CoreTypes::of(&[0]);
    let plan = plan(&problem, &Policy::MinFair { target: 0.85 }).unwrap();
    assert_eq!(plan.shares[5], [1.0, 0.0]);
    assert_near(&[fast(&plan).iter().sum()], &[2.0], 1e-12);
    assert!(Metrics::of(&plan.relative).min >= 0.85 - 1e-12);
}

#[test]
fn every_tenant_has_its_own_target_and_its_weight() {
    let mut problem = Problem::two_types(2.0, 4.0, &[3.0; 12]);
    for (task, weight) in problem.tasks.iter_mut().zip([1.0, 2.0, 4.0].into_iter().cycle()) {
        task.weight = weight;
    }
    problem.tasks[11].target = Some(0.95);
    let plan = plan(&problem, &Policy::MinFair { target: 0.7 }).unwrap();
    assert_near(&[plan.cpu[0] * 4.0], &[plan.cpu[2]], 1e-12);
    assert_near(&[plan.relative[11], plan.relative[10]], &[0.95, 0.7], 1e-12);
}

#[test]
fn an_estimates_upper_end_is_what_the_guarantee_is_reckoned_with() {
    let mut problem = Problem::two_types(2.0, 4.0, &SPEEDUPS);
    problem.tasks[5].bound = Some(vec![2.0, 1.0]);
    let plan = plan(&problem, &Policy::MinFair { target: 0.85 }).unwrap();
    assert_near(&[plan.shares[5][0]], &[required(2.0, 0.85, 1.0 / 3.0)], 1e-12);
}

#[test]
fn types_that_only_some_may_use_are_divided_as_evenly_as_that_allows() {
    let speeds = vec![3.0, 2.0, 1.0];
    let mut tasks = vec![Task::new(speeds); 4];
    tasks[0].allowed = CoreTypes::of(&[0, 1]);
    tasks[1].allowed = CoreTypes::of(&[1, 2]);
    let problem = Problem { cores: vec![1.0, 1.0, 2.0], tasks, base: Base::MaxFair };
    let plan = plan(&problem, &Policy::MaxFair).unwrap();
    let third = 1.0 / 3.0;
    assert_near(&[plan.shares[0][0], plan.shares[2][0], plan.shares[3][0]], &[third; 3], 1e-9);
    assert_eq!((plan.shares[0][2], plan.shares[1][0]), (0.0, 0.0));
    assert_eq!(plan.shares[2], plan.shares[3]);
    let kept = metrics(&problem, &Policy::MinFair { target: 0.9 });
    assert!(kept.min >= 0.9 - 1e-9, "{}", kept.min);
}
