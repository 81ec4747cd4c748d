// SPDX-License-Identifier: GPL-2.0-only
//! `import` and a replay of its output, as a user runs them: the result matches the original run.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path().join("text"), text).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn paceline(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(words.split(' ')).current_dir(self.path());
        command.env("XDG_CACHE_HOME", self.path()).output().unwrap()
    }

    /// Its standard error.
    fn said(&self, words: &str) -> String {
        let output = self.paceline(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words}: {said}");
        said
    }

    fn json(&self, words: &str) -> Value {
        let output = self.paceline(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The replay's result, for each policy, on this machine.
    fn replayed(&self, machine: &str, policies: &str) -> Vec<Value> {
        self.said("import text -o x.trace");
        let words = format!(
            "compare --on sim --machine {machine} --workload x.trace --policy {policies} --json"
        );
        self.json(&words)["runs"].as_array().unwrap().clone()
    }
}

fn elapsed_s(run: &Value) -> f64 {
    run["elapsed_s"].as_f64().unwrap()
}

fn of_task<'a>(run: &'a Value, name: &str) -> &'a Value {
    let tasks = run["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// A line of ftrace's: the thread with this number, these flags, this time in us.
fn line(thread: &str, tid: u32, flags: &str, us: u64, event: &str) -> String {
    let (s, part) = (us / 1_000_000, us % 1_000_000);
    format!("{thread:>16}-{tid:<6} [000] {flags} {s}.{part:06}: {event}\n")
}

fn switch(prev: (&str, u32, i32), state: &str, next: (&str, u32, i32)) -> String {
    format!(
        "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} \
         next_prio={}",
        prev.0, prev.1, prev.2, next.0, next.1, next.2
    )
}

const IDLE: (&str, u32, i32) = ("swapper/0", 0, 120);
const START_US: u64 = 5_000_000;

/// An interrupt wakes `pulse` every 8 ms. It works for 2 ms, and preempts `hog` for that, for 0.8 s. `outside`,
/// `inside`: flags of a line outside and inside of an interrupt.
fn hog_and_pulse(outside: &str, inside: &str) -> String {
    let (hog, pulse) = (("hog", 50, 120), ("pulse", 60, 120));
    let mut text = line("<idle>", 0, outside, START_US, &switch(IDLE, "R", hog));
    for n in 1..=100 {
        let us = START_US + n * 8_000;
        let waking = "sched_waking: comm=pulse pid=60 prio=120 target_cpu=000";
        text += &line("hog", 50, inside, us, waking);
        text += &line("hog", 50, outside, us + 5, &switch(hog, "R+", pulse));
        text += &line("pulse", 60, outside, us + 2_005, &switch(pulse, "S", hog));
    }
    text + &line("hog", 50, outside, START_US + 805_000, &switch(hog, "S", IDLE))
}

#[test]
fn the_context_of_a_wakeup_is_read_whatever_flags_a_kernel_prints() {
    let forms = [("d..2", "dNh4"), ("d..2.", "dNh4."), ("d...2..", "dN.h4..")];
    let elapsed = forms.map(|(outside, inside)| {
        elapsed_s(&Folder::with(&hog_and_pulse(outside, inside)).replayed("numa-2x4", "default")[0])
    });
    assert!(elapsed.iter().all(|elapsed_s| *elapsed_s == elapsed[0]), "{elapsed:?}");
    assert!((elapsed[0] / 0.805 - 1.0).abs() < 0.01, "{elapsed:?}");
}

#[test]
fn a_gzipped_text_is_the_same_text() {
    let text = hog_and_pulse("d..2.", "dNh4.");
    let folder = Folder::with(&text);
    let plain = folder.said("import text -o plain.trace");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    fs::write(folder.path().join("text"), packed.finish().unwrap()).unwrap();
    let said = folder.said("import text -o packed.trace");
    assert_eq!(said, plain.replace("plain.trace", "packed.trace"));
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("plain.trace"), read("packed.trace"));
}

/// perf's text without interrupts: the pace of the wakeups shows the timer.
#[test]
fn a_timer_is_recognised_without_interrupts() {
    let text: String = hog_and_pulse("", "")
        .replace("hog-50    ", "hog 50 ")
        .replace(": sched_", ": sched:sched_");
    let folder = Folder::with(&text);
    let said = folder.said("import text -o x.trace");
    assert!(
        said.contains("it has no interrupts") && said.contains("1 task woken at an even pace"),
        "{said}"
    );
    let run = &folder.replayed("numa-2x4", "default")[0];
    assert!((elapsed_s(run) / 0.805 - 1.0).abs() < 0.01, "{run}");
}

/// `audio` is real-time and preempts three hogs at once, under any scheduler.
#[test]
fn a_realtime_task_waits_for_no_other_in_a_replay() {
    let hogs = [("hogA", 201, 120), ("hogB", 202, 120), ("hogC", 203, 120)];
    let audio = ("audio", 300, 9);
    let mut text = line("<idle>", 0, "d..2.", START_US, &switch(IDLE, "R", hogs[0]));
    for n in 1..=120usize {
        let (us, before, after) = (START_US + n as u64 * 10_000, hogs[(n - 1) % 3], hogs[n % 3]);
        let waking = "sched_waking: comm=audio pid=300 prio=9 target_cpu=000";
        text += &line(before.0, before.1, "dNh4.", us, waking);
        text += &line(before.0, before.1, "d..2.", us + 5, &switch(before, "R+", audio));
        text += &line("audio", 300, "d..2.", us + 1_005, &switch(audio, "S", after));
    }
    text += &line("hogA", 201, "d..2.", START_US + 1_210_000, &switch(hogs[0], "S", IDLE));
    let folder = Folder::with(&text);
    let said = folder.said("import text -o x.trace");
    assert!(said.contains("1 task of the real-time class"), "{said}");
    for run in folder.replayed("icount-1", "default,flsched,cas") {
        let waited_s = of_task(&run, "audio")["wait_s"].as_f64().unwrap();
        assert!(waited_s < 0.002, "it waited {waited_s} s in all under {}", run["policy"]);
        assert!((elapsed_s(&run) / 1.21 - 1.0).abs() < 0.02, "{}", run["elapsed_s"]);
    }
}

