// SPDX-License-Identifier: GPL-2.0-only
//! What a policy itself charged its tasks for, kept beyond their end: their slots are given to others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use policy::table::TaskTable;
use trace::Tid;

/// CPU time of each thread on each kind of core, ns.
type Kept = BTreeMap<Tid, Vec<u64>>;

/// The same as of the last look; nothing is kept until somebody asks.
#[derive(Clone, Default)]
pub(crate) struct Charged(Arc<Mutex<Option<Kept>>>);

impl Charged {
    /// Keeps them from here on.
    pub fn keep(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(BTreeMap::new());
    }

    /// A look at the table.
    pub fn look(&self, table: &TaskTable) {
        if let Some(kept) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            kept.extend(table.tasks().iter().map(|task| (task.pid, task.ran_ns.to_vec())));
        }
    }

    /// What was kept.
    pub fn get(&self) -> Kept {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}
