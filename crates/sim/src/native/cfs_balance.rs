// SPDX-License-Identifier: GPL-2.0-only
//! How CFS of 2.6.38 balances: before a CPU goes idle, from the tick, and for CPUs that sleep.
//!
//! Each pass over a domain reads the runqueues of all its CPUs, which the line of each costs; a
//! pull takes both runqueue locks.

use machine::CpuSet;

use super::cfs::{Cfs, MIGRATION_COST_NS};
use super::domains::Level;
use crate::kernel::Kernel;
use crate::task::{CpuId, State, TaskId};

/// `enum cpu_idle_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    Not,
    Is,
    Newly,
}

/// `struct sg_lb_stats`, as far as decisions need it.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    cpus: CpuSet,
    load: u64,
    nr: u64,
    power: u64,
    idle: u64,
    imbalanced: bool,
}

impl Group {
    fn avg_load(&self) -> u64 {
        self.load * 1024 / self.power.max(1)
    }

    /// Tasks it has room for; at least one.
    fn capacity(&self) -> u64 {
        ((self.power + 512) / 1024).max(1)
    }

    fn load_per_task(&self) -> u64 {
        self.load / self.nr.max(1)
    }
}

/// `sysctl_sched_nr_migrate`: tasks looked at in one pull.
const NR_MIGRATE: usize = 32;

impl Cfs {
    /// `idle_balance`: a CPU that would go idle pulls a task, if it is idle long enough on average
    /// for that to pay. Its runqueue is locked and is given back meanwhile.
    pub(super) fn idle_balance(&mut self, k: &mut Kernel, cpu: CpuId) {
        k.enter(self.func.idle_balance);
        self.rqs[cpu].idle_since_ns = Some(k.now_ns());
        if k.cpus[cpu].online && self.rqs[cpu].avg_idle_ns >= MIGRATION_COST_NS {
            k.rq_unlock(cpu);
            for level in 0..self.domains.around(cpu).len() {
                if self.load_balance(k, cpu, level, Idle::Newly) > 0 {
                    self.rqs[cpu].idle_since_ns = None;
                    break;
                }
            }
            k.rq_lock(cpu);
        }
        k.leave();
    }

    /// `trigger_load_balance` and the softirq it raises.
    pub(super) fn periodic(&mut self, k: &mut Kernel, cpu: CpuId) {
        let idle = k.cpus[cpu].idle();
        if idle {
            self.balance_sleepers(k, cpu);
            return;
        }
        if k.now_ns() >= self.rqs[cpu].next_balance_ns {
            self.rebalance(k, cpu, Idle::Not);
        }
        if self.rqs[cpu].nr >= 2 && k.now_ns() >= self.nohz_next_ns {
            let sleeper = k.online.iter().find(|other| k.cpus[*other].idle());
            if let Some(sleeper) = sleeper {
                self.nohz_next_ns = k.now_ns() + tick_ns(k);
                k.kick_balance(sleeper);
            }
        }
    }

    /// `nohz_idle_balance`: one idle CPU balances for all that sleep without ticks.
    fn balance_sleepers(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.rebalance(k, cpu, Idle::Is);
        for other in k.online.iter_from(cpu).collect::<Vec<_>>() {
            if k.cpus[cpu].need_resched {
                return;
            }
            if other != cpu && k.cpus[other].idle() {
                self.rebalance(k, other, Idle::Is);
            }
        }
    }

    /// `rebalance_domains`: each domain in its interval.
    fn rebalance(&mut self, k: &mut Kernel, cpu: CpuId, idle: Idle) {
        k.enter(self.func.rebalance);
        let mut next_ns = k.now_ns() + 60_000_000_000;
        for level in 0..self.domains.around(cpu).len() {
            let interval_ns = self.interval_ns(k, cpu, level, idle);
            if k.now_ns() >= self.rqs[cpu].balance[level].last_ns + interval_ns {
                self.load_balance(k, cpu, level, idle);
                self.rqs[cpu].balance[level].last_ns = k.now_ns();
            }
            next_ns = next_ns.min(self.rqs[cpu].balance[level].last_ns + interval_ns);
        }
        self.rqs[cpu].next_balance_ns = next_ns;
        k.leave();
    }

