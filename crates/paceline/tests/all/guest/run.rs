// SPDX-License-Identifier: GPL-2.0-only
//! `run`, and `compare --on here`, on a real kernel: inside a guest, where a comparison runs them.

use policies::{BUILDS, POLICIES};
use policy::{Policy, Trials};
use vm::{Clock, Shape};

use crate::guest::{
    in_guest, in_guest_beside, in_guest_by, in_guest_of, in_guest_shaped, in_guest_that_waits,
    in_guest_with, names, oldest,
};

#[test]
fn top_shows_what_runs_under_any_scheduler() {
    let script = include_str!("scripts/top.sh");
    in_guest_beside(&["socat", "setpriv"], &format!("policy=cas\n{script}"));
}

/// A guest with memory nodes.
fn in_guest_with_nodes(cpus: usize, nodes: usize, script: &str) {
    in_guest_shaped(Shape { cpus, nodes, ..Shape::default() }, Clock::Threads, script);
}

/// One run of a fault of `repro live` under each policy, which has to survive it.
fn survives(cpus: usize, fault: &str, policies: &str) {
    in_guest_of(cpus, &survived(fault, policies));
}

fn survived(fault: &str, policies: &str) -> String {
    let each = include_str!("../../../../../faults/each.sh");
    format!(
        "fault() {{\n{fault}\n}}\nPOLICIES='{policies}'\n{{\n{each}\n}} >/tmp/said\n\
         grep -m 1 ^lost /tmp/said && exit 1\n\
         set -- $POLICIES; [ $(grep -c '^survived ' /tmp/said) = $# ] || fail \"of $# policies: $(cat /tmp/said)\""
    )
}

/// The variants of all policies that are tried by day, or by night.
fn trials(of: fn(&Trials) -> &'static [&'static str]) -> String {
    let trials = POLICIES.iter().flat_map(|policy| of(&policy.trials));
    trials.copied().collect::<Vec<_>>().join(" ")
}

/// Whether tests load it without knobs by day.
fn is_of_the_day(policy: &Policy) -> bool {
    policy.trials.day.contains(&policy.name)
}

#[test]
fn pages_follow_their_threads_to_other_nodes() {
    let fault = include_str!("../../../../../faults/pages.sh");
    in_guest_with_nodes(8, 4, &format!("policy=dino:gate=off; spinners=; REST=5\n{fault}"));
}

/// Two devils of node 0; the loader is killed while one's pages are being moved.
#[test]
fn a_kill_in_a_move_loses_nothing() {
    in_guest_with_nodes(4, 2, include_str!("scripts/kill-in-a-move.sh"));
}

/// Two devils of node 0, and less room on node 1 than one of them needs: what fits is moved, and the rest is reported.
#[test]
fn a_node_that_is_full_is_told_of() {
    in_guest_with_nodes(4, 2, include_str!("scripts/full-node.sh"));
}

/// Schedulers that other programs load are compared as policies are, and their failures are told.
#[test]
fn schedulers_of_other_programs_are_compared_and_told() {
    in_guest_by(Clock::Icount, 1, include_str!("scripts/outside.sh"));
}

/// The same without a scheduler in the kernel: threads are bound to their nodes, and their own masks are restored.
#[test]
#[ignore = "night: pages move as in `pages_follow_their_threads_to_other_nodes`, and masks come back as after shares"]
fn pages_follow_threads_that_are_bound_to_other_nodes() {
    let fault = include_str!("../../../../../faults/pages.sh");
    in_guest_with_nodes(8, 4, &format!("{}\n{fault}", include_str!("scripts/bound-pages.sh")));
}

#[test]
fn policy_unloads_on_timeout_exit_or_signal() {
    in_guest_that_waits(include_str!("scripts/unloads.sh"));
}

#[test]
fn what_cannot_be_loaded_is_one_line() {
    in_guest_that_waits(include_str!("scripts/refusals.sh"));
}

/// In a container threads have other numbers than in the kernel, and other containers' limits are not visible.
#[test]
fn in_a_container_what_needs_more_than_it_shows_is_refused() {
    in_guest_that_waits(include_str!("scripts/container.sh"));
}

