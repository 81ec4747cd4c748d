// SPDX-License-Identifier: GPL-2.0-only
//! Machines are read, and errors in one are reported in a line.

use machine::{
    COSTS, CpuSet, Distance, Each, Machine, MachineError, Paths, Ticks, find, names, plain,
};

const GOOD: &str = include_str!("../../../machines/numa-2x4.toml");

fn broken(from: &str, to: &str) -> String {
    broken_in(GOOD, from, to)
}

fn broken_in(good: &str, from: &str, to: &str) -> String {
    assert!(good.contains(from), "the test edits a line that is there: {from}");
    Machine::from_toml(&good.replacen(from, to, 1), "m.toml").unwrap_err().to_string()
}

#[test]
fn every_embedded_machine_is_sound() {
    for name in names() {
        let machine = find(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name, name);
        assert!(!machine.cpus.is_empty() && machine.cpus.len() <= CpuSet::MAX);
        assert_eq!(
            machine.node_distance.len(),
            1 + machine.cpus.iter().map(|c| c.node).max().unwrap() as usize
        );
        for (cost, quantity) in &machine.sources {
            assert!(!quantity.source.is_empty(), "{name}: {cost} has no source");
        }
    }
}

#[test]
fn paths_are_found_by_name() {
    let paths = Paths::embedded();
    let id = paths.id("try_to_wake_up");
    assert_eq!(paths.get(id).name, "try_to_wake_up");
    assert_eq!(paths.clone().scaled(2.0).get(id).instructions, 2.0 * paths.get(id).instructions);
}

#[test]
fn distances_follow_the_places() {
    let machine = find("numa-2x4").unwrap();
    assert_eq!(machine.distance(0, 0), Distance::Same);
    assert_eq!(machine.distance(0, 3), Distance::Llc);
    assert_eq!(machine.distance(0, 4), Distance::Remote);
    assert!(machine.line_ns(0, 4) > machine.line_ns(0, 1));
}

#[test]
fn an_unknown_machine_says_which_exist() {
    let error = find("cray-1").unwrap_err().to_string();
    assert!(error.contains("cray-1") && error.contains("numa-2x4"), "{error}");
}

#[test]
fn no_cpus_is_refused() {
    let error = broken("nodes = { value = 2", "nodes = { value = 0");
    assert!(error.starts_with("m.toml:8: nodes is 0"), "{error}");
}

#[test]
fn a_plain_machine_has_any_number_of_cpus_on_one_node() {
    let ordinary = find("numa-2x4").unwrap();
    for cpus in [1, 2, 73, CpuSet::MAX] {
        let machine = find(&format!("plain-{cpus}")).unwrap();
        assert_eq!(machine, plain(cpus).unwrap());
        assert_eq!((machine.cpus.len(), machine.node_distance.len()), (cpus, 1));
        assert_eq!(machine.costs, ordinary.costs);
        let far = (1..cpus).all(|cpu| machine.distance(0, cpu) == Distance::Llc);
        assert!(far, "they share a cache, and no core");
        assert!(machine.lacks(false, true).is_none());
    }
    for name in ["plain-0", "plain-513", "plain-", "plain-two"] {
        let error = find(name).unwrap_err().to_string();
        assert!(error.contains("expected plain-N, with N the number of CPUs from 1 to 512"));
    }
    assert!(plain(0).is_none() && plain(CpuSet::MAX + 1).is_none());
}

#[test]
fn too_many_cpus_are_refused() {
    let error = broken("cores_per_llc = { value = 4", "cores_per_llc = { value = 4000");
    assert!(error.contains("8000 CPUs: at most 512"), "{error}");
}

