// SPDX-License-Identifier: GPL-2.0-only
//! Placement of a woken or forked task by CFS of 2.6.38: `select_task_rq_fair`.
//!
//! A woken task stays near its last CPU or moves to the waker's (`wake_affine` compares their loads), on an idle CPU of
//! the cache there if there is one. A forked one goes to the idlest CPU of the idlest group of the widest domain, for
//! which the runqueues of all are read.

use machine::CpuSet;

use super::cfs::Cfs;
use super::domains::Level;
use crate::class::wake;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

impl Cfs {
    pub(super) fn place(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        k.enter(self.func.select);
        let here = k.this_cpu();
        let allowed = k.tasks[task].allowed.and(&k.online);
        let cpu = if flags & wake::FORK != 0 {
            self.idlest(k, here, &allowed)
        } else {
            let affine = allowed.has(here) && self.meet(here, prev).is_some();
            if affine && (here == prev || self.wake_affine(k, task, here, prev, flags)) {
                self.idle_sibling(k, here, prev, &allowed)
            } else {
                self.idle_sibling(k, prev, prev, &allowed)
            }
        };
        k.leave();
        cpu
    }

    /// The narrowest domain that has both; a CPU has one with itself.
    fn meet(&self, here: CpuId, prev: CpuId) -> Option<usize> {
        let around = self.domains.around(here);
        around.iter().copied().find(|domain| self.domains.all[*domain].span.has(prev))
    }

    /// `wake_affine`: whether the waker's CPU would not be busier than the last one.
    fn wake_affine(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        here: CpuId,
        prev: CpuId,
        flags: u64,
    ) -> bool {
        k.call(self.func.wake_affine);
        k.read(&mut self.rqs[prev].line);
        let sync = Self::sync(flags);
        let weight = self.entities[task].weight;
        let waker = k.cpus[here].curr.filter(|_| sync);
        let waker = waker.map_or(0, |waker| self.entities[waker].weight);
        let mut here_load = self.rqs[here].load.saturating_sub(waker);
        let prev_load = self.rqs[prev].load;
        let over = self.meet(here, prev).map_or(125, |domain| self.imbalance_pct(domain));
        let balanced = here_load == 0
            || 100 * (here_load + weight) * self.power(k, prev)
                <= (100 + (over - 100) / 2) * (prev_load + weight) * self.power(k, here);
        if sync && balanced {
            return true;
        }
        here_load = self.rqs[here].load.saturating_sub(waker);
        let per_task = self.rqs[here].load / self.rqs[here].nr.max(1);
        balanced || (here_load <= prev_load && here_load + prev_load <= per_task)
    }

    /// `select_idle_sibling`: an idle CPU that shares a cache with the target, or the target.
    fn idle_sibling(
        &mut self,
        k: &mut Kernel,
        target: CpuId,
        prev: CpuId,
        allowed: &CpuSet,
    ) -> CpuId {
        k.call(self.func.idle_sibling);
        let here = k.this_cpu();
        if (target == here || target == prev) && self.looks_idle(k, target) {
            return target;
        }
        for domain in self.domains.around(target).to_vec() {
            let (level, span) = (self.domains.all[domain].level, self.domains.all[domain].span);
            if level > Level::Cache {
                break;
            }
            for cpu in span.and(allowed).iter() {
                if self.looks_idle(k, cpu) {
                    return cpu;
                }
            }
            if span.has(here) && span.has(prev) {
                break;
            }
        }
        target
    }

    /// `idle_cpu`: reads another CPU's runqueue. Until Linux 3.2 it says whether the idle task runs there, even if
    /// other tasks are queued already and it is about to give way.
    fn looks_idle(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.call(self.func.idle_cpu);
        k.read(&mut self.rqs[cpu].line);
        k.cpus[cpu].idle()
    }

    /// The slow path: from the widest domain down, the idlest group and in it the idlest CPU.
    fn idlest(&mut self, k: &mut Kernel, here: CpuId, allowed: &CpuSet) -> CpuId {
        let mut cpu = here;
        let mut level = self.domains.around(here).len();
        while level > 0 {
            level -= 1;
            let domain = self.domains.around(cpu)[level];
            let Some(group) = self.idlest_group(k, cpu, domain, allowed) else { continue };
            let found = self.idlest_cpu(k, &group.and(allowed), cpu);
            if found != cpu {
                cpu = found;
                level = level.min(self.domains.around(cpu).len());
            }
        }
        if allowed.has(cpu) { cpu } else { allowed.lowest().unwrap_or(here) }
    }

    /// `find_idlest_group`: None if the local one is idle enough.
    fn idlest_group(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        domain: usize,
        allowed: &CpuSet,
    ) -> Option<CpuSet> {
        let mut here = None;
        let mut least: Option<(u64, CpuSet)> = None;
        for group in self.domains.all[domain].groups.clone() {
            let local = group.has(cpu);
            if group.and(allowed).is_empty() {
                continue;
            }
            let (mut load, mut power) = (0, 0);
            for member in group.and(&k.online).iter() {
                k.call(self.func.idlest_cpu);
                k.read(&mut self.rqs[member].line);
                load += self.rqs[member].load;
                power += self.power(k, member);
            }
            let load = load * 1024 / power.max(1);
            if local {
                here = Some(load);
            } else if least.is_none_or(|(known, _)| load < known) {
                least = Some((load, group));
            }
        }
        let (load, group) = least?;
        let over = 100 + (self.imbalance_pct(domain) - 100) / 2;
        match here {
            Some(here) if 100 * here < over * load => None,
            _ => Some(group),
        }
    }

    fn idlest_cpu(&mut self, k: &mut Kernel, group: &CpuSet, here: CpuId) -> CpuId {
        let mut best = (u64::MAX, here);
        for cpu in group.iter() {
            k.call(self.func.idlest_cpu);
            k.read(&mut self.rqs[cpu].line);
            let load = self.rqs[cpu].load;
            if load < best.0 || (load == best.0 && cpu == here) {
                best = (load, cpu);
            }
        }
        best.1
    }

    /// `cpu_power`: 1024, or a thread's part of a core's 1178 (`smt_gain`); less the time of real-time tasks
    /// (`scale_rt_power`).
    pub(super) fn power(&self, k: &mut Kernel, cpu: CpuId) -> u64 {
        let core = self.domains.around(cpu).first().map(|domain| &self.domains.all[*domain]);
        let whole = match core {
            Some(core) if core.level == Level::Core => 1178 / core.span.len() as u64,
            _ => 1024,
        };
        (whole * k.capacity_left(cpu) as u64 / 1024).max(1)
    }

    pub(super) fn imbalance_pct(&self, domain: usize) -> u64 {
        if self.domains.all[domain].level == Level::Core { 110 } else { 125 }
    }
}
