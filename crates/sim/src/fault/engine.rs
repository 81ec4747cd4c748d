// SPDX-License-Identifier: GPL-2.0-only
//! Makes changes from outside: the engine's part of `fault.rs`.

use machine::CpuSet;
use trace::Kind;
use workload::RealTime;

use super::{Change, Failing};
use crate::cgroup::cgroup_id;
use crate::checkers::Hint;
use crate::class::{dequeue, enqueue};
use crate::engine::Engine;
use crate::event::Due;
use crate::ids::{CpuId, TaskId, tid};
use crate::program::Op;
use crate::task::State;

impl Engine {
    /// Makes the tasks of [`Change::Hog`]; each starts when its change is due.
    pub(crate) fn make_hogs(&mut self) {
        for (index, fault) in self.faults.iter().enumerate() {
            let Change::Hog { cpu, for_ns, priority } = fault.change else { continue };
            let program = [Op::Runtime { wall_ns: for_ns }, Op::Exit];
            let allowed = [cpu].into_iter().collect();
            let task = self.k.add_thread(format!("hog/{cpu}"), allowed, &program);
            self.k.tasks[task].realtime = RealTime::Fifo(priority);
            self.hogs.push((index, task));
        }
    }

    /// The workload starts now: times of faults count from here.
    pub(crate) fn plan_faults(&mut self) {
        let now = self.k.now;
        for (index, fault) in self.faults.iter().enumerate() {
            self.k.queue.push(now + fault.at_ns, Due::Fault(index as u32));
        }
    }

    pub(crate) fn on_fault(&mut self, index: usize, t_ns: u64) {
        let change = self.faults[index].change.clone();
        // The system call is made on a CPU that the change leaves alone.
        let here = match change {
            Change::Offline(cpu) => self.k.online.iter().find(|other| *other != cpu),
            _ => self.k.online.lowest(),
        };
        let Some(here) = here else {
            return self.k.fail("the last CPU cannot go offline");
        };
        let free_ns = self.k.cpus[here].free_ns;
        if free_ns > t_ns {
            // Other CPUs would see the change before it is made.
            return self.k.queue.push(free_ns, Due::Fault(index as u32));
        }
        self.begin(here, t_ns);
        // Code simulated from here on may see the change, whatever its virtual time.
        self.k.sink.hint(t_ns, here, Hint::Disturbed);
        match change {
            Change::Affinity(task, cpus) => self.set_affinity(task, cpus, t_ns),
            Change::Nice(task, nice) => self.set_nice(task, nice),
            Change::Cgroup(task, group) => {
                self.k.sink.hint(t_ns, here, Hint::Regrouped);
                self.set_cgroup(task, cgroup_id(group));
            }
            Change::Quota(group, quota) => {
                self.k.sink.hint(t_ns, here, Hint::Regrouped);
                self.k.cgroups[group + 1].quota = quota;
                self.class.set_quota(&mut self.k, group + 1);
            }
            Change::Exec(task, process) => {
                self.k.tasks[task].process = process;
                self.class.has_executed(&self.k, task);
            }
            Change::End(task) => self.k.tasks[task].at.ends = true,
            Change::Offline(cpu) => {
                self.k.sink.hint(t_ns, cpu, Hint::Offline);
                self.offline(cpu);
            }
            Change::Online(cpu) => {
                self.k.sink.hint(t_ns, cpu, Hint::Online);
                self.online(cpu);
            }
            Change::Hog { .. } => {
                if let Some((_, task)) = self.hogs.iter().find(|(fault, _)| *fault == index) {
                    self.fork(*task);
                }
            }
            Change::Counters(Failing::JumpBack) => {
                self.k.cpus.iter_mut().for_each(|cpu| cpu.instructions = 0.0);
                self.k.clocks.iter_mut().for_each(|clocks| clocks.restart());
            }
            Change::Counters(Failing::Stand) => {
                self.k.counters_stand = true;
                self.k.clocks.iter_mut().for_each(|clocks| clocks.fail = true);
            }
            Change::Governor(mhz) => self.govern(f64::from(mhz) / 1e3, t_ns),
        }
        self.finish();
    }

    /// Does `change` to a task with its runqueue locked. A runnable task is dequeued meanwhile.
    fn change(&mut self, task: TaskId, change: impl FnOnce(&mut Self)) {
        let cpu = self.k.tasks[task].cpu;
        self.k.now = self.k.now.max(self.seen_ns(task));
        let running = self.k.cpus[cpu].curr == Some(task);
        // A blocking task is on its queue until its CPU schedules, which may be in the next turn.
        let queued = running || self.k.tasks[task].state == State::Queued;
        self.k.rq_lock(cpu);
        if queued {
            self.class.dequeue(&mut self.k, cpu, task, dequeue::SAVE);
        }
        if running {
            self.class.put_prev(&mut self.k, cpu, task, false, None);
        }
        if !queued {
            self.class.forget_sleeper(&mut self.k, task);
        }
        change(self);
        if queued {
            self.class.enqueue(&mut self.k, cpu, task, enqueue::RESTORE);
        }
        if running {
            self.class.set_next(&mut self.k, cpu, task);
        }
        self.k.rq_unlock(cpu);
    }

