// SPDX-License-Identifier: GPL-2.0-only
//! Future events, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A due event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The CPU has finished its present activity. Each CPU has at most one such event.
    Cpu(u16),
    /// An interrupt.
    Irq { cpu: u16, irq: Irq },
    /// The turn of this number ends: see `turns`.
    Turn { number: u64 },
    /// The watchdog looks for tasks that were left waiting.
    Watchdog,
    /// The policy's control plane looks at its tasks.
    Control,
    /// A copy of pages has made progress.
    Memory,
    /// The license of a core changes; void unless `timer` is still its timer.
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
    /// Starts a task that no task forks.
    Start { task: u32 },
    /// A timer of the class's own, for the end of a slice.
    Slice,
    /// Another timer of the class's; void unless `start` is still its last one.
    Class { number: u32, start: u32 },
    /// Another CPU asks this one to balance.
    Balance,
    /// Another CPU has work of the class's for this one's runqueue.
    Work,
}

impl Due {
    /// Does nothing by itself: if only such events are left, nothing will ever happen again.
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

/// The order of an event: its time, then the number under which it was put in. A CPU's event also has the CPU's number,
/// which decides nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u128);

impl Order {
    const NEVER: Order = Order(u128::MAX);
    const CPU_BITS: u32 = 16;

    /// `seq` is below 2^48: no run has that many events.
    #[inline]
    fn new(t_ns: u64, seq: u64, cpu: usize) -> Self {
        Order(u128::from(t_ns) << 64 | u128::from(seq << Self::CPU_BITS | cpu as u64))
    }

    #[inline]
    fn t_ns(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    fn cpu(self) -> usize {
        self.0 as usize & ((1 << Self::CPU_BITS) - 1)
    }
}

/// Something in the heap.
struct Entry {
    order: Order,
    due: Due,
}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

/// All due events. Two events at one time come in the order in which they were put in.
///
/// The event of a CPU changes whenever it is interrupted, far more often than it comes about. So CPUs are not in the
/// heap: each has a leaf of a tree. Each node holds the earlier of its two children.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    seq: u64,
    background: usize,
    /// The root is the second; the children of `n` are `2n` and `2n + 1`. The latter half are the CPUs.
    cpus: Vec<Order>,
    /// A CPU without an event that is still in the tree: mostly it gets a new one before the next look.
    stale: Option<usize>,
}

impl Queue {
    #[inline]
    pub fn push(&mut self, t_ns: u64, due: Due) {
        self.seq += 1;
        self.background += usize::from(due.background());
        self.heap.push(Reverse(Entry { order: Order::new(t_ns, self.seq, 0), due }));
    }

    /// The event of `cpu` is at `t_ns` from now on.
    #[inline]
    pub fn push_cpu(&mut self, t_ns: u64, cpu: usize) {
        self.seq += 1;
        if 2 * cpu >= self.cpus.len() {
            self.grow(cpu);
        }
        if self.stale == Some(cpu) {
            self.stale = None;
        }
        self.set_cpu(cpu, Order::new(t_ns, self.seq, cpu));
    }

    /// `cpu` has no event.
    #[inline]
    pub fn cancel_cpu(&mut self, cpu: usize) {
        if self.stale != Some(cpu) && 2 * cpu < self.cpus.len() {
            self.clear();
            self.stale = Some(cpu);
        }
    }

    /// Removes the stale CPU from the tree.
    #[inline]
    fn clear(&mut self) {
        if let Some(cpu) = self.stale.take() {
            self.set_cpu(cpu, Order::NEVER);
        }
    }

    #[inline]
    fn set_cpu(&mut self, cpu: usize, order: Order) {
        let mut at = self.cpus.len() / 2 + cpu;
        self.cpus[at] = order;
        let mut earlier = order;
        while at > 1 {
            earlier = earlier.min(self.cpus[at ^ 1]);
            at /= 2;
            if std::mem::replace(&mut self.cpus[at], earlier) == earlier {
                return;
            }
        }
    }

    /// Makes room for this CPU.
    #[cold]
    fn grow(&mut self, cpu: usize) {
        let leaves = (cpu + 1).next_power_of_two();
        let old = std::mem::replace(&mut self.cpus, vec![Order::NEVER; 2 * leaves]);
        for (cpu, order) in old[old.len() / 2..].iter().enumerate() {
            self.set_cpu(cpu, *order);
        }
    }

    /// The first event of a CPU.
    #[inline]
    fn first_cpu(&self) -> Order {
        let first = self.cpus.get(1).copied().unwrap_or(Order::NEVER);
        match self.stale {
            Some(cpu) if first.cpu() == cpu => self.first_beside(cpu),
            // A stale CPU behind the first changes nothing.
            _ => first,
        }
    }

    /// The same without this CPU.
    #[inline]
    fn first_beside(&self, cpu: usize) -> Order {
        let (mut at, mut first) = (self.cpus.len() / 2 + cpu, Order::NEVER);
        while at > 1 {
            first = first.min(self.cpus[at ^ 1]);
            at /= 2;
        }
        first
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Due)> {
        let first = self.first_cpu();
        match self.heap.peek() {
            Some(Reverse(entry)) if entry.order < first => {
                let Reverse(Entry { order, due }) = self.heap.pop()?;
                self.background -= usize::from(due.background());
                Some((order.t_ns(), due))
            }
            _ if first == Order::NEVER => None,
            _ => {
                self.clear();
                self.stale = Some(first.cpu());
                Some((first.t_ns(), Due::Cpu(first.cpu() as u16)))
            }
        }
    }

    /// When the next thing is due.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        let first = self.first_cpu();
        self.heap.peek().map_or(first, |Reverse(entry)| entry.order.min(first)).t_ns()
    }

    /// Nothing is left that could make a task run.
    pub fn only_background(&self) -> bool {
        self.background == self.heap.len() && self.first_cpu() == Order::NEVER
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

    /// A plain version: a list that is searched.
    #[derive(Default)]
    struct Plain(Vec<(u64, u64, Due)>);

    impl Plain {
        fn cancel_cpu(&mut self, cpu: u16) {
            self.0.retain(|(.., due)| *due != Due::Cpu(cpu));
        }

        fn pop(&mut self) -> Option<(u64, Due)> {
            let first = (0..self.0.len()).min_by_key(|at| (self.0[*at].0, self.0[*at].1))?;
            let (t_ns, _, due) = self.0.remove(first);
            Some((t_ns, due))
        }
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_list_in_order(acts in proptest::collection::vec((0..4u8, 0..20u64, 0..9u16), 0..200)) {
            let (mut queue, mut plain) = (Queue::default(), Plain::default());
            for (seq, (act, t_ns, cpu)) in acts.into_iter().enumerate() {
                match act {
                    0 => {
                        queue.push(t_ns, Due::Fault(cpu.into()));
                        plain.0.push((t_ns, seq as u64, Due::Fault(cpu.into())));
                    }
                    1 => {
                        queue.push_cpu(t_ns, cpu.into());
                        plain.cancel_cpu(cpu);
                        plain.0.push((t_ns, seq as u64, Due::Cpu(cpu)));
                    }
                    2 => {
                        queue.cancel_cpu(cpu.into());
                        plain.cancel_cpu(cpu);
                    }
                    _ => proptest::prop_assert_eq!(queue.pop(), plain.pop()),
                }
                let next_ns = plain.0.iter().map(|(t_ns, ..)| *t_ns).min().unwrap_or(u64::MAX);
                proptest::prop_assert_eq!(queue.next_ns(), next_ns);
                proptest::prop_assert_eq!(queue.only_background(), plain.0.is_empty());
            }
        }
    }
}
