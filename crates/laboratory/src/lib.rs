// SPDX-License-Identifier: GPL-2.0-only
//! The laboratory: every figure that a paper published, with ours beside it. `paceline repro` is its command.
//!
//! A paper is data ([`paper`]). [`measure`] runs what its figures need, and their [`kinds`] take them from the outcomes;
//! [`faults`] are those that a policy has to survive. [`judge`] compares them with their gates; [`show`] prints them.

mod expand;
mod experiment;
mod extremes;
mod faults;
mod jobs;
mod judge;
mod kept;
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
use std::path::{Path, PathBuf};

use ::sweep::Digest;
use comparison::guest::of_vm;
use indicatif::MultiProgress;
use terminal::files::{check_writable, write_report};
use terminal::{Failure, Progress, interrupt, output};

use kept::Kept;
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

impl<'a> Selected<'a> {
    fn new(paper: &'a Paper, wanted: &Wanted, request: &Request) -> Self {
        // A gate of a matrix is for all of its cells.
        let is_judged = |figure: &&Figure| request.cells.is_empty() && wanted.has(&figure.name);
        Selected {
            paper,
            figures: paper.figure.iter().filter(is_judged).collect(),
            views: paper.view.iter().filter(|view| wanted.has(&view.name)).collect(),
        }
    }

    /// The policies whose runs it needs. None: all of them, which a chart shows.
    fn policies(&self) -> Option<BTreeSet<String>> {
        let measures = self.figures.iter().filter_map(|figure| figure.measure.as_ref());
        let needed = measures.map(|measure| measure.kind.policies()).collect::<Option<Vec<_>>>()?;
        let names = needed.concat().into_iter().map(String::from);
        self.views.is_empty().then(|| names.collect())
    }
}

/// Figures and charts that are to be measured, and those that have been.
pub struct Reproduction {
    request: Request,
    papers: Vec<Paper>,
    kept: Kept,
}

impl Reproduction {
    /// Of this program. What the simulator measures is kept in `file`; what is in it is not measured again.
    ///
    /// # Errors
    /// There is no such paper, figure or cell, or the file cannot be used.
    pub fn new(request: Request, file: Option<&Path>, program: Digest) -> Result<Self, Failure> {
        let papers = paper::find(&request.name)?;
        Wanted::new(&papers, &request.only)?;
        if !request.cells.is_empty() {
            kinds::matrix::check(&papers, &request.cells)?;
        }
        Ok(Reproduction { request, papers, kept: Kept::new(file, program)? })
    }

    /// The program that figures belong to.
    pub fn program(&self) -> Digest {
        self.kept.program()
    }

    fn selected(&self) -> Result<Vec<Selected<'_>>, Failure> {
        let wanted = Wanted::new(&self.papers, &self.request.only)?;
        Ok(self.papers.iter().map(|it| Selected::new(it, &wanted, &self.request)).collect())
    }

    fn name(&self, paper: &Paper, name: &str) -> Name {
        let (paper, name) = (paper.name.clone(), name.to_string());
        Name { paper, name, quick: self.request.quick }
    }

    /// What the simulator has not measured yet, in jobs that can be done anywhere.
    ///
    /// # Errors
    /// A figure names a section that is not there.
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let progress = Progress::new(0);
        let mut jobs = Vec::new();
        for Selected { paper, figures, views } in self.selected()? {
            let laboratory = Laboratory::new(paper, Effort::default(), &progress);
            let is_missing = |name: &str| !self.kept.has(&self.name(paper, name));
            let sections = paper.sections();
            let figures = figures
                .into_iter()
                .filter(|it| laboratory.is_simulated(it) && is_missing(&it.name));
            let figures = figures
                .filter_map(|it| Some((it.name.as_str(), it.measure.as_ref()?.sources(&sections))));
            let views = views
                .into_iter()
                .filter(|it| laboratory.is_drawn_from_the_simulator(it) && is_missing(&it.name));
            let views = views.map(|it| (it.name.as_str(), it.sources()));
            let quick = self.request.quick;
            jobs.extend(Job::split(&paper.name, quick, figures.collect(), views.collect()));
        }
        Ok(jobs)
    }

    /// Keeps what a job has measured.
    ///
    /// # Errors
    /// The disk is full.
    pub fn keep(&mut self, done: Vec<(Name, Taken)>) -> Result<(), Failure> {
        done.into_iter().try_for_each(|(name, taken)| self.kept.put(&name, taken))
    }

    /// Measures what is missing; where `simulated` is set, nothing that needs a guest, or is about this machine.
    ///
    /// # Errors
    /// A figure names a section that is not there, or the disk is full.
    pub fn measure(
        &mut self,
        simulated: bool,
        progress: &Progress,
    ) -> Result<Measured<'_>, Failure> {
        let Reproduction { request, papers, kept } = self;
        let (request, papers): (&Request, &[Paper]) = (request, papers);
        let wanted = Wanted::new(papers, &request.only)?;
        let mut measured =
            Measured { request, papers, rows: Vec::new(), charts: Vec::new(), changes: Vec::new() };
        for paper in papers {
            let one = Selected::new(paper, &wanted, request);
            let effort = Effort {
                quick: request.quick,
                kernel: request.kernel.clone(),
                keep: request.keep.clone(),
                policies: one.policies(),
                cells: request.cells.clone(),
            };
            let mut laboratory = Laboratory::new(paper, effort, progress);
            let name = |name: &str| Name {
                paper: paper.name.clone(),
                name: name.to_string(),
                quick: request.quick,
            };
            for figure in one.figures {
                let is_simulated = laboratory.is_simulated(figure);
                let name = name(&figure.name);
                let sample = match kept.get(&name)? {
                    Some(Taken::Figure(sample)) => Some(Ok(sample)),
                    _ if simulated && !is_simulated => None,
                    _ => laboratory.sample(figure),
                };
                if let Some(Ok(sample)) = &sample
                    && is_simulated
                {
                    kept.put(&name, Taken::Figure(sample.clone()))?;
                }
                let mut ours = laboratory.ours(figure, sample)?;
                if simulated && !is_simulated {
                    ours.why.get_or_insert_with(|| "`paceline repro` boots a guest for it".into());
                }
                let row = Row::new(paper, figure, ours, request.quick);
                progress.known(&row.line());
                measured.rows.push(row);
                progress.step();
            }
            for view in one.views {
                let is_simulated = laboratory.is_drawn_from_the_simulator(view);
                let name = name(&view.name);
                let chart = match kept.get(&name)? {
                    Some(Taken::Chart(chart)) if request.cells.is_empty() => Ok(chart),
                    _ if simulated && !is_simulated => {
                        Err(Failure::run("a guest draws it; `paceline repro` boots one"))
                    }
                    _ => laboratory.chart(view),
                };
                if let Ok(chart) = &chart
                    && is_simulated
                    && request.cells.is_empty()
                {
                    kept.put(&name, Taken::Chart(chart.clone()))?;
                }
                let (paper, name, quick) = (&paper.name, &view.name, request.quick);
                measured.charts.push(Drawn { paper, name, chart, quick });
                progress.step();
            }
        }
        if let Some(since) = request.since.as_deref().map(Since::read).transpose()? {
            measured.changes = since.told(&measured.rows);
        }
        Ok(measured)
    }

    /// How many figures and charts there are.
    fn count(&self) -> Result<usize, Failure> {
        Ok(self.selected()?.iter().map(|one| one.figures.len() + one.views.len()).sum())
    }
}

