// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling: threads with a cookie share a core only with threads of the same cookie. The kernel then chooses for
//! all threads of a core at once, which no policy of sched_ext is made for.

use rustix::io::{Errno, Result};
use rustix::process::Pid;
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie};

use crate::affinity::all_threads;
use crate::program::name;

/// How to be rid of cookies.
pub const END_COOKIES: &str =
    "end what set it, or turn SMT off (echo off > /sys/devices/system/cpu/smt/control)";

/// A thread with a cookie, such as `123 (sh)`; None: there is none that this process may ask about, or the machine has
/// one thread for each core.
pub fn core_scheduled() -> Option<String> {
    let threads = all_threads().ok()?.into_iter().map(|(tid, _)| tid);
    let tid = with_cookie(threads, |tid| {
        let pid = i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        core_scheduling_cookie(pid, CoreSchedulingScope::Thread)
    })?;
    Some(format!("{tid} ({})", name(tid).unwrap_or_default()))
}

/// The first thread with a cookie.
fn with_cookie(
    mut threads: impl Iterator<Item = u32>,
    cookie_of: impl Fn(u32) -> Result<u64>,
) -> Option<u32> {
    threads.find_map(|tid| match cookie_of(tid) {
        Ok(0) => None,
        Ok(_) => Some(Some(tid)),
        // One thread for each core, or a kernel without core scheduling.
        Err(Errno::NODEV | Errno::INVAL) => Some(None),
        // It has ended, or is another user's.
        Err(_) => None,
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_with_a_cookie_is_found_behind_those_that_have_ended() {
        let of = |tid| [Ok(0), Err(Errno::SRCH), Err(Errno::PERM), Ok(5), Ok(7)][tid as usize];
        assert_eq!(with_cookie(0..5, of), Some(3));
        assert_eq!(with_cookie(0..3, of), None);
    }

    #[test]
    fn a_kernel_without_it_is_asked_once() {
        let asked = std::cell::Cell::new(0);
        let refuses = |_| {
            asked.set(asked.get() + 1);
            Err(Errno::NODEV)
        };
        assert_eq!((with_cookie(0..5, refuses), asked.get()), (None, 1));
    }
}
