// SPDX-License-Identifier: GPL-2.0-only
//! Figures and charts by their names: which of them `--only` selects, and the text of `--list`.

use report::Style;
use report::text::wrapped;
use serde_json::{Value, json};
use terminal::{Failure, meant};

use crate::judge::Gate;
use crate::paper::Paper;

/// A figure, or a chart, that can be selected.
struct Entry<'a> {
    paper: &'a Paper,
    name: &'a str,
    measures: &'a str,
    unit: Option<&'a str>,
    gate: Option<&'a Gate>,
}

/// Every figure and every chart, in the order in which they are measured.
fn entries(papers: &[Paper]) -> impl Iterator<Item = Entry<'_>> {
    papers.iter().flat_map(|paper| {
        let figures = paper.figure.iter().map(move |figure| Entry {
            paper,
            name: &figure.name,
            measures: &figure.metric,
            unit: Some(&figure.unit),
            gate: figure.gate.as_ref(),
        });
        let charts = paper.view.iter().map(move |view| Entry {
            paper,
            name: &view.name,
            measures: &view.title,
            unit: None,
            gate: None,
        });
        figures.chain(charts)
    })
}

/// Names of all figures and charts.
pub fn all(papers: &[Paper]) -> Vec<String> {
    entries(papers).map(|one| one.name.to_string()).collect()
}

/// The selection of `--only`.
pub struct Wanted<'a> {
    papers: &'a [Paper],
    only: &'a [String],
}

impl<'a> Wanted<'a> {
    /// Refuses a name that matches nothing, whatever the others match.
    pub fn new(papers: &'a [Paper], only: &'a [String]) -> Result<Self, Failure> {
        if only.iter().any(String::is_empty) {
            return Err(Failure::input("--only is empty; name figures, or leave it away for all"));
        }
        let matches = |only: &str| entries(papers).any(|one| asks_for(papers, only, one.name));
        match only.iter().find(|only| !matches(only)) {
            None => Ok(Wanted { papers, only }),
            Some(unknown) => Err(Failure::input(format!(
                "--only {unknown} matches no figure; {}`paceline repro {} --list` shows all",
                meant::proposal(unknown, entries(papers).map(|one| one.name)),
                match papers {
                    [one] => &one.name,
                    _ => "all",
                }
            ))),
        }
    }

    /// Whether a figure or chart is to be measured.
    pub fn has(&self, name: &str) -> bool {
        let asks = |only: &String| asks_for(self.papers, only, name);
        self.only.is_empty() || self.only.iter().any(asks)
    }

    /// Each name with its description: on a line, or on a terminal below each other, within its width.
    pub fn text(&self, style: Style) -> String {
        let all: Vec<Entry> = entries(self.papers).filter(|one| self.has(one.name)).collect();
        let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0);
        let line = |one: &Entry| {
            let gate = one.gate.map_or(String::new(), |gate| format!(" [{gate}]"));
            let measures = format!("{}{gate}", one.measures);
            match style.boxes {
                false => format!("{:width$}  {measures}\n", one.name),
                true => {
                    let narrower = Style { width: style.width.saturating_sub(4), ..style };
                    let told = wrapped(&measures, narrower);
                    let told: String = told.lines().map(|line| format!("    {line}\n")).collect();
                    format!("{}\n{told}", one.name)
                }
            }
        };
        all.iter().map(line).collect()
    }

    /// The names as one array.
    pub fn json(&self) -> String {
        let all = entries(self.papers).filter(|one| self.has(one.name));
        let object = |one: Entry| {
            json!({
                "paper": one.paper.name, "name": one.name, "metric": one.measures,
                "unit": one.unit, "gate": one.gate.map(Gate::to_string),
            })
        };
        let array: Vec<Value> = all.map(object).collect();
        serde_json::to_string_pretty(&array).expect("names are plain data") + "\n"
    }
}

/// Whether `only` selects a figure or chart: the one of that name, or if there is none, every one with a name that
/// contains it.
fn asks_for(papers: &[Paper], only: &str, name: &str) -> bool {
    match entries(papers).any(|one| one.name == only) {
        true => name == only,
        false => name.contains(only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;

    fn refusal(papers: &[Paper], only: &[&str]) -> String {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        Wanted::new(papers, &only).err().expect("it is refused").to_string()
    }

    #[test]
    fn a_figure_that_is_named_in_full_is_measured_alone() {
        let papers = paper::find("live").unwrap();
        let wanted = |only: &str, name: &str| {
            let only = [only.to_string()];
            Wanted::new(&papers, &only).unwrap().has(name)
        };
        assert!(wanted("stress", "stress") && !wanted("stress", "stress-default"));
        assert!(wanted("control-", "control-keeps") && !wanted("control-", "stress"));
    }

    #[test]
    fn a_name_that_matches_nothing_is_refused_beside_others_that_do() {
        let papers = paper::find("live").unwrap();
        let said = refusal(&papers, &["stress", "strss-default"]);
        let begin = "--only strss-default matches no figure; did you mean stress-default";
        assert!(said.starts_with(begin), "{said}");
        assert!(said.contains("`paceline repro live --list` shows all"), "{said}");
        let said = refusal(&papers, &["xqzwvk"]);
        assert!(said.starts_with("--only xqzwvk matches no figure; `paceline"), "{said}");
    }

    #[test]
    fn a_terminal_breaks_no_line_of_the_list() {
        let papers = paper::find("all").unwrap();
        let style = Style { boxes: true, width: 60, ..Style::PLAIN };
        let list = Wanted::new(&papers, &[]).unwrap().text(style);
        let long: Vec<&str> = list.lines().filter(|line| line.chars().count() > 60).collect();
        assert!(long.is_empty(), "{long:?}");
    }

    #[test]
    fn every_name_of_the_list_can_be_asked_for_and_says_what_it_measures() {
        let papers = paper::find("all").unwrap();
        let list = Wanted::new(&papers, &[]).unwrap().text(Style::PLAIN);
        let names: usize = papers.iter().map(|paper| paper.figure.len() + paper.view.len()).sum();
        assert_eq!(list.lines().count(), names, "a line each");
        for line in list.lines() {
            let (name, measures) = line.split_once(' ').unwrap();
            assert!(!measures.trim().is_empty(), "{line}");
            let only = [name.to_string()];
            assert!(Wanted::new(&papers, &only).unwrap().has(name));
        }
    }
}
