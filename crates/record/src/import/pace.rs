// SPDX-License-Identifier: GPL-2.0-only
//! Which threads a timer wakes, if a trace has no interrupts.
//!
//! Problem: a wakeup happens on some CPU. Without interrupts in the trace, it may be from the thread there or from a
//! timer that interrupted that thread. A thread that waits for a timer waits as long as it did, whatever other tasks
//! do. A thread that waits for another thread waits for that thread's work.
//!
//! Approach: timers wake at an even pace, by the wall clock, and the running thread continues unaffected. A thread
//! counts as woken by timers under three conditions. Its waits, or the times between its wakeups, are alike. The
//! threads that ran when it was woken did not block soon after. It never woke any of them itself.

use std::collections::{BTreeMap, BTreeSet};

use trace::{IDLE, Tid};

use super::fields::What;
use crate::Left;

/// Fewest wakeups that show a pace.
const WAKEUPS_MIN: usize = 5;
/// Most wakeups that are examined.
const WAKEUPS_MAX: usize = 512;
/// A timer is no shorter than this, ns: the slack of timers is 50 us.
const PERIOD_MIN_NS: u64 = 200_000;
/// Even times: the tenth and the ninetieth percentile differ by at most this, ns, or by this part of the median.
const SPREAD_NS: u64 = 100_000;
const SPREAD: f64 = 0.01;
/// A thread that wakes another and waits for its answer blocks within this, ns.
const ANSWER_NS: u64 = 1_000_000;
/// Wakers of a thread that are distinguished.
const WAKERS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Woken {
    blocked_ns: Option<u64>,
    woken_ns: Option<u64>,
    waits_ns: Vec<u64>,
    periods_ns: Vec<u64>,
    by: BTreeSet<Tid>,
    wakeups: u64,
    /// Wakeups after which the thread that ran there soon blocked.
    answered: u64,
}

/// Follows the wakeups of a trace without their contexts.
#[derive(Debug, Default)]
pub(super) struct Pace {
    threads: BTreeMap<Tid, Woken>,
    current: Vec<Tid>,
    /// Wakeups on a CPU since its last switch: when, and of which thread.
    pending: Vec<Vec<(u64, Tid)>>,
}

impl Pace {
    pub fn take(&mut self, t_ns: u64, cpu: u32, what: &What<'_>) {
        let cpu = cpu as usize;
        let count = self.current.len().max(cpu + 1);
        self.current.resize(count, IDLE);
        self.pending.resize_with(count, Vec::new);
        match what {
            What::Switch { prev, next, left } => {
                let blocked = *left != Left::Preempted;
                for (woken_ns, tid) in std::mem::take(&mut self.pending[cpu]) {
                    if blocked && t_ns.saturating_sub(woken_ns) < ANSWER_NS {
                        self.threads.entry(tid).or_default().answered += 1;
                    }
                }
                if let Some(prev) = prev.as_ref().filter(|prev| prev.tid != IDLE) {
                    let thread = self.threads.entry(prev.tid).or_default();
                    thread.blocked_ns = blocked.then_some(t_ns);
                }
                self.current[cpu] = next.tid;
            }
            What::Waking(named) => self.woken(t_ns, cpu, named.tid),
            _ => {}
        }
    }

    fn woken(&mut self, t_ns: u64, cpu: usize, tid: Tid) {
        let waker = self.current[cpu];
        let thread = self.threads.entry(tid).or_default();
        let before_ns = thread.woken_ns.replace(t_ns);
        if let Some(blocked_ns) = thread.blocked_ns.take() {
            keep(&mut thread.waits_ns, t_ns.saturating_sub(blocked_ns));
        }
        if let Some(before_ns) = before_ns {
            keep(&mut thread.periods_ns, t_ns.saturating_sub(before_ns));
        }
        thread.wakeups += 1;
        if waker != IDLE && waker != tid {
            if thread.by.len() < WAKERS_MAX {
                thread.by.insert(waker);
            }
            if self.pending[cpu].len() < WAKERS_MAX {
                self.pending[cpu].push((t_ns, tid));
            }
        }
    }

    /// Threads that timers wake.
    pub fn timed(&self) -> BTreeSet<Tid> {
        let timed = |(tid, thread): (&Tid, &Woken)| {
            let answers =
                |waker: &Tid| self.threads.get(waker).is_some_and(|waker| waker.by.contains(tid));
            let alone = 2 * thread.answered < thread.wakeups && !thread.by.iter().any(answers);
            (alone && (even(&thread.waits_ns) || even(&thread.periods_ns))).then_some(*tid)
        };
        self.threads.iter().filter_map(timed).collect()
    }
}

fn keep(of: &mut Vec<u64>, value: u64) {
    if of.len() < WAKEUPS_MAX {
        of.push(value);
    }
}

/// Whether times are even.
fn even(times_ns: &[u64]) -> bool {
    if times_ns.len() < WAKEUPS_MIN {
        return false;
    }
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
    let (low, middle, high) = (at(0.1), at(0.5), at(0.9));
    let spread_ns = SPREAD_NS.max((middle as f64 * SPREAD) as u64);
    middle >= PERIOD_MIN_NS && high - low <= spread_ns.min(middle / 2)
}
