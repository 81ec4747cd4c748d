// SPDX-License-Identifier: GPL-2.0-only
//! The tree of queues of EEVDF: each cgroup has a queue on each CPU, and an entity for it in its parent's queue there.
//! Pure: no kernel here.

use policy::Cgroup;

use super::eevdf_pool::Pool;
use super::eevdf_queue::{Entity, EntityId, Queue, SCALE};
use crate::ids::{CpuId, TaskId};
use crate::line::Line;
use crate::lock::LockId;
use crate::pelt::Avg;

/// A cgroup by its index: the root is 0.
pub(super) type GroupId = usize;

/// A `cfs_rq` by its index. The root's on a CPU has the CPU's number.
pub(super) type CfsId = usize;

/// `MIN_SHARES`.
const SHARES_MIN: i64 = 2;
/// `MAX_SHARES`.
const SHARES_MAX: i64 = 1 << 18;
/// `WEIGHT_IDLEPRIO`.
const SHARES_IDLE: i64 = 3;

/// `update_tg_load_avg` is done this often at most.
const CONTRIBUTE_NS: u64 = 1_000_000;

/// `struct cfs_rq`: a cgroup's queue on a CPU.
#[derive(Debug, Default)]
pub(super) struct CfsRq {
    pub queue: Queue,
    /// The average over its entities. Its utilisation counts all tasks within it.
    pub avg: Avg,
    /// The average of its own entity, on its parent's queue: load only.
    pub own: Avg,
    /// Its load as its group last counted it (`tg_load_avg_contrib`), and when that was.
    contributes: f64,
    contributed_ns: u64,
    /// Its group has a limit (`runtime_enabled`).
    pub limited: bool,
    /// Time left that it took from its group's pool (`runtime_remaining`); less than 0: it has run for longer.
    pub remaining_ns: i64,
    pub throttled: bool,
    /// How many queues are throttled, of this one and those above it (`throttle_count`).
    pub throttles: u32,
    /// Its tasks that wait for the limit (`throttled_limbo_list`).
    pub limbo: Vec<TaskId>,
}

impl CfsRq {
    /// It has load, or its group still counts some here.
    pub fn has_load(&self) -> bool {
        self.avg.load >= 1.0 || self.contributes >= 1.0
    }
}

/// `struct task_group`.
#[derive(Debug)]
pub(super) struct TaskGroup {
    parent: GroupId,
    depth: usize,
    /// Its weight among its siblings, scaled as [`Entity::weight`].
    shares: i64,
    /// `cpu.idle` of this group.
    pub idle: bool,
    /// `cpu.idle` of this group or of one above.
    pub idle_within: bool,
    /// The load of its queues on all CPUs, and the line that has it.
    load: f64,
    pub line: Line,
    /// None: it is the root, which has no limit.
    pub pool: Option<Pool>,
}

/// The groups, and where their queues and entities are.
#[derive(Debug, Default)]
pub(super) struct Tree {
    cpus: usize,
    tasks: usize,
    pub groups: Vec<TaskGroup>,
}

impl Tree {
    /// The tree of these cgroups, the root first. `lock` makes the lock of a pool.
    pub fn new(
        cpus: usize,
        tasks: usize,
        cgroups: &[Cgroup],
        mut lock: impl FnMut() -> LockId,
    ) -> Self {
        let mut tree = Tree { cpus, tasks, groups: Vec::new() };
        // A group may come before its parent in the list of a workload: all are found first.
        let parent = |of: GroupId| (cgroups[of].parent as usize).saturating_sub(1);
        let above =
            |of: GroupId| std::iter::successors(Some(of), move |at| (*at > 0).then(|| parent(*at)));
        for (at, cgroup) in cgroups.iter().enumerate() {
            let idle = |at: GroupId| at > 0 && cgroups[at].weight == 0;
            let shares = match cgroup.weight {
                0 => SHARES_IDLE,
                // `sched_weight_from_cgroup`
                weight => ((i64::from(weight) * 1024 + 50) / 100).clamp(SHARES_MIN, SHARES_MAX),
            };
            tree.groups.push(TaskGroup {
                parent: parent(at),
                depth: above(at).count() - 1,
                shares: shares * SCALE,
                idle: idle(at),
                idle_within: above(at).any(idle),
                load: 0.0,
                line: Line::new(0),
                pool: (at > 0).then(|| Pool::new(lock(), cgroup.quota)),
            });
        }
        tree
    }

