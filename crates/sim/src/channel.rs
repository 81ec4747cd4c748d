// SPDX-License-Identifier: GPL-2.0-only
//! Pipes and stream sockets, as fs/pipe.c and net/unix/af_unix.c keep them.
//!
//! A reader that finds data does not block, and wakes a writer only if there was no room before; a writer wakes a
//! reader only if there was nothing to read. So the order in which a policy runs tasks decides how often they switch.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::kernel::Kernel;
use crate::lock::LockId;
use crate::objects::{Object, object};
use crate::task::TaskId;

/// Bytes of one buffer of a pipe.
const PAGE: u32 = 4096;

/// [`crate::program::Cursor::phase`] of a task that has waited for data or room.
const WAITED: u8 = 1;
/// Of a task that has slept for the pipe's mutex, and has done nothing yet.
const SLEPT: u8 = 2;
/// Of a task that was interrupted while it held the mutex.
const WITHIN: u8 = 3;

/// A pipe: a ring of pages.
pub(crate) struct Pipe {
    /// Each page in use: bytes written into it, and bytes read from it.
    pages: VecDeque<(u32, u32)>,
    pages_max: usize,
    /// Each message has a page of its own.
    apart: bool,
    /// `pipe->mutex`. It is held so shortly that its waiters spin, unless the holder has lost its CPU.
    lock: LockId,
    held: Option<Held>,
    sleepers: Sleepers,
    readers: VecDeque<TaskId>,
    writers: VecDeque<TaskId>,
}

/// Tasks that sleep for a mutex [__mutex_lock_common, __mutex_unlock_slowpath]. An unlock wakes the first. It stays the
/// first until it has the mutex: newcomers may take it before, however often. No other sleeper is woken meanwhile. Once
/// the first has found it taken again, the next unlock hands it over.
#[derive(Default)]
struct Sleepers {
    queue: VecDeque<TaskId>,
    woken: bool,
    wants_handoff: bool,
    handed_over: bool,
}

impl Sleepers {
    /// Whether `task` may take the free mutex.
    fn admit(&mut self, task: TaskId) -> bool {
        let first = self.queue.front() == Some(&task);
        if first {
            self.queue.pop_front();
            *self = Sleepers { queue: std::mem::take(&mut self.queue), ..Sleepers::default() };
        }
        first || !self.handed_over
    }

    /// Goes to sleep, possibly again.
    fn sleep(&mut self, task: TaskId) {
        if self.queue.front() == Some(&task) {
            self.woken = false;
            self.wants_handoff = true;
        } else {
            self.queue.push_back(task);
        }
    }

    /// The mutex is unlocked. Returns the task to wake.
    fn given_back(&mut self) -> Option<TaskId> {
        let first = *self.queue.front()?;
        self.handed_over = self.wants_handoff;
        (!std::mem::replace(&mut self.woken, true)).then_some(first)
    }
}

/// Results of a call while it held the mutex.
#[derive(Clone, Copy)]
struct Held {
    /// Bytes put in, or taken out.
    moved: u32,
    /// A writer found it empty, or a reader has made room where there was none.
    changed: bool,
    /// It had waited for data or room.
    waited: bool,
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
        Pipe { apart: false, ..Pipe::of_packets(capacity / PAGE, k) }
    }

    /// A pipe that keeps messages apart.
    pub fn of_packets(pages: u32, k: &mut Kernel) -> Self {
        Pipe {
            apart: true,
            pages: VecDeque::new(),
            pages_max: pages.max(1) as usize,
            lock: k.new_lock("pipe"),
            held: None,
            sleepers: Sleepers::default(),
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        }
    }

    fn full(&self) -> bool {
        self.pages.len() >= self.pages_max
    }

    /// Puts in as much of `bytes` as there is room for, and returns how much that is. The rest of the last page is used
    /// only if the odd part of the message fits into it.
    fn put(&mut self, bytes: u32) -> u32 {
        let mut left = bytes;
        let odd = bytes % PAGE;
        if let Some((written, _)) = self.pages.back_mut().filter(|_| odd > 0 && !self.apart)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> Pipe {
        Pipe {
            pages: VecDeque::new(),
            pages_max: 16,
            apart: false,
            lock: LockId(0),
            held: None,
            sleepers: Sleepers::default(),
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
    fn a_mutex_wakes_its_first_sleeper_alone_until_that_has_it() {
        let mut sleepers = Sleepers::default();
        sleepers.sleep(1);
        sleepers.sleep(2);
        assert_eq!(sleepers.given_back(), Some(1));
        assert!(sleepers.admit(3), "who comes by takes it before the first has run");
        assert_eq!(
            sleepers.given_back(),
            None,
            "the first is awake, and the second not yet the first"
        );
        assert!(sleepers.admit(1));
        assert_eq!(sleepers.given_back(), Some(2));
    }

    #[test]
    fn mutex_is_handed_to_a_sleeper_that_found_it_taken() {
        let mut sleepers = Sleepers::default();
        sleepers.sleep(1);
        assert_eq!(sleepers.given_back(), Some(1));
        assert!(sleepers.admit(2));
        sleepers.sleep(1);
        assert_eq!(sleepers.given_back(), Some(1));
        assert!(!sleepers.admit(2), "it is the first one's now");
        sleepers.sleep(2);
        assert!(sleepers.admit(1));
        assert_eq!(sleepers.given_back(), Some(2));
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
