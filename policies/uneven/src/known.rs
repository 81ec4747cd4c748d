// SPDX-License-Identifier: GPL-2.0-only
//! The control plane's knowledge of threads and of their tenants.

use std::collections::{BTreeMap, BTreeSet};

use policy::table::{TYPES_MAX, TaskView};
use policy::{Sources, View};

use crate::memory::{Memory, Origin};
use crate::{Counts, Estimator, Rules};

/// A thread with a smaller part of the time on a CPU does not count as running.
pub(crate) const RUNS: f64 = 0.02;
/// After this many looks without running a thread does not take part.
const GONE: u32 = 10;
/// A tenant counts as new for this many samples.
const NEW: u32 = 5;

/// A thread, by slot and generation.
pub(crate) type Key = (u32, u32);

/// The kind of tenant that gets shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    Thread,
    Program,
    Cgroup,
}

/// A thread, program or cgroup that gets shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tenant {
    Thread(Key),
    /// By process id.
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

/// The state of a known thread.
pub(crate) struct Thread {
    /// As of the last look.
    pub last: TaskView,
    pub tenant: Tenant,
    /// Part of the time on a CPU, an average.
    pub used: f64,
    pub account: Account,
    /// The origin of its estimator; None before it has run.
    origin: Option<Origin>,
    /// Looks since it ran.
    quiet: u32,
}

/// The counts of a thread, or of all threads of a tenant.
pub(crate) struct Account {
    pub estimator: Estimator,
    /// Counts since the last sample, by kind of core.
    pub since: [Counts; TYPES_MAX],
    /// A counter went back meanwhile: it was reset, or wrapped.
    failed: bool,
    samples: u32,
}

/// All threads and tenants.
pub(crate) struct Known {
    kinds: usize,
    tenancy: Tenancy,
    /// By slot.
    threads: Vec<Option<Thread>>,
    /// Tenants of more than a thread.
    accounts: BTreeMap<Tenant, Account>,
}

impl Known {
    pub fn new(kinds: usize, tenancy: Tenancy) -> Self {
        Known { kinds, tenancy, threads: Vec::new(), accounts: BTreeMap::new() }
    }

    /// Takes in what each thread did since the last look, `since_ns` ago.
    pub fn look(&mut self, view: &View<'_>, since_ns: u64, memory: &Memory) {
        let kinds = self.kinds;
        let tasks = view.tasks();
        let slots = tasks.last().map_or(0, |task| task.slot as usize + 1);
        if self.threads.len() < slots {
            self.threads.resize_with(slots, || None);
        }
        let (mut seen, mut gone, mut met) = (tasks.iter().peekable(), false, Vec::new());
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
                    place.insert(Thread::new(task, tenant, kinds))
                }
            };
            let ran_ns = task.runtime_ns.saturating_sub(one.last.runtime_ns);
            let part = (ran_ns as f64 / since_ns.max(1) as f64).min(1.0);
            one.quiet = if part >= RUNS { 0 } else { one.quiet.saturating_add(1) };
            one.used = if one.used == 0.0 { part } else { one.used + 0.2 * (part - one.used) };
            if ran_ns > 0 {
                one.account.add(task, &one.last, kinds);
                if self.tenancy != Tenancy::Thread {
                    let account = self.accounts.entry(tenant);
                    account.or_insert_with(|| Account::new(kinds)).add(task, &one.last, kinds);
                }
            }
            if one.quiet == 0 && one.origin.is_none() {
                met.push(slot);
            }
            one.last = *task;
        }
        if !met.is_empty() {
            let slots: BTreeMap<u32, usize> =
                tasks.iter().map(|task| (task.pid, task.slot as usize)).collect();
            met.into_iter().for_each(|slot| self.meet(slot, &slots, view, memory));
        }
        if gone {
            let alive: BTreeSet<Tenant> =
                self.threads.iter().flatten().map(|one| one.tenant).collect();
            self.accounts.retain(|tenant, _| alive.contains(tenant));
        }
    }

    /// Registers a thread that runs for the first time. `slots` has the slots of all threads, by
    /// id.
    fn meet(
        &mut self,
        slot: usize,
        slots: &BTreeMap<u32, usize>,
        view: &View<'_>,
        memory: &Memory,
    ) {
        let speeds_of = |pid: u32| {
            let one = self.threads[*slots.get(&pid)?].as_ref()?;
            Some(&one.account.estimator)
        };
        let Some(one) = &self.threads[slot] else { return };
        let (origin, estimator) = memory.meet(view, one.last.pid, one.last.tgid, &speeds_of);
        if let Some(one) = &mut self.threads[slot] {
            (one.origin, one.account.estimator) = (Some(origin), estimator);
        }
    }

    /// A known thread.
    pub fn thread(&self, key: &Key) -> &Thread {
        self.threads[key.0 as usize].as_ref().expect("keys are of threads that are known")
    }

    /// The counts of a tenant; None if none of its threads has run.
    pub fn account(&self, tenant: &Tenant) -> Option<&Account> {
        match tenant {
            Tenant::Thread(key) => Some(&self.thread(key).account),
            _ => self.accounts.get(tenant),
        }
    }

    /// The threads that run.
    pub fn running(&self) -> Vec<Key> {
        let runs = self.threads.iter().flatten().filter(|one| one.quiet < GONE);
        runs.map(|one| (one.last.slot, one.last.generation)).collect()
    }

    /// Whether the tenant of one of these threads has hardly been measured.
    pub fn any_new(&self, threads: &[Key]) -> bool {
        let is_new = |key: &Key| {
            self.account(&self.thread(key).tenant).is_none_or(|account| account.samples < NEW)
        };
        threads.iter().any(is_new)
    }

    /// Samples the speeds of tenants that are due: new ones at each look.
    pub fn sample(&mut self, view: &View<'_>, all: bool, rules: &Rules, memory: &mut Memory) {
        let kinds = self.kinds;
        for account in self.accounts.values_mut() {
            account.sample(all, kinds, rules);
        }
        for one in self.threads.iter_mut().flatten() {
            let sampled = one.account.sample(all, kinds, rules);
            let Some(origin) = one.origin.as_ref().filter(|_| sampled) else { continue };
            let Account { samples, estimator, .. } = &one.account;
            if !memory.learn(view, one.last.pid, *samples, origin, estimator, rules) {
                (one.origin, one.account) = (None, Account::new(kinds));
            }
        }
    }

    /// Sets the speeds of a tenant of many threads to theirs, until it is measured itself.
    pub fn hear(&mut self, tenant: &Tenant, threads: &[Key], rules: &Rules) {
        let speeds = |key: &Key| self.thread(key).account.estimator.mean(rules);
        let speeds: Option<Vec<Vec<f64>>> = threads.iter().map(speeds).collect();
        let heard = speeds.map(|speeds| mean(&speeds));
        if let (Some(account), Some(speeds)) = (self.accounts.get_mut(tenant), heard) {
            account.estimator.tell(&speeds);
        }
    }

    /// The sources of what is known of the running threads.
    pub fn sources(&self, rules: &Rules) -> Sources {
        let mut sources = Sources::default();
        for one in self.threads.iter().flatten().filter(|one| one.quiet < GONE) {
            let Account { samples, estimator, .. } = &one.account;
            let measured = *samples > 0 && estimator.is_measured(rules);
            let origin = one.origin.as_ref().filter(|_| !measured);
            *match (measured, origin) {
                (true, _) => &mut sources.counters,
                (_, Some(Origin::Profile)) => &mut sources.profile,
                (_, Some(Origin::Memory(_))) if estimator.is_known(rules) => &mut sources.memory,
                _ => &mut sources.unknown,
            } += 1;
        }
        sources
    }
}

