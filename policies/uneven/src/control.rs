// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: looks at the running tasks, plans, and puts the shares in force.
//!
//! It looks often and plans seldom (slide 11: every 2 s), or as soon as the set of running tasks
//! changes. A task that has not run for a while takes no part. A task that leaves CPU time unused
//! counts as no wider than what it uses.

use std::collections::BTreeMap;

use policy::table::TYPES_MAX;
use policy::{Binds, Control, Instance, Profile, Sources, Topology, View};

use crate::hierarchy::parts;
use crate::known::{Key, Known, RUNS, Tenancy, Tenant, Thread as KnownThread};
use crate::limits::SPEED_MAX;
use crate::memory::Memory;
use crate::{
    Base, CoreTypes, Deviation, GuaranteedFair, Mode, Policy, Problem, Rules, Task, Thread,
    by_utility, evenly, plan,
};

/// Looks in an interval.
const LOOKS: u64 = 20;
/// After this many intervals every task is sampled, however often plans were made for tasks that
/// came or ended.
const SAMPLED_BY: u64 = 2;
/// The part of its CPU time that a task gets on each kind so that it can be measured (slide 10).
const FLOOR: f64 = 0.04;
/// The sum of a task's shares of all kinds in the table: `SHARE_ONE` of shares.h.
const ONE: f64 = 65535.0;
/// The default weight, in the kernel's numbers.
const EVEN: f64 = 100.0;
/// The bounds of weights in the data plane.
const WEIGHT_MIN: f64 = 1.0;
const WEIGHT_MAX: f64 = 10_000.0;

/// How the threads of a program share its part (slide 26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Alike.
    Even,
    /// The thread that gains most has the fast cores first.
    Utility,
}

/// The rule that an instance shares by.
pub(crate) struct Rule {
    pub policy: Policy,
    pub base: Base,
    pub tenancy: Tenancy,
    pub inside: Inside,
}

/// The control plane of an instance.
pub(crate) struct Shares {
    rule: Rule,
    /// Cores of each kind when it was loaded, the fastest first.
    cores: Vec<f64>,
    rules: Rules,
    memory: Memory,
    interval_ns: u64,
    looked_ns: Option<u64>,
    planned_ns: u64,
    /// When well-known tasks were last sampled, too.
    sampled_ns: u64,
    known: Known,
    /// The threads that the shares in force were planned for, and the cores of each kind.
    planned: (Vec<Key>, Vec<f64>),
    turns: Option<(Vec<Tenant>, GuaranteedFair)>,
}

impl Shares {
    /// A control plane for an instance with this rule.
    pub fn new(instance: &Instance, topology: &Topology, profile: &Profile, rule: Rule) -> Self {
        let kinds = topology.kinds();
        let mut cores = vec![0.0; kinds.min(TYPES_MAX)];
        topology.core_type.iter().for_each(|kind| cores[usize::from(*kind)] += 1.0);
        let most = speedup_max(instance);
        let unknown = |kind: usize| {
            let part = 1.0 - kind as f64 / (kinds.max(2) - 1) as f64;
            1.0 + (most - 1.0) * part
        };
        let rules = Rules {
            deviations: instance.decimal("deviations"),
            ..Rules::new((0..kinds).map(unknown).collect())
        };
        Shares {
            known: Known::new(cores.len(), rule.tenancy),
            rule,
            cores,
            rules,
            memory: Memory::new(profile, kinds, instance.get("memo") > 0),
            interval_ns: instance.get("interval"),
            looked_ns: None,
            planned_ns: 0,
            sampled_ns: 0,
            planned: Default::default(),
            turns: None,
        }
    }

    /// Cores of each kind that are online now.
    fn cores_now(&self, view: &View<'_>) -> Vec<f64> {
        let now: Vec<f64> =
            view.table.cpus().iter().take(self.cores.len()).map(|count| *count as f64).collect();
        if now.iter().sum::<f64>() > 0.0 { now } else { self.cores.clone() }
    }

    /// The threads that run, by tenant.
    fn tenants(&self, threads: &[Key]) -> BTreeMap<Tenant, Vec<Key>> {
        let mut tenants: BTreeMap<Tenant, Vec<Key>> = BTreeMap::new();
        for key in threads {
            tenants.entry(self.known.thread(key).tenant).or_default().push(*key);
        }
        tenants
    }

