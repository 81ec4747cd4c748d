// SPDX-License-Identifier: GPL-2.0-only
//! Pipes and stream sockets, as fs/pipe.c and net/unix/af_unix.c keep them.
//!
//! A reader that finds data does not block, and wakes a writer only if there was no room before; a writer wakes a
//! reader only if there was nothing to read. So the order in which a policy runs tasks decides how often they switch.

mod engine;

use std::collections::VecDeque;

use crate::ids::TaskId;
use crate::kernel::Kernel;
use crate::lock::LockId;

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
        assert!(sleepers.admit(3), "a task that comes by takes it before the first has run");
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
