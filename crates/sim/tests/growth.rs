// SPDX-License-Identifier: GPL-2.0-only
//! The memory that a run takes of this machine, and that a longer run takes no more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use policy::Instance;
use sim::yardstick::{many_cpus, mix};
use sim::{Scenario, Scheduler, run};

/// Bytes in use, and their maximum.
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all is the system's allocator's, with its own layouts; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: likewise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The maximum of bytes in use during a run of this length, on 228 CPUs with 1,000 tasks.
fn peak(duration_ms: u64) -> usize {
    let flsched = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
    let scenario = Scenario::new(many_cpus(), mix(1_000, duration_ms), flsched);
    PEAK.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
    run(&scenario).unwrap();
    PEAK.load(Ordering::Relaxed)
}

/// Only the histograms of waits grow, and ever more slowly: a task has a number for each length of a wait that has
/// occurred, to 2 %. `paceline repro simulator --only memory --only growth` has ten minutes of it.
#[test]
fn a_run_needs_little_memory() {
    let bytes = peak(2_000);
    assert!(bytes < 20_000_000, "{bytes} bytes");
}