    /// `balance_interval`, 64 times longer while the CPU is busy, at least a tick.
    fn interval_ns(&self, k: &Kernel, cpu: CpuId, level: usize, idle: Idle) -> u64 {
        let factor = if idle == Idle::Is { 1 } else { 64 };
        let ns = self.rqs[cpu].balance[level].interval_ms * 1_000_000 * factor;
        ns.max(tick_ns(k))
    }

    /// `load_balance` for `cpu` over one of its domains: returns how many tasks it has pulled.
    fn load_balance(&mut self, k: &mut Kernel, cpu: CpuId, level: usize, idle: Idle) -> usize {
        k.enter(self.func.load_balance);
        let domain = self.domains.around(cpu)[level];
        let mut moved = 0;
        let mut balanced = true;
        if let Some((group, imbalance)) = self.busiest_group(k, cpu, domain, idle)
            && let Some(from) = self.busiest_queue(k, cpu, &group, imbalance)
        {
            balanced = false;
            moved = self.pull(k, from, cpu, level, imbalance, idle == Idle::Newly);
        }
        let level_max_ms = if self.domains.all[domain].level == Level::Core { 2 } else { 4 };
        let state = &mut self.rqs[cpu].balance[level];
        match (balanced, moved) {
            (true, _) => state.interval_ms = (state.interval_ms * 2).min(level_max_ms),
            (false, 0) if idle != Idle::Newly => state.failed += 1,
            (false, 0) => {}
            (false, _) => (state.failed, state.interval_ms) = (0, 1),
        }
        k.leave();
        moved
    }

    /// `find_busiest_group`: the group to pull from, and how much load.
    fn busiest_group(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        domain: usize,
        idle: Idle,
    ) -> Option<(CpuSet, u64)> {
        let groups = self.domains.all[domain].groups.clone();
        let mut stats = Vec::with_capacity(groups.len());
        for group in &groups {
            stats.push(self.group_stats(k, group));
            // For the whole group one CPU balances: an idle one first, else the lowest.
            if group.has(cpu) && idle != Idle::Newly {
                let members = group.and(&k.online);
                let first_idle = members.iter().find(|member| k.cpus[*member].idle());
                if first_idle.or(members.lowest()) != Some(cpu) {
                    return None;
                }
            }
        }
        let local = stats[groups.iter().position(|group| group.has(cpu))?];
        let total = stats.iter().map(|group| group.load).sum::<u64>() * 1024;
        let avg_load = total / stats.iter().map(|group| group.power).sum::<u64>().max(1);
        let loaded = |group: &&Group| {
            !group.cpus.has(cpu) && (group.nr > group.capacity() || group.imbalanced)
        };
        let mut busiest: Option<Group> = None;
        for group in stats.iter().filter(loaded) {
            if busiest.is_none_or(|known| group.avg_load() > known.avg_load()) {
                busiest = Some(*group);
            }
        }
        let busiest = busiest.filter(|group| group.nr > 0)?;
        let room = local.nr < local.capacity();
        let force = idle == Idle::Newly && room && busiest.nr > busiest.capacity();
        if !force && self.fair_enough(domain, &local, &busiest, avg_load, idle) {
            return None;
        }
        Some((busiest.cpus, imbalance(&local, &busiest, avg_load)))
    }

    fn fair_enough(
        &self,
        domain: usize,
        local: &Group,
        busiest: &Group,
        avg_load: u64,
        idle: Idle,
    ) -> bool {
        let (here, there) = (local.avg_load(), busiest.avg_load());
        if here >= there || here >= avg_load {
            return true;
        }
        match idle {
            Idle::Is => local.idle <= busiest.idle + 1 && busiest.nr <= busiest.cpus.len() as u64,
            _ => 100 * there <= self.imbalance_pct(domain) * here,
        }
    }

    /// `update_sg_lb_stats`: reads every runqueue of the group.
    fn group_stats(&mut self, k: &mut Kernel, group: &CpuSet) -> Group {
        let mut stats = Group { cpus: group.and(&k.online), ..Group::default() };
        let (mut most, mut least, mut nr_most) = (0, u64::MAX, 0);
        for cpu in stats.cpus.iter() {
            k.call(self.func.group_stats);
            let rq = &mut self.rqs[cpu];
            k.read(&mut rq.line);
            stats.load += rq.load;
            stats.nr += rq.nr;
            stats.idle += u64::from(k.cpus[cpu].idle());
            (most, least) = (rq.load.max(most), rq.load.min(least));
            nr_most = rq.nr.max(nr_most);
            stats.power += self.power(cpu);
        }
        stats.imbalanced = nr_most > 1 && most.saturating_sub(least) > stats.load_per_task();
        stats
    }

