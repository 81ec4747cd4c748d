// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: reads misses once an interval, plans, and puts places and moves of memory in
//! force.
//!
//! A thread that sleeps most of the time has no place, as in the authors' scheduler. A thread loses
//! its place after five intervals in a row with too little work. A thread without counters or a
//! profile entry has no place either. A profile takes precedence over counters.

use std::collections::BTreeMap;

use policy::table::TaskView;
use policy::{Binds, Control, Counts, Profile, Sources, Topology, View};

use crate::{
    Class, Cuts, Domains, Filter, Gate, Leaves, Part, Rate, Spread, Thread, di, dino, memory,
};

/// After this many intervals without enough work a thread loses its place.
const QUIET: u32 = 5;
/// How often memory is pulled for one move if pages stay behind, as in the authors' scheduler.
const TRIES: u32 = 5;
/// Pages that may stay on another node, as a part of those on the node that they were moved to.
const BEHIND: f64 = 0.1;
/// How long classes are expected to last before any has changed, s.
const DWELL_S: f64 = 60.0;
/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Instructions per second of CPU time of a thread without counters: what one with many misses
/// executes.
const TOLD_RATE: f64 = 1e9;
/// A share in the task table is 0 for no domain, else 1 + the domain.
const PLACE: u64 = 1;

/// How places are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planner {
    /// DI.
    Sorted(Spread),
    /// DINO.
    Classes,
}

/// How an instance places threads.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub planner: Planner,
    pub cuts: Cuts,
    pub filter: Filter,
    /// The most bytes a second of pages that follow their threads, 0 for no bound; None: pages
    /// stay.
    pub memory: Option<u64>,
    pub gate: Option<Gate>,
    pub busy: f64,
    pub interval_ns: u64,
    /// False: it only reports what it would do.
    pub acts: bool,
    /// Shares are of kinds of cores, so that domains have fields of their own in the task table.
    pub apart: bool,
}

/// A thread's state as of the last look.
#[derive(Debug)]
struct Known {
    task: TaskView,
    /// Its CPU time then.
    ran_ns: u64,
    counts: Option<Counts>,
    rate: Rate,
    /// How many rates it has had, and whether the last one was told.
    samples: usize,
    told: bool,
    class: Class,
    quiet: u32,
    /// The memory bandwidth that it uses, bytes a second.
    asks: f64,
    at: Option<usize>,
    /// Its class when it came to its domain.
    came: Class,
    seen: u64,
}

/// Memory of an address space that was moved, and may have left pages behind.
#[derive(Clone, Copy, Debug)]
struct Moved {
    to: usize,
    tries: u32,
}

/// The control plane of an instance.
pub(crate) struct Places {
    rule: Rule,
    domains: Domains,
    /// CPUs of each domain, offline ones included.
    cpus: Vec<Vec<usize>>,
    /// Whether domains are memory nodes. Otherwise they are caches, and memory cannot be moved.
    nodes: bool,
    profile: Profile,
    known: BTreeMap<(u32, u32), Known>,
    moved: BTreeMap<u32, Moved>,
    looks: u64,
    looked_ns: u64,
    /// Bytes that each node's memory had given by the last look, and the bytes a second of them
    /// that no thread here asks for.
    traffic: Vec<u64>,
    others: Vec<f64>,
    /// Seconds that threads have been of a class, and how many class changes there were.
    classed_s: f64,
    changes: u32,
    moves: u64,
    held: u64,
}

impl Places {
    /// A control plane for a machine.
    pub fn new(topology: &Topology, profile: &Profile, rule: Rule) -> Self {
        let (cpus, nodes) = domains(topology);
        let distance = if nodes { topology.node_distance.clone() } else { Vec::new() };
        Places {
            rule,
            domains: Domains { cpus: cpus.iter().map(Vec::len).collect(), distance },
            cpus,
            nodes,
            profile: profile.clone(),
            known: BTreeMap::new(),
            moved: BTreeMap::new(),
            looks: 0,
            looked_ns: 0,
            traffic: Vec::new(),
            others: Vec::new(),
            classed_s: 0.0,
            changes: 0,
            moves: 0,
            held: 0,
        }
    }

