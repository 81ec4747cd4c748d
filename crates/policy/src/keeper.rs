// SPDX-License-Identifier: GPL-2.0-only
//! A task table with a data plane in user space: for grounds that have no policy in the kernel.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use crate::table::{MAX_TASKS, RawTable, TYPES_MAX, TaskTable};

/// A table, written in a policy's place by this value.
pub struct Keeper {
    raw: NonNull<RawTable>,
    table: TaskTable,
    free: Vec<u32>,
    fresh: u32,
}

/// A task's place in a [`Keeper`]'s table.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(u32);

// SAFETY: the table belongs to this value alone, and all its fields are atomics.
unsafe impl Send for Keeper {}

impl Default for Keeper {
    fn default() -> Self {
        Keeper::new()
    }
}

impl Keeper {
    /// An empty table.
    pub fn new() -> Self {
        let layout = Layout::new::<RawTable>();
        // SAFETY: the layout is not empty; zeroes are a valid table, as in a policy's .bss
        let raw = unsafe { alloc_zeroed(layout) }.cast::<RawTable>();
        let Some(raw) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: it lives until this value is dropped
        let table = unsafe { TaskTable::new(raw) };
        Keeper { raw, table, free: Vec::new(), fresh: 0 }
    }

    /// The table that a control plane reads.
    pub fn table(&self) -> &TaskTable {
        &self.table
    }

    /// Adds a task. None: the table is full.
    pub fn enter(&mut self, pid: u32, tgid: u32, weight: u32) -> Option<Place> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.fresh as usize) + 1 < MAX_TASKS => {
                self.fresh += 1;
                self.fresh
            }
            None => return None,
        };
        let slot = self.table.slot(index);
        slot.pid.store(pid, Relaxed);
        slot.tgid.store(tgid, Relaxed);
        slot.weight.store(weight, Relaxed);
        slot.runtime_ns.store(0, Relaxed);
        let sums = slot.ran_ns.iter().chain(&slot.counted_ns).chain(&slot.instructions);
        sums.for_each(|sum| sum.store(0, Relaxed));
        slot.kinds.store(0, Relaxed);
        slot.domains.store(0, Relaxed);
        slot.home.store(0, Relaxed);
        slot.pace.store(0, Relaxed);
        slot.limit.store(0, Relaxed);
        slot.cgroup.store(0, Relaxed);
        slot.share_even.store(0, Relaxed);
        slot.share_odd.store(0, Relaxed);
        slot.generation.fetch_add(1, Relaxed);
        self.table.grow(u64::from(self.fresh));
        Some(Place(index))
    }

    /// Removes a task.
    pub fn leave(&mut self, place: Place) {
        self.table.slot(place.0).generation.fetch_add(1, Relaxed);
        self.free.push(place.0);
    }

    /// Sets a task's weight.
    pub fn weigh(&mut self, place: &Place, weight: u32) {
        self.table.slot(place.0).weight.store(weight, Relaxed);
    }

    /// Puts a task into a cgroup, by the inode of its folder.
    pub fn put_in(&mut self, place: &Place, cgroup: u64) {
        self.table.slot(place.0).cgroup.store(cgroup, Relaxed);
    }

    /// Sets the kinds of cores that a task may run on: a bit for each; 0: all.
    pub fn bind(&mut self, place: &Place, kinds: u32) {
        self.table.slot(place.0).kinds.store(kinds, Relaxed);
    }

    /// Sets the number of available CPUs of each kind, or of each domain.
    pub fn there(&self, cpus: impl IntoIterator<Item = usize>) {
        for (count, now) in self.table.counted().iter().zip(cpus) {
            count.store(now as u64, Relaxed);
        }
    }

    /// Charges a task for `ran_ns` on a kind of core, and the instructions that it retired in this time; None: not
    /// counted.
    pub fn charge(&mut self, place: &Place, kind: usize, ran_ns: u64, retired: Option<u64>) {
        let (slot, kind) = (self.table.slot(place.0), kind.min(TYPES_MAX - 1));
        slot.runtime_ns.fetch_add(ran_ns, Relaxed);
        slot.ran_ns[kind].fetch_add(ran_ns, Relaxed);
        if let Some(count) = retired {
            slot.counted_ns[kind].fetch_add(ran_ns, Relaxed);
            slot.instructions[kind].fetch_add(count, Relaxed);
        }
    }

    /// A task's share as stored, for policies with shares that are not parts of kinds; 0 if none was published for it.
    pub fn share(&self, place: &Place) -> u64 {
        self.table.share(place.0)
    }

    /// A task's share of each kind of core, as parts of 1; a newcomer's if none was published for it yet.
    pub fn shares(&self, place: &Place) -> [f64; TYPES_MAX] {
        let packed = match self.table.share(place.0) {
            0 => self.table.share(0),
            own => own,
        };
        let part = |kind: usize| f64::from((packed >> (16 * kind)) as u16) / 65535.0;
        std::array::from_fn(part)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and the table goes with it
        unsafe { dealloc(self.raw.as_ptr().cast(), Layout::new::<RawTable>()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_sees_what_was_charged_and_its_shares_are_in_force() {
        let mut keeper = Keeper::new();
        assert!(keeper.table().tasks().is_empty());
        let (one, two) = (keeper.enter(7, 7, 100).unwrap(), keeper.enter(8, 7, 50).unwrap());
        keeper.charge(&one, 1, 500, Some(30));
        keeper.charge(&one, 0, 100, Some(9));
        keeper.charge(&one, 1, 100, None);
        let tasks = keeper.table().tasks();
        assert_eq!(
            tasks.iter().map(|task| (task.pid, task.weight)).collect::<Vec<_>>(),
            [(7, 100), (8, 50)]
        );
        assert_eq!((tasks[0].runtime_ns, tasks[0].ran_ns[..2].to_vec()), (700, vec![100, 600]));
        assert_eq!((tasks[0].counted_ns[1], tasks[0].instructions[1]), (500, 30));
        keeper.table().publish(65535 << 16, &[(tasks[0], 65535)]);
        assert_eq!((keeper.shares(&one)[0], keeper.shares(&two)[1]), (1.0, 1.0));
        keeper.leave(one);
        let again = keeper.enter(9, 9, 100).unwrap();
        assert_eq!(keeper.table().tasks().len(), 2);
        assert_eq!(keeper.shares(&again)[1], 1.0, "those of the task before it are not its");
        assert_eq!(keeper.table().tasks()[0].runtime_ns, 0);
    }
}
