// SPDX-License-Identifier: GPL-2.0-only
//! The objects of an rt-app file: by kind and name.

use std::collections::BTreeMap;

use crate::json::{Error, Node};
use crate::step::{Object, ObjectId};

/// Objects by kind and name, in the order of their first declaration or use.
#[derive(Default)]
pub(crate) struct Objects {
    by_name: BTreeMap<(&'static str, String), ObjectId>,
    pub(crate) all: Vec<Object>,
    /// Barriers with parties fixed by a declaration.
    pub(crate) fixed: Vec<ObjectId>,
    /// The task that uses a timer which is not `unique`.
    timer_owners: BTreeMap<String, String>,
}

impl Objects {
    /// The object of this kind and name, made by `new` if it is not there yet.
    pub(crate) fn get(
        &mut self,
        kind: &'static str,
        name: String,
        new: impl FnOnce() -> Object,
    ) -> ObjectId {
        let all = &mut self.all;
        *self.by_name.entry((kind, name)).or_insert_with(|| {
            all.push(new());
            all.len() - 1
        })
    }

    /// The object, if it was declared or used before.
    pub(crate) fn find(&self, kind: &'static str, name: &str) -> Option<ObjectId> {
        self.by_name.get(&(kind, name.to_string())).copied()
    }

    /// The name of each.
    pub(crate) fn names_in_order(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.all.len()];
        for ((_, name), id) in &self.by_name {
            names[*id].clone_from(name);
        }
        names
    }

    /// Names of a kind, for an error.
    pub(crate) fn names(&self, kind: &'static str) -> String {
        let names: Vec<&str> =
            self.by_name.keys().filter(|(k, _)| *k == kind).map(|(_, n)| n.as_str()).collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    }

    /// Whether `task` may use this timer: a timer belongs to one task.
    pub(crate) fn claim_timer(&mut self, timer: &str, task: &str) -> bool {
        let owner = self.timer_owners.entry(timer.to_string()).or_insert_with(|| task.to_string());
        owner == task
    }

    /// A use of a barrier by `threads` threads: rt-app counts its parties so.
    pub(crate) fn join_barrier(&mut self, name: String, threads: u32) -> ObjectId {
        let new = || Object::Barrier { parties: 0, spin_ns: 0 };
        let id = self.get("barrier", name, new);
        if let (Object::Barrier { parties, .. }, false) =
            (&mut self.all[id], self.fixed.contains(&id))
        {
            *parties += threads;
        }
        id
    }
}

/// The size of an object or a message.
pub(crate) fn bytes(node: Node, what: &str) -> Result<u32, Error> {
    let n = node.integer(what)?;
    u32::try_from(n)
        .ok()
        .filter(|n| *n > 0 || what == "overhead")
        .ok_or_else(|| node.error(format!("{what}: expected 1 or more, found {n}")))
}
