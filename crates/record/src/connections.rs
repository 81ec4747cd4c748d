// SPDX-License-Identifier: GPL-2.0-only
//! Network connections within the machine, from both their ends.
//!
//! Problem: who accepts a connection serves whoever comes. Another scheduler lets clients come in another order, and a
//! server that waited for those of the recording would keep others waiting that are there.
//!
//! Approach: connections to one port of a process that carry the same, both ways by turns, are alike: a replay accepts
//! whichever of them has come first, and what the server has read from one and written to it, it reads from that and
//! writes to it. One whose client waited for its end, or of which nobody knows what it carried, is like no other: what
//! its two ends do for each other beside it would not go along.

use std::collections::BTreeMap;

/// A connection; channels are numbered as in [`crate::Replay`].
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// What its client sends to, and receives from.
    pub sends: u32,
    pub receives: u32,
    port: u8,
    /// The task that began it.
    client: usize,
    /// The one that accepted it, and its process.
    acceptor: Option<usize>,
    server: Option<usize>,
    /// What each side has sent in one go, by turns, as a number.
    turns: u64,
    turn: Option<(bool, u64)>,
    /// The client has waited for its end.
    waits_for_end: bool,
}

/// Connections that are alike have the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alike {
    server: Option<usize>,
    port: u8,
    turns: u64,
    /// Of one that is like no other.
    number: Option<usize>,
}

impl Connection {
    /// Its other end was seen, too.
    pub fn is_whole(&self) -> bool {
        self.acceptor.is_some()
    }

    /// Whether a task has accepted it.
    pub fn is_accepted_by(&self, task: usize) -> bool {
        self.acceptor == Some(task)
    }

    /// What those that are accepted in each other's stead share.
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

    /// With the turn that is not over yet.
    fn closed(&self) -> u64 {
        let Some((by_client, bytes)) = self.turn else { return self.turns };
        let mixed = (self.turns ^ bytes << 1 ^ u64::from(by_client)).wrapping_add(1);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }
}

/// All of a recording.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub all: Vec<Connection>,
    /// Which of them a channel is of at present.
    of: BTreeMap<u32, usize>,
    /// Those between a process that has accepted them and a task, whose end that one has not waited for.
    between: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Connections {
    /// Whether a channel has a connection that was begun already: who begins one with the same name begins another.
    pub fn is_old(&self, sends: u32) -> bool {
        self.of.contains_key(&sends)
    }

    /// A task begins one. Returns which.
    pub fn connect(&mut self, sends: u32, receives: u32, port: u8, client: usize) -> u32 {
        let at = self.all.len();
        self.all.push(Connection { sends, receives, port, client, ..Connection::default() });
        self.of.insert(sends, at);
        self.of.insert(receives, at);
        at as u32
    }

    /// A task of a process accepts one, if it was seen to begin. Returns which.
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

    /// So many bytes were sent into a channel.
    pub fn sent(&mut self, channel: u32, bytes: u32) {
        if let Some(connection) = self.of.get(&channel).map(|at| &mut self.all[*at]) {
            connection.sent(connection.sends == channel, bytes.into());
        }
    }

    /// A task of this process has ended a connection for which another waited.
    pub fn ends(&mut self, server: usize, client: usize) {
        for at in self.between.remove(&(server, client)).unwrap_or_default() {
            self.all[at].waits_for_end = true;
        }
    }
}
