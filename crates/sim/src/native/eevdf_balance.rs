// SPDX-License-Identifier: GPL-2.0-only
//! How Linux 6.12 and later balance: before a CPU goes idle, from the tick, and for CPUs that sleep.

use machine::CpuSet;

use super::domains::Level;
use super::eevdf::{Eevdf, MIGRATION_COST_NS};
use super::eevdf_queue::Placing;
use crate::kernel::Kernel;
use crate::task::{CpuId, State, TaskId};

/// `enum cpu_idle_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    Not,
    Is,
    Newly,
}

/// `enum group_type`, as far as it is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    HasSpare,
    FullyBusy,
    Overloaded,
}

/// `struct sg_lb_stats`.
#[derive(Clone, Copy, Debug)]
struct Group {
    cpus: CpuSet,
    kind: Kind,
    load: f64,
    util: f64,
    /// 1024 for each CPU, less what real-time tasks take.
    capacity: f64,
    nr: usize,
    idle: usize,
}

impl Group {
    fn weight(&self) -> usize {
        self.cpus.len()
    }

    fn avg_load(&self) -> f64 {
        self.load * 1024.0 / self.capacity.max(1.0)
    }

    /// `update_sd_pick_busiest`.
    fn busier(&self, than: &Group) -> bool {
        match self.kind.cmp(&than.kind) {
            std::cmp::Ordering::Equal if self.kind == Kind::HasSpare => {
                (than.idle, self.nr) > (self.idle, than.nr)
            }
            std::cmp::Ordering::Equal => self.avg_load() > than.avg_load(),
            order => order.is_gt(),
        }
    }
}

/// What is to be moved: `env->migration_type` and `env->imbalance`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pull {
    Tasks(usize),
    Load(f64),
    Util(f64),
}

/// `sysctl_sched_nr_migrate` with lazy or full preemption.
const NR_MIGRATE: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;

impl Eevdf {
    /// `sched_balance_newidle`: returns whether there is something to run now. The runqueue is
    /// locked and is given back meanwhile.
    pub(super) fn newidle_balance(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.enter(self.func.newidle);
        if !k.cpus[cpu].wake_list.is_empty() {
            // A task is on its way here.
            k.leave();
            return false;
        }
        self.rqs[cpu].idle_since_ns = Some(k.now_ns());
        let overloaded = self.overloaded;
        let first_ns = self.rqs[cpu].balance.first().map_or(0, |level| level.newidle_max_ns);
        let mut pulled = 0;
        if k.cpus[cpu].online && overloaded && self.rqs[cpu].avg_idle_ns >= first_ns {
            k.rq_unlock(cpu);
            pulled = self.newidle_levels(k, cpu);
            k.rq_lock(cpu);
        }
        self.balance_sooner(k, cpu);
        let work = pulled > 0 || self.rqs[cpu].runnable > 0;
        if work {
            self.rqs[cpu].idle_since_ns = None;
        }
        k.leave();
        work
    }

    /// `update_next_balance`: a CPU that idles balances more often than it did while it was busy.
    fn balance_sooner(&mut self, k: &Kernel, cpu: CpuId) {
        for level in 0..self.rqs[cpu].balance.len() {
            let last_ns = self.rqs[cpu].balance[level].last_ns;
            let due_ns = last_ns + self.interval_ns(k, cpu, level, Idle::Newly);
            self.rqs[cpu].next_balance_ns = self.rqs[cpu].next_balance_ns.min(due_ns);
        }
    }

    fn newidle_levels(&mut self, k: &mut Kernel, cpu: CpuId) -> usize {
        let mut spent_ns = 0;
        for level in 0..self.domains.around(cpu).len() {
            let max_ns = self.rqs[cpu].balance[level].newidle_max_ns;
            if self.rqs[cpu].avg_idle_ns < spent_ns + max_ns {
                break;
            }
            let random = k.random_u32();
            let newidle = &mut self.rqs[cpu].balance[level].newidle;
            let Some(weight) = newidle.dice(k.now_ns(), random) else { continue };
            let before_ns = k.now_ns();
            let pulled = self.load_balance(k, cpu, level, Idle::Newly);
            let cost_ns = k.now_ns() - before_ns;
            spent_ns += cost_ns;
            let state = &mut self.rqs[cpu].balance[level];
            state.newidle.count(k.now_ns(), if pulled > 0 { weight } else { 0 });
            state.newidle_max_ns = state.newidle_max_ns.max(cost_ns);
            if pulled > 0 || self.rqs[cpu].runnable > 0 {
                return pulled;
            }
        }
        0
    }

