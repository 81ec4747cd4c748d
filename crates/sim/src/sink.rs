// SPDX-License-Identifier: GPL-2.0-only
//! The destination of events: the measures, the checkers, and a list if one is asked for.
//!
//! Kernel code is simulated in one go, so events are made a little ahead of time; they wait here until nothing earlier
//! can come.

use std::collections::VecDeque;

use trace::{Event, Kind, Measures, Observed};

use crate::checkers::{Checkers, Hint};
use crate::ids::CpuId;

/// One callback of a policy, as a guest's trace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackRecord {
    /// When it was called, ns after the start.
    pub t_ns: u64,
    /// On which CPU.
    pub cpu: CpuId,
    /// Its name in `struct sched_ext_ops`.
    pub op: &'static str,
    /// The thread that the callback concerns, if any.
    pub tid: Option<trace::Tid>,
}

/// Which records of a run to keep beside its measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Every scheduling event.
    pub events: bool,
    /// Every callback of the policy.
    pub callbacks: bool,
    /// The speeds of threads that the policy's control plane measures.
    pub speeds: bool,
}

/// An event or a hint that waits for its time.
struct Early {
    t_ns: u64,
    cpu: u32,
    what: What,
}

enum What {
    Event(Kind),
    Hint(Hint),
    Restart,
}

pub(crate) struct Sink {
    measures: Measures,
    record: Record,
    /// In the order of time; at equal times in the order of arrival.
    early: VecDeque<Early>,
    /// When the present event began: nothing earlier will come.
    begun_ns: u64,
    events: Vec<Event>,
    callbacks: Vec<CallbackRecord>,
    checkers: Checkers,
    /// Whether any checker uses hints.
    hints: bool,
}

/// The records of a run.
pub(crate) struct Kept {
    pub observed: Observed,
    pub events: Vec<Event>,
    pub callbacks: Vec<CallbackRecord>,
    pub checkers: Checkers,
}

impl Sink {
    pub fn new(kinds: &[u16], record: Record, checkers: Checkers) -> Self {
        Sink {
            measures: Measures::new(kinds.len()).with_kinds(kinds),
            record,
            early: VecDeque::new(),
            begun_ns: 0,
            events: Vec::new(),
            callbacks: Vec::new(),
            hints: checkers.hear_hints(),
            checkers,
        }
    }

    pub fn emit(&mut self, t_ns: u64, cpu: CpuId, kind: Kind) {
        self.wait(t_ns, cpu, What::Event(kind));
    }

    pub fn hint(&mut self, t_ns: u64, cpu: CpuId, hint: Hint) {
        if self.hints {
            self.wait(t_ns, cpu, What::Hint(hint));
        }
    }

    /// A hint of what other CPUs may see before this one's present time: within the work of one event CPUs are not in
    /// step.
    pub fn hint_early(&mut self, cpu: CpuId, hint: Hint) {
        self.hint(self.begun_ns, cpu, hint);
    }

    /// Most come nearly in the order of time, so the place is searched from the end.
    fn wait(&mut self, t_ns: u64, cpu: CpuId, what: What) {
        let early = Early { t_ns, cpu: cpu as u32, what };
        if self.early.back().is_none_or(|last| last.t_ns <= t_ns) {
            return self.early.push_back(early);
        }
        let before = self.early.iter().rposition(|early| early.t_ns <= t_ns);
        self.early.insert(before.map_or(0, |at| at + 1), early);
    }

    /// Measures from here on.
    pub fn restart(&mut self, t_ns: u64) {
        self.wait(t_ns, 0, What::Restart);
    }

    pub fn callback(&mut self, t_ns: u64, cpu: CpuId, op: &'static str, tid: Option<trace::Tid>) {
        if self.record.callbacks {
            self.callbacks.push(CallbackRecord { t_ns, cpu, op, tid });
        }
    }

    /// Nothing earlier than `now_ns` will come.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
        while self.early.front().is_some_and(|early| early.t_ns <= now_ns) {
            let Some(Early { t_ns, cpu, what }) = self.early.pop_front() else { return };
            match what {
                What::Hint(hint) => self.checkers.hint(t_ns, cpu, hint),
                What::Restart => {
                    self.measures.restart(t_ns);
                    self.events.clear();
                }
                What::Event(kind) => {
                    let event = Event { t_ns, cpu, kind };
                    self.measures.event(&event);
                    self.checkers.event(&event);
                    if self.record.events {
                        self.events.push(event);
                    }
                }
            }
        }
    }

    /// Ends at `now_ns`. Times of the records count from `start_ns`, which is 0 or the last restart.
    pub fn finish(mut self, now_ns: u64, start_ns: u64) -> Kept {
        self.advance(now_ns);
        self.checkers.finish(now_ns);
        let since_start = |t_ns: &mut u64| *t_ns = t_ns.saturating_sub(start_ns);
        self.callbacks.retain(|call| call.t_ns >= start_ns);
        self.callbacks.iter_mut().for_each(|call| since_start(&mut call.t_ns));
        self.events.iter_mut().for_each(|event| since_start(&mut event.t_ns));
        Kept {
            observed: self.measures.finish(now_ns),
            events: self.events,
            callbacks: self.callbacks,
            checkers: self.checkers,
        }
    }
}
