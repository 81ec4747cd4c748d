// SPDX-License-Identifier: GPL-2.0-only
//! Vector code: how wide, and programs that have some for a part of their time, or none.
//!
//! `"hw": {"vector": "avx512"}` of a task says what its work is; an event `"vector"` begins another phase.

use crate::json::{Error, Node};

/// What instructions a task's work is made of, as far as a core's clock depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vector {
    /// Scalar, 128-bit, or light 256-bit code.
    #[default]
    None,
    /// Heavy 256-bit code: `avx2`.
    Avx2,
    /// Heavy 512-bit code: `avx512`.
    Avx512,
}

impl Vector {
    const ALL: [(&'static str, Vector); 3] =
        [("none", Vector::None), ("avx2", Vector::Avx2), ("avx512", Vector::Avx512)];

    /// The license level that it needs.
    pub fn level(self) -> u8 {
        self as u8
    }

    /// As a workload's file writes it.
    pub fn name(self) -> &'static str {
        Vector::ALL[self as usize].0
    }

    pub(crate) fn parse(node: Node, key: &str) -> Result<Vector, Error> {
        let name = node.string(key)?;
        let found = Vector::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, vector)| *vector).ok_or_else(|| {
            node.error(format!("{key}: expected none, avx2 or avx512, found \"{name}\""))
        })
    }
}
