// SPDX-License-Identifier: GPL-2.0-only
//! `cpu.weight` of cgroups, level by level: the weight by which each thread's CPU time counts.
//!
//! A cgroup divides its CPU time among its threads and the cgroups in it, by weight. What one of them does not want
//! goes to the others of the same cgroup first. The data plane knows threads alone, so this module finds what each
//! thread could have ([`divide`]), and gives it that as its weight. A thread that gets as much may want more; any other
//! wants what it gets, and a little more.

use std::collections::BTreeMap;
use std::iter;

use policy::table::TaskView;
use policy::{Cgroup, Control, Instance, View};

/// Time between two looks, ns.
const LOOK_NS: u64 = 100_000_000;
/// The part of a look in a thread's mean CPU time.
const NEW: f64 = 0.2;
/// A thread that gets less than this part of what it was given does not want all of it.
const SATED: f64 = 0.85;
/// A thread may miss as much of its CPU time because a turn comes late, in CPUs.
const LATE: f64 = 0.01;
/// How much more than it gets a sated thread may want.
const MORE: f64 = 1.1;
/// Weights of threads are whole numbers from 1; the data plane's bound is the greatest.
const WEIGHTS: [f64; 2] = [1.0, 10_000.0];
/// The mean weight of threads.
const EVEN: f64 = 100.0;

/// The root of all cgroups.
const ROOT: u64 = 0;

/// Whether a policy's instance heeds them.
pub(crate) fn are_heeded(instance: &Instance) -> bool {
    instance.choice("cgroups") == Some("heed")
}

/// A thread at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The use of its slot; 0: none yet.
    generation: u32,
    runtime_ns: u64,
    /// Its mean CPU time, in CPUs.
    used: f64,
    /// The same since the look before, or the mean if that is more.
    used_now: f64,
    /// What it could have had if it had wanted more, in CPUs; None: not known yet.
    could: Option<f64>,
}

/// Gives threads the weights of their cgroups.
#[derive(Default)]
pub(crate) struct Weights {
    /// By slot.
    seen: Vec<Seen>,
    looked_ns: u64,
    /// Whether any thread has a weight in place of its own.
    gave: bool,
    cpus: f64,
}

impl Weights {
    /// On a machine with this many CPUs.
    pub fn new(cpus: usize) -> Self {
        Weights { cpus: cpus as f64, ..Weights::default() }
    }

    /// Threads that run, with their CPU time since the last look.
    fn look<'v>(&mut self, view: &'v View<'_>) -> Vec<(&'v TaskView, Seen)> {
        let passed_ns = (view.now_ns - self.looked_ns).max(1) as f64;
        let first = self.looked_ns == 0;
        let mut running = Vec::new();
        let slots = view.tasks().last().map_or(0, |task| task.slot as usize + 1);
        if self.seen.len() < slots {
            self.seen.resize(slots, Seen::default());
        }
        for task in view.tasks() {
            let TaskView { generation, runtime_ns, .. } = *task;
            let place = &mut self.seen[task.slot as usize];
            let was = Some(*place).filter(|was| was.generation == generation);
            let before = was.unwrap_or(Seen { generation, runtime_ns, ..Seen::default() });
            let ran_ns = runtime_ns.saturating_sub(before.runtime_ns);
            let now = ran_ns as f64 / passed_ns;
            let used = before.used + NEW * (now - before.used);
            let used_now = used.max(now);
            let one = Seen { runtime_ns, used, used_now, ..before };
            *place = one;
            if used > 1e-4 || (was.is_none() && !first) {
                running.push((task, one));
            }
        }
        self.looked_ns = view.now_ns;
        running
    }
}

impl Control for Weights {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let running = self.look(view);
        let groups = Groups::of(&running, view.cgroup_of);
        if !groups.are_several() {
            if std::mem::take(&mut self.gave) {
                view.tasks().iter().for_each(|task| view.table.set_pace(task, 0));
            }
            return LOOK_NS;
        }
        let online: u64 = view.table.cpus().iter().sum();
        let cpus = if online > 0 { online as f64 } else { self.cpus };
        let even = EVEN * running.len() as f64 / cpus;
        for ((task, _), could) in running.iter().zip(groups.divide(&running, cpus)) {
            let weight = (even * could).clamp(WEIGHTS[0], WEIGHTS[1]);
            view.table.set_pace(task, weight.round() as u32);
            self.seen[task.slot as usize].could = Some(could);
        }
        self.gave = true;
        LOOK_NS
    }
}

/// What a thread wants, in CPUs.
fn wanted(seen: &Seen) -> f64 {
    match seen.could {
        Some(could) if seen.used_now + LATE < SATED * could => MORE * seen.used,
        _ => 1.0,
    }
}

/// A cgroup that competes.
#[derive(Clone, Copy)]
struct Known {
    parent: u64,
    weight: f64,
    /// Its `cpu.max`, in CPUs.
    most: f64,
}

