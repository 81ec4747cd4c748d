// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups by number, and limits of CPU time that a policy would ignore: `cpu.max` and `cpu.weight`, and version 1's
//! equivalents, act on Linux's own class.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use policy::{Cgroup, Quota};

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

/// What is known of a group is read again after this time.
pub(crate) const FRESH: Duration = Duration::from_millis(500);

/// Groups by number, which is the inode of their folder, looked up on demand.
pub(crate) struct Hierarchy {
    root: PathBuf,
    /// The root of a hierarchy of the kernel, whose folders can be opened by number.
    opened: Option<File>,
    fresh: Duration,
    known: RefCell<BTreeMap<u64, Known>>,
}

struct Known {
    folder: PathBuf,
    group: Cgroup,
    read: Instant,
}

impl Hierarchy {
    /// Groups are read again after this time.
    pub(crate) fn new(root: &Path, fresh: Duration) -> Self {
        let opened = File::open(root).ok().filter(is_of_the_kernel);
        Hierarchy { root: root.to_path_buf(), opened, fresh, known: RefCell::default() }
    }

    /// A group as it was a moment ago. None: it was removed, or belongs to another hierarchy.
    pub(crate) fn of(&self, id: u64) -> Option<Cgroup> {
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.get(&id).filter(|known| known.read.elapsed() < self.fresh) {
            return Some(known.group);
        }
        let was = known.remove(&id).map(|known| known.folder);
        let folder = was.filter(|folder| inode(folder) == Some(id)).or_else(|| self.folder(id))?;
        let group = self.read(&folder)?;
        known.insert(id, Known { folder, group, read: Instant::now() });
        Some(group)
    }

    fn read(&self, folder: &Path) -> Option<Cgroup> {
        let parent = if folder == self.root { 0 } else { inode(folder.parent()?)? };
        // The root has no weight: no other group competes with it.
        let text = fs::read_to_string(folder.join("cpu.weight")).ok();
        let apart = text.is_some() || parent == 0;
        let weight = text.and_then(|text| text.trim().parse().ok()).unwrap_or(100);
        // Recent kernels give an idle group's weight as 1, older ones as 0.
        let weight = if weight == 1 && is_idle(folder) { 0 } else { weight };
        let quota = if apart { quota(folder) } else { None };
        Some(Cgroup { parent, weight, apart, quota })
    }

    fn folder(&self, id: u64) -> Option<PathBuf> {
        if let Some(root) = &self.opened {
            let folder = open_by_number(root, id).ok()?;
            return fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok();
        }
        let mut found = None;
        walk(&self.root, "", &mut |folder, _| {
            if inode(folder) == Some(id) {
                found = Some(folder.to_path_buf());
            }
        });
        found
    }
}

/// Whether a folder is of a hierarchy of version 2 (CGROUP2_SUPER_MAGIC of linux/magic.h).
fn is_of_the_kernel(folder: &File) -> bool {
    const MAGIC: u64 = 0x6367_7270;
    rustix::fs::fstatfs(folder).is_ok_and(|of| of.f_type as u64 == MAGIC)
}

/// The kernel's handle of a group's folder (FILEID_KERNFS of linux/exportfs.h).
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    number: u64,
}

fn open_by_number(root: &File, number: u64) -> io::Result<OwnedFd> {
    let mut handle = Handle { bytes: size_of::<u64>() as u32, kind: 0xfe, number };
    // SAFETY: the handle is as long as it says, in the layout of struct file_handle.
    let fd = unsafe {
        let handle = (&raw mut handle).cast::<libc::file_handle>();
        libc::open_by_handle_at(root.as_raw_fd(), handle, libc::O_PATH | libc::O_CLOEXEC)
    };
    match fd {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: it was just opened, and is handed over.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// A group's `cpu.idle`.
fn is_idle(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cpu.idle")).is_ok_and(|text| text.trim() == "1")
}

/// A group's `cpu.max`; None: there is no limit.
fn quota(folder: &Path) -> Option<Quota> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let ns = |text: &str| text.trim().parse().ok().map(|us: u64| us * 1000);
    let (quota_ns, period_ns) =
        text.split_once(' ').map(|(quota, period)| (ns(quota), ns(period)))?;
    // Kernels before 5.14 have no bursts.
    let burst = fs::read_to_string(folder.join("cpu.max.burst")).ok();
    let burst_ns = burst.and_then(|text| ns(&text)).unwrap_or(0);
    Some(Quota { quota_ns: quota_ns?, period_ns: period_ns?, burst_ns })
}

fn inode(folder: &Path) -> Option<u64> {
    Some(fs::metadata(folder).ok()?.ino())
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
fn walk(folder: &Path, group: &str, visit: &mut dyn FnMut(&Path, &str)) {
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
    fn a_group_is_found_by_its_inode_and_read_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::new(root.path(), Duration::ZERO);
        let group = |path: &str, weight: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpu.weight"), weight).unwrap();
            inode(&folder).unwrap()
        };
        let (web, workers) = (group("web", "400\n"), group("web/workers", "100\n"));
        let top = inode(root.path()).unwrap();
        assert_eq!(
            hierarchy.of(workers),
            Some(Cgroup { parent: web, weight: 100, apart: true, quota: None })
        );
        assert_eq!(
            hierarchy.of(web),
            Some(Cgroup { parent: top, weight: 400, apart: true, quota: None })
        );
        assert_eq!(
            hierarchy.of(top),
            Some(Cgroup { parent: 0, weight: 100, apart: true, quota: None })
        );
        fs::create_dir(root.path().join("plain")).unwrap();
        let plain = hierarchy.of(inode(&root.path().join("plain")).unwrap()).unwrap();
        assert!(!plain.apart, "the controller is off in it");
        group("web", "50\n");
        assert_eq!(hierarchy.of(web).unwrap().weight, 50);
        fs::remove_dir_all(root.path().join("web")).unwrap();
        assert_eq!(hierarchy.of(workers), None);
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
