// SPDX-License-Identifier: GPL-2.0-only
//! Clocks: what vector code costs those that run it, and those beside and after them; and who is charged for it.

mod common;

use common::{burn, task, workload};
use machine::{Machine, find};
use policy::Instance;
use sim::{Scenario, Scheduler, run};
use trace::Outcome;
use workload::{Step, Task, Vector, Workload};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn fifo() -> Scheduler {
    Scheduler::Policy(Instance::default(&baseline::FIFO))
}

fn fair(knobs: &str) -> Scheduler {
    Scheduler::Policy(Instance::parse(&format!("avx-fair:{knobs}"), &[&avx::AVX_FAIR]).unwrap())
}

fn on(cpu: usize, vector: Vector, steps: Vec<Step>) -> Task {
    Task { cpus: Some(vec![cpu]), vector, process: cpu + 1, ..task("t", steps) }
}

fn forever(steps: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: None, steps }]
}

fn simulate(machine: &Machine, tasks: Vec<Task>, scheduler: Scheduler, ns: Option<u64>) -> Outcome {
    let workload = Workload { duration_ns: ns, ..workload(tasks) };
    let mut scenario = Scenario::new(machine.clone(), workload, scheduler);
    scenario.options.jitter = 0.0;
    run(&scenario).unwrap()
}

/// Work done by each task, in the order of the workload.
fn done(outcome: &Outcome) -> Vec<f64> {
    outcome.progress.values().copied().collect()
}

/// The machine whose licenses, once granted, stay for the run.
fn permanent(name: &str) -> Machine {
    let mut machine = find(name).unwrap();
    if let Some(law) = machine.frequency.as_mut().and_then(|own| own.license.as_mut()) {
        law.release_ns = 3600 * SECOND;
    }
    machine
}

#[test]
fn wide_code_runs_at_its_own_clock() {
    let machine = find("xeon-w-2104").unwrap();
    let elapsed = |vector| {
        let tasks = vec![on(0, vector, vec![burn(1000)])];
        simulate(&machine, tasks, fifo(), None).elapsed_ns as f64
    };
    let scalar = elapsed(Vector::None);
    assert!((scalar / SECOND as f64 - 1.0).abs() < 0.002, "{scalar}");
    assert!((elapsed(Vector::Avx2) / scalar - 3.2 / 2.8).abs() < 0.001);
    assert!((elapsed(Vector::Avx512) / scalar - 3.2 / 2.4).abs() < 0.001);
}

#[test]
fn who_comes_after_wide_code_is_slow_for_as_long_as_the_license_is_kept() {
    let machine = find("xeon-w-2104").unwrap();
    let law = machine.frequency.as_ref().unwrap().license.unwrap();
    let touch = vec![Step::Vector(Vector::Avx512), burn(1), Step::Vector(Vector::None), burn(100)];
    let plain = simulate(&machine, vec![on(0, Vector::None, vec![burn(101)])], fifo(), None);
    let touched = simulate(&machine, vec![on(0, Vector::None, touch)], fifo(), None);
    let lost = touched.elapsed_ns as f64 - plain.elapsed_ns as f64;
    // 1 ms of wide code is longer by a third and some throttling; the release is, too, and halts.
    let kept = law.release_ns as f64 * (1.0 - 2.4 / 3.2);
    let own = MS as f64 / 3.0;
    assert!((kept + own..kept + own + 100_000.0).contains(&lost), "{lost}");
}

