// SPDX-License-Identifier: GPL-2.0-only
//! What a task finds of its pages and lines when it gets a CPU, and what fetching the rest costs it.
//!
//! # Problem
//! A switch costs more than the kernel's instructions: who comes finds TLB and caches full of what
//! others used. How much is lost depends on who ran since, on whether they share pages and lines with
//! him, and on whether the TLB was flushed.
//!
//! # Approach
//! A task touches sets ([`Footprint`]): its own data, data that it shares with others of its address
//! space, its code; and in the kernel its own stack and structures, what all tasks share, and the
//! kernel's code. Each TLB and cache keeps in which order sets were used ([`Recency`]), so what is
//! missing of a set of `n` lines when its user comes back is
//!
//! ```text
//! m = n − h · P(hit | others' lines since then + the user's own)
//! ```
//!
//! with `h ≤ n` the lines of it that were there when it was used last.
//!
//! **A rate, not a debt.** A task goes through its sets once in `reach` of its own work, and the next
//! time round finds what its own sets left of each other. So while it works for the first time since it
//! got the CPU it is slower by `m · cost / reach`, and from then on by the misses that it would have
//! alone. A task that soon loses the CPU again pays for what it fetched and for no more, and the
//! rest is missing still when it comes back: a policy that cuts turns short is charged neither twice
//! nor not at all. The kernel's part is touched by the switch itself, and charged there, in full.
//!
//! TLBs and first-level caches are a core's, the last-level cache is an LLC's; hardware threads of a core
//! share, as their sets stand in one list. While they run side by side, each also keeps pushing out
//! what the other goes through again and again: a round's distance is the task's own sets and those of
//! who runs beside it when it comes, less what they share. (Cores that share an LLC push each other's
//! lines out only from turn to turn.) Entries of the kernel are global: no flush takes them. Instruction
//! caches are not modelled; code counts from the second level on.
//!
//! **Bounds**, which tests hold: misses are never negative, and a round never misses more than it
//! touches; with tags a TLB misses no more than without; with sets of the same pages, a switch
//! between siblings misses no more than going on.

use std::rc::Rc;

use crate::machine::Machine;
use crate::memory::Memory;
use crate::recency::{Recency, SETS_MAX};
use crate::tlb::{Change, Tags};

/// Pages and bytes that are touched together, and by whom: whoever names the same `id` shares them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Set {
    /// Who shares it. 0 is nobody.
    pub id: u32,
    /// Pages it is spread over: of users' size, or the kernel's own.
    pub pages: f64,
    /// Bytes of it that are touched.
    pub bytes: f64,
}

/// What one task touches in a round of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Its address space, from 1.
    pub space: u32,
    /// Its own data.
    pub own: Set,
    /// Data that others of its address space touch as well.
    pub shared: Set,
    /// Its code.
    pub code: Set,
    /// The kernel's data about it: stack, task, descriptors, buffers.
    pub kernel_own: Set,
    /// The kernel's data that everybody's switches and system calls touch.
    pub kernel_shared: Set,
    /// The kernel's code, likewise.
    pub kernel_code: Set,
    /// Work, as CPU time on the reference CPU with everything at hand, in which it goes through its
    /// sets once, in ns.
    pub reach_ns: f64,
}

/// Misses and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// Data TLB, pages of users.
    pub dtlb_user: f64,
    /// Data TLB, pages of the kernel.
    pub dtlb_kernel: f64,
    /// Instruction TLB, pages of users.
    pub itlb_user: f64,
    /// Instruction TLB, pages of the kernel.
    pub itlb_kernel: f64,
    /// Lines of the last-level cache.
    pub cache: f64,
    /// CPU time they cost, those of nearer caches included.
    pub ns: f64,
}

impl Misses {
    /// Adds `part` of `other`.
    pub fn add(&mut self, other: &Misses, part: f64) {
        self.dtlb_user += part * other.dtlb_user;
        self.dtlb_kernel += part * other.dtlb_kernel;
        self.itlb_user += part * other.itlb_user;
        self.itlb_kernel += part * other.itlb_kernel;
        self.cache += part * other.cache;
        self.ns += part * other.ns;
    }

