// SPDX-License-Identifier: GPL-2.0-only
//! What tasks do with objects: sleeping, locks, conditions, barriers. The order in which tasks run decides which task
//! blocks and which task wakes it.
//!
//! Calls on channels (pipes, sockets) are in `channel/engine.rs`, accepted connections in `listener.rs`, an
//! interpreter's lock in `gil.rs`.

use std::collections::VecDeque;

use machine::Ticks;
use workload::More;

use super::{BLOCKED, FOREVER_NS, Object, RELEASED, SPINNING, object};
use crate::checkers::Hint;
use crate::engine::Engine;
use crate::event::{Due, Irq};
use crate::ids::{TaskId, tid};
use crate::lock::LockId;
use crate::program::Op;
use crate::task::State;

impl Engine {
    /// An operation that is not the task's own code. The task is left running, or blocked and
    /// off its CPU.
    pub(crate) fn system_call(&mut self, task: TaskId, op: Op) {
        match op {
            Op::Sleep { ns } => self.sleep(task, ns),
            Op::Delay => {
                let origin_ns = self.k.tasks[task].at.origin_ns;
                self.sleep(task, origin_ns.saturating_sub(self.k.now));
            }
            Op::Timer { timer, period_ns, relative } => {
                self.wait_timer(task, timer, period_ns, relative);
            }
            Op::Lock(mutex) => self.lock_mutex(task, mutex),
            Op::Unlock(mutex) => {
                self.next(task);
                self.unlock_mutex(task, mutex);
            }
            Op::Wait { condition, mutex } => self.wait_condition(task, condition, mutex),
            Op::Signal { condition, all } => self.signal(task, condition, all),
            Op::Barrier(barrier) => self.barrier(task, barrier),
            Op::Await { flag, up } => self.await_flag(task, flag, up),
            Op::Set { flag, up } => self.set_flag(task, flag, up),
            Op::Suspend(at) => self.suspend(task, at),
            Op::Resume(at) => self.resume(task, at),
            Op::Gate => self.wait_at_gate(task),
            Op::Open => self.open_gate(task),
            Op::Rest => self.rest(task),
            Op::Give { tokens, more, sync } => self.give(task, tokens, more, sync),
            Op::Contend { ns } => self.contend(task, ns),
            Op::Take(tokens) => self.take(task, tokens),
            Op::TakeWithin { tokens, ns, work_ns } => self.take_within(task, tokens, ns, work_ns),
            Op::Connect { listener, connection } => self.connect(task, listener, connection),
            Op::Accept { listener, accepted } => self.accept(task, listener, accepted),
            Op::Write { channel, bytes } => {
                if let Some(channel) = self.channel(task, channel) {
                    self.write(task, channel, bytes);
                }
            }
            Op::Read { channel, bytes } => {
                if let Some(channel) = self.channel(task, channel) {
                    self.read(task, channel, bytes);
                }
            }
            Op::Yield => {
                self.next(task);
                self.enter_kernel();
                self.yield_now(task);
            }
            Op::Io { bytes, buffer } => self.write_device(task, bytes, buffer),
            Op::Cpus(mask) => self.set_own_cpus(task, mask as usize),
            Op::Fork(_) if self.phase(task) == 0 && !self.k.tasks[task].at.recorded() => {
                // Copying takes long: other CPUs go on before the child appears. In a recording it is part of the work.
                self.set_phase(task, 1);
                self.enter_kernel();
                self.k.call(self.k.func.copy_process);
            }
            Op::Fork(child) => {
                self.next(task);
                if self.k.tasks[child].state == State::New {
                    // A model's tasks exist from the beginning, so the task that releases one is not its creator.
                    self.k.forker = self.k.tasks[task].at.recorded().then_some(task);
                    self.fork(child);
                    self.k.forker = None;
                }
            }
            Op::Exit => self.exit(task),
            Op::Run { .. }
            | Op::Runtime { .. }
            | Op::Mem { .. }
            | Op::Stalled { .. }
            | Op::Mpki { .. }
            | Op::Vector { .. }
            | Op::Loop { .. }
            | Op::Again { .. }
            | Op::Script => {}
        }
        self.leave_if_blocked(task);
    }

