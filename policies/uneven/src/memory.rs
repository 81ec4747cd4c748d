// SPDX-License-Identifier: GPL-2.0-only
//! What is known of a program before it is measured (slide 27): a short one would end before it is.
//!
//! Asked in this order: the operator's profile; what was measured of the same executable, in this run or in one
//! before; the process that started it, by which it is ranked, but nothing is promised; nobody, and it is taken for
//! one that gains most.

use std::collections::BTreeMap;

use policy::{Profile, Program, View};

use crate::{Estimator, Rules};

/// Executables that are remembered at most, also in a memo.
pub const REMEMBERED: usize = 4096;

/// What an estimator began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What somebody said.
    Profile,
    /// Another run of this executable.
    Memory(String),
    /// Of this executable nothing is known, or nobody knows which it is.
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
    /// With what is known beforehand, on so many kinds of cores.
    pub fn new(profile: &Profile, kinds: usize, works: bool) -> Self {
        Memory { profile: profile.clone(), kinds, works, measured: BTreeMap::new() }
    }

    /// What to begin with for a thread that runs for the first time. `speeds_of` has what is known of others.
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

    /// Takes what was measured of a task, after so many samples: at the first, second, fourth and so on. False:
    /// it has called exec since and is another program, of which this tells nothing.
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

    /// Speeds of all executables that were measured.
    pub fn learned(&self, rules: &Rules) -> Profile {
        let mean =
            |(id, estimator): (&String, &Estimator)| Some((id.clone(), estimator.mean(rules)?));
        self.measured.iter().filter_map(mean).collect()
    }
}
