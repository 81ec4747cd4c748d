// SPDX-License-Identifier: GPL-2.0-only
//! Spinlocks in virtual time.
//!
//! A CPU's kernel code is simulated in one go from the time it starts. So a lock's history is known when the next CPU
//! asks for it: when it was last taken and released, by which CPU, and which CPUs queued for it. A taker pays for the
//! line that the last holder wrote. A CPU that asks while the lock is held waits for its holder and for the handoff. A
//! ticket lock's handoff h takes h·(1 + a·waiters), because every waiter fetches the line again (Boyd-Wickizer et al.,
//! "Non-scalable locks are dangerous", 2012); a queued lock's is one transfer.

use std::collections::VecDeque;

use machine::{LockKind, Machine};

use crate::ids::CpuId;
use crate::whole::LineCost;

/// Index of a lock of the simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(pub(crate) usize);

/// One spinlock.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Index of its place: locks of one place are counted together.
    pub place: usize,
    /// The holder in the code simulated now.
    pub holder: Option<CpuId>,
    /// The last holder.
    pub last: CpuId,
    /// When its last taker asked for it; no code that asked later has been simulated.
    asked_ns: u64,
    free_ns: u64,
    free_before_ns: u64,
    /// When each waiter got it or will; old ones are dropped.
    grants: VecDeque<u64>,
}

/// The result of taking a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    /// When the taker has it.
    pub at_ns: u64,
    /// Of that, time spent waiting for other CPUs.
    pub waited_ns: u64,
}

impl Lock {
    pub fn new(place: usize, cpu: CpuId) -> Self {
        Lock {
            place,
            holder: None,
            last: cpu,
            asked_ns: 0,
            free_ns: 0,
            free_before_ns: 0,
            grants: VecDeque::new(),
        }
    }

    /// `cpu` asks for the lock at `now_ns`; `cost` is the cost of the line that its last holder wrote.
    pub fn take(&mut self, now_ns: u64, cpu: CpuId, machine: &Machine, cost: LineCost) -> Taken {
        assert!(self.holder.is_none(), "a lock is taken while {:?} holds it", self.holder);
        self.holder = Some(cpu);
        // Code simulated earlier may have taken the lock at a later virtual time: it was free before that.
        let before = now_ns < self.asked_ns && self.free_before_ns <= now_ns;
        if before || self.free_ns <= now_ns {
            let at_ns = now_ns + cost.atomic_ns;
            if !before {
                self.free_before_ns = self.free_ns;
                self.asked_ns = now_ns;
            }
            return Taken { at_ns, waited_ns: 0 };
        }
        while self.grants.front().is_some_and(|grant| *grant <= now_ns) {
            self.grants.pop_front();
        }
        let waiters = self.grants.len() as f64;
        let transfer_ns = machine.line_ns(self.last, cpu);
        let handoff_ns = match machine.lock {
            LockKind::Ticket => transfer_ns * (1.0 + machine.costs.ticket_slope * waiters),
            LockKind::Queued => transfer_ns,
        };
        let at_ns = self.free_ns + (handoff_ns + machine.costs.atomic_ns) as u64;
        self.grants.push_back(at_ns);
        self.free_before_ns = self.free_ns;
        self.asked_ns = now_ns;
        Taken { at_ns, waited_ns: at_ns - now_ns }
    }

    /// Its holder releases it at `now_ns`.
    pub fn give(&mut self, now_ns: u64) {
        self.last = self.holder.take().expect("a lock is given back by its holder");
        self.free_ns = self.free_ns.max(now_ns);
    }

    /// Whether `take` would not have to wait.
    pub fn free(&self, now_ns: u64) -> bool {
        self.holder.is_none() && self.free_ns <= now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whole::Whole;

    fn machine(kind: LockKind) -> Machine {
        let mut machine = machine::find("numa-2x4").unwrap();
        machine.lock = kind;
        machine
    }

    fn take(lock: &mut Lock, now_ns: u64, cpu: CpuId, machine: &Machine) -> Taken {
        let cost = Whole::new(&machine.costs).line(machine.distance(lock.last, cpu));
        lock.take(now_ns, cpu, machine, cost)
    }

    /// Time from the first of `n` takers that come at once until the last has it; each holds 100 ns.
    fn convoy(kind: LockKind, n: usize) -> u64 {
        let machine = machine(kind);
        let mut lock = Lock::new(0, 0);
        let mut last = 0;
        for cpu in 0..n {
            let taken = take(&mut lock, 1000, cpu % 8, &machine);
            assert!(taken.at_ns >= last);
            last = taken.at_ns + 100;
            lock.give(last);
        }
        last - 1000
    }

    #[test]
    fn waiters_come_one_after_the_other() {
        assert!(convoy(LockKind::Queued, 8) >= 800);
    }

    #[test]
    fn a_ticket_lock_gets_slower_with_its_waiters() {
        let per_waiter = |kind, n| convoy(kind, n) as f64 / n as f64;
        assert!(per_waiter(LockKind::Ticket, 8) > 1.5 * per_waiter(LockKind::Ticket, 2));
        assert!(per_waiter(LockKind::Ticket, 8) > 1.5 * per_waiter(LockKind::Queued, 8));
    }

    #[test]
    fn an_earlier_taker_does_not_wait_for_a_later_one() {
        let machine = machine(LockKind::Queued);
        let mut lock = Lock::new(0, 0);
        let late = take(&mut lock, 5000, 1, &machine);
        lock.give(late.at_ns + 1000);
        let early = take(&mut lock, 2000, 2, &machine);
        assert_eq!(early.waited_ns, 0);
        lock.give(early.at_ns + 10);
        let last = take(&mut lock, 5500, 3, &machine);
        assert!(last.waited_ns > 0, "the later hold still counts");
    }
}
