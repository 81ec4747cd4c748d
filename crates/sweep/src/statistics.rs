// SPDX-License-Identifier: GPL-2.0-only
//! How sure a mean is, and what part of all differences a factor explains.

use std::num::NonZero;

use puruspe::invbetai;
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

impl Mean {
    /// Of independent values, such as one for each seed. None without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Mean::of_best(values, 1)
    }

    /// The same of the best of several means: the range is so wide that all of them lie in theirs with 95 % (Bonferroni).
    pub fn of_best(values: &[f64], of: usize) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / NonZero::new(count)?.get() as f64;
        if count == 1 {
            return Some(Mean { mean, low: None, high: None });
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        let half = student_t((count - 1) as f64, 0.025 / of.max(1) as f64) * error;
        Some(Mean { mean, low: Some(mean - half), high: Some(mean + half) })
    }

    /// The same of what these are logarithms of.
    #[must_use]
    pub fn exp(self) -> Self {
        Mean { mean: self.mean.exp(), low: self.low.map(f64::exp), high: self.high.map(f64::exp) }
    }

    /// Whether all that it may be is above this; of one value, nothing is known of that.
    pub fn is_above(&self, bound: f64) -> bool {
        self.low.is_some_and(|low| low > bound)
    }
}

/// Parts of the differences between cells that groups of them explain, beyond what chance would.
#[derive(Debug)]
pub struct Explained {
    /// Values of each cell, by seed.
    cells: Vec<Vec<f64>>,
    chance: Chance,
}

/// What is taken for chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// The differences of an effect between seeds, which all cells have in common.
    Seeds,
    /// What an effect leaves unexplained: cells are drawn, and differ in more than it.
    Rest,
}

/// Groups of cells, with the number of cells in each and their mean.
type Groups = Vec<(f64, f64)>;

impl Explained {
    /// Of these cells' values, by seed.
    pub fn new(cells: Vec<Vec<f64>>, chance: Chance) -> Self {
        Explained { cells, chance }
    }

    /// The part that the means of groups explain: 0 to 1. `of` has the group of each cell.
    pub fn by(&self, of: &[usize]) -> f64 {
        let effect = |values: &[f64]| {
            let (mean, groups) = (mean(values), means(of, values));
            groups.iter().map(|(_, own)| own - mean).collect::<Vec<f64>>()
        };
        let counts = means(of, &self.values());
        let freedom = counts.len().saturating_sub(1);
        self.part(&effect, &counts, freedom, counts.len()).unwrap_or(0.0)
    }

    /// The part that two factors explain together, beyond both alone. None: they are confounded, or too few cells tell.
    pub fn by_both(&self, one: &[usize], other: &[usize]) -> Option<f64> {
        let wide = other.iter().max().map_or(0, |last| last + 1);
        let pairs: Vec<usize> = one.iter().zip(other).map(|(a, b)| a * wide + b).collect();
        let effect = |values: &[f64]| {
            let (mean, ones, others) = (mean(values), means(one, values), means(other, values));
            let beyond = |(pair, (count, own)): (usize, (f64, f64))| match count > 0.0 {
                true => own - (ones[pair / wide].1 + others[pair % wide].1 - mean),
                false => 0.0,
            };
            means(&pairs, values).into_iter().enumerate().map(beyond).collect::<Vec<f64>>()
        };
        let counts = means(&pairs, &self.values());
        let occupied = counts.iter().filter(|(count, _)| *count > 0.0).count();
        let alone = means(one, &self.values()).len() + wide - 1;
        let freedom = occupied.checked_sub(alone).filter(|freedom| *freedom > 0)?;
        self.part(&effect, &counts, freedom, occupied)
    }

    /// The mean of each cell over seeds.
    fn values(&self) -> Vec<f64> {
        self.cells.iter().map(|cell| mean(cell)).collect()
    }

