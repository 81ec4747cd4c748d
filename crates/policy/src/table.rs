// SPDX-License-Identifier: GPL-2.0-only
//! The task table as the control plane sees it: `policies/common/task_table.h` has the same layout and states the
//! rules.
//!
//! Fields of the data plane are read-only here. Fields of the control plane are written through [`TaskTable::publish`]
//! alone, which publishes a whole set of shares at once.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::Quota;

/// `MAX_TASKS` of task_table.h.
pub const MAX_TASKS: usize = 16384;

/// Most tasks with a slot at a time: slot 0 is no task's.
pub const SLOTS: usize = MAX_TASKS - 1;

/// Which plane writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The policy's callbacks.
    Data,
    /// The control plane.
    Control,
}

/// `struct task_slot`. Atomics, because the other side writes while this one reads.
#[repr(C)]
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Slot {
    pub(crate) generation: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) tgid: AtomicU32,
    pub(crate) weight: AtomicU32,
    pub(crate) kinds: AtomicU32,
    pub(crate) pace: AtomicU32,
    pub(crate) domains: AtomicU32,
    pub(crate) home: AtomicU32,
    pub(crate) limit: AtomicU32,
    pub(crate) mm: AtomicU64,
    pub(crate) cgroup: AtomicU64,
    pub(crate) runtime_ns: AtomicU64,
    pub(crate) ran_ns: ByType,
    pub(crate) counted_ns: ByType,
    pub(crate) instructions: ByType,
    pub(crate) share_even: AtomicU64,
    pub(crate) share_odd: AtomicU64,
}

/// `TYPES_MAX` of kernel.h: the most kinds of cores that are distinguished.
pub const TYPES_MAX: usize = 4;

/// `PLACES_MAX` of task_table.h: the most kinds of cores, or memory domains, that shares refer to.
pub const PLACES_MAX: usize = 64;

/// `struct by_type`.
pub(crate) type ByType = [AtomicU64; TYPES_MAX];

/// `LIMITS_MAX` of task_table.h: numbers of limits of CPU time are below this. Number 0 means no limit.
pub const LIMITS_MAX: usize = 4096;

/// `struct limit`.
#[repr(C)]
#[derive(Debug, Default)]
struct RawLimit {
    quota_ns: AtomicU64,
    period_ns: AtomicU64,
    burst_ns: AtomicU64,
    cgroup: AtomicU64,
    around: AtomicU32,
    left_ns: AtomicI64,
    reserved_ns: AtomicI64,
    ends_ns: AtomicU64,
    held_ns: AtomicU64,
    timer_ns: AtomicU64,
}

/// `struct task_table`.
#[repr(C)]
#[derive(Debug)]
pub struct RawTable {
    epoch: AtomicU64,
    working: AtomicU64,
    free: AtomicU64,
    fresh: AtomicU64,
    cpus: [AtomicU64; PLACES_MAX],
    domain_cpus: [AtomicU64; PLACES_MAX],
    limited: AtomicU64,
    next_free: [AtomicU32; MAX_TASKS],
    slots: [Slot; MAX_TASKS],
    limits: [RawLimit; LIMITS_MAX],
}

/// Name, offset, size and owner of each field of a slot, which a test compares with C.
pub const FIELDS: [(&str, usize, usize, Owner); 17] = {
    use std::mem::{offset_of, size_of};
    [
        ("generation", offset_of!(Slot, generation), 4, Owner::Data),
        ("pid", offset_of!(Slot, pid), 4, Owner::Data),
        ("tgid", offset_of!(Slot, tgid), 4, Owner::Data),
        ("weight", offset_of!(Slot, weight), 4, Owner::Data),
        ("kinds", offset_of!(Slot, kinds), 4, Owner::Data),
        ("pace", offset_of!(Slot, pace), 4, Owner::Control),
        ("domains", offset_of!(Slot, domains), 4, Owner::Data),
        ("home", offset_of!(Slot, home), 4, Owner::Control),
        ("limit", offset_of!(Slot, limit), 4, Owner::Control),
        ("mm", offset_of!(Slot, mm), 8, Owner::Data),
        ("cgroup", offset_of!(Slot, cgroup), 8, Owner::Data),
        ("runtime_ns", offset_of!(Slot, runtime_ns), 8, Owner::Data),
        ("ran_ns", offset_of!(Slot, ran_ns), size_of::<ByType>(), Owner::Data),
        ("counted_ns", offset_of!(Slot, counted_ns), size_of::<ByType>(), Owner::Data),
        ("instructions", offset_of!(Slot, instructions), size_of::<ByType>(), Owner::Data),
        ("share_even", offset_of!(Slot, share_even), 8, Owner::Control),
        ("share_odd", offset_of!(Slot, share_odd), 8, Owner::Control),
    ]
};

