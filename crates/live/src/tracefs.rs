// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernel numbers its tracepoints: a file system that not everybody mounts.

use std::ffi::CStr;
use std::path::Path;
use std::thread;

use anyhow::{Context, anyhow};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

const PLACE: &str = "/sys/kernel/tracing";

/// Whether this process sees them where they belong.
pub(crate) fn is_open() -> bool {
    Path::new(PLACE).join("events").exists()
}

/// Does what reads the numbers: where they are not to be seen, on a thread of its own that mounts them for itself.
///
/// Fails where that may not be.
pub(crate) fn with<T: Send>(does: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    if is_open() {
        return Ok(does());
    }
    let private = || {
        mount_for_this_thread().with_context(|| {
            format!("no tracepoints in {PLACE}, mount them: mount -t tracefs tracefs {PLACE}")
        })?;
        Ok(does())
    };
    thread::scope(|scope| {
        scope.spawn(private).join().map_err(|_| anyhow!("the thread of tracefs fell over"))?
    })
}

fn mount_for_this_thread() -> rustix::io::Result<()> {
    // SAFETY: of what threads share it takes the mounts and the working directory alone, and no descriptor.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tracefs", PLACE, "tracefs", flags, None::<&CStr>)
}
