// SPDX-License-Identifier: GPL-2.0-only
//! Memory domains under the simulated tasks: their speeds by the places of tasks and pages, and pages that move.
//!
//! Absent if the machine has no `[fabric]` or no task has `"memory"` in its `"hw"`: then nothing here runs. A task's
//! data lies on the node where it ran first, or on the nodes that it is bound to. One mover, which is no thread of the
//! machine, moves pages order by order, at the machine's rate or the order's. Meanwhile the copies load controllers and
//! links, and threads of the address space lose the part of their time that the machine gives.

mod engine;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use machine::{Copy, Fabric, Links, Machine, Runs, Speed, alone, speeds_by};
use policy::{Counts, Memory};
use trace::Home;
use workload::{Demand, Workload};

use crate::cpu::Cpu;
use crate::ids::{CpuId, TaskId, tid};
use crate::task::Task;

/// Time of a chunk in which pages are moved.
const CHUNK_NS: u64 = 50_000_000;
/// Time between two records of whereabouts.
const KEEP_NS: u64 = 1_000_000_000;
/// Speeds that differ by less count as the same.
const SAME: f64 = 1e-4;

/// The places of threads and memory at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Whereabouts {
    /// When, ns from the beginning of the simulation.
    pub at_ns: u64,
    /// The node that each of the workload's tasks ran on last; None: it has not run.
    pub threads: Vec<Option<usize>>,
    /// Work that each has done, ns alone on the machine.
    pub done: Vec<f64>,
    /// By process, bytes on each node.
    pub memory: BTreeMap<usize, Vec<f64>>,
}

impl Whereabouts {
    /// The node with most of a process's pages. None: the process has not run.
    pub fn home(&self, process: usize) -> Option<usize> {
        let pages = self.memory.get(&process)?;
        (0..pages.len()).max_by(|a, b| pages[*a].total_cmp(&pages[*b]))
    }
}

/// An order to move a process's pages.
#[derive(Clone, Copy, Debug)]
struct Order {
    process: usize,
    to: usize,
    /// Bytes a second at most; 0: no bound.
    rate: u64,
}

/// Common properties of two tasks of the same speed: cache, process, and cycles, misses and overlap.
type Kind = (u16, usize, [u64; 3]);

/// Limit on remembered sets of running tasks.
const KNOWN_MAX: usize = 50_000;

/// State of memory.
pub(crate) struct Domains {
    fabric: Fabric,
    links: Links,
    clock_hz: f64,
    /// The present demand on memory of each of the workload's tasks, and its process.
    demands: Vec<Option<Demand>>,
    process: Vec<usize>,
    /// Nodes that each task's memory is bound to.
    bound: Vec<Option<Vec<usize>>>,
    touched: Vec<bool>,
    ran_on: Vec<Option<usize>>,
    /// Bytes of each process by node.
    pages: BTreeMap<usize, Vec<f64>>,
    /// Speed of each CPU's task.
    speeds: Vec<Option<Speed>>,
    /// Speeds of threads alone, by node, cycles an instruction, misses and overlap.
    alone: BTreeMap<(usize, [u64; 3]), f64>,
    /// Speeds by the set of running tasks, as long as memory stays in place.
    known: BTreeMap<Vec<Kind>, Vec<Speed>>,
    counts: Vec<(f64, f64)>,
    new: RefCell<Vec<(usize, Option<Order>)>>,
    orders: VecDeque<Order>,
    looked_ns: u64,
    pub moves: u64,
    pub moved_bytes: f64,
    pub whereabouts: Vec<Whereabouts>,
}

impl Domains {
    /// For a workload that gives its tasks' demand on memory, on a machine that describes its memory.
    pub fn new(machine: &Machine, workload: &Workload) -> Option<Self> {
        let (fabric, links) = machine.fabric.clone()?;
        let demands: Vec<Option<Demand>> = workload.tasks.iter().map(|task| task.memory).collect();
        if demands.iter().all(Option::is_none) {
            return None;
        }
        Some(Domains {
            fabric,
            links,
            clock_hz: machine.costs.clock_ghz * 1e9,
            process: workload.tasks.iter().map(|task| task.process).collect(),
            bound: workload.tasks.iter().map(|task| task.nodes.clone()).collect(),
            touched: vec![false; demands.len()],
            ran_on: vec![None; demands.len()],
            counts: vec![(0.0, 0.0); demands.len()],
            demands,
            pages: BTreeMap::new(),
            speeds: vec![None; machine.cpus.len()],
            alone: BTreeMap::new(),
            known: BTreeMap::new(),
            new: RefCell::default(),
            orders: VecDeque::new(),
            looked_ns: 0,
            moves: 0,
            moved_bytes: 0.0,
            whereabouts: Vec::new(),
        })
    }

