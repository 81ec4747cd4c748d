// SPDX-License-Identifier: GPL-2.0-only
//! The figures of a summary. The terminal and the page take each figure from here, so both show the same statistic:
//! that of the JSON's `summary`.

use crate::text::{count, digits, known, percent, time};
use crate::{Results, Spread, Summary};

/// A measure of one policy, over all of its runs.
pub struct Figure {
    /// Its column in the terminal.
    pub heading: &'static str,
    /// Its column on the page, where there is more room.
    pub long: &'static str,
    statistic: Statistic,
    show: fn(f64) -> String,
}

/// Which statistic of all runs is shown.
enum Statistic {
    /// The median; the page adds the range.
    Median(fn(&Summary) -> Option<Spread>),
    /// The greatest of all runs; it has no range.
    Greatest(fn(&Summary) -> Option<f64>),
}

/// The scheduler's behaviour, in the order of its columns.
const BEHAVIOUR: &[Figure] = &[
    Figure::counted("switches", "switches", |one| one.context_switches),
    Figure::counted("involuntary", "involuntary", |one| one.involuntary_switches),
    Figure::counted("mm switches", "address-space switches", |one| one.address_space_switches),
    Figure::counted("migrations", "migrations", |one| one.migrations),
    Figure {
        heading: "wait p99",
        long: "wait p99",
        statistic: Statistic::Median(|one| one.wait_p99_s),
        show: time,
    },
    Figure {
        heading: "worst wait",
        long: "worst wait",
        statistic: Statistic::Greatest(|one| one.worst_wait_s),
        show: time,
    },
];

/// Energy, of machines that count it.
const ENERGY: Figure = Figure {
    heading: "energy",
    long: "energy",
    statistic: Statistic::Median(|one| one.energy_j),
    show: joules,
};

/// The columns of a comparison's behaviour: energy stands there where any run has it.
pub fn columns(results: &Results) -> Vec<&'static Figure> {
    let has_energy = results.summary.iter().any(|one| one.energy_j.is_some());
    BEHAVIOUR.iter().chain(has_energy.then_some(&ENERGY)).collect()
}

/// `12.3 J`.
pub fn joules(energy_j: f64) -> String {
    format!("{} J", digits(energy_j))
}

impl Figure {
    const fn counted(
        heading: &'static str,
        long: &'static str,
        of: fn(&Summary) -> Option<Spread>,
    ) -> Self {
        Figure { heading, long, statistic: Statistic::Median(of), show: count }
    }

    /// The figure alone, for a narrow column.
    pub fn shown(&self, summary: &Summary) -> String {
        match self.statistic {
            Statistic::Median(of) => known(of(summary), |spread| (self.show)(spread.median)),
            Statistic::Greatest(of) => known(of(summary), self.show),
        }
    }

    /// The figure with the range of the runs, if it has one.
    pub fn with_range(&self, summary: &Summary) -> String {
        match self.statistic {
            Statistic::Median(of) => with_range(of(summary), self.show),
            Statistic::Greatest(_) => self.shown(summary),
        }
    }
}

/// A median with its range, if runs differ.
pub fn with_range(spread: Option<Spread>, show: fn(f64) -> String) -> String {
    known(spread, |spread| match spread.min == spread.max {
        true => show(spread.median),
        false => format!("{} ({} – {})", show(spread.median), show(spread.min), show(spread.max)),
    })
}

/// A policy's elapsed time as a multiple of the first policy's: the median of the runs' own ratios, with their range if
/// they differ.
pub fn against_first(summary: &Summary) -> String {
    let Some(ratio) = summary.vs_first else { return known(None, digits) };
    let between = summary.vs_first_range.map(|ratio| range(ratio.min, ratio.max));
    format!("{}×{}", digits(ratio), between.unwrap_or_default())
}

/// ` (0.69–0.73)` behind a ratio; empty if both ends are the same.
pub fn range(least: f64, greatest: f64) -> String {
    match greatest > least {
        true => format!(" ({}–{})", digits(least), digits(greatest)),
        false => String::new(),
    }
}

/// Idle-while-runnable as a time and as a part of all CPU time.
pub fn idle_while_runnable(summary: &Summary) -> String {
    let both = summary.idle_while_runnable_s.zip(summary.idle_while_runnable_share);
    known(both, |(s, share)| format!("{} ({})", time(s.median), percent(share.median)))
}