    /// A task that has to wait for something leaves its CPU, if it has not already.
    pub(crate) fn leave_if_blocked(&mut self, task: TaskId) {
        let cpu = self.k.this;
        if self.k.tasks[task].state == State::Running || self.k.cpus[cpu].curr != Some(task) {
            return;
        }
        if !self.turn_is_over(cpu) {
            return self.schedule();
        }
        // It schedules even if it is woken before that.
        self.k.hint(Hint::Yield(tid(task)));
        self.k.cpus[cpu].need_resched = true;
    }

    pub(crate) fn wrong_kind(&mut self, object: usize, expected: &str) {
        self.k.fail(format!("object {object} of the workload is not a {expected}"));
        // No task can go on from here; the run ends at the next event.
        let cpu = self.k.this;
        if let Some(task) = self.k.cpus[cpu].curr {
            self.block(task);
        }
    }

    pub(crate) fn next(&mut self, task: TaskId) {
        self.k.tasks[task].at.next();
    }

    pub(crate) fn phase(&self, task: TaskId) -> u8 {
        self.k.tasks[task].at.phase
    }

    pub(crate) fn set_phase(&mut self, task: TaskId, phase: u8) {
        self.k.tasks[task].at.phase = phase;
    }

    pub(crate) fn enter_kernel(&mut self) {
        self.k.charge(self.k.whole.syscall_ns);
    }

    /// The task waits for something: it leaves its CPU at the end of the system call.
    pub(crate) fn block(&mut self, task: TaskId) {
        self.drop_gil(task);
        self.stop(task);
    }

    /// The same for a task that keeps its interpreter's lock.
    fn stop(&mut self, task: TaskId) {
        self.k.call(self.funcs.prepare_to_wait);
        self.k.tasks[task].state = State::Blocked;
    }

    /// `wake_up`: wakes the longest waiter. Returns whether there was one.
    pub(crate) fn wake_first(&mut self, waiter: Option<TaskId>, sync: bool) -> bool {
        let Some(waiter) = waiter else { return false };
        self.k.enter(self.funcs.wake_up_common);
        if self.try_to_wake_up(waiter, sync)
            && let Some(waker) = self.k.cpus[self.k.this].curr
        {
            let waker = &mut self.k.tasks[waker];
            waker.happened.woke += 1;
            waker.at.debt += self.k.takes_more.woke_ns;
        }
        self.k.leave_with(true)
    }

    /// One `write` of one buffer, which the device takes without looking at it.
    fn write_device(&mut self, task: TaskId, bytes: u32, buffer: u32) {
        self.enter_kernel();
        let at = &mut self.k.tasks[task].at;
        at.bytes += buffer.min(bytes - at.bytes);
        if at.bytes == bytes {
            at.next();
        }
    }

    /// The task sets its own CPUs; if nothing changes, it makes no system call.
    fn set_own_cpus(&mut self, task: TaskId, mask: usize) {
        self.next(task);
        let cpus = self.k.tasks[task].masks[mask];
        if cpus != self.k.tasks[task].allowed {
            self.enter_kernel();
            self.k.hint(Hint::Disturbed);
            self.set_affinity(task, cpus, self.k.now);
        }
    }

    fn exit(&mut self, task: TaskId) {
        // Its program releases the lock before it calls the kernel [thread_run]. The call takes so long that a wakeup
        // after it, simulated in one go, would be far ahead. A tick elsewhere would see the task before its wakeup, and
        // end a slice.
        self.drop_gil(task);
        // In a recording it is the last part of the work.
        if !self.k.tasks[task].at.recorded() {
            self.enter_kernel();
            self.k.call(self.k.func.do_exit);
        }
        self.k.tasks[task].exiting = true;
        self.k.tasks[task].state = State::Dead;
    }

    // ---- waits of a recording ----

    /// The system calls around it are in the recorded work; the wakeup is not.
    fn give(&mut self, task: TaskId, at: usize, more: More, sync: bool) {
        let (mut at, mut more) = (at, more);
        let mut locked_out = Vec::new();
        loop {
            self.next(task);
            self.k.tasks[task].at.giving = more;
            let tokens = object!(self, Tokens, at);
            let waiter = tokens.waiters.pop_front();
            tokens.count += u64::from(waiter.is_none());
            self.wake_first(waiter, sync);
            if more != More::Locked {
                break;
            }
            locked_out.extend(waiter);
            match self.gives_next(task) {
                Some(next) => (at, more) = next,
                None => break,
            }
        }
        let now = self.k.now;
        for waiter in locked_out {
            let waiter = &mut self.k.tasks[waiter];
            (waiter.locked_out_ns, waiter.queued_ns) = (now, waiter.queued_ns.max(now));
        }
    }

