// SPDX-License-Identifier: GPL-2.0-only
//! The pages and lines that a task finds when it gets a CPU, and the cost of fetching the rest.
//!
//! # Problem
//! A switch costs more than the kernel's instructions: the next task finds TLB and caches full of other tasks' data.
//! The loss depends on the tasks that ran since, on whether they share pages and lines with it, and on whether the TLB
//! was flushed.
//!
//! # Approach
//! A task touches sets ([`Footprint`]): its own data, data that it shares with others of its address space, its code;
//! and in the kernel its own stack and structures, data that all tasks share, and the kernel's code. One list for each
//! core and one for each last-level cache keep the order in which sets were used ([`Recency`]). When a task runs again,
//! its set of `n` lines misses
//!
//! ```text
//! m = n − h · P(hit | others' lines since then + the user's own)
//! ```
//!
//! where `h ≤ n` lines of the set were there when it was used last.
//!
//! **A rate, not a debt.** A task goes through its sets once in `reach` of its own work. The next round finds what its
//! own sets left of each other. So in its first round on a CPU it is slower by `m · cost / reach`, and from then on by
//! the misses that it would have alone. A task that soon loses the CPU again pays only for what it fetched. The rest is
//! still missing when it runs again: a policy with short slices is charged neither twice nor not at all. The switch
//! itself touches the kernel's part, and is charged for it in full.
//!
//! TLBs and first-level caches belong to a core, the last-level cache to an LLC. Hardware threads of a core share them,
//! as their sets stand in one list. While they run side by side, each also keeps pushing out lines that the other goes
//! through again and again. A round's distance is the task's own sets and those of the tasks that run beside it at its
//! start, less the sets they share. (Cores that share an LLC push each other's lines out only from turn to turn.)
//! Entries of the kernel are global: no flush takes them. Instruction caches are not modelled; code counts from the
//! second level on.
//!
//! **Bounds**, which tests hold: misses are never negative, and a round never misses more than it touches; with tags a
//! TLB misses no more than without; with sets of the same pages, a switch between siblings misses no more than going
//! on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::{array, iter};

use crate::group::{Group, SETS, lines_of};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::recency::Recency;
use crate::row::Row;
use crate::tlb::{Change, Tags};

/// Pages and bytes that are touched together; users that name the same `id` share them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Set {
    /// Identifies the set among its users. 0: no user.
    pub id: u32,
    /// Pages it is spread over: of users' size, or the kernel's own.
    pub pages: f64,
    /// Bytes of it that are touched.
    pub bytes: f64,
}

/// Memory that one task touches in a round of its work.
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
    /// The kernel's data that every task's switches and system calls touch.
    pub kernel_shared: Set,
    /// The kernel's code, likewise.
    pub kernel_code: Set,
    /// Work, as CPU time on the reference CPU with warm caches, in which it goes through its sets once, in ns.
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

/// Columns of a core's list. The kernel's large pages have TLBs of their own on some machines.
const COLUMNS: usize = 6;
const DTLB: usize = 0;
const ITLB: usize = 1;
const DTLB_LARGE: usize = 2;
const ITLB_LARGE: usize = 3;
const L1D: usize = 4;
/// If there is a third level.
const L2: usize = 5;
/// The columns of pages.
const TLBS: Range<usize> = DTLB..L1D;
/// The columns of users' pages, which a flush empties.
const FLUSHED: Range<usize> = DTLB..DTLB_LARGE;

/// Two sets of data and one of code, as the lists of a core and of a last-level cache see them.
#[derive(Clone, Debug)]
struct Sets {
    core: Group<COLUMNS>,
    last: Group<1>,
}

impl Sets {
    #[inline]
    fn have(&self, set: u32) -> bool {
        self.core.iter().any(|(id, _)| *id == set)
    }
}

/// A footprint as the TLBs and caches of a machine see it: [`Warmth::touches`].
#[derive(Clone, Debug)]
pub struct Touches {
    space: u32,
    reach_ns: f64,
    user: Sets,
    /// None if it touches nothing in the kernel.
    kernel: Option<Sets>,
    again: Cell<Option<Again>>,
}

