// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as files for other programs: timelines for ui.perfetto.dev, tables as CSV.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use comparison::{Contender, Measured, Watched};
use report::csv::{self, Interval};
use report::{Draft, FileError, Results};
use terminal::files::{check_writable, is_same};
use terminal::{Failure, output};
use trace::perfetto::{Perfetto, State};
use trace::{Kind, intervals};

use crate::cli::Exports;

/// Files in the folder of `--csv`.
const TABLES: [&str; 3] = ["runs.csv", "tasks.csv", "intervals.csv"];

/// A file, and the option that names it, or a description.
pub type Named = (&'static str, PathBuf);

/// Refuses files that could not be written, before a long run: the exports, and the files in `own`. No two may be the
/// same, and none may be one that is read.
pub fn check(
    exports: &Exports,
    contenders: &[Contender],
    own: &[Named],
    read: &[Named],
) -> Result<(), Failure> {
    let labels = contenders.iter().map(|contender| contender.label().to_string());
    let timelines = exports.perfetto.iter().flat_map(|path| timelines(path, labels.clone()));
    let mut written = own.to_vec();
    written.extend(timelines.map(|path| ("--perfetto", path)));
    let tables = exports.csv.iter().flat_map(|folder| TABLES.map(|name| folder.join(name)));
    let tables: Vec<Named> = tables.map(|path| ("--csv", path)).collect();
    apart(&[&written[..], &tables].concat(), read)?;
    // With several timelines none has the given name itself, but theirs are made from it.
    let named = exports.perfetto.iter().map(|path| ("--perfetto", path.clone()));
    written
        .into_iter()
        .chain(named)
        .try_for_each(|(option, path)| check_writable(&path, option))?;
    // A failed run leaves no folder.
    let _made = exports.csv.as_deref().map(Made::all_of).transpose()?;
    tables.iter().try_for_each(|(option, path)| check_writable(path, option))
}

/// [`check`] without exports.
pub fn check_files(own: &[Named], read: &[Named]) -> Result<(), Failure> {
    check(&Exports { perfetto: None, csv: None }, &[], own, read)
}

/// Refuses to write a file over another one, or over one that is read.
fn apart(written: &[Named], read: &[Named]) -> Result<(), Failure> {
    for (at, (option, path)) in written.iter().enumerate() {
        let is_it = |(_, other): &&Named| is_same(path, other);
        let why = match (read.iter().find(is_it), written[..at].iter().find(is_it)) {
            (Some((what, _)), _) if path.exists() => format!("it is {what}"),
            (_, Some((other, _))) => format!("{other} writes it, too"),
            _ => continue,
        };
        let path = path.display();
        return Err(Failure::input(format!("{option} {path}: {why}; name another file")));
    }
    Ok(())
}

/// Writes the requested exports, and says where they are.
pub fn write(exports: &Exports, measured: &Measured, results: &Results) -> Result<(), Failure> {
    if let Some(path) = &exports.perfetto {
        let labels = measured
            .watched
            .iter()
            .map(|watched| measured.outcomes[watched.outcome].policy.clone());
        let mut drafts = Vec::new();
        for (path, watched) in timelines(path, labels).into_iter().zip(&measured.watched) {
            let timeline = timeline(measured, watched)
                .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
            drafts.push((Draft::with(&path, |out| out.write_all(&timeline)), path));
        }
        keep(drafts, "file")?;
    }
    if let Some(folder) = &exports.csv {
        let made = Made::all_of(folder)?;
        tables(folder, measured, results)?;
        made.keep();
    }
    Ok(())
}

/// Writes all tables or none: a folder with tables of two runs would be misleading.
fn tables(folder: &Path, measured: &Measured, results: &Results) -> Result<(), Failure> {
    let [runs, tasks, intervals] = TABLES.map(|name| folder.join(name));
    let mut drafts = vec![
        (Draft::with(&runs, |out| csv::runs(results, out)), runs),
        (Draft::with(&tasks, |out| csv::tasks(results, out)), tasks),
    ];
    if !measured.watched.is_empty() {
        let rows = measured.watched.iter().flat_map(|watched| rows(measured, watched));
        let draft = Draft::with(&intervals, |out| csv::intervals(rows, out));
        drafts.push((draft, intervals.clone()));
    }
    keep(drafts, "folder")?;
    if measured.watched.is_empty() { remove_old(&intervals) } else { Ok(()) }
}

/// Moves files to their places, all of them or none; `kind` describes what the option names.
fn keep(drafts: Vec<(Result<Draft, FileError>, PathBuf)>, kind: &str) -> Result<(), Failure> {
    let full = |error| Failure::input(format!("{error}; make room, or name another {kind}"));
    let whole = |(draft, path): (Result<Draft, _>, _)| Ok((draft?, path));
    let drafts: Result<Vec<_>, FileError> = drafts.into_iter().map(whole).collect();
    for (draft, path) in drafts.map_err(full)? {
        draft.keep().map_err(full)?;
        output::say(&format!("paceline: wrote {}", path.display()));
    }
    Ok(())
}

/// Removes another comparison's table if this one has none.
fn remove_old(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Ok(()) => {
            let path = path.display();
            output::say(&format!("paceline: removed {path}, which was of another comparison"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let path = path.display();
            return Err(Failure::input(format!(
                "{path} is of another comparison: {error}; remove it, or name another folder"
            )));
        }
    }
    Ok(())
}

/// Folders created for a file; empty ones are removed when this is dropped.
struct Made(Vec<PathBuf>);

impl Made {
    fn all_of(folder: &Path) -> Result<Self, Failure> {
        let named = folder.ancestors().filter(|path| !path.as_os_str().is_empty());
        let missing =
            Made(named.take_while(|path| !path.exists()).map(Path::to_path_buf).collect());
        fs::create_dir_all(folder).map_err(|error| {
            Failure::input(format!("--csv {}: {error}; name a folder", folder.display()))
        })?;
        Ok(missing)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Folders with contents stay.
        self.0.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// A file for each policy: the named one, or if there are several policies, each with its policy before the ending.
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
    use std::io::Write;

    use super::*;

    #[test]
    fn one_file_is_not_written_over_another_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("load"), "").unwrap();
        fs::hard_link(at("load"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("load"), at("soft")).unwrap();
        let refused = |written: &[&str]| {
            let written: Vec<Named> = written.iter().map(|name| ("--x", at(name))).collect();
            apart(&written, &[("the workload", at("load"))]).map_err(|why| why.to_string()).err()
        };
        assert_eq!(refused(&["new", "newer"]), None);
        for written in [&["load"][..], &["new", "soft"], &["hard"], &["./load"]] {
            assert!(refused(written).unwrap().ends_with("it is the workload; name another file"));
        }
        for written in [&["new", "new"][..], &["none/../new", "none/../new"], &["./new", "new"]] {
            assert!(refused(written).unwrap().ends_with("--x writes it, too; name another file"));
        }
    }

    #[test]
    fn all_files_are_kept_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let draft = |name: &str, fails: bool| {
            let path = folder.path().join(name);
            let full = io::Error::from(io::ErrorKind::StorageFull);
            let fill = |out: &mut dyn Write| if fails { Err(full) } else { out.write_all(b"new") };
            (Draft::with(&path, fill), path)
        };
        let refused = keep(vec![draft("one", false), draft("two", true)], "file").unwrap_err();
        assert!(refused.to_string().ends_with("; make room, or name another file"), "{refused}");
        let files = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files(), 0);
        keep(vec![draft("one", false), draft("two", false)], "file").unwrap();
        assert_eq!(files(), 2);
    }

    #[test]
    fn a_table_that_was_not_measured_anew_goes() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("intervals.csv");
        let setting = report::Setting {
            ground: "here".into(),
            machine: "m".into(),
            cpus: 1,
            workload: "w".into(),
            seed: None,
            clock: report::Clock::Real,
            kernel: None,
        };
        let results = Results::new(setting, &[], false);
        for _ in 0..2 {
            tables(folder.path(), &Measured::default(), &results).unwrap();
            assert!(!old.exists() && folder.path().join("runs.csv").exists());
            fs::write(&old, "old").unwrap();
        }
    }

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