    /// `find_busiest_queue`: the most loaded runqueue from which a task can be taken.
    fn busiest_queue(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        group: &CpuSet,
        imbalance: u64,
    ) -> Option<CpuId> {
        let mut best: Option<(u64, CpuId)> = None;
        for other in group.iter().filter(|other| *other != cpu) {
            k.call(self.func.busiest_queue);
            let rq = &mut self.rqs[other];
            k.read(&mut rq.line);
            if rq.nr <= 1 && rq.load > imbalance {
                continue;
            }
            let load = rq.load * 1024 / self.power(other);
            if load > 0 && best.is_none_or(|(known, _)| load > known) {
                best = Some((load, other));
            }
        }
        best.map(|(_, other)| other).filter(|other| self.rqs[*other].nr > 1)
    }

    /// `move_tasks` under both runqueue locks.
    fn pull(
        &mut self,
        k: &mut Kernel,
        from: CpuId,
        to: CpuId,
        level: usize,
        imbalance: u64,
        newly_idle: bool,
    ) -> usize {
        double_lock(k, from, to);
        let candidates: Vec<TaskId> =
            self.rqs[from].timeline.iter().map(|(_, _, task)| *task).take(NR_MIGRATE).collect();
        let (mut left, mut moved) = (imbalance, 0);
        for task in candidates {
            k.call(self.func.move_task);
            let weight = self.entities[task].weight;
            if weight / 2 > left || !self.can_migrate(k, task, to, level) {
                continue;
            }
            self.update_curr(k, to);
            self.detach(k, from, task);
            k.set_task_cpu(task, to);
            self.attach(k, to, task);
            match k.cpus[to].curr {
                // It is about to pick.
                _ if newly_idle => {}
                Some(curr) => self.check_preempt(k, to, curr, task),
                None => k.resched(to),
            }
            moved += 1;
            left = left.saturating_sub(weight);
            if left == 0 {
                break;
            }
        }
        k.rq_unlock(from);
        k.rq_unlock(to);
        moved
    }

    /// `can_migrate_task`: allowed there, not running, and not warm unless pulling has failed.
    fn can_migrate(&mut self, k: &mut Kernel, task: TaskId, to: CpuId, level: usize) -> bool {
        // A CPU's code is simulated ahead of others: the task may not have left it yet.
        let leaves = k.tasks[task].on_cpu_until_ns > k.now_ns();
        if leaves || !k.tasks[task].allowed.has(to) || k.tasks[task].state != State::Queued {
            return false;
        }
        let domain = self.domains.around(to)[level];
        let tries = if self.domains.all[domain].level == Level::Core { 0 } else { 1 };
        let warm_ns = k.now_ns().saturating_sub(k.tasks[task].exec_start_ns);
        warm_ns >= MIGRATION_COST_NS || self.rqs[to].balance[level].failed > tries
    }
}

/// `calculate_imbalance` and `fix_small_imbalance`: load to move.
fn imbalance(local: &Group, busiest: &Group, avg_load: u64) -> u64 {
    let per_task = busiest.load_per_task();
    let room = busiest.capacity();
    let above = busiest.nr.saturating_sub(room) * 1024 * 1024 / busiest.power.max(1);
    let (here, there) = (local.avg_load(), busiest.avg_load());
    let pull = match busiest.nr > room {
        true => there.saturating_sub(avg_load).min(above),
        false => there.saturating_sub(avg_load),
    };
    let moved = (pull * busiest.power).min(avg_load.saturating_sub(here) * local.power) / 1024;
    if moved >= per_task {
        return moved;
    }
    // One task more here is worth it as long as the busiest group has more than this one would.
    let task_there = per_task * 1024 / busiest.power.max(1);
    if there >= here + 2 * task_there || local.nr == 0 { per_task } else { moved }
}

/// `double_rq_lock`: in the order of the CPUs' numbers.
fn double_lock(k: &mut Kernel, a: CpuId, b: CpuId) {
    k.rq_lock(a.min(b));
    k.rq_lock(a.max(b));
}

fn tick_ns(k: &Kernel) -> u64 {
    k.machine.costs.tick_period_ns as u64
}
