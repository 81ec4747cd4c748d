// SPDX-License-Identifier: GPL-2.0-only
//! Which processes' threads share an interpreter's lock, as far as a recording shows it.
//!
//! Problem: a recording tells only of the waits for a lock that there were. Where another scheduler takes the CPU from
//! who has it, others wait for it who did not then.
//!
//! Approach: CPython's [Python/ceval_gil.c] shows itself. Who waits for it gives up every 5 ms, asks who has it to let
//! go, and waits again; and of threads that work for longer than it takes to ask, one does at a time. Where that is so, what
//! threads did at the lock's words leaves their scripts, and [`workload::Object::Gil`] takes its place.

use std::collections::{BTreeMap, BTreeSet};

/// Who has worked for longer than this since it last let go has the lock, if there is one, ns.
pub(crate) const HAS_NS: f64 = 500_000.0;
/// A lock is seen once it was waited for in vain so often, and had so often.
const ASKED_LEAST: u32 = 3;
const HAD_LEAST: u32 = 20;
/// Of ten times that a thread gave up, so many while another could have had it.
const MEANWHILE_LEAST: u32 = 9;
/// One in so many times that one had it another may have seemed to: its end was missing.
const BOTH_MOST: u32 = 5;
/// How long who waits for it does so before it asks: 5 ms (`sys.getswitchinterval`), unless a program says else.
pub(crate) const INTERVAL_NS: std::ops::Range<f64> = 1_000_000.0..20_000_000.0;
/// Bytes around the word that is waited at: two conditions and two mutexes.
const AROUND: u32 = 256;
/// A wakeup, or wait, at no known word.
pub(crate) const NO_WORD: u32 = u32::MAX;

/// What the threads of a process were seen to do.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    had: u32,
    both: u32,
    /// How many have it now.
    pub have: u32,
    calls: BTreeMap<u32, Call>,
}

#[derive(Debug, Default)]
struct Call {
    gave_up: u32,
    /// While another could have had the lock.
    meanwhile: u32,
    woken: u32,
    words: BTreeSet<u32>,
}

/// Where threads wait for the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The call that gives up.
    pub call: u32,
    words: BTreeSet<u32>,
}

impl Lock {
    fn has(&self, word: u32) -> bool {
        self.words.iter().any(|own| own.abs_diff(word) < AROUND)
    }
}

impl Threads {
    /// A thread has it now, and so many others do.
    pub fn takes(&mut self, others: u32) {
        self.had += 1;
        self.both += u32::from(others > 0);
        self.have += 1;
    }

    /// A thread gave up waiting in a call, while others were awake or not.
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