/// The same of a limit.
pub const LIMIT_FIELDS: [(&str, usize, usize, Owner); 10] = {
    use std::mem::offset_of;
    [
        ("quota_ns", offset_of!(RawLimit, quota_ns), 8, Owner::Control),
        ("period_ns", offset_of!(RawLimit, period_ns), 8, Owner::Control),
        ("burst_ns", offset_of!(RawLimit, burst_ns), 8, Owner::Control),
        ("cgroup", offset_of!(RawLimit, cgroup), 8, Owner::Control),
        ("around", offset_of!(RawLimit, around), 4, Owner::Control),
        ("left_ns", offset_of!(RawLimit, left_ns), 8, Owner::Data),
        ("reserved_ns", offset_of!(RawLimit, reserved_ns), 8, Owner::Data),
        ("ends_ns", offset_of!(RawLimit, ends_ns), 8, Owner::Data),
        ("held_ns", offset_of!(RawLimit, held_ns), 8, Owner::Data),
        ("timer_ns", offset_of!(RawLimit, timer_ns), 8, Owner::Data),
    ]
};

/// Offsets of `epoch`, `cpus`, `next_free`, `slots` and `limits`, and the size of the whole table.
pub const TABLE_LAYOUT: [usize; 6] = {
    use std::mem::{offset_of, size_of};
    [
        offset_of!(RawTable, epoch),
        offset_of!(RawTable, cpus),
        offset_of!(RawTable, next_free),
        offset_of!(RawTable, slots),
        offset_of!(RawTable, limits),
        size_of::<RawTable>(),
    ]
};

/// One task, as its slot described it at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TaskView {
    /// The slot.
    pub slot: u32,
    /// The use of the slot: with `slot` it names this task and no later one.
    pub generation: u32,
    pub pid: u32,
    pub tgid: u32,
    pub weight: u32,
    /// A bit for each kind of core that it may run on; 0: all of them.
    pub kinds: u32,
    /// The same as `kinds` for the first 32 memory domains, where shares are of kinds.
    pub domains: u32,
    /// 1 + the domain that it was given by [`TaskTable::set_home`]; 0: none.
    pub home: u32,
    /// The limit that it was given by [`TaskTable::set_limit_of`]; 0: none.
    pub limit: u32,
    /// Address space, as an opaque number.
    pub mm: u64,
    /// Its cgroup, by the inode of its folder; 0: unknown.
    pub cgroup: u64,
    /// CPU time charged so far.
    pub runtime_ns: u64,
    /// CPU time on each kind of core.
    pub ran_ns: [u64; TYPES_MAX],
    /// The part of `ran_ns` in which CPUs counted instructions.
    pub counted_ns: [u64; TYPES_MAX],
    /// Instructions retired in `counted_ns`.
    pub instructions: [u64; TYPES_MAX],
    /// The share in force.
    pub share: u64,
}

/// A table that a policy's data plane shares.
pub struct TaskTable {
    raw: NonNull<RawTable>,
}

impl TaskTable {
    /// The table at this address.
    ///
    /// # Safety
    /// `raw` points to a `struct task_table` that lives as long as the result, and only callbacks
    /// and this value write to it.
    pub unsafe fn new(raw: NonNull<RawTable>) -> Self {
        TaskTable { raw }
    }

    /// Every task that has a slot, by slot. A slot that changes hands while it is read is left out.
    pub fn tasks(&self) -> Vec<TaskView> {
        let used = self.used();
        let mut tasks = Vec::with_capacity(used);
        (1..used).for_each(|slot| self.view(slot, &mut tasks));
        tasks
    }