impl Thread {
    /// Whether the thread did nothing between the last two looks.
    pub fn has_slept(&self) -> bool {
        self.quiet > 0
    }

    fn new(task: &TaskView, tenant: Tenant, kinds: usize) -> Self {
        let account = Account::new(kinds);
        Thread { last: *task, tenant, used: 0.0, account, origin: None, quiet: GONE }
    }
}

impl Account {
    fn new(kinds: usize) -> Self {
        let estimator = Estimator::new(kinds);
        Account { estimator, since: Default::default(), failed: false, samples: 0 }
    }

    /// Adds what a thread did between two looks.
    fn add(&mut self, now: &TaskView, before: &TaskView, kinds: usize) {
        for kind in 0..kinds {
            match counts(now, kind).since(counts(before, kind)) {
                Some(counts) => self.since[kind].add(counts),
                None => self.failed = true,
            }
        }
    }

    /// Takes a sample if one is due. Returns whether there was one.
    fn sample(&mut self, all: bool, kinds: usize, rules: &Rules) -> bool {
        if !all && self.samples >= NEW {
            return false;
        }
        let since = &self.since[..kinds];
        if self.failed {
            self.estimator.forget();
            (self.since, self.failed, self.samples) = (Default::default(), false, 0);
            return false;
        }
        if !all && since.iter().any(|counts| counts.time_ns < rules.sample_min_ns) {
            return false;
        }
        let sampled = self.estimator.update(since, rules);
        self.since = Default::default();
        self.samples = match self.estimator.is_sampled() {
            true => self.samples + u32::from(sampled),
            false => 0,
        };
        sampled
    }
}

fn counts(task: &TaskView, kind: usize) -> Counts {
    Counts {
        instructions: task.instructions[kind],
        counted_ns: task.counted_ns[kind],
        time_ns: task.ran_ns[kind],
    }
}

/// The mean of each kind, over all threads.
fn mean(all: &[Vec<f64>]) -> Vec<f64> {
    let kinds = all.first().map_or(0, Vec::len);
    let of = |kind: usize| all.iter().map(|one| one[kind]).sum::<f64>() / all.len() as f64;
    (0..kinds).map(of).collect()
}
