// SPDX-License-Identifier: GPL-2.0-only
//! Knobs: a policy's settings, each with a name, a unit, a range and a default.

use std::fmt;
use std::time::Duration;

use crate::Variable;

/// One knob.
#[derive(Debug)]
pub struct Knob {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its variable, which has its default: one of [`built!`](crate::built), or of the control plane.
    pub variable: Variable,
    /// Format and range of its value.
    pub unit: Unit,
    /// Its effect, in a line.
    pub help: &'static str,
}

/// How a knob's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A time such as `50ms`, kept in ns. A dilated clock multiplies durations.
    Duration {
        /// Least allowed, in ns.
        min: u64,
        /// Most allowed, in ns.
        max: u64,
    },
    /// A time, or `off`. The value is 0 for `off`, else one more than the time in ns.
    DurationOrOff {
        /// Most allowed, in ns.
        max: u64,
    },
    /// A time slice, or `auto`, whose value is 0: it depends on the number of CPUs [`Instance::on`](crate::Instance::on).
    Slice {
        /// Least that a user may set, in ns.
        min: u64,
        /// Most allowed, in ns.
        max: u64,
    },
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Count {
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// A whole number, or `off`. The value is 0 for `off`, else one more than the number.
    CountOrOff {
        /// Most allowed.
        max: u64,
    },
    /// A number with up to six decimals, kept in millionths.
    Decimal {
        /// Least allowed, in millionths.
        min: u64,
        /// Most allowed, in millionths.
        max: u64,
    },
    /// One of these words; the value is its place in the list.
    Choice(&'static [&'static str]),
}

/// The error in a knob's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{knob}={value}: expected {expected}")]
pub struct KnobError {
    knob: &'static str,
    value: String,
    expected: String,
}

impl Knob {
    /// Reads a value as a user writes it.
    pub fn parse(&self, text: &str) -> Result<u64, KnobError> {
        let value = match self.unit {
            Unit::Slice { .. } if text == "auto" => Some(0),
            Unit::Duration { min, max } | Unit::Slice { min, max } => {
                ns(text).filter(|ns| (min..=max).contains(ns))
            }
            Unit::DurationOrOff { max } => match text {
                "off" => Some(0),
                _ => ns(text).filter(|ns| *ns <= max).map(|ns| ns + 1),
            },
            Unit::Switch => match text {
                "true" => Some(1),
                "false" => Some(0),
                _ => None,
            },
            Unit::Count { min, max } => text.parse().ok().filter(|n| (min..=max).contains(n)),
            Unit::CountOrOff { max } => match text {
                "off" => Some(0),
                _ => text.parse().ok().filter(|n: &u64| *n <= max).map(|n| n + 1),
            },
            Unit::Decimal { min, max } => {
                millionths(text).filter(|number| (min..=max).contains(number))
            }
            Unit::Choice(words) => words.iter().position(|word| *word == text).map(|n| n as u64),
        };
        value.ok_or_else(|| KnobError {
            knob: self.name,
            value: text.to_string(),
            expected: self.unit.to_string(),
        })
    }

    /// Writes a value as [`Knob::parse`] reads it.
    pub fn format(&self, value: u64) -> String {
        match self.unit {
            Unit::Slice { .. } if value == 0 => "auto".to_string(),
            Unit::Duration { .. } | Unit::Slice { .. } => duration(value),
            Unit::DurationOrOff { .. } => match value {
                0 => "off".to_string(),
                _ => duration(value - 1),
            },
            Unit::Switch => (value != 0).to_string(),
            Unit::Count { .. } => value.to_string(),
            Unit::CountOrOff { .. } => match value {
                0 => "off".to_string(),
                _ => (value - 1).to_string(),
            },
            Unit::Decimal { .. } => decimal(value),
            Unit::Choice(words) => words[value as usize].to_string(),
        }
    }
}

const MILLION: f64 = 1e6;

fn millionths(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (0.0..=1e9).contains(&number).then(|| (number * MILLION).round() as u64)
}

fn decimal(millionths: u64) -> String {
    (millionths as f64 / MILLION).to_string()
}

fn ns(text: &str) -> Option<u64> {
    u64::try_from(humantime::parse_duration(text).ok()?.as_nanos()).ok()
}

fn duration(ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(ns)).to_string().replace(' ', "")
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Unit::Duration { min, max } => {
                write!(out, "a time from {} to {}", duration(*min), duration(*max))
            }
            Unit::DurationOrOff { max } => write!(out, "off, or a time up to {}", duration(*max)),
            Unit::Slice { min, max } => {
                write!(out, "auto, or a time from {} to {}", duration(*min), duration(*max))
            }
            Unit::Switch => write!(out, "true or false"),
            Unit::Count { min, max } => write!(out, "a whole number from {min} to {max}"),
            Unit::CountOrOff { max } => write!(out, "off, or a whole number from 0 to {max}"),
            Unit::Decimal { min, max } => {
                write!(out, "a number from {} to {}", decimal(*min), decimal(*max))
            }
            Unit::Choice(words) => write!(out, "one of {}", words.join(", ")),
        }
    }
}
