// SPDX-License-Identifier: GPL-2.0-only
//! One made-up run of a machine, written in each form that is imported: all forms give the same result. Also its
//! results with missing events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;
use quick_protobuf::Writer as Protobuf;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use record::import::{Survey, Timeline, import, survey};
use record::{
    Carrier, Class, Ending, Event, Fit, Header, Kind, Left, Raw, Reader, Replay, Source, TaskInfo,
    task_group,
};
use workload::Workload;

/// A thread: its number, its process, its name, its priority in the kernel's numbers.
#[derive(Clone, Debug, PartialEq)]
struct Thread {
    tid: u32,
    pid: u32,
    name: String,
    prio: i32,
}

impl Thread {
    fn idle() -> Self {
        Thread { tid: 0, pid: 0, name: "swapper".into(), prio: 120 }
    }
}

#[derive(Clone, Debug)]
enum What {
    Switch {
        prev: Thread,
        next: Thread,
        state: &'static str,
    },
    /// A wakeup by an interrupt.
    Waking(Thread),
}

#[derive(Clone, Debug)]
struct Happened {
    us: u64,
    cpu: usize,
    what: What,
}

/// A run, and the CPU time of each thread, in us, by name.
struct Truth {
    cpus: usize,
    events: Vec<Happened>,
    cpu_us: BTreeMap<String, u64>,
    threads: Vec<Thread>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Runs,
    Ready,
    Blocked,
}

/// A run of `decisions` decisions. `ends`: threads end and their numbers are used again.
fn truth(seed: u64, cpus: usize, threads: usize, decisions: usize, ends: bool) -> Truth {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut all: Vec<(Thread, State)> = (0..threads as u32)
        .map(|n| {
            let prio = [120, 120, 110, 139, 9][n as usize % 5];
            let pid = 100 + n / 2 * 2;
            (Thread { tid: 100 + n, pid, name: format!("task {n}"), prio }, State::Blocked)
        })
        .collect();
    let there = all.iter().map(|(thread, _)| thread.clone()).collect();
    let mut events = Vec::new();
    let mut cpu_us: BTreeMap<String, u64> = BTreeMap::new();
    let mut now: Vec<(u64, Option<usize>)> = (0..cpus as u64).map(|cpu| (cpu, None)).collect();
    let (mut since, mut last_us, mut lives) = (vec![0; cpus], 0, 0);
    for left in (0..decisions + cpus).rev() {
        let is_last = left < cpus;
        let cpu = match is_last {
            true => left,
            false => (0..cpus).min_by_key(|cpu| now[*cpu].0).unwrap(),
        };
        let mut us = now[cpu].0.max(last_us + 1);
        let blocked =
            |all: &[(Thread, State)]| all.iter().position(|(_, it)| *it == State::Blocked);
        if let Some(woken) = blocked(&all).filter(|_| !is_last && rng.random_bool(0.6)) {
            events.push(Happened { us, cpu, what: What::Waking(all[woken].0.clone()) });
            all[woken].1 = State::Ready;
            us += 3;
        }
        let current = now[cpu].1;
        let ready: Vec<usize> = (0..all.len()).filter(|at| all[*at].1 == State::Ready).collect();
        let next = match ready.len() {
            0 => None,
            _ if is_last || rng.random_bool(0.1) => None,
            count => Some(ready[rng.random_range(0..count)]),
        };
        if next == current {
            now[cpu].0 = us + rng.random_range(50..5_000);
            last_us = us;
            continue;
        }
        let thread = |at: Option<usize>| at.map_or_else(Thread::idle, |at| all[at].0.clone());
        let (prev, next_thread) = (thread(current), thread(next));
        let mut state = "R";
        if let Some(at) = current {
            *cpu_us.entry(prev.name.clone()).or_default() += us - since[cpu];
            let blocks = rng.random_bool(0.7);
            state = if blocks { "S" } else { "R+" };
            all[at].1 = if blocks { State::Blocked } else { State::Ready };
            // A process with only one thread ends, and another begins under its number.
            if ends && rng.random_bool(0.05) && prev.pid == prev.tid && at + 1 == all.len() {
                (state, lives) = ("Z", lives + 1);
                all[at].0.name = format!("life {lives}");
                all[at].1 = State::Ready;
            }
        }
        if let Some(at) = next {
            all[at].1 = State::Runs;
        }
        events.push(Happened { us, cpu, what: What::Switch { prev, next: next_thread, state } });
        (now[cpu], since[cpu], last_us) = ((us + rng.random_range(50..5_000), next), us, us);
    }
    Truth { cpus, events, cpu_us, threads: there }
}