    /// How many queues there are, and how many entities besides tasks'.
    pub fn sizes(&self) -> (usize, usize) {
        let queues = self.groups.len() * self.cpus;
        (queues, queues - self.cpus)
    }

    /// The queue of a group on a CPU.
    #[inline]
    pub fn queue_of(&self, group: GroupId, cpu: CpuId) -> CfsId {
        group * self.cpus + cpu
    }

    /// The group of a queue.
    #[inline]
    pub fn group(&self, cfs: CfsId) -> GroupId {
        if cfs < self.cpus { 0 } else { cfs / self.cpus }
    }

    /// The CPU of a queue.
    #[inline]
    pub fn cpu(&self, cfs: CfsId) -> CpuId {
        if cfs < self.cpus { cfs } else { cfs % self.cpus }
    }

    /// The entity of a queue, and the queue that it is on; None for a root's.
    #[inline]
    pub fn above(&self, cfs: CfsId) -> Option<(EntityId, CfsId)> {
        if cfs < self.cpus {
            return None;
        }
        let parent = self.groups[self.group(cfs)].parent;
        Some((self.tasks + cfs - self.cpus, self.queue_of(parent, self.cpu(cfs))))
    }

    /// The queue of an entity (`group_cfs_rq`); None for a task.
    #[inline]
    pub fn below(&self, entity: EntityId) -> Option<CfsId> {
        (entity >= self.tasks).then(|| entity - self.tasks + self.cpus)
    }

    /// The pool of a group that is not the root.
    pub fn pool(&mut self, group: GroupId) -> &mut Pool {
        self.groups[group].pool.as_mut().expect("the root has no limit")
    }

    /// Whether a queue's group has a limit.
    pub fn is_limited(&self, cfs: CfsId) -> bool {
        let pool = &self.groups[self.group(cfs)].pool;
        pool.as_ref().is_some_and(|pool| pool.quota().is_some())
    }

    /// All queues of a CPU, the root's first.
    pub fn of_cpu(&self, cpu: CpuId) -> impl Iterator<Item = CfsId> + use<> {
        (cpu..self.groups.len() * self.cpus).step_by(self.cpus)
    }

    /// A queue, and those of all groups within its group on its CPU.
    pub fn within(&self, cfs: CfsId) -> Vec<CfsId> {
        let is_within = |of: &CfsId| {
            let mut at = Some(*of);
            while at.is_some_and(|at| at != cfs) {
                at = at.and_then(|at| self.above(at)).map(|(_, above)| above);
            }
            at.is_some()
        };
        self.of_cpu(self.cpu(cfs)).filter(is_within).collect()
    }

    /// `find_matching_se`: the queue that has both entities, or the entities of groups that have them.
    pub fn matching(
        &self,
        mut a: (EntityId, CfsId),
        mut b: (EntityId, CfsId),
    ) -> (CfsId, [EntityId; 2]) {
        let depth = |at: (EntityId, CfsId)| self.groups[self.group(at.1)].depth;
        while a.1 != b.1 {
            let (a_depth, b_depth) = (depth(a), depth(b));
            if a_depth >= b_depth {
                a = self.above(a.1).unwrap_or(a);
            }
            if b_depth >= a_depth {
                b = self.above(b.1).unwrap_or(b);
            }
        }
        (a.1, [a.0, b.0])
    }

    /// `update_tg_load_avg`: a queue's part in its group's load. Returns whether that was written.
    pub fn contribute(&mut self, cfs: CfsId, of: &mut CfsRq, now_ns: u64) -> bool {
        let more = of.avg.load - of.contributes;
        let early = now_ns < of.contributed_ns + CONTRIBUTE_NS;
        if early || more.abs() <= of.contributes / 64.0 {
            return false;
        }
        self.set_contribution(cfs, of, of.avg.load);
        of.contributed_ns = now_ns;
        true
    }