    /// Does a task's work up to its next token, if that comes next: in the same stretch of the kernel's code.
    fn gives_next(&mut self, task: TaskId) -> Option<(usize, More)> {
        if let Op::Run { work_ns } = self.k.tasks[task].at.op() {
            self.k.charge_ns(work_ns as f64);
            self.k.tasks[task].at.done += work_ns as f64;
            self.next(task);
        }
        match self.k.tasks[task].at.op() {
            Op::Give { tokens, more, .. } => Some((tokens, more)),
            _ => None,
        }
    }

    /// Other tasks hold a lock of the kernel's for `ns` that the task needs. It keeps its interpreter's lock.
    fn contend(&mut self, task: TaskId, ns: u64) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        self.set_phase(task, 1);
        self.wake_at(task, self.k.now + ns);
        self.stop(task);
    }

    fn take(&mut self, task: TaskId, at: usize) {
        self.k.tasks[task].at.giving = More::No;
        if self.phase(task) == 1 {
            return self.next(task);
        }
        let tokens = object!(self, Tokens, at);
        if tokens.count > 0 {
            tokens.count -= 1;
            return self.next(task);
        }
        tokens.waiters.push_back(task);
        self.set_phase(task, 1);
        self.block(task);
    }

    /// A task that is given a token just before its timer interrupt takes it: it asked in time.
    fn take_within(&mut self, task: TaskId, at: usize, ns: u64, work_ns: u64) {
        self.k.tasks[task].at.giving = More::No;
        let asked = self.phase(task) == 1;
        let tokens = object!(self, Tokens, at);
        if asked && let Some(place) = tokens.waiters.iter().position(|waiter| *waiter == task) {
            tokens.waiters.remove(place);
            return self.k.tasks[task].at.ask_again(work_ns);
        }
        if asked {
            self.k.tasks[task].drop_timer();
            return self.next(task);
        }
        if tokens.count > 0 {
            tokens.count -= 1;
            return self.next(task);
        }
        tokens.waiters.push_back(task);
        self.arm(task, self.k.now + ns);
    }

    // ---- time ----

    fn arm(&mut self, task: TaskId, at_ns: u64) {
        self.set_phase(task, 1);
        self.block_until(task, at_ns);
    }

    /// Blocks a task until it is woken, or until `at_ns`.
    pub(crate) fn block_until(&mut self, task: TaskId, at_ns: u64) {
        let k = &mut self.k;
        k.call(self.funcs.hrtimer_nanosleep);
        let at_ns = at_ns.max(k.now) + k.machine.costs.timer_slack_ns as u64;
        if k.machine.ticks == Ticks::Together {
            k.cpus[k.this].timer_set(at_ns, k.now);
        }
        self.wake_at(task, at_ns);
        self.block(task);
    }

    /// This CPU wakes a task at `at_ns`; earlier timers of it are void.
    fn wake_at(&mut self, task: TaskId, at_ns: u64) {
        let k = &mut self.k;
        k.tasks[task].drop_timer();
        let irq = Irq::Timer { task: task as u32, timer: k.tasks[task].timer };
        k.queue.push(at_ns, Due::Irq { cpu: k.this as u16, irq });
    }

    fn sleep(&mut self, task: TaskId, ns: u64) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        self.enter_kernel();
        self.arm(task, self.k.now + ns);
    }

    fn wait_timer(&mut self, task: TaskId, timer: usize, period_ns: u64, relative: bool) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        self.enter_kernel();
        let now = self.k.now;
        let origin_ns = self.k.tasks[task].at.origin_ns;
        let timers = &mut self.k.tasks[task].at.timers;
        let index = timers.iter().position(|(id, _)| *id == timer).unwrap_or_else(|| {
            timers.push((timer, origin_ns));
            timers.len() - 1
        });
        timers[index].1 += period_ns;
        let due_ns = timers[index].1;
        if due_ns > now {
            return self.arm(task, due_ns);
        }
        if relative {
            timers[index].1 = now;
        }
        self.next(task);
    }

    fn suspend(&mut self, task: TaskId, at: usize) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        self.enter_kernel();
        let place = object!(self, Suspension, at);
        place.waiters.push_back(task);
        let bucket = place.bucket;
        self.futex_wait(task, bucket, 1);
    }

    fn resume(&mut self, task: TaskId, at: usize) {
        self.next(task);
        self.enter_kernel();
        let place = object!(self, Suspension, at);
        let (waiters, bucket) = (std::mem::take(&mut place.waiters), place.bucket);
        self.futex_wake(task, waiters, bucket);
    }

    // ---- the start ----

    /// The task is ready, and tells the opener of the gate.
    fn wait_at_gate(&mut self, task: TaskId) {
        if self.phase(task) == 1 {
            return self.next(task);
        }
        self.enter_kernel();
        let Some(gate) = &mut self.gate else { return self.next(task) };
        gate.ready += 1;
        gate.waiters.push_back(task);
        let (opener, bucket) = (gate.opener.take(), gate.bucket);
        if let Some(opener) = opener {
            self.futex_wake(task, VecDeque::from([opener]), bucket);
        }
        self.futex_wait(task, bucket, 1);
    }

    /// Starts all tasks together, once all are ready: the workload starts, and is measured from here.
    fn open_gate(&mut self, task: TaskId) {
        self.enter_kernel();
        let Some(gate) = &mut self.gate else { return self.next(task) };
        let bucket = gate.bucket;
        if gate.ready < gate.parties {
            gate.opener = Some(task);
            return self.futex_wait(task, bucket, 0);
        }
        let waiters = std::mem::take(&mut gate.waiters);
        self.start();
        self.next(task);
        self.futex_wake(task, waiters, bucket);
    }

    // ---- futexes ----

    /// Queues the task, which is in the list already, and blocks it.
    fn futex_wait(&mut self, task: TaskId, bucket: LockId, phase: u8) {
        self.k.enter(self.funcs.futex_wait);
        self.k.lock(bucket);
        self.k.unlock(bucket);
        self.set_phase(task, phase);
        self.block(task);
        self.k.leave();
    }

    /// `futex_wake`: wakes the first waiter. [`Engine::wake_rest`] wakes the others one by one, so that the first ones
    /// run meanwhile: a barrier of hundreds of threads takes long to open.
    fn futex_wake(&mut self, task: TaskId, mut waiters: VecDeque<TaskId>, bucket: LockId) {
        self.k.enter(self.funcs.futex_wake);
        self.k.lock(bucket);
        self.k.unlock(bucket);
        if let Some(waiter) = waiters.pop_front() {
            self.try_to_wake_up(waiter, false);
        }
        debug_assert!(self.k.tasks[task].at.to_wake.is_empty());
        self.k.tasks[task].at.to_wake = waiters;
        self.k.leave();
    }

    /// Continues a [`Engine::futex_wake`] with more tasks to wake.
    pub(crate) fn wake_rest(&mut self, task: TaskId) {
        if let Some(waiter) = self.k.tasks[task].at.to_wake.pop_front() {
            self.try_to_wake_up(waiter, false);
        }
    }

    /// Takes the mutex, or queues for it. Returns whether the task has it.
    fn try_mutex(&mut self, task: TaskId, mutex: usize, phase: u8) -> bool {
        let Object::Mutex(object) = &mut self.objects[mutex] else {
            self.wrong_kind(mutex, "Mutex");
            return false;
        };
        self.k.call(self.funcs.user_lock);
        self.k.atomic(&mut object.line);
        if object.owner.is_none() {
            object.owner = Some(task);
            return true;
        }
        object.waiters.push_back(task);
        let bucket = object.bucket;
        self.enter_kernel();
        self.futex_wait(task, bucket, phase);
        false
    }

    fn lock_mutex(&mut self, task: TaskId, mutex: usize) {
        if self.try_mutex(task, mutex, 1) {
            self.next(task);
        }
    }

    fn unlock_mutex(&mut self, task: TaskId, mutex: usize) {
        let object = object!(self, Mutex, mutex);
        self.k.call(self.funcs.user_lock);
        self.k.atomic(&mut object.line);
        if object.owner == Some(task) {
            object.owner = None;
        }
        let Some(waiter) = object.waiters.pop_front() else { return };
        let bucket = object.bucket;
        self.enter_kernel();
        self.futex_wake(task, VecDeque::from([waiter]), bucket);
    }

    fn wait_condition(&mut self, task: TaskId, condition: usize, mutex: usize) {
        if self.phase(task) == 0 {
            self.unlock_mutex(task, mutex);
            let object = object!(self, Condition, condition);
            object.waiters.push_back(task);
            let bucket = object.bucket;
            self.enter_kernel();
            return self.futex_wait(task, bucket, 1);
        }
        if self.try_mutex(task, mutex, 2) {
            self.next(task);
        }
    }

    fn signal(&mut self, task: TaskId, condition: usize, all: bool) {
        self.next(task);
        let object = object!(self, Condition, condition);
        self.k.call(self.funcs.user_lock);
        self.k.read(&mut object.line);
        let woken = if all { object.waiters.len() } else { object.waiters.len().min(1) };
        if woken == 0 {
            return;
        }
        let waiters = object.waiters.drain(..woken).collect();
        let bucket = object.bucket;
        self.enter_kernel();
        self.futex_wake(task, waiters, bucket);
    }

    fn barrier(&mut self, task: TaskId, barrier: usize) {
        let phase = self.phase(task);
        let object = object!(self, Barrier, barrier);
        if phase == SPINNING || phase == BLOCKED {
            // It has spun for its maximum.
            object.spinners.retain(|other| *other != task);
            object.futex.waiters.push_back(task);
            let bucket = object.futex.bucket;
            self.enter_kernel();
            return self.futex_wait(task, bucket, BLOCKED);
        }
        self.k.call(self.funcs.user_lock);
        self.k.atomic(&mut object.futex.line);
        if task == 0 && self.timed_from == Some(barrier) {
            self.timed_from_ns.get_or_insert(self.k.now_ns());
        }
        object.arrived += 1;
        if object.arrived == object.parties {
            return self.open_barrier(task, barrier);
        }
        object.spinners.push(task);
        let at = &mut self.k.tasks[task].at;
        at.phase = SPINNING;
        at.left = object.spin_ns as f64;
    }

    fn open_barrier(&mut self, task: TaskId, barrier: usize) {
        self.next(task);
        let object = object!(self, Barrier, barrier);
        object.arrived = 0;
        let spinners = std::mem::take(&mut object.spinners);
        let waiters = std::mem::take(&mut object.futex.waiters);
        let bucket = object.futex.bucket;
        let here = self.k.this;
        for spinner in spinners {
            let line_ns = self.k.machine.line_ns(here, self.k.tasks[spinner].cpu) as u64;
            self.release_spinner(spinner, line_ns);
        }
        if waiters.is_empty() {
            return;
        }
        for waiter in &waiters {
            self.set_phase(*waiter, RELEASED);
        }
        self.enter_kernel();
        self.futex_wake(task, waiters, bucket);
    }

    // ---- flags ----

    fn await_flag(&mut self, task: TaskId, flag: usize, up: bool) {
        let object = object!(self, Flag, flag);
        let spins = self.k.tasks[task].at.phase == SPINNING;
        if !spins {
            self.k.read(&mut object.line);
            if object.up == up {
                return self.next(task);
            }
            object.spinners.push((task, up));
        }
        let at = &mut self.k.tasks[task].at;
        at.phase = SPINNING;
        at.left = FOREVER_NS;
    }

    fn set_flag(&mut self, task: TaskId, flag: usize, up: bool) {
        self.next(task);
        let object = object!(self, Flag, flag);
        self.k.atomic(&mut object.line);
        object.up = up;
        let released: Vec<TaskId> = object
            .spinners
            .extract_if(.., |(_, wanted)| *wanted == up)
            .map(|(spinner, _)| spinner)
            .collect();
        let here = self.k.this;
        for spinner in released {
            let line_ns = self.k.machine.line_ns(here, self.k.tasks[spinner].cpu) as u64;
            self.release_spinner(spinner, line_ns);
        }
    }
}
