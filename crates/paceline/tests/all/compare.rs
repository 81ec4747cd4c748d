// SPDX-License-Identifier: GPL-2.0-only
//! `paceline compare` on the simulator, from the outside: its output, and its files.

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn paceline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn compare(policies: &str, more: &[&str]) -> Output {
    let fixed = ["compare", "--on", "sim", "--policy", policies];
    let job = ["--", "hackbench", "-g", "1", "-l", "20", "-p"];
    paceline(&[&fixed, more, &job].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_seed_is_one_result_to_the_byte() {
    let run = |seed| compare("default,flsched,rr", &["--json", "--seed", seed]).stdout;
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first, run("8"), "a seed that changes nothing is no seed");
}

#[test]
fn every_policy_has_its_runs_and_its_line() {
    let policies = "default,cfs,flsched,flsched:pull=true,rr,fifo";
    let result = json(&compare(policies, &["--json", "--runs", "2"]));
    assert_eq!(result["runs"].as_array().unwrap().len(), 12);
    let names: Vec<&str> = result["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default", "cfs", "flsched", "flsched:pull=true", "rr", "fifo"]);
    assert_eq!(result["summary"][0]["vs_first"], 1.0);
    assert_eq!(result["clock"], "simulated");
}

#[test]
fn flsched_takes_no_lock_and_the_baselines_do() {
    let result = json(&compare("flsched,rr,fifo", &["--json", "--locks"]));
    let locks = |at: usize| result["summary"][at]["locks"]["median"].as_f64().unwrap();
    assert_eq!(locks(0), 0.0);
    assert!(locks(1) > 0.0 && locks(2) > 0.0, "or none were looked for");
}

#[test]
fn knobs_reach_the_policy() {
    let slices = "flsched:slice=1ms,flsched:slice=50ms";
    let fixed = ["compare", "--on", "sim", "--json", "--policy", slices];
    let output = paceline(&[&fixed[..], &["--workload", "agree-1"]].concat()).output().unwrap();
    let result = json(&output);
    let switches = |at: usize| result["runs"][at]["involuntary_switches"].as_u64().unwrap();
    assert!(switches(0) > 4 * switches(1), "{} and {}", switches(0), switches(1));
}

#[test]
fn a_report_stands_alone_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let output = compare("default,flsched", &["--report", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(&format!("report: {}\n", path.display())), "{text}");
    assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_result_becomes_a_report_and_two_are_held_against_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let kept = |name: &str, more: &[&str]| {
        let path = folder.path().join(name);
        fs::write(
            &path,
            compare("default,flsched", &[&["--json", "--runs", "2"], more].concat()).stdout,
        )
        .unwrap();
        path
    };
    let (before, after) = (kept("before.json", &[]), kept("after.json", &["--seed", "5"]));
    let page = folder.path().join("both.html");
    let report = |files: &[&std::path::Path]| {
        let mut command = paceline(&["report", "-o", page.to_str().unwrap()]);
        command.args(files).output().unwrap()
    };
    let one = report(&[&before]);
    let shown = String::from_utf8(one.stdout).unwrap();
    assert!(shown.contains("| flsched") && shown.ends_with("both.html\n"), "{shown}");
    assert!(fs::read_to_string(&page).unwrap().contains("How much, and how sure"));
    let both = String::from_utf8(report(&[&before, &after]).stdout).unwrap();
    assert!(both.contains("(before)") && both.contains("(after)"), "{both}");
    let same = String::from_utf8(report(&[&before, &before]).stdout).unwrap();
    assert!(same.starts_with("No difference between before and after"), "{same}");
    // The same result, twice as slow.
    let mut slow: Value = serde_json::from_str(&fs::read_to_string(&before).unwrap()).unwrap();
    for run in slow["runs"].as_array_mut().unwrap() {
        run["elapsed_s"] = (2.0 * run["elapsed_s"].as_f64().unwrap()).into();
    }
    let slower = folder.path().join("slower.json");
    fs::write(&slower, slow.to_string()).unwrap();
    let said = String::from_utf8(report(&[&before, &slower]).stdout).unwrap();
    assert!(said.starts_with("default takes 2.00× the time it took before, and flsched"), "{said}");
    let over = paceline(&["report", before.to_str().unwrap(), "-o", before.to_str().unwrap()]);
    let refused = { over }.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8(refused.stderr).unwrap().contains("it is the result; name another file")
    );
    // A file that is no result, or of another workload, is refused in one line.
    let wrong = folder.path().join("wrong.json");
    for text in ["", "{}", "{\"ground\": \"sim\"}"] {
        fs::write(&wrong, text).unwrap();
        let refused = report(&[&wrong]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains("it is not what `compare --json` or"), "{said}");
    }
    let other = fs::read_to_string(&before).unwrap().replace("hackbench -g 1", "hackbench -g 2");
    fs::write(&wrong, other).unwrap();
    let said = String::from_utf8(report(&[&before, &wrong]).stderr).unwrap();
    assert!(said.contains("the workload is hackbench -g 1"), "{said}");
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    let fixed = ["compare", "--on", "sim", "--policy", "fifo", "--", "hackbench", "-g", "1"];
    let mut child = paceline(&fixed).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("paceline:"));
}

