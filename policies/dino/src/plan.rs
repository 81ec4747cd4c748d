// SPDX-License-Identifier: GPL-2.0-only
//! Which thread belongs to which memory domain: pure functions from threads and their domains to
//! new domains.

use std::collections::BTreeMap;

use crate::layout::{Domains, Spread, snake, spread};
use crate::{Class, relabel};

/// A thread, as a plan sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Unique among living threads; equal threads are taken in this order.
    pub id: u64,
    /// Accepted misses per 1,000 instructions.
    pub mpki: f64,
    /// The class of that rate.
    pub class: Class,
    /// A bit for each domain with a CPU that the thread may run on. Domains from the 64th on are
    /// never chosen.
    pub allowed: u64,
    /// The domain that it belongs to; None: it is new.
    pub at: Option<usize>,
    /// Its class has changed since it came to its domain.
    pub changed: bool,
    /// Bytes of its address space in each domain's memory; empty if unknown.
    pub resident: Vec<u64>,
}

/// Amounts of memory are compared in this many parts.
const PARTS: u64 = 16;

impl Thread {
    /// A thread of this class that may run everywhere and has no domain yet.
    pub fn new(id: u64, mpki: f64, class: Class) -> Thread {
        Thread {
            id,
            mpki,
            class,
            allowed: u64::MAX,
            at: None,
            changed: false,
            resident: Vec::new(),
        }
    }

    fn may(&self, domain: usize) -> bool {
        domain < 64 && self.allowed >> domain & 1 == 1
    }

    fn bytes(&self, domain: usize) -> u64 {
        self.resident.get(domain).copied().unwrap_or(0)
    }

    /// The same in [`PARTS`] of all its memory: a few pages are no reason to move.
    fn part(&self, domain: usize) -> u64 {
        let all: u64 = self.resident.iter().sum();
        PARTS * self.bytes(domain) / all.max(1)
    }
}

/// DI: sorts threads by their rate and spreads the places of the list. Only a thread's place
/// counts: if it changes, the thread moves (slides 12, 15 and 18).
pub fn di(threads: &[Thread], domains: &Domains, how: Spread) -> Vec<usize> {
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&threads[*a], &threads[*b]);
        b.mpki.total_cmp(&a.mpki).then(a.id.cmp(&b.id))
    });
    let places = spread(how, threads.len(), domains);
    let mut at = vec![None; threads.len()];
    for (thread, domain) in order.into_iter().zip(places) {
        at[thread] = threads[thread].may(domain).then_some(domain);
    }
    rest(threads, domains, at)
}

/// DINO: how many of each class share a domain depends only on how many of each there are. A thread
/// is not moved if that allows it to stay (slide 18).
///
/// If as many threads of each class run as before, and may run where they did, no thread moves.
pub fn dino(threads: &[Thread], domains: &Domains) -> Vec<usize> {
    let mut left = quotas(threads, domains);
    let mut at = vec![None; threads.len()];
    // A thread whose class is unchanged keeps its place. A thread that has changed takes a place
    // that is left.
    for changed in [false, true] {
        for (thread, at) in threads.iter().zip(&mut at).filter(|(own, _)| own.changed == changed) {
            let stays = thread.at.filter(|domain| thread.may(*domain) && *domain < left.len());
            if let Some(domain) = stays.filter(|domain| left[*domain][class(thread)] > 0) {
                left[domain][class(thread)] -= 1;
                *at = Some(domain);
            }
        }
    }
    // A thread that may run on few domains chooses first.
    let mut order: Vec<usize> = (0..threads.len()).filter(|thread| at[*thread].is_none()).collect();
    order.sort_by_key(|thread| {
        let choices = domains.used().filter(|domain| threads[*thread].may(*domain)).count();
        (choices, threads[*thread].id)
    });
    for thread in order {
        let own = &threads[thread];
        let free = |domain: &usize| left[*domain][class(own)] > 0 && own.may(*domain);
        let chosen =
            domains.used().filter(free).min_by_key(|domain| nearness(own, *domain, domains));
        if let Some(domain) = chosen {
            left[domain][class(own)] -= 1;
            at[thread] = Some(domain);
        }
    }
    rest(threads, domains, at)
}

/// How far a domain is from a thread's pages and from its present domain: less is better.
fn nearness(thread: &Thread, domain: usize, domains: &Domains) -> (u64, u32, u32, usize) {
    let most = PARTS - thread.part(domain);
    let home =
        (0..domains.cpus.len()).max_by_key(|other| (thread.bytes(*other), usize::MAX - other));
    let home = home.filter(|home| thread.bytes(*home) > 0);
    let far = |from: Option<usize>| from.map_or(0, |from| domains.far(from, domain));
    (most, far(home), far(thread.at), domain)
}

