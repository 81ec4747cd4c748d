// SPDX-License-Identifier: GPL-2.0-only
//! A machine: its CPUs, their places, and its costs.

use std::collections::BTreeMap;

use crate::CpuSet;
use crate::costs::{COSTS, Costs, Table};
use crate::fabric::{FABRIC, Fabric, Links};
use crate::frequency::Frequency;
use crate::license::LEVELS;
use crate::memory::{MEMORY, Memory};
use crate::observed::Observation;
use crate::quantity::Quantity;

/// One hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its core.
    pub core: u16,
    /// Its last-level cache.
    pub llc: u16,
    /// Its memory node.
    pub node: u16,
    /// Index into [`Machine::core_rates`].
    pub core_type: u16,
}

/// Whether the kernel of a machine with kinds of cores knows their rates, from a device tree or a driver
/// (`arch_scale_cpu_capacity`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capacities {
    /// It takes all cores to be alike, as where a user has set their clocks.
    #[default]
    Hidden,
    /// It knows them.
    Told,
}

/// How spinlocks of the kernel on this machine hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// All waiters watch one line (Linux 2.6.25 to 4.1): a handoff takes longer with more waiters.
    Ticket,
    /// Each waiter watches a line of its own (Linux 4.2 and later): a handoff is one transfer.
    Queued,
}

/// How a kernel runs the periodic ticks of its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ticks {
    /// Ticks of different CPUs come at different times; a CPU that goes idle stops its own at once.
    Apart,
    /// All ticks come at one time. A CPU that goes idle stops its own only after a tick has found it idle
    /// (`tick_nohz_idle_got_tick`, Linux 7.2).
    Together,
}

/// Kernel threads of one kind. They have work at the expiry of a timer, and rest until it expires again.
#[derive(Clone, Debug, PartialEq)]
pub struct Housekeeper {
    /// Their name in results, before the number of the CPU or the node.
    pub name: String,
    /// Whether there is one for each CPU or for each node.
    pub each: Each,
    /// Time from the end of a piece of work until the timer expires again.
    pub period_ns: u64,
    /// The timer expires at multiples of this: the next one after the period.
    pub step_ns: u64,
    /// If given, periods count from the clock and not from the end of a piece of work (`round_jiffies_relative`): the
    /// timer of CPU n expires n times this before them.
    pub skew_ns: Option<u64>,
    /// CPU time of a piece of work.
    pub work_ns: u64,
}

/// The unit that has one thread each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Each {
    /// Each CPU has one, which runs there only.
    Cpu,
    /// Each node has one, which runs on its CPUs.
    Node,
}

/// The distance between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// Another thread of the core.
    Core,
    /// Another core of the cache.
    Llc,
    /// Another cache of the node.
    Node,
    /// Another node.
    Remote,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The argument of `--machine`.
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// Its hardware threads, by number.
    pub cpus: Vec<Cpu>,
    /// Distance of each node from each, as ACPI's SLIT has it: 10 is itself.
    pub node_distance: Vec<Vec<u32>>,
    /// Work rate of each core type, relative to the fastest.
    pub core_rates: Vec<f64>,
    /// The kind of its kernel's spinlocks.
    pub lock: LockKind,
    /// How its kernel schedules ticks.
    pub ticks: Ticks,
    /// Whether its kernel knows that cores differ.
    pub capacities: Capacities,
    /// Its kernel's own threads.
    pub housekeepers: Vec<Housekeeper>,
    /// Its costs.
    pub costs: Costs,
    /// Instructions of kernel functions that are known to differ on this machine from those of
    /// [`crate::Paths`], by name.
    pub paths: BTreeMap<String, f64>,
    /// The same for a CPU that runs the idle task.
    pub from_idle: BTreeMap<String, f64>,
    /// The same for a task that blocks with its dequeue delayed, or is woken from that (DELAY_DEQUEUE).
    pub delayed: BTreeMap<String, f64>,
    /// Its TLBs and caches; None: not known, and no run that needs them is possible.
    pub memory: Option<Memory>,
    /// Its memory domains and the links between them; None: not known, and all memory is equally near and fast.
    pub fabric: Option<(Fabric, Links)>,
    /// Rules of its clocks; None: they never change.
    pub frequency: Option<Frequency>,
    /// The source of each cost, and its range.
    pub sources: BTreeMap<&'static str, Quantity>,
    /// Costs that could not be measured, and why: [`Machine::lacks`] says whether that matters.
    pub unknown: BTreeMap<&'static str, String>,
    /// Other measurements; no run uses them.
    pub observed: BTreeMap<String, Observation>,
}

