// SPDX-License-Identifier: GPL-2.0-only
//! A histogram of lengths of time.

use serde::{Deserialize, Serialize};

/// Sizes between a power of two and the next, and sizes in a part of the list.
const SIZES: usize = 64;
/// Binary digits of [`SIZES`]: lengths are distinguished to so many digits.
const DIGITS: u32 = SIZES.ilog2();

/// How many lengths of time there were of each size, to seven binary digits: within 1 %.
///
/// Empty parts of the list are not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(usize, u64)>", into = "Vec<(usize, u64)>")]
pub struct Lengths(Vec<Option<Box<[u64; SIZES]>>>);

/// The place of a length in the list of all sizes.
#[inline]
fn place(ns: u64) -> usize {
    let coarse = ns.checked_ilog2().unwrap_or(0).saturating_sub(DIGITS);
    coarse as usize * SIZES + (ns >> coarse) as usize
}

/// The middle of the lengths that have this place.
fn middle_ns(place: usize) -> u64 {
    let coarse = (place / SIZES).saturating_sub(1);
    let low = (place - coarse * SIZES) as u64;
    (low << coarse) + (1 << coarse) / 2
}

impl From<Lengths> for Vec<(usize, u64)> {
    fn from(lengths: Lengths) -> Self {
        lengths.sizes().collect()
    }
}

impl From<Vec<(usize, u64)>> for Lengths {
    fn from(sizes: Vec<(usize, u64)>) -> Self {
        let mut lengths = Lengths::default();
        sizes.into_iter().for_each(|(place, count)| lengths.add_at(place, count));
        lengths
    }
}

impl Lengths {
    /// Counts one more length of `ns`.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.add_at(place(ns), 1);
    }

    #[inline]
    fn add_at(&mut self, place: usize, count: u64) {
        let part = place / SIZES;
        if part >= self.0.len() {
            self.0.resize_with(part + 1, || None);
        }
        self.0[part].get_or_insert_with(|| Box::new([0; SIZES]))[place % SIZES] += count;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all lengths of another histogram.
    pub fn merge(&mut self, other: &Lengths) {
        other.sizes().for_each(|(place, count)| self.add_at(place, count));
    }

    /// Places and their counts, from short to long.
    fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        let parts = self.0.iter().enumerate();
        let there = parts.filter_map(|(part, sizes)| Some((part, sizes.as_ref()?)));
        let all = there.flat_map(|(part, sizes)| {
            sizes.iter().enumerate().map(move |(at, count)| (part * SIZES + at, *count))
        });
        all.filter(|(_, count)| *count > 0)
    }

    /// The least length that the part `at` of all lengths do not exceed, in ns; None if there is no length.
    pub fn quantile(&self, at: f64) -> Option<u64> {
        let all: u64 = self.sizes().map(|(_, count)| count).sum();
        let wanted = (at * all as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let mut up_to = self.sizes().map(|(place, count)| {
            seen += count;
            (place, seen)
        });
        up_to.find(|(_, seen)| *seen >= wanted).map(|(place, _)| middle_ns(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_within_one_percent_of_its_size() {
        for digits in 0..63 {
            for ns in [1u64 << digits, (1 << digits) + (1 << digits) / 3, (2 << digits) - 1] {
                let mut one = Lengths::default();
                one.add(ns);
                let size_ns = one.quantile(0.5).unwrap();
                assert!(size_ns.abs_diff(ns) <= ns / 100, "{ns}: {size_ns}");
            }
        }
    }

    #[test]
    fn places_rise_with_lengths() {
        let lengths = || (0..100_000u64).chain([1 << 20, 1 << 40, u64::MAX]);
        let places: Vec<usize> = lengths().map(place).collect();
        assert!(places.is_sorted());
        assert!((0..128).all(|ns| middle_ns(place(ns)) == ns));
    }

    #[test]
    fn quantiles_of_some_and_of_more() {
        let (mut some, mut more) = (Lengths::default(), Lengths::default());
        assert_eq!((some.is_empty(), some.quantile(0.5)), (true, None));
        (1..=50).for_each(|ns| some.add(ns));
        (51..=100).for_each(|ns| more.add(ns));
        some.merge(&more);
        let at = |part| some.quantile(part);
        assert_eq!([at(0.0), at(0.01), at(0.5), at(1.0)], [Some(1), Some(1), Some(50), Some(100)]);
    }
}
