// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups divide CPU time level by level: the part of all CPU time that each gets if all want
//! more.

use std::cell::RefCell;
use std::collections::BTreeMap;

use policy::Cgroup;

/// The part of all CPU time of each cgroup's own threads. `own` has the sum of their weights, by
/// cgroup. If a cgroup contains other cgroups, its threads compete with them, by weight. A cgroup
/// removed meanwhile counts as one of weight 100 beside the root.
pub(crate) fn parts(
    own: &BTreeMap<u64, f64>,
    cgroup_of: impl Fn(u64) -> Option<Cgroup>,
) -> BTreeMap<u64, f64> {
    // Asked only once: a cgroup removed meanwhile would be in one place and then in another.
    let known: RefCell<BTreeMap<u64, Cgroup>> = RefCell::default();
    let ask = |id| cgroup_of(id).unwrap_or(Cgroup::ROOT);
    let find = |id: u64| *known.borrow_mut().entry(id).or_insert_with(|| ask(id));
    let chain = |id: u64| {
        let (_, chain) = Cgroup::chain(id, |id| Some(find(id)), |_| false);
        chain.into_iter().map(|(id, _)| id)
    };
    // The competitors within each: cgroups by their weights. The kernel's root has no parent.
    let mut within: BTreeMap<u64, BTreeMap<u64, f64>> = BTreeMap::new();
    for id in own.keys() {
        let mut parent = 0;
        for id in chain(*id) {
            within.entry(parent).or_default().insert(id, find(id).competes());
            parent = id;
        }
    }
    let part = |id: &u64| {
        let (mut part, mut parent) = (1.0, 0);
        for id in chain(*id) {
            let all: f64 = within[&parent].values().sum();
            let threads = own.get(&parent).copied().unwrap_or_default();
            part *= within[&parent][&id] / (all + threads);
            parent = id;
        }
        let others: f64 = within.get(id).map_or(0.0, |within| within.values().sum());
        part * own[id] / (own[id] + others)
    };
    own.keys().map(|id| (*id, part(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By number: parent and weight. 1 is the root.
    const GROUPS: [(u64, u32); 6] = [(0, 100), (1, 100), (1, 300), (3, 100), (3, 200), (1, 100)];

    fn divided(own: &[(u64, f64)]) -> Vec<f64> {
        let find = |id: u64| {
            let (parent, weight) = *GROUPS.get(id as usize - 1)?;
            Some(Cgroup { parent, weight, apart: true, quota: None })
        };
        parts(&own.iter().copied().collect(), find).into_values().collect()
    }

    #[test]
    fn each_level_divides_what_it_has_by_weight() {
        assert_eq!(divided(&[(2, 100.0), (3, 500.0)]), [0.25, 0.75]);
        assert_eq!(divided(&[(2, 100.0), (4, 100.0), (5, 100.0)]), [0.25, 0.25, 0.5]);
        assert_eq!(divided(&[(4, 700.0)]), [1.0]);
    }

    #[test]
    fn threads_compete_with_the_groups_beside_them() {
        assert_eq!(divided(&[(1, 300.0), (2, 100.0)]), [0.75, 0.25]);
        assert_eq!(divided(&[(3, 100.0), (4, 100.0)]), [0.5, 0.5]);
    }

    #[test]
    fn a_group_that_goes_meanwhile_is_where_it_was() {
        let asked = RefCell::new(Vec::new());
        let find = |id: u64| {
            let before = asked.borrow().contains(&id);
            asked.borrow_mut().push(id);
            (!before).then(|| Cgroup {
                parent: GROUPS[id as usize - 1].0,
                weight: 100,
                apart: true,
                quota: None,
            })
        };
        let parts = parts(&[(4, 100.0), (2, 100.0)].into(), find);
        assert_eq!(parts.into_values().collect::<Vec<_>>(), [0.5, 0.5]);
    }

    #[test]
    fn a_group_that_is_gone_still_counts() {
        assert_eq!(divided(&[(99, 100.0)]), [1.0]);
        let parts = parts(&[(7, 1.0)].into(), |id| {
            Some(Cgroup { parent: id, weight: 100, apart: true, quota: None })
        });
        assert!(parts[&7].is_finite(), "it is in itself: {parts:?}");
    }
}
