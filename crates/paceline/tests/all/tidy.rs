// SPDX-License-Identifier: GPL-2.0-only
//! The tree keeps its own rules: a licence line, files of one subject's size, nothing half done, nothing that only
//! works on one machine.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const LINES_MAX: usize = 900;

/// Every text file of the tree, with its path from the root; what git ignores is left out.
pub(crate) fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(Path::new(ROOT), &mut found);
    found.sort();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(ROOT).expect("it was found below").display().to_string();
        fs::read_to_string(&path).ok().map(|text| (name, text))
    };
    let files: Vec<_> = found.into_iter().filter_map(named).collect();
    assert!(files.len() > 50, "the tree was not found below {ROOT}");
    files
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the tree is readable") {
        let path = entry.expect("the tree is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            // a file in a worktree of another clone
            _ if name == ".git" => {}
            true if name == "target" => {}
            true => walk(&path, found),
            false => found.push(path),
        }
    }
}

fn is_code(name: &str) -> bool {
    let kinds = [".rs", ".c", ".h", ".css", ".sh", ".py", ".pyi"];
    kinds.iter().any(|kind| name.ends_with(kind)) || name.starts_with("script/")
}

/// Fails with every offender, not only the first.
fn assert_none(rule: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{rule}:\n{}", offenders.join("\n"));
}

#[test]
fn every_source_starts_with_its_licence() {
    let wanted = |name: &str| {
        is_code(name)
            || name.ends_with(".toml") && !name.ends_with("Cargo.toml")
            || name.starts_with(".ci/")
    };
    let lacking = |text: &str| {
        !text.lines().take(2).any(|line| line.contains("SPDX-License-Identifier: GPL-2.0"))
    };
    let offenders = files().into_iter().filter(|(name, text)| wanted(name) && lacking(text));
    assert_none("no SPDX line", offenders.map(|(name, _)| name).collect());
}

#[test]
fn no_file_outgrows_its_subject() {
    let offenders = files()
        .into_iter()
        .filter(|(name, text)| is_code(name) && text.lines().count() > LINES_MAX)
        .map(|(name, text)| format!("{name}: {} lines", text.lines().count()));
    assert_none("too long", offenders.collect());
}

#[test]
fn nothing_is_left_half_done_or_tied_to_one_machine() {
    // Split so that this file does not contain them.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("unimpl", "emented!"),
        concat!("to", "do!("),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
    ];
    let mut offenders = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| name != "Cargo.lock") {
        for (at, line) in text.lines().enumerate() {
            // Where scx has the figures of the scheduler that is in charge of the root cgroup.
            let line = line.replace(concat!("/run/scx/ro", "ot/"), "");
            let found = words.iter().filter(|word| line.contains(**word));
            offenders.extend(found.map(|word| format!("{name}:{}: {word}", at + 1)));
        }
    }
    assert_none("words that do not belong in the tree", offenders);
}

#[test]
fn every_crate_says_what_it_is() {
    let lacking = files()
        .into_iter()
        .filter(|(name, _)| name.ends_with("src/lib.rs") || name.ends_with("src/main.rs"))
        .filter(|(_, text)| !text.lines().any(|line| line.starts_with("//! ")));
    assert_none("no crate documentation", lacking.map(|(name, _)| name).collect());
}

/// Prose of a file: comments of code, with line breaks as spaces; a blank line, code and markup end a sentence.
fn prose(name: &str, text: &str) -> String {
    let mut prose = String::new();
    let mut is_fenced = false;
    for line in text.lines().map(str::trim) {
        let said = match name.ends_with(".md") {
            true => {
                is_fenced ^= line.starts_with("```");
                let is_prose = !is_fenced && !line.starts_with(['|', '#', '`', '<']);
                is_prose.then(|| line.trim_start_matches(['-', '*', ' ']))
            }
            false => ["///", "//!", "//", "/*", "*/", "*", "# "]
                .iter()
                .find_map(|mark| line.strip_prefix(mark))
                .map(str::trim),
        };
        match said {
            Some(said) if !said.is_empty() => prose += &format!("{said} "),
            _ => prose += "\n",
        }
    }
    prose
}

/// A sentence may not begin with these. A question may.
const RELATIVES: [&str; 8] =
    ["Who ", "Whom ", "Whose ", "Of which ", "Of whom ", "For whom ", "To whom ", "With whom "];

fn relative_sentences(name: &str, text: &str) -> Vec<String> {
    let prose = prose(name, text);
    let sentences = prose.split('\n').flat_map(|part| part.split_inclusive(['.', '?', '!', ';']));
    let begins = |sentence: &&str| RELATIVES.iter().any(|word| sentence.starts_with(word));
    let found = sentences.map(str::trim).filter(begins).filter(|sentence| !sentence.ends_with('?'));
    found.map(|sentence| format!("{name}: {sentence}")).collect()
}

