// SPDX-License-Identifier: GPL-2.0-only
//! `paceline compare`: one workload under several policies, side by side.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use report::{About, Origin, Results, html, write_whole};

use crate::cli::{Compare, Exports, Form};
use crate::contender::Contender;
use crate::export::Named;
use crate::failure::Failure;
use crate::files::{check_writable, say_report};
use crate::ground::Measured;
use crate::plan::{Place, Plan};
use crate::progress::Progress;
use crate::{doubt, export, ground, interrupt, nearness, output, shell, verdict};

/// Runs the comparison and shows it.
pub fn run(arguments: &Compare) -> Result<(), Failure> {
    // Checked before this machine is measured.
    if let Some(report) = &arguments.report {
        check_writable(report, "--report")?;
    }
    let plan = Plan::new(arguments)?;
    let report: Vec<_> = arguments.report.iter().map(|path| ("--report", path.clone())).collect();
    export::check(&arguments.exports, &plan.contenders, &report, &read(arguments))?;
    let _scratch = match plan.place {
        Place::Here(_) => None, // it handles Ctrl-C itself
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
    nearness::add(&mut results, &plan);
    doubt::tell(&mut results, &measured.outcomes, &plan.place);
    verdict::add(&mut results, &plan);
    let report = arguments.report.as_deref();
    let shown = hand_over(&results, &measured, &arguments.exports, report, &arguments.form);
    output::end(shown, measured.cut.map_or(Ok(()), Err))
}

/// Files that the comparison reads.
fn read(arguments: &Compare) -> Vec<Named> {
    let machine = arguments.machine.machine.iter().chain(&arguments.clocks).map(PathBuf::from);
    let machine = machine.map(|path| ("the machine's file", path));
    let workload = arguments.workload.iter().map(|path| ("the workload", path.clone()));
    let profile = arguments.profile.iter().map(|path| ("the profile", path.clone()));
    let kernel = arguments.kernel.iter().map(|path| ("the kernel", path.clone()));
    machine.chain(workload).chain(profile).chain(kernel).collect()
}

/// Writes the requested files, then shows the result. Files are written even if the reader of the result has gone. The
/// result is shown even if a file cannot be written.
pub fn hand_over(
    results: &Results,
    measured: &Measured,
    exports: &Exports,
    report: Option<&Path>,
    form: &Form,
) -> Result<(), Failure> {
    let written = export::write(exports, measured, results)
        .and_then(|()| report.map_or(Ok(()), |path| write_page(path, results)));
    let mut shown = print(results, form);
    if let Some(path) = report.filter(|_| shown.is_ok() && written.is_ok()) {
        shown = say_report(path, form.json);
    }
    written.and(shown)
}

/// Writes the report.
pub fn write_page(path: &Path, results: &Results) -> Result<(), Failure> {
    write_whole(path, html::comparison(results, &origin(results))).map_err(Failure::input)
}

/// Shows the result in the requested form.
pub fn print(results: &Results, form: &Form) -> Result<(), Failure> {
    output::print(&match form.json {
        true => results.json() + "\n",
        false => report::comparison(results, output::style().wide(form.wide)),
    })
}

/// Address of the book on the web, for builds that have one: a report then links to the page of each policy.
const BOOK: Option<&str> = option_env!("PACELINE_BOOK");

/// The version, the date, this command, and these policies.
fn origin(results: &Results) -> Origin {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words = ["paceline"].into_iter().chain(words.iter().map(String::as_str));
    // In two results side by side each policy occurs twice, as `cas (before)` and `cas (after)`.
    let labels = results.summary.iter().filter_map(|one| one.policy.split(" (").next());
    let mut policies: Vec<&str> = Vec::new();
    labels.for_each(|label| {
        if !policies.contains(&label) {
            policies.push(label)
        }
    });
    Origin {
        version: env!("CARGO_PKG_VERSION").into(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: shell::line(words),
        policies: policies.into_iter().filter_map(about).collect(),
    }
}

/// The description of a policy. A result of another version may have unknown policies.
fn about(label: &str) -> Option<About> {
    let own = match Contender::parse(label).ok()? {
        Contender::Class(class) => {
            return Some(About {
                policy: label.into(),
                text: format!("{}.", class.summary),
                page: None,
            });
        }
        Contender::Policy(instance) => instance.policy,
    };
    let text = format!("{}. {}", own.summary, own.about);
    let named = policies::folder_of(own).map_or(own.name, |folder| folder.name);
    let page = BOOK.map(|book| format!("{book}/policies/{named}.html"));
    let text = match page {
        Some(_) => text,
        None => format!(
            "{text} docs/src/policies/{named}.md and `paceline list {}` say more.",
            own.name
        ),
    };
    Some(About { policy: label.into(), text, page })
}
