// SPDX-License-Identifier: GPL-2.0-only
//! The memory that all processes of a workload share: the start gate, the stop flag, the state of locks and barriers,
//! and the report of each task.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::memory::NODES_MAX;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// For the whole workload. All zero at first, as the kernel maps it.
#[repr(C)]
pub(crate) struct Header {
    /// Threads that stand at the gate.
    pub(crate) ready: AtomicU32,
    /// 1 when the gate is open.
    pub(crate) open: AtomicU32,
    /// 1 when all must end.
    pub(crate) stop: AtomicU32,
    /// The common start, on the monotonic clock.
    pub(crate) start_ns: AtomicU64,
}

impl Header {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
    }
}

/// One object of the workload; [`crate::sync`] gives the words their meaning.
#[repr(C)]
pub(crate) struct Words {
    pub(crate) a: AtomicU32,
    pub(crate) b: AtomicU32,
}

/// The report of a task. Only the task writes it, except `released`.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) tid: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) work_ns: AtomicU64,
    pub(crate) steps: AtomicU64,
    /// On the monotonic clock; 0 while it lives.
    pub(crate) end_ns: AtomicU64,
    /// What failed: an index into [`crate::task::FAILURES`], from 1.
    pub(crate) failure: AtomicU32,
    pub(crate) errno: AtomicI32,
    /// A fork has released it.
    pub(crate) released: AtomicU32,
    /// Bytes of its memory on each node, at its end.
    pub(crate) resident: [AtomicU64; NODES_MAX],
}

/// The mapping. Forked children see the same memory; dropping it unmaps it in one process only.
pub(crate) struct Shared {
    base: *mut u8,
    bytes: usize,
    objects: usize,
    tasks: usize,
}

// SAFETY: all that is reached through the mapping is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

const OBJECTS_AT: usize = size_of::<Header>().next_multiple_of(64);

impl Shared {
    pub(crate) fn new(objects: usize, tasks: usize) -> std::io::Result<Shared> {
        let bytes = Self::slots_at(objects) + tasks * size_of::<Slot>();
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        Ok(Shared { base: base.cast(), bytes, objects, tasks })
    }

    fn slots_at(objects: usize) -> usize {
        (OBJECTS_AT + objects * size_of::<Words>()).next_multiple_of(64)
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, zeroed, and longer than a header; atomics may be
        // zero and may be shared.
        unsafe { &*self.base.cast::<Header>() }
    }

    pub(crate) fn object(&self, at: usize) -> &Words {
        assert!(at < self.objects);
        // SAFETY: in bounds by the assertion, aligned to 64 at its start, otherwise as `header`.
        unsafe { &*self.base.add(OBJECTS_AT).cast::<Words>().add(at) }
    }

    pub(crate) fn slot(&self, at: usize) -> &Slot {
        assert!(at < self.tasks);
        // SAFETY: as `object`.
        unsafe { &*self.base.add(Self::slots_at(self.objects)).cast::<Slot>().add(at) }
    }

    /// Every task's.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..self.tasks).map(|at| self.slot(at))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; nothing borrowed from it outlives `self`. A failure would leave the
        // mapping in place, which is harmless.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}
