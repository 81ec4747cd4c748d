// SPDX-License-Identifier: GPL-2.0-only
//! Calls that write into pipes and sockets and read from them: the engine's part of `channel.rs`.

use std::collections::VecDeque;

use super::{Held, SLEPT, WAITED, WITHIN};
use crate::engine::Engine;
use crate::ids::TaskId;
use crate::objects::{Object, object};

impl Engine {
    pub(crate) fn write(&mut self, task: TaskId, channel: usize, bytes: u32) {
        if self.phase(task) == 0 {
            self.enter_kernel();
        }
        match self.objects[channel] {
            Object::Pipe(_) => self.pipe_write(task, channel, bytes),
            _ => self.socket_send(task, channel, bytes),
        }
    }

    pub(crate) fn read(&mut self, task: TaskId, channel: usize, bytes: u32) {
        if self.phase(task) == 0 {
            self.enter_kernel();
        }
        match self.objects[channel] {
            Object::Pipe(_) => self.pipe_read(task, channel, bytes),
            _ => self.socket_receive(task, channel, bytes),
        }
    }

    fn copy(&mut self, bytes: u32) {
        self.k.charge_ns(f64::from(bytes) * self.k.machine.costs.copy_byte_ns);
    }

    /// The part of a call within a pipe's mutex. None: the task sleeps for the mutex, or an interrupt comes that may
    /// take its CPU away; the call then goes on from there.
    fn within_mutex(
        &mut self,
        task: TaskId,
        channel: usize,
        bytes: u32,
        writes: bool,
    ) -> Option<Held> {
        let phase = self.phase(task);
        let Object::Pipe(pipe) = &mut self.objects[channel] else { return None };
        if phase == WITHIN {
            return pipe.held.take();
        }
        if pipe.held.is_some() || !pipe.sleepers.admit(task) {
            pipe.sleepers.sleep(task);
            self.set_phase(task, if phase == WAITED { WAITED } else { SLEPT });
            self.block(task);
            return None;
        }
        let lock = pipe.lock;
        let from_ns = self.k.now;
        // Nearly all of either function is within the mutex.
        self.k.lock(lock);
        self.k.enter(if writes { self.funcs.pipe_write } else { self.funcs.pipe_read });
        let left = bytes - self.k.tasks[task].at.bytes;
        let Object::Pipe(pipe) = &mut self.objects[channel] else { return None };
        let (moved, changed) = match writes {
            true => {
                let was_empty = pipe.pages.is_empty();
                (pipe.put(left), was_empty)
            }
            false => pipe.take(left),
        };
        self.copy(moved);
        self.k.leave();
        self.k.unlock(lock);
        let held = Held { moved, changed, waited: phase == WAITED };
        if !self.interrupted(from_ns) {
            return Some(held);
        }
        if let Object::Pipe(pipe) = &mut self.objects[channel] {
            pipe.held = Some(held);
        }
        self.set_phase(task, WITHIN);
        None
    }

    /// Whether an interrupt that may take the CPU away from kernel code comes after `from_ns` and until now.
    fn interrupted(&self, from_ns: u64) -> bool {
        let (k, cpu) = (&self.k, self.k.this);
        let until_ns = self.over_ns(cpu, k.now);
        let comes = |at_ns: u64| from_ns < at_ns && at_ns <= until_ns;
        let period_ns = k.machine.costs.tick_period_ns as u64;
        let ticks = k.cpus[cpu].tick_armed && comes(k.cpus[cpu].next_tick_ns(from_ns, period_ns));
        self.class.preempts_kernel() && (ticks || self.class.slice_irq_ns(cpu).is_some_and(comes))
    }

