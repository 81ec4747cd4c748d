// SPDX-License-Identifier: GPL-2.0-only
//! Both classes at work on whole machines: shares, latency, and that no task is lost.

use machine::{Machine, find};
use trace::Outcome;
use workload::apps::{Apps, Ring};
use workload::hackbench::{Channel, Hackbench, Worker};
use workload::{Fair, Workload, mix, rtapp};

use crate::{Scenario, Scheduler, run};

const BOTH: [Scheduler; 2] = [Scheduler::Default, Scheduler::Cfs];

fn machine(name: &str) -> Machine {
    find(name).unwrap()
}

/// `numa-2x4` with its first `cpus` CPUs only.
fn small(cpus: usize) -> Machine {
    let mut machine = machine("numa-2x4");
    machine.cpus.truncate(cpus);
    machine
}

fn ran(machine: &Machine, workload: &Workload, scheduler: &Scheduler) -> Outcome {
    let scenario = Scenario::new(machine.clone(), workload.clone(), scheduler.clone());
    run(&scenario).unwrap_or_else(|error| panic!("{scheduler:?} on {}: {error}", machine.name))
}

fn json(text: &str) -> Workload {
    rtapp::parse("test.json", text).unwrap()
}

/// CPU seconds of tasks with names that begin with `name`.
fn cpu_s(outcome: &Outcome, name: &str) -> f64 {
    let named = outcome.names.iter().filter(|(_, known)| known.starts_with(name));
    named.map(|(tid, _)| outcome.observed.tasks[tid].cpu_ns as f64 / 1e9).sum()
}

#[test]
fn shares_of_one_cpu_follow_the_weights() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {
            "nice0": {"run": 5000}, "nice5": {"priority": 5, "run": 5000},
            "nice-5": {"priority": -5, "run": 5000}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let total = 1024.0 + 335.0 + 3121.0;
        for (name, weight) in [("nice0", 1024.0), ("nice5", 335.0), ("nice-5", 3121.0)] {
            let share = cpu_s(&outcome, name) / 2.0;
            let due = weight / total;
            assert!((share - due).abs() < 0.02, "{scheduler:?} {name}: {share} of {due}");
        }
    }
}

/// A task that goes on gets a new slice, and its end is checked like that of any other task. A guest with one CPU
/// switches 14,288 times in 10 s between two tasks that compute (Linux 7.2.12).
#[test]
fn turns_end_with_their_slices_when_the_same_task_goes_on() {
    for others in [1, 2] {
        let workload = json(&format!(
            r#"{{"global": {{"duration": 4}}, "tasks": {{
                "one": {{"run": 100000}}, "others": {{"instance": {others}, "run": 100000}}}}}}"#
        ));
        let outcome = ran(&machine("icount-1"), &workload, &Scheduler::Default);
        let switches = outcome.observed.context_switches;
        assert!(switches.abs_diff(5_715) < 100, "{others} others: {switches} in 4 s");
    }
}

/// Creating its threads takes longer than the workload lasts.
#[test]
fn a_workload_lasts_from_its_start() {
    let workload = json(
        r#"{"global": {"duration": 0.005}, "tasks": {
            "many": {"instance": 500, "run": 1000, "sleep": 1000}}}"#,
    );
    let outcome = ran(&small(4), &workload, &Scheduler::Default);
    let busy_ns: u64 = outcome.observed.tasks.values().map(|task| task.cpu_ns).sum();
    assert!(busy_ns > 15_000_000, "4 CPUs worked for {busy_ns} ns of 5 ms each");
}

/// rt-app's delay counts from the start of the workload, whichever task forks this one, and whenever.
#[test]
fn a_delay_counts_from_the_start() {
    let workload = json(
        r#"{"tasks": {
            "parent": {"loop": 1, "run": 500000, "fork": "child"},
            "child": {"loop": 1, "delay": 1000000, "run": 10000}}}"#,
    );
    let outcome = ran(&small(2), &workload, &Scheduler::Default);
    let took_s = outcome.elapsed_ns as f64 / 1e9;
    assert!((took_s - 1.01).abs() < 0.01, "{took_s}");
}

