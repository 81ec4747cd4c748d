// SPDX-License-Identifier: GPL-2.0-only
//! Measures waits for a CPU and CPU time by cgroup and by program, and what each CPU does, under any scheduler.
//!
//! A BPF program adds up, and its sums are read at any time. What it costs does not depend on how often that is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use anyhow::Context;
use libbpf_rs::{Link, MapCore, MapFlags, MapImpl, Object, ObjectBuilder};

use crate::cgroup::CGROUPS;
use crate::execute::now_ns;
use crate::hierarchy::Folders;
use crate::load::room_for;
use crate::log;
use crate::mapped::Mapped;
use crate::topology::online;
use crate::variables::variables;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/meter.bpf.o"));

/// Buckets of a histogram of waits, as in meter.bpf.c: two to a power of two.
pub const BUCKETS: usize = 48;
/// The first one ends at two to this power, in ns.
const FIRST_BITS: u32 = 10;
/// An unknown wait, as in meter.bpf.c.
const UNKNOWN: u64 = u64::MAX;
/// A CPU's words, as `struct cpu` of meter.bpf.c has them.
const CPU_BYTES: usize = 128;
/// The keys of all that has no room, as in meter.bpf.c: no cgroup has such a number, and a task's name ends with a zero.
const REST8: [u8; 8] = last_is_one();
const REST16: [u8; 16] = last_is_one();

const fn last_is_one<const LEN: usize>() -> [u8; LEN] {
    let mut key = [0; LEN];
    key[LEN - 1] = 1;
    key
}

/// How often a CPU is looked at again that was written to meanwhile.
const LOOKS: u32 = 100;

/// Waits and CPU time of a cgroup or a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// CPU time, ns.
    pub run_ns: u64,
    /// Time in waits that have ended, ns.
    pub wait_ns: u64,
    /// How many they are.
    pub waits: u64,
    /// How many by their length: bucket `n` has those shorter than [`bucket_end_ns`], and no shorter than the one before.
    pub buckets: [u64; BUCKETS],
}

/// The end of a bucket, ns. None: the last one has no end.
pub fn bucket_end_ns(bucket: usize) -> Option<u64> {
    let octave = |from: usize| 1_u64 << (FIRST_BITS as usize + from / 2);
    match bucket {
        0 => Some(1 << FIRST_BITS),
        _ if bucket + 1 >= BUCKETS => None,
        // from 1 to 1.5 times a power of two, or from there to twice of it
        _ if bucket % 2 == 1 => Some(octave(bucket - 1) * 3 / 2),
        _ => Some(octave(bucket - 2) * 2),
    }
}

fn bucket_of(ns: u64) -> usize {
    (0..BUCKETS).find(|bucket| bucket_end_ns(*bucket).is_none_or(|end_ns| ns < end_ns)).unwrap_or(0)
}

impl Default for Use {
    fn default() -> Self {
        Use { run_ns: 0, wait_ns: 0, waits: 0, buckets: [0; BUCKETS] }
    }
}

impl AddAssign<&Use> for Use {
    fn add_assign(&mut self, other: &Use) {
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.waits += other.waits;
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
    }
}

impl Use {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Use) -> Use {
        let mut more = *self;
        more.run_ns = self.run_ns.saturating_sub(before.run_ns);
        more.wait_ns = self.wait_ns.saturating_sub(before.wait_ns);
        more.waits = self.waits.saturating_sub(before.waits);
        let pairs = more.buckets.iter_mut().zip(before.buckets);
        pairs.for_each(|(now, before)| *now = now.saturating_sub(before));
        more
    }

    /// The wait that this part of all waits does not exceed, ns: within half of its bucket, which is a factor of 1.5 at
    /// most. None: there was no wait.
    pub fn quantile_ns(&self, part: f64) -> Option<f64> {
        let all: u64 = self.buckets.iter().sum();
        let rank = (all as f64 * part).max(f64::MIN_POSITIVE);
        let mut below = 0.0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            let count = *count as f64;
            if below + count >= rank {
                let from = bucket.checked_sub(1).and_then(bucket_end_ns).unwrap_or(0) as f64;
                let end = bucket_end_ns(bucket).map_or(from, |end_ns| end_ns as f64);
                return Some(from + (end - from) * (rank - below) / count);
            }
            below += count;
        }
        None
    }

    /// The wait and the turn of a task.
    fn add_turn(&mut self, ran_ns: u64, waited_ns: u64) {
        self.run_ns += ran_ns;
        if waited_ns != UNKNOWN {
            self.waits += 1;
            self.wait_ns += waited_ns;
            self.buckets[bucket_of(waited_ns)] += 1;
        }
    }

    /// Raises it to what was told before. Returns whether it was behind.
    fn raise_to(&mut self, told: &Use) -> bool {
        let before = *self;
        self.run_ns = self.run_ns.max(told.run_ns);
        self.wait_ns = self.wait_ns.max(told.wait_ns);
        self.waits = self.waits.max(told.waits);
        self.buckets.iter_mut().zip(told.buckets).for_each(|(now, told)| *now = told.max(*now));
        *self != before
    }

    /// Of one CPU, as `struct use` of meter.bpf.c.
    fn parse(bytes: &[u8]) -> Option<Use> {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let [run_ns, wait_ns, waits] = [words.next()?, words.next()?, words.next()?];
        let mut buckets = [0; BUCKETS];
        for bucket in &mut buckets {
            *bucket = words.next()?;
        }
        Some(Use { run_ns, wait_ns, waits, buckets })
    }
}

