// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext behaves as in the kernel: order of callbacks, queues, preemption, the watchdog.

use policy::{Instance, Knob, Policy, Unit, Variable};
use sim::{CallbackRecord, Scenario, Scheduler, SimError, run, run_traced};
use trace::Kind;
use workload::{Object, Step, Task};

use crate::common::{MS, burn, cores, policy, scenario, task, workload};

fn fifo() -> Scheduler {
    Scheduler::Policy(Instance::default(&baseline::FIFO))
}

/// Names of the callbacks about one thread, in order.
fn about(callbacks: &[CallbackRecord], tid: u32) -> Vec<&'static str> {
    callbacks.iter().filter(|call| call.tid == Some(tid)).map(|call| call.op).collect()
}

/// Otherwise the knob would do nothing, and no message would say so.
#[test]
fn an_object_without_a_knobs_variable_is_not_loaded() {
    static LOST: Policy = Policy {
        name: "lost",
        knobs: &[Knob {
            name: "slice",
            variable: Variable { symbol: Some("knob_lost_ns"), default: 1, tunable: false },
            unit: Unit::Count { min: 1, max: 2 },
            help: "",
        }],
        build: baseline::FIFO.build,
        ..Policy::BARE
    };
    let load = workload(vec![task("one", vec![burn(1)])]);
    let lost = Scheduler::Policy(Instance::default(&LOST));
    let error = run(&scenario(cores(1), load, lost)).unwrap_err().to_string();
    assert!(error.contains("policy lost has no knob_lost_ns"), "{error}");
}

#[test]
fn callbacks_come_in_the_kernels_order() {
    let steps = vec![burn(1), Step::Sleep { ns: MS }, burn(1)];
    let load = workload(vec![task("one", steps)]);
    let traced = run_traced(&scenario(cores(2), load, policy("all"))).unwrap();
    let calls: Vec<_> = about(&traced.callbacks, 1)
        .into_iter()
        .filter(|op| !matches!(*op, "tick" | "dispatch"))
        .collect();
    let expected = [
        // forked
        "init_task",
        "enable",
        "set_weight",
        "select_cpu",
        "runnable",
        "enqueue",
        "dequeue",
        "running",
        // sleeps
        "stopping",
        "quiescent",
        // woken
        "select_cpu",
        "runnable",
        "enqueue",
        "dequeue",
        "running",
        // ends
        "stopping",
        "quiescent",
        "exit_task",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn dispatch_comes_before_prev_stops() {
    let load = workload(vec![task("one", vec![burn(40)]), task("two", vec![burn(40)])]);
    let traced = run_traced(&scenario(cores(1), load, policy("all"))).unwrap();
    let calls: Vec<_> = traced.callbacks.iter().map(|call| (call.op, call.tid)).collect();
    // A slice ends: the tick sees it; dispatch still has prev; then prev stops and is enqueued.
    let turn = [
        ("tick", Some(1)),
        ("dispatch", Some(1)),
        ("dequeue", Some(2)),
        ("stopping", Some(1)),
        ("enqueue", Some(1)),
        ("running", Some(2)),
    ];
    assert!(calls.windows(turn.len()).any(|window| window == turn), "{calls:?}");
}

#[test]
fn lone_task_keeps_its_cpu() {
    let load = workload(vec![task("alone", vec![burn(100)])]);
    let outcome = run(&scenario(cores(1), load, policy("all"))).unwrap();
    assert_eq!(outcome.observed.tasks[&1].involuntary, 0, "slices are refilled without a switch");
}

#[test]
fn a_slice_ends_at_the_tick_after_it() {
    let load = workload(vec![task("one", vec![burn(60)]), task("two", vec![burn(60)])]);
    let traced = run_traced(&scenario(cores(1), load, policy("all"))).unwrap();
    let switches: Vec<u64> = traced
        .events
        .iter()
        .filter(|event| matches!(event.kind, Kind::Switch { prev_runnable: true, .. }))
        .map(|event| event.t_ns)
        .collect();
    // Slices of 5 ms at ticks of 4 ms: each turn is 8 ms, with a little of the kernel's time.
    assert!(switches.len() > 5);
    for pair in switches.windows(2) {
        let turn_ns = pair[1] - pair[0];
        assert!((8 * MS).abs_diff(turn_ns) < 50_000, "{turn_ns}");
    }
}

#[test]
fn watchdog_names_the_starving_task() {
    let mut one = task("hungry", vec![burn(1)]);
    one.cpus = Some(vec![0]);
    let error = run(&scenario(cores(1), workload(vec![one]), policy("starve"))).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SimError::Failed(_)), "{text}");
    assert!(text.contains("hungry[1] failed to run for") && text.contains("starve"), "{text}");
}

#[test]
fn preemption_takes_the_cpu_at_once() {
    let sleeper = task("sleeper", vec![Step::Sleep { ns: 10 * MS }, burn(1)]);
    let load = workload(vec![sleeper, task("hog", vec![burn(50)])]);
    let outcome = run(&scenario(cores(1), load, policy("urgent"))).unwrap();
    let hog = &outcome.observed.tasks[&2];
    assert_eq!(hog.involuntary, 1);
    assert!(outcome.observed.tasks[&1].wait_max_ns < MS);
}

