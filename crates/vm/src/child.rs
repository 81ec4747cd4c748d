// SPDX-License-Identifier: GPL-2.0-only
//! Programs that this process starts.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// A guest, or a download, does not outlive the process that started it, however that process ends.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: one system call between fork and exec; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(())
        });
    }
}
