// SPDX-License-Identifier: GPL-2.0-only
//! The workload that a recording holds.

use record::{Carrier, Ending, Event, Fit, Header, Kind, Left, Replay, Sample, Source, TaskInfo};
use workload::{More, Object, Step, Task, Workload};

const RECORDER: u32 = 1;

fn info(tid: u32, pid: u32, name: &str) -> TaskInfo {
    TaskInfo { name: name.into(), ..TaskInfo::new(tid, pid) }
}

/// The recorder starts 10 on CPU 0; every other task descends from it.
fn story(events: &[(u64, u32, Kind)]) -> (Replay, Workload) {
    let calls = events.iter().any(|(_, _, kind)| matches!(kind, Kind::Read { .. }));
    let recorder = Some(RECORDER);
    let header = Header { cpus: 2, calls, children: true, recorder, ..Header::default() };
    let mut replay = Replay::new(&header, 0.0);
    let begin = [
        (0, 0, Kind::Task(info(RECORDER, RECORDER, "paceline"))),
        (0, 0, Kind::Switch { prev: 0, next: RECORDER, left: Left::Blocked }),
        (100, 0, Kind::Fork { parent: RECORDER, child: 10 }),
        (100, 0, Kind::Task(info(10, 10, "job"))),
        (100, 0, Kind::Start { tid: 10, target: 0 }),
        (200, 0, Kind::Switch { prev: RECORDER, next: 10, left: Left::Blocked }),
    ];
    for (t_ns, cpu, kind) in begin.iter().chain(events).cloned() {
        replay.event(&Event { t_ns, cpu, kind });
    }
    replay.finish(Some(&Ending { end_ns: 1_000_000, ..Ending::default() }));
    let workload = replay.workload("story", 2, 0.0, &Fit::none(&replay));
    (replay, workload)
}

fn switch(prev: u32, next: u32, left: Left) -> Kind {
    Kind::Switch { prev, next, left }
}

fn wake(tid: u32, by: Carrier) -> Kind {
    Kind::Wake { tid, by, object: 7 }
}

/// 10 makes 11 on CPU 1, which waits until 10 wakes it.
fn pair(by: Carrier) -> Vec<(u64, u32, Kind)> {
    vec![
        (1_000, 0, Kind::Fork { parent: 10, child: 11 }),
        (1_000, 0, Kind::Task(info(11, 10, "thread"))),
        (1_000, 0, Kind::Start { tid: 11, target: 1 }),
        (2_000, 1, switch(0, 11, Left::Blocked)),
        (5_000, 1, switch(11, 0, Left::Blocked)),
        (6_000, 0, wake(11, by)),
        (7_000, 1, switch(0, 11, Left::Blocked)),
        (9_000, 1, switch(11, 0, Left::Dead)),
        (10_000, 0, switch(10, 0, Left::Dead)),
    ]
}

fn steps(task: &Task) -> Vec<Step> {
    task.script.iter().flat_map(|script| script.steps()).collect()
}

fn run(work_ns: u64) -> Step {
    Step::Run { work_ns }
}

#[test]
fn what_one_waits_for_another_gives() {
    let (replay, workload) = story(&pair(Carrier::Futex));
    let [first, second] = &workload.tasks[..] else { panic!("{workload:?}") };
    let give = Step::Give { tokens: 0, more: More::No, sync: false };
    assert_eq!(steps(first), [run(800), Step::Fork(1), run(5_000), give, run(4_000)]);
    assert_eq!(steps(second), [run(3_000), Step::Take(0), run(2_000)]);
    assert_eq!((first.process, first.forked, second.forked), (second.process, false, true));
    assert_eq!((replay.elapsed_ns(), replay.len()), (9_900, 2));
    assert_eq!(replay.recorded()[1].cpu_ns, 5_000);
}

/// 10 makes 11. Only the times that they ran and waited between samples are known.
#[test]
fn a_coarse_recording_has_work_and_sleep() {
    let recorder = Some(RECORDER);
    let source = Source::Procfs;
    let header = Header { cpus: 2, source, children: true, recorder, ..Header::default() };
    let mut replay = Replay::new(&header, 0.0);
    let sample =
        |tid, ran_ns, waited_ns, slices| Kind::Sample(Sample { tid, ran_ns, waited_ns, slices });
    let began = |parent, child| {
        [
            Kind::Task(info(child, child, "job")),
            Kind::Fork { parent, child },
            Kind::Start { tid: child, target: 0 },
        ]
    };
    let mut events = vec![(0, Kind::Task(info(RECORDER, RECORDER, "paceline")))];
    events.extend(began(RECORDER, 10).map(|kind| (0, kind)));
    // It had a CPU twice, and slept for the remaining time in between.
    events.push((10_000, sample(10, 4_000, 2_000, 2)));
    events.extend(began(10, 11).map(|kind| (10_000, kind)));
    // It continued to run, and the kernel counted that late.
    events.push((20_000, sample(10, 6_000, 0, 0)));
    events.push((20_000, sample(11, 10_000, 0, 1)));
    events.push((30_000, sample(10, 14_000, 0, 0)));
    events.push((40_000, Kind::Exit { tid: 11 }));
    events.push((50_000, sample(10, 1_000, 0, 1)));
    events.push((50_000, Kind::Exit { tid: 10 }));
    for (t_ns, kind) in events {
        replay.event(&Event { t_ns, cpu: 0, kind });
    }
    replay.finish(None);
    let workload = replay.workload("coarse", 2, 0.0, &Fit::none(&replay));
    let sleep = |ns| Step::Sleep { ns };
    let turn = [run(2_000), sleep(2_000)];
    let late = [Step::Fork(1), run(21_000), sleep(19_000)];
    assert_eq!(steps(&workload.tasks[0]), [&turn[..], &turn, &late].concat());
    assert_eq!(steps(&workload.tasks[1]), [run(10_000), sleep(20_000)]);
    let recorded = replay.recorded();
    assert_eq!((recorded[0].cpu_ns, recorded[0].switches, recorded[1].cpu_ns), (25_000, 3, 10_000));
    assert!(replay.coarse());
}

