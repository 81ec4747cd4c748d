// SPDX-License-Identifier: GPL-2.0-only
//! Shows a paper's figures with ours beside them: text, JSON, HTML.

use std::time::SystemTime;

use report::stats::median;
use report::text::{Align, count, digits, percent, table, time, wrapped};
use report::{html, plot};
use serde_json::{Value, json};
use terminal::{Failure, output};

use crate::judge::Gate;
use crate::measure::Ours;
use crate::paper::{Figure, Paper};
use crate::views::Chart;

/// One figure, measured and judged.
pub struct Row<'a> {
    paper: &'a Paper,
    figure: &'a Figure,
    ours: Ours,
    holds: Option<bool>,
    quick: bool,
}

impl<'a> Row<'a> {
    /// Judges a figure.
    pub fn new(paper: &'a Paper, figure: &'a Figure, ours: Ours, quick: bool) -> Self {
        let gate = figure.gate.as_ref();
        let verdict =
            gate.and_then(|gate| gate.judge_with(&ours.values, figure.published, &ours.ideal));
        // If a run never ended, the others prove nothing: it may be worse than any bound.
        let holds = verdict.map(|verdict| verdict.holds && ours.missing.is_empty());
        Row { paper, figure, holds, ours, quick }
    }

    /// A gate that could not be judged is not a pass; a figure without a gate cannot fail.
    pub fn passes(&self) -> bool {
        self.figure.gate.is_none() || self.holds == Some(true)
    }

    /// The paper's name.
    pub fn paper(&self) -> &str {
        &self.paper.name
    }

    /// The figure's name.
    pub fn name(&self) -> &str {
        &self.figure.name
    }

    /// Whether its gate holds. None: it has none, or could not be judged.
    pub fn holds(&self) -> Option<bool> {
        self.holds
    }

    /// Least and greatest of its values.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.ours.range()
    }

    /// A range in its unit.
    pub fn shown_range(&self, (least, greatest): (f64, f64)) -> String {
        match least == greatest {
            true => self.shown(least),
            false => format!("{} – {}", self.shown(least), self.shown(greatest)),
        }
    }

    /// The judgement of its gate, in words.
    pub fn verdict(&self) -> &'static str {
        match (&self.figure.gate, self.holds) {
            (None, _) if self.ours.values.is_empty() => "not checked",
            (None, _) => "reported",
            (Some(_), Some(true)) => "holds",
            (Some(_), Some(false)) => "FAILS",
            (Some(_), None) => "not measured",
        }
    }

    /// The figure in one line, shown before the others are done.
    pub fn line(&self) -> String {
        let gate = match &self.figure.gate {
            Some(gate) => format!(", gate {gate}"),
            None => String::new(),
        };
        let (name, measured, verdict) = (&self.figure.name, self.measured(), self.verdict());
        format!("  {name}: {measured}{gate}: {verdict}")
    }

    fn published(&self) -> String {
        match (self.figure.published, &self.figure.published_as) {
            (Some(value), _) => self.shown(value),
            (None, Some(words)) => words.clone(),
            (None, None) => "–".into(),
        }
    }

    fn measured(&self) -> String {
        if self.figure.unit == "runs" && !self.ours.values.is_empty() {
            let survived = self.ours.values.iter().filter(|value| **value == 1.0).count();
            return format!("{survived} of {}", self.ours.values.len());
        }
        let (Some(middle), Some(range)) = (self.ours.middle(), self.range()) else {
            return "–".into();
        };
        let ours = match range.0 == range.1 {
            true => self.shown(middle),
            false => format!("{} ({})", self.shown(middle), self.shown_range(range)),
        };
        match median(&self.ours.ideal) {
            Some(ideal) => format!("{ours}, ideal {}", self.shown(ideal)),
            None => ours,
        }
    }

    fn shown(&self, value: f64) -> String {
        said(&self.figure.unit, value)
    }

    fn gate(&self) -> String {
        self.figure.gate.as_ref().map_or("–".into(), Gate::to_string)
    }

    fn ground(&self) -> String {
        match self.ours.clock {
            Some(report::Clock::Simulated) | None => self.ours.ground.to_string(),
            Some(clock) => format!("{}, {}", self.ours.ground, clock.name()),
        }
    }

    fn json(&self) -> Value {
        let range = self.ours.range().map(|(least, greatest)| [least, greatest]);
        json!({
            "paper": self.paper.name,
            "name": self.figure.name,
            "figure": self.figure.figure,
            "metric": self.figure.metric,
            "unit": self.figure.unit,
            "published": self.figure.published,
            "published_as": self.figure.published_as,
            "ours": self.ours.middle(),
            "ours_range": range,
            "values": self.ours.values,
            "ideal": median(&self.ours.ideal),
            "ground": self.ours.ground,
            "clock": self.ours.clock,
            "gate": self.figure.gate.as_ref().map(Gate::to_string),
            "holds": self.holds,
            "why": self.ours.why,
            "missing": self.ours.missing,
            "lost": self.ours.lost,
            "quick": self.quick,
            "date": now(),
            "command": self.command(),
        })
    }

    /// The command that measures only this figure.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("paceline repro {}{quick} --only {}", self.paper.name, self.figure.name)
    }
}

