// SPDX-License-Identifier: GPL-2.0-only
//! All policies that are shipped, except those that break a promise on purpose.

use policy::{Instance, Policy};
use sim::Scheduler;

pub const SHIPPED: &[&Policy] = &[
    &flsched::FLSCHED,
    &cas::CAS,
    &cas::O1,
    &uneven::MAX_FAIR,
    &uneven::MIN_FAIR,
    &uneven::GUARANTEED_FAIR,
    &avx::AVX_FAIR,
    &dino::DINO,
    &dino::DI_MIGRATE,
    &baseline::FIFO,
    &baseline::RR,
];

/// Linux's own two, and each of the policies.
pub fn every_scheduler() -> Vec<Scheduler> {
    let policy = |label| Scheduler::Policy(Instance::parse(label, SHIPPED).unwrap());
    let labels = ["flsched", "cas", "o1", "min-fair", "avx-fair", "dino"];
    [Scheduler::Default, Scheduler::Cfs].into_iter().chain(labels.map(policy)).collect()
}
