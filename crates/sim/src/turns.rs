// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that run one after the other on one clock, as those of QEMU under icount do.
//!
//! The clock counts the instructions of all CPUs. A CPU has its turn until the next multiple of the machine's
//! `turn_ns`, until any CPU's timer expires, or until it idles. Then comes the next CPU, by number, that is not idle or
//! has an interrupt to take (QEMU's `rr_cpu_thread_fn`). Events of a CPU wait for its turn meanwhile: interrupts, and
//! the end of its task's work, which the task can only see by looking at the clock. A task's CPU time runs on the one
//! clock, in its CPU's turn or not, as the guest's kernel counts it. The worker's tasks use that time; tasks of a
//! recording work only in their CPU's turns.
//!
//! Kernel code is simulated in one go. A turn that ends meanwhile ends with it, and all later turns are delayed by as
//! much; its CPU's next turn is shorter by as much. So each CPU has its part, and none runs in the turn of another. If
//! a task is to give its CPU away at the end of a turn, that is left to the next turn: the time until then is the
//! task's. A lock that is held at the end of a turn stays taken until its holder's next turn. A CPU that asks for it
//! meanwhile spins. It says so at each round (x86's PAUSE, QEMU's `do_pause`), and so gives the rest of its own turn
//! away. Its code under the lock is simulated all the same, earlier than it would be by those turns.

mod engine;

use crate::event::Irq;
use crate::ids::CpuId;
use crate::lock::LockId;

/// The CPU that has its turn, and the events that wait for other CPUs' turns.
pub(crate) struct Turns {
    length_ns: u64,
    holder: Option<CpuId>,
    last: CpuId,
    number: u64,
    /// A time at which a turn ends; others end at whole turns before or after it.
    ends_ns: u64,
    /// When the present turn is to end, kernel code or not.
    due_ns: u64,
    /// By CPU: the excess of its kernel code over its turns.
    owes_ns: Vec<u64>,
    /// By CPU: its task's work or its kernel code has ended meanwhile.
    late: Vec<bool>,
    waiting: Vec<Vec<Irq>>,
}

impl Turns {
    /// Turns of at most `length_ns`; 0: all CPUs run side by side.
    pub fn new(length_ns: f64, cpus: usize) -> Self {
        Turns {
            length_ns: length_ns as u64,
            holder: None,
            last: 0,
            number: 0,
            ends_ns: 0,
            due_ns: 0,
            owes_ns: vec![0; cpus],
            late: vec![false; cpus],
            waiting: vec![Vec::new(); cpus],
        }
    }

    pub fn none(&self) -> bool {
        self.length_ns == 0
    }

    /// This CPU's turn begins. Returns when it is to end: it lasts for a ns at least.
    fn begin(&mut self, cpu: CpuId, t_ns: u64) -> u64 {
        let since_ns = (t_ns as i64 - self.ends_ns as i64).rem_euclid(self.length_ns as i64) as u64;
        let left_ns = self.length_ns - since_ns;
        let less_ns = self.owes_ns[cpu].min(left_ns - 1);
        self.owes_ns[cpu] -= less_ns;
        self.ends_ns = t_ns + left_ns - less_ns;
        self.due_ns = self.ends_ns;
        self.due_ns
    }
}

/// Locks that are held when a turn ends: they stay taken until their holder's next turn.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// When the turn of the code simulated now ends.
    ends_ns: u64,
    /// By CPU: how many turns it has had.
    turns: Vec<u64>,
    /// By lock: when it was taken. If its holder's turn ended before the release: the holder, and its number of turns
    /// so far.
    locks: Vec<(u64, Option<(CpuId, u64)>)>,
    /// The code simulated now has found such a lock: it spins until the holder's next turn, and gives its own away.
    spins: bool,
    /// Turns that simulated code has waited for in this way, in total.
    waited: u64,
}

impl Cuts {
    pub fn new(cpus: usize) -> Self {
        Cuts { ends_ns: u64::MAX, turns: vec![0; cpus], locks: Vec::new(), spins: false, waited: 0 }
    }

    pub fn spins(&self) -> bool {
        self.spins
    }

    pub fn taken(&mut self, lock: LockId, cpu: CpuId, now_ns: u64) {
        if lock.0 >= self.locks.len() {
            self.locks.resize(lock.0 + 1, (0, None));
        }
        let (taken_ns, cut) = &mut self.locks[lock.0];
        *taken_ns = now_ns;
        if cut.is_some_and(|(holder, had)| holder != cpu && self.turns[holder] == had) {
            self.spins = true;
            self.waited += 1;
        }
    }

    /// Turns that simulated code has waited for, one after the other, when it reaches `now_ns` in turns of `length_ns`.
    /// Only differences are meaningful.
    pub fn rounds(&self, now_ns: u64, length_ns: u64) -> u64 {
        let over = now_ns.checked_sub(self.ends_ns).map_or(0, |over_ns| 1 + over_ns / length_ns);
        self.waited + over
    }

    pub fn given(&mut self, lock: LockId, cpu: CpuId, now_ns: u64) {
        if let Some((taken_ns, cut)) = self.locks.get_mut(lock.0)
            && *taken_ns < self.ends_ns
            && self.ends_ns < now_ns
        {
            *cut = Some((cpu, self.turns[cpu]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_turn_ends_with_is_taken_until_the_next_one() {
        let (lock, other) = (LockId(3), LockId(0));
        let mut cuts = Cuts::new(2);
        let spins = |cuts: &mut Cuts, lock, cpu| {
            cuts.spins = false;
            cuts.taken(lock, cpu, 130);
            cuts.spins
        };
        cuts.ends_ns = 100;
        for (lock, at_ns) in [(other, [80, 99]), (lock, [90, 110])] {
            cuts.taken(lock, 0, at_ns[0]);
            cuts.given(lock, 0, at_ns[1]);
        }
        assert!(!cuts.spins, "no task had it");
        cuts.ends_ns = 200;
        assert!(!spins(&mut cuts, other, 1), "it was given back in time");
        assert!(spins(&mut cuts, lock, 1));
        assert!(!spins(&mut cuts, lock, 0), "its own");
        cuts.turns[0] += 1;
        assert!(!spins(&mut cuts, lock, 1), "it has had its next turn");
    }

    #[test]
    fn code_waits_for_turns_at_their_ends_and_for_locks() {
        let (lock, mut cuts) = (LockId(0), Cuts::new(2));
        cuts.ends_ns = 100;
        let rounds = [99, 100, 109, 110].map(|now_ns| cuts.rounds(now_ns, 10));
        assert_eq!(rounds, [0, 1, 1, 2]);
        cuts.taken(lock, 0, 90);
        cuts.given(lock, 0, 110);
        cuts.ends_ns = 200;
        cuts.taken(lock, 1, 130);
        assert_eq!(cuts.rounds(130, 10), 1, "the lock's holder has the next turn");
    }
}