/// What a CPU does, and what it did since the meter began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The task that runs; None: none does, or it has not left its CPU since the meter began.
    pub task: Option<Running>,
    /// Time with a task, ns.
    pub busy_ns: u64,
    /// Switches from one task, or from none, to another.
    pub switches: u64,
    /// Switches from a task that could have gone on.
    pub preemptions: u64,
    /// Wakeups by what ran here.
    pub wakeups: u64,
    /// Turns of tasks that had their last one on another CPU.
    pub migrations: u64,
}

/// A task that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The kernel's number of it.
    pub tid: i32,
    /// Its own name.
    pub name: String,
    /// Its process's.
    pub program: String,
    /// How long it has run, ns.
    pub for_ns: u64,
    since_ns: u64,
    waited_ns: u64,
    cgroup: u64,
    key: [u8; 16],
}

impl Cpu {
    /// As `struct cpu` of meter.bpf.c. The turn of the task that runs is added.
    fn parse(bytes: &[u8; CPU_BYTES], now_ns: u64) -> Cpu {
        let word = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
        let key = |at: usize| *bytes[at..].first_chunk::<16>().expect("16 bytes");
        let tid = i32::from_ne_bytes(*bytes[4..].first_chunk().expect("4 bytes"));
        let for_ns = now_ns.saturating_sub(word(8));
        let task = (tid != 0).then(|| Running {
            tid,
            name: text(key(32)),
            program: text(key(48)),
            for_ns,
            since_ns: word(8),
            waited_ns: word(16),
            cgroup: word(24),
            key: key(48),
        });
        Cpu {
            busy_ns: word(64) + task.as_ref().map_or(0, |task| task.for_ns),
            task,
            switches: word(72),
            preemptions: word(80),
            wakeups: word(88),
            migrations: word(96),
        }
    }
}

fn text(name: [u8; 16]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// All that the meter has measured so far.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// When, on CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// CPUs that are online, by number.
    pub cpus: BTreeMap<usize, Cpu>,
    /// By a cgroup's path from the root.
    pub cgroups: Table,
    /// By a process's name. Kernel threads are one.
    pub programs: Table,
}

/// Uses by name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Each.
    pub of: BTreeMap<String, Use>,
    /// Those for which there was no room; None: there was always room for all.
    pub rest: Option<Use>,
    /// Whether there is no room for another one now.
    pub is_full: bool,
}

/// The meter, attached. Dropping it detaches.
pub struct Meter {
    _links: Vec<Link>,
    object: Object,
    state: Mapped,
    cpus_at: usize,
    folders: Folders,
    paths: BTreeMap<u64, PathBuf>,
    programs_before: BTreeMap<[u8; 16], u64>,
    cgroups_ahead: Ahead<8>,
    programs_ahead: Ahead<16>,
    room: usize,
}

