// SPDX-License-Identifier: GPL-2.0-only
//! The meaning of rt-app's JSON, and how a wrong file is refused.

use workload::{Fair, Object, RealTime, Step, Touched, Vector, Workload, rtapp::parse};

fn read(text: &str) -> Workload {
    parse("dir/file.json", text).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    parse("f.json", text).expect_err("this file must be refused").to_string()
}

fn run(us: u64) -> Step {
    Step::Run { work_ns: us * 1000 }
}

#[test]
fn a_task_loops_over_its_events() {
    let w = read(
        r#"{ /* as in rt-app's tutorial */
            "tasks": { "thread0": { "loop": 3, "run": 20000, "sleep": 80000, } },
            "global": { "duration": 2, "calibration": "CPU0", "ftrace": true }
        }"#,
    );
    assert_eq!((w.name.as_str(), w.duration_ns), ("file", Some(2_000_000_000)));
    let steps = vec![run(20_000), Step::Sleep { ns: 80_000_000 }];
    assert_eq!(w.tasks[0].steps, [Step::Repeat { times: Some(3), steps }]);
}

#[test]
fn phases_run_in_order_and_repeat_inside_the_task() {
    let w = read(
        r#"{"tasks": {"a": {"loop": 2, "phases": {
            "light": {"loop": 10, "run": 1, "timer": {"ref": "unique", "period": 30000}},
            "heavy": {"run0": 2, "run1": 3, "timer": {"ref": "unique", "period": 5, "mode": "absolute"}}
        }}}}"#,
    );
    // One absolute use of a timer makes all of its uses absolute.
    let timer = |us: u64| Step::Timer { timer: 0, period_ns: us * 1000, relative: false };
    let light = vec![run(1), timer(30_000)];
    let phases = vec![Step::Repeat { times: Some(10), steps: light }, run(2), run(3), timer(5)];
    assert_eq!(w.tasks[0].steps, [Step::Repeat { times: Some(2), steps: phases }]);
    assert_eq!(w.objects, [Object::Timer]);
}

#[test]
fn a_timer_is_absolute_beside_a_relative_one() {
    let w = read(
        r#"{"tasks": {"a": {"loop": 1, "timer0": {"ref": "t", "period": 1}, "timer1": {"ref": "u", "period": 1},
            "timer2": {"ref": "t", "period": 1, "mode": "absolute"}}}}"#,
    );
    let timer = |timer, relative| Step::Timer { timer, period_ns: 1000, relative };
    assert_eq!(w.tasks[0].steps, [timer(0, false), timer(1, true), timer(0, false)]);
}

#[test]
fn a_phase_that_names_no_cpus_has_those_of_its_task() {
    let w = read(
        r#"{"tasks": {
            "a": {"cpus": [2], "loop": 1, "phases": {"x": {"run": 1}, "y": {"cpus": [1, 0], "run": 2}}},
            "b": {"loop": 1, "phases": {"x": {"run": 1}, "y": {"loop": 2, "cpus": [3], "run": 2}}},
            "c": {"cpus": [2], "loop": 1, "phases": {"x": {"run": 1}}}
        }}"#,
    );
    let on = |cpus: &[usize]| Step::Cpus(Some(cpus.to_vec()));
    assert_eq!(w.tasks[0].steps, [on(&[2]), run(1), on(&[0, 1]), run(2)]);
    let twice = Step::Repeat { times: Some(2), steps: vec![run(2)] };
    assert_eq!(w.tasks[1].steps, [Step::Cpus(None), run(1), on(&[3]), twice]);
    assert_eq!(w.tasks[2].steps, [run(1)]);
    assert_eq!(w.tasks[0].masks(), [&vec![2], &vec![2], &vec![0, 1]]);
}

#[test]
fn what_is_written_to_memory_and_devices_goes_through_one_buffer() {
    let text = |global: &str| {
        format!(
            r#"{{"tasks": {{"a": {{"loop": 1, "mem": 9, "iorun1": 7}}}}, "global": {{{global}}}}}"#
        )
    };
    let both = |buffer| [Step::Mem { bytes: 9, buffer }, Step::Io { bytes: 7, buffer }];
    // 4 MB, as rt-app's tutorial has it
    assert_eq!(read(&text("")).tasks[0].steps, both(4_194_304));
    let said = read(&text(r#""mem_buffer_size": 4096, "io_device": "/dev/null""#));
    assert_eq!(said.tasks[0].steps, both(4096));
}

/// Nice values count for all policies of the fair class.
#[test]
fn fair_policies_are_read_with_their_nice_values() {
    let w = read(
        r#"{"tasks": {"a": {"loop": 1, "run": 1}, "b": {"loop": 1, "policy": "SCHED_BATCH", "priority": 5, "run": 1},
            "c": {"loop": 1, "policy": "SCHED_OTHER", "run": 1}, "d": {"loop": 1, "policy": "SCHED_RR", "run": 1}},
            "global": {"default_policy": "SCHED_IDLE"}}"#,
    );
    let seen: Vec<_> = w.tasks.iter().map(|task| (task.fair, task.nice)).collect();
    assert_eq!(seen, [(Fair::Idle, 0), (Fair::Batch, 5), (Fair::Normal, 0), (Fair::Normal, 0)]);
}