#[test]
fn what_a_timer_ends_takes_as_long_as_it_took() {
    let (_, workload) = story(&pair(Carrier::Timer));
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), Step::Sleep { ns: 1_000 }, run(2_000)]);
    assert!(!steps(&workload.tasks[0]).iter().any(|step| matches!(step, Step::Give { .. })));
}

/// 11 asks in call 3, gives up, works for 1 µs, asks in the same call or another, and gets what it asks for.
fn asking(calls: [u32; 2]) -> (Replay, Workload) {
    let mut events = pair(Carrier::Futex);
    let timed = |call| Kind::Timed { tid: 11, call };
    let again = [
        (5_500, 0, timed(calls[0])),
        (5_500, 0, wake(11, Carrier::Timer)),
        (5_600, 1, switch(0, 11, Left::Blocked)),
        (5_900, 1, switch(11, 0, Left::Preempted)),
        (6_000, 1, switch(0, 11, Left::Blocked)),
        (6_700, 1, switch(11, 0, Left::Blocked)),
        (6_900, 0, timed(calls[1])),
        (6_900, 0, wake(11, Carrier::Futex)),
    ];
    events.splice(5..6, again);
    story(&events)
}

#[test]
fn a_task_that_gives_up_and_asks_again_waits_for_what_it_gets() {
    let (replay, workload) = asking([3, 3]);
    let ask = Step::TakeWithin { tokens: 0, ns: 500, work_ns: 1_000 };
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), ask, run(2_000)]);
    assert_eq!((replay.recorded()[1].cpu_ns, replay.recorded()[1].work_ns), (6_000, 6_000.0));
}

#[test]
fn a_task_that_gives_up_and_asks_for_something_else_sleeps_as_long() {
    let (_, workload) = asking([3, 4]);
    let sleep = Step::Sleep { ns: 500 };
    assert_eq!(
        steps(&workload.tasks[1]),
        [run(3_000), sleep, run(1_000), Step::Take(0), run(2_000)]
    );
}

#[test]
fn a_task_that_was_seen_to_give_up_may_give_up_in_other_waits() {
    let mut events = pair(Carrier::Futex);
    let timed = |t_ns, by| [(t_ns, 0, Kind::Timed { tid: 11, call: 3 }), (t_ns, 0, wake(11, by))];
    events.truncate(5);
    for (t_ns, by) in [(6_000, Carrier::Futex), (8_000, Carrier::Timer), (8_700, Carrier::Futex)] {
        events.extend(timed(t_ns, by));
        events.push((t_ns + 100, 1, switch(0, 11, Left::Blocked)));
        events.push((t_ns + 500, 1, switch(11, 0, Left::Blocked)));
    }
    let (_, workload) = story(&events);
    let ask = Step::TakeWithin { tokens: 0, ns: 1_500, work_ns: 400 };
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), ask.clone(), run(400), ask, run(400)]);
}

#[test]
fn a_wakeup_may_overtake_the_way_to_sleep() {
    let mut events = pair(Carrier::Task);
    events.swap(4, 5);
    events[4].0 = 4_900;
    let (_, Workload { tasks, .. }) = story(&events);
    assert!(steps(&tasks[1]).contains(&Step::Take(0)), "{:?}", steps(&tasks[1]));
}

#[test]
fn a_woken_task_that_never_runs_leaves_no_task_waiting() {
    let mut events = pair(Carrier::Task);
    events.truncate(6);
    let (_, Workload { tasks, .. }) = story(&events);
    let count =
        |task: &Task, of: fn(&Step) -> bool| steps(task).iter().filter(|step| of(step)).count();
    let (given, taken) = (
        count(&tasks[0], |step| matches!(step, Step::Give { .. })),
        count(&tasks[1], |step| matches!(step, Step::Take(_))),
    );
    assert_eq!((given, taken), (1, 1));
    events.truncate(5);
    let (_, Workload { tasks, .. }) = story(&events);
    assert_eq!(steps(&tasks[1]), [run(3_000)], "it waits still, and it is not known for what");
}

