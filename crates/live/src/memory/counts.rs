// SPDX-License-Identifier: GPL-2.0-only
//! Counters of a thread's own instructions and misses of the last-level cache, opened on the first request.
//!
//! Both have to run all the time (they are pinned). Otherwise their ratio would be of different times.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use policy::Counts;

use crate::perf_event::{Target, open};

/// include/uapi/linux/perf_event.h: generic hardware events.
const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
const CACHE_MISSES: u64 = 3;
/// Most threads that are counted: each has a descriptor for each of two counters.
const THREADS_MAX: usize = 4096;

/// Both counters of a thread.
struct Pair {
    instructions: std::fs::File,
    misses: std::fs::File,
    asked: Cell<bool>,
}

/// Counters by thread. None if the machine has no such counter, or does not permit it.
#[derive(Default)]
pub(super) struct ThreadCounters {
    opened: RefCell<BTreeMap<u32, Option<Pair>>>,
}

impl ThreadCounters {
    /// A thread's counts since the first request.
    pub fn read(&self, tid: u32) -> Option<Counts> {
        let mut opened = self.opened.borrow_mut();
        if !opened.contains_key(&tid) && opened.len() >= THREADS_MAX {
            return None;
        }
        let pair = opened.entry(tid).or_insert_with(|| Pair::open(tid).ok());
        let counts = pair.as_ref()?.counts();
        if counts.is_none() {
            // It has stopped for good; the next trim lets it be opened again, from 0.
            *pair = None;
        }
        counts
    }

    /// Closes counters that were not read since the last call. A thread that could not be counted is tried again.
    pub fn trim(&self) {
        self.opened
            .borrow_mut()
            .retain(|_, pair| pair.as_ref().is_some_and(|own| own.asked.take()));
    }
}

/// Whether this thread's misses can be counted, and why not.
pub fn counts_misses() -> Result<(), String> {
    Pair::open(0).map(drop).map_err(|error| error.to_string())
}

impl Pair {
    fn open(tid: u32) -> io::Result<Pair> {
        let counter = |event| open(HARDWARE, event, Target::Thread(tid));
        let (instructions, misses): (OwnedFd, OwnedFd) =
            (counter(INSTRUCTIONS)?, counter(CACHE_MISSES)?);
        Ok(Pair {
            instructions: instructions.into(),
            misses: misses.into(),
            asked: Cell::new(true),
        })
    }

    fn counts(&self) -> Option<Counts> {
        self.asked.set(true);
        Some(Counts { instructions: count(&self.instructions)?, misses: count(&self.misses)? })
    }
}

/// A pinned counter that once found no place on its CPU reads as end of file from then on.
fn count(mut counter: &std::fs::File) -> Option<u64> {
    let mut bytes = [0; 8];
    counter.read_exact(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::HereMemory;
    use super::*;

    #[test]
    fn an_ended_thread_has_no_counts_and_keeps_nothing_open() {
        let counters = ThreadCounters::default();
        assert_eq!(counters.read(u32::MAX / 2), None);
        counters.trim();
        assert!(counters.opened.borrow().is_empty());
    }

    #[test]
    fn a_counter_that_lost_its_place_is_opened_again_after_the_next_trim() {
        let counters = ThreadCounters::default();
        let ended = || tempfile::tempfile().unwrap();
        let dead = Pair { instructions: ended(), misses: ended(), asked: Cell::new(true) };
        counters.opened.borrow_mut().insert(7, Some(dead));
        assert_eq!(counters.read(7), None);
        assert!(counters.opened.borrow()[&7].is_none(), "not at each ask");
        counters.trim();
        assert!(counters.opened.borrow().is_empty());
    }

    #[test]
    fn a_line_of_status_closes_no_counters() {
        let memory = HereMemory::default();
        policy::Memory::counts(&memory, u32::MAX / 2);
        memory.moved();
        assert_eq!(memory.counters.opened.borrow().len(), 1);
        memory.trim();
        assert!(memory.counters.opened.borrow().is_empty());
    }
}
