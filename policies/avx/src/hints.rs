// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: tells the data plane which license level each program needs, as far as known.

use std::collections::BTreeMap;

use policy::table::TaskView;
use policy::{Control, Instance, Profile, Sources, Topology, View, heeding_limits};

/// Tasks that are not known yet are charged in full, so a new task is looked at soon.
const LOOK_NS: u64 = 20_000_000;
/// A thread keeps its parent's name until it sets its own. So it is looked at after this many of
/// its runs.
const LOOKS_MAX: u32 = 25;

pub(crate) fn plan(_: &Instance, _: &Topology, profile: &Profile) -> Box<dyn Control> {
    heeding_limits(levels(profile))
}

/// Tells the data plane the license levels of a profile's programs, in tasks' shares: 1 + the level, or 0.
pub fn levels(profile: &Profile) -> Box<dyn Control> {
    let (profile, looks) = (profile.clone(), BTreeMap::new());
    Box::new(Hints { profile, looks, sources: Sources::default() })
}

/// License levels of programs. A thread also matches by its own name, up to the first `-`.
struct Hints {
    profile: Profile,
    /// By slot and generation.
    looks: BTreeMap<(u32, u32), Looked>,
    sources: Sources,
}

/// In how many looks a task had run since the look before, and its run time at the last look.
#[derive(Clone, Copy, Default)]
struct Looked {
    times: u32,
    runtime_ns: u64,
}

impl Hints {
    fn level(&self, view: &View<'_>, tid: u32) -> Option<u64> {
        let program = || {
            let name = (view.name_of)(tid)?;
            self.profile.get(name.split('-').next().unwrap_or_default())
        };
        let levels = view.told(&self.profile, tid).or_else(program)?;
        levels.first().map(|level| *level as u64)
    }
}

impl Control for Hints {
    fn step(&mut self, view: &View<'_>) -> u64 {
        if self.profile.is_empty() {
            return LOOK_NS;
        }
        let mut told = Vec::new();
        let mut looks = BTreeMap::new();
        self.sources = Sources::default();
        for task in view.tasks() {
            let TaskView { slot, generation, pid, share, runtime_ns, .. } = *task;
            let before = self.looks.get(&(slot, generation)).copied();
            let ran = before.is_none_or(|before| before.runtime_ns != runtime_ns);
            let times = before.unwrap_or_default().times + u32::from(ran);
            looks.insert((slot, generation), Looked { times, runtime_ns });
            let known = match ran && times <= LOOKS_MAX {
                true => self.level(view, pid).map_or(0, |level| level + 1),
                false => share,
            };
            match known {
                0 => self.sources.unknown += 1,
                _ => self.sources.profile += 1,
            }
            if known != share {
                told.push((*task, known));
            }
        }
        self.looks = looks;
        if !told.is_empty() {
            view.table.publish(0, &told);
        }
        LOOK_NS
    }

    fn sources(&self) -> Sources {
        self.sources
    }
}

#[cfg(test)]
mod tests {
    use policy::{Keeper, NoMemory};

    use super::*;

    #[test]
    fn a_thread_that_waits_for_long_is_known_by_the_name_that_it_takes() {
        let mut keeper = Keeper::new();
        let place = keeper.enter(7, 7, 100).unwrap();
        let profile = [("x265".to_string(), vec![2.0])].into();
        let mut hints = levels(&profile);
        let mut look = |keeper: &Keeper, name: &str| {
            hints.step(&View {
                now_ns: 0,
                table: keeper.table(),
                name_of: &|_| Some(name.to_string()),
                program_of: &|_| None,
                parent_of: &|_| None,
                cgroup_of: &|_| None,
                memory: &NoMemory,
                read: Default::default(),
            });
            keeper.table().tasks()[0].share
        };
        for _ in 0..1000 {
            assert_eq!(look(&keeper, "sh"), 0);
        }
        keeper.charge(&place, 0, 1000, None);
        assert_eq!(look(&keeper, "x265-3"), 3, "level 2 and one");
        assert_eq!(look(&keeper, "not read again"), 3, "until it has run");
    }
}
