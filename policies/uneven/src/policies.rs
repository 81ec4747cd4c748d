// SPDX-License-Identifier: GPL-2.0-only
//! The policies as sched_ext schedulers: one data plane, and the rule that each shares by.

use policy::{
    Control, Fit, Instance, Keeps, Kept, Knob, Plan, Policy as Scheduler, Profile, Promises, Site,
    TICK_NS_MAX, Told, Topology, Trials, Tried, Unit, Variable, heeding_limits,
};

use crate::control::{DEVIATION, Inside, Rule, Shares, speedup_believed};
use crate::known::Tenancy;
use crate::{Base, Policy, Reading};

policy::built!(uneven);

const MS: u64 = 1_000_000;
/// Decimal knobs are in millionths.
const ONE: u64 = 1_000_000;

const SLICE: Knob = Knob {
    name: "slice",
    variable: uneven::SLICE_NS,
    unit: Unit::Duration { min: MS, max: 100 * MS },
    help: "how long a task runs before the next one's turn, where tasks wait",
};

const ROUND: Knob = Knob {
    name: "round",
    variable: uneven::ROUND_NS,
    unit: Unit::Duration { min: 4 * MS, max: 1000 * MS },
    help: "shares are kept within about half of this (slide 11): shorter is closer, and moves tasks more often",
};

const INTERVAL: Knob = Knob {
    name: "interval",
    variable: Variable::of_control_plane(2000 * MS),
    unit: Unit::Duration { min: MS, max: 60_000 * MS },
    help: "how often shares are computed anew (slide 11); at once where other tasks run than before",
};

const SPEEDUP_MAX: Knob = Knob {
    name: "speedup_max",
    variable: Variable::of_control_plane(3_500_000),
    unit: Unit::Decimal { min: ONE, max: 100 * ONE },
    help: "how many times as fast an unknown task may be on the fastest cores (slide 20)",
};

const DEVIATIONS: Knob = Knob {
    name: "deviations",
    variable: Variable::of_control_plane(2 * ONE),
    unit: Unit::Decimal { min: 0, max: 10 * ONE },
    help: "guarantees are computed with speeds this many standard deviations above the measured ones",
};

const TENANT: Knob = Knob {
    name: "tenant",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["thread", "program", "cgroup"]),
    help: "what gets a share: each thread, each program as a whole (slide 26), or each cgroup by cpu.weight",
};

/// The index of `cgroup` among the choices of `tenant`.
const CGROUP: u64 = 2;

const INSIDE: Knob = Knob {
    name: "inside",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["even", "utility"]),
    help: "how a tenant's threads share: alike, or the one that gains most has the fast cores first (slide 26)",
};

const MEMO: Knob = Knob {
    name: "memo",
    variable: Variable::of_control_plane(1),
    unit: Unit::Choice(&["off", "on"]),
    help: "a program starts with what was measured of its executable before (slide 27)",
};

const TARGET: Knob = Knob {
    name: "target",
    variable: Variable::of_control_plane(850_000),
    unit: Unit::Decimal { min: 0, max: ONE },
    help: "the part of its fair performance that each task gets at least (slide 8)",
};

const SIMILARITY: Knob = Knob {
    name: "similarity",
    variable: Variable::of_control_plane(200_000),
    unit: Unit::Decimal { min: 0, max: 100 * ONE },
    help: "tasks whose speedups differ by no more share alike (slide 9)",
};

const RATIO: Knob = Knob {
    name: "ratio",
    variable: Variable::of_control_plane(500_000),
    unit: Unit::Decimal { min: 0, max: ONE },
    help: "the part that is shared fairly (slide 22)",
};

const READING: Knob = Knob {
    name: "reading",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["greedy", "blend"]),
    help: "greedy: what is left goes to the highest speedups, as the slide's steps; blend: as max-perf has it",
};

const UNIFORMITY: Knob = Knob {
    name: "uniformity",
    variable: Variable::of_control_plane(850_000),
    unit: Unit::Decimal { min: 0, max: ONE },
    help: "the least uniformity of performance, 1 being all alike (slide 23)",
};

const BASE: Knob = Knob {
    name: "base",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["max-fair", "slow", "fast"]),
    help: "what performance is fair: an even share of each kind, or that of slow or fast cores alone (slide 28)",
};