#[test]
fn the_kernel_gets_its_own_class_back_whatever_ends_it() {
    in_guest_that_waits(include_str!("scripts/class-back.sh"));
}

#[test]
fn partial_mode_takes_only_tasks_that_ask() {
    in_guest_that_waits(include_str!("scripts/partial.sh"));
}

/// A pager that is not scrolled, with a full pipe: neither the time nor a signal waits for it, and lines stay whole.
#[test]
fn a_policy_unloads_without_waiting_for_a_reader() {
    in_guest_that_waits(include_str!("scripts/stopped-reader.sh"));
}

/// A counter that every CPU has stands in for that of instructions: read by the policy and by the program at switches.
#[test]
fn speeds_come_from_counters_a_profile_or_memory() {
    in_guest(include_str!("scripts/speeds.sh"));
}

/// No guest counts license levels: nanoseconds stand for cycles at the highest one. The two programs differ in their
/// profile.
#[test]
fn a_slowed_task_is_refunded_by_counters() {
    // As slow as the counter that stands in: 1 GHz at the highest level, 1.33 at the lowest.
    let slow = [
        ("value = 3.2", "value = 1.3333"),
        ("value = 2.8", "value = 1.2"),
        ("value = 2.4", "value = 1.0"),
    ]
    .iter()
    .fold(
        include_str!("../../../../../machines/xeon-w-2104.toml").to_string(),
        |text, (own, slow)| {
            assert!(text.contains(own), "{own}");
            text.replace(own, slow)
        },
    );
    let script = include_str!("scripts/refund.sh");
    in_guest_by(Clock::Icount, 1, &script.replace("SLOW", &slow));
}

/// Without a scheduler in the kernel: six programs on two fast and four slow cores, which differ in name only.
const BY_AFFINITY: &str = include_str!("scripts/by-affinity.sh");

/// On this clock CPUs are equally fast, whatever else the host does.
fn by_affinity(script: &str) {
    in_guest_by(Clock::Dilated, 6, &format!("{BY_AFFINITY}{script}"));
}

#[test]
fn masks_come_back() {
    by_affinity(include_str!("scripts/masks-come-back.sh"));
}

#[test]
#[ignore = "night: the shares are computed as under a policy, which `uneven_cores_are_shared_as_planned` shows"]
fn shares_come_by_affinity() {
    by_affinity(include_str!("scripts/shares-by-affinity.sh"));
}

/// Policies alternate run by run on the machine's own kernel, and leave nothing behind.
#[test]
fn a_comparison_here_takes_turns() {
    in_guest(include_str!("scripts/turns.sh"));
}

#[test]
fn a_comparison_here_leaves_nothing_behind() {
    in_guest_that_waits(include_str!("scripts/turns-end.sh"));
}

/// A task that forks without end, and computes, prevents the policy's owner neither from unloading it nor from
/// printing.
#[test]
fn a_storm_of_forks_does_not_starve_the_loader() {
    in_guest(include_str!("scripts/fork-storm.sh"));
}

/// One policy whose tasks wait in the kernel's queues, and one with queues of its own: the loader is the same for all.
#[test]
fn hackbench_ends_well_when_the_loader_is_killed() {
    survives(2, include_str!("../../../../../faults/kill-loader.sh"), "flsched cas");
}

/// A real-time hog takes a CPU from a policy: tasks that can leave it do, and tasks that cannot are reported. Each object
/// with queues of its own is there, of the policies by virtual time one.
#[test]
fn tasks_leave_a_cpu_that_a_real_time_task_takes() {
    survives(2, include_str!("../../../../../faults/rt-hog.sh"), "flsched cas avx-fair");
}

#[test]
#[ignore = "night: the other orders of cas; what a taken CPU means for tasks is the same code for all"]
fn tasks_leave_a_cpu_that_a_real_time_task_takes_in_other_orders() {
    let policies = "cas:slack=3ms,aggregate=2 o1";
    survives(2, include_str!("../../../../../faults/rt-hog.sh"), policies);
}

