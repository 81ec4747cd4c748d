// SPDX-License-Identifier: GPL-2.0-only
//! Memory that this process can still have: the rest of the machine's, and of the limits of the cgroups around it.

use std::fs;
use std::path::Path;

/// Bytes of memory that this process can still have; None: the kernel does not tell.
pub fn available_bytes() -> Option<usize> {
    below(Path::new("/"))
}

/// The same for the machine with its files below `root`.
fn below(root: &Path) -> Option<usize> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let machine = bytes_of(&text, "MemAvailable:")?;
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    Some(left(&root.join("sys/fs/cgroup"), &own).map_or(machine, |left| left.min(machine)))
}

/// Bytes by this name in a file of the kernel's that counts in kB, such as `/proc/meminfo`.
pub fn bytes_of(text: &str, name: &str) -> Option<usize> {
    let (_, number) = text.lines().find_map(|line| line.split_once(name))?;
    Some(number.trim().strip_suffix(" kB")?.parse::<usize>().ok()? << 10)
}

/// The least that is left in any group that a `/proc/PID/cgroup` names, or in any of their ancestors. None: no such
/// group has a limit.
fn left(groups: &Path, membership: &str) -> Option<usize> {
    let of_line = |line: &str| {
        let (controllers, own) = line.split_once(':')?.1.split_once(':')?;
        let (root, files) = match controllers {
            "" => (groups.to_path_buf(), &UNIFIED),
            _ if controllers.split(',').any(|it| it == "memory") => (groups.join("memory"), &OLD),
            _ => return None,
        };
        // A process in a cgroup namespace sees only a subtree, under another path or none: its root is there.
        let around = Path::new(own.trim_start_matches('/')).ancestors();
        around.filter_map(|group| of_group(&root.join(group), files)).min()
    };
    membership.lines().filter_map(of_line).min()
}

/// A group's files: its limit, its usage, and the line of `memory.stat` for inactive file pages. The kernel reclaims
/// those before it refuses an allocation.
type Files = [&'static str; 3];
const UNIFIED: Files = ["memory.max", "memory.current", "inactive_file"];
const OLD: Files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];

/// Memory left in a group. None: it has no limit, or there is no such group.
fn of_group(folder: &Path, [limit, usage, idle]: &Files) -> Option<usize> {
    let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let number = |file: &str| text(file)?.trim().parse::<usize>().ok();
    let (most, used) = (number(limit)?, number(usage)?);
    let stat = text("memory.stat").unwrap_or_default();
    let found = stat.lines().find_map(|line| line.strip_prefix(*idle)?.strip_prefix(' '));
    let idle = found.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(idle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn what_is_left_is_the_least_of_the_machine_and_of_all_groups_around() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let available = || below(root);
        assert_eq!(available(), None);
        put(root, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n");
        assert_eq!(available(), Some(4 << 20), "no groups");
        put(root, "proc/self/cgroup", "1:name=systemd:/x\n0::/pod/job\n");
        let group = |path: &str, max: &str, current: &str| {
            put(root, &format!("sys/fs/cgroup/{path}/memory.max"), max);
            put(root, &format!("sys/fs/cgroup/{path}/memory.current"), current);
        };
        group("pod/job", "max\n", "500000\n");
        assert_eq!(available(), Some(4 << 20), "no limit");
        group("pod", "3000000\n", "1000000\n");
        assert_eq!(available(), Some(2_000_000));
        group("pod/job", "1500000\n", "500000\n");
        assert_eq!(available(), Some(1_000_000));
        put(root, "sys/fs/cgroup/pod/job/memory.stat", "file 9\ninactive_file 200000\n");
        assert_eq!(available(), Some(1_200_000), "files' pages give way");
        group("pod", "3000000\n", "3500000\n");
        assert_eq!(available(), Some(0), "the limit was lowered");
    }

    #[test]
    fn groups_of_version_1_have_limits_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let membership = "5:cpu,cpuacct:/\n4:hugetlb,memory:/of/the/host\n0::/\n";
        assert_eq!(left(root, membership), None);
        put(root, "memory/memory.limit_in_bytes", "900000\n");
        put(root, "memory/memory.usage_in_bytes", "400000\n");
        put(root, "memory/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\n");
        assert_eq!(
            left(root, membership),
            Some(600_000),
            "of the container's root, whose path is another"
        );
    }
}