    /// Speed of a CPU's task, relative to its speed alone on the machine with its data on its own node.
    pub fn rate(&self, cpu: CpuId) -> f64 {
        self.speeds[cpu].map_or(1.0, |speed| speed.of_alone)
    }

    /// A task begins to run on a node.
    pub fn touch(&mut self, task: TaskId, node: usize) {
        let Some(Some(demand)) = self.demands.get(task) else { return };
        self.ran_on[task] = Some(node);
        if !std::mem::replace(&mut self.touched[task], true) {
            let nodes = self.links.latency_ns.len();
            self.known.clear();
            let pages = self.pages.entry(self.process[task]).or_insert_with(|| vec![0.0; nodes]);
            // A task without given data still has some.
            let bytes = (demand.bytes as f64).max(1.0);
            match &self.bound[task] {
                Some(bound) => {
                    bound.iter().for_each(|node| pages[*node] += bytes / bound.len() as f64);
                }
                None => pages[node] += bytes,
            }
        }
    }

    /// A CPU's task has worked for `elapsed_ns`.
    pub fn count(&mut self, cpu: CpuId, task: TaskId, elapsed_ns: f64) {
        let (Some(speed), Some(counts)) = (self.speeds[cpu], self.counts.get_mut(task)) else {
            return;
        };
        counts.0 += speed.ips * elapsed_ns / 1e9;
        counts.1 += speed.misses * elapsed_ns / 1e9;
    }

    /// Bytes of a task's process on each node. None: a negligible amount.
    pub fn memory_of(&self, task: TaskId) -> Option<Vec<u64>> {
        let pages = self.pages.get(self.process.get(task)?)?;
        Some(pages.iter().map(|bytes| *bytes as u64).collect())
    }

    /// The places of each of the workload's tasks and its pages, look by look, from the workload's start on.
    pub fn homes(&self, start_ns: u64) -> Vec<Home> {
        let looks = self.whereabouts.iter().filter(|at| at.at_ns >= start_ns);
        let of_look = |at: &Whereabouts| -> Vec<Home> {
            // Less than a byte is no page.
            let pages =
                |process: usize| at.home(process).filter(|node| at.memory[&process][*node] >= 1.0);
            let home = |(id, node): (TaskId, &Option<usize>)| Home {
                at_ns: at.at_ns - start_ns,
                tid: tid(id),
                node: *node,
                pages: pages(self.process[id]),
            };
            at.threads.iter().enumerate().map(home).collect()
        };
        looks.flat_map(of_look).collect()
    }

    fn part(&self, process: usize) -> Vec<f64> {
        let pages = &self.pages[&process];
        let all: f64 = pages.iter().sum();
        pages.iter().map(|bytes| bytes / all).collect()
    }

    /// Speeds of all CPUs with their present tasks.
    fn speeds(&mut self, cpus: &[Cpu], places: &[machine::Cpu]) -> Vec<Option<Speed>> {
        let moving = self.orders.front().and_then(|order| self.next(order));
        let mut running: Vec<(Kind, CpuId, TaskId)> = Vec::new();
        for (cpu, state) in cpus.iter().enumerate() {
            let Some(task) = state.curr else { continue };
            let Some(Some(demand)) = self.demands.get(task) else { continue };
            let told = [demand.cpi, demand.mpki, demand.overlap.unwrap_or(-1.0)].map(f64::to_bits);
            running.push(((places[cpu].llc, self.process[task], told), cpu, task));
        }
        running.sort_unstable();
        let key: Vec<Kind> = running.iter().map(|(kind, ..)| *kind).collect();
        let mut speeds = vec![None; cpus.len()];
        if let Some(found) = self.known.get(&key) {
            for ((_, cpu, _), speed) in running.iter().zip(found) {
                speeds[*cpu] = Some(*speed);
            }
            return speeds;
        }
        let run = |(_, cpu, task): &(Kind, CpuId, TaskId)| {
            let demand = self.demands[*task].expect("a task that runs here has a demand");
            Runs {
                node: usize::from(places[*cpu].node),
                llc: usize::from(places[*cpu].llc),
                ips: self.clock_hz / demand.cpi,
                mpki: demand.mpki,
                pages: self.part(self.process[*task]),
                overlap: demand.overlap,
                copied: moving.is_some_and(|(process, _)| process == self.process[*task]),
            }
        };
        let runs: Vec<Runs> = running.iter().map(run).collect();
        let copies: Vec<Copy> = moving.iter().map(|(_, copy)| *copy).collect();
        let (fabric, links, known) = (&self.fabric, &self.links, &mut self.alone);
        let mut by_memory = |run: &Runs| {
            let told = [run.ips, run.mpki, run.overlap.unwrap_or(-1.0)].map(f64::to_bits);
            *known.entry((run.node, told)).or_insert_with(|| alone(fabric, links, run))
        };
        let found = speeds_by(fabric, links, &runs, &copies, &mut by_memory);
        for ((_, cpu, _), speed) in running.iter().zip(&found) {
            speeds[*cpu] = Some(*speed);
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, found);
        speeds
    }

