// SPDX-License-Identifier: GPL-2.0-only
//! Throughput, minimum fairness and uniformity (slide 5), of performance relative to the base.

/// The standard deviation that a uniformity uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deviation {
    /// Divided by n - 1: gives the numbers printed on slides 5 and 6.
    #[default]
    Sample,
    /// Divided by n.
    Population,
}

/// The value of a plan, as ratios to the base: 1 is as good as the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Mean of r.
    pub throughput: f64,
    /// Least r.
    pub min: f64,
    /// 1 - standard deviation / mean, with the sample's deviation; 1 is even.
    pub uniformity: f64,
    /// The same with the population's.
    pub uniformity_population: f64,
}

impl Metrics {
    /// The metrics of tasks' relative performance; there is at least one task.
    pub fn of(relative: &[f64]) -> Self {
        Metrics {
            throughput: mean(relative),
            min: relative.iter().copied().fold(f64::INFINITY, f64::min),
            uniformity: uniformity(relative, Deviation::Sample),
            uniformity_population: uniformity(relative, Deviation::Population),
        }
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn uniformity(relative: &[f64], deviation: Deviation) -> f64 {
    match mean(relative) {
        0.0 => 1.0, // no task has made progress yet
        mean => 1.0 - variance(relative, deviation).sqrt() / mean,
    }
}

pub(crate) fn variance(values: &[f64], deviation: Deviation) -> f64 {
    covariance(values, values, deviation)
}

/// The covariance of two values of each task; 0 for a single task.
pub(crate) fn covariance(a: &[f64], b: &[f64], deviation: Deviation) -> f64 {
    let divisor = match deviation {
        Deviation::Sample => a.len().saturating_sub(1),
        Deviation::Population => a.len(),
    };
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum: f64 = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum();
    sum / divisor.max(1) as f64
}
