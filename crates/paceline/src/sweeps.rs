// SPDX-License-Identifier: GPL-2.0-only
//! `paceline sweep`: thousands of simulations from one file.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use report::text::{plural, visible};
use report::write_whole;
use serde::Serialize;
use sweep::{Design, Digest, Lost, Purpose, Store, show};
use terminal::files::say_report;
use terminal::{Failure, Progress, interrupt, output, shell};

use crate::cli::Sweep;
use crate::export;

/// Runs what is missing, and shows what all runs say.
pub fn run(arguments: &Sweep) -> Result<(), Failure> {
    let design = Design::read(&arguments.file, Purpose::Sweep)?;
    let stages = sweep::check(&design)?;
    let path = arguments.results.clone();
    let path = path.unwrap_or_else(|| arguments.file.with_extension("results"));
    check_files(arguments, &design, &path)?;
    let program = program()?;
    let told = |missing: &sweep::Missing| {
        let runs = plural(missing.runs, "run");
        let known = missing.runs - missing.left.len();
        visible(&format!("{}: {runs}, {known} of them known", design.title))
    };
    if arguments.list {
        let missing = sweep::missing(&design, Store::look(&path)?.as_ref(), program);
        return output::print(&(told(&missing) + "\n"));
    }
    let mut store = opened(&path)?;
    let missing = sweep::missing(&design, &store, program);
    if !missing.left.is_empty() {
        let known = missing.runs - missing.left.len();
        tell_when_interrupted(path, known, Some(missing.runs));
        interrupt::ends()?;
        let progress = Progress::new(missing.left.len() as u64);
        progress.phase(&told(&missing));
        let threads = threads(arguments.jobs);
        let on = (&design.inputs, &stages);
        sweep::perform(&missing.left, on, &mut store, threads, || {
            progress.step();
            count_kept();
            Ok(())
        })?;
    }
    let findings = sweep::findings(&design, &store, program)?;
    if let Some(csv) = &arguments.csv {
        show::csv(&design, &store, program, csv)?;
    }
    let text = || show::text(&findings, output::style());
    let page = || show::page(&findings, &again());
    hand_over(&findings, text, page, arguments.report.as_deref(), arguments.json)?;
    match findings.nothing_for() {
        Some(Lost { label, why, .. }) => {
            Err(Failure::run(format!("nothing can be compared, as {label} failed: {why}")))
        }
        None => Ok(()),
    }
}

/// Opens a file of results, and tells of lines that cannot be used.
pub fn opened(path: &Path) -> Result<Store, Failure> {
    let store = Store::open(path)?;
    if let Some(note) = store.note() {
        output::say(&format!("paceline: {note}"));
    }
    Ok(store)
}

/// Writes the report, prints what was found, and says where the report is. The report comes first: the reader of what is
/// printed may have gone.
pub fn hand_over(
    found: &impl Serialize,
    text: impl FnOnce() -> String,
    page: impl FnOnce() -> String,
    report: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    if let Some(report) = report {
        write_whole(report, page()).map_err(Failure::input)?;
    }
    output::print(&match json {
        true => serde_json::to_string_pretty(found).expect("it is plain data") + "\n",
        false => text(),
    })?;
    report.map_or(Ok(()), |report| say_report(report, json))
}

/// Refuses to write a file over another one, and files that cannot be written.
fn check_files(arguments: &Sweep, design: &Design, results: &Path) -> Result<(), Failure> {
    let mut written = vec![("--results", results.to_path_buf())];
    for (option, path) in [("--csv", &arguments.csv), ("--report", &arguments.report)] {
        written.extend(path.iter().map(|path| (option, path.clone())));
    }
    let mut read = vec![("the sweep itself", arguments.file.clone())];
    read.extend(design.inputs.files().iter().map(|path| ("a file of the sweep", path.clone())));
    export::check_files(&written, &read)
}

/// The program that results belong to.
pub fn program() -> Result<Digest, Failure> {
    Digest::of_this_program().map_err(|error| {
        Failure::run(format!("cannot read this program, which results belong to: {error}"))
    })
}

/// Simulations at a time.
pub fn threads(jobs: Option<u32>) -> usize {
    let all = || available_parallelism().map_or(1, NonZero::get);
    jobs.map_or_else(all, |jobs| jobs as usize)
}

/// The command as it was called.
pub fn again() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    shell::line(["paceline"].into_iter().chain(words.iter().map(String::as_str)))
}

/// What Ctrl-C says: the file of results, how many of them are kept, and of how many; 0: not known.
static KEPT: Mutex<Option<PathBuf>> = Mutex::new(None);
static DONE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// From here on Ctrl-C says that nothing is lost.
pub fn tell_when_interrupted(path: PathBuf, known: usize, of: Option<usize>) {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
    DONE[0].store(known, Ordering::Relaxed);
    DONE[1].store(of.unwrap_or(0), Ordering::Relaxed);
    interrupt::register_cleanup(|| {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &*kept else { return };
        let [done, of] = [&DONE[0], &DONE[1]].map(|count| count.load(Ordering::Relaxed));
        let runs = match of {
            0 => plural(done, "new run"),
            of => format!("{done} of {of} runs"),
        };
        output::say(&format!("\n{runs} kept in {}; the same command goes on", path.display()));
    });
}

/// One more result is kept.
pub fn count_kept() {
    DONE[0].fetch_add(1, Ordering::Relaxed);
}