    /// `clear_tg_load_avg`: the CPU goes offline.
    pub fn set_contribution(&mut self, cfs: CfsId, of: &mut CfsRq, load: f64) {
        let group = self.group(cfs);
        let group = &mut self.groups[group];
        group.load = (group.load + load - of.contributes).max(0.0);
        of.contributes = load;
    }

    /// `calc_group_shares`: the weight of a queue's entity is its part in its group's load, of the group's weight.
    pub fn shares(&self, cfs: CfsId, of: &CfsRq, entities: &[Entity]) -> i64 {
        let group = &self.groups[self.group(cfs)];
        let load = (of.queue.load(entities) as f64).max(of.avg.load);
        let all = (group.load - of.contributes).max(0.0) + load;
        let part = if all > 0.0 { load / all } else { 1.0 };
        ((group.shares as f64 * part + 0.5) as i64).clamp(SHARES_MIN, group.shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs and ten tasks; groups 1, 2 in 1, and 3, which is idle.
    fn tree() -> Tree {
        let group = |parent, weight| Cgroup { parent, weight, ..Cgroup::ROOT };
        let cgroups = [Cgroup::ROOT, group(1, 100), group(2, 50), group(1, 0)];
        Tree::new(2, 10, &cgroups, || LockId(0))
    }

    #[test]
    fn each_group_has_a_queue_and_an_entity_on_each_cpu() {
        let tree = tree();
        assert_eq!(tree.sizes(), (8, 6));
        let inner = tree.queue_of(2, 1);
        let (entity, outer) = tree.above(inner).unwrap();
        assert_eq!((tree.below(entity), outer), (Some(inner), tree.queue_of(1, 1)));
        assert_eq!(tree.above(outer).unwrap().1, 1);
        assert_eq!((tree.above(1), tree.below(9)), (None, None));
        assert_eq!(tree.within(outer), [outer, inner]);
        assert_eq!(tree.of_cpu(1).collect::<Vec<_>>(), [1, 3, 5, 7]);
    }

    #[test]
    fn entities_meet_on_the_queue_that_has_both() {
        let tree = tree();
        let inner = tree.queue_of(2, 0);
        let (_, outer) = tree.above(inner).unwrap();
        let (entity, _) = tree.above(inner).unwrap();
        assert_eq!(tree.matching((4, inner), (5, outer)), (outer, [entity, 5]));
        assert_eq!(tree.matching((4, inner), (5, inner)), (inner, [4, 5]));
        let (top, _) = tree.above(outer).unwrap();
        assert_eq!(tree.matching((4, 0), (5, inner)), (0, [4, top]));
    }

    #[test]
    fn a_queue_weighs_as_much_as_its_part_in_the_load_of_its_group() {
        let mut tree = tree();
        let shares = |cgroup: GroupId| tree.groups[cgroup].shares / SCALE;
        assert_eq!([shares(1), shares(2), shares(3)], [1024, 512, 3]);
        let of = |load| CfsRq { avg: Avg::default().with_load(load), ..CfsRq::default() };
        let (mut here, mut there) = (of(1024.0), of(3072.0));
        let cfs = [tree.queue_of(1, 0), tree.queue_of(1, 1)];
        let ms = CONTRIBUTE_NS;
        assert!(tree.contribute(cfs[0], &mut here, ms) && tree.contribute(cfs[1], &mut there, ms));
        assert_eq!(tree.shares(cfs[0], &here, &[]), 256 * SCALE);
        assert_eq!(tree.shares(cfs[1], &there, &[]), 768 * SCALE);
        tree.set_contribution(cfs[1], &mut there, 0.0);
        assert_eq!(tree.shares(cfs[0], &here, &[]), 1024 * SCALE, "the other CPU is offline");
    }
}