/// Formats of a line of text.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// ftrace, with these flags outside and inside of an interrupt, and perhaps its column of processes.
    Ftrace(&'static str, &'static str, bool),
    /// `trace-cmd report`, as its plugins write events, and with `-l`, `-R` and `--ts-diff`.
    TraceCmd,
    Latency,
    RawFields,
    Differences,
    /// `perf script`, plain, with processes and periods, in ns, and from 0 on.
    Perf,
    PerfProcesses,
    PerfNs,
    PerfRelative,
}

const FORMS: [Form; 11] = [
    Form::Ftrace("d..2", "dNh4", false),
    Form::Ftrace("d..2.", "dNh4.", false),
    Form::Ftrace("d...2..", "dN.h4..", false),
    Form::Ftrace("d..2.", "dNh4.", true),
    Form::TraceCmd,
    Form::Latency,
    Form::RawFields,
    Form::Differences,
    Form::Perf,
    Form::PerfProcesses,
    Form::PerfNs,
];

impl Form {
    fn has_processes(self) -> bool {
        matches!(self, Form::Ftrace(_, _, true) | Form::PerfProcesses)
    }

    fn is_perf(self) -> bool {
        matches!(self, Form::Perf | Form::PerfProcesses | Form::PerfNs | Form::PerfRelative)
    }

    /// The columns before the event's name: of this thread, on this CPU, at this time.
    fn columns(self, thread: &Thread, cpu: usize, us: u64, in_interrupt: bool) -> String {
        let Thread { tid, pid, name, .. } = thread;
        let base_us = if let Form::PerfRelative = self { 0 } else { 77_123_456 };
        let (s, part) = ((base_us + us) / 1_000_000, (base_us + us) % 1_000_000);
        let time = format!("{s}.{part:06}");
        match self {
            Form::Ftrace(outside, inside, processes) => {
                let flags = if in_interrupt { inside } else { outside };
                let process = match (processes, tid) {
                    (false, _) => String::new(),
                    (true, 0) => "(-----)".to_string(),
                    (true, _) => format!("({pid:>6})"),
                };
                format!("{name:>16}-{tid:<6} {process} [{cpu:03}] {flags} {time}: ")
            }
            Form::TraceCmd => format!("{name:>16}-{tid:<5} [{cpu:03}] {time}: "),
            Form::RawFields => format!("{name:>16}-{tid:<5} [{cpu:03}] {time}: "),
            Form::Differences => format!("{name:>16}-{tid:<5} [{cpu:03}] {time}: (+12) "),
            Form::Latency => {
                let flags = if in_interrupt { "d.h4." } else { "d..2." };
                format!("{name:>16}-{tid:<5} {cpu:>3}{flags} {time}: ")
            }
            Form::Perf | Form::PerfRelative => {
                format!("{name:>16} {tid:>5} [{cpu:03}] {time}: sched:")
            }
            Form::PerfProcesses => format!("{name:>16} {pid}/{tid} [{cpu:03}] {time}: 1 sched:"),
            Form::PerfNs => format!("{name:>16} {tid:>5} [{cpu:03}] {time}000: sched:"),
        }
    }

