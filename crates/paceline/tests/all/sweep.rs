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
        self.paceline(&format!("sweep {words}"))
    }

    fn paceline(&self, words: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_paceline")]);
        command.args(words.split_whitespace()).stdin(Stdio::null()).current_dir(self.0.path());
        command
    }

    fn output(&self, words: &str) -> Output {
        self.paceline(words).output().unwrap()
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
fn a_sweep_in_which_nothing_can_be_compared_fails() {
    let folder = Folder::new();
    let short = SWEEP.replace("[knobs", "limit = '1ms'\n[knobs");
    fs::write(folder.at("it.toml"), short).unwrap();
    let output = folder.output("sweep it.toml -q");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("paceline: nothing can be compared, as default failed:"), "{said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("- default: 40 runs, such as: the workload has not ended"), "{shown}");
}

#[test]
fn a_figure_that_is_kept_is_not_measured_again() {
    let folder = Folder::new();
    let repro = || {
        let output = folder.output("repro cas --quick --only tlb-all-1 --keep night");
        assert!(output.status.success(), "{output:?}");
        let measures = String::from_utf8(output.stderr).unwrap().contains("Chat, VolanoMark");
        (measures, output.stdout, fs::read(folder.at("night/figures.results")).unwrap())
    };
    let (first, again) = (repro(), repro());
    assert_eq!((first.0, again.0), (true, false));
    assert_eq!((first.1, first.2), (again.1, again.2));
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was() {
    let folder = Folder::new();
    folder.says("sweep it.toml --results whole");
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
    let listed = folder.says("sweep it.toml --list");
    let known: usize = listed.split(' ').nth(3).unwrap().parse().unwrap();
    assert!((kept - 1..RUNS).contains(&known), "{listed}");
    folder.says("sweep it.toml");
    assert_eq!(results(&folder.at("it.results")), whole);
    let before = fs::read(folder.at("it.results")).unwrap();
    folder.says("sweep it.toml --jobs 1");
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
    assert!(told.contains("of 160 runs kept in it.results"), "{told}");
}

#[test]
fn a_full_disk_loses_no_result() {
    let folder = Folder::new();
    let script = format!("ulimit -f 40; exec {} sweep it.toml", env!("CARGO_BIN_EXE_paceline"));
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).current_dir(folder.0.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("kept, and the same command goes on when there is room"), "{said}");
    let kept = results(&folder.at("it.results")).len();
    assert!((10..RUNS).contains(&kept), "{kept}");
    folder.says("sweep it.toml");
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
    assert!(folder.says("sweep it.toml --list").contains("16 runs, 0 of them known"));
    assert!(!folder.at("it.results").exists(), "--list writes nothing");
    fs::write(folder.at("notes.json"), "{\n \"a\": 1,\n \"b\": 2 }").unwrap();
    assert!(folder.refused("sweep it.toml --results notes.json").contains("something else in it"));
    folder.says("sweep it.toml");
    fs::write(folder.at("it.toml"), text.replace("20ms", "30ms")).unwrap();
    assert!(folder.says("sweep it.toml --list").contains("16 runs, 12 of them known"));
    fs::write(folder.at("own.json"), load.replace("50", "51")).unwrap();
    assert!(folder.says("sweep it.toml --list").contains("16 runs, 6 of them known"));
}

#[test]
fn its_files_have_every_run() {
    let folder = Folder::new();
    let said = folder.says("sweep it.toml --csv runs.csv --report it.html --json");
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
        ("sweep it.toml --results it.toml", "it is the sweep itself"),
        ("sweep it.toml --csv it.toml", "it is the sweep itself"),
        ("sweep it.toml --csv a --report a", "--csv writes it, too"),
        ("sweep it.toml --results a --report a", "--results writes it, too"),
        ("sweep it.toml --results thesis", "it has something else in it"),
        ("sweep it.toml --report none/a", "cannot write none/a"),
        ("sweep none.toml", "cannot read none.toml"),
        ("sweep .", "it is a folder"),
    ] {
        let said = folder.refused(words);
        assert!(said.contains(why), "{words}: {said}");
    }
    assert_eq!(fs::read_to_string(folder.at("thesis")).unwrap(), "Chapter 1\n");
    assert_eq!(fs::read_to_string(folder.at("it.toml")).unwrap(), SWEEP);
}

/// A block of this language in the guide.
fn of_the_guide(language: &str) -> String {
    let guide = include_str!("../../../../docs/src/guides/sweeps.md");
    let start = format!("```{language}\n");
    guide.split_once(&start).unwrap().1.split_once("```").unwrap().0.to_string()
}