    fn pipe_write(&mut self, task: TaskId, channel: usize, bytes: u32) {
        let Some(Held { moved: put, changed: was_empty, waited }) =
            self.within_mutex(task, channel, bytes, true)
        else {
            return;
        };
        let pipe = object!(self, Pipe, channel);
        let before = self.k.tasks[task].at.bytes;
        let done = before + put == bytes;
        let reader = if was_empty && put > 0 { pipe.readers.pop_front() } else { None };
        let next_writer = match done && waited && !pipe.full() {
            true => pipe.writers.pop_front(),
            false => None,
        };
        if !done {
            pipe.writers.push_back(task);
        }
        let sleeper = pipe.sleepers.given_back();
        self.wake_first(sleeper, false);
        self.wake_first(reader, true);
        if done {
            self.wake_first(next_writer, true);
            self.returns(task);
        } else {
            self.k.tasks[task].at.bytes = before + put;
            self.set_phase(task, WAITED);
            self.block(task);
        }
    }

    fn pipe_read(&mut self, task: TaskId, channel: usize, bytes: u32) {
        let Some(Held { moved: taken, changed: made_room, waited }) =
            self.within_mutex(task, channel, bytes, false)
        else {
            return;
        };
        let pipe = object!(self, Pipe, channel);
        let before = self.k.tasks[task].at.bytes;
        let writer = if made_room { pipe.writers.pop_front() } else { None };
        let next_reader = match taken > 0 && waited && !pipe.pages.is_empty() {
            true => pipe.readers.pop_front(),
            false => None,
        };
        if taken == 0 {
            pipe.readers.push_back(task);
        }
        let sleeper = pipe.sleepers.given_back();
        self.wake_first(sleeper, false);
        if taken == 0 {
            self.set_phase(task, WAITED);
            self.block(task);
        } else {
            self.wake_first(writer, true);
            self.wake_first(next_reader, true);
            self.received(task, before + taken, bytes);
        }
    }

    /// A call that moved all of its bytes returns.
    fn returns(&mut self, task: TaskId) {
        self.k.charge_ns(self.k.machine.costs.observe_call_ns);
        self.next(task);
    }

    fn received(&mut self, task: TaskId, so_far: u32, bytes: u32) {
        if so_far >= bytes {
            return self.returns(task);
        }
        // A short read: the next one is a system call of its own.
        self.k.tasks[task].at.bytes = so_far;
        self.set_phase(task, 0);
    }

    fn socket_send(&mut self, task: TaskId, channel: usize, bytes: u32) {
        self.k.enter(self.funcs.unix_stream_sendmsg);
        let socket = object!(self, Socket, channel);
        if socket.used >= socket.capacity {
            // sock_wait_for_wmem: all waiters are woken together, and check again.
            socket.writers.push_back(task);
            self.set_phase(task, 1);
            self.block(task);
            return self.k.leave();
        }
        self.k.lock(socket.lock);
        socket.used += bytes + socket.overhead;
        socket.messages.push_back(bytes);
        let lock = socket.lock;
        let readers = std::mem::take(&mut socket.readers);
        self.copy(bytes);
        self.k.unlock(lock);
        for reader in readers {
            self.wake_first(Some(reader), true);
        }
        self.returns(task);
        self.k.leave();
    }

    fn socket_receive(&mut self, task: TaskId, channel: usize, bytes: u32) {
        self.k.enter(self.funcs.unix_stream_recvmsg);
        let socket = object!(self, Socket, channel);
        self.k.lock(socket.lock);
        let lock = socket.lock;
        let Some(message) = socket.messages.pop_front() else {
            socket.readers.push_back(task);
            self.k.unlock(lock);
            self.set_phase(task, 1);
            self.block(task);
            return self.k.leave();
        };
        socket.used -= message + socket.overhead;
        // unix_write_space: writers are woken when three quarters are free, and not before.
        let writers = match socket.used * 4 <= socket.capacity {
            true => std::mem::take(&mut socket.writers),
            false => VecDeque::new(),
        };
        self.copy(message);
        self.k.unlock(lock);
        for writer in writers {
            self.wake_first(Some(writer), true);
        }
        let so_far = self.k.tasks[task].at.bytes + message;
        self.received(task, so_far, bytes);
        self.k.leave();
    }
}