    /// Whether any task has a domain by [`Self::set_home`].
    pub fn any_has_home(&self) -> bool {
        let has_home = |slot: &Slot| {
            let home = slot.home.load(Ordering::Relaxed);
            home != 0 && slot.generation.load(Ordering::Acquire) % 2 == 1
        };
        self.raw().slots[1..self.used()].iter().any(has_home)
    }

    /// The end of the slots that were ever given out.
    fn used(&self) -> usize {
        (self.raw().fresh.load(Ordering::Acquire) as usize + 1).min(MAX_TASKS)
    }

    /// Tasks since the policy was loaded that found all slots ([`SLOTS`]) taken. Nothing is planned for them for as
    /// long as they live.
    pub fn refused(&self) -> u64 {
        self.raw().fresh.load(Ordering::Relaxed).saturating_sub(SLOTS as u64)
    }

    /// Present CPUs of each kind of core or of each domain, depending on the policy's shares; all 0 if the policy does
    /// not count them.
    pub fn cpus(&self) -> [u64; PLACES_MAX] {
        self.raw().cpus.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Present CPUs of each memory domain, where shares are of kinds; all 0 if the policy does not count them.
    pub fn domain_cpus(&self) -> [u64; PLACES_MAX] {
        self.raw().domain_cpus.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Says which mechanisms of the policy work from now on, by its own bits.
    pub fn set_working(&self, mechanisms: u64) {
        self.raw().working.store(mechanisms, Ordering::Relaxed);
    }

    /// The mechanisms that work now, by the policy's own bits.
    pub fn working(&self) -> u64 {
        self.raw().working.load(Ordering::Relaxed)
    }

    /// Gives this task a domain, in place of the one that it has; None: none. For policies with shares of kinds.
    pub fn set_home(&self, task: &TaskView, domain: Option<usize>) {
        if let Some(slot) = self.slot_of(task) {
            slot.home.store(domain.map_or(0, |domain| 1 + domain as u32), Ordering::Relaxed);
        }
    }

    /// Puts this task into the limit of this number; 0: none.
    pub fn set_limit_of(&self, task: &TaskView, limit: u32) {
        if let Some(slot) = self.slot_of(task) {
            slot.limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Makes the limit of this number a cgroup's, within the limit `around` it; 0: none. A changed limit holds from the
    /// next period on.
    pub fn set_limit(&self, number: u32, cgroup: u64, quota: &Quota, around: u32) {
        let limit = &self.raw().limits[number as usize];
        limit.period_ns.store(quota.period_ns, Ordering::Relaxed);
        limit.burst_ns.store(quota.burst_ns, Ordering::Relaxed);
        limit.cgroup.store(cgroup, Ordering::Relaxed);
        limit.around.store(around, Ordering::Relaxed);
        limit.quota_ns.store(quota.quota_ns, Ordering::Release);
    }

    /// The limit of this number is none any more.
    pub fn lift_limit(&self, number: u32) {
        let limit = &self.raw().limits[number as usize];
        limit.quota_ns.store(0, Ordering::Release);
        limit.around.store(0, Ordering::Relaxed);
    }

    /// Quota of the limit of this number, ns, and the limit around it. A quota of 0: it is none.
    pub fn limit(&self, number: u32) -> (u64, u32) {
        let limit = &self.raw().limits[number as usize];
        (limit.quota_ns.load(Ordering::Relaxed), limit.around.load(Ordering::Relaxed))
    }

    /// Says what the highest number of a limit is; 0: there are none.
    pub fn set_limited(&self, highest: u32) {
        self.raw().limited.store(highest.into(), Ordering::Release);
    }

    /// Charges this task's CPU time from now on as if it had this weight; 0: with its own.
    pub fn set_pace(&self, task: &TaskView, weight: u32) {
        if let Some(slot) = self.slot_of(task) {
            slot.pace.store(weight, Ordering::Relaxed);
        }
    }

    /// Publishes these shares at once, and `newcomers` for tasks that have none yet. Tasks that are not named keep
    /// theirs. A view of a slot that has changed hands is skipped.
    pub fn publish(&self, newcomers: u64, shares: &[(TaskView, u64)]) {
        let raw = self.raw();
        let epoch = raw.epoch.load(Ordering::Acquire);
        for slot in &raw.slots[1..self.used()] {
            let (now, next) = slot.buffers(epoch);
            let generation = slot.generation.load(Ordering::Acquire);
            // A new task in this slot does not get the share of the task before.
            let share = if generation % 2 == 1 { now.load(Ordering::Relaxed) } else { 0 };
            next.store(share, Ordering::Relaxed);
            if slot.generation.load(Ordering::Acquire) != generation {
                next.store(0, Ordering::Relaxed);
            }
        }
        raw.slots[0].buffers(epoch).1.store(newcomers, Ordering::Relaxed);
        for (view, share) in shares {
            if let Some(slot) = self.slot_of(view) {
                slot.buffers(epoch).1.store(*share, Ordering::Relaxed);
            }
        }
        raw.epoch.store(epoch + 1, Ordering::Release);
    }

    /// A task's slot; None: it has changed hands since.
    fn slot_of(&self, task: &TaskView) -> Option<&Slot> {
        let slot = &self.raw().slots[task.slot as usize];
        (slot.generation.load(Ordering::Acquire) == task.generation).then_some(slot)
    }

    /// A slot, for a data plane in user space.
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        &self.raw().slots[index as usize]
    }

    /// Marks slots up to here as given out, for a data plane in user space.
    pub(crate) fn grow(&self, fresh: u64) {
        self.raw().fresh.store(fresh, Ordering::Release);
    }

    /// The counts of CPUs, for a data plane in user space.
    pub(crate) fn counted(&self) -> &[AtomicU64; PLACES_MAX] {
        &self.raw().cpus
    }

    /// A slot's share in force.
    pub(crate) fn share(&self, index: u32) -> u64 {
        let epoch = self.raw().epoch.load(Ordering::Acquire);
        self.slot(index).buffers(epoch).0.load(Ordering::Relaxed)
    }

    /// Adds a slot's task, if it has one. The view is written in its place: copying thousands of them takes long.
    fn view(&self, index: usize, tasks: &mut Vec<TaskView>) {
        let raw = self.raw();
        let slot = &raw.slots[index];
        let generation = slot.generation.load(Ordering::Acquire);
        if generation.is_multiple_of(2) {
            return;
        }
        let epoch = raw.epoch.load(Ordering::Acquire);
        tasks.push(TaskView {
            slot: index as u32,
            generation,
            pid: slot.pid.load(Ordering::Relaxed),
            tgid: slot.tgid.load(Ordering::Relaxed),
            weight: slot.weight.load(Ordering::Relaxed),
            kinds: slot.kinds.load(Ordering::Relaxed),
            domains: slot.domains.load(Ordering::Relaxed),
            home: slot.home.load(Ordering::Relaxed),
            limit: slot.limit.load(Ordering::Relaxed),
            mm: slot.mm.load(Ordering::Relaxed),
            cgroup: slot.cgroup.load(Ordering::Relaxed),
            runtime_ns: slot.runtime_ns.load(Ordering::Relaxed),
            ran_ns: slot.ran_ns.each_ref().map(|ns| ns.load(Ordering::Relaxed)),
            counted_ns: slot.counted_ns.each_ref().map(|ns| ns.load(Ordering::Relaxed)),
            instructions: slot.instructions.each_ref().map(|count| count.load(Ordering::Relaxed)),
            share: slot.buffers(epoch).0.load(Ordering::Relaxed),
        });
        std::sync::atomic::fence(Ordering::Acquire);
        if slot.generation.load(Ordering::Relaxed) != generation {
            tasks.pop();
        }
    }

    fn raw(&self) -> &RawTable {
        // SAFETY: new() was promised that the table lives as long as self; all fields are atomics.
        unsafe { self.raw.as_ref() }
    }
}

impl Slot {
    /// The share in force in this epoch, and the one for the next.
    fn buffers(&self, epoch: u64) -> (&AtomicU64, &AtomicU64) {
        match epoch % 2 {
            0 => (&self.share_even, &self.share_odd),
            _ => (&self.share_odd, &self.share_even),
        }
    }
}
