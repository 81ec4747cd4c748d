// SPDX-License-Identifier: GPL-2.0-only
//! Limits of CPU time that a policy would ignore: `cpu.max` and `cpu.weight` act on Linux's own class.

use std::fs;
use std::path::Path;

/// Where the hierarchy of version 2 is, on every distribution of the last years.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// A limit that somebody has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The group, from the root of the hierarchy: `/user.slice`.
    pub group: String,
    /// `cpu.max` or `cpu.weight`.
    pub file: &'static str,
    /// As the kernel prints it, such as `50000 100000`: of so many µs it may run so many.
    pub value: String,
}

/// All limits below `root`, ordered by group. A hierarchy that is not there has none.
pub fn limits(root: &Path) -> Vec<Limit> {
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found.sort_by(|a, b| (&a.group, a.file).cmp(&(&b.group, b.file)));
    found
}

/// Those of the group that this process is in, and of all groups around it.
pub fn own_limits(root: &Path) -> Vec<Limit> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mut found = Vec::new();
    for (at, _) in own.match_indices('/').skip(1).chain([(own.len(), "")]) {
        let group = own[..at].trim_end_matches('/');
        of_group(&root.join(group.trim_start_matches('/')), group, &mut found);
    }
    found
}

fn walk(folder: &Path, group: &str, found: &mut Vec<Limit>) {
    of_group(folder, group, found);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            walk(&entry.path(), &format!("{group}/{name}"), found);
        }
    }
}

fn of_group(folder: &Path, group: &str, found: &mut Vec<Limit>) {
    for (file, unset) in [("cpu.max", "max"), ("cpu.weight", "100")] {
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
    fn only_what_somebody_set_is_a_limit() {
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
    }
}
