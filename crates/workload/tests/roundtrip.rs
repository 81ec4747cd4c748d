// SPDX-License-Identifier: GPL-2.0-only
//! A workload that is written and read back stays the same.

use proptest::prelude::*;
use workload::hackbench::{Channel, Hackbench, Worker};
use workload::{
    Cut, Dialect, Fair, Hw, Object, RealTime, Step, Task, Touched, Vector, Workload, rtapp::parse,
    write,
};

/// One object of each kind, for any step to use. Declared objects come first, in the order in which the reader numbers
/// them.
const PIPE: usize = 0;
const PACKETS: usize = 1;
const SOCKET: usize = 2;
const BARRIER: usize = 3;

fn declared() -> Vec<Object> {
    vec![
        Object::Pipe { capacity: 4096 },
        Object::Packets { messages: 2 },
        Object::Socket { capacity: 5000, overhead: 7 },
        Object::Barrier { parties: 9, spin_ns: 1500 },
    ]
}

/// The text of a workload, read. Names of objects are not kept.
fn read(text: &str) -> Workload {
    Workload { object_names: Vec::new(), ..parse("w.json", text).unwrap() }
}

fn step() -> impl Strategy<Value = Step> {
    let ns = 0..5_000_000_000u64;
    prop_oneof![
        ns.clone().prop_map(|work_ns| Step::Run { work_ns }),
        ns.clone().prop_map(|wall_ns| Step::Runtime { wall_ns }),
        ns.prop_map(|ns| Step::Sleep { ns }),
        Just(Step::Yield),
        (1..90_000u32).prop_map(|bytes| Step::Mem { bytes, buffer: 4096 }),
        (1..90_000u32).prop_map(|bytes| Step::Io { bytes, buffer: 4096 }),
        (0..=4u8).prop_map(|part| Step::Stalled { part: f64::from(part) / 4.0 }),
        Just(Step::Vector(Vector::Avx512)),
        Just(Step::Barrier(BARRIER)),
        (1..10_000u32).prop_map(|bytes| Step::Write { channel: PIPE, bytes }),
        (1..10_000u32).prop_map(|bytes| Step::Write { channel: PACKETS, bytes }),
        (1..10_000u32).prop_map(|bytes| Step::Read { channel: SOCKET, bytes }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..5)
}

/// Phases: a loop, or steps that do not follow other steps.
fn body() -> impl Strategy<Value = Vec<Step>> {
    let looped = (2..50u64, steps())
        .prop_map(|(times, steps)| vec![Step::Repeat { times: Some(times), steps }]);
    let phases = prop::collection::vec(prop_oneof![steps(), looped], 1..4);
    let outer = prop_oneof![Just(1u64), 2..9u64];
    (outer, phases).prop_map(|(times, phases)| {
        let steps: Vec<Step> = phases.into_iter().flatten().collect();
        if times == 1 { steps } else { vec![Step::Repeat { times: Some(times), steps }] }
    })
}

fn task() -> impl Strategy<Value = Task> {
    let cpus = prop::option::of(prop::collection::btree_set(0..64usize, 1..4));
    (body(), -20..20i8, cpus, 0..9_000_000u64, any::<bool>(), 0..3u8).prop_map(
        |(steps, nice, cpus, delay_ns, hw, stalled)| Task {
            stalled: f64::from(stalled) / 4.0,
            pressure: f64::from(2 - stalled) / 4.0,
            vector: [Vector::None, Vector::Avx2, Vector::Avx512][usize::from(stalled)],
            nice,
            nodes: cpus.as_ref().map(|set| {
                set.iter()
                    .map(|cpu| cpu % 4)
                    .collect::<std::collections::BTreeSet<_>>()
                    .into_iter()
                    .collect()
            }),
            cpus: cpus.map(|set| set.into_iter().collect()),
            delay_ns,
            hw: hw.then(|| Hw {
                reach_ns: 20_500,
                own: Touched { pages: 4, bytes: 8000 },
                shared: Touched::dense(70_000),
                shared_name: "room".to_string(),
                kernel_code: Touched { pages: 2, bytes: 9000 },
                ..Hw::default()
            }),
            steps,
            ..Task::default()
        },
    )
}

fn workload() -> impl Strategy<Value = Workload> {
    let duration = prop::option::of(1..3_000_000_000u64);
    (prop::collection::vec(task(), 1..6), duration).prop_map(|(mut tasks, duration_ns)| {
        for (at, task) in tasks.iter_mut().enumerate() {
            task.name = format!("t{at}");
            task.process = at;
            // Nice values of real-time tasks cannot be written.
            match at {
                1 => (task.nice, task.realtime) = (0, RealTime::Rr(1)),
                2 => (task.nice, task.realtime) = (0, RealTime::Fifo(99)),
                3 => task.fair = Fair::Batch,
                4 => task.fair = Fair::Idle,
                _ => {}
            }
        }
        Workload {
            name: "w".to_string(),
            duration_ns,
            tasks,
            objects: declared(),
            object_names: Vec::new(),
            timed_from: None,
            recorded: false,
            takes_more: Cut::default(),
            groups: Vec::new(),
        }
    })
}

proptest! {
    #[test]
    fn a_workload_comes_back_as_it_was(workload in workload()) {
        let text = write(&workload, Dialect::Paceline).unwrap();
        prop_assert_eq!(read(&text), workload);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}\":,a-z0-9/* \n-]{0,80}") {
        let _ = parse("f", &text);
        let _ = parse("f", &format!("{{\"tasks\": {{\"a\": {text}}}}}"));
    }
}