fn class(thread: &Thread) -> usize {
    Class::ALL.iter().position(|class| *class == thread.class).unwrap_or(0)
}

/// How many of each class each domain has: the snake's rows, assigned so that most threads stay.
fn quotas(threads: &[Thread], domains: &Domains) -> Vec<[usize; 3]> {
    let mut sorted: Vec<usize> = threads.iter().map(class).collect();
    sorted.sort_unstable();
    let mut rows = vec![[0; 3]; domains.cpus.len()];
    for (class, domain) in sorted.into_iter().zip(snake(threads.len(), domains)) {
        rows[domain][class] += 1;
    }
    let mut there = vec![[0usize; 3]; domains.cpus.len()];
    for thread in threads {
        if let Some(domain) = thread.at.filter(|domain| *domain < there.len()) {
            there[domain][class(thread)] += 1;
        }
    }
    let mut named = rows.clone();
    // Only domains with as many places can swap rows.
    let places = domains.places(threads.len());
    let mut alike: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for domain in domains.used() {
        alike.entry(places[domain]).or_default().push(domain);
    }
    for group in alike.values() {
        let stay = |row: usize, at: usize| -> i64 {
            (0..3).map(|class| rows[row][class].min(there[at][class]) as i64).sum()
        };
        let worth: Vec<Vec<i64>> =
            group.iter().map(|row| group.iter().map(|at| stay(*row, *at)).collect()).collect();
        // If as many threads stay without swapping, rows stay where they are.
        let as_is: i64 = (0..group.len()).map(|at| worth[at][at]).sum();
        let best = relabel::best(&worth);
        let most: i64 = best.iter().enumerate().map(|(at, row)| worth[*row][at]).sum();
        if most > as_is {
            for (at, row) in best.into_iter().enumerate() {
                named[group[at]] = rows[group[row]];
            }
        }
    }
    named
}

/// For threads without a place so far, as none is free where they may run: they stay, or go to the
/// least crowded domain.
fn rest(threads: &[Thread], domains: &Domains, mut at: Vec<Option<usize>>) -> Vec<usize> {
    let mut crowd = vec![0usize; domains.cpus.len()];
    at.iter().flatten().for_each(|domain| crowd[*domain] += 1);
    let mut chosen = Vec::with_capacity(threads.len());
    for (thread, at) in threads.iter().zip(&mut at) {
        let has_cpus = |domain: usize| domains.cpus.get(domain).is_some_and(|cpus| *cpus > 0);
        let stays = thread.at.filter(|domain| thread.may(*domain) && has_cpus(*domain));
        let domain = at.or(stays).unwrap_or_else(|| {
            // A mask of offline CPUs only counts as no mask, as in the kernel.
            let may = |domain: &usize| thread.may(*domain);
            let anywhere = !domains.used().any(|domain| may(&domain));
            let full = |domain: &usize| crowd[*domain] * 1000 / domains.cpus[*domain];
            let open = domains.used().filter(|domain| anywhere || may(domain));
            open.min_by_key(|domain| (full(domain), *domain)).unwrap_or(0)
        });
        if at.is_none() {
            crowd[domain] += 1;
        }
        chosen.push(domain);
    }
    chosen
}

/// A move of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The address space.
    pub unit: u64,
    /// The domain that its memory goes to.
    pub to: usize,
}

/// One thread's vote for the domain of its address space's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its address space.
    pub unit: u64,
    /// It misses enough to matter.
    pub devil: bool,
    /// Its domain from now on.
    pub to: usize,
    /// It was in another domain before.
    pub moved: bool,
}

/// Memory that should follow threads that moved. The threads of an address space are one unit. It
/// goes where more than half of its devils are, or of all its threads if none is a devil. Without
/// such a domain it stays.
pub fn memory(parts: &[Part]) -> Vec<Move> {
    let mut units: BTreeMap<u64, Vec<&Part>> = BTreeMap::new();
    parts.iter().for_each(|part| units.entry(part.unit).or_default().push(part));
    let mut moves = Vec::new();
    for (unit, parts) in units {
        let any = parts.iter().any(|part| part.devil);
        let voters: Vec<&&Part> = parts.iter().filter(|part| part.devil || !any).collect();
        let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
        voters.iter().for_each(|part| *votes.entry(part.to).or_default() += 1);
        let won = votes.into_iter().find(|(_, votes)| 2 * votes > voters.len());
        if let Some((to, _)) = won.filter(|(to, _)| {
            // If the majority has not moved, the memory is there already, or is not this move's
            // concern.
            parts.iter().any(|part| part.moved && part.to == *to)
        }) {
            moves.push(Move { unit, to });
        }
    }
    moves
}
