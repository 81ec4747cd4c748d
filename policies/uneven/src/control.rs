// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: looks at the tasks that run, plans, and puts the shares in force.
//!
//! It looks often and plans seldom (slide 11: every 2 s), or as soon as the tasks that run are others. A
//! task that has not run for a while takes no part; one that leaves CPU time unused is taken for no wider
//! than it is.

use std::collections::BTreeMap;

use policy::table::{TYPES_MAX, TaskView};
use policy::{Control, Instance, Profile, Sources, Topology, View};

use crate::memory::{Memory, Origin};
use crate::{
    Base, Counts, Deviation, Estimator, GuaranteedFair, Mode, Policy, Problem, Rules, Task, plan,
};

/// Looks in an interval.
const LOOKS: u64 = 20;
/// Less than this part of the time on a CPU is no running task.
const RUNS: f64 = 0.02;
/// Looks without running after which a task takes no part.
const GONE: u32 = 10;
/// Samples until which a task counts as new.
const NEW: u32 = 5;
/// Part of its CPU time that a task is to have on each kind so that it can be measured (slide 10).
const FLOOR: f64 = 0.04;
/// What a task's share of all kinds together is in the table: `SHARE_ONE` of share.h.
const ONE: f64 = 65535.0;

/// A task by slot and generation.
type Key = (u32, u32);

/// What is known of one task.
struct Known {
    /// When it was looked at last, and when its speeds were last sampled.
    last: TaskView,
    sampled: TaskView,
    estimator: Estimator,
    /// What the estimator began with; none before the task has run.
    origin: Option<Origin>,
    samples: u32,
    /// Part of the time on a CPU, an average.
    used: f64,
    /// Looks since it ran.
    quiet: u32,
}

/// The control plane of an instance.
pub(crate) struct Shares {
    policy: Policy,
    base: Base,
    /// Cores of each kind, the fastest first.
    cores: Vec<f64>,
    rules: Rules,
    memory: Memory,
    interval_ns: u64,
    looked_ns: Option<u64>,
    planned_ns: u64,
    known: BTreeMap<Key, Known>,
    /// Whom the shares in force were planned for.
    planned: Vec<Key>,
    turns: Option<GuaranteedFair>,
}

