// SPDX-License-Identifier: GPL-2.0-only
//! What a ground knows and does about memory, for control planes that place it.

/// What a thread has done so far, as counters have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions retired.
    pub instructions: u64,
    /// Lines of the last-level cache that it missed.
    pub misses: u64,
}

/// Memory of processes, by node, and who misses the caches.
pub trait Memory {
    /// What a thread has done so far. None: nobody counts.
    fn counts(&self, _tid: u32) -> Option<Counts> {
        None
    }

    /// Bytes that a process has on each node. Empty: nobody knows.
    fn resident(&self, _pid: u32) -> Vec<u64> {
        Vec::new()
    }

    /// Bytes that each node's memory has given and taken since some moment. Empty: nobody counts.
    fn traffic(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Has a process's pages moved to a node, at most so many bytes a second; 0: as fast as it goes. Returns at
    /// once. A later order takes the place of an earlier one for the same process.
    fn pull(&self, _pid: u32, _node: usize, _bytes_a_second: u64) {}

    /// Takes an order back: what is moved stays moved.
    fn leave(&self, _pid: u32) {}

    /// Whether an order for this process is still being carried out.
    fn is_pulling(&self, _pid: u32) -> bool {
        false
    }
}

/// Nobody knows anything, and nothing is moved.
#[derive(Clone, Copy, Debug)]
pub struct NoMemory;

impl Memory for NoMemory {}