    /// Of both TLBs, users' and the kernel's.
    pub fn tlb(&self) -> f64 {
        self.dtlb_user + self.dtlb_kernel + self.itlb_user + self.itlb_kernel
    }
}

/// TLBs and caches that users' sets go through: data TLB, instruction TLB, and three caches.
const STRUCTURES: usize = 5;
const DTLB: usize = 0;
const ITLB: usize = 1;
const L1D: usize = 2;
const L2: usize = 3;
const LAST: usize = 4;

/// Sets of one footprint in one structure: two of data, one of code.
const SETS: usize = 3;
const CODE: usize = 2;

/// Sets as one structure sees them.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Who, those of no lines included.
    all: [u32; SETS],
    /// Who has lines or pages there, how many, and which structure counts its misses.
    some: [(u32, f64); SETS],
    counts: [usize; SETS],
    len: usize,
    /// Their sum.
    lines: f64,
}

impl Group {
    /// `at` is the structure.
    fn new(at: usize, sets: [(u32, f64); SETS]) -> Self {
        let mut group = Group { all: sets.map(|(set, _)| set), ..Group::default() };
        group.lines = sets.iter().map(|(_, lines)| lines).sum();
        for (set, (id, lines)) in
            sets.into_iter().enumerate().filter(|(_, (_, lines))| *lines > 0.0)
        {
            group.some[group.len] = (id, lines);
            // Where one TLB serves both, code stands in the data TLB.
            group.counts[group.len] = if at == DTLB && set == CODE { ITLB } else { at };
            group.len += 1;
        }
        group
    }

    #[inline]
    fn sets(&self) -> &[(u32, f64)] {
        &self.some[..self.len]
    }

    #[inline]
    fn goes_through(&self, set: u32) -> bool {
        self.all.contains(&set)
    }
}

type Groups = [Group; STRUCTURES];

/// A footprint as the TLBs and caches of a machine see it: [`Warmth::touches`].
#[derive(Clone, Debug)]
pub struct Touches {
    space: u32,
    reach_ns: f64,
    user: Groups,
    kernel: Groups,
}

/// What is missed in each structure, and the CPU time that costs.
#[derive(Default)]
struct Tally {
    lines: [f64; STRUCTURES],
    ns: f64,
}

impl Tally {
    /// Adds what is missing of each set of a group, where so much of it is left.
    #[inline]
    fn add(&mut self, group: &Group, left: [f64; SETS_MAX], miss_ns: &[f64; STRUCTURES]) {
        for ((at, (_, lines)), left) in group.counts.iter().zip(group.sets()).zip(left) {
            let lost = lines - left;
            if lost > 0.0 {
                self.lines[*at] += lost;
                self.ns += lost * miss_ns[*at];
            }
        }
    }

    /// Adds this part of each set of a group.
    #[inline]
    fn add_part(&mut self, group: &Group, part: f64, miss_ns: &[f64; STRUCTURES]) {
        if part > 0.0 {
            for (at, (_, lines)) in group.counts.iter().zip(group.sets()) {
                self.lines[*at] += lines * part;
                self.ns += lines * part * miss_ns[*at];
            }
        }
    }

    fn of_user(&self) -> Misses {
        let [dtlb_user, itlb_user, .., cache] = self.lines;
        Misses { dtlb_user, itlb_user, cache, ns: self.ns, ..Misses::default() }
    }

    fn of_kernel(&self) -> Misses {
        let [dtlb_kernel, itlb_kernel, .., cache] = self.lines;
        Misses { dtlb_kernel, itlb_kernel, cache, ns: self.ns, ..Misses::default() }
    }
}

