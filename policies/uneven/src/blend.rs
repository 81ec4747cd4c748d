// SPDX-License-Identifier: GPL-2.0-only
//! Uni-fair: as much of an unfair plan as a wanted uniformity allows, the rest fair. Exact.
//!
//! Relative performance is linear in the shares. So a blend of both plans by a has r = fair + a d
//! with d the difference. Its uniformity is U where var(r) = (1-U)² mean(r)²: a quadratic equation
//! in a. If every task is at 1 in the fair plan, that is a = (1-U) / (sd(d) - (1-U) mean(d)).

use crate::metrics::{Deviation, covariance, mean, uniformity, variance};
use crate::start::Start;

/// Shares between `fair` and `unfair`, as near to `unfair` as uniformity `wanted` allows.
pub(crate) fn to_uniformity(
    start: &Start,
    fair: &[Vec<f64>],
    unfair: Vec<Vec<f64>>,
    wanted: f64,
    deviation: Deviation,
) -> Vec<Vec<f64>> {
    let relative = |shares: &[Vec<f64>]| -> Vec<f64> {
        shares.iter().enumerate().map(|(task, row)| start.relative(task, row)).collect()
    };
    let (calm, wild) = (relative(fair), relative(&unfair));
    if uniformity(&wild, deviation) >= wanted {
        return unfair;
    }
    mix(fair, &unfair, part(&calm, &wild, wanted, deviation))
}

/// a: the part of `wild` at which the blend has the wanted uniformity; 0 if even `calm` does not
/// have it.
fn part(calm: &[f64], wild: &[f64], wanted: f64, deviation: Deviation) -> f64 {
    let change: Vec<f64> = calm.iter().zip(wild).map(|(calm, wild)| wild - calm).collect();
    let slack = (1.0 - wanted).powi(2);
    let (at, by) = (mean(calm), mean(&change));
    let square = variance(&change, deviation) - slack * by * by;
    let half = covariance(calm, &change, deviation) - slack * at * by;
    let constant = variance(calm, deviation) - slack * at * at;
    if constant >= 0.0 {
        return 0.0;
    }
    // constant < 0, and the sum at 1 is positive: one root lies between. This form does not cancel.
    let root = (half * half - square * constant).max(0.0).sqrt();
    let part = match half > 0.0 {
        true => -constant / (half + root),
        false if square > 0.0 => (root - half) / square,
        false => 1.0,
    };
    part.clamp(0.0, 1.0)
}

/// A blend of `fair` and the part `part` of `unfair`.
pub(crate) fn mix(fair: &[Vec<f64>], unfair: &[Vec<f64>], part: f64) -> Vec<Vec<f64>> {
    let row = |(fair, unfair): (&Vec<f64>, &Vec<f64>)| {
        fair.iter().zip(unfair).map(|(fair, unfair)| fair + part * (unfair - fair)).collect()
    };
    fair.iter().zip(unfair).map(row).collect()
}
