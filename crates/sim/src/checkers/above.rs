// SPDX-License-Identifier: GPL-2.0-only
//! Tasks of a class above, which no policy's promise covers, and when they had a CPU.

use std::collections::BTreeSet;

use trace::Tid;

use super::checker::Hint;

/// Tasks of a class above that are known by now.
#[derive(Default)]
pub(super) struct Above {
    tids: BTreeSet<Tid>,
    /// Those of them that have a CPU, and when one last left its CPU.
    running: BTreeSet<Tid>,
    given_back_ns: Option<u64>,
}

impl Above {
    /// A hint, as for [`super::checker::Checker::hint`].
    pub fn hint(&mut self, hint: Hint) {
        if let Hint::RealTime(tid) = hint {
            self.tids.insert(tid);
        }
    }

    /// Whether the task is of a class above.
    pub fn has(&self, tid: Tid) -> bool {
        self.tids.contains(&tid)
    }

    /// A CPU switches from one task to another.
    pub fn switch(&mut self, t_ns: u64, prev: Tid, next: Tid) {
        if self.running.remove(&prev) {
            self.given_back_ns = Some(t_ns);
        }
        if self.has(next) {
            self.running.insert(next);
        }
    }

    /// Whether one of them has had a CPU since then. A task may wait behind it and no policy can help. No policy is
    /// told that an idle CPU is taken (`switch_class`). And the preempted task stays there, as it may not migrate
    /// during the callback.
    pub fn taken_since(&self, since_ns: u64) -> bool {
        !self.running.is_empty() || self.given_back_ns.is_some_and(|back_ns| back_ns >= since_ns)
    }
}
