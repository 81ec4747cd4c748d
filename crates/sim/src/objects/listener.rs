// SPDX-License-Identifier: GPL-2.0-only
//! A queue of connections to be accepted. Only recordings have them: the system calls around are in their work.

use super::{Object, object};
use crate::engine::Engine;
use crate::ids::TaskId;

impl Engine {
    pub(crate) fn connect(&mut self, task: TaskId, listener: usize, connection: usize) {
        self.next(task);
        let object = object!(self, Listener, listener);
        object.begun.push_back(connection);
        let waiter = object.waiters.pop_front();
        self.wake_first(waiter, true);
    }

    pub(crate) fn accept(&mut self, task: TaskId, listener: usize, accepted: usize) {
        let object = object!(self, Listener, listener);
        let Some(connection) = object.begun.pop_front() else {
            // Another task may take the connection first: then this one waits once more.
            object.waiters.push_back(task);
            return self.block(task);
        };
        for way in 0..2 {
            let end = object!(self, Accepted, accepted + way);
            end.channel = Some(connection + way);
            for waiter in std::mem::take(&mut end.waiters) {
                self.wake_first(Some(waiter), true);
            }
        }
        self.next(task);
    }

    /// The channel itself, if this is an end of an accepted connection. None: the task waits until one is accepted.
    pub(crate) fn channel(&mut self, task: TaskId, at: usize) -> Option<usize> {
        let Object::Accepted(end) = &mut self.objects[at] else { return Some(at) };
        if end.channel.is_none() {
            end.waiters.push(task);
            self.block(task);
            return None;
        }
        end.channel
    }
}