    /// `sched_balance_trigger` and the softirq it raises.
    pub(super) fn periodic(&mut self, k: &mut Kernel, cpu: CpuId) {
        if k.cpus[cpu].idle() {
            return self.balance_sleepers(k, cpu);
        }
        if k.now_ns() >= self.rqs[cpu].next_balance_ns {
            self.rebalance(k, cpu, Idle::Not);
        }
        // `nohz_balancer_kick`: there is something to move here, or perhaps under this cache.
        let kicks = self.nr_running(cpu) >= 2
            || self.domains.cache(cpu).is_some_and(|cache| {
                cache.span.iter().filter(|other| !k.cpus[*other].idle()).count() > 1
            });
        if kicks && k.now_ns() >= self.nohz_next_ns {
            let sleeper = k.online.iter().find(|other| k.sleeps(*other));
            if let Some(sleeper) = sleeper {
                self.nohz_next_ns = k.now_ns() + tick_ns(k);
                k.kick_balance(sleeper);
            }
        }
    }

    /// `_nohz_idle_balance`: one idle CPU balances for all that sleep without ticks, itself last.
    fn balance_sleepers(&mut self, k: &mut Kernel, cpu: CpuId) {
        let others: Vec<CpuId> =
            k.online.iter_from(cpu + 1).filter(|other| *other != cpu).collect();
        for other in others.into_iter().chain([cpu]) {
            if k.cpus[cpu].need_resched {
                return;
            }
            if k.sleeps(other) {
                self.balance_idle(k, other);
            }
        }
    }

    /// `sched_balance_domains` for a CPU that idles, where it is time.
    pub(super) fn balance_idle(&mut self, k: &mut Kernel, cpu: CpuId) {
        if k.now_ns() >= self.rqs[cpu].next_balance_ns {
            self.rebalance(k, cpu, Idle::Is);
        }
    }

