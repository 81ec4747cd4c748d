// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling classes of processes: of the one that holds a policy, and of those that ask for it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

/// include/uapi/linux/sched.h; libc does not have it yet.
const SCHED_EXT: libc::c_int = 7;

/// Puts this process above every policy, with its memory locked: a policy that starves everybody must
/// not starve the one that can take it out. Its children begin in Linux's own class.
pub fn outrank_policies() -> anyhow::Result<()> {
    let all = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the call takes values alone
    checked(unsafe { libc::mlockall(all) }).context("cannot lock this process in memory")?;
    outrank_thread().context("cannot run above the policy (SCHED_FIFO)")
}

/// Puts this thread above all that are not real-time.
pub(crate) fn outrank_thread() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call, which keeps no pointer to it
    checked(unsafe { libc::sched_setscheduler(0, class, &lowest) })
}

/// Whether this process may do what root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Has a command and all its children ask for SCHED_EXT: a policy in partial mode takes no others.
pub fn ask_for_sched_ext(command: &mut Command) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: sched_setscheduler may be called between fork and exec
    unsafe {
        command.pre_exec(move || checked(libc::sched_setscheduler(0, SCHED_EXT, &none)));
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
