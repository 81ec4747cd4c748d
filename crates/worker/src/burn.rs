// SPDX-License-Identifier: GPL-2.0-only
//! Burns CPU time of the calling thread.
//!
//! Reading a thread's CPU clock is a system call. So the burner spins in chunks, each nine tenths of the rest, and
//! reads the clock between them: a handful of calls for any length of work. It learns the speed for that.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU time of this thread.
pub(crate) fn cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// The wall clock that sleeps use.
pub(crate) fn wall_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

fn ns(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Longest time without a look at the clock or the stop flag.
const CHUNK_MAX_NS: u64 = 2_000_000;
/// Below this the next look at the clock would cost more than what remains.
const CLOSE_ENOUGH_NS: u64 = 500;

/// A burner and the speed that it has learnt for this CPU.
pub(crate) struct Burner {
    /// Spins per µs of CPU time.
    spins_per_us: u64,
}

impl Burner {
    pub(crate) fn new() -> Burner {
        Burner { spins_per_us: 100 }
    }

    /// Burns `work_ns` of CPU time; ends early if `stopped`. Returns the time it has burnt.
    pub(crate) fn burn(&mut self, work_ns: u64, stopped: impl Fn() -> bool) -> u64 {
        let start = cpu_ns();
        let mut now = start;
        while now - start + CLOSE_ENOUGH_NS < work_ns && !stopped() {
            let chunk_ns = ((work_ns - (now - start)) * 9 / 10).min(CHUNK_MAX_NS);
            let spins = (chunk_ns * self.spins_per_us / 1000).max(16);
            spin(spins);
            let after = cpu_ns();
            self.learn(spins, after - now);
            now = after;
        }
        now - start
    }

    /// Burns until the wall clock shows `until_ns`.
    pub(crate) fn burn_until(&mut self, until_ns: u64, stopped: impl Fn() -> bool) {
        while wall_ns() < until_ns && !stopped() {
            let left = until_ns.saturating_sub(wall_ns()).min(20_000);
            spin((left * self.spins_per_us / 1000).max(16));
        }
    }

    /// A lower speed is adopted at once, a higher one bit by bit. If CPUs take turns (a guest under icount), a chunk
    /// that fits into one turn looks many times faster than the next, and a chunk that is too long overshoots.
    fn learn(&mut self, spins: u64, took_ns: u64) {
        let seen = (spins * 1000 / took_ns.max(1)).clamp(1, 100_000);
        // A short chunk gives a poor upper bound: the clock's own cost is in it.
        let most = self.spins_per_us + (self.spins_per_us / 8).max(1);
        self.spins_per_us = seen.min(most);
    }
}

fn spin(spins: u64) {
    for turn in 0..spins {
        std::hint::black_box(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_burnt_is_cpu_time_and_neither_less_nor_much_more() {
        let mut burner = Burner::new();
        for work_ns in [0, 1_000, 30_000, 700_000, 20_000_000] {
            let before = cpu_ns();
            let burnt = burner.burn(work_ns, || false);
            let used = cpu_ns() - before;
            assert!(burnt + CLOSE_ENOUGH_NS >= work_ns, "{burnt} of {work_ns} ns");
            // Accounting may charge an interrupt's time to the thread; a tenth is ample.
            assert!(used <= work_ns + work_ns / 10 + 1_000_000, "{used} for {work_ns} ns");
        }
    }

    #[test]
    fn a_stopped_burner_stops() {
        let burnt = Burner::new().burn(u64::MAX / 2, || true);
        assert_eq!(burnt, 0);
    }
}
