// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own class of today keeps `cpu.weight`, `cpu.idle` and `cpu.max` of cgroups, on each level.

use sim::{Change, Fault, Scenario};

use crate::common::groups::{
    self, DELAY_MS, SECONDS, cpus, hogs, near, outer_parts_follow_weights, parts,
    parts_follow_weights,
};
use crate::common::{MS, cores};

fn scenario(cpus: usize, tasks: &str, groups: &str) -> Scenario {
    groups::scenario(cores(cpus), "default", tasks, groups)
}

#[test]
fn cgroups_get_their_parts_on_each_level() {
    for cpus in [1, 2, 8] {
        parts_follow_weights(&parts(cores(cpus), "default", cpus, ""));
    }
}

#[test]
fn what_a_cgroup_leaves_goes_to_those_beside_it() {
    let own = parts(cores(1), "default", 2, "yy");
    outer_parts_follow_weights(&own);
    near(own["yz"] / own["yx"], 4.0, "the two beside it");
}

/// A cgroup's part does not depend on how many threads it has.
#[test]
fn one_thread_has_as_much_as_the_many_beside_it() {
    let tasks = [hogs("one", 1, "/one"), hogs("many", 15, "/many")].join(", ");
    let own = cpus(&scenario(1, &tasks, ""));
    near(own["one"], 0.5, "the thread alone");
    near(own["many"], 0.5, "the threads of the other");
}

#[test]
fn an_idle_cgroup_has_what_is_left() {
    let tasks = [hogs("idle", 3, "/idle/deep"), hogs("hog", 1, "/busy")].join(", ");
    let groups = r#""/idle": {"idle": true}"#;
    let own = cpus(&scenario(1, &tasks, groups));
    assert!(own["idle"] < 0.01, "{own:?}");
    let own = cpus(&scenario(2, &tasks, groups));
    assert!(own["hog"] > 0.99 && own["idle"] > 0.97, "{own:?}");
}

/// A task of another cgroup preempts one of an idle cgroup at once.
#[test]
fn woken_task_does_not_wait_for_an_idle_cgroup() {
    let wait_s = |idle: bool| {
        let short = r#""short": {"run": 500, "sleep": 9500, "loop": -1, "taskgroup": "/busy"}"#;
        let tasks = format!("{}, {short}", hogs("idle", 3, "/idle"));
        let scenario = scenario(1, &tasks, &format!(r#""/idle": {{"idle": {idle}}}"#));
        let outcome = sim::run(&scenario).unwrap();
        let at = scenario.workload.tasks.iter().position(|task| task.name.starts_with("short"));
        outcome.observed.tasks[&(at.unwrap() as u32 + 1)].wait_max_ns as f64 / 1e9
    };
    let (idle, not) = (wait_s(true), wait_s(false));
    assert!(idle < 0.001 && idle < not, "{idle} s, and {not} s beside a cgroup that is not idle");
}

/// At the end each CPU may be a tick in debt.
#[test]
fn a_cgroup_has_its_quota_with_one_thread_and_with_many() {
    for percent in [10, 50, 150] {
        for threads in [1, 7, 64] {
            let max = format!(r#""/web": {{"max": "{} 100000"}}"#, percent * 1000);
            let own = cpus(&scenario(4, &hogs("web", threads, "/web"), &max));
            let quota = (f64::from(percent) / 100.0).min(threads as f64);
            near(own["web"], quota, &format!("{percent} %, {threads} threads"));
        }
    }
}

#[test]
fn a_cgroup_in_another_has_what_both_allow() {
    groups::inner_and_outer_limits_hold(&cores(8), "default");
}

#[test]
fn what_is_saved_up_can_be_had_in_a_burst() {
    groups::bursts_hold(&cores(2), "default");
}

/// CPU time of threads that had a hundredth of a CPU until `at_ms`, in CPUs.
fn changed(at_ms: u64, change: Change) -> f64 {
    let max = r#""/web": {"max": "10000 1000000"}"#;
    let mut scenario = scenario(2, &hogs("web", 2, "/web"), max);
    scenario.faults = vec![Fault { at_ns: at_ms * MS, change }];
    cpus(&scenario)["web"]
}

#[test]
fn a_limit_that_changes_or_ends_holds_from_then_on() {
    let counted_s = SECONDS - DELAY_MS as f64 / 1e3;
    let mean = |then: f64| (4.8 * 0.01 + 5.0 * then) / counted_s;
    near(changed(5_000, Change::Quota(0, None)), mean(2.0), "without a limit");
    let higher = policy::Quota { quota_ns: 50 * MS, period_ns: 100 * MS, burst_ns: 0 };
    near(changed(5_000, Change::Quota(0, Some(higher))), mean(0.5), "with a higher one");
    let mut lowered = scenario(2, &hogs("web", 2, "/web"), r#""/web": {"max": "150000 100000"}"#);
    lowered.faults = vec![Fault { at_ns: 5_000 * MS, change: Change::Quota(0, Some(higher)) }];
    near(cpus(&lowered)["web"], (4.8 * 1.5 + 5.0 * 0.5) / counted_s, "with a lower one");
}

/// One of the two waits when it is moved, or both would run soon.
#[test]
fn a_task_that_leaves_its_cgroup_leaves_its_limit() {
    let counted_s = SECONDS - DELAY_MS as f64 / 1e3;
    // In the middle of a period, when it waits for the next one.
    let moved = changed(5_500, Change::Cgroup(0, None));
    near(moved, (9.8 * 0.01 + 4.5) / counted_s, "one of the two has left");
}

/// It runs alone on its CPU, where no other task would make it give way.
#[test]
fn a_running_task_that_comes_to_a_cgroup_without_time_waits() {
    let counted_s = SECONDS - DELAY_MS as f64 / 1e3;
    let tasks = [hogs("web", 2, "/web"), hogs("root", 1, "/other")].join(", ");
    let max = r#""/web": {"max": "10000 1000000"}"#;
    let mut scenario = scenario(3, &tasks, max);
    let web = scenario.workload.groups.iter().position(|group| group.path == "/web");
    scenario.faults = vec![Fault { at_ns: 5_500 * MS, change: Change::Cgroup(2, web) }];
    let own = cpus(&scenario);
    near(own["web"] + own["root"], (9.8 * 0.01 + 5.3) / counted_s, "all three");
}
