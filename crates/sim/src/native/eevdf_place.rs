// SPDX-License-Identifier: GPL-2.0-only
//! Where Linux 6.12 and later put a task that wakes or is forked: `select_task_rq_fair`.

use machine::CpuSet;

use super::domains::Level;
use super::eevdf::Eevdf;
use crate::class::wake;
use crate::kernel::Kernel;
use crate::task::{CpuId, TaskId};

const SECOND_NS: u64 = 1_000_000_000;

impl Eevdf {
    pub(super) fn place(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        k.enter(self.func.select);
        let here = k.this_cpu();
        let allowed = k.tasks[task].allowed.and(&k.online);
        let cpu = if flags & wake::FORK != 0 {
            self.idlest(k, task, here, &allowed)
        } else {
            let affine = !self.wakes_widely(k, here, task) && allowed.has(here) && here != prev;
            let target = if affine {
                self.wake_affine(k, task, here, prev, flags & wake::SYNC != 0)
            } else {
                prev
            };
            self.idle_sibling(k, task, prev, target, &allowed)
        };
        k.leave();
        cpu
    }

    /// `record_wakee` and `wake_wide`: a waker of many should not draw them all to its cache.
    fn wakes_widely(&mut self, k: &Kernel, here: CpuId, task: TaskId) -> bool {
        let Some(waker) = k.cpus[here].curr else { return false };
        let now_ns = k.now_ns();
        let habit = &mut self.habits[waker];
        if now_ns > habit.flips_since_ns + SECOND_NS {
            habit.wakee_flips /= 2;
            habit.flips_since_ns = now_ns;
        }
        if habit.last_wakee != Some(task) {
            habit.last_wakee = Some(task);
            habit.wakee_flips += 1;
        }
        let (a, b) = (self.habits[waker].wakee_flips, self.habits[task].wakee_flips);
        let (master, slave) = (a.max(b), a.min(b));
        let factor = self.domains.cache(here).map_or(1, |domain| domain.span.len() as u32);
        slave >= factor && master >= slave * factor
    }

    /// `wake_affine`: the waker's CPU, or the last one.
    fn wake_affine(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        here: CpuId,
        prev: CpuId,
        sync: bool,
    ) -> CpuId {
        k.call(self.func.wake_affine);
        if k.share_cache(here, prev) && self.looks_idle(k, here) {
            return if self.looks_idle(k, prev) { prev } else { here };
        }
        if sync && self.rqs[here].runnable == 1 {
            return here;
        }
        if self.looks_idle(k, prev) {
            return prev;
        }
        let load = self.habits[task].avg.load;
        let mut here_load = self.rqs[here].avg.load;
        if sync && let Some(waker) = k.cpus[here].curr {
            let waker_load = self.habits[waker].avg.load;
            if waker_load > here_load {
                return here;
            }
            here_load -= waker_load;
        }
        let over = self.meet(here, prev).map_or(117.0, |domain| self.imbalance_pct(domain) as f64);
        let here_load = (here_load + load) * 100.0;
        let prev_load = (self.rqs[prev].avg.load - load).max(0.0) * (100.0 + (over - 100.0) / 2.0);
        if here_load < prev_load + if sync { 1.0 } else { 0.0 } { here } else { prev }
    }

    /// `select_idle_sibling`: an idle CPU near the target, or the target.
    fn idle_sibling(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        prev: CpuId,
        target: CpuId,
        allowed: &CpuSet,
    ) -> CpuId {
        k.call(self.func.idle_sibling);
        if allowed.has(target) && self.looks_idle(k, target) {
            return target;
        }
        if prev != target
            && k.share_cache(prev, target)
            && allowed.has(prev)
            && self.looks_idle(k, prev)
        {
            return prev;
        }
        let recent = self.habits[task].recent.replace(prev);
        if let Some(recent) = recent.filter(|cpu| *cpu != prev && *cpu != target)
            && k.share_cache(recent, target)
            && allowed.has(recent)
            && self.looks_idle(k, recent)
        {
            return recent;
        }
        let Some(cache) = self.domains.cache(target) else { return target };
        let span = cache.span.and(allowed);
        let idle_core = self.idle_core(k, target, &span);
        if idle_core.is_none() && k.share_cache(prev, target) {
            let siblings = k.siblings(prev).and(&span);
            if let Some(cpu) = siblings.iter().find(|cpu| *cpu != prev && self.looks_idle(k, *cpu))
            {
                return cpu;
            }
        }
        idle_core.or_else(|| self.idle_cpu(k, target, &span)).unwrap_or(target)
    }

