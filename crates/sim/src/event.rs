// SPDX-License-Identifier: GPL-2.0-only
//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The CPU is done with what it was doing; void unless `turn` is still its turn.
    Cpu { cpu: u16, turn: u32 },
    /// An interrupt.
    Irq { cpu: u16, irq: Irq },
    /// The watchdog looks for tasks that were left waiting.
    Watchdog,
    /// A change from outside: index into the scenario's faults.
    Fault(u32),
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Irq {
    /// The periodic tick.
    Tick,
    /// Another CPU asks this one to schedule.
    Resched,
    /// Tasks were put on this CPU's wake list.
    Wakeups,
    /// A task's timer expires; void unless `timer` is still its timer.
    Timer { task: u32, timer: u32 },
    /// A task is started that nobody forks.
    Start { task: u32 },
    /// Another CPU asks this one to balance.
    Balance,
}

impl Due {
    /// Does nothing by itself: where only such are left, nothing will ever happen again.
    fn background(self) -> bool {
        matches!(self, Due::Watchdog | Due::Irq { irq: Irq::Tick, .. })
    }
}

/// Everything due. Two things due at one time come in the order in which they were put in.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Due)>>,
    seq: u64,
    background: usize,
}

impl Queue {
    #[inline]
    pub fn push(&mut self, t_ns: u64, due: Due) {
        self.seq += 1;
        self.background += usize::from(due.background());
        self.heap.push(Reverse((t_ns, self.seq, due)));
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Due)> {
        let Reverse((t_ns, _, due)) = self.heap.pop()?;
        self.background -= usize::from(due.background());
        Some((t_ns, due))
    }

    /// When the next thing is due.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((t_ns, ..))| *t_ns)
    }

    /// Nothing is left that could make a task run.
    pub fn only_background(&self) -> bool {
        self.background == self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_in_the_order_they_were_put_in() {
        let mut queue = Queue::default();
        queue.push(5, Due::Fault(1));
        queue.push(3, Due::Fault(2));
        queue.push(5, Due::Fault(0));
        queue.push(9, Due::Watchdog);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, due)| due).collect();
        assert_eq!(order, [Due::Fault(2), Due::Fault(1), Due::Fault(0), Due::Watchdog]);
    }

    #[test]
    fn the_watchdog_alone_makes_nothing_happen() {
        let mut queue = Queue::default();
        queue.push(9, Due::Watchdog);
        assert!(queue.only_background());
        queue.push(9, Due::Fault(0));
        assert!(!queue.only_background());
    }
}
