// SPDX-License-Identifier: GPL-2.0-only
//! Clocks: the cost of vector code to the tasks that run it, and to those beside and after them; and the tasks that are
//! charged for it.

use machine::{Machine, find};
use policies::POLICIES;
use policy::Instance;
use sim::{Change, Failing, Fault, Scenario, Scheduler, run};
use trace::Outcome;
use workload::{Step, Task, Vector, Workload};

use crate::common::{burn, task, workload};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn fifo() -> Scheduler {
    Scheduler::Policy(Instance::default(&baseline::FIFO))
}

fn fair(knobs: &str) -> Scheduler {
    Scheduler::Policy(Instance::parse(&format!("avx-fair:{knobs}"), &POLICIES).unwrap())
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

/// The machine with licenses that, once granted, stay for the run.
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
fn task_after_wide_code_is_slow_while_the_license_is_kept() {
    let machine = find("xeon-w-2104").unwrap();
    let law = machine.frequency.as_ref().unwrap().license.unwrap();
    let touch = vec![Step::Vector(Vector::Avx512), burn(1), Step::Vector(Vector::None), burn(100)];
    let plain = simulate(&machine, vec![on(0, Vector::None, vec![burn(101)])], fifo(), None);
    let touched = simulate(&machine, vec![on(0, Vector::None, touch)], fifo(), None);
    let lost = touched.elapsed_ns as f64 - plain.elapsed_ns as f64;
    // 1 ms of wide code is longer by a third and some throttling; then come the release time and the halts.
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

/// Work of victim and culprit that share a CPU for 20 s, relative to the same with two alike: on the Xeon W, or on a
/// Xeon Gold with its other cores busy. The ratio of clocks is `ratio`.
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

/// The registers that a task had in use when it stopped say the same as a trap, a moment later.
#[test]
fn saved_registers_tell_culprit_from_victim() {
    let machine = permanent("xeon-w-2104");
    let ratio = 2.4 / 3.2;
    let wanted = 2.0 * ratio / (1.0 + ratio);
    for knobs in ["detect=saved", "detect=saved,source=model"] {
        let (victim, culprit, run) = shared(&machine, 1, knobs);
        assert!((victim / wanted - 1.0).abs() < 0.01, "{knobs}: victim {victim}, not {wanted}");
        assert!((culprit / wanted - 1.0).abs() < 0.01, "{knobs}: culprit {culprit}");
        let wide = run.extra["saved_wide"] / run.extra["saved_looks"];
        assert!((0.4..0.6).contains(&wide), "every other turn is the culprit's: {wide}");
    }
    // No culprit is named, and nothing is inspected: no task is refunded.
    let (victim, _, run) = shared(&machine, 1, "detect=told");
    assert_eq!((run.extra["saved_looks"], run.extra["refunded_ns"]), (0.0, 0.0));
    assert!((victim - ratio).abs() < 0.005, "{victim}");
}

#[test]
fn nothing_is_refunded_without_wide_code() {
    let machine = find("xeon-gold-6130").unwrap();
    // Cores go idle and busy, so turbo bins change all the time.
    let steps = |at: u64| forever(vec![burn(1 + at % 7), Step::Sleep { ns: (1 + at % 5) * MS }]);
    let tasks: Vec<Task> =
        (0..40).map(|at| Task { process: at, ..task("t", steps(at as u64)) }).collect();
    let outcome = simulate(&machine, tasks, fair("detect=trap"), Some(SECOND));
    assert_eq!((outcome.extra["refunded_ns"], outcome.extra["surcharged_ns"]), (0.0, 0.0));
}

/// Two tasks on CPU 0 of a machine with permanent licenses: work of each relative to its work beside a task like
/// itself.
fn pair(
    machine: &Machine,
    vectors: [Vector; 2],
    knobs: &str,
    faults: &[Fault],
) -> ([f64; 2], Outcome) {
    let work = |vectors: [Vector; 2]| {
        let tasks = vectors.map(|vector| on(0, vector, forever(vec![burn(10)])));
        let workload = Workload { duration_ns: Some(10 * SECOND), ..workload(tasks.to_vec()) };
        let mut scenario = Scenario::new(machine.clone(), workload, fair(knobs));
        scenario.options.jitter = 0.0;
        scenario.faults = faults.to_vec();
        run(&scenario).unwrap()
    };
    let mixed = work(vectors);
    let alone = vectors.map(|vector| done(&work([vector; 2]))[0]);
    let own = done(&mixed);
    ([own[0] / alone[0], own[1] / alone[1]], mixed)
}

#[test]
fn an_avx2_task_beside_an_avx512_task_is_a_victim_too() {
    let machine = permanent("xeon-w-2104");
    let ([victim, culprit], _) = pair(&machine, [Vector::Avx2, Vector::Avx512], "detect=trap", &[]);
    let ratio = 2.4 / 2.8;
    let wanted = 2.0 * ratio / (1.0 + ratio);
    assert!((victim / wanted - 1.0).abs() < 0.005 && (culprit / wanted - 1.0).abs() < 0.005);
    let ([victim, culprit], _) = pair(&machine, [Vector::Avx2, Vector::Avx512], "charge=off", &[]);
    assert!((victim - ratio).abs() < 0.005 && (culprit - 1.0).abs() < 0.005, "the control arm");
}

#[test]
fn task_that_needs_the_lowest_clock_is_never_refunded() {
    let machine = permanent("xeon-w-2104");
    let (_, outcome) = pair(&machine, [Vector::Avx512; 2], "detect=trap", &[]);
    // Only the time of their launcher in between could be refunded.
    assert!(outcome.extra["refunded_ns"] < 2e6, "{}", outcome.extra["refunded_ns"]);
    let (_, outcome) = pair(&machine, [Vector::None, Vector::Avx512], "detect=trap", &[]);
    assert!(outcome.extra["refunded_ns"] > 0.1 * 10e9, "the control: a victim is");
}

#[test]
fn counters_that_fail_refund_nothing_and_those_that_jump_refund_the_rest() {
    let machine = permanent("xeon-w-2104");
    let refund = |at_ms: u64, failing: Failing| {
        let fault = Fault { at_ns: at_ms * MS, change: Change::Counters(failing) };
        let (_, outcome) = pair(&machine, [Vector::None, Vector::Avx512], "detect=trap", &[fault]);
        outcome.extra["refunded_ns"]
    };
    let whole = pair(&machine, [Vector::None, Vector::Avx512], "detect=trap", &[]).1;
    let whole = whole.extra["refunded_ns"];
    assert!((refund(5000, Failing::Stand) / whole - 0.5).abs() < 0.02, "half of the time");
    let jumped = refund(5000, Failing::JumpBack) / whole;
    assert!((0.99..=1.001).contains(&jumped), "a stretch of time is lost, no more: {jumped}");
}

/// A model's estimated loss is refunded only as far as cycles confirm it: a task may be declared to need more than it
/// does.
#[test]
fn a_model_is_held_to_what_cycles_say() {
    let machine = permanent("xeon-w-2104");
    let refund = |culprit: Vector, counters: bool| {
        let task = |name: &str, vector| Task {
            name: name.to_string(),
            ..on(0, vector, forever(vec![burn(10)]))
        };
        let tasks = vec![task("a", culprit), task("b", Vector::None)];
        let workload = Workload { duration_ns: Some(5 * SECOND), ..workload(tasks) };
        let knobs = fair("source=model,detect=told");
        let mut scenario = Scenario::new(machine.clone(), workload, knobs);
        scenario.profile = [("a", 2.0), ("b", 0.0)].map(|(n, l)| (n.to_string(), vec![l])).into();
        scenario.options.counters = counters;
        run(&scenario).unwrap().extra["refunded_ns"]
    };
    let (held, believed) = (refund(Vector::Avx512, true), refund(Vector::Avx512, false));
    assert!((held / believed - 1.0).abs() < 0.02, "{held} ns of {believed} ns");
    let (held, believed) = (refund(Vector::None, true), refund(Vector::None, false));
    assert!(believed > 0.5 * SECOND as f64, "the control: {believed} ns");
    assert!(held < 0.001 * believed, "{held} ns of {believed} ns");
}

#[test]
fn nice_divides_what_is_charged() {
    let machine = permanent("xeon-w-2104");
    let task = |vector, nice| Task { nice, ..on(0, vector, forever(vec![burn(10)])) };
    for nice in [-5, 5] {
        let tasks = vec![task(Vector::None, nice), task(Vector::Avx512, 0)];
        let outcome = simulate(&machine, tasks, fair("detect=trap"), Some(20 * SECOND));
        let done = done(&outcome);
        // Work at its own ideal clock goes by weight: 335 and 3121 of 1024, as sched_ext rounds them.
        let weight = if nice < 0 { 305.0 } else { 33.0 } / 100.0;
        let ratio = done[0] / (done[1] * 3.2 / 2.4);
        assert!((ratio / weight - 1.0).abs() < 0.03, "nice {nice}: {ratio}, not {weight}");
    }
}

#[test]
fn virtual_time_stays_comparable_where_tasks_move() {
    let machine = permanent("xeon-w-2104");
    // Half of the CPUs are slowed for ever by culprits that are pinned to them; victims go anywhere.
    let culprits = (0..2).map(|cpu| on(cpu, Vector::Avx512, forever(vec![burn(10)])));
    let victim = |at: usize| Task { process: 10 + at, ..task("v", forever(vec![burn(10)])) };
    let tasks: Vec<Task> = culprits.chain((0..5).map(victim)).collect();
    let spread = |knobs: &str| {
        let done = done(&simulate(&machine, tasks.clone(), fair(knobs), Some(20 * SECOND)));
        let victims = &done[2..7];
        let most = victims.iter().copied().fold(0.0, f64::max);
        1.0 - victims.iter().copied().fold(f64::INFINITY, f64::min) / most
    };
    let (across, balanced) = (spread("detect=trap"), spread("detect=trap,pick=balanced"));
    assert!(across < 0.02, "victims differ by {across}");
    assert!(across < balanced, "and by {balanced} where queues are evened out by length alone");
}

#[test]
fn a_cpu_may_go_while_its_license_is_held() {
    let machine = find("xeon-w-2104").unwrap();
    let hog = |at: usize| Task {
        process: at,
        vector: if at.is_multiple_of(2) { Vector::Avx512 } else { Vector::None },
        ..task("t", forever(vec![burn(3)]))
    };
    let workload =
        Workload { duration_ns: Some(2 * SECOND), ..workload((0..8).map(hog).collect()) };
    let mut scenario = Scenario::new(machine, workload, fair("detect=trap"));
    let cpu =
        |change: fn(usize) -> Change, cpu, at_ms| Fault { at_ns: at_ms * MS, change: change(cpu) };
    scenario.faults = vec![
        cpu(Change::Offline, 3, 500),
        cpu(Change::Offline, 2, 700),
        cpu(Change::Online, 3, 1200),
        cpu(Change::Online, 2, 1300),
    ];
    scenario.options.check = true;
    let done = done(&run(&scenario).unwrap());
    let most = done.iter().copied().fold(0.0, f64::max);
    assert!(done.iter().all(|work| *work > most / 3.0), "no task was forgotten: {done:?}");
}

/// Work of two tasks that share CPU 0 of a Xeon W for 10 s.
fn side_by_side(steps: [&Vec<Step>; 2], knobs: &str) -> (Vec<f64>, f64) {
    let machine = find("xeon-w-2104").unwrap();
    let tasks = steps.map(|steps| on(0, Vector::None, forever(steps.clone())));
    let run = simulate(&machine, tasks.to_vec(), fair(knobs), Some(10 * SECOND));
    (done(&run), run.extra["refunded_ns"])
}

/// Code that touches a wide register for a µs, and then runs for `then_ns` without.
fn touch(then_ns: u64) -> Vec<Step> {
    vec![
        Step::Vector(Vector::Avx512),
        Step::Run { work_ns: 1_000 },
        Step::Vector(Vector::None),
        Step::Run { work_ns: then_ns },
    ]
}

/// A task that touches a wide register once in 0.6 ms keeps its core at the lowest clock: it is a culprit, and gains
/// nothing.
#[test]
fn task_that_fakes_wide_code_gains_nothing_and_loses_nothing_to_others() {
    let (gaming, plain) = (touch(450_000), vec![Step::Run { work_ns: 451_000 }]);
    let share = |knobs: &str| {
        let (honest, _) = side_by_side([&plain, &plain], knobs);
        let (work, _) = side_by_side([&gaming, &plain], knobs);
        [work[0] / honest[0], work[1] / honest[1]]
    };
    let off = share("charge=off");
    for knobs in ["detect=trap", "detect=observed"] {
        let [own, neighbour] = share(knobs);
        assert!(own < off[0] && own < 0.9, "{knobs}: it pays for its own clock: {own} {off:?}");
        assert!(neighbour > off[1], "{knobs}: its neighbour is refunded: {neighbour} {off:?}");
        assert!((0.975..=1.0).contains(&neighbour), "{knobs}: all that it lost: {neighbour}");
    }
}

/// A task that causes drops now and then is refunded none of them, however seldom, nor for the time before its first.
#[test]
fn task_that_causes_its_own_drops_is_not_refunded() {
    let scalar_first = [vec![burn(100)], vec![Step::Vector(Vector::Avx512), burn(1900)]].concat();
    for (name, steps) in [
        ("every 0.6 ms", touch(450_000)),
        ("every 4 ms", touch(4_000_000)),
        ("every 20 ms", touch(20_000_000)),
        (
            "8 ms of 40",
            vec![Step::Vector(Vector::Avx512), burn(8), Step::Vector(Vector::None), burn(32)],
        ),
        ("from some time on", scalar_first),
    ] {
        let (work, refunded) = side_by_side([&steps, &steps], "detect=observed");
        let gained = refunded / (10 * SECOND) as f64;
        assert!(gained < 0.01, "{name}: {gained} of its time, {work:?}");
    }
    // The control: drops that another task causes are refunded.
    let (heavy, plain) = (touch(450_000), vec![Step::Run { work_ns: 451_000 }]);
    let refund = |knobs: &str| side_by_side([&heavy, &plain], knobs).1 / SECOND as f64;
    let (observed, trapped) = (refund("detect=observed"), refund("detect=trap"));
    assert!(trapped > 0.1 && observed > 0.9 * trapped, "{observed} s of {trapped} s");
}

/// A victim that never runs for a ms at a stretch, as a server's threads do.
#[test]
fn task_with_short_runs_is_refunded_too() {
    let server = vec![Step::Run { work_ns: 300_000 }, Step::Sleep { ns: 600_000 }];
    let (culprit, plain) =
        (vec![Step::Vector(Vector::Avx512), burn(4), Step::Sleep { ns: 3 * MS }], vec![burn(4)]);
    let refund = |other: &Vec<Step>, knobs: &str| side_by_side([&server, other], knobs).1;
    let (trapped, observed) =
        (refund(&culprit, "detect=trap"), refund(&culprit, "detect=observed"));
    assert!(observed > 0.8 * trapped, "{observed} of {trapped}");
    assert!(trapped > 0.01 * (10 * SECOND) as f64, "there is something to be refunded: {trapped}");
    assert_eq!(refund(&plain, "detect=observed"), 0.0);
}

/// A clock that a governor chose is below the licenses' limit: licenses took nothing.
#[test]
fn governors_own_choice_is_not_refunded() {
    let machine = permanent("xeon-w-2104");
    let vectors = [Vector::None, Vector::Avx512];
    let refund = |knobs: &str, faults: &[Fault]| pair(&machine, vectors, knobs, faults);
    let governed = Fault { at_ns: 0, change: Change::Governor(1200) };
    for knobs in ["detect=trap", "detect=observed"] {
        let ([victim, culprit], outcome) = refund(knobs, std::slice::from_ref(&governed));
        assert!(outcome.extra["refunded_ns"] < 2e6, "{knobs}: {}", outcome.extra["refunded_ns"]);
        assert!((victim - 1.0).abs() < 0.01 && (culprit - 1.0).abs() < 0.01, "{victim} {culprit}");
    }
    let free = refund("detect=trap", &[]).1;
    assert!(free.extra["refunded_ns"] > 0.1 * 10e9, "the control");
}

/// Turbo changes with each core that goes idle or busy, often within a tick. The refund is the loss to the license at
/// the turbo of each moment, as sampled by ticks of 50 µs.
#[test]
fn refunds_follow_turbo_while_cores_come_and_go() {
    let machine = permanent("xeon-gold-6130");
    let pair = [Vector::None, Vector::Avx512].map(|vector| on(0, vector, forever(vec![burn(10)])));
    let steps = |at: u64| {
        forever(vec![
            Step::Run { work_ns: (1 + at % 7) * 300_000 },
            Step::Sleep { ns: (1 + at % 5) * 300_000 },
        ])
    };
    let others = (1..16).map(|cpu| on(cpu, Vector::None, steps(cpu as u64)));
    let tasks: Vec<Task> = pair.into_iter().chain(others).collect();
    let refund = |tick_ns: f64| {
        let mut machine = machine.clone();
        // Shorter than any machine's file may say: then a refund follows at once.
        machine.costs.tick_period_ns = tick_ns;
        let outcome = simulate(&machine, tasks.clone(), fair("detect=trap"), Some(5 * SECOND));
        outcome.extra["refunded_ns"] / SECOND as f64
    };
    let (seldom, often) = (refund(4e6), refund(50e3));
    assert!(often > 0.2 && (seldom / often - 1.0).abs() < 0.02, "{seldom} s, and {often} s");
}

/// Without traps or declarations: from the licenses' behaviour while tasks run. A task that always runs beside a
/// culprit is never sure to be none, so lengths of work vary here.
#[test]
fn cause_of_a_drop_is_observed() {
    let machine = find("xeon-gold-6130").unwrap();
    // Ten tasks on the two threads of a core at the clock of a busy package; four of them have wide code.
    let steps = |ms| forever(vec![burn(ms), Step::Sleep { ns: 200_000 }]);
    let task = |at: usize| Task {
        cpus: Some(vec![0, 16]),
        process: at + 1,
        vector: if at < 4 { Vector::Avx512 } else { Vector::None },
        ..task("t", steps(40 + at as u64))
    };
    let others = (1..16).map(|cpu| on(cpu, Vector::None, forever(vec![burn(10)])));
    let tasks: Vec<Task> = (0..10).map(task).chain(others).collect();
    let work = |knobs: &str| {
        let done = done(&simulate(&machine, tasks.clone(), fair(knobs), Some(30 * SECOND)));
        let mean =
            |of: std::ops::Range<usize>| done[of.clone()].iter().sum::<f64>() / of.len() as f64;
        mean(4..10) / mean(0..4)
    };
    let (traps, observed, off) = (work("detect=trap"), work("detect=observed"), work("charge=off"));
    assert!(
        (observed / traps - 1.0).abs() < 0.02,
        "{observed} by observation, {traps} by traps, {off} uncompensated"
    );
    assert!(traps > 1.1 * off);
}
