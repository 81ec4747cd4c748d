// SPDX-License-Identifier: GPL-2.0-only
//! CAS: threads of one address space run after each other, on Linux 2.6's O(1) scheduler.
//!
//! It is data plane only (`src/bpf/`). This file names the knobs and the variants' promises.

use policy::{Instance, Keeps, Kept, Knob, Policy, Promises, TICK_NS_MAX, Unit};

const MS: u64 = 1_000_000;

const SLICE: Knob = Knob {
    name: "slice",
    symbol: "knob_slice_ns",
    unit: Unit::Duration { min: 10 * MS, max: 1000 * MS },
    default: 100 * MS,
    help: "time slice at nice 0; others follow from it, from 1/20 to 8 times as long",
};

const O1_KEEPS: Keeps = Keeps {
    nice: Kept::yes("priority and time slice, as in Linux 2.6.21"),
    sched_idle: Kept::yes(
        "runs where no other task wants the CPU, and else for 5 ms about every 2 s",
    ),
    sched_batch: Kept::yes("no bonus for sleep, as in Linux 2.6.21"),
    ..Keeps::NOTHING
};

const KEEPS: Keeps = Keeps {
    nice: Kept::partly(
        "priority and time slice, as in Linux 2.6.21; between programs a difference within `threshold` does nothing; \
         with `slack`, CPU time by weight from nice -9 to 9",
    ),
    sched_batch: Kept::yes(
        "no bonus for sleep, as in Linux 2.6.21; with `slack`, no preemption of others at a wakeup",
    ),
    ..O1_KEEPS
};

/// The longest wait of a SCHED_IDLE task for a turn that is due after two seconds.
const SCHED_IDLE_WAIT_NS_MAX: u64 = 10_000 * MS;

/// Both, for the registry.
pub static ALL: &[&Policy] = &[&CAS, &O1];

/// The O(1) scheduler.
pub static O1: Policy = Policy {
    name: "o1",
    summary: "Linux 2.6's O(1) scheduler: priorities with a sleep bonus, epochs of time slices",
    about: "Linux 2.6.21, kernel/sched.c: static priority from nice, a bonus of up to 5 for sleeping, \
            an active and an expired array a CPU. What CAS is built on and compared with.",
    knobs: &[SLICE],
    ops: "o1",
    bpf: include_bytes!(concat!(env!("OUT_DIR"), "/o1.bpf.o")),
    native: include_bytes!(concat!(env!("OUT_DIR"), "/o1.so")),
    promises,
    keeps: O1_KEEPS,
    control: None,
};

/// The context-aware scheduler.
pub static CAS: Policy = Policy {
    name: "cas",
    summary: "threads of one address space run after each other, within a threshold of priority",
    about: "Yamada, Kusakabe: Effect of Context Aware Scheduler on TLB. The O(1) scheduler, where the \
            best thread of the current address space goes first if its priority is within a \
            threshold of the best of all, inside an epoch.",
    knobs: &[
        SLICE,
        Knob {
            name: "threshold",
            symbol: "knob_threshold",
            unit: Unit::CountOrOff { max: 40 },
            default: 10 + 1,
            help: "how much worse the current context's best may be and still go first (slide 16)",
        },
        Knob {
            name: "slack",
            symbol: "knob_slack",
            unit: Unit::DurationOrOff { max: 1000 * MS },
            default: 0,
            help: "order by virtual time, and how far ahead the current context may be; off: O(1)",
        },
        Knob {
            name: "slots",
            symbol: "knob_slots",
            unit: Unit::Count { min: 2, max: 32 },
            default: 16,
            help: "queues a CPU; where contexts are more, some share one and are taken for the same",
        },
        Knob {
            name: "aggregate",
            symbol: "knob_aggregate",
            unit: Unit::Count { min: 0, max: 16 },
            default: 0,
            help: "CPUs that a context is kept on while few of it wait there; 0: no such home",
        },
        Knob {
            name: "smt",
            symbol: "knob_smt",
            unit: Unit::Switch,
            default: 0,
            help: "hardware threads of a core run the same context, side by side",
        },
        Knob {
            name: "tags",
            symbol: "knob_tags",
            unit: Unit::Count { min: 0, max: 8 },
            default: 0,
            help: "contexts whose TLB entries a CPU keeps by tag (Linux on x86: 6); 0: untagged",
        },
        Knob {
            name: "look",
            symbol: "knob_look",
            unit: Unit::Choice(&["peek", "iterate"]),
            default: 0,
            help: "how a queue's head is read: without a lock where the kernel can, or with it",
        },
    ],
    ops: "cas",
    bpf: include_bytes!(concat!(env!("OUT_DIR"), "/cas.bpf.o")),
    native: include_bytes!(concat!(env!("OUT_DIR"), "/cas.so")),
    promises,
    keeps: KEEPS,
    control: None,
};

/// A CPU with nothing to run takes tasks from other CPUs, and hears of waiting ones within a tick.
/// How long a task waits depends on priorities. Epochs bound it, which tests of this crate show.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(SCHED_IDLE_WAIT_NS_MAX),
        ..Promises::default()
    }
}
