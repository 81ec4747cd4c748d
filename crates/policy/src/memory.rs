// SPDX-License-Identifier: GPL-2.0-only
//! A ground's knowledge and control of memory, for control planes that place it.

/// A thread's counters since some moment in the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions retired.
    pub instructions: u64,
    /// Misses of the last-level cache, in lines.
    pub misses: u64,
}

/// Memory of processes by node, and cache misses of threads.
pub trait Memory {
    /// A thread's counters. None: not counted.
    fn counts(&self, _tid: u32) -> Option<Counts> {
        None
    }

    /// Bytes that a process has on each node. Empty: not known.
    fn resident(&self, _pid: u32) -> Vec<u64> {
        Vec::new()
    }

    /// Bytes read from and written to each node's memory since some moment. Empty: not counted.
    fn traffic(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Orders a process's pages to be moved to a node, at most so many bytes a second; 0: as fast as possible. Returns
    /// at once. A later order replaces an earlier one for the same process.
    fn pull(&self, _pid: u32, _node: usize, _bytes_a_second: u64) {}

    /// Cancels an order; pages that were moved stay where they are.
    fn leave(&self, _pid: u32) {}

    /// Whether an order for this process is still being carried out.
    fn is_pulling(&self, _pid: u32) -> bool {
        false
    }
}

/// A ground without knowledge of memory. It moves nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoMemory;

impl Memory for NoMemory {}
