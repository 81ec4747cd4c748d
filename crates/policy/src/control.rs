// SPDX-License-Identifier: GPL-2.0-only
//! A policy's control plane: reads the task table periodically and publishes shares.
//!
//! A ground calls it: from a thread of a higher class beside a real kernel, as an event in the simulator. It reads no
//! clock and does no I/O; all its input comes with each call.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::table::{TaskTable, TaskView};
use crate::{Instance, Memory, Topology};

/// A policy's control plane.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Makes an instance's control plane.
    pub begin: fn(&Instance, &Topology, &Profile) -> Box<dyn Control>,
    /// The meaning it gives to a profile's numbers on a machine with this many kinds of cores.
    pub told: fn(usize) -> Told,
}

/// The meaning of a profile's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// The program's speed on each kind of core as a multiple of its speed on the slowest, the fastest kind first.
    Speeds,
    /// One number: its misses of the last-level cache in 1,000 instructions.
    Misses,
    /// One number: the license level that its widest code needs.
    Levels,
}

/// Known figures of programs, by a thread's name, or by its executable's path or id. The meaning of the numbers depends
/// on the policy: [`Told`].
pub type Profile = BTreeMap<String, Vec<f64>>;

/// Prefix of a build id.
const BUILD_ID: &str = "build-id:";

/// An executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The same in each run of this executable, and different from every other's.
    pub id: String,
    /// Its path, if it has one.
    pub path: Option<String>,
}

/// How many running tasks have their speeds from each source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Measured by counters.
    pub counters: usize,
    /// Given in a profile.
    pub profile: usize,
    /// Measured in another run of the same executable.
    pub memory: usize,
    /// Speed not known.
    pub unknown: usize,
}

/// The input of a control plane.
pub struct View<'a> {
    /// Time since some moment in the past, ns.
    pub now_ns: u64,
    /// The tasks.
    pub table: &'a TaskTable,
    /// A thread's name, by its id. None: it has ended, or its name is not known.
    pub name_of: &'a dyn Fn(u32) -> Option<String>,
    /// A thread's executable. Costs a few system calls: do not ask for every task each time.
    pub program_of: &'a dyn Fn(u32) -> Option<Program>,
    /// The process that started a thread's process.
    pub parent_of: &'a dyn Fn(u32) -> Option<u32>,
    /// A cgroup by its number in the table. None: it was removed, or there are none.
    pub cgroup_of: &'a dyn Fn(u64) -> Option<Cgroup>,
    /// Memory, for control planes that place it.
    pub memory: &'a dyn Memory,
    /// What [`Self::tasks`] has read; empty at first.
    pub read: OnceCell<Vec<TaskView>>,
}

impl View<'_> {
    /// Every task that has a slot, by slot, as of the first call: all that share this view read the table once.
    pub fn tasks(&self) -> &[TaskView] {
        self.read.get_or_init(|| self.table.tasks())
    }

    /// A profile's entry for a thread, by the thread's name or by its executable's path.
    pub fn named<'p>(&self, profile: &'p Profile, tid: u32) -> Option<&'p Vec<f64>> {
        if profile.is_empty() {
            return None;
        }
        let named = || {
            let name = (self.name_of)(tid)?;
            // The kernel keeps 15 bytes of a name.
            let cut = || {
                let begins = |(known, _): &(&String, &Vec<f64>)| known.starts_with(&name);
                profile.iter().find(begins).map(|(_, numbers)| numbers)
            };
            profile.get(&name).or_else(|| if name.len() == 15 { cut() } else { None })
        };
        let placed = || {
            let any = profile.keys().any(|key| key.starts_with('/'));
            let Program { path, .. } = any.then(|| (self.program_of)(tid)).flatten()?;
            profile.get(&path?)
        };
        named().or_else(placed)
    }

    /// A profile's entry for a thread as in [`Self::named`], or by its executable's build id.
    pub fn told<'p>(&self, profile: &'p Profile, tid: u32) -> Option<&'p Vec<f64>> {
        let built = || {
            let any = profile.keys().any(|key| key.starts_with(BUILD_ID));
            let Program { id, .. } = any.then(|| (self.program_of)(tid)).flatten()?;
            profile.get(&id)
        };
        self.named(profile, tid).or_else(built)
    }
}

/// A cgroup, as far as it divides CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// The number of its parent cgroup; 0 for the root.
    pub parent: u64,
    /// `cpu.weight`, 1 to 10000; 100 is even. 0: it is idle (`cpu.idle`).
    pub weight: u32,
    /// Its CPU time is divided apart from its parent's: the `cpu` controller is on in it.
    pub apart: bool,
    /// `cpu.max`, if it limits.
    pub quota: Option<Quota>,
}

