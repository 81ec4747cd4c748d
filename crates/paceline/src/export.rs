// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as files for other programs: timelines for ui.perfetto.dev, tables as CSV.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use report::csv::{self, Interval};
use report::{Results, write_with};
use trace::perfetto::{Perfetto, State};
use trace::{Kind, intervals};

use crate::cli::Exports;
use crate::compare::check_writable;
use crate::failure::Failure;
use crate::ground::{Measured, Watched};
use crate::output;
use crate::plan::Plan;

/// Refuses what could not be written, before a long run.
pub fn check(exports: &Exports, plan: &Plan) -> Result<(), Failure> {
    if let Some(path) = &exports.perfetto {
        let labels = plan.contenders.iter().map(|contender| contender.label().to_string());
        for path in timelines(path, labels) {
            check_writable(&path, "--perfetto")?;
        }
    }
    if let Some(folder) = &exports.csv {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::input(format!("--csv {}: {error}", folder.display())))?;
        check_writable(&folder.join("runs.csv"), "--csv")?;
    }
    Ok(())
}

/// Writes what was asked for, and says where it is.
pub fn write(exports: &Exports, measured: &Measured, results: &Results) -> Result<(), Failure> {
    if let Some(path) = &exports.perfetto {
        let labels = measured
            .watched
            .iter()
            .map(|watched| measured.outcomes[watched.outcome].policy.clone());
        for (path, watched) in timelines(path, labels).iter().zip(&measured.watched) {
            let timeline = timeline(measured, watched)
                .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
            put(path, |out| out.write_all(&timeline))?;
        }
    }
    if let Some(folder) = &exports.csv {
        put(&folder.join("runs.csv"), |out| csv::runs(results, out))?;
        put(&folder.join("tasks.csv"), |out| csv::tasks(results, out))?;
        if !measured.watched.is_empty() {
            let rows = measured.watched.iter().flat_map(|watched| rows(measured, watched));
            put(&folder.join("intervals.csv"), |out| csv::intervals(rows, out))?;
        }
    }
    Ok(())
}

fn put(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    write_with(path, fill).map_err(Failure::input)?;
    output::say(&format!("paceline: wrote {}", path.display()));
    Ok(())
}

/// A file for each policy: the one that was named, or where they are several, each with its policy before the ending.
fn timelines(path: &Path, labels: impl Iterator<Item = String>) -> Vec<PathBuf> {
    let labels: Vec<String> = labels.collect();
    if labels.len() < 2 {
        return vec![path.to_path_buf(); labels.len()];
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |it| format!(".{}", it.to_string_lossy()));
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '-' };
    let name = |label: &String| {
        let label: String = label.chars().map(plain).collect();
        path.with_file_name(format!("{stem}-{label}{ending}"))
    };
    labels.iter().map(name).collect()
}

fn timeline(measured: &Measured, watched: &Watched) -> std::io::Result<Vec<u8>> {
    let mut out = Perfetto::new(Vec::new(), watched.cpus);
    let outcome = &measured.outcomes[watched.outcome];
    // A process has the number of its first thread.
    let mut first = BTreeMap::new();
    for (tid, name) in &outcome.names {
        let process = watched
            .processes
            .get(*tid as usize - 1)
            .map(|process| *first.entry(*process).or_insert(*tid));
        out.thread(*tid, process.unwrap_or(*tid), name)?;
    }
    let mut dead = None;
    for event in &watched.events {
        let (t_ns, cpu) = (event.t_ns, event.cpu);
        match event.kind {
            Kind::Switch { prev, next, prev_runnable, .. } => {
                let state = match prev_runnable {
                    _ if dead == Some(prev) => State::Dead,
                    true => State::Runnable,
                    false => State::Asleep,
                };
                out.switch(t_ns, cpu, prev, state, next)?;
            }
            Kind::Wake { tid, target } => out.waking(t_ns, cpu, tid, target)?,
            Kind::Exit { tid } => dead = Some(tid),
            Kind::Fork { .. } | Kind::Affinity { .. } => {}
        }
    }
    out.finish()
}

fn rows(measured: &Measured, watched: &Watched) -> impl Iterator<Item = Interval> {
    let outcome = &measured.outcomes[watched.outcome];
    let row = move |it: trace::Interval| Interval {
        policy: outcome.policy.clone(),
        run: outcome.run,
        cpu: it.cpu,
        tid: it.tid,
        name: outcome.names.get(&it.tid).cloned().unwrap_or_default(),
        mm: it.mm,
        from_s: it.from_ns as f64 / 1e9,
        to_s: it.to_ns as f64 / 1e9,
    };
    intervals(&watched.events, outcome.elapsed_ns).into_iter().map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_a_file_that_can_be_named() {
        let names = |labels: &[&str]| {
            timelines(Path::new("/x/run.pf"), labels.iter().map(|label| label.to_string()))
        };
        assert_eq!(names(&["cas"]), [Path::new("/x/run.pf")]);
        let two = [Path::new("/x/run-default.pf"), Path::new("/x/run-rr-slice=50ms-pull=on.pf")];
        assert_eq!(names(&["default", "rr:slice=50ms,pull=on"]), two);
    }
}
