// SPDX-License-Identifier: GPL-2.0-only
//! How much each node's memory is asked for, by the kernel's own monitors (`resctrl`, mounted and with MBM): all that
//! cores fetch and write back, prefetches included, whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::topology;

const RESCTRL: &str = "sys/fs/resctrl";

/// Bytes that each node's memory has given and taken since some moment. Empty: nobody monitors it.
///
/// A monitor is of a cache: what its cores ask of memory, and what part of that is their own nodes'. The rest is taken
/// to be spread evenly over the other nodes.
pub(super) fn by_node(root: &Path) -> Vec<u64> {
    let caches = monitored(&root.join(RESCTRL));
    if caches.is_empty() {
        return Vec::new();
    }
    let nodes = nodes_of_caches(root);
    let count = nodes.values().flatten().max().map_or(0, |last| last + 1);
    let mut bytes = vec![0; count];
    for (cache, [all, local]) in &caches {
        let Some(own) = nodes.get(cache) else { continue };
        let remote = all.saturating_sub(*local);
        let others = count - own.len();
        for (node, bytes) in bytes.iter_mut().enumerate() {
            *bytes += match own.contains(&node) {
                true => local / own.len() as u64,
                false => remote / others.max(1) as u64,
            };
        }
    }
    bytes
}

/// All bytes and local ones by cache, of all groups of tasks together.
fn monitored(root: &Path) -> BTreeMap<u32, [u64; 2]> {
    let mut caches = BTreeMap::new();
    for group in groups(root) {
        for (name, folder) in folders(&group.join("mon_data")) {
            let Some(cache) = name.strip_prefix("mon_L3_").and_then(|id| id.parse().ok()) else {
                continue;
            };
            // A file says so in words where its monitor has nothing to tell.
            let read = |file| {
                let text = fs::read_to_string(folder.join(file)).ok()?;
                text.trim().parse::<u64>().ok()
            };
            let sum: &mut [u64; 2] = caches.entry(cache).or_default();
            for (sum, file) in sum.iter_mut().zip(["mbm_total_bytes", "mbm_local_bytes"]) {
                *sum += read(file).unwrap_or(0);
            }
        }
    }
    caches.retain(|_, [all, _]| *all > 0);
    caches
}

/// The root group, control groups, and groups that only monitor.
fn groups(root: &Path) -> Vec<PathBuf> {
    let mut groups = vec![root.to_path_buf()];
    groups.extend(folders(root).into_iter().map(|(_, folder)| folder));
    let monitors: Vec<PathBuf> = groups
        .iter()
        .flat_map(|group| folders(&group.join("mon_groups")))
        .map(|own| own.1)
        .collect();
    groups.extend(monitors);
    groups.retain(|group| group.join("mon_data").is_dir());
    groups
}

fn folders(of: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|own| (own.file_name().to_string_lossy().into_owned(), own.path())).collect()
}

/// Nodes of the CPUs under each last-level cache, by the number that the kernel gives it.
fn nodes_of_caches(root: &Path) -> BTreeMap<u32, BTreeSet<usize>> {
    let Ok(topology) = topology::below(root) else { return BTreeMap::new() };
    let mut nodes: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for cpu in topology::online(root).unwrap_or_default() {
        let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/id"));
        let id = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        if let Some(id) = id {
            nodes.entry(id).or_default().insert(usize::from(topology.node[cpu]));
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Two nodes of two CPUs, a cache each.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = root.path();
        write(own, "sys/devices/system/cpu/online", "0-3\n");
        for cpu in 0..4 {
            let id = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/id");
            write(own, &id, &format!("{}\n", cpu / 2));
        }
        write(own, "sys/devices/system/node/node0/cpulist", "0-1\n");
        write(own, "sys/devices/system/node/node1/cpulist", "2-3\n");
        root
    }

    fn monitor(root: &Path, group: &str, cache: u32, all: &str, local: &str) {
        let folder = format!("{RESCTRL}/{group}mon_data/mon_L3_{cache:02}");
        write(root, &format!("{folder}/mbm_total_bytes"), all);
        write(root, &format!("{folder}/mbm_local_bytes"), local);
    }

    #[test]
    fn all_groups_count_and_what_is_not_local_is_another_node_s() {
        let root = machine();
        monitor(root.path(), "", 0, "1000\n", "600\n");
        monitor(root.path(), "", 1, "50\n", "50\n");
        monitor(root.path(), "batch/", 0, "10\n", "10\n");
        monitor(root.path(), "mon_groups/mine/", 1, "7\n", "5\n");
        monitor(root.path(), "batch/mon_groups/his/", 1, "Unavailable\n", "Error\n");
        assert_eq!(by_node(root.path()), [612, 455]);
    }

    #[test]
    fn a_machine_that_monitors_nothing_tells_nothing() {
        let root = machine();
        assert!(by_node(root.path()).is_empty());
        monitor(root.path(), "", 0, "Unavailable\n", "Unavailable\n");
        assert!(by_node(root.path()).is_empty());
    }
}