/// The policy decides the meaning of `"priority"`, wherever it stands.
#[test]
fn real_time_tasks_have_a_priority_of_their_own() {
    let w = read(
        r#"{"tasks": {"a": {"loop": 1, "priority": 3, "policy": "SCHED_OTHER", "run": 1},
            "b": {"loop": 1, "priority": 50, "run": 1}, "c": {"loop": 1, "run": 1},
            "d": {"loop": 1, "policy": "SCHED_RR", "priority": 99, "run": 1}},
            "global": {"default_policy": "SCHED_FIFO"}}"#,
    );
    let seen: Vec<_> = w.tasks.iter().map(|task| (task.nice, task.realtime)).collect();
    let (fifo, rr) = (RealTime::Fifo, RealTime::Rr);
    assert_eq!(seen, [(3, RealTime::No), (0, fifo(50)), (0, fifo(10)), (0, rr(99))]);
}

#[test]
fn instances_are_numbered_and_share_objects() {
    let w = read(
        r#"{"tasks": {"w": {"instance": 3, "loop": 1, "priority": 5, "cpus": [2, 0],
            "delay": 7, "hw": {"stalled": 0.25, "vector": "avx2", "reach": 2.5, "own": {"bytes": 5000}, "code": {"pages": 3}}, "barrier": "b"}, "x": {"loop": 1, "barrier": "b"}}}"#,
    );
    let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["w-0", "w-1", "w-2", "x"]);
    let task = &w.tasks[2];
    assert_eq!((task.nice, task.delay_ns), (5, 7000));
    assert_eq!(task.cpus, Some(vec![0, 2]));
    let hw = task.hw.as_ref().unwrap();
    assert_eq!((task.stalled, task.vector), (0.25, Vector::Avx2));
    assert_eq!((hw.reach_ns, hw.own), (2500, Touched { pages: 2, bytes: 5000 }));
    assert_eq!(hw.code, Touched { pages: 3, bytes: 12_288 });
    // rt-app counts a barrier's parties by the threads that name it in an event.
    assert_eq!(w.objects, [Object::Barrier { parties: 4, spin_ns: 0 }]);
}

#[test]
fn a_task_without_an_instance_is_no_party_of_a_barrier() {
    let w = read(
        r#"{"tasks": {"a": {"instance": 2, "loop": 1, "barrier": "b"},
            "off": {"instance": 0, "loop": 1, "barrier": "b"}}}"#,
    );
    assert_eq!(w.objects, [Object::Barrier { parties: 2, spin_ns: 0 }]);
}

#[test]
fn sync_takes_the_mutex_unless_it_is_held() {
    let w = read(
        r#"{"tasks": {
            "a": {"loop": 1, "sync": {"ref": "q", "mutex": "m"}},
            "b": {"loop": 1, "lock": "m", "sync": {"ref": "q", "mutex": "m"}, "unlock": "m"}
        }}"#,
    );
    assert_eq!(w.tasks[0].steps.len(), 4);
    assert_eq!(w.tasks[0].steps, w.tasks[1].steps);
    assert!(matches!(w.tasks[0].steps[0], Step::Lock(_)));
}

#[test]
fn suspend_waits_under_the_own_name() {
    let w =
        read(r#"{"tasks": {"a": {"loop": 1, "suspend": ""}, "b": {"loop": 1, "resume": "a"}}}"#);
    assert_eq!((&w.tasks[0].steps[0], &w.tasks[1].steps[0]), (&Step::Suspend(0), &Step::Resume(0)));
}

#[test]
fn each_fork_is_a_thread_of_its_own() {
    let w = read(
        r#"{"tasks": {
            "parent": {"instance": 2, "loop": 1, "fork": "child", "run": 5},
            "child": {"instance": 0, "loop": 1, "run": 1}
        }}"#,
    );
    let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["parent-0", "parent-1", "child-0", "child-1"]);
    assert_eq!((&w.tasks[0].steps[0], &w.tasks[1].steps[0]), (&Step::Fork(2), &Step::Fork(3)));
    let forked: Vec<bool> = w.tasks.iter().map(|t| t.forked).collect();
    assert_eq!(forked, [false, false, true, true]);
}

