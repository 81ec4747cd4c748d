// SPDX-License-Identifier: GPL-2.0-only
//! Capacities of cores, as Linux knows them, and how it compares them.

use machine::{Capacities, CpuSet, Machine};

use super::domains::Domains;
use crate::ids::CpuId;

/// The capacity of the fastest cores: `SCHED_CAPACITY_SCALE`.
pub(super) const FULL: f64 = 1024.0;

/// What the kernel knows of its cores.
#[derive(Debug)]
pub(super) struct Capacity {
    /// `arch_scale_cpu_capacity` of each CPU.
    pub of: Vec<f64>,
    /// By domain: its CPUs differ (`SD_ASYM_CPUCAPACITY`).
    pub differs: Vec<bool>,
    /// CPUs differ somewhere (`sched_asym_cpucap_active`).
    pub any: bool,
}

impl Capacity {
    pub fn new(machine: &Machine, domains: &Domains) -> Self {
        let rate = |kind: u16| match machine.capacities {
            Capacities::Told => machine.core_rates[usize::from(kind)],
            Capacities::Hidden => 1.0,
        };
        let of: Vec<f64> =
            machine.cpus.iter().map(|cpu| (FULL * rate(cpu.core_type)).round()).collect();
        let differ = |span: &CpuSet| {
            let first = span.lowest().map_or(FULL, |cpu| of[cpu]);
            span.iter().any(|cpu| of[cpu] != first)
        };
        let differs: Vec<bool> = domains.all.iter().map(|domain| differ(&domain.span)).collect();
        let any = differs.contains(&true);
        Capacity { of, differs, any }
    }

    /// A CPU's capacity as a part of the greatest.
    pub fn rate(&self, cpu: CpuId) -> f64 {
        self.of[cpu] / FULL
    }

    /// The greatest and the least of a group.
    pub fn range(&self, group: &CpuSet) -> (f64, f64) {
        let each = || group.iter().map(|cpu| self.of[cpu]);
        (each().fold(0.0, f64::max), each().fold(FULL, f64::min))
    }
}

/// `capacity_greater`: by more than 5 %.
pub(super) fn greater(one: f64, other: f64) -> bool {
    one * 1024.0 > other * 1078.0
}

/// `fits_capacity`: a fifth is left.
pub(super) fn leaves_room(util: f64, capacity: f64) -> bool {
    util * 1280.0 < capacity * 1024.0
}
