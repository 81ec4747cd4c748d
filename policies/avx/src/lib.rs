// SPDX-License-Identifier: GPL-2.0-only
//! avx-fair: fair scheduling that charges no task for a frequency drop that another task caused.
//!
//! The decisions are data plane (`src/bpf/`). The control plane (`hints`) only passes on what is
//! known of programs. This file names the knobs and the variants' promises.

mod hints;

use policy::{
    Fit, Instance, Keeps, Kept, Knob, Plan, Policy, Promises, Site, TICK_NS_MAX, Told, Trials,
    Tried, Unit,
};

pub use hints::levels;

policy::built!(avx);

const MS: u64 = 1_000_000;

/// Its policies, for the registry.
pub static ALL: &[&Policy] = &[&AVX_FAIR];

/// The policy.
pub static AVX_FAIR: Policy = Policy {
    name: "avx-fair",
    summary: "a fair scheduler that charges no task for a frequency drop that another task's vector code caused",
    about: "Gottschlag, Machauer, Khalil, Bellosa: Fair Scheduling for AVX2 and AVX-512 Workloads. \
            Virtual time, in which a task's run counts as long as it would have taken at the clock of its \
            own license level; the least of all queues goes first.",
    knobs: &[
        Knob {
            name: "slice",
            variable: avx::SLICE_NS,
            unit: Unit::Duration { min: MS, max: 100 * MS },
            help: "a turn, where tasks wait; and how far queues may drift apart",
        },
        Knob {
            name: "charge",
            variable: avx::CHARGE,
            unit: Unit::Choice(&["victim", "off", "both", "energy"]),
            help: "victim: others' drops are not charged; off: they are, the control arm; both: running above \
                   one's own ideal clock costs more, too; energy: by what a task drew",
        },
        Knob {
            name: "detect",
            variable: avx::DETECT,
            unit: Unit::Choice(&["observed", "trap", "told", "saved"]),
            help: "the task that caused a drop: as observed, else none is refunded; by traps, which only sim has; \
                   as told alone; or by registers in use when tasks stop",
        },
        Knob {
            name: "source",
            variable: avx::SOURCE,
            unit: Unit::Choice(&["events", "model"]),
            help: "where cycles at each license level come from: the CPU's counters, or a model that goes by what \
                   tasks are said to need, held to the CPU's count of cycles where it has one",
        },
        Knob {
            name: "pick",
            variable: avx::PICK,
            unit: Unit::Choice(&["across", "balanced"]),
            help: "across: the least virtual time of all queues; balanced: the own queue's, and queues are \
                   evened out by how many wait",
        },
    ],
    build: avx::BUILD,
    promises,
    keeps: Keeps {
        sched_batch: Kept::yes("preempts no other task when it wakes"),
        ..Keeps::BY_VIRTUAL_TIME
    },
    control: Some(Plan { begin: hints::plan, told: |_| Told::Levels }),
    fits: Some(fits),
    tried: Tried::Lacks { effect: "vector units", on: "instructions" },
    totals: &["refunded_ns", "surcharged_ns", "saved_looks", "saved_wide"],
    trials: Trials { day: &["avx-fair"], ..Trials::NONE },
    ..Policy::BARE
};

fn fits(site: &Site) -> Fit {
    match site.counts_licenses {
        true => Fit::yes("fits programs beside others that use wide vectors"),
        false => Fit::open(
            "no license events: this processor has no licenses, or `source=model` guesses",
        ),
    }
}

/// A CPU may miss a task that waits elsewhere for at most a tick. The order of tasks depends on
/// virtual time, so no bound on waits is declared.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(10_000 * MS),
        heeds_cgroup_limits: true,
        ..Promises::default()
    }
}
