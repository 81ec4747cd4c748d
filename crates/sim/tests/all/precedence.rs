// SPDX-License-Identifier: GPL-2.0-only
//! Where mechanisms of the composed policy disagree, the one that its README names goes first. Promises are checked
//! meanwhile: affinity, work that waits while a CPU idles, and the bound on waits.

use std::collections::BTreeMap;

use machine::find;
use sim::{Options, Record, Scenario, Traced, run_traced};
use workload::{Step, Task, Workload};

use crate::common::{devils, named};

const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: u64 = 20;

/// Tasks that never wait, `threads` for each process.
fn hogs(count: usize, threads: usize) -> Vec<Task> {
    let task = |at: usize| Task {
        name: format!("hog-{at}"),
        process: 1 + at / threads,
        steps: vec![Step::Run { work_ns: 1000 * SECOND_NS }],
        ..Task::default()
    };
    (0..count).map(task).collect()
}

fn ran(machine: &str, tasks: Vec<Task>, policy: &str) -> Traced {
    let workload =
        Workload { tasks, duration_ns: Some(SECONDS * SECOND_NS), ..Workload::default() };
    let mut scenario = Scenario::new(find(machine).unwrap(), workload, named(policy));
    let record = Record { events: true, ..Record::default() };
    scenario.options = Options { check: true, record, ..scenario.options };
    run_traced(&scenario).unwrap()
}

/// Each task's time on each CPU in the second half of the run, ns.
fn second_half(traced: &Traced, cpus: usize) -> BTreeMap<u32, Vec<u64>> {
    let elapsed_ns = traced.outcome.elapsed_ns;
    let mut had = BTreeMap::new();
    for one in trace::intervals(&traced.events, elapsed_ns) {
        let of = had.entry(one.tid).or_insert_with(|| vec![0; cpus]);
        of[one.cpu as usize] += one.to_ns.saturating_sub(one.from_ns.max(elapsed_ns / 2));
    }
    had.retain(|tid, _| traced.outcome.progress.contains_key(tid));
    had
}

/// Each task may use one core of each domain; for two thirds of them one core is fast and one slow. No task loses by
/// what domain and kind would have it do.
#[test]
fn affinity_goes_over_domain_and_kind() {
    let mut tasks = devils(24);
    let masks: Vec<Vec<usize>> = (0..24).map(|at| vec![at, 23 - at]).collect();
    for (task, mask) in tasks.iter_mut().zip(&masks) {
        task.cpus = Some(mask.clone());
    }
    let traced = ran("arm-2x12", tasks, "paceline");
    for (had, mask) in second_half(&traced, 24).values().zip(&masks) {
        assert!(had.iter().sum::<u64>() > 9 * SECOND_NS, "{mask:?}: {had:?}");
    }
}

/// The part of each task's time in the domain that has most of it, and the part on fast cores.
fn in_a_domain_and_fast(policy: &str) -> Vec<[f64; 2]> {
    let traced = ran("arm-2x12", devils(24), policy);
    let parts = second_half(&traced, 24).into_values().map(|had| {
        let all = had.iter().sum::<u64>() as f64;
        let domain = had[..12].iter().sum::<u64>().max(had[12..].iter().sum());
        let fast: u64 = had[..4].iter().chain(&had[12..16]).sum();
        [domain, fast].map(|ns| ns as f64 / all)
    });
    parts.collect()
}

#[test]
fn tasks_are_exchanged_between_kinds_within_their_domain() {
    let least =
        |parts: &[[f64; 2]], at: usize| parts.iter().map(|part| part[at]).fold(1.0, f64::min);
    let on = in_a_domain_and_fast("paceline:trial=0s");
    assert!(least(&on, 0) > 0.95 && least(&on, 1) > 0.08, "{on:?}");
    let everywhere = in_a_domain_and_fast("paceline:trial=0s,place=off");
    assert!(least(&everywhere, 0) < 0.8, "without domains: {everywhere:?}");
    let anyhow = in_a_domain_and_fast("paceline:trial=0s,share=off");
    assert!(least(&anyhow, 1) < 0.02, "without kinds: {anyhow:?}");
}

#[test]
fn a_kind_goes_over_the_address_space() {
    let of = |policy: &str| {
        let traced = ran("phenom-2f4s", hogs(12, 4), policy);
        let fast = second_half(&traced, 6).into_values().map(|had| {
            let fast = had[..2].iter().sum::<u64>() as f64;
            fast / had.iter().sum::<u64>() as f64
        });
        (fast.collect::<Vec<_>>(), traced.outcome.observed.address_space_switches)
    };
    let (on, few) = of("paceline:order=on,target=1,trial=0s");
    let (_, many) = of("paceline:order=off,target=1,trial=0s");
    assert!(10 * few < 9 * many, "{few} changes of the address space, {many} without");
    assert!(on.iter().all(|fast| (fast - 1.0 / 3.0).abs() < 0.05), "on fast cores: {on:?}");
}

/// One thread beside seven siblings on one CPU.
#[test]
fn fairness_goes_over_the_address_space() {
    let of = |policy: &str| {
        let mut tasks = hogs(8, 7);
        tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
        let observed = ran("plain-2", tasks, policy).outcome.observed;
        let cpu_s = observed.tasks.values().map(|task| task.cpu_ns as f64 / 1e9);
        let had: Vec<f64> = cpu_s.filter(|cpu_s| *cpu_s > 0.01).collect();
        (had, observed.address_space_switches)
    };
    let (on, few) = of("paceline:order=on");
    let (_, many) = of("paceline:order=off");
    assert!(few < many, "{few} changes of the address space, {many} without");
    let even = SECONDS as f64 / 8.0;
    assert!(on.len() == 8 && on.iter().all(|had| (had / even - 1.0).abs() < 0.02), "{on:?}");
}

/// 23 threads on four domains of four CPUs: no domain has as many as it has CPUs.
#[test]
fn fairness_goes_over_the_domain() {
    let traced = ran("opteron-8356", devils(23), "paceline");
    assert!(!traced.outcome.placed.is_empty());
    let even = 16.0 * (SECONDS * SECOND_NS) as f64 / 2.0 / 23.0;
    for had in second_half(&traced, 16).values() {
        let part = had.iter().sum::<u64>() as f64 / even;
        assert!((part - 1.0).abs() < 0.1, "{part} of an even part: {had:?}");
    }
}
