// SPDX-License-Identifier: GPL-2.0-only
//! Objects and the clock: which task blocks, which task wakes it, and how fast work is done.

use machine::Machine;
use policy::Instance;
use sim::{Scheduler, SimError, run, run_traced};
use trace::{Kind, Outcome};
use workload::{Act, Cut, Met, More, Object, Step, Task, Then, Workload};

use crate::common::{MS, burn, cores, played, scenario, task, workload};

fn fifo() -> Scheduler {
    Scheduler::Policy(Instance::default(&baseline::FIFO))
}

fn on(machine: Machine, tasks: Vec<Task>, objects: Vec<Object>) -> Outcome {
    ran(machine, Workload { objects, ..workload(tasks) })
}

/// The same, as in a recording.
fn replayed(machine: Machine, tasks: Vec<Task>, objects: Vec<Object>) -> Outcome {
    ran(machine, Workload { objects, recorded: true, ..workload(tasks) })
}

fn ran(machine: Machine, load: Workload) -> Outcome {
    run(&scenario(machine, load, fifo())).unwrap_or_else(|error| panic!("{error}"))
}

fn again(times: u64, steps: Vec<Step>) -> Vec<Step> {
    vec![Step::Repeat { times: Some(times), steps }]
}

#[test]
fn a_reader_that_finds_data_does_not_block() {
    let pipe = vec![Object::Pipe { capacity: 65_536 }];
    let write = again(600, vec![Step::Write { channel: 0, bytes: 100 }]);
    let mut read = vec![Step::Sleep { ns: 10 * MS }];
    read.extend(again(600, vec![Step::Read { channel: 0, bytes: 100 }]));
    let outcome = on(cores(2), vec![task("writer", write), task("reader", read)], pipe);
    // 600 messages fit: the writer never waits, the reader only sleeps.
    assert_eq!(outcome.observed.tasks[&1].voluntary, 1, "the writer only ends");
    assert_eq!(outcome.observed.tasks[&2].voluntary, 2, "the reader sleeps, and ends");
}

#[test]
fn a_writer_to_a_full_pipe_blocks_until_a_page_is_free() {
    let pipe = vec![Object::Pipe { capacity: 65_536 }];
    let write = again(1000, vec![Step::Write { channel: 0, bytes: 100 }]);
    let mut read = vec![Step::Sleep { ns: 10 * MS }];
    read.extend(again(1000, vec![Step::Read { channel: 0, bytes: 100 }, burn_us(20)]));
    let outcome = on(cores(2), vec![task("writer", write), task("reader", read)], pipe);
    // 640 fit, then 40 at a time: 360 more are 9 pages.
    let blocked = outcome.observed.tasks[&1].voluntary - 1;
    assert!((9..=10).contains(&blocked), "{blocked}");
}

#[test]
fn a_pipe_that_keeps_messages_apart_is_full_of_few() {
    let pipe = vec![Object::Packets { messages: 2 }];
    let write = again(10, vec![Step::Write { channel: 0, bytes: 1 }]);
    let mut read = vec![Step::Sleep { ns: 10 * MS }];
    read.extend(again(10, vec![Step::Read { channel: 0, bytes: 1 }, burn_us(20)]));
    let mut tasks = vec![task("writer", write), task("reader", read)];
    tasks.iter_mut().zip(0..).for_each(|(task, cpu)| task.cpus = Some(vec![cpu]));
    let outcome = on(cores(2), tasks, pipe);
    // Two fit, then one at a time.
    assert_eq!(outcome.observed.tasks[&1].voluntary - 1, 8);
}

#[test]
fn a_socket_wakes_its_writer_when_three_quarters_are_free() {
    let socket = vec![Object::Socket { capacity: 212_992, overhead: 668 }];
    let write = again(1000, vec![Step::Write { channel: 0, bytes: 100 }]);
    let mut read = vec![Step::Sleep { ns: 10 * MS }];
    read.extend(again(1000, vec![Step::Read { channel: 0, bytes: 100 }, burn_us(20)]));
    let outcome = on(cores(2), vec![task("writer", write), task("reader", read)], socket);
    // 278 fit, and room is made for 208 at a time.
    let blocked = outcome.observed.tasks[&1].voluntary - 1;
    assert_eq!(blocked, 4);
}

fn burn_us(us: u64) -> Step {
    Step::Run { work_ns: us * 1000 }
}

#[test]
fn a_mutex_lets_one_in() {
    let steps = again(10, vec![Step::Lock(0), burn(1), Step::Unlock(0)]);
    let tasks = (0..4).map(|n| task(&format!("t{n}"), steps.clone())).collect();
    let outcome = on(cores(4), tasks, vec![Object::Mutex]);
    assert!(outcome.elapsed_ns >= 40 * MS, "{}", outcome.elapsed_ns);
    assert!(outcome.elapsed_ns < 42 * MS, "{}", outcome.elapsed_ns);
}

