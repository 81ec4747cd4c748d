// SPDX-License-Identifier: GPL-2.0-only
//! Compares the simulator with this machine: times of pipe rings, measured and predicted.

use live::measure::{Passers, Reading};
use rayon::prelude::*;
use report::text::{Align, table};
use terminal::output;

use super::describe::Described;
use super::predict::hop_ns;
use super::raw::{FITTED, Raw, RingKey};

/// Kilobytes that each task reads.
const KILOBYTES: [usize; 3] = [0, 16, 64];
/// Longest ring.
const TASKS_MAX: usize = 16;
/// Largest relative error of a prediction.
const WITHIN: f64 = 0.15;

/// Rings that are checked. Three of them were fitted, and are marked as such.
pub fn rings() -> Vec<RingKey> {
    let mut rings = Vec::new();
    for passers in [Passers::Threads, Passers::Processes] {
        for kilobytes in KILOBYTES {
            rings.extend(
                (1..=TASKS_MAX).map(|tasks| RingKey::new(passers, tasks, kilobytes * 1024)),
            );
        }
    }
    rings
}

/// One ring, measured and predicted.
pub struct Row {
    pub key: RingKey,
    pub was: Option<Reading>,
    pub said_ns: Option<f64>,
}

impl Row {
    /// The prediction as a multiple of the measurement. None: one of them is missing.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.said_ns? / self.was?.median)
    }

    /// The prediction's relative error.
    fn far(&self) -> Option<f64> {
        self.ratio().map(|ratio| (ratio - 1.0).abs())
    }

    /// Whether costs were fitted to it, so that it is no prediction.
    fn fitted(&self) -> bool {
        let RingKey { passers, tasks, bytes, .. } = self.key;
        passers == Passers::Threads && bytes == 0 && FITTED.contains(&tasks)
    }

    fn holds(&self) -> bool {
        self.far().is_some_and(|far| far <= WITHIN)
    }
}

/// Predicts all rings.
pub fn rows(raw: &Raw, described: &Described) -> Vec<Row> {
    let row = |key: &RingKey| Row {
        key: *key,
        was: raw.hops_ns.get(key).copied(),
        said_ns: hop_ns(&described.machine, &described.program, *key),
    };
    rings().par_iter().map(row).collect()
}

/// Whether all hold: a ring that was not measured does not.
pub fn hold(rows: &[Row]) -> bool {
    !rows.is_empty() && rows.iter().all(Row::holds)
}

/// The greatest relative error. None: one ring is missing.
pub fn farthest(rows: &[Row]) -> Option<f64> {
    let far = rows.iter().map(Row::far).collect::<Option<Vec<_>>>()?;
    far.into_iter().reduce(f64::max)
}

/// The rows as text.
pub fn text(rows: &[Row]) -> String {
    let ns = |value: Option<f64>| value.map_or("?".to_string(), |ns| format!("{ns:.0}"));
    let line = |row: &Row| {
        let RingKey { passers, tasks, bytes, .. } = row.key;
        let passer = if passers == Passers::Threads { "threads" } else { "processes" };
        let spread = row.was.map_or("?".into(), |it| format!("{:.0}–{:.0}", it.low, it.high));
        vec![
            passer.to_string(),
            (bytes / 1024).to_string(),
            tasks.to_string(),
            ns(row.was.map(|it| it.median)),
            spread,
            ns(row.said_ns),
            row.ratio().map_or("?".into(), |ratio| format!("{ratio:.2}")),
            match (row.holds(), row.fitted()) {
                (false, _) => "no".into(),
                (true, true) => "fitted".into(),
                (true, false) => String::new(),
            },
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let headings = ["ring of", "KB", "K", "was, ns", "quartiles", "sim says", "ratio", "holds"];
    let far = |row: &&Row| row.far().unwrap_or(f64::MAX);
    let worst = rows.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
    let worst = worst.and_then(Row::ratio).map_or("?".to_string(), |it| format!("{it:.2}"));
    let held = rows.iter().filter(|row| row.holds()).count();
    table(&headings, &lines, Align::Right, output::style())
        + &format!(
            "\nTime of a hop of a ring of pipes on one CPU: measured, and what sim says of it under default on \
             the machine as measured.\nCosts are derived from other experiments (tasks that yield, batch \
             rings of more processes than the TLB has tags) and from the rings\nof 1, 2 and 5 threads \
             without an array, which are fitted; all others are predicted.\n{held} of {} within {:.0} %; \
             farthest: {worst}.\n",
            rows.len(),
            100.0 * WITHIN
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(was: Option<f64>, said_ns: Option<f64>) -> Row {
        let key = RingKey::new(Passers::Threads, 2, 0);
        let reading = |ns| Reading { median: ns, low: ns, high: ns };
        Row { key, was: was.map(reading), said_ns }
    }

    #[test]
    fn a_ring_that_was_not_measured_does_not_hold() {
        assert!(hold(&[row(Some(100.0), Some(114.0))]));
        assert!(!hold(&[row(Some(100.0), Some(116.0))]));
        assert!(!hold(&[row(None, Some(116.0))]));
        assert!(!hold(&[row(Some(100.0), None)]));
        assert!(!hold(&[]));
        assert!(
            farthest(&[row(Some(100.0), Some(110.0)), row(Some(100.0), Some(80.0))]) > Some(0.19)
        );
        assert_eq!(farthest(&[row(Some(100.0), Some(114.0)), row(None, Some(116.0))]), None);
        assert_eq!(farthest(&[]), None);
    }

    #[test]
    fn the_table_says_what_does_not_hold() {
        let text = text(&[row(Some(100.0), Some(110.0)), row(Some(100.0), Some(150.0))]);
        assert!(text.contains("1 of 2 within 15 %; farthest: 1.50"), "{text}");
    }
}