/// One stay of a task on a CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    reach_ns: f64,
    /// Work done in it so far.
    done_ns: f64,
    /// Misses of the first round, and of each further one.
    first: Misses,
    again: Misses,
    /// CPU time that a piece of work takes, of what it takes with everything at hand: in the first round, and in each
    /// further one.
    cold_rate: f64,
    rate: f64,
    /// Misses of the kernel, paid at the switch.
    pub kernel: Misses,
}

impl Turn {
    fn new(reach_ns: f64, first: Misses, again: Misses, kernel: Misses) -> Self {
        let (cold_rate, rate) = (1.0 + first.ns / reach_ns, 1.0 + again.ns / reach_ns);
        Turn { reach_ns, done_ns: 0.0, first, again, cold_rate, rate, kernel }
    }

    /// Work done so far, in ns.
    pub fn done_ns(&self) -> f64 {
        self.done_ns
    }

    /// CPU time lost to misses so far, those of the switch left out, in ns.
    pub fn missed_ns(&self) -> f64 {
        let cold_ns = self.done_ns.min(self.reach_ns);
        (cold_ns * self.first.ns + (self.done_ns - cold_ns) * self.again.ns) / self.reach_ns
    }

    /// Work until the first round is done, in ns.
    fn cold_ns(&self) -> f64 {
        (self.reach_ns - self.done_ns).max(0.0)
    }

    /// CPU time that so much more work takes, in ns.
    pub fn effort_ns(&self, work_ns: f64) -> f64 {
        let cold_ns = work_ns.min(self.cold_ns());
        work_ns + (cold_ns * self.first.ns + (work_ns - cold_ns) * self.again.ns) / self.reach_ns
    }

    /// Work that gets done in so much CPU time, in ns: the inverse of [`Turn::effort_ns`].
    pub fn work_ns(&self, effort_ns: f64) -> f64 {
        let cold_ns = self.cold_ns();
        match effort_ns <= cold_ns * self.cold_rate {
            true => effort_ns / self.cold_rate,
            false => cold_ns + (effort_ns - cold_ns * self.cold_rate) / self.rate,
        }
    }

    /// So much work was done. Returns the misses it made.
    pub fn worked(&mut self, work_ns: f64) -> Misses {
        let cold_ns = work_ns.min(self.cold_ns());
        let mut misses = Misses::default();
        for (of, ns) in [(&self.first, cold_ns), (&self.again, work_ns - cold_ns)] {
            if ns > 0.0 {
                misses.add(of, ns / self.reach_ns);
            }
        }
        self.done_ns += work_ns;
        misses
    }
}

/// What belongs to a core. The kernel's large pages have TLBs of their own on some machines.
struct Core {
    dtlb: Recency,
    itlb: Option<Recency>,
    dtlb_large: Option<Recency>,
    itlb_large: Option<Recency>,
    l1d: Recency,
    /// Where there is a third level.
    l2: Option<Recency>,
}

impl Core {
    fn new(memory: &Memory) -> Self {
        let some = |entries: f64, ways| (entries > 0.0).then(|| Recency::new(entries, ways));
        let lines = |bytes: f64, ways| Recency::new(bytes / memory.line_bytes, ways);
        Core {
            dtlb: Recency::new(memory.dtlb_entries, memory.dtlb_ways),
            itlb: some(memory.itlb_entries, memory.itlb_ways),
            dtlb_large: some(memory.dtlb_large_entries, memory.dtlb_large_ways),
            itlb_large: some(memory.itlb_large_entries, memory.itlb_large_ways),
            l1d: lines(memory.l1d_bytes, memory.l1d_ways),
            l2: (memory.l3_bytes > 0.0).then(|| lines(memory.l2_bytes, memory.l2_ways)),
        }
    }
}

