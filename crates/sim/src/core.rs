// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler core: the work of kernel/sched/core.c for the tasks of every class.

use machine::{CpuSet, Ticks};
use trace::{IDLE, Kind};

use crate::checkers::Hint;
use crate::class::{dequeue, enqueue, wake};
use crate::cpu::Mode;
use crate::engine::Engine;
use crate::event::{Due, Irq};
use crate::ids::{CpuId, TaskId, tid};
use crate::task::{State, Task};

/// Passes of the scheduler in a row before other CPUs get their turn.
const PASSES_MAX: u32 = 8;

impl Engine {
    /// Kernel code of `cpu` begins.
    pub(crate) fn begin(&mut self, cpu: CpuId, t_ns: u64) {
        let now = t_ns.max(self.k.cpus[cpu].free_ns);
        if self.k.in_user(cpu) {
            self.pause(cpu, now);
        }
        self.k.begin(cpu, now);
        self.begin_in_turn();
        let k = &mut self.k;
        let was = k.cpus[cpu].mode;
        if was != Mode::Kernel {
            k.cpus[cpu].set_mode(Mode::Kernel, now);
            k.queue.cancel_cpu(cpu);
        }
        if was == Mode::Idle {
            k.charge(k.whole.idle_exit_ns);
        }
    }

    /// Kernel code of this CPU is about to end: interrupts are on again, and the CPU schedules if it was asked to.
    pub(crate) fn settle(&mut self) {
        let cpu = self.k.this;
        for _ in 0..PASSES_MAX {
            if std::mem::take(&mut self.k.cpus[cpu].irq_work) {
                self.k.charge(self.k.whole.irq_ns);
                self.class.irq_work(&mut self.k, cpu);
            } else if self.is_to_schedule(cpu) && !self.turn_is_over(cpu) {
                self.schedule();
            } else {
                return;
            }
        }
        let now = self.k.now;
        self.k.queue.push(now, Due::Irq { cpu: cpu as u16, irq: Irq::Resched });
    }

    /// Kernel code of this CPU ends.
    pub(crate) fn end(&mut self) {
        let k = &mut self.k;
        let (cpu, now) = (k.this, k.now);
        debug_assert_eq!(k.lock_held(), None, "kernel code ends with a lock held");
        k.credit();
        k.cpus[cpu].free_ns = now;
        self.end_in_turn(cpu);
        let state = &mut self.k.cpus[cpu];
        // If a change from outside came before this CPU's own code went on, pending interrupts wait for that code.
        match state.idle() && !state.gives_way() && state.pending.is_empty() {
            true => state.set_mode(Mode::Idle, now),
            false => self.due_at(cpu, now),
        }
    }

    /// [`Engine::settle`], then [`Engine::end`].
    pub(crate) fn finish(&mut self) {
        self.settle();
        self.end();
    }

    pub(crate) fn due_at(&mut self, cpu: CpuId, t_ns: u64) {
        self.k.queue.push_cpu(t_ns, cpu);
    }

