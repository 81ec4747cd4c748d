// SPDX-License-Identifier: GPL-2.0-only
//! Masks of CPUs that threads may use, as sets that can be compared and written down.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroup::{CGROUPS, cpuset};
use crate::counters::ranges;
use crate::program::text;
use crate::topology::{self, cpu_list};

/// CPUs, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask(Vec<usize>);

impl Mask {
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Mask(cpus)
    }

    /// A thread's mask, CPUs that are not online included. None: it has ended.
    pub fn of(tid: u32) -> Option<Self> {
        let status = text(format!("/proc/{tid}/status")).ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.map(Mask::parse)
    }

    /// The part of a thread's mask that the kernel may use now, which is much cheaper to ask for.
    pub fn active(tid: u32) -> Option<Self> {
        let set = sched_getaffinity(Some(Pid::from_raw(tid as i32)?)).ok()?;
        Some(Mask((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()))
    }

    /// Sets it for a thread.
    pub fn give(&self, tid: u32) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
        sched_setaffinity(Pid::from_raw(tid as i32), &set).map_err(io::Error::from)
    }

    pub fn and(&self, other: &Mask) -> Mask {
        Mask(self.0.iter().copied().filter(|cpu| other.0.contains(cpu)).collect())
    }

    /// Whether they are equal, or would be but for offline CPUs: the kernel drops those from masks in a cpuset.
    pub fn is_like(&self, other: &Mask, online: &Mask) -> bool {
        self == other || self.and(online) == other.and(online)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In the kernel's format.
    pub fn text(&self) -> String {
        ranges(&self.0)
    }

    pub fn parse(text: &str) -> Self {
        Mask::new(cpu_list(text))
    }
}

/// The mask that a thread's owner gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub mask: Mask,
    /// It is the thread's whole cpuset: the thread is not bound, and the mask changes with the cpuset.
    pub is_free: bool,
}

impl Own {
    pub fn of(tid: u32, mask: Mask) -> Self {
        static POSSIBLE: LazyLock<Option<Mask>> = LazyLock::new(|| {
            text("/sys/devices/system/cpu/possible").ok().map(|it| Mask::parse(&it))
        });
        let cpuset = || {
            let groups = text(format!("/proc/{tid}/cgroup")).ok()?;
            cpuset(Path::new(CGROUPS), &groups).map(|cpus| Mask::parse(&cpus))
        };
        let is_free = POSSIBLE.as_ref() == Some(&mask) || cpuset().as_ref() == Some(&mask);
        Own { mask, is_free }
    }

    /// Sets it for its thread. A free one asks for all CPUs, and the kernel limits that to the cpuset.
    pub fn give(&self, tid: u32) -> io::Result<()> {
        match self.is_free {
            true => Mask::new(0..CpuSet::MAX_CPU).give(tid),
            false => self.mask.give(tid),
        }
    }
}

/// CPUs that are online.
pub(super) fn online() -> anyhow::Result<Vec<usize>> {
    topology::online(Path::new("/")).context("the kernel does not tell which CPUs are online")
}