    /// The next move of an order.
    fn next(&self, order: &Order) -> Option<(usize, Copy)> {
        let pages = self.pages.get(&order.process)?;
        let others = (0..pages.len()).filter(|node| *node != order.to && pages[*node] >= 1.0);
        let from = others.max_by(|a, b| pages[*a].total_cmp(&pages[*b]))?;
        let most = self.fabric.copy_gbs * 1e9;
        let rate = if order.rate == 0 { most } else { most.min(order.rate as f64) };
        Some((order.process, Copy { from, to: order.to, rate }))
    }

    /// Moves the pages that could be moved since the last time; then takes new orders.
    fn carry(&mut self, now_ns: u64) {
        let mut left_s = (now_ns - self.looked_ns) as f64 / 1e9;
        self.looked_ns = now_ns;
        while left_s > 0.0 {
            let Some(order) = self.orders.front().copied() else { break };
            let Some((process, copy)) = self.next(&order) else {
                self.orders.pop_front();
                continue;
            };
            let Some(pages) = self.pages.get_mut(&process) else { continue };
            let bytes = pages[copy.from].min(copy.rate * left_s);
            pages[copy.from] -= bytes;
            pages[copy.to] += bytes;
            self.moved_bytes += bytes;
            left_s -= bytes / copy.rate;
            if pages[copy.from] < 1.0 {
                pages[copy.from] = 0.0;
            }
            if bytes < 1.0 {
                break;
            }
        }
        for (process, order) in self.new.take() {
            self.orders.retain(|other| other.process != process);
            if let Some(order) = order.filter(|order| self.next(order).is_some()) {
                self.moves += 1;
                self.orders.push_back(order);
            }
        }
    }

    fn keep(&mut self, now_ns: u64, tasks: &[Task]) {
        let due = self.whereabouts.last().is_none_or(|last| now_ns >= last.at_ns + KEEP_NS);
        if due {
            let (threads, memory) = (self.ran_on.clone(), self.pages.clone());
            let done = tasks[..threads.len()].iter().map(|task| task.at.done).collect();
            self.whereabouts.push(Whereabouts { at_ns: now_ns, threads, done, memory });
        }
    }
}

fn same(one: Option<Speed>, other: Option<Speed>) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs();
    match (one, other) {
        (Some(one), Some(other)) => {
            near(one.of_alone, other.of_alone) && near(one.misses, other.misses)
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl Memory for Domains {
    fn counts(&self, tid: u32) -> Option<Counts> {
        let (instructions, misses) = *self.counts.get((tid as usize).checked_sub(1)?)?;
        Some(Counts { instructions: instructions as u64, misses: misses as u64 })
    }

    fn resident(&self, pid: u32) -> Vec<u64> {
        let pages = (pid as usize).checked_sub(1).and_then(|process| self.pages.get(&process));
        pages.map_or(Vec::new(), |pages| pages.iter().map(|bytes| *bytes as u64).collect())
    }

    fn pull(&self, pid: u32, node: usize, rate: u64) {
        let process = pid as usize - 1;
        self.new.borrow_mut().push((process, Some(Order { process, to: node, rate })));
    }

    fn leave(&self, pid: u32) {
        self.new.borrow_mut().push((pid as usize - 1, None));
    }

    fn is_pulling(&self, pid: u32) -> bool {
        let process = pid as usize - 1;
        self.orders.iter().any(|order| order.process == process)
            || self.new.borrow().iter().any(|(other, order)| *other == process && order.is_some())
    }
}
