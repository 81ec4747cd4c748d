// SPDX-License-Identifier: GPL-2.0-only
//! Path lengths of kernel functions, shared by all machines.
//!
//! `machines/paths.toml` gives the instructions of each function that a scheduler runs. A length excludes functions
//! that have an entry of their own. It also excludes locks and cache lines, which are charged where they are taken. A
//! class looks up its functions by name once, at its start.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::Spanned;

use crate::machine::MachineError;
use crate::quantity::Quantity;
use crate::source;

/// Which function: an index into [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// One function of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// As in the kernel's source.
    pub name: String,
    /// It belongs to the scheduler: it counts as time in scheduler functions.
    pub scheduler: bool,
    /// It is one of Linux 2.6.38's own.
    pub old: bool,
    /// Instructions a call.
    pub instructions: f64,
    /// Where that comes from.
    pub source: Quantity,
}

/// All functions that cost something.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    paths: Vec<Path>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scheduler: BTreeMap<String, Spanned<Quantity>>,
    #[serde(default, rename = "scheduler-2-6-38")]
    scheduler_2_6_38: BTreeMap<String, Spanned<Quantity>>,
    other: BTreeMap<String, Spanned<Quantity>>,
}

impl Paths {
    /// The path lengths that are compiled in.
    pub fn embedded() -> Self {
        static EMBEDDED: LazyLock<Paths> = LazyLock::new(|| {
            let text = include_str!("../../../machines/paths.toml");
            Paths::from_toml(text, "machines/paths.toml").expect("a test reads the embedded file")
        });
        EMBEDDED.clone()
    }

    /// Reads path lengths; `path` names the file in errors.
    pub fn from_toml(text: &str, path: &str) -> Result<Self, MachineError> {
        let file: File = source::document(text, path)?;
        let mut paths = Vec::new();
        let new = file.scheduler.into_iter().map(|(name, quantity)| (name, true, false, quantity));
        let old = file.scheduler_2_6_38.into_iter();
        let old = old.map(|(name, quantity)| (old_name(&name), true, true, quantity));
        let other = file.other.into_iter().map(|(name, quantity)| (name, false, false, quantity));
        for (name, scheduler, old, quantity) in new.chain(old).chain(other) {
            let value = quantity.get_ref().value;
            if quantity.get_ref().unit != "instructions" || !(value.is_finite() && value >= 0.0) {
                let what =
                    format!("{name}: expected a number of at least 0, unit \"instructions\"");
                return Err(source::error_at(text, path, quantity.span(), what));
            }
            let source = quantity.into_inner();
            paths.push(Path { name, scheduler, old, instructions: value, source });
        }
        paths.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = paths.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let what = format!("{} is in both [scheduler] and [other]", pair[0].name);
            return Err(source::error_at(text, path, 0..0, what));
        }
        Ok(Paths { paths })
    }

    /// The function of this name; panics if `paths.toml` has none, since names come only from code.
    pub fn id(&self, name: &str) -> PathId {
        let found = self.paths.binary_search_by(|path| path.name.as_str().cmp(name));
        PathId(found.unwrap_or_else(|_| panic!("machines/paths.toml has no `{name}`")) as u16)
    }

    /// Linux 2.6.38's function of this name; panics if `paths.toml` has none.
    pub fn old_id(&self, name: &str) -> PathId {
        self.id(&old_name(name))
    }

    /// The function of this id.
    #[inline]
    pub fn get(&self, id: PathId) -> &Path {
        &self.paths[id.0 as usize]
    }

    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter()
    }

    /// The same with every length multiplied, for a sweep.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.paths.iter_mut().for_each(|path| path.instructions *= factor);
        self
    }
}

fn old_name(name: &str) -> String {
    format!("{name} (2.6.38)")
}
