// SPDX-License-Identifier: GPL-2.0-only
//! The guest's machine: mounts, the loopback device, time constants, power.

use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use live::Standing;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use crate::folders::{APPLETS, WRITTEN};

/// /tmp is not among them: like all of the root it is in memory, and it may hold files of the caller's.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/run"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Time constants of the default class, in whatever unit: all are scaled by the same factor.
const CONSTANTS: &[&str] = &[
    "base_slice_ns",
    "migration_cost_ns",
    "numa_balancing/scan_delay_ms",
    "numa_balancing/scan_period_min_ms",
    "numa_balancing/scan_period_max_ms",
];

/// Mounts, sets up loopback, and raises the agent above the policy it measures. Returns the agent's scheduling before,
/// which is for the commands.
pub(crate) fn prepare() -> anyhow::Result<Standing> {
    for (kind, place) in MOUNTS {
        // debugfs and similar file systems have mount points already; ordinary folders are made
        let _ = fs::create_dir_all(place);
        mount_kind(kind, place, c"")?;
    }
    fs::create_dir_all(WRITTEN)?;
    mount_kind("tmpfs", WRITTEN, c"size=64m")?;
    fs::create_dir_all(APPLETS)?;
    busybox(&["--install", "-s", APPLETS])?;
    busybox(&["ifconfig", "lo", "127.0.0.1", "up"])?;
    busybox(&["hostname", "guest"])?;
    let before = Standing::now();
    rise()?;
    Ok(before)
}

/// An empty file system in memory.
pub(crate) fn mount_tmpfs(place: &str) -> anyhow::Result<()> {
    mount_kind("tmpfs", place, c"")
}

fn mount_kind(kind: &str, place: &str, how: &CStr) -> anyhow::Result<()> {
    mount(kind, place, kind, MountFlags::empty(), how)
        .with_context(|| format!("mounting {kind} on {place}"))
}

/// Scales Linux's own time constants for a clock on which a CPU gets 1/`factor` of each second.
pub(crate) fn dilate(factor: u64) -> anyhow::Result<()> {
    if factor == 1 {
        return Ok(());
    }
    for name in CONSTANTS {
        let file = Path::new("/sys/kernel/debug/sched").join(name);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let value: u64 = text.trim().parse().with_context(|| file.display().to_string())?;
        fs::write(&file, (value * factor).to_string())
            .with_context(|| format!("scaling {} by {factor}", file.display()))?;
    }
    Ok(())
}

/// Ends the guest.
pub(crate) fn power_off() -> ! {
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // reached only without the right to power off, which process 1 has
    std::process::exit(1)
}

/// A policy that starves its tasks must not starve the agent that reports it. Children start as ordinary tasks, except
/// for the timer slack: real-time tasks have none (`__sched_setscheduler`).
fn rise() -> anyhow::Result<()> {
    let parameter = libc::sched_param { sched_priority: 50 };
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call, which keeps no pointer to it
    let failed = unsafe { libc::sched_setscheduler(0, class, &parameter) } != 0;
    anyhow::ensure!(!failed, "cannot raise the agent: {}", std::io::Error::last_os_error());
    Ok(())
}

pub(crate) fn busybox(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("/bin/busybox").args(arguments).status().context("/bin/busybox")?;
    anyhow::ensure!(status.success(), "busybox {} failed", arguments.join(" "));
    Ok(())
}