#[test]
fn errors_name_line_and_what_was_expected() {
    let cases = [
        (
            "clock_ghz = { value = 2.5, unit = \"GHz\"",
            "clock_ghz = { value = 2.5, unit = \"MHz\"",
            "expected \"GHz\"",
        ),
        ("irq_ns = { value = 300", "irq_ns = { value = -1", "from 0 to"),
        ("irq_ns = ", "irk_ns = ", "no cost is called `irk_ns`"),
        ("kernel_cpi = { value = 1.0", "kernel_cpi = { value = 0.0", "from 0.001 to"),
        ("irq_ns = { value = 300", "irq_ns = { value = \"a\"", "expected"),
        ("[[10, 20], [20, 10]]", "[[10, 20]]", "expected 2 rows"),
        ("[[10, 20], [20, 10]]", "[[10, 20], [5, 10]]", "5 from node 1 to node 0: expected 11"),
        ("[[10, 20], [20, 10]]", "[[10, 255], [20, 10]]", "255 from node 0 to node 1: expected 11"),
        ("[[10, 20], [20, 10]]", "[[10, 20], [20, 0]]", "0 from node 1 to node 1: expected 10"),
    ];
    for (from, to, expected) in cases {
        let error = broken(from, to);
        assert!(error.starts_with("m.toml:") && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// At a rate near 0 no run would end.
#[test]
fn the_slowest_core_gets_something_done() {
    let cores = include_str!("../../../machines/phenom-2f4s.toml");
    let kinds = include_str!("../../../machines/tensor-g1.toml");
    let threads = include_str!("../../../machines/xeon-gold-6130.toml");
    for (text, from, to, wanted) in [
        (cores, "value = [1.0, 1.0, 0.28", "value = [1.0, 1e-300, 0.28", "core_rates: expected 6"),
        (kinds, "value = [1.0, 0.4868,", "value = [1.0, 0.0009,", "kind_rates: expected rates"),
        (
            threads,
            "value = 0.62, range = [0.5",
            "value = 0.0, range = [0.0",
            "smt_rate_2: expected",
        ),
    ] {
        assert!(text.contains(from), "the test edits a line that is there: {from}");
        let error = Machine::from_toml(&text.replacen(from, to, 1), "m.toml").unwrap_err();
        let error = error.to_string();
        assert!(error.contains(wanted) && error.ends_with("from 0.001 to 1"), "{error}");
    }
}

#[test]
fn a_missing_cost_is_named() {
    let line = GOOD.lines().find(|line| line.starts_with("irq_ns")).unwrap();
    let error = broken(line, "");
    assert!(error.contains("lacks irq_ns (ns)"), "{error}");
}

#[test]
fn costs_can_be_swept() {
    let machine = find("numa-2x4").unwrap();
    let far = machine.costs.line_remote_ns / machine.costs.line_llc_ns;
    let swept = machine.clone().with_cost("line_transfer_ns", 250.0).unwrap();
    assert_eq!(swept.costs.line_llc_ns, 250.0);
    assert!((swept.costs.line_remote_ns / 250.0 - far).abs() < 1e-9);
    let doubled = machine.clone().with_scale("irq_ns", 2.0).unwrap();
    assert_eq!(doubled.costs.irq_ns, 2.0 * machine.costs.irq_ns);
    let error = machine.clone().with_cost("irk_ns", 1.0).unwrap_err();
    assert!(matches!(&error, MachineError::UnknownCost { .. }), "{error}");
    assert!(machine.with_cost("irq_ns", f64::NAN).is_err());
    assert!(COSTS.iter().all(|cost| find("numa-2x4").unwrap().costs.get(cost.name).is_some()));
}

#[test]
fn sets_of_cpus() {
    let set: CpuSet = [3, 64, 511].into_iter().collect();
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 511]);
    assert_eq!(set.iter_from(64).collect::<Vec<_>>(), [64, 511, 3]);
    for start in 0..=CpuSet::MAX {
        assert_eq!(set.next_from(start), set.iter_from(start).next(), "from {start}");
    }
    assert_eq!(CpuSet::EMPTY.next_from(64), None);
    assert_eq!((set.len(), set.lowest()), (3, Some(3)));
    assert!(set.has(64) && !set.has(65) && !set.has(9000));
    assert!(set.and(&CpuSet::first(64)).within(&set));
    assert_eq!(set.without(&CpuSet::first(64)).lowest(), Some(64));
}

#[test]
fn path_lengths_of_a_machine_are_of_functions_that_there_are() {
    let paths = Paths::embedded();
    for name in names() {
        let machine = find(name).unwrap();
        for function in machine.paths.keys().chain(machine.from_idle.keys()) {
            let known = paths.iter().any(|path| path.name == *function);
            assert!(known, "{name}: machines/paths.toml has no {function}");
        }
    }
    let guest = find("icount-2x4").unwrap();
    assert!(guest.from_idle["schedule"] < paths.get(paths.id("schedule")).instructions);
    assert_eq!((guest.ticks, find("numa-2x4").unwrap().ticks), (Ticks::Together, Ticks::Apart));
}

#[test]
fn path_lengths_are_instructions() {
    let section =
        "[from-idle]\nschedule = { value = 1, unit = \"ns\", source = \"\", tag = \"assumed\" }\n";
    let error =
        Machine::from_toml(&format!("{GOOD}\n{section}"), "m.toml").unwrap_err().to_string();
    assert!(error.starts_with("m.toml:") && error.contains("unit \"instructions\""), "{error}");
}

const KEEPER: &str = r#"
[housekeeping.kept]
each = { value = "node", unit = "kind", source = "", tag = "assumed" }
period_ns = { value = 5, unit = "ns", source = "", tag = "assumed" }
step_ns = { value = 2, unit = "ns", source = "", tag = "assumed" }
work_ns = { value = 1, unit = "ns", source = "", tag = "assumed" }
"#;

#[test]
fn a_kernel_has_threads_of_its_own_only_where_a_machine_says_so() {
    for name in names().filter(|name| !name.starts_with("icount-")) {
        assert!(find(name).unwrap().housekeepers.is_empty(), "{name}");
    }
    assert!(!find("icount-2x4").unwrap().housekeepers.is_empty());
    let machine = Machine::from_toml(&format!("{GOOD}{KEEPER}"), "m.toml").unwrap();
    let [kept] = &machine.housekeepers[..] else { panic!("{:?}", machine.housekeepers) };
    assert_eq!((kept.name.as_str(), kept.each, kept.period_ns), ("kept", Each::Node, 5));
    for (from, to) in [("value = 2", "value = 0"), ("\"node\"", "\"cache\""), ("\"ns\"", "\"s\"")] {
        let text = format!("{GOOD}{}", KEEPER.replacen(from, to, 1));
        let error = Machine::from_toml(&text, "m.toml").unwrap_err().to_string();
        assert!(error.starts_with("m.toml:") && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn no_kernel_keeps_house_for_ever() {
    for (from, to, part) in [
        ("value = 5", "value = 1e18", "kept: period_ns: expected a number from 1 to 10000000000,"),
        ("value = 2", "value = 1e18", "kept: step_ns: expected a number from 1 to 1000000000,"),
        ("value = 1,", "value = inf,", "kept: work_ns: expected a number from 1 to 1000000000,"),
        (
            "step_ns",
            "skew_ns = { value = 1e18, unit = \"ns\", source = \"\", tag = \"assumed\" }\nstep_ns",
            "kept: skew_ns: expected a number from 0 to 1000000000,",
        ),
    ] {
        let text = format!("{GOOD}{}", KEEPER.replacen(from, to, 1));
        let error = Machine::from_toml(&text, "m.toml").unwrap_err().to_string();
        assert!(error.contains(part), "{to}: {error}");
    }
}

#[test]
fn a_number_that_no_machine_has_is_refused() {
    let cases = [
        ("tick_period_ns = { value = 4000000", "tick_period_ns = { value = 0", "from 100000 to"),
        ("tick_period_ns = { value = 4000000", "tick_period_ns = { value = 1", "from 100000 to"),
        ("syscall_ns = { value = 80", "syscall_ns = { value = 1e300", "from 0 to 1000000000"),
        ("syscall_ns = { value = 80", "syscall_ns = { value = -80", "from 0 to 1000000000"),
        ("syscall_ns = { value = 80", "syscall_ns = { value = nan", "from 0 to 1000000000"),
        ("clock_ghz = { value = 2.5", "clock_ghz = { value = 1e-300", "from 0.001 to 1000"),
    ];
    for (from, to, part) in cases {
        let error = broken(from, to);
        assert!(error.starts_with("m.toml:") && error.contains(part), "{to}: {error}");
    }
}

#[test]
fn turns_in_which_no_run_ends_are_refused() {
    let good = include_str!("../../../machines/icount-2x4.toml");
    for turn in ["0.5", "1", "999"] {
        let to = format!("turn_ns = {{ value = {turn}");
        let error = broken_in(good, "turn_ns = { value = 10000", &to);
        assert!(
            error.contains("turn_ns: expected 0, for CPUs side by side, or a number from 1000"),
            "{error}"
        );
    }
}

#[test]
fn a_tlb_of_more_tags_than_fit_is_refused() {
    let good = include_str!("../../../machines/core2duo-1.86.toml");
    for tags in ["1e18", "1e300", "inf"] {
        let to = format!("tlb_tags = {{ value = {tags}");
        let error = broken_in(good, "tlb_tags = { value = 0", &to);
        assert!(error.contains("tlb_tags: expected a number from 0 to 65536"), "{error}");
    }
}

#[test]
fn a_machine_may_be_booted_with_few_of_its_cpus() {
    let whole = find("numa-2x4").unwrap();
    assert_eq!(whole.clone().booted_with(5).cpus, whole.cpus[..5]);
    assert_eq!(whole.clone().booted_with(99), whole);
}
