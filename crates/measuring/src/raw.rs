// SPDX-License-Identifier: GPL-2.0-only
//! Takes all readings of this machine, in the order in which they are taken.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use live::Others;
use live::measure::{self as probe, Batch, Caches, Passers, Place, Reading, Ring, Tlb};
use machine::{CpuSet, Distance};
use terminal::{Failure, Progress};

/// A working set of programs that pass messages: what a task loses when it moves to another core.
pub const MOVED_BYTES: usize = 16 << 10;
/// The most memory that is read, and the part of free memory.
const MEMORY_BYTES_MAX: usize = 1 << 30;
const OF_FREE: usize = 4;
/// More than any cache holds, if caches are not known.
const MEMORY_BYTES: usize = 128 << 20;
/// Less memory is too little to read.
const MEMORY_BYTES_MIN: usize = 2 << 20;
/// Numbers of pages; one line of each is read.
const PAGES: [usize; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768];
/// With fewer pages, a TLB may hold too many of them to show the cost of a miss.
const PAGES_MANY: usize = 8192;
/// Rounds through all rings: neighbours of a virtual machine come and go in seconds.
const PASSES: usize = 8;
/// No further round begins after this time.
const RINGS_TIME: Duration = Duration::from_secs(30);
/// Repetitions of a ring in each of them.
const SAMPLES: usize = 8;

/// Lengths of the rings, of threads without an array, that costs are fitted to.
pub const FITTED: [usize; 3] = [1, 2, FULL];

/// A measurement of yields: kind and number of tasks.
pub type Yielders = (Passers, usize);

/// Numbers from the CPUs of each node to the memory of each; empty if there is one node.
pub type Nodes = Vec<Vec<Option<f64>>>;

/// All readings. None: it could not be read, on this machine or at all.
#[derive(Default)]
pub struct Raw {
    pub place: Option<Place>,
    /// The CPU of all measurements that need only one: its row in `place`.
    pub home: usize,
    /// The nearest other CPU, for measurements that need two. None: there is none.
    pub other: Option<usize>,
    pub clock_ghz: Option<Reading>,
    pub syscall_ns: Option<Reading>,
    pub atomic_ns: Option<Reading>,
    pub copy_byte_ns: Option<Reading>,
    pub timer_ns: Option<Reading>,
    pub timer_slack_ns: Option<f64>,
    pub caches: Caches,
    /// Bytes of memory that are read, so many that caches hold little of them. None: there is too little memory for
    /// that.
    pub memory_bytes: Option<usize>,
    pub dtlb: Option<Tlb>,
    pub itlb: Option<Tlb>,
    pub tags: Option<u32>,
    /// Time for a line of each level of caches, nearest first and memory last: independent loads, and dependent ones.
    pub touch_ns: Vec<Option<Reading>>,
    pub chase_ns: Vec<Option<Reading>>,
    /// Numbers of pages that were read, or tried.
    pub pages: Vec<usize>,
    /// Extra cost of lines on a page each over adjacent lines, by the number of pages.
    pub page_walks_ns: Vec<(usize, Reading)>,
    pub page_copy_ns: Option<Reading>,
    pub page_move_ns: Option<Reading>,
    pub bandwidth_gbs: Option<Reading>,
    pub node_latency_ns: Nodes,
    pub node_bandwidth_gbs: Nodes,
    /// A fixed piece of work on each kind of core, and beside 1, 2 and 3 other threads of a core.
    pub work_ns: Vec<Option<Reading>>,
    /// The kind of the core that threads ran on side by side.
    pub beside_kind: usize,
    pub beside_ns: Vec<Option<Reading>>,
    pub vector_drop: Option<(&'static str, Reading)>,
    /// By the distance of two CPUs.
    pub transfer_ns: BTreeMap<Distance, Reading>,
    pub refetch_ns: BTreeMap<Distance, Reading>,
    pub barrier_ns: Option<Reading>,
    pub hops_ns: BTreeMap<RingKey, Reading>,
    pub yields_ns: BTreeMap<Yielders, Reading>,
    /// The part of these CPUs' time that other tasks had meanwhile. None: the kernel does not say.
    pub others: Option<f64>,
}

/// A ring, as a key of readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingKey {
    pub passers: Passers,
    pub tasks: usize,
    pub bytes: usize,
    pub batch: bool,
    /// Its tasks alternate between two CPUs.
    pub apart: bool,
}

impl RingKey {
    pub fn new(passers: Passers, tasks: usize, bytes: usize) -> Self {
        RingKey { passers, tasks, bytes, batch: false, apart: false }
    }

