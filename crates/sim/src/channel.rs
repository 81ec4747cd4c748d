// SPDX-License-Identifier: GPL-2.0-only
//! Pipes and stream sockets, as fs/pipe.c and net/unix/af_unix.c keep them.
//!
//! A reader that finds data does not block, and wakes a writer only where there was no room before;
//! a writer wakes a reader only where there was nothing to read. So how often tasks switch follows
//! from the order in which a policy runs them.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::kernel::Kernel;
use crate::lock::LockId;
use crate::objects::{Object, object};
use crate::task::TaskId;

/// Bytes of one buffer of a pipe.
const PAGE: u32 = 4096;

/// A pipe: a ring of pages.
pub(crate) struct Pipe {
    /// Each page in use: bytes written into it, and bytes read from it.
    pages: VecDeque<(u32, u32)>,
    pages_max: usize,
    /// `pipe->mutex`; it is held so shortly that its waiters spin.
    lock: LockId,
    readers: VecDeque<TaskId>,
    writers: VecDeque<TaskId>,
}

/// One direction of a socket pair.
pub(crate) struct Socket {
    /// Bytes of each message that waits to be read.
    messages: VecDeque<u32>,
    /// `sk_wmem_alloc`: bytes of all messages, with their bookkeeping.
    used: u32,
    capacity: u32,
    overhead: u32,
    lock: LockId,
    readers: VecDeque<TaskId>,
    writers: VecDeque<TaskId>,
}

impl Pipe {
    pub fn new(capacity: u32, k: &mut Kernel) -> Self {
        Pipe {
            pages: VecDeque::new(),
            pages_max: (capacity / PAGE).max(1) as usize,
            lock: k.new_lock("pipe"),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }

    fn full(&self) -> bool {
        self.pages.len() >= self.pages_max
    }

    /// Puts in as much of `bytes` as there is room for, and returns how much that is. What is left
    /// of the last page is used only where the odd part of the message fits into it.
    fn put(&mut self, bytes: u32) -> u32 {
        let mut left = bytes;
        let odd = bytes % PAGE;
        if let Some((written, _)) = self.pages.back_mut().filter(|_| odd > 0)
            && *written + odd <= PAGE
        {
            *written += odd;
            left -= odd;
        }
        while left > 0 && !self.full() {
            let part = left.min(PAGE);
            self.pages.push_back((part, 0));
            left -= part;
        }
        bytes - left
    }

    /// Takes out up to `bytes`; returns how much, and whether that made room in a full pipe.
    fn take(&mut self, bytes: u32) -> (u32, bool) {
        let (mut left, mut made_room) = (bytes, false);
        while left > 0 {
            let full = self.full();
            let Some((written, read)) = self.pages.front_mut() else { break };
            let part = left.min(*written - *read);
            *read += part;
            left -= part;
            if read == written {
                self.pages.pop_front();
                made_room |= full;
            }
        }
        (bytes - left, made_room)
    }
}

impl Socket {
    pub fn new(capacity: u32, overhead: u32, k: &mut Kernel) -> Self {
        Socket {
            messages: VecDeque::new(),
            used: 0,
            capacity,
            overhead,
            lock: k.new_lock("socket"),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }
}

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

    fn pipe_write(&mut self, task: TaskId, channel: usize, bytes: u32) {
        self.k.enter(self.funcs.pipe_write);
        let pipe = object!(self, Pipe, channel);
        self.k.lock(pipe.lock);
        let was_empty = pipe.pages.is_empty();
        let before = self.k.tasks[task].at.bytes;
        let put = pipe.put(bytes - before);
        let (lock, full) = (pipe.lock, pipe.full());
        let done = before + put == bytes;
        let reader = if was_empty && put > 0 { pipe.readers.pop_front() } else { None };
        let next_writer = match done && self.k.tasks[task].at.phase == 1 && !full {
            true => pipe.writers.pop_front(),
            false => None,
        };
        if !done {
            pipe.writers.push_back(task);
        }
        self.copy(put);
        self.k.unlock(lock);
        self.wake_first(reader, true);
        if done {
            self.wake_first(next_writer, true);
            self.next(task);
        } else {
            self.k.tasks[task].at.bytes = before + put;
            self.set_phase(task, 1);
            self.block(task);
        }
        self.k.leave();
    }

    fn pipe_read(&mut self, task: TaskId, channel: usize, bytes: u32) {
        self.k.enter(self.funcs.pipe_read);
        let pipe = object!(self, Pipe, channel);
        self.k.lock(pipe.lock);
        let before = self.k.tasks[task].at.bytes;
        let (taken, made_room) = pipe.take(bytes - before);
        let (lock, empty) = (pipe.lock, pipe.pages.is_empty());
        let writer = if made_room { pipe.writers.pop_front() } else { None };
        let next_reader = match taken > 0 && self.k.tasks[task].at.phase == 1 && !empty {
            true => pipe.readers.pop_front(),
            false => None,
        };
        if taken == 0 {
            pipe.readers.push_back(task);
        }
        self.copy(taken);
        self.k.unlock(lock);
        if taken == 0 {
            self.set_phase(task, 1);
            self.block(task);
        } else {
            self.wake_first(writer, true);
            self.wake_first(next_reader, true);
            self.received(task, before + taken, bytes);
        }
        self.k.leave();
    }

    fn received(&mut self, task: TaskId, so_far: u32, bytes: u32) {
        if so_far >= bytes {
            return self.next(task);
        }
        // A short read: the next one is a system call of its own.
        self.k.tasks[task].at.bytes = so_far;
        self.set_phase(task, 0);
    }

    fn socket_send(&mut self, task: TaskId, channel: usize, bytes: u32) {
        self.k.enter(self.funcs.unix_stream_sendmsg);
        let socket = object!(self, Socket, channel);
        if socket.used >= socket.capacity {
            // sock_wait_for_wmem: all that wait are woken together, and look again.
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
        self.next(task);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> Pipe {
        Pipe {
            pages: VecDeque::new(),
            pages_max: 16,
            lock: LockId(0),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }

    #[test]
    fn a_pipe_holds_640_messages_of_100_bytes() {
        let mut pipe = pipe();
        let held = (0..10_000).take_while(|_| pipe.put(100) == 100).count();
        assert_eq!(held, 16 * (4096 / 100));
    }

    #[test]
    fn room_is_made_a_page_at_a_time() {
        let mut pipe = pipe();
        while pipe.put(100) == 100 {}
        let reads = (1..100).find(|_| pipe.take(100).1);
        assert_eq!(reads, Some(40), "the first page is free once its 40 messages are read");
        assert_eq!(pipe.put(100), 100);
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut pipe = pipe();
        assert_eq!(pipe.put(10_000), 10_000);
        assert_eq!(pipe.take(9_000), (9_000, false));
        assert_eq!(pipe.take(9_000), (1_000, false));
        assert_eq!(pipe.take(1), (0, false));
    }
}