/// Cgroups with threads that run.
struct Groups {
    known: BTreeMap<u64, Known>,
    /// Those that threads compete in. One may be there several times.
    with_threads: Vec<u64>,
    /// The place of each thread's cgroup among those.
    of: Vec<usize>,
}

/// A competitor within a cgroup.
#[derive(Clone, Copy)]
enum Member {
    /// By place.
    Group(usize),
    Thread(usize),
}

/// A cgroup and its competitors.
struct Within {
    /// Each with its weight.
    members: Vec<(Member, f64)>,
    most: f64,
    /// What it wants, in CPUs.
    wants: f64,
}

impl Groups {
    fn of(running: &[(&TaskView, Seen)], cgroup_of: &dyn Fn(u64) -> Option<Cgroup>) -> Self {
        let (mut known, mut with_threads) = (BTreeMap::new(), Vec::new());
        let mut found = BTreeMap::new();
        let mut of = |id: u64| {
            *found.entry(id).or_insert_with(|| {
                with_threads.push(chain(&mut known, id, cgroup_of));
                with_threads.len() - 1
            })
        };
        let of = running.iter().map(|(task, _)| of(task.cgroup)).collect();
        Groups { known, with_threads, of }
    }

    /// Whether threads of more than one compete.
    fn are_several(&self) -> bool {
        self.with_threads.iter().any(|group| Some(group) != self.with_threads.first())
    }

    /// What each thread could have if it wanted, in CPUs.
    fn divide(&self, running: &[(&TaskView, Seen)], cpus: f64) -> Vec<f64> {
        let mut groups = self.within(running);
        find_wants(&mut groups, 0, running);
        let mut divided = vec![0.0; running.len()];
        let mut open = vec![(0, cpus)];
        while let Some((group, has)) = open.pop() {
            let members = &groups[group].members;
            let demand = |(member, weight): &(Member, f64)| match member {
                Member::Group(at) => [*weight, groups[*at].wants],
                Member::Thread(at) => [*weight, wanted(&running[*at].1)],
            };
            let demands: Vec<[f64; 2]> = members.iter().map(demand).collect();
            for ((member, _), could) in members.iter().zip(divide(has, &demands)) {
                match member {
                    Member::Group(at) => open.push((*at, could.min(groups[*at].most))),
                    Member::Thread(at) => divided[*at] = could,
                }
            }
        }
        divided
    }

    /// The root and all cgroups, each with its competitors: cgroups by number, then threads.
    fn within(&self, running: &[(&TaskView, Seen)]) -> Vec<Within> {
        let group = |most| Within { members: Vec::new(), most, wants: 0.0 };
        let others = self.known.values().map(|known| group(known.most));
        let mut groups: Vec<Within> = iter::once(group(f64::INFINITY)).chain(others).collect();
        let places: BTreeMap<u64, usize> =
            iter::once(ROOT).chain(self.known.keys().copied()).zip(0..).collect();
        for (id, known) in &self.known {
            let member = Member::Group(places[id]);
            groups[places[&known.parent]].members.push((member, known.weight));
        }
        let with_threads: Vec<usize> = self.with_threads.iter().map(|id| places[id]).collect();
        for (at, (group, (task, _))) in self.of.iter().zip(running).enumerate() {
            let weight = f64::from(task.weight.max(1));
            groups[with_threads[*group]].members.push((Member::Thread(at), weight));
        }
        groups
    }
}

/// Finds what a cgroup wants, and those in it.
fn find_wants(groups: &mut [Within], group: usize, running: &[(&TaskView, Seen)]) -> f64 {
    let members = std::mem::take(&mut groups[group].members);
    let mut demand = |(member, _): &(Member, f64)| match member {
        Member::Group(at) => find_wants(groups, *at, running),
        Member::Thread(at) => wanted(&running[*at].1),
    };
    let wants = members.iter().map(&mut demand).sum::<f64>().min(groups[group].most);
    (groups[group].members, groups[group].wants) = (members, wants);
    wants
}

/// Notes a cgroup and those around it. Returns the cgroup that its threads compete in: one whose CPU time is not
/// divided apart from its parent's counts as its parent, and one that was removed meanwhile as the root.
fn chain(
    known: &mut BTreeMap<u64, Known>,
    id: u64,
    cgroup_of: &dyn Fn(u64) -> Option<Cgroup>,
) -> u64 {
    let (at, chain) = Cgroup::chain(id, cgroup_of, |id| known.contains_key(&id));
    // It is too deep.
    if at != ROOT && !known.contains_key(&at) {
        return ROOT;
    }
    let mut parent = at;
    for (id, group) in chain {
        // The root of the hierarchy has no weight, and no competitor.
        if group.apart && group.parent != ROOT {
            let most = group.quota.map_or(f64::INFINITY, |quota| quota.cpus());
            known.insert(id, Known { parent, weight: group.competes(), most });
            parent = id;
        }
    }
    parent
}

