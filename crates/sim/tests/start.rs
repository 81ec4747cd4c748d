// SPDX-License-Identifier: GPL-2.0-only
//! A workload whose tasks are all there before any begins: what is told of it is told from there on.

mod common;

use common::{scenario, task, workload};
use policy::Instance;
use sim::{Scheduler, Traced, run_traced};
use trace::{IDLE, Kind};
use workload::Step;

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
    // Each CPU may be within one while another one opens the gate.
    assert!(calls.abs_diff(switches) <= 8, "{calls} calls, {switches} switches");
}