#[test]
fn a_local_queue_of_another_cpu_can_be_named() {
    let tasks =
        (0..4).map(|n| task(&format!("t{n}"), vec![burn(5), Step::Sleep { ns: MS }, burn(5)]));
    let load = workload(tasks.collect());
    let traced = run_traced(&scenario(cores(4), load, policy("urgent"))).unwrap();
    let elsewhere = traced.events.iter().any(|event| {
        event.cpu != 0 && matches!(event.kind, Kind::Switch { next, .. } if next != trace::IDLE)
    });
    assert!(!elsewhere, "everything was sent to CPU 0");
}

/// A task that may no longer run on its CPU is queued on a CPU of its new mask, by code of the CPU that it leaves. The
/// policy names a third CPU, which idles.
#[test]
fn task_sent_to_a_third_cpu_does_not_wait_for_a_tick_of_the_second() {
    let turns = vec![
        Step::Cpus(Some(vec![0])),
        Step::Run { work_ns: 1_300_000 },
        Step::Cpus(Some(vec![1, 2])),
        Step::Run { work_ns: 1_300_000 },
    ];
    let mover = task("mover", vec![Step::Repeat { times: Some(50), steps: turns }]);
    let hog = Task { cpus: Some(vec![1]), ..task("hog", vec![burn(1000)]) };
    let outcome = run(&scenario(cores(3), workload(vec![mover, hog]), policy("last"))).unwrap();
    let waited_ns = outcome.observed.tasks[&1].wait_max_ns;
    assert!(waited_ns < MS, "{waited_ns} ns");
}

#[test]
fn vtime_shares_by_weight() {
    let tasks = (0..8).map(|n| {
        let mut one = task(&format!("t{n}"), vec![burn(4000)]);
        one.nice = if n < 4 { 0 } else { 5 };
        one
    });
    let mut load = workload(tasks.collect());
    load.duration_ns = Some(4000 * MS);
    let outcome = run(&scenario(cores(1), load, policy("fair"))).unwrap();
    let cpu_ns = |range: std::ops::RangeInclusive<u32>| -> u64 {
        range.map(|tid| outcome.observed.tasks[&tid].cpu_ns).sum()
    };
    let ratio = cpu_ns(1..=4) as f64 / cpu_ns(5..=8) as f64;
    // Weights 1024 and 335; a stopping task is not in the queue when the next one is chosen.
    assert!((2.5..3.2).contains(&ratio), "{ratio}");
}

#[test]
fn two_tasks_alternate_whatever_their_vtime() {
    let mut nice = task("nice", vec![burn(1000)]);
    nice.nice = 10;
    let mut load = workload(vec![task("plain", vec![burn(1000)]), nice]);
    load.duration_ns = Some(800 * MS);
    let outcome = run(&scenario(cores(1), load, policy("fair"))).unwrap();
    let cpu_ns = |tid| outcome.observed.tasks[&tid].cpu_ns;
    // dispatch comes before prev is enqueued, so it finds the other one alone.
    assert!(cpu_ns(1).abs_diff(cpu_ns(2)) < 10 * MS);
}

#[test]
fn an_unknown_queue_ends_the_run_with_the_kernels_reason() {
    let mut one = task("one", vec![burn(1)]);
    one.cpus = Some(vec![0]);
    let error = run(&scenario(cores(1), workload(vec![one]), policy("wrong"))).unwrap_err();
    assert_eq!(error.to_string(), "policy wrong: non-existent DSQ 0x3039");
}

/// The kernel unloads it whichever way it asks.
#[test]
fn policy_with_update_idle_gets_no_idle_cpus_from_the_kernel() {
    for cpus in [None, Some(vec![0])] {
        let one = Task { cpus, ..task("one", vec![burn(1)]) };
        let error = run(&scenario(cores(2), workload(vec![one]), policy("alone"))).unwrap_err();
        assert_eq!(error.to_string(), "policy alone: built-in idle tracking is disabled");
    }
}

#[test]
fn a_barrier_lets_all_go_on_together() {
    let steps = |ms| vec![burn(ms), Step::Barrier(0), burn(1)];
    let mut load = workload(vec![task("a", steps(1)), task("b", steps(5)), task("c", steps(9))]);
    load.objects.push(Object::Barrier { parties: 3, spin_ns: 2 * MS });
    let outcome = run(&scenario(cores(4), load, fifo())).unwrap();
    let cpu_ms = |tid| outcome.observed.tasks[&tid].cpu_ns / MS;
    // Each spins for 2 ms and then blocks; the last does not wait.
    assert_eq!((cpu_ms(1), cpu_ms(2), cpu_ms(3)), (4, 8, 10));
    assert!(outcome.elapsed_ns > 10 * MS && outcome.elapsed_ns < 11 * MS);
}

/// The runqueue's lock is held from an enqueue until the wakeup's event, so another CPU can take the task only after
/// it. The checkers see it if not.
#[test]
fn a_task_is_taken_by_another_cpu_only_after_it_was_woken() {
    const US: u64 = 1_000;
    let naps = |n: u64| {
        let steps = vec![Step::Run { work_ns: (20 + n) * US }, Step::Sleep { ns: 10 * US }];
        vec![Step::Repeat { times: Some(200), steps }]
    };
    let load = workload((0..18).map(|n| task(&format!("t{n}"), naps(n))).collect());
    let mut machine = machine::find("numa-2x4").unwrap();
    machine.cpus.truncate(6);
    for seed in 0..10 {
        let scenario = Scenario::new(machine.clone(), load.clone(), fifo()).seed(seed);
        run(&scenario).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