    /// `select_idle_core`: a core whose threads are all idle, where there is SMT.
    fn idle_core(&mut self, k: &mut Kernel, target: CpuId, span: &CpuSet) -> Option<CpuId> {
        if k.siblings(target).len() < 2 {
            return None;
        }
        // `test_idle_cores`: a flag of the cache says whether a search is worth it.
        let all_idle =
            |k: &Kernel, cpu: CpuId| k.siblings(cpu).iter().all(|sibling| k.cpus[sibling].idle());
        span.iter().find(|cpu| all_idle(k, *cpu))?;
        span.iter_from(target + 1).find(|cpu| {
            let siblings = k.siblings(*cpu);
            siblings.iter().all(|sibling| self.looks_idle(k, sibling))
        })
    }

    /// `select_idle_cpu`, no farther than `nr_idle_scan`.
    fn idle_cpu(&mut self, k: &mut Kernel, target: CpuId, span: &CpuSet) -> Option<CpuId> {
        let cache = k.machine.cpus[target].llc as usize;
        let scan = self.idle_scan[cache];
        span.iter_from(target + 1).take(scan).find(|cpu| self.looks_idle(k, *cpu))
    }

    /// `available_idle_cpu`: reads another CPU's runqueue.
    pub(super) fn looks_idle(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.call(self.func.idle_cpu);
        k.read(&mut self.rqs[cpu].line);
        k.cpus[cpu].idle() && k.cpus[cpu].nr_running == 0 && k.cpus[cpu].wake_list.is_empty()
    }

    /// The narrowest domain that has both.
    fn meet(&self, here: CpuId, prev: CpuId) -> Option<usize> {
        let around = self.domains.around(here);
        around.iter().copied().find(|domain| self.domains.all[*domain].span.has(prev))
    }

    pub(super) fn imbalance_pct(&self, domain: usize) -> u64 {
        match self.domains.all[domain].level {
            Level::Core => 110,
            Level::Cache => 117,
            Level::Node | Level::Machine => 125,
        }
    }

    /// `sched_balance_find_dst_cpu`: from the widest domain down.
    fn idlest(&mut self, k: &mut Kernel, task: TaskId, here: CpuId, allowed: &CpuSet) -> CpuId {
        let mut cpu = here;
        for level in (0..self.domains.around(here).len()).rev() {
            let Some(domain) = self.domains.around(cpu).get(level).copied() else { continue };
            if let Some(group) = self.idlest_group(k, task, cpu, domain, allowed) {
                cpu = self.idlest_cpu(k, &group.and(allowed)).unwrap_or(cpu);
            }
        }
        // Within the narrowest domain of the place found the idlest CPU is taken.
        let narrowest = self.domains.around(cpu).first().copied();
        if let Some(domain) = narrowest
            && !self.looks_idle(k, cpu)
        {
            let span = self.domains.all[domain].span.and(allowed);
            cpu = self.idlest_cpu(k, &span).unwrap_or(cpu);
        }
        if allowed.has(cpu) { cpu } else { allowed.lowest().unwrap_or(here) }
    }

