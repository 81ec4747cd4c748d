// SPDX-License-Identifier: GPL-2.0-only
//! Measurements of a machine beside its costs: for readers, and for later models. No run depends on them.

use serde::{Deserialize, Serialize};

use crate::quantity::Stated;

/// A number, or numbers by node, from node to node, or by size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// One.
    One(f64),
    /// A row of them.
    Row(Vec<f64>),
    /// A row for each row.
    Table(Vec<Vec<f64>>),
}

/// Some amount with its source; unknown where it could not be measured.
pub type Observation = Stated<Amount>;
