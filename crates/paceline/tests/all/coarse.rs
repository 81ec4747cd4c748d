// SPDX-License-Identifier: GPL-2.0-only
//! `record` without the rights for BPF: what procfs shows, and what is refused.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs without capabilities, whichever user runs the tests.
fn without_rights(words: &[&str]) -> Output {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = own.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let paceline = env!("CARGO_BIN_EXE_paceline");
    let mut command = match u64::from_str_radix(all.trim(), 16).unwrap() {
        0 => Command::new(paceline),
        _ => {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-all", "--inh-caps=-all", paceline]);
            command
        }
    };
    command.args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A process that works, one that sleeps longer than it works, and the shell's times, on standard error.
const JOB: &str = "(sleep 0.4; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) & \
                   i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; wait; times >&2";

/// Seconds of `0m0.520000s`.
fn seconds(word: &str) -> f64 {
    let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
    60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
}

/// Times of the shell, and of the children that it has waited for, from `times`.
fn charged(said: &str) -> [f64; 2] {
    let line = |line: &str| line.split(' ').map(seconds).sum();
    let mut times =
        said.lines().rev().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let (children, own) = (times.next().unwrap(), times.next().unwrap());
    [line(own), line(children)]
}

#[test]
fn without_rights_a_recording_has_what_procfs_tells() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("coarse");
    let file = file.to_str().unwrap();
    let made = without_rights(&["record", "-o", file, "--json", "--", "sh", "-c", JOB]);
    let said = text(&made.stderr);
    assert!(said.contains("lacks CAP_") && said.contains("so the recording is coarse"), "{said}");
    let about = json(&made);
    assert_eq!(about["coarse"], true);
    let unseen = about["unseen"].as_f64().unwrap();
    assert!((0.0..0.2).contains(&unseen), "{about}");

    let replayed = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["compare", "--on", "sim", "--policy", "default", "--json", "--workload", file])
        .output()
        .unwrap();
    let result = json(&replayed);
    assert!(result["notes"][0].as_str().unwrap().contains("coarse: sampled from procfs"));
    let tasks = result["runs"][0]["tasks"].as_array().unwrap();
    let mut cpu_s: Vec<f64> = tasks
        .iter()
        .filter(|task| task["name"].as_str().unwrap().starts_with("sh"))
        .map(|task| task["cpu_s"].as_f64().unwrap())
        .collect();
    cpu_s.sort_by(|a, b| b.total_cmp(a));
    let charged = charged(said);
    // The last look at a task is up to 10 ms before its end, and earlier on a busy machine; a replay is fitted to
    // within a few percent.
    for (replayed, charged) in cpu_s.iter().zip(charged) {
        assert!((replayed - charged).abs() < 0.1 * charged + 0.05, "{cpu_s:?} {charged:?}");
    }
    assert!(cpu_s.len() >= 2 && charged[1] > 0.0, "{result}");
}

/// Root of a container has the rights, but sees other numbers of threads than the kernel's. The test needs root.
#[test]
fn in_a_pid_namespace_a_recording_has_what_procfs_tells() {
    let folder = tempfile::tempdir().unwrap();
    let within = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]).args(words).current_dir(folder.path());
        command.output().unwrap()
    };
    if !within(&["true"]).status.success() {
        return;
    }
    let paceline = env!("CARGO_BIN_EXE_paceline");
    let made = within(&[paceline, "record", "-o", "trace", "--", "sh", "-c", JOB]);
    let said = text(&made.stderr);
    assert!(made.status.success(), "{said}");
    assert!(said.contains("is in a PID namespace") && said.contains("--pid=host"), "{said}");
    let replay = ["compare", "--on", "sim", "--policy", "default", "--json", "--workload", "trace"];
    let replayed = Command::new(paceline).args(replay).current_dir(folder.path()).output().unwrap();
    assert!(json(&replayed)["runs"][0]["elapsed_s"].as_f64().unwrap() > 0.1);
    let refused = within(&[paceline, "record", "-o", "none", "--calls", "--", "true"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--calls takes BPF, and this process is in a PID namespace"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_takes_bpf_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none");
    let name = file.to_str().unwrap();
    for (words, what) in [
        (&["record", "-o", name, "--calls", "--", "true"][..], "--calls"),
        (&["record", "-o", name, "--perfetto", "none", "--", "true"], "--perfetto"),
        (&["record", "-o", name, "--for", "1s"], "recording without a command"),
    ] {
        let refused = without_rights(words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        let wanted = format!("{what} takes BPF, and this process lacks CAP_");
        assert!(said.contains(&wanted) && said.contains(": run it with sudo"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!Path::new(name).exists(), "{what}");
    }
}

/// A command is replayed however it ended, and its status is passed on.
#[test]
fn a_command_that_fails_has_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let shown = report.to_str().unwrap();
    let job = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3";
    let cpus = std::thread::available_parallelism().unwrap();
    let plain = format!("plain-{cpus}");
    let words = ["--policy", "cas", "--machine", &plain, "--report", shown, "--", "sh", "-c", job];
    let tried = without_rights(&[&["try"], &words[..]].concat());
    let said = text(&tried.stdout);
    assert_eq!(tried.status.code(), Some(3), "{}", text(&tried.stderr));
    // A busy machine decides which answer; a coarse recording is at most good for a direction.
    let answer = said.replace('\n', " ");
    let direction = "Take this as a direction and not as a figure: ";
    assert!(answer.starts_with("No answer: ") || answer.contains(direction), "{said}");
    assert!(text(&tried.stderr).contains("sh ended with status 3"), "{}", text(&tried.stderr));
    assert!(report.exists());
}
