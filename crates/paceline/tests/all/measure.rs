// SPDX-License-Identifier: GPL-2.0-only
//! `measure` on the machine that the tests run on. It is alone in its file: the guests of other tests would disturb it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const BIN: &str = env!("CARGO_BIN_EXE_paceline");
const NOBODY: u32 = 65_534;

/// The command for a user without root, in a folder of that user's.
struct Unprivileged {
    folder: TempDir,
    is_root: bool,
}

impl Unprivileged {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            // The build folder may be closed to that user. If this process wrote the copy, another test's child could
            // hold it open for writing while it is run: "Text file busy".
            let copied = Command::new("cp").arg(BIN).arg(folder.path().join("paceline")).status();
            assert!(copied.unwrap().success());
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Unprivileged { folder, is_root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its output, and its messages.
    fn paceline(&self, arguments: &[&str]) -> (Output, String) {
        let mut command = Command::new(BIN);
        if self.is_root {
            command = Command::new(self.path("paceline"));
            command.uid(NOBODY).gid(NOBODY);
        }
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    }
}

/// Every number of a machine's file by its name: a table with a tag.
fn numbers(table: &toml::Table) -> Vec<(&str, &toml::Table)> {
    let mut found = Vec::new();
    for (name, value) in table {
        match value.as_table() {
            Some(inner) if inner.contains_key("tag") => found.push((name.as_str(), inner)),
            Some(inner) => found.extend(numbers(inner)),
            None => {}
        }
    }
    found
}

#[test]
fn a_user_without_root_measures_a_machine_that_a_comparison_takes_or_names_what_it_lacks() {
    let user = Unprivileged::new();
    let (output, said) = user.paceline(&["measure", "-o", "mine.toml"]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().last(), Some("machine: mine.toml"), "{said}");
    assert!(output.stdout.is_empty(), "the file has it");

    let text = fs::read_to_string(user.path("mine.toml")).unwrap();
    let file: toml::Table = text.parse().unwrap();
    let numbers = numbers(&file);
    let has = |number: &toml::Table, key: &str| number.contains_key(key);
    for (name, number) in &numbers {
        let is_unknown = number["tag"].as_str() == Some("unknown");
        assert_ne!(has(number, "value"), is_unknown, "{name}: {number}");
        assert!(has(number, "source"), "{name}: {number}");
    }
    let tagged = |tag: &str| {
        let those = numbers.iter().filter(|(_, number)| number["tag"].as_str() == Some(tag));
        those.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    // If other tasks disturb it, some numbers that can be measured anywhere may be missing.
    let anywhere = ["syscall_ns", "clock_ghz", "atomic_ns", "copy_byte_ns", "timer_ns"];
    assert!(tagged("measured").iter().any(|name| anywhere.contains(name)), "{text}");

    let on = ["compare", "--on", "sim", "--machine", "mine.toml", "--policy", "flsched,default"];
    let job = ["--runs", "1", "--json", "--", "hackbench", "-g", "1", "-l", "20"];
    let (output, said) = user.paceline(&[&on[..], &job].concat());
    if output.status.success() {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let runs = result["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        assert!(runs.iter().all(|run| run["elapsed_s"].as_f64().unwrap() > 0.0), "{result}");
    } else {
        assert_eq!(output.status.code(), Some(2), "{said}");
        let named = |name: &&str| said.contains(&format!("{name} of machine "));
        assert!(said.contains(" is unknown (") && tagged("unknown").iter().any(named), "{said}");
    }
}
