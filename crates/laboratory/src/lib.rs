// SPDX-License-Identifier: GPL-2.0-only
//! The laboratory: every figure that a paper published, with ours beside it. `paceline repro` is its command.
//!
//! A paper is data ([`paper`]). [`measure`] runs what its figures need, and their [`kinds`] take them from the outcomes;
//! [`faults`] are those that a policy has to survive. [`judge`] compares them with their gates; [`show`] prints them.

mod expand;
mod experiment;
mod extremes;
mod faults;
mod judge;
mod kind;
mod kinds;
mod loads;
mod measure;
mod names;
mod outcomes;
mod paper;
mod show;
mod since;
mod slides;
mod sweep;
mod views;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use comparison::guest::of_vm;
use indicatif::MultiProgress;
use terminal::files::{check_writable, write_report};
use terminal::{Failure, Progress, interrupt, output};

use measure::{Effort, Laboratory};
use names::Wanted;
use paper::{Figure, Paper};
use show::{Drawn, Row};
use since::Since;
use views::View;

/// What is to be measured, and how.
#[derive(Debug, Default)]
pub struct Request {
    /// A paper's name, or `all`.
    pub name: String,
    /// Names of figures and charts; empty: all of them.
    pub only: Vec<String>,
    /// Cells of a matrix, by parts of their names: they are shown, and no gate is judged; empty: all of them.
    pub cells: Vec<String>,
    /// List them, and run nothing.
    pub list: bool,
    /// Fewer boots, seeds and sizes.
    pub quick: bool,
    /// Output of an earlier `repro --json`, to say what changed.
    pub since: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
    /// The file for a report.
    pub report: Option<PathBuf>,
    /// The guest's kernel.
    pub kernel: Option<PathBuf>,
    /// Folder for kept boots of the guest.
    pub keep: Option<PathBuf>,
}

impl Request {
    /// The command that measures the same.
    fn command(&self) -> String {
        let mut command = format!("paceline repro {}", self.name);
        if self.quick {
            command += " --quick";
        }
        self.only.iter().for_each(|only| command += &format!(" --only {only}"));
        self.cells.iter().for_each(|cells| command += &format!(" --cells '{cells}'"));
        command
    }
}

/// What of a paper is measured.
struct Selected<'a> {
    paper: &'a Paper,
    figures: Vec<&'a Figure>,
    views: Vec<&'a View>,
}

impl Selected<'_> {
    /// The policies whose runs it needs. None: all of them, which a chart shows.
    fn policies(&self) -> Option<BTreeSet<String>> {
        let measures = self.figures.iter().filter_map(|figure| figure.measure.as_ref());
        let needed = measures.map(|measure| measure.policies()).collect::<Option<Vec<_>>>()?;
        let names = needed.concat().into_iter().map(String::from);
        self.views.is_empty().then(|| names.collect())
    }
}

/// Measures, shows, and fails unless every gate holds and no run failed.
pub fn run(arguments: &Request) -> Result<(), Failure> {
    let papers = paper::find(&arguments.name)?;
    let wanted = Wanted::new(&papers, &arguments.only)?;
    if !arguments.cells.is_empty() {
        kinds::matrix::check(&papers, &arguments.cells)?;
    }
    if arguments.list {
        let style = output::style();
        return output::print(&if arguments.json { wanted.json() } else { wanted.text(style) });
    }
    if let Some(path) = &arguments.report {
        check_writable(path, "--report")?;
    }
    let since = arguments.since.as_deref().map(Since::read).transpose()?;
    // A gate of a matrix is for all of its cells.
    let is_judged = |figure: &Figure| arguments.cells.is_empty() && wanted.has(&figure.name);
    let selected: Vec<Selected> = papers
        .iter()
        .map(|paper| Selected {
            paper,
            figures: paper.figure.iter().filter(|figure| is_judged(figure)).collect(),
            views: paper.view.iter().filter(|view| wanted.has(&view.name)).collect(),
        })
        .collect();
    let count: usize = selected.iter().map(|one| one.figures.len() + one.views.len()).sum();
    let _scratch = interrupt::guard()?;
    check_guests(arguments)?;
    let progress = Progress::new(count as u64);
    let (mut rows, mut charts) = (Vec::new(), Vec::new());
    for one in &selected {
        let paper = one.paper;
        let effort = Effort {
            quick: arguments.quick,
            kernel: arguments.kernel.clone(),
            keep: arguments.keep.clone(),
            policies: one.policies(),
            cells: arguments.cells.clone(),
        };
        let mut laboratory = Laboratory::new(paper, effort, &progress);
        for figure in &one.figures {
            let ours = laboratory.measure(figure)?;
            let row = Row::new(paper, figure, ours, arguments.quick);
            progress.known(&row.line());
            rows.push(row);
            progress.step();
        }
        for view in &one.views {
            let chart = laboratory.chart(view);
            let quick = arguments.quick;
            charts.push(Drawn { paper: &paper.name, name: &view.name, chart, quick });
            progress.step();
        }
    }
    drop(progress);
    let changes = since.map_or(Vec::new(), |since| since.told(&rows));
    finish(arguments, &papers, &rows, &charts, &changes)
}

/// Refuses options that no guest could use, before runs of hours.
fn check_guests(arguments: &Request) -> Result<(), Failure> {
    if let Some(image) = &arguments.kernel {
        vm::kernel::find(Some(image), None, &MultiProgress::new()).map_err(of_vm)?;
    }
    let Some(folder) = &arguments.keep else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|error| {
        Failure::input(format!("--keep {}: {error}; name a folder", folder.display()))
    })
}

fn finish(
    arguments: &Request,
    papers: &[Paper],
    rows: &[Row],
    charts: &[Drawn],
    changes: &[String],
) -> Result<(), Failure> {
    let shown = match arguments.json {
        true => output::print(&show::json(rows, charts)),
        false => output::print(&show::text(papers, rows, charts, changes, arguments.quick)),
    };
    if arguments.json {
        changes.iter().for_each(|line| output::say(line));
    }
    if let Some(path) = &arguments.report {
        let page = show::html(papers, rows, charts, changes, &arguments.command());
        let written = write_report(path, &page, arguments.json);
        output::end(written, Ok(()))?;
    }
    let all = rows.iter().all(Row::passes) && show::lost(rows, charts) == 0;
    output::end(shown, if all { Ok(()) } else { Err(Failure::Gate) })
}

pub use kinds::answers::contradictions;
pub use show::said;

/// Names for `repro`.
pub fn papers() -> impl Iterator<Item = &'static str> {
    paper::PAPERS.iter().map(|(name, _)| *name).chain(["all"])
}

/// Names of all figures and charts.
pub fn figure_names() -> Vec<String> {
    names::all(&paper::find("all").unwrap_or_default())
}

/// Every figure and chart by its name, for people and for programs.
pub fn figures() -> Result<(String, serde_json::Value), Failure> {
    let papers = paper::find("all")?;
    let all = names::Wanted::new(&papers, &[])?;
    let json = serde_json::from_str(&all.json()).expect("it was written just now");
    Ok((all.text(output::style()), json))
}
