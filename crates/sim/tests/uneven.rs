// SPDX-License-Identifier: GPL-2.0-only
//! Cores of several kinds: how fast a task gets on depends on both.

mod common;

use common::{burn, task, workload};
use machine::{find, stalled_for};
use policy::Instance;
use sim::{Scenario, Scheduler, run};
use workload::Task;

const MS: u64 = 1_000_000;

/// How long one task of this speedup takes on each kind of core of the talk's machine, in ns.
fn alone(speedup: f64, cpu: usize) -> f64 {
    let machine = find("phenom-2f4s").unwrap();
    let stalled = stalled_for(speedup, machine.core_rates[1]).unwrap();
    let burner = task("burn", vec![burn(400)]);
    let one = Task { cpus: Some(vec![cpu]), stalled, ..burner };
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    let mut scenario = Scenario::new(machine, workload(vec![one]), fifo);
    scenario.options.jitter = 0.0;
    run(&scenario).unwrap().elapsed_ns as f64
}

#[test]
fn a_task_gains_from_a_fast_core_what_it_is_to_gain() {
    for speedup in [1.0, 1.7, 2.6, 3.5] {
        let (fast, slow) = (alone(speedup, 0), alone(speedup, 5));
        assert!((slow / fast / speedup - 1.0).abs() < 0.002, "{speedup}: {slow} / {fast}");
        assert!(fast < 1.002 * (400 * MS) as f64, "the reference is the fast core: {fast}");
    }
}
