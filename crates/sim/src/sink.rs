// SPDX-License-Identifier: GPL-2.0-only
//! Where events go: into the measures, the checkers, and a list where one is asked for.
//!
//! Kernel code is simulated in one go, so events are made a little ahead of time; they wait here
//! until nothing earlier can come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use trace::{Event, Kind, Measures, Observed};

use crate::checkers::Checkers;
use crate::task::CpuId;

/// One callback of a policy, as a guest's trace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackRecord {
    /// When it was called.
    pub t_ns: u64,
    /// On which CPU.
    pub cpu: CpuId,
    /// Its name in `struct sched_ext_ops`.
    pub op: &'static str,
    /// The thread it is about, where it is about one.
    pub tid: Option<trace::Tid>,
}

/// What to keep of a run beside its measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Every scheduling event.
    pub events: bool,
    /// Every callback of the policy.
    pub callbacks: bool,
}

pub(crate) struct Sink {
    measures: Measures,
    record: Record,
    waiting: BinaryHeap<Reverse<(u64, u64)>>,
    made: BTreeMap<u64, Event>,
    seq: u64,
    pub events: Vec<Event>,
    pub callbacks: Vec<CallbackRecord>,
    pub checkers: Checkers,
}

impl Sink {
    pub fn new(cpus: usize, record: Record, checkers: Checkers) -> Self {
        Sink {
            measures: Measures::new(cpus),
            record,
            waiting: BinaryHeap::new(),
            made: BTreeMap::new(),
            seq: 0,
            events: Vec::new(),
            callbacks: Vec::new(),
            checkers,
        }
    }

    pub fn emit(&mut self, t_ns: u64, cpu: CpuId, kind: Kind) {
        self.seq += 1;
        self.waiting.push(Reverse((t_ns, self.seq)));
        self.made.insert(self.seq, Event { t_ns, cpu: cpu as u32, kind });
    }

    pub fn callback(&mut self, t_ns: u64, cpu: CpuId, op: &'static str, tid: Option<trace::Tid>) {
        if self.record.callbacks {
            self.callbacks.push(CallbackRecord { t_ns, cpu, op, tid });
        }
    }

    /// Nothing earlier than `now_ns` will come.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(Reverse((t_ns, seq))) = self.waiting.peek() {
            if *t_ns > now_ns {
                return;
            }
            let seq = *seq;
            self.waiting.pop();
            let event = self.made.remove(&seq).expect("each waiting event was made");
            self.measures.event(&event);
            self.checkers.event(&event);
            if self.record.events {
                self.events.push(event);
            }
        }
    }

    pub fn finish(mut self, now_ns: u64) -> (Observed, Vec<Event>, Vec<CallbackRecord>, Checkers) {
        self.advance(now_ns);
        self.checkers.finish(now_ns);
        (self.measures.finish(now_ns), self.events, self.callbacks, self.checkers)
    }
}
