// SPDX-License-Identifier: GPL-2.0-only
//! All tasks of a workload exist before any begins: observation starts at that point.

use policy::Instance;
use sim::{Change, Fault, Scheduler, Traced, run, run_traced};
use trace::{IDLE, Kind};
use workload::{Hw, Step, Task, Touched};

use crate::common::{MS, burn, scenario, task, workload};

fn started(steps: &[Step]) -> Traced {
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let tasks = (0..200).map(|n| task(&format!("t{n}"), steps.to_vec()));
    let machine = machine::find("icount-2x4").unwrap();
    let mut scenario = scenario(machine, workload(tasks.collect()), fifo);
    scenario.options.together = true;
    run_traced(&scenario).unwrap()
}

#[test]
fn functions_are_counted_from_the_start_on() {
    let traced = started(&[Step::Run { work_ns: 10_000 }]);
    let runs = |kind: &Kind| matches!(kind, Kind::Switch { next, .. } if *next != IDLE);
    let switches = traced.events.iter().filter(|event| runs(&event.kind)).count() as u64;
    let calls = traced.outcome.functions["set_next_task_scx"].count;
    // Each CPU may be within a call while another one opens the gate.
    assert!(calls.abs_diff(switches) <= 8, "{calls} calls, {switches} switches");
}

#[test]
fn what_is_kept_of_a_run_begins_with_its_start() {
    let traced = started(&[Step::Repeat { times: Some(30), steps: vec![burn(1)] }]);
    let elapsed_ns = traced.outcome.elapsed_ns;
    assert!(elapsed_ns > 700 * MS, "200 of 30 ms on 8 CPUs: {elapsed_ns} ns");
    let first = traced.events.iter().find(|event| matches!(event.kind, Kind::Switch { .. }));
    assert!(first.unwrap().t_ns < MS, "{first:?}");
    assert!(traced.events.iter().all(|event| event.t_ns <= elapsed_ns));
    let calls = &traced.callbacks;
    assert!(calls.iter().all(|call| call.t_ns <= elapsed_ns) && calls[0].t_ns < MS);
    let had = trace::intervals(&traced.events, elapsed_ns);
    let had_ns: u64 = had.iter().map(|part| part.to_ns - part.from_ns).sum();
    let seen_ns: u64 = traced.outcome.observed.tasks.values().map(|task| task.cpu_ns).sum();
    assert!(had_ns.abs_diff(seen_ns) < MS, "{had_ns} ns of CPUs are tasks', {seen_ns} ns are told");
}

#[test]
fn changes_from_outside_come_at_their_time_after_the_start() {
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let tasks = (0..200).map(|n| task(&format!("t{n}"), vec![burn(10)]));
    let mut scenario =
        scenario(machine::find("icount-2x4").unwrap(), workload(tasks.collect()), fifo);
    scenario.options.together = true;
    scenario.faults =
        vec![Fault { at_ns: 20 * MS, change: Change::Affinity(199, [0].into_iter().collect()) }];
    let traced = run_traced(&scenario).unwrap();
    let changed = traced.events.iter().find(|event| matches!(event.kind, Kind::Affinity { .. }));
    let at_ns = changed.unwrap().t_ns;
    assert!((20 * MS..40 * MS).contains(&at_ns), "{at_ns}");
}

/// Each task misses its kernel pages once when it first gets a CPU; the threads' launch had them all there before.
#[test]
fn misses_of_the_launch_are_not_the_workloads() {
    const PAGES: u32 = 100;
    let touched =
        Hw { reach_ns: 50_000, kernel: Touched { pages: PAGES, bytes: 4096 }, ..Hw::default() };
    let tasks = (0..200).map(|n| Task {
        hw: Some(touched.clone()),
        ..task(&format!("t{n}"), vec![Step::Run { work_ns: 10_000 }])
    });
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let machine = machine::find("xeon-e5-2699").unwrap();
    let mut scenario = scenario(machine, workload(tasks.collect()), fifo);
    scenario.options.together = true;
    let outcome = run(&scenario).unwrap();
    for (tid, missed) in outcome.memory.unwrap().tasks {
        let turns = outcome.observed.tasks[&tid].waits;
        let most = turns * u64::from(PAGES);
        assert!(missed.dtlb_kernel <= most, "{tid}: {missed:?} in {turns} turns");
    }
}
