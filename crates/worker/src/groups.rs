// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups of a workload's tasks, made below the cgroup of this process, for threads, and removed when this value is
//! dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use workload::{Group, Workload};

use crate::error::Error;

const ROOT: &str = "/sys/fs/cgroup";

/// Folders of the groups, in the workload's order: each after its parent.
pub struct Groups(Vec<PathBuf>);

impl Groups {
    /// The groups that a worker will make for this process. Dropping the value removes them, since a killed worker
    /// leaves them behind. Groups that exist already are not included.
    pub fn to_come(workload: &Workload) -> Self {
        let mut all = folders(workload);
        all.retain(|folder| !folder.exists());
        Groups(all)
    }

    pub(crate) fn make(workload: &Workload) -> Result<Self, Error> {
        let mut made = Groups(Vec::new());
        if workload.groups.is_empty() {
            return Ok(made);
        }
        for (group, folder) in workload.groups.iter().zip(folders(workload)) {
            let failed = |cause| Error::Group { path: folder.display().to_string(), cause };
            fs::create_dir(&folder).map_err(failed)?;
            made.0.push(folder.clone());
            prepare(&folder, group).map_err(failed)?;
        }
        Ok(made)
    }

    /// Puts the calling thread into a group.
    pub(crate) fn enter(&self, group: usize) -> Result<(), Errno> {
        let entered = fs::write(self.0[group].join("cgroup.threads"), "0");
        entered.map_err(|e| e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

fn folders(workload: &Workload) -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let base = Path::new(ROOT).join(own);
    let groups = workload.groups.iter();
    groups.map(|group| base.join(group.path.trim_start_matches('/'))).collect()
}

/// Makes a new group accept threads, and sets its weight and its limit.
fn prepare(folder: &Path, group: &Group) -> io::Result<()> {
    fs::write(folder.join("cgroup.type"), "threaded")?;
    if let Some(parent) = folder.parent() {
        fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
    }
    fs::write(folder.join("cpu.weight"), group.weight.to_string())?;
    // Files that a kernel lacks are asked for only if they are needed.
    if group.idle {
        fs::write(folder.join("cpu.idle"), "1")?;
    }
    let Some(max) = group.max else { return Ok(()) };
    fs::write(folder.join("cpu.max"), format!("{} {}", max.quota_us, max.period_us))?;
    match max.burst_us {
        0 => Ok(()),
        burst_us => fs::write(folder.join("cpu.max.burst"), burst_us.to_string()),
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        /// Attempts: a killed task stays in its group for a moment.
        const TRIES: usize = 100;
        for folder in self.0.iter().rev() {
            for _ in 0..TRIES {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    // Groups that others have made in the folder stay, and so does the folder.
                    _ => break,
                }
            }
        }
    }
}
