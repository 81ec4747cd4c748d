// SPDX-License-Identifier: GPL-2.0-only
//! How long each CPU has run, for work to be told from time.
//!
//! Where CPUs run side by side that is the time. Where they run one after the other on one clock, each for a turn
//! (QEMU's icount), it is what has passed in the CPU's own turns. Whose turn it is no event says; but each event happens
//! in its CPU's, and between two of them the CPUs that are busy come one after the other, by number.

/// Clocks of a machine's CPUs.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The longest turn, ns; 0: CPUs run side by side.
    turn_ns: u64,
    now_ns: u64,
    busy: Vec<bool>,
    ran_ns: Vec<u64>,
    /// Whose turn it seems to be, and since when.
    holder: usize,
    since_ns: u64,
}

impl Clocks {
    pub fn new(cpus: usize, turn_ns: f64) -> Self {
        let (busy, ran_ns) = (vec![false; cpus], vec![0; cpus]);
        Clocks { turn_ns: turn_ns as u64, now_ns: 0, busy, ran_ns, holder: 0, since_ns: 0 }
    }

    pub fn in_turn(&self) -> bool {
        self.turn_ns > 0
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How long this CPU has run, in ns; of one CPU only differences mean something.
    pub fn ran_ns(&self, cpu: usize) -> u64 {
        if self.in_turn() { self.ran_ns[cpu] } else { self.now_ns }
    }

    /// Whether this CPU has something to run from now on.
    pub fn set_busy(&mut self, cpu: usize, busy: bool) {
        self.busy[cpu] = busy;
    }

    /// Something happens then; on this CPU, if it is known.
    pub fn advance(&mut self, t_ns: u64, cpu: Option<usize>) {
        let t_ns = t_ns.max(self.now_ns);
        if self.in_turn() {
            self.take_turns(t_ns);
            if let Some(cpu) = cpu.filter(|cpu| *cpu != self.holder) {
                // It has had its turn since that of the other seemed to begin, as far as nothing happened there.
                let from_ns = self.since_ns.max(self.now_ns);
                self.ran_ns[self.holder] -= t_ns - from_ns;
                self.ran_ns[cpu] += t_ns - from_ns;
                (self.holder, self.since_ns) = (cpu, from_ns);
            }
        }
        self.now_ns = t_ns;
    }

    fn take_turns(&mut self, t_ns: u64) {
        let mut at_ns = self.now_ns;
        while at_ns < t_ns {
            if !self.busy[self.holder] || at_ns >= self.since_ns + self.turn_ns {
                (self.holder, self.since_ns) = (self.after(self.holder), at_ns);
            }
            at_ns += self.whole_rounds(t_ns - at_ns);
            let alone = self.after(self.holder) == self.holder;
            let end_ns = if alone { t_ns } else { t_ns.min(self.since_ns + self.turn_ns) };
            self.ran_ns[self.holder] += end_ns - at_ns;
            at_ns = end_ns;
        }
    }

    /// Rounds in which all that are busy have their turns change nothing but clocks: as many as fit into this time
    /// go by at once. How long they are together.
    fn whole_rounds(&mut self, left_ns: u64) -> u64 {
        // Seldom: what follows looks at every CPU.
        if left_ns / self.turn_ns <= 2 * self.busy.len() as u64 {
            return 0;
        }
        let busy = self.busy.iter().filter(|busy| **busy).count() as u64;
        if busy < 2 {
            return 0;
        }
        let turns_ns = left_ns / (busy * self.turn_ns) * self.turn_ns;
        for (ran_ns, busy) in self.ran_ns.iter_mut().zip(&self.busy) {
            *ran_ns += if *busy { turns_ns } else { 0 };
        }
        self.since_ns += busy * turns_ns;
        busy * turns_ns
    }

    /// The next CPU that is busy; the same where no other is.
    fn after(&self, cpu: usize) -> usize {
        let cpus = self.busy.len();
        (cpu + 1..cpu + cpus).map(|next| next % cpus).find(|next| self.busy[*next]).unwrap_or(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(cpus: usize, turn_ns: f64) -> Clocks {
        let mut clocks = Clocks::new(cpus, turn_ns);
        (0..cpus).for_each(|cpu| clocks.set_busy(cpu, true));
        clocks
    }

    fn ran(clocks: &Clocks) -> Vec<u64> {
        (0..clocks.busy.len()).map(|cpu| clocks.ran_ns(cpu)).collect()
    }

    #[test]
    fn side_by_side_all_run() {
        let mut clocks = busy(2, 0.0);
        clocks.advance(70, Some(1));
        clocks.advance(50, Some(0));
        assert_eq!((ran(&clocks), clocks.now_ns()), (vec![70, 70], 70), "clocks do not go back");
    }

    #[test]
    fn in_turn_each_has_its_part() {
        let mut clocks = busy(4, 10.0);
        clocks.advance(85, Some(0));
        assert_eq!(ran(&clocks), [25, 20, 20, 20]);
        clocks.set_busy(2, false);
        clocks.advance(125, None);
        assert_eq!(ran(&clocks), [40, 35, 20, 30], "5 left of the first one's, then three in turn");
    }

    #[test]
    fn years_of_turns_go_by_at_once() {
        let mut clocks = busy(4, 10.0);
        clocks.set_busy(3, false);
        clocks.advance(5, Some(0));
        let year_ns = 365 * 86_400 * 1_000_000_000;
        clocks.advance(year_ns, None);
        // As in 30,005 ns, and whole rounds of 30 more.
        let mut few = busy(4, 10.0);
        few.set_busy(3, false);
        few.advance(5, Some(0));
        few.advance(30_000 + year_ns % 30, None);
        let rounds = (year_ns - 30_000 - year_ns % 30) / 30 * 10;
        let expected = [0, 1, 2].map(|cpu| ran(&few)[cpu] + rounds);
        assert_eq!(ran(&clocks)[..3], expected);
        assert_eq!(clocks.holder, few.holder);
    }

    #[test]
    fn who_does_something_has_its_turn() {
        let mut clocks = busy(3, 10.0);
        clocks.advance(4, Some(2));
        assert_eq!(ran(&clocks), [0, 0, 4], "it began with that one");
        clocks.advance(6, Some(2));
        clocks.advance(9, Some(1));
        assert_eq!(ran(&clocks), [0, 3, 6], "what was seen stays");
        clocks.advance(19, Some(1));
        assert_eq!(ran(&clocks).iter().sum::<u64>(), 19, "nothing is lost");
    }

    #[test]
    fn who_has_nothing_to_run_has_no_turn() {
        let mut clocks = Clocks::new(3, 10.0);
        clocks.set_busy(1, true);
        clocks.advance(1_000_000_000, Some(1));
        assert_eq!(ran(&clocks), [0, 1_000_000_000, 0]);
    }
}
