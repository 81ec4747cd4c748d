// SPDX-License-Identifier: GPL-2.0-only
//! Facts about threads from /proc.

use std::{fs, io};

use crate::program::{PARENT, SESSION, fields, listed, text};

/// More fields of `stat`.
const FLAGS: usize = 6;
const NICE: usize = 16;
const START: usize = 19;
const PROCESSOR: usize = 36;
const POLICY: usize = 38;

const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
const PF_KTHREAD: u64 = 0x0020_0000;
/// SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
const REAL_TIME: [u64; 3] = [1, 2, 6];

/// The relevant fields of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub parent: u32,
    pub session: u32,
    /// In ticks since boot; identifies the thread together with its id.
    pub start: u64,
    pub cpu: usize,
    pub nice: i32,
    /// It is a user thread, of a class that a policy is for, and its mask may be changed.
    pub may_be_steered: bool,
}

impl Stat {
    pub fn of(tid: u32) -> Option<Self> {
        Stat::parse(&text(format!("/proc/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let all = fields(text)?;
        let number = |at: usize| all.get(at)?.parse::<u64>().ok();
        let flags = number(FLAGS)?;
        let own = flags & (PF_NO_SETAFFINITY | PF_KTHREAD) == 0;
        Some(Stat {
            parent: number(PARENT)? as u32,
            session: all.get(SESSION)?.parse::<i64>().ok()?.max(0) as u32,
            start: number(START)?,
            cpu: number(PROCESSOR)? as usize,
            nice: all.get(NICE)?.parse().ok()?,
            may_be_steered: own && !REAL_TIME.contains(&number(POLICY)?),
        })
    }

    /// Whether its parent has ended and it was reparented since this moment (in ticks since boot). Then its new parent
    /// is of another session, and it has not begun that session itself.
    pub fn is_orphan(&self, process: u32, parents_session: u32, since: u64) -> bool {
        self.start >= since && ![process, parents_session].contains(&self.session)
    }

    /// Its nice value as `cpu.weight`: a quarter more for each step.
    pub fn weight(&self) -> u32 {
        (100.0 * 1.25_f64.powi(-self.nice)).round().clamp(1.0, 10_000.0) as u32
    }
}

/// CPU time, and time waited for a CPU, in ns since it began. None: it has ended, or the kernel does not count.
pub(crate) fn times(tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// All threads, each with its process. Fails if they cannot be read: a partial list would make threads count as ended.
pub(crate) fn all_threads() -> io::Result<Vec<(u32, u32)>> {
    let mut all = Vec::new();
    for tgid in listed("/proc")? {
        all.extend(listed(&format!("/proc/{tgid}/task"))?.into_iter().map(|tid| (tid, tgid)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_be_steered_and_a_kernel_thread_not() {
        let own = Stat::of(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 \
                      18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 3 0 0 0 0 0";
        let kernel = Stat::parse(kernel).unwrap();
        assert_eq!((kernel.start, kernel.cpu, kernel.may_be_steered), (7, 0, false));
    }

    #[test]
    fn a_reparented_process_is_an_orphan() {
        let own = Stat::of(std::process::id()).unwrap();
        let of = |session| Stat { start: 100, session, ..own };
        assert!(of(20).is_orphan(30, 1, 100), "sh -c 'x & exit' leaves it to init");
        assert!(!of(20).is_orphan(30, 20, 100), "a shell's command");
        assert!(!of(30).is_orphan(30, 1, 100), "a service begins a session");
        assert!(!of(20).is_orphan(30, 1, 101), "it had its mask before");
    }

    #[test]
    fn nice_values_are_weights() {
        let of = |nice| Stat { nice, ..Stat::of(std::process::id()).unwrap() }.weight();
        assert_eq!((of(0), of(-5), of(5)), (100, 305, 33));
    }
}