    /// `__schedule` on this CPU: the present task goes on, or another gets the CPU.
    pub(crate) fn schedule(&mut self) {
        let k = &mut self.k;
        let cpu = k.this;
        if k.cpus[cpu].idle() {
            // The idle loop ends after the interrupt that has woken the CPU.
            k.call(k.func.cpu_idle_exit);
            self.restart_tick(cpu);
        }
        let k = &mut self.k;
        // `__schedule` looks at the clock before nearly all that it does.
        k.standing_ns = Some(k.now);
        k.enter(k.func.schedule);
        k.rq_lock(cpu);
        k.call(k.func.update_rq_clock);
        k.cpus[cpu].need_resched = false;
        k.cpus[cpu].lazy_resched = false;
        if std::mem::take(&mut k.cpus[cpu].tick_asked) {
            // Perhaps long after the tick: a system call went on, or other CPUs had their turn.
            k.hint(Hint::Tick);
        }
        let prev = k.cpus[cpu].curr;
        let runnable =
            prev.is_some_and(|p| k.tasks[p].state == State::Running && !k.tasks[p].must_move);
        if let Some(prev) = prev.filter(|_| !runnable) {
            self.deactivate(cpu, prev);
        }
        let next = self.class.pick_next(&mut self.k, cpu, prev, runnable);
        // Code simulated earlier may have queued it at a later virtual time.
        let queued_ns = next.map_or(0, |next| self.k.tasks[next].queued_ns);
        self.k.now = self.k.now.max(queued_ns);
        if next == prev {
            if next.is_none() {
                self.class.idle(&mut self.k, cpu, true, false);
            }
            self.k.standing_ns = None;
            self.k.rq_unlock(cpu);
            return self.k.leave();
        }
        match prev {
            Some(prev) => self.class.put_prev(&mut self.k, cpu, prev, runnable, next),
            None => self.class.idle(&mut self.k, cpu, false, true),
        }
        match next {
            Some(next) => self.class.set_next(&mut self.k, cpu, next),
            None => self.class.idle(&mut self.k, cpu, true, true),
        }
        self.k.standing_ns = None;
        self.switch(cpu, prev, next, runnable);
        self.rerate_cache(cpu, prev, next);
        self.rerate_domains();
        self.k.rq_unlock(cpu);
        self.k.leave();
        if let Some(prev) = prev.filter(|_| !runnable) {
            self.left(prev);
        }
    }

    /// `tick_nohz_idle_exit`, if the tick was stopped.
    fn restart_tick(&mut self, cpu: CpuId) {
        let k = &mut self.k;
        if k.machine.ticks == Ticks::Apart || k.cpus[cpu].tick_armed {
            return;
        }
        k.charge_ns(k.machine.costs.tick_restart_ns);
        let period_ns = k.whole.tick_period_ns;
        let next_ns = k.cpus[cpu].next_tick_ns(k.now, period_ns);
        if !k.cpus[cpu].timer_within(k.now, next_ns) {
            k.charge_ns(k.machine.costs.tick_program_ns);
        }
        k.cpus[cpu].tick_armed = true;
        self.arm_tick(cpu);
    }

    fn deactivate(&mut self, cpu: CpuId, prev: TaskId) {
        let k = &mut self.k;
        let flags = match k.tasks[prev].is_stopped() {
            true => dequeue::MOVE,
            false => dequeue::SLEEP,
        };
        k.enter(k.func.deactivate_task);
        self.class.dequeue(&mut self.k, cpu, prev, flags);
        self.k.leave();
        self.k.cpus[cpu].nr_running -= 1;
    }

    /// The CPU switches from one task to the other.
    fn switch(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, runnable: bool) {
        self.trace_switch(prev, next);
        let k = &mut self.k;
        k.call(k.func.context_switch);
        k.charge(k.whole.register_switch_ns);
        if let (Some(hw), Some(prev)) = (&mut k.hw, prev) {
            hw.leave(cpu, prev);
        }
        if let Some(next) = next {
            self.switch_to(cpu, next);
        }
        let k = &mut self.k;
        let now = k.now;
        if let Some(prev) = prev {
            let task = &mut k.tasks[prev];
            task.on_cpu_until_ns = now;
            if runnable {
                task.state = State::Queued;
                task.queued_ns = now;
            }
            if task.state == State::Dead {
                task.ended_ns = now;
            }
        }
        self.k.cpus[cpu].curr = next;
        match (prev, next) {
            (None, Some(_)) => self.became_busy(cpu),
            (Some(_), None) => self.became_idle(cpu),
            _ => {}
        }
        self.code_changes(cpu, now);
        self.k.call(self.k.func.finish_task_switch);
    }

