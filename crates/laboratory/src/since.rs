// SPDX-License-Identifier: GPL-2.0-only
//! What changed since an earlier `repro --json`: a figure whose gate is judged otherwise, or whose values lie apart from
//! the earlier ones.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use terminal::Failure;

use crate::show::Row;

/// The earlier figures.
#[derive(Debug, Default)]
pub struct Since {
    /// The file, as the user named it.
    file: String,
    /// By the paper and the figure's name.
    figures: BTreeMap<(String, String), Earlier>,
}

/// One figure as it was.
#[derive(Debug, Deserialize)]
struct Earlier {
    paper: String,
    name: String,
    /// Least and greatest of its values; none if it was not measured. A chart has none either.
    #[serde(default)]
    ours_range: Option<(f64, f64)>,
    #[serde(default)]
    holds: Option<bool>,
    #[serde(default)]
    date: String,
}

impl Since {
    /// Reads the output of `repro --json`.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let file = path.display().to_string();
        let refused = |why: String| Failure::input(format!("--since {file}: {why}"));
        let text = std::fs::read(path)
            .map_err(|error| refused(format!("{error}; name what `repro --json` printed")))?;
        let figures: Vec<Earlier> = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("{error}; expected what `repro --json` printed")))?;
        let named = figures.into_iter().map(|one| ((one.paper.clone(), one.name.clone()), one));
        let figures = named.collect();
        Ok(Since { file, figures })
    }

    /// A line for each figure that changed, and one for all others.
    pub fn told(&self, rows: &[Row]) -> Vec<String> {
        let changes = rows.iter().map(|row| self.change(row));
        let mut lines: Vec<String> = changes.flatten().collect();
        let same = rows.len() - lines.len();
        lines.push(match same {
            0 => format!("no figure is as in {}", self.file),
            1 => format!("one figure is as in {}", self.file),
            _ => format!("{same} figures are as in {}", self.file),
        });
        lines
    }

    /// None: it is as it was.
    fn change(&self, row: &Row) -> Option<String> {
        let name = row.name();
        let key = (row.paper().to_string(), name.to_string());
        let Some(earlier) = self.figures.get(&key) else {
            return Some(format!("{name}: it is not in {}", self.file));
        };
        let day = earlier.date.split('T').next().unwrap_or_default();
        let shown = |range: Option<(f64, f64)>| {
            range.map_or("not measured".to_string(), |range| row.shown_range(range))
        };
        let (was, now) = (format!("{} on {day}", shown(earlier.ours_range)), shown(row.range()));
        if earlier.holds != row.holds() {
            let judged = |holds| match holds {
                Some(true) => "held",
                Some(false) => "missed",
                None => "was not judged",
            };
            let (before, after) = (judged(earlier.holds), row.verdict());
            return Some(format!("{name}: the gate {before} with {was}; now {now}, {after}"));
        }
        let apart = match (earlier.ours_range, row.range()) {
            (Some(was), Some(now)) => now.0 > was.1 || now.1 < was.0,
            (was, now) => was.is_some() != now.is_some(),
        };
        apart.then(|| format!("{name}: {was}, now {now}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Ours;
    use crate::paper;

    /// What is told of a figure with these values, if it had this range before and its gate was judged so.
    fn told(was: Option<(f64, f64)>, held: Option<bool>, values: &[f64]) -> Vec<String> {
        let papers = paper::find("flsched").unwrap();
        let figure = papers[0].figure.iter().find(|figure| figure.name == "locks-counted").unwrap();
        let ours = Ours { values: values.to_vec(), ..Ours::default() };
        let row = Row::new(&papers[0], figure, ours, false);
        let earlier = Earlier {
            paper: "flsched".into(),
            name: figure.name.clone(),
            ours_range: was,
            holds: held,
            date: "2026-11-28T10:00:00Z".into(),
        };
        let key = ("flsched".to_string(), figure.name.clone());
        let since = Since { file: "old.json".into(), figures: [(key, earlier)].into() };
        since.told(&[row])
    }

    #[test]
    fn a_figure_whose_ranges_overlap_is_as_it_was() {
        let same = ["one figure is as in old.json"];
        assert_eq!(told(Some((15.0, 15.0)), Some(true), &[15.0]), same);
        assert_eq!(told(Some((14.0, 16.0)), Some(false), &[16.0, 18.0]), same);
    }

    #[test]
    fn ranges_apart_and_other_verdicts_are_told_with_both_values() {
        let apart = told(Some((10.0, 11.0)), Some(false), &[12.0, 13.0]);
        assert_eq!(apart[0], "locks-counted: 10 – 11 on 2026-11-28, now 12 – 13");
        let other = told(Some((10.0, 11.0)), Some(false), &[15.0]);
        assert!(other[0].contains("missed with 10 – 11 on 2026-11-28; now 15, holds"), "{other:?}");
        let gone = told(Some((15.0, 15.0)), Some(true), &[]);
        assert!(gone[0].ends_with("now not measured, not measured"), "{gone:?}");
        assert_eq!(gone[1], "no figure is as in old.json");
    }
}
