// SPDX-License-Identifier: GPL-2.0-only
//! How long each CPU has run, to tell work from time.
//!
//! If CPUs run side by side, that is the time. If they run one after the other on one clock (QEMU's icount), it is the
//! time of the CPU's own turns. No event names the CPU that has its turn. But each event happens in its CPU's turn, and
//! between two events the busy CPUs take turns by number. Turns end at whole multiples of their length from each other,
//! so many events together show when.

use crate::{Event, Kind};

/// Parts of a turn that votes distinguish.
const PARTS: usize = 500;

/// Clocks of a machine's CPUs.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The longest turn, ns; 0: CPUs run side by side.
    turn_ns: u64,
    /// A time at which a turn ends; all others end whole turns before or after it.
    ends_ns: u64,
    now_ns: u64,
    busy: Vec<bool>,
    ran_ns: Vec<u64>,
    /// The CPU that seems to have its turn.
    holder: usize,
}

impl Clocks {
    pub fn new(cpus: usize, turn_ns: f64) -> Self {
        let (busy, ran_ns) = (vec![false; cpus], vec![0; cpus]);
        Clocks { turn_ns: turn_ns as u64, ends_ns: 0, now_ns: 0, busy, ran_ns, holder: 0 }
    }

    pub fn in_turn(&self) -> bool {
        self.turn_ns > 0
    }

