// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED: a lockless, lightweight scheduler for manycore processors.
//!
//! It is data plane only (`src/bpf/`): it computes no shares and plans no placement, so it has no
//! control plane. This file names its knobs and its variants' promises.

use policy::{Instance, Keeps, Kept, Knob, Policy, Promises, TICK_NS_MAX, Unit};

const MS: u64 = 1_000_000;

/// Its policies, for the registry.
pub static ALL: &[&Policy] = &[&FLSCHED];

/// The policy.
pub static FLSCHED: Policy = Policy {
    name: "flsched",
    summary: "no scheduler locks, few switches, no preemption by priority: for many cores, one job",
    about: "Jo, Kang, Min, Kim: FLSCHED, A Lockless and Lightweight Approach to OS Scheduler for \
            Xeon Phi. A queue for each CPU and none shared; a task runs until it blocks or its \
            slice ends; a wakeup takes an idle CPU near, or waits.",
    knobs: &[
        Knob {
            name: "slice",
            symbol: "knob_slice_ns",
            unit: Unit::Duration { min: MS, max: 1000 * MS },
            default: 10 * MS,
            help: "how long a task runs before the next one's turn (slide 13)",
        },
        Knob {
            name: "variant",
            symbol: "knob_variant",
            unit: Unit::Choice(&["slide", "code"]),
            default: 0,
            help: "slide: a slice's end is a switch, and where others wait a task takes a shorter queue; \
                   code: its end is put off and all wait on their last CPU, as in the released code",
        },
        Knob {
            name: "defer",
            symbol: "knob_defer_ns",
            unit: Unit::Duration { min: MS, max: 100 * MS },
            default: 100 * MS,
            help: "with variant=code, how long a slice's end is put off",
        },
        Knob {
            name: "pull",
            symbol: "knob_pull",
            unit: Unit::Switch,
            default: 0,
            help: "an idle CPU takes tasks that wait elsewhere, at the price of a lock a switch",
        },
    ],
    ops: "flsched",
    bpf: include_bytes!(concat!(env!("OUT_DIR"), "/flsched.bpf.o")),
    native: include_bytes!(concat!(env!("OUT_DIR"), "/flsched.so")),
    promises,
    keeps: Keeps {
        nice: Kept::partly(
            "above nice 0 a task is queued at the head, in one turn of two; below, nothing",
        ),
        ..Keeps::NOTHING
    },
    control: None,
};

/// FLSCHED may stack tasks on one CPU while another idles, and promises nothing there: the running
/// task that a tick offers may be pinned while the waiting ones are not. With `pull` a CPU misses a
/// waiting task for at most a tick. Slices end at ticks, so a deferred turn is longer by one more
/// tick.
fn promises(instance: &Instance) -> Promises {
    let pull = instance.get("pull") != 0;
    let deferred = instance.get("variant") != 0;
    let defer_ns = if deferred { instance.get("defer") + TICK_NS_MAX } else { 0 };
    Promises {
        idle_while_runnable_ns_max: pull.then_some(TICK_NS_MAX),
        slice_ns_max: Some(instance.get("slice") + defer_ns),
        lockless: !pull,
        never_preempts: true,
        ..Promises::default()
    }
}