    pub fn batch(self) -> Self {
        RingKey { batch: true, ..self }
    }
}

/// Makes a reading unknown if the system has an error.
fn known<T>(read: std::io::Result<Option<T>>) -> Option<T> {
    read.ok().flatten()
}

/// How much memory to read, for this size of the last cache and this much free memory: four times as much as the cache,
/// or twice.
fn memory_bytes(cache: Option<usize>, free: Option<usize>) -> Option<usize> {
    let most = MEMORY_BYTES_MAX.min(free.unwrap_or(MEMORY_BYTES * OF_FREE) / OF_FREE);
    let most = 1 << most.max(1).ilog2();
    let bytes = match cache {
        Some(cache) => (4 * cache).next_power_of_two(),
        None => MEMORY_BYTES,
    };
    Some(bytes.max(MEMORY_BYTES_MIN).min(most))
        .filter(|bytes| *bytes >= MEMORY_BYTES_MIN.max(2 * cache.unwrap_or(0)))
}

/// Numbers of pages to read, for this page size and this much free memory.
fn pages(page_bytes: usize, free: Option<usize>) -> Vec<usize> {
    let most = MEMORY_BYTES_MAX.min(free.unwrap_or(MEMORY_BYTES * OF_FREE) / OF_FREE);
    PAGES.into_iter().filter(|pages| pages * page_bytes <= most).collect()
}

/// Refuses, before anything is measured, what would be refused at the end.
fn fits(cpus: usize) -> Result<(), Failure> {
    const MOST: usize = CpuSet::MAX;
    match cpus {
        0..=MOST => Ok(()),
        _ => Err(Failure::input(format!(
            "{cpus} CPUs are more than a machine of the simulator has: choose at most {MOST}, as by `taskset -c 0-{}`",
            MOST - 1
        ))),
    }
}

impl Raw {
    /// Takes all readings, with these rings beside those that every machine's costs are derived from.
    pub fn take(rings: &[RingKey], progress: &Progress) -> Result<Self, Failure> {
        let place = probe::place().map_err(|error| Failure::input(format!("{error:#}")))?;
        fits(place.cpus.len())?;
        let begun = Others::of(&place.cpus).ok();
        let fast = |row: &&[u16; 4]| row[3] == 0;
        let count = place.rows.iter().filter(fast).count();
        // The last of the fastest CPUs: CPU 0 has most of the interrupts of small machines.
        let at = place.rows.iter().enumerate().filter(|(_, row)| row[3] == 0).nth(count - 1);
        let home = at.map_or(0, |(at, _)| at);
        let (dtlb, itlb) = probe::tlbs(place.cpus[home]);
        let mut raw = Raw {
            home,
            other: next_to(&place, home),
            caches: probe::caches(place.cpus[home]),
            dtlb,
            itlb,
            tags: probe::tags(),
            timer_slack_ns: probe::timer_slack_ns(),
            place: Some(place.clone()),
            ..Raw::default()
        };
        raw.memory_bytes =
            memory_bytes(raw.cache_sizes().last().copied(), probe::available_bytes());
        let cpu = place.cpus[home];
        progress.phase("clock, calls and timers");
        raw.clock_ghz = known(probe::clock_ghz(cpu));
        raw.syscall_ns = known(probe::syscall_ns(cpu));
        raw.atomic_ns = known(probe::atomic_ns(cpu));
        raw.copy_byte_ns = known(probe::copy_byte_ns(cpu));
        raw.timer_ns = known(probe::timer_ns(cpu));
        progress.step();
        progress.phase("caches and memory");
        raw.memory(cpu, &place);
        progress.step();
        progress.phase("cores, alone and side by side");
        raw.cores(&place);
        progress.step();
        progress.phase("pipe rings");
        raw.rings(cpu, &place, rings);
        progress.step();
        raw.others = begun.and_then(|begun| begun.until_now().ok());
        Ok(raw)
    }

    fn cache_sizes(&self) -> Vec<usize> {
        let all = [self.caches.l1d, self.caches.l2, self.caches.l3];
        all.into_iter().flatten().map(|cache| cache.bytes).collect()
    }

    /// Bytes that fit into each level of caches and into no nearer one, and at last into none, as far as levels exist.
    pub fn levels(&self) -> Vec<usize> {
        let sizes = self.cache_sizes();
        // Midway between the sizes of two caches: outer caches are shared with others.
        let mut inner = 0;
        let mut levels: Vec<usize> = Vec::new();
        for bytes in &sizes {
            let middle =
                if inner == 0 { bytes / 2 } else { (inner as f64 * *bytes as f64).sqrt() as usize };
            levels.push(1 << middle.max(64).ilog2());
            inner = *bytes;
        }
        levels.extend(self.memory_bytes.filter(|_| !sizes.is_empty()));
        levels
    }