/// State of all TLBs and caches of a machine.
pub struct Warmth {
    cores: Vec<Core>,
    last_level: Vec<Recency>,
    tags: Vec<Tags>,
    /// Core and LLC of each CPU.
    places: Vec<(usize, usize)>,
    /// Whether a core has its LLC to itself.
    llc_per_core: bool,
    /// The other hardware threads of each CPU's core.
    siblings: Vec<Vec<usize>>,
    /// What each CPU's present task goes through.
    present: Vec<Option<Rc<Touches>>>,
    line_bytes: f64,
    /// What a miss costs in each structure.
    miss_ns: [f64; STRUCTURES],
}

impl Warmth {
    /// Everything cold. None: the machine's file does not say what its TLBs and caches are.
    pub fn new(machine: &Machine) -> Option<Self> {
        let memory = machine.memory.as_ref()?;
        let places: Vec<_> =
            machine.cpus.iter().map(|cpu| (cpu.core as usize, cpu.llc as usize)).collect();
        let cores = 1 + places.iter().map(|place| place.0).max()?;
        let llcs = 1 + places.iter().map(|place| place.1).max()?;
        let three = memory.l3_bytes > 0.0;
        let (last_bytes, last_ways, last_ns) = match three {
            true => (memory.l3_bytes, memory.l3_ways, memory.l3_miss_ns),
            false => (memory.l2_bytes, memory.l2_ways, memory.l2_miss_ns),
        };
        let mut miss_ns = [0.0; STRUCTURES];
        miss_ns[DTLB] = memory.dtlb_miss_ns;
        miss_ns[ITLB] = memory.itlb_miss_ns;
        miss_ns[L1D] = memory.l1d_miss_ns;
        miss_ns[L2] = memory.l2_miss_ns;
        miss_ns[LAST] = last_ns;
        let last = Recency::new(last_bytes / memory.line_bytes, last_ways);
        let siblings = |cpu: usize| {
            let core = places[cpu].0;
            (0..places.len()).filter(|other| *other != cpu && places[*other].0 == core).collect()
        };
        Some(Warmth {
            llc_per_core: llcs == cores,
            siblings: (0..places.len()).map(siblings).collect(),
            present: vec![None; places.len()],
            cores: (0..cores).map(|_| Core::new(memory)).collect(),
            last_level: vec![last; llcs],
            tags: places.iter().map(|_| Tags::new(memory.tlb_tags as usize)).collect(),
            places,
            line_bytes: memory.line_bytes,
            miss_ns,
        })
    }

    /// A footprint as this machine's TLBs and caches see it.
    pub fn touches(&self, task: &Footprint) -> Touches {
        let (itlb, itlb_large) = match self.cores.first() {
            Some(core) => (core.itlb.is_some(), core.itlb_large.is_some()),
            None => (false, false),
        };
        let user = groups([task.own, task.shared, task.code], self.line_bytes, itlb);
        let of_kernel = [task.kernel_own, task.kernel_shared, task.kernel_code];
        let kernel = groups(of_kernel, self.line_bytes, itlb || itlb_large);
        Touches { space: task.space, reach_ns: task.reach_ns.max(1.0), user, kernel }
    }

    /// A CPU takes on an address space; kernel threads and idling keep the last one, as lazy TLB
    /// does, and are no change.
    pub fn change_space(&mut self, cpu: usize, space: u32) {
        let change = self.tags[cpu].change(space);
        let core = &mut self.cores[self.places[cpu].0];
        for tlb in [Some(&mut core.dtlb), core.itlb.as_mut()].into_iter().flatten() {
            match change {
                Change::Keep => {}
                Change::Evict(evicted) => tlb.flush(evicted),
                Change::FlushAll => tlb.flush_all(),
            }
        }
    }

    /// Lines of a structure that others go through beside this CPU's task, and it does not.
    fn beside(&self, cpu: usize, at: usize, group: &Group) -> f64 {
        if self.siblings[cpu].is_empty() || at == LAST && !self.llc_per_core {
            return 0.0;
        }
        let present = |other: &usize| self.present[*other].as_ref().map(|task| &task.user[at]);
        let siblings = &self.siblings[cpu];
        let mut lines = 0.0;
        for (number, sibling) in siblings.iter().enumerate() {
            let Some(other) = present(sibling) else { continue };
            for (set, of) in other.sets() {
                let mut before = siblings[..number].iter().filter_map(present);
                if !group.goes_through(*set) && !before.any(|group| group.goes_through(*set)) {
                    lines += of;
                }
            }
        }
        lines
    }

