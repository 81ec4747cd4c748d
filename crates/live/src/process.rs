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
    // SAFETY: both calls take values alone, or a struct that lives through the call
    unsafe {
        checked(libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT))
            .context("cannot lock this process in memory")?;
        let lowest = libc::sched_param { sched_priority: 1 };
        checked(libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest))
            .context("cannot run above the policy (SCHED_FIFO)")
    }
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
