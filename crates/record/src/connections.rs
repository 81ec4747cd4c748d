// SPDX-License-Identifier: GPL-2.0-only
//! Network connections within the machine, from both their ends.
//!
//! Problem: who accepts a connection serves whoever comes. Another scheduler lets clients come in another order, and a
//! server that waited for those of the recording would keep others waiting that are there.
//!
//! Approach: connections that a process accepts, and that carry as much, are alike: a replay accepts whichever of
//! them has come first, and what the server has read from one and written to it, it reads from that and writes to it.

use std::collections::BTreeMap;

/// A connection; channels are numbered as in [`crate::Replay`].
#[derive(Debug)]
pub(crate) struct Connection {
    /// What its client sends to, and receives from.
    pub sends: u32,
    pub receives: u32,
    /// The process that accepted it.
    pub server: Option<usize>,
    connects: u32,
    accepts: u32,
}

impl Connection {
    /// Both its ends were seen, and nobody had its ports before.
    pub fn is_whole(&self) -> bool {
        (self.connects, self.accepts) == (1, 1)
    }
}

/// All of a recording.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub all: Vec<Connection>,
    of: BTreeMap<u32, u32>,
}

impl Connections {
    /// Somebody begins one. Returns which.
    pub fn connect(&mut self, sends: u32, receives: u32) -> u32 {
        let at = self.at(sends, receives);
        self.all[at as usize].connects += 1;
        at
    }

    /// A process accepts one. Returns which.
    pub fn accept(&mut self, sends: u32, receives: u32, server: usize) -> u32 {
        let at = self.at(sends, receives);
        let connection = &mut self.all[at as usize];
        connection.accepts += 1;
        connection.server = Some(server);
        at
    }

    fn at(&mut self, sends: u32, receives: u32) -> u32 {
        *self.of.entry(sends).or_insert_with(|| {
            let (server, connects, accepts) = (None, 0, 0);
            self.all.push(Connection { sends, receives, server, connects, accepts });
            self.all.len() as u32 - 1
        })
    }
}