    /// Takes in what each thread has done since the last look, and which CPUs are online.
    fn look(&mut self, view: &View<'_>, passed_ns: u64) {
        self.looks += 1;
        let there = if self.rule.apart { view.table.domain_cpus() } else { view.table.cpus() };
        if there.iter().any(|count| *count > 0) {
            let there = there.iter().map(|count| *count as usize);
            self.domains.cpus.iter_mut().zip(there).for_each(|(cpus, there)| *cpus = there);
        }
        let leaves = match self.rule.planner {
            Planner::Classes => Leaves::Class(self.rule.cuts),
            Planner::Sorted(_) => Leaves::Rate(self.rule.cuts),
        };
        for &task in view.tasks() {
            let own = self.known.entry((task.slot, task.generation)).or_insert_with(|| Known {
                task,
                ran_ns: 0,
                counts: None,
                rate: Rate::default(),
                samples: 0,
                told: false,
                class: Class::Turtle,
                quiet: QUIET,
                asks: 0.0,
                at: None,
                came: Class::Turtle,
                seen: 0,
            });
            own.seen = self.looks;
            let ran_ns = task.runtime_ns.saturating_sub(own.ran_ns);
            (own.task, own.ran_ns) = (task, task.runtime_ns);
            if (ran_ns as f64) < self.rule.busy * passed_ns as f64 || ran_ns == 0 {
                own.quiet = (own.quiet + 1).min(QUIET);
                // Reading a thread's counters opens them, and there are only so many: none for
                // sleeping threads.
                let counts = || view.memory.counts(task.pid);
                own.counts = (own.quiet < QUIET).then(counts).flatten();
                continue;
            }
            own.quiet = 0;
            let before = own.counts;
            own.counts = view.memory.counts(task.pid);
            let counted =
                before.zip(own.counts).and_then(|(then, now)| since(then, now, passed_ns));
            let told = told(&self.profile, view, task.pid, own.samples);
            let Some(mpki) = told.or(counted.map(|(mpki, _)| mpki)) else { continue };
            (own.samples, own.told) = (own.samples + 1, told.is_some());
            let told_asks = mpki / 1000.0 * TOLD_RATE * LINE * ran_ns as f64 / passed_ns as f64;
            own.asks = counted.map_or(told_asks, |(_, asks)| asks);
            let first = own.rate.accepted().is_none();
            own.rate.sample(mpki, self.rule.filter, leaves);
            let class = own.rate.accepted().map_or(own.class, |rate| self.rule.cuts.class(rate));
            self.classed_s += passed_ns as f64 / 1e9;
            self.changes += u32::from(class != own.class && !first);
            own.class = class;
        }
        let looks = self.looks;
        self.known.retain(|_, own| own.seen == looks);
    }

    /// Threads to be placed, by age, with their keys in `known`. Finding where pages are walks each
    /// process's memory, so `pages` asks for that only where it matters.
    fn threads(&self, view: &View<'_>, pages: bool) -> (Vec<(u32, u32)>, Vec<Thread>) {
        let mut resident: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let placed = |own: &Known| own.quiet < QUIET && own.rate.accepted().is_some();
        let (mut keys, mut threads) = (Vec::new(), Vec::new());
        let mut placed: Vec<_> = self.known.iter().filter(|(_, own)| placed(own)).collect();
        // Slots are reused; thread ids grow until they wrap.
        placed.sort_by_key(|(_, own)| own.task.pid);
        for (key, own) in placed {
            let pages = match self.nodes && pages {
                true => resident
                    .entry(own.task.tgid)
                    .or_insert_with(|| view.memory.resident(own.task.tgid))
                    .clone(),
                false => Vec::new(),
            };
            // A thread without a place is at home where its pages are.
            let home = (0..pages.len()).max_by_key(|node| (pages[*node], usize::MAX - node));
            let home = home.filter(|node| pages[*node] > 0 && self.has_cpus(*node));
            keys.push(*key);
            threads.push(Thread {
                id: u64::from(own.task.pid),
                mpki: own.rate.accepted().unwrap_or(0.0),
                class: own.class,
                allowed: match if self.rule.apart { own.task.domains } else { own.task.kinds } {
                    0 => u64::MAX,
                    // The table has room for 32 domains; higher ones are open to all threads.
                    kinds => u64::from(kinds) | u64::MAX << 32,
                },
                at: own.at.or(home),
                changed: own.came != own.class,
                resident: pages,
            });
        }
        (keys, threads)
    }