    /// Since when a task is in its present state. Another CPU's code, simulated ahead of this, may have queued it or
    /// switched to it at a later virtual time, with the runqueue locked.
    fn seen_ns(&self, task: TaskId) -> u64 {
        let of = &self.k.tasks[task];
        match of.state {
            State::Queued => of.queued_ns,
            State::Running => self.k.cpus[of.cpu].free_ns,
            _ => 0,
        }
    }

    pub(crate) fn set_affinity(&mut self, task: TaskId, cpus: CpuSet, from_ns: u64) {
        if matches!(self.k.tasks[task].state, State::New | State::Dead) || cpus.is_empty() {
            return;
        }
        // Code simulated from here on uses the new mask, whatever its virtual time.
        let at_ns = from_ns.max(self.seen_ns(task));
        let kind = Kind::Affinity { tid: tid(task), cpus: cpus.words().to_vec() };
        self.k.sink.emit(at_ns, self.k.this, kind);
        self.k.call(self.k.func.sched_setaffinity);
        self.change(task, |engine| {
            engine.k.tasks[task].allowed = cpus;
            engine.class.set_affinity(&mut engine.k, task);
        });
        let online = self.k.online;
        let to = match self.class.spreads_over_new_masks() {
            true => self.k.any_and_distribute(&online, &cpus),
            false => cpus.and(&online).lowest(),
        };
        let cpu = self.k.tasks[task].cpu;
        if !cpus.has(cpu) || !online.has(cpu) {
            self.k.tasks[task].moves_to = to;
            self.push_off(task);
        }
    }

    /// Makes a task leave a CPU that it may no longer use.
    pub(crate) fn push_off(&mut self, task: TaskId) {
        let cpu = self.k.tasks[task].cpu;
        match self.k.tasks[task].state {
            // A blocking task may still be there, because the CPU's turn has ended.
            State::Running | State::Blocked if self.k.cpus[cpu].curr == Some(task) => {
                self.k.tasks[task].must_move = true;
                self.k.resched(cpu);
            }
            State::Queued => {
                self.k.now = self.k.now.max(self.seen_ns(task));
                self.k.rq_lock(cpu);
                self.class.dequeue(&mut self.k, cpu, task, dequeue::MOVE);
                self.k.cpus[cpu].nr_running -= 1;
                self.k.tasks[task].state = State::Waking;
                self.k.rq_unlock(cpu);
                self.move_away(task);
            }
            State::Blocked => {
                self.k.tasks[task].moves_to = None;
                self.k.rq_lock(cpu);
                self.class.forget_sleeper(&mut self.k, task);
                self.k.rq_unlock(cpu);
            }
            // A task that waits on a wake list there is pushed off after its wakeup: see `wake_pending`.
            State::New | State::Running | State::Waking | State::Dead => {}
        }
    }

    fn set_nice(&mut self, task: TaskId, nice: i8) {
        if matches!(self.k.tasks[task].state, State::New | State::Dead) {
            return;
        }
        self.k.call(self.k.func.sched_setscheduler);
        self.change(task, |engine| {
            engine.k.tasks[task].nice = nice.clamp(-20, 19);
            engine.class.set_nice(&mut engine.k, task);
        });
    }

    fn set_cgroup(&mut self, task: TaskId, cgroup: u64) {
        if matches!(self.k.tasks[task].state, State::New | State::Dead) {
            return;
        }
        self.change(task, |engine| {
            let from = std::mem::replace(&mut engine.k.tasks[task].cgroup, cgroup);
            engine.class.set_cgroup(&mut engine.k, task, from);
        });
        // It may have come to a cgroup without time left [sched_move_task].
        let cpu = self.k.tasks[task].cpu;
        if self.k.cpus[cpu].curr == Some(task) {
            self.k.resched(cpu);
        }
    }

    fn offline(&mut self, cpu: CpuId) {
        if !self.k.cpus[cpu].online {
            return;
        }
        self.k.cpus[cpu].online = false;
        self.k.online.remove(cpu);
        // The CPU pushes away each task it picks. It does so for a while before a policy is told that it goes offline;
        // the policy may still queue tasks for it [sched_cpu_deactivate: balance_push_set].
        let here: Vec<TaskId> =
            (0..self.k.tasks.len()).filter(|task| self.k.tasks[*task].cpu == cpu).collect();
        here.into_iter().for_each(|task| self.push_off(task));
        if let Err(reason) = self.class.hotplug(&mut self.k, cpu, false) {
            self.k.fail(reason);
        }
    }

    fn online(&mut self, cpu: CpuId) {
        if self.k.cpus[cpu].online {
            return;
        }
        self.k.cpus[cpu].online = true;
        self.k.online.add(cpu);
        if let Err(reason) = self.class.hotplug(&mut self.k, cpu, true) {
            self.k.fail(reason);
        }
        self.rebind_keepers(cpu);
        self.k.resched(cpu);
    }
}