#[test]
fn a_wait_within_a_read_is_the_channels_where_calls_are_known() {
    let mut events = pair(Carrier::Pipe);
    let bytes = 100;
    let channel = Carrier::Pipe;
    events.insert(6, (6_500, 0, Kind::Write { object: 7, bytes, channel }));
    events.insert(8, (7_200, 1, Kind::Read { object: 7, bytes: bytes + 20, channel }));
    let (_, workload) = story(&events);
    assert_eq!(workload.objects, [Object::Pipe { capacity: 65_536 }]);
    let read = Step::Read { channel: 0, bytes };
    assert_eq!(
        steps(&workload.tasks[1]),
        [run(3_200), read, run(1_800)],
        "20 bytes are from no task here"
    );
    let write = Step::Write { channel: 0, bytes };
    assert_eq!(steps(&workload.tasks[0]), [run(800), Step::Fork(1), run(5_500), write, run(3_500)]);
}

/// 11 fills a pipe, waits for 10 to make room in it, and writes again, `times` times; the rest is read at the end.
fn full_pipe(messages: u64, bytes: u32, times: u64) -> Object {
    let (object, channel) = (7, Carrier::Pipe);
    let (write, read) =
        (Kind::Write { object, bytes, channel }, Kind::Read { object, bytes, channel });
    let mut events = pair(Carrier::Pipe);
    let rest = events.split_off(4);
    events.extend((0..messages).map(|_| (2_500, 1, write.clone())));
    for t_ns in (3_000..).step_by(100).take(times as usize) {
        events.extend([
            (t_ns, 1, switch(11, 0, Left::Blocked)),
            (t_ns + 10, 0, wake(11, Carrier::Pipe)),
            (t_ns + 20, 0, read.clone()),
            (t_ns + 30, 1, switch(0, 11, Left::Blocked)),
            (t_ns + 40, 1, write.clone()),
        ]);
    }
    events.extend((0..messages).map(|_| (8_000, 0, read.clone())));
    events.extend(rest.into_iter().skip(3));
    let (_, workload) = story(&events);
    workload.objects[0].clone()
}

#[test]
fn a_pipe_has_the_room_that_it_was_full_with() {
    assert_eq!(full_pipe(1, 1, 20), Object::Packets { messages: 1 });
    assert_eq!(full_pipe(16, 100, 20), Object::Packets { messages: 16 });
    assert_eq!(full_pipe(40, 100, 20), Object::Pipe { capacity: 4096 });
    // Some writers' calls have not returned yet.
    assert_eq!(full_pipe(625, 100, 20), Object::Pipe { capacity: 65_536 });
    assert_eq!(full_pipe(1, 4096, 20), Object::Pipe { capacity: 4096 });
    // They may have waited for a task inside the pipe.
    assert_eq!(full_pipe(1, 1, 3), Object::Pipe { capacity: 65_536 });
}

/// With a token as well, a writer that waits for room, and its reader that waits for the writer, would wait for ever.
#[test]
fn a_task_that_reads_a_channel_waits_for_its_data_and_for_no_token() {
    let mut events = pair(Carrier::Pipe);
    let (bytes, channel) = (100, Carrier::Pipe);
    events.insert(6, (6_500, 0, Kind::Write { object: 7, bytes, channel }));
    // it had been at the channel before it waited
    events.insert(4, (4_500, 1, Kind::Read { object: 7, bytes, channel }));
    let (_, workload) = story(&events);
    assert!(!workload.objects.contains(&Object::Tokens), "{:?}", workload.objects);
}

/// 10 connects to 11, which waits for that in a call with a timeout, and sends a request; 11 answers.
fn connection() -> Vec<(u64, u32, Kind)> {
    let (sends, receives, port, channel) = (7, 8, 80, Carrier::Tcp);
    let mut events = pair(Carrier::Tcp);
    events.insert(5, (6_000, 0, Kind::Timed { tid: 11, call: 5 }));
    events.insert(6, (6_000, 0, Kind::Connect { sends, receives, port }));
    events.insert(8, (6_500, 0, Kind::Write { object: sends, bytes: 10, channel }));
    let server = [
        Kind::Accept { sends, receives, port },
        Kind::Read { object: sends, bytes: 10, channel },
        Kind::Write { object: receives, bytes: 20, channel },
    ];
    let server = (7_200..).step_by(200).zip(server).map(|(t_ns, kind)| (t_ns, 1, kind));
    events.splice(10..10, server);
    events.insert(14, (9_500, 0, Kind::Read { object: receives, bytes: 20, channel }));
    events
}

