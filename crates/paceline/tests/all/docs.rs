// SPDX-License-Identifier: GPL-2.0-only
//! The book and the READMEs: links lead somewhere, commands run or say why not, sentences are short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Longest sentence, words.
const WORDS_MAX: usize = 30;
/// Longest README, lines and words.
const README_MAX: (usize, usize) = (150, 1300);

fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().unwrap()
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => below(&path, found),
            false if path.extension().is_some_and(|kind| kind == "md") => found.push(path),
            false => {}
        }
    }
}

/// The pages of the book, the README and the policies' READMEs, with their names.
fn pages() -> Vec<(String, PathBuf, String)> {
    let mut paths = vec![root().join("README.md")];
    below(&root().join("docs/src"), &mut paths);
    below(&root().join("policies"), &mut paths);
    paths.sort();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        (name, path, text)
    };
    let pages: Vec<_> = paths.into_iter().map(named).collect();
    assert!(pages.len() > 30, "pages were not found");
    pages
}

fn events(text: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

fn assert_none(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n{}", offenders.join("\n"));
}

/// Paragraphs, items, headings and cells as plain text; code in a line counts as one word.
fn prose(text: &str) -> Vec<String> {
    let (mut all, mut now, mut code) = (Vec::new(), String::new(), false);
    for event in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => code = true,
            Event::End(TagEnd::CodeBlock) => code = false,
            Event::Text(text) if !code => now += &text,
            Event::Code(_) => now += "code",
            Event::SoftBreak | Event::HardBreak => now.push(' '),
            Event::Start(Tag::Item)
            | Event::End(
                TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_) | TagEnd::TableCell,
            ) => all.push(std::mem::take(&mut now)),
            _ => {}
        }
    }
    all.push(now);
    all
}

/// Sentences of a text: they end with a mark and a space.
fn sentences(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in text.split_whitespace() {
        let last = all.last_mut().unwrap();
        last.push_str(word);
        last.push(' ');
        if word.trim_end_matches([')', '"', '*']).ends_with(['.', '!', '?', ':', ';']) {
            all.push(String::new());
        }
    }
    all
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for (name, _, text) in pages() {
        for sentence in prose(&text).iter().flat_map(|text| sentences(text)) {
            // Punctuation alone is no word.
            let words = sentence
                .split_whitespace()
                .filter(|word| word.contains(char::is_alphanumeric))
                .count();
            if words > WORDS_MAX {
                long.push(format!("{name}: {words} words: {sentence}"));
            }
        }
    }
    assert_none("sentences of more than 30 words", &long);
}

#[test]
fn the_readme_is_read_in_five_minutes() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (lines, words) = (text.lines().count(), text.split_whitespace().count());
    assert!(lines <= README_MAX.0 && words <= README_MAX.1, "{lines} lines, {words} words");
}

/// A heading as the anchor of a link.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let (mut all, mut heading) = (BTreeSet::new(), None::<String>);
    for event in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                all.extend(heading.take().map(|heading| anchor(&heading)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    *heading += &text;
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for (name, path, text) in pages() {
        let links = events(&text).filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        });
        for link in links.filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, part) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let leads = target.exists()
                && (part.is_empty()
                    || anchors(&fs::read_to_string(&target).unwrap_or_default()).contains(part));
            if !leads {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert_none("links that lead nowhere", &broken);
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    let lost: Vec<String> = pages()
        .into_iter()
        .filter_map(|(name, ..)| name.strip_prefix("docs/src/").map(String::from))
        .filter(|name| name != "SUMMARY.md" && !summary.contains(&format!("({name})")))
        .collect();
    assert_none("pages that are not in the contents", &lost);
}

/// Code blocks: the language, the text, and the line before.
fn blocks(text: &str) -> Vec<(String, String, String)> {
    let (mut all, mut open) = (Vec::new(), None::<(String, String)>);
    let mut before = String::new();
    for event in events(text) {
        match event {
            Event::Html(html) => before = html.trim().to_string(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some((language.to_string(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    *block += &text;
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, block)) = open.take() {
                    all.push((language, block, std::mem::take(&mut before)));
                }
            }
            Event::End(TagEnd::Paragraph) => before.clear(),
            _ => {}
        }
    }
    all
}

/// Tests by their names, from all sources of tests.
fn tests() -> String {
    let mut sources = String::new();
    for folder in
        ["crates/paceline/tests", "crates/paceline/src", "crates/vm/tests", "crates/record/tests"]
    {
        let mut walk = vec![root().join(folder)];
        while let Some(folder) = walk.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk.push(path),
                    false => sources += &fs::read_to_string(&path).unwrap_or_default(),
                }
            }
        }
    }
    sources
}

#[test]
fn commands_run_in_a_test_or_say_why_not() {
    let (tests, mut offenders) = (tests(), Vec::new());
    for (name, _, text) in pages() {
        for (language, block, before) in blocks(&text) {
            let shows = block.lines().next().unwrap_or_default().to_string();
            let reason =
                before.strip_prefix("<!-- not run: ").and_then(|it| it.strip_suffix(" -->"));
            let is_command =
                ["paceline ", "$ ", "sudo ", "script/", "cargo ", "perf ", "trace-cmd "]
                    .iter()
                    .any(|begin| block.lines().any(|line| line.starts_with(begin)));
            match language.as_str() {
                "console" => {}
                "sh" if reason.is_some_and(|reason| !reason.is_empty()) => {
                    // A test that is named has to exist.
                    let named = before.split('`').skip(1).step_by(2);
                    let lost = named.filter(|test| {
                        test.contains('_') && !tests.contains(&format!("fn {test}("))
                    });
                    offenders.extend(lost.map(|test| format!("{name}: no test is called {test}")));
                }
                "sh" => {
                    offenders.push(format!("{name}: `{shows}` is not run, and does not say why"));
                }
                "" if is_command => {
                    offenders.push(format!("{name}: `{shows}` is in a block without a language"));
                }
                _ => {}
            }
        }
    }
    assert_none("commands that no test runs", &offenders);
}

/// Blocks of the language `console` are sessions: they show the real output.
#[test]
fn sessions_of_the_book_are_as_shown() {
    let cases = trycmd::TestCases::new();
    cases.case("../../README.md").case("../../docs/src/**/*.md").case("../../policies/*/README.md");
}
