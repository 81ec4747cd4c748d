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
mod reproduction;
mod show;
mod since;
mod slides;
mod sweep;
mod views;

use std::fs;

use ::sweep::Digest;
use comparison::guest::of_vm;
use indicatif::MultiProgress;
use terminal::files::{check_writable, write_report};
use terminal::{Failure, Progress, interrupt, output};

use reproduction::Measured;

pub use jobs::{Done, Job};
pub use kinds::answers::contradictions;
pub use reproduction::{Reproduction, Request};
pub use show::said;

/// Measures, shows, and fails unless every gate holds and no run failed.
///
/// # Errors
/// The user's input is bad, a gate does not hold, or a run failed.
pub fn run(request: Request) -> Result<(), Failure> {
    let mut all = Reproduction::new(request)?;
    let request = all.request();
    if request.list {
        let (text, json) = all.names(output::style())?;
        return output::print(if request.json { &json } else { &text });
    }
    if let Some(path) = &request.report {
        check_writable(path, "--report")?;
    }
    let _scratch = interrupt::guard()?;
    check_guests(request)?;
    if let Some(folder) = request.keep.clone() {
        let program = Digest::of_this_program().map_err(Failure::run)?;
        if let Some(note) = all.keep_in(&folder.join("figures.results"), program)? {
            output::say(&format!("paceline: {note}"));
        }
    }
    let progress = Progress::new(all.count()? as u64);
    let measured = all.measure(false, &progress, |_, _| Ok(()))?;
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