    /// Finds from these events when turns end.
    pub fn find_turns(&mut self, events: &[Event]) {
        self.ends_ns = end_of_turns(events, self.busy.len(), self.turn_ns);
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How long this CPU has run, in ns. Only differences on one CPU are meaningful.
    pub fn ran_ns(&self, cpu: usize) -> u64 {
        if self.in_turn() { self.ran_ns[cpu] } else { self.now_ns }
    }

    /// Sets whether this CPU has something to run from now on.
    pub fn set_busy(&mut self, cpu: usize, busy: bool) {
        self.busy[cpu] = busy;
    }

    /// Advances to the time of an event; on this CPU, if it is known.
    pub fn advance(&mut self, t_ns: u64, cpu: Option<usize>) {
        let t_ns = t_ns.max(self.now_ns);
        if self.in_turn() {
            match cpu {
                // It has its turn since the end of the last turn, or since the last event. If another CPU should still
                // have had its turn, that CPU gave the turn up at some time in between.
                Some(cpu) => {
                    let from_ns = match self.last_end(t_ns) {
                        end_ns if end_ns >= self.now_ns => end_ns,
                        _ if cpu == self.holder || !self.busy[self.holder] => self.now_ns,
                        _ => self.now_ns + (t_ns - self.now_ns) / 2,
                    };
                    self.take_turns(from_ns);
                    self.ran_ns[cpu] += t_ns - from_ns;
                    self.holder = cpu;
                }
                None => self.take_turns(t_ns),
            }
        }
        self.now_ns = t_ns;
    }

    /// The latest end of a turn up to this time.
    fn last_end(&self, t_ns: u64) -> u64 {
        let since_ns = (t_ns as i64 - self.ends_ns as i64).rem_euclid(self.turn_ns as i64);
        t_ns.saturating_sub(since_ns as u64)
    }

    fn take_turns(&mut self, t_ns: u64) {
        let mut at_ns = self.now_ns;
        while at_ns < t_ns {
            if !self.busy[self.holder] {
                self.holder = self.after(self.holder);
            }
            let turn_end_ns = self.last_end(at_ns) + self.turn_ns;
            let end_ns = t_ns.min(turn_end_ns);
            self.ran_ns[self.holder] += end_ns - at_ns;
            at_ns = end_ns;
            if at_ns == turn_end_ns {
                self.holder = self.after(self.holder);
                at_ns += self.whole_rounds(t_ns - at_ns);
            }
        }
    }

    /// Skips the rounds that fit into this time and in which every busy CPU has its turn: they change only the clocks.
    /// Returns their total length.
    fn whole_rounds(&mut self, left_ns: u64) -> u64 {
        // Keeps the rest rare: it looks at every CPU.
        if left_ns / self.turn_ns <= 2 * self.busy.len() as u64 {
            return 0;
        }
        let busy = self.busy.iter().filter(|busy| **busy).count() as u64;
        if busy == 0 {
            return 0;
        }
        let turns_ns = left_ns / (busy * self.turn_ns) * self.turn_ns;
        for (ran_ns, busy) in self.ran_ns.iter_mut().zip(&self.busy) {
            *ran_ns += if *busy { turns_ns } else { 0 };
        }
        busy * turns_ns
    }

    /// The next busy CPU; the same if no other is busy.
    fn after(&self, cpu: usize) -> usize {
        let cpus = self.busy.len();
        (cpu + 1..cpu + cpus).map(|next| next % cpus).find(|next| self.busy[*next]).unwrap_or(cpu)
    }
}

/// A time at which a turn ends; all others end whole turns before or after it. A turn ends between
/// two consecutive events on different CPUs if the first CPU is busy. The nearer the two events are,
/// the more they tell.
fn end_of_turns(events: &[Event], cpus: usize, turn_ns: u64) -> u64 {
    let part = |t_ns: u64| (t_ns % turn_ns * PARTS as u64 / turn_ns) as usize;
    // For each part of a turn, the votes for it minus those for the part before.
    let mut votes = [0.0; PARTS + 1];
    let mut busy = vec![false; cpus];
    for two in events.windows(2) {
        let [one, other] = two else { continue };
        let here = one.cpu as usize;
        if let Kind::Switch { next, .. } = one.kind {
            busy[here] = next != 0;
        }
        let between_ns = other.t_ns.saturating_sub(one.t_ns);
        if one.cpu != other.cpu && busy[here] && between_ns < turn_ns {
            let (from, to, vote) =
                (part(one.t_ns), part(other.t_ns), 1.0 / (between_ns + turn_ns / 100 + 1) as f64);
            votes[from] += vote;
            votes[to + 1] -= vote;
            if to < from {
                votes[0] += vote;
            }
        }
    }
    let (mut sum, mut best, mut at) = (0.0, 0.0, 0);
    for (part, vote) in votes[..PARTS].iter().enumerate() {
        sum += vote;
        if sum > best {
            (best, at) = (sum, part);
        }
    }
    at as u64 * turn_ns / PARTS as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Left;

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
    fn an_idle_cpu_has_not_run_since_the_last_event() {
        let mut clocks = Clocks::new(2, 10.0);
        clocks.set_busy(0, true);
        clocks.advance(10_003, Some(1));
        assert_eq!(ran(&clocks), [10_000, 3], "its turn, and no longer");
    }

    #[test]
    fn events_show_when_turns_end() {
        let kind = |next| Kind::Switch { prev: 0, next, left: Left::Preempted };
        let event = |t_ns, cpu, next| Event { t_ns, cpu, kind: kind(next) };
        let turn_ns = 10_000;
        for end_ns in [0, 40, 2_500, 9_990] {
            // Two CPUs in turn; each has an event as its turn begins, somewhere in it, and just before it ends.
            let events: Vec<Event> = (0..100)
                .flat_map(|turn| {
                    let at = |ns| event(turn * turn_ns + end_ns + ns, turn as u32 % 2, 7);
                    [at(50 + turn % 7 * 90), at(3_000 + turn * 40), at(9_900 - turn % 5 * 300)]
                })
                .collect();
            let found_ns = end_of_turns(&events, 2, turn_ns);
            let late_ns = (found_ns + turn_ns - end_ns) % turn_ns;
            assert!(!(51..=turn_ns - 120).contains(&late_ns), "{found_ns} for {end_ns}");
        }
        let idle = [event(5, 0, 0), event(10, 1, 0), event(12, 0, 0)];
        assert_eq!(end_of_turns(&idle, 2, turn_ns), 0, "nothing is known");
    }

    #[test]
    fn years_of_turns_go_by_at_once() {
        let mut clocks = busy(4, 10.0);
        clocks.set_busy(3, false);
        clocks.advance(5, Some(0));
        let year_ns = 365 * 86_400 * 1_000_000_000;
        clocks.advance(year_ns, None);
        // As in about 30,000 ns, and then whole rounds of 30.
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
    fn a_cpu_with_an_event_has_its_turn() {
        let mut clocks = busy(3, 10.0);
        clocks.advance(4, Some(2));
        assert_eq!(ran(&clocks), [0, 0, 4], "it began with that one");
        clocks.advance(6, Some(2));
        clocks.advance(9, Some(1));
        assert_eq!(
            ran(&clocks),
            [0, 2, 7],
            "what was seen stays, and of the rest half is each one's"
        );
        clocks.advance(19, Some(1));
        assert_eq!(ran(&clocks).iter().sum::<u64>(), 19, "nothing is lost");
    }

    #[test]
    fn a_cpu_with_nothing_to_run_has_no_turn() {
        let mut clocks = Clocks::new(3, 10.0);
        clocks.set_busy(1, true);
        clocks.advance(1_000_000_000, Some(1));
        assert_eq!(ran(&clocks), [0, 1_000_000_000, 0]);
    }
}
