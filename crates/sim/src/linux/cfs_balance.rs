// SPDX-License-Identifier: GPL-2.0-only
//! Balancing of CFS of 2.6.38: before a CPU goes idle, from the tick, and for CPUs that sleep.
//!
//! Each pass over a domain reads the runqueues of all its CPUs, and pays for the line of each; a pull takes both
//! runqueue locks.

use machine::CpuSet;

use super::cfs::{Cfs, MIGRATION_COST_NS};
use super::domains::Level;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::task::State;

/// `enum cpu_idle_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    Not,
    Is,
    Newly,
}

/// `struct sg_lb_stats`, the part that decisions need.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    cpus: CpuSet,
    load: u64,
    nr: u64,
    power: u64,
    /// Tasks it has room for.
    capacity: u64,
    idle: u64,
    imbalanced: bool,
}

impl Group {
    fn avg_load(&self) -> u64 {
        self.load * 1024 / self.power.max(1)
    }

    /// Whether it has room for another task.
    fn room(&self) -> bool {
        self.nr < self.capacity
    }

    fn load_per_task(&self) -> u64 {
        self.load / self.nr.max(1)
    }
}

/// `sysctl_sched_nr_migrate`: tasks looked at in one pull.
const NR_MIGRATE: usize = 32;

impl Cfs {
    /// `idle_balance`: a CPU that would go idle pulls a task, if its mean idle time is long enough for that to pay. Its
    /// runqueue is locked and is released meanwhile.
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

    /// `load_balance` for `cpu` over one of its domains: returns the number of tasks pulled.
    fn load_balance(&mut self, k: &mut Kernel, cpu: CpuId, level: usize, idle: Idle) -> usize {
        k.enter(self.func.load_balance);
        let domain = self.domains.around(cpu)[level];
        let mut moved = 0;
        let mut balanced = true;
        if let Some((group, imbalance)) = self.busiest_group(k, cpu, domain, idle)
            && let Some(from) = self.busiest_queue(k, cpu, &group, imbalance)
        {
            balanced = false;
            if self.rqs[from].nr + u64::from(k.runs_realtime(from)) > 1 {
                moved = self.pull(k, from, cpu, level, imbalance, idle == Idle::Newly);
            }
        }
        let level_max_ms = if self.domains.all[domain].level == Level::Core { 2 } else { 4 };
        let state = &mut self.rqs[cpu].balance[level];
        match (balanced, moved) {
            (true, _) => {
                state.failed = 0;
                state.interval_ms = (state.interval_ms * 2).min(level_max_ms);
            }
            (false, 0) if idle != Idle::Newly => {
                (state.failed, state.interval_ms) = (state.failed + 1, 1);
            }
            (false, 0) => state.interval_ms = 1,
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
            stats.push(self.group_stats(k, cpu, group));
            // One CPU balances for the whole group: an idle one first, else the lowest.
            if group.has(cpu) && idle != Idle::Newly {
                let members = group.and(&k.online);
                let first_idle = members.iter().find(|member| k.cpus[*member].idle());
                if first_idle.or(members.lowest()) != Some(cpu) {
                    return None;
                }
            }
        }
        let local = stats[groups.iter().position(|group| group.has(cpu))?];
        if local.room() && self.prefers_siblings(cpu, domain) {
            let others = stats.iter_mut().filter(|group| !group.cpus.has(cpu));
            others.for_each(|group| group.capacity = group.capacity.min(1));
        }
        let total = stats.iter().map(|group| group.load).sum::<u64>() * 1024;
        let avg_load = total / stats.iter().map(|group| group.power).sum::<u64>().max(1);
        let loaded = |group: &&Group| {
            !group.cpus.has(cpu) && (group.nr > group.capacity || group.imbalanced)
        };
        let mut busiest: Option<Group> = None;
        for group in stats.iter().filter(loaded) {
            if busiest.is_none_or(|known| group.avg_load() > known.avg_load()) {
                busiest = Some(*group);
            }
        }
        let busiest = busiest.filter(|group| group.nr > 0)?;
        let force = idle == Idle::Newly && local.room() && !busiest.room();
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

    /// `SD_PREFER_SIBLING` of the level below: a cache's tasks are to spread over other caches.
    fn prefers_siblings(&self, cpu: CpuId, domain: usize) -> bool {
        let around = self.domains.around(cpu);
        let at = around.iter().position(|other| *other == domain);
        let child = at.and_then(|at| at.checked_sub(1)).map(|at| &self.domains.all[around[at]]);
        child.is_some_and(|child| child.level != Level::Core)
    }

    /// `update_sg_lb_stats`: reads every runqueue of the group. Only a group other than `here`'s own counts as out of
    /// balance in itself.
    fn group_stats(&mut self, k: &mut Kernel, here: CpuId, group: &CpuSet) -> Group {
        let mut stats = Group { cpus: group.and(&k.online), ..Group::default() };
        let (mut most, mut least, mut nr_most) = (0, u64::MAX, 0);
        for cpu in stats.cpus.iter() {
            k.call(self.func.group_stats);
            let rq = &mut self.rqs[cpu];
            k.read(&mut rq.line);
            stats.load += rq.load;
            stats.nr += rq.nr + u64::from(k.runs_realtime(cpu));
            stats.idle += u64::from(k.cpus[cpu].idle());
            if rq.load > most {
                (most, nr_most) = (rq.load, rq.nr);
            }
            least = rq.load.min(least);
            stats.power += self.power(k, cpu);
        }
        let uneven = most.saturating_sub(least) > 2 * stats.load_per_task();
        stats.imbalanced = !group.has(here) && nr_most > 1 && uneven;
        // A thread of a core counts as one, however small its part of the core
        // (`fix_small_capacity`).
        stats.capacity = ((stats.power + 512) / 1024).max(u64::from(group.len() == 1));
        stats
    }

    /// `find_busiest_queue`: the most loaded runqueue. A thread of a core too small to count as a CPU is considered
    /// even with one task, although that task cannot be taken.
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
            let power = self.power(k, other);
            let held = u64::from(k.runs_realtime(other));
            let counts = power >= 512 || group.len() == 1;
            let rq = &mut self.rqs[other];
            k.read(&mut rq.line);
            if counts && rq.nr + held == 1 && rq.load > imbalance {
                continue;
            }
            let load = rq.load * 1024 / power;
            if load > 0 && best.is_none_or(|(known, _)| load > known) {
                best = Some((load, other));
            }
        }
        best.map(|(_, other)| other)
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
                Some(curr) if k.tasks[curr].realtime.yes() => {}
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

