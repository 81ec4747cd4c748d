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
//! kernel's code. A list of each core and one of each last-level cache keep in which order sets were
//! used ([`Recency`]), so what is missing of a set of `n` lines when its user comes back is
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

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::{array, iter};

use crate::machine::Machine;
use crate::memory::Memory;
use crate::recency::{Group, Recency, SETS, lines_of};
use crate::row::Row;
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

/// Columns of a core's list. The kernel's large pages have TLBs of their own on some machines.
const COLUMNS: usize = 6;
const DTLB: usize = 0;
const ITLB: usize = 1;
const DTLB_LARGE: usize = 2;
const ITLB_LARGE: usize = 3;
const L1D: usize = 4;
/// Where there is a third level.
const L2: usize = 5;
/// Those of pages.
const TLBS: Range<usize> = DTLB..L1D;
/// Those of users' pages, which a flush empties.
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
    /// Where it touches anything in the kernel.
    kernel: Option<Sets>,
    again: Cell<Option<Again>>,
}

/// Misses of each further round, as they were last: they depend on the task's sets and what others go through beside it.
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

/// What is missing of a task's sets, and the CPU time that it costs.
struct Missing {
    dtlb: f64,
    itlb: f64,
    cache: f64,
    ns: f64,
}

impl Missing {
    /// Where so much of each set is left. Pages of code count as the instruction TLB's, whichever they go through.
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

/// What a miss costs in each column, of data and of code, and in the last-level cache, in ns.
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
    /// What each CPU's present task goes through.
    present: Vec<Option<Rc<Touches>>>,
    memory: Memory,
    costs: Costs,
}

impl Warmth {
    /// Everything cold. None: the machine's file does not say what its TLBs and caches are.
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

    /// Only these footprints will ever be entered: a last-level cache that has room for all of them need not know in which
    /// order.
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

    /// Two sets of data and one of code, whose pages go through these TLBs.
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

    /// A CPU takes on an address space; kernel threads and idling keep the last one, as lazy TLB
    /// does, and are no change.
    pub fn change_space(&mut self, cpu: usize, space: u32) {
        let core = &mut self.cores[self.places[cpu].0];
        match self.tags[cpu].change(space) {
            Change::Keep => {}
            Change::Evict(evicted) => core.flush(evicted, FLUSHED),
            Change::FlushAll => core.flush_all(FLUSHED),
        }
    }

    /// What others go through beside this CPU's task, and it does not: in a core's columns, and in an LLC of its own.
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

    /// A task gets a CPU, whose address space was changed before where it had to be.
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
