// SPDX-License-Identifier: GPL-2.0-only
//! `paceline compare`: one workload under several policies, side by side.

use std::path::Path;

use report::{Results, html, write_whole};

use crate::cli::Compare;
use crate::failure::Failure;
use crate::plan::{Place, Plan};
use crate::progress::Progress;
use crate::{export, ground, interrupt, output};

/// Runs the comparison and shows it.
pub fn run(arguments: &Compare) -> Result<(), Failure> {
    let plan = Plan::new(arguments)?;
    if let Some(path) = &arguments.report {
        check_writable(path, "--report")?;
    }
    export::check(&arguments.exports, &plan)?;
    let _scratch = match plan.place {
        Place::Here(_) => None, // answers Ctrl-C itself
        Place::Sim { .. } | Place::Vm { .. } => Some(interrupt::guard()?),
    };
    let progress = Progress::new(plan.steps());
    progress.phase(&format!("{} under {}", plan.job.name(), plan.labels()));
    let measured = ground::run(&plan, &progress)?;
    drop(progress);
    let mut setting = plan.setting();
    setting.kernel.clone_from(&measured.kernel);
    let mut results = Results::new(setting, &measured.outcomes, plan.locks);
    results.notes.clone_from(&measured.notes);
    match arguments.json {
        true => output::print(&(results.json() + "\n"))?,
        false => output::print(&report::comparison(&results, output::style()))?,
    }
    export::write(&arguments.exports, &measured, &results)?;
    if let Some(path) = &arguments.report {
        write_report(path, &html::comparison(&results), arguments.json)?;
    }
    Ok(())
}

/// Writes a report and says where it is: on standard error where standard output is JSON.
pub fn write_report(path: &Path, page: &str, json: bool) -> Result<(), Failure> {
    write_whole(path, page).map_err(Failure::input)?;
    let line = format!("report: {}", path.display());
    match json {
        true => output::say(&line),
        false => output::print(&(line + "\n"))?,
    }
    Ok(())
}

/// A report that cannot be written is better refused before a long run than after it.
pub fn check_writable(path: &Path, option: &str) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("{} is a folder; name a file", path.display())));
    }
    report::probe(path).map_err(|error| Failure::input(format!("{option}: {error}")))
}
