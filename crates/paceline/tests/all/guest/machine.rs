// SPDX-License-Identifier: GPL-2.0-only
//! `doctor` on a real kernel: inside a guest, where things can be wrong.

#[allow(dead_code)]
use crate::guest::in_guest_shaped;
use vm::{Clock, Shape};

/// The items that it examines, and at the end the policies, with a verdict on whether each fits.
const CHECKS: [&str; 17] = [
    "kernel",
    "sched_ext",
    "type information",
    "attached",
    "rights",
    "topology",
    "core types",
    "counters",
    "speeds",
    "page moves",
    "NUMA balancing",
    "cgroup limits",
    "min-fair",
    "flsched",
    "dino",
    "cas",
    "avx-fair",
];

/// Every item is a line and an entry, whatever is wrong; the status says whether policies can be loaded.
#[test]
fn doctor_names_what_is_wrong_and_nothing_else() {
    let script = include_str!("scripts/doctor.sh");
    let checks = CHECKS.map(|check| format!("'{check}'")).join(" ");
    let shape = Shape { cpus: 4, nodes: 2, ..Shape::default() };
    in_guest_shaped(shape, Clock::Threads, &script.replace("CHECKS", &checks));
}
