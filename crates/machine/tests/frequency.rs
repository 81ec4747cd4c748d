// SPDX-License-Identifier: GPL-2.0-only
//! Clocks of the machines that are compiled in, tables that are refused, and properties of every license.

use machine::{LEVELS, License, LicenseLaw, Machine, Phase, find};
use proptest::prelude::*;

const GOLD: &str = include_str!("../../../machines/xeon-gold-6130.toml");

fn broken(from: &str, to: &str) -> String {
    assert!(GOLD.contains(from), "the test edits what is there: {from}");
    Machine::from_toml(&GOLD.replacen(from, to, 1), "m.toml").unwrap_err().to_string()
}

#[test]
fn published_cells_are_as_published() {
    let gold = find("xeon-gold-6130").unwrap().frequency.unwrap();
    let ghz = |level, active| gold.turbo.ghz(level, active);
    assert_eq!([ghz(0, 16), ghz(2, 16)], [2.8, 1.9], "the talk, Evaluation Setup");
    assert_eq!([ghz(0, 1), ghz(1, 1), ghz(2, 1)], [3.7, 3.6, 3.5]);
    let sourced =
        GOLD.lines().filter(|line| line.contains("level = ") && line.contains("\"sourced\""));
    assert_eq!(sourced.count(), 5, "all other cells are tagged as assumed");
    let w = find("xeon-w-2104").unwrap().frequency.unwrap();
    for active in 1..=4 {
        assert_eq!([0, 1, 2].map(|level| w.turbo.ghz(level, active)), [3.2, 2.8, 2.4]);
    }
    let limited = find("power-8").unwrap().frequency.unwrap();
    assert_eq!((limited.levels(), limited.turbo.ghz(2, 8)), (1, 4.0));
}

/// The purpose of licenses: no level's cores exceed the limit at its clock.
#[test]
fn licensed_clocks_fit_the_limit() {
    let gold = find("xeon-gold-6130").unwrap();
    let frequency = gold.frequency.unwrap();
    let power = frequency.power.unwrap();
    for level in 0..LEVELS as u8 {
        let clock = frequency.turbo.ghz(level, 16) / gold.costs.clock_ghz;
        assert_eq!(power.clock(&[(level, clock); 16]), None, "level {level}");
    }
}

#[test]
fn bad_tables_are_refused_in_a_line() {
    let cell = |level: usize, cores: usize| {
        let start = format!("    {{ level = {level}, cores = {cores}, ");
        GOLD.lines().find(|line| line.starts_with(&start)).unwrap().to_string()
    };
    let cases = [
        (cell(1, 8), String::new(), "no clock of level 1 with 8 active cores"),
        (
            cell(1, 8),
            format!("{}\n{}", cell(1, 8), cell(1, 8)),
            "level 1 with 8 active cores stands twice",
        ),
        (cell(1, 8), cell(1, 8).replace("3.1", "3.45"), "3.45 GHz is above the 3.4 of level 0"),
        (
            cell(2, 16),
            cell(2, 16).replace("1.9", "2.2"),
            "2.2 GHz is above the 2.1 of 12 active cores",
        ),
        (
            cell(2, 16),
            cell(2, 16).replace("level = 2", "level = 3"),
            "level 3: expected one below 3",
        ),
        (cell(2, 16), cell(2, 16).replace("1.9", "0"), "expected a clock from 0.1 to 20"),
        (cell(2, 16), cell(2, 16).replace("GHz", "MHz"), "expected \"GHz\""),
        (
            "cores_per_llc = { value = 16".into(),
            "cores_per_llc = { value = 18".into(),
            "there are 18",
        ),
        (
            "release_ns = { value = 675000".into(),
            "release_ns = { value = 0".into(),
            "release_ns: expected",
        ),
        (
            "throttle_rate = { value = 0.25".into(),
            "throttle_rate = { value = 0".into(),
            "from 0.01 to 1",
        ),
        ("base_w = { value = 25".into(), "base_w = { value = 125".into(), "leave nothing"),
        ("[6.0, 9.5, 19.2]".into(), "[6.0, 5.0, 19.2]".into(), "do not fall"),
    ];
    for (from, to, part) in cases {
        let error = broken(&from, &to);
        assert!(error.starts_with("m.toml:") && error.contains(part), "{to}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

fn law() -> LicenseLaw {
    find("xeon-gold-6130").unwrap().frequency.unwrap().license.unwrap()
}

proptest! {
    /// Extra calls in between change nothing, so events may have any granularity.
    #[test]
    fn looking_changes_nothing(
        demands in prop::collection::vec((1_u64..2_000_000, 0_u8..3), 1..30),
        looks in prop::collection::vec(1_u64..2_000_000, 1..30),
    ) {
        let law = law();
        let (mut seldom, mut often) = (License::default(), License::default());
        let (mut now, mut look) = (0, 0);
        let mut looks = looks.iter().cycle();
        for (after, demand) in demands {
            let next = now + after;
            while look < next {
                if look > now {
                    often.pass(look, &law);
                }
                look += looks.next().unwrap();
            }
            now = next;
            seldom.demand(now, demand, &law);
            often.demand(now, demand, &law);
            prop_assert_eq!(seldom, often, "at {}", now);
        }
    }

    /// After two changes a level that is needed is there. When no thread needs any for long, none is left. And the next
    /// change that is announced is a change.
    #[test]
    fn what_is_needed_comes_and_goes(
        demands in prop::collection::vec((1_u64..2_000_000, 0_u8..3), 1..30),
    ) {
        let law = law();
        let step = law.throttle_ns + law.halt_ns;
        let mut license = License::default();
        let mut now = 0;
        for (after, demand) in demands {
            now += after;
            let mut next = license.demand(now, demand, &law);
            let mut settled = license;
            settled.pass(now + law.halt_ns + 3 * step, &law);
            prop_assert!(settled.level() >= demand, "{:?}", settled);
            for _ in 0..8 {
                let Some(at) = next else { break };
                let mut before = license;
                before.pass(at - 1, &law);
                license.pass(at, &law);
                prop_assert_ne!(before, license);
                prop_assert!(license.level() as usize <= before.level() as usize + 1, "a level at a time");
                next = license.pass(at, &law);
                now = now.max(at);
            }
        }
        license.demand(now, 0, &law);
        license.pass(now + 2 * law.release_ns + 10 * step, &law);
        prop_assert_eq!((license.level(), license.phase()), (0, Phase::Steady));
    }
}
