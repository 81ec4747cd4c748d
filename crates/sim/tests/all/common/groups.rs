// SPDX-License-Identifier: GPL-2.0-only
//! Tasks in cgroups, and the CPU time that they had.

use std::collections::BTreeMap;

use machine::Machine;
use sim::{Options, Scenario, run};

/// How long such a run lasts.
pub const SECONDS: f64 = 10.0;
/// Hogs begin when a policy knows their cgroups.
pub const DELAY_MS: u64 = 200;

/// Linux's own class, or a policy, which is held to its promises.
pub fn scenario(machine: Machine, policy: &str, tasks: &str, groups: &str) -> Scenario {
    let text = format!(
        r#"{{"global": {{"duration": {SECONDS}}}, "tasks": {{{tasks}}}, "taskgroups": {{{groups}}}}}"#
    );
    let workload = workload::rtapp::parse("groups", &text).unwrap();
    let scenario = Scenario::new(machine, workload, super::named(policy));
    Scenario { options: Options { check: true, ..scenario.options }, ..scenario }
}

pub fn hogs(name: &str, instances: usize, group: &str) -> String {
    format!(
        r#""{name}": {{"instance": {instances}, "run": 5000, "loop": -1, "delay": {}, "taskgroup": "{group}"}}"#,
        DELAY_MS * 1000
    )
}

/// CPU time of each kind of task since it began, in CPUs, by the name up to the first `-`.
pub fn cpus(scenario: &Scenario) -> BTreeMap<String, f64> {
    let outcome = run(scenario).unwrap();
    let mut cpus = BTreeMap::new();
    for (tid, task) in outcome.progress.keys().zip(&scenario.workload.tasks) {
        let name = task.name.split('-').next().unwrap();
        let cpu_s = outcome.observed.tasks[tid].cpu_ns as f64 / 1e9;
        *cpus.entry(name.to_string()).or_default() += cpu_s / (SECONDS - DELAY_MS as f64 / 1e3);
    }
    cpus
}

/// The longest wait for a CPU, in seconds.
pub fn longest_wait_s(scenario: &Scenario) -> f64 {
    let outcome = run(scenario).unwrap();
    let longest_ns = outcome.observed.tasks.values().map(|task| task.wait_max_ns).max().unwrap();
    longest_ns as f64 / 1e9
}

pub fn near(had: f64, quota: f64, of: &str) {
    assert!((had / quota - 1.0).abs() < 0.02, "{of}: {had} CPUs, not {quota}");
}

const WEIGHTS: [(&str, u32); 3] = [("x", 100), ("y", 200), ("z", 400)];

/// Three cgroups of weight 1:2:4 with three of 1:2:4 in each. In each of the nine so many hogs and a short task; in one
/// of them, if it is named, the short task alone. Returns the percentage of the CPU time that each of the nine had.
pub fn parts(machine: Machine, policy: &str, hogs: usize, sleepy: &str) -> BTreeMap<String, f64> {
    let (mut groups, mut tasks) = (Vec::new(), Vec::new());
    for (outer, weight) in WEIGHTS {
        groups.push(format!(r#""/{outer}": {{"weight": {weight}}}"#));
        for (inner, weight) in WEIGHTS {
            let of = format!(r#""taskgroup": "/{outer}/{inner}", "loop": -1"#);
            let name = format!("{outer}{inner}");
            groups.push(format!(r#""/{outer}/{inner}": {{"weight": {weight}}}"#));
            if name != sleepy {
                tasks.push(format!(r#""{name}-hog": {{"instance": {hogs}, "run": 10000, {of}}}"#));
            }
            tasks.push(format!(r#""{name}-short": {{"run": 500, "sleep": 9500, {of}}}"#));
        }
    }
    let mut parts = cpus(&scenario(machine, policy, &tasks.join(", "), &groups.join(", ")));
    let all: f64 = parts.values().sum();
    parts.values_mut().for_each(|part| *part *= 100.0 / all);
    parts
}

/// Each of the nine has what its weights say.
pub fn parts_follow_weights(parts: &BTreeMap<String, f64>) {
    let weight = |letter: &str| f64::from(1 << "xyz".find(letter).unwrap());
    for (name, part) in parts {
        let wanted = 100.0 * weight(&name[..1]) * weight(&name[1..]) / 49.0;
        assert!((part - wanted).abs() < 1.0, "{name}: {part} %, not {wanted}: {parts:?}");
    }
}

/// Each of the three has what its weight says, whatever there is in it.
pub fn outer_parts_follow_weights(parts: &BTreeMap<String, f64>) {
    for (letter, weight) in [("x", 1.0), ("y", 2.0), ("z", 4.0)] {
        let of = parts.iter().filter(|(name, _)| name.starts_with(letter));
        let (part, wanted) = (of.map(|(_, part)| part).sum::<f64>(), 100.0 * weight / 7.0);
        assert!((part - wanted).abs() < 1.0, "{letter}: {part} %, not {wanted}: {parts:?}");
    }
}

/// Cgroups with limits in one with a limit: each has what both allow.
pub fn inner_and_outer_limits_hold(machine: &Machine, policy: &str) {
    let tasks = [hogs("own", 2, "/web"), hogs("a", 3, "/web/a"), hogs("b", 3, "/web/b")].join(", ");
    let own = |outer: u32, a: u32, b: u32| {
        let limits = format!(
            r#""/web": {{"max": "{outer} 100000"}}, "/web/a": {{"max": "{a} 100000"}},
            "/web/b": {{"max": "{b} 10000"}}"#
        );
        cpus(&scenario(machine.clone(), policy, &tasks, &limits))
    };
    let wide = own(300_000, 50_000, 1_000);
    near(wide["a"], 0.5, "the first within");
    near(wide["b"], 0.1, "the second within");
    near(wide["own"], 2.0, "the outer's own, as many as there are threads");
    near(own(50_000, 50_000, 10_000).values().sum(), 0.5, "all of it");
}

/// A task that needs 18 ms every 200 ms, within 10 ms in 100: it waits unless it may save up time.
pub fn bursts_hold(machine: &Machine, policy: &str) {
    let task = format!(
        r#""web": {{"run": 18000, "sleep": 182000, "loop": -1, "delay": {}, "taskgroup": "/web"}}"#,
        DELAY_MS * 1000
    );
    let wait_s = |burst: u32| {
        let max = format!(r#""/web": {{"max": "10000 100000", "burst": {burst}}}"#);
        longest_wait_s(&scenario(machine.clone(), policy, &task, &max))
    };
    let (with, without) = (wait_s(10_000), wait_s(0));
    assert!(with < 0.001, "it waited for {with} s");
    assert!(without > 0.05, "without a burst for the next period, not {without} s");
}