/// The prefix of a plain machine's name; its number of CPUs follows.
pub(crate) const PLAIN: &str = "plain-";

/// An error in a machine's description, or in a request for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MachineError {
    #[error("{path}:{line}: {what}")]
    Syntax { path: String, line: usize, what: String },
    #[error("no machine is called `{name}`; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("{name}: expected {PLAIN}N, with N the number of CPUs from 1 to {most}")]
    BadPlain { name: String, most: usize },
    #[error("machine {machine} has no cost `{name}`; there are: {known}")]
    UnknownCost { machine: String, name: String, known: String },
    #[error("machine {machine}: {name}={value}: {why}")]
    BadCost { machine: String, name: String, value: String, why: String },
}

/// The key of a cost in a machine's file: `line_transfer_ns` stands for all transfers, by the nearest.
fn key_of(cost: &str) -> &str {
    if cost == "line_transfer_ns" { "line_llc_ns" } else { cost }
}

impl Machine {
    /// Every CPU.
    pub fn all(&self) -> CpuSet {
        CpuSet::first(self.cpus.len())
    }

    /// The same machine booted with its first `count` CPUs alone, as `maxcpus=` does.
    #[must_use]
    pub fn booted_with(mut self, count: usize) -> Self {
        self.cpus.truncate(count.max(1));
        self
    }