    /// An effect's part of the sum of squares, without what chance makes of it. `freedom` has its degrees of freedom;
    /// `parameters` those of all means that it rests on.
    fn part(
        &self,
        effect: &dyn Fn(&[f64]) -> Vec<f64>,
        groups: &Groups,
        freedom: usize,
        parameters: usize,
    ) -> Option<f64> {
        let values = self.values();
        let middle = mean(&values);
        let total: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
        if total <= 0.0 {
            return Some(0.0);
        }
        let sum = |effect: &[f64]| -> f64 {
            groups.iter().zip(effect).map(|((count, _), by)| count * by.powi(2)).sum()
        };
        let own = effect(&values);
        let squares = sum(&own);
        let by_chance = match self.chance {
            Chance::Rest => {
                let rest = values.len().checked_sub(parameters).filter(|rest| *rest > 0)?;
                freedom as f64 * (total - squares).max(0.0) / rest as f64
            }
            Chance::Seeds => {
                let seeds = self.cells.first().map_or(0, Vec::len);
                let of_seed = |seed: usize| {
                    let values: Vec<f64> = self.cells.iter().map(|cell| cell[seed]).collect();
                    let apart: Vec<f64> =
                        effect(&values).iter().zip(&own).map(|(one, mean)| one - mean).collect();
                    sum(&apart)
                };
                match seeds {
                    0 | 1 => 0.0,
                    seeds => (0..seeds).map(of_seed).sum::<f64>() / (seeds * (seeds - 1)) as f64,
                }
            }
        };
        Some(((squares - by_chance) / total).clamp(0.0, 1.0))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The number of cells of each group, and their mean.
fn means(of: &[usize], values: &[f64]) -> Groups {
    let mut groups = vec![(0.0, 0.0); of.iter().max().map_or(0, |last| last + 1)];
    for (group, value) in of.iter().zip(values) {
        groups[*group].0 += 1.0;
        groups[*group].1 += value;
    }
    groups.iter().map(|(count, sum)| (*count, sum / f64::max(*count, 1.0))).collect()
}

/// What a variable of Student's distribution exceeds with this probability, below one half.
fn student_t(degrees: f64, probability: f64) -> f64 {
    let x = invbetai(2.0 * probability, degrees / 2.0, 0.5);
    (degrees * (1.0 - x) / x).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mean_of_five_lies_within_students_t() {
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let half = 2.776 * (2.5_f64 / 5.0).sqrt();
        assert!((mean.low.unwrap() - (3.0 - half)).abs() < 1e-3 && mean.mean == 3.0);
        assert!(mean.is_above(1.0) && !mean.is_above(1.1));
        assert_eq!(Mean::of(&[7.0]).unwrap().low, None);
        assert_eq!(Mean::of(&[]), None);
    }

    /// Against tables of the distribution; for two degrees it has a closed form.
    #[test]
    fn students_t_is_that_of_the_tables() {
        for (degrees, t) in
            [(1.0, 12.706), (2.0, 4.303), (9.0, 2.262), (30.0, 2.042), (1000.0, 1.962)]
        {
            let own = student_t(degrees, 0.025);
            assert!((own - t).abs() < 1e-3, "{degrees}: {own}");
        }
        for probability in [0.4, 0.025, 0.025 / 10.0, 0.025 / 1000.0] {
            let inner: f64 = 1.0 - 2.0 * probability;
            let t = inner * (2.0 / (1.0 - inner * inner)).sqrt();
            let own = student_t(2.0, probability);
            assert!((own / t - 1.0).abs() < 1e-6, "{probability}: {own}, {t}");
        }
    }

    /// The more means there are, the farther the best of them is from its own by chance.
    #[test]
    fn the_best_of_many_has_a_wider_range() {
        let values = [1.0, 2.0, 3.0];
        let wide = |of: usize| {
            let mean = Mean::of_best(&values, of).unwrap();
            mean.high.unwrap() - mean.low.unwrap()
        };
        assert!(wide(1) < wide(2) && wide(2) < wide(100));
    }

    /// A grid of 3 × 4 cells with known effects.
    #[test]
    fn parts_are_those_of_an_analysis_of_variance() {
        let (mut cells, mut one, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for a in 0..3 {
            for b in 0..4 {
                let both = if (a, b) == (0, 0) { 6.0 } else { 0.0 };
                cells.push(vec![f64::from(a) * 4.0 + both]);
                one.push(a as usize);
                other.push(b as usize);
            }
        }
        let explained = Explained::new(cells, Chance::Seeds);
        // Sums of squares by hand: 113 in all.
        let both = explained.by_both(&one, &other).unwrap();
        let parts = [explained.by(&one), explained.by(&other), both];
        for (part, squares) in parts.iter().zip([86.0, 9.0, 18.0]) {
            assert!((part - squares / 113.0).abs() < 1e-12, "{parts:?}");
        }
    }

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    /// Values of a knob that does nothing repeat each other's noise, however many there are.
    #[test]
    fn a_factor_that_copies_its_cells_explains_nothing() {
        let mut random = Pcg64::seed_from_u64(1);
        for copies in [2, 12] {
            let (mut sum, draws) = (0.0, 200);
            for _ in 0..draws {
                let noise: Vec<Vec<f64>> = (0..3)
                    .map(|_| (0..5).map(|_| random.random_range(-1.0..1.0)).collect())
                    .collect();
                let cells: Vec<Vec<f64>> =
                    (0..3 * copies).map(|at| noise[at % 3].clone()).collect();
                let of: Vec<usize> = (0..3 * copies).map(|at| at / 3).collect();
                sum += Explained::new(cells, Chance::Seeds).by(&of);
            }
            assert!(sum / f64::from(draws) < 0.01, "{copies}: {sum}");
        }
    }

    #[test]
    fn what_is_confounded_or_told_by_too_few_is_not_told() {
        let cells: Vec<Vec<f64>> = (0..8).map(|at| vec![f64::from(at)]).collect();
        let explained = Explained::new(cells, Chance::Rest);
        let each: Vec<usize> = (0..8).collect();
        assert_eq!(explained.by(&each), 0.0, "a group for each cell");
        let halves: Vec<usize> = (0..8).map(|at| at / 4).collect();
        assert_eq!(explained.by_both(&halves, &halves), None);
        assert!(explained.by(&halves) > 0.6);
    }

    proptest! {
        /// What chance alone makes is no effect.
        #[test]
        fn noise_explains_little(seed in 0_u64..1000) {
            let mut random = Pcg64::seed_from_u64(seed);
            let cells: Vec<Vec<f64>> = (0..200).map(|_| vec![random.random_range(-1.0..1.0)]).collect();
            let groups: Vec<usize> = (0..200).map(|at| at % 4).collect();
            prop_assert!(Explained::new(cells, Chance::Rest).by(&groups) < 0.15);
        }
    }
}