#[test]
fn as_many_burners_as_cpus_have_one_each() {
    // one task starts them one after another: little time beside so much work
    let work_ns = 500_000_000;
    for scheduler in &BOTH {
        for (machine, cpus) in [(machine("numa-2x4"), 8), (machine("xeon-phi-31s1p"), 228)] {
            let one = ran(&machine, &mix::burners(1, work_ns), scheduler).elapsed_ns as f64;
            let all = ran(&machine, &mix::burners(cpus, work_ns), scheduler).elapsed_ns as f64;
            let threads = machine.costs.smt_rate(cpus / 57);
            let ideal = one / threads;
            assert!(all < 1.3 * ideal, "{scheduler:?} on {}: {all} of {ideal}", machine.name);
        }
    }
}

#[test]
fn twice_as_many_burners_as_cpus_share_them_evenly() {
    for scheduler in &BOTH {
        let outcome = ran(&machine("numa-2x4"), &mix::burners(16, 300_000_000), scheduler);
        let ideal_ns = 2.0 * 300e6;
        let ratio = outcome.elapsed_ns as f64 / ideal_ns;
        assert!(ratio < 1.25, "{scheduler:?}: {ratio}");
    }
}

#[test]
fn a_periodic_task_is_served_soon_beside_hogs() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {"hog": {"instance": 4, "run": 100000},
            "beat": {"run": 300, "timer": {"ref": "unique", "period": 50000, "mode": "absolute"}}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let due_s = 40.0 * 0.0003;
        assert!(
            cpu_s(&outcome, "beat") > 0.9 * due_s,
            "{scheduler:?}: {}",
            cpu_s(&outcome, "beat")
        );
        let beat = outcome.names.iter().find(|(_, name)| *name == "beat").unwrap().0;
        let worst_ms = outcome.observed.tasks[beat].wait_max_ns as f64 / 1e6;
        // Four hogs, each for at most a minimal slice, and the tick's coarseness.
        assert!(worst_ms < 25.0, "{scheduler:?}: {worst_ms} ms");
    }
}

#[test]
fn storm_loses_no_task() {
    for scheduler in &BOTH {
        for (name, groups) in [("numa-2x4", 3), ("xeon-e5-2699", 2), ("xeon-phi-31s1p", 3)] {
            for (channel, worker) in
                [(Channel::Pipe, Worker::Process), (Channel::Socket, Worker::Thread)]
            {
                let storm = Hackbench { groups, loops: 5, channel, worker, ..Hackbench::default() };
                let outcome = ran(&machine(name), &storm.build(), scheduler);
                assert_eq!(outcome.names.len(), 40 * groups + 1);
            }
        }
    }
}

#[test]
fn one_seed_gives_one_result() {
    let storm = Hackbench { groups: 2, loops: 10, ..Hackbench::default() }.build();
    for scheduler in &BOTH {
        let scenario = Scenario::new(machine("numa-2x4"), storm.clone(), scheduler.clone()).seed(7);
        let text = |outcome: Outcome| format!("{outcome:?}");
        assert_eq!(text(run(&scenario).unwrap()), text(run(&scenario).unwrap()));
    }
}

#[test]
fn affinity_is_kept() {
    let workload = json(
        r#"{"global": {"duration": 1}, "tasks": {
            "pinned": {"instance": 3, "cpus": [2], "run": 2000},
            "pair": {"instance": 4, "cpus": [5, 6], "run": 2000, "sleep": 300},
            "free": {"instance": 6, "run": 2000, "sleep": 100}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&machine("numa-2x4"), &workload, scheduler);
        assert!(cpu_s(&outcome, "pinned") <= 1.0);
        assert!(cpu_s(&outcome, "pair") <= 2.0 && cpu_s(&outcome, "pair") > 1.5, "{scheduler:?}");
    }
}

#[test]
fn yielding_lets_the_other_run() {
    let workload = json(
        r#"{"global": {"duration": 1}, "tasks": {"polite": {"run": 100, "yield": ""},
            "hog": {"run": 100000}}}"#,
    );
    for scheduler in &BOTH {
        let outcome = ran(&small(1), &workload, scheduler);
        let share = cpu_s(&outcome, "hog");
        assert!(share > 0.4, "{scheduler:?}: {share}");
    }
}

/// Events of a workload on a machine, under EEVDF; all tasks start together.
fn events(machine: Machine, text: &str) -> Vec<trace::Event> {
    let mut scenario = Scenario::new(machine, json(text), Scheduler::Default);
    scenario.options.record.events = true;
    scenario.options.together = true;
    crate::run_traced(&scenario).unwrap().events
}