    fn memory(&mut self, cpu: usize, place: &Place) {
        let levels = self.levels();
        self.touch_ns = levels.iter().map(|bytes| known(probe::touch_ns(cpu, *bytes))).collect();
        self.chase_ns = levels.iter().map(|bytes| known(probe::chase_ns(cpu, *bytes))).collect();
        self.pages = pages(probe::page_bytes(), probe::available_bytes());
        for pages in &self.pages {
            if let Some(reading) = known(probe::page_walk_ns(cpu, *pages)) {
                self.page_walks_ns.push((*pages, reading));
            }
        }
        if place.nodes.len() > 1 {
            self.nodes(place);
        }
        let Some(bytes) = self.memory_bytes else { return };
        self.bandwidth_gbs = known(probe::bandwidth_gbs(cpu, bytes));
        self.page_copy_ns = known(probe::page_copy_ns(cpu, bytes / 2));
    }

    fn nodes(&mut self, place: &Place) {
        let first = |node: usize| {
            let at = place.rows.iter().position(|row| usize::from(row[2]) == node);
            place.cpus[at.unwrap_or(0)]
        };
        let cache = self.cache_sizes().last().copied();
        let bytes = |node: usize| {
            let free = probe::node_free_bytes(node)?;
            memory_bytes(cache, Some(probe::available_bytes().map_or(free, |all| all.min(free))))
        };
        type Probe = fn(usize, usize, usize) -> std::io::Result<Option<Reading>>;
        let all = |read: Probe| -> Nodes {
            let cell = |from: usize, to: usize| {
                known(read(first(from), to, bytes(to)?)).map(|it| it.median)
            };
            let row = |from: usize| place.nodes.iter().map(|to| cell(from, *to)).collect();
            (0..place.nodes.len()).map(row).collect()
        };
        self.node_latency_ns = all(probe::node_latency_ns);
        self.node_bandwidth_gbs = all(probe::node_bandwidth_gbs);
        let with_memory = |at: &usize| bytes(place.nodes[*at]).is_some();
        let with_memory: Vec<usize> = (0..place.nodes.len()).filter(with_memory).collect();
        if let [from, to, ..] = with_memory[..] {
            let (here, from, to) = (first(from), place.nodes[from], place.nodes[to]);
            self.page_move_ns = known(probe::page_move_ns(here, from, to));
        }
    }

    fn cores(&mut self, place: &Place) {
        for kind in 0..place.capacities.len() {
            let at = place.rows.iter().position(|row| usize::from(row[3]) == kind);
            self.work_ns.push(at.and_then(|at| known(probe::work_ns(place.cpus[at]))));
        }
        let threads = threads(place, self.home);
        self.beside_kind = usize::from(place.rows[threads[0]][3]);
        let threads: Vec<usize> = threads.into_iter().map(|at| place.cpus[at]).collect();
        for others in 1..threads.len().min(4) {
            self.beside_ns.push(known(probe::side_by_side(threads[0], &threads[1..=others])));
        }
        let cpu = place.cpus[self.home];
        self.vector_drop = known(probe::vector_drop(cpu));
        for (far, (here, there)) in pairs(place, self.home) {
            let (here, there) = (place.cpus[here], place.cpus[there]);
            if let Some(reading) = known(probe::transfer_ns(here, there)) {
                self.transfer_ns.insert(far, reading);
            }
            if let Some(reading) = known(probe::refetch_ns(here, there, MOVED_BYTES)) {
                self.refetch_ns.insert(far, reading);
            }
        }
        let other = self.other.map(|at| place.cpus[at]);
        self.barrier_ns = other.and_then(|other| known(probe::barrier_ns(cpu, other)));
    }

