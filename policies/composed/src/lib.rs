// SPDX-License-Identifier: GPL-2.0-only
//! One scheduler in place of five: the mechanisms of the papers, each where the machine has what it is for.
//!
//! The data plane (`src/bpf/`) composes them. The control plane ([`Composed`]) has DINO's plan of memory domains and
//! min-fair's plan of shares side by side. [`mechanisms()`] says which of them work on a machine, and why.

mod control;
mod mechanisms;
mod trial;
mod weights;

use policy::{
    Fit, Keeps, Kept, Knob, Plan, Policy, Promises, Site, TICK_NS_MAX, Told, Trials, Tried, Unit,
    Variable,
};

pub use control::Composed;
pub use mechanisms::{Has, KNOBS, Mechanism, Wanted, mechanisms};

policy::built!(paceline);

const MS: u64 = 1_000_000;
/// Decimal knobs are in millionths.
const ONE: u64 = 1_000_000;

/// Its policies.
pub static ALL: &[&Policy] = &[&PACELINE];

/// The mechanisms of five papers in one scheduler.
pub static PACELINE: Policy = Policy {
    name: "paceline",
    summary: "one scheduler by virtual time with the mechanisms of five papers, each where the machine has what it is for",
    about: "The mechanisms of DINO, min-fair, CAS and AVX fairness, composed, with FLSCHED's way to do without shared \
            queues; the papers are named at those policies.",
    knobs: &[
        Knob {
            name: "slice",
            variable: paceline::SLICE_NS,
            unit: Unit::Slice { min: MS / 2, max: 100 * MS },
            help: "how long a task runs before the next one's turn, where tasks wait: auto is 3 ms, and less on fewer than \
                   8 CPUs",
        },
        Knob {
            name: "round",
            variable: paceline::ROUND_NS,
            unit: Unit::Duration { min: 4 * MS, max: 1000 * MS },
            help: "shares of kinds of cores are kept within about half of this",
        },
        Knob {
            name: "place",
            variable: paceline::PLACE,
            unit: Unit::Choice(Wanted::NAMES),
            help: "memory domains: auto where there are several, on, or off",
        },
        Knob {
            name: "share",
            variable: paceline::SHARE,
            unit: Unit::Choice(Wanted::NAMES),
            help: "kinds of cores: auto where there are several, on, or off",
        },
        Knob {
            name: "charge",
            variable: paceline::CHARGE,
            unit: Unit::Choice(Wanted::NAMES),
            help: "no charge for what others take from a task's clock: auto where clocks are known, on, or off",
        },
        Knob {
            name: "order",
            variable: paceline::ORDER,
            unit: Unit::Choice(Wanted::NAMES),
            help: "tasks of one address space in a row: auto where a change of it costs much, on, or off",
        },
        Knob {
            name: "light",
            variable: paceline::LIGHT,
            unit: Unit::Switch,
            help: "a woken task uses no queue where turns are short and no other task waits",
        },
        Knob {
            name: "cgroups",
            variable: Variable::of_control_plane(0),
            unit: Unit::Choice(&["heed", "ignore"]),
            help: "whether cpu.weight and cpu.max of cgroups hold",
        },
        Knob {
            name: "trial",
            variable: Variable::of_control_plane(30_000 * MS),
            unit: Unit::Duration { min: 0, max: 3_600_000 * MS },
            help: "how long a mechanism works before it is tried without, to see whether it pays; 0s: never",
        },
        Knob {
            name: "target",
            variable: Variable::of_control_plane(850_000),
            unit: Unit::Decimal { min: 0, max: ONE },
            help: "the part of its fair performance that each task gets at least, on uneven cores",
        },
    ],
    build: paceline::BUILD,
    promises: |instance| Promises {
        heeds_cgroup_weights: weights::are_heeded(instance),
        heeds_cgroup_limits: weights::are_heeded(instance),
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(10_000 * MS),
        ..Promises::default()
    },
    keeps: Keeps {
        cpu_weight: Kept::yes("each level divides its CPU time by weight, within a second"),
        ..Keeps::BY_VIRTUAL_TIME
    },
    control: Some(Plan { begin: control::begin, told }),
    fits: Some(fits),
    tried: Tried::Never,
    totals: &["refunded_ns", "surcharged_ns"],
    trials: Trials { day: &["paceline"], ..Trials::NONE },
    ..Policy::BARE
};

/// No processor has both kinds of cores and license levels.
fn told(kinds: usize) -> Told {
    if kinds > 1 { Told::Speeds } else { Told::Levels }
}

fn fits(site: &Site) -> Fit {
    // Without counts of misses no thread is given a domain.
    let domains = if site.counts_misses { site.domains } else { 1 };
    let levels = if site.counts_licenses { 3 } else { 0 };
    let untagged = site.tlb_tags == Some(false);
    let has = Has { domains, kinds: site.kinds, levels, untagged };
    let working = mechanisms(has, [Wanted::Auto; 4]);
    let on: Vec<String> = working.iter().filter(|one| one.on).map(|one| one.why.clone()).collect();
    match on.is_empty() {
        true => Fit::open("nothing to place or share out: a fair scheduler by virtual time"),
        false => Fit::yes(format!("fits: {}", on.join(", "))),
    }
}
