// SPDX-License-Identifier: GPL-2.0-only
//! The contents of a cache that has room for all sets at once, with room to spare.
//!
//! Nothing is lost there, so the order of uses does not matter. Two rows a set are enough, and give bit for bit the
//! results of the list of [`Recency`](crate::recency::Recency).

use crate::group::{Group, SETS, rest};
use crate::row::Row;

/// Lines held of each set: those of the part that was used last, and those of older parts.
#[derive(Clone, Debug)]
pub(crate) struct Plenty<const N: usize> {
    held: Vec<[Row<N>; 2]>,
}

impl<const N: usize> Plenty<N> {
    /// For sets of numbers below this.
    pub fn new(sets: usize) -> Self {
        Plenty { held: vec![[Row::ZERO; 2]; sets] }
    }

    /// How many lines are there of each set of a group; never more than its lines.
    pub fn left(&self, group: &Group<N>) -> [Row<N>; SETS] {
        group.map(|(set, lines)| {
            let [newest, older] = self.held[set as usize];
            (newest + older).min(lines)
        })
    }

    /// The part `part` of each set of a group was used, at most all of it.
    pub fn used(&mut self, group: &Group<N>, part: f64) {
        for (set, lines) in group.iter().filter(|(_, lines)| !lines.is_zero()) {
            let [newest, older] = &mut self.held[*set as usize];
            *older = match part < 1.0 {
                true => rest(*newest + *older, 1.0 - part),
                false => Row::ZERO,
            };
            *newest = *lines * Row([part; N]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recency::Recency;

    proptest::proptest! {
        #[test]
        fn it_is_what_the_list_is_where_all_fits(
            turns in proptest::collection::vec((0_u32..9, 0_u32..9, 1_u32..=11), 1..200),
        ) {
            // In one column all sets fit into far less than the certain capacity, in the other just barely.
            let mut list = Recency::new([(1e6, 16.0), (300.0, 300.0)]);
            let mut plenty = list.clone();
            let lines = |set: u32| (set, Row([f64::from(set * set), f64::from(3 * set)]));
            let sum = |sets: u32| (0..sets).fold(Row::ZERO, |sum, set| sum + lines(set).1);
            proptest::prop_assert!(plenty.expect(9, sum(9), sum(9)));
            for (one, other, part) in turns {
                let group = [lines(one), lines(other), (0, Row::ZERO)];
                proptest::prop_assert_eq!(list.left(&group), plenty.left(&group));
                for list in [&mut list, &mut plenty] {
                    list.used(1, &group, f64::from(part) / 10.0);
                }
            }
        }
    }

    #[test]
    fn where_not_all_fits_there_is_a_list() {
        let mut list = Recency::new([(64.0, 64.0)]);
        assert!(!list.expect(3, Row([50.0]), Row([20.0])));
    }
}