/// Misses of each further round, as last computed. They depend on the task's sets and on other tasks' lines beside it.
#[derive(Clone, Copy, Debug)]
struct Again {
    beside: (Row<COLUMNS>, Row<1>),
    misses: Misses,
}

impl Touches {
    /// Its sets in a last-level cache.
    fn last(&self) -> impl Iterator<Item = &Group<1>> {
        iter::once(&self.user).chain(&self.kernel).map(|sets| &sets.last)
    }
}

/// The missing part of a task's sets, and the CPU time that it costs.
struct Missing {
    dtlb: f64,
    itlb: f64,
    cache: f64,
    ns: f64,
}

impl Missing {
    /// For the lines left of each set. Pages of code count as the instruction TLB's, even if they share a TLB with
    /// data.
    fn new(sets: &Sets, core: &[Row<COLUMNS>; SETS], last: &[Row<1>; SETS], costs: &Costs) -> Self {
        let [own, shared, code] = array::from_fn(|at| sets.core[at].1 - core[at]);
        let data = own + shared;
        let cache = (0..SETS).map(|at| (sets.last[at].1 - last[at]).0[0]).sum();
        let pages = |row: Row<COLUMNS>| row.0[TLBS].iter().sum();
        let ns: f64 = (data * costs.data + code * costs.code).0.iter().sum();
        Missing { dtlb: pages(data), itlb: pages(code), cache, ns: ns + cache * costs.last }
    }

    fn of_user(self) -> Misses {
        let Missing { dtlb, itlb, cache, ns } = self;
        Misses { dtlb_user: dtlb, itlb_user: itlb, cache, ns, ..Misses::default() }
    }

    fn of_kernel(self) -> Misses {
        let Missing { dtlb, itlb, cache, ns } = self;
        Misses { dtlb_kernel: dtlb, itlb_kernel: itlb, cache, ns, ..Misses::default() }
    }
}

/// Cost of a miss in each column, of data and of code, and in the last-level cache, in ns.
struct Costs {
    data: Row<COLUMNS>,
    code: Row<COLUMNS>,
    last: f64,
}

