// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that really run, on the kernel under the tests.

use std::fs;

use worker::{Error, Report, run};
use workload::hackbench::{Channel, Hackbench, Worker};
use workload::{Workload, rtapp::parse};

fn read(text: &str) -> Workload {
    parse("test.json", text).unwrap()
}

fn ran(text: &str) -> Report {
    run(&read(text)).unwrap()
}

#[test]
fn work_is_burnt_in_cpu_time_however_many_share_the_cpus() {
    let report = ran(r#"{"tasks": {"a": {"instance": 6, "loop": 4, "run": 5000, "sleep": 100}}}"#);
    for task in &report.tasks {
        assert_eq!(task.steps, 8);
        let asked = 4 * 5_000_000;
        assert!(task.work_ns + 4 * 500 >= asked, "{task:?}");
        assert!(task.cpu_ns >= task.work_ns && task.cpu_ns < asked * 3 / 2, "{task:?}");
    }
}

#[test]
fn a_duration_ends_what_runs_sleeps_waits_and_spins() {
    let report = ran(r#"{"global": {"duration": 0.2},
        "channels": {"c": {"type": "pipe"}, "s": {"type": "socket"}},
        "barriers": {"spin": {"parties": 2, "spin": 1000000000}},
        "tasks": {
            "runs": {"run": 1000000000}, "burns": {"runtime": 1000000000},
            "sleeps": {"sleep": 1000000000}, "locks": {"instance": 2, "lock": "m", "sleep": 1000000000, "unlock": "m"},
            "waits": {"lock": "n", "wait": {"ref": "q", "mutex": "n"}, "unlock": "n"},
            "awaits": {"await": {"ref": "f", "up": true}}, "suspends": {"suspend": ""}, "barrier": {"barrier": "spin"},
            "reads": {"read": {"ref": "c", "bytes": 1}}, "writes": {"write": {"ref": "s", "bytes": 100}},
            "never": {"instance": 0, "run": 1}, "apart": {"process": "p", "sleep": 1000000000}
        }}"#);
    assert!(report.elapsed_ns >= 200_000_000, "{report:?}");
    assert!(report.tasks.iter().all(|task| task.tid != 0));
}

#[test]
fn memory_and_a_device_are_written() {
    let report = ran(r#"{"global": {"mem_buffer_size": 65536},
        "tasks": {"a": {"loop": 2, "mem": 1000000000, "iorun": 10000000}}}"#);
    let task = &report.tasks[0];
    // No machine writes 500 bytes in a ns; some write 160.
    assert!(task.steps == 4 && task.cpu_ns > 4_000_000 && task.work_ns == 0, "{task:?}");
}

#[test]
fn a_task_may_run_where_its_phase_says() {
    let here = rustix::thread::sched_getaffinity(None).unwrap();
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| here.is_set(*cpu));
    let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else { return };
    let text = format!(
        r#"{{"global": {{"duration": 60}}, "tasks": {{"moves-about": {{"cpus": [{first}], "loop": 1000, "phases": {{
            "there": {{"cpus": [{second}], "sleep": 20000}}, "here": {{"sleep": 20000}}}}}}}}}}"#
    );
    let runs = std::thread::spawn(move || ran(&text));
    let masks = || {
        let mine = |status: &String| status.starts_with("Name:\tmoves-about\n");
        let status = |at: fs::DirEntry| fs::read_to_string(at.path().join("status")).ok();
        let all = fs::read_dir("/proc").unwrap().filter_map(|at| status(at.ok()?));
        let list = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.map(|list| list.trim().to_string())
        };
        all.filter(mine).filter_map(list).collect::<Vec<_>>()
    };
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 2 && !runs.is_finished() {
        seen.extend(masks().into_iter().filter(|list| !list.contains(['-', ','])));
    }
    assert_eq!(seen, [first.to_string(), second.to_string()].into());
    // It ends with this process.
}

#[test]
fn waiting_tasks_are_woken() {
    // Ends at all only if every signal, resume, barrier and message arrives.
    let report = ran(r#"{"channels": {"there": {"type": "pipe"}, "back": {"type": "socket"}},
            "barriers": {"born": {"parties": 2}}, "tasks": {
            "ping": {"loop": 200, "process": "a", "write": {"ref": "there", "bytes": 5000},
                     "read": {"ref": "back", "bytes": 100}, "barrier": "b"},
            "pong": {"loop": 200, "process": "b", "read": {"ref": "there", "bytes": 5000},
                     "write": {"ref": "back", "bytes": 100}, "barrier": "b"},
            "third": {"loop": 200, "barrier": "b"},
            "parent": {"loop": 1, "fork": "child", "barrier": "born"},
            "child": {"instance": 0, "loop": 1, "process": "b", "barrier": "born"}
        }}"#);
    let steps: Vec<u64> = report.tasks.iter().map(|task| task.steps).collect();
    assert_eq!(steps, [600, 600, 200, 2, 1]);
    let pid = |at: usize| report.tasks[at].pid;
    assert!(pid(0) != pid(1) && pid(1) == pid(4) && pid(2) == pid(3), "{report:?}");
}

