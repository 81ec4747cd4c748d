// SPDX-License-Identifier: GPL-2.0-only
//! `paceline report`: a report of results kept as JSON, or of two of them as before and after.

use std::path::Path;

use report::Results;
use terminal::Failure;
use terminal::files::{self, say_report};

use crate::cli::Report;
use crate::present::{print, write_page};
use crate::{export, verdict};

/// Reads the results, shows them, and writes the report.
pub fn run(args: &Report) -> Result<(), Failure> {
    let read_from: Vec<_> = args.results.iter().map(|path| ("the result", path.clone())).collect();
    export::check_files(&[("-o", args.output.clone())], &read_from)?;
    let results = match &args.results[..] {
        [one] => read(one)?,
        [before, after, ..] => beside(before, after)?,
        [] => return Err(Failure::input("name a file that --json printed")),
    };
    write_page(&args.output, &results)?;
    print(&results, &args.form)?;
    say_report(&args.output, args.form.json)
}

fn read(path: &Path) -> Result<Results, Failure> {
    let results = Results::from_json(&files::read(path)?).map_err(|error| {
        Failure::input(format!(
            "{}: it is not what `compare --json` or `try --json` prints, or a part of it is missing (line {})",
            path.display(),
            error.line()
        ))
    })?;
    match results.summary.is_empty() || results.runs.is_empty() {
        true => Err(Failure::input(format!("{}: no run is in it", path.display()))),
        false => Ok(results),
    }
}

/// Two results of one workload, on one kind of clock.
fn beside(before: &Path, after: &Path) -> Result<Results, Failure> {
    let (one, other) = (read(before)?, read(after)?);
    let (a, b) = (&one.setting, &other.setting);
    let differ = |what: &str, a: &str, b: &str| {
        Failure::input(format!(
            "{} and {} cannot be held against each other: {what} is {a} in one and {b} in the other",
            before.display(),
            after.display()
        ))
    };
    if a.workload != b.workload {
        return Err(differ("the workload", &a.workload, &b.workload));
    }
    if a.clock != b.clock {
        return Err(differ("the clock", a.clock.name(), b.clock.name()));
    }
    let kernel = |kernel: &Option<String>| kernel.clone().unwrap_or_else(|| "unknown".into());
    let changed: Vec<String> = [
        ("ground", a.ground.clone(), b.ground.clone()),
        ("machine", a.machine.clone(), b.machine.clone()),
        ("kernel", kernel(&a.kernel), kernel(&b.kernel)),
    ]
    .iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("{what}: {a} before, {b} after"))
    .collect();
    // A comparison of replays cannot be more exact than the replays are to their own recordings.
    let off =
        |results: &Results| results.recording.as_ref().map(|it| it.distance.map_or(1.0, f64::abs));
    let error = off(&one).into_iter().chain(off(&other)).fold(0.0, f64::max);
    let mut both = one.beside(other, ["before", "after"]);
    both.notes.extend(changed);
    both.answer = Some(verdict::before_and_after(&both, error));
    Ok(both)
}
