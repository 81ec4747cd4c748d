// SPDX-License-Identifier: GPL-2.0-only
//! `paceline repro`: every figure that a paper published, with ours beside it.
//!
//! A paper is data ([`paper`]); [`measure`] runs what its figures need and takes them from the
//! outcomes; [`judge`] holds them to their gates; [`show`] prints them.

mod experiment;
mod judge;
mod measure;
mod outcomes;
mod paper;
mod show;

use crate::cli::Repro;
use crate::compare::check_writable;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output};
use measure::{Effort, Laboratory};
use show::Row;

/// Measures, shows, and fails unless every gate holds.
pub fn run(arguments: &Repro) -> Result<(), Failure> {
    let papers = paper::find(&arguments.name)?;
    if let Some(path) = &arguments.report {
        check_writable(path)?;
    }
    let wanted = |name: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str()))
    };
    let count: usize =
        papers.iter().map(|paper| paper.figure.iter().filter(|f| wanted(&f.name)).count()).sum();
    if count == 0 {
        return Err(Failure::input("--only matches no figure; paceline repro NAME shows them all"));
    }
    let _scratch = interrupt::guard()?;
    let progress = Progress::new(count as u64);
    let mut rows = Vec::new();
    for paper in &papers {
        let effort = Effort { quick: arguments.quick, kernel: arguments.kernel.clone() };
        let mut laboratory = Laboratory::new(paper, effort, &progress);
        for figure in paper.figure.iter().filter(|figure| wanted(&figure.name)) {
            let ours = laboratory.measure(figure)?;
            rows.push(Row::new(paper, figure, ours, arguments.quick));
            progress.step();
        }
    }
    drop(progress);
    finish(arguments, &papers, &rows)
}

fn finish(arguments: &Repro, papers: &[paper::Paper], rows: &[Row]) -> Result<(), Failure> {
    if let Some(path) = &arguments.report {
        report::write_whole(path, &show::html(papers, rows)).map_err(Failure::run)?;
    }
    match arguments.json {
        true => output::print(&show::json(rows))?,
        false => output::print(&show::text(papers, rows, arguments.quick))?,
    }
    match rows.iter().all(Row::passes) {
        true => Ok(()),
        false => Err(Failure::Gate),
    }
}