#[test]
fn a_server_accepts_whichever_connection_comes() {
    let (_, workload) = story(&connection());
    let [client, server] = &workload.tasks[..] else { panic!("{workload:?}") };
    let pipe = Object::Pipe { capacity: 212_992 };
    let ends = [Object::Accepted, Object::Accepted];
    assert_eq!(workload.objects, [&[Object::Listener, pipe.clone(), pipe][..], &ends].concat());
    let (read, write) = (
        |channel, bytes| Step::Read { channel, bytes },
        |channel, bytes| Step::Write { channel, bytes },
    );
    let connect = Step::Connect { listener: 0, connection: 1 };
    let asks = [run(5_000), connect, run(500), write(1, 10), run(3_000), read(2, 20), run(500)];
    assert_eq!(steps(client)[2..], asks, "{:?}", steps(client));
    let accept = Step::Accept { listener: 0, accepted: 3 };
    assert_eq!(
        steps(server),
        [run(3_200), accept, run(200), read(3, 10), run(200), write(4, 20), run(1_400)]
    );
}

#[test]
fn a_connection_with_an_unseen_end_is_left_out() {
    for begun in [true, false] {
        let mut events = connection();
        events.retain(|(_, _, kind)| match kind {
            Kind::Connect { .. } => begun,
            Kind::Accept { .. } => !begun,
            _ => true,
        });
        let (_, workload) = story(&events);
        assert!(!workload.objects.contains(&Object::Listener), "{:?}", workload.objects);
        let server = steps(&workload.tasks[1]);
        let waits = server.iter().any(|step| matches!(step, Step::Read { .. }));
        assert!(waits, "what it carries is known all the same");
        let taken = server.iter().any(|step| matches!(step, Step::Take(_)));
        assert_eq!(taken, begun, "a task that waits for a connection waits: {server:?}");
    }
}

/// Consecutive connections, each with its port and the bytes sent in turn, the client's first. `waits`: the client
/// waits for the end. `again`: all of them from one port.
fn connections(of: &[(u8, &[u32])], waits: bool, again: bool) -> Workload {
    let channel = Carrier::Tcp;
    let mut events = pair(Carrier::Tcp);
    events.truncate(5);
    let mut t_ns = 6_000;
    let mut next = |cpu, kind| {
        t_ns += 100;
        (t_ns, cpu, kind)
    };
    for (at, (port, turns)) in of.iter().enumerate() {
        let name = if again { 0 } else { at as u32 };
        let (sends, receives, port) = (10 + name, 20 + name, *port);
        events.push(next(0, Kind::Connect { sends, receives, port }));
        events.push(next(0, Kind::Wake { tid: 11, by: channel, object: sends }));
        events.push(next(1, switch(0, 11, Left::Blocked)));
        events.push(next(1, Kind::Accept { sends, receives, port }));
        for (turn, bytes) in turns.iter().enumerate() {
            let (object, from) = if turn % 2 == 0 { (sends, 0) } else { (receives, 1) };
            events.push(next(from, Kind::Write { object, bytes: *bytes, channel }));
            events.push(next(1 - from, Kind::Read { object, bytes: *bytes, channel }));
        }
        if waits {
            events.push(next(0, switch(10, 0, Left::Blocked)));
            events.push(next(1, Kind::Wake { tid: 10, by: channel, object: 0 }));
            events.push(next(0, switch(0, 10, Left::Blocked)));
        }
        events.push(next(1, switch(11, 0, Left::Blocked)));
    }
    story(&events).1
}

fn listeners(of: &[(u8, &[u32])], waits: bool) -> usize {
    let workload = connections(of, waits, false);
    workload.objects.iter().filter(|object| **object == Object::Listener).count()
}

#[test]
fn connections_that_carry_the_same_are_alike() {
    assert_eq!(listeners(&[(80, &[10, 20]), (80, &[10, 20])], false), 1);
    assert_eq!(listeners(&[(80, &[10, 20]), (81, &[10, 20])], false), 2, "another port");
    let turns: [&[u32]; 2] = [&[30, 60], &[10, 20, 20, 40]];
    assert_eq!(listeners(&turns.map(|turns| (80, turns)), false), 2, "as much, by other turns");
    assert_eq!(listeners(&[(80, &[]), (80, &[])], false), 2, "it is not known what it carried");
    assert_eq!(listeners(&[(80, &[10, 20]), (80, &[10, 20])], true), 2, "its end is waited for");
}

#[test]
fn a_pair_of_ports_that_comes_again_is_another_connection() {
    let workload = connections(&[(80, &[10, 20]), (80, &[10, 20])], false, true);
    let server = steps(&workload.tasks[1]);
    let accepted = server.iter().filter(|step| matches!(step, Step::Accept { .. }));
    let waits = server.iter().filter(|step| matches!(step, Step::Take(_)));
    assert_eq!((accepted.count(), waits.count()), (2, 0), "{server:?}");
}

/// It gives up once, asks again, and finds the data at its channel.
#[test]
fn a_task_that_waits_at_a_channel_does_not_give_up() {
    let mut events = connection();
    let gives_up = [
        (5_200, 0, Kind::Timed { tid: 11, call: 5 }),
        (5_200, 0, wake(11, Carrier::Timer)),
        (5_300, 1, switch(0, 11, Left::Blocked)),
        (5_400, 1, switch(11, 0, Left::Blocked)),
    ];
    events.splice(5..5, gives_up);
    let (_, workload) = story(&events);
    let server = steps(&workload.tasks[1]);
    assert_eq!(server[..2], [run(3_300), Step::Accept { listener: 0, accepted: 3 }]);
}