/// Length of each turn on a CPU that ended with its task still runnable, ns.
fn cut_short(events: &[trace::Event]) -> Vec<u64> {
    let mut since = std::collections::BTreeMap::new();
    let mut lengths = Vec::new();
    for event in events {
        let trace::Kind::Switch { prev_runnable, .. } = event.kind else { continue };
        let began = since.insert(event.cpu, event.t_ns);
        lengths.extend(began.filter(|_| prev_runnable).map(|began| event.t_ns - began));
    }
    lengths
}

/// How long a task waited for its CPU after each wakeup, ns.
fn waits(events: &[trace::Event], task: trace::Tid) -> Vec<u64> {
    let mut woken = None;
    let mut waits = Vec::new();
    for event in events {
        match event.kind {
            trace::Kind::Wake { tid, .. } if tid == task => woken = Some(event.t_ns),
            trace::Kind::Switch { next, .. } if next == task => {
                waits.extend(woken.take().map(|since| event.t_ns - since));
            }
            _ => {}
        }
    }
    waits
}

const FOUR_HOGS: &str = r#"{"global": {"duration": 1}, "tasks": {
    "a": {"cpus": [0], "instance": 2, "run": 50000},
    "b": {"cpus": [1], "instance": 2, "run": 50000}}}"#;

/// `hrtick_start_fair`: a slice ends when it is used up. If CPUs take turns (QEMU under icount), it ends when the CPU's
/// own turn comes after that.
#[test]
fn a_slice_ends_in_its_cpus_turn() {
    let late = |name: &str| {
        let slices = cut_short(&events(machine(name), FOUR_HOGS));
        let mut whole: Vec<u64> = slices.into_iter().filter(|ns| *ns >= 2_800_000).collect();
        assert!(whole.len() > 300, "{name}: {} slices", whole.len());
        whole.sort();
        whole[whole.len() / 2] - 2_800_000
    };
    assert!(late("numa-2x4") < 5_000, "{}", late("numa-2x4"));
    // Two of eight CPUs are busy, so a turn of 10 us of the other comes in between half of the time.
    let in_turns = late("icount-2x4");
    assert!((500..30_000).contains(&in_turns), "{in_turns}");
}

/// `wakeup_preempt_fair`: the runqueue's clock stands between a task's enqueue and the preemption check. So a task that
/// runs alone and has outlived its protection is not preempted. It goes when its request ends.
#[test]
fn a_wakeup_does_not_cut_a_request_short() {
    let events = events(
        machine("numa-2x4"),
        r#"{"global": {"duration": 1}, "tasks": {
            "hog": {"cpus": [0], "run": 50000},
            "beat": {"cpus": [0], "run": 100, "timer": {"ref": "unique", "period": 20000}}}}"#,
    );
    let waits = waits(&events, 2);
    // The timer falls anywhere in a request of the hog: some waits last for most of it.
    let longest = waits.iter().copied().max().unwrap_or(0);
    assert!((1_000_000..2_900_000).contains(&longest), "{longest} of {waits:?}");
}

/// `resched_curr_lazy`: a task that must give way to a task woken by another CPU does so on its way out of the kernel,
/// without an interrupt, and long before its slice or its tick ends.
#[test]
fn task_in_system_calls_yields_to_a_task_woken_from_another_cpu() {
    let events = events(
        machine("numa-2x4"),
        r#"{"global": {"duration": 2}, "tasks": {
            "calls": {"cpus": [0], "instance": 3, "run": 20, "iorun": 100},
            "woken": {"cpus": [0], "suspend": "here", "run": 100},
            "wakes": {"cpus": [1], "run": 100, "resume": "here", "timer": {"ref": "unique", "period": 9000}}}}"#,
    );
    let waits = waits(&events, 4);
    let soon = waits.iter().filter(|ns| **ns < 100_000).count();
    assert!(waits.len() > 150 && 2 * soon > waits.len(), "{soon} of {}: {waits:?}", waits.len());
}

/// Tasks that pass a token round on CPU 0.
fn token_ring(tasks: usize, fair: Fair) -> Workload {
    let apps = Apps::embedded().with("ring.touch_us", 0.1).unwrap();
    let mut workload = apps.ring(Ring::Threads, tasks, 0);
    for task in &mut workload.tasks {
        task.fair = fair;
        task.hw = None;
    }
    workload
}