    /// How far `a` is from `b`.
    #[inline]
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let (x, y) = (&self.cpus[a], &self.cpus[b]);
        match () {
            () if a == b => Distance::Same,
            () if x.core == y.core => Distance::Core,
            () if x.llc == y.llc => Distance::Llc,
            () if x.node == y.node => Distance::Node,
            () => Distance::Remote,
        }
    }

    /// Time for `to` to get a line that `from` wrote last, in ns.
    #[inline]
    pub fn line_ns(&self, from: usize, to: usize) -> f64 {
        match self.distance(from, to) {
            Distance::Same => 0.0,
            Distance::Core => self.costs.line_core_ns,
            Distance::Llc => self.costs.line_llc_ns,
            Distance::Node => self.costs.line_node_ns,
            Distance::Remote => self.costs.line_remote_ns,
        }
    }

    /// User time that a task loses when it goes on at `to` after it ran on `from`, in ns.
    #[inline]
    pub fn migrate_ns(&self, from: usize, to: usize) -> f64 {
        match self.distance(from, to) {
            Distance::Same => 0.0,
            Distance::Core => self.costs.migrate_core_ns,
            Distance::Llc => self.costs.migrate_llc_ns,
            Distance::Node => self.costs.migrate_node_ns,
            Distance::Remote => self.costs.migrate_remote_ns,
        }
    }

    /// Greatest clocks in kHz, of each level, with 1 active core, with 2, …; empty if they are not known.
    pub fn turbo_khz(&self) -> Vec<[u32; LEVELS]> {
        self.frequency.as_ref().map_or_else(Vec::new, |frequency| frequency.turbo.khz())
    }

    /// The first unknown number that a run needs, and why it is not known. `touches`: the run's workload says what
    /// memory it touches. `policy`: the run has a sched_ext policy. A number that the topology has no use for is never
    /// needed.
    pub fn lacks(&self, touches: bool, policy: bool) -> Option<(&'static str, &str)> {
        let pairs = || (0..self.cpus.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let some = |far: Distance| pairs().any(|(a, b)| self.distance(a, b) == far);
        let threads = |n: usize| {
            let of_core = |core| self.cpus.iter().filter(|cpu| cpu.core == core).count();
            self.cpus.iter().any(|cpu| of_core(cpu.core) >= n)
        };
        let matters = |name: &str| match name {
            "smt_rate_2" => threads(2),
            "smt_rate_3" => threads(3),
            "smt_rate_4" => threads(4),
            "line_core_ns" | "migrate_core_ns" => some(Distance::Core),
            "line_llc_ns" | "migrate_llc_ns" => some(Distance::Llc),
            "line_node_ns" | "migrate_node_ns" => some(Distance::Node),
            "line_remote_ns" | "migrate_remote_ns" => some(Distance::Remote),
            "ipi_send_ns" | "ipi_delivery_ns" => self.cpus.len() > 1,
            "callback_ns" | "kfunc_ns" => policy,
            "ticket_slope" => self.lock == LockKind::Ticket,
            _ => touches || !MEMORY.iter().any(|memory| memory.name == name),
        };
        let found = self.unknown.iter().find(|(name, _)| matters(name));
        found.map(|(name, why)| (*name, why.as_str()))
    }

    /// The same machine with one cost set, for a sweep. `line_transfer_ns` sets the transfer between two cores of a
    /// cache and scales the farther ones by as much; `release_ns` belongs to its licenses.
    pub fn with_cost(mut self, name: &str, value: f64) -> Result<Self, MachineError> {
        let key = key_of(name);
        let known = COSTS.iter().chain(MEMORY).chain(FABRIC).find(|known| known.name == key);
        let why = match known {
            Some(known) => known.refused(value),
            None if (0.0..=1e12).contains(&value) => None,
            None => Some("expected a number from 0 to 1000000000000".into()),
        };
        if let Some(why) = why {
            let (machine, name) = (self.name, name.to_string());
            return Err(MachineError::BadCost { machine, name, value: value.to_string(), why });
        }
        if name == "line_transfer_ns" {
            let factor = value / self.costs.line_llc_ns;
            self.costs.line_llc_ns = value;
            self.costs.line_node_ns *= factor;
            self.costs.line_remote_ns *= factor;
            return Ok(self);
        }
        let license = self.frequency.as_mut().and_then(|own| own.license.as_mut());
        if let ("release_ns", Some(license)) = (name, license) {
            license.release_ns = value as u64;
            return Ok(self);
        }
        let memory = self.memory.as_mut().and_then(|memory| memory.slot(name));
        let fabric = self.fabric.as_mut().and_then(|(fabric, _)| fabric.slot(name));
        match self.costs.slot(name).or(memory).or(fabric) {
            Some(slot) => *slot = value,
            None => return Err(self.unknown_cost(name)),
        }
        Ok(self)
    }

    /// The same machine with one cost multiplied, for a sweep; names as [`Machine::with_cost`].
    pub fn with_scale(self, name: &str, factor: f64) -> Result<Self, MachineError> {
        let key = key_of(name);
        let memory = self.memory.as_ref().and_then(|memory| memory.get(key));
        let fabric = self.fabric.as_ref().and_then(|(fabric, _)| fabric.get(key));
        match self.costs.get(key).or(memory).or(fabric) {
            Some(value) => self.with_cost(name, value * factor),
            None => Err(self.unknown_cost(name)),
        }
    }

    /// The range a cost may lie in, where its source gives one.
    pub fn range(&self, cost: &str) -> Option<[f64; 2]> {
        self.sources.get(key_of(cost)).and_then(|quantity| quantity.range)
    }

    fn unknown_cost(&self, name: &str) -> MachineError {
        let memory = self.memory.iter().flat_map(|_| MEMORY);
        let fabric = self.fabric.iter().flat_map(|_| FABRIC);
        let known = COSTS
            .iter()
            .chain(memory)
            .chain(fabric)
            .map(|cost| cost.name)
            .chain(["line_transfer_ns"]);
        MachineError::UnknownCost {
            machine: self.name.clone(),
            name: name.to_string(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}
