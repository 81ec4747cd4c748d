// SPDX-License-Identifier: GPL-2.0-only
//! Which processes' threads share an interpreter's lock, as far as a recording shows it.
//!
//! Problem: a recording has only the waits for a lock that happened. If another scheduler preempts the holder, other
//! threads wait that did not wait in the recording.
//!
//! Approach: CPython's lock [Python/ceval_gil.c] leaves a pattern. A waiting thread gives up every 5 ms, asks the
//! holder to drop the lock, and waits again. And only one thread at a time works for longer than it takes to ask. If a
//! process shows this pattern, its threads' acts at the lock's words are removed from their scripts, and
//! [`workload::Object::Gil`] replaces them.

use std::collections::{BTreeMap, BTreeSet};

/// A thread that has worked for longer than this since it last dropped the lock holds it, if there is one, ns.
pub(crate) const HAS_NS: f64 = 500_000.0;
/// A lock is detected after this many waits in vain, and after this many holds.
const ASKED_LEAST: u32 = 3;
const HAD_LEAST: u32 = 20;
/// Of ten times that a thread gave up, another thread could have held the lock in at least this many.
const MEANWHILE_LEAST: u32 = 9;
/// At most one in this many holds may overlap another, which seems so if the end of a hold was missing.
const BOTH_MOST: u32 = 5;
/// How long a thread waits before it asks: 5 ms (`sys.getswitchinterval`), unless a program sets it.
pub(crate) const INTERVAL_NS: std::ops::Range<f64> = 1_000_000.0..20_000_000.0;
/// Bytes around the word of a wait that belong to the lock: two conditions and two mutexes.
const AROUND: u32 = 256;
/// A wakeup, or wait, at no known word.
pub(crate) const NO_WORD: u32 = u32::MAX;

/// Observations of a process's threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    had: u32,
    both: u32,
    /// How many threads hold the lock now.
    pub have: u32,
    calls: BTreeMap<u32, Call>,
}

#[derive(Debug, Default)]
struct Call {
    gave_up: u32,
    /// Times that it gave up while another thread could have held the lock.
    meanwhile: u32,
    woken: u32,
    words: BTreeSet<u32>,
}

/// Where threads wait for the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The call with the timeout.
    pub call: u32,
    words: BTreeSet<u32>,
}

impl Lock {
    fn has(&self, word: u32) -> bool {
        self.words.iter().any(|own| own.abs_diff(word) < AROUND)
    }
}

impl Threads {
    /// A thread holds the lock now, and so do this many others.
    pub fn takes(&mut self, others: u32) {
        self.had += 1;
        self.both += u32::from(others > 0);
        self.have += 1;
    }

    /// A thread gave up waiting in a call. `meanwhile`: another thread was awake.
    pub fn gave_up(&mut self, call: u32, meanwhile: bool) {
        let call = self.calls.entry(call).or_default();
        call.gave_up += 1;
        call.meanwhile += u32::from(meanwhile);
    }

    /// A thread was woken from a call by this word.
    pub fn woken(&mut self, call: u32, word: u32) {
        let call = self.calls.entry(call).or_default();
        call.woken += 1;
        call.words.insert(word);
    }

    /// The lock, if they share one.
    pub fn lock(&self) -> Option<Lock> {
        if self.had < HAD_LEAST || self.both * BOTH_MOST > self.had {
            return None;
        }
        let is_lock = |(_, call): &(&u32, &Call)| {
            call.gave_up >= ASKED_LEAST
                && call.meanwhile * 10 >= call.gave_up * MEANWHILE_LEAST
                && call.woken > 0
        };
        let (call, of) = self.calls.iter().filter(is_lock).max_by_key(|(_, of)| of.woken)?;
        Some(Lock { call: *call, words: of.words.clone() })
    }
}

/// The words by which threads of a process wake each other, numbered.
#[derive(Debug, Default)]
pub(crate) struct Words {
    numbers: BTreeMap<(usize, u32), u32>,
    all: Vec<(usize, u32)>,
}

impl Words {
    pub fn number(&mut self, process: usize, word: u32) -> u32 {
        *self.numbers.entry((process, word)).or_insert_with(|| {
            self.all.push((process, word));
            self.all.len() as u32 - 1
        })
    }

    /// For each, whether it is a part of its process's lock.
    pub fn of_locks(&self, locks: &BTreeMap<usize, Lock>) -> Vec<bool> {
        let part =
            |(process, word): &(usize, u32)| locks.get(process).is_some_and(|lock| lock.has(*word));
        self.all.iter().map(part).collect()
    }
}
