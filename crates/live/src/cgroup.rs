// SPDX-License-Identifier: GPL-2.0-only
//! Limits of CPU time that a policy would ignore: `cpu.max` and `cpu.weight`, and version 1's equivalents, act on Linux's
//! own class.

use std::fmt;
use std::fs;
use std::path::Path;

/// The hierarchy of version 2, on every recent distribution. Hierarchies of version 1, if there are any, are below it.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// A limit that differs from the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The group, from the root of the hierarchy: `/user.slice`.
    pub group: String,
    /// `cpu.max` or `cpu.weight`; of version 1 `cpu.cfs_quota_us` or `cpu.shares`.
    pub file: &'static str,
    /// In the kernel's format, such as `50000 100000`: 50000 µs of CPU time in each 100000 µs.
    pub value: String,
}

impl Limit {
    /// Whether it caps its group's CPU time; weights only say how groups share.
    pub fn caps(&self) -> bool {
        matches!(self.file, "cpu.max" | "cpu.cfs_quota_us")
    }
}

/// In a line: `/user.slice/cpu.max is 50000 100000`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} is {}", self.group.trim_end_matches('/'), self.file, self.value)
    }
}

/// All limits below `root`, ordered by group. A missing hierarchy has none.
pub fn limits(root: &Path) -> Vec<Limit> {
    let mut found = Vec::new();
    walk(root, "", &mut |folder, group| of_group(folder, group, &mut found));
    found.sort_by(|a, b| (&a.group, a.file).cmp(&(&b.group, b.file)));
    found
}

/// Limits of the group that this process is in, and of all groups around it.
pub fn own_limits(root: &Path) -> Vec<Limit> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    of_member(root, &text)
}

/// Limits of the groups that a `/proc/TID/cgroup` names.
fn of_member(root: &Path, membership: &str) -> Vec<Limit> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let Some((controllers, own)) = line.split_once(':').and_then(|(_, of)| of.split_once(':'))
        else {
            continue;
        };
        // The folder of a hierarchy of version 1 has the name of its controllers, or a link of that name.
        let own = match controllers.split(',').any(|name| name == "cpu") {
            true => format!("/cpu{own}"),
            false if controllers.is_empty() => own.to_string(),
            false => continue,
        };
        let own = own.trim_end_matches('/');
        for (at, _) in own.match_indices('/').skip(1).chain([(own.len(), "")]) {
            let group = &own[..at];
            of_group(&root.join(group.trim_start_matches('/')), group, &mut found);
        }
    }
    found
}

/// CPUs that a cpuset allows now: of the group that a `/proc/TID/cgroup` names, or of the next group around it with a
/// cpuset. None: there is none, or it is not visible from here.
pub(crate) fn cpuset(root: &Path, membership: &str) -> Option<String> {
    let group = membership.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut groups = Path::new(group).ancestors().filter(|_| !group.starts_with(".."));
    groups.find_map(|group| fs::read_to_string(root.join(group).join("cpuset.cpus.effective")).ok())
}

/// Visits a group and all that are in it: its folder, and its path from the root.
pub(crate) fn walk(folder: &Path, group: &str, visit: &mut dyn FnMut(&Path, &str)) {
    visit(folder, group);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            walk(&entry.path(), &format!("{group}/{name}"), visit);
        }
    }
}

/// Files of limits, and the value of each that means no limit.
const FILES: [(&str, &str); 4] =
    [("cpu.max", "max"), ("cpu.weight", "100"), ("cpu.cfs_quota_us", "-1"), ("cpu.shares", "1024")];

fn of_group(folder: &Path, group: &str, found: &mut Vec<Limit>) {
    for (file, unset) in FILES {
        let Ok(value) = fs::read_to_string(folder.join(file)) else { continue };
        let value = value.trim();
        if value.split(' ').next() != Some(unset) {
            let group = if group.is_empty() { "/" } else { group };
            found.push(Limit { group: group.into(), file, value: value.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_cpuset_is_in_that_of_the_next_around_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("web/workers")).unwrap();
        let cpuset = |membership: &str| cpuset(root.path(), membership);
        assert_eq!(cpuset("0::/web/workers\n"), None);
        fs::write(root.path().join("web/cpuset.cpus.effective"), "0-3\n").unwrap();
        assert_eq!(cpuset("1:name=systemd:/x\n0::/web/workers\n").as_deref(), Some("0-3\n"));
        assert_eq!(cpuset("0::/\n"), None);
        fs::write(root.path().join("cpuset.cpus.effective"), "0-7\n").unwrap();
        assert_eq!(cpuset("0::/\n").as_deref(), Some("0-7\n"));
        assert_eq!(cpuset("0::/../web\n"), None, "it is around this process's own root");
    }

    #[test]
    fn only_a_value_other_than_the_default_is_a_limit() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, max: &str, weight: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpu.max"), max).unwrap();
            fs::write(folder.join("cpu.weight"), weight).unwrap();
        };
        group("plain", "max 100000\n", "100\n");
        group("plain/heavy", "max 100000\n", "200\n");
        group("capped", "50000 100000\n", "100\n");
        let limit = |group: &str, file, value: &str| Limit {
            group: group.into(),
            file,
            value: value.into(),
        };
        assert_eq!(
            limits(root.path()),
            [
                limit("/capped", "cpu.max", "50000 100000"),
                limit("/plain/heavy", "cpu.weight", "200")
            ]
        );
        assert!(limits(&root.path().join("none")).is_empty());
        let folder = root.path().join("cpu/old");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cpu.shares"), "1024\n").unwrap();
        fs::write(folder.join("cpu.cfs_quota_us"), "50000\n").unwrap();
        let member = of_member(root.path(), "3:cpu,cpuacct:/old/inner\n1:name=systemd:/\n");
        let [limit] = &member[..] else { panic!("{member:?}") };
        assert_eq!((&*limit.group, limit.file), ("/cpu/old", "cpu.cfs_quota_us"));
        assert!(limits(root.path()).contains(limit));
    }
}