impl Costs {
    fn new(memory: &Memory) -> Self {
        let of = |tlb| Row([tlb, tlb, tlb, tlb, memory.l1d_miss_ns, memory.l2_miss_ns]);
        Costs {
            data: of(memory.dtlb_miss_ns),
            code: of(memory.itlb_miss_ns),
            last: if memory.l3_bytes > 0.0 { memory.l3_miss_ns } else { memory.l2_miss_ns },
        }
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
    /// CPU time of a piece of work, relative to its CPU time with warm caches: in the first round, and in each further
    /// one.
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

    /// CPU time of `work_ns` more work, in ns.
    pub fn effort_ns(&self, work_ns: f64) -> f64 {
        let cold_ns = work_ns.min(self.cold_ns());
        work_ns + (cold_ns * self.first.ns + (work_ns - cold_ns) * self.again.ns) / self.reach_ns
    }

    /// Work done in `effort_ns` of CPU time, in ns: the inverse of [`Turn::effort_ns`].
    pub fn work_ns(&self, effort_ns: f64) -> f64 {
        let cold_ns = self.cold_ns();
        match effort_ns <= cold_ns * self.cold_rate {
            true => effort_ns / self.cold_rate,
            false => cold_ns + (effort_ns - cold_ns * self.cold_rate) / self.rate,
        }
    }

    /// Counts `work_ns` as done. Returns its misses.
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

/// State of all TLBs and caches of a machine.
pub struct Warmth {
    cores: Vec<Recency<COLUMNS>>,
    last_level: Vec<Recency<1>>,
    tags: Vec<Tags>,
    /// Core and LLC of each CPU.
    places: Vec<(usize, usize)>,
    /// Whether a core has its LLC to itself.
    llc_per_core: bool,
    /// The other hardware threads of each CPU's core.
    siblings: Vec<Vec<usize>>,
    /// The sets of each CPU's present task.
    present: Vec<Option<Rc<Touches>>>,
    memory: Memory,
    costs: Costs,
}

impl Warmth {
    /// All caches cold. None: the machine's file does not describe its TLBs and caches.
    pub fn new(machine: &Machine) -> Option<Self> {
        let memory = machine.memory.clone()?;
        let places: Vec<_> =
            machine.cpus.iter().map(|cpu| (cpu.core as usize, cpu.llc as usize)).collect();
        let cores = 1 + places.iter().map(|place| place.0).max()?;
        let llcs = 1 + places.iter().map(|place| place.1).max()?;
        let lines = |bytes: f64, ways| (bytes / memory.line_bytes, ways);
        let second = lines(memory.l2_bytes, memory.l2_ways);
        let (l2, last) = match memory.l3_bytes > 0.0 {
            true => (second, lines(memory.l3_bytes, memory.l3_ways)),
            false => ((0.0, 0.0), second),
        };
        let columns = [
            (memory.dtlb_entries, memory.dtlb_ways),
            (memory.itlb_entries, memory.itlb_ways),
            (memory.dtlb_large_entries, memory.dtlb_large_ways),
            (memory.itlb_large_entries, memory.itlb_large_ways),
            lines(memory.l1d_bytes, memory.l1d_ways),
            l2,
        ];
        let siblings = |cpu: usize| {
            let core = places[cpu].0;
            (0..places.len()).filter(|other| *other != cpu && places[*other].0 == core).collect()
        };
        Some(Warmth {
            llc_per_core: llcs == cores,
            siblings: (0..places.len()).map(siblings).collect(),
            present: vec![None; places.len()],
            cores: vec![Recency::new(columns); cores],
            last_level: vec![Recency::new([last]); llcs],
            tags: places.iter().map(|_| Tags::new(memory.tlb_tags as usize)).collect(),
            places,
            costs: Costs::new(&memory),
            memory,
        })
    }

    /// Promises that only these footprints will be entered. A last-level cache with room for all of them then need not
    /// track their order.
    pub fn expect<'a>(&mut self, footprints: impl Iterator<Item = &'a Touches>) {
        let (mut sets, mut most) = (BTreeMap::new(), 0.0_f64);
        for group in footprints.flat_map(Touches::last) {
            most = most.max(lines_of(group).0[0]);
            for (set, Row([lines])) in group {
                let known: &mut f64 = sets.entry(*set).or_default();
                *known = known.max(*lines);
            }
        }
        let numbers = sets.keys().last().map_or(0, |set| *set as usize + 1);
        let all = Row([sets.values().sum()]);
        for list in &mut self.last_level {
            list.expect(numbers, all, Row([most]));
        }
    }

    /// A footprint as this machine's TLBs and caches see it.
    pub fn touches(&self, task: &Footprint) -> Touches {
        let memory = &self.memory;
        let tlb = |entries: f64, tlb, or| if entries > 0.0 { tlb } else { or };
        let itlb = |or| tlb(memory.itlb_entries, ITLB, or);
        let large = tlb(memory.dtlb_large_entries, DTLB_LARGE, DTLB);
        let large_code = tlb(memory.itlb_large_entries, ITLB_LARGE, itlb(large));
        let kernel = [task.kernel_own, task.kernel_shared, task.kernel_code];
        let touched = kernel.iter().any(|set| set.pages > 0.0 || set.bytes > 0.0);
        Touches {
            space: task.space,
            reach_ns: task.reach_ns.max(1.0),
            user: self.sets([task.own, task.shared, task.code], DTLB, itlb(DTLB)),
            kernel: touched.then(|| self.sets(kernel, large, large_code)),
            again: Cell::new(None),
        }
    }

    /// Two sets of data and one of code; their pages go through these TLBs.
    fn sets(&self, sets: [Set; SETS], dtlb: usize, itlb: usize) -> Sets {
        let lines = |set: Set| set.bytes / self.memory.line_bytes;
        let core = |set: Set, tlb: usize, l1d: f64| {
            let mut row = Row::ZERO;
            row.0[tlb] = set.pages;
            row.0[L1D] = l1d;
            row.0[L2] = if self.memory.l3_bytes > 0.0 { lines(set) } else { 0.0 };
            (set.id, row)
        };
        let [own, shared, code] = sets;
        let data = |set| core(set, dtlb, lines(set));
        Sets {
            core: [data(own), data(shared), core(code, itlb, 0.0)],
            last: sets.map(|set| (set.id, Row([lines(set)]))),
        }
    }

    /// Switches a CPU to an address space. Kernel threads and idling keep the last one, as lazy TLB does, and are no
    /// change.
    pub fn change_space(&mut self, cpu: usize, space: u32) {
        let core = &mut self.cores[self.places[cpu].0];
        match self.tags[cpu].change(space) {
            Change::Keep => {}
            Change::Evict(evicted) => core.flush(evicted, FLUSHED),
            Change::FlushAll => core.flush_all(FLUSHED),
        }
    }

    /// Lines that siblings go through beside this CPU's task, without its own sets: in a core's columns, and in an LLC
    /// of its own.
    fn beside(&self, cpu: usize, task: &Touches) -> (Row<COLUMNS>, Row<1>) {
        let (mut core, mut last) = (Row::ZERO, Row::ZERO);
        let siblings = &self.siblings[cpu];
        let present = |other: &usize| self.present[*other].as_ref().map(|task| &task.user);
        for (number, sibling) in siblings.iter().enumerate() {
            let Some(other) = present(sibling) else { continue };
            for ((set, of_core), (_, of_last)) in other.core.iter().zip(&other.last) {
                let mut before = siblings[..number].iter().filter_map(present);
                if !task.user.have(*set) && !before.any(|sets| sets.have(*set)) {
                    core += *of_core;
                    last += *of_last;
                }
            }
        }
        (core, if self.llc_per_core { last } else { Row::ZERO })
    }

    /// Misses of each further round of a task.
    fn again(&self, cpu: usize, task: &Touches) -> Misses {
        let beside = self.beside(cpu, task);
        if let Some(last) = task.again.get().filter(|last| last.beside == beside) {
            return last.misses;
        }
        let (core, llc) = self.places[cpu];
        let (core, llc) = (&self.cores[core], &self.last_level[llc]);
        let user = &task.user;
        let left = (core.left_again(&user.core, beside.0), llc.left_again(&user.last, beside.1));
        let misses = Missing::new(user, &left.0, &left.1, &self.costs).of_user();
        task.again.set(Some(Again { beside, misses }));
        misses
    }

    /// A task gets a CPU. If the address space had to change, [`Warmth::change_space`] came first.
    pub fn enter(&mut self, cpu: usize, task: &Rc<Touches>) -> Turn {
        let kernel = self.enter_kernel(cpu, task);
        let (core, llc) = self.places[cpu];
        let (core, llc) = (&self.cores[core], &self.last_level[llc]);
        let (user, costs) = (&task.user, &self.costs);
        let left = (core.left(&user.core), llc.left(&user.last));
        let first = Missing::new(user, &left.0, &left.1, costs).of_user();
        let again = self.again(cpu, task);
        self.present[cpu] = Some(Rc::clone(task));
        Turn::new(task.reach_ns, first, again, kernel)
    }

    /// The task's turn on this CPU is over.
    pub fn leave(&mut self, cpu: usize, task: &Touches, turn: &Turn) {
        self.present[cpu] = None;
        let (core, llc) = self.places[cpu];
        let part = turn.done_ns / turn.reach_ns;
        self.cores[core].used(task.space, &task.user.core, part);
        self.last_level[llc].used(task.space, &task.user.last, part);
    }

    /// The switch itself touches the kernel's sets.
    fn enter_kernel(&mut self, cpu: usize, task: &Touches) -> Misses {
        let Some(kernel) = &task.kernel else { return Misses::default() };
        let (core, llc) = self.places[cpu];
        let (core, llc) = (&mut self.cores[core], &mut self.last_level[llc]);
        let left = (core.left(&kernel.core), llc.left(&kernel.last));
        let missing = Missing::new(kernel, &left.0, &left.1, &self.costs);
        core.used(0, &kernel.core, 1.0);
        llc.used(0, &kernel.last, 1.0);
        missing.of_kernel()
    }
}