#[test]
fn a_deadline_task_is_said_to_be_replayed_as_another() {
    let text = hog_and_pulse("d..2.", "dNh4.").replace("pid=60 prio=120", "pid=60 prio=-1");
    let text = text.replace("next_pid=60 next_prio=120", "next_pid=60 next_prio=-1");
    let said = Folder::with(&text.replace("prev_pid=60 prev_prio=120", "prev_pid=60 prev_prio=-1"))
        .said("import text -o x.trace");
    assert!(
        said.contains("1 task of the deadline class, which the simulator does not have"),
        "{said}"
    );
}

/// Two threads of one process hand a token to each other: no switch between them changes the address space.
#[test]
fn threads_of_a_process_share_its_address_space() {
    let mut text = String::new();
    let mut current = IDLE;
    for n in 0..200u64 {
        let (us, next) = (START_US + n * 1_000, ("srv", 101 + n as u32 % 2, 120));
        let columns = |us: u64| {
            let process = if current.1 == 0 { "(-----)" } else { "(  100)" };
            format!(
                "{:>16}-{:<6} {process} [000] d..2. 5.{:06}: ",
                current.0,
                current.1,
                us - 5_000_000
            )
        };
        if n > 0 {
            let other = next.1;
            writeln!(
                text,
                "{}sched_waking: comm=srv pid={other} prio=120 target_cpu=000",
                columns(us - 100)
            )
            .unwrap();
        }
        writeln!(text, "{}{}", columns(us), switch(current, "S", next)).unwrap();
        current = next;
    }
    let folder = Folder::with(&text);
    let said = folder.said("import text -o x.trace");
    assert!(!said.contains("which threads share memory"), "{said}");
    for run in folder.replayed("icount-1", "default,cas") {
        assert!(run["address_space_switches"].as_u64().unwrap() <= 3, "{run}");
    }
}

#[test]
fn a_trace_that_lacks_much_is_refused_unless_asked_for() {
    // CPU 1 has nothing before 0.7 s, and then a task that had it for an unknown time.
    let late = ("late", 80, 120);
    let mut text = hog_and_pulse("d..2.", "dNh4.");
    let on_1 = |text: String| text.replace("[000]", "[001]");
    text += &on_1(line("late", 80, "d..2.", START_US + 805_001, &switch(late, "S", IDLE)));
    text += &on_1(line(
        "<idle>",
        0,
        "dNh2.",
        START_US + 806_000,
        "sched_waking: comm=late pid=80 prio=120",
    ));
    text += &on_1(line("<idle>", 0, "d..2.", START_US + 806_005, &switch(IDLE, "R", late)));
    text += &on_1(line("late", 80, "d..2.", START_US + 846_005, &switch(late, "S", IDLE)));
    let folder = Folder::with(&text);
    let refused = folder.paceline("import text -o x.trace");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(
        why.contains("the events of CPU 1 begin 0.8 s late") && why.contains("--partial-trace"),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");
    assert!(!folder.path().join("x.trace").exists());
    let said = folder.said("import text --partial-trace -o x.trace");
    assert!(said.contains("CPU 1 begin 0.8 s late") && !said.contains("none lost"), "{said}");
    let words = "compare --on sim --machine numa-2x4 --workload x.trace --policy default --json";
    let result = folder.json(words);
    let cpu_s = of_task(&result["runs"][0], "late")["cpu_s"].as_f64().unwrap();
    assert!((cpu_s / 0.040 - 1.0).abs() < 0.01, "{cpu_s}");
}

/// A task's work before a missing switch belongs to no task, and is counted.
#[test]
fn a_missing_switch_is_counted_once_and_charged_to_no_task() {
    let text = hog_and_pulse("d..2.", "dNh4.");
    let lines: Vec<&str> = text.lines().collect();
    // `pulse` leaves for the 50th time.
    let without: Vec<&str> =
        lines.iter().enumerate().filter(|(at, _)| *at != 3 * 50).map(|(_, line)| *line).collect();
    assert!(lines[3 * 50].contains("prev_comm=pulse"));
    let folder = Folder::with(&(without.join("\n") + "\n"));
    let result = folder.json("import text -o x.trace --json");
    assert_eq!((result["lost"].as_u64(), result["missing_switches"].as_u64()), (Some(1), Some(1)));
    let run = &folder.replayed("numa-2x4", "default")[0];
    let cpu_s = |name: &str| of_task(run, name)["cpu_s"].as_f64().unwrap();
    assert!((cpu_s("pulse") / 0.198 - 1.0).abs() < 0.01, "{}", cpu_s("pulse"));
    assert!(cpu_s("hog") < 0.605, "{}", cpu_s("hog"));
}

#[test]
fn a_machine_number_is_for_traces_that_have_one() {
    let folder = Folder::with(&hog_and_pulse("d..2.", "dNh4."));
    let refused = folder.paceline("import text --machine-id 0");
    assert_eq!(refused.status.code(), Some(2));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("--machine-id is for a trace of Perfetto's"), "{why}");
}
