// SPDX-License-Identifier: GPL-2.0-only
//! `compare` of a recording: the machine of its replay, and the report of the replay's distance.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn paceline(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Makes a recording of a machine with `cpus` CPUs: on the first and on the last one a task works for 0.1 s.
fn record(folder: &Path, cpus: usize) {
    let mut text = String::new();
    let mut line = |at: &str, by: &str, cpu: usize, event: String| {
        text += &format!("{by} [{cpu:03}] 1.{at}: {event}\n");
    };
    let mut busy = vec![(0, 7)];
    busy.extend((cpus > 1).then_some((cpus - 1, 8)));
    for (at, what) in [("000100", "wakes"), ("000200", "begins"), ("100200", "ends")] {
        for (cpu, pid) in &busy {
            let idle = format!("swapper/{cpu}:0 [120]");
            let job = format!("job:{pid} [120]");
            match what {
                "wakes" => {
                    let task = format!("comm=job pid={pid} prio=120 target_cpu={cpu:03}");
                    line(at, "<idle>-0", *cpu, format!("sched_waking: {task}"));
                }
                "begins" => {
                    line(at, "<idle>-0", *cpu, format!("sched_switch: {idle} R ==> {job}"));
                }
                _ => {
                    let by = format!("job-{pid}");
                    line(at, &by, *cpu, format!("sched_switch: {job} S ==> {idle}"));
                }
            }
        }
    }
    fs::write(folder.join("job.txt"), text).unwrap();
    paceline(folder, &["import", "job.txt", "-o", "job.trace"]);
}

fn replay(folder: &Path, more: &[&str]) -> Output {
    let words = ["compare", "--on", "sim", "--workload", "job.trace", "--policy"];
    paceline(folder, &[&words[..], more].concat())
}

fn json(folder: &Path, more: &[&str]) -> Value {
    serde_json::from_slice(&replay(folder, &[more, &["--json"]].concat()).stdout).unwrap()
}

#[test]
fn a_recording_is_replayed_on_as_many_cpus_as_it_was_made_on() {
    for cpus in [1, 2, 73] {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path(), cpus);
        let result = json(folder.path(), &["default"]);
        assert_eq!(result["machine"], format!("plain-{cpus}"));
        assert_eq!((&result["cpus"], &result["recording"]["cpus"]), (&cpus.into(), &cpus.into()));
        let text = replay(folder.path(), &["default"]).stdout;
        assert!(!String::from_utf8(text).unwrap().contains("recorded on"), "it is the same number");
    }
}

#[test]
fn another_number_of_cpus_is_said_in_the_heading() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 2);
    let page = folder.path().join("page.html");
    let named = ["default", "--machine", "numa-2x4", "--report", page.to_str().unwrap()];
    let text = String::from_utf8(replay(folder.path(), &named).stdout).unwrap();
    assert!(text.lines().nth(1) == Some("recorded on 2 CPUs, replayed on 8"), "{text}");
    assert!(fs::read_to_string(page).unwrap().contains("recorded on 2 CPUs, replayed on 8"));
}

#[test]
fn a_replay_says_how_far_it_is_from_its_recording_under_any_policies() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 2);
    for policies in ["default", "default,cas", "cas"] {
        let result = json(folder.path(), &[policies]);
        let recording = &result["recording"];
        assert_eq!(recording["under"], "default");
        assert_eq!(recording["source"], "import");
        let number = |key: &str| recording[key].as_f64().unwrap();
        let ratio = number("replayed_s") / number("elapsed_s");
        let distance = number("distance");
        assert!((distance + 1.0 - ratio).abs() < 1e-9 && distance.abs() < 0.1, "{recording}");
        let notes = result["notes"].to_string();
        assert!(notes.contains("its replay under default takes"), "{policies}: {notes}");
        let summary = result["summary"].as_array().unwrap().iter();
        let shown: Vec<&str> = summary.map(|one| one["policy"].as_str().unwrap()).collect();
        assert_eq!(shown.join(","), policies, "no policy is added to the comparison");
    }
}

#[test]
fn a_replay_says_what_the_recording_lacks() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 2);
    let page = folder.path().join("page.html");
    let text = replay(folder.path(), &["default", "--report", page.to_str().unwrap()]).stdout;
    // The terminal breaks lines.
    let text = String::from_utf8(text).unwrap().replace('\n', " ");
    let lacks = "the recording lacks on which CPUs each task may run";
    assert!(text.contains(lacks), "{text}");
    assert!(fs::read_to_string(page).unwrap().contains(lacks));
    let result = json(folder.path(), &["default"]);
    assert_eq!(result["recording"]["affinity"], false);
    assert!(!result["recording"]["lacks"].as_array().unwrap().is_empty());
}
