// SPDX-License-Identifier: GPL-2.0-only
//! The energy that a plan's work costs, relative to max-fair (slide 30).
//!
//! **Assumed:** a busy core draws its type's power whichever task runs on it. An idle core draws
//! the same under every policy, and all policies keep the same cores busy. Then power is the same
//! for all. The energy of a given amount of work is proportional to its time, so a gain in
//! throughput saves energy. Migrations and the policy's own work are left out.

/// The energy of the same work relative to max-fair, from CPU time and performance relative to
/// max-fair.
pub fn energy_per_work(cpu: &[f64], relative: &[f64]) -> f64 {
    let work: f64 = cpu.iter().zip(relative).map(|(cpu, relative)| cpu * relative).sum();
    cpu.iter().sum::<f64>() / work
}