    fn switch(self, prev: &Thread, next: &Thread, state: &str) -> String {
        let named = |of: &str, it: &Thread| {
            format!("{of}_comm={} {of}_pid={} {of}_prio={}", it.name, it.tid, it.prio)
        };
        match self {
            Form::TraceCmd => format!(
                "sched_switch: {}:{} [{}] {state} ==> {}:{} [{}]",
                prev.name, prev.tid, prev.prio, next.name, next.tid, next.prio
            ),
            Form::RawFields => {
                let state = match state {
                    "S" => "0x1",
                    "Z" => "0x20",
                    _ => "0x0",
                };
                format!(
                    "sched_switch: {} prev_state={state} {}",
                    named("prev", prev),
                    named("next", next)
                )
            }
            _ => {
                format!(
                    "sched_switch: {} prev_state={state} ==> {}",
                    named("prev", prev),
                    named("next", next)
                )
            }
        }
    }

    /// All of it as text.
    fn text(self, of: &Truth) -> String {
        let mut text = match self {
            Form::Ftrace(..) => "# tracer: nop\n#\n".to_string(),
            _ => String::new(),
        };
        let mut current = vec![Thread::idle(); of.cpus];
        let has_flags = matches!(self, Form::Ftrace(..) | Form::Latency);
        for Happened { us, cpu, what } in &of.events {
            match what {
                What::Switch { prev, next, state } => {
                    text += &self.columns(prev, *cpu, *us, false);
                    writeln!(text, "{}", self.switch(prev, next, state)).unwrap();
                    current[*cpu] = next.clone();
                }
                What::Waking(woken) => {
                    let columns = self.columns(&current[*cpu], *cpu, *us, true);
                    let of_irq = match self.is_perf() {
                        true => columns.replace("sched:", "irq:"),
                        false => columns.clone(),
                    };
                    if !has_flags {
                        writeln!(text, "{of_irq}irq_handler_entry: irq=9 name=clock").unwrap();
                    }
                    let Thread { tid, name, prio, .. } = woken;
                    writeln!(
                        text,
                        "{columns}sched_waking: comm={name} pid={tid} prio={prio} target_cpu=000"
                    )
                    .unwrap();
                    if !has_flags {
                        writeln!(text, "{of_irq}irq_handler_exit: irq=9 ret=handled").unwrap();
                    }
                }
            }
        }
        text
    }
}

/// An imported run: each thread's name and CPU time, and the workload.
struct Made {
    cpu_ns: BTreeMap<String, u64>,
    elapsed_ns: u64,
    workload: Workload,
}

fn replayed(file: &[u8]) -> Made {
    let mut reader = Reader::new(file).unwrap();
    let mut replay = Replay::new(reader.header(), 0.0);
    while let Some(event) = reader.next_event().unwrap() {
        replay.event(&event);
    }
    assert_eq!(reader.summary().disordered, 0);
    replay.finish(reader.summary().ending.as_ref());
    let mut cpu_ns: BTreeMap<String, u64> = BTreeMap::new();
    for task in replay.recorded() {
        *cpu_ns.entry(task.name).or_default() += task.cpu_ns;
    }
    let workload = replay.workload("it", 8, 0.0, &Fit::none(&replay));
    Made { cpu_ns, elapsed_ns: replay.elapsed_ns(), workload }
}

fn of_text(text: &str) -> (Survey, Made) {
    let found = survey(text.as_bytes()).unwrap();
    let (file, ..) = import(text.as_bytes(), &found, "text", Vec::new()).unwrap();
    let made = replayed(&file);
    (found, made)
}

