// SPDX-License-Identifier: GPL-2.0-only
//! Guest checks of the promises of policies.

use std::process::{Command, Output};

use serde_json::Value;

fn paceline(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paceline")).args(words).output().unwrap()
}

/// Two hogs on one CPU of two, one of them SCHED_IDLE.
const BESIDE: &str = r#"{"global": {"duration": 4}, "tasks": {
    "hog": {"cpus": [0], "run": 1000000000}, "idle": {"cpus": [0], "policy": "SCHED_IDLE", "run": 1000000000}}}"#;

#[test]
fn in_a_guest_sched_idle_tasks_get_next_to_nothing_and_are_not_forgotten() {
    get_next_to_nothing("cas,o1,avx-fair");
}

#[test]
#[ignore = "night: min-fair and dino order tasks as avx-fair does"]
fn in_a_guest_sched_idle_tasks_get_next_to_nothing_under_all_other_policies() {
    get_next_to_nothing("dino,min-fair");
}

fn get_next_to_nothing(policies: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("beside.json");
    std::fs::write(&file, BESIDE).unwrap();
    let _cores = vm::take_cores(vm::Clock::Dilated, 2);
    let output = paceline(&[
        "compare",
        "--on",
        "vm",
        "--cpus",
        "2",
        "--boots",
        "1",
        "--runs",
        "1",
        "--json",
        "--policy",
        policies,
        "--workload",
        file.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), policies.split(',').count());
    for run in runs {
        let policy = run["policy"].as_str().unwrap();
        let cpu_s = |name: &str| {
            let tasks = run["tasks"].as_array().unwrap();
            let task = tasks.iter().find(|task| task["name"].as_str() == Some(name)).unwrap();
            task["cpu_s"].as_f64().unwrap()
        };
        let part = cpu_s("idle") / (cpu_s("hog") + cpu_s("idle"));
        assert!(part <= 0.02 && part > 0.0, "{policy}: {part}");
    }
}