#[test]
fn locks_timers_and_suspensions_come_back() {
    let text = r#"{"tasks": {
        "a": {"loop": 4, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m",
              "timer": {"ref": "uniqueT", "period": 100, "mode": "absolute"}, "suspend": "a"},
        "b": {"loop": 4, "lock": "m", "broad": "c", "signal": "c", "unlock": "m", "resume": "a",
              "timer": {"ref": "t", "period": 70}}
    }}"#;
    let workload = read(text);
    for dialect in [Dialect::RtApp, Dialect::Paceline] {
        let written = write(&workload, dialect).unwrap();
        assert_eq!(read(&written), workload, "{written}");
    }
}

#[test]
fn cpus_of_phases_come_back() {
    let text = r#"{"tasks": {
        "a": {"cpus": [2], "loop": 4, "phases": {
            "x": {"run": 1}, "y": {"cpus": [0], "loop": 3, "run": 2}, "z": {"cpus": [0, 1], "run": 3}}},
        "b": {"loop": 1, "phases": {"x": {"loop": 2, "run": 1}, "y": {"cpus": [1], "run": 2}}}
    }}"#;
    let workload = read(text);
    for dialect in [Dialect::RtApp, Dialect::Paceline] {
        let written = write(&workload, dialect).unwrap();
        assert_eq!(read(&written), workload, "{written}");
    }
    let nowhere =
        Task { cpus: Some(vec![0]), steps: vec![Step::Cpus(None), Step::Yield], ..Task::default() };
    let nowhere = Workload { tasks: vec![nowhere], ..Workload::default() };
    assert!(write(&nowhere, Dialect::RtApp).is_err());
}

#[test]
fn flags_come_back() {
    let text = r#"{"tasks": {
        "a": {"loop": 4, "await": {"ref": "f", "up": false}, "run": 1, "set": {"ref": "f", "up": true}},
        "b": {"loop": 4, "await": {"ref": "f", "up": true}, "run": 1, "set": {"ref": "f", "up": false}}
    }}"#;
    let workload = read(text);
    assert_eq!(workload.objects, [Object::Flag]);
    let written = write(&workload, Dialect::Paceline).unwrap();
    assert_eq!(read(&written), workload, "{written}");
}

#[test]
fn hackbench_comes_back() {
    for channel in [Channel::Pipe, Channel::Socket] {
        for worker in [Worker::Thread, Worker::Process] {
            let hackbench = Hackbench { groups: 2, loops: 3, fds: 4, channel, worker, bytes: 100 };
            let mut workload = hackbench.build();
            workload.name = "h".to_string();
            // The reader takes all channels first and then all barriers.
            let text = write(&workload, Dialect::Paceline).unwrap();
            let read = parse("h.json", &text).unwrap();
            assert_eq!(write(&read, Dialect::Paceline).unwrap().len(), text.len());
            assert_eq!(read.tasks.len(), workload.tasks.len());
            for (a, b) in read.tasks.iter().zip(&workload.tasks) {
                assert_eq!((&a.name, a.forked, a.process), (&b.name, b.forked, b.process));
            }
        }
    }
}

#[test]
fn rtapp_itself_is_given_only_what_it_knows() {
    let refused = |text: &str| {
        write(&parse("w.json", text).unwrap(), Dialect::RtApp).unwrap_err().to_string()
    };
    let channel = r#"{"channels": {"c": {"type": "pipe"}},
        "tasks": {"a": {"loop": 1, "write": {"ref": "c", "bytes": 1}}}}"#;
    assert_eq!(refused(channel), "task a: channels, which rt-app has not");
    let process =
        r#"{"tasks": {"a": {"loop": 1, "run": 1}, "b": {"process": "p", "loop": 1, "run": 1}}}"#;
    assert_eq!(refused(process), "task b: an address space of its own, which rt-app has not");
    let fraction = r#"{"tasks": {"a": {"loop": 1, "run": 1.5}}}"#;
    assert_eq!(refused(fraction), "task a: a time with a fraction of a µs");
    let flag = r#"{"tasks": {"a": {"loop": 1, "set": {"ref": "f", "up": true}}}}"#;
    assert_eq!(refused(flag), "task a: flags, which rt-app has not");
    let spin = r#"{"barriers": {"b": {"parties": 1, "spin": 2}}, "tasks": {"a": {"loop": 1, "barrier": "b"}}}"#;
    assert_eq!(refused(spin), "task a: a barrier that spins, or is named elsewhere than once");
    let born = r#"{"barriers": {"b": {"parties": 1}}, "tasks": {"a": {"loop": 1, "fork": "c"},
        "c": {"instance": 0, "loop": 1, "barrier": "b"}}}"#;
    assert_eq!(refused(born), "task c: a barrier in a forked task, which rt-app does not count");
}
