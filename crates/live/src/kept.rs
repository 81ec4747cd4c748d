// SPDX-License-Identifier: GPL-2.0-only
//! A policy's own accounts of its tasks, kept beyond their end: their slots are reused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::Control;
use policy::table::TaskTable;
use trace::{Placed, Placements, Tid};

#[derive(Default)]
struct All {
    /// CPU time of each thread on each kind of core, ns.
    charged: BTreeMap<Tid, Vec<u64>>,
    placements: Placements,
    /// CPU time of the control plane and of the mover of memory, at the first look and at the last.
    own_ns: Option<[[u64; 2]; 2]>,
}

/// The accounts at the last look; none are kept before [`Kept::keep`].
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Option<All>>>);

impl Kept {
    /// Keeps the accounts from here on.
    pub fn keep(&self) {
        *self.all() = Some(All::default());
    }

    /// Takes the accounts after a step of the control plane. `own_ns`: CPU time of the control plane and the mover so
    /// far.
    pub fn look(&self, now_ns: u64, own_ns: [u64; 2], table: &TaskTable, control: &dyn Control) {
        if let Some(all) = self.all().as_mut() {
            all.own_ns = Some([all.own_ns.map_or(own_ns, |[first, _]| first), own_ns]);
            all.charged.extend(table.tasks().iter().map(|task| (task.pid, task.ran_ns.to_vec())));
            all.placements.look(now_ns, control.placed().into_iter());
        }
    }

    /// CPU time that each thread was charged for on each kind of core, ns.
    pub fn charged(&self) -> BTreeMap<Tid, Vec<u64>> {
        self.all().as_ref().map(|all| all.charged.clone()).unwrap_or_default()
    }

    /// Placements of tasks since the last call.
    pub fn placed(&self) -> Vec<Placed> {
        self.all().as_mut().map(|all| all.placements.take()).unwrap_or_default()
    }

    /// CPU time of the control plane and the mover, from the first look to the last.
    pub fn own_ns(&self) -> Option<[u64; 2]> {
        let [first, last] = self.all().as_ref()?.own_ns?;
        Some([last[0] - first[0], last[1] - first[1]])
    }

    fn all(&self) -> MutexGuard<'_, Option<All>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