#[test]
fn clocks_fall_with_active_cores_and_a_sibling_shares_its_cores_license() {
    let machine = find("xeon-gold-6130").unwrap();
    let rate = |tasks: Vec<Task>| done(&simulate(&machine, tasks, fifo(), Some(SECOND)))[0];
    let hog = |cpu, vector| on(cpu, vector, forever(vec![burn(10)]));
    let alone = rate(vec![hog(0, Vector::None)]);
    let all: Vec<Task> = (0..16).map(|cpu| hog(cpu, Vector::None)).collect();
    assert!((rate(all.clone()) / alone - 2.8 / 3.7).abs() < 0.003);
    // CPU 16 is the other thread of CPU 0's core, CPU 17 of CPU 1's.
    let beside = |cpu, vector| rate([all.clone(), vec![hog(cpu, vector)]].concat());
    let plain = beside(16, Vector::None);
    assert!((beside(16, Vector::Avx512) / plain - 1.9 / 2.8).abs() < 0.003);
    assert!((beside(17, Vector::Avx512) / rate(all.clone()) - 1.0).abs() < 0.003, "another core");
}

#[test]
fn wide_code_slows_all_cores_where_power_is_limited() {
    let machine = find("power-8").unwrap();
    let rate = |vector| {
        let hog =
            |cpu| on(cpu, if cpu < 4 { Vector::None } else { vector }, forever(vec![burn(10)]));
        done(&simulate(&machine, (0..8).map(hog).collect(), fifo(), Some(SECOND)))[0]
    };
    let clock = (50.0_f64 / 80.0).cbrt();
    let scalar = rate(Vector::None) / SECOND as f64;
    assert!((scalar - 1.0).abs() < 0.005, "scalar code fits the limit: {scalar}");
    assert!((rate(Vector::Avx512) / rate(Vector::None) - clock).abs() < 0.003);
}

/// Work of victim and culprit that share a CPU for 20 s, of what each has where the other is like it: on the Xeon W,
/// or on a Xeon Gold whose other cores are busy. The ratio of clocks is `ratio`.
fn shared(machine: &Machine, busy: usize, knobs: &str) -> (f64, f64, Outcome) {
    let others = (1..busy).map(|cpu| on(cpu, Vector::None, forever(vec![burn(10)])));
    let pair = |a, b| {
        let tasks = [a, b].map(|vector| on(0, vector, forever(vec![burn(10)])));
        let tasks = tasks.into_iter().chain(others.clone()).collect();
        simulate(machine, tasks, fair(knobs), Some(20 * SECOND))
    };
    let mixed = pair(Vector::None, Vector::Avx512);
    let ideal = |vector| done(&pair(vector, vector))[0];
    let (victim, culprit) = (done(&mixed)[0], done(&mixed)[1]);
    (victim / ideal(Vector::None), culprit / ideal(Vector::Avx512), mixed)
}

#[test]
fn one_culprit_and_one_victim_both_get_what_the_formula_says() {
    for (name, busy, ratio) in [("xeon-w-2104", 1, 2.4 / 3.2), ("xeon-gold-6130", 16, 1.9 / 2.8)] {
        let machine = permanent(name);
        let wanted = 2.0 * ratio / (1.0 + ratio);
        let (victim, culprit, _) = shared(&machine, busy, "detect=trap");
        assert!((victim / wanted - 1.0).abs() < 0.005, "{name}: victim {victim}, not {wanted}");
        assert!((culprit / wanted - 1.0).abs() < 0.005, "{name}: culprit {culprit}, not {wanted}");
        let (victim, culprit, _) = shared(&machine, busy, "charge=off");
        assert!(
            (victim - ratio).abs() < 0.005 && (culprit - 1.0).abs() < 0.005,
            "{victim} {culprit}"
        );
    }
}

#[test]
fn nothing_is_refunded_where_nobody_runs_wide_code() {
    let machine = find("xeon-gold-6130").unwrap();
    // Cores come and go, so turbo bins change all the time.
    let steps = |at: u64| forever(vec![burn(1 + at % 7), Step::Sleep { ns: (1 + at % 5) * MS }]);
    let tasks: Vec<Task> =
        (0..40).map(|at| Task { process: at, ..task("t", steps(at as u64)) }).collect();
    let outcome = simulate(&machine, tasks, fair("detect=trap"), Some(SECOND));
    assert_eq!((outcome.extra["refunded_ns"], outcome.extra["surcharged_ns"]), (0.0, 0.0));
}