    /// Whether several domains have CPUs, offline ones included.
    fn has_several(&self) -> bool {
        self.cpus.iter().filter(|cpus| !cpus.is_empty()).count() > 1
    }

    fn has_cpus(&self, domain: usize) -> bool {
        self.domains.cpus.get(domain).is_some_and(|cpus| *cpus > 0)
    }

    /// The moves of memory that follow from these places.
    fn pulls(&self, keys: &[(u32, u32)], threads: &[Thread], at: &[usize]) -> Vec<crate::Move> {
        if !self.nodes || self.rule.memory.is_none() {
            return Vec::new();
        }
        let part = |((key, thread), to): ((&(u32, u32), &Thread), &usize)| Part {
            unit: u64::from(self.known[key].task.tgid),
            devil: thread.class > Class::Turtle,
            to: *to,
            moved: thread.at != Some(*to),
        };
        let parts: Vec<Part> = keys.iter().zip(threads).zip(at).map(part).collect();
        let mut pulls = memory(&parts);
        // A turtle's pages can stay.
        let asks = |unit: u64| parts.iter().any(|part| part.unit == unit && part.devil);
        pulls.retain(|pull| self.rule.planner != Planner::Classes || asks(pull.unit));
        pulls
    }

    /// Whether the gate lets a plan through.
    fn worth(
        &self,
        keys: &[(u32, u32)],
        threads: &[Thread],
        at: &[usize],
        pulls: &[crate::Move],
    ) -> bool {
        let Some(gate) = &self.rule.gate else { return true };
        let places = self.domains.places(threads.len());
        let mut crowd = vec![0; places.len()];
        for thread in threads {
            match thread.at {
                Some(domain) => crowd[domain] += 1,
                None => return true,
            }
        }
        // If a domain has more threads than places, a thread has to move whatever its memory costs.
        if crowd.iter().zip(&places).any(|(crowd, places)| crowd > places) {
            return true;
        }
        let mut now = self.others.clone();
        now.resize(places.len(), 0.0);
        let mut then = now.clone();
        let mut units: BTreeMap<u64, u64> = BTreeMap::new();
        for ((key, thread), to) in keys.iter().zip(threads).zip(at) {
            let own = &self.known[key];
            let unit = u64::from(own.task.tgid);
            let all: u64 = thread.resident.iter().sum();
            let pulled = pulls.iter().find(|pull| pull.unit == unit).map(|pull| pull.to);
            for node in 0..places.len() {
                let bytes = thread.resident.get(node).copied().unwrap_or(0);
                let part = match all {
                    0 => f64::from(u8::from(thread.at == Some(node))),
                    _ => bytes as f64 / all as f64,
                };
                now[node] += part * own.asks;
                then[pulled.unwrap_or(if all == 0 { *to } else { node })] += part * own.asks;
            }
            if let Some(to) = pulled {
                // `resident` ends at the last node that has pages.
                units.insert(unit, all - thread.resident.get(to).copied().unwrap_or(0));
            }
        }
        let dwell_s = (self.classed_s + DWELL_S) / f64::from(self.changes + 1);
        gate.opens(&now, &then, dwell_s, units.values().sum())
    }

