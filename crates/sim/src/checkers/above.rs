// SPDX-License-Identifier: GPL-2.0-only
//! Tasks of a class above, which no policy's promise is about, and when they had a CPU.

use std::collections::BTreeSet;

use trace::Tid;

use super::Hint;

/// What is known of them by now.
#[derive(Default)]
pub(super) struct Above {
    tids: BTreeSet<Tid>,
    /// Who of them has a CPU, and when one gave its back last.
    running: BTreeSet<Tid>,
    given_back_ns: Option<u64>,
}

impl Above {
    /// Something worth knowing, as [`super::Checker::hint`].
    pub fn hint(&mut self, hint: Hint) {
        if let Hint::RealTime(tid) = hint {
            self.tids.insert(tid);
        }
    }

    /// Whether it is one of them.
    pub fn has(&self, tid: Tid) -> bool {
        self.tids.contains(&tid)
    }

    /// A CPU goes from one task to another.
    pub fn switch(&mut self, t_ns: u64, prev: Tid, next: Tid) {
        if self.running.remove(&prev) {
            self.given_back_ns = Some(t_ns);
        }
        if self.has(next) {
            self.running.insert(next);
        }
    }

    /// Whether one of them has had a CPU since then. Who waits may wait behind it where no policy can help: none hears
    /// that an idle CPU is taken [switch_class], and who was running stays there, as it may not migrate while the
    /// policy is told.
    pub fn taken_since(&self, since_ns: u64) -> bool {
        !self.running.is_empty() || self.given_back_ns.is_some_and(|back_ns| back_ns >= since_ns)
    }
}
