// SPDX-License-Identifier: GPL-2.0-only
//! Calls: how data passes between tasks, and which connections they make.

use super::{Channel, Item, Key, Replay, Wake, What};
use crate::Carrier;

impl Replay {
    /// A call that moved data ends.
    pub(super) fn call(&mut self, cpu: usize, key: Key, bytes: u32, read: bool) {
        // If not every call is written down, a call that is costs as much as any event.
        let hook_ns = if self.calls { self.call_hook_ns } else { self.hook_ns };
        let Some(task) = self.calls_on(cpu, hook_ns) else { return };
        // A call that may wait drops an interpreter's lock, whether it waits or not.
        self.lets_go(task);
        self.tasks[task].channels.insert(key);
        let number = self.number(key);
        let (_, channel) = &mut self.channels[number as usize];
        channel.mixed |= *channel.size.get_or_insert(bytes) != bytes;
        let what = match read {
            true => {
                channel.read += u64::from(bytes);
                What::Read { channel: number, bytes }
            }
            false => {
                channel.written += u64::from(bytes);
                self.connections.sent(number, bytes);
                What::Write { channel: number, bytes }
            }
        };
        channel.most = channel.most.max(channel.held());
        self.put(task, what);
    }

    /// A woken task that next writes to the channel of its wakeup had waited for room, or for another task inside it.
    pub(super) fn look_for_room(&mut self, wake: usize) {
        let Wake { woken, woken_item: Some(item), given: Some(key), held, .. } = self.wakes[wake]
        else {
            return;
        };
        let nothing = |item: &&Item| matches!(item.what, What::Nothing | What::Found { .. });
        let after = self.tasks[woken].items[item + 1..].iter().find(|item| !nothing(item));
        if let Some(Item { what: What::Write { channel, .. }, .. }) = after
            && self.numbers.get(&key) == Some(channel)
        {
            let (_, channel) = &mut self.channels[*channel as usize];
            channel.waits += 1;
            channel.held_at_waits += held;
        }
    }

    /// The number of a channel.
    fn number(&mut self, key: Key) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.channels.push((key, Channel::default()));
            self.channels.len() as u32 - 1
        })
    }

    /// The task on this CPU begins a connection.
    pub(super) fn connect(&mut self, cpu: usize, sends: u32, receives: u32, port: u8) {
        let Some(task) = self.calls_on(cpu, self.hook_ns) else { return };
        let keys = [sends, receives].map(|name| Key(name, Carrier::Tcp as u8));
        if self.numbers.get(&keys[0]).is_some_and(|number| self.connections.is_old(*number)) {
            for key in &keys {
                self.numbers.remove(key);
            }
        }
        let [sends, receives] = keys.map(|key| self.number(key));
        let connection = self.connections.connect(sends, receives, port, task);
        self.put(task, What::Connect(connection));
    }

    /// The task on this CPU accepts a connection.
    pub(super) fn accept(&mut self, cpu: usize, sends: u32) {
        let Some(task) = self.calls_on(cpu, self.hook_ns) else { return };
        let sends = self.number(Key(sends, Carrier::Tcp as u8));
        let server = self.tasks[task].process;
        if let Some(connection) = self.connections.accept(sends, task, server) {
            self.lets_go(task);
            self.put(task, What::Accept(connection));
        }
    }

    /// The task on this CPU, credited up to its call. Recording the call took `hook_ns`.
    fn calls_on(&mut self, cpu: usize, hook_ns: f64) -> Option<usize> {
        let current = self.cpus[cpu].current;
        let task = self.of(current).filter(|_| current != 0)?;
        self.pause(task);
        self.hook(task, hook_ns);
        Some(task)
    }
}
