// SPDX-License-Identifier: GPL-2.0-only
//! Network connections within the machine, from both their ends.
//!
//! Problem: a server accepts connections from any client. Under another scheduler clients arrive in another order. If a
//! server waited for the recorded order, it would keep present clients waiting.
//!
//! Approach: connections are alike if they lead to one port of a process and carry the same data, both ways in turn. A
//! replay accepts the first of them that arrives. The server then reads from it and writes to it the data of the
//! recorded one. A connection is like no other if its client waited for its end, or if its data is not known. Its two
//! ends may affect each other in further ways, which a swap would break.

use std::collections::BTreeMap;

/// A connection; channels are numbered as in [`crate::Replay`].
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// The channels that its client sends to and receives from.
    pub sends: u32,
    pub receives: u32,
    port: u8,
    /// The task that began it.
    client: usize,
    /// The task that accepted it, and its process.
    acceptor: Option<usize>,
    server: Option<usize>,
    /// A hash of the bytes that each side sent in turn.
    turns: u64,
    turn: Option<(bool, u64)>,
    /// The client has waited for its end.
    waits_for_end: bool,
}

/// Key of a connection; connections that are alike have the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alike {
    server: Option<usize>,
    port: u8,
    turns: u64,
    /// Set for a connection that is like no other.
    number: Option<usize>,
}

impl Connection {
    /// Whether its other end was seen too.
    pub fn is_whole(&self) -> bool {
        self.acceptor.is_some()
    }

    /// Whether a task has accepted it.
    pub fn is_accepted_by(&self, task: usize) -> bool {
        self.acceptor == Some(task)
    }

    /// Its key; connections with the same key are accepted in place of each other.
    pub fn alike(&self, number: usize) -> Alike {
        let (turns, own) = (self.closed(), self.waits_for_end || self.turn.is_none());
        Alike { server: self.server, port: self.port, turns, number: own.then_some(number) }
    }

    fn sent(&mut self, by_client: bool, bytes: u64) {
        match &mut self.turn {
            Some((by, sent)) if *by == by_client => *sent += bytes,
            _ => {
                self.turns = self.closed();
                self.turn = Some((by_client, bytes));
            }
        }
    }

    /// The hash with the unfinished turn.
    fn closed(&self) -> u64 {
        let Some((by_client, bytes)) = self.turn else { return self.turns };
        let mixed = (self.turns ^ bytes << 1 ^ u64::from(by_client)).wrapping_add(1);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }
}

/// All connections of a recording.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub all: Vec<Connection>,
    /// The current connection of each channel.
    of: BTreeMap<u32, usize>,
    /// Connections between a process that accepted them and a client that has not yet waited for their end.
    between: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Connections {
    /// Whether a channel already has a connection. A task that begins a connection with the same name begins a new one.
    pub fn is_old(&self, sends: u32) -> bool {
        self.of.contains_key(&sends)
    }

    /// A task begins a connection. Returns its number.
    pub fn connect(&mut self, sends: u32, receives: u32, port: u8, client: usize) -> u32 {
        let at = self.all.len();
        self.all.push(Connection { sends, receives, port, client, ..Connection::default() });
        self.of.insert(sends, at);
        self.of.insert(receives, at);
        at as u32
    }

    /// A task of a process accepts a connection, if its beginning was seen. Returns its number.
    pub fn accept(&mut self, sends: u32, task: usize, server: usize) -> Option<u32> {
        let at = *self.of.get(&sends)?;
        let connection = &mut self.all[at];
        if connection.acceptor.is_some() {
            return None;
        }
        (connection.acceptor, connection.server) = (Some(task), Some(server));
        self.between.entry((server, connection.client)).or_default().push(at);
        Some(at as u32)
    }

    /// Adds bytes that were sent into a channel.
    pub fn sent(&mut self, channel: u32, bytes: u32) {
        if let Some(connection) = self.of.get(&channel).map(|at| &mut self.all[*at]) {
            connection.sent(connection.sends == channel, bytes.into());
        }
    }

    /// A task of this process has ended a connection while its client waited for that.
    pub fn ends(&mut self, server: usize, client: usize) {
        for at in self.between.remove(&(server, client)).unwrap_or_default() {
            self.all[at].waits_for_end = true;
        }
    }
}
