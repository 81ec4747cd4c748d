// SPDX-License-Identifier: GPL-2.0-only
//! A policy's control plane: looks at the task table every so often, and puts shares in force.
//!
//! A ground calls it: from a thread of a higher class beside a real kernel, as an event in the
//! simulator. It reads no clock and does no I/O; what it needs comes with each call.

use std::collections::BTreeMap;

use crate::table::TaskTable;
use crate::{Instance, Memory, Topology};

/// A policy's control plane.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Makes that of an instance.
    pub begin: fn(&Instance, &Topology, &Profile) -> Box<dyn Control>,
    /// What it takes a profile's numbers for.
    pub told: Told,
}

/// What the numbers of a profile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// How fast a program is on each kind of core, of its speed on the slowest, the fastest kind first.
    Speeds,
    /// One: its misses of the last-level cache in 1,000 instructions.
    Misses,
    /// One: the license level that its widest code needs.
    Levels,
}

/// What is known beforehand of programs, by what a thread is called, or by its executable's path or id. What the
/// numbers are depends on the policy: [`Told`].
pub type Profile = BTreeMap<String, Vec<f64>>;

/// What a build id begins with.
const BUILD_ID: &str = "build-id:";

/// An executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The same in each run of it, and no other's.
    pub id: String,
    /// Where it lies, if anywhere.
    pub path: Option<String>,
}

/// Where speeds of the tasks that run come from: how many each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Measured.
    pub counters: usize,
    /// Somebody said so beforehand.
    pub profile: usize,
    /// Measured in another run of the same executable.
    pub memory: usize,
    /// Nowhere.
    pub unknown: usize,
}

/// What a control plane sees.
pub struct View<'a> {
    /// Time since some moment in the past, ns.
    pub now_ns: u64,
    /// The tasks.
    pub table: &'a TaskTable,
    /// What a thread is called, by its id. None: it is gone, or nobody knows.
    pub name_of: &'a dyn Fn(u32) -> Option<String>,
    /// What it runs. Costs a few system calls: not to be asked for each task at each look.
    pub program_of: &'a dyn Fn(u32) -> Option<Program>,
    /// The process that started a thread's process.
    pub parent_of: &'a dyn Fn(u32) -> Option<u32>,
    /// A cgroup by its number in the table. None: it is gone, or there are none.
    pub cgroup_of: &'a dyn Fn(u64) -> Option<Cgroup>,
    /// Memory, for who places it.
    pub memory: &'a dyn Memory,
}

impl View<'_> {
    /// What a profile has of a thread, by what it is called or by its executable's path.
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

    /// The same, or by its executable's build id.
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
    /// The number of the one that it is in; 0 for the root.
    pub parent: u64,
    /// `cpu.weight`, 1 to 10000; 100 is even.
    pub weight: u32,
}

/// What shares say to who can do no more than bind threads to CPUs, on kernels that take no scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binds {
    /// Nothing: the policy is in its data plane.
    Nothing,
    /// What part of its time a thread is to be on each kind of core.
    Kinds,
    /// To which domain a thread belongs: none where a share is 0, else one less than that. The CPUs of each.
    Domains(Vec<Vec<usize>>),
}

/// A control plane.
pub trait Control: Send {
    /// Looks, decides, and puts what was decided in force. Returns after how long to call it again, ns.
    fn step(&mut self, view: &View<'_>) -> u64;

    /// What its shares say of CPUs.
    fn binds(&self) -> Binds {
        Binds::Nothing
    }

    /// Where the speeds come from that it goes by.
    fn sources(&self) -> Sources {
        Sources::default()
    }

    /// What it does, in a line, where that needs to be said.
    fn says(&self) -> Option<String> {
        None
    }

    /// What it has measured of programs, by the id of their executables.
    fn learned(&self) -> Profile {
        Profile::new()
    }

    /// Tells how fast it has measured each thread to be on each kind of core, of its speed on the slowest: by the
    /// thread's id, the fastest kind first.
    fn measured(&self, _tell: &mut dyn FnMut(u32, &[f64])) {}

    /// The memory domain that each thread belongs to which it places, by the thread's id.
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
