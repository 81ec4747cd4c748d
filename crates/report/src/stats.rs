// SPDX-License-Identifier: GPL-2.0-only
//! Order statistics of a few runs, and ratios of paired runs.

use serde::{Deserialize, Serialize};

/// Median and range of some runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Whether both ranges have a value in common.
    pub fn overlaps(&self, other: &Spread) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    /// None without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Spread {
            median: quantile(values, 0.5)?,
            min: quantile(values, 0.0)?,
            max: quantile(values, 1.0)?,
        })
    }
}

/// The `q` quantile (0 to 1), linear between neighbours: R's type 7. None without values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The median. None without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// `top / bottom` for each key that both have. Runs of one boot are compared with each other, so that a boot's effect
/// on all its runs cancels out. Pairs with a bottom of 0 are left out.
pub fn paired_ratios<K: PartialEq>(top: &[(K, f64)], bottom: &[(K, f64)]) -> Vec<f64> {
    top.iter()
        .filter_map(|(key, value)| {
            let (_, other) = bottom.iter().find(|(other, _)| other == key)?;
            (*other != 0.0).then(|| value / other)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_type_7() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(quantile(&values, 0.25), Some(2.0));
        assert_eq!(quantile(&values, 0.75), Some(4.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn only_runs_of_the_same_boot_are_paired() {
        let slow = [(0, 2.0), (1, 6.0), (2, 9.0)];
        let fast = [(1, 2.0), (0, 1.0), (3, 1.0)];
        assert_eq!(paired_ratios(&slow, &fast), vec![2.0, 3.0]);
        assert_eq!(paired_ratios(&slow, &[(0, 0.0)]), Vec::<f64>::new());
    }
}
