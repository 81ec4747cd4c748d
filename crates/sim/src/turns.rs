// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that run one after the other on one clock, as those of QEMU under icount do.
//!
//! The clock counts the instructions of all CPUs. A CPU has its turn until the next multiple of the
//! machine's `turn_ns`, until any CPU's timer expires, or until it idles; then comes the next, by
//! number, that is not idle or has an interrupt to take (QEMU's `rr_cpu_thread_fn`). One that spins for a lock gives
//! its turns away until it has it, for it says so at each round (x86's PAUSE, QEMU's `do_pause`). What is due for
//! a CPU meanwhile waits for its turn: interrupts, and the end of its task's work, which the task can
//! only see by looking at the clock. A task's CPU time runs on the one clock, in its CPU's turn or
//! not, as the guest's kernel counts it; the worker's tasks go by it, and those of a recording work in their
//! CPU's turns alone. Kernel code is simulated in one go; where its CPU's turn ends
//! meanwhile, its cursor skips the turns of as many CPUs as wanted theirs when it began.

use machine::Ticks;

use crate::cpu::Mode;
use crate::engine::Engine;
use crate::event::{Due, Irq};
use crate::task::CpuId;

/// Whose turn it is, and what waits for the turns of others.
pub(crate) struct Turns {
    length_ns: u64,
    holder: Option<CpuId>,
    last: CpuId,
    number: u64,
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
            late: vec![false; cpus],
            waiting: vec![Vec::new(); cpus],
        }
    }

    pub fn none(&self) -> bool {
        self.length_ns == 0
    }

    /// The CPU wants its turn no more, if it has one: the next one's begins. Returns what ends its own.
    pub fn ends(&self, cpu: CpuId) -> Option<Due> {
        (self.holder == Some(cpu)).then_some(Due::Turn { number: self.number })
    }
}

impl Engine {
    /// Does what is due if its CPU has its turn, or needs none for it; else it waits.
    pub(crate) fn in_turn(&mut self, due: Due, t_ns: u64) {
        let (cpu, irq) = match due {
            Due::Cpu(cpu) if self.turns.holder != Some(cpu.into()) => {
                return self.turns.late[usize::from(cpu)] = true;
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

    /// An interrupt that does not come, or changes nothing that is seen.
    fn void(&self, cpu: CpuId, irq: Irq) -> bool {
        match irq {
            Irq::Tick => self.k.cpus[cpu].idle() && self.k.machine.ticks == Ticks::Apart,
            Irq::Timer { task, timer } => self.k.tasks[task as usize].timer != timer,
            _ => false,
        }
    }

    pub(crate) fn end_turn(&mut self, number: u64, t_ns: u64) {
        if number == self.turns.number {
            self.next_turn(t_ns);
        }
    }

    /// Kernel code of `cpu` begins: says how much of the turn is left, and how long others will have
    /// theirs then, if as many want it as now.
    pub(crate) fn turn_left(&mut self, cpu: CpuId, t_ns: u64) {
        if self.turns.none() {
            return;
        }
        let length_ns = self.turns.length_ns;
        let others =
            (0..self.k.cpus.len()).filter(|other| *other != cpu && self.wants_turn(*other, t_ns));
        self.k.turn_gap_ns = others.count() as u64 * length_ns;
        self.k.turn_left_ns = length_ns - t_ns % length_ns;
    }

    fn wants_turn(&self, cpu: CpuId, t_ns: u64) -> bool {
        let state = &self.k.cpus[cpu];
        let spins = state.mode == Mode::Kernel && state.spins.contains(&t_ns);
        state.mode != Mode::Idle && !spins || !self.turns.waiting[cpu].is_empty()
    }

    /// Whether users' work stands still on this CPU: others have their turn.
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
        let all = || (from..from + cpus).map(|cpu| cpu % cpus);
        // Where all of them spin, one goes on: who has the lock is ahead of the others' time.
        let next = all()
            .find(|cpu| self.wants_turn(*cpu, t_ns))
            .or_else(|| all().find(|cpu| self.k.cpus[*cpu].mode != Mode::Idle));
        self.turns.number += 1;
        self.turns.holder = next;
        let Some(next) = next else { return };
        self.turns.last = next;
        let until_ns = (t_ns / self.turns.length_ns + 1) * self.turns.length_ns;
        self.k.queue.push(until_ns, Due::Turn { number: self.turns.number });
        let works = !self.burns && self.k.in_user(next);
        let mut since_ns = self.k.cpus[next].since_ns;
        if works {
            // What others had is not its own work.
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