/// Figures and charts as they were measured.
pub struct Measured<'a> {
    request: &'a Request,
    papers: &'a [Paper],
    rows: Vec<Row<'a>>,
    charts: Vec<Drawn<'a>>,
    changes: Vec<String>,
}

impl Measured<'_> {
    /// An array with an object for each figure, then one for each chart.
    pub fn json(&self) -> String {
        show::json(&self.rows, &self.charts)
    }

    /// Tables for a terminal.
    pub fn text(&self) -> String {
        let Measured { request, papers, rows, charts, changes } = self;
        show::text(papers, rows, charts, changes, request.quick)
    }

    /// A page.
    pub fn html(&self) -> String {
        let Measured { request, papers, rows, charts, changes } = self;
        show::html(papers, rows, charts, changes, &request.command())
    }

    /// Whether every gate holds, and no run failed.
    fn passes(&self) -> bool {
        self.rows.iter().all(Row::passes) && show::lost(&self.rows, &self.charts) == 0
    }
}

/// Measures, shows, and fails unless every gate holds and no run failed.
///
/// # Errors
/// The user's input is bad, a gate does not hold, or a run failed.
pub fn run(request: Request) -> Result<(), Failure> {
    if request.list {
        let papers = paper::find(&request.name)?;
        let (wanted, style) = (Wanted::new(&papers, &request.only)?, output::style());
        return output::print(&if request.json { wanted.json() } else { wanted.text(style) });
    }
    if let Some(path) = &request.report {
        check_writable(path, "--report")?;
    }
    // A file that cannot be read is told of before runs of hours.
    request.since.as_deref().map(Since::read).transpose()?;
    let _scratch = interrupt::guard()?;
    check_guests(&request)?;
    let file = request.keep.as_ref().map(|folder| folder.join("figures.results"));
    let program = Digest::of_this_program().map_err(Failure::run)?;
    let mut all = Reproduction::new(request, file.as_deref(), program)?;
    if let Some(note) = all.kept.note() {
        output::say(&format!("paceline: {note}"));
    }
    let progress = Progress::new(all.count()? as u64);
    let measured = all.measure(false, &progress)?;
    drop(progress);
    finish(&measured)
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

fn finish(measured: &Measured) -> Result<(), Failure> {
    let Measured { request, changes, .. } = measured;
    let shown = output::print(&if request.json { measured.json() } else { measured.text() });
    if request.json {
        changes.iter().for_each(|line| output::say(line));
    }
    if let Some(path) = &request.report {
        let written = write_report(path, &measured.html(), request.json);
        output::end(written, Ok(()))?;
    }
    output::end(shown, if measured.passes() { Ok(()) } else { Err(Failure::Gate) })
}

pub use jobs::Job;
pub use kept::{Name, Taken};
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