const PROGRESS_BASE: Knob = Knob {
    unit: Unit::Choice(&["fast", "slow"]),
    help: "equal against a run alone on these cores (slide 28)",
    ..BASE
};

/// A policy's own knobs, and those of all policies that share by a plan.
macro_rules! knobs {
    ($($own:expr),*) => {
        &[$($own,)* SLICE, ROUND, INTERVAL, SPEEDUP_MAX, DEVIATIONS, MEMO, BASE, TENANT, INSIDE]
    };
}

/// The fields that all these policies have in common.
const fn scheduler(
    name: &'static str,
    summary: &'static str,
    about: &'static str,
    knobs: &'static [Knob],
) -> Scheduler {
    Scheduler {
        name,
        summary,
        about,
        knobs,
        build: uneven::BUILD,
        promises,
        keeps: KEEPS,
        control: Some(Plan { begin: control, told: |_| Told::Speeds }),
        ..Scheduler::BARE
    }
}

/// Every task gets the same part of each kind of core.
pub static MAX_FAIR: Scheduler = Scheduler {
    tried: Tried::OnUnevenCores,
    ..scheduler(
        "max-fair",
        "uneven cores: every task gets an equal share of each kind of core",
        "Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems, slide 4; Kwon and others, \
         ISCA 2011.",
        knobs![],
    )
};

/// The fast cores go to the tasks that gain most.
pub static MAX_PERF: Scheduler = Scheduler {
    tried: Tried::OnUnevenCores,
    trials: Trials { night: &["max-perf"], ..Trials::NONE },
    ..scheduler(
        "max-perf",
        "uneven cores: the fast ones go to the tasks that gain most, whatever becomes of the others",
        "Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems, slide 3; Kumar and others, 2003.",
        knobs![],
    )
};

/// A part of fair performance for every task, then throughput.
pub static MIN_FAIR: Scheduler = Scheduler {
    fits: Some(fits),
    tried: Tried::OnUnevenCores,
    trials: Trials { day: &["min-fair"], ..Trials::NONE },
    ..scheduler(
        "min-fair",
        "uneven cores: every task gets a target part of its fair performance, the rest goes where it pays",
        "Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems, slide 8.",
        knobs![TARGET],
    )
};

/// Like min-fair, and similar tasks get the same.
pub static SIMILAR_MIN_FAIR: Scheduler = scheduler(
    "similar-min-fair",
    "uneven cores: min-fair, where tasks of similar speedup share alike",
    "Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems, slide 9.",
    &[
        TARGET,
        SIMILARITY,
        SLICE,
        ROUND,
        INTERVAL,
        SPEEDUP_MAX,
        DEVIATIONS,
        MEMO,
        BASE,
        TENANT,
        INSIDE,
    ],
);

/// A part of the fast cores evenly, the rest to the tasks that gain most.
pub static R_FAIR: Scheduler = scheduler(
    "r-fair",
    "uneven cores: a part of the fast ones is shared evenly, the rest goes where it pays",
    "Kwon and others: Virtualizing Performance Asymmetric Multi-core Systems, ISCA 2011; slide 22 of Kim, Huh.",
    knobs![RATIO, READING],
);

/// As much throughput as a uniformity allows.
pub static UNI_FAIR: Scheduler = scheduler(
    "uni-fair",
    "uneven cores: as much throughput as a least uniformity allows",
    "Kim, Huh, IEEE Transactions on Computers 67(8), 2018.",
    knobs![UNIFORMITY],
);

/// Turns of max-fair and max-perf by the uniformity so far.
pub static GUARANTEED_FAIR: Scheduler = scheduler(
    "guaranteed-fair",
    "uneven cores: max-fair's turn while uniformity is below a threshold, else max-perf's",
    "Van Craeynest and others: Fairness-aware Scheduling on Single-ISA Heterogeneous Multi-cores, PACT 2013; \
     slide 23 of Kim, Huh.",
    &[
        UNIFORMITY,
        SLICE,
        ROUND,
        Knob { variable: Variable::of_control_plane(100 * MS), ..INTERVAL },
        SPEEDUP_MAX,
        DEVIATIONS,
        MEMO,
        BASE,
        TENANT,
        INSIDE,
    ],
);

