// SPDX-License-Identifier: GPL-2.0-only
//! The machine as the kernel describes it under /sys, for policies and for the observer.

use std::path::Path;
use std::{fs, io};

use anyhow::Context;
use policy::Topology;
use policy::table::TYPES_MAX;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// Core, cache and node of each online CPU of this machine.
pub fn topology() -> anyhow::Result<Topology> {
    below(Path::new("/"))
}

/// The topology of the machine with its files below `root`. Caches are numbered by their lowest CPU's order; a machine
/// without cache facts has one per package.
pub(crate) fn below(root: &Path) -> anyhow::Result<Topology> {
    let folder = root.join(CPUS);
    let cpus = online(root).with_context(|| match fs::read_to_string(folder.join("online")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            format!("cannot read /{CPUS}/online: {error}")
        }
        _ => format!("/{CPUS}/online is not there: mount /sys"),
    })?;
    let count = cpus.last().map_or(0, |last| last + 1);
    let zeros = vec![0; count];
    let mut topology = Topology {
        llc: zeros.clone(),
        core: (0..count as u16).collect(),
        node: zeros.clone(),
        core_type: zeros,
        missing: (0..count).map(|cpu| !cpus.contains(&cpu)).collect(),
        node_distance: Vec::new(),
        tick_ns: tick_ns(),
        tlb_tags: tlb_tags(&read(root.join("proc/cpuinfo")).unwrap_or_default()),
        ..Topology::default()
    };
    let mut caches: Vec<String> = Vec::new();
    for cpu in cpus.iter().copied() {
        let own = folder.join(format!("cpu{cpu}"));
        topology.core[cpu] = core(&own).map_or(topology.core[cpu], |core| core as u16);
        let group = last_level(&own).unwrap_or_default();
        let known = caches.iter().position(|other| *other == group);
        topology.llc[cpu] = known.unwrap_or(caches.len()) as u16;
        if known.is_none() {
            caches.push(group);
        }
    }
    let kinds = core_types(cpus.iter().map(|cpu| capacity(root, *cpu)).collect());
    cpus.iter().zip(kinds).for_each(|(cpu, kind)| topology.core_type[*cpu] = kind);
    let nodes = root.join(NODES);
    let all = numbered(&nodes, "node");
    for node in all.iter().copied() {
        let list = read(nodes.join(format!("node{node}/cpulist"))).unwrap_or_default();
        for cpu in cpu_list(&list).into_iter().filter(|cpu| *cpu < count) {
            topology.node[cpu] = node as u16;
        }
    }
    if let Some(last) = all.last().filter(|last| **last > 0) {
        let nodes: Vec<usize> = (0..=*last).collect();
        topology.node_distance = distances(root, &nodes);
    }
    Ok(topology)
}

/// Whether the TLB distinguishes address spaces, according to `/proc/cpuinfo`; None: it does not say.
pub(crate) fn tlb_tags(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "pcid"))
}

/// The online CPUs; None if the kernel does not say.
pub(crate) fn online(root: &Path) -> Option<Vec<usize>> {
    read(root.join(CPUS).join("online")).map(|list| cpu_list(&list))
}

/// Capacity of this CPU's core, of 1,024: `cpu_capacity`, if the kernel has it.
pub(crate) fn capacity(root: &Path, cpu: usize) -> u32 {
    let told = read(root.join(CPUS).join(format!("cpu{cpu}/cpu_capacity")));
    told.and_then(|text| text.parse().ok()).unwrap_or_else(|| hybrid(root, cpu))
}

/// The kind of each core, the fastest first. If there are more kinds than policies distinguish, the slowest count as
/// one.
fn core_types(capacities: Vec<u32>) -> Vec<u16> {
    let mut kinds = capacities.clone();
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    kinds.dedup();
    let kind = |capacity: &u32| kinds.iter().position(|kind| kind == capacity).unwrap_or(0);
    capacities.iter().map(|capacity| kind(capacity).min(TYPES_MAX - 1) as u16).collect()
}

/// Intel's uneven parts have a counter unit for each kind of core: the slower one is called atom. A still slower one,
/// apart from the others' cache, is called lowpower. A kernel that does not know the last has its cores in no unit.
fn hybrid(root: &Path, cpu: usize) -> u32 {
    const FASTEST: u32 = 1024;
    const SLOWER: u32 = 512;
    const SLOWEST: u32 = 256;
    let unit = |name: &str| read(root.join(format!("sys/devices/{name}/cpus")));
    let of = |list: Option<String>| list.is_some_and(|list| cpu_list(&list).contains(&cpu));
    let fast = unit("cpu_core");
    let uneven = fast.is_some();
    if of(unit("cpu_atom")) {
        SLOWER
    } else if of(unit("cpu_lowpower")) || (uneven && !of(fast)) {
        SLOWEST
    } else {
        FASTEST
    }
}

/// Distances of these nodes from each other, from SLIT; 10 and 20 if the kernel does not say.
pub(crate) fn distances(root: &Path, nodes: &[usize]) -> Vec<Vec<u32>> {
    let file = |node: usize| read(root.join(NODES).join(format!("node{node}/distance")));
    // A row has a number for each node that is online.
    let all = numbered(&root.join(NODES), "node");
    let far = |row: &[u32], from: usize, to: usize| {
        let told = all.iter().position(|node| *node == to).and_then(|at| row.get(at)).copied();
        match told {
            _ if from == to => 10,
            Some(far) if (11..=254).contains(&far) => far,
            _ => 20,
        }
    };
    let row = |from: &usize| {
        let told = file(*from).unwrap_or_default();
        let told: Vec<u32> = told.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        nodes.iter().map(|to| far(&told, *from, *to)).collect()
    };
    nodes.iter().map(row).collect()
}

/// The coarse clock advances only at ticks, so its resolution is their distance.
fn tick_ns() -> u64 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
}

/// Numbers in a list such as `0-3,8`.
pub fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The lowest CPU of the core that this CPU's folder belongs to.
fn core(cpu: &Path) -> Option<usize> {
    cpu_list(&read(cpu.join("topology/core_cpus_list"))?).first().copied()
}

/// The CPUs that share this one's outermost cache, as the kernel writes them.
fn last_level(cpu: &Path) -> Option<String> {
    let cache = cpu.join("cache");
    let outermost = numbered(&cache, "index")
        .into_iter()
        .filter_map(|index| {
            let level = read(cache.join(format!("index{index}/level")))?.parse::<u32>().ok()?;
            Some((level, index))
        })
        .filter(|(level, _)| *level >= 3)
        .max();
    match outermost {
        Some((_, index)) => read(cache.join(format!("index{index}/shared_cpu_list"))),
        None => read(cpu.join("topology/package_cpus_list")),
    }
}

fn read(file: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_string())
}

fn numbered(folder: &Path, prefix: &str) -> Vec<usize> {
    let mut numbers: Vec<usize> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::cpu_list;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("7"), [7]);
        assert!(cpu_list("\n").is_empty());
    }
}
