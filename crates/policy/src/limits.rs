// SPDX-License-Identifier: GPL-2.0-only
//! `cpu.max` of cgroups: tells the data plane which cgroups have a limit, and which limit each thread is in.
//!
//! `policies/common/limits.h` makes the limits hold.

use std::collections::BTreeMap;

use crate::table::LIMITS_MAX;
use crate::{Cgroup, Control, Quota, View};

/// Time between two looks, ns.
const LOOK_NS: u64 = 100_000_000;
/// A number that is free again is not used for so long, ns: tasks may wait under it.
const RESTS_NS: u64 = 2_000_000_000;

/// A limit in the data plane's table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    number: u32,
    quota: Quota,
    around: u32,
    /// The look that last found it.
    look: u64,
}

/// Keeps the limits of the data plane's table as cgroups have them.
#[derive(Debug, Default)]
pub struct Limits {
    /// By cgroup.
    known: BTreeMap<u64, Known>,
    /// Numbers that were given back, and when.
    free: Vec<(u32, u64)>,
    /// Numbers that were ever given.
    given: u32,
    looks: u64,
    /// Cgroups whose limits do not hold, as all numbers are in use.
    without: usize,
}

impl Limits {
    /// The number of the limit that a cgroup's tasks are in; 0: none.
    fn of(&mut self, id: u64, view: &View<'_>, found: &mut BTreeMap<u64, u32>) -> u32 {
        let (at, chain) = Cgroup::chain(id, view.cgroup_of, |id| found.contains_key(&id));
        let mut around = found.get(&at).copied().unwrap_or(0);
        for (id, group) in chain {
            if let Some(quota) = group.quota {
                around = self.hold(id, quota, around, view);
            }
            found.insert(id, around);
        }
        around
    }

    /// Has a cgroup's limit hold. Returns its number, or that of the one around it if there are too many.
    fn hold(&mut self, id: u64, quota: Quota, around: u32, view: &View<'_>) -> u32 {
        let own = self.known.get(&id).map(|known| known.number);
        let Some(number) = own.or_else(|| self.number(view)) else {
            self.without += 1;
            return around;
        };
        let now = Known { number, quota, around, look: self.looks };
        let was = self.known.insert(id, now);
        if was.is_none_or(|was| (was.quota, was.around) != (quota, around)) {
            view.table.set_limit(number, id, &quota, around);
        }
        number
    }

    /// A number that is not in use.
    fn number(&mut self, view: &View<'_>) -> Option<u32> {
        let rested = |(_, since_ns): &(u32, u64)| view.now_ns.saturating_sub(*since_ns) > RESTS_NS;
        if let Some(at) = self.free.iter().position(rested) {
            return Some(self.free.swap_remove(at).0);
        }
        let next = self.given + 1;
        (next < LIMITS_MAX as u32).then(|| {
            self.given = next;
            next
        })
    }

    /// Looks at the limits that no task is in, and gives back the numbers of those that are none any more.
    fn forget(&mut self, view: &View<'_>, found: &mut BTreeMap<u64, u32>) {
        let looks = self.looks;
        let unseen = |this: &Self| {
            let unseen = this.known.iter().filter(|(_, known)| known.look != looks);
            unseen.map(|(id, _)| *id).collect::<Vec<u64>>()
        };
        for id in unseen(self) {
            self.of(id, view, found);
        }
        for id in unseen(self) {
            let Some(known) = self.known.remove(&id) else { continue };
            view.table.lift_limit(known.number);
            self.free.push((known.number, view.now_ns));
        }
    }
}

impl Control for Limits {
    fn step(&mut self, view: &View<'_>) -> u64 {
        self.looks += 1;
        self.without = 0;
        let mut found = BTreeMap::new();
        // Neighbours are often of one cgroup.
        let (mut cgroup, mut number) = (0, 0);
        for task in view.tasks() {
            if task.cgroup != cgroup {
                cgroup = task.cgroup;
                let known = found.get(&cgroup).copied();
                number = known.unwrap_or_else(|| self.of(cgroup, view, &mut found));
            }
            if number != task.limit {
                view.table.set_limit_of(task, number);
            }
        }
        self.forget(view, &mut found);
        view.table.set_limited(self.given);
        LOOK_NS
    }

