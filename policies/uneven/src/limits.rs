// SPDX-License-Identifier: GPL-2.0-only
//! Limits of a problem.

/// The most core types; a set of them is a bit mask, and every subset of it is examined.
pub const TYPES_MAX: usize = 8;
/// No core is more than this many times as fast as another of the same machine.
pub const SPEED_MAX: f64 = 100.0;
