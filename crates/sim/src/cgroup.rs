// SPDX-License-Identifier: GPL-2.0-only
//! The workload's cgroups, as the kernel numbers them.

use policy::{Cgroup, Quota};
use workload::{Group, Max, Workload};

/// The number of a group of the workload; None is the root, as the inode of its folder is 1.
pub(crate) fn cgroup_id(group: Option<usize>) -> u64 {
    group.map_or(1, |group| group as u64 + 2)
}

pub(crate) fn quota(max: Max) -> Quota {
    let [quota_ns, period_ns, burst_ns] =
        [max.quota_us, max.period_us, max.burst_us].map(|us| us * 1000);
    Quota { quota_ns, period_ns, burst_ns }
}

/// The root and a workload's groups, by number from 1.
pub(crate) fn cgroups(workload: &Workload) -> Vec<Cgroup> {
    let groups = &workload.groups;
    let of = |group: &Group| {
        let parent = groups.iter().position(|other| other.path == group.parent());
        let weight = if group.idle { 0 } else { group.weight };
        Cgroup { parent: cgroup_id(parent), weight, apart: true, quota: group.max.map(quota) }
    };
    std::iter::once(Cgroup::ROOT).chain(groups.iter().map(of)).collect()
}