#[test]
fn processes_and_channels_are_ours() {
    let w = read(
        r#"{"channels": {"c": {"type": "pipe"}, "s": {"type": "socket", "capacity": 9, "overhead": 0},
            "p": {"type": "packets", "messages": 2}, "q": {"type": "packets"}},
        "tasks": {
            "a": {"instance": 2, "process": "unique", "loop": 1, "write": {"ref": "c", "bytes": 8}},
            "b": {"process": "p", "loop": 1, "read": {"ref": "c", "bytes": 8}},
            "c": {"process": "p", "loop": 1, "run": 1.5}, "d": {"loop": 1, "run": 1}
        }}"#,
    );
    let processes: Vec<usize> = w.tasks.iter().map(|t| t.process).collect();
    assert_eq!(processes, [2, 3, 1, 1, 0]);
    assert_eq!(w.tasks[0].steps, [Step::Write { channel: 0, bytes: 8 }]);
    assert_eq!(w.tasks[3].steps, [Step::Run { work_ns: 1500 }]);
    assert_eq!(w.objects[0], Object::Pipe { capacity: 65_536 });
    assert_eq!(w.objects[1], Object::Socket { capacity: 9, overhead: 0 });
    assert_eq!(w.objects[2], Object::Packets { messages: 2 });
    assert_eq!(w.objects[3], Object::Packets { messages: 16 });
}