/// As Perfetto's recorders write it: a bundle of each CPU.
fn perfetto(of: &Truth) -> Vec<u8> {
    fn field(out: &mut Vec<u8>, number: u32, value: u64) {
        let mut writer = Protobuf::new(out);
        writer.write_tag(number << 3).unwrap();
        writer.write_uint64(value).unwrap();
    }
    fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
        let mut writer = Protobuf::new(out);
        writer.write_tag(number << 3 | 2).unwrap();
        writer.write_bytes(value).unwrap();
    }
    let event = |t_ns: u64, number: u32, fields: &[u8]| {
        let mut event = Vec::new();
        field(&mut event, 1, t_ns);
        bytes(&mut event, number, fields);
        event
    };
    let mut trace = Vec::new();
    for cpu in 0..of.cpus {
        let mut bundle = Vec::new();
        field(&mut bundle, 1, cpu as u64);
        for Happened { us, what, .. } in of.events.iter().filter(|it| it.cpu == cpu) {
            let (t_ns, mut fields) = (us * 1000 + 5_000_000_000, Vec::new());
            match what {
                What::Switch { prev, next, state } => {
                    bytes(&mut fields, 1, prev.name.as_bytes());
                    field(&mut fields, 2, prev.tid.into());
                    field(&mut fields, 3, prev.prio as u64);
                    let state = if *state == "S" {
                        1
                    } else if *state == "Z" {
                        32
                    } else {
                        0
                    };
                    field(&mut fields, 4, state);
                    bytes(&mut fields, 5, next.name.as_bytes());
                    field(&mut fields, 6, next.tid.into());
                    field(&mut fields, 7, next.prio as u64);
                    bytes(&mut bundle, 2, &event(t_ns, 4, &fields));
                }
                What::Waking(woken) => {
                    bytes(&mut bundle, 2, &event(t_ns, 36, &[]));
                    bytes(&mut fields, 1, woken.name.as_bytes());
                    field(&mut fields, 2, woken.tid.into());
                    field(&mut fields, 3, woken.prio as u64);
                    bytes(&mut bundle, 2, &event(t_ns, 20, &fields));
                    bytes(&mut bundle, 2, &event(t_ns, 37, &[]));
                }
            }
        }
        let mut packet = Vec::new();
        bytes(&mut packet, 1, &bundle);
        bytes(&mut trace, 1, &packet);
    }
    trace
}

/// As our own recorder writes it.
fn own(of: &Truth) -> Vec<u8> {
    let header = Header { cpus: of.cpus, source: Source::Import, ..Header::default() };
    let mut writer = record::Writer::new(Vec::new(), &header).unwrap();
    let info = |thread: &Thread| TaskInfo {
        name: thread.name.clone(),
        class: Class::of_prio(thread.prio),
        nice: if thread.prio < 100 { 0 } else { (thread.prio - 120) as i8 },
        ..TaskInfo::new(thread.tid, thread.pid)
    };
    let base_us = of.events[0].us;
    for thread in &of.threads {
        writer.records(0, &task_group(0, &info(thread))).unwrap();
    }
    for Happened { us, cpu, what } in &of.events {
        let (t_ns, cpu) = ((us - base_us) * 1000, *cpu as u32);
        let kind = match what {
            What::Switch { prev, next, state } => {
                let left = if *state == "S" { Left::Blocked } else { Left::Preempted };
                Kind::Switch { prev: prev.tid, next: next.tid, left }
            }
            What::Waking(woken) => Kind::Wake { tid: woken.tid, by: Carrier::Interrupt, object: 0 },
        };
        writer.records(cpu, &[Raw::of(&Event { t_ns, cpu, kind }).unwrap()]).unwrap();
        writer.time(t_ns).unwrap();
    }
    let end_ns = (of.events.last().unwrap().us - base_us) * 1000;
    writer.finish(&Ending { end_ns, ..Ending::default() }).unwrap().0
}

/// Makes each thread a process of its own, as in forms without processes, with tasks in the order of their names.
fn without_processes(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    workload.tasks.iter_mut().for_each(|task| task.process = 0);
    workload.tasks.sort_by(|a, b| a.name.cmp(&b.name));
    workload
}

