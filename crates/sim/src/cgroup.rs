// SPDX-License-Identifier: GPL-2.0-only
//! The workload's cgroups, as the kernel numbers them.

use policy::Cgroup;
use workload::{Group, Workload};

/// The number of a group of the workload; None is the root, as the inode of its folder is 1.
pub(crate) fn cgroup_id(group: Option<usize>) -> u64 {
    group.map_or(1, |group| group as u64 + 2)
}

/// The root and a workload's groups, by number from 1.
pub(crate) fn cgroups(workload: &Workload) -> Vec<Cgroup> {
    let groups = &workload.groups;
    let of = |group: &Group| {
        let parent = groups.iter().position(|other| other.path == group.parent());
        Cgroup { parent: cgroup_id(parent), weight: group.weight, apart: true }
    };
    std::iter::once(Cgroup::ROOT).chain(groups.iter().map(of)).collect()
}