/// The two threads of a process wait for each other in turn. One works for 6 ms; if `late`, another process has its CPU
/// for nearly all of the first 5. The other thread asks after 5 ms and is woken by word 64. `alone`: it works only to
/// ask.
fn asking_in_turn(alone: bool, late: bool) -> Vec<(u64, u32, Kind)> {
    const MS: u64 = 1_000_000;
    let mut events = pair(Carrier::Futex);
    events.truncate(4);
    for round in 0..30_u64 {
        let from_ns = MS + round * 6 * MS;
        let (has, waits) = if round % 2 == 0 { (10, 11) } else { (11, 10) };
        let [with, cpu] = [has, waits].map(|tid| tid - 10);
        let woken = |after_ns: u64, cpu, by, object| {
            let kinds =
                [Kind::Timed { tid: waits, call: 5 }, Kind::Wake { tid: waits, by, object }];
            kinds.map(|kind| (from_ns + after_ns, cpu, kind))
        };
        events.push((from_ns, cpu, switch(waits, 0, Left::Blocked)));
        if late {
            events.push((from_ns + MS / 10, with, switch(has, 12, Left::Preempted)));
        }
        events.extend(woken(5 * MS, cpu, Carrier::Timer, 0));
        events.push((from_ns + 5 * MS, cpu, switch(0, waits, Left::Blocked)));
        let works_ns = if alone { 10_000 } else { 800_000 };
        if late {
            events.push((from_ns + 5 * MS + 1_000, with, switch(12, has, Left::Preempted)));
        }
        events.push((from_ns + 5 * MS + works_ns, cpu, switch(waits, 0, Left::Blocked)));
        events.extend(woken(6 * MS - 1_000, with, Carrier::Futex, 64));
        events.push((from_ns + 6 * MS - 500, cpu, switch(0, waits, Left::Blocked)));
    }
    events
}

#[test]
fn threads_that_ask_each_other_for_what_one_works_with_share_an_interpreters_lock() {
    for late in [false, true] {
        let (_, workload) = story(&asking_in_turn(true, late));
        let gil = Object::Gil { interval_ns: 5_000_000, ask_ns: 10_000 };
        assert!(workload.objects.contains(&gil), "late: {late}, {:?}", workload.objects);
        for task in workload.tasks.iter().filter(|task| task.process == workload.tasks[0].process) {
            assert!(task.gil.is_some_and(|at| workload.objects[at] == gil));
            let waits = |step: &Step| matches!(step, Step::TakeWithin { .. } | Step::Sleep { .. });
            assert!(!steps(task).iter().any(waits), "{:?}", steps(task));
        }
    }
}

/// A thread that waits for work and gives up every 5 ms does so even if no other thread works.
#[test]
fn threads_that_give_up_while_no_thread_works_share_no_interpreter() {
    const MS: u64 = 1_000_000;
    let mut events = asking_in_turn(true, false);
    let from_ns = events.iter().map(|event| event.0).max().unwrap_or(0) + MS;
    events.push((from_ns, 0, switch(10, 0, Left::Blocked)));
    for round in 0..10 {
        let at_ns = from_ns + round * 5 * MS;
        events.push((at_ns + 1_000, 1, switch(11, 0, Left::Blocked)));
        events.push((at_ns + 5 * MS, 1, Kind::Timed { tid: 11, call: 5 }));
        events.push((at_ns + 5 * MS, 1, wake(11, Carrier::Timer)));
        events.push((at_ns + 5 * MS, 1, switch(0, 11, Left::Blocked)));
    }
    let (_, workload) = story(&events);
    assert!(workload.tasks.iter().all(|task| task.gil.is_none()), "{:?}", workload.objects);
}

#[test]
fn threads_that_work_side_by_side_share_no_interpreter() {
    let (_, workload) = story(&asking_in_turn(false, false));
    assert!(workload.tasks.iter().all(|task| task.gil.is_none()));
    assert!(!workload.objects.iter().any(|object| matches!(object, Object::Gil { .. })));
}

#[test]
fn cpus_that_run_in_turn_work_one_at_a_time() {
    let header = Header { cpus: 2, ..Header::default() };
    let mut replay = Replay::new(&header, 10_000.0);
    let event = |t_ns, cpu, kind| Event { t_ns, cpu, kind };
    for tid in [5, 6] {
        replay.event(&event(0, 0, Kind::Task(info(tid, tid, "job"))));
        replay.event(&event(0, tid - 5, switch(0, tid, Left::Blocked)));
    }
    replay.event(&event(25_000, 0, switch(5, 0, Left::Blocked)));
    replay.event(&event(31_000, 1, switch(6, 0, Left::Blocked)));
    replay.finish(None);
    let seen = replay.recorded();
    assert_eq!((seen[0].cpu_ns, seen[0].work_ns), (25_000, 15_000.0));
    assert_eq!((seen[1].cpu_ns, seen[1].work_ns), (31_000, 16_000.0));
}