    /// The part of all CPU time that each cgroup gets.
    fn parts(&self, view: &View<'_>, tenants: &BTreeMap<Tenant, Vec<Key>>) -> BTreeMap<u64, f64> {
        let own = |(tenant, threads): (&Tenant, &Vec<Key>)| match tenant {
            Tenant::Cgroup(id) => Some((*id, self.weight(threads))),
            _ => None,
        };
        parts(&tenants.iter().filter_map(own).collect(), view.cgroup_of)
    }

    /// The weight of these threads together, in the kernel's numbers, bounded as in the data plane.
    fn weight(&self, threads: &[Key]) -> f64 {
        threads.iter().map(|key| kept_apart(f64::from(self.known.thread(key).last.weight))).sum()
    }

    /// The weight of each of a cgroup's threads that gives the cgroup this part of all CPU time, of
    /// `threads` threads.
    fn paces(&self, members: &[Key], part: f64, threads: usize) -> Vec<f64> {
        let all = self.weight(members);
        let own = |key: &Key| kept_apart(f64::from(self.known.thread(key).last.weight)) / all;
        members.iter().map(|key| kept_apart(part * own(key) * threads as f64 * EVEN)).collect()
    }

    /// A tenant as input of the plan. `even` is the CPU time of a thread if all have as much.
    fn task(&mut self, tenant: Tenant, threads: &[Key], even: f64) -> Task {
        self.known.hear(&tenant, threads, &self.rules);
        let of = |key: &Key| self.known.thread(key);
        let width = |one: &KnownThread| match one.used {
            // For example the thread that has just started all the others.
            _ if one.has_slept() => RUNS,
            used if used < 0.9 * even => (1.25 * used).clamp(RUNS, 1.0),
            _ => 1.0,
        };
        let width = threads.iter().map(|key| width(of(key))).sum();
        let counted = |key: &Key| of(key).last.instructions.iter().any(|count| *count > 0);
        let floor = if threads.iter().any(counted) { FLOOR } else { 0.0 };
        let kinds = |key: &Key| match of(key).last.kinds {
            0 => u32::MAX,
            kinds => kinds,
        };
        let allowed = threads.iter().fold(0, |all, key| all | kinds(key));
        let weight = self.weight(threads) / EVEN;
        let known = self.known.account(&tenant).map(|account| account.estimator.task(&self.rules));
        let known = known.unwrap_or_else(|| Task::new(self.rules.unknown.clone()));
        let types: Vec<usize> =
            (0..self.cores.len()).filter(|kind| allowed >> kind & 1 == 1).collect();
        Task { weight, width, floor, allowed: CoreTypes::of(&types), ..known }
    }

    /// Plans for these threads, and puts the plan in force.
    fn decide(&mut self, view: &View<'_>, threads: Vec<Key>) {
        let cores = self.cores_now(view);
        let all: f64 = cores.iter().sum();
        let even_cpu = (all / threads.len().max(1) as f64).min(1.0);
        let tenants = self.tenants(&threads);
        let parts = self.parts(view, &tenants);
        let (mut tasks, mut paces) = (Vec::new(), Vec::new());
        for (tenant, members) in &tenants {
            let mut task = self.task(*tenant, members, even_cpu);
            if let Tenant::Cgroup(id) = tenant {
                let own = self.paces(members, parts[id], threads.len());
                task.weight = own.iter().sum::<f64>() / EVEN;
                paces.extend(members.iter().copied().zip(own));
            }
            tasks.push(task);
        }
        let problem = Problem { cores: cores.clone(), tasks, base: self.rule.base };
        let policy = self.turn(&problem, &tenants);
        // If the policy's promise cannot be kept, every task gets the same.
        let planned = planned(&problem, &policy).or_else(|| planned(&problem, &Policy::MaxFair));
        let mut shares = Vec::new();
        for (members, row) in tenants.values().zip(planned.iter().flatten()) {
            for (key, own) in members.iter().zip(self.inside(members, row)) {
                shares.push((self.known.thread(key).last, packed(&own)));
            }
        }
        view.table.publish(packed(&even(&cores, threads.len() + 1)), &shares);
        // CPU time is divided among cgroups by their weights, not among threads.
        for (key, pace) in paces {
            view.table.set_pace(&self.known.thread(&key).last, pace.round() as u32);
        }
        self.planned = (threads, cores);
        self.planned_ns = view.now_ns;
    }

