// SPDX-License-Identifier: GPL-2.0-only
//! Sets of lines (or pages) that are used together.

use crate::row::Row;

/// Sets of a group.
pub(crate) const SETS: usize = 3;

/// Sets that are used together, and their lines; a set without lines is not used.
pub type Group<const N: usize> = [(u32, Row<N>); SETS];

/// Lines of a set below which it counts as empty.
pub(crate) const NOTHING: f64 = 0.01;

/// The part `part` of lines; less than [`NOTHING`] is 0.
pub(crate) fn rest<const N: usize>(lines: Row<N>, part: f64) -> Row<N> {
    Row(lines.0.map(|lines| if lines * part < NOTHING { 0.0 } else { lines * part }))
}

/// Lines of all sets of a group.
pub(crate) fn lines_of<const N: usize>(group: &Group<N>) -> Row<N> {
    let [(_, a), (_, b), (_, c)] = group;
    *a + *b + *c
}