    fn says(&self) -> Option<String> {
        let most = LIMITS_MAX - 1;
        let says = || format!("cpu.max of {} cgroups does not hold, only of {most}", self.without);
        (self.without > 0).then(says)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{Keeper, NoMemory};

    /// Cgroups by number: parent, and quota in CPUs; 1 is the root.
    type Tree = BTreeMap<u64, (u64, Option<u64>)>;

    struct Bench {
        keeper: Keeper,
        limits: Limits,
        tree: RefCell<Tree>,
    }

    impl Bench {
        fn new(tree: &[(u64, u64, Option<u64>)]) -> Self {
            let tree = tree.iter().map(|(id, parent, cpus)| (*id, (*parent, *cpus))).collect();
            Bench { keeper: Keeper::new(), limits: Limits::default(), tree: RefCell::new(tree) }
        }

        /// A task in a cgroup.
        fn enter(&mut self, pid: u32, cgroup: u64) {
            let place = self.keeper.enter(pid, pid, 100).unwrap();
            self.keeper.put_in(&place, cgroup);
        }

        /// The limit of each task after a look at this time.
        fn look(&mut self, now_ns: u64) -> Vec<u32> {
            let tree = self.tree.borrow().clone();
            let cgroup_of = |id: u64| {
                let (parent, cpus) = *tree.get(&id)?;
                let quota = |cpus| Quota { quota_ns: cpus * 100, period_ns: 100, burst_ns: 0 };
                Some(Cgroup { parent, quota: cpus.map(quota), ..Cgroup::ROOT })
            };
            self.limits.step(&View {
                now_ns,
                table: self.keeper.table(),
                name_of: &|_| None,
                program_of: &|_| None,
                parent_of: &|_| None,
                cgroup_of: &cgroup_of,
                memory: &NoMemory,
                read: Default::default(),
            });
            self.keeper.table().tasks().iter().map(|task| task.limit).collect()
        }
    }

    const TREE: [(u64, u64, Option<u64>); 5] =
        [(1, 0, None), (2, 1, Some(2)), (3, 2, None), (4, 2, Some(1)), (5, 1, None)];

    #[test]
    fn a_task_is_in_the_limit_of_its_cgroup_or_of_the_next_one_around_it() {
        let mut bench = Bench::new(&TREE);
        for (pid, cgroup) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)] {
            bench.enter(pid, cgroup);
        }
        let [root, outer, within, inner, beside] = bench.look(0)[..] else { panic!() };
        assert_eq!((root, beside), (0, 0));
        assert!(outer > 0 && inner > 0 && within == outer && inner != outer);
        assert_eq!(bench.keeper.table().limit(inner), (100, outer));
        assert_eq!(bench.keeper.table().limit(outer), (200, 0));
    }

    #[test]
    fn a_limit_that_is_lifted_rests_before_its_number_is_used_again() {
        let mut bench = Bench::new(&TREE);
        bench.enter(1, 2);
        let first = bench.look(0)[0];
        bench.tree.borrow_mut().insert(2, (1, None));
        bench.tree.borrow_mut().insert(5, (1, Some(3)));
        assert_eq!(bench.look(1), [0]);
        assert_eq!(bench.keeper.table().limit(first).0, 0);
        bench.enter(2, 5);
        assert_ne!(bench.look(2)[1], first, "tasks may still wait under that number");
        bench.tree.borrow_mut().insert(2, (1, Some(1)));
        assert_eq!(bench.look(3 * RESTS_NS)[0], first);
    }

    #[test]
    fn a_limit_stays_while_its_cgroup_is_empty() {
        let mut bench = Bench::new(&TREE);
        bench.enter(1, 2);
        let own = bench.look(0)[0];
        bench.keeper = Keeper::new();
        bench.look(1);
        bench.enter(2, 2);
        assert_eq!(bench.look(2), [own]);
    }
}
