// SPDX-License-Identifier: GPL-2.0-only
//! Files and knobs that are nearly right: each is refused in one line, or runs as far as it can. Nothing panics, and
//! nothing runs for ever.

use std::path::Path;

use machine::Machine;
use policies::HONEST;
use policy::Instance;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use sim::{Scenario, Scheduler, run};
use workload::{Workload, rtapp};

const MS: u64 = 1_000_000;

/// The files of a folder of the repository.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, String)> = entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Replacements of a number, or of a word.
const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "3",
    "0.5",
    "1e-9",
    "1e9",
    "1e300",
    "-1e300",
    "nan",
    "inf",
    "64",
    "511",
    "513",
    "100000",
    "18446744073709551615",
    "9223372036854775808",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "true",
    "null",
];

/// An editing mistake in a file.
#[derive(Clone, Debug)]
enum Slip {
    /// A number or a word becomes another value.
    Value(Index, &'static str),
    /// A number is multiplied by this.
    Scaled(Index, f64),
    /// A line is lost.
    Lost(Index),
    /// A line is duplicated.
    Twice(Index),
    /// Two lines change places.
    Swapped(Index, Index),
    /// The file ends early.
    Cut(Index),
}

fn slip() -> impl Strategy<Value = Slip> {
    prop_oneof![
        6 => (any::<Index>(), select(VALUES)).prop_map(|(at, value)| Slip::Value(at, value)),
        6 => (any::<Index>(), -6..6i32).prop_map(|(at, by)| Slip::Scaled(at, 10f64.powi(by))),
        1 => any::<Index>().prop_map(Slip::Lost),
        1 => any::<Index>().prop_map(Slip::Twice),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Slip::Swapped(a, b)),
        1 => any::<Index>().prop_map(Slip::Cut),
    ]
}

fn slipped(text: &str, slips: &[Slip]) -> String {
    slips.iter().fold(text.to_string(), |text, slip| {
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return text;
        }
        match slip {
            Slip::Value(at, value) => {
                return with_value(&text, *at, |_| true, |_| value.to_string());
            }
            Slip::Scaled(at, by) => {
                let scaled = |old: &str| (old.parse::<f64>().unwrap_or_default() * by).to_string();
                return with_value(&text, *at, |old| old.parse::<f64>().is_ok(), scaled);
            }
            Slip::Lost(at) => drop(lines.remove(at.index(lines.len()))),
            Slip::Twice(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at]);
            }
            Slip::Swapped(a, b) => {
                let (a, b) = (a.index(lines.len()), b.index(lines.len()));
                lines.swap(a, b);
            }
            Slip::Cut(at) => {
                let at = at.index(text.len());
                return text.chars().take(at).collect();
            }
        }
        lines.join("\n")
    })
}

/// Numbers and words that are values: behind `=`, `:`, `[` or `,`, outside of comments.
fn with_value(
    text: &str,
    at: Index,
    wanted: impl Fn(&str) -> bool,
    value: impl Fn(&str) -> String,
) -> String {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-\"".contains(&byte);
    let mut places = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        if !is_part(bytes[start]) {
            start += 1;
            continue;
        }
        let length = bytes[start..].iter().take_while(|byte| is_part(**byte)).count();
        let before = text[..start].trim_end().bytes().last();
        let is_value = before.is_some_and(|byte| b"=:[,".contains(&byte));
        if is_value && wanted(&text[start..start + length]) {
            places.push(start..start + length);
        }
        start += length;
    }
    match places.is_empty() {
        true => text.to_string(),
        false => {
            let place = at.get(&places).clone();
            let value = value(&text[place.clone()]);
            format!("{}{value}{}", &text[..place.start], &text[place.end..])
        }
    }
}

fn is_one_line(message: &str) -> Result<(), TestCaseError> {
    // The part of the file that a parser shows is below its first line.
    prop_assert!(!message.lines().next().unwrap_or_default().is_empty(), "{message:?}");
    Ok(())
}

fn some_tasks() -> Workload {
    let text = r#"{"global": {"duration": 1}, "tasks": {
        "hog": {"instance": 3, "loop": -1, "run": 5000},
        "nap": {"instance": 3, "loop": -1, "run": 300, "sleep": 1000},
        "timed": {"loop": -1, "run": 200, "timer": {"ref": "t", "period": 2000}}}}"#;
    rtapp::parse("some", text).unwrap()
}

/// Runs it for 20 simulated ms, whatever the result.
fn goes_on(machine: Machine, workload: Workload, instance: Instance, seed: u64) {
    let scheduler = Scheduler::Policy(instance);
    let mut scenario = Scenario { seed, ..Scenario::new(machine, workload, scheduler) };
    scenario.options.cap_ns = 20 * MS;
    if let Err(error) = run(&scenario) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

fn policy() -> impl Strategy<Value = Instance> {
    select(HONEST.as_slice()).prop_map(Instance::default)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn machines_that_are_nearly_right(
        of in any::<Index>(), slips in prop::collection::vec(slip(), 1..4), policy in policy(), seed: u64,
    ) {
        let files = files("machines", "toml");
        let (name, text) = of.get(&files);
        match Machine::from_toml(&slipped(text, &slips), name) {
            Ok(machine) => goes_on(machine, some_tasks(), policy, seed),
            Err(error) => is_one_line(&error.to_string())?,
        }
    }

    #[test]
    fn workloads_that_are_nearly_right(
        of in any::<Index>(), slips in prop::collection::vec(slip(), 1..4), policy in policy(), seed: u64,
    ) {
        let files = files("workloads", "json");
        let (name, text) = of.get(&files);
        match rtapp::parse(name, &slipped(text, &slips)) {
            Ok(workload) => goes_on(machine::find("phenom-2f4s").unwrap(), workload, policy, seed),
            Err(error) => is_one_line(&error.to_string())?,
        }
    }

    #[test]
    fn knobs_of_any_value(
        of in select(HONEST.as_slice()),
        knobs in prop::collection::vec((any::<Index>(), select(VALUES), select(&["", "s", "ms", "us", "ns"][..])), 1..4),
        seed: u64,
    ) {
        let knobs = knobs.iter().map(|(at, value, unit)| format!("{}={value}{unit}", at.get(of.knobs).name));
        let label = format!("{}:{}", of.name, knobs.collect::<Vec<_>>().join(","));
        match Instance::parse(&label, &HONEST) {
            Ok(instance) => goes_on(machine::find("phenom-2f4s").unwrap(), some_tasks(), instance, seed),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }
}
