// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED: a lockless, lightweight scheduler for manycore processors.
//!
//! It is data plane only (`src/bpf/`): it computes no shares and plans no placement, so it has no
//! control plane. This file names its knobs and its variants' promises.

use policy::{
    Fit, Instance, Keeps, Kept, Knob, Policy, Promises, Site, TICK_NS_MAX, Trials, Tried, Unit,
};

policy::built!(flsched);

const MS: u64 = 1_000_000;
/// From this number of CPUs on, queues and locks of many CPUs cost more than balancing gains.
const MANY: usize = 32;

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
            variable: flsched::SLICE_NS,
            unit: Unit::Duration { min: MS, max: 1000 * MS },
            help: "how long a task runs before the next one's turn (slide 13)",
        },
        Knob {
            name: "variant",
            variable: flsched::VARIANT,
            unit: Unit::Choice(&["slide", "code"]),
            help: "slide: a slice's end is a switch, and where others wait a task takes a shorter queue; \
                   code: its end is put off and all wait on their last CPU, as in the released code",
        },
        Knob {
            name: "defer",
            variable: flsched::DEFER_NS,
            unit: Unit::Duration { min: MS, max: 100 * MS },
            help: "with variant=code, how long a slice's end is put off",
        },
        Knob {
            name: "pull",
            variable: flsched::PULL,
            unit: Unit::Switch,
            help: "an idle CPU takes tasks that wait elsewhere, at the price of a lock a switch",
        },
    ],
    build: flsched::BUILD,
    promises,
    keeps: Keeps {
        nice: Kept::partly(
            "above nice 0 a task is queued at the head, in one turn of two; below, nothing",
        ),
        ..Keeps::NOTHING
    },
    fits: Some(fits),
    tried: Tried::Everywhere,
    trials: Trials { day: &["flsched", "flsched:pull=true"], night: &["flsched:variant=code"] },
    ..Policy::BARE
};

fn fits(site: &Site) -> Fit {
    match site.cpus >= MANY {
        true => Fit::yes("fits one job with about as many threads as CPUs"),
        false => {
            Fit::open("made for tens of CPUs and more: expect little here beyond fewer switches")
        }
    }
}

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