#[test]
fn a_number_that_comes_again_is_another_thread() {
    let mut events = pair(Carrier::Futex);
    events.truncate(8);
    events.extend([
        (20_000, 0, Kind::Fork { parent: 10, child: 11 }),
        (20_000, 0, Kind::Task(info(11, 11, "again"))),
        (20_000, 0, Kind::Start { tid: 11, target: 1 }),
        (21_000, 1, switch(0, 11, Left::Blocked)),
        (23_500, 1, switch(11, 0, Left::Dead)),
        (30_000, 0, switch(10, 0, Left::Dead)),
    ]);
    let (replay, workload) = story(&events);
    let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["job", "thread", "again"]);
    assert_eq!(replay.recorded()[1].cpu_ns, 5_000);
    assert_eq!(steps(&workload.tasks[2]), [run(2_500)]);
    assert_ne!(workload.tasks[2].process, workload.tasks[1].process);
    assert!(steps(&workload.tasks[0]).contains(&Step::Fork(2)));
}

#[test]
fn what_was_run_before_the_command_is_none_of_it() {
    let (replay, workload) = story(&[
        (1_000, 0, Kind::Exit { tid: 10 }),
        (1_100, 0, switch(10, RECORDER, Left::Dead)),
        (5_000, 0, Kind::Fork { parent: RECORDER, child: 20 }),
        (5_000, 0, Kind::Task(info(20, 20, "command"))),
        (5_000, 0, Kind::Start { tid: 20, target: 0 }),
        (5_500, 0, switch(RECORDER, 20, Left::Blocked)),
        (9_000, 0, switch(20, 0, Left::Dead)),
    ]);
    let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((names, workload.tasks[0].delay_ns), (vec!["command"], 0));
    assert_eq!((replay.elapsed_ns(), replay.others_ns()), (4_000, 500));
}

#[test]
fn the_kernels_own_threads_take_cpus_as_they_did() {
    let kernel = |tid, name| Kind::Task(TaskInfo { kernel: true, ..info(tid, tid, name) });
    let mut events = vec![
        (300, 0, kernel(3, "kworker/0:1")),
        (300, 0, kernel(4, "migration/0")),
        (400, 0, wake(4, Carrier::Task)),
        (400, 0, wake(3, Carrier::Softirq)),
        (500, 0, switch(10, 3, Left::Preempted)),
        (600, 0, switch(3, 10, Left::Blocked)),
    ];
    events.extend(pair(Carrier::Futex));
    events.insert(12, (6_500, 0, switch(10, 3, Left::Preempted)));
    events.insert(12, (6_400, 0, wake(3, Carrier::Softirq)));
    events.insert(14, (6_800, 0, switch(3, 10, Left::Blocked)));
    let (replay, workload) = story(&events);
    let [first, second, kworker] = &workload.tasks[..] else { panic!("{workload:?}") };
    assert!(kworker.kernel && !first.kernel && !second.kernel);
    assert_eq!(kworker.delay_ns, 300);
    let sleep = Step::Sleep { ns: 5_800 };
    assert_eq!(steps(kworker), [run(100), sleep, run(300)]);
    let give = Step::Give { tokens: 0, more: More::No, sync: false };
    assert_eq!(steps(first), [run(700), Step::Fork(1), run(5_000), give, run(3_700)]);
    let names: Vec<String> = replay.recorded().into_iter().map(|task| task.name).collect();
    assert_eq!((replay.len(), names), (2, vec!["job".to_string(), "thread".to_string()]));
    assert_eq!(replay.others_ns(), 500, "they are no part of the workload, as the recorder is not");
}

#[test]
fn a_task_preempted_by_the_recorder_has_not_switched() {
    let (replay, _) = story(&[
        (1_000, 0, switch(10, RECORDER, Left::Preempted)),
        (1_500, 0, switch(RECORDER, 10, Left::Blocked)),
        (2_000, 0, switch(10, 0, Left::Preempted)),
        (2_500, 0, switch(0, 10, Left::Blocked)),
        (3_000, 0, switch(10, 0, Left::Dead)),
    ]);
    assert_eq!(replay.recorded()[0].switches, 2);
}

#[test]
fn a_task_from_before_the_recording_starts_at_its_beginning() {
    let mut replay = Replay::new(&Header { cpus: 2, ..Header::default() }, 0.0);
    let events = [
        (0, 0, Kind::Task(info(5, 5, "runs"))),
        (0, 0, Kind::Task(info(6, 6, "waits"))),
        (700, 0, switch(5, 0, Left::Blocked)),
        (2_000, 1, wake(6, Carrier::Timer)),
        (2_100, 1, switch(0, 6, Left::Blocked)),
        (2_500, 1, switch(6, 0, Left::Blocked)),
    ];
    for (t_ns, cpu, kind) in events {
        replay.event(&Event { t_ns, cpu, kind });
    }
    replay.finish(None);
    let workload = replay.workload("all", 2, 0.0, &Fit::none(&replay));
    assert_eq!(steps(&workload.tasks[0]), [run(700)], "it is not known what it waits for then");
    assert_eq!(steps(&workload.tasks[1]), [Step::Sleep { ns: 2_000 }, run(400)]);
}

