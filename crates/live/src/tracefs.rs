// SPDX-License-Identifier: GPL-2.0-only
//! tracefs, where the kernel numbers its tracepoints: a file system that is not always mounted.

use std::ffi::CStr;
use std::path::Path;
use std::thread;

use anyhow::{Context, anyhow};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

const PLACE: &str = "/sys/kernel/tracing";

/// Whether this process sees it in its usual place.
pub(crate) fn is_open() -> bool {
    Path::new(PLACE).join("events").exists()
}

/// Calls `does`, which reads the numbers. If tracefs is not visible, a thread of its own calls it and mounts tracefs
/// for itself.
///
/// Fails if mounting is not permitted.
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
    // SAFETY: the thread unshares mounts and working directory only, and no descriptor.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tracefs", PLACE, "tracefs", flags, None::<&CStr>)
}
