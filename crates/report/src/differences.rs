// SPDX-License-Identifier: GPL-2.0-only
//! What each policy did differently from the first one, in words that the figures give.

use crate::text::{count, digits, percent, time};
use crate::{Results, Spread, Summary};

/// A figure counts as different from this factor on, in either direction.
const FACTOR: f64 = 1.25;

/// A figure of a summary, and how a sentence speaks of it.
struct Told {
    of: fn(&Summary) -> Option<Spread>,
    /// `38 % fewer switches` or `1.8 times as many switches`; else `waits are 1.8 times as long`.
    counted: bool,
    what: &'static str,
    show: fn(f64) -> String,
}

const TOLD: &[Told] = &[
    Told { of: |one| one.context_switches, counted: true, what: "switches", show: count },
    Told {
        of: |one| one.involuntary_switches,
        counted: true,
        what: "involuntary switches",
        show: count,
    },
    Told {
        of: |one| one.address_space_switches,
        counted: true,
        what: "switches of the address space",
        show: count,
    },
    Told { of: |one| one.migrations, counted: true, what: "migrations", show: count },
    Told {
        of: |one| one.idle_while_runnable_s,
        counted: true,
        what: "CPU time idle while tasks waited",
        show: time,
    },
    Told { of: |one| one.wait_p99_s, counted: false, what: "99 % of waits", show: time },
    Told { of: |one| one.cache_misses, counted: true, what: "cache misses", show: count },
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

fn phrase(told: &Told, one: &Summary, first: &Summary) -> Option<String> {
    let (own, of) = ((told.of)(one)?.median, (told.of)(first)?.median);
    let factor = own / of;
    let shown = format!("{} for {}", (told.show)(own), (told.show)(of));
    let (what, is_more) = (told.what, factor > 1.0);
    match () {
        () if !factor.is_finite() || (1.0 / FACTOR..FACTOR).contains(&factor) => None,
        () if told.counted && is_more => Some(
            format!("{} times as many {what} ({shown})", digits(factor))
                .replace("many CPU", "much CPU"),
        ),
        () if told.counted => Some(
            format!("{} fewer {what} ({shown})", percent(1.0 - factor))
                .replace("fewer CPU", "less CPU"),
        ),
        () if is_more => Some(format!("{what} are {} times as long ({shown})", digits(factor))),
        () => Some(format!("{what} are {} shorter ({shown})", percent(1.0 - factor))),
    }
}
