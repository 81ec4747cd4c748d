// SPDX-License-Identifier: GPL-2.0-only
//! Balancing of Linux 6.12 and later: before a CPU goes idle, from the tick, and for CPUs that sleep.

use machine::CpuSet;

use super::capacity::greater;
use super::domains::Level;
use super::eevdf::{Eevdf, Habit, MIGRATION_COST_NS};
use super::eevdf_group::{Group, Kind, numa_imbalance};
use crate::class::Class;
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

/// The amount to move: `env->migration_type` and `env->imbalance`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pull {
    Tasks(usize),
    Load(f64),
    Util(f64),
    /// One task that has too little room where it runs.
    Misfit,
}

/// A pass of a CPU over one of its domains: `struct lb_env`.
#[derive(Clone, Copy)]
struct Env {
    /// The CPU that balances, and that tasks move to.
    to: CpuId,
    level: usize,
    domain: usize,
    idle: Idle,
}

/// The result of a pass over a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// No CPU has too much, or none of its tasks may come here.
    Balanced,
    /// The number of tasks pulled.
    Pulled(usize),
    /// The running task there may not run here.
    Pinned,
    /// The running task there is on its way here.
    Pushed,
}

/// `sysctl_sched_nr_migrate`.
const NR_MIGRATE: usize = 32;
const SECOND_NS: u64 = 1_000_000_000;

