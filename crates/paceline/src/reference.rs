// SPDX-License-Identifier: GPL-2.0-only
//! Generated pages of the book: verbs from the command line's own description, policies from their knobs and folders,
//! figures from the output of `repro --json`. `UPDATE_DOCS=1 cargo test -p paceline reference` writes them again.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use comparison::{CLASSES, POLICIES};
use policies::{FOLDERS, Folder};
use serde_json::Value;

use crate::cli::Cli;

const MADE: &str =
    "<!-- Made from the code: UPDATE_DOCS=1 cargo test -p paceline reference -->\n\n";

/// Text for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

fn verbs() -> String {
    let mut command = Cli::command();
    command.build();
    let mut page = format!("{MADE}# Verbs and options\n\n");
    page += "`paceline help VERB` and `paceline man VERB` show the same. `-q` and `-v` are options of every verb.\n";
    for verb in
        command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        page += &one_verb(verb);
    }
    page
}

fn one_verb(verb: &Command) -> String {
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\n## {}\n\n{about}.\n", verb.get_name());
    if let Some(examples) = verb.get_after_help() {
        let lines = examples.to_string();
        let lines = lines.lines().skip(1).map(str::trim).collect::<Vec<_>>().join("\n");
        write!(text, "\n<!-- not run: examples of the help, which the test `examples_are_sound` parses -->\n```sh\n{lines}\n```\n")
            .expect("memory takes it");
    }
    text += "\n| option | meaning |\n|---|---|\n";
    let own = |arg: &&Arg| !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help";
    for arg in verb.get_arguments().filter(own) {
        writeln!(text, "| {} | {} |", option(arg), meaning(arg)).expect("memory takes it");
    }
    text
}

fn option(arg: &Arg) -> String {
    let names: Vec<&str> =
        arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
    let takes = arg.get_action().takes_values();
    let value = if takes { names.join(" ") } else { String::new() };
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let name = match arg.get_long() {
        Some(long) => format!("{short}--{long} {value}"),
        None if arg.is_last_set() => format!("-- {value}"),
        None => value,
    };
    format!("`{}`", name.trim().replace('|', "\\|"))
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values: Vec<String> = match arg.get_action().takes_values() {
        true => values.iter().filter(|value| !value.is_hide_set()).map(value).collect(),
        false => Vec::new(),
    };
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let mut text = cell(&help);
    if !values.is_empty() {
        write!(text, ". {}", values.join("; ")).expect("memory takes it");
    }
    if !defaults.is_empty() && arg.get_action().takes_values() {
        write!(text, " [default: {}]", cell(&defaults.join(", "))).expect("memory takes it");
    }
    text
}

fn value(value: &PossibleValue) -> String {
    let help = value.get_help().map(|help| format!(": {}", cell(&help.to_string())));
    format!("`{}`{}", value.get_name(), help.unwrap_or_default())
}

fn policies() -> String {
    let mut page = format!("{MADE}# Policies and knobs\n\n");
    page += "`paceline list POLICY` shows the same. [Which policy for which problem](../policies.md) helps to choose.\n";
    for class in CLASSES {
        write!(page, "\n## {}\n\n{}.\n", class.name, class.summary).expect("memory takes it");
    }
    for policy in POLICIES.iter() {
        write!(page, "\n## {}\n\n{}.\n\n{}\n", policy.name, policy.summary, policy.about)
            .expect("memory takes it");
        page += "\n| keeps | | how |\n|---|---|---|\n";
        for (what, kept) in policy.keeps.rows() {
            writeln!(page, "| {what} | {} | {} |", kept.kept.word(), cell(kept.how))
                .expect("memory takes it");
        }
        if policy.knobs.is_empty() {
            continue;
        }
        page += "\n| knob | default | values | what it does |\n|---|---|---|---|\n";
        for knob in policy.knobs {
            let default = knob.format(knob.variable.default);
            let unit = cell(&knob.unit.to_string());
            writeln!(page, "| `{}` | {default} | {unit} | {} |", knob.name, cell(knob.help))
                .expect("memory takes it");
        }
    }
    page
}

/// The page of a folder's policies.
fn page_of(folder: &Folder) -> String {
    format!(
        "<!-- The page is the README of the policy. -->\n{{{{#include ../../../policies/{}/README.md}}}}\n",
        folder.name
    )
}

/// The book's contents, with the policies' pages as they are in the registry; the rest stays.
fn contents(found: &str) -> String {
    const HEAD: &str = "# Policies\n\n";
    let (before, rest) = found.split_once(HEAD).expect("the contents have a part for policies");
    let (_, after) = rest.split_once("\n\n").expect("more follows");
    let line = |folder: &Folder| format!("- [{}](policies/{}.md)", folder.title(), folder.name);
    let lines: Vec<String> = FOLDERS.iter().map(line).collect();
    format!("{before}{HEAD}{}\n\n{after}", lines.join("\n"))
}

/// A paper's figures that `script/accuracy` kept.
fn kept(paper: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    match fs::read_to_string(path.join(format!("{paper}.json"))) {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => Vec::new(),
    }
}