#[test]
fn a_flag_goes_to_and_fro() {
    let report = ran(r#"{"tasks": {
        "a": {"loop": 20, "await0": {"ref": "f", "up": false}, "set1": {"ref": "f", "up": true}},
        "b": {"loop": 20, "await0": {"ref": "f", "up": true}, "set1": {"ref": "f", "up": false}}
    }}"#);
    assert!(report.tasks.iter().all(|task| task.steps == 40), "{report:?}");
}

#[test]
fn a_mutex_keeps_others_out() {
    // Under the lock the counter of steps can be seen to advance for one task at a time only by the time it takes: four
    // times 20 ms of sleep under one lock take 80 ms, not 20.
    let text = r#"{"tasks": {"a": {"instance": 4, "loop": 1, "lock": "m", "sleep": 20000, "unlock": "m"}}}"#;
    assert!(ran(text).elapsed_ns >= 80_000_000);
}

#[test]
fn signal_wakes_a_waiter_of_the_condition() {
    let report = ran(r#"{"tasks": {
            "waits": {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
            "signals": {"loop": 1, "delay": 50000, "lock": "m", "signal": "c", "unlock": "m"},
            "resumes": {"loop": 1, "delay": 50000, "resume": "sleeps"},
            "sleeps": {"loop": 1, "suspend": ""}
        }}"#);
    assert!(report.elapsed_ns >= 50_000_000);
}

#[test]
fn timers_keep_their_grid() {
    let report = ran(
        r#"{"tasks": {"a": {"loop": 10, "run": 1000, "timer": {"ref": "unique", "period": 10000, "mode": "absolute"}}}}"#,
    );
    assert!(report.elapsed_ns >= 100_000_000, "{report:?}");
}

#[test]
fn hackbench_ends_with_every_message_read() {
    for (channel, worker) in [(Channel::Pipe, Worker::Process), (Channel::Socket, Worker::Thread)] {
        let hackbench = Hackbench { groups: 2, loops: 20, channel, worker, ..Hackbench::default() };
        let report = run(&hackbench.build()).unwrap();
        let steps: u64 = report.tasks.iter().map(|task| task.steps).sum();
        // Both sides of a message; then main's forks, its reads and all ready writes; then the gate.
        assert_eq!(steps, 2 * hackbench.messages() + 3 * 80 + 81);
    }
}

#[test]
fn nice_and_cpus_are_set_where_they_can_be() {
    let report = ran(
        r#"{"tasks": {"longer-than-fifteen-bytes": {"loop": 1, "priority": 7, "cpus": [0], "run": 10}}}"#,
    );
    assert_eq!(report.tasks[0].name, "longer-than-fifteen-bytes");
    let error = run(&read(r#"{"tasks": {"a": {"loop": 1, "cpus": [900], "run": 1}}}"#));
    assert!(matches!(error, Err(Error::NoCpu { .. })), "{error:?}");
}

#[test]
fn failed_task_ends_all_and_leaves_no_process() {
    // A pipe of this size is refused before anything starts.
    let mut workload = read(
        r#"{"channels": {"c": {"type": "pipe", "capacity": 2147483648}},
            "tasks": {"a": {"loop": 1, "read": {"ref": "c", "bytes": 1}}}}"#,
    );
    assert!(matches!(run(&workload), Err(Error::System { .. })));
    // A channel that is none: the task fails while another sleeps in another process.
    workload = read(
        r#"{"tasks": {"sleeps": {"loop": 1, "process": "p", "sleep": 1000000000},
            "fails": {"loop": 1, "lock": "m", "unlock": "m"}}}"#,
    );
    workload.tasks[1].steps[0] = workload::Step::Read { channel: 0, bytes: 1 };
    let error = run(&workload).unwrap_err().to_string();
    assert!(error.starts_with("task fails: cannot read: "), "{error}");
    assert_eq!(children_named("sleeps"), 0);
}

/// Living children of this process with a main thread of this name.
fn children_named(name: &str) -> usize {
    let me = std::process::id().to_string();
    let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|pid| {
            let stat = stat(pid);
            let after = stat.rsplit(") ").next().unwrap_or("");
            stat.contains(&format!("({name})")) && after.split(' ').nth(1) == Some(me.as_str())
        })
        .count()
}
