// SPDX-License-Identifier: GPL-2.0-only
//! Yardsticks for the simulator's own speed and memory: two machines, one mix of tasks for both, and a loop of known
//! length for machines of varying speed.

use machine::Machine;
use workload::{Hw, Step, Task, Touched, Workload};

const MS: u64 = 1_000_000;

/// Four cores of two threads each, of a Xeon's.
pub fn eight_cpus() -> Machine {
    let xeon = include_str!("../../../machines/xeon-e5-2699.toml");
    let eight = xeon.replace("cores_per_llc = { value = 18", "cores_per_llc = { value = 4");
    let eight = Machine::from_toml(&eight, "xeon").expect("it is sound");
    assert_eq!(eight.cpus.len(), 8);
    eight
}

/// The whole of a Xeon Phi.
pub fn many_cpus() -> Machine {
    machine::find("xeon-phi-31s1p").expect("it comes along")
}

/// A quarter spins, a quarter runs 1 ms and sleeps 9, the rest runs 0.2 ms and sleeps 5.
pub fn mix(tasks: usize, duration_ms: u64) -> Workload {
    let forever = |steps| vec![Step::Repeat { times: None, steps }];
    let nap = |run_ns, sleep_ns| {
        forever(vec![Step::Run { work_ns: run_ns }, Step::Sleep { ns: sleep_ns }])
    };
    let one = |number: usize| Task {
        name: format!("t{number}"),
        process: number % 8,
        delay_ns: number as u64 * 10_000,
        steps: match number % 4 {
            0 => forever(vec![Step::Run { work_ns: 10 * MS }]),
            1 => nap(MS, 9 * MS),
            _ => nap(MS / 5, 5 * MS),
        },
        hw: Some(touched()),
        ..Task::default()
    };
    Workload {
        name: "mix".into(),
        tasks: (0..tasks).map(one).collect(),
        duration_ns: Some(duration_ms * MS),
        ..Workload::default()
    }
}

/// 32 KB of its own, as much of its process's, and some code.
fn touched() -> Hw {
    Hw {
        reach_ns: 50_000,
        own: Touched::dense(32 << 10),
        shared: Touched::dense(32 << 10),
        code: Touched::dense(16 << 10),
        ..Hw::default()
    }
}

/// `steps` steps of a xorshift generator: each step depends on the one before, so its time is fixed.
pub fn calibration(steps: u64) -> u64 {
    (0..steps).fold(88_172_645_463_325_252, |mut x: u64, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    })
}