#[test]
fn no_sentence_begins_with_a_relative() {
    let sample =
        "/// It runs. Who waits\n/// is not sent around.\n/// Who calls this?\nlet who = 1;\n";
    assert_eq!(relative_sentences("a.rs", sample), ["a.rs: Who waits is not sent around."]);
    let files = files();
    let prose = files.iter().filter(|(name, _)| is_code(name) || name.ends_with(".md"));
    let offenders = prose.flat_map(|(name, text)| relative_sentences(name, text));
    assert_none("sentences that begin with a relative; name the thing", offenders.collect());
}

/// Columns of a line of C, with a tab as wide as eight.
fn columns(line: &str) -> usize {
    line.chars().fold(0, |at, letter| if letter == '\t' { (at / 8 + 1) * 8 } else { at + 1 })
}

#[test]
fn lines_of_c_fit_100_columns() {
    let files = files();
    let c = files.iter().filter(|(name, _)| name.ends_with(".c") || name.ends_with(".h"));
    let offenders = c.flat_map(|(name, text)| {
        let long = text.lines().enumerate().filter(|(_, line)| columns(line) > 100);
        long.map(|(at, line)| format!("{name}:{}: {} columns", at + 1, columns(line)))
            .collect::<Vec<_>>()
    });
    assert_none("lines of C above 100 columns", offenders.collect());
}

/// Lines of policies' C that say something: neither blank, nor a comment, nor a brace alone.
fn telling_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut in_comment = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let begins = line.starts_with("/*");
        if in_comment || begins {
            in_comment = !line.contains("*/");
        } else if !["", "{", "}", "};"].contains(&line.as_str()) && !line.starts_with("#include") {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// The first line of each run of so many lines that two places share.
fn twins<'a>(files: &[(&'a str, &str)], alike: usize) -> Vec<String> {
    let mut seen: HashMap<Vec<String>, (&'a str, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (name, text) in files {
        for run in telling_lines(text).windows(alike) {
            let lines = run.iter().map(|(_, line)| line.clone()).collect();
            let here = (*name, run[0].0);
            match seen.get(&lines) {
                Some((other, at)) => found.push(format!("{other}:{at} and {}:{}", here.0, here.1)),
                None => drop(seen.insert(lines, here)),
            }
        }
    }
    found
}

/// What two policies need is in policies/common.
#[test]
fn no_two_places_of_the_policies_c_share_six_lines() {
    let files = files();
    let c: Vec<(&str, &str)> = files
        .iter()
        .filter(|(name, _)| name.starts_with("policies/"))
        .filter(|(name, _)| name.ends_with(".c") || name.ends_with(".h"))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    assert!(c.len() > 40, "{} files", c.len());
    assert_eq!(twins(&c, 6), Vec::<String>::new());
    let twice = "a();\n/* b\n * c */\n\nd();\n{\ne();\n}\n";
    assert_eq!(twins(&[("x", twice), ("y", twice)], 3), ["x:1 and y:1"]);
}

/// Paths of files that a text names from the root of the tree, as far as they end in one of these.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    const ROOMS: [&str; 8] = [
        "crates/",
        "docs/",
        "faults/",
        "machines/",
        "papers/",
        "policies/",
        "script/",
        "workloads/",
    ];
    const ENDS: [&str; 8] = [".rs", ".c", ".h", ".md", ".toml", ".json", ".sh", ".txt"];
    let is_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words = text.split(move |c| !is_path(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| {
        ROOMS.iter().any(|room| word.starts_with(room))
            && ENDS.iter().any(|end| word.ends_with(end))
    })
}

#[test]
fn files_that_prose_names_are_there() {
    // Names of examples: a policy, a paper or a machine that a reader is to write.
    let is_example = |path: &str| ["NAME", "/mine", "/vrr"].iter().any(|it| path.contains(it));
    let is_prose = |name: &str| name.ends_with(".md") || name.ends_with(".toml");
    let mut lost = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| is_prose(name)) {
        // In the folder of a crate or a policy, paths may begin there.
        let own = Path::new(ROOT).join(&name);
        let is_there =
            |path: &str| own.ancestors().skip(1).take(4).any(|folder| folder.join(path).exists());
        let absent = named_files(&text).filter(|path| !is_there(path) && !is_example(path));
        lost.extend(absent.map(|path| format!("{name}: {path}")));
    }
    assert_none("files that are not there", lost);
}