#[test]
fn a_reader_that_has_gone_away_keeps_no_file_from_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).to_str().unwrap().to_string();
    let (report, tables) = (name("report.html"), name("tables"));
    let run = ["compare", "--on", "sim", "--policy", "default", "--report", &report];
    let job = ["--csv", &tables, "--", "hackbench", "-g", "1", "-l", "1"];
    let mut command = paceline(&[&run[..], &job].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(fs::read_to_string(&report).unwrap().ends_with("</html>\n"));
    assert_eq!(fs::read_dir(&tables).unwrap().count(), 3);
}

#[test]
fn a_full_disk_behind_standard_output_is_one_line() {
    let full = File::create("/dev/full").unwrap();
    let output = paceline(&["list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn temporary_files_go_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let fixed = ["compare", "--on", "sim", "--policy", "fifo", "--", "hackbench", "-g", "1"];
    let output = paceline(&fixed).env("TMPDIR", folder.path()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_behind_standard_error_changes_no_exit_code() {
    let code = |arguments: &[&str]| {
        let full = File::create("/dev/full").unwrap();
        let mut command = paceline(arguments);
        command.stderr(full).stdout(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(code(&["list", "cray"]), Some(2));
    let job = ["compare", "--on", "sim", "--policy", "fifo", "--", "hackbench", "-g", "1"];
    assert_eq!(code(&job), Some(0));
}

#[test]
fn the_line_that_runs_it_again_fails_as_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/phenom-2f4s.toml");
    let (mine, known, load) = (file("mine.toml"), file("what is known"), file("it's.json"));
    fs::copy(machine, &mine).unwrap();
    fs::write(&known, "[programs]\none = 2\n").unwrap();
    fs::write(&load, r#"{"tasks": {"one": {"loop": 1, "run": 1000}}}"#).unwrap();
    let policy = "min-fair:target=0.9";
    let chosen = ["compare", "--on", "sim", "--policy", policy, "--seed", "7", "--limit", "300us"];
    let files = ["--machine", &mine, "--profile", &known, "--workload", &load];
    let output = paceline(&[&chosen[..], &files].concat()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not ended after 300us of simulated time"), "{said}");
    let (_, line) = said.trim_end().split_once("again with: paceline ").unwrap();
    for option in ["--seed 7", "--limit 300us", policy, &mine, "what is known'"] {
        assert!(line.contains(option), "{option}: {line}");
    }
    let script = format!("exec '{}' {line}", env!("CARGO_BIN_EXE_paceline"));
    let again = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(again.stderr).unwrap(), said);
}

#[test]
fn a_workload_that_the_ground_cannot_have_is_bad_input() {
    for (policy, ground, job, wanted) in [
        ("cfs", "sim", &["--workload", "uneven-cgroups"][..], "in cgroups"),
        (
            "default,koka",
            "sim",
            &["--workload", "agree-1"],
            "koka: it learns from what tasks touch",
        ),
        ("parekh", "sim", &["--", "hackbench"], "parekh: it learns from what tasks touch"),
        ("default", "vm", &["--with", ".", "--workload", "agree-1"], "--with is for a command's"),
    ] {
        let words = [&["compare", "--policy", policy, "--on", ground][..], job].concat();
        let output = paceline(&words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted) && !said.contains("again with"), "{said}");
    }
}

#[test]
fn seeds_go_round_the_end_of_the_numbers_and_a_limit_of_ages_is_none() {
    let last = u64::MAX.to_string();
    let output = compare("fifo", &["--json", "--runs", "2", "--seed", &last]);
    assert_eq!(json(&output)["runs"].as_array().unwrap().len(), 2);
    // 2^64 ns and a little: not 290 ns
    json(&compare("fifo", &["--json", "--limit", "18446744074s"]));
}

/// Rows by column, of a file in which nothing is quoted.
fn table(path: &std::path::Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(String::from));
    let columns: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| columns.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn tables_and_timelines_are_of_the_runs_that_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (tables, timeline) = (folder.path().join("tables"), folder.path().join("run.pf"));
    let files = ["--csv", tables.to_str().unwrap(), "--perfetto", timeline.to_str().unwrap()];
    let result =
        json(&compare("default,flsched", &[&files[..], &["--json", "--runs", "2"]].concat()));
    let runs = table(&tables.join("runs.csv"));
    assert_eq!(runs.len(), 4);
    for (row, run) in runs.iter().zip(result["runs"].as_array().unwrap()) {
        assert_eq!(row["policy"], run["policy"].as_str().unwrap());
        assert_eq!(row["elapsed_s"], run["elapsed_s"].to_string());
        assert_eq!((row["page_moves"].as_str(), &run["page_moves"]), ("", &Value::Null));
    }
    let number = |text: &String| text.parse::<f64>().unwrap();
    let tasks = table(&tables.join("tasks.csv"));
    let intervals = table(&tables.join("intervals.csv"));
    let first = tasks.iter().filter(|task| task["run"] == "0");
    for task in first.clone() {
        let own = intervals
            .iter()
            .filter(|it| it["policy"] == task["policy"] && it["tid"] == task["tid"]);
        let had_s: f64 = own.map(|it| number(&it["to_s"]) - number(&it["from_s"])).sum();
        assert!((had_s - number(&task["cpu_s"])).abs() < 1e-8, "{had_s} {task:?}");
    }
    assert_eq!(first.count() * 2, tasks.len());
    for run in &runs {
        let own =
            tasks.iter().filter(|it| it["policy"] == run["policy"] && it["run"] == run["run"]);
        let all = |column: &str| own.clone().map(|task| number(&task[column])).sum::<f64>();
        let switches = all("voluntary_switches") + all("involuntary_switches");
        assert_eq!(switches, number(&run["context_switches"]), "{run:?}");
        assert_eq!(all("migrations"), number(&run["migrations"]), "{run:?}");
        let longest = own.clone().map(|task| number(&task["wait_max_s"])).fold(0.0, f64::max);
        // The run's value is from a histogram, which keeps three digits.
        assert!((longest / number(&run["wait_max_s"]) - 1.0).abs() < 2e-3, "{longest} {run:?}");
        // The longest wait may be unfinished, and is then in no sum.
        assert!(all("wait_s") > 0.0 && all("waits") > 0.0, "{run:?}");
    }
    for policy in ["default", "flsched"] {
        let timeline = fs::read(folder.path().join(format!("run-{policy}.pf"))).unwrap();
        let name = result["runs"][0]["tasks"][0]["name"].as_str().unwrap().as_bytes();
        let named = timeline.windows(name.len()).any(|bytes| bytes == name);
        assert!(named && timeline.len() > 10_000, "{policy}: {}", timeline.len());
    }
}

#[test]
fn a_report_is_as_readable_as_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let run = ["compare", "--on", "sim", "--policy", "default", "--report"];
    for (umask, mode) in [("077", 0o600), ("027", 0o640), ("002", 0o664)] {
        let under = format!("umask {umask} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &under, env!("CARGO_BIN_EXE_paceline")]).args(run).arg(&report);
        let job = ["--", "hackbench", "-g", "1", "-l", "1", "-p"];
        assert!(
            command
                .args(job)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(fs::metadata(&report).unwrap().permissions().mode() & 0o777, mode, "{umask}");
        fs::remove_file(&report).unwrap();
    }
}

#[test]
fn a_table_that_is_interrupted_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().to_str().unwrap();
    let begun = ["compare", "--on", "sim", "--policy", "default", "--csv", csv];
    let job = ["--", "hackbench", "-g", "4", "-l", "1500"];
    let mut command = paceline(&[&begun[..], &job].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let half_written = || {
        let files = fs::read_dir(csv).unwrap().map(|file| file.unwrap());
        let big = |file: fs::DirEntry| file.metadata().is_ok_and(|file| file.len() > 1 << 16);
        let hidden = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with('.');
        files.filter(hidden).any(big)
    };
    while child.try_wait().unwrap().is_none() {
        if half_written() {
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(130 | 0)), "{status}");
    let left: Vec<_> = fs::read_dir(csv).unwrap().map(|file| file.unwrap().file_name()).collect();
    let whole = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".csv");
    assert!(left.iter().all(whole), "{left:?}");
}

#[test]
fn a_file_that_may_not_grow_is_one_line_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -f 8; exec \"$0\" compare --on sim --policy default --report report.html -- hackbench -l 1";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_paceline")])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot write report.html: File too large"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_runs() {
    let refused = |ground: &str, more: &[&str]| {
        let words = [&["compare", "--on", ground, "--policy", "default"], more, &["--", "true"]];
        let output = paceline(&words.concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("vm", &["--perfetto", "x"]).contains("--perfetto is for --on sim"));
    let job = |more: &[&str]| {
        let output = compare("default", more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(job(&["--csv", "/dev/null/x"]).contains("--csv /dev/null/x: "));
    assert!(job(&["--perfetto", "/dev/null"]).contains("it is there and no file"));
}

/// Half a millisecond of each ten: its waits matter, but its elapsed time does not.
#[test]
fn a_workload_that_sleeps_has_waits_and_no_ratio() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("latency.json");
    let of = |run: u32, sleep: u32| {
        let task = format!(r#"{{"loop": 20, "run": {run}, "sleep": {sleep}}}"#);
        fs::write(&file, format!(r#"{{"tasks": {{"one": {task}}}}}"#)).unwrap();
        let fixed = ["compare", "--on", "sim", "--policy", "default,fifo"];
        let run = |more: &[&str]| {
            let file = ["--workload", file.to_str().unwrap()];
            paceline(&[&fixed[..], &file, more].concat()).output().unwrap()
        };
        (json(&run(&["--json"])), String::from_utf8(run(&[]).stdout).unwrap().replace('\n', " "))
    };
    let (result, text) = of(500, 9500);
    for one in result["summary"].as_array().unwrap() {
        assert!(one["vs_first"].is_null() && one["vs_first_range"].is_null(), "{one}");
        assert!(one["wait_p99_s"].is_object() && one["context_switches"].is_object(), "{one}");
    }
    assert!(result["notes"].to_string().contains("it mostly slept"), "{}", result["notes"]);
    assert!(text.contains("it mostly slept") && !text.contains('×'), "{text}");
    let (result, text) = of(9500, 500);
    assert_eq!(result["summary"][0]["vs_first"], 1.0);
    assert!(!text.contains("mostly slept") && text.contains("1.00×"), "{text}");
}
