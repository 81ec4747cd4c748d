// SPDX-License-Identifier: GPL-2.0-only
//! A cache line that several CPUs read and write.

use machine::{CpuSet, Machine};

use crate::task::CpuId;

/// A cache line: who wrote it last, and who has read it since.
#[derive(Clone, Debug)]
pub struct Line {
    owner: CpuId,
    readers: CpuSet,
    /// Until when an atomic operation on it lasts: they come one after the other.
    busy_ns: u64,
}

impl Line {
    /// A line that `cpu` wrote.
    pub fn new(cpu: CpuId) -> Self {
        Line { owner: cpu, readers: CpuSet::EMPTY, busy_ns: 0 }
    }

    /// When an atomic operation of `cpu` that starts at `now_ns` is done.
    pub(crate) fn atomic(&mut self, now_ns: u64, cpu: CpuId, machine: &Machine) -> u64 {
        // A write far in the future belongs to code that was simulated early: do not wait for it.
        let line_ns = machine.line_ns(self.owner, cpu);
        let queue_ns = if self.busy_ns < now_ns + 4 * line_ns as u64 { self.busy_ns } else { 0 };
        let done_ns = now_ns.max(queue_ns) + (line_ns + machine.costs.atomic_ns) as u64;
        self.busy_ns = self.busy_ns.max(done_ns);
        self.owner = cpu;
        self.readers = CpuSet::EMPTY;
        done_ns
    }

    /// When `cpu`, which starts at `now_ns`, has read it.
    pub(crate) fn read(&mut self, now_ns: u64, cpu: CpuId, machine: &Machine) -> u64 {
        if self.owner == cpu || self.readers.has(cpu) {
            return now_ns;
        }
        self.readers.add(cpu);
        now_ns + machine.line_ns(self.owner, cpu) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fetched_once_after_each_write() {
        let machine = machine::find("numa-2x4").unwrap();
        let mut line = Line::new(0);
        let first = line.read(0, 5, &machine);
        assert_eq!(first, machine.costs.line_remote_ns as u64);
        assert_eq!(line.read(0, 5, &machine), 0);
        line.atomic(0, 0, &machine);
        assert_eq!(line.read(0, 5, &machine), first);
    }

    #[test]
    fn atomics_of_many_cpus_come_one_after_the_other() {
        let machine = machine::find("numa-2x4").unwrap();
        let mut line = Line::new(0);
        let done: Vec<u64> = (1..4).map(|cpu| line.atomic(0, cpu, &machine)).collect();
        assert!(done.windows(2).all(|pair| pair[1] > pair[0]), "{done:?}");
    }
}
