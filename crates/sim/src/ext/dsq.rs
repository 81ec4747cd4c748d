// SPDX-License-Identifier: GPL-2.0-only
//! Dispatch queues: tasks in the order of arrival or of their vtime.
//!
//! A task is in one queue at most, so the links are kept with the tasks and no operation allocates.

use std::collections::BTreeMap;

use crate::ids::TaskId;
use crate::lock::LockId;

/// Index of a queue in the runtime's list.
pub(super) type DsqIndex = usize;

/// Maps a policy's own ids to queues.
#[derive(Default)]
pub(super) struct Ids {
    /// By the id, which is usually a small number; 0 is none, as the first queue is a CPU's.
    small: Vec<DsqIndex>,
    large: BTreeMap<u64, DsqIndex>,
}

impl Ids {
    /// Ids below this are small.
    const SMALL: u64 = 1 << 16;

    #[inline]
    pub fn get(&self, id: u64) -> Option<DsqIndex> {
        match self.small.get(id as usize) {
            Some(index) => Some(*index).filter(|index| *index != 0),
            None => self.large.get(&id).copied(),
        }
    }

    pub fn insert(&mut self, id: u64, index: DsqIndex) {
        if id >= Self::SMALL {
            self.large.insert(id, index);
            return;
        }
        let id = id as usize;
        self.small.resize(self.small.len().max(id + 1), 0);
        self.small[id] = index;
    }
}

/// One queue.
pub(super) struct Dsq {
    pub id: u64,
    /// Local queues have none: their runqueue's lock guards them.
    pub lock: Option<LockId>,
    pub nr: usize,
    head: Option<TaskId>,
    tail: Option<TaskId>,
    /// How many of its tasks were inserted by vtime.
    pub by_vtime: usize,
}

/// A task's place in its queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    pub dsq: Option<DsqIndex>,
    prev: Option<TaskId>,
    next: Option<TaskId>,
    by_vtime: bool,
}

impl Dsq {
    pub fn new(id: u64, lock: Option<LockId>) -> Self {
        Dsq { id, lock, nr: 0, head: None, tail: None, by_vtime: 0 }
    }

    #[inline]
    pub fn first(&self) -> Option<TaskId> {
        self.head
    }
}

/// The task after `task` in its queue.
#[inline]
pub(super) fn next(links: &[Link], task: TaskId) -> Option<TaskId> {
    links[task].next
}

/// Puts `task` at the head or the tail of queue `index`.
pub(super) fn insert(
    dsq: &mut Dsq,
    index: DsqIndex,
    links: &mut [Link],
    task: TaskId,
    at_head: bool,
) {
    match at_head {
        true => link_after(dsq, index, links, task, None),
        false => link_after(dsq, index, links, task, dsq.tail),
    }
}

/// Puts `task` behind all tasks with an equal or earlier vtime: `before` compares two tasks' vtimes.
pub(super) fn insert_by_vtime(
    dsq: &mut Dsq,
    index: DsqIndex,
    links: &mut [Link],
    task: TaskId,
    before: impl Fn(TaskId, TaskId) -> bool,
) {
    let mut after = dsq.tail;
    while let Some(other) = after.filter(|other| before(task, *other)) {
        after = links[other].prev;
    }
    link_after(dsq, index, links, task, after);
    links[task].by_vtime = true;
    dsq.by_vtime += 1;
}

fn link_after(
    dsq: &mut Dsq,
    index: DsqIndex,
    links: &mut [Link],
    task: TaskId,
    after: Option<TaskId>,
) {
    let next = match after {
        Some(after) => links[after].next.replace(task),
        None => dsq.head.replace(task),
    };
    match next {
        Some(next) => links[next].prev = Some(task),
        None => dsq.tail = Some(task),
    }
    debug_assert!(links[task].dsq.is_none(), "a task is in two queues");
    links[task] = Link { dsq: Some(index), prev: after, next, by_vtime: false };
    dsq.nr += 1;
}

/// Takes `task` out of the queue it is in.
pub(super) fn remove(dsq: &mut Dsq, links: &mut [Link], task: TaskId) {
    let Link { prev, next, by_vtime, .. } = std::mem::take(&mut links[task]);
    match prev {
        Some(prev) => links[prev].next = next,
        None => dsq.head = next,
    }
    match next {
        Some(next) => links[next].prev = prev,
        None => dsq.tail = prev,
    }
    dsq.nr -= 1;
    dsq.by_vtime -= usize::from(by_vtime);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(dsq: &Dsq, links: &[Link]) -> Vec<TaskId> {
        std::iter::successors(dsq.first(), |task| next(links, *task)).collect()
    }

    #[test]
    fn ids_small_and_large_name_their_queues() {
        let mut ids = Ids::default();
        for (id, index) in [(3, 9), (u64::MAX >> 1, 10), (Ids::SMALL, 11)] {
            assert_eq!(ids.get(id), None);
            ids.insert(id, index);
            assert_eq!(ids.get(id), Some(index));
        }
        assert_eq!([ids.get(0), ids.get(4)], [None; 2]);
    }

    #[test]
    fn first_come_first_served_but_for_the_head() {
        let (mut dsq, mut links) = (Dsq::new(7, None), vec![Link::default(); 4]);
        insert(&mut dsq, 0, &mut links, 0, false);
        insert(&mut dsq, 0, &mut links, 1, false);
        insert(&mut dsq, 0, &mut links, 2, true);
        assert_eq!(order(&dsq, &links), [2, 0, 1]);
        remove(&mut dsq, &mut links, 0);
        assert_eq!(order(&dsq, &links), [2, 1]);
        remove(&mut dsq, &mut links, 2);
        remove(&mut dsq, &mut links, 1);
        assert_eq!((dsq.nr, dsq.first()), (0, None));
    }

    #[test]
    fn vtime_orders_and_ties_keep_their_order() {
        let vtime: [u64; 4] = [30, 10, 10, u64::MAX - 5];
        // wrapped: u64::MAX - 5 is before 10
        let before = |a: TaskId, b: TaskId| (vtime[a].wrapping_sub(vtime[b]) as i64) < 0;
        let (mut dsq, mut links) = (Dsq::new(7, None), vec![Link::default(); 4]);
        for task in 0..4 {
            insert_by_vtime(&mut dsq, 0, &mut links, task, before);
        }
        assert_eq!(order(&dsq, &links), [3, 1, 2, 0]);
        assert_eq!(dsq.by_vtime, 4);
        remove(&mut dsq, &mut links, 1);
        assert_eq!(dsq.by_vtime, 3);
    }
}
