// SPDX-License-Identifier: GPL-2.0-only
//! Figures and charts of papers: which are wanted, which are known, and the rest measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use report::Style;
use sweep::Digest;
use terminal::{Failure, Progress};

use crate::jobs::{Done, Job};
use crate::kept::{Kept, Name, Taken};
use crate::kinds::matrix;
use crate::measure::{Effort, Laboratory};
use crate::names::Wanted;
use crate::paper::{self, Figure, Paper};
use crate::show::{self, Drawn, Row};
use crate::since::Since;
use crate::views::View;

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

    fn count(&self) -> usize {
        self.figures.len() + self.views.len()
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
    since: Option<Since>,
    /// None: nothing is kept.
    kept: Option<Kept>,
    /// Those that failed elsewhere, by the name, and why.
    failed: BTreeMap<Name, String>,
}

impl Reproduction {
    /// Takes a request.
    ///
    /// # Errors
    /// There is no such paper, figure or cell, or the earlier output cannot be read.
    pub fn new(request: Request) -> Result<Self, Failure> {
        let papers = paper::find(&request.name)?;
        Wanted::new(&papers, &request.only)?;
        if !request.cells.is_empty() {
            matrix::check(&papers, &request.cells)?;
        }
        // A file that cannot be read is told of before runs of hours.
        let since = request.since.as_deref().map(Since::read).transpose()?;
        Ok(Reproduction { request, papers, since, kept: None, failed: BTreeMap::new() })
    }

    /// Keeps what the simulator measures in a file of this program's figures. What is in it is not measured again. Returns
    /// a note about lines of it that cannot be used.
    ///
    /// # Errors
    /// The file is in use, cannot be written, or has something else in it.
    pub fn keep_in(&mut self, file: &Path, program: Digest) -> Result<Option<String>, Failure> {
        let kept = self.kept.insert(Kept::new(file, program)?);
        Ok(kept.note())
    }

    /// Lets other processes write to the file.
    pub fn release(&self) {
        self.kept.iter().for_each(Kept::release);
    }

    /// What was asked.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The names of all that is wanted, for people and for programs.
    ///
    /// # Errors
    /// There is no such figure.
    pub fn names(&self, style: Style) -> Result<(String, String), Failure> {
        let wanted = Wanted::new(&self.papers, &self.request.only)?;
        Ok((wanted.text(style), wanted.json()))
    }

