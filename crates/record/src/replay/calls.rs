// SPDX-License-Identifier: GPL-2.0-only
//! Calls: what carries data between tasks, and who connects to whom.

use super::{Channel, Item, Key, Replay, Wake, What};
use crate::Carrier;

impl Replay {
    /// A call that moved data ends.
    pub(super) fn call(&mut self, cpu: usize, key: Key, bytes: u32, read: bool) {
        // Where not every call is written down, one that is takes as long as any event.
        let hook_ns = if self.calls { self.call_hook_ns } else { self.hook_ns };
        let Some(task) = self.calls_on(cpu, hook_ns) else { return };
        // A call that may wait lets go of an interpreter's lock, whether it waits or not.
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

    /// Who is woken at a channel and writes there then had waited for room, or for who was in it.
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

    /// Which of the channels this is.
    fn number(&mut self, key: Key) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.channels.push((key, Channel::default()));
            self.channels.len() as u32 - 1
        })
    }

    /// Who runs there begins a connection.
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

    /// Who runs there accepts one.
    pub(super) fn accept(&mut self, cpu: usize, sends: u32) {
        let Some(task) = self.calls_on(cpu, self.hook_ns) else { return };
        let sends = self.number(Key(sends, Carrier::Tcp as u8));
        let server = self.tasks[task].process;
        if let Some(connection) = self.connections.accept(sends, task, server) {
            self.lets_go(task);
            self.put(task, What::Accept(connection));
        }
    }

    /// The task that runs there, up to a call of its own that is written down now, which takes so long.
    fn calls_on(&mut self, cpu: usize, hook_ns: f64) -> Option<usize> {
        let current = self.cpus[cpu].current;
        let task = self.of(current).filter(|_| current != 0)?;
        self.pause(task);
        self.hook(task, hook_ns);
        Some(task)
    }
}
