// SPDX-License-Identifier: GPL-2.0-only
//! Files that a user names: existing files are not lost when writing fails, and nothing waits for an event that never
//! comes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest time of an immediate action on a busy machine.
const SOON: Duration = Duration::from_secs(60);

const LOAD: &str = r#"{"tasks": {"one": {"loop": 1, "run": 1000}}}"#;

/// A folder that a command runs in, and all of its files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.at(name), text).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let name = |file: std::io::Result<fs::DirEntry>| file.unwrap().file_name();
        let names = fs::read_dir(self.0.path()).unwrap().map(name);
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Its caches and temporary files are in the folder too. It ignores no signal, even if the process that started the
    /// tests did.
    fn paceline(&self, words: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT", env!("CARGO_BIN_EXE_paceline")]);
        command.args(words.split(' ')).stdin(Stdio::null()).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", self.0.path()).env("TMPDIR", self.0.path());
        command
    }

    /// The message of a refusal.
    fn refused(&self, words: &str) -> String {
        let mut command = self.paceline(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = within(child, SOON);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(output.stdout.is_empty(), "{words}");
        said
    }
}

/// Kills a process that takes longer.
fn within(mut child: Child, time: Duration) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > time {
            child.kill().unwrap();
            panic!("it has not ended: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn await_that(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "it never comes");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(signal: &str, child: &Child) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

#[test]
fn nothing_is_written_over_what_the_run_is_made_of() {
    let folder = Folder::new();
    let machine = include_str!("../../../../machines/phenom-2f4s.toml");
    folder.put("load", LOAD);
    folder.put("runs.csv", LOAD);
    folder.put("mine.toml", machine);
    folder.put("known", "[programs]\none = 2\n");
    folder.put("job", "#!/bin/sh\n");
    fs::set_permissions(folder.at("job"), PermissionsExt::from_mode(0o755)).unwrap();
    let before = folder.files();
    let compare = "compare --on sim --policy min-fair --machine mine.toml";
    for (words, wanted) in [
        ("--workload load --report load", "--report load: it is the workload"),
        ("--workload load --report ./mine.toml", "--report ./mine.toml: it is the machine's file"),
        ("--workload load --profile known --perfetto known", "--perfetto known: it is the profile"),
        ("--workload runs.csv --csv .", "--csv ./runs.csv: it is the workload"),
        ("--workload load --report new --perfetto new", "--perfetto new: --report writes it, too"),
    ] {
        let said = folder.refused(&format!("{compare} {words}"));
        assert!(said.contains(&format!("{wanted}; name another file")), "{said}");
    }
    for (words, wanted) in [
        ("record -o new --perfetto new -- true", "-o new: --perfetto writes it, too"),
        ("record -o job -- ./job", "-o job: it is the command itself"),
        ("try -o new --report new -- true", "--report new: -o writes it, too"),
        ("try --machine mine.toml --report mine.toml -- true", "it is the machine's file"),
        ("import load -o load", "-o load: it is the text itself"),
        ("import load --perfetto load", "--perfetto load: it is the text itself"),
        ("import load -o new --perfetto new", "-o new: --perfetto writes it, too"),
    ] {
        let said = folder.refused(words);
        assert!(said.contains(&format!("{wanted}; name another file")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(folder.files(), before);
    assert_eq!(fs::read_to_string(folder.at("load")).unwrap(), LOAD);
}

#[test]
fn what_cannot_be_written_is_refused_before_the_command_runs() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("tables/tasks.csv")).unwrap();
    let before = folder.files();
    for (words, wanted) in [
        ("try -o none/x", "-o: cannot write none/x: No such file"),
        ("try --report none/x", "--report: cannot write none/x: No such file"),
        ("try --perfetto none/x", "--perfetto: cannot write none/x-"),
        ("try --csv tables", "tables/tasks.csv is a folder; name a file"),
        ("record -o none/x", "-o: cannot write none/x: No such file"),
        ("record --perfetto none/x", "--perfetto: cannot write none/x: No such file"),
        ("record -o .", ". is a folder; name a file"),
        ("record -o none/", "-o: cannot write none/: it is the name of a folder; name a file"),
        ("try --perfetto tables", "tables is a folder; name a file"),
    ] {
        let said = folder.refused(&format!("{words} -- touch ran"));
        assert!(said.contains(wanted) && said.lines().count() == 1, "{words}: {said}");
    }
    assert_eq!(folder.files(), before);
}

/// Measuring takes up to a minute if it was not done today.
#[test]
fn what_is_mistyped_is_seen_before_the_machine_is_measured() {
    let folder = Folder::new();
    let said = folder.refused("try -- nosuchcmd");
    assert!(said.contains("nosuchcmd is not a program") && said.lines().count() == 1, "{said}");
    let said = folder.refused("try --policy nope -- true");
    assert!(said.contains("no policy is called `nope`") && said.lines().count() == 1, "{said}");
    assert!(folder.files().is_empty());
}

#[test]
fn an_interrupted_measurement_says_so_and_leaves_nothing() {
    let folder = Folder::new();
    let mut command = folder.paceline("try -- touch ran");
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("has not been measured today"));
    thread::sleep(Duration::from_millis(100));
    kill("-INT", &child);
    assert_eq!(within(child, SOON).status.code(), Some(130));
    assert!(said.any(|line| line.unwrap() == "paceline: interrupted"));
    assert!(folder.files().is_empty(), "{:?}", folder.files());
}

#[test]
fn a_command_that_does_not_start_costs_no_recording() {
    let folder = Folder::new();
    folder.put("old", "what was there");
    folder.put("job", [0x7f, 0, 1, 2]);
    fs::set_permissions(folder.at("job"), PermissionsExt::from_mode(0o755)).unwrap();
    let said = folder.refused("record -o old -- ./job");
    assert!(said.contains("cannot start ./job: "), "{said}");
    assert_eq!(fs::read_to_string(folder.at("old")).unwrap(), "what was there");
    assert_eq!(folder.files(), ["job", "old"]);
}

#[test]
fn text_that_is_none_costs_no_recording() {
    let folder = Folder::new();
    folder.put("old", "what was there");
    folder.put("text", "no event\n");
    folder.refused("import text -o old");
    assert_eq!(fs::read_to_string(folder.at("old")).unwrap(), "what was there");
    assert_eq!(folder.files(), ["old", "text"]);
}

/// Begins to record, and waits until the command runs.
fn recorded(folder: &Folder, script: &str) -> Child {
    let mut command = folder.paceline("record -o trace -- sh -c");
    command.arg(script).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    await_that(|| folder.at("running").exists());
    child
}

fn replayed(folder: &Folder) {
    let mut command = folder.paceline("compare --on sim --policy default --workload trace");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_polite_kill_of_the_recorder_reaches_its_command() {
    for signal in ["-TERM", "-QUIT", "-USR1"] {
        let folder = Folder::new();
        let script = "trap 'exit 7' TERM; touch running; while :; do sleep 0.05; done";
        let started = Instant::now();
        let child = recorded(&folder, script);
        kill(signal, &child);
        let output = within(child, SOON);
        let took = started.elapsed();
        assert_eq!(output.status.code(), Some(7), "{signal}: {output:?} after {took:?}");
        replayed(&folder);
        assert_eq!(folder.files(), ["running", "trace"]);
    }
}

#[test]
fn a_name_that_is_no_text_is_written_to_and_said_as_well_as_can_be() {
    let folder = Folder::new();
    let mut command = folder.paceline("record --json -o");
    command.arg(OsStr::from_bytes(b"no\xfftext")).args(["--", "sh", "-c", "exit 4"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["file"], "no\u{fffd}text");
}

#[test]
fn an_argument_that_is_no_text_is_named() {
    let folder = Folder::new();
    let mut command = folder.paceline("record -o trace -- ls");
    let output = command.arg(OsStr::from_bytes(b"no\xfftext")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(r#""no\xFFtext" is not UTF-8"#) && said.lines().count() == 1, "{said}");
    assert!(folder.files().is_empty());
}

/// Tables of two runs, or some tables of one, would be misleading.
#[test]
fn tables_that_cannot_all_be_written_are_not_there() {
    let folder = Folder::new();
    let words = "compare --on sim --policy default --workload agree-1 --csv in/tables";
    let script = format!("ulimit -f 8; exec {} {words}", env!("CARGO_BIN_EXE_paceline"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.0.path());
    let output = command.env("TMPDIR", folder.0.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("File too large") && said.contains("; make room, or name another folder")
    );
    assert!(folder.files().is_empty(), "{:?}", folder.files());
}

/// `nohup` makes it and its command ignore hangups.
#[test]
fn a_recorder_under_nohup_ignores_hangups() {
    let folder = Folder::new();
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_paceline")).current_dir(folder.0.path());
    let script = "touch running; while [ -e running ]; do sleep 0.05; done; exit 7";
    command.args(["record", "-o", "trace", "--", "sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    await_that(|| folder.at("running").exists());
    kill("-HUP", &child);
    thread::sleep(Duration::from_millis(100));
    assert!(!folder.at("trace").exists(), "it has ended");
    fs::remove_file(folder.at("running")).unwrap();
    assert_eq!(within(child, SOON).status.code(), Some(7));
}

/// The recorder takes some time to begin.
#[test]
fn a_command_does_not_start_after_an_interrupt() {
    for wait_ms in [10, 30, 60, 120, 240] {
        let folder = Folder::new();
        let mut command = folder.paceline("record -o trace -- touch ran");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(wait_ms));
        kill("-INT", &child);
        let status = within(child, SOON).status;
        match status.code() {
            Some(0) => assert_eq!(folder.files(), ["ran", "trace"]),
            // or the handler was not installed yet
            Some(130) | None => assert!(folder.files().is_empty(), "{:?}", folder.files()),
            _ => panic!("{status} after {wait_ms} ms"),
        }
    }
}

/// A command that ignores signals.
#[test]
fn a_second_interrupt_ends_the_wait_and_keeps_the_recording() {
    let folder = Folder::new();
    let deaf = "exec 2>/dev/null; trap '' INT TERM; touch running; while [ -e running ]; do sleep 0.05; done";
    let child = recorded(&folder, deaf);
    kill("-INT", &child);
    await_that(|| folder.at("trace").exists());
    kill("-INT", &child);
    let output = within(child, SOON);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the command has not ended yet") && said.contains("trace: "), "{said}");
    fs::remove_file(folder.at("running")).unwrap();
    replayed(&folder);
    assert_eq!(folder.files(), ["trace"]);
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for() {
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.at("pipe")).status().unwrap().success());
    for (words, wanted) in [
        ("compare --on sim --policy default --workload pipe", "it is no regular file"),
        ("import pipe", "it is no file"),
    ] {
        let said = folder.refused(words);
        assert!(said.contains(wanted) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn what_is_no_workload_is_told_what_it_would_have_to_be() {
    let folder = Folder::new();
    folder.put("noise", [0xff, 0xfe, 0, 1]);
    folder.put("empty", "");
    let refused =
        |name| folder.refused(&format!("compare --on sim --policy default --workload {name}"));
    assert!(refused("noise").contains("it is neither rt-app JSON nor a recording"));
    assert!(refused("empty").contains("empty: it is empty; write rt-app JSON, or record again"));
}

#[test]
fn a_trace_that_would_fill_the_memory_is_refused() {
    let folder = Folder::new();
    // One packet of that length.
    folder.put("trace", [0x0a, 0x80, 0x80, 0x80, 0x80, 0x02]);
    let whole = File::options().write(true).open(folder.at("trace")).unwrap();
    whole.set_len((512 << 20) + 1).unwrap();
    assert!(folder.refused("import trace").contains("has more than 512 MiB; record for a shorter"));
    assert!(!Path::new(&folder.at("paceline.trace")).exists());
}
