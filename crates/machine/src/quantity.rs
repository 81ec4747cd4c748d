// SPDX-License-Identifier: GPL-2.0-only
//! A number with its unit and where it comes from.

use serde::Deserialize;

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// Stated by the source.
    Sourced,
    /// Computed from what the source states.
    Derived,
    /// Measured by us, the way the source says.
    Measured,
    /// Nobody states it: a guess, whose range says how wide.
    Assumed,
}

/// A number, the range it may lie in, its unit and its source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity<T = f64> {
    /// What is used unless a sweep says otherwise.
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

fn none() -> Option<[f64; 2]> {
    None
}
