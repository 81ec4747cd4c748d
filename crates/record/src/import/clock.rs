// SPDX-License-Identifier: GPL-2.0-only
//! A trace's clock, which may jump and go back.

/// A trace's clock, from its first event on.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Subtracted from its times.
    base_ns: Option<i128>,
    pub latest_ns: u64,
    /// The latest time of each CPU.
    of_cpus: Vec<u64>,
    pub jumps: u64,
    /// Times that went back on a CPU.
    pub backwards: u64,
}

impl Clock {
    /// Events of several CPUs are out of order by no more than this.
    const BACK_NS: i128 = 1_000_000_000;
    /// Every machine has events more often than this.
    const FORTH_NS: i128 = 60_000_000_000;

    /// The time of an event since the first one. If the clock jumps, as to another capture in the same text, it
    /// continues from the last time. Otherwise a running task would have worked, and a sleeping one slept, for all of
    /// the jump. If a CPU's time goes back a little, its clock stands still.
    pub fn at(&mut self, t_ns: u64, cpu: u32) -> u64 {
        let latest_ns = i128::from(self.latest_ns);
        let base_ns = self.base_ns.get_or_insert(t_ns.into());
        let mut at_ns = i128::from(t_ns) - *base_ns;
        if !(-Self::BACK_NS..=Self::FORTH_NS).contains(&(at_ns - latest_ns)) {
            *base_ns += at_ns - latest_ns;
            at_ns = latest_ns;
            self.jumps += 1;
        }
        let at_ns = u64::try_from(at_ns).unwrap_or(0);
        let count = self.of_cpus.len().max(cpu as usize + 1);
        self.of_cpus.resize(count, 0);
        let of_cpu_ns = &mut self.of_cpus[cpu as usize];
        self.backwards += u64::from(at_ns < *of_cpu_ns);
        *of_cpu_ns = at_ns.max(*of_cpu_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
        *of_cpu_ns
    }

    /// A time that is no event's, if it is not before the first event.
    pub fn beside(&self, t_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(t_ns) - self.base_ns?).ok()
    }
}