/// Tasks stay put when a real-time task only visits briefly. flsched has rules of its own for
/// that (`visits.h`); cas stands for the policies with queues of their own.
#[test]
fn tasks_share_a_cpu_that_a_real_time_task_visits() {
    let policies = "flsched cas";
    survives(2, include_str!("../../../../../faults/visited.sh"), policies);
}

/// CPUs go offline and come back under load: a policy stays, and the load ends well. Here are one policy of each
/// object that keeps tasks in queues of its own. Variants that do not always survive it are in papers/live.toml.
#[test]
fn cpus_come_and_go() {
    let of_the_day = BUILDS.iter().filter(|policy| is_of_the_day(policy));
    survives(4, include_str!("../../../../../faults/hotplug.sh"), &names(of_the_day));
}

#[test]
#[ignore = "night: o1 is cas' code, dino and min-fair share theirs, and rr and fifo use the kernel's queues"]
fn cpus_come_and_go_under_all_other_policies() {
    let others = BUILDS.iter().filter(|policy| !is_of_the_day(policy));
    survives(4, include_str!("../../../../../faults/hotplug.sh"), &names(others));
}

/// The oldest kernel no longer calls dispatch on a CPU that goes offline, so tasks must not be left in the policy's
/// queue of that CPU. A policy of each build that has such queues; flsched has one with `pull` alone.
#[test]
#[ignore = "night: the newest kernel has the same fault in `cpus_come_and_go`"]
fn cpus_come_and_go_on_the_oldest_kernel() {
    let policies = "flsched:pull=true cas min-fair dino avx-fair";
    in_guest_with(oldest(4), &survived(include_str!("../../../../../faults/hotplug.sh"), policies));
}

/// Older kernels do not call dispatch on a CPU that goes offline while they wait for RCU: for readers that wait for
/// that CPU. One policy of each build that has queues other than the kernel's.
fn rcu_readers_are_not_left(policies: &str) {
    let fault = include_str!("scripts/rcu-readers.sh");
    in_guest_with(oldest(4), &survived(fault, policies));
}

#[test]
fn rcu_readers_are_not_left_on_a_cpu_that_goes_offline() {
    rcu_readers_are_not_left("flsched:pull=true cas avx-fair");
}

#[test]
#[ignore = "night: min-fair and dino clear their queues as avx-fair does"]
fn rcu_readers_are_not_left_under_other_policies_by_virtual_time() {
    rcu_readers_are_not_left("min-fair dino");
}

/// A CPU that was offline when the tables were made ends the policy when it comes online. Until then, a task that may
/// run on all others counts as not pinned.
#[test]
fn a_cpu_that_was_not_there_ends_the_policy() {
    in_guest_of(4, include_str!("scripts/new-cpu.sh"));
}

/// The kernel removes a CPU's counters when it goes offline.
#[test]
fn a_cpu_that_comes_back_has_its_counter_again() {
    in_guest(include_str!("scripts/counter-back.sh"));
}

/// A control plane that is to plan all the time stays within its part of a CPU, and says so: it precedes its policy's
/// tasks.
#[test]
#[ignore = "night: it takes a minute of a guest's own; units hold how the part is kept"]
fn a_control_plane_takes_no_more_than_its_part() {
    in_guest(include_str!("scripts/control-plane.sh"));
}

/// The thread that takes a CPU offline has slices shorter than that takes, and is alone on the CPU: it must not be left
/// waiting.
#[test]
fn the_thread_that_takes_a_cpu_offline_is_not_starved() {
    in_guest_of(4, include_str!("scripts/offline-thread.sh"));
}

/// Two tasks are pinned to each CPU and one to none, and others come and go.
fn every_task_progresses(policies: &str) {
    let script = include_str!("scripts/every-task.sh");
    in_guest_with(oldest(2), &format!("POLICIES='{policies}'\n{script}"));
}

#[test]
fn every_task_progresses_under_every_object_on_the_oldest_kernel() {
    every_task_progresses(&trials(|trials| trials.day));
}

#[test]
#[ignore = "night: variants, and policies that share an object or its callbacks with those of the day"]
fn every_task_progresses_under_all_other_policies_on_the_oldest_kernel() {
    every_task_progresses(&trials(|trials| trials.night));
}
