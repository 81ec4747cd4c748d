// SPDX-License-Identifier: GPL-2.0-only
//! Results as tables for other programs: CSV, the units in the columns' names, empty where nothing was observed.

use std::io::{self, Write};

use ::csv::Writer;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Results;

/// A stretch of time in which a task had a CPU.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Interval {
    pub policy: String,
    pub run: usize,
    pub cpu: u32,
    pub tid: u32,
    pub name: String,
    /// The address space; None: not known.
    pub mm: Option<u64>,
    pub from_s: f64,
    pub to_s: f64,
}

/// Runs by measures: a row for each run. An error is the writer's, here and below.
pub fn runs(results: &Results, out: impl Write) -> io::Result<()> {
    table(results.runs.iter().map(object).collect(), out)
}

/// A row for each task of each run.
pub fn tasks(results: &Results, out: impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for run in &results.runs {
        for task in &run.tasks {
            let mut row = Map::new();
            row.insert("policy".to_string(), run.policy.clone().into());
            row.insert("run".to_string(), run.run.into());
            row.insert("boot".to_string(), run.boot.into());
            row.extend(object(task));
            rows.push(row);
        }
    }
    table(rows, out)
}

/// A row for each interval, written as it arrives: all of them may not fit in memory.
pub fn intervals(intervals: impl Iterator<Item = Interval>, out: impl Write) -> io::Result<()> {
    let mut out = Writer::from_writer(out);
    for interval in intervals {
        out.serialize(interval)?;
    }
    out.flush()
}

fn object(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(members)) => members,
        other => unreachable!("a result is a plain object, and not {other:?}"),
    }
}

/// A column for each value that is a number or a text. A column that a row lacks is empty there.
fn table(rows: Vec<Map<String, Value>>, out: impl Write) -> io::Result<()> {
    let plain = |value: &Value| !value.is_array() && !value.is_object();
    let mut columns: Vec<&String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (column, value) in rows.iter().flatten() {
        if plain(value) && known.insert(column) {
            columns.push(column);
        }
    }
    let mut out = Writer::from_writer(out);
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    out.write_record(&columns)?;
    for row in &rows {
        out.write_record(columns.iter().map(|column| cell(row.get(*column))))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    fn row(value: Value) -> Map<String, Value> {
        object(&value)
    }

    #[test]
    fn what_was_not_observed_is_empty() {
        let rows = vec![
            row(json!({"policy": "a,\"b\"", "waits": null, "tasks": [1]})),
            row(json!({"policy": "c", "waits": 0.5, "own": 3})),
        ];
        let mut text = Vec::new();
        table(rows, &mut text).unwrap();
        assert_eq!(text, b"policy,waits,own\n\"a,\"\"b\"\"\",,\nc,0.5,3\n");
    }

    fn interval(from_s: f64) -> Interval {
        let (policy, name) = ("rr".to_string(), "a \"b\", c".to_string());
        Interval { policy, run: 1, cpu: 2, tid: 3, name, mm: None, from_s, to_s: 2.0 }
    }

    #[test]
    fn an_interval_is_a_row_with_its_units() {
        let mut text = Vec::new();
        intervals([interval(1e-9)].into_iter(), &mut text).unwrap();
        let wanted =
            "policy,run,cpu,tid,name,mm,from_s,to_s\nrr,1,2,3,\"a \"\"b\"\", c\",,1e-9,2.0\n";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    /// Counts the rows that it yields.
    struct Counted<'a>(&'a Cell<usize>);

    impl Write for Counted<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.set(self.0.get() + bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn intervals_are_not_kept_until_the_last() {
        let written = Cell::new(0);
        let before_last = Cell::new(0);
        let rows = (0..100_000).map(|at| {
            before_last.set(written.get());
            interval(f64::from(at))
        });
        intervals(rows, Counted(&written)).unwrap();
        assert!(written.get() - before_last.get() < 1 << 16, "{before_last:?} of {written:?}");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
        assert!(intervals([interval(0.0)].into_iter(), full()).is_err());
        assert!(table(vec![row(json!({"run": 1}))], full()).is_err());
    }
}