    /// At the tracepoint: the next task is known, and nothing is switched yet.
    fn trace_switch(&mut self, prev: Option<TaskId>, next: Option<TaskId>) {
        let k = &mut self.k;
        k.charge(k.whole.observe_before_ns);
        let dead = prev.filter(|prev| k.tasks[*prev].state == State::Dead);
        if let Some(prev) = dead {
            k.emit(Kind::Exit { tid: tid(prev) });
        }
        // A task that must leave for another CPU is still runnable.
        let stays = prev.is_some_and(|prev| k.tasks[prev].state == State::Running);
        k.emit(Kind::Switch {
            prev: prev.map_or(IDLE, tid),
            next: next.map_or(IDLE, tid),
            prev_runnable: stays,
            next_mm: next.map_or(0, |next| k.space_of(next) as u64),
        });
        k.credit();
        let worked_ns = std::mem::take(&mut k.cpus[k.this].worked_ns);
        if let Some(prev) = prev {
            let task = &mut k.tasks[prev];
            task.worked_ns += worked_ns;
            match stays {
                true => task.happened.preempted += 1,
                false => {
                    task.happened.waited += 1;
                    task.at.debt += k.takes_more.waited_ns;
                }
            }
        }
        k.charge(k.whole.observe_after_ns);
    }

    /// Effects of the next task: its address space, and cold caches.
    fn switch_to(&mut self, cpu: CpuId, next: TaskId) {
        let vary = self.varied();
        let k = &mut self.k;
        let costs = &k.machine.costs;
        let mut debt_ns = 0.0;
        // A kernel thread keeps the present address space.
        let mm = if k.tasks[next].kernel { k.cpus[cpu].mm } else { k.space_of(next) };
        let other_mm = k.cpus[cpu].mm != mm;
        // The cache model covers a task that says what memory it touches.
        if !k.hw.as_ref().is_some_and(|hw| hw.knows(next)) {
            if other_mm {
                debt_ns += costs.mm_refill_ns;
            }
            if k.cpus[cpu].last != Some(next) {
                debt_ns += costs.switch_refill_ns;
            }
            if let Some(last) = k.tasks[next].last_ran {
                debt_ns += k.machine.migrate_ns(last, cpu);
            }
        }
        if other_mm {
            k.call(k.func.switch_mm);
            k.charge(k.whole.mm_switch_ns);
        }
        if let Some(hw) = &mut k.hw {
            let kernel_ns = hw.enter(cpu, next, mm);
            k.charge_ns(kernel_ns);
        }
        k.cpus[cpu].mm = mm;
        k.cpus[cpu].last = Some(next);
        let task = &mut k.tasks[next];
        debug_assert_eq!(task.cpu, cpu, "{} runs where it does not belong", task.name);
        task.at.debt += debt_ns * vary;
        task.last_ran = Some(cpu);
        task.state = State::Running;
        if let Some(domains) = &mut k.domains {
            domains.touch(next, usize::from(k.machine.cpus[cpu].node));
        }
    }

    fn became_busy(&mut self, cpu: CpuId) {
        if self.k.set_busy(cpu, true) {
            self.rerate_siblings(cpu);
        }
        if !std::mem::replace(&mut self.k.cpus[cpu].tick_armed, true) {
            self.arm_tick(cpu);
        }
    }

