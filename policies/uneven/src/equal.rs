// SPDX-License-Identifier: GPL-2.0-only
//! Equal progress: every task at one level relative to a slow or a fast core (slide 28; Van
//! Craeynest and others, PACT'13).
//!
//! With two core types f = clamp((L b - 1) / (s - 1)) for a level L and the base's speed b. The
//! fast time that all tasks need together is piecewise linear in L, so L is found exactly by
//! walking the pieces' ends.

use crate::problem::Base;
use crate::start::{Least, Start, rows};
use crate::{Error, prices};

/// A speedup this small needs no share: it would have no visible effect.
const NO_SPEEDUP: f64 = 1e-9;

/// The fairest shares against the problem's base: even shares for max-fair.
pub(crate) fn fairest(start: &Start) -> Result<Vec<Vec<f64>>, Error> {
    match (start.problem.base, start.problem.types()) {
        (Base::MaxFair, _) | (_, 1) => Ok(start.even.clone()),
        (_, 2) => Ok(rows(two_types(start))),
        _ => prices::fairest(start),
    }
}

/// L: the greatest level that every task can reach.
pub(crate) fn level(start: &Start) -> Result<f64, Error> {
    match start.problem.types() {
        1 => Ok(least(start, &start.even)),
        2 => Ok(least(start, &rows(two_types(start)))),
        _ => prices::level(start),
    }
}

fn least(start: &Start, shares: &[Vec<f64>]) -> f64 {
    let levels = start.free().map(|task| start.cautious(task, &shares[task]));
    levels.fold(f64::INFINITY, f64::min)
}

/// A task whose fast share depends on the level.
struct Piece {
    task: usize,
    /// (s - 1): speed gained for each unit of fast share.
    gain: f64,
    /// Its least and greatest fast share.
    bounds: (f64, f64),
}

impl Piece {
    fn level(&self, start: &Start, fast: f64) -> f64 {
        (1.0 + self.gain * fast) / start.cautious_base[self.task]
    }

    fn fast(&self, start: &Start, level: f64) -> f64 {
        let wanted = (level * start.cautious_base[self.task] - 1.0) / self.gain;
        wanted.clamp(self.bounds.0, self.bounds.1)
    }

    /// Fast time for each unit of level.
    fn slope(&self, start: &Start) -> f64 {
        start.cpu[self.task] * start.cautious_base[self.task] / self.gain
    }
}

fn two_types(start: &Start) -> Vec<f64> {
    let mut fast: Vec<f64> = start.even.iter().map(|row| row[0]).collect();
    let budget: f64 = start.free().map(|task| start.cpu[task] * fast[task]).sum();
    let mut pieces = Vec::new();
    for task in start.free() {
        let gain = start.problem.tasks[task].cautious()[0] - 1.0;
        let bounds = (start.least(task, 0, Least::Nothing), start.most(task));
        fast[task] = bounds.0;
        if gain > NO_SPEEDUP {
            pieces.push(Piece { task, gain, bounds });
        }
    }
    let used =
        |fast: &[f64]| -> f64 { start.free().map(|task| start.cpu[task] * fast[task]).sum() };
    let level = walk(start, &pieces, budget - used(&fast));
    pieces.iter().for_each(|piece| fast[piece.task] = piece.fast(start, level));
    let rest = budget - used(&fast);
    settle(start, &mut fast, rest);
    fast
}

/// The level at which this much more fast time is used than at the lowest level.
fn walk(start: &Start, pieces: &[Piece], mut left: f64) -> f64 {
    let mut ends: Vec<(f64, f64)> = Vec::with_capacity(2 * pieces.len());
    for piece in pieces {
        let slope = piece.slope(start);
        ends.push((piece.level(start, piece.bounds.0), slope));
        ends.push((piece.level(start, piece.bounds.1), -slope));
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut level, mut slope) = (ends.first().map_or(1.0, |end| end.0), 0.0);
    for (end, change) in ends {
        let taken = slope * (end - level);
        if taken >= left && slope > 0.0 {
            return level + left / slope;
        }
        left -= taken;
        (level, slope) = (end, slope + change);
    }
    level
}

/// Gives the rest (or takes what rounding gave too much) where it matters least.
fn settle(start: &Start, fast: &mut [f64], mut rest: f64) {
    let mut order = start.by_gain();
    order.reverse();
    for task in order {
        let bounds = (start.least(task, 0, Least::Nothing), start.most(task));
        let now = (fast[task] + rest / start.cpu[task]).clamp(bounds.0, bounds.1);
        rest -= (now - fast[task]) * start.cpu[task];
        fast[task] = now;
    }
}
