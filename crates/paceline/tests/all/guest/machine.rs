// SPDX-License-Identifier: GPL-2.0-only
//! `doctor` on a real kernel: inside a guest, where things can be wrong.

use policies::POLICIES;
use vm::{Clock, Shape};

use crate::guest::in_guest_shaped;

/// The items that it examines. After them come policies, with a verdict on whether each fits.
const CHECKS: [&str; 13] = [
    "kernel",
    "sched_ext",
    "type information",
    "attached",
    "rights",
    "topology",
    "core types",
    "counters",
    "core scheduling",
    "speeds",
    "page moves",
    "NUMA balancing",
    "cgroup limits",
];

/// Every item is a line and an entry, whatever is wrong; the status says whether policies can be loaded.
#[test]
fn doctor_names_what_is_wrong_and_nothing_else() {
    let script = include_str!("scripts/doctor.sh");
    let fitted = POLICIES.iter().filter(|policy| policy.fits.is_some()).map(|policy| policy.name);
    let checks = CHECKS.into_iter().chain(fitted).map(|check| format!("'{check}'"));
    let checks = checks.collect::<Vec<_>>().join(" ");
    let shape = Shape { cpus: 4, nodes: 2, ..Shape::default() };
    in_guest_shaped(shape, Clock::Threads, &script.replace("CHECKS", &checks));
}
