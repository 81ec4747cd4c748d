// SPDX-License-Identifier: GPL-2.0-only
//! Knowledge of a program before it is measured (slide 27): a short one would end before that.
//!
//! The sources, in this order: the operator's profile; measurements of the same executable, in this
//! run or an earlier one; the parent process, which sets the rank but no guarantee. If none knows,
//! the program counts as one that gains most.

use std::collections::BTreeMap;

use policy::{Profile, Program, View};

use crate::{Estimator, Rules};

/// The most executables that are remembered, also in a memo.
pub const REMEMBERED: usize = 4096;

/// The source that an estimator began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The operator's profile.
    Profile,
    /// Another run of this executable.
    Memory(String),
    /// Nothing is known of this executable, or the executable is unknown.
    Nothing(Option<String>),
}

/// Speeds by executable.
pub(crate) struct Memory {
    profile: Profile,
    kinds: usize,
    /// Whether executables are remembered.
    works: bool,
    measured: BTreeMap<String, Estimator>,
}

impl Memory {
    /// With a profile, for this many kinds of cores.
    pub fn new(profile: &Profile, kinds: usize, works: bool) -> Self {
        Memory { profile: profile.clone(), kinds, works, measured: BTreeMap::new() }
    }

    /// The estimator for a thread that runs for the first time. `speeds_of` has what is known of
    /// other threads.
    pub fn meet<'a>(
        &self,
        view: &View<'_>,
        tid: u32,
        tgid: u32,
        speeds_of: &dyn Fn(u32) -> Option<&'a Estimator>,
    ) -> (Origin, Estimator) {
        let named = view.named(&self.profile, tid).filter(|speeds| speeds.len() == self.kinds);
        if let Some(speeds) = named {
            return (Origin::Profile, Estimator::profiled(speeds));
        }
        let id = self.works.then(|| (view.program_of)(tid)).flatten().map(|program| program.id);
        if let Some(id) = &id {
            let told = || self.of_key(id).map(|speeds| Estimator::profiled(speeds));
            let known = self.measured.get(id).map(Estimator::remembered).or_else(told);
            if let Some(estimator) = known {
                return (Origin::Memory(id.clone()), estimator);
            }
        }
        let parent = || match tid == tgid {
            true => (view.parent_of)(tid),
            false => Some(tgid),
        };
        let parent = self.works.then(parent).flatten().and_then(speeds_of);
        let estimator = parent.map_or_else(|| Estimator::new(self.kinds), Estimator::descended);
        (Origin::Nothing(id), estimator)
    }

    fn of_key(&self, key: &str) -> Option<&Vec<f64>> {
        self.profile.get(key).filter(|speeds| speeds.len() == self.kinds)
    }

    /// Learns from a task's measurements after the first, second, fourth sample and so on. Returns
    /// false if the task has called exec since: it is another program, and the measurements say
    /// nothing of it.
    pub fn learn(
        &mut self,
        view: &View<'_>,
        tid: u32,
        samples: u32,
        origin: &Origin,
        estimator: &Estimator,
        rules: &Rules,
    ) -> bool {
        if !self.works || !samples.is_power_of_two() || !estimator.is_measured(rules) {
            return true;
        }
        let Some(Program { id, .. }) = (view.program_of)(tid) else { return true };
        let same = match origin {
            Origin::Memory(known) | Origin::Nothing(Some(known)) => *known == id,
            Origin::Profile | Origin::Nothing(None) => true,
        };
        if !same {
            return false;
        }
        if self.measured.len() >= REMEMBERED && !self.measured.contains_key(&id) {
            self.measured.pop_first();
        }
        self.measured.insert(id, estimator.clone());
        true
    }

    /// The speeds of all measured executables.
    pub fn learned(&self, rules: &Rules) -> Profile {
        let mean =
            |(id, estimator): (&String, &Estimator)| Some((id.clone(), estimator.mean(rules)?));
        self.measured.iter().filter_map(mean).collect()
    }
}
