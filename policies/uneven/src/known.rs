// SPDX-License-Identifier: GPL-2.0-only
//! What the control plane knows of threads and of the tenants that they belong to.

use std::collections::{BTreeMap, BTreeSet};

use policy::table::{TYPES_MAX, TaskView};

use crate::{Counts, Estimator, Rules};

/// Less than this part of the time on a CPU is no running thread.
pub(crate) const RUNS: f64 = 0.02;
/// Looks without running after which a thread takes no part.
const GONE: u32 = 10;
/// Samples until which a tenant counts as new.
const NEW: u32 = 5;

/// A thread, by slot and generation.
pub(crate) type Key = (u32, u32);

/// Who gets shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    Thread,
    Program,
    Cgroup,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tenant {
    Thread(Key),
    /// By its id.
    Program(u32),
    /// By its number.
    Cgroup(u64),
}

impl Tenancy {
    pub fn of(self, task: &TaskView) -> Tenant {
        match self {
            Tenancy::Thread => Tenant::Thread((task.slot, task.generation)),
            Tenancy::Program => Tenant::Program(task.tgid),
            Tenancy::Cgroup => Tenant::Cgroup(task.cgroup),
        }
    }
}

/// What is known of a thread.
pub(crate) struct Thread {
    /// As it was looked at last.
    pub last: TaskView,
    pub tenant: Tenant,
    /// Part of the time on a CPU, an average.
    pub used: f64,
    /// Its speeds as somebody told them.
    pub told: Option<Vec<f64>>,
    /// Of its own, where threads of a program are told apart.
    pub estimator: Estimator,
    since: [Counts; TYPES_MAX],
    /// Looks since it ran.
    quiet: u32,
}

/// What is known of a tenant.
pub(crate) struct Account {
    pub estimator: Estimator,
    /// What it did since it was sampled last, by kind of core: all its threads together.
    pub since: [Counts; TYPES_MAX],
    samples: u32,
}

/// All of them.
pub(crate) struct Known {
    kinds: usize,
    pub tenancy: Tenancy,
    /// By slot.
    threads: Vec<Option<Thread>>,
    pub tenants: BTreeMap<Tenant, Account>,
}

impl Known {
    pub fn new(kinds: usize, tenancy: Tenancy) -> Self {
        Known { kinds, tenancy, threads: Vec::new(), tenants: BTreeMap::new() }
    }

    /// Takes in what each thread did since the last look, over so many ns. `told` is asked for the speeds
    /// of those that are new.
    pub fn look(
        &mut self,
        tasks: &[TaskView],
        since_ns: u64,
        told: impl Fn(&TaskView) -> Option<Vec<f64>>,
    ) {
        let kinds = self.kinds;
        let slots = tasks.last().map_or(0, |task| task.slot as usize + 1);
        if self.threads.len() < slots {
            self.threads.resize_with(slots, || None);
        }
        let (mut seen, mut gone) = (tasks.iter().peekable(), false);
        for (slot, place) in self.threads.iter_mut().enumerate() {
            let Some(task) = seen.next_if(|task| task.slot as usize == slot) else {
                gone |= place.take().is_some();
                continue;
            };
            let tenant = self.tenancy.of(task);
            let one = match place {
                Some(one) if one.last.generation == task.generation && one.tenant == tenant => one,
                _ => {
                    gone |= place.is_some();
                    place.insert(Thread::new(task, tenant, kinds, told(task)))
                }
            };
            let ran_ns = task.runtime_ns.saturating_sub(one.last.runtime_ns);
            let part = (ran_ns as f64 / since_ns.max(1) as f64).min(1.0);
            one.quiet = if part >= RUNS { 0 } else { one.quiet.saturating_add(1) };
            one.used = if one.used == 0.0 { part } else { one.used + 0.2 * (part - one.used) };
            if ran_ns > 0 {
                let account = self.tenants.entry(tenant).or_insert_with(|| Account::new(kinds));
                for kind in 0..kinds {
                    // A counter that went back says nothing of this while.
                    let counts = counts(task, kind).since(counts(&one.last, kind));
                    one.since[kind].add(counts.unwrap_or_default());
                    account.since[kind].add(counts.unwrap_or_default());
                }
            }
            one.last = *task;
        }
        if gone {
            let alive: BTreeSet<Tenant> =
                self.threads.iter().flatten().map(|one| one.tenant).collect();
            self.tenants.retain(|tenant, _| alive.contains(tenant));
        }
    }

    /// A thread that is known.
    pub fn thread(&self, key: &Key) -> &Thread {
        self.threads[key.0 as usize].as_ref().expect("keys are of threads that are known")
    }

    /// The threads that run.
    pub fn running(&self) -> Vec<Key> {
        let runs = self.threads.iter().flatten().filter(|one| one.quiet < GONE);
        runs.map(|one| (one.last.slot, one.last.generation)).collect()
    }

    /// Whether the tenant of one of these has hardly been measured.
    pub fn any_new(&self, threads: &[Key]) -> bool {
        threads.iter().any(|key| self.tenants[&self.thread(key).tenant].samples < NEW)
    }

    /// Samples the speeds of tenants that are due for it: of new ones at each look.
    pub fn sample(&mut self, all: bool, rules: &Rules) {
        let kinds = self.kinds;
        let enough = |since: &[Counts]| {
            since[..kinds].iter().all(|counts| counts.time_ns >= rules.sample_min_ns)
        };
        for one in self.tenants.values_mut().filter(|one| all || one.samples < NEW) {
            if all || enough(&one.since) {
                one.samples += u32::from(one.estimator.update(&one.since[..kinds], rules));
                one.since = Default::default();
            }
        }
        for one in self.threads.iter_mut().flatten().filter(|one| all || enough(&one.since)) {
            one.estimator.update(&one.since[..kinds], rules);
            one.since = Default::default();
        }
    }
}

impl Thread {
    fn new(task: &TaskView, tenant: Tenant, kinds: usize, told: Option<Vec<f64>>) -> Self {
        Thread {
            last: *task,
            tenant,
            used: 0.0,
            told,
            estimator: Estimator::new(kinds),
            since: Default::default(),
            quiet: GONE,
        }
    }
}

impl Account {
    fn new(kinds: usize) -> Self {
        Account { estimator: Estimator::new(kinds), since: Default::default(), samples: 0 }
    }
}

fn counts(task: &TaskView, kind: usize) -> Counts {
    Counts { instructions: task.instructions[kind], time_ns: task.ran_ns[kind] }
}
