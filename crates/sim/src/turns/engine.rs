// SPDX-License-Identifier: GPL-2.0-only
//! Turns of CPUs: the engine's part of `turns.rs`.

use machine::Ticks;

use crate::cpu::Mode;
use crate::engine::Engine;
use crate::event::{Due, Irq};
use crate::ids::{CpuId, TaskId};
use crate::task::State;

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
        let timer = matches!(irq, Irq::Tick | Irq::Timer { .. } | Irq::Slice | Irq::Class { .. });
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