    /// Shares of a tenant's threads.
    fn inside(&self, members: &[Key], row: &[f64]) -> Vec<Vec<f64>> {
        let thread = |key: &Key| {
            let one = self.known.thread(key);
            let speeds = one.account.estimator.mean(&self.rules);
            let utility = speeds.unwrap_or_else(|| self.rules.unknown.clone())[0];
            Thread { cpu: one.used.max(RUNS), utility }
        };
        let threads: Vec<Thread> = members.iter().map(thread).collect();
        match self.rule.inside {
            Inside::Even => evenly(row, &threads),
            Inside::Utility => by_utility(row, &threads),
        }
    }

    /// The policy of this interval: guaranteed-fair alternates.
    fn turn(&mut self, problem: &Problem, tenants: &BTreeMap<Tenant, Vec<Key>>) -> Policy {
        let Policy::GuaranteedFair { uniformity, deviation } = &self.rule.policy else {
            return self.rule.policy.clone();
        };
        let present: Vec<Tenant> = tenants.keys().copied().collect();
        if self.turns.as_ref().is_none_or(|(before, _)| *before != present) {
            self.turns =
                Some((present, GuaranteedFair::new(*uniformity, tenants.len(), *deviation)));
        }
        let even = even(&problem.cores, problem.tasks.len());
        let relative = |(tenant, task): (&Tenant, &Task)| {
            let Some(account) = self.known.account(tenant) else { return 1.0 };
            let sum = |of: &dyn Fn(usize) -> f64| {
                (0..even.len()).map(|kind| of(kind) * task.speeds[kind]).sum::<f64>()
            };
            let ran = |kind: usize| account.since[kind].time_ns as f64;
            let all: f64 = (0..even.len()).map(ran).sum();
            if all > 0.0 { sum(&ran) / (all * sum(&|kind| even[kind])) } else { 1.0 }
        };
        let relative: Vec<f64> = tenants.keys().zip(&problem.tasks).map(relative).collect();
        match self.turns.as_mut().map(|(_, turns)| turns.step(&relative)) {
            Some(Mode::MaxPerf) => Policy::MaxPerf,
            _ => Policy::MaxFair,
        }
    }

    fn decide_after_sampling(&mut self, view: &View<'_>, running: Vec<Key>, due: bool) {
        match self.rule.policy {
            Policy::GuaranteedFair { .. } => {
                self.decide(view, running);
                self.known.sample(view, due, &self.rules, &mut self.memory);
            }
            _ => {
                self.known.sample(view, due, &self.rules, &mut self.memory);
                self.decide(view, running);
            }
        }
    }
}

impl Control for Shares {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let look_ns = (self.interval_ns / LOOKS).max(1);
        let Some(looked_ns) = self.looked_ns.replace(view.now_ns) else {
            view.table.publish(packed(&even(&self.cores, self.cores.len())), &[]);
            return look_ns;
        };
        self.known.look(view, view.now_ns - looked_ns, &self.memory);
        let running = self.known.running();
        let due = view.now_ns - self.planned_ns >= self.interval_ns
            || view.now_ns - self.sampled_ns >= SAMPLED_BY * self.interval_ns;
        if due {
            self.sampled_ns = view.now_ns;
        }
        let others = running != self.planned.0 || self.cores_now(view) != self.planned.1;
        if due || others || self.known.any_new(&running) {
            // Guaranteed-fair needs the progress since the last samples, so it decides before
            // sampling.
            self.decide_after_sampling(view, running, due);
        }
        look_ns
    }

    fn binds(&self) -> Binds {
        Binds::Kinds
    }

    fn sources(&self) -> Sources {
        self.known.sources(&self.rules)
    }

    fn learned(&self) -> Profile {
        self.memory.learned(&self.rules)
    }

    fn measured(&self, tell: &mut dyn FnMut(u32, &[f64])) {
        for key in self.known.running() {
            let thread = self.known.thread(&key);
            let account = self.known.account(&thread.tenant);
            let speeds = account.and_then(|account| account.estimator.mean(&self.rules));
            if let Some(speeds) = speeds {
                tell(thread.last.pid, &speeds);
            }
        }
    }
}

