// SPDX-License-Identifier: GPL-2.0-only
//! CAS: threads of one address space run after each other, on Linux 2.6's O(1) scheduler.
//!
//! It is data plane only (`src/bpf/`). This file names the knobs and the variants' promises.

use policy::{
    Fit, Instance, Keeps, Kept, Knob, Policy, Promises, Site, TICK_NS_MAX, Trials, Tried, Unit,
};

policy::built!(cas);
policy::built!(o1);

const MS: u64 = 1_000_000;

const SLICE: Knob = Knob {
    name: "slice",
    variable: cas::SLICE_NS,
    unit: Unit::Duration { min: 10 * MS, max: 1000 * MS },
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
    knobs: &[Knob { variable: o1::SLICE_NS, ..SLICE }],
    build: o1::BUILD,
    promises,
    keeps: O1_KEEPS,
    tried: Tried::Everywhere,
    trials: Trials { night: &["o1"], ..Trials::NONE },
    ..Policy::BARE
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
            variable: cas::THRESHOLD,
            unit: Unit::CountOrOff { max: 40 },
            help: "how much worse the current context's best may be and still go first (slide 16)",
        },
        Knob {
            name: "slack",
            variable: cas::SLACK,
            unit: Unit::DurationOrOff { max: 1000 * MS },
            help: "order by virtual time, and how far ahead the current context may be; off: O(1)",
        },
        Knob {
            name: "slots",
            variable: cas::SLOTS,
            unit: Unit::Count { min: 2, max: 32 },
            help: "queues a CPU; where contexts are more, some share one and are taken for the same",
        },
        Knob {
            name: "aggregate",
            variable: cas::AGGREGATE,
            unit: Unit::Count { min: 0, max: 16 },
            help: "CPUs that a context is kept on while few of it wait there; 0: no such home",
        },
        Knob {
            name: "smt",
            variable: cas::SMT,
            unit: Unit::Switch,
            help: "hardware threads of a core run the same context, side by side",
        },
        Knob {
            name: "tags",
            variable: cas::TAGS,
            unit: Unit::Count { min: 0, max: 8 },
            help: "contexts whose TLB entries a CPU keeps by tag (Linux on x86: 6); 0: untagged",
        },
        Knob {
            name: "look",
            variable: cas::LOOK,
            unit: Unit::Choice(&["peek", "iterate"]),
            help: "how a queue's head is read: without a lock where the kernel can, or with it",
        },
    ],
    build: cas::BUILD,
    promises,
    keeps: KEEPS,
    fits: Some(fits),
    tried: Tried::Everywhere,
    trials: Trials { day: &["cas", "cas:slack=3ms,aggregate=2"], ..Trials::NONE },
    ..Policy::BARE
};

/// Number of address spaces with TLB entries that Linux keeps on a CPU of x86 (TLB_NR_DYN_ASIDS).
const TAGS: usize = 6;

fn fits(site: &Site) -> Fit {
    match site.tlb_tags {
        Some(false) => Fit::yes("fits: this TLB has no tags, every change of program empties it"),
        Some(true) => Fit::open(format!(
            "this TLB has tags: fits more than {TAGS} programs of many threads, each CPU"
        )),
        None => {
            Fit::open("fits many threads of few programs; whether this TLB has tags is not known")
        }
    }
}

/// A CPU with nothing to run takes tasks from other CPUs, and hears of waiting ones within a tick.
/// How long a task waits depends on priorities. Epochs bound it, which tests of this crate show.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(SCHED_IDLE_WAIT_NS_MAX),
        ..Promises::default()
    }
}
