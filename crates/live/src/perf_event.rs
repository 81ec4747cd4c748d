// SPDX-License-Identifier: GPL-2.0-only
//! Opens events of the counter units, and of the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_sys::perf_event_attr;
use rustix::process::Resource;

/// The events to count: a CPU's or a thread's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// All on a CPU: needs CAP_PERFMON.
    Cpu(usize),
    /// A thread's, wherever it runs.
    Thread(u32),
}

/// Opens a counter that counts from now on, and never takes turns with others. A CPU's counter also has its counting
/// time.
pub(crate) fn open(kind: u32, config: u64, of: Target) -> io::Result<OwnedFd> {
    let mut wanted = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config,
        ..perf_event_attr::default()
    };
    wanted.set_pinned(1);
    match of {
        Target::Thread(_) => wanted.set_exclude_kernel(1),
        Target::Cpu(_) => {
            wanted.read_format = u64::from(libbpf_sys::PERF_FORMAT_TOTAL_TIME_ENABLED);
        }
    }
    opened(&wanted, of)
}

/// Files that counters of threads leave for others: for /proc, without which masks could not be restored.
pub(crate) const FILES_LEFT: u64 = 64;

/// Opens the described event.
pub(crate) fn opened(wanted: &perf_event_attr, of: Target) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let (thread, cpu) = match of {
        Target::Cpu(cpu) => (-1, cpu as i32),
        Target::Thread(tid) => (tid as i32, -1),
    };
    let no_group = -1;
    // SAFETY: the kernel reads the struct during the call; what it returns is a new descriptor
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(wanted),
            thread,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is ours and open
    let opened = unsafe { OwnedFd::from_raw_fd(opened as i32) };
    let most = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    match of {
        Target::Thread(_) if opened.as_raw_fd() as u64 + FILES_LEFT >= most => {
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        }
        _ => Ok(opened),
    }
}