impl Eevdf {
    /// `sched_balance_newidle`: returns whether there is a task to run now. The runqueue is locked and is released
    /// meanwhile.
    pub(super) fn newidle_balance(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.enter(self.func.newidle);
        if !k.cpus[cpu].wake_list.is_empty() {
            // A task is on its way here.
            k.leave();
            return false;
        }
        self.rqs[cpu].idle_since_ns = Some(k.now_ns());
        self.update_blocked(k, cpu);
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

    /// `update_next_balance`: an idle CPU balances more often than it did while it was busy.
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
            let before = k.stamp();
            let pulled = self.load_balance(k, cpu, level, Idle::Newly);
            let cost_ns = k.took_ns(before);
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
        // `nohz_balancer_kick`: there are tasks to move here, or perhaps under this cache.
        let near = || {
            self.domains.cache(cpu).is_some_and(|cache| {
                cache.span.iter().filter(|other| !k.cpus[*other].idle()).count() > 1
            })
        };
        let kicks = self.nr_running(cpu) >= 2
            || if self.capacity.any { self.has_misfit(cpu) } else { near() };
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

    /// `sched_balance_domains` for an idle CPU, if it is due.
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
            // The cost of the longest pass decays by 1 % a second.
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

    /// `balance_interval`, 16 times longer while the CPU is busy with more than SCHED_IDLE tasks, at least a tick.
    fn interval_ns(&self, k: &Kernel, cpu: CpuId, level: usize, idle: Idle) -> u64 {
        let ns = self.rqs[cpu].balance[level].interval_ms * 1_000_000;
        match idle {
            Idle::Not if !self.runs_idle_policy_only(k, cpu) => {
                (16 * ns).saturating_sub(tick_ns(k)).max(tick_ns(k))
            }
            _ => ns.max(tick_ns(k)),
        }
    }

    /// `sched_balance_rq` for `cpu` over one of its domains: returns the number of tasks pulled.
    fn load_balance(&mut self, k: &mut Kernel, cpu: CpuId, level: usize, idle: Idle) -> usize {
        k.enter(self.func.load_balance);
        let domain = self.domains.around(cpu)[level];
        let env = Env { to: cpu, level, domain, idle };
        let came = match self.should_balance(k, cpu, domain, idle) {
            true => self.balance_domain(k, env),
            false => Came::Balanced,
        };
        let width_ms = self.domains.all[domain].span.len() as u64;
        let state = &mut self.rqs[cpu].balance[level];
        match came {
            Came::Balanced | Came::Pinned => {
                if came == Came::Balanced {
                    state.failed = 0;
                }
                if idle != Idle::Newly {
                    state.interval_ms = (state.interval_ms * 2).min(2 * width_ms);
                }
            }
            Came::Pulled(0) => {
                state.failed += u32::from(idle != Idle::Newly);
                state.interval_ms = width_ms;
            }
            Came::Pulled(_) => (state.failed, state.interval_ms) = (0, width_ms),
            Came::Pushed => {}
        }
        k.leave();
        if let Came::Pulled(moved) = came { moved } else { 0 }
    }

    /// Finds a CPU to pull from, and pulls. If none of a CPU's tasks may come here, it excludes that CPU and finds
    /// another.
    fn balance_domain(&mut self, k: &mut Kernel, env: Env) -> Came {
        let mut looked_at = self.domains.all[env.domain].span;
        loop {
            let Some((group, pull)) = self.busiest_group(k, env, &looked_at) else {
                return Came::Balanced;
            };
            let Some(from) = self.busiest_queue(k, env, &group, pull) else {
                return Came::Balanced;
            };
            let alone = self.rqs[from].runnable + usize::from(k.runs_realtime(from)) < 2;
            let moved = if alone { 0 } else { self.pull(k, from, env, pull) };
            if moved > 0 {
                return Came::Pulled(moved);
            }
            if !alone && self.all_pinned(k, from, env.to) {
                looked_at.remove(from);
                let own =
                    self.domains.all[env.domain].groups.iter().find(|group| group.has(env.to));
                if own.is_some_and(|own| looked_at.within(own)) {
                    return Came::Balanced;
                }
                continue;
            }
            return self.push_running(k, from, env, pull);
        }
    }

    /// LBF_ALL_PINNED: none of a CPU's tasks may run here.
    fn all_pinned(&self, k: &Kernel, from: CpuId, to: CpuId) -> bool {
        let mut tasks = self.waiting(from).into_iter().chain(self.rqs[from].curr);
        tasks.all(|task| !k.tasks[task].allowed.has(to))
    }

    /// `active_load_balance_cpu_stop`, after pulling has failed too often (`imbalanced_active_balance`): the stopper
    /// takes the running task off its CPU, and brings it here.
    fn push_running(&mut self, k: &mut Kernel, from: CpuId, env: Env, pull: Pull) -> Came {
        let Env { to, level, idle, .. } = env;
        let tries = self.tries(env.domain);
        let state = &mut self.rqs[to].balance[level];
        let failed = state.failed + u32::from(idle != Idle::Newly);
        let tried = matches!(pull, Pull::Tasks(_)) && failed > tries + 2;
        if !tried && pull != Pull::Misfit {
            return Came::Pulled(0);
        }
        let Some(curr) = k.cpus[from].curr.filter(|curr| !k.tasks[*curr].realtime.yes()) else {
            return Came::Pulled(0);
        };
        if !k.tasks[curr].allowed.has(to) {
            state.failed = failed;
            return Came::Pinned;
        }
        if k.tasks[curr].state != State::Running || k.tasks[curr].must_move {
            return Came::Pulled(0);
        }
        state.failed = 0;
        k.tasks[curr].must_move = true;
        k.tasks[curr].moves_to = Some(to);
        k.resched(from);
        Came::Pushed
    }

    /// `should_we_balance`: the first idle CPU of a group balances, or its first one if none is idle.
    fn should_balance(&self, k: &Kernel, cpu: CpuId, domain: usize, idle: Idle) -> bool {
        if idle == Idle::Newly {
            return true;
        }
        let group = self.domains.all[domain].groups.iter().find(|group| group.has(cpu));
        let members = group.map_or(CpuSet::EMPTY, |group| group.and(&k.online));
        let first_idle = members.iter().find(|member| k.cpus[*member].idle());
        first_idle.or(members.lowest()) == Some(cpu)
    }

    /// `sched_balance_find_src_group`, among the CPUs under consideration.
    fn busiest_group(
        &mut self,
        k: &mut Kernel,
        env: Env,
        looked_at: &CpuSet,
    ) -> Option<(CpuSet, Pull)> {
        let Env { to: cpu, domain, idle, .. } = env;
        let groups = self.domains.all[domain].groups.clone();
        let func = self.func.group_stats;
        let stats: Vec<Group> = groups
            .iter()
            .map(|group| self.group_stats(k, group, looked_at, domain, None, func))
            .collect();
        self.update_idle_scan(k, cpu, domain, &stats, idle);
        if self.domains.around(cpu).last() == Some(&domain) {
            let overloaded = |cpu| self.nr_running(cpu) > 1 || self.rqs[cpu].misfit_load > 0.0;
            self.overloaded = k.online.iter().any(overloaded);
        }
        let own = groups.iter().position(|group| group.has(cpu))?;
        let local = stats[own];
        let mut busiest: Option<Group> = None;
        let here = self.capacity_of(k, cpu);
        for (at, group) in stats.iter().enumerate() {
            let helps = !self.capacity.differs[domain] || helps(group, &local, here);
            if at != own
                && group.nr > 0
                && helps
                && busiest.is_none_or(|known| group.busier(&known))
            {
                busiest = Some(*group);
            }
        }
        let busiest = busiest?;
        let load: f64 = stats.iter().map(|group| group.load).sum();
        let capacity: f64 = stats.iter().map(|group| group.capacity).sum();
        let avg_load = load * 1024.0 / capacity.max(1.0);
        let siblings = sibling_imbalance(k, idle, &local, &busiest);
        // All domains that are a group of another have SD_PREFER_SIBLING.
        let uneven = busiest.weight > 1 && local.kind == Kind::HasSpare && siblings > 1;
        let balanced = if busiest.kind == Kind::Misfit {
            false
        } else if local.kind > busiest.kind {
            true
        } else if local.kind == Kind::Overloaded {
            local.avg_load() >= busiest.avg_load()
                || local.avg_load() >= avg_load
                || 100.0 * busiest.avg_load()
                    <= self.imbalance_pct(domain) as f64 * local.avg_load()
        } else if uneven || busiest.kind == Kind::Overloaded {
            false
        } else {
            idle == Idle::Not
                || (busiest.weight > 1 && local.idle <= busiest.idle + 1)
                || busiest.nr == 1
        };
        if balanced {
            return None;
        }
        let pull = self.amount(domain, &local, &busiest, avg_load, siblings, idle);
        (pull != Pull::Tasks(0)).then_some((busiest.cpus, pull))
    }

    /// `calculate_imbalance`.
    fn amount(
        &self,
        domain: usize,
        local: &Group,
        busiest: &Group,
        avg_load: f64,
        siblings: usize,
        idle: Idle,
    ) -> Pull {
        let level = self.domains.all[domain].level;
        if busiest.kind == Kind::Misfit {
            return Pull::Misfit;
        }
        if local.kind == Kind::HasSpare {
            if busiest.kind > Kind::FullyBusy && level > Level::Cache {
                let room = local.capacity.max(local.util) - local.util;
                return match room {
                    room if room > 0.0 => Pull::Util(room),
                    _ if idle != Idle::Not => Pull::Tasks(1),
                    _ => Pull::Tasks(0),
                };
            }
            let more = match level {
                Level::Machine => {
                    numa_imbalance(siblings, local.nr + 1, self.domains.numa_allowed(domain))
                }
                _ => siblings,
            };
            return Pull::Tasks(more / 2);
        }
        if local.kind == Kind::FullyBusy
            && (local.avg_load() >= busiest.avg_load() || local.avg_load() >= avg_load)
        {
            return Pull::Tasks(0);
        }
        let there = (busiest.avg_load() - avg_load) * (busiest.capacity / 1024.0);
        let here = (avg_load - local.avg_load()) * (local.capacity / 1024.0);
        Pull::Load(there.min(here).max(0.0))
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
        let weight: usize = stats.iter().map(|group| group.weight).sum();
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
        env: Env,
        group: &CpuSet,
        pull: Pull,
    ) -> Option<CpuId> {
        let pct = self.imbalance_pct(env.domain) as f64;
        let mut best: Option<(f64, CpuId)> = None;
        let here = self.capacity_of(k, env.to);
        for other in group.iter().filter(|other| *other != env.to) {
            k.call(self.func.busiest_queue);
            let capacity = self.capacity_of(k, other);
            let slower = self.capacity.differs[env.domain] && !greater(here, capacity);
            let (rq, of) = (&mut self.rqs[other], &self.cfs[other]);
            k.read(&mut rq.line);
            // A single task is taken if it would do as well here, or shares its CPU with real-time tasks.
            let busy = match pull {
                _ if rq.runnable == 0 || slower && rq.runnable == 1 => continue,
                Pull::Misfit => rq.misfit_load,
                Pull::Tasks(_) => rq.runnable as f64,
                Pull::Load(most)
                    if rq.runnable == 1 && of.avg.load > most && capacity * pct >= 102_400.0 =>
                {
                    continue;
                }
                Pull::Load(_) => of.avg.load * 1024.0 / capacity,
                Pull::Util(_) if rq.runnable == 1 => continue,
                // `cpu_util_cfs_boost`
                Pull::Util(_) => of.avg.util.max(of.avg.runnable).max(rq.estimated).min(1024.0),
            };
            if best.is_none_or(|(known, _)| busy > known) {
                best = Some((busy, other));
            }
        }
        best.map(|(_, other)| other)
    }

    /// `detach_tasks` under the one lock, then `attach_tasks` under the other.
    fn pull(&mut self, k: &mut Kernel, from: CpuId, env: Env, pull: Pull) -> usize {
        let Env { to, level, idle, .. } = env;
        k.rq_lock(from);
        self.update_curr(k, from);
        let mut tasks: Vec<TaskId> = self.waiting(from);
        // The list is in the order in which tasks were queued or ran last, the oldest first.
        let listed_ns = |task: TaskId| k.tasks[task].exec_start_ns.max(self.habits[task].queued_ns);
        tasks.sort_by_key(|task| (listed_ns(*task), *task));
        let mut left = pull;
        let mut moved = Vec::new();
        for task in tasks.into_iter().take(NR_MIGRATE) {
            k.call(self.func.move_task);
            let failed = self.rqs[to].balance[level].failed;
            // `detach_tasks`: a task that has room enough stays.
            let stays = left == Pull::Misfit && self.has_room(k, from, task);
            if stays
                || !self.can_migrate(k, task, from, env)
                || !fits(&mut left, &self.habits[task], self.h_load(task), failed)
            {
                continue;
            }
            k.enter(k.func.deactivate_task);
            self.dequeue(k, from, task, 0);
            k.leave();
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
            k.enter(k.func.activate_task);
            self.enqueue(k, to, *task, 0);
            k.leave();
            match k.cpus[to].curr {
                // It is about to pick.
                _ if idle == Idle::Newly => {}
                Some(curr) if k.tasks[curr].realtime.yes() => {}
                Some(curr) => self.check_preempt(k, to, curr, *task, 0),
                None => k.resched(to),
            }
        }
        k.rq_unlock(to);
        moved.len()
    }

    /// `can_migrate_task`: allowed there, waiting, eligible or with no task there, and not warm. The latter two do not
    /// apply if pulling has failed. SCHED_IDLE tasks are never warm.
    fn can_migrate(&self, k: &Kernel, task: TaskId, from: CpuId, env: Env) -> bool {
        let Env { to, level, domain, .. } = env;
        let waits = k.tasks[task].state == State::Queued && !self.entities[task].delayed;
        // A CPU's code is simulated ahead of others: the task may not have left it yet.
        let leaves = k.tasks[task].on_cpu_until_ns > k.now_ns();
        if leaves || !waits || !k.tasks[task].allowed.has(to) {
            return false;
        }
        let failed = self.rqs[to].balance[level].failed;
        let [here, there] = [from, to].map(|cpu| self.cfs_of(k, cpu, task));
        // `lb_throttled_hierarchy`
        if self.cfs[there].throttles > 0 {
            return false;
        }
        let due = || self.cfs[here].queue.eligible(&self.entities, task);
        if failed == 0 && self.nr_running(to) > 0 && !due() {
            return false;
        }
        let warm_ns = k.now_ns().saturating_sub(k.tasks[task].exec_start_ns);
        self.domains.all[domain].level == Level::Core
            || k.tasks[task].has_idle_policy()
            || warm_ns >= MIGRATION_COST_NS
            || failed > self.tries(domain)
    }

    /// `cache_nice_tries`: failed passes before a warm task is taken.
    fn tries(&self, domain: usize) -> u32 {
        match self.domains.all[domain].level {
            Level::Core => 0,
            Level::Cache | Level::Node => 1,
            Level::Machine => 2,
        }
    }
}

/// `sibling_imbalance`: the surplus of tasks of the busiest group, in proportion to its cores.
fn sibling_imbalance(k: &Kernel, idle: Idle, local: &Group, busiest: &Group) -> usize {
    if idle == Idle::Not {
        return 0;
    }
    let first = |cpu: &CpuId| k.siblings(*cpu).lowest() == Some(*cpu);
    let cores = |group: &Group| group.cpus.iter().filter(first).count().max(1);
    let (here, there) = (cores(local), cores(busiest));
    if here == there {
        return busiest.nr.saturating_sub(local.nr);
    }
    let more = (here * busiest.nr).saturating_sub(there * local.nr);
    let each = (2 * more + here + there) / (here + there);
    if each <= 1 && local.nr == 0 && busiest.nr > 1 { 2 } else { each }
}

/// Whether a CPU of capacity `here`, in group `local`, helps a group whose CPUs differ from it (`update_sd_pick_busiest`):
/// with a task that has too little room only if there is more here, and with no more than a task for each CPU only if
/// there is not less.
fn helps(group: &Group, local: &Group, here: f64) -> bool {
    match group.kind {
        Kind::Misfit => greater(here, group.most) && local.kind == Kind::HasSpare,
        Kind::HasSpare | Kind::FullyBusy => !greater(group.least, here),
        Kind::Overloaded => true,
    }
}

/// Whether a task fits in the amount still to be moved; subtracts it.
fn fits(left: &mut Pull, habit: &Habit, load_of: f64, failed: u32) -> bool {
    let (load_of, util_of) = (load_of.max(1.0), habit.estimate.of(&habit.avg));
    let part = 1.0 / f64::from(1u32 << failed.min(16));
    match left {
        Pull::Tasks(tasks) => {
            *tasks = tasks.saturating_sub(1);
            true
        }
        Pull::Load(load) if load_of * part <= *load => {
            *load -= load_of;
            true
        }
        Pull::Util(util) if util_of * part <= *util => {
            *util -= util_of;
            true
        }
        Pull::Misfit => true,
        _ => false,
    }
}

fn done(left: Pull) -> bool {
    match left {
        Pull::Tasks(tasks) => tasks == 0,
        Pull::Load(load) => load <= 0.0,
        Pull::Util(util) => util <= 0.0,
        Pull::Misfit => true,
    }
}

fn tick_ns(k: &Kernel) -> u64 {
    k.machine.costs.tick_period_ns as u64
}