#[test]
fn the_sweep_of_the_book_is_as_shown() {
    let folder = Folder::new();
    fs::write(folder.at("slices.toml"), of_the_guide("toml")).unwrap();
    assert_eq!(folder.says("sweep slices.toml"), of_the_guide("text"));
}

#[test]
fn what_is_tuned_is_kept_and_not_run_again() {
    let folder = Folder::new();
    let words = "tune --policy flsched --objective p99:pulse --workload pulses-8 --results kept";
    let said = folder.says(&format!("{words} --report tuned.html"));
    assert!(said.starts_with("flsched:slice="), "{said}");
    let kept = fs::read(folder.at("kept")).unwrap();
    assert_eq!(folder.says(words), said.replace("report: tuned.html\n", ""));
    assert_eq!(fs::read(folder.at("kept")).unwrap(), kept);
    let page = fs::read_to_string(folder.at("tuned.html")).unwrap();
    assert!(page.contains("answer gain") && page.contains("paceline tune --policy flsched"));
    let json: serde_json::Value =
        serde_json::from_str(&folder.says(&format!("{words} --json"))).unwrap();
    assert!(json["gain"]["low"].as_f64().unwrap() > 1.5, "{json}");
}

#[test]
fn a_sweep_can_be_tuned_with_workloads_that_are_held_out() {
    let folder = Folder::new();
    let text = SWEEP.replace("\"5ms\", \"20ms\"", "\"2ms\", \"5ms\", \"20ms\", \"50ms\"");
    fs::write(folder.at("it.toml"), format!("objective = \"p99\"\nheld_out = \"pulses-16\"{text}"))
        .unwrap();
    let said = folder.says("tune --sweep it.toml");
    assert!(said.contains("With workloads that were held out"), "{said}");
    assert!(folder.refused("sweep it.toml").contains("held_out: is for `paceline tune`"));
}

#[test]
fn what_cannot_be_tuned_is_refused_in_a_line() {
    let folder = Folder::new();
    fs::write(folder.at("none.toml"), SWEEP.split("[knobs").next().unwrap()).unwrap();
    fs::write(folder.at("own.json"), r#"{"tasks": {"one": {"loop": 9, "run": 1000}}}"#).unwrap();
    let load = "--workload agree-1";
    for (words, why) in [
        ("tune".into(), "nothing to tune for"),
        (format!("tune --policy default {load}"), "default has no knobs"),
        (format!("tune --knob sliec {load}"), "did you mean slice?"),
        (format!("tune --knob slice=fast {load}"), "--knob slice=fast: slice=fast: expected"),
        (format!("tune --knob slice=9ms..2ms {load}"), "`from` has to be less than `to`"),
        (format!("tune --knob slice --knob slice {load}"), "slice is named twice"),
        (format!("tune --policy paceline:slice=9ms {load}"), "sets it, too"),
        (format!("tune --objective fast {load}"), "--objective: `fast` cannot be measured"),
        ("tune --workload agree-9".into(), "no workload is called `agree-9`"),
        ("tune --confirm vm --sweep it.toml".into(), "cannot be used with"),
        ("tune --confirm vm".into(), "--confirm needs a command"),
        (format!("tune --policy=-x --confirm vm {load}"), "no policy is called `-x`"),
        (format!("tune --objective p99:agre {load}"), "has no program `agre`"),
        (format!("tune -q --policy flsched --budget 10 {load}"), "needs 19 simulations"),
        (
            "tune --policy flsched --workload own.json --report own.json".into(),
            "it is what it is tuned for",
        ),
        ("tune --sweep none.toml".into(), "knobs: no knob is varied"),
        (format!("tune {load} --report none/a"), "cannot write none/a"),
    ] {
        let said = folder.refused(&words);
        assert!(said.contains(why), "{words}: {said}");
    }
}

mod guest {
    use super::*;

    /// Turns of 10 ms keep short tasks waiting, in a guest as in sim.
    #[test]
    #[ignore = "night: it boots five guests"]
    fn what_is_tuned_is_confirmed() {
        let folder = Folder::new();
        let load = r#"{"global": {"duration": 0.3}, "tasks": {
            "hog": {"instance": 8, "run": 20000, "loop": -1},
            "pulse": {"instance": 8, "run": 500, "sleep": 9500, "loop": -1}}}"#;
        fs::write(folder.at("load.json"), load).unwrap();
        let words =
            "tune --policy flsched --objective p99:pulse --workload load.json --confirm vm --json";
        let json: serde_json::Value = serde_json::from_str(&folder.says(words)).unwrap();
        assert_eq!(json["confirmed"]["ground"], "vm");
        // The objective, and not waits of all tasks: those of hogs are a matter of chance.
        assert!(json["confirmed"]["gain"]["mean"].as_f64().unwrap() > 1.0, "{}", json["confirmed"]);
    }
}
