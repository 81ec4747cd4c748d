// SPDX-License-Identifier: GPL-2.0-only
//! A cache line that several CPUs read and write.

use machine::CpuSet;

use crate::ids::CpuId;
use crate::whole::LineCost;

/// A cache line: its last writer, and its readers since.
#[derive(Clone, Debug)]
pub struct Line {
    owner: CpuId,
    readers: CpuSet,
    /// End of the last atomic operation on it: they come one after the other.
    busy_ns: u64,
}

impl Line {
    /// A line that `cpu` wrote.
    pub fn new(cpu: CpuId) -> Self {
        Line { owner: cpu, readers: CpuSet::EMPTY, busy_ns: 0 }
    }

    /// The last writer.
    #[inline]
    pub(crate) fn owner(&self) -> CpuId {
        self.owner
    }

    /// When an atomic operation of `cpu` is done that starts at `now_ns` with this cost.
    pub(crate) fn atomic(&mut self, now_ns: u64, cpu: CpuId, cost: LineCost) -> u64 {
        // A write far in the future belongs to code that was simulated early: do not wait for it.
        let queue_ns = if self.busy_ns < now_ns + 4 * cost.fetch_ns { self.busy_ns } else { 0 };
        let done_ns = now_ns.max(queue_ns) + cost.atomic_ns;
        self.busy_ns = self.busy_ns.max(done_ns);
        self.owner = cpu;
        self.readers = CpuSet::EMPTY;
        done_ns
    }

    /// Whether `cpu` has it: it has written or read it since the last write of another CPU.
    #[inline]
    pub(crate) fn has(&self, cpu: CpuId) -> bool {
        self.owner == cpu || self.readers.has(cpu)
    }

    /// `cpu` has it from now on, too.
    #[inline]
    pub(crate) fn read(&mut self, cpu: CpuId) {
        self.readers.add(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: LineCost = LineCost { fetch_ns: 50, atomic_ns: 60 };

    #[test]
    fn a_line_is_fetched_once_after_each_write() {
        let mut line = Line::new(0);
        assert!(line.has(0) && !line.has(5));
        line.read(5);
        assert!(line.has(5));
        line.atomic(0, 0, COST);
        assert!(!line.has(5));
    }

    #[test]
    fn atomics_of_many_cpus_come_one_after_the_other() {
        let mut line = Line::new(0);
        let done: Vec<u64> = (1..4).map(|cpu| line.atomic(0, cpu, COST)).collect();
        assert!(done.windows(2).all(|pair| pair[1] > pair[0]), "{done:?}");
    }
}