    /// Measures rings and yields in turn, so that a disturbance affects all alike.
    fn rings(&mut self, cpu: usize, place: &Place, more: &[RingKey]) {
        let other = self.other.map(|at| place.cpus[at]);
        let mut keys = self.needed();
        keys.extend(more);
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !key.apart || other.is_some());
        let yielders = YIELDERS;
        let mut hops: BTreeMap<RingKey, Vec<Batch>> = BTreeMap::new();
        let mut yields: BTreeMap<Yielders, Vec<Batch>> = BTreeMap::new();
        let start = Instant::now();
        for _ in (0..PASSES).take_while(|pass| *pass < 2 || start.elapsed() < RINGS_TIME) {
            for (passers, tasks) in yielders {
                if let Ok(batch) = probe::yields(passers, tasks, cpu, SAMPLES) {
                    yields.entry((passers, tasks)).or_default().push(batch);
                }
            }
            for key in &keys {
                let cpus = match other {
                    Some(other) if key.apart => vec![cpu, other],
                    _ => vec![cpu],
                };
                let RingKey { passers, tasks, bytes, batch, .. } = *key;
                let ring = Ring { passers, tasks, bytes, batch, cpus };
                if let Ok(batch) = probe::hops(&ring, SAMPLES) {
                    hops.entry(*key).or_default().push(batch);
                }
            }
        }
        let all = hops.values().chain(yields.values()).flatten();
        let canaries: Vec<f64> = all.map(|batch| batch.canary_ns).collect();
        let usual_ns = Reading::of(&canaries).map_or(f64::MAX, |canary| canary.low);
        let reading = |batches: &Vec<Batch>| Reading::of(&probe::merged(batches, usual_ns));
        self.hops_ns = hops.iter().filter_map(|(key, it)| Some((*key, reading(it)?))).collect();
        self.yields_ns = yields.iter().filter_map(|(key, it)| Some((*key, reading(it)?))).collect();
    }

    /// Rings that costs are derived from.
    fn needed(&self) -> Vec<RingKey> {
        let (few, many) = self.spaces();
        let threads = |tasks| RingKey::new(Passers::Threads, tasks, 0);
        let processes = |tasks, bytes| RingKey::new(Passers::Processes, tasks, bytes).batch();
        vec![
            ALONE,
            ALONE_WITH_SET,
            threads(2),
            threads(FULL),
            processes(few, 0),
            processes(many, 0),
            processes(few, MOVED_BYTES),
            RingKey { apart: true, ..RingKey::new(Passers::Threads, 2, 0) },
        ]
    }

    /// Cost of a miss of the TLB, with so many pages that it holds few of them.
    pub fn page_walk_ns(&self) -> Option<Reading> {
        let most = self.page_walks_ns.last().filter(|(pages, _)| *pages >= PAGES_MANY);
        most.map(|(_, reading)| *reading)
    }

    /// Whether there was memory for that many pages.
    pub fn has_many_pages(&self) -> bool {
        self.pages.last().is_some_and(|pages| *pages >= PAGES_MANY)
    }

    /// The most pages that cost next to nothing: the TLB holds at least these.
    pub fn pages_held(&self) -> Option<usize> {
        const LITTLE: f64 = 0.25;
        let most = self.page_walk_ns()?.median;
        let held = self.page_walks_ns.iter().take_while(|(_, it)| it.median <= LITTLE * most);
        held.last().map(|(pages, _)| *pages).filter(|_| most > 0.0)
    }

    /// As many processes as a CPU's TLB has tags for, and more than that.
    pub fn spaces(&self) -> (usize, usize) {
        let few = self.tags.map_or(6, |tags| tags as usize).clamp(2, 12);
        (few, few + 2)
    }
}

/// Tasks of a ring so long that each sleeps until its debt is paid.
pub const FULL: usize = 5;
/// A task that passes the token to itself: a write and a read, and no switch.
pub const ALONE: RingKey =
    RingKey { passers: Passers::Threads, tasks: 1, bytes: 0, batch: false, apart: false };
/// The same task with an array that its first cache holds.
pub const ALONE_WITH_SET: RingKey = RingKey { bytes: MOVED_BYTES, ..ALONE };
/// Measurements of yields, in order.
pub const YIELDERS: [Yielders; 3] =
    [(Passers::Threads, 1), (Passers::Threads, 2), (Passers::Processes, 2)];

/// Two CPUs at each existing distance; home is the first of them if it has another CPU at that distance.
pub fn pairs(place: &Place, home: usize) -> BTreeMap<Distance, (usize, usize)> {
    let far = |a: &[u16; 4], b: &[u16; 4]| match () {
        () if a[0] == b[0] => Distance::Core,
        () if a[1] == b[1] => Distance::Llc,
        () if a[2] == b[2] => Distance::Node,
        () => Distance::Remote,
    };
    let mut found = BTreeMap::new();
    let all = 0..place.rows.len();
    for here in [home].into_iter().chain(all.clone()) {
        for there in all.clone().filter(|there| *there != here) {
            let far = far(&place.rows[here], &place.rows[there]);
            found.entry(far).or_insert((here, there));
        }
    }
    found
}