/// `cpu.max` of a cgroup: how much CPU time all its tasks have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period, ns; more than 0.
    pub quota_ns: u64,
    /// The period, ns; more than 0.
    pub period_ns: u64,
    /// `cpu.max.burst`: how much of it can be saved up in periods that need less, ns.
    pub burst_ns: u64,
}

impl Quota {
    /// The same in CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns as f64
    }
}

impl Cgroup {
    /// The root of a hierarchy.
    pub const ROOT: Cgroup = Cgroup { parent: 0, weight: 100, apart: true, quota: None };

    /// A cgroup and those around it, the outermost first, up to one that is `known`. Also the number of that one; 0: all
    /// up to the root. A cgroup that was removed meanwhile counts as one beside the root.
    pub fn chain(
        id: u64,
        cgroup_of: impl Fn(u64) -> Option<Cgroup>,
        known: impl Fn(u64) -> bool,
    ) -> (u64, Vec<(u64, Cgroup)>) {
        /// No hierarchy is this deep; a deeper one was read while it changed.
        const DEEP: usize = 64;
        let mut chain = Vec::new();
        let mut at = id;
        while at != 0 && !known(at) && chain.len() < DEEP {
            let group = cgroup_of(at).unwrap_or(Cgroup::ROOT);
            chain.push((at, group));
            at = group.parent;
        }
        chain.reverse();
        (at, chain)
    }

    /// The weight by which it competes, where 100 is even. An idle one has WEIGHT_IDLEPRIO of kernel/sched/sched.h in
    /// 1,024.
    pub fn competes(self) -> f64 {
        if self.weight == 0 { 0.3 } else { f64::from(self.weight) }
    }
}

/// The meaning of shares for a ground that can only bind threads to CPUs, on kernels without sched_ext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binds {
    /// None: the policy is in its data plane.
    Nothing,
    /// The part of its time that a thread is to be on each kind of core.
    Kinds,
    /// A thread's domain: a share of 0 is no domain, any other is the domain's number plus one. Holds the CPUs of each
    /// domain.
    Domains(Vec<Vec<usize>>),
}

/// A control plane.
pub trait Control: Send {
    /// Reads the view, decides, and publishes the result. Returns the time until the next call, ns.
    fn step(&mut self, view: &View<'_>) -> u64;

    /// The effect of its shares on the choice of CPUs.
    fn binds(&self) -> Binds {
        Binds::Nothing
    }

    /// Sources of the speeds that it uses.
    fn sources(&self) -> Sources {
        Sources::default()
    }

    /// Its current activity in a line, if that is worth a line.
    fn says(&self) -> Option<String> {
        None
    }

    /// Its measurements of programs, by the id of their executables.
    fn learned(&self) -> Profile {
        Profile::new()
    }

    /// Calls `tell` for each measured thread, with its id and its speeds, the fastest kind first. A speed is a multiple
    /// of the thread's speed on the slowest kind.
    fn measured(&self, _tell: &mut dyn FnMut(u32, &[f64])) {}

    /// The memory domain of each thread that it places, by the thread's id.
    fn placed(&self) -> Vec<(u32, usize)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keeper, NoMemory};

    #[test]
    fn a_profile_knows_a_thread_by_its_name_its_path_or_its_build_id() {
        let keeper = Keeper::new();
        let view = View {
            now_ns: 0,
            table: keeper.table(),
            name_of: &|tid| Some(["x265", "fifteen-letters", "other"][tid as usize].to_string()),
            program_of: &|_| {
                Some(Program { id: "build-id:ab".into(), path: Some("/usr/bin/x".into()) })
            },
            parent_of: &|_| None,
            cgroup_of: &|_| None,
            memory: &NoMemory,
            read: OnceCell::new(),
        };
        let told = |key: &str, tid| {
            let profile = [(key.to_string(), vec![2.0])].into();
            (view.named(&profile, tid).is_some(), view.told(&profile, tid).is_some())
        };
        assert_eq!(told("x265", 0), (true, true));
        assert_eq!(told("x265", 2), (false, false));
        assert_eq!(told("fifteen-letters-and-more", 1), (true, true), "the kernel cuts it");
        assert_eq!(told("others", 2), (false, false), "this one is not cut");
        assert_eq!(told("/usr/bin/x", 2), (true, true));
        assert_eq!(told("build-id:ab", 2), (false, true));
        assert_eq!(told("build-id:cd", 2), (false, false));
    }
}
