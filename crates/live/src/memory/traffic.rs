// SPDX-License-Identifier: GPL-2.0-only
//! Traffic of each node's memory, from the kernel's own monitors (`resctrl`, mounted and with MBM): everything that
//! cores fetch and write back, prefetches included, for all processes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::topology;

const RESCTRL: &str = "sys/fs/resctrl";

/// Nodes of the CPUs under each last-level cache.
type Caches = BTreeMap<u32, BTreeSet<usize>>;

/// Bytes read from and written to each node's memory.
#[derive(Default)]
pub(super) struct Traffic {
    /// The caches, and the CPUs that were online when they were read: each CPU has a file about them.
    caches: RefCell<(Vec<usize>, Caches)>,
}

impl Traffic {
    /// Bytes of each node since some moment. Empty: there is no monitor.
    ///
    /// A monitor is a cache's: it has the bytes that its cores transfer, and the part on their own nodes. The rest is
    /// taken as spread evenly over the other nodes.
    pub fn by_node(&self, root: &Path) -> Vec<u64> {
        let monitored = monitored(&root.join(RESCTRL));
        if monitored.is_empty() {
            return Vec::new();
        }
        let online = topology::online(root).unwrap_or_default();
        let (known, nodes) = &mut *self.caches.borrow_mut();
        if *known != online {
            (*nodes, *known) = (nodes_of_caches(root, &online), online);
        }
        let count = nodes.values().flatten().max().map_or(0, |last| last + 1);
        let mut bytes = vec![0; count];
        for (cache, [all, local]) in &monitored {
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
}

/// All bytes and local ones by cache, summed over all groups of tasks.
fn monitored(root: &Path) -> BTreeMap<u32, [u64; 2]> {
    let mut caches = BTreeMap::new();
    for group in groups(root) {
        for (name, folder) in folders(&group.join("mon_data")) {
            let Some(cache) = name.strip_prefix("mon_L3_").and_then(|id| id.parse().ok()) else {
                continue;
            };
            // If a monitor has no value, its file has words instead.
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

/// The root group, and control groups: a group's own sum includes its monitored subsets of tasks (`mon_groups`).
fn groups(root: &Path) -> Vec<PathBuf> {
    let mut groups = vec![root.to_path_buf()];
    groups.extend(folders(root).into_iter().map(|(_, folder)| folder));
    groups.retain(|group| group.join("mon_data").is_dir());
    groups
}

fn folders(of: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|own| (own.file_name().to_string_lossy().into_owned(), own.path())).collect()
}

/// The nodes of each cache, by the kernel's number of the cache.
fn nodes_of_caches(root: &Path, online: &[usize]) -> Caches {
    let Ok(topology) = topology::below(root) else { return Caches::new() };
    let mut nodes = Caches::new();
    // A CPU may have come or gone between both readings.
    for cpu in online.iter().copied().filter(|cpu| *cpu < topology.node.len()) {
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

    /// Two nodes of two CPUs, with a cache each.
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
        monitor(root.path(), "batch/", 1, "Unavailable\n", "Error\n");
        assert_eq!(Traffic::default().by_node(root.path()), [610, 450]);
    }

    #[test]
    fn what_is_monitored_of_a_group_s_tasks_is_in_its_sum() {
        let root = machine();
        monitor(root.path(), "", 0, "1000\n", "600\n");
        monitor(root.path(), "mon_groups/mine/", 0, "300\n", "200\n");
        monitor(root.path(), "batch/", 1, "10\n", "10\n");
        monitor(root.path(), "batch/mon_groups/his/", 1, "10\n", "10\n");
        assert_eq!(Traffic::default().by_node(root.path()), [600, 410]);
    }

    #[test]
    fn caches_are_looked_at_again_where_cpus_came_or_went() {
        let root = machine();
        monitor(root.path(), "", 1, "50\n", "50\n");
        let traffic = Traffic::default();
        assert_eq!(traffic.by_node(root.path()), [0, 50]);
        fs::remove_dir_all(root.path().join("sys/devices/system/node")).unwrap();
        assert_eq!(traffic.by_node(root.path()), [0, 50], "no thread came or went");
        write(root.path(), "sys/devices/system/cpu/online", "0-2\n");
        assert_eq!(traffic.by_node(root.path()), [50]);
    }

    #[test]
    fn a_machine_that_monitors_nothing_tells_nothing() {
        let root = machine();
        assert!(Traffic::default().by_node(root.path()).is_empty());
        monitor(root.path(), "", 0, "Unavailable\n", "Unavailable\n");
        assert!(Traffic::default().by_node(root.path()).is_empty());
    }
}