/// Divides CPU time by weight among competitors, each with its weight and what it wants. What one does not want goes to
/// the others. Returns what each gets, or what it could have if it wanted more.
fn divide(has: f64, competitors: &[[f64; 2]]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..competitors.len()).collect();
    let sated_at = |at: usize| competitors[at][1] / competitors[at][0];
    order.sort_by(|a, b| sated_at(*a).total_cmp(&sated_at(*b)));
    let mut left = has;
    let mut weights: f64 = competitors.iter().map(|[weight, _]| weight).sum();
    let mut a_weight = 0.0;
    for at in order {
        let [weight, wants] = competitors[at];
        a_weight = left / weights;
        left -= (a_weight * weight).min(wants);
        weights -= weight;
    }
    competitors.iter().map(|[weight, _]| a_weight * weight).collect()
}

#[cfg(test)]
mod tests {
    use policy::Quota;

    use super::*;

    #[test]
    fn what_one_does_not_want_goes_to_the_others_by_weight() {
        assert_eq!(divide(2.0, &[[100.0, 9.0], [300.0, 9.0]]), [0.5, 1.5]);
        // The second could have three times what the first has.
        assert_eq!(divide(2.0, &[[100.0, 9.0], [300.0, 1.0]]), [1.0, 3.0]);
        assert_eq!(divide(3.0, &[[1.0, 0.5], [1.0, 9.0], [4.0, 9.0]]), [0.5, 0.5, 2.0]);
        assert_eq!(divide(4.0, &[[1.0, 1.0], [1.0, 1.0]]), [3.0, 3.0]);
        assert!(divide(4.0, &[]).is_empty());
    }

    /// A tree: number, parent and weight.
    const TREE: [(u64, u64, u32); 5] =
        [(1, ROOT, 100), (2, 1, 100), (3, 1, 300), (4, 3, 100), (5, 3, 0)];

    fn group(id: u64) -> Option<Cgroup> {
        let (_, parent, weight) = *TREE.iter().find(|(own, ..)| *own == id)?;
        Some(Cgroup { parent, weight, apart: true, quota: None })
    }

    fn could(threads: &[(u64, Seen)], cgroup_of: &dyn Fn(u64) -> Option<Cgroup>) -> Vec<f64> {
        let task = |cgroup| TaskView { weight: 100, cgroup, ..TaskView::default() };
        let tasks: Vec<_> = threads.iter().map(|(id, _)| task(*id)).collect();
        let running: Vec<_> = tasks.iter().zip(threads.iter().map(|(_, seen)| *seen)).collect();
        let groups = Groups::of(&running, cgroup_of);
        groups.divide(&running, 1.0)
    }

    fn near(given: &[f64], wanted: &[f64]) {
        let same = given.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(same && given.len() == wanted.len(), "{given:?}, not {wanted:?}");
    }

    const HOG: Seen = Seen { generation: 1, runtime_ns: 0, used: 0.0, used_now: 0.0, could: None };

    #[test]
    fn each_level_divides_by_weight() {
        near(&could(&[(2, HOG), (4, HOG)], &group), &[0.25, 0.75]);
        near(&could(&[(2, HOG), (2, HOG), (4, HOG)], &group), &[0.125, 0.125, 0.75]);
        near(&could(&[(2, HOG), (4, HOG), (5, HOG)], &group), &[0.25, 0.7478, 0.0022]);
        near(&could(&[(1, HOG), (2, HOG)], &group), &[0.5, 0.5]);
    }

    #[test]
    fn what_a_limit_leaves_goes_to_those_beside_it() {
        let quota = Quota { quota_ns: 10, period_ns: 100, burst_ns: 0 };
        let limited = |id| group(id).map(|own| Cgroup { quota: (id == 3).then_some(quota), ..own });
        near(&could(&[(2, HOG), (4, HOG), (4, HOG)], &limited), &[0.9, 0.05, 0.05]);
    }

    #[test]
    fn what_a_sleeper_leaves_stays_in_its_cgroup() {
        let sleeper = Seen { used: 0.1, used_now: 0.1, could: Some(0.7), ..HOG };
        let left = 0.75 - MORE * 0.1;
        near(&could(&[(2, HOG), (3, HOG), (4, sleeper)], &group), &[0.25, left, left]);
    }

    #[test]
    fn a_cgroup_that_divides_nothing_counts_as_its_parent() {
        let flat = |id| group(id).map(|own| Cgroup { apart: id < 4, ..own });
        near(&could(&[(3, HOG), (4, HOG), (2, HOG)], &flat), &[0.375, 0.375, 0.25]);
    }

    #[test]
    fn a_cgroup_that_is_gone_or_in_itself_still_counts() {
        near(&could(&[(99, HOG)], &group), &[1.0]);
        let itself = |id| Some(Cgroup { parent: id, weight: 100, apart: true, quota: None });
        assert!(could(&[(7, HOG)], &itself)[0].is_finite());
    }
}