    /// What the simulator has not measured yet, in jobs that can be done anywhere.
    ///
    /// # Errors
    /// A figure names a section that is not there.
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let (progress, quick) = (Progress::new(0), self.request.quick);
        let mut jobs = Vec::new();
        for Selected { paper, figures, views } in selected(&self.papers, &self.request)? {
            let laboratory = Laboratory::new(paper, Effort::default(), &progress);
            let kept = self.kept.as_ref();
            let is_missing = |name: &str| {
                let name = Name::new(paper, name, quick);
                !kept.is_some_and(|kept| kept.has(&name))
            };
            let sections = paper.sections();
            let figures = figures
                .into_iter()
                .filter(|it| laboratory.is_simulated(it) && is_missing(&it.name))
                .filter_map(|it| Some((it.name.as_str(), it.measure.as_ref()?.sources(&sections))));
            let views = views
                .into_iter()
                .filter(|it| laboratory.is_drawn_from_the_simulator(it) && is_missing(&it.name))
                .map(|it| (it.name.as_str(), it.sources()));
            jobs.extend(Job::split(&paper.name, quick, figures.collect(), views.collect()));
        }
        Ok(jobs)
    }

    /// Keeps what a job has measured.
    ///
    /// # Errors
    /// The disk is full.
    pub fn keep(&mut self, done: Vec<Done>) -> Result<(), Failure> {
        for Done { name, taken } in done {
            match (taken, &mut self.kept) {
                (Ok(taken), Some(kept)) => kept.put(&name, taken)?,
                (Ok(_), None) => {}
                (Err(why), _) => _ = self.failed.insert(name, why),
            }
        }
        Ok(())
    }

    /// Measures what is missing, and calls `step` after each figure and chart: how many are done, and of how many. Where
    /// `simulated` is set, figures that need a guest or are about this machine are left out.
    ///
    /// # Errors
    /// A figure names a section that is not there, the disk is full, or that of `step`.
    pub fn measure(
        &mut self,
        simulated: bool,
        progress: &Progress,
        mut step: impl FnMut(usize, usize) -> Result<(), Failure>,
    ) -> Result<Measured<'_>, Failure> {
        let Reproduction { request, papers, since, kept, failed } = self;
        let (request, papers): (&Request, &[Paper]) = (request, papers);
        let all = selected(papers, request)?;
        let (mut done, of) = (0, all.iter().map(Selected::count).sum());
        let mut step = || {
            done += 1;
            progress.step();
            step(done, of)
        };
        let (mut rows, mut charts) = (Vec::new(), Vec::new());
        for one in all {
            let (paper, quick) = (one.paper, request.quick);
            let effort = Effort {
                quick,
                kernel: request.kernel.clone(),
                keep: request.keep.clone(),
                policies: one.policies(),
                cells: request.cells.clone(),
            };
            let mut laboratory = Laboratory::new(paper, effort, progress);
            for figure in one.figures {
                let name = Name::new(paper, &figure.name, quick);
                let is_simulated = laboratory.is_simulated(figure);
                let kept = kept.as_mut().filter(|_| is_simulated);
                let known = kept.as_ref().map_or(Ok(None), |kept| kept.get(&name))?;
                let sample = match (known, failed.get(&name)) {
                    (Some(Taken::Figure(sample)), _) => Some(Ok(sample)),
                    (_, Some(why)) => Some(Err(Failure::run(why))),
                    _ if simulated && !is_simulated => None,
                    _ => laboratory.sample(figure),
                };
                if let (Some(Ok(sample)), Some(kept)) = (&sample, kept) {
                    kept.put(&name, Taken::Figure(sample.clone()))?;
                }
                let was_left_out = sample.is_none() && figure.measure.is_some();
                let mut ours = laboratory.ours(figure, sample)?;
                if was_left_out {
                    let left_out = "`paceline repro` measures it, with a guest or on this machine";
                    ours.why = Some(match ours.why {
                        Some(why) => format!("{why}; {left_out}"),
                        None => left_out.to_string(),
                    });
                }
                let row = Row::new(paper, figure, ours, quick);
                progress.known(&row.line());
                rows.push(row);
                step()?;
            }
            for view in one.views {
                let name = Name::new(paper, &view.name, quick);
                let is_simulated = laboratory.is_drawn_from_the_simulator(view);
                // Some cells of a matrix are another chart.
                let kept = kept.as_mut().filter(|_| is_simulated && request.cells.is_empty());
                let known = kept.as_ref().map_or(Ok(None), |kept| kept.get(&name))?;
                let chart = match (known, failed.get(&name)) {
                    (Some(Taken::Chart(chart)), _) => Ok(chart),
                    (_, Some(why)) => Err(Failure::run(why)),
                    _ if simulated && !is_simulated => {
                        Err(Failure::run("a guest draws it; `paceline repro` boots one"))
                    }
                    _ => laboratory.chart(view),
                };
                if let (Ok(chart), Some(kept)) = (&chart, kept) {
                    kept.put(&name, Taken::Chart(chart.clone()))?;
                }
                charts.push(Drawn { paper: &paper.name, name: &view.name, chart, quick });
                step()?;
            }
        }
        let changes = since.as_ref().map_or(Vec::new(), |since| since.told(&rows));
        Ok(Measured { request, papers, rows, charts, changes })
    }

    /// How many figures and charts there are.
    ///
    /// # Errors
    /// There is no such figure.
    pub fn count(&self) -> Result<usize, Failure> {
        Ok(selected(&self.papers, &self.request)?.iter().map(Selected::count).sum())
    }
}

fn selected<'a>(papers: &'a [Paper], request: &Request) -> Result<Vec<Selected<'a>>, Failure> {
    let wanted = Wanted::new(papers, &request.only)?;
    Ok(papers.iter().map(|paper| Selected::new(paper, &wanted, request)).collect())
}

/// Figures and charts as they were measured.
pub struct Measured<'a> {
    /// What was asked.
    pub request: &'a Request,
    papers: &'a [Paper],
    rows: Vec<Row<'a>>,
    charts: Vec<Drawn<'a>>,
    /// What changed since an earlier output.
    pub changes: Vec<String>,
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
    pub fn passes(&self) -> bool {
        self.rows.iter().all(Row::passes) && show::lost(&self.rows, &self.charts) == 0
    }
}