    /// Each node's memory traffic beyond what the threads' misses explain: other programs, and
    /// accesses that misses do not count. Known only where the kernel monitors all traffic.
    fn listen(&mut self, view: &View<'_>, passed_ns: u64) {
        let traffic = if self.rule.gate.is_some() { view.memory.traffic() } else { Vec::new() };
        let mut asked = vec![0.0; traffic.len()];
        for own in self.known.values().filter(|own| own.quiet < QUIET) {
            if let Some(asked) = own.at.and_then(|at| asked.get_mut(at)) {
                *asked += own.asks;
            }
        }
        let before = std::mem::replace(&mut self.traffic, traffic);
        let passed_s = passed_ns as f64 / 1e9;
        let more = |(node, now): (usize, &u64)| {
            let bytes = now.checked_sub(*before.get(node)?)?;
            Some((bytes as f64 / passed_s - asked[node]).max(0.0))
        };
        self.others = self.traffic.iter().enumerate().map(|of| more(of).unwrap_or(0.0)).collect();
    }

    fn places(&self, threads: &[Thread]) -> Vec<usize> {
        match self.rule.planner {
            Planner::Sorted(how) => di(threads, &self.domains, how),
            Planner::Classes => dino(threads, &self.domains),
        }
    }

    fn plan(&mut self, view: &View<'_>) {
        let (mut keys, mut threads) = self.threads(view, false);
        let mut at = self.places(&threads);
        // If no thread moves, it does not matter where pages are.
        if moves(&threads, &at) {
            (keys, threads) = self.threads(view, true);
            at = self.places(&threads);
        }
        let pulls = self.pulls(&keys, &threads, &at);
        let opens = !moves(&threads, &at) || self.worth(&keys, &threads, &at, &pulls);
        self.held += u64::from(!opens);
        let own = |at: usize, thread: &Thread| if opens { at } else { thread.at.unwrap_or(at) };
        let placed = keys.iter().zip(&threads).zip(&at);
        let placed: BTreeMap<(u32, u32), usize> =
            placed.map(|((key, thread), at)| (*key, own(*at, thread))).collect();
        for pull in pulls.iter().filter(|_| opens) {
            self.moves += 1;
            self.moved.insert(pull.unit as u32, Moved { to: pull.to, tries: 0 });
            self.pull(view, pull.unit as u32, pull.to);
        }
        self.follow_up(view);
        let mut shares = Vec::new();
        for (key, own) in &mut self.known {
            let at = placed.get(key).copied();
            if at != own.at || opens {
                own.came = own.class;
            }
            own.at = at;
            if self.rule.apart {
                if self.rule.acts {
                    view.table.set_home(&own.task, own.at);
                }
                continue;
            }
            let share = own.at.map_or(0, |domain| PLACE + domain as u64);
            if share != own.task.share {
                shares.push((own.task, share));
            }
        }
        if !shares.is_empty() && self.rule.acts {
            view.table.publish(0, &shares);
        }
    }

    fn pull(&self, view: &View<'_>, pid: u32, to: usize) {
        if let Some(rate) = self.rule.memory.filter(|_| self.rule.acts) {
            view.memory.pull(pid, to, rate);
        }
    }

    /// Pulls pages again that stayed behind, and cancels moves that are no longer wanted.
    fn follow_up(&mut self, view: &View<'_>) {
        let mut devils: BTreeMap<u32, bool> = BTreeMap::new();
        for own in self.known.values() {
            *devils.entry(own.task.tgid).or_default() |= own.class > Class::Turtle;
        }
        self.moved.retain(|pid, _| devils.contains_key(pid));
        let mut again = Vec::new();
        for (pid, moved) in &mut self.moved {
            let devil = devils[pid];
            match view.memory.is_pulling(*pid) {
                // It was pulled for a devil; a turtle's pages can stay.
                true if !devil && self.rule.planner == Planner::Classes => view.memory.leave(*pid),
                true => {}
                false if devil && moved.tries < TRIES => {
                    let pages = view.memory.resident(*pid);
                    let there = pages.get(moved.to).copied().unwrap_or(0) as f64;
                    let behind = (0..pages.len()).filter(|node| *node != moved.to);
                    let stays = behind.into_iter().any(|node| pages[node] as f64 > BEHIND * there);
                    // If all pages are there, do not look again: that is costly for a large address
                    // space.
                    moved.tries = if stays { moved.tries + 1 } else { TRIES };
                    if stays {
                        again.push((*pid, moved.to));
                    }
                }
                false => {}
            }
        }
        again.into_iter().for_each(|(pid, to)| self.pull(view, pid, to));
    }
}