fn assert_true(of: &Truth, made: &Made, form: &str) {
    let names: BTreeSet<&String> = of.cpu_us.keys().collect();
    for name in names {
        let (true_ns, made_ns) =
            (of.cpu_us[name] * 1000, made.cpu_ns.get(name).copied().unwrap_or(0));
        assert!(
            made_ns.abs_diff(true_ns) * 1000 <= true_ns,
            "{form}: {name}: {made_ns} of {true_ns} ns"
        );
    }
    let (first, last) = (of.events[0].us, of.events.last().unwrap().us);
    assert_eq!(made.elapsed_ns, (last - first) * 1000, "{form}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_form_tells_the_same(seed: u64, cpus in 1usize..5, threads in 1usize..8) {
        let of = truth(seed, cpus, threads, 400, false);
        let of_own = replayed(&own(&of));
        assert_true(&of, &of_own, "our own");
        let mut with_processes = None;
        for form in FORMS.into_iter().chain([Form::PerfRelative]) {
            let (found, made) = of_text(&form.text(&of));
            let name = format!("{form:?}");
            assert_true(&of, &made, &name);
            prop_assert!(found.doubts.none() && found.lost == 0, "{name}: {:?}", found.doubts_in_words());
            prop_assert!(found.interrupts && found.processes == form.has_processes(), "{name}");
            prop_assert_eq!(without_processes(&made.workload), without_processes(&of_own.workload), "{}", name);
            if form.has_processes() {
                let before = with_processes.replace(made.workload.clone());
                prop_assert!(before.is_none_or(|before| before == made.workload), "{name}");
            }
        }
        let timeline = Timeline::read(&perfetto(&of), None).unwrap();
        let found = timeline.survey().unwrap();
        prop_assert!(found.doubts.none() && found.lost == 0, "{:?}", found.doubts_in_words());
        let (file, ..) = timeline.import(&found, "trace", Vec::new()).unwrap();
        let made = replayed(&file);
        assert_true(&of, &made, "Perfetto");
        prop_assert_eq!(without_processes(&made.workload), without_processes(&of_own.workload));
    }

    /// A thread with a reused number is another thread, in each form.
    #[test]
    fn a_number_that_is_used_again_is_another_thread(seed: u64, cpus in 1usize..4) {
        let of = truth(seed, cpus, 3, 900, true);
        for form in [Form::Ftrace("d..2.", "dNh4.", false), Form::RawFields, Form::Perf] {
            let (found, made) = of_text(&form.text(&of));
            assert_true(&of, &made, &format!("{form:?}"));
            let lives = of.cpu_us.keys().filter(|name| name.starts_with("life")).count();
            prop_assert!(found.doubts.reused as usize >= lives && found.lost == 0);
        }
    }

    /// Events are removed at random: they are counted as missing, and no thread is charged for them.
    #[test]
    fn events_that_are_missing_are_counted(seed: u64, cpus in 1usize..5, threads in 4usize..9, percent in prop::sample::select(vec![1u64, 10])) {
        let mut of = truth(seed, cpus, threads, 4000, false);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let whole = of.events.len();
        of.events.retain(|_| !rng.random_ratio(percent as u32, 100));
        let taken = (whole - of.events.len()) as f64;
        let (found, made) = of_text(&Form::Perf.text(&of));
        let off = (found.lost as f64 - taken).abs() / taken;
        prop_assert!(off <= 0.1 + 2.0 / taken, "{} lost of {taken}", found.lost);
        for (name, us) in &of.cpu_us {
            let made_ns = made.cpu_ns.get(name).copied().unwrap_or(0);
            prop_assert!(made_ns as f64 <= *us as f64 * 1020.0, "{name}: {made_ns} of {us} us");
        }
    }

    /// The first part of a CPU's events is overwritten.
    #[test]
    fn an_overwritten_buffer_is_charged_to_no_task(seed: u64, threads in 4usize..9, part in 0.1f64..0.9) {
        let mut of = truth(seed, 2, threads, 1000, false);
        let until = (of.events.len() as f64 * part) as usize;
        let mut at = 0;
        of.events.retain(|event| {
            at += 1;
            event.cpu == 0 || at > until
        });
        let (found, made) = of_text(&Form::Ftrace("d..2.", "dNh4.", false).text(&of));
        for (name, us) in &of.cpu_us {
            let made_ns = made.cpu_ns.get(name).copied().unwrap_or(0);
            prop_assert!(made_ns as f64 <= *us as f64 * 1020.0, "{name}: {made_ns} of {us} us");
        }
        let first = of.events.iter().find(|event| event.cpu == 1).unwrap();
        let busy = matches!(&first.what, What::Switch { prev, .. } if prev.tid != 0);
        if busy {
            prop_assert!(found.doubts.late.iter().any(|(cpu, _)| *cpu == 1));
            prop_assert!(part < 0.2 || found.check_whole().is_err());
        }
    }
}