#[test]
fn a_missing_switch_leaves_no_task_waiting() {
    let mut events = pair(Carrier::Timer);
    events.remove(6);
    events.insert(6, (8_000, 1, switch(11, 0, Left::Blocked)));
    let (_, workload) = story(&events);
    let steps = &steps(&workload.tasks[1]);
    assert!(!steps.iter().any(|step| matches!(step, Step::Take(_))), "{steps:?}");
}

#[test]
fn a_long_recording_is_fitted_by_its_beginning() {
    let length = |turns: u64| {
        let mut replay = Replay::new(&Header { cpus: 1, ..Header::default() }, 0.0);
        let mut happens = |t_ns, kind| replay.event(&Event { t_ns, cpu: 0, kind });
        happens(0, Kind::Task(info(5, 5, "job")));
        for turn in 0..turns {
            happens(10 * turn + 1, wake(5, Carrier::Timer));
            happens(10 * turn + 2, switch(0, 5, Left::Blocked));
            happens(10 * turn + 9, switch(5, 0, Left::Blocked));
        }
        replay.finish(None);
        replay.part_ns()
    };
    assert_eq!(length(1_000), None, "all of it");
    let part_ns = length(1_100_000).expect("it is long");
    assert!((9_900_000..10_000_010).contains(&part_ns), "{part_ns}");
}

#[test]
fn a_task_that_left_unseen_does_not_work_on() {
    let begin = &pair(Carrier::Futex)[..4];
    // Another task leaves its CPU, and the switch to that task is missing.
    let rest = [(8_000, 1, switch(99, 0, Left::Blocked)), (10_000, 0, switch(10, 0, Left::Dead))];
    let (replay, _) = story(&[begin, &rest].concat());
    assert_eq!(replay.recorded()[1].cpu_ns, 0);
    // A new thread has its number already.
    let again = [
        (8_000, 0, Kind::Task(info(11, 10, "thread"))),
        (8_000, 0, Kind::Start { tid: 11, target: 1 }),
        (10_000, 0, switch(10, 0, Left::Dead)),
    ];
    let (replay, _) = story(&[begin, &again].concat());
    assert_eq!(replay.recorded()[1].cpu_ns, 0);
}

/// A thread that is not the first of its process calls exec: it continues, and the first ends.
#[test]
fn a_thread_that_calls_exec_takes_its_process_over() {
    let begin = &pair(Carrier::Futex)[..4];
    let rest = [
        (3_000, 0, switch(10, 0, Left::Dead)),
        (4_000, 1, Kind::Exec { tid: 10, old: 11 }),
        (4_000, 1, Kind::Task(info(10, 10, "make"))),
        (5_000, 1, switch(10, 0, Left::Blocked)),
        (6_000, 1, wake(10, Carrier::Timer)),
        (7_000, 1, switch(0, 10, Left::Blocked)),
        (9_000, 1, switch(10, 0, Left::Dead)),
    ];
    let (replay, workload) = story(&[begin, &rest].concat());
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), Step::Sleep { ns: 1_000 }, run(2_000)]);
    let recorded = &replay.recorded()[1];
    assert_eq!((recorded.tid, recorded.name.as_str(), recorded.cpu_ns), (10, "make", 5_000));
}

/// It asks again and again, until the recording ends. Each time is examined only once, or this would take minutes.
#[test]
fn a_task_that_asks_in_vain_sleeps_in_between() {
    const TIMES: u64 = 300_000;
    let mut replay = Replay::new(&Header { cpus: 1, ..Header::default() }, 0.0);
    let mut happens = |t_ns, kind| replay.event(&Event { t_ns, cpu: 0, kind });
    happens(0, Kind::Task(info(5, 5, "job")));
    happens(1, switch(0, 5, Left::Blocked));
    for turn in 1..=TIMES {
        happens(100 * turn, switch(5, 0, Left::Blocked));
        happens(100 * turn + 50, Kind::Timed { tid: 5, call: 7 });
        happens(100 * turn + 50, wake(5, Carrier::Timer));
        happens(100 * turn + 60, switch(0, 5, Left::Blocked));
    }
    replay.finish(None);
    let workload = replay.workload("vain", 1, 0.0, &Fit::none(&replay));
    let waits = |step: &Step| matches!(step, Step::Sleep { .. });
    assert_eq!(steps(&workload.tasks[0]).into_iter().filter(waits).count() as u64, TIMES);
}

