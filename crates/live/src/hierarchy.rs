// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups by number, which is the inode of their folder, for control planes.
//!
//! There may be thousands, and a control plane asks for each ten times a second. So a group is read once, and again if
//! the kernel says that one of its files was written to. In case that fails, each group is also read again every few
//! seconds. If the kernel does not watch as many folders, every group is read twice a second.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use policy::{Cgroup, Quota};

use crate::cgroup::walk;
use crate::watch::{Change, Watch};

const MS: u64 = 1_000_000;
/// A group that is not watched is read again after this time, ns.
const FRESH_NS: u64 = 500 * MS;
/// A watched one is read again after five to ten seconds, not all of them at the same time.
const CHECKED_NS: u64 = 5000 * MS;
/// A group that was not asked for in this many looks is forgotten.
const FORGOTTEN: u64 = 50;

/// Groups, looked up on demand.
pub(crate) struct Hierarchy {
    folders: Folders,
    known: RefCell<BTreeMap<u64, Known>>,
    /// None: groups cannot be watched.
    watch: RefCell<Option<Watch>>,
    now_ns: Cell<u64>,
    looks: Cell<u64>,
}

/// Folders of groups by number.
pub(crate) struct Folders {
    pub root: PathBuf,
    /// The root of a hierarchy of the kernel, whose folders can be opened by number.
    opened: Option<File>,
}

impl Folders {
    pub(crate) fn new(root: &Path) -> Self {
        let opened = File::open(root).ok().filter(is_of_the_kernel);
        Folders { root: root.to_path_buf(), opened }
    }

