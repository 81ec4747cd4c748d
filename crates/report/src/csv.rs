// SPDX-License-Identifier: GPL-2.0-only
//! Results as tables for other programs: CSV, the units in the columns' names, empty where nothing was observed.

use ::csv::Writer;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Results;

/// Who had which CPU when.
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

/// Runs by measures: a row for each run.
pub fn runs(results: &Results) -> String {
    table(results.runs.iter().map(object).collect())
}

/// A row for each task of each run.
pub fn tasks(results: &Results) -> String {
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
    table(rows)
}

/// A row for each.
pub fn intervals(intervals: &[Interval]) -> String {
    table(intervals.iter().map(object).collect())
}

fn object(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(members)) => members,
        other => unreachable!("a result is a plain object, and not {other:?}"),
    }
}

/// What is no number and no text of its own has no column; a column that a row lacks is empty there.
fn table(rows: Vec<Map<String, Value>>) -> String {
    let plain = |value: &Value| !value.is_array() && !value.is_object();
    let mut columns: Vec<&String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (column, value) in rows.iter().flatten() {
        if plain(value) && known.insert(column) {
            columns.push(column);
        }
    }
    let mut out = Writer::from_writer(Vec::new());
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    // Writing to memory cannot fail, and every row is as long as the first.
    let _ = out.write_record(&columns);
    for row in &rows {
        let _ = out.write_record(columns.iter().map(|column| cell(row.get(*column))));
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(table(rows), "policy,waits,own\n\"a,\"\"b\"\"\",,\nc,0.5,3\n");
        assert_eq!(intervals(&[]), "\"\"\n");
    }
}
