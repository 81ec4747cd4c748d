// SPDX-License-Identifier: GPL-2.0-only
//! `paceline sweep`: thousands of simulations from one file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use report::text::plural;
use sweep::{Design, Digest, Store, show};
use terminal::files::write_report;
use terminal::{Failure, Progress, interrupt, output, shell};

use crate::cli::Sweep;
use crate::export;

/// What Ctrl-C says: where results are kept, how many, and of how many runs.
static KEPT: Mutex<Option<PathBuf>> = Mutex::new(None);
static DONE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Runs what is missing, and shows what all runs say.
pub fn run(arguments: &Sweep) -> Result<(), Failure> {
    let design = Design::read(&arguments.file)?;
    sweep::check(&design)?;
    let path = arguments.results.clone();
    let path = path.unwrap_or_else(|| arguments.file.with_extension("results"));
    check_files(arguments, &design, &path)?;
    let program = Digest::of_this_program().map_err(|error| {
        Failure::run(format!("cannot read this program, which results belong to: {error}"))
    })?;
    let is_new = !path.exists();
    let mut store = Store::open(&path)?;
    if let Some(note) = store.note() {
        output::say(&format!("paceline: {note}"));
    }
    let missing = sweep::missing(&design, &store, program);
    let known = missing.runs - missing.left.len();
    let told = format!("{}: {}, {known} of them known", design.title, plural(missing.runs, "run"));
    if arguments.list {
        if is_new {
            // It has nothing in it, and the user asked for nothing.
            let _ = std::fs::remove_file(&path);
        }
        return output::print(&format!("{told}\n"));
    }
    if !missing.left.is_empty() {
        tell_when_interrupted(&store, known, missing.runs)?;
        let progress = Progress::new(missing.left.len() as u64);
        progress.phase(&told);
        let threads = arguments.jobs.map_or_else(
            || available_parallelism().map_or(1, std::num::NonZero::get),
            |jobs| jobs as usize,
        );
        sweep::perform(&missing.left, &design.inputs, &mut store, threads, || {
            DONE[0].fetch_add(1, Ordering::Relaxed);
            progress.step();
        })?;
    }
    let findings = sweep::findings(&design, &store, program)?;
    if let Some(csv) = &arguments.csv {
        show::csv(&design, &store, program, csv)?;
    }
    output::print(&match arguments.json {
        true => serde_json::to_string_pretty(&findings).expect("it is plain data") + "\n",
        false => show::text(&findings, output::style()),
    })?;
    if let Some(report) = &arguments.report {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let words = ["paceline"].into_iter().chain(words.iter().map(String::as_str));
        write_report(report, &show::page(&findings, &shell::line(words)), arguments.json)?;
    }
    Ok(())
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

/// Makes Ctrl-C say that nothing is lost.
fn tell_when_interrupted(store: &Store, known: usize, of: usize) -> Result<(), Failure> {
    *KEPT.lock().expect("nothing panics while it has it") = Some(store.path().to_path_buf());
    DONE[0].store(known, Ordering::Relaxed);
    DONE[1].store(of, Ordering::Relaxed);
    interrupt::register_cleanup(|| {
        let kept = KEPT.lock().expect("nothing panics while it has it");
        let [done, of] = [&DONE[0], &DONE[1]].map(|count| count.load(Ordering::Relaxed));
        if let Some(path) = &*kept {
            output::say(&format!(
                "\n{done} of {of} runs are kept in {}; the same command goes on",
                path.display()
            ));
        }
    });
    interrupt::ends()
}
