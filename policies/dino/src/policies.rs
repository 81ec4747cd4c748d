// SPDX-License-Identifier: GPL-2.0-only
//! The policies as sched_ext schedulers: one data plane, and three ways to assign threads to
//! domains.

use policy::{
    Control, Instance, Keeps, Knob, Plan, Policy, Profile, Promises, TICK_NS_MAX, Told, Topology,
    Unit,
};

use crate::control::{Places, Planner, Rule};
use crate::{Cuts, Filter, Gate, Spread};

const MS: u64 = 1_000_000;
/// Decimal knobs are in millionths.
const ONE: u64 = 1_000_000;

const SLICE: Knob = Knob {
    name: "slice",
    symbol: "knob_slice_ns",
    unit: Unit::Duration { min: MS, max: 100 * MS },
    default: 10 * MS,
    help: "how long a thread runs before the next one's turn, where threads wait",
};

const INTERVAL: Knob = Knob {
    name: "interval",
    symbol: "control_interval_ns",
    unit: Unit::Duration { min: 10 * MS, max: 60_000 * MS },
    default: 1000 * MS,
    help: "how often misses are looked at and threads are placed",
};

const BUSY: Knob = Knob {
    name: "busy",
    symbol: "control_busy",
    unit: Unit::Decimal { min: 0, max: ONE },
    default: ONE / 2,
    help: "threads that run for less of the time than this part of it are placed by nobody",
};

const FILTER: Knob = Knob {
    name: "filter",
    symbol: "control_filter",
    unit: Unit::Choice(&["clavis", "off"]),
    default: 0,
    help: "clavis: a rate counts once 5 of 10 samples have left the last one; off: each sample counts (the slides)",
};

const CUTS: Knob = Knob {
    name: "cuts",
    symbol: "control_cuts",
    unit: Unit::Choice(&[Cuts::PRESETS[0].0, Cuts::PRESETS[1].0, Cuts::PRESETS[2].0]),
    default: 0,
    help: "where classes part, in misses per 1,000 instructions: turtles, devils, super-devils (slide 18)",
};

const SPREAD: Knob = Knob {
    name: "spread",
    symbol: "control_spread",
    unit: Unit::Choice(&["deal", "pairs"]),
    default: 0,
    help: "deal: one thread for each domain in turn (the released scheduler); pairs: greatest with least (slide 12)",
};

const RATE: Knob = Knob {
    name: "rate",
    symbol: "control_rate",
    unit: Unit::CountOrOff { max: 1_000_000 },
    default: 0,
    help: "most megabytes of pages that are moved in a second",
};

const GATE: Knob = Knob {
    name: "gate",
    symbol: "control_gate",
    unit: Unit::Choice(&["on", "off"]),
    default: 0,
    help: "on: act only where a node's memory is busy and the gain is expected to exceed the cost of the move",
};

const BANDWIDTH: Knob = Knob {
    name: "bandwidth",
    symbol: "control_bandwidth",
    unit: Unit::Count { min: 1, max: 10_000_000 },
    default: 6_000,
    help: "megabytes a second that a node's memory gives, for the gate",
};

const COPIES: Knob = Knob {
    name: "copies",
    symbol: "control_copies",
    unit: Unit::Count { min: 1, max: 1_000_000 },
    default: 600,
    help: "megabytes a second that pages are moved at, for the gate",
};

const ACT: Knob = Knob {
    name: "act",
    symbol: "control_act",
    unit: Unit::Choice(&["on", "off"]),
    default: 0,
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
        ops: "dino",
        bpf: include_bytes!(concat!(env!("OUT_DIR"), "/dino.bpf.o")),
        native: include_bytes!(concat!(env!("OUT_DIR"), "/dino.so")),
        promises,
        keeps: Keeps::BY_VIRTUAL_TIME,
        control: Some(Plan { begin: control, told: Told::Misses }),
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
pub static DINO: Policy = scheduler(
    "dino",
    "memory domains: threads that miss most are spread by class, and moved with their memory when it changes",
    "Blagodurov and others: A Case for NUMA-aware Contention Management, USENIX ATC 2011, slides 18 to 21.",
    &[CUTS, FILTER, GATE, BANDWIDTH, COPIES, SLICE, INTERVAL, BUSY, RATE, ACT],
);

/// All policies of this crate.
pub static ALL: &[&Policy] = &[&DI_PLAIN, &DI_MIGRATE, &DINO];

fn control(instance: &Instance, topology: &Topology, profile: &Profile) -> Box<dyn Control> {
    let spread = || [Spread::Deal, Spread::Pairs][instance.get("spread") as usize];
    let rate = || instance.get("rate").saturating_sub(1) * 1_000_000;
    let millions = |knob| instance.get(knob) as f64 * 1e6;
    let gate = || Gate { bandwidth: millions("bandwidth"), busy: 0.35, copies: millions("copies") };
    let (planner, memory, gate) = match instance.policy.name {
        "di-plain" => (Planner::Sorted(spread()), None, None),
        "di-migrate" => (Planner::Sorted(spread()), Some(rate()), None),
        _ => (Planner::Classes, Some(rate()), (instance.get("gate") == 0).then(gate)),
    };
    let rule = Rule {
        planner,
        cuts: Cuts::PRESETS[instance.get("cuts") as usize].1,
        filter: [Filter::Clavis, Filter::Off][instance.get("filter") as usize],
        memory,
        gate,
        busy: instance.decimal("busy"),
        interval_ns: instance.get("interval"),
        acts: instance.get("act") == 0,
    };
    Box::new(Places::new(topology, profile, rule))
}

/// A CPU with nothing to run takes a waiting task, at a tick at the latest.
fn promises(_: &Instance) -> Promises {
    Promises {
        idle_while_runnable_ns_max: Some(TICK_NS_MAX),
        sched_idle_wait_ns_max: Some(10_000 * MS),
        ..Promises::default()
    }
}