/// The end of a thread is work as well: it may sleep while it exits, and wakes its parent only then.
#[test]
fn a_task_that_sleeps_while_it_exits_still_wakes_its_parent() {
    let (replay, workload) = story(&[
        (1_000, 0, Kind::Fork { parent: 10, child: 11 }),
        (1_000, 0, Kind::Task(info(11, 11, "child"))),
        (1_000, 0, Kind::Start { tid: 11, target: 1 }),
        (2_000, 0, switch(10, 0, Left::Blocked)),
        (2_000, 1, switch(0, 11, Left::Blocked)),
        (5_000, 1, Kind::Exit { tid: 11 }),
        (6_000, 1, switch(11, 0, Left::Blocked)),
        (8_000, 1, wake(11, Carrier::Timer)),
        (8_000, 1, switch(0, 11, Left::Blocked)),
        (9_000, 1, wake(10, Carrier::Task)),
        (10_000, 1, switch(11, 0, Left::Dead)),
        (10_000, 0, switch(0, 10, Left::Blocked)),
        (11_000, 0, switch(10, 0, Left::Dead)),
    ]);
    let [parent, child] = &workload.tasks[..] else { panic!("{workload:?}") };
    assert!(steps(parent).contains(&Step::Take(0)), "{:?}", steps(parent));
    let give = Step::Give { tokens: 0, more: More::No, sync: true };
    assert!(steps(child).ends_with(&[run(1_000), give, run(1_000)]), "{:?}", steps(child));
    assert_eq!(replay.recorded()[1].cpu_ns, 6_000);
}

/// Which task held a lock of the kernel's when another needed it was chance. In a replay the wait is as long, and no
/// task ends it.
#[test]
fn a_lock_of_the_kernels_is_waited_for_and_not_given() {
    let mut events = pair(Carrier::Task);
    events[4].2 = switch(11, 0, Left::AtLock);
    let (replay, workload) = story(&events);
    let contend = Step::Contend { ns: 1_000 };
    assert_eq!(steps(&workload.tasks[0]), [run(800), Step::Fork(1), run(9_000)]);
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), contend, run(2_000)]);
    assert_eq!(replay.recorded()[1].switches, 2);

    events.insert(5, (5_200, 0, switch(10, 12, Left::Preempted)));
    events.insert(6, (5_700, 0, switch(12, 10, Left::Preempted)));
    let give = Step::Give { tokens: 0, more: More::No, sync: false };
    let (_, workload) = story(&events);
    assert!(steps(&workload.tasks[0]).contains(&give), "the task that had it had no CPU");
    assert_eq!(steps(&workload.tasks[1]), [run(3_000), Step::Take(0), run(2_000)]);
}

/// 10 wakes 11 a thousand times.
fn talk(by: Carrier) -> Vec<(u64, u32, Kind)> {
    let mut events = pair(by);
    let end = events.split_off(4);
    for round in 0..1_000 {
        let from_ns = 10_000 * (round + 1);
        events.push((from_ns, 1, switch(11, 0, Left::Blocked)));
        events.push((from_ns + 1_000, 0, wake(11, by)));
        events.push((from_ns + 2_000, 1, switch(0, 11, Left::Blocked)));
    }
    events.extend(end.into_iter().map(|(t_ns, cpu, kind)| (t_ns + 20_000_000, cpu, kind)));
    events
}

#[test]
fn tasks_that_talk_through_pipes_do_so_unseen() {
    assert!(story(&talk(Carrier::Pipe)).0.talks_unseen());
    assert!(story(&talk(Carrier::UnixSocket)).0.talks_unseen());
    assert!(!story(&talk(Carrier::Futex)).0.talks_unseen());
    assert!(!story(&pair(Carrier::Pipe)).0.talks_unseen(), "once");
}

/// `more` and `sync` of each `Give` of 10 when it wakes two threads in a row by the same object. `sync`: the wakeup
/// says that 10 is about to block.
fn given(by: Carrier) -> Vec<(More, bool)> {
    let thread = |tid, t_ns| {
        [
            (t_ns, 0, Kind::Fork { parent: 10, child: tid }),
            (t_ns, 0, Kind::Task(info(tid, 10, "thread"))),
            (t_ns, 0, Kind::Start { tid, target: 1 }),
            (t_ns + 500, 1, switch(0, tid, Left::Blocked)),
            (t_ns + 1_000, 1, switch(tid, 0, Left::Blocked)),
        ]
    };
    let mut events = [thread(11, 1_000), thread(12, 3_000)].concat();
    events.extend([
        (6_000, 0, wake(11, by)),
        (7_000, 0, wake(12, by)),
        (8_000, 1, switch(0, 11, Left::Blocked)),
        (9_000, 1, switch(11, 12, Left::Dead)),
        (10_000, 1, switch(12, 0, Left::Dead)),
        (11_000, 0, switch(10, 0, Left::Dead)),
    ]);
    let (_, workload) = story(&events);
    let more = |step| match step {
        Step::Give { more, sync, .. } => Some((more, sync)),
        _ => None,
    };
    steps(&workload.tasks[0]).into_iter().filter_map(more).collect()
}

#[test]
fn a_task_that_wakes_many_in_a_queue_keeps_its_lock() {
    assert_eq!(given(Carrier::Pipe), [(More::Locked, true), (More::No, true)]);
    assert_eq!(given(Carrier::Futex), [(More::Free, false), (More::No, false)]);
    assert_eq!(given(Carrier::Task), [(More::Free, false), (More::No, false)]);
}
