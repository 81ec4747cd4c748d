// SPDX-License-Identifier: GPL-2.0-only
//! Similar-min-fair: tasks that gain about as much from a fast core get the same of it (slide 9).
//!
//! Tasks are taken in the order of gain. A task with more than an even share is a leader. The tasks
//! that follow it and differ from it by no more than the similarity form a group with it, and share
//! evenly what all of them have. A group stops growing where its mean would break a task's
//! guarantee, which is possible with very different speeds near 1.

use crate::start::{Least, Start, dot};

/// Slack for rounding: decimal speeds that differ by exactly the similarity are similar.
const ROUNDING: f64 = 1e-9;

/// Evens out shares within groups of similar tasks; guarantees (`targets`) are kept.
pub(crate) fn even_out(start: &Start, shares: &mut [Vec<f64>], similarity: f64, targets: &[f64]) {
    let order = start.by_gain();
    let mut next = 0;
    while next < order.len() {
        let leader = order[next];
        let mut size = 1;
        if has_more_than_even(start, leader, &shares[leader]) {
            let (grown, mean) = grow(start, shares, similarity, targets, &order[next..]);
            size = grown;
            for task in &order[next..next + size] {
                shares[*task].clone_from(&mean);
            }
        }
        next += size;
    }
}

fn has_more_than_even(start: &Start, task: usize, shares: &[f64]) -> bool {
    let speeds = &start.problem.tasks[task].speeds;
    dot(speeds, shares) > dot(speeds, &start.even[task]) + ROUNDING
}

/// How many of these tasks share with the first, and what each gets.
fn grow(
    start: &Start,
    shares: &[Vec<f64>],
    similarity: f64,
    targets: &[f64],
    order: &[usize],
) -> (usize, Vec<f64>) {
    let leader = order[0];
    let mut mean = shares[leader].clone();
    let mut time = start.cpu[leader];
    for (size, task) in order.iter().enumerate().skip(1) {
        if !are_similar(start, leader, *task, similarity) {
            return (size, mean);
        }
        let part = start.cpu[*task] / (time + start.cpu[*task]);
        let both = mean.iter().zip(&shares[*task]);
        let wider: Vec<f64> = both.map(|(mean, own)| mean + (own - mean) * part).collect();
        let keeps = |member: &usize| keeps(start, *member, &wider, &shares[*member], targets);
        if !order[..=size].iter().all(keeps) {
            return (size, mean);
        }
        (mean, time) = (wider, time + start.cpu[*task]);
    }
    (order.len(), mean)
}

fn are_similar(start: &Start, leader: usize, task: usize, similarity: f64) -> bool {
    let speeds = |task: usize| &start.problem.tasks[task].speeds;
    let differ = speeds(leader).iter().zip(speeds(task)).map(|(a, b)| (a - b).abs());
    start.allowed[leader] == start.allowed[task]
        && differ.fold(0.0, f64::max) <= similarity + ROUNDING
}

/// Whether a member of a group that shares `mean` has all that it must have.
fn keeps(start: &Start, task: usize, mean: &[f64], own: &[f64], targets: &[f64]) -> bool {
    let hair = 1e-12; // its own shares are enough, whatever the last digit says
    let wanted = targets[task].min(start.cautious(task, own)) - hair;
    let floors = mean.iter().enumerate();
    start.cautious(task, mean) >= wanted
        && floors
            .into_iter()
            .all(|(number, part)| *part >= start.least(task, number, Least::Nothing) - hair)
}
