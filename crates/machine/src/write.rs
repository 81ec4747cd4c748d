// SPDX-License-Identifier: GPL-2.0-only
//! Writes a machine as TOML, each number with its source, as [`crate::Machine::from_toml`] reads it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::costs::COSTS;
use crate::memory::MEMORY;
use crate::observed::{Amount, Observation};
use crate::places::Rows;
use crate::quantity::Stated;

/// The contents of a machine's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The argument of `--machine`.
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// Lines of comment at the top: when and how the file was made.
    pub preface: Vec<String>,
    /// The place of each CPU.
    pub cpus: Stated<Rows>,
    /// Work rate of each kind of core, relative to the fastest.
    pub kind_rates: Stated<Vec<f64>>,
    /// Distance of each node from each.
    pub node_distance: Stated<Vec<Vec<u32>>>,
    /// `queued` or `ticket`.
    pub lock: Stated<String>,
    /// By name, from [`crate::COSTS`].
    pub costs: BTreeMap<&'static str, Stated>,
    /// Lengths of kernel functions that differ on this machine, in instructions.
    pub paths: BTreeMap<String, Stated>,
    /// The same for sleeps and wakeups with delayed dequeueing.
    pub delayed: BTreeMap<String, Stated>,
    /// By name, from [`crate::MEMORY`].
    pub memory: BTreeMap<&'static str, Stated>,
    /// Other measurements.
    pub observed: BTreeMap<String, Observation>,
}

impl Description {
    /// The file's text.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# SPDX-License-Identifier: GPL-2.0-only\n");
        for line in &self.preface {
            let _ = writeln!(text, "# {}", line.replace(['\n', '\r'], " "));
        }
        let _ =
            writeln!(text, "\nname = {}\nsummary = {}", quoted(&self.name), quoted(&self.summary));
        text += "\n[places]\n";
        entry(&mut text, "cpus", &self.cpus);
        entry(&mut text, "kind_rates", &self.kind_rates);
        entry(&mut text, "node_distance", &self.node_distance);
        text += "\n[kernel]\n";
        entry(&mut text, "lock", &self.lock);
        // In the tables' own order, which keeps related costs together.
        let by_table = |names: &'static [crate::CostName], of: &BTreeMap<&'static str, Stated>| {
            let mut lines = String::new();
            for name in names {
                if let Some(stated) = of.get(name.name) {
                    entry(&mut lines, name.name, &rounded(stated));
                }
            }
            lines
        };
        text += &section("costs", by_table(COSTS, &self.costs));
        for (name, lengths) in [("paths", &self.paths), ("delayed", &self.delayed)] {
            let mut lines = String::new();
            lengths.iter().for_each(|(name, stated)| entry(&mut lines, name, &rounded(stated)));
            text += &section(name, lines);
        }
        text += &section("memory", by_table(MEMORY, &self.memory));
        let mut lines = String::new();
        for (name, observation) in &self.observed {
            let sound = observation.value.as_ref().is_none_or(all_finite);
            let written = match sound {
                true => Observation {
                    value: observation.value.as_ref().map(round_all),
                    range: observation.range.map(|ends| ends.map(round)),
                    ..observation.clone()
                },
                false => Stated::unknown(&observation.unit, "the measurement gave no number"),
            };
            entry(&mut lines, name, &written);
        }
        text += &section("observed", lines);
        text
    }
}

fn section(name: &str, lines: String) -> String {
    if lines.is_empty() { lines } else { format!("\n[{name}]\n{lines}") }
}

fn entry<T: Serialize>(text: &mut String, name: &str, stated: &Stated<T>) {
    let value = toml::Value::try_from(stated).expect("a quantity is plain data");
    let _ = writeln!(text, "{name} = {value}");
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// The quantity rounded for the file; a number that is not finite (a division by 0) becomes unknown.
fn rounded(stated: &Stated) -> Stated {
    let Some(value) = stated.value else { return stated.clone() };
    if !value.is_finite() {
        return Stated::unknown(&stated.unit, format!("not a number: {}", stated.source));
    }
    let value = round(value);
    // Rounding may move the value out of its own range.
    let range = stated.range.filter(|range| range.iter().all(|end| end.is_finite()));
    let range = range.map(|[low, high]| [round(low).min(value), round(high).max(value)]);
    Stated { value: Some(value), range, ..stated.clone() }
}

fn all_finite(amount: &Amount) -> bool {
    match amount {
        Amount::One(number) => number.is_finite(),
        Amount::Row(row) => row.iter().all(|number| number.is_finite()),
        Amount::Table(rows) => rows.iter().flatten().all(|number| number.is_finite()),
    }
}

fn round_all(amount: &Amount) -> Amount {
    let row = |row: &Vec<f64>| row.iter().map(|number| round(*number)).collect();
    match amount {
        Amount::One(number) => Amount::One(round(*number)),
        Amount::Row(numbers) => Amount::Row(row(numbers)),
        Amount::Table(rows) => Amount::Table(rows.iter().map(row).collect()),
    }
}

/// To four digits where there are decimals: no measurement here is better.
fn round(number: f64) -> f64 {
    if number == 0.0 {
        return 0.0;
    }
    let decimals = (3 - number.abs().log10().floor() as i32).clamp(0, 9);
    let factor = 10f64.powi(decimals);
    (number * factor).round() / factor
}
