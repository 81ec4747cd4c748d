// SPDX-License-Identifier: GPL-2.0-only
//! What is to happen, in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The CPU is done with what it was doing. At most one such is due for each CPU.
    Cpu(u16),
    /// An interrupt.
    Irq { cpu: u16, irq: Irq },
    /// The turn of this number ends: see `turns`.
    Turn { number: u64 },
    /// The watchdog looks for tasks that were left waiting.
    Watchdog,
    /// The policy's control plane looks at its tasks.
    Control,
    /// Pages that are on the way have come some way.
    Memory,
    /// The license of a core goes on; void unless `timer` is still its timer.
    License { core: u16, timer: u32 },
    /// A change from outside: index into the scenario's faults.
    Fault(u32),
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A timer of the class's own, for the end of a slice.
    Slice,
    /// Another CPU asks this one to balance.
    Balance,
}

impl Due {
    /// Does nothing by itself: where only such are left, nothing will ever happen again.
    fn background(self) -> bool {
        matches!(
            self,
            Due::Watchdog
                | Due::Control
                | Due::Memory
                | Due::License { .. }
                | Due::Turn { .. }
                | Due::Irq { irq: Irq::Tick, .. }
        )
    }
}

/// Something in the queue; `order` is its time and, below that, the number under which it was put in.
struct Entry {
    order: u128,
    due: Due,
}

impl Entry {
    #[inline]
    fn t_ns(&self) -> u64 {
        (self.order >> 64) as u64
    }

    #[inline]
    fn seq(&self) -> u64 {
        self.order as u64
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, for a heap that gives the greatest.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

/// Everything due. Two things due at one time come in the order in which they were put in.
///
/// What a CPU is due for changes whenever it is interrupted: the old entry is void from then on. Void
/// entries may lie far in the future (a thread that spins for as long as it takes), so they are
/// cleared out when they are the greater part: the heap stays within twice of what is really due.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    seq: u64,
    background: usize,
    /// By CPU, the `seq` of its entry, and how many entries in the heap are nobody's any more.
    of_cpu: Vec<Option<u64>>,
    void: usize,
}

/// Fewer void entries than this are left where they are.
const VOID_MIN: usize = 64;

impl Queue {
    #[inline]
    pub fn push(&mut self, t_ns: u64, due: Due) {
        self.seq += 1;
        self.background += usize::from(due.background());
        let order = u128::from(t_ns) << 64 | u128::from(self.seq);
        self.heap.push(Entry { order, due });
    }

    /// From now on `cpu` is due at `t_ns`, and at no other time.
    pub fn push_cpu(&mut self, t_ns: u64, cpu: usize) {
        self.cancel_cpu(cpu);
        self.push(t_ns, Due::Cpu(cpu as u16));
        if cpu >= self.of_cpu.len() {
            self.of_cpu.resize(cpu + 1, None);
        }
        self.of_cpu[cpu] = Some(self.seq);
    }

    /// `cpu` is due at no time.
    pub fn cancel_cpu(&mut self, cpu: usize) {
        let due = self.of_cpu.get_mut(cpu).and_then(Option::take);
        self.void += usize::from(due.is_some());
        if self.void >= VOID_MIN && 2 * self.void > self.heap.len() {
            let of_cpu = &self.of_cpu;
            self.heap.retain(|entry| !is_void(of_cpu, entry));
            self.void = 0;
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Due)> {
        loop {
            let entry = self.heap.pop()?;
            if is_void(&self.of_cpu, &entry) {
                self.void -= 1;
                continue;
            }
            if let Due::Cpu(cpu) = entry.due {
                self.of_cpu[usize::from(cpu)] = None;
            }
            self.background -= usize::from(entry.due.background());
            return Some((entry.t_ns(), entry.due));
        }
    }

    /// When the next thing is due.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        while let Some(entry) = self.heap.peek() {
            if !is_void(&self.of_cpu, entry) {
                return entry.t_ns();
            }
            self.heap.pop();
            self.void -= 1;
        }
        u64::MAX
    }

    /// Nothing is left that could make a task run.
    pub fn only_background(&self) -> bool {
        self.background + self.void == self.heap.len()
    }
}

/// Whether an entry is one that its CPU is due for no more.
#[inline]
fn is_void(of_cpu: &[Option<u64>], entry: &Entry) -> bool {
    matches!(entry.due, Due::Cpu(cpu) if of_cpu[usize::from(cpu)] != Some(entry.seq()))
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

    #[test]
    fn a_cpu_is_due_once() {
        let mut queue = Queue::default();
        queue.push_cpu(5, 3);
        queue.push_cpu(7, 1);
        queue.push_cpu(9, 3);
        queue.push_cpu(8, 2);
        queue.cancel_cpu(1);
        assert_eq!(queue.next_ns(), 8);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(8, Due::Cpu(2)), (9, Due::Cpu(3))]);
        assert!(queue.only_background());
    }

    #[test]
    fn what_is_void_does_not_pile_up() {
        let mut queue = Queue::default();
        const HOUR_NS: u64 = 3_600_000_000_000;
        for at_ns in 0..100_000 {
            for cpu in 0..8 {
                queue.push_cpu(HOUR_NS + at_ns, cpu);
            }
        }
        assert!(queue.heap.len() <= 2 * VOID_MIN + 8, "{} entries for 8 CPUs", queue.heap.len());
    }
}