    /// `sched_balance_find_dst_group`: None where the local group will do.
    fn idlest_group(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        cpu: CpuId,
        domain: usize,
        allowed: &CpuSet,
    ) -> Option<CpuSet> {
        let Domain { level, groups, weight } = self.shape(domain);
        let mut local = None;
        let mut idlest: Option<Room> = None;
        for group in groups {
            if group.and(allowed).is_empty() {
                continue;
            }
            let room = self.room(k, task, &group);
            if group.has(cpu) {
                local = Some(room);
            } else if idlest.is_none_or(|known| room.better(&known)) {
                idlest = Some(room);
            }
        }
        let idlest = idlest?;
        let Some(local) = local else { return Some(idlest.cpus) };
        if local.spare() && idlest.spare() {
            // A node may have a little more than others: `adjust_numa_imbalance`.
            let more = idlest.idle.saturating_sub(local.idle);
            let allowed_imbalance = (weight / 8).max(1);
            let tolerated = local.nr < allowed_imbalance || more <= 2;
            if level == Level::Machine && tolerated && local.nr < allowed_imbalance {
                return None;
            }
            return (local.idle < idlest.idle).then_some(idlest.cpus);
        }
        if local.spare() != idlest.spare() {
            return idlest.spare().then_some(idlest.cpus);
        }
        let over = self.imbalance_pct(domain) as f64 / 100.0;
        (local.load_each() > over * idlest.load_each()).then_some(idlest.cpus)
    }

    fn shape(&self, domain: usize) -> Domain {
        let domain = &self.domains.all[domain];
        Domain { level: domain.level, groups: domain.groups.clone(), weight: domain.span.len() }
    }

    /// `update_sg_wakeup_stats`.
    fn room(&mut self, k: &mut Kernel, task: TaskId, group: &CpuSet) -> Room {
        let mut room = Room { cpus: group.and(&k.online), idle: 0, nr: 0, load: 0.0 };
        for cpu in room.cpus.iter() {
            k.call(self.func.idlest_cpu);
            let rq = &mut self.rqs[cpu];
            k.read(&mut rq.line);
            room.nr += rq.runnable;
            room.load += rq.avg.load;
            room.idle += usize::from(k.cpus[cpu].idle() && rq.runnable == 0);
        }
        let own = self.habits[task].cpu.is_some_and(|cpu| room.cpus.has(cpu));
        if own {
            room.load = (room.load - self.habits[task].avg.load).max(0.0);
        }
        room
    }

    /// `sched_balance_find_dst_group_cpu`: the CPU that went idle last, else the least loaded.
    fn idlest_cpu(&mut self, k: &mut Kernel, group: &CpuSet) -> Option<CpuId> {
        let mut idle: Option<(u64, CpuId)> = None;
        let mut least: Option<(f64, CpuId)> = None;
        for cpu in group.iter() {
            if self.looks_idle(k, cpu) {
                let stamp_ns = self.rqs[cpu].idle_stamp_ns;
                if idle.is_none_or(|(known, _)| stamp_ns > known) {
                    idle = Some((stamp_ns, cpu));
                }
            } else if least.is_none_or(|(known, _)| self.rqs[cpu].avg.load < known) {
                least = Some((self.rqs[cpu].avg.load, cpu));
            }
        }
        idle.map(|(_, cpu)| cpu).or(least.map(|(_, cpu)| cpu))
    }
}

struct Domain {
    level: Level,
    groups: Vec<CpuSet>,
    weight: usize,
}

/// A group as a forked task sees it.
#[derive(Clone, Copy)]
struct Room {
    cpus: CpuSet,
    idle: usize,
    nr: usize,
    load: f64,
}

impl Room {
    fn spare(&self) -> bool {
        self.nr < self.cpus.len()
    }

    fn load_each(&self) -> f64 {
        self.load / self.cpus.len().max(1) as f64
    }

    fn better(&self, other: &Room) -> bool {
        match (self.spare(), other.spare()) {
            (true, true) => self.idle > other.idle,
            (false, false) => self.load_each() < other.load_each(),
            (spare, _) => spare,
        }
    }
}
