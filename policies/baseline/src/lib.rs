// SPDX-License-Identifier: GPL-2.0-only
//! Baselines: what the published policies are measured against.

use policy::{Keeps, Kept, Knob, Policy, Promises, Trials, Unit, Variable};

policy::built!(fifo);
policy::built!(rr);
policy::built!(pile);
policy::built!(starve);
policy::built!(probe);

const MS: u64 = 1_000_000;

/// How long a task continues if no task waits when its slice ends: the kernel's slice
/// (SCX_SLICE_DFL), as these policies do not dispatch. A task that wakes meanwhile waits for its
/// end.
const KERNEL_SLICE_NS: u64 = 20 * MS;

const fn slice(variable: Variable) -> Knob {
    Knob {
        name: "slice",
        variable,
        unit: Unit::Duration { min: MS, max: 1000 * MS },
        help: "how long a task runs before the next one's turn",
    }
}

/// The locks of Linux's round-robin class that FLSCHED removed, in the order of `enum rt_lock`,
/// between `none` and `all`.
pub const RR_LOCKS: [&str; 15] = [
    "update-curr",
    "start-bandwidth",
    "do-balance-bandwidth",
    "do-balance-other",
    "balance-retake",
    "period-rq",
    "period-runtime",
    "disable-bandwidth",
    "disable-own",
    "disable-other",
    "disable-own-again",
    "disable-rq",
    "enable-bandwidth",
    "enable-own",
    "enable-rq",
];

const RR_WITHOUT: [&str; 17] = {
    let mut words = ["none"; 17];
    let mut i = 0;
    while i < RR_LOCKS.len() {
        words[i + 1] = RR_LOCKS[i];
        i += 1;
    }
    words[16] = "all";
    words
};

/// Those that a user may choose: `PROBE` is for a test of the guest, for the registry.
pub static ALL: &[&Policy] = &[&RR, &FIFO, &PILE, &STARVE];

/// One queue for each node, first come, first served.
pub static FIFO: Policy = Policy {
    name: "fifo",
    summary: "one queue a node, first come, first served: the least sched_ext can do",
    about: "A bare FIFO for comparison, as small as a sched_ext policy can be.",
    knobs: &[slice(fifo::SLICE_NS)],
    build: fifo::BUILD,
    promises: |_| Promises {
        // Not how long a CPU idles: the kernel keeps a global queue for each node, and a CPU looks
        // only at its own node's. Nor how long a turn is: for a sync wakeup the kernel chooses the
        // waker's own queue, before the shared one. Two tasks that wake each other keep the rest
        // waiting (WAKE_SYNC in scx_select_cpu_dfl).
        never_preempts: true,
        ..Promises::default()
    },
    trials: Trials { night: &["fifo"], ..Trials::NONE },
    ..Policy::BARE
};

/// Round robin with the 15 locks that FLSCHED counts.
pub static RR: Policy = Policy {
    name: "rr",
    summary: "round robin with the 15 locks that FLSCHED took out, each removable",
    about: "Linux's SCHED_RR class as FLSCHED found it (Linux 2.6.38, kernel/sched_rt.c): the same \
            queues and placement, with the locks for statistics, balancing and bandwidth control.",
    knobs: &[
        slice(rr::SLICE_NS),
        Knob {
            name: "without",
            variable: rr::WITHOUT,
            unit: Unit::Choice(&RR_WITHOUT),
            help: "which of the locks is left out",
        },
    ],
    build: rr::BUILD,
    promises: |instance| Promises {
        slice_ns_max: Some(instance.get("slice").max(KERNEL_SLICE_NS)),
        never_preempts: true,
        ..Promises::default()
    },
    trials: Trials { night: &["rr"], ..Trials::NONE },
    ..Policy::BARE
};

/// Every task on CPU 0: a cheat that gates must catch.
pub static PILE: Policy = Policy {
    name: "pile",
    summary: "every task on CPU 0: a cheat, to show that a yardstick catches it",
    about: "Not a scheduler to use. Measured by work alone it wins; a gate that it passes is bad.",
    knobs: &[slice(pile::SLICE_NS)],
    build: pile::BUILD,
    promises: |instance| Promises {
        slice_ns_max: Some(instance.get("slice").max(KERNEL_SLICE_NS)),
        lockless: true,
        never_preempts: true,
        ..Promises::default()
    },
    cheats: true,
    ..Policy::BARE
};

/// A task of nice 19 never runs: shows that the kernel unloads such a policy.
pub static STARVE: Policy = Policy {
    name: "starve",
    summary: "no task of nice 19 ever runs: to show that the kernel ejects such a policy",
    about: "Not a scheduler to use. The kernel's watchdog, here after 2 s, puts its own class back.",
    knobs: &[slice(starve::SLICE_NS)],
    build: starve::BUILD,
    promises: |_| Promises { never_preempts: true, ..Promises::default() },
    keeps: Keeps { nice: Kept::no("a task of nice 19 never runs"), ..Keeps::NOTHING },
    cheats: true,
    ..Policy::BARE
};

/// Every callback recorded: shows the order in which a ground calls a policy.
pub static PROBE: Policy = Policy {
    name: "probe",
    summary: "one queue, and every callback written down: to hold the simulator to the kernel",
    about: "Not a scheduler to use. Its callbacks, read after a run in the guest, are compared \
            with those of the same workload in the simulator.",
    build: probe::BUILD,
    promises: |_| Promises {
        slice_ns_max: Some(20 * MS),
        never_preempts: true,
        ..Promises::default()
    },
    ..Policy::BARE
};