impl Meter {
    /// Begins to measure. `room`: how many cgroups, and how many programs, are told apart at a time.
    pub fn attach(cpus: usize, room: usize) -> anyhow::Result<Self> {
        room_for(cpus)?;
        let (result, words) = log::listen(|| {
            let mut object = ObjectBuilder::default().name("meter")?.open_memory(PROGRAM)?;
            for mut map in
                object.maps_mut().filter(|map| map.name() == "cgroups" || map.name() == "programs")
            {
                map.set_max_entries(room as u32 + 1)?;
            }
            Ok::<_, anyhow::Error>(object.load()?)
        });
        let object = result
            .with_context(|| format!("the kernel refuses the meter: {}", log::reason(&words)))?;
        let (cpus_at, _) = *variables(PROGRAM, ".bss")?.get("cpus").context("it has no CPUs")?;
        let state = {
            let mut maps = object.maps();
            let bss = maps.find(|map| map.name().to_string_lossy().ends_with(".bss"));
            let bss = bss.context("it has no variables")?;
            let bytes = bss.value_size() as usize;
            Mapped::new(bss, bytes, false)?
        };
        let mut meter = Meter {
            _links: Vec::new(),
            object,
            state,
            cpus_at,
            folders: Folders::new(Path::new(CGROUPS)),
            paths: BTreeMap::new(),
            programs_before: BTreeMap::new(),
            cgroups_ahead: BTreeMap::new(),
            programs_ahead: BTreeMap::new(),
            room,
        };
        // The entry for all that has no room.
        for (name, rest) in [("cgroups", &REST8[..]), ("programs", &REST16[..])] {
            let map = meter.map(name)?;
            let none = vec![vec![0; map.value_size() as usize]; libbpf_rs::num_possible_cpus()?];
            map.update_percpu(rest, &none, MapFlags::ANY)?;
        }
        let links: Result<Vec<Link>, _> =
            meter.object.progs_mut().map(|program| program.attach()).collect();
        meter._links = links.context("the meter cannot be attached")?;
        Ok(meter)
    }

    fn map(&self, name: &str) -> anyhow::Result<MapImpl<'_>> {
        self.object.maps().find(|map| map.name() == name).context("the meter has no such map")
    }

    /// Reads it, and forgets cgroups that were removed. If there are too many programs, it forgets those that did not run
    /// since the reading before.
    pub fn read(&mut self) -> anyhow::Result<Reading> {
        // One that came after the meter has words as well.
        let mut online = online(Path::new("/")).unwrap_or_default();
        online.retain(|cpu| *cpu < policy::native::MAX_CPUS);
        let before = self.cpus(&online);
        let mut cgroups = uses::<8>(&self.map("cgroups")?)?;
        let mut programs = uses::<16>(&self.map("programs")?)?;
        let (at_ns, cpus) = (now_ns(), self.cpus(&online));
        // Turns that were there before and after are not in the sums.
        let turns: Vec<&Running> = cpus
            .iter()
            .filter_map(|(cpu, of)| {
                let task = of.task.as_ref()?;
                let same = before.get(cpu)?.task.as_ref()?;
                (same.tid == task.tid && same.since_ns == task.since_ns).then_some(task)
            })
            .collect();
        let of_cgroups = turns.iter().map(|task| (task.cgroup.to_ne_bytes(), *task));
        add_turns(&mut cgroups, &mut self.cgroups_ahead, of_cgroups, self.room, REST8);
        let of_programs = turns.iter().map(|task| (task.key, *task));
        add_turns(&mut programs, &mut self.programs_ahead, of_programs, self.room, REST16);
        let rest = |rest: Option<Use>| rest.filter(|rest| *rest != Use::default());
        let cgroups_rest = rest(cgroups.remove(&REST8));
        let programs_rest = rest(programs.remove(&REST16));
        let is_full = [cgroups.len() >= self.room, programs.len() >= self.room];
        let cgroups = self.with_paths(cgroups)?;
        self.forget_programs(&programs)?;
        let mut by_name = BTreeMap::<String, Use>::new();
        for (key, of) in programs {
            *by_name.entry(text(key)).or_default() += &of;
        }
        Ok(Reading {
            at_ns,
            cpus,
            cgroups: Table { of: cgroups, rest: cgroups_rest, is_full: is_full[0] },
            programs: Table { of: by_name, rest: programs_rest, is_full: is_full[1] },
        })
    }

    fn cpus(&self, numbers: &[usize]) -> BTreeMap<usize, Cpu> {
        let now_ns = now_ns();
        numbers.iter().map(|cpu| (*cpu, Cpu::parse(&self.words(*cpu), now_ns))).collect()
    }

    /// A CPU's words, all of one moment. One that switches all the time is taken as it comes.
    fn words(&self, cpu: usize) -> [u8; CPU_BYTES] {
        let mut words = [0; CPU_BYTES];
        for _ in 0..LOOKS {
            // SAFETY: `struct cpu` lies within the mapping, which lives as long as self, and is aligned. The kernel
            // writes to it meanwhile: its words are copied as they are, and looked at if none was written to.
            let (before, after) = unsafe {
                let place = self.state.start.as_ptr().byte_add(self.cpus_at + cpu * CPU_BYTES);
                let writes = AtomicU32::from_ptr(place.cast());
                let before = writes.load(Ordering::Acquire);
                for (at, word) in words.iter_mut().enumerate() {
                    *word = place.add(at).read_volatile();
                }
                fence(Ordering::Acquire);
                (before, writes.load(Ordering::Relaxed))
            };
            if before == after && before.is_multiple_of(2) {
                break;
            }
        }
        words
    }

    /// By path. Those of removed groups go.
    fn with_paths(
        &mut self,
        cgroups: BTreeMap<[u8; 8], Use>,
    ) -> anyhow::Result<BTreeMap<String, Use>> {
        let mut by_path = BTreeMap::new();
        let mut paths = BTreeMap::new();
        for (key, of) in cgroups {
            let id = u64::from_ne_bytes(key);
            let known =
                self.paths.remove(&id).filter(|path| crate::hierarchy::inode(path) == Some(id));
            let Some(folder) = known.or_else(|| self.folders.of(id)) else {
                self.map("cgroups")?.delete(&key)?;
                continue;
            };
            let path = folder.strip_prefix(&self.folders.root).unwrap_or(&folder);
            by_path.insert(format!("/{}", path.display()), of);
            paths.insert(id, folder);
        }
        self.paths = paths;
        Ok(by_path)
    }

    fn forget_programs(&mut self, programs: &BTreeMap<[u8; 16], Use>) -> anyhow::Result<()> {
        let map = self.map("programs")?;
        for (key, of) in programs.iter().filter(|_| programs.len() >= self.room) {
            if self.programs_before.get(key) == Some(&of.run_ns) {
                map.delete(key)?;
            }
        }
        self.programs_before = programs.iter().map(|(key, of)| (*key, of.run_ns)).collect();
        Ok(())
    }
}

