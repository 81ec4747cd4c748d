// SPDX-License-Identifier: GPL-2.0-only
//! Limits of cgroups on a real kernel.

use vm::{Clock, Shape};

use crate::guest::{in_guest_shaped, in_guest_that_waits, in_guest_with, oldest};

fn script(policy: &str) -> String {
    format!("policy={policy}\n{}", include_str!("scripts/limits.sh"))
}

#[test]
fn cgroups_have_the_cpu_time_of_their_limits() {
    in_guest_that_waits(&script("paceline"));
}

#[test]
#[ignore = "night: they share the chassis"]
fn cgroups_have_the_cpu_time_of_their_limits_under_each_policy() {
    for policy in ["min-fair", "dino", "avx-fair"] {
        in_guest_that_waits(&script(policy));
    }
}

#[test]
#[ignore = "night: it takes minutes"]
fn a_thousand_cgroups_and_others_that_come_and_go_take_little_of_the_control_plane() {
    let load = "policy=paceline groups=1000 each=100 seconds=10";
    let script = format!("{load}\n{}", include_str!("scripts/many-cgroups.sh"));
    let shape = Shape { cpus: 2, memory_mib: 8192, ..Shape::default() };
    in_guest_shaped(shape, Clock::Threads, &script);
}

#[test]
#[ignore = "night: as on the newest kernel"]
fn cgroups_have_the_cpu_time_of_their_limits_on_the_oldest_kernel() {
    in_guest_with(oldest(2), &script("paceline"));
}
