// SPDX-License-Identifier: GPL-2.0-only
//! Reading of `--policy`, and its results.

use policy::{Clocks, Instance, Knob, Policy, Topology, Unit, Variable};

const fn in_c(symbol: &'static str, default: u64) -> Variable {
    Variable { symbol: Some(symbol), default, tunable: true }
}

static TOY: Policy = Policy {
    name: "toy",
    knobs: &[
        Knob {
            name: "slice",
            variable: in_c("knob_slice_ns", 5_000_000),
            unit: Unit::Duration { min: 1_000_000, max: 1_000_000_000 },
            help: "",
        },
        Knob { name: "pull", variable: in_c("knob_pull", 0), unit: Unit::Switch, help: "" },
        Knob {
            name: "mode",
            variable: Variable::of_control_plane(0),
            unit: Unit::Choice(&["slow", "fast"]),
            help: "",
        },
        Knob {
            name: "depth",
            variable: in_c("knob_depth", 2),
            unit: Unit::Count { min: 1, max: 8 },
            help: "",
        },
        Knob {
            name: "slack",
            variable: in_c("knob_slack", 0),
            unit: Unit::DurationOrOff { max: 1_000_000_000 },
            help: "",
        },
        Knob {
            name: "turn",
            variable: in_c("knob_turn_ns", 0),
            unit: Unit::Slice { min: 1_000_000, max: 1_000_000_000 },
            help: "",
        },
    ],
    ..Policy::BARE
};

fn parse(text: &str) -> Result<Instance, String> {
    Instance::parse(text, &[&TOY]).map_err(|error| error.to_string())
}

#[test]
fn knobs_are_named_and_the_rest_stay_at_their_default() {
    let instance = parse("toy:pull=true,slice=50ms,mode=fast").unwrap();
    assert_eq!(instance.values, [50_000_000, 1, 1, 2, 0, 0]);
    assert_eq!(instance.get("slice"), 50_000_000);
}

#[test]
fn a_label_tells_two_instances_apart_and_reads_back_as_the_same() {
    assert_eq!(parse("toy").unwrap().label, "toy");
    assert_eq!(parse("toy:slice=5ms").unwrap().label, "toy", "a default needs no mention");
    let instance = parse("toy:depth=3,slice=1500us").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(instance.label, "toy:slice=1ms500us,depth=3");
    assert_eq!(parse(&instance.label).unwrap().values, instance.values);
    let instance = parse("toy:slack=0s").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(instance.label, "toy:slack=0s", "no slack is not the same as off");
    assert_eq!(parse("toy:slack=off").unwrap().label, "toy");
}

#[test]
fn a_mistake_is_answered_with_what_exists() {
    let error = |text: &str| parse(text).unwrap_err();
    assert_eq!(error("tpy"), "no policy is called `tpy`; there are: toy");
    assert_eq!(
        error("toy:slize=5ms"),
        "policy toy has no knob `slize`; it has: slice, pull, mode, depth, slack, turn"
    );
    assert_eq!(error("toy:pull"), "policy toy: knob `pull` has no value; write pull=VALUE");
    assert_eq!(
        error("toy:pull=true,pull=false"),
        "policy toy: knob `pull` is set twice; name it once"
    );
    assert_eq!(error("toy:slice=5"), "policy toy: slice=5: expected a time from 1ms to 1s",);
    assert_eq!(error("toy:slice=2s"), "policy toy: slice=2s: expected a time from 1ms to 1s");
    assert_eq!(error("toy:pull=yes"), "policy toy: pull=yes: expected true or false");
    assert_eq!(error("toy:mode=best"), "policy toy: mode=best: expected one of slow, fast");
    assert_eq!(error("toy:slack=2s"), "policy toy: slack=2s: expected off, or a time up to 1s");
    assert_eq!(error("toy:depth=9"), "policy toy: depth=9: expected a whole number from 1 to 8");
}

#[test]
fn a_dilated_clock_stretches_times_and_nothing_else() {
    let dilated = parse("toy:depth=3").unwrap().dilated(8);
    assert_eq!(dilated.values, [40_000_000, 0, 0, 3, 0, 0], "off stays off");
    let slack = parse("toy:slack=3ms").unwrap().dilated(8).get("slack");
    assert_eq!(slack, 24_000_001, "one more than the time");
    assert_eq!(dilated.label, "toy:depth=3");
    let turn = parse("toy").unwrap().on(&machine_of(2)).dilated(8).get("turn");
    assert_eq!(turn, 12_000_000, "auto on two CPUs");
}

fn machine_of(cpus: usize) -> Topology {
    Topology { llc: vec![0; cpus], ..Topology::default() }
}

#[test]
fn a_time_slice_that_is_auto_is_shorter_on_few_cpus() {
    let turn = |text: &str, cpus| parse(text).unwrap().on(&machine_of(cpus)).get("turn");
    let [one, two, three, four, eight, many] = [1, 2, 3, 4, 8, 64].map(|cpus| turn("toy", cpus));
    assert_eq!([one, two, three, four], [1_500_000, 1_500_000, 1_500_000, 2_250_000]);
    assert_eq!([eight, many], [3_000_000; 2]);
    assert_eq!(turn("toy:turn=auto", 2), two);
    let machine = Topology { missing: [[false; 2], [true; 2]].concat(), ..machine_of(4) };
    assert_eq!(parse("toy").unwrap().on(&machine).get("turn"), two, "two of four are present");
    assert_eq!(turn("toy:turn=7ms", 2), 7_000_000, "what a user sets holds");
    let error = parse("toy:turn=1us").unwrap_err();
    assert_eq!(error, "policy toy: turn=1us: expected auto, or a time from 1ms to 1s");
}

#[test]
fn a_ground_sets_the_knobs_and_the_topology() {
    let topology = Topology {
        llc: vec![0, 0, 1],
        core: vec![7, 9, 7],
        node: vec![0, 0, 0],
        core_type: vec![0, 0, 1],
        node_distance: Vec::new(),
        tick_ns: 4_000_000,
        clocks: Clocks { turbo_khz: vec![[3, 2, 1]], ..Clocks::default() },
        ..Topology::default()
    };
    let toy = parse("toy:mode=fast,depth=3").unwrap();
    let variables: Vec<_> = toy.variables().collect();
    let wanted = [
        ("knob_slice_ns", 5_000_000),
        ("knob_pull", 0),
        ("knob_depth", 3),
        ("knob_slack", 0),
        ("knob_turn_ns", 0),
    ];
    assert_eq!(variables, wanted, "a knob of the control plane is not in the C");
    let config = topology.config();
    let value = |symbol| config.iter().find(|(name, _)| *name == symbol).unwrap().1.clone();
    assert_eq!(value("nr_cpus"), 3u32.to_ne_bytes());
    assert_eq!(value("cpu_type"), [0u16, 0, 1].map(u16::to_ne_bytes).concat());
    assert_eq!(value("nr_types"), 2u32.to_ne_bytes());
    assert_eq!(value("cpu_llc"), [0u16, 0, 1].map(u16::to_ne_bytes).concat());
    assert_eq!(value("cpu_sibling"), [2u16, 1, 0].map(u16::to_ne_bytes).concat(), "a ring");
    assert_eq!(value("tick_ns"), 4_000_000u64.to_ne_bytes());
    assert_eq!(value("turbo_cores"), 1u32.to_ne_bytes());
    assert_eq!(value("turbo_khz"), [3u32, 2, 1].map(u32::to_ne_bytes).concat());
}