impl Shares {
    /// For an instance whose policy shares by this rule.
    pub fn new(
        instance: &Instance,
        topology: &Topology,
        profile: &Profile,
        policy: Policy,
        base: Base,
    ) -> Self {
        let kinds = 1 + usize::from(topology.core_type.iter().copied().max().unwrap_or(0));
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
            policy,
            base,
            cores,
            rules,
            memory: Memory::new(profile, kinds, instance.get("memo") > 0),
            interval_ns: instance.get("interval"),
            looked_ns: None,
            planned_ns: 0,
            known: BTreeMap::new(),
            planned: Vec::new(),
            turns: None,
        }
    }

    /// Takes in what each task did since the last look, over so many ns.
    fn look(&mut self, view: &View<'_>, since_ns: u64) {
        let kinds = self.cores.len();
        let mut known = std::mem::take(&mut self.known);
        for task in view.table.tasks() {
            let key = (task.slot, task.generation);
            let mut one = known.remove(&key).unwrap_or_else(|| Known {
                last: task,
                sampled: task,
                estimator: Estimator::new(kinds),
                origin: None,
                samples: 0,
                used: 0.0,
                quiet: GONE,
            });
            let ran_ns = task.runtime_ns.saturating_sub(one.last.runtime_ns);
            let part = (ran_ns as f64 / since_ns.max(1) as f64).min(1.0);
            one.quiet = if part >= RUNS { 0 } else { one.quiet.saturating_add(1) };
            one.used = if one.used == 0.0 { part } else { one.used + 0.2 * (part - one.used) };
            one.last = task;
            if one.quiet == 0 && one.origin.is_none() {
                let speeds_of = |pid: u32| {
                    let both = known.values().chain(self.known.values());
                    both.into_iter().find(|one| one.last.pid == pid).map(|one| &one.estimator)
                };
                let (origin, estimator) = self.memory.meet(view, task.pid, task.tgid, &speeds_of);
                (one.origin, one.estimator) = (Some(origin), estimator);
            }
            self.known.insert(key, one);
        }
    }

    /// The tasks that run.
    fn running(&self) -> Vec<Key> {
        let runs = |(key, one): (&Key, &Known)| (one.quiet < GONE).then_some(*key);
        self.known.iter().filter_map(runs).collect()
    }

    /// Samples the speeds of tasks that are due for it: of new ones at each look.
    fn sample(&mut self, view: &View<'_>, all: bool) {
        let kinds = self.cores.len();
        for one in self.known.values_mut().filter(|one| all || one.samples < NEW) {
            let counts = |task: &TaskView, kind: usize| Counts {
                instructions: task.instructions[kind],
                time_ns: task.ran_ns[kind],
            };
            let since = |kind| counts(&one.last, kind).since(counts(&one.sampled, kind));
            let since: Option<Vec<Counts>> = (0..kinds).map(since).collect();
            let Some(since) = since else {
                one.estimator.forget();
                (one.sampled, one.samples) = (one.last, 0);
                continue;
            };
            let enough = since.iter().all(|counts| counts.time_ns >= self.rules.sample_min_ns);
            if all || enough {
                let sampled = one.estimator.update(&since, &self.rules);
                one.sampled = one.last;
                one.samples = match one.estimator.is_sampled() {
                    true => one.samples + u32::from(sampled),
                    false => 0,
                };
                let Some(origin) = one.origin.as_ref().filter(|_| sampled) else { continue };
                let (tid, rules) = (one.last.pid, &self.rules);
                if !self.memory.learn(view, tid, one.samples, origin, &one.estimator, rules) {
                    (one.origin, one.estimator, one.samples) = (None, Estimator::new(kinds), 0);
                }
            }
        }
    }

    fn problem(&self, keys: &[Key]) -> Problem {
        let cores: f64 = self.cores.iter().sum();
        let even = (cores / keys.len().max(1) as f64).min(1.0);
        let task = |key: &Key| {
            let one = &self.known[key];
            let spare = one.used < 0.9 * even;
            let counted = one.last.instructions.iter().any(|count| *count > 0);
            Task {
                weight: f64::from(one.last.weight.max(1)) / 100.0,
                width: if spare { (1.25 * one.used).max(RUNS) } else { 1.0 },
                floor: if counted { FLOOR } else { 0.0 },
                ..one.estimator.task(&self.rules)
            }
        };
        Problem {
            cores: self.cores.clone(),
            tasks: keys.iter().map(task).collect(),
            base: self.base,
        }
    }

    /// Plans for these tasks, and puts it in force.
    fn decide(&mut self, view: &View<'_>, keys: Vec<Key>) {
        let problem = self.problem(&keys);
        let policy = self.turn(&problem, &keys);
        // What cannot be kept is not promised to anybody: everybody alike, then.
        let planned = plan(&problem, &policy).or_else(|_| plan(&problem, &Policy::MaxFair));
        let shares: Vec<(TaskView, u64)> = match planned {
            Ok(plan) => {
                let packed = |(key, row): (&Key, &Vec<f64>)| (self.known[key].last, packed(row));
                keys.iter().zip(&plan.shares).map(packed).collect()
            }
            Err(_) => Vec::new(),
        };
        view.table.publish(packed(&even(&self.cores, keys.len() + 1)), &shares);
        self.planned = keys;
        self.planned_ns = view.now_ns;
    }

    /// The rule of this interval: guaranteed-fair takes turns.
    fn turn(&mut self, problem: &Problem, keys: &[Key]) -> Policy {
        let Policy::GuaranteedFair { uniformity, deviation } = &self.policy else {
            return self.policy.clone();
        };
        if self.turns.is_none() || self.planned != keys {
            self.turns = Some(GuaranteedFair::new(*uniformity, keys.len(), *deviation));
        }
        let even = even(&self.cores, keys.len());
        let relative = |(key, task): (&Key, &Task)| {
            let one = &self.known[key];
            let sum = |of: &dyn Fn(usize) -> f64| {
                (0..even.len()).map(|kind| of(kind) * task.speeds[kind]).sum::<f64>()
            };
            let ran =
                |kind: usize| one.last.ran_ns[kind].saturating_sub(one.sampled.ran_ns[kind]) as f64;
            let all: f64 = (0..even.len()).map(ran).sum();
            if all > 0.0 { sum(&ran) / (all * sum(&|kind| even[kind])) } else { 1.0 }
        };
        let relative: Vec<f64> = keys.iter().zip(&problem.tasks).map(relative).collect();
        match self.turns.as_mut().map(|turns| turns.step(&relative)) {
            Some(Mode::MaxPerf) => Policy::MaxPerf,
            _ => Policy::MaxFair,
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
        self.look(view, view.now_ns - looked_ns);
        let running = self.running();
        let due = view.now_ns - self.planned_ns >= self.interval_ns;
        let fresh = running.iter().any(|key| self.known[key].samples < NEW);
        if due || fresh || running != self.planned {
            // Guaranteed-fair looks at what was done since the last samples: they come after it.
            self.decide_after_sampling(view, running, due);
        }
        look_ns
    }

    fn sources(&self) -> Sources {
        let mut sources = Sources::default();
        for one in self.known.values().filter(|one| one.quiet < GONE) {
            let measured = one.samples > 0 && one.estimator.is_measured(&self.rules);
            let origin = one.origin.as_ref().filter(|_| !measured);
            *match (measured, origin) {
                (true, _) => &mut sources.counters,
                (_, Some(Origin::Profile)) => &mut sources.profile,
                (_, Some(Origin::Memory(_))) if one.estimator.is_known(&self.rules) => {
                    &mut sources.memory
                }
                _ => &mut sources.unknown,
            } += 1;
        }
        sources
    }

    fn learned(&self) -> Profile {
        self.memory.learned(&self.rules)
    }
}

impl Shares {
    fn decide_after_sampling(&mut self, view: &View<'_>, running: Vec<Key>, due: bool) {
        match self.policy {
            Policy::GuaranteedFair { .. } => {
                self.decide(view, running);
                self.sample(view, due);
            }
            _ => {
                self.sample(view, due);
                self.decide(view, running);
            }
        }
    }
}

/// What of each kind everybody gets where so many tasks share alike: the fast kinds first where there are
/// fewer tasks than cores.
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

/// Shares as the table has them: 16 bits for each kind, from the lowest.
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

/// How many times as fast a task of which nothing is known may be on the fastest cores.
fn speedup_max(instance: &Instance) -> f64 {
    instance.decimal("speedup_max")
}

/// The greatest speedup that an instance of one of these policies believes; panics for another policy's.
pub fn speedup_bound(instance: &Instance) -> f64 {
    Rules::new(vec![speedup_max(instance)]).ratio_max
}

/// How uniformity is measured by policies that go by it: as the slides do.
pub(crate) const DEVIATION: Deviation = Deviation::Sample;

#[cfg(test)]
mod tests {
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
    fn even_shares_are_those_of_the_cores() {
        assert_eq!(even(&[2.0, 4.0], 6), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 60), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 3), [2.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(even(&[2.0, 4.0], 1), [1.0, 0.0]);
    }
}