/// Two threads that pass a flag to and fro work in turns, and neither leaves its CPU meanwhile.
#[test]
fn waiting_for_a_flag_spins() {
    let turn = |mine| {
        let wait = Step::Await { flag: 0, up: mine };
        again(10, vec![wait, burn(1), Step::Set { flag: 0, up: !mine }])
    };
    let outcome =
        on(cores(2), vec![task("a", turn(false)), task("b", turn(true))], vec![Object::Flag]);
    assert!((20 * MS..21 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
    assert_eq!(outcome.observed.tasks[&1].voluntary, 1, "it only ends");
    assert_eq!(outcome.observed.tasks[&2].voluntary, 1, "it only ends");
    assert!(outcome.observed.tasks[&2].cpu_ns > 19 * MS, "spinning is CPU time");
}

/// On one CPU the spinner uses up its turn, and goes on if the flag was set meanwhile.
#[test]
fn a_spinner_that_does_not_run_sees_the_flag_later() {
    let wait = vec![Step::Await { flag: 0, up: true }, burn(1)];
    let raise = vec![burn(1), Step::Set { flag: 0, up: true }];
    let outcome = on(cores(1), vec![task("a", wait), task("b", raise)], vec![Object::Flag]);
    assert!(outcome.observed.tasks[&1].involuntary >= 1);
    assert!(outcome.elapsed_ns > 2 * MS);
}

#[test]
fn condition_wakes_its_waiters() {
    let wait = vec![Step::Lock(0), Step::Wait { condition: 1, mutex: 0 }, Step::Unlock(0), burn(1)];
    let wake = vec![burn(5), Step::Lock(0), Step::Broadcast(1), Step::Unlock(0)];
    let tasks = vec![task("a", wait.clone()), task("b", wait), task("waker", wake)];
    let outcome = on(cores(3), tasks, vec![Object::Mutex, Object::Condition]);
    assert!((6 * MS..7 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

#[test]
fn stuck_task_is_reported_and_not_waited_for() {
    let stuck = vec![task("lonely", vec![Step::Suspend(0)])];
    let load = Workload { objects: vec![Object::Suspension], ..workload(stuck) };
    let error = run(&scenario(cores(2), load, fifo())).unwrap_err();
    assert!(error.to_string().ends_with(": lonely at suspend suspension0"), "{error}");
}

#[test]
fn a_deadlock_is_told_with_the_names_of_the_file() {
    let text = r#"{"channels": {"news": {"type": "pipe"}}, "tasks": {
        "a": {"loop": 1, "lock": "fork", "run": 1000, "lock2": "knife", "unlock": "knife", "unlock2": "fork"},
        "b": {"loop": 1, "lock": "knife", "run": 1000, "lock2": "fork", "unlock": "fork", "unlock2": "knife"},
        "c": {"loop": 1, "lock": "table", "wait": {"ref": "meal", "mutex": "table"}, "unlock": "table"},
        "d": {"loop": 1, "read": {"ref": "news", "bytes": 1}}
    }}"#;
    let load = workload::rtapp::parse("f.json", text).unwrap();
    let error = run(&scenario(cores(4), load, fifo())).unwrap_err().to_string();
    let left = "a at lock knife, b at lock fork, c at wait meal with mutex table, d at read news";
    assert!(error.ends_with(left), "{error}");
}

#[test]
fn a_timer_keeps_its_period_whatever_the_work() {
    let step = Step::Timer { timer: 0, period_ns: 10 * MS, relative: false };
    let tasks = vec![task("periodic", again(10, vec![burn(3), step]))];
    let outcome = on(cores(1), tasks, vec![Object::Timer]);
    // Ten periods from the start of the workload, wherever its first use is: as in rt-app.
    assert!((100 * MS..101 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

#[test]
fn threads_of_a_core_slow_each_other() {
    let text = include_str!("../../../../machines/xeon-phi-31s1p.toml");
    let phi = Machine::from_toml(text, "phi").unwrap();
    let four = phi.costs.smt_rate_4;
    let elapsed = |threads: usize| {
        let burner = |n: usize| Task { cpus: Some(vec![n]), ..task("t", vec![burn(100)]) };
        on(phi.clone(), (0..threads).map(burner).collect(), vec![]).elapsed_ns as f64
    };
    let cpus_of_one_core = phi.cpus.iter().filter(|cpu| cpu.core == phi.cpus[0].core).count();
    assert_eq!(cpus_of_one_core, 4);
    let ratio = elapsed(4) / elapsed(1);
    assert!((ratio * four - 1.0).abs() < 0.05, "{ratio} with a rate of {four}");
}

#[test]
fn a_task_without_a_cpu_and_a_machine_without_cpus_are_refused() {
    let nowhere = Task { cpus: Some(vec![77]), ..task("lost", vec![burn(1)]) };
    let error = run(&scenario(cores(2), workload(vec![nowhere]), fifo())).unwrap_err();
    assert!(error.to_string().contains("task lost may run on none of the machine's 2 CPUs"));
    let empty = Machine { cpus: vec![], ..cores(1) };
    let error = run(&scenario(empty, workload(vec![task("t", vec![burn(1)])]), fifo()));
    assert!(matches!(error, Err(SimError::NoCpus { .. })));
}

#[test]
fn a_workload_that_never_ends_meets_the_cap() {
    let forever = vec![Step::Repeat { times: None, steps: vec![burn(1)] }];
    let mut scenario = scenario(cores(1), workload(vec![task("t", forever)]), fifo());
    for (cap_ns, told) in [(2_000_000_000, "2s"), (1_500_000, "1ms 500us")] {
        scenario.options.cap_ns = cap_ns;
        let error = run(&scenario).unwrap_err();
        assert!(matches!(error, SimError::Cap { limit } if limit.as_nanos() == cap_ns.into()));
        let said = error.to_string();
        assert!(said.contains(&format!("not ended after {told} of simulated time")), "{said}");
    }
}

/// Waking a whole team takes far longer than the work of each after it. The first ones woken have to be done when the
/// last is woken, so that a policy that looks for idle CPUs finds theirs again.
#[test]
fn opening_a_barrier_does_not_hold_up_the_woken_tasks() {
    let barrier = vec![Object::Barrier { parties: 400, spin_ns: 0 }];
    let steps = again(20, vec![Step::Run { work_ns: 1000 }, Step::Barrier(0)]);
    let team = (0..400).map(|at| task(&format!("omp-{at}"), steps.clone())).collect();
    let load = Workload { objects: barrier, ..workload(team) };
    let flsched = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
    let machine = machine::find("xeon-phi-31s1p").unwrap();
    let outcome = run(&scenario(machine, load, flsched)).unwrap_or_else(|error| panic!("{error}"));
    let worst_ms = outcome.observed.wait.max_ns as f64 / MS as f64;
    assert!(worst_ms < 0.2, "with 228 CPUs for 400 threads one waited {worst_ms} ms");
}

/// As hackbench's own `Time:`, which excludes the forks.
#[test]
fn a_storm_is_timed_from_when_all_are_ready() {
    let timed = |loops| {
        let storm = workload::hackbench::Hackbench { groups: 4, loops, ..Default::default() };
        let outcome = run(&scenario(cores(4), storm.build(), fifo())).unwrap();
        (outcome.extra["own_time_s"], outcome.elapsed_ns as f64 / 1e9)
    };
    let ((few, few_whole), (many, many_whole)) = (timed(1), timed(20));
    assert!(few < few_whole && many < many_whole);
    let (own, whole) = (many - few, many_whole - few_whole);
    assert!((own / whole - 1.0).abs() < 0.1, "messages are all that differs: {own} s of {whole} s");
    let other = run(&scenario(cores(1), workload(vec![task("t", vec![burn(1)])]), fifo()));
    assert!(!other.unwrap().extra.contains_key("own_time_s"), "it reports no time");
}

/// How often two tasks on one CPU blocked while they filled a pipe that has room for everything.
fn blocked_writers(scheduler: Scheduler) -> u64 {
    let objects = vec![Object::Pipe { capacity: 1 << 24 }];
    let write = || again(40_000, vec![Step::Write { channel: 0, bytes: 100 }]);
    let load = Workload { objects, ..workload(vec![task("a", write()), task("b", write())]) };
    let outcome = run(&scenario(cores(1), load, scheduler)).unwrap_or_else(|e| panic!("{e}"));
    [1, 2].map(|tid| outcome.observed.tasks[&tid].voluntary - 1).iter().sum()
}

/// Each writes 1000 times, by turns to pipes that are never full.
fn writers(machine: Machine, tasks: usize, pipes: usize, bytes: u32) -> Outcome {
    let writer = |at: usize| {
        let write = Step::Write { channel: at % pipes, bytes };
        task(&format!("writer-{at}"), again(1000, vec![write]))
    };
    let objects = (0..pipes).map(|_| Object::Pipe { capacity: 1 << 26 }).collect();
    on(machine, (0..tasks).map(writer).collect(), objects)
}

/// The recorded extra time of waiting is charged to the waiting task, that of waking to the waker.
#[test]
fn waiting_and_waking_take_as_long_as_they_did() {
    let write = again(100, vec![Step::Sleep { ns: MS }, Step::Write { channel: 0, bytes: 100 }]);
    let read = again(100, vec![Step::Read { channel: 0, bytes: 100 }]);
    let cpu_ns = |waited_ns: f64, woke_ns: f64| {
        let takes_more = Cut { waited_ns, woke_ns, ..Cut::default() };
        let tasks = vec![task("writer", write.clone()), task("reader", read.clone())];
        let objects = vec![Object::Pipe { capacity: 65_536 }];
        let load = Workload { objects, recorded: true, takes_more, ..workload(tasks) };
        let outcome = ran(cores(2), load);
        [1, 2].map(|tid| outcome.observed.tasks[&tid].cpu_ns as f64)
    };
    let [writer, reader] = cpu_ns(0.0, 0.0);
    let more = |waited_ns, woke_ns| {
        let [slow_writer, slow_reader] = cpu_ns(waited_ns, woke_ns);
        [slow_writer - writer, slow_reader - reader].map(|ns| (ns / 100_000.0).round())
    };
    // Both wait a hundred times: one sleeps, the other finds no data. One of them wakes the other.
    assert_eq!(more(5_000.0, 0.0), [5.0, 5.0]);
    assert_eq!(more(0.0, 3_000.0), [3.0, 0.0]);
}

#[test]
fn an_observer_of_calls_takes_its_time_of_each() {
    let cpu_ns = |observe_call_ns| {
        let mut machine = cores(1);
        machine.costs.observe_call_ns = observe_call_ns;
        writers(machine, 1, 1, 100).observed.tasks[&1].cpu_ns
    };
    assert_eq!((cpu_ns(700.0) - cpu_ns(0.0)) / 1000, 700);
}

/// It is also counted in the act in which it happens, beside the model's own costs.
#[test]
fn what_waking_takes_is_seen_to_be_added() {
    let act = |then| Act { work_ns: 2000.0, met: Met::default(), then };
    let write = |channel| act(Then::Write { channel, bytes: 100 });
    let read = act(Then::Read { channel: 0, bytes: 100 });
    // The first pipe's reader waits for each message; the second pipe has no reader.
    let writes = [write(0), write(1), act(Then::Wait(1000.0))].repeat(100);
    let added = |woke_ns: f64| {
        let tasks = vec![played("writer", &writes), played("reader", &[read; 100])];
        let objects = vec![Object::Pipe { capacity: 65_536 }; 2];
        let takes_more = Cut { woke_ns, ..Cut::default() };
        let load = Workload { objects, recorded: true, takes_more, ..workload(tasks) };
        run_traced(&scenario(cores(2), load, fifo())).unwrap().added
    };
    let (own, more) = (added(0.0), added(3_000.0));
    assert!((more.woke_ns - own.woke_ns - 3_000.0).abs() < 100.0, "{own:?} {more:?}");
}

/// A pipe's mutex is held for nearly all of a read or a write.
#[test]
fn writers_to_one_pipe_wait_for_each_other() {
    let spent_ns = |pipes| writers(cores(2), 2, pipes, 100).extra["lock_wait_pipe_ns"] / 2000.0;
    assert_eq!(spent_ns(2), 0.0);
    assert!(spent_ns(1) > 20.0, "{} ns a write", spent_ns(1));
}

/// If CPUs run in turn on one clock, a spinner gives its turns away, and all tasks proceed as if they did not contend.
#[test]
fn spinner_takes_no_time_from_other_tasks() {
    let machine = machine::find("icount-2x4").unwrap();
    let elapsed_ns = |pipes| writers(machine.clone(), 4, pipes, 4000).elapsed_ns as f64;
    let ratio = elapsed_ns(1) / elapsed_ns(4);
    assert!(ratio < 1.05, "{ratio}");
}

/// If CPUs run in turn on one clock, a task that is to give way at the end of a turn does so in the next one. That time
/// is its own, and not its successor's. So a writer that works for longer than its reader is charged for it, and gives
/// way at most of its messages.
#[test]
fn task_preempted_at_the_end_of_a_turn_leaves_in_the_next() {
    let machine = machine::find("icount-2x4").unwrap();
    let of = |name: &str, cpu: usize, steps| Task { cpus: Some(vec![cpu]), ..task(name, steps) };
    let write = again(2000, vec![burn_us(2), Step::Write { channel: 0, bytes: 100 }]);
    let read = again(2000, vec![Step::Read { channel: 0, bytes: 100 }]);
    let mut tasks = vec![of("writer", 0, write), of("reader", 0, read)];
    tasks.extend((1..8).map(|cpu| of("other", cpu, vec![burn(20)])));
    let objects = vec![Object::Pipe { capacity: 65_536 }];
    let load = Workload { objects, recorded: true, ..workload(tasks) };
    let outcome = run(&scenario(machine, load, Scheduler::Default)).unwrap();
    let gave_way = outcome.observed.tasks[&1].involuntary;
    assert!(gave_way > 1000, "{gave_way}");
}

/// If CPUs run in turn on one clock, one of them runs at any time, in the kernel or not. The tasks' CPU time is no more
/// than the elapsed time, and little less if some task always wants to run.
#[test]
fn cpus_that_run_in_turn_share_all_of_the_time() {
    let talk = |at: usize| {
        let (to, from) = (at, (at + 11) % 12);
        let first = if at.is_multiple_of(3) {
            vec![Step::Write { channel: to, bytes: 50 }]
        } else {
            vec![]
        };
        let pass = again(
            2000,
            vec![
                Step::Read { channel: from, bytes: 50 },
                Step::Run { work_ns: 3_000 },
                Step::Write { channel: to, bytes: 50 },
            ],
        );
        task(&format!("talker-{at}"), [first, pass].concat())
    };
    let objects = (0..12).map(|_| Object::Pipe { capacity: 65_536 }).collect();
    let machine = machine::find("icount-2x4").unwrap();
    let load = Workload { objects, recorded: true, ..workload((0..12).map(talk).collect()) };
    let traced = run_traced(&scenario(machine, load, fifo())).unwrap();
    let worked_ns: f64 = traced.played.iter().map(|played| played.worked_ns).sum();
    let part = worked_ns / traced.outcome.elapsed_ns as f64;
    assert!((0.9..=1.001).contains(&part), "{part}");
}

#[test]
fn task_preempted_within_a_pipe_keeps_others_out() {
    let blocked = blocked_writers(Scheduler::Default);
    assert!(blocked > 0, "no task slept for the mutex");
    assert_eq!(blocked_writers(Scheduler::Cfs), 0, "a kernel of then does not preempt itself");
}

#[test]
fn a_token_that_is_there_is_not_waited_for() {
    let give = Step::Give { tokens: 0, more: More::No, sync: true };
    let giver = vec![give.clone(), give.clone(), Step::Sleep { ns: 20 * MS }, give];
    let taker =
        vec![Step::Sleep { ns: 10 * MS }, Step::Take(0), Step::Take(0), Step::Take(0), burn(1)];
    let tasks = vec![task("giver", giver), task("taker", taker)];
    let outcome = replayed(cores(1), tasks, vec![Object::Tokens]);
    assert_eq!(outcome.observed.tasks[&2].voluntary, 3, "it sleeps, waits for the third, and ends");
    assert!((20 * MS..23 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

/// The CPU on which a task goes on that slept on CPU 2 and was woken from CPU 7, which is under another cache.
fn goes_on_at(sync: bool) -> u32 {
    let taker = vec![Step::Cpus(Some(vec![2])), burn(1), Step::Cpus(None), Step::Take(0), burn(1)];
    let give = Step::Give { tokens: 0, more: More::No, sync };
    let mut giver = task("giver", vec![Step::Sleep { ns: 5 * MS }, give, burn(1)]);
    giver.cpus = Some(vec![7]);
    let tasks = vec![task("taker", taker), giver];
    let workload = Workload { recorded: true, objects: vec![Object::Tokens], ..workload(tasks) };
    let machine = machine::find("numa-2x4").unwrap();
    let traced = run_traced(&scenario(machine, workload, Scheduler::Default)).unwrap();
    let on = |event: &&trace::Event| {
        event.t_ns > 5 * MS && matches!(event.kind, trace::Kind::Switch { next: 1, .. })
    };
    traced.events.iter().find(on).unwrap().cpu
}

/// `wake_affine`: a waker that is about to block draws the woken task to its cache; a futex's waker does not.
#[test]
fn woken_task_stays_where_it_was_when_its_waker_goes_on() {
    assert_eq!(goes_on_at(false), 2);
    assert!((4..8).contains(&goes_on_at(true)), "{}", goes_on_at(true));
}

/// Less than the kernel's timer slack.
#[test]
fn a_lock_that_others_have_is_waited_for_as_long_as_they_do() {
    let needs = again(1000, vec![Step::Contend { ns: 10_000 }, Step::Run { work_ns: 10_000 }]);
    let outcome = replayed(cores(1), vec![task("one", needs)], Vec::new());
    assert_eq!(outcome.observed.tasks[&1].voluntary, 1001);
    assert!((20 * MS..30 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

/// One task wakes three, a millisecond of work apart. The result is when the first has done a moment's work, ms.
fn first_woken_ends_ms(more: More) -> f64 {
    let give = |tokens, more| Step::Give { tokens, more, sync: true };
    let giver = vec![
        Step::Sleep { ns: 5 * MS },
        give(0, more),
        burn(1),
        give(1, more),
        burn(1),
        give(2, More::No),
    ];
    let moment = Step::Run { work_ns: 10_000 };
    let taker = |tokens| task(&format!("taker-{tokens}"), vec![Step::Take(tokens), moment.clone()]);
    let tasks = vec![task("giver", giver), taker(0), taker(1), taker(2)];
    let workload = Workload { recorded: true, objects: vec![Object::Tokens; 3], ..workload(tasks) };
    let traced = run_traced(&scenario(cores(4), workload, Scheduler::Default)).unwrap();
    traced.ended_ns[1].unwrap() as f64 / MS as f64
}

#[test]
fn task_woken_in_a_locked_queue_goes_on_when_all_are_woken() {
    let free_ms = first_woken_ends_ms(More::Free);
    assert!((5.0..5.3).contains(&free_ms), "{free_ms}");
    let locked_ms = first_woken_ends_ms(More::Locked);
    assert!((7.0..7.3).contains(&locked_ms), "{locked_ms}");
}

/// The second client arrives first, and is served first: the server reads its message.
#[test]
fn server_accepts_the_first_connection_first() {
    let pipe = || Object::Pipe { capacity: 4096 };
    let mut objects = vec![Object::Listener, pipe(), pipe(), pipe(), pipe()];
    objects.extend(vec![Object::Accepted; 4]);
    let client = |connection, after_ms| {
        let bytes = 10;
        vec![
            Step::Sleep { ns: after_ms * MS },
            Step::Connect { listener: 0, connection },
            Step::Write { channel: connection, bytes },
            Step::Read { channel: connection + 1, bytes },
        ]
    };
    let serve = |accepted| {
        let bytes = 10;
        vec![
            Step::Accept { listener: 0, accepted },
            Step::Read { channel: accepted, bytes },
            Step::Write { channel: accepted + 1, bytes },
        ]
    };
    let server = [serve(5), serve(7)].concat();
    let early = [client(3, 5), vec![burn(20)]].concat();
    let tasks = vec![task("late", client(1, 20)), task("early", early), task("server", server)];
    let outcome = replayed(cores(2), tasks, objects);
    assert!((25 * MS..27 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

/// It reads before the server accepts.
#[test]
fn read_from_a_connection_waits_until_it_is_accepted() {
    let pipe = || Object::Pipe { capacity: 4096 };
    let objects = vec![Object::Listener, pipe(), pipe(), Object::Accepted, Object::Accepted];
    let bytes = 10;
    let client = vec![
        Step::Connect { listener: 0, connection: 1 },
        Step::Write { channel: 1, bytes },
        Step::Read { channel: 2, bytes },
    ];
    let worker = vec![Step::Read { channel: 3, bytes }, burn(5), Step::Write { channel: 4, bytes }];
    let acceptor = vec![Step::Sleep { ns: 20 * MS }, Step::Accept { listener: 0, accepted: 3 }];
    let tasks = vec![task("worker", worker), task("client", client), task("acceptor", acceptor)];
    let outcome = replayed(cores(3), tasks, objects);
    assert!((25 * MS..26 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

/// Threads with these programs, which share an interpreter's lock, on `cpus` CPUs.
fn interpreted<const N: usize>(cpus: usize, programs: [Vec<Step>; N]) -> Outcome {
    let mut tasks = programs.map(|steps| task("thread", steps)).to_vec();
    tasks.iter_mut().for_each(|task| task.gil = Some(0));
    let gil = Object::Gil { interval_ns: 5 * MS, ask_ns: 10_000 };
    replayed(cores(cpus), tasks, vec![gil, Object::Pipe { capacity: 65_536 }])
}

#[test]
fn threads_of_an_interpreter_work_one_at_a_time_by_turns_of_5_ms() {
    let outcome = interpreted(2, [vec![burn(20)], vec![burn(20)]]);
    assert!((40 * MS..41 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
    let [first, second] = [1, 2].map(|tid| &outcome.observed.tasks[&tid]);
    let blocked = first.voluntary + second.voluntary;
    // Eight turns. At the end of each one thread releases the lock and the other has asked; sometimes both contend for
    // the mutex.
    assert!((14..=28).contains(&blocked), "{blocked}");
    assert!(first.cpu_ns.abs_diff(second.cpu_ns) < MS, "{outcome:?}");
}

/// A thread that has waited for 5 ms while others took turns waits once more: else four threads would pass it round in
/// 2 ms.
#[test]
fn turns_of_an_interpreter_are_no_shorter_where_many_wait() {
    let outcome = interpreted(4, [20; 4].map(|ms| vec![burn(ms)]));
    let blocked: u64 = outcome.observed.tasks.values().map(|task| task.voluntary).sum();
    // Sixteen turns. At the end of each one thread releases the lock and waits, and others have waited in vain.
    assert!(blocked <= 52, "{blocked}");
}

#[test]
fn blocking_or_ending_releases_the_interpreter() {
    let outcome = interpreted(2, [vec![Step::Sleep { ns: 20 * MS }], vec![burn(20)]]);
    assert!((20 * MS..21 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
    assert_eq!(outcome.observed.tasks[&2].voluntary, 1, "no task asks for it");
    let outcome = interpreted(2, [vec![burn(2)], vec![burn(2)]]);
    assert!((4 * MS..5 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
    assert!(outcome.observed.tasks.values().all(|task| task.voluntary <= 2), "no task asks for it");
}

/// A waiter would otherwise be woken only when the kernel is done with the ending thread, long after.
#[test]
fn ending_thread_releases_the_interpreter_before_the_kernel_ends_it() {
    let thread = |ms| Task { gil: Some(0), ..task("thread", vec![burn(ms)]) };
    let gil = Object::Gil { interval_ns: 5 * MS, ask_ns: 10_000 };
    let load = Workload { objects: vec![gil], ..workload(vec![thread(2), thread(2)]) };
    let scenario = scenario(cores(2), load, fifo());
    let traced = run_traced(&scenario).unwrap();
    let last = |what: fn(&Kind) -> bool| {
        traced.events.iter().rfind(|event| what(&event.kind)).map(|event| event.t_ns).unwrap()
    };
    let woken_ns = last(|kind| matches!(kind, Kind::Wake { tid: 2, .. }));
    let ended_ns = last(|kind| matches!(kind, Kind::Exit { tid: 1 }));
    let do_exit = scenario.paths.get(scenario.paths.id("do_exit"));
    let takes_ns = do_exit.instructions * scenario.machine.costs.instruction_ns();
    assert!(woken_ns + takes_ns as u64 <= ended_ns, "{woken_ns} {ended_ns} {takes_ns}");
}

/// It works for 1 ms at a time, and writes. The thread woken then is too late to find the lock free, and waits anew.
#[test]
fn writing_releases_the_interpreter() {
    let writes = again(20, vec![burn(1), Step::Write { channel: 1, bytes: 1 }]);
    let outcome = interpreted(2, [writes, vec![burn(1)]]);
    let second = &outcome.observed.tasks[&2];
    assert!(second.voluntary >= 20, "{second:?}");
}

/// A taker gives up after 5 ms, works for 1 ms and asks again, and then sleeps. A giver gives it a token after
/// `given_ns`.
fn asking(given_ns: u64) -> Outcome {
    let giver =
        vec![Step::Sleep { ns: given_ns }, Step::Give { tokens: 0, more: More::No, sync: true }];
    let ask = Step::TakeWithin { tokens: 0, ns: 5 * MS, work_ns: MS };
    let taker = vec![ask, Step::Sleep { ns: 20 * MS }];
    replayed(cores(1), vec![task("giver", giver), task("taker", taker)], vec![Object::Tokens])
}

#[test]
fn taker_that_gives_up_works_and_asks_again() {
    let outcome = asking(14 * MS);
    let taker = &outcome.observed.tasks[&2];
    assert_eq!(taker.voluntary, 5, "it asks three times, sleeps, and ends");
    assert!((2 * MS..3 * MS).contains(&taker.cpu_ns), "{}", taker.cpu_ns);
    assert!((34 * MS..36 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

#[test]
fn taker_that_gets_its_token_is_not_woken_by_its_timer() {
    let outcome = asking(2 * MS);
    assert_eq!(outcome.observed.tasks[&2].voluntary, 3, "it asks once, sleeps, and ends");
    assert!((22 * MS..23 * MS).contains(&outcome.elapsed_ns), "{}", outcome.elapsed_ns);
}

/// A kernel thread wakes in the middle of the other's work, and still sleeps when that is done.
#[test]
fn recorded_kernel_thread_prolongs_no_run() {
    let wakes = vec![Step::Sleep { ns: 2 * MS }, burn(1), Step::Sleep { ns: 500 * MS }];
    let kworker = Task { kernel: true, delay_ns: MS, ..task("kworker", wakes) };
    let machine = machine::find("icount-1").unwrap();
    assert!(!machine.housekeepers.is_empty(), "it has threads of its own, too");
    let run = replayed(machine, vec![task("job", vec![burn(10)]), kworker], vec![]);
    assert!((10 * MS..13 * MS).contains(&run.elapsed_ns), "{}", run.elapsed_ns);
    let kernel = run.names.values().filter(|name| name.starts_with("k")).count();
    assert_eq!(kernel, 1, "those that were recorded stand for the machine's: {:?}", run.names);
    assert_eq!(run.progress.len(), 1, "they are no part of what the workload gets done");
}

#[test]
fn recorded_work_is_done_in_its_cpus_turns_alone() {
    let elapsed = |recorded| {
        let tasks = (0..4).map(|n| task(&format!("t{n}"), vec![burn(5)])).collect();
        let load = Workload { recorded, ..workload(tasks) };
        let machine = machine::find("icount-2x4").unwrap();
        run(&scenario(machine, load, fifo())).unwrap_or_else(|error| panic!("{error}")).elapsed_ns
    };
    // One clock counts for all: a task that works by that clock is done when others have worked as well.
    assert!(elapsed(false) < 8 * MS, "{}", elapsed(false));
    assert!((20 * MS..24 * MS).contains(&elapsed(true)), "{}", elapsed(true));
}

#[test]
fn a_workload_may_last_as_long_as_a_run_may() {
    let endless = || vec![Step::Repeat { times: None, steps: vec![burn_us(10)] }];
    let ends = |duration_ns| {
        let load = Workload { duration_ns, ..workload(vec![task("job", endless())]) };
        let mut scenario = scenario(cores(1), load, fifo());
        scenario.options.cap_ns = 5 * MS;
        run(&scenario).map(|outcome| outcome.elapsed_ns)
    };
    assert_eq!(ends(Some(5 * MS)), Ok(5 * MS));
    assert!(matches!(ends(Some(6 * MS)), Err(SimError::Cap { .. })));
    assert!(matches!(ends(None), Err(SimError::Cap { .. })));
}

#[test]
fn writing_memory_is_work_by_the_byte_and_a_device_takes_a_call_a_buffer() {
    let machine = cores(1);
    let costs = machine.costs.clone();
    let elapsed = |steps: Vec<Step>| on(machine.clone(), vec![task("t", steps)], vec![]).elapsed_ns;
    let none = elapsed(vec![burn(1)]);
    let bytes = 50_000_000;
    let filled = elapsed(vec![burn(1), Step::Mem { bytes, buffer: 4096 }]) - none;
    let wanted = f64::from(bytes) * costs.copy_byte_ns;
    assert!((filled as f64 / wanted - 1.0).abs() < 0.02, "{filled} {wanted}");
    let written = |buffer| elapsed(vec![burn(1), Step::Io { bytes: 100_000, buffer }]) - none;
    let (whole, pages) = (written(1 << 20) as f64, written(100) as f64);
    assert!((whole - costs.syscall_ns).abs() <= 2.0, "{whole}");
    assert!((pages / (1000.0 * costs.syscall_ns) - 1.0).abs() < 0.1, "{pages}");
}

#[test]
fn a_task_goes_where_its_phase_may_run() {
    let phase = |cpus: Option<Vec<usize>>| [Step::Cpus(cpus), burn(5)];
    let steps = [phase(Some(vec![2])), phase(Some(vec![2])), phase(Some(vec![1])), phase(None)];
    let moves = Task { cpus: Some(vec![0]), ..task("moves", steps.concat()) };
    let load = workload(vec![moves]);
    for scheduler in [fifo(), Scheduler::Default, Scheduler::Cfs] {
        let traced = sim::run_traced(&scenario(cores(4), load.clone(), scheduler)).unwrap();
        let went = traced.events.iter().filter_map(|event| match event.kind {
            Kind::Switch { next: 1, .. } => Some(event.cpu),
            _ => None,
        });
        // The last phase does not ask to leave CPU 1.
        assert_eq!(went.collect::<Vec<_>>(), [0, 2, 1], "{}", traced.outcome.policy);
        assert_eq!(traced.outcome.progress[&1], 20e6);
    }
    let nowhere = Task { steps: phase(Some(vec![9])).to_vec(), ..task("lost", vec![]) };
    let error = run(&scenario(cores(4), workload(vec![nowhere]), fifo())).unwrap_err();
    assert_eq!(error, SimError::NoAffinity { task: "lost".into(), cpus: 4 });
}