#[test]
fn waking_batch_tasks_preempt_no_task() {
    let involuntary = |fair: Fair| {
        let outcome = ran(&small(1), &token_ring(5, fair), &Scheduler::Default);
        outcome.observed.involuntary_switches
    };
    assert!(involuntary(Fair::Normal) > 500, "{}", involuntary(Fair::Normal));
    // A tick may end a slice.
    assert!(involuntary(Fair::Batch) < 20, "{}", involuntary(Fair::Batch));
}

#[test]
fn delayed_sleeps_cost_what_the_machine_says() {
    let elapsed_ns = |delayed: &[(&str, f64)]| {
        let mut machine = small(1);
        machine.delayed = delayed.iter().map(|(name, it)| ((*name).to_string(), *it)).collect();
        ran(&machine, &token_ring(2, Fair::Batch), &Scheduler::Default).elapsed_ns
    };
    let usual_ns = elapsed_ns(&[]);
    let paths = machine::Paths::embedded();
    let length = |name| paths.get(paths.id(name)).instructions;
    let both = ["enqueue_task_fair", "dequeue_task_fair"];
    let same = both.map(|name| (name, length(name)));
    let same_ns = elapsed_ns(&same);
    // A delayed dequeue has no work left then.
    assert!(same_ns <= usual_ns && same_ns > usual_ns * 9 / 10, "{same_ns} of {usual_ns}");
    assert!(elapsed_ns(&both.map(|name| (name, 3000.0))) > usual_ns * 5 / 4);
    assert!(elapsed_ns(&both.map(|name| (name, 10.0))) < usual_ns * 9 / 10);
}

#[test]
fn an_unknown_number_is_not_made_up() {
    let mut machine = small(2);
    machine.unknown.insert("line_remote_ns", "no such pair".into());
    ran(&machine, &token_ring(2, Fair::Normal), &Scheduler::Default);
    machine.unknown.insert("syscall_ns", "not tried".into());
    let scenario = Scenario::new(machine, token_ring(2, Fair::Normal), Scheduler::Default);
    let error = run(&scenario).unwrap_err().to_string();
    assert!(error.contains("syscall_ns of machine numa-2x4 is unknown (not tried)"), "{error}");
}

/// When tasks started on a CPU, and on which.
fn went(events: &[trace::Event], named: std::ops::RangeInclusive<trace::Tid>) -> Vec<(u64, u32)> {
    let came = |event: &trace::Event| match event.kind {
        trace::Kind::Switch { next, .. } if named.contains(&next) => Some((event.t_ns, event.cpu)),
        _ => None,
    };
    events.iter().filter_map(came).collect()
}

