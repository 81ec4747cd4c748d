// SPDX-License-Identifier: GPL-2.0-only
//! What a plan's work costs in energy, relative to max-fair (slide 30).
//!
//! **Assumed:** a busy core draws its type's power whoever runs on it, an idle one the same under every
//! policy, and all policies keep the same cores busy. The power then is the same for all, and the energy of
//! a given amount of work goes with the time that it takes: what is gained in throughput is saved in
//! energy. Migrations and the policy's own work are left out.

/// Energy of the same work over that of max-fair, from CPU time and performance relative to max-fair.
pub fn energy_per_work(cpu: &[f64], relative: &[f64]) -> f64 {
    let work: f64 = cpu.iter().zip(relative).map(|(cpu, relative)| cpu * relative).sum();
    cpu.iter().sum::<f64>() / work
}