/// Every task slowed down alike.
pub static EQUAL_PROGRESS: Scheduler = scheduler(
    "equal-progress",
    "uneven cores: every task is slowed down alike against a run alone",
    "Van Craeynest and others: Fairness-aware Scheduling on Single-ISA Heterogeneous Multi-cores, PACT 2013.",
    &[PROGRESS_BASE, SLICE, ROUND, INTERVAL, SPEEDUP_MAX, DEVIATIONS, MEMO, TENANT, INSIDE],
);

/// All policies of this crate.
pub static ALL: &[&Scheduler] = &[
    &MAX_FAIR,
    &MAX_PERF,
    &MIN_FAIR,
    &SIMILAR_MIN_FAIR,
    &R_FAIR,
    &UNI_FAIR,
    &GUARANTEED_FAIR,
    &EQUAL_PROGRESS,
];

fn fits(site: &Site) -> Fit {
    match site.kinds {
        0 | 1 => Fit::open("all cores are alike, as far as the kernel tells: nothing to share out"),
        kinds => Fit::yes(format!("fits, as do its like: {kinds} kinds of core to share out")),
    }
}

fn control(instance: &Instance, topology: &Topology, profile: &Profile) -> Box<dyn Control> {
    let (policy, base) = shares_by(instance);
    let tenancy =
        [Tenancy::Thread, Tenancy::Program, Tenancy::Cgroup][instance.get("tenant") as usize];
    let inside = [Inside::Even, Inside::Utility][instance.get("inside") as usize];
    let rule = Rule { policy, base, tenancy, inside };
    heeding_limits(Box::new(Shares::new(instance, topology, profile, rule)))
}

/// min-fair's control plane with this target, for a policy that composes it with others.
pub fn shares(target: f64, topology: &Topology, profile: &Profile) -> Box<dyn Control> {
    let instance = Instance::default(&MIN_FAIR);
    let rule = Rule {
        policy: Policy::MinFair { target },
        base: Base::MaxFair,
        tenancy: Tenancy::Thread,
        inside: Inside::Even,
    };
    Box::new(Shares::new(&instance, topology, profile, rule))
}

/// The greatest speedup that an instance believes, be it of one of these policies or of one with min-fair's plan
/// ([`shares`]).
pub fn speedup_bound(instance: &Instance) -> f64 {
    match instance.policy.knobs.iter().any(|knob| knob.name == SPEEDUP_MAX.name) {
        true => speedup_believed(instance),
        false => speedup_believed(&Instance::default(&MIN_FAIR)),
    }
}

/// The policy and base of an instance; panics for another crate's policy.
pub fn shares_by(instance: &Instance) -> (Policy, Base) {
    let (target, uniformity) = (|| instance.decimal("target"), || instance.decimal("uniformity"));
    let base = || [Base::MaxFair, Base::SlowCore, Base::FastCore][instance.get("base") as usize];
    let policy = match instance.policy.name {
        "max-perf" => Policy::MaxPerf,
        "min-fair" => Policy::MinFair { target: target() },
        "similar-min-fair" => {
            Policy::SimilarMinFair { similarity: instance.decimal("similarity"), target: target() }
        }
        "r-fair" => Policy::RFair {
            ratio: instance.decimal("ratio"),
            reading: [Reading::Greedy, Reading::Blend][instance.get("reading") as usize],
        },
        "uni-fair" => Policy::UniFair { uniformity: uniformity(), deviation: DEVIATION },
        "guaranteed-fair" => {
            Policy::GuaranteedFair { uniformity: uniformity(), deviation: DEVIATION }
        }
        "equal-progress" => {
            let base = [Base::FastCore, Base::SlowCore][instance.get("base") as usize];
            return (Policy::EqualProgress { base }, Base::MaxFair);
        }
        _ => Policy::MaxFair,
    };
    (policy, base())
}

const KEEPS: Keeps =
    Keeps { cpu_weight: Kept::partly("with `tenant=cgroup`"), ..Keeps::BY_VIRTUAL_TIME };

/// A CPU with nothing to run takes a waiting task, at a tick at the latest.
fn promises(instance: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(10_000 * MS),
        heeds_cgroup_weights: instance.get("tenant") == CGROUP,
        heeds_cgroup_limits: true,
        ..Promises::default()
    }
}
