// SPDX-License-Identifier: GPL-2.0-only
//! `serve` and its clients, on a real kernel.

use std::time::Duration;

use vm::{Clock, Request, Shape};

use crate::guest::{in_guest, in_guest_beside, in_guest_by, package, request, run};

/// Begins the service, for a script.
const SERVING: &str = include_str!("scripts/serving.sh");

#[test]
fn the_service_follows_its_ladder_and_does_what_it_is_asked() {
    in_guest_beside(&["socat"], &format!("{SERVING}\n{}", include_str!("scripts/service.sh")));
}

#[test]
fn metrics_tell_what_tasks_of_each_cgroup_had_and_waited_for() {
    in_guest_beside(&["socat"], &format!("{SERVING}\n{}", include_str!("scripts/metrics.sh")));
}

/// On a clock of instructions: an emulator's own slowness is no wait.
#[test]
#[ignore = "night: eight CPUs in turn; single switches are in the test of the service"]
fn switches_under_load_hold_up_no_task() {
    let script = format!("{SERVING}\n{}", include_str!("scripts/switches.sh"));
    in_guest_by(Clock::Parallel, 8, &script);
}

#[test]
#[ignore = "night: as in the test of the service, twenty times"]
fn a_policy_that_fails_makes_room_for_the_one_before() {
    let script = include_str!("scripts/failing-switches.sh");
    in_guest(&format!("FAILURES=20\n{SERVING}\n{script}"));
}

/// On a clock of instructions: what the service takes is counted, and idle minutes pass at once.
#[test]
#[ignore = "night: hours of the guest's time"]
fn a_service_that_switches_all_the_time_keeps_its_memory() {
    counted(&format!("MINUTES=150\n{SERVING}\n{}", include_str!("scripts/churn.sh")));
}

/// On the same clock: a scrape's work, at an instruction a nanosecond.
#[test]
#[ignore = "night: a thousand cgroups"]
fn a_scrape_of_a_thousand_cgroups_is_soon_over() {
    counted(&format!("{SERVING}\n{}", include_str!("scripts/scrape.sh")));
}

/// Runs a script with the command of the packages, which is smaller and faster than that of tests, in a guest with one
/// CPU and a clock of instructions.
fn counted(script: &str) {
    let command = package::command();
    let command = command.to_str().expect("its name is text");
    let shape = Shape { cpus: 1, ..Shape::default() };
    let limit = Duration::from_secs(24 * 3600);
    let request = Request { shape, clock: Clock::Icount, limit, ..request() };
    run(request, &["socat", command], 1, &format!("P={command}\n{script}"));
}
