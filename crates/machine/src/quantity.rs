// SPDX-License-Identifier: GPL-2.0-only
//! A number with its unit and where it comes from.

use serde::{Deserialize, Serialize};

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// Stated by the source.
    Sourced,
    /// Computed from what the source states.
    Derived,
    /// Measured by us, the way the source says.
    Measured,
    /// No source states it: a guess, with a range that says how wide.
    Assumed,
    /// Not known: it could not be measured, and the source says why.
    Unknown,
}

/// A number, the range it may lie in, its unit and its source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, { value = …, unit = …, source = …, tag = … }")]
pub struct Quantity<T = f64> {
    /// The value used unless a sweep says otherwise.
    pub value: T,
    /// Least and most it may be.
    #[serde(default = "none")]
    pub range: Option<[f64; 2]>,
    /// Its unit.
    pub unit: String,
    /// Where it comes from: a paper, a manual, a kernel commit, a command.
    pub source: String,
    /// How far it can be trusted.
    pub tag: Tag,
}

/// A quantity that may be unknown: then it has no value, and its source says why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, { value = …, unit = …, source = …, tag = … }")]
pub struct Stated<T = f64> {
    /// As in [`Quantity`].
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// As in [`Quantity`].
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Its unit.
    pub unit: String,
    /// Where it comes from, or why it is not known.
    pub source: String,
    /// How far it can be trusted.
    pub tag: Tag,
}

impl<T> Stated<T> {
    /// A number of this tag, without a range.
    pub fn new(value: T, unit: &str, tag: Tag, source: impl Into<String>) -> Self {
        let (unit, source) = (unit.to_string(), source.into());
        Stated { value: Some(value), range: None, unit, source, tag }
    }

    /// A quantity that could not be measured, and why.
    pub fn unknown(unit: &str, why: impl Into<String>) -> Self {
        let (unit, source) = (unit.to_string(), why.into());
        Stated { value: None, range: None, unit, source, tag: Tag::Unknown }
    }

    /// The same, with the range it may lie in.
    #[must_use]
    pub fn within(mut self, range: [f64; 2]) -> Self {
        self.range = Some(range);
        self
    }

    /// The quantity, or None if it is unknown.
    ///
    /// # Errors
    /// A value and its tag contradict each other.
    pub fn known(self) -> Result<Option<Quantity<T>>, &'static str> {
        let Stated { value, range, unit, source, tag } = self;
        match (value, tag) {
            (None, Tag::Unknown) => Ok(None),
            (Some(_), Tag::Unknown) => Err("tag \"unknown\" is for numbers without a value"),
            (None, _) => Err("expected a value, or tag \"unknown\" with the reason as source"),
            (Some(value), tag) => Ok(Some(Quantity { value, range, unit, source, tag })),
        }
    }
}

fn none<T>() -> Option<T> {
    None
}
