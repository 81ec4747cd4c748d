// SPDX-License-Identifier: GPL-2.0-only
//! Placement of a woken or forked task by Linux 6.12 and later: `select_task_rq_fair`.

use machine::CpuSet;

use super::domains::{Domain, Level};
use super::eevdf::Eevdf;
use super::eevdf_group::{Group, Kind, numa_imbalance};
use crate::class::wake;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;

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

    /// `record_wakee` and `wake_wide`: a waker of many tasks should not draw them all to its cache.
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
        let load = self.h_load(task);
        let mut here_load = self.cfs[here].avg.load;
        if sync && let Some(waker) = k.cpus[here].curr {
            let waker_load = self.h_load(waker);
            if waker_load > here_load {
                return here;
            }
            here_load -= waker_load;
        }
        let over = self.meet(here, prev).map_or(117.0, |domain| self.imbalance_pct(domain) as f64);
        let here_load = (here_load + load) * 100.0;
        let prev_load = (self.cfs[prev].avg.load - load).max(0.0) * (100.0 + (over - 100.0) / 2.0);
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
        if allowed.has(target)
            && self.takes_at_once(k, target, task)
            && self.has_room(k, target, task)
        {
            return target;
        }
        if prev != target
            && k.share_cache(prev, target)
            && allowed.has(prev)
            && self.takes_at_once(k, prev, task)
            && self.has_room(k, prev, task)
        {
            return prev;
        }
        let recent = self.habits[task].recent.replace(prev);
        if let Some(recent) = recent.filter(|cpu| *cpu != prev && *cpu != target)
            && k.share_cache(recent, target)
            && allowed.has(recent)
            && self.takes_at_once(k, recent, task)
            && self.has_room(k, recent, task)
        {
            return recent;
        }
        if let Some(found) = self.idle_by_capacity(k, task, target, allowed) {
            return found.unwrap_or(target);
        }
        let Some(cache) = self.domains.cache(target) else { return target };
        let span = cache.span.and(allowed);
        let idle_core = self.idle_core(k, target, &span);
        if idle_core.is_none() && k.share_cache(prev, target) {
            let siblings = k.siblings(prev).and(&span);
            let mut others = siblings.iter().filter(|cpu| *cpu != prev);
            if let Some(cpu) = others.find(|cpu| self.takes_at_once(k, *cpu, task)) {
                return cpu;
            }
        }
        idle_core.or_else(|| self.idle_cpu(k, task, target, &span)).unwrap_or(target)
    }

    /// `select_idle_core`: a core with all threads idle, if there is SMT.
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
    fn idle_cpu(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        target: CpuId,
        span: &CpuSet,
    ) -> Option<CpuId> {
        let cache = k.machine.cpus[target].llc as usize;
        let scan = self.idle_scan[cache];
        span.iter_from(target + 1).take(scan).find(|cpu| self.takes_at_once(k, *cpu, task))
    }

    /// `choose_idle_cpu`: the CPU is idle, or has only SCHED_IDLE tasks, which this one preempts.
    pub(super) fn takes_at_once(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) -> bool {
        self.looks_idle(k, cpu)
            || self.runs_idle_policy_only(k, cpu) && !k.tasks[task].has_idle_policy()
    }

    /// `available_idle_cpu`: reads another CPU's runqueue.
    pub(super) fn looks_idle(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.call(self.func.idle_cpu);
        k.read(&mut self.rqs[cpu].line);
        k.cpus[cpu].idle() && k.cpus[cpu].nr_ready() == 0 && k.cpus[cpu].wake_list.is_empty()
    }

    /// The narrowest domain that has both.
    fn meet(&self, here: CpuId, prev: CpuId) -> Option<usize> {
        let around = self.domains.around(here);
        around.iter().copied().find(|domain| self.domains.all[*domain].span.has(prev))
    }

    /// `sched_balance_find_dst_cpu`: from the widest domain down.
    fn idlest(&mut self, k: &mut Kernel, task: TaskId, here: CpuId, allowed: &CpuSet) -> CpuId {
        let mut cpu = here;
        let mut next = self.domains.around(here).last().copied();
        while let Some(domain) = next {
            if let Some(group) = self.idlest_group(k, task, cpu, domain, allowed) {
                cpu = self.idlest_cpu(k, task, &group, allowed).unwrap_or(cpu);
            }
            let width = self.domains.all[domain].span.len();
            let mut around = self.domains.around(cpu).iter().rev();
            next = around.find(|domain| self.domains.all[**domain].span.len() < width).copied();
        }
        if allowed.has(cpu) { cpu } else { allowed.lowest().unwrap_or(here) }
    }

    /// `sched_balance_find_dst_group`: None if the local group will do.
    fn idlest_group(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        cpu: CpuId,
        domain: usize,
        allowed: &CpuSet,
    ) -> Option<CpuSet> {
        let Domain { level, mut groups, .. } = self.domains.all[domain].clone();
        // Each CPU's list of them begins with its own.
        let own = groups.iter().position(|group| group.has(cpu)).unwrap_or(0);
        groups.rotate_left(own);
        let mut local = None;
        let mut idlest: Option<(CpuSet, Group)> = None;
        for group in groups.into_iter().filter(|group| group.meets(allowed)) {
            let func = self.func.idlest_cpu;
            let stats = self.group_stats(k, &group, allowed, domain, Some(task), func);
            if group.has(cpu) {
                local = Some(stats);
            } else if idlest.is_none_or(|(_, known)| stats.idler(&known)) {
                idlest = Some((group, stats));
            }
        }
        let (group, idlest) = idlest?;
        let Some(local) = local else { return Some(group) };
        if local.kind != idlest.kind {
            return (local.kind > idlest.kind).then_some(group);
        }
        let between_nodes = level == Level::Machine;
        if local.kind == Kind::Misfit {
            return (local.most < idlest.most).then_some(group);
        }
        if local.kind == Kind::HasSpare {
            let most = self.domains.numa_allowed(domain).min(local.cpus.len());
            let more = local.idle.abs_diff(idlest.idle);
            let stays = between_nodes && numa_imbalance(more, local.nr + 1, most) == 0;
            return (!stays && local.idle < idlest.idle).then_some(group);
        }
        let pct = self.imbalance_pct(domain) as f64;
        let allowance = 1024.0 * (pct - 100.0) / 100.0;
        let (here, there) = (local.avg_load(), idlest.avg_load());
        let near = there >= here + allowance || between_nodes && there + allowance >= here;
        (!near && 100.0 * here > pct * there).then_some(group)
    }

    /// `sched_balance_find_dst_group_cpu`: the CPU that went idle last, else the least loaded.
    fn idlest_cpu(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        group: &CpuSet,
        allowed: &CpuSet,
    ) -> Option<CpuId> {
        let (group, only) = (group.and(allowed), group.is_one());
        if only {
            return group.lowest();
        }
        let mut idle: Option<(u64, CpuId)> = None;
        let mut least: Option<(f64, CpuId)> = None;
        for cpu in group.iter() {
            if self.runs_idle_policy_only(k, cpu) && !k.tasks[task].has_idle_policy() {
                return Some(cpu);
            }
            if self.looks_idle(k, cpu) {
                let stamp_ns = self.rqs[cpu].idle_stamp_ns;
                if idle.is_none_or(|(known, _)| stamp_ns > known) {
                    idle = Some((stamp_ns, cpu));
                }
            } else if least.is_none_or(|(known, _)| self.cfs[cpu].avg.load < known) {
                least = Some((self.cfs[cpu].avg.load, cpu));
            }
        }
        idle.map(|(_, cpu)| cpu).or(least.map(|(_, cpu)| cpu))
    }
}
