// SPDX-License-Identifier: GPL-2.0-only
//! `record` on a real kernel: inside a guest, where a test may fill the disk and the kernel may refuse.

#[allow(dead_code)]
use crate::guest::{in_guest, in_guest_beside, in_guest_by, in_guest_that_waits};
use vm::Clock;

#[test]
fn what_was_recorded_is_kept_whatever_ends_it() {
    in_guest_that_waits(include_str!("scripts/kept-recordings.sh"));
}

/// cyclictest's threads are SCHED_FIFO, and report how late they were: at most 10 ms, or the test would show nothing.
/// The replay agrees within a millisecond, even under a policy that does not know real-time tasks.
#[test]
fn a_realtime_task_beside_hogs_waits_in_a_replay_as_it_did() {
    in_guest_by(Clock::Icount, 1, include_str!("scripts/realtime-replay.sh"));
}

/// The guide's commands that record with perf and with trace-cmd: their replay takes as long as the recorded run.
#[test]
fn recipes_of_the_guide_record_what_a_replay_needs() {
    const GUIDE: &str = include_str!("../../../../../docs/src/guides/record-and-replay.md");
    let recipe = |program: &str| {
        let lines: Vec<&str> =
            GUIDE.lines().skip_while(|line| !line.starts_with(program)).collect();
        let end = lines
            .iter()
            .position(|line| line.starts_with("paceline import"))
            .expect("it is imported");
        lines[..end].join("\n").replace("./job", "sh job")
    };
    let script = format!(
        "by_perf() {{\n{}\n}}\nby_trace_cmd() {{\n{}\n}}\n{}",
        recipe("perf record"),
        recipe("trace-cmd record"),
        include_str!("scripts/recipes.sh"),
    );
    in_guest_beside(&["perf", "trace-cmd"], &script);
}

/// Tasks are interrupted in the middle of calls, and of the hooks that write those down. An interrupt within another
/// one's hook may count as lost.
#[test]
fn no_call_is_missed_where_many_share_a_cpu() {
    in_guest(include_str!("scripts/calls-on-one-cpu.sh"));
}

/// In a container, or where tracefs is not mounted. The recorder's own mount is not visible to its command.
#[test]
fn tracepoints_are_found_where_tracefs_is_not_mounted() {
    in_guest_that_waits(include_str!("scripts/no-tracefs.sh"));
}

/// A replay is fitted to the scheduler in charge.
#[test]
fn a_recording_knows_the_scheduler_in_charge() {
    in_guest_that_waits(include_str!("scripts/made-under.sh"));
}

#[test]
fn a_name_commands_neither_page_nor_terminal() {
    in_guest_that_waits(include_str!("scripts/hostile-name.sh"));
}