/// What was told of turns that were not over, and is not in the sums yet.
type Ahead<const KEY: usize> = BTreeMap<[u8; KEY], Use>;

/// Adds turns that are not over. What was told before stays told: a turn that ends while the sums are read is in none of
/// both, and counters must not fall.
fn add_turns<'a, const KEY: usize>(
    sums: &mut BTreeMap<[u8; KEY], Use>,
    ahead: &mut Ahead<KEY>,
    turns: impl Iterator<Item = ([u8; KEY], &'a Running)>,
    room: usize,
    rest: [u8; KEY],
) {
    let mut added = BTreeSet::new();
    for (key, task) in turns {
        // The kernel's program has no entry for a task that has had no turn before.
        let key = if sums.contains_key(&key) || sums.len() <= room { key } else { rest };
        sums.entry(key).or_default().add_turn(task.for_ns, task.waited_ns);
        added.insert(key);
    }
    for (key, told) in std::mem::take(ahead) {
        if sums.get_mut(&key).is_some_and(|of| of.raise_to(&told)) {
            added.insert(key);
        }
    }
    *ahead = added.into_iter().map(|key| (key, sums[&key])).collect();
}

/// All entries of a map, added over CPUs.
fn uses<const KEY: usize>(map: &MapImpl<'_>) -> anyhow::Result<BTreeMap<[u8; KEY], Use>> {
    let mut all = BTreeMap::new();
    for key in map.keys() {
        // It may have been removed meanwhile.
        let Some(cpus) = map.lookup_percpu(&key, MapFlags::ANY)? else { continue };
        let mut sum = Use::default();
        for cpu in &cpus {
            sum += &Use::parse(cpu).context("the meter's sums are cut")?;
        }
        all.insert(*key.first_chunk().context("the meter's keys are cut")?, sum);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another_and_the_last_has_no_end() {
        let ends: Vec<u64> = (0..BUCKETS).map_while(bucket_end_ns).collect();
        assert_eq!(ends[..5], [1024, 1536, 2048, 3072, 4096]);
        assert!(ends.is_sorted() && ends.len() == BUCKETS - 1);
        assert!(ends.last().is_some_and(|end_ns| *end_ns > 8_000_000_000), "some seconds");
    }

    #[test]
    fn a_difference_is_what_was_added() {
        let mut before = Use::default();
        before.add_turn(5, 2000);
        let mut now = before;
        now.add_turn(7, 9_000_000);
        now.add_turn(1, UNKNOWN);
        let more = now.since(&before);
        assert_eq!((more.run_ns, more.waits, more.wait_ns), (8, 1, 9_000_000));
        assert!((8.3e6..12.6e6).contains(&more.quantile_ns(0.5).unwrap()), "{more:?}");
        assert_eq!(now.since(&now).quantile_ns(0.99), None);
    }

    #[test]
    fn a_cpu_is_read_as_c_writes_it() {
        let mut bytes = [0; CPU_BYTES];
        bytes[4..8].copy_from_slice(&77_i32.to_ne_bytes());
        for (at, word) in [(8, 1000_u64), (16, 5), (24, 9), (64, 100), (72, 3), (96, 2)] {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[32..36].copy_from_slice(b"work");
        bytes[48..51].copy_from_slice(b"web");
        let cpu = Cpu::parse(&bytes, 1400);
        let task = cpu.task.as_ref().unwrap();
        assert_eq!((task.tid, &*task.name, &*task.program, task.for_ns), (77, "work", "web", 400));
        assert_eq!((cpu.busy_ns, cpu.switches, cpu.migrations), (500, 3, 2));
        bytes[4..8].fill(0);
        assert_eq!(Cpu::parse(&bytes, 1400).busy_ns, 100);
    }

    #[test]
    fn what_was_told_of_a_turn_stays_told_while_the_sums_are_behind() {
        let mut sums = BTreeMap::from([([1; 8], Use { run_ns: 100, ..Use::default() })]);
        let mut ahead = Ahead::new();
        let mut bytes = [0; CPU_BYTES];
        bytes[4..8].copy_from_slice(&7_i32.to_ne_bytes());
        let cpu = Cpu::parse(&bytes, 50);
        let running = cpu.task.as_ref().unwrap();
        let turns = [([1; 8], running), ([2; 8], running), ([3; 8], running)];
        add_turns(&mut sums, &mut ahead, turns.into_iter(), 1, REST8);
        let run_ns = |sums: &BTreeMap<[u8; 8], Use>, key| sums.get(&key).map(|of| of.run_ns);
        assert_eq!(run_ns(&sums, [1; 8]), Some(150));
        assert_eq!(run_ns(&sums, [2; 8]), Some(50), "it has had no turn before");
        assert_eq!((run_ns(&sums, [3; 8]), run_ns(&sums, REST8)), (None, Some(50)), "no room");
        // The turn has ended, and is not charged yet; then it is.
        for (charged, told) in [(100, 150), (100, 150), (155, 155), (155, 155)] {
            let mut of = Use { run_ns: charged, ..Use::default() };
            if charged > 100 {
                (of.waits, of.buckets[0]) = (1, 1);
            }
            let mut sums = BTreeMap::from([([1; 8], of)]);
            add_turns(&mut sums, &mut ahead, [].into_iter(), 1, REST8);
            assert_eq!(run_ns(&sums, [1; 8]), Some(told));
        }
        assert!(ahead.is_empty());
    }

    proptest! {
        #[test]
        fn each_wait_is_in_the_bucket_around_it(ns in 0_u64..u64::MAX) {
            let bucket = bucket_of(ns);
            prop_assert!(bucket_end_ns(bucket).is_none_or(|end_ns| ns < end_ns));
            prop_assert!(bucket == 0 || bucket_end_ns(bucket - 1).is_some_and(|end_ns| ns >= end_ns));
        }

        /// As exact as buckets are: no quantile is off by more than the width of one.
        #[test]
        fn a_quantile_is_near_that_of_the_waits(waits in prop::collection::vec(1024_u64..4_000_000_000, 1..200), part in 0.01_f64..1.0) {
            let (mut of, mut waits): (Use, Vec<u64>) = (Use::default(), waits);
            waits.iter().for_each(|ns| of.add_turn(0, *ns));
            waits.sort_unstable();
            let rank = (waits.len() as f64 * part).ceil().max(1.0) as usize;
            let exact = waits[rank - 1] as f64;
            let near = of.quantile_ns(part).unwrap();
            prop_assert!(near >= exact / 1.51 && near <= exact * 1.51, "{near} {exact}");
        }
    }
}