/// One table: the file, and what its refusal must say.
const WRONG: &[(&str, &str)] = &[
    ("", "f.json:1: not JSON: EOF while parsing a value"),
    (
        "{\n\"tasks\": {\n\"a\": {\"run\": 1 \"sleep\": 2}}}",
        "f.json:3: not JSON: expected `,` or `}`",
    ),
    ("[]", "f.json:1: a workload file: expected an object { … }, found []"),
    ("{}", "expected an object \"tasks\""),
    ("{\"tasks\": {}}", "expected at least one task with an instance"),
    ("{\"tusks\": {}}", "\"tusks\" is not known here; expected one of: tasks, global"),
    ("{\"tasks\": {\"a\": {\"loop\": 1}}}", "a: expected at least one event"),
    (
        "{\"tasks\": {\n\"a\": {\"run\": -1}}}",
        "f.json:2: run: expected a time in µs, 0 or more, found -1",
    ),
    ("{\"tasks\": {\"a\": {\"run\": \"x\"}}}", "expected a time in µs"),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1,\n\"hw\": {\"reach\": 1,\n\"onw\": {}}}}}",
        "f.json:3: \"onw\" is not known here; expected one of: stalled, pressure, vector, memory, reach, own",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1,\n\"vector\": \"sse\"}}}",
        "f.json:2: vector: expected none, avx2 or avx512, found \"sse\"",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1,\n\"hw\": {\"own\": {\"pages\": 1}}}}}",
        "f.json:2: hw: expected a \"reach\"",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"hw\": {\"reach\": 1, \"own\": {\"pages\": -1}}}}}",
        "pages: expected 0 to",
    ),
    ("{\"tasks\": {\"a\": {\"run\": 1}}}", "a loops for ever and \"global\" has no \"duration\""),
    ("{\"tasks\": {\"a\": {\"loop\": -2, \"run\": 1}}}", "loop: expected -1, 0 or more, found -2"),
    (
        "{\"channels\": {\"c\": {\"type\": \"pipe\"},\n\"c\": {\"type\": \"socket\"}}}",
        "f.json:2: c: there is a channel of this name before; give one of them another",
    ),
    (
        "{\"resources\": {\"b\": {\"parties\": 2}},\n\"barriers\": {\"b\": {\"parties\": 3}}}",
        "f.json:2: b: there is a barrier of this name before",
    ),
    ("{\"tasks\": {\"a\": {\"loop\": 1, \"memrun\": 1}}}", "\"memrun\" of rt-app is not modelled"),
    ("{\"tasks\": {\"a\": {\"loop\": 1, \"mem\": -1}}}", "mem: expected 1 or more, found -1"),
    (
        "{\"global\": {\"mem_buffer_size\": 0}, \"tasks\": {}}",
        "mem_buffer_size: expected 1 or more, found 0",
    ),
    (
        "{\"global\": {\n\"io_device\": \"/dev/sda\"}, \"tasks\": {}}",
        "f.json:2: io_device /dev/sda is not modelled; only /dev/null is",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"sem_wait\": \"s\"}}}",
        "\"sem_wait\" of rt-app is not modelled",
    ),
    (
        "{\"tasks\": {\"a\": {\"util_min\": 512, \"phases\": {\"p\": {\"loop\": 1, \"run\": 1}}}}}",
        "\"util_\" of rt-app is not modelled",
    ),
    (
        "{\"tasks\": {\"a\": {\"lop\": 1, \"run\": 1}}}",
        "\"lop\" is not known here; expected one of: instance, loop",
    ),
    ("{\"tasks\": {\"a\": {\"cpus\": [], \"run\": 1}}}", "cpus: expected at least one CPU"),
    ("{\"tasks\": {\"a\": {\"cpus\": [-1], \"run\": 1}}}", "cpus: expected CPU numbers, found -1"),
    (
        "{\"tasks\": {\"a\": {\"nodes_membind\": [], \"run\": 1}}}",
        "nodes_membind: expected at least one node",
    ),
    (
        "{\"tasks\": {\"a\": {\"priority\": 20, \"run\": 1}}}",
        "priority: expected nice −20 to 19, found 20",
    ),
    (
        "{\"tasks\": {\"a\": {\"policy\": \"SCHED_DEADLINE\", \"run\": 1}}}",
        "policy SCHED_DEADLINE is not modelled",
    ),
    (
        "{\"tasks\": {\"a\": {\"policy\": \"SCHED_RR\", \"priority\": 0, \"run\": 1}}}",
        "priority: expected 1 to 99 of a real-time task, found 0",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"unlock\": \"m\"}}}",
        "unlock: its mutex is not held here",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"lock\": \"m\", \"lock1\": \"m\"}}}",
        "lock1: \"m\" is already held",
    ),
    ("{\"tasks\": {\"a\": {\"loop\": 1, \"fork\": \"b\"}}}", "fork: no task b; there are a"),
    ("{\"tasks\": {\"a\": {\"loop\": 1, \"fork\": \"a\"}}}", "fork: a would fork itself for ever"),
    (
        "{\"tasks\": {\"a\": {\"loop\": 2, \"fork\": \"b\"}, \"b\": {\"loop\": 1, \"run\": 1}}}",
        "a fork inside a loop is not modelled",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"fork\": \"b\"}, \"b\": {\"loop\": 2, \"barrier\": \"x\"}}}",
        "fork: b meets others at x, whose parties are counted before any fork",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"read\": {\"ref\": \"c\", \"bytes\": 1}}}}",
        "no channel c before here; there are none",
    ),
    (
        "{\"tasks\": {\"a\": {\"instance\": 2, \"loop\": 1, \"timer\": {\"ref\": \"t\", \"period\": 1}}}}",
        "several threads use the timer t",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"timer\": {\"ref\": \"unique\"}}}}",
        "timer: expected a \"period\" in µs",
    ),
    (
        "{\"global\": {\"duration\": 0}, \"tasks\": {\"a\": {\"run\": 1}}}",
        "duration: expected seconds, more than 0, or -1",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"phases\": {\"p\": {\"priority\": 1, \"run\": 1}}}}}",
        "priority of a phase is not modelled; set it for the whole task",
    ),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"phases\": {\"p\": {\"loop\": 0, \"run\": 1}}}}}",
        "loop: 0 is endless in rt-app for a phase",
    ),
    ("{\"tasks\": {\"a\": {\"loop\": 0, \"run\": 1}}}", "loop: 0 is endless in rt-app for a phase"),
    (
        "{\"tasks\": {\"a\": {\"loop\": 1, \"phases\": {\"p\": {\"cpus\": [], \"run\": 1}}}}}",
        "cpus: expected at least one CPU",
    ),
];

#[test]
fn wrong_files_are_refused_with_file_line_and_what_was_expected() {
    for (text, says) in WRONG {
        let error = refused(text);
        assert!(error.starts_with("f.json:") && error.contains(says), "{text}\n gave: {error}");
        assert!(!error.contains('\n'), "more than one line: {error}");
    }
}

#[test]
fn forks_of_forks_are_counted_before_they_fill_the_memory() {
    // ten forks each, seven levels deep: eleven million tasks
    let level = |n: usize| {
        let forks: Vec<String> = (0..10).map(|k| format!("\"fork{k}\": \"t{}\"", n + 1)).collect();
        let instance = usize::from(n == 0);
        format!("\"t{n}\": {{\"instance\": {instance}, \"loop\": 1, {}}}", forks.join(", "))
    };
    let levels: Vec<String> = (0..7).map(level).collect();
    let last = "\"t7\": {\"instance\": 0, \"loop\": 1, \"run\": 1}";
    let text = format!("{{\"tasks\": {{{}, {last}}}}}", levels.join(", "));
    let error = refused(&text);
    assert!(error.contains("more than 1000000 tasks"), "{error}");
}
