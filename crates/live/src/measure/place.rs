// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs of this process, their places in the machine, and threads pinned to one.

use std::io;
use std::path::Path;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::counters::ranges;
use crate::topology;

/// The CPUs that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The kernel's numbers of them.
    pub cpus: Vec<usize>,
    /// Core, last-level cache, node and kind of core of each, each numbered from 0. If CPUs of several nodes share a
    /// cache, each node counts its part of it as a cache of its own.
    pub rows: Vec<[u16; 4]>,
    /// Capacity of each kind's cores, fastest first, of 1,024, as the kernel states it.
    pub capacities: Vec<u32>,
    /// The kernel's numbers of the nodes.
    pub nodes: Vec<usize>,
    /// Distance between each two of them (SLIT).
    pub distances: Vec<Vec<u32>>,
    /// Time between two ticks, ns.
    pub tick_ns: u64,
    /// Online CPUs that this process may not use.
    pub others: usize,
}

impl Place {
    /// Their numbers as `0-3,8`.
    pub fn list(&self) -> String {
        ranges(&self.cpus)
    }
}

/// The place of this process on this machine.
pub fn place() -> anyhow::Result<Place> {
    let mask = sched_getaffinity(None)?;
    let allowed = |cpu: usize| cpu < CpuSet::MAX_CPU && mask.is_set(cpu);
    below(Path::new("/"), allowed)
}

/// The place on the machine with its files below `root`.
fn below(root: &Path, allowed: impl Fn(usize) -> bool) -> anyhow::Result<Place> {
    let topology = topology::below(root)?;
    let online = topology::online(root).unwrap_or_default();
    let cpus: Vec<usize> = online.iter().copied().filter(|cpu| allowed(*cpu)).collect();
    anyhow::ensure!(!cpus.is_empty(), "this process may run on no CPU that is online");
    let of = |numbers: &[u16]| cpus.iter().map(|cpu| numbers[*cpu]).collect::<Vec<u16>>();
    let capacity: Vec<u32> = cpus.iter().map(|cpu| topology::capacity(root, *cpu)).collect();
    let mut capacities = capacity.clone();
    capacities.sort_unstable_by(|a, b| b.cmp(a));
    capacities.dedup();
    let (cores, llcs, of_node) = (of(&topology.core), of(&topology.llc), of(&topology.node));
    let mut nodes: Vec<usize> = of_node.iter().map(|node| usize::from(*node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let parts: Vec<(u16, u16)> = llcs.into_iter().zip(of_node.iter().copied()).collect();
    let (cores, llcs, node_numbers) = (dense(&cores), dense(&parts), dense(&of_node));
    let kind = |capacity: &u32| capacities.iter().position(|it| it == capacity).unwrap_or(0) as u16;
    let rows = (0..cpus.len())
        .map(|at| [cores[at], llcs[at], node_numbers[at], kind(&capacity[at])])
        .collect();
    let distances = topology::distances(root, &nodes);
    let others = online.len() - cpus.len();
    Ok(Place { rows, capacities, nodes, distances, tick_ns: topology.tick_ns, others, cpus })
}

/// Numbers from 0 for these values, equal for equal ones, in order of value.
fn dense<T: Ord + Copy>(names: &[T]) -> Vec<u16> {
    let mut known = names.to_vec();
    known.sort_unstable();
    known.dedup();
    names.iter().map(|name| known.partition_point(|it| it < name) as u16).collect()
}

/// Runs this on a thread of its own that stays on one CPU; the mask ends with the thread.
pub(super) fn on<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let pinned = thread::Builder::new().spawn_scoped(scope, || {
            pin(cpu)?;
            Ok(work())
        })?;
        pinned.join().unwrap_or_else(|_| Err(io::Error::other("a measuring thread failed")))
    })
}

/// Keeps the calling thread on one CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn cpus_that_are_off_or_not_ours_leave_no_gap() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| put(root.path(), file, text);
        put("sys/devices/system/cpu/online", "0-1,4-7\n");
        put("sys/devices/cpu_atom/cpus", "6-7\n");
        for (cpu, core) in [(0, "0-1"), (1, "0-1"), (4, "4-5"), (5, "4-5"), (6, "6"), (7, "7")] {
            put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"), core);
            put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/level"), "3");
            put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list"), "0-7");
        }
        put("sys/devices/system/node/node0/cpulist", "0-1\n");
        put("sys/devices/system/node/node2/cpulist", "4-7\n");
        put("sys/devices/system/node/node0/distance", "10 30\n");
        put("sys/devices/system/node/node2/distance", "30 10\n");
        put("sys/devices/system/node/online", "0,2\n");
        let found = below(root.path(), |cpu| cpu != 1 && cpu != 5).unwrap();
        assert_eq!((&found.cpus[..], &*found.list()), (&[0, 4, 6, 7][..], "0,4,6-7"));
        let cores: Vec<u16> = found.rows.iter().map(|row| row[0]).collect();
        let kinds: Vec<u16> = found.rows.iter().map(|row| row[3]).collect();
        let nodes: Vec<u16> = found.rows.iter().map(|row| row[2]).collect();
        let llcs: Vec<u16> = found.rows.iter().map(|row| row[1]).collect();
        assert_eq!((cores, kinds, llcs), (vec![0, 1, 2, 3], vec![0, 0, 1, 1], vec![0, 1, 1, 1]));
        assert_eq!((nodes, found.nodes, found.others), (vec![0, 1, 1, 1], vec![0, 2], 2));
        assert_eq!(found.distances, [[10, 30], [30, 10]]);
        assert!(below(root.path(), |_| false).is_err());
    }

    #[test]
    fn each_node_has_its_part_of_a_cache_that_several_share() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| put(root.path(), file, text);
        put("sys/devices/system/cpu/online", "0-7\n");
        for cpu in 0..8 {
            let package = if cpu < 4 { "0-3" } else { "4-7" };
            put(&format!("sys/devices/system/cpu/cpu{cpu}/topology/package_cpus_list"), package);
        }
        for (node, cpus) in ["0-1", "2-3", "4-5", "6-7"].into_iter().enumerate() {
            put(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
        }
        let rows = below(root.path(), |_| true).unwrap().rows;
        let of = |part: usize| rows.iter().map(|row| row[part]).collect::<Vec<u16>>();
        let parts = vec![0, 0, 1, 1, 2, 2, 3, 3];
        assert_eq!((of(1), of(2)), (parts.clone(), parts));
    }

    #[test]
    fn a_mask_ends_with_its_thread() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = place().unwrap().cpus[0];
        let seen = on(cpu, || sched_getaffinity(None).unwrap().count()).unwrap();
        assert_eq!((seen, sched_getaffinity(None).unwrap()), (1, before));
    }
}
