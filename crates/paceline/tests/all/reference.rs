// SPDX-License-Identifier: GPL-2.0-only
//! The reference pages have an entry for every key of built-in files, and of printed JSON.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs/src/reference").join(name)).unwrap()
}

/// Files of a folder with this ending, parsed as TOML.
fn tables(folder: &str) -> Vec<(String, toml::Table)> {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml"));
    let table = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_string(), text.parse().unwrap())
    };
    files.map(table).collect()
}

/// Keys of a value and of all below it. Below a key in `names`, keys are names, which do not count.
fn keys(value: &toml::Value, names: &[&str], found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                found.insert(key.clone());
                match value {
                    toml::Value::Table(below) if names.contains(&key.as_str()) => {
                        below.values().for_each(|value| keys(value, names, found));
                    }
                    value => keys(value, names, found),
                }
            }
        }
        toml::Value::Array(all) => all.iter().for_each(|value| keys(value, names, found)),
        _ => {}
    }
}

fn assert_has(name: &str, keys: &BTreeSet<String>) {
    let page = page(name);
    let lost: Vec<&String> =
        keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(keys.len() > 3 && lost.is_empty(), "{name} has no entry for {lost:?}");
}

#[test]
fn every_key_of_a_machine_file_has_its_entry() {
    let mut found = BTreeSet::new();
    for (name, table) in tables("machines").into_iter().filter(|(name, _)| name != "paths.toml") {
        assert!(!table.is_empty(), "{name}");
        let names = ["paths", "from-idle", "delayed", "housekeeping", "observed"];
        keys(&toml::Value::Table(table), &names, &mut found);
    }
    assert_has("machine-files.md", &found);
}

#[test]
fn every_key_of_a_paper_file_has_its_entry() {
    let mut found = BTreeSet::new();
    for (_, table) in tables("papers") {
        // Experiments and similar tables have names as keys; so have policies, costs, programs and scales.
        let names =
            ["experiment", "sweep", "trial", "neighbours", "each", "costs", "profile", "load"];
        keys(&toml::Value::Table(table), &names, &mut found);
    }
    // Constants of a machine's fabric, which a figure scales.
    ["copy_gbs", "controller_gbs"].iter().for_each(|scaled| assert!(found.remove(*scaled)));
    let page = page("paper-files.md");
    let lost: Vec<&String> = found
        .iter()
        .filter(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .filter(|key| !page.contains(&format!("`{key}`")))
        .collect();
    assert!(lost.is_empty(), "paper-files.md has no entry for {lost:?}");
}

fn json_keys(value: &Value, names: &[&str], found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => {
            for (key, value) in all {
                found.insert(key.clone());
                match value {
                    Value::Object(below) if names.contains(&key.as_str()) => {
                        below.values().for_each(|value| json_keys(value, names, found));
                    }
                    value => json_keys(value, names, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| json_keys(value, names, found)),
        _ => {}
    }
}

/// rt-app's JSON has comments, and commas behind the last of many.
fn without_comments(text: &str) -> Value {
    let mut plain = String::new();
    for (at, part) in text.split("/*").enumerate() {
        plain += if at == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let words: String = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.replace(", }", " }").replace(", ]", " ]");
    serde_json::from_str(&words).unwrap_or_else(|error| panic!("{error}: {words}"))
}

#[test]
fn every_key_of_a_workload_file_has_its_entry() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("workloads")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "json") {
            let value = without_comments(&fs::read_to_string(&path).unwrap());
            json_keys(
                &value,
                &["tasks", "phases", "resources", "taskgroups", "channels"],
                &mut found,
            );
        }
    }
    assert_has("workload-files.md", &found);
}

/// A command's JSON output.
fn printed(words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.args(words).stdin(Stdio::null()).output().unwrap();
    assert!(!output.stdout.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_key_of_json_has_its_entry() {
    let mut found = BTreeSet::new();
    let sim = ["compare", "--on", "sim", "--json", "--locks"];
    let hackbench = ["--", "hackbench", "-g", "1", "-l", "5", "-p"];
    let compared: [&[&str]; 4] = [
        &["--runs", "2", "--policy", "default,flsched"],
        &["--machine", "phenom-2f4s", "--policy", "default,min-fair", "--workload", "uneven-6"],
        &["--machine", "opteron-8356", "--policy", "default,dino", "--workload", "domains-16"],
        &["--machine", "core2duo-1.86", "--policy", "default,cas", "--workload", "chat"],
    ];
    for words in compared {
        let job: &[&str] = if words.contains(&"--workload") { &[] } else { &hackbench };
        let value = printed(&[&sim, words, job].concat());
        json_keys(&value, &["locks", "functions", "programs"], &mut found);
    }
    for words in [
        &["list", "--json"][..],
        &["tune", "--json", "--policy", "flsched", "--workload", "pulses-1", "--budget", "40"],
        &["list", "figures", "--json"],
        &["list", "phenom-2f4s", "--json"],
        &["list", "flsched", "--json"],
        &["config", "--json"],
        &["doctor", "--json"],
        &["repro", "cas", "--list", "--json"],
        &["shares", "--policy", "min-fair", "--cores", "1,1", "--speedups", "2,3", "--json"],
        &[
            "shares",
            "--policy",
            "min-fair",
            "--cores",
            "1,1",
            "--speedups",
            "2,3",
            "--sweep",
            "--json",
        ],
    ] {
        json_keys(&printed(words), &["knobs"], &mut found);
    }
    assert_has("json.md", &found);
}