/// A value in its unit.
pub fn said(unit: &str, value: f64) -> String {
    match unit {
        "1" => digits(value),
        "s" => time(value),
        "share" => percent(value),
        "count" => count(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// One array with an object for each figure, then one for each chart.
pub fn json(rows: &[Row], charts: &[Drawn]) -> String {
    let array: Vec<Value> =
        rows.iter().map(Row::json).chain(charts.iter().map(Drawn::json)).collect();
    serde_json::to_string_pretty(&array).expect("figures are plain data") + "\n"
}

/// A chart of a paper, or why it could not be drawn.
pub struct Drawn<'a> {
    /// The paper's name.
    pub paper: &'a str,
    /// The chart's name.
    pub name: &'a str,
    /// The chart.
    pub chart: Result<Chart, Failure>,
    /// With `--quick`.
    pub quick: bool,
}

impl Drawn<'_> {
    fn json(&self) -> Value {
        let chart = self.chart.as_ref().ok();
        json!({
            "paper": self.paper,
            "name": self.name,
            "title": chart.map(|chart| &chart.title),
            "note": chart.map(|chart| &chart.note),
            "headings": chart.map(|chart| &chart.headings),
            "rows": chart.map(|chart| &chart.rows),
            "why": self.chart.as_ref().err().map(Failure::to_string),
            "quick": self.quick,
            "date": now(),
        })
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

const HEADINGS: [&str; 6] = ["figure", "published", "ours", "gate", "ground", ""];

/// A table for each paper, and the notes for its reader.
pub fn text(
    papers: &[Paper],
    rows: &[Row],
    charts: &[Drawn],
    changes: &[String],
    quick: bool,
) -> String {
    let mut text = String::new();
    let style = output::style();
    for paper in papers {
        text += &format!("{}\n{}\n", paper.title, paper.source);
        text += &table(&HEADINGS, &cells(paper, rows), Align::Left, style);
        for row in of(paper, rows) {
            if !row.ours.missing.is_empty() {
                let missing = row.ours.missing.join("; ");
                text += &wrapped(&format!("{}: missing: {missing}", row.figure.name), style);
            }
            for lost in &row.ours.lost {
                text += &wrapped(&format!("{}: lost: {lost}", row.figure.name), style);
            }
            if let Some(why) = &row.ours.why {
                text += &wrapped(&format!("{}: {why}", row.figure.name), style);
            }
        }
        for drawn in charts.iter().filter(|drawn| drawn.paper == paper.name) {
            text += &chart_text(&drawn.chart);
        }
    }
    if !changes.is_empty() {
        text += "\n";
    }
    changes.iter().for_each(|line| text += &wrapped(line, style));
    let failed = rows.iter().filter(|row| !row.passes()).count();
    let gates = rows.iter().filter(|row| row.figure.gate.is_some()).count();
    text += &format!("\n{} of {gates} gates hold", gates - failed);
    match lost(rows, charts) {
        0 => {}
        lost => text += &format!("; {lost} lost to a run that failed"),
    }
    text += if quick { "; --quick: few boots and seeds, wide spreads\n" } else { "\n" };
    text
}

/// How many figures and charts are missing because a run failed.
pub fn lost(rows: &[Row], charts: &[Drawn]) -> usize {
    let charts = charts.iter().filter(|drawn| drawn.chart.is_err()).count();
    charts + rows.iter().filter(|row| row.ours.failed).count()
}

fn chart_text(chart: &Result<Chart, Failure>) -> String {
    let style = output::style();
    let chart = match chart {
        Ok(chart) => chart,
        Err(failure) => return wrapped(&format!("a chart is missing: {failure}"), style),
    };
    let headings: Vec<&str> = chart.headings.iter().map(String::as_str).collect();
    format!(
        "\n{}\n{}{}",
        chart.title,
        table(&headings, &chart.rows, Align::Right, style),
        wrapped(&chart.note, style)
    )
}

fn chart_html(chart: &Result<Chart, Failure>) -> String {
    let chart = match chart {
        Ok(chart) => chart,
        Err(failure) => {
            return format!("<p>A chart is missing: {}</p>\n", html::escape(&failure.to_string()));
        }
    };
    let headings: Vec<&str> = chart.headings.iter().map(String::as_str).collect();
    let mut text = format!("<h2>{}</h2>\n", html::escape(&chart.title));
    text +=
        &chart.plots.iter().map(|(caption, svg)| html::figure(caption, svg)).collect::<String>();
    text += &html::table(&chart.note, &headings, &chart.rows);
    text
}

fn of<'r, 'a>(paper: &Paper, rows: &'r [Row<'a>]) -> impl Iterator<Item = &'r Row<'a>> {
    let name = paper.name.clone();
    rows.iter().filter(move |row| row.paper.name == name)
}

fn cells(paper: &Paper, rows: &[Row]) -> Vec<Vec<String>> {
    of(paper, rows)
        .map(|row| {
            vec![
                format!("{}: {} ({})", row.figure.name, row.figure.metric, row.figure.figure),
                row.published(),
                row.measured(),
                row.gate(),
                row.ground(),
                row.verdict().to_string(),
            ]
        })
        .collect()
}

/// The same as a page, with a plot for each figure with several values.
pub fn html(
    papers: &[Paper],
    rows: &[Row],
    charts: &[Drawn],
    changes: &[String],
    command: &str,
) -> String {
    let date = now();
    let mut body = format!(
        "<p>Paceline {}, {}: <code>{}</code></p>\n",
        env!("CARGO_PKG_VERSION"),
        date.split('T').next().unwrap_or_default(),
        html::escape(command)
    );
    if !changes.is_empty() {
        body += "<h2>Changes</h2>\n<ul>\n";
        changes.iter().for_each(|line| body += &format!("<li>{}</li>\n", html::escape(line)));
        body += "</ul>\n";
    }
    for paper in papers {
        body += &format!("<h2>{}</h2>\n", html::escape(&paper.title));
        body += &html::table(&paper.source, &HEADINGS, &cells(paper, rows));
        for row in of(paper, rows) {
            if !row.ours.missing.is_empty() {
                let missing = html::escape(&row.ours.missing.join("; "));
                let name = html::escape(&row.figure.name);
                body += &format!("<p><b>{name}</b>: missing: {missing}</p>\n");
            }
            for lost in &row.ours.lost {
                let (name, lost) = (html::escape(&row.figure.name), html::escape(lost));
                body += &format!("<p><b>{name}</b>: lost: {lost}</p>\n");
            }
            if let Some(why) = &row.ours.why {
                let (name, why) = (html::escape(&row.figure.name), html::escape(why));
                body += &format!("<p><b>{name}</b>: {why}</p>\n");
            }
        }
        let strips: Vec<(String, Vec<f64>)> = of(paper, rows)
            .filter(|row| row.figure.unit == "1" && !row.ours.values.is_empty())
            .map(|row| (row.figure.name.clone(), row.ours.values.clone()))
            .collect();
        let caption =
            "Ratios: a dot for each boot, seed or point of a sweep, a bar to their median";
        body += &html::figure(caption, &plot::strips(caption, "ratio", &strips));
        for drawn in charts.iter().filter(|drawn| drawn.paper == paper.name) {
            body += &chart_html(&drawn.chart);
        }
    }
    body += &format!(
        "<h2>Data</h2>\n<p>{}</p>\n",
        html::download("repro.json", "application/json", &json(rows, charts))
    );
    html::page("Published figures, and ours", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;

    #[test]
    fn what_a_failed_run_leaves_unknown_is_lost() {
        let papers = paper::find("flsched").unwrap();
        let reported = papers[0].figure.iter().find(|figure| figure.gate.is_none()).unwrap();
        let row =
            |failed| Row::new(&papers[0], reported, Ours { failed, ..Ours::default() }, false);
        assert!(row(true).passes(), "it has no gate");
        let chart = || Drawn {
            paper: "flsched",
            name: "a",
            chart: Err(Failure::run("no end")),
            quick: false,
        };
        assert_eq!(lost(&[row(true), row(false)], &[chart()]), 2);
        assert_eq!(lost(&[row(false)], &[]), 0);
    }

    #[test]
    fn no_gate_holds_on_those_that_came_to_an_end() {
        for paper in paper::find("all").unwrap() {
            for figure in paper.figure.iter().filter(|figure| figure.gate.is_some()) {
                let passes = |value: f64, missing: &[&str]| {
                    let ours = Ours {
                        values: vec![value],
                        ideal: vec![1.0],
                        missing: missing.iter().map(|text| text.to_string()).collect(),
                        ..Ours::default()
                    };
                    Row::new(&paper, figure, ours, false).passes()
                };
                let bound = figure.published.into_iter().chain([-1e9, 0.0, 1.0, 15.0, 1e9]);
                let held: Vec<f64> = bound.filter(|value| passes(*value, &[])).collect();
                assert!(!held.is_empty(), "{}", figure.name);
                for value in held {
                    assert!(!passes(value, &["together: cas: no end"]), "{}", figure.name);
                }
            }
        }
    }
}