/// Whether any thread changes its domain.
fn moves(threads: &[Thread], at: &[usize]) -> bool {
    threads.iter().zip(at).any(|(thread, at)| thread.at != Some(*at))
}

/// CPUs of each memory node if there are several, else of each cache; and whether they are nodes.
fn domains(topology: &Topology) -> (Vec<Vec<usize>>, bool) {
    let count = |of: &[u16]| 1 + of.iter().copied().max().map_or(0, usize::from);
    let several = topology.node.iter().any(|node| Some(node) != topology.node.first());
    let (of, count) = match several {
        true => (&topology.node, count(&topology.node).max(topology.node_distance.len())),
        false => (&topology.llc, count(&topology.llc)),
    };
    let mut cpus = vec![Vec::new(); count];
    of.iter().enumerate().for_each(|(cpu, domain)| cpus[usize::from(*domain)].push(cpu));
    (cpus, several)
}

/// Misses per 1,000 instructions, and bytes a second, between two counts. None if a counter stood
/// still or jumped back.
fn since(before: Counts, now: Counts, passed_ns: u64) -> Option<(f64, f64)> {
    let instructions =
        now.instructions.checked_sub(before.instructions).filter(|count| *count > 0)?;
    let misses = now.misses.checked_sub(before.misses)?;
    let asks = misses as f64 * LINE / (passed_ns.max(1) as f64 / 1e9);
    Some((misses as f64 * 1000.0 / instructions as f64, asks))
}

/// A thread's misses by the profile: a number for each sample; the last one holds from then on.
fn told(profile: &Profile, view: &View<'_>, tid: u32, sample: usize) -> Option<f64> {
    let numbers = view.told(profile, tid)?;
    numbers.get(sample).or(numbers.last()).copied()
}

impl Control for Places {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let passed_ns = view.now_ns.saturating_sub(self.looked_ns);
        // With one domain there is nothing to choose, so nothing is read.
        if self.has_several() && passed_ns > 0 {
            self.look(view, passed_ns);
            self.listen(view, passed_ns);
            self.plan(view);
        }
        self.looked_ns = view.now_ns;
        self.rule.interval_ns
    }

    fn binds(&self) -> Binds {
        Binds::Domains(self.cpus.clone())
    }

    fn sources(&self) -> Sources {
        let mut sources = Sources::default();
        for own in self.known.values().filter(|own| own.quiet < QUIET) {
            match own.counts {
                _ if own.told => sources.profile += 1,
                Some(_) => sources.counters += 1,
                None => sources.unknown += 1,
            }
        }
        sources
    }

    fn placed(&self) -> Vec<(u32, usize)> {
        self.known.values().filter_map(|own| Some((own.task.pid, own.at?))).collect()
    }

    fn says(&self) -> Option<String> {
        if !self.has_several() {
            return Some("this machine has one memory domain: nothing is placed or moved".into());
        }
        let placed = self.known.values().filter(|own| own.at.is_some()).count();
        let domains = self.domains.count();
        let (moves, held) = (self.moves, self.held);
        let would = if self.rule.acts { "" } else { "would be: " };
        Some(format!(
            "{would}{placed} threads placed in {domains} domains, {moves} moves of memory, {held} plans not worth theirs"
        ))
    }
}

#[cfg(test)]
mod tests;
