// SPDX-License-Identifier: GPL-2.0-only
//! How sure a mean is, and what part of all differences a factor explains.

use serde::Serialize;

/// A mean, with the range in which it lies with 95 % where there is more than one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The least that it may be. None: from one value, nothing is known of chance.
    pub low: Option<f64>,
    /// The most that it may be.
    pub high: Option<f64>,
}

/// Student's t at 97.5 % by degrees of freedom, from 1; the last is for all above.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Mean {
    /// Of independent values, such as one for each seed. None without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count.checked_sub(1).map(|rest| rest + 1)? as f64;
        if count == 1 {
            return Some(Mean { mean, low: None, high: None });
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        let half = T[(count - 2).min(T.len() - 1)] * error;
        Some(Mean { mean, low: Some(mean - half), high: Some(mean + half) })
    }

    /// The same of what these are logarithms of.
    #[must_use]
    pub fn exp(self) -> Self {
        Mean { mean: self.mean.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp) }
    }

    /// Whether all that it may be is above this.
    pub fn is_above(&self, bound: f64) -> bool {
        self.low.unwrap_or(self.mean) > bound
    }
}

/// Parts of the differences between cells that groups of them explain.
#[derive(Debug)]
pub struct Explained {
    values: Vec<f64>,
    mean: f64,
    total: f64,
    /// The variance that a cell has by chance.
    noise: f64,
}

impl Explained {
    /// Of these cells' values, of which each has `noise` by chance (a variance). None: it is what these factors, the
    /// group of each cell, leave unexplained.
    pub fn new(values: Vec<f64>, noise: Option<f64>, factors: &[&[usize]]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let total = values.iter().map(|value| (value - mean).powi(2)).sum();
        let mut own = Explained { values, mean, total, noise: noise.unwrap_or(0.0) };
        if noise.is_none() {
            let squares: f64 = factors.iter().map(|of| own.by(of) * total).sum();
            let freedom: usize = factors.iter().map(|of| own.means(of).len() - 1).sum();
            let rest = own.values.len().saturating_sub(1 + freedom);
            own.noise = if rest > 0 { (total - squares).max(0.0) / rest as f64 } else { 0.0 };
        }
        own
    }

    /// The part that the means of groups explain, beyond chance: 0 to 1. `of` has the group of each cell.
    pub fn by(&self, of: &[usize]) -> f64 {
        let groups = self.means(of);
        let squares = groups.iter().map(|(count, mean)| *count * (mean - self.mean).powi(2)).sum();
        self.part(squares, groups.len().saturating_sub(1))
    }

    /// The part that two factors explain together, beyond both alone.
    pub fn by_both(&self, one: &[usize], other: &[usize]) -> f64 {
        let (ones, others) = (self.means(one), self.means(other));
        let wide = others.len();
        let pairs: Vec<usize> = one.iter().zip(other).map(|(a, b)| a * wide + b).collect();
        let mut squares = 0.0;
        let mut occupied = 0_usize;
        for (pair, (count, mean)) in self.means(&pairs).into_iter().enumerate() {
            if count > 0.0 {
                let expected = ones[pair / wide].1 + others[pair % wide].1 - self.mean;
                squares += count * (mean - expected).powi(2);
                occupied += 1;
            }
        }
        self.part(squares, (occupied + 1).saturating_sub(ones.len() + others.len()))
    }

    /// Without what chance would explain: `freedom` times the noise.
    fn part(&self, squares: f64, freedom: usize) -> f64 {
        match self.total > 0.0 {
            true => ((squares - freedom as f64 * self.noise) / self.total).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// The number of cells of each group, and their mean.
    fn means(&self, of: &[usize]) -> Vec<(f64, f64)> {
        let mut groups = vec![(0.0, 0.0); of.iter().max().map_or(0, |last| last + 1)];
        for (group, value) in of.iter().zip(&self.values) {
            groups[*group].0 += 1.0;
            groups[*group].1 += value;
        }
        groups.iter().map(|(count, sum)| (*count, sum / f64::max(*count, 1.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mean_of_five_lies_within_students_t() {
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let half = 2.776 * (2.5_f64 / 5.0).sqrt();
        assert!((mean.low.unwrap() - (3.0 - half)).abs() < 1e-12 && mean.mean == 3.0);
        assert!(mean.is_above(1.0) && !mean.is_above(1.1));
        assert_eq!(Mean::of(&[7.0]).unwrap().low, None);
        assert_eq!(Mean::of(&[]), None);
    }

    /// A grid of 3 × 4 cells with known effects.
    #[test]
    fn parts_are_those_of_an_analysis_of_variance() {
        let (mut values, mut one, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for a in 0..3 {
            for b in 0..4 {
                let both = if (a, b) == (0, 0) { 6.0 } else { 0.0 };
                values.push(f64::from(a) * 4.0 + both);
                one.push(a as usize);
                other.push(b as usize);
            }
        }
        let explained = Explained::new(values, Some(0.0), &[]);
        // Sums of squares by hand: 113 in all.
        let parts = [explained.by(&one), explained.by(&other), explained.by_both(&one, &other)];
        for (part, squares) in parts.iter().zip([86.0, 9.0, 18.0]) {
            assert!((part - squares / 113.0).abs() < 1e-12, "{parts:?}");
        }
    }

    proptest! {
        /// What chance alone makes is no effect.
        #[test]
        fn noise_explains_little(seed in 0_u64..1000) {
            use rand::{RngExt, SeedableRng};
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            let values: Vec<f64> = (0..200).map(|_| random.random_range(-1.0..1.0)).collect();
            let groups: Vec<usize> = (0..200).map(|at| at % 4).collect();
            let explained = Explained::new(values, None, &[&groups]);
            prop_assert!(explained.by(&groups) < 0.15);
        }
    }
}
