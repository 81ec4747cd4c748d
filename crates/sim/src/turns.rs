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

use machine::Ticks;

use crate::cpu::Mode;
use crate::engine::Engine;
use crate::event::{Due, Irq};
use crate::lock::LockId;
use crate::task::{CpuId, State, TaskId};

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

impl Engine {
    /// Kernel code begins, in the present turn.
    pub(crate) fn begin_in_turn(&mut self) {
        if let Some(cuts) = &mut self.k.cuts {
            cuts.ends_ns = self.turns.due_ns;
        }
    }

    /// Kernel code of a CPU has ended: if it has spun, or the CPU idles, the turn is over.
    pub(crate) fn end_in_turn(&mut self, cpu: CpuId) {
        let spun = self.k.cuts.as_mut().is_some_and(|cuts| std::mem::take(&mut cuts.spins));
        if self.turns.holder == Some(cpu) && (spun || self.k.cpus[cpu].idle()) {
            self.turns.due_ns = self.turns.due_ns.min(self.k.now);
            self.k.queue.push(self.k.now, Due::Turn { number: self.turns.number });
        }
    }

    /// Handles an event if its CPU has its turn, or needs none for it; else the event waits.
    pub(crate) fn in_turn(&mut self, due: Due, t_ns: u64) {
        let (cpu, irq) = match due {
            Due::Cpu(cpu) if self.turns.holder != Some(cpu.into()) => {
                return self.turns.late[usize::from(cpu)] = true;
            }
            // Its kernel code has ended, and other CPUs wait for that.
            Due::Cpu(cpu) if t_ns >= self.turns.due_ns => {
                self.turns.late[usize::from(cpu)] = true;
                return self.end_turn(self.turns.number, t_ns);
            }
            Due::Irq { cpu, irq } if !self.void(cpu as usize, irq) => (cpu as usize, irq),
            due => return self.dispatch(due, t_ns),
        };
        let timer = matches!(irq, Irq::Tick | Irq::Timer { .. } | Irq::Slice);
        match self.turns.holder {
            Some(holder) if holder == cpu && !timer => return self.on_irq(cpu, irq, t_ns),
            Some(_) => self.turns.waiting[cpu].push(irq),
            None => {
                self.turns.waiting[cpu].push(irq);
                self.next_turn(t_ns);
            }
        }
        if timer {
            self.end_turn(self.turns.number, t_ns);
        }
    }

    /// An interrupt that does not come, or changes nothing visible.
    fn void(&self, cpu: CpuId, irq: Irq) -> bool {
        match irq {
            Irq::Tick => self.k.cpus[cpu].idle() && self.k.machine.ticks == Ticks::Apart,
            Irq::Timer { task, timer } => self.k.tasks[task as usize].timer != timer,
            _ => false,
        }
    }

    /// Ends this turn, or lets it end with its kernel code.
    pub(crate) fn end_turn(&mut self, number: u64, t_ns: u64) {
        let turns = &mut self.turns;
        if number != turns.number {
            return;
        }
        if let Some(holder) = turns.holder {
            turns.due_ns = turns.due_ns.min(t_ns);
            let free_ns = self.k.cpus[holder].free_ns;
            if free_ns > t_ns {
                return self.k.queue.push(free_ns, Due::Turn { number });
            }
            let late_ns = t_ns - turns.due_ns;
            turns.ends_ns += late_ns;
            turns.owes_ns[holder] += late_ns;
        }
        self.next_turn(t_ns);
    }

    /// When kernel code of the CPU that has its turn really gets here, if it gets here at `t_ns` by the cursor. If the
    /// turn ends before, that is in its next turn, after those of all other CPUs that want one now.
    pub(crate) fn over_ns(&self, cpu: CpuId, t_ns: u64) -> u64 {
        if self.turns.none() || t_ns < self.turns.due_ns {
            return t_ns;
        }
        let others =
            (0..self.k.cpus.len()).filter(|other| *other != cpu && self.wants_turn(*other));
        t_ns + others.count() as u64 * self.turns.length_ns
    }

    /// Whether a CPU is to schedule in its next turn only: this one has ended in the meantime.
    pub(crate) fn turn_is_over(&self, cpu: CpuId) -> bool {
        let goes_on =
            |task: TaskId| matches!(self.k.tasks[task].state, State::Running | State::Blocked);
        self.turns.holder == Some(cpu)
            && self.k.now >= self.turns.due_ns
            && self.k.cpus[cpu].curr.is_none_or(goes_on)
    }

    fn wants_turn(&self, cpu: CpuId) -> bool {
        self.k.cpus[cpu].mode != Mode::Idle || !self.turns.waiting[cpu].is_empty()
    }

    /// Whether users' work stands still on this CPU: other CPUs have their turn.
    pub(crate) fn stands_still(&self, cpu: CpuId) -> bool {
        !self.burns && !self.turns.none() && self.turns.holder != Some(cpu)
    }

    fn next_turn(&mut self, t_ns: u64) {
        if let Some(holder) =
            self.turns.holder.filter(|holder| !self.burns && self.k.in_user(*holder))
        {
            self.pause(holder, t_ns);
            self.k.queue.cancel_cpu(holder);
        }
        let cpus = self.k.cpus.len();
        let from = self.turns.last + 1;
        let next = (from..from + cpus).map(|cpu| cpu % cpus).find(|cpu| self.wants_turn(*cpu));
        self.turns.number += 1;
        self.turns.holder = next;
        let Some(next) = next else { return };
        self.turns.last = next;
        if let Some(cuts) = &mut self.k.cuts {
            cuts.turns[next] += 1;
        }
        self.k.queue.push(self.turns.begin(next, t_ns), Due::Turn { number: self.turns.number });
        let works = !self.burns && self.k.in_user(next);
        let mut since_ns = self.k.cpus[next].since_ns;
        if works {
            // Other CPUs' turns are not its own work.
            since_ns = since_ns.max(t_ns);
            self.k.cpus[next].since_ns = since_ns;
        }
        if std::mem::take(&mut self.turns.late[next]) {
            self.k.queue.push_cpu(t_ns, next);
        } else if works {
            self.start_user(next, since_ns);
        }
        for irq in std::mem::take(&mut self.turns.waiting[next]) {
            self.on_irq(next, irq, t_ns);
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
        assert!(!cuts.spins, "nobody had it");
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
