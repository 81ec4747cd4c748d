// SPDX-License-Identifier: GPL-2.0-only
//! Differences of each policy from the first one, in words, from the figures.

use crate::figure::joules;
use crate::text::{count, digits, percent, time};
use crate::{Results, Spread, Summary};

/// A figure counts as different from this factor on, in either direction.
const FACTOR: f64 = 1.25;

/// How a sentence describes a figure.
#[derive(Clone, Copy)]
enum Kind {
    /// `38 % fewer switches`, `1.8 times as many switches`.
    Number,
    /// `38 % less CPU time`, `1.8 times as much CPU time`.
    Amount,
    /// `waits are 38 % shorter`, `waits are 1.8 times as long`.
    Length,
}

/// A figure of a summary: its kind, its name, the function that reads it and the function that shows it.
type Told = (Kind, &'static str, fn(&Summary) -> Option<Spread>, fn(f64) -> String);

const TOLD: &[Told] = &[
    (Kind::Number, "switches", |one| one.context_switches, count),
    (Kind::Number, "involuntary switches", |one| one.involuntary_switches, count),
    (Kind::Number, "switches of the address space", |one| one.address_space_switches, count),
    (Kind::Number, "migrations", |one| one.migrations, count),
    (Kind::Amount, "CPU time idle while tasks waited", |one| one.idle_while_runnable_s, time),
    (Kind::Length, "99 % of waits", |one| one.wait_p99_s, time),
    (Kind::Amount, "energy", |one| one.energy_j, joules),
    (Kind::Number, "cache misses", |one| one.cache_misses, count),
];

/// A sentence for each policy but the first.
pub fn sentences(results: &Results) -> Vec<String> {
    let Some((first, others)) = results.summary.split_first() else { return Vec::new() };
    others.iter().map(|one| sentence(one, first)).collect()
}

fn sentence(one: &Summary, first: &Summary) -> String {
    let told: Vec<String> = TOLD.iter().filter_map(|told| phrase(told, one, first)).collect();
    match told.is_empty() {
        true => format!("{} did nothing that differs by a quarter or more.", one.policy),
        false => format!("{}: {}.", one.policy, told.join("; ")),
    }
}

fn phrase((kind, what, value, show): &Told, one: &Summary, first: &Summary) -> Option<String> {
    let (own, of) = (value(one)?.median, value(first)?.median);
    let factor = own / of;
    if !factor.is_finite() || (1.0 / FACTOR..FACTOR).contains(&factor) {
        return None;
    }
    let (times, less) = (digits(factor), percent(1.0 - factor));
    let said = match (kind, factor > 1.0) {
        (Kind::Number, true) => format!("{times} times as many {what}"),
        (Kind::Number, false) => format!("{less} fewer {what}"),
        (Kind::Amount, true) => format!("{times} times as much {what}"),
        (Kind::Amount, false) => format!("{less} less {what}"),
        (Kind::Length, true) => format!("{what} are {times} times as long"),
        (Kind::Length, false) => format!("{what} are {less} shorter"),
    };
    Some(format!("{said} ({} for {})", show(own), show(of)))
}
