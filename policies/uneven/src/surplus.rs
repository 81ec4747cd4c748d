// SPDX-License-Identifier: GPL-2.0-only
//! Two core types: how much of the fast cores the guarantee takes, and which tasks get the rest, in
//! closed form.
//!
//! A task that gains more from a fast core also gains more relative to its base: (s-1)/(1+(s-1)F)
//! rises with s, against slow and fast cores alike. So the rest of the fast cores goes to the
//! greatest s first, each up to all of its time. It is the fractional knapsack, whose greedy
//! solution is optimal.

use crate::problem::Base;
use crate::start::{Least, Start, rows};
use crate::{Error, equal, prices};

/// Slack for rounding when a budget is compared with its contents, relative.
const ROUNDING: f64 = 1e-12;

/// f_req: the fast share that keeps a target T, for speedup s where the base has the fast share F
/// (slides 8 and 25): 1 + (s-1) f >= T (1 + (s-1) F).
pub fn required(s: f64, target: f64, base: f64) -> f64 {
    if s <= 1.0 {
        return if target <= 1.0 { 0.0 } else { f64::INFINITY };
    }
    (target * base - (1.0 - target) / (s - 1.0)).max(0.0)
}

/// The shares with the greatest gain of all tasks together that give each task what it must have.
/// Errors: a target that not every task can reach.
pub(crate) fn best(start: &Start, least: Least) -> Result<Vec<Vec<f64>>, Error> {
    match start.problem.types() {
        1 => Ok(start.even.clone()),
        2 => {
            let fast = need(start, least)?;
            Ok(rows(fill(start, fast)))
        }
        _ => prices::best(start, least),
    }
}

/// Fast shares that every task must have.
fn need(start: &Start, least: Least) -> Result<Vec<f64>, Error> {
    let mut fast: Vec<f64> = start.even.iter().map(|row| row[0]).collect();
    let (mut wanted, mut budget) = (0.0, 0.0);
    for task in start.free() {
        let even = fast[task];
        budget += start.cpu[task] * even;
        fast[task] = start.least(task, 0, least);
        if let Least::Targets(targets) = least {
            let base = match start.problem.base {
                Base::MaxFair => even,
                Base::SlowCore => 0.0,
                Base::FastCore => 1.0,
            };
            let s = start.problem.tasks[task].cautious()[0];
            fast[task] = fast[task].max(required(s, targets[task], base));
        }
        if fast[task] > start.most(task) + ROUNDING {
            return Err(Error::OutOfReach { best: equal::level(start)? });
        }
        wanted += start.cpu[task] * fast[task];
    }
    match wanted <= budget * (1.0 + ROUNDING) + ROUNDING {
        true => Ok(fast),
        false => Err(Error::OutOfReach { best: equal::level(start)? }),
    }
}

/// Hands out the rest of the fast cores, to the tasks that gain most first.
fn fill(start: &Start, mut fast: Vec<f64>) -> Vec<f64> {
    let order = start.by_gain();
    let left = |task: &usize| start.cpu[*task] * (start.even[*task][0] - fast[*task]);
    let mut left: f64 = order.iter().map(left).sum();
    for task in order {
        let cpu = start.cpu[task];
        let room = cpu * (start.most(task) - fast[task]);
        if left <= room {
            fast[task] += left.max(0.0) / cpu;
            break;
        }
        fast[task] = start.most(task);
        left -= room;
    }
    fast
}