/// Bounds a weight like `vtime_weight` of policies/common/vtime.h, so that a task is promised what
/// it will be given.
fn kept_apart(weight: f64) -> f64 {
    weight.clamp(WEIGHT_MIN, WEIGHT_MAX)
}

/// Each task's share of each kind of core, over kinds that have online cores; None if no plan is
/// possible.
fn planned(problem: &Problem, policy: &Policy) -> Option<Vec<Vec<f64>>> {
    let there: Vec<usize> =
        (0..problem.cores.len()).filter(|kind| problem.cores[*kind] > 0.0).collect();
    let of = |speeds: &[f64]| {
        // By the measurements a slower kind may be the faster one.
        let mut least = 0.0;
        let mut of: Vec<f64> = Vec::new();
        for kind in there.iter().rev() {
            least = speeds[*kind].max(least);
            of.push(least);
        }
        // A task that only waited on the slowest kind may seem to gain more than a plan accepts.
        of.iter().rev().map(|speed| (speed / of[0]).min(SPEED_MAX)).collect::<Vec<f64>>()
    };
    let task = |task: &Task| {
        let places = (0..there.len()).filter(|at| task.allowed.has(there[*at]));
        let places: Vec<usize> = places.collect();
        // If no kind that a task may run on is online, the kernel puts it anywhere.
        let allowed = if places.is_empty() { CoreTypes::ALL } else { CoreTypes::of(&places) };
        let bound = task.bound.as_deref().map(of);
        Task { speeds: of(&task.speeds), bound, allowed, ..task.clone() }
    };
    let small = Problem {
        cores: there.iter().map(|kind| problem.cores[*kind]).collect(),
        tasks: problem.tasks.iter().map(task).collect(),
        base: problem.base,
    };
    let plan = plan(&small, policy).ok()?;
    let whole = |row: &Vec<f64>| {
        let mut whole = vec![0.0; problem.cores.len()];
        there.iter().zip(row).for_each(|(kind, share)| whole[*kind] = *share);
        whole
    };
    Some(plan.shares.iter().map(whole).collect())
}

/// The share of each kind that every task gets if `tasks` share alike: the fast kinds first if
/// there are fewer tasks than cores.
fn even(cores: &[f64], tasks: usize) -> Vec<f64> {
    let tasks = tasks.max(1) as f64;
    let mut left = tasks.min(cores.iter().sum());
    let taken = left;
    cores
        .iter()
        .map(|count| {
            let of_kind = count.min(left);
            left -= of_kind;
            of_kind / taken
        })
        .collect()
}

/// Shares as in the table: 16 bits for each kind, from the lowest bits.
fn packed(shares: &[f64]) -> u64 {
    let mut left = ONE as u64;
    let mut packed = 0;
    for (kind, share) in shares.iter().enumerate().take(TYPES_MAX) {
        let own = match kind + 1 == shares.len() {
            true => left,
            false => ((share * ONE).round() as u64).min(left),
        };
        left -= own;
        packed |= own << (16 * kind);
    }
    packed
}

/// How many times as fast an unknown task may be on the fastest cores.
fn speedup_max(instance: &Instance) -> f64 {
    instance.decimal("speedup_max")
}

/// The greatest speedup that an instance believes.
pub(crate) fn speedup_believed(instance: &Instance) -> f64 {
    Rules::new(vec![speedup_max(instance)]).ratio_max
}

