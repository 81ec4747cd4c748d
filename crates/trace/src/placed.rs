// SPDX-License-Identifier: GPL-2.0-only
//! Which memory domain each thread belongs to, over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Tid;

/// A thread belongs to another memory domain than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Since when, on the ground's own clock, ns.
    pub at_ns: u64,
    /// The thread.
    pub tid: Tid,
    /// Where it belongs.
    pub domain: usize,
}

/// Where a thread and its memory were at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// When, ns since the workload's start.
    pub at_ns: u64,
    /// The thread.
    pub tid: Tid,
    /// The node that it ran on last. None: it had not run.
    pub node: Option<usize>,
    /// The node with most of its process's pages. None: it had none.
    pub pages: Option<usize>,
}

/// Notes changes from one look to the next.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    at: BTreeMap<Tid, usize>,
    changes: Vec<Placed>,
}

impl Placements {
    /// Takes note of all placements at this moment.
    pub fn look(&mut self, at_ns: u64, placed: impl Iterator<Item = (Tid, usize)>) {
        let now: BTreeMap<Tid, usize> = placed.collect();
        for (tid, domain) in &now {
            if self.at.get(tid) != Some(domain) {
                self.changes.push(Placed { at_ns, tid: *tid, domain: *domain });
            }
        }
        self.at = now;
    }

    /// The changes since the last call, in the order of time and thread.
    pub fn take(&mut self) -> Vec<Placed> {
        std::mem::take(&mut self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_that_stays_is_not_named_again_and_one_that_returns_is() {
        let mut placements = Placements::default();
        placements.look(1, [(7, 0), (8, 1)].into_iter());
        placements.look(2, [(7, 0), (8, 2)].into_iter());
        placements.look(3, [(8, 2)].into_iter());
        placements.look(4, [(7, 0), (8, 2)].into_iter());
        let placed = |at_ns, tid, domain| Placed { at_ns, tid, domain };
        let expected = [placed(1, 7, 0), placed(1, 8, 1), placed(2, 8, 2), placed(4, 7, 0)];
        assert_eq!(placements.take(), expected);
        assert!(placements.take().is_empty());
    }
}
