// SPDX-License-Identifier: GPL-2.0-only
//! A policy with its knobs set, as a user named it.

use crate::{KnobError, Policy, Promises, Topology, Unit, find};

/// A policy with its knobs set.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The policy.
    pub policy: &'static Policy,
    /// Its name in results: the policy's name, and the knobs that are not at their default.
    pub label: String,
    /// One value for each of the policy's knobs.
    pub values: Vec<u64>,
}

/// Why `--policy` cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum InstanceError {
    #[error("no policy is called `{name}`; there are: {known}")]
    UnknownPolicy { name: String, known: String },
    #[error("policy {policy} has no knob `{name}`; it has: {known}")]
    UnknownKnob { policy: &'static str, name: String, known: String },
    #[error("policy {policy}: knob `{text}` has no value; write {text}=VALUE")]
    NoValue { policy: &'static str, text: String },
    #[error("policy {policy}: knob `{name}` is set twice; name it once")]
    Twice { policy: &'static str, name: &'static str },
    #[error("policy {policy}: {error}")]
    Value { policy: &'static str, error: KnobError },
}

impl Instance {
    /// The policy with every knob at its default.
    pub fn default(policy: &'static Policy) -> Self {
        let values = policy.knobs.iter().map(|knob| knob.variable.default).collect();
        Instance { policy, label: policy.name.to_string(), values }
    }

    /// Reads `name` or `name:knob=value,knob=value`.
    pub fn parse(text: &str, registry: &[&'static Policy]) -> Result<Self, InstanceError> {
        let (name, knobs) = text.split_once(':').unwrap_or((text, ""));
        let policy = find(name, registry)?;
        let mut instance = Instance::default(policy);
        let mut set = vec![false; policy.knobs.len()];
        for part in knobs.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| InstanceError::NoValue {
                policy: policy.name,
                text: part.to_string(),
            })?;
            let index = instance.index(name)?;
            let knob = &policy.knobs[index];
            if std::mem::replace(&mut set[index], true) {
                return Err(InstanceError::Twice { policy: policy.name, name: knob.name });
            }
            instance.values[index] = knob
                .parse(value)
                .map_err(|error| InstanceError::Value { policy: policy.name, error })?;
        }
        instance.label = instance.describe();
        Ok(instance)
    }

    /// The value of a knob; panics if the policy has none of this name.
    pub fn get(&self, knob: &str) -> u64 {
        let index = self.policy.knobs.iter().position(|k| k.name == knob);
        self.values[index.expect("a policy asks for its own knobs")]
    }

    /// The word that a knob is set to. None: the policy has no such knob, or it takes no words.
    pub fn choice(&self, knob: &str) -> Option<&'static str> {
        let (knob, value) =
            self.policy.knobs.iter().zip(&self.values).find(|(known, _)| known.name == knob)?;
        match knob.unit {
            Unit::Choice(words) => words.get(*value as usize).copied(),
            _ => None,
        }
    }

    /// The value of a decimal knob; panics if the policy has none of this name.
    pub fn decimal(&self, knob: &str) -> f64 {
        self.get(knob) as f64 / 1e6
    }

    /// The same instance with another value of a knob, as a user writes both.
    pub fn with(&self, knob: &str, value: &str) -> Result<Self, InstanceError> {
        let mut other = self.clone();
        let at = self.index(knob)?;
        other.values[at] = self.policy.knobs[at]
            .parse(value)
            .map_err(|error| InstanceError::Value { policy: self.policy.name, error })?;
        other.label = other.describe();
        Ok(other)
    }

    /// The value of a knob as a user writes it; None if the policy has none of this name.
    pub fn written(&self, knob: &str) -> Option<String> {
        let at = self.policy.knobs.iter().position(|known| known.name == knob)?;
        Some(self.policy.knobs[at].format(self.values[at]))
    }

    /// The same instance on a machine: a time slice that is `auto` is as long as its number of CPUs asks for.
    pub fn on(&self, topology: &Topology) -> Self {
        let mut own = self.clone();
        for (value, knob) in own.values.iter_mut().zip(self.policy.knobs) {
            if matches!(knob.unit, Unit::Slice { .. }) && *value == 0 {
                *value = slice_ns(topology.present());
            }
        }
        own
    }

    /// The same instance for a clock on which a CPU gets 1/`factor` of each second: durations are multiplied by
    /// `factor`. The label stays. A time slice that is `auto` has to be known before ([`Instance::on`]).
    pub fn dilated(&self, factor: u64) -> Self {
        let mut scaled = self.clone();
        for (value, knob) in scaled.values.iter_mut().zip(self.policy.knobs) {
            *value = match knob.unit {
                Unit::Duration { .. } | Unit::Slice { .. } => value.saturating_mul(factor),
                Unit::DurationOrOff { .. } if *value > 0 => (*value - 1).saturating_mul(factor) + 1,
                _ => *value,
            };
        }
        scaled
    }

    /// The promises of this variant.
    pub fn promises(&self) -> Promises {
        (self.policy.promises)(self)
    }

    fn index(&self, name: &str) -> Result<usize, InstanceError> {
        let knobs = self.policy.knobs;
        knobs.iter().position(|knob| knob.name == name).ok_or_else(|| InstanceError::UnknownKnob {
            policy: self.policy.name,
            name: name.to_string(),
            known: match knobs {
                [] => "none".to_string(),
                _ => knobs.iter().map(|knob| knob.name).collect::<Vec<_>>().join(", "),
            },
        })
    }

    fn describe(&self) -> String {
        let set: Vec<String> = self
            .policy
            .knobs
            .iter()
            .zip(&self.values)
            .filter(|(knob, value)| knob.variable.default != **value)
            .map(|(knob, value)| format!("{}={}", knob.name, knob.format(*value)))
            .collect();
        match set.is_empty() {
            true => self.policy.name.to_string(),
            false => format!("{}:{}", self.policy.name, set.join(",")),
        }
    }
}

/// A time slice that is `auto`: that of Linux's own class depends on the number of CPUs in the same way
/// (`get_update_sysctl_factor`). Else tasks would wait longer on few CPUs than under it. On one CPU a slice half as long
/// as on two costs `hackbench -g 10` 4 % of its time.
fn slice_ns(cpus: usize) -> u64 {
    750_000 * u64::from(1 + cpus.clamp(2, 8).ilog2())
}