    /// None: the group was removed, or belongs to another hierarchy.
    pub(crate) fn of(&self, id: u64) -> Option<PathBuf> {
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

struct Known {
    folder: PathBuf,
    group: Cgroup,
    watch: Option<i32>,
    /// When it is to be read again.
    due_ns: u64,
    /// The look that last asked for it.
    asked: u64,
}

/// What was written to or removed since the last look, by number.
#[derive(Default)]
struct Changed {
    groups: BTreeSet<u64>,
    /// Groups that gave those in them the controller, or took it from them.
    switched: BTreeSet<u64>,
    /// Removed ones, by the group around them.
    removed: BTreeSet<(u64, OsString)>,
}

impl Hierarchy {
    pub(crate) fn new(root: &Path) -> Self {
        Hierarchy {
            folders: Folders::new(root),
            known: RefCell::default(),
            watch: RefCell::new(Watch::new().ok()),
            now_ns: Cell::new(0),
            looks: Cell::new(0),
        }
    }

    /// Begins a look: from here on groups are as they are now.
    pub(crate) fn look(&self, now_ns: u64) {
        self.now_ns.set(now_ns);
        self.looks.update(|looks| looks + 1);
        let changes = self.watch.borrow_mut().as_mut().map(Watch::changes);
        let mut known = self.known.borrow_mut();
        match changes {
            Some(Some(changes)) if changes.is_empty() => {}
            Some(Some(changes)) => {
                let changed = Changed::of(changes);
                let due = known.iter_mut().filter(|(id, one)| changed.has(**id, one));
                due.for_each(|(_, one)| one.due_ns = now_ns);
            }
            Some(None) => known.values_mut().for_each(|one| one.due_ns = now_ns),
            None => {
                let watched = known.values_mut().filter(|one| one.watch.is_some());
                watched.for_each(|one| (one.watch, one.due_ns) = (None, now_ns));
            }
        }
        let looks = self.looks.get();
        if looks.is_multiple_of(FORGOTTEN) {
            for (_, one) in known.extract_if(.., |_, one| one.asked + FORGOTTEN <= looks) {
                self.unwatch(one.watch);
            }
        }
    }

    /// A group as it was at the last look. None: it was removed, or belongs to another hierarchy.
    pub(crate) fn of(&self, id: u64) -> Option<Cgroup> {
        let (now_ns, asked) = (self.now_ns.get(), self.looks.get());
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.get_mut(&id).filter(|known| now_ns < known.due_ns) {
            known.asked = asked;
            return Some(known.group);
        }
        let (was, watched) = known.remove(&id).map(|known| (known.folder, known.watch)).unzip();
        let was = was.filter(|folder| inode(folder) == Some(id));
        let Some(folder) = was.or_else(|| self.folders.of(id)) else {
            self.unwatch(watched.flatten());
            return None;
        };
        // Before it is read, so that a change meanwhile is told.
        let watch = self.watch(&folder, id);
        if watch.is_none() {
            self.unwatch(watched.flatten());
        }
        let Some(group) = self.read(&folder) else {
            self.unwatch(watch);
            return None;
        };
        let after_ns = match watch {
            Some(_) => CHECKED_NS + id % 50 * CHECKED_NS / 50,
            None => FRESH_NS,
        };
        known.insert(id, Known { folder, group, watch, due_ns: now_ns + after_ns, asked });
        Some(group)
    }

    /// Watches a group. None: it is not watched.
    fn watch(&self, folder: &Path, id: u64) -> Option<i32> {
        let mut all = self.watch.borrow_mut();
        match all.as_mut()?.add(folder, id) {
            Ok(watch) => Some(watch),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // There are too many. What happens to a group is told in part by the one around it, so it is all or none.
            Err(_) => {
                *all = None;
                None
            }
        }
    }

    fn unwatch(&self, watch: Option<i32>) {
        if let (Some(own), Some(all)) = (watch, self.watch.borrow_mut().as_mut()) {
            all.remove(own);
        }
    }

    fn read(&self, folder: &Path) -> Option<Cgroup> {
        let parent = if folder == self.folders.root { 0 } else { inode(folder.parent()?)? };
        // The root has no weight: no other group competes with it.
        let text = value(folder, "cpu.weight");
        let apart = text.is_some() || parent == 0;
        let weight = text.and_then(|text| text.trim().parse().ok()).unwrap_or(100);
        // Recent kernels give an idle group's weight as 1, older ones as 0.
        let weight = if weight == 1 && is_idle(folder) { 0 } else { weight };
        let quota = if apart { quota(folder) } else { None };
        Some(Cgroup { parent, weight, apart, quota })
    }
}

impl Changed {
    fn of(changes: Vec<Change>) -> Self {
        let mut changed = Changed::default();
        for Change { within, name, removed } in changes {
            if removed {
                changed.removed.insert((within, name));
            } else if name == "cgroup.subtree_control" {
                changed.switched.insert(within);
            } else if name.as_bytes().starts_with(b"cpu.") {
                changed.groups.insert(within);
            }
        }
        changed
    }

    /// Whether a group may have changed.
    fn has(&self, id: u64, one: &Known) -> bool {
        let parent = one.group.parent;
        let is_removed = || {
            let name = one.folder.file_name();
            name.is_some_and(|name| self.removed.contains(&(parent, name.to_os_string())))
        };
        self.groups.contains(&id)
            || self.switched.contains(&parent)
            || (!self.removed.is_empty() && is_removed())
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

/// The value of a group's file, in three system calls. None: it has no such file.
fn value(folder: &Path, name: &str) -> Option<String> {
    let mut text = [0; 64];
    let length = File::open(folder.join(name)).ok()?.read(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// A group's `cpu.idle`.
fn is_idle(folder: &Path) -> bool {
    value(folder, "cpu.idle").is_some_and(|text| text.trim() == "1")
}

/// A group's `cpu.max`; None: there is no limit.
fn quota(folder: &Path) -> Option<Quota> {
    let text = value(folder, "cpu.max")?;
    let ns = |text: &str| text.trim().parse().ok().map(|us: u64| us * 1000);
    let (quota_ns, period_ns) =
        text.split_once(' ').map(|(quota, period)| (ns(quota), ns(period)))?;
    // Kernels before 5.14 have no bursts.
    let burst = value(folder, "cpu.max.burst");
    let burst_ns = burst.and_then(|text| ns(&text)).unwrap_or(0);
    Some(Quota { quota_ns: quota_ns?, period_ns: period_ns?, burst_ns })
}

pub(crate) fn inode(folder: &Path) -> Option<u64> {
    Some(fs::metadata(folder).ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::Mapped;

    const SECOND_NS: u64 = 1000 * MS;

    /// A tree of groups, and what is known of it.
    struct Tree {
        root: tempfile::TempDir,
        hierarchy: Hierarchy,
    }

    impl Tree {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let hierarchy = Hierarchy::new(root.path());
            Tree { root, hierarchy }
        }

        /// Makes a group, or changes it. Returns its number.
        fn group(&self, path: &str, weight: &str) -> u64 {
            let folder = self.root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpu.weight"), weight).unwrap();
            inode(&folder).unwrap()
        }

        fn at(&self, now_ns: u64, id: u64) -> Option<Cgroup> {
            self.hierarchy.look(now_ns);
            self.hierarchy.of(id)
        }

        fn weight(&self, now_ns: u64, id: u64) -> Option<u32> {
            self.at(now_ns, id).map(|group| group.weight)
        }

        /// Changes a weight so that no watch tells.
        fn set_unseen(&self, path: &str, weight: [u8; 3]) {
            let path = self.root.path().join(path).join("cpu.weight");
            let file = File::options().read(true).write(true).open(path).unwrap();
            let memory = Mapped::new(&file, weight.len(), true).unwrap();
            // SAFETY: the file has as many bytes, and so has the mapping.
            unsafe { memory.start.cast().write(weight) };
        }

        fn watches(&self) -> usize {
            let known = self.hierarchy.known.borrow();
            known.values().filter(|known| known.watch.is_some()).count()
        }
    }

    #[test]
    fn a_group_is_found_by_its_inode_and_read_as_it_is() {
        let tree = Tree::new();
        let (web, workers) = (tree.group("web", "400\n"), tree.group("web/workers", "100\n"));
        let top = inode(tree.root.path()).unwrap();
        let group = |parent, weight| Some(Cgroup { parent, weight, apart: true, quota: None });
        assert_eq!(tree.at(0, workers), group(web, 100));
        assert_eq!(tree.at(0, web), group(top, 400));
        assert_eq!(tree.at(0, top), group(0, 100));
        fs::create_dir(tree.root.path().join("plain")).unwrap();
        let plain = tree.at(0, inode(&tree.root.path().join("plain")).unwrap()).unwrap();
        assert!(!plain.apart, "the controller is off in it");
    }

    #[test]
    fn a_look_finds_what_was_written_since_the_last_one() {
        let tree = Tree::new();
        let (web, beside) = (tree.group("web", "400\n"), tree.group("beside", "100\n"));
        assert_eq!((tree.weight(0, web), tree.weight(0, beside)), (Some(400), Some(100)));
        tree.group("web", "50\n");
        assert_eq!(tree.hierarchy.of(web).unwrap().weight, 400, "within a look nothing changes");
        assert_eq!((tree.weight(1, web), tree.weight(1, beside)), (Some(50), Some(100)));
        fs::write(tree.root.path().join("web/cpu.max"), "5000 10000\n").unwrap();
        assert_eq!(tree.at(2, web).unwrap().quota.unwrap().quota_ns, 5_000_000);
    }

    #[test]
    fn a_removed_group_is_missed_at_once_and_the_next_of_its_name_is_another() {
        let tree = Tree::new();
        let top = inode(tree.root.path()).unwrap();
        let (web, next) = (tree.group("web", "400\n"), tree.group("next", "60\n"));
        assert_eq!((tree.weight(0, web), tree.weight(0, top)), (Some(400), Some(100)));
        let folder = |name| tree.root.path().join(name);
        fs::remove_dir_all(folder("web")).unwrap();
        fs::rename(folder("next"), folder("web")).unwrap();
        assert_eq!((tree.weight(1, web), tree.weight(1, next)), (None, Some(60)));
        assert_eq!(tree.watches(), 2, "those of the root and of the next one");
    }

    #[test]
    fn a_controller_that_is_turned_off_is_seen_at_once() {
        let tree = Tree::new();
        let top = inode(tree.root.path()).unwrap();
        let web = tree.group("web", "400\n");
        assert!(tree.at(0, web).unwrap().apart && tree.at(0, top).unwrap().apart);
        // The kernel removes the file by itself, which no watch tells.
        fs::rename(tree.root.path().join("web/cpu.weight"), tree.root.path().join("gone")).unwrap();
        fs::write(tree.root.path().join("cgroup.subtree_control"), "-cpu").unwrap();
        assert!(!tree.at(1, web).unwrap().apart);
    }

    #[test]
    fn a_group_is_not_read_before_it_changes_but_for_a_check_within_ten_seconds() {
        let tree = Tree::new();
        let web = tree.group("web", "400");
        assert_eq!(tree.weight(0, web), Some(400));
        tree.set_unseen("web", *b"300");
        for now_ns in (0..5 * SECOND_NS).step_by(100 * MS as usize) {
            assert_eq!(tree.weight(now_ns, web), Some(400), "{now_ns}");
        }
        assert_eq!(tree.weight(10 * SECOND_NS, web), Some(300));
    }

    #[test]
    fn groups_that_cannot_be_watched_any_more_are_read_twice_a_second() {
        let tree = Tree::new();
        let web = tree.group("web", "400");
        assert_eq!(tree.weight(0, web), Some(400));
        tree.set_unseen("web", *b"300");
        *tree.hierarchy.watch.borrow_mut() = None;
        assert_eq!(tree.weight(1, web), Some(300));
        tree.set_unseen("web", *b"200");
        assert_eq!(tree.weight(FRESH_NS, web), Some(300));
        assert_eq!(tree.weight(FRESH_NS + 1, web), Some(200));
    }

    #[test]
    fn a_group_that_is_not_asked_for_is_forgotten() {
        let tree = Tree::new();
        let (web, beside) = (tree.group("web", "400"), tree.group("beside", "100"));
        assert_eq!((tree.weight(0, web), tree.weight(0, beside)), (Some(400), Some(100)));
        assert_eq!(tree.watches(), 2);
        for _ in 0..2 * FORGOTTEN {
            assert_eq!(tree.weight(0, web), Some(400));
        }
        assert_eq!(tree.watches(), 1);
        assert_eq!(tree.weight(0, beside), Some(100));
    }
}
