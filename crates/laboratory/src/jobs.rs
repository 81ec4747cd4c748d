// SPDX-License-Identifier: GPL-2.0-only
//! Figures and charts in jobs that can be done apart from each other, on any machine. Those that share runs are one job.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use terminal::{Failure, Progress};

use crate::kept::{Name, Taken};
use crate::measure::{Effort, Laboratory};
use crate::paper;

/// Figures and charts of a paper that share runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    paper: String,
    figures: Vec<String>,
    charts: Vec<String>,
    quick: bool,
}

impl Job {
    /// Splits what is wanted of a paper: names of figures and of charts, each with what it is taken from.
    pub fn split(
        paper: &str,
        quick: bool,
        figures: Vec<(&str, BTreeSet<String>)>,
        charts: Vec<(&str, BTreeSet<String>)>,
    ) -> Vec<Self> {
        let mut groups: Vec<(BTreeSet<String>, Job)> = Vec::new();
        let figures = figures.into_iter().map(|(name, sources)| (name, sources, false));
        let charts = charts.into_iter().map(|(name, sources)| (name, sources, true));
        for (name, mut sources, is_chart) in figures.chain(charts) {
            let (figures, charts) = (Vec::new(), Vec::new());
            let mut job = Job { paper: paper.to_string(), figures, charts, quick };
            // It may lead from one group to another: then all of them are one.
            let (shared, apart): (Vec<_>, Vec<_>) =
                groups.into_iter().partition(|(of, _)| !of.is_disjoint(&sources));
            for (of, other) in shared {
                sources.extend(of);
                job.figures.extend(other.figures);
                job.charts.extend(other.charts);
            }
            if is_chart { &mut job.charts } else { &mut job.figures }.push(name.to_string());
            groups = apart;
            groups.push((sources, job));
        }
        groups.into_iter().map(|(_, job)| job).collect()
    }

    /// How many figures and charts it has.
    pub fn count(&self) -> usize {
        self.figures.len() + self.charts.len()
    }

    /// Measures them. What failed is left out: whoever wants it finds out why.
    ///
    /// # Errors
    /// There is no such paper.
    pub fn measure(&self) -> Result<Vec<(Name, Taken)>, Failure> {
        let papers = paper::find(&self.paper)?;
        let progress = Progress::new(self.count() as u64);
        let effort = Effort { quick: self.quick, ..Effort::default() };
        let mut done = Vec::new();
        for paper in &papers {
            let mut laboratory = Laboratory::new(paper, effort.clone(), &progress);
            let of = |name: &str| self.named(name);
            for figure in paper.figure.iter().filter(|of| self.figures.contains(&of.name)) {
                if let Some(Ok(sample)) = laboratory.sample(figure) {
                    done.push((of(&figure.name), Taken::Figure(sample)));
                }
                progress.step();
            }
            for view in paper.view.iter().filter(|of| self.charts.contains(&of.name)) {
                if let Ok(chart) = laboratory.chart(view) {
                    done.push((of(&view.name), Taken::Chart(chart)));
                }
                progress.step();
            }
        }
        Ok(done)
    }

    fn named(&self, name: &str) -> Name {
        Name { paper: self.paper.clone(), name: name.to_string(), quick: self.quick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_shares_runs_is_one_job() {
        let figures = vec![
            ("one", set(&["a"])),
            ("two", set(&["b"])),
            ("three", set(&["c"])),
            ("both", set(&["a", "c"])),
        ];
        let charts = vec![("chart", set(&["b"])), ("alone", set(&["d"]))];
        let jobs = Job::split("cas", true, figures, charts);
        let names: Vec<(Vec<String>, Vec<String>)> =
            jobs.into_iter().map(|job| (job.figures, job.charts)).collect();
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            names,
            [
                (texts(&["one", "three", "both"]), texts(&[])),
                (texts(&["two"]), texts(&["chart"])),
                (texts(&[]), texts(&["alone"])),
            ]
        );
    }
}
