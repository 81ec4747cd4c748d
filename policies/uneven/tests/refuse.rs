// SPDX-License-Identifier: GPL-2.0-only
//! Bad input is an error of one line that says how to fix it.

use uneven::{Base, CoreTypes, Deviation, Policy, Problem, Reading, Task, plan};

const GOOD: Policy = Policy::MinFair { target: 0.85 };

fn good() -> Problem {
    Problem::two_types(2.0, 4.0, &[3.5, 3.1, 2.7])
}

fn assert_refused(problem: &Problem, policy: &Policy, wanted: &str) {
    let said = plan(problem, policy).unwrap_err().to_string();
    assert!(said.contains(wanted), "{said}");
    assert!(said.contains(';') || said.contains(':'), "how to mend it: {said}");
    assert!(!said.contains('\n'), "{said}");
}

#[test]
fn what_is_good_is_planned() {
    plan(&good(), &GOOD).unwrap();
}

#[test]
fn policies_numbers() {
    let deviation = Deviation::Sample;
    for target in [1.01, -0.1, f64::NAN, f64::INFINITY] {
        assert_refused(&good(), &Policy::MinFair { target }, "the target is");
        assert_refused(
            &good(),
            &Policy::SimilarMinFair { similarity: 0.2, target },
            "the target is",
        );
    }
    for similarity in [-0.2, f64::NAN, f64::INFINITY] {
        let policy = Policy::SimilarMinFair { similarity, target: 0.85 };
        assert_refused(&good(), &policy, "the similarity is");
    }
    for uniformity in [1.5, -1.0, f64::NAN] {
        assert_refused(&good(), &Policy::UniFair { uniformity, deviation }, "the uniformity is");
        let policy = Policy::GuaranteedFair { uniformity, deviation };
        assert_refused(&good(), &policy, "the uniformity is");
    }
    let policy = Policy::RFair { ratio: 50.0, reading: Reading::Greedy };
    assert_refused(&good(), &policy, "the ratio is 50");
    for powers in [vec![2.0], vec![2.0, 0.0], vec![f64::NAN, 1.0]] {
        assert_refused(&good(), &Policy::ScaledLoad { powers: Some(powers) }, "computing power");
    }
}

#[test]
fn machines_and_tasks() {
    let refused = |wanted: &str, change: fn(&mut Problem)| {
        let mut problem = good();
        change(&mut problem);
        assert_refused(&problem, &GOOD, wanted);
    };
    refused("no tasks", |problem| problem.tasks.clear());
    refused("no core types", |problem| problem.cores.clear());
    refused("core type 2 has 0 cores", |problem| problem.cores[1] = 0.0);
    refused("core type 1 has NaN cores", |problem| problem.cores[0] = f64::NAN);
    refused("9 core types", |problem| problem.cores = vec![1.0; 9]);
    refused("task 2 has speed 0.9", |problem| problem.tasks[1].speeds[0] = 0.9);
    refused("task 2 has speed 250", |problem| problem.tasks[1].speeds[0] = 250.0);
    refused("task 1 has speed NaN", |problem| problem.tasks[0].speeds[0] = f64::NAN);
    refused("task 3 has speed inf", |problem| {
        problem.tasks[2].bound = Some(vec![f64::INFINITY, 1.0]);
    });
    refused("slowest core type", |problem| problem.tasks[0].speeds = vec![1.0, 3.5]);
    refused("3 speeds for 2", |problem| problem.tasks[0] = Task::new(vec![3.0, 2.0, 1.0]));
    refused("weight 0", |problem| problem.tasks[0].weight = 0.0);
    refused("width -1", |problem| problem.tasks[0].width = -1.0);
    refused("floor 2", |problem| problem.tasks[0].floor = 2.0);
    refused("task 1 has target 1.1", |problem| problem.tasks[0].target = Some(1.1));
    refused("no core type", |problem| problem.tasks[0].allowed = CoreTypes::of(&[2]));
    let mut halves = good();
    halves.cores[0] = 1.5;
    assert_refused(&halves, &Policy::ScaledLoad { powers: None }, "whole cores");
}

#[test]
fn a_target_that_no_task_can_keep_is_refused() {
    for cores in [vec![2.0, 4.0], vec![2.0, 2.0, 2.0]] {
        let speeds = |s: f64| [s, 0.5 * (1.0 + s), 1.0][3 - cores.len()..].to_vec();
        let tasks = (0..6).map(|number| Task::new(speeds(2.0 + 0.2 * f64::from(number)))).collect();
        let mut problem = Problem { cores, tasks, base: Base::FastCore };
        problem.tasks.iter_mut().for_each(|task| task.speeds[0] = task.speeds[0].max(1.0));
        assert_refused(&problem, &Policy::MinFair { target: 0.99 }, "the best for all is 0.");
    }
}
