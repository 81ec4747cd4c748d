// SPDX-License-Identifier: GPL-2.0-only
//! What a kind of figure has to do, and how `[figure.measure]` names its kind.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use terminal::Failure;
use toml::Value;

use crate::kinds::KINDS;
use crate::measure::Laboratory;

/// How a figure is taken from runs. Its fields are the keys of `[figure.measure]` beside `kind`.
pub trait Kind: Debug + Send + Sync {
    /// Takes the figure, and has the laboratory run what it needs. Without values, nothing was measured.
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure>;

    /// Policies whose runs it is taken from: others need not run for it. None: all of them.
    fn policies(&self) -> Option<Vec<&str>> {
        None
    }

    /// The ground of its values, known before anything runs. The simulator unless it says otherwise.
    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting { ground: "sim", clock: Some(report::Clock::Simulated) })
    }
}

/// The values of a figure, and what is known about them.
#[derive(Clone, Debug, Default, Serialize, serde::Deserialize)]
pub struct Sample {
    /// One value for each boot, seed or point of a sweep.
    pub values: Vec<f64>,
    /// The value that each would have without costs; empty if not known.
    pub ideal: Vec<f64>,
    /// Points of a sweep that the figure needs and that did not end.
    pub missing: Vec<String>,
    /// Runs of a fault that were not survived, or of other people's schedulers that failed, and why.
    pub lost: Vec<String>,
}

impl From<Vec<f64>> for Sample {
    fn from(values: Vec<f64>) -> Self {
        Sample { values, ..Sample::default() }
    }
}

/// A ground, and the clock of its seconds.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in results.
    pub ground: &'static str,
    /// None: the figure counts no seconds of one clock.
    pub clock: Option<report::Clock>,
}

impl Setting {
    /// A ground without a clock.
    pub fn without_clock(ground: &'static str) -> Self {
        Setting { ground, clock: None }
    }
}

/// Reads a kind from its keys.
pub type Read = fn(toml::Table) -> Result<Box<dyn Kind>, toml::de::Error>;

/// Reads a kind of this type.
pub fn read<T: Kind + DeserializeOwned + 'static>(
    keys: toml::Table,
) -> Result<Box<dyn Kind>, toml::de::Error> {
    Ok(Box::new(keys.try_into::<T>()?))
}

/// `[figure.measure]`: how a figure is taken, and from what.
#[derive(Debug)]
pub struct Measure {
    /// How.
    pub kind: Box<dyn Kind>,
    /// The kind's name.
    name: &'static str,
    /// All texts of its keys, and the mixes of programs among them.
    texts: BTreeSet<String>,
    mixes: BTreeSet<String>,
}

impl Measure {
    /// What it is taken from, where `sections` are the names of the paper's sections: figures with one of these in common
    /// share runs.
    pub fn sources(&self, sections: &BTreeSet<String>) -> BTreeSet<String> {
        let named = self.texts.intersection(sections).cloned();
        let sources: BTreeSet<String> =
            named.chain(self.mixes.iter().map(|mix| format!("mix {mix}"))).collect();
        match sources.is_empty() {
            // All of the matrix's cells run at once.
            true => [self.name.trim_end_matches("-cost").to_string()].into(),
            false => sources,
        }
    }
}

/// All texts of a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Table(all) => all.iter().flat_map(|(_, value)| texts(value)).collect(),
        _ => Vec::new(),
    }
}

impl<'de> Deserialize<'de> for Measure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = toml::Table::deserialize(deserializer)?;
        let kind = keys.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let known = KINDS.iter().find(|(name, _)| kind.as_str() == Some(name));
        let Some((name, read)) = known else {
            let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(D::Error::custom(format!("no kind is called {kind}; there are: {known}")));
        };
        let mixes = keys.get("mixes").map_or(Vec::new(), texts).into_iter().collect();
        let texts = texts(&Value::Table(keys.clone())).into_iter().collect();
        let kind = read(keys)
            .map_err(|error| D::Error::custom(format!("kind {name}: {}", error.message())))?;
        Ok(Measure { kind, name, texts, mixes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "whether it can be read is the question")]
    struct Line {
        measure: Measure,
    }

    fn refusal(keys: &str) -> String {
        let line = format!("measure = {{ {keys} }}");
        toml::from_str::<Line>(&line).expect_err(&line).message().to_string()
    }

    /// Names between backticks.
    fn quoted(text: &str) -> BTreeSet<String> {
        text.split('`').skip(1).step_by(2).map(String::from).collect()
    }

    #[test]
    fn a_measure_names_a_kind_that_there_is() {
        assert!(refusal(r#"experiment = "a""#).contains("missing field `kind`"));
        let unknown = refusal(r#"kind = "medain""#);
        assert!(unknown.contains(r#"no kind is called "medain"; there are: ratio,"#), "{unknown}");
        assert!(refusal("kind = 3").contains("no kind is called 3"));
    }

    #[test]
    fn a_kind_refuses_keys_that_are_missing_or_not_its_own() {
        let missing = refusal(r#"kind = "makespan", of = "rr""#);
        assert_eq!(missing, "kind makespan: missing field `experiment`");
        let unknown = refusal(r#"kind = "makespan", of = "rr", experiment = "a", over = "b""#);
        assert!(unknown.contains("kind makespan: unknown field `over`"), "{unknown}");
    }

    /// A kind refuses an unknown key and names its own: those have to be in its row of the page.
    #[test]
    fn the_page_has_each_kind_with_its_keys() {
        let page = include_str!("../../../docs/src/reference/paper-files.md");
        let table = page.split_once("| `kind` | keys | value |").unwrap().1;
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells: Vec<Vec<&str>> = rows.map(|line| line.split('|').skip(1).collect()).collect();
        let on_page: Vec<String> = cells.iter().flat_map(|cells| quoted(cells[0])).collect();
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_page, known, "kinds, in the order of the page");
        for cells in &cells {
            let kind = quoted(cells[0]).pop_first().unwrap();
            let refused = refusal(&format!(r#"kind = "{kind}", no-key-of-any-kind = 1"#));
            let own = refused.split_once("expected").unwrap_or_else(|| panic!("{refused}")).1;
            assert_eq!(quoted(own), quoted(cells[1]), "{kind}");
        }
    }
}
