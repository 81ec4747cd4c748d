// SPDX-License-Identifier: GPL-2.0-only
//! The policies as sched_ext schedulers: one data plane, and three ways to assign threads to
//! domains.

use policy::{
    Control, Fit, Instance, Keeps, Knob, Plan, Policy, Profile, Promises, Site, TICK_NS_MAX, Told,
    Topology, Trials, Tried, Unit, Variable, heeding_limits,
};

use crate::control::{Places, Planner, Rule};
use crate::{Cuts, Filter, Gate, Spread};

policy::built!(dino);

const MS: u64 = 1_000_000;
/// Decimal knobs are in millionths.
const ONE: u64 = 1_000_000;

const SLICE: Knob = Knob {
    name: "slice",
    variable: dino::SLICE_NS,
    unit: Unit::Duration { min: MS, max: 100 * MS },
    help: "how long a thread runs before the next one's turn, where threads wait",
};

const INTERVAL: Knob = Knob {
    name: "interval",
    variable: Variable::of_control_plane(1000 * MS),
    unit: Unit::Duration { min: 10 * MS, max: 60_000 * MS },
    help: "how often misses are looked at and threads are placed",
};

const BUSY: Knob = Knob {
    name: "busy",
    variable: Variable::of_control_plane(ONE / 2),
    unit: Unit::Decimal { min: 0, max: ONE },
    help: "threads that run for less of the time than this part of it are not placed",
};

const FILTER: Knob = Knob {
    name: "filter",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["clavis", "off"]),
    help: "clavis: a rate counts once 5 of 10 samples have left the last one; off: each sample counts (the slides)",
};

const CUTS: Knob = Knob {
    name: "cuts",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&[Cuts::PRESETS[0].0, Cuts::PRESETS[1].0, Cuts::PRESETS[2].0]),
    help: "where classes part, in misses per 1,000 instructions: turtles, devils, super-devils (slide 18)",
};

const SPREAD: Knob = Knob {
    name: "spread",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["deal", "pairs"]),
    help: "deal: one thread for each domain in turn (the released scheduler); pairs: greatest with least (slide 12)",
};

const RATE: Knob = Knob {
    name: "rate",
    variable: Variable::of_control_plane(0),
    unit: Unit::CountOrOff { max: 1_000_000 },
    help: "most megabytes of pages that are moved in a second",
};

const GATE: Knob = Knob {
    name: "gate",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["on", "off"]),
    help: "on: act only where a node's memory is busy and the gain is expected to exceed the cost of the move",
};

const BANDWIDTH: Knob = Knob {
    name: "bandwidth",
    variable: Variable::of_control_plane(6_000),
    unit: Unit::Count { min: 1, max: 10_000_000 },
    help: "megabytes a second that a node's memory gives, for the gate",
};

const COPIES: Knob = Knob {
    name: "copies",
    variable: Variable::of_control_plane(600),
    unit: Unit::Count { min: 1, max: 1_000_000 },
    help: "megabytes a second that pages are moved at, for the gate",
};

const ACT: Knob = Knob {
    name: "act",
    variable: Variable::of_control_plane(0),
    unit: Unit::Choice(&["on", "off"]),
    help: "off: say what would be placed and moved, and place and move nothing",
};

const fn scheduler(
    name: &'static str,
    summary: &'static str,
    about: &'static str,
    knobs: &'static [Knob],
) -> Policy {
    Policy {
        name,
        summary,
        about,
        knobs,
        build: dino::BUILD,
        promises,
        keeps: Keeps::BY_VIRTUAL_TIME,
        control: Some(Plan { begin: control, told: |_| Told::Misses }),
        ..Policy::BARE
    }
}

/// Spreads threads by their misses, and leaves their memory where it is.
pub static DI_PLAIN: Policy = scheduler(
    "di-plain",
    "memory domains: threads that miss most are spread; their memory stays where it is",
    "Zhuravlev and others, ASPLOS 2010, on NUMA machines: slides 12 to 14 of Blagodurov and others, USENIX ATC 2011.",
    &[SPREAD, FILTER, CUTS, SLICE, INTERVAL, BUSY, ACT],
);

/// Like DI-Plain, and the memory follows.
pub static DI_MIGRATE: Policy = scheduler(
    "di-migrate",
    "memory domains: threads that miss most are spread, and their memory follows each move",
    "Blagodurov and others: A Case for NUMA-aware Contention Management, USENIX ATC 2011, slides 15 to 17.",
    &[SPREAD, FILTER, CUTS, SLICE, INTERVAL, BUSY, RATE, ACT],
);

/// Moves a thread and its memory only when the thread's class changes.
pub static DINO: Policy = Policy {
    fits: Some(fits),
    tried: Tried::Lacks { effect: "page placement", on: "misses" },
    trials: Trials { night: &["dino"], ..Trials::NONE },
    ..scheduler(
        "dino",
        "memory domains: threads that miss most are spread by class, and moved with their memory when it changes",
        "Blagodurov and others: A Case for NUMA-aware Contention Management, USENIX ATC 2011, slides 18 to 21.",
        &[CUTS, FILTER, GATE, BANDWIDTH, COPIES, SLICE, INTERVAL, BUSY, RATE, ACT],
    )
};

/// All policies of this crate.
pub static ALL: &[&Policy] = &[&DI_PLAIN, &DI_MIGRATE, &DINO];

fn fits(site: &Site) -> Fit {
    match (site.domains, site.counts_misses) {
        (0 | 1, _) => Fit::open("one memory domain: nowhere to spread to"),
        (domains, true) => {
            Fit::yes(format!("fits threads that go to memory much, in {domains} domains"))
        }
        (domains, false) => Fit::open(format!(
            "{domains} memory domains, and no counter of misses: `run --profile` tells it"
        )),
    }
}

/// DINO's control plane for a policy that also has shares of kinds of cores: it gives tasks their domains by
/// [`policy::table::TaskTable::set_home`].
pub fn homes(topology: &Topology, profile: &Profile) -> Box<dyn Control> {
    let rule = Rule { apart: true, ..rule(&Instance::default(&DINO)) };
    Box::new(Places::new(topology, profile, rule))
}

fn control(instance: &Instance, topology: &Topology, profile: &Profile) -> Box<dyn Control> {
    heeding_limits(Box::new(Places::new(topology, profile, rule(instance))))
}

fn rule(instance: &Instance) -> Rule {
    let spread = || [Spread::Deal, Spread::Pairs][instance.get("spread") as usize];
    let rate = || instance.get("rate").saturating_sub(1) * 1_000_000;
    let millions = |knob| instance.get(knob) as f64 * 1e6;
    let gate = || Gate { bandwidth: millions("bandwidth"), busy: 0.35, copies: millions("copies") };
    let (planner, memory, gate) = match instance.policy.name {
        "di-plain" => (Planner::Sorted(spread()), None, None),
        "di-migrate" => (Planner::Sorted(spread()), Some(rate()), None),
        _ => (Planner::Classes, Some(rate()), (instance.get("gate") == 0).then(gate)),
    };
    Rule {
        planner,
        cuts: Cuts::PRESETS[instance.get("cuts") as usize].1,
        filter: [Filter::Clavis, Filter::Off][instance.get("filter") as usize],
        memory,
        gate,
        busy: instance.decimal("busy"),
        interval_ns: instance.get("interval"),
        acts: instance.get("act") == 0,
        apart: false,
    }
}

/// A CPU with nothing to run takes a waiting task, at a tick at the latest.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(10_000 * MS),
        heeds_cgroup_limits: true,
        ..Promises::default()
    }
}