fn measured() -> String {
    let mut page = String::from(
        "<!-- Made from docs/figures/*.json: UPDATE_DOCS=1 cargo test -p paceline reference -->\n\n# Figures as measured last\n\n",
    );
    page += "`script/accuracy PAPER` measures figures again and writes this page. Each figure has its own command:\n\n";
    page += "<!-- not run: takes minutes to hours -->\n```sh\npaceline repro PAPER --only NAME\n```\n\n";
    page += "*Quick* figures were measured with `--quick`: fewer boots, seeds and sizes. Ranges are those of boots, seeds or \
             costs. [Accuracy](accuracy.md) says why figures are missed.\n";
    for paper in laboratory::papers().filter(|paper| *paper != "all") {
        let figures = kept(paper);
        if figures.is_empty() {
            continue;
        }
        write!(page, "\n## {paper}\n\n| figure | published | ours | gate | | measured | name |\n|---|---|---|---|---|---|---|\n")
            .expect("memory takes it");
        let (charts, figures): (Vec<&Value>, Vec<&Value>) =
            figures.iter().partition(|one| one.get("headings").is_some());
        figures.iter().for_each(|figure| page += &one_figure(figure));
        charts.iter().for_each(|chart| page += &one_chart(chart));
    }
    page
}

/// A chart's table, with its date and its name.
fn one_chart(chart: &Value) -> String {
    let cells = |row: &Value| {
        let cells = row.as_array().into_iter().flatten();
        cells.map(|text| cell(text.as_str().unwrap_or("–"))).collect::<Vec<_>>()
    };
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let headings = cells(&chart["headings"]);
    let text = |key: &str| chart[key].as_str().unwrap_or("–");
    let mut page = format!(
        "\n### {}\n\n{} Measured {}: `{}`.\n\n",
        text("title"),
        text("note"),
        when(chart),
        text("name")
    );
    page += &line(headings.clone());
    page += &format!("|{}\n", "---|".repeat(headings.len()));
    let rows = chart["rows"].as_array().into_iter().flatten();
    page + &rows.map(|row| line(cells(row))).collect::<String>()
}

/// The day on which a figure or a chart was measured, and whether with `--quick`.
fn when(one: &Value) -> String {
    let day = one["date"].as_str().unwrap_or("–").split('T').next().unwrap_or_default();
    format!("{day}{}", if one["quick"] == true { ", quick" } else { "" })
}

fn one_figure(figure: &Value) -> String {
    let text = |key: &str| figure[key].as_str().unwrap_or("–").to_string();
    let unit = text("unit");
    let said = |value: &Value| value.as_f64().map(|value| laboratory::said(&unit, value));
    let range = figure["ours_range"].as_array().filter(|range| range[0] != range[1]);
    let range = range.and_then(|range| said(&range[0]).zip(said(&range[1])));
    let range = range.map_or(String::new(), |(least, most)| format!(" ({least} – {most})"));
    let published = said(&figure["published"]).unwrap_or_else(|| text("published_as"));
    let verdict = match (figure["gate"].is_string(), figure["holds"].as_bool()) {
        (false, _) => "",
        (true, Some(true)) => "holds",
        (true, Some(false)) => "**missed**",
        (true, None) => "not judged",
    };
    let ground = text("ground");
    let measured = match &*ground {
        "none" => "by a test, or not at all".to_string(),
        ground => format!("{ground}, {}", when(figure)),
    };
    format!(
        "| {} | {} | {}{range} | {} | {verdict} | {measured} | `{}` |\n",
        cell(&text("metric")),
        cell(&published),
        said(&figure["ours"]).unwrap_or_else(|| "–".into()),
        cell(&text("gate")),
        text("name"),
    )
}

/// The file of a page of the book.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src").join(name)
}

/// Checks that a page of the book matches the code.
fn assert_is(name: &str, wanted: &str) {
    let path = file(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "docs/src/{name} is not what the code says ({differs:?}); UPDATE_DOCS=1 cargo test -p paceline \
         reference"
    );
}

#[test]
fn the_page_of_verbs_is_what_the_command_line_takes() {
    assert_is("reference/verbs.md", &verbs());
}

#[test]
fn the_page_of_policies_is_what_policies_say() {
    assert_is("reference/policies.md", &policies());
}

#[test]
fn each_folder_of_policies_has_its_page() {
    for folder in FOLDERS {
        assert_is(&format!("policies/{}.md", folder.name), &page_of(folder));
    }
}

#[test]
fn the_contents_have_the_page_of_each_folder_of_policies() {
    let found = fs::read_to_string(file("SUMMARY.md")).unwrap();
    assert_is("SUMMARY.md", &contents(&found));
    let lost = found.replace(&format!("- [{}]", FOLDERS[0].title()), "- [lost]");
    assert_eq!(contents(&lost), contents(&found), "a line that differs is written again");
}

#[test]
fn the_page_of_figures_is_what_was_kept() {
    assert_is("measured.md", &measured());
}

#[test]
fn examples_are_sound() {
    let mut command = Cli::command();
    command.build();
    for verb in
        command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines: Vec<&str> = examples.lines().skip(1).map(str::trim).collect();
        assert!(!lines.is_empty(), "{} has no example", verb.get_name());
        for line in lines {
            let parsed = Cli::command().try_get_matches_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
