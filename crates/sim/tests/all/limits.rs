// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups have the CPU time of their `cpu.max`, and no more in any period.

use machine::find;
use sim::{Change, Fault, Scenario, run};

use crate::common::MS;
use crate::common::groups::{self, cpus, hogs, longest_wait_s, near};

/// One of each folder whose policies keep limits.
const POLICIES_OF_LIMITS: [&str; 4] = ["paceline", "min-fair", "dino", "avx-fair"];

/// Runs of this policy are checked: no period is exceeded by more than a tick for each CPU.
fn scenario(machine: &str, policy: &str, tasks: &str, groups: &str) -> Scenario {
    groups::scenario(find(machine).unwrap(), policy, tasks, groups)
}

#[test]
fn a_cgroup_has_its_quota_with_one_thread_and_with_many() {
    let sizes = [(10, 1), (10, 64), (50, 1), (50, 7), (150, 2), (150, 64)];
    for (percent, threads, policy) in sizes
        .iter()
        .flat_map(|(percent, threads)| POLICIES_OF_LIMITS.map(|it| (*percent, *threads, it)))
    {
        let max = format!(r#""/web": {{"max": "{} 100000"}}"#, percent * 1000);
        let own = cpus(&scenario("numa-2x4", policy, &hogs("web", threads, "/web"), &max));
        let of = format!("{policy}, {percent} %, {threads} threads");
        near(own["web"], f64::from(percent) / 100.0, &of);
    }
    let max = r#""/web": {"max": "10000 100000"}"#;
    let ignored = scenario("numa-2x4", "paceline:cgroups=ignore", &hogs("web", 7, "/web"), max);
    assert!(cpus(&ignored)["web"] > 6.9, "the control arm has no limit");
}

#[test]
fn a_cgroup_in_another_has_what_both_allow() {
    groups::inner_and_outer_limits_hold(&find("numa-2x4").unwrap(), "paceline");
}

/// A turn lasts a tick of 4 ms. Where all have one after the other, each waits for as long as the quota needs for the
/// turns of all. At first some have slept when others have run: they are up to two slices behind, and catch up in the
/// next period.
#[test]
fn threads_of_a_cgroup_take_turns() {
    for (percent, threads) in [(10, 7), (10, 64), (50, 64), (150, 64)] {
        let max = format!(r#""/web": {{"max": "{} 100000"}}"#, percent * 1000);
        let tasks = [
            hogs("web", threads, "/web"),
            r#""other": {"instance": 3, "run": 9, "loop": -1}"#.into(),
        ];
        let round_s = 0.004 * threads as f64 / (f64::from(percent) / 100.0);
        let wait_s = longest_wait_s(&scenario("numa-2x4", "paceline", &tasks.join(", "), &max));
        assert!(
            wait_s < 1.2 * round_s + 0.2,
            "{percent} %, {threads} threads: {wait_s} s, a round {round_s}"
        );
    }
}

#[test]
fn what_is_saved_up_can_be_had_in_a_burst() {
    groups::bursts_hold(&find("plain-2").unwrap(), "paceline");
}

/// Each thread has a thousandth of a CPU's 64th part: none would run for a minute.
#[test]
fn the_watchdog_sees_tasks_that_wait_for_their_limit_run() {
    let max = r#""/web": {"max": "1000 1000000"}"#;
    let long = |scenario: Scenario| {
        let workload = scenario.workload.clone();
        let duration_ns = Some(70_000 * MS);
        Scenario { workload: workload::Workload { duration_ns, ..workload }, ..scenario }
    };
    let scenario = long(scenario("plain-2", "paceline", &hogs("web", 64, "/web"), max));
    let outcome = run(&scenario).unwrap();
    let cpu_ns: u64 = outcome.observed.tasks.values().map(|task| task.cpu_ns).sum();
    assert!(cpu_ns < 300 * MS, "{cpu_ns} ns, and 70 ms are allowed");
}

#[test]
fn a_limit_that_changes_or_ends_frees_the_tasks_that_wait() {
    let mut scenario = scenario(
        "plain-2",
        "paceline",
        &hogs("web", 2, "/web"),
        r#""/web": {"max": "1000 1000000"}"#,
    );
    let at = |at_ms: u64, change| Fault { at_ns: at_ms * MS, change };
    scenario.faults = vec![at(5_000, Change::Quota(0, None))];
    let lifted = cpus(&scenario)["web"];
    assert!((0.95..1.05).contains(&(lifted / (2.0 * 4.9 / 9.8))), "{lifted} CPUs");
    scenario.faults = vec![at(5_000, Change::Cgroup(0, None))];
    let moved = cpus(&scenario)["web"];
    assert!((0.95..1.05).contains(&(moved / (4.9 / 9.8))), "{moved} CPUs");
}

/// The control plane looks ten times a second: between two looks, the data plane has to find the limit around the
/// cgroup.
#[test]
fn a_limit_holds_at_once_for_a_task_that_moves_to_a_cgroup_within() {
    let tasks = [hogs("web", 1, "/web"), hogs("mover", 1, "/other")].join(", ");
    let groups = r#""/web": {"max": "10000 100000"}, "/web/inner": {}, "/other": {}"#;
    for policy in POLICIES_OF_LIMITS {
        let mut scenario = scenario("plain-2", policy, &tasks, groups);
        let group = |path| scenario.workload.groups.iter().position(|it| it.path == path);
        let (inner, other) = (group("/web/inner"), group("/other"));
        let moves = |at_ms, group| Fault { at_ns: at_ms * MS, change: Change::Cgroup(1, group) };
        let short = (10..90).map(|at| [moves(100 * at + 10, inner), moves(100 * at + 90, other)]);
        scenario.faults = short.flatten().collect();
        let own_s = cpus(&scenario)["mover"] * 9.8;
        let within_s = own_s - (9.8 - 80.0 * 0.08);
        assert!(within_s < 1.2, "{policy}: {within_s} s of the limit's 0.8 and a tick each time");
    }
}
