// SPDX-License-Identifier: GPL-2.0-only
//! `paceline sweep` as a user has it: what was run is not run again, and nothing ends it that loses a result.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

const SWEEP: &str = r#"
policy = ["default", "paceline", "flsched"]
machine = "numa-2x4"
workload = "pulses-8"
seeds = 40
[knobs.flsched]
slice = ["5ms", "20ms"]
"#;
/// Different runs of it.
const RUNS: usize = 160;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.at("it.toml"), SWEEP).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sweep(&self, words: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_paceline"), "sweep"]);
        command.args(words.split_whitespace()).stdin(Stdio::null()).current_dir(self.0.path());
        command
    }

    fn output(&self, words: &str) -> Output {
        self.sweep(words).output().unwrap()
    }

    fn says(&self, words: &str) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &str) -> String {
        let output = self.output(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        said
    }
}

/// Each result's line by its key; panics if one is there twice or not whole.
fn results(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines().skip(1) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let key = value["key"].as_str().unwrap().to_string();
        assert!(all.insert(key, line.to_string()).is_none(), "twice: {line}");
    }
    all
}

fn whole_lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was() {
    let folder = Folder::new();
    folder.says("it.toml --results whole");
    let whole = results(&folder.at("whole"));
    assert_eq!(whole.len(), RUNS);
    let mut kept = 0;
    for _ in 0..4 {
        let mut child = folder.sweep("it.toml -q --jobs 2").stdout(Stdio::null()).spawn().unwrap();
        while whole_lines(&folder.at("it.results")) < kept + 20 {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            sleep(Duration::from_millis(1));
        }
        // The child is `env`, which has become paceline.
        child.kill().unwrap();
        child.wait().unwrap();
        kept = whole_lines(&folder.at("it.results"));
    }
    let listed = folder.says("it.toml --list");
    let known: usize = listed.split(' ').nth(3).unwrap().parse().unwrap();
    assert!((kept - 1..RUNS).contains(&known), "{listed}");
    folder.says("it.toml");
    assert_eq!(results(&folder.at("it.results")), whole);
    let before = fs::read(folder.at("it.results")).unwrap();
    folder.says("it.toml --jobs 1");
    assert_eq!(fs::read(folder.at("it.results")).unwrap(), before, "no run was left");
}

#[test]
fn ctrl_c_says_how_many_results_are_kept() {
    let folder = Folder::new();
    let child = folder.sweep("it.toml").stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    while whole_lines(&folder.at("it.results")) < 10 {
        sleep(Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let told = said.lines().find(|line| line.contains("the same command goes on")).unwrap();
    assert!(told.contains("of 160 runs are kept in it.results"), "{told}");
}

#[test]
fn a_full_disk_loses_no_result() {
    let folder = Folder::new();
    let script = format!("ulimit -f 40; exec {} sweep it.toml", env!("CARGO_BIN_EXE_paceline"));
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).current_dir(folder.0.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("kept, and the same command goes on when there is room"), "{said}");
    let kept = results(&folder.at("it.results")).len();
    assert!((10..RUNS).contains(&kept), "{kept}");
    folder.says("it.toml");
    assert_eq!(results(&folder.at("it.results")).len(), RUNS);
}

/// Of a changed file, the runs that it changes.
#[test]
fn a_changed_knob_or_workload_is_run_and_the_rest_is_not() {
    let folder = Folder::new();
    let load = r#"{"tasks": {"one": {"loop": 50, "run": 1000, "sleep": 100}}}"#;
    fs::write(folder.at("own.json"), load).unwrap();
    let text = SWEEP.replace("\"pulses-8\"", "[\"own.json\", \"agree-1\"]").replace("40", "2");
    fs::write(folder.at("it.toml"), &text).unwrap();
    assert!(folder.says("it.toml --list").contains("16 runs, 0 of them known"));
    assert!(!folder.at("it.results").exists(), "--list writes nothing");
    folder.says("it.toml");
    fs::write(folder.at("it.toml"), text.replace("20ms", "30ms")).unwrap();
    assert!(folder.says("it.toml --list").contains("16 runs, 12 of them known"));
    fs::write(folder.at("own.json"), load.replace("50", "51")).unwrap();
    assert!(folder.says("it.toml --list").contains("16 runs, 6 of them known"));
}

#[test]
fn its_files_have_every_run() {
    let folder = Folder::new();
    let said = folder.says("it.toml --csv runs.csv --report it.html --json");
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["variants"].as_array().unwrap().len(), 4);
    assert_eq!(found["variants"][0]["gain"]["mean"], 1.0);
    let csv = fs::read_to_string(folder.at("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + RUNS);
    let heading = "policy,variant,workload,machine,flsched.slice,seed,gain,failed,elapsed_s,cpu_s";
    assert!(csv.starts_with(heading), "{csv}");
    let page = fs::read_to_string(folder.at("it.html")).unwrap();
    assert!(page.contains("flsched:<wbr>slice=20ms") && page.contains("paceline sweep it.toml"));
}

#[test]
fn what_it_is_made_of_is_not_written_over() {
    let folder = Folder::new();
    fs::write(folder.at("thesis"), "Chapter 1\n").unwrap();
    for (words, why) in [
        ("it.toml --results it.toml", "it is the sweep itself"),
        ("it.toml --csv it.toml", "it is the sweep itself"),
        ("it.toml --csv a --report a", "--csv writes it, too"),
        ("it.toml --results a --report a", "--results writes it, too"),
        ("it.toml --results thesis", "it has something else in it"),
        ("it.toml --report none/a", "cannot write none/a"),
        ("none.toml", "cannot read none.toml"),
        (".", "it is a folder"),
    ] {
        let said = folder.refused(words);
        assert!(said.contains(why), "{words}: {said}");
    }
    assert_eq!(fs::read_to_string(folder.at("thesis")).unwrap(), "Chapter 1\n");
    assert_eq!(fs::read_to_string(folder.at("it.toml")).unwrap(), SWEEP);
}
