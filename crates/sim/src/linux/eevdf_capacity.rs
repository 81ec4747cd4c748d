// SPDX-License-Identifier: GPL-2.0-only
//! Cores of different capacity in Linux 6.12 and later: which CPU has enough for a task, and which running task has too
//! little. Only where the machine's kernel knows its cores' capacities.
//!
//! Not modelled: energy-aware placement, uclamp, thermal pressure, and asymmetric packing, which hybrid x86 without SMT
//! does not use (`hybrid_init_cpu_capacity_scaling`).

use machine::{Capacities, CpuSet, Machine};

use super::domains::Domains;
use super::eevdf::{Eevdf, Habit};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

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
fn leaves_room(util: f64, capacity: f64) -> bool {
    util * 1280.0 < capacity * 1024.0
}

impl Eevdf {
    fn util_of(&self, task: TaskId) -> f64 {
        let Habit { avg, estimate, .. } = &self.habits[task];
        estimate.of(avg)
    }

    /// `asym_fits_cpu`: where all CPUs are alike every CPU will do.
    pub(super) fn has_room(&self, k: &mut Kernel, cpu: CpuId, task: TaskId) -> bool {
        !self.capacity.any || leaves_room(self.util_of(task), self.capacity_of(k, cpu))
    }

    /// `capacity_of`: what real-time tasks leave of a CPU.
    pub(super) fn capacity_of(&self, k: &mut Kernel, cpu: CpuId) -> f64 {
        k.capacity_left(cpu) * self.capacity.rate(cpu)
    }

    /// The narrowest domain around a CPU in which CPUs of every capacity are (`sd_asym_cpucapacity`).
    fn of_all_kinds(&self, cpu: CpuId) -> Option<usize> {
        let (most, least) = self.capacity.range(&(0..self.capacity.of.len()).collect());
        let whole =
            |domain: &usize| self.capacity.range(&self.domains.all[*domain].span) == (most, least);
        self.domains.around(cpu).iter().copied().find(whole)
    }

    /// `select_idle_capacity`: the first idle CPU with room for the task, or else the idle one with most capacity. The
    /// outer None: CPUs around the target do not differ.
    pub(super) fn idle_by_capacity(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        target: CpuId,
        allowed: &CpuSet,
    ) -> Option<Option<CpuId>> {
        if !self.capacity.any {
            return None;
        }
        let domain = self.of_all_kinds(target)?;
        let span = self.domains.all[domain].span.and(allowed);
        let mut best: Option<(f64, CpuId)> = None;
        for cpu in span.iter_from(target) {
            if !self.takes_at_once(k, cpu, task) {
                continue;
            }
            if self.has_room(k, cpu, task) {
                return Some(Some(cpu));
            }
            let capacity = self.capacity_of(k, cpu);
            if best.is_none_or(|(known, _)| capacity > known) {
                best = Some((capacity, cpu));
            }
        }
        Some(best.map(|(_, cpu)| cpu))
    }

    /// `update_misfit_status`: notes the load of a running task that has too little room here, and could have more.
    pub(super) fn note_misfit(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        if !self.capacity.any {
            return;
        }
        let (most, _) = self.capacity.range(&k.tasks[task].allowed.and(&k.online));
        let could = most > self.capacity.of[cpu];
        let fits = !could || self.has_room(k, cpu, task);
        self.rqs[cpu].misfit_load = if fits { 0.0 } else { self.habits[task].avg.load.max(1.0) };
    }

    /// `check_misfit_status`: a task here could have more elsewhere.
    pub(super) fn has_misfit(&self, cpu: CpuId) -> bool {
        self.rqs[cpu].misfit_load > 0.0 && self.capacity.of[cpu] < FULL
    }
}