    /// `sched_balance_domains`.
    fn rebalance(&mut self, k: &mut Kernel, cpu: CpuId, idle: Idle) {
        k.enter(self.func.rebalance);
        let mut next_ns = k.now_ns() + 60 * SECOND_NS;
        for level in 0..self.domains.around(cpu).len() {
            let state = &mut self.rqs[cpu].balance[level];
            // The cost of the longest pass is forgotten, 1 % a second.
            if k.now_ns() > state.last_ns + SECOND_NS {
                state.newidle_max_ns = state.newidle_max_ns * 253 / 256;
            }
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

    /// `balance_interval`, 16 times longer while the CPU is busy, at least a tick.
    fn interval_ns(&self, k: &Kernel, cpu: CpuId, level: usize, idle: Idle) -> u64 {
        let ns = self.rqs[cpu].balance[level].interval_ms * 1_000_000;
        match idle {
            Idle::Not => (16 * ns).saturating_sub(tick_ns(k)).max(tick_ns(k)),
            _ => ns.max(tick_ns(k)),
        }
    }

    /// `sched_balance_rq` for `cpu` over one of its domains: tasks pulled.
    fn load_balance(&mut self, k: &mut Kernel, cpu: CpuId, level: usize, idle: Idle) -> usize {
        k.enter(self.func.load_balance);
        let domain = self.domains.around(cpu)[level];
        let mut moved = 0;
        let mut balanced = true;
        if self.should_balance(k, cpu, domain, idle)
            && let Some((group, pull)) = self.busiest_group(k, cpu, domain, idle)
            && let Some(from) = self.busiest_queue(k, cpu, &group, pull)
        {
            balanced = false;
            moved = self.pull(k, from, cpu, level, pull, idle);
        }
        let width_ms = self.domains.all[domain].span.len() as u64;
        let state = &mut self.rqs[cpu].balance[level];
        match (balanced, moved) {
            (true, _) if idle != Idle::Newly => {
                state.interval_ms = (state.interval_ms * 2).min(2 * width_ms);
            }
            (false, 0) if idle != Idle::Newly => state.failed += 1,
            (false, 1..) => (state.failed, state.interval_ms) = (0, width_ms),
            _ => {}
        }
        k.leave();
        moved
    }

    /// `should_we_balance`: for a group its first idle CPU, else its first.
    fn should_balance(&self, k: &Kernel, cpu: CpuId, domain: usize, idle: Idle) -> bool {
        if idle == Idle::Newly {
            return true;
        }
        let group = self.domains.all[domain].groups.iter().find(|group| group.has(cpu));
        let members = group.map_or(CpuSet::EMPTY, |group| group.and(&k.online));
        let first_idle = members.iter().find(|member| k.cpus[*member].idle());
        first_idle.or(members.lowest()) == Some(cpu)
    }

    /// `sched_balance_find_src_group`.
    fn busiest_group(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        domain: usize,
        idle: Idle,
    ) -> Option<(CpuSet, Pull)> {
        let groups = self.domains.all[domain].groups.clone();
        let level = self.domains.all[domain].level;
        let stats: Vec<Group> =
            groups.iter().map(|group| self.group_stats(k, group, domain)).collect();
        self.update_idle_scan(k, cpu, domain, &stats, idle);
        if self.domains.around(cpu).last() == Some(&domain) {
            self.overloaded = k.online.iter().any(|cpu| self.nr_running(cpu) > 1);
        }
        let local = *stats.iter().find(|group| group.cpus.has(cpu))?;
        let mut busiest: Option<Group> = None;
        for group in stats.iter().filter(|group| !group.cpus.has(cpu)) {
            if busiest.is_none_or(|known| group.busier(&known)) {
                busiest = Some(*group);
            }
        }
        let busiest = busiest.filter(|group| group.nr > 0)?;
        let load: f64 = stats.iter().map(|group| group.load).sum();
        let capacity: f64 = stats.iter().map(|group| group.capacity).sum();
        let avg_load = load * 1024.0 / capacity.max(1.0);
        let siblings = self.sibling_imbalance(level, &local, &busiest);
        let balanced = if busiest.kind == Kind::Overloaded && local.kind != Kind::HasSpare {
            local.avg_load() >= busiest.avg_load()
                || local.avg_load() >= avg_load
                || 100.0 * busiest.avg_load()
                    <= self.imbalance_pct(domain) as f64 * local.avg_load()
        } else if siblings > 1 && local.kind == Kind::HasSpare || busiest.kind == Kind::Overloaded {
            false
        } else {
            idle == Idle::Not
                || (busiest.weight() > 1 && local.idle <= busiest.idle + 1)
                || busiest.nr == 1
        };
        if balanced {
            return None;
        }
        let pull = amount(level, &local, &busiest, avg_load, siblings, idle);
        (pull != Pull::Tasks(0)).then_some((busiest.cpus, pull))
    }

    /// SD_PREFER_SIBLING below caches and nodes of one kind: how many tasks more the busiest has.
    fn sibling_imbalance(&self, level: Level, local: &Group, busiest: &Group) -> usize {
        if level == Level::Core || level == Level::Machine {
            return 0;
        }
        // Groups of one size: by tasks; `sibling_imbalance` weighs them otherwise.
        let scaled = |group: &Group, other: &Group| group.nr * other.weight();
        let (here, there) = (scaled(local, busiest), scaled(busiest, local));
        there.saturating_sub(here).div_ceil(local.weight().max(1))
    }

    /// `update_sg_lb_stats`: reads every runqueue of the group.
    fn group_stats(&mut self, k: &mut Kernel, group: &CpuSet, domain: usize) -> Group {
        let cpus = group.and(&k.online);
        let mut stats = Group {
            cpus,
            kind: Kind::HasSpare,
            load: 0.0,
            util: 0.0,
            capacity: 0.0,
            nr: 0,
            idle: 0,
        };
        for cpu in cpus.iter() {
            k.call(self.func.group_stats);
            stats.capacity += k.capacity_left(cpu);
            let rq = &mut self.rqs[cpu];
            k.read(&mut rq.line);
            let load = rq.queue.load(&self.entities) as u64;
            rq.avg.update(k.now_ns(), load, rq.queue.curr.is_some());
            stats.load += rq.avg.load;
            stats.util += rq.avg.util;
            stats.nr += rq.runnable + usize::from(k.runs_realtime(cpu));
            stats.idle += usize::from(k.cpus[cpu].idle() && rq.runnable == 0);
        }
        let full = stats.util * self.imbalance_pct(domain) as f64 > stats.capacity * 100.0;
        stats.kind = match stats.nr.cmp(&stats.weight()) {
            std::cmp::Ordering::Less => Kind::HasSpare,
            std::cmp::Ordering::Greater if full => Kind::Overloaded,
            _ if full => Kind::FullyBusy,
            _ => Kind::HasSpare,
        };
        stats
    }

    /// `update_idle_cpu_scan`: the busier the cache, the fewer CPUs a search looks at.
    fn update_idle_scan(
        &mut self,
        k: &Kernel,
        cpu: CpuId,
        domain: usize,
        stats: &[Group],
        idle: Idle,
    ) {
        let cache = self.domains.cache(cpu).map(|cache| cache.span);
        if idle == Idle::Newly || cache != Some(self.domains.all[domain].span) {
            return;
        }
        let weight: usize = stats.iter().map(Group::weight).sum();
        let util = stats.iter().map(|group| group.util).sum::<f64>() / weight.max(1) as f64;
        let pct = self.imbalance_pct(domain) as f64;
        let used = (util * util * pct * pct / (10_000.0 * 1024.0)).min(1024.0);
        let scan = (1024.0 - used) * weight as f64 / 1024.0;
        self.idle_scan[k.machine.cpus[cpu].llc as usize] = scan as usize;
    }

    /// `sched_balance_find_src_rq`.
    fn busiest_queue(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        group: &CpuSet,
        pull: Pull,
    ) -> Option<CpuId> {
        let mut best: Option<(f64, CpuId)> = None;
        for other in group.iter().filter(|other| *other != cpu) {
            k.call(self.func.busiest_queue);
            let rq = &mut self.rqs[other];
            k.read(&mut rq.line);
            // Who runs cannot be taken.
            if rq.runnable + usize::from(k.runs_realtime(other)) < 2 {
                continue;
            }
            let busy = match pull {
                Pull::Tasks(_) => rq.runnable as f64,
                Pull::Load(_) => rq.avg.load * 1024.0 / k.capacity_left(other),
                Pull::Util(_) => rq.avg.util,
            };
            if best.is_none_or(|(known, _)| busy > known) {
                best = Some((busy, other));
            }
        }
        best.map(|(_, other)| other)
    }

    /// `detach_tasks` under the one lock, then `attach_tasks` under the other.
    fn pull(
        &mut self,
        k: &mut Kernel,
        from: CpuId,
        to: CpuId,
        level: usize,
        pull: Pull,
        idle: Idle,
    ) -> usize {
        k.rq_lock(from);
        self.update_curr(k, from);
        let mut tasks: Vec<TaskId> = self.rqs[from].queue.waiting().collect();
        // The list is in the order of last runs, the oldest looked at first.
        tasks.sort_by_key(|task| (k.tasks[*task].exec_start_ns, *task));
        let mut left = pull;
        let mut moved = Vec::new();
        for task in tasks.into_iter().take(NR_MIGRATE) {
            k.call(self.func.move_task);
            let failed = self.rqs[to].balance[level].failed;
            if !self.can_migrate(k, task, to, level)
                || !fits(&mut left, &self.habits[task].avg, failed)
            {
                continue;
            }
            self.update_load(k, from, Some(task));
            self.detach(k, from, task, false);
            k.set_task_cpu(task, to);
            moved.push(task);
            if idle == Idle::Newly || done(left) {
                break;
            }
        }
        k.rq_unlock(from);
        if moved.is_empty() {
            return 0;
        }
        k.rq_lock(to);
        for task in &moved {
            self.update_curr(k, to);
            self.attach(k, to, *task, Placing::Back);
            match k.cpus[to].curr {
                // It is about to pick.
                _ if idle == Idle::Newly => {}
                Some(curr) if k.tasks[curr].realtime.yes() => {}
                Some(_) => self.check_preempt(k, to, *task),
                None => k.resched(to),
            }
        }
        k.rq_unlock(to);
        moved.len()
    }

    /// `can_migrate_task`: allowed there, waiting, and not warm unless pulling has failed.
    fn can_migrate(&self, k: &Kernel, task: TaskId, to: CpuId, level: usize) -> bool {
        let waits = k.tasks[task].state == State::Queued && !self.entities[task].delayed;
        // A CPU's code is simulated ahead of others: the task may not have left it yet.
        let leaves = k.tasks[task].on_cpu_until_ns > k.now_ns();
        if leaves || !waits || !k.tasks[task].allowed.has(to) {
            return false;
        }
        let domain = &self.domains.all[self.domains.around(to)[level]];
        let tries = match domain.level {
            Level::Core => return true,
            Level::Cache | Level::Node => 1,
            Level::Machine => 2,
        };
        let warm_ns = k.now_ns().saturating_sub(k.tasks[task].exec_start_ns);
        warm_ns >= MIGRATION_COST_NS || self.rqs[to].balance[level].failed > tries
    }
}

/// `calculate_imbalance`.
fn amount(
    level: Level,
    local: &Group,
    busiest: &Group,
    avg_load: f64,
    siblings: usize,
    idle: Idle,
) -> Pull {
    if local.kind == Kind::HasSpare {
        if busiest.kind > Kind::FullyBusy && level > Level::Cache {
            let room = local.capacity.max(local.util) - local.util;
            return match room {
                room if room > 0.0 => Pull::Util(room),
                _ if idle != Idle::Not => Pull::Tasks(1),
                _ => Pull::Tasks(0),
            };
        }
        let more = if siblings > 0 || busiest.weight() == 1 {
            siblings.max(usize::from(busiest.weight() == 1 && busiest.nr > local.nr + 1) * 2)
        } else {
            local.idle.saturating_sub(busiest.idle)
        };
        if level == Level::Machine && local.nr < (local.weight() / 4).max(1) && more <= 2 {
            return Pull::Tasks(0);
        }
        return Pull::Tasks(more / 2);
    }
    let there = (busiest.avg_load() - avg_load) * (busiest.capacity / 1024.0);
    let here = (avg_load - local.avg_load()) * (local.capacity / 1024.0);
    Pull::Load(there.min(here).max(0.0))
}

/// Whether a task fits in what is still to be moved, and takes it off.
fn fits(left: &mut Pull, avg: &crate::pelt::Avg, failed: u32) -> bool {
    let part = 1.0 / f64::from(1u32 << failed.min(16));
    match left {
        Pull::Tasks(tasks) => {
            *tasks = tasks.saturating_sub(1);
            true
        }
        Pull::Load(load) if avg.load.max(1.0) * part <= *load => {
            *load -= avg.load.max(1.0);
            true
        }
        Pull::Util(util) if avg.util * part <= *util => {
            *util -= avg.util;
            true
        }
        _ => false,
    }
}

fn done(left: Pull) -> bool {
    match left {
        Pull::Tasks(tasks) => tasks == 0,
        Pull::Load(load) => load <= 0.0,
        Pull::Util(util) => util <= 0.0,
    }
}

fn tick_ns(k: &Kernel) -> u64 {
    k.machine.costs.tick_period_ns as u64
}
