// SPDX-License-Identifier: GPL-2.0-only
//! Cores of different capacity in Linux 6.12 and later: which CPU has enough for a task, and which running task has too
//! little. Only where the machine's kernel knows its cores' capacities.
//!
//! Not modelled: energy-aware placement, uclamp, thermal pressure, and asymmetric packing, which hybrid x86 without SMT
//! does not use (`hybrid_init_cpu_capacity_scaling`).

use machine::CpuSet;

use super::capacity::{FULL, leaves_room};
use super::eevdf::{Eevdf, Habit};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

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
        self.rqs[cpu].misfit_load = if fits { 0.0 } else { self.h_load(task).max(1.0) };
    }

    /// `check_misfit_status`: a task here could have more elsewhere.
    pub(super) fn has_misfit(&self, cpu: CpuId) -> bool {
        self.rqs[cpu].misfit_load > 0.0 && self.capacity.of[cpu] < FULL
    }
}