    fn became_idle(&mut self, cpu: CpuId) {
        if self.k.set_busy(cpu, false) {
            self.rerate_siblings(cpu);
        }
        self.k.call(self.k.func.cpu_idle_enter);
    }

    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        let k = &mut self.k;
        let period_ns = k.whole.tick_period_ns;
        let at_ns = k.cpus[cpu].next_tick_ns(k.now, period_ns);
        k.cpus[cpu].tick_ns = at_ns;
        k.queue.push(at_ns, Due::Irq { cpu: cpu as u16, irq: Irq::Tick });
    }

    /// A task that does not go on has left its CPU.
    fn left(&mut self, prev: TaskId) {
        match self.k.tasks[prev].state {
            State::Dead => {
                self.class.dead(&mut self.k, prev);
                self.alive -= usize::from(!self.k.tasks[prev].kernel);
            }
            State::Running => self.move_away(prev),
            // It blocked before the stopper came; the stopper has it wake elsewhere [migration_cpu_stop].
            State::Blocked if self.k.tasks[prev].must_move => {
                self.k.tasks[prev].must_move = false;
                self.push_off(prev);
            }
            _ => {}
        }
    }

    /// The stopper's work: moves a task that may no longer run on its CPU.
    pub(crate) fn move_away(&mut self, task: TaskId) {
        self.k.call(self.k.func.migration_stop);
        self.k.tasks[task].must_move = false;
        let from = self.k.tasks[task].cpu;
        let chosen = self.k.tasks[task].moves_to.take();
        let usable = self.k.tasks[task].allowed.and(&self.k.online);
        let chosen = chosen.filter(|cpu| usable.has(*cpu));
        let cpu = chosen.unwrap_or_else(|| self.fallback(task, from));
        self.k.tasks[task].state = State::Waking;
        self.k.set_task_cpu(task, cpu);
        self.k.rq_lock(cpu);
        self.activate(cpu, task, enqueue::MOVE, 0);
        self.k.rq_unlock(cpu);
    }

    /// `try_to_wake_up`: makes a blocked task runnable. Returns whether it was blocked.
    pub(crate) fn try_to_wake_up(&mut self, task: TaskId, sync: bool) -> bool {
        if self.k.tasks[task].state != State::Blocked {
            return false;
        }
        let k = &mut self.k;
        k.enter(k.func.try_to_wake_up);
        k.touch_task(task);
        if k.cpus[k.tasks[task].cpu].curr == Some(task) {
            // It has not left its CPU yet.
            k.tasks[task].state = State::Running;
            return k.leave_with(true);
        }
        k.tasks[task].state = State::Waking;
        let prev = k.tasks[task].cpu;
        let flags = wake::TTWU | if sync { wake::SYNC } else { 0 };
        if self.class.still_queued(task) {
            // `ttwu_runnable`: woken in place, by any waker.
            self.k.rq_lock(prev);
            self.activate(prev, task, enqueue::WAKEUP, flags);
            self.k.rq_unlock(prev);
            return self.k.leave_with(true);
        }
        let k = &mut self.k;
        if k.tasks[task].on_cpu_until_ns > k.now
            && self.class.queued_wakeups(&self.k, task)
            && self.leave_to(prev, task, flags)
        {
            return self.k.leave_with(true);
        }
        let leaving = self.k.tasks[task].on_cpu_until_ns > self.k.now;
        let usable = self.k.tasks[task].allowed.has(prev) && self.k.online.has(prev);
        let cpu = match leaving && usable && self.class.wakes_leaving_in_place() {
            true => prev,
            false => {
                self.k.now = self.k.now.max(self.k.tasks[task].on_cpu_until_ns);
                let locks = self.class.wakes_under_lock();
                locks.then(|| self.k.rq_lock(prev));
                let cpu = self.place(task, prev, flags);
                locks.then(|| self.k.rq_unlock(prev));
                cpu
            }
        };
        self.k.tasks[task].cpu = cpu;
        if self.class.queued_wakeups(&self.k, task) && self.leave_to(cpu, task, flags) {
            return self.k.leave_with(true);
        }
        let moved = if cpu == prev { 0 } else { enqueue::MIGRATED };
        self.k.rq_lock(cpu);
        self.activate(cpu, task, enqueue::WAKEUP | moved, flags);
        self.k.rq_unlock(cpu);
        self.k.leave_with(true)
    }

    /// `ttwu_queue_wakelist`: leaves the rest of a wakeup to a CPU that is far away, or has nothing else to do. Returns
    /// whether it did.
    fn leave_to(&mut self, cpu: CpuId, task: TaskId, flags: u64) -> bool {
        let k = &mut self.k;
        let far = !k.share_cache(k.this, cpu);
        let allowed = k.tasks[task].allowed.has(cpu) && k.cpus[cpu].online;
        if !allowed || cpu == k.this || !(far || k.cpus[cpu].nr_ready() == 0) {
            return false;
        }
        k.call(k.func.ttwu_queue_wakelist);
        let first = k.cpus[cpu].wake_list.is_empty();
        k.cpus[cpu].wake_list.push((task, flags as u32));
        if first {
            k.send(cpu, Irq::Wakeups);
        }
        true
    }

    /// `sched_ttwu_pending`: wakeups that other CPUs left to this one.
    pub(crate) fn wake_pending(&mut self) {
        let cpu = self.k.this;
        let mut list = std::mem::take(&mut self.k.cpus[cpu].wake_list);
        self.k.enter(self.k.func.sched_ttwu_pending);
        self.k.rq_lock(cpu);
        for &(task, flags) in &list {
            let moved = match self.k.tasks[task].last_ran {
                Some(last) if last != cpu => enqueue::MIGRATED,
                _ => 0,
            };
            self.k.tasks[task].cpu = cpu;
            self.activate(cpu, task, enqueue::WAKEUP | moved, u64::from(flags));
        }
        self.k.rq_unlock(cpu);
        self.k.leave();
        for (task, _) in list.drain(..) {
            // Meanwhile its mask has changed, or the CPU went offline: the stopper moves it [affine_move_task].
            if !self.k.tasks[task].allowed.has(cpu) || !self.k.online.has(cpu) {
                self.push_off(task);
            }
        }
        self.k.cpus[cpu].wake_list = list;
    }

    /// `ttwu_do_activate`: a task becomes runnable on `cpu`. The runqueue is locked.
    pub(crate) fn activate(&mut self, cpu: CpuId, task: TaskId, flags: u64, wake: u64) {
        let k = &mut self.k;
        k.enter(k.func.ttwu_do_activate);
        k.call(k.func.update_rq_clock);
        let outer_ns = k.standing_ns.replace(k.now);
        k.touch_task(task);
        k.tasks[task].state = State::Queued;
        // A task that still leaves its CPU waits from the time it has left.
        let Task { on_cpu_until_ns, locked_out_ns, .. } = k.tasks[task];
        let queued_ns = k.now.max(on_cpu_until_ns).max(locked_out_ns);
        k.tasks[task].queued_ns = queued_ns;
        k.cpus[cpu].nr_running += 1;
        k.enter(k.func.activate_task);
        self.class.enqueue(&mut self.k, cpu, task, flags);
        self.k.leave();
        match self.k.cpus[cpu].curr {
            None => self.k.resched(cpu),
            Some(curr) => self.class.preempt(&mut self.k, cpu, curr, task, wake),
        }
        self.k.standing_ns = outer_ns;
        if flags & enqueue::MOVE == 0 {
            // At the tracepoint: `ttwu_do_wakeup`, the last step of an activation.
            let k = &mut self.k;
            k.charge(k.whole.observe_before_ns);
            let at_ns = k.now.max(queued_ns);
            k.sink.emit(at_ns, k.this, Kind::Wake { tid: tid(task), target: cpu as u32 });
            // Its runqueue is locked until here, so no CPU takes it earlier.
            k.tasks[task].queued_ns = at_ns;
            k.charge(k.whole.observe_after_ns);
            self.class.woken(k, cpu, task);
        }
        self.k.leave();
    }

    /// `select_task_rq`: the CPU on which a task is to become runnable.
    fn place(&mut self, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        let cpu = match self.k.tasks[task].pinned() {
            true => self.k.tasks[task].allowed.lowest().unwrap_or(prev),
            false => self.class.select_cpu(&mut self.k, task, prev, flags),
        };
        let usable = self.k.tasks[task].allowed.has(cpu) && self.k.online.has(cpu);
        if usable { cpu } else { self.fallback(task, prev) }
    }

    /// `select_fallback_rq`: a CPU of the task's mask, of the same node if there is one. If all of the mask are
    /// offline, the task may use any CPU from now on.
    fn fallback(&mut self, task: TaskId, prev: CpuId) -> CpuId {
        let k = &mut self.k;
        if k.tasks[task].allowed.and(&k.online).is_empty() {
            k.tasks[task].allowed = k.machine.all();
            let cpus = k.tasks[task].allowed.words().to_vec();
            k.emit(Kind::Affinity { tid: tid(task), cpus });
            self.class.set_affinity(k, task);
        }
        let k = &self.k;
        let usable = k.tasks[task].allowed.and(&k.online);
        let node = k.machine.cpus[prev].node;
        let near: CpuSet = usable.iter().filter(|cpu| k.machine.cpus[*cpu].node == node).collect();
        near.lowest().or(usable.lowest()).expect("the last CPU does not go offline")
    }

    /// A task has been copied on this CPU, and becomes runnable: `wake_up_new_task`.
    pub(crate) fn fork(&mut self, task: TaskId) {
        let k = &mut self.k;
        let here = k.this;
        k.tasks[task].cpu = here;
        k.tasks[task].line = here;
        k.tasks[task].state = State::Waking;
        self.alive += usize::from(!k.tasks[task].kernel);
        self.class.fork(&mut self.k, task);
        let k = &mut self.k;
        if k.tasks[task].realtime.yes() {
            k.hint(Hint::RealTime(tid(task)));
        }
        k.emit(Kind::Fork { tid: tid(task) });
        // Also for CPUs that are offline now, and may come online.
        if !k.machine.all().within(&k.tasks[task].allowed) {
            let cpus = k.tasks[task].allowed.words().to_vec();
            k.emit(Kind::Affinity { tid: tid(task), cpus });
        }
        k.enter(k.func.wake_up_new_task);
        let cpu = self.place(task, here, wake::FORK);
        self.k.tasks[task].cpu = cpu;
        self.k.rq_lock(cpu);
        self.activate(cpu, task, enqueue::INITIAL, wake::FORK);
        self.k.rq_unlock(cpu);
        self.k.leave();
    }

    /// The tick of this CPU.
    pub(crate) fn tick(&mut self) {
        let k = &mut self.k;
        let cpu = k.this;
        k.hint(Hint::Tick);
        k.call(k.func.timer_interrupt);
        k.charge(k.whole.timer_ns);
        if let Some(curr) = k.cpus[cpu].curr {
            k.enter(k.func.scheduler_tick);
            k.rq_lock(cpu);
            k.call(k.func.update_rq_clock);
            let asked = self.k.cpus[cpu].need_resched;
            self.class.tick(&mut self.k, cpu, curr);
            self.k.cpus[cpu].tick_asked |= !asked && self.k.cpus[cpu].need_resched;
            self.k.rq_unlock(cpu);
            self.k.leave();
            self.class.balance(&mut self.k, cpu);
        } else {
            // High-resolution timers do not keep it going (`tick_nohz_next_event`).
            self.k.cpus[cpu].tick_armed = false;
            return self.class.idle_tick(&mut self.k, cpu);
        }
        self.arm_tick(cpu);
    }

    /// `sched_yield` of the running task.
    pub(crate) fn yield_now(&mut self, task: TaskId) {
        let cpu = self.k.this;
        self.k.hint(Hint::Yield(tid(task)));
        self.k.enter(self.k.func.do_sched_yield);
        self.k.rq_lock(cpu);
        self.class.yield_task(&mut self.k, cpu, task);
        self.k.rq_unlock(cpu);
        self.k.leave();
        self.schedule();
    }
}
