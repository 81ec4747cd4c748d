// SPDX-License-Identifier: GPL-2.0-only
//! Memory of this machine's processes, for control planes that place it. It has cache misses of threads, places of
//! pages, and a mover that brings pages to other nodes ([`mover`]).

mod counts;
mod heat;
mod mover;
mod resident;
mod traffic;

use std::path::Path;

use policy::{Counts, Memory};

use counts::ThreadCounters;
pub use counts::counts_misses;
use mover::{Moved, Mover, Order};
use traffic::Traffic;

/// All of it, for one control plane. Nothing is counted or moved before the first request.
#[derive(Default)]
pub(crate) struct HereMemory {
    counters: ThreadCounters,
    mover: Mover,
    traffic: Traffic,
}

impl HereMemory {
    /// Moves so far.
    pub fn moved(&self) -> Moved {
        self.mover.moved()
    }

    /// Closes counters of threads that were not read since the last call. Call it after a step of a control plane.
    pub fn trim(&self) {
        self.counters.trim();
    }

    /// CPU time of moves, until the end of the last one.
    pub fn moved_in_ns(&self) -> u64 {
        self.mover.cpu_ns()
    }
}

impl Memory for HereMemory {
    fn counts(&self, tid: u32) -> Option<Counts> {
        self.counters.read(tid)
    }

    fn resident(&self, pid: u32) -> Vec<u64> {
        resident::of(pid).unwrap_or_default()
    }

    fn traffic(&self) -> Vec<u64> {
        self.traffic.by_node(Path::new("/"))
    }

    fn pull(&self, pid: u32, node: usize, bytes_a_second: u64) {
        self.mover.order(Order { pid, node: node as i32, rate: bytes_a_second });
    }

    fn leave(&self, pid: u32) {
        self.mover.call_off(pid);
    }

    fn is_pulling(&self, pid: u32) -> bool {
        self.mover.has(pid)
    }
}
