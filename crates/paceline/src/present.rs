// SPDX-License-Identifier: GPL-2.0-only
//! Shows a result, and writes the files that were asked for.

use std::path::Path;
use std::time::SystemTime;

use comparison::{Contender, Measured};
use report::{About, Origin, Results, html, write_whole};
use terminal::files::say_report;
use terminal::{Failure, output, shell};

use crate::cli::{Exports, Form};
use crate::export;

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
            policies.push(label);
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
        Contender::Program(_) => return None,
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