    /// `can_migrate_task`: allowed there, not running, and not warm unless pulling has failed. SCHED_IDLE tasks
    /// are never warm.
    fn can_migrate(&mut self, k: &mut Kernel, task: TaskId, to: CpuId, level: usize) -> bool {
        // A CPU's code is simulated ahead of others: the task may not have left it yet.
        let leaves = k.tasks[task].on_cpu_until_ns > k.now_ns();
        if leaves || !k.tasks[task].allowed.has(to) || k.tasks[task].state != State::Queued {
            return false;
        }
        let domain = self.domains.around(to)[level];
        let tries = if self.domains.all[domain].level == Level::Core { 0 } else { 1 };
        let warm_ns = k.now_ns().saturating_sub(k.tasks[task].exec_start_ns);
        k.tasks[task].has_idle_policy()
            || warm_ns >= MIGRATION_COST_NS
            || self.rqs[to].balance[level].failed > tries
    }
}

/// `calculate_imbalance`: load to move, so that neither group crosses the mean and the busiest keeps as much as it has
/// capacity for.
fn imbalance(local: &Group, busiest: &Group, avg_load: u64) -> u64 {
    let mut per_task = busiest.load_per_task();
    if busiest.imbalanced {
        per_task = per_task.min(avg_load);
    }
    let (here, there) = (local.avg_load(), busiest.avg_load());
    let above = match busiest.imbalanced {
        true => u64::MAX,
        false => busiest.nr.saturating_sub(busiest.capacity) * 1024 * 1024 / busiest.power.max(1),
    };
    let pull = there.saturating_sub(avg_load).min(above);
    let room = avg_load.saturating_sub(here) * local.power;
    let moved = pull.saturating_mul(busiest.power).min(room) / 1024;
    if moved >= per_task { moved } else { small_imbalance(local, busiest, per_task, moved) }
}

/// `fix_small_imbalance`: one task, if the groups differ by a task or if both then use more of their power; else
/// `moved`, which may be too little for any task.
fn small_imbalance(local: &Group, busiest: &Group, per_task: u64, moved: u64) -> u64 {
    let (here, there) = (local.avg_load(), busiest.avg_load());
    let heavier = local.nr > 0 && per_task > local.load_per_task();
    let scaled = per_task * 1024 / busiest.power.max(1);
    let apart = if heavier { 0 } else { scaled };
    if there >= here + apart {
        return per_task;
    }
    // Loads go by task, so a group uses its power for at most one task's load.
    let uses = |group: &Group, task: u64, load: u64| group.power * task.min(load);
    let here_task = if local.nr > 0 { local.load_per_task() } else { 0 };
    let now = (uses(busiest, per_task, there) + uses(local, here_task, here)) / 1024;
    let less = if there > scaled { uses(busiest, per_task, there - scaled) } else { 0 };
    let added = (there * busiest.power).min(per_task * 1024) / local.power.max(1);
    let then = (less + uses(local, here_task, here + added)) / 1024;
    if then > now { per_task } else { moved }
}

/// `double_rq_lock`: in the order of the CPUs' numbers.
fn double_lock(k: &mut Kernel, a: CpuId, b: CpuId) {
    k.rq_lock(a.min(b));
    k.rq_lock(a.max(b));
}

fn tick_ns(k: &Kernel) -> u64 {
    k.machine.costs.tick_period_ns as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core of four threads with `nr` tasks of nice 0.
    fn core(nr: u64) -> Group {
        Group { load: nr * 1024, nr, power: 4 * 294, capacity: 1, ..Group::default() }
    }

    /// Of 57 cores, the others with four tasks each.
    fn mean(local: u64, busiest: u64) -> u64 {
        (55 * 4 + local + busiest) * 1024 * 1024 / (57 * 4 * 294)
    }

    #[test]
    fn one_task_moves_between_cores_that_are_a_task_apart() {
        for (here, there) in [(3, 4), (3, 5), (0, 1), (2, 5)] {
            let load = imbalance(&core(here), &core(there), mean(here, there));
            assert!(load >= 1024 / 2, "{here} tasks and {there}: {load} is less than half a task");
            assert!(load <= (there - here) * 1024, "{here} tasks and {there}: {load}");
        }
    }

    #[test]
    fn none_moves_between_equals() {
        for nr in [1, 4, 8] {
            let load = imbalance(&core(nr), &core(nr), mean(nr, nr));
            assert!(load < 1024 / 2, "{nr} tasks each: {load}");
        }
    }

    #[test]
    fn a_group_out_of_balance_gives_beyond_what_it_has_room_for() {
        let even = Group { capacity: 8, ..core(8) };
        let uneven = Group { imbalanced: true, ..even };
        let avg_load = 4 * 1024 * 1024 / (4 * 294);
        assert!(imbalance(&core(0), &uneven, avg_load) > 3 * 1024);
        assert_eq!(imbalance(&core(0), &even, avg_load), 1024, "a task of those it has room for");
    }
}