/// How the policies measure uniformity: as the slides do.
pub(crate) const DEVIATION: Deviation = Deviation::Sample;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use policy::Keeper;

    use super::*;

    #[test]
    fn shares_fill_sixteen_bits_each_and_add_up() {
        assert_eq!(packed(&[1.0, 0.0]), 65535);
        assert_eq!(packed(&[0.0, 1.0]), 65535 << 16);
        for shares in [vec![1.0 / 3.0, 2.0 / 3.0], vec![0.1, 0.2, 0.3, 0.4], vec![1.0]] {
            let packed = packed(&shares);
            let parts: Vec<u64> = (0..4).map(|kind| packed >> (16 * kind) & 0xffff).collect();
            assert_eq!(parts.iter().sum::<u64>(), 65535);
            for (part, share) in parts.iter().zip(&shares) {
                assert!((*part as f64 / 65535.0 - share).abs() < 1e-4, "{parts:?}");
            }
        }
    }

    #[test]
    fn weights_are_kept_apart_as_far_as_the_data_plane_does() {
        let header = include_str!("../../common/vtime.h");
        for (name, value) in [("MAX", WEIGHT_MAX), ("MIN", WEIGHT_MIN)] {
            assert!(header.contains(&format!("#define WEIGHT_{name} {value}\n")), "{name}");
        }
    }

    #[test]
    fn a_plan_is_made_where_a_slower_kind_was_measured_to_be_faster() {
        let task = || Task::new(vec![2.0, 1.2, 1.3]);
        let tasks = vec![task(), task()];
        let problem = Problem { cores: vec![1.0, 1.0, 0.0], tasks, base: Base::default() };
        let shares = planned(&problem, &Policy::MaxFair).unwrap();
        assert!(shares.iter().all(|row| (row[0] - 0.5).abs() < 1e-6), "{shares:?}");
        let odd = Task::new(vec![1.1, 1.2, 1.0]);
        let problem = Problem { tasks: vec![odd, task()], ..problem };
        assert!(planned(&problem, &Policy::MaxFair).is_some());
    }

    #[test]
    fn a_plan_is_made_for_all_where_one_seems_to_gain_without_bound() {
        let tasks = vec![Task::new(vec![400.0, 1.0]), Task::new(vec![2.0, 1.0])];
        let problem = Problem { cores: vec![1.0, 1.0], tasks, base: Base::default() };
        let shares = planned(&problem, &Policy::MaxPerf).unwrap();
        assert!(shares[0][0] > shares[1][0], "{shares:?}");
    }

    /// Threads that come and end cause a plan at each look; a well-known task is sampled all the
    /// same.
    #[test]
    fn known_task_is_resampled_while_others_come_and_end() {
        let topology = Topology {
            core_type: vec![0, 1],
            llc: vec![0; 2],
            core: vec![0, 1],
            node: vec![0; 2],
            ..Topology::default()
        };
        let instance = Instance::parse("min-fair", crate::ALL).unwrap();
        let mut control =
            (instance.policy.control.unwrap().begin)(&instance, &topology, &Profile::new());
        let mut keeper = Keeper::new();
        let lasting = keeper.enter(1, 1, 100).unwrap();
        let mut now_ns = 1_000_000_000_000;
        let (mut speedup, mut passing) = (2, VecDeque::new());
        for look in 0..400_u32 {
            now_ns += 100_000_000;
            // Each thread is there for three looks.
            passing.push_back(keeper.enter(100 + look, 100 + look, 100).unwrap());
            for place in passing.iter().chain([&lasting]) {
                keeper.charge(place, 0, 40_000_000, Some(speedup * 40_000_000));
                keeper.charge(place, 1, 40_000_000, Some(40_000_000));
            }
            if look == 200 {
                speedup = 3;
            }
            control.step(&View {
                now_ns,
                table: keeper.table(),
                name_of: &|_| None,
                program_of: &|_| None,
                parent_of: &|_| None,
                cgroup_of: &|_| None,
                memory: &policy::NoMemory,
                read: Default::default(),
            });
            if passing.len() == 3 {
                keeper.leave(passing.pop_front().unwrap());
            }
        }
        let mut seen = BTreeMap::new();
        control.measured(&mut |pid, speeds| {
            seen.insert(pid, speeds[0]);
        });
        assert!(seen[&1] > 2.5, "{seen:?}");
    }

    #[test]
    fn even_shares_are_those_of_the_cores() {
        assert_eq!(even(&[2.0, 4.0], 6), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 60), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 3), [2.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 1), [1.0, 0.0]);
    }
}