/// `update_pick_idlest`: of equally idle CPUs the one with the least utilisation, so not the first each time.
#[test]
fn children_forked_in_sequence_go_round_the_cpus() {
    let phase = |child: usize| {
        format!(r#""p{child}": {{"loop": 1, "run": 2000, "fork": "c{child}", "sleep": 4000}}"#)
    };
    let phases: Vec<String> = (0..12).map(phase).collect();
    let child = |child: usize| format!(r#""c{child}": {{"loop": 1, "run": 1000}}"#);
    let children: Vec<String> = (0..12).map(child).collect();
    let text = format!(
        r#"{{"tasks": {{"parent": {{"loop": 1, "phases": {{{}}}}}, {}}}}}"#,
        phases.join(", "),
        children.join(", ")
    );
    let events = events(machine("die-8"), &text);
    let cpus: std::collections::BTreeSet<u32> =
        went(&events, 2..=13).into_iter().map(|(_, cpu)| cpu).collect();
    assert!(cpus.len() >= 6, "{cpus:?}");
}

/// Tasks that run on CPUs of their own for 12 ms of work, and then on any CPU.
fn burners_from(cpus: &[&str]) -> String {
    let one = |(number, cpus): (usize, &&str)| {
        format!(
            r#""t{number}": {{"loop": 1, "phases": {{"first": {{"loop": 1, "cpus": {cpus}, "run": 12000}},
                "then": {{"loop": 1, "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "run": 200000}}}}}}"#
        )
    };
    let tasks: Vec<String> = cpus.iter().enumerate().map(one).collect();
    format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(", "))
}

/// SD_PREFER_SIBLING of a node's own domain: five tasks on one node and three on the other are uneven.
#[test]
fn idle_cpu_of_another_node_pulls_a_waiting_task() {
    let first = ["[0, 1, 2, 3]"; 5].into_iter().chain(["[4]", "[5]", "[6]"]);
    let events = events(machine("numa-2x4"), &burners_from(&first.collect::<Vec<_>>()));
    let last = events.iter().filter(|event| event.cpu == 7 && event.t_ns > 16_000_000);
    let busy_ns = last.map(|event| event.t_ns).next();
    assert!(busy_ns.is_some_and(|ns| ns < 60_000_000), "CPU 7 came by work at {busy_ns:?} ns");
}

/// `detach_task` and `attach_task`: a pulled task is dequeued and enqueued like any other.
#[test]
fn pulled_task_costs_an_activation_like_a_woken_one() {
    let scenario =
        Scenario::new(small(2), json(&burners_from(&["[0]", "[0]"])), Scheduler::Default);
    let outcome = run(&scenario).unwrap();
    let calls = |name: &str| outcome.functions[name].count;
    assert_eq!(calls("activate_task") - calls("ttwu_do_activate"), 1);
}

/// `active_load_balance_cpu_stop`: no task waits, so the stopper moves the running one.
#[test]
fn running_task_is_pushed_to_the_emptier_node_in_the_end() {
    let text = burners_from(&["[0]", "[1]", "[2]", "[4]"]);
    let events = events(machine("numa-2x4"), &text);
    let other_node = went(&events, 1..=3).into_iter().find(|(_, cpu)| *cpu >= 4);
    assert!(other_node.is_some_and(|(t_ns, _)| t_ns < 150_000_000), "{other_node:?}");
    let cut = |event: &&trace::Event| match event.kind {
        trace::Kind::Switch { prev_runnable, .. } => prev_runnable && event.t_ns > 20_000_000,
        _ => false,
    };
    assert_eq!(events.iter().filter(cut).count(), 1, "and no other task");
}

/// The part of the CPU time of tasks with names that begin with `name` that was on the fastest kind of core.
fn on_fast_cores(outcome: &Outcome, name: &str) -> f64 {
    let named = outcome.names.iter().filter(|(_, known)| known.starts_with(name));
    let on = |kind: fn(usize) -> bool| -> u64 {
        let tids = named.clone().map(|(tid, _)| &outcome.observed.tasks[tid].kind_ns);
        tids.flat_map(|kinds| kinds.iter().enumerate())
            .filter(|(at, _)| kind(*at))
            .map(|(_, ns)| ns)
            .sum()
    };
    on(|kind| kind == 0) as f64 / on(|_| true) as f64
}

/// Misfit migration: `active_load_balance_cpu_stop` within some tens of milliseconds.
#[test]
fn tasks_that_need_more_than_a_slow_core_move_to_idle_fast_ones() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {
            "hog": {"instance": 2, "loop": -1, "run": 10000, "cpus": [0, 1, 2, 3, 4, 5, 6, 7]}}}"#,
    );
    for name in ["odroid-xu3", "tensor-g1", "arm-2x12"] {
        let part = on_fast_cores(&ran(&machine(name), &workload, &Scheduler::Default), "hog");
        assert!(part > 0.9, "{name}: {part}");
    }
    let mut hidden = machine("odroid-xu3");
    hidden.capacities = machine::Capacities::Hidden;
    let part = on_fast_cores(&ran(&hidden, &workload, &Scheduler::Default), "hog");
    assert!(part < 0.9, "a kernel that takes all cores to be alike: {part}");
}

#[test]
fn short_tasks_stay_on_slow_cores_while_hogs_have_the_fast_ones() {
    let workload = json(
        r#"{"global": {"duration": 2}, "tasks": {
            "hog": {"instance": 4, "loop": -1, "run": 10000},
            "short": {"instance": 4, "loop": -1, "run": 200,
                      "timer": {"ref": "unique", "period": 10000}}}}"#,
    );
    let outcome = ran(&machine("odroid-xu3"), &workload, &Scheduler::Default);
    let (hogs, short) = (on_fast_cores(&outcome, "hog"), on_fast_cores(&outcome, "short"));
    assert!(hogs > 0.9 && short < 0.1, "{hogs} {short}");
}
