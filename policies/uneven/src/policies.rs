// SPDX-License-Identifier: GPL-2.0-only
//! The policies: one data plane, and what each does with it.

use policy::{Instance, Knob, Policy, Promises, Unit};

const MS: u64 = 1_000_000;

/// A tick at the kernel's slowest, HZ=100.
const TICK_NS_MAX: u64 = 10 * MS;

const SLICE: Knob = Knob {
    name: "slice",
    symbol: "knob_slice_ns",
    unit: Unit::Duration { min: MS, max: 100 * MS },
    default: 5 * MS,
    help: "how long a task runs before the next one's turn, where tasks wait",
};

const ROUND: Knob = Knob {
    name: "round",
    symbol: "knob_round_ns",
    unit: Unit::Duration { min: 4 * MS, max: 1000 * MS },
    default: 30 * MS,
    help: "shares are kept within about half of this (slide 11): shorter is closer, and moves tasks more often",
};

/// Everybody gets the same part of each kind of core.
pub static MAX_FAIR: Policy = Policy {
    name: "max-fair",
    summary: "uneven cores: every task gets an equal share of each kind of core",
    about: "Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems (slides 4, 28).",
    knobs: &[SLICE, ROUND],
    ops: "uneven",
    bpf: include_bytes!(concat!(env!("OUT_DIR"), "/uneven.bpf.o")),
    native: include_bytes!(concat!(env!("OUT_DIR"), "/uneven.so")),
    promises,
    control: None,
};

/// What waits is taken by a CPU with nothing to do, and at a tick at the latest.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        slice_ns_max: None,
        lockless: false,
        never_preempts: false,
    }
}