/// The nearest other CPU.
fn next_to(place: &Place, home: usize) -> Option<usize> {
    let all = pairs(place, home).into_values();
    all.filter(|(here, _)| *here == home).map(|(_, there)| there).next()
}

/// The threads of a core with the most threads: home's core if no other has more, with home first; else one of the
/// fastest kind.
fn threads(place: &Place, home: usize) -> Vec<usize> {
    let mut cores: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, row) in place.rows.iter().enumerate() {
        cores.entry(row[0]).or_default().push(at);
    }
    let rank = |core: &Vec<usize>| {
        let kind = place.rows[core[0]][3];
        (core.len(), core.contains(&home), std::cmp::Reverse(kind))
    };
    let mut most = cores.into_values().max_by_key(rank).unwrap_or_default();
    most.sort_by_key(|at| *at != home);
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_last_cache_does_not_keep() {
        const MB: usize = 1 << 20;
        let of = |cache, free| memory_bytes(Some(cache * MB), Some(free * MB)).map(|it| it / MB);
        assert_eq!(of(20, 16_384), Some(128), "four times as much, in whole powers of two");
        assert_eq!(of(480, 16_384), Some(1024), "not more than any machine needs");
        assert_eq!(of(480, 3000), None, "512 MB are too little of that");
        assert_eq!(of(768, 65_536), None);
        assert_eq!(memory_bytes(None, None), Some(128 * MB), "no cache is known");
        assert_eq!(memory_bytes(Some(64 << 10), None), Some(2 * MB), "a small cache alone");
        assert_eq!(memory_bytes(None, Some(3 * MB)), None, "nothing to go through");
    }

    #[test]
    fn pages_are_no_more_than_there_is_memory_for() {
        const MB: usize = 1 << 20;
        let most = |page: usize, free| pages(page << 10, free).last().copied();
        assert_eq!(most(4, Some(16_384 * MB)), Some(32_768));
        assert_eq!(most(4, Some(500 * MB)), Some(8192), "the most takes 128 MB");
        assert_eq!(most(4, None), Some(32_768));
        assert_eq!(most(64, Some(65_536 * MB)), Some(8192), "not more than any machine needs");
        assert_eq!(most(4, Some(0)), None);
        let few =
            Raw { page_walks_ns: vec![(4096, Reading::of(&[1.0]).unwrap())], ..Raw::default() };
        assert_eq!((few.page_walk_ns(), few.has_many_pages()), (None, false));
    }

    #[test]
    fn more_cpus_than_a_machine_has_are_refused_at_once() {
        assert!(fits(512).is_ok());
        let Err(Failure::Input(said)) = fits(513) else { panic!("it is refused") };
        assert!(said.starts_with("513 CPUs are more than"), "{said}");
    }

    fn place(rows: &[[u16; 4]]) -> Place {
        Place {
            cpus: (0..rows.len()).collect(),
            rows: rows.to_vec(),
            capacities: vec![1024],
            nodes: vec![0],
            distances: vec![vec![10]],
            tick_ns: 4_000_000,
            others: 0,
        }
    }

    #[test]
    fn a_distance_without_a_cpu_from_home_is_that_of_two_others() {
        // CPUs 0 to 2 of two cores with two threads each: the last one, which is home, is alone.
        let cut = place(&[[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]);
        let found: Vec<_> = pairs(&cut, 2).into_iter().collect();
        assert_eq!(found, [(Distance::Core, (0, 1)), (Distance::Llc, (2, 0))]);
        assert_eq!((threads(&cut, 2), next_to(&cut, 2)), (vec![0, 1], Some(0)));
        let whole = place(&[[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]]);
        let found: Vec<_> = pairs(&whole, 3).into_iter().collect();
        assert_eq!(found, [(Distance::Core, (3, 2)), (Distance::Remote, (3, 0))]);
        assert_eq!((threads(&whole, 3), next_to(&whole, 3)), (vec![3, 2], Some(2)));
    }

    #[test]
    fn threads_side_by_side_are_of_the_fastest_core_that_has_them() {
        let uneven = place(&[[0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0]]);
        assert_eq!(threads(&uneven, 4), [2, 3]);
        let slow = place(&[[0, 0, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1]]);
        assert_eq!(threads(&slow, 0), [1, 2], "only slow ones have more");
        let one = place(&[[0, 0, 0, 0]]);
        assert_eq!((threads(&one, 0), next_to(&one, 0)), (vec![0], None));
    }
}
