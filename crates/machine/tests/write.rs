// SPDX-License-Identifier: GPL-2.0-only
//! A machine that is written is read back equal, and unknown numbers stay unknown.

use std::collections::BTreeMap;

use machine::{Amount, COSTS, CostName, Description, Distance, MEMORY, Machine, Stated, Tag, find};
use proptest::prelude::*;

fn all(names: &'static [CostName], value: f64) -> BTreeMap<&'static str, Stated> {
    let one = |name: &CostName| {
        let value = match name.name {
            "tick_period_ns" => 1e6,
            "turn_ns" => 1e4,
            _ => value,
        };
        (name.name, Stated::new(value, name.unit, Tag::Measured, "by a test"))
    };
    names.iter().map(one).collect()
}

fn described(rows: Vec<[u16; 4]>, value: f64) -> Description {
    let stated = |text: &str| Stated::new(text.to_string(), "kind", Tag::Sourced, "by a test");
    let nodes = 1 + rows.iter().map(|row| row[2]).max().unwrap_or(0) as usize;
    let far = |a, b| if a == b { 10 } else { 20 };
    let distance = (0..nodes).map(|a| (0..nodes).map(|b| far(a, b)).collect()).collect();
    Description {
        name: "some \"machine\"".into(),
        summary: "made up\nby a test".into(),
        preface: vec!["two\nlines".into()],
        cpus: Stated::new(rows, "core, cache, node, kind", Tag::Measured, "/sys"),
        kind_rates: Stated::new(vec![1.0, 0.5], "1", Tag::Measured, "a loop"),
        node_distance: Stated::new(distance, "SLIT", Tag::Sourced, "/sys"),
        lock: stated("queued"),
        costs: all(COSTS, value),
        paths: BTreeMap::new(),
        delayed: BTreeMap::new(),
        memory: all(MEMORY, 16.0),
        observed: BTreeMap::new(),
    }
}

fn read(description: &Description) -> Machine {
    let text = description.to_toml();
    Machine::from_toml(&text, "m.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_written_machine_is_read_back() {
    let mut description = described(vec![[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], 0.25);
    let length = Stated::new(123.0, "instructions", Tag::Derived, "a fit").within([100.0, 150.0]);
    description.paths.insert("pipe_read".into(), length.clone());
    description.delayed.insert("dequeue_task_fair".into(), length);
    let table = Amount::Table(vec![vec![80.0, 140.0], vec![140.0, 80.0]]);
    let latency = Stated::new(table, "ns", Tag::Measured, "a chase");
    description.observed.insert("latency".into(), latency.clone());
    let machine = read(&description);
    assert_eq!(machine.name, "some \"machine\"");
    assert_eq!(machine.distance(0, 1), Distance::Core);
    assert_eq!(machine.distance(0, 2), Distance::Remote);
    assert_eq!((machine.core_rates[1], machine.cpus[2].core_type), (0.5, 1));
    assert_eq!((machine.costs.syscall_ns, machine.memory.as_ref().unwrap().l1d_ways), (0.25, 16.0));
    assert_eq!((machine.paths["pipe_read"], machine.delayed["dequeue_task_fair"]), (123.0, 123.0));
    assert_eq!(machine.observed["latency"], latency);
    assert!(machine.unknown.is_empty());
}

#[test]
fn unknown_is_no_number_and_matters_where_it_is_used() {
    let mut description = described(vec![[0, 0, 0, 0], [1, 0, 0, 0]], 0.5);
    let mut unknown = |name| {
        let was = description.costs.get_mut(name).or(description.memory.get_mut(name)).unwrap();
        *was = Stated::unknown(&was.unit.clone(), "it was too late");
    };
    ["line_remote_ns", "smt_rate_2", "callback_ns", "dtlb_entries"]
        .into_iter()
        .for_each(&mut unknown);
    let machine = read(&description);
    assert_eq!(machine.unknown.len(), 4);
    assert_eq!(machine.lacks(false, false), None, "one node, one thread a core");
    assert_eq!(machine.lacks(false, true), Some(("callback_ns", "it was too late")));
    assert_eq!(machine.lacks(true, false), Some(("dtlb_entries", "it was too late")));
    let with_threads = Description {
        cpus: Stated::new(vec![[0, 0, 0, 0]; 2], "rows", Tag::Measured, "/sys"),
        ..description
    };
    assert_eq!(read(&with_threads).lacks(false, false).map(|lack| lack.0), Some("smt_rate_2"));
}

#[test]
fn what_is_no_number_is_written_as_unknown() {
    let mut description = described(vec![[0, 0, 0, 0]], 0.5);
    let nothing = Stated::new(f64::NAN, "ns", Tag::Derived, "a division by nothing");
    description.costs.insert("syscall_ns", nothing);
    let row = Stated::new(Amount::Row(vec![1.0, f64::INFINITY]), "ns", Tag::Measured, "a chase");
    description.observed.insert("latency".into(), row);
    let machine = read(&description);
    assert!(machine.unknown["syscall_ns"].contains("division"));
    assert_eq!(machine.observed["latency"].tag, Tag::Unknown);
}

#[test]
fn a_value_and_its_tag_agree() {
    let good = described(vec![[0, 0, 0, 0]], 0.5).to_toml();
    let broken = |to: &str| {
        let lines = good.lines().map(|line| match line.starts_with("syscall_ns") {
            true => to,
            false => line,
        });
        Machine::from_toml(&lines.collect::<Vec<_>>().join("\n"), "m.toml").unwrap_err().to_string()
    };
    let both = broken(r#"syscall_ns = { value = 1, unit = "ns", source = "x", tag = "unknown" }"#);
    assert!(both.contains("syscall_ns: tag \"unknown\" is for numbers without a value"), "{both}");
    let none = broken(r#"syscall_ns = { unit = "ns", source = "x", tag = "measured" }"#);
    assert!(none.contains("syscall_ns: expected a value, or tag \"unknown\""), "{none}");
}

#[test]
fn places_are_checked() {
    let refused = |rows| {
        let text = described(rows, 0.5).to_toml();
        Machine::from_toml(&text, "m.toml").unwrap_err().to_string()
    };
    assert!(refused(vec![]).contains("0 rows"));
    assert!(refused(vec![[1, 0, 0, 0]]).contains("no CPU has core 0"));
    assert!(refused(vec![[0, 0, 0, 7]]).contains("a kind of core has no rate"));
    assert!(refused(vec![[0, 0, 0, 0], [0, 0, 0, 1]]).contains("of two kinds"));
    assert!(refused(vec![[0, 0, 0, 0], [1, 0, 1, 0]]).contains("cache 0 is on two nodes"));
}

#[test]
fn a_machine_has_one_shape() {
    let text = described(vec![[0, 0, 0, 0]], 0.5).to_toml().replace("[places]", "[pieces]");
    assert!(Machine::from_toml(&text, "m.toml").is_err());
    assert!(find("numa-2x4").unwrap().unknown.is_empty());
}

proptest! {
    #[test]
    fn numbers_survive_to_four_digits(value in 1e-3..1e3f64, low in 0.0..1.0f64, high in 1.0..3.0f64) {
        let mut description = described(vec![[0, 0, 0, 0]], 0.5);
        let range = [value * low, value * high];
        let stated = Stated::new(value, "ns", Tag::Measured, "by a test").within(range);
        description.costs.insert("atomic_ns", stated);
        let machine = read(&description);
        prop_assert!((machine.costs.atomic_ns / value - 1.0).abs() < 1e-3);
        let [least, most] = machine.range("atomic_ns").unwrap();
        prop_assert!(least <= machine.costs.atomic_ns && machine.costs.atomic_ns <= most);
        prop_assert!((most / range[1] - 1.0).abs() < 1e-3);
    }
}
