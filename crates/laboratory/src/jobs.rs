// SPDX-License-Identifier: GPL-2.0-only
//! Figures and charts in jobs that can be done apart from each other, on any machine. Those that share runs are one job.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use terminal::{Failure, Progress};

use crate::kept::{Name, Taken};
use crate::measure::{Effort, Laboratory};
use crate::paper;

/// A figure or chart that a job has measured, or why it could not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Its name.
    pub name: Name,
    /// What was measured.
    pub taken: Result<Taken, String>,
}

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
            // A figure that shares runs with two groups joins them.
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

    /// Measures them.
    ///
    /// # Errors
    /// There is no such paper.
    pub fn measure(&self) -> Result<Vec<Done>, Failure> {
        let papers = paper::find(&self.paper)?;
        let progress = Progress::new(self.count() as u64);
        let effort = Effort { quick: self.quick, ..Effort::default() };
        let mut done = Vec::new();
        for paper in &papers {
            let mut laboratory = Laboratory::new(paper, effort.clone(), &progress);
            let mut add = |name: &str, taken: Result<Taken, Failure>| {
                let taken = taken.map_err(|failure| failure.to_string());
                // A value that JSON does not have is measured where it is shown.
                if taken.as_ref().map_or(true, Taken::is_plain) {
                    done.push(Done { name: Name::new(paper, name, self.quick), taken });
                }
                progress.step();
            };
            for figure in paper.figure.iter().filter(|of| self.figures.contains(&of.name)) {
                if let Some(sample) = laboratory.sample(figure) {
                    add(&figure.name, sample.map(Taken::Figure));
                }
            }
            for view in paper.view.iter().filter(|of| self.charts.contains(&of.name)) {
                add(&view.name, laboratory.chart(view).map(Taken::Chart));
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::View;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Else a cluster would boot guests, or a file would keep what another machine measures otherwise.
    #[test]
    fn no_figure_of_the_simulator_is_taken_from_a_guest() {
        let (progress, mut simulated) = (Progress::new(0), 0);
        for paper in paper::find("all").unwrap() {
            let laboratory = Laboratory::new(&paper, Effort::default(), &progress);
            let guests: Vec<&String> = paper.experiment.keys().collect();
            let guests = guests.into_iter().filter(|name| {
                laboratory.setting(name).is_ok_and(|setting| setting.ground != "sim")
            });
            let guests: BTreeSet<String> = guests.cloned().collect();
            for figure in paper.figure.iter().filter(|it| laboratory.is_simulated(it)) {
                let sources = figure.measure.as_ref().unwrap().sources(&paper.sections());
                assert!(sources.is_disjoint(&guests), "{}: {sources:?}", figure.name);
                simulated += 1;
            }
            let drawn = |view: &&View| laboratory.is_drawn_from_the_simulator(view);
            for view in paper.view.iter().filter(drawn) {
                assert!(view.sources().is_disjoint(&guests), "{}", view.name);
            }
        }
        assert!(simulated > 100, "{simulated}");
    }

    /// What is kept is what a run comes to, to the last bit.
    #[test]
    fn what_a_job_has_measured_is_the_same_from_a_file() {
        let sources = || ["exact".to_string()].into();
        let job = Job::split("min-fair", true, vec![("mixes", sources())], Vec::new()).remove(0);
        let done = job.measure().unwrap();
        let text = serde_json::to_string(&done).unwrap();
        let read: Vec<Done> = serde_json::from_str(&text).unwrap();
        let values = |done: &[Done]| match &done[0].taken {
            Ok(Taken::Figure(sample)) => sample.values.clone(),
            other => panic!("{other:?}"),
        };
        assert!(!values(&done).is_empty());
        assert_eq!(values(&done), values(&read));
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