    /// A task gets a CPU, whose address space was changed before where it had to be.
    pub fn enter(&mut self, cpu: usize, task: &Rc<Touches>) -> Turn {
        let kernel = self.enter_kernel(cpu, task);
        let (core, llc) = self.places[cpu];
        let core = &self.cores[core];
        let caches = [
            Some(&core.dtlb),
            core.itlb.as_ref(),
            Some(&core.l1d),
            core.l2.as_ref(),
            Some(&self.last_level[llc]),
        ];
        let (mut first, mut again) = (Tally::default(), Tally::default());
        for (at, cache) in caches.into_iter().enumerate() {
            let (Some(cache), group) = (cache, &task.user[at]) else { continue };
            if group.len == 0 {
                continue;
            }
            first.add(group, cache.left(group.sets()), &self.miss_ns);
            let lost = 1.0 - cache.hit(group.lines + self.beside(cpu, at, group));
            again.add_part(group, lost, &self.miss_ns);
        }
        self.present[cpu] = Some(Rc::clone(task));
        Turn::new(task.reach_ns, first.of_user(), again.of_user(), kernel)
    }

    /// The task's turn on this CPU is over.
    pub fn leave(&mut self, cpu: usize, task: &Touches, turn: &Turn) {
        self.present[cpu] = None;
        let (core, llc) = self.places[cpu];
        let core = &mut self.cores[core];
        let part = turn.done_ns / turn.reach_ns;
        let caches = [
            Some(&mut core.dtlb),
            core.itlb.as_mut(),
            Some(&mut core.l1d),
            core.l2.as_mut(),
            Some(&mut self.last_level[llc]),
        ];
        for (cache, group) in caches.into_iter().zip(&task.user) {
            if let Some(cache) = cache {
                cache.used(task.space, group.sets(), part);
            }
        }
    }

    /// The switch itself touches the kernel's sets.
    fn enter_kernel(&mut self, cpu: usize, task: &Touches) -> Misses {
        let (core, llc) = self.places[cpu];
        let core = &mut self.cores[core];
        let caches = [
            Some(core.dtlb_large.as_mut().unwrap_or(&mut core.dtlb)),
            core.itlb_large.as_mut().or(core.itlb.as_mut()),
            Some(&mut core.l1d),
            core.l2.as_mut(),
            Some(&mut self.last_level[llc]),
        ];
        let mut lost = Tally::default();
        for (at, cache) in caches.into_iter().enumerate() {
            let (Some(cache), group) = (cache, &task.kernel[at]) else { continue };
            if group.len > 0 {
                lost.add(group, cache.left(group.sets()), &self.miss_ns);
            }
            cache.used(0, group.sets(), 1.0);
        }
        lost.of_kernel()
    }
}

/// Two sets of data and one of code, as each structure sees them.
fn groups([own, shared, code]: [Set; SETS], line_bytes: f64, itlb: bool) -> Groups {
    let pages = |set: Set| (set.id, set.pages);
    let lines = |set: Set| (set.id, set.bytes / line_bytes);
    let none = (0, 0.0);
    let in_caches = [lines(own), lines(shared), lines(code)];
    let mut groups = [Group::default(); STRUCTURES];
    groups[DTLB] =
        Group::new(DTLB, [pages(own), pages(shared), if itlb { none } else { pages(code) }]);
    groups[ITLB] = Group::new(ITLB, [none, none, if itlb { pages(code) } else { none }]);
    groups[L1D] = Group::new(L1D, [lines(own), lines(shared), none]);
    groups[L2] = Group::new(L2, in_caches);
    groups[LAST] = Group::new(LAST, in_caches);
    groups
}
