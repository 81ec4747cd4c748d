// SPDX-License-Identifier: GPL-2.0-only
//! Machines by name, and this machine described by measuring it: `paceline measure`, and `--machine this`.

mod check;
mod describe;
mod fit;
mod measurement;
mod names;
mod predict;
mod raw;

pub use measurement::{Check, Measurement, THIS};
pub use names::{core_types, find_machine, topology_here};
