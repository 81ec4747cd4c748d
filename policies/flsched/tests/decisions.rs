// SPDX-License-Identifier: GPL-2.0-only
//! FLSCHED's decisions, called as the data plane calls them, with plain values.

#[path = "../../common/tests/decisions.rs"]
#[allow(unused_macros)]
mod decisions;

use decisions::function;
use proptest::prelude::*;

#[test]
fn only_a_task_that_outranks_or_cannot_move_or_is_the_kernels_goes_to_the_head() {
    let prefers_head = function::<unsafe extern "C" fn(u32, bool, bool) -> bool>("prefers_head");
    // SAFETY: the function reads values alone.
    let ask = |weight, pinned, kernel| unsafe { prefers_head(weight, pinned, kernel) };
    assert!(!ask(100, false, false), "a task of nice 0 waits its turn");
    assert!(!ask(15, false, false), "a task of nice 10 is not put behind its turn either");
    assert!(ask(101, false, false), "a task that outranks is moved in the queue (slide 12)");
    assert!(ask(100, true, false), "a task that cannot go elsewhere is moved in the queue");
    assert!(ask(100, false, true), "what RCU and work items wait for is moved in the queue");
}

#[test]
fn the_end_of_a_slice_is_put_off_once_for_each_run() {
    let defer = function::<unsafe extern "C" fn(*mut i32, i32, u64) -> u64>("defer");
    let mut deferred = 0;
    // SAFETY: the pointer is that of a local variable.
    let mut ask = |pid| unsafe { defer(&mut deferred, pid, 30) };
    assert_eq!(ask(7), 30);
    assert_eq!(ask(7), 0, "no task runs longer than slice and deferral");
    assert_eq!(ask(8), 30);
    assert_eq!(ask(7), 30, "another task ran meanwhile, so this is a new run");
}

proptest! {
    /// The kernel ends a slice at the first tick that finds it used up, wherever it began.
    #[test]
    fn no_task_runs_longer_than_its_slice(
        slice in 1u64..1000, tick in 1u64..1000, phase in 0u64..1000,
    ) {
        let ask = function::<unsafe extern "C" fn(u64, u64) -> u64>("slice");
        // SAFETY: the function reads values alone.
        let asked = unsafe { ask(slice, tick) };
        let start = phase % tick;
        let end = (1..).map(|n| n * tick).find(|now| now.saturating_sub(start) >= asked).unwrap();
        prop_assert!(asked > 0, "no slice at all would be the kernel's own");
        prop_assert!(end - start <= slice.max(2 * tick - 1), "{} of {}", end - start, slice);
        prop_assert!(slice <= tick || end - start <= slice);
        let turn = function::<unsafe extern "C" fn(u64, u64, u64) -> u64>("turn");
        // SAFETY: the function reads values alone.
        prop_assert!(end - start <= unsafe { turn(slice, tick, 0) }, "that is the longest turn");
    }

    /// However many tasks ask, those behind the head get every other turn.
    #[test]
    fn the_head_is_given_away_at_most_once_in_two_turns(
        turn in 1u64..1000, gaps in prop::collection::vec(0u64..2000, 1..200),
    ) {
        let take_head = function::<unsafe extern "C" fn(*mut u64, u64, u64) -> bool>("take_head");
        let (mut taken, mut now, mut given) = (0u64, 1u64, Vec::new());
        for gap in gaps {
            now += gap;
            // SAFETY: the pointer is that of a local variable.
            if unsafe { take_head(&mut taken, now, turn) } {
                given.push(now);
            }
        }
        prop_assert!(!given.is_empty(), "the first CPU that asks gets it");
        prop_assert!(given.windows(2).all(|pair| pair[1] - pair[0] >= 2 * turn));
    }

    /// A CPU in search of work examines every CPU once, its own first.
    #[test]
    fn a_search_for_work_visits_every_cpu_once(cpus in 1u32..512, start in 0u32..512) {
        let victim = function::<unsafe extern "C" fn(u32, i32, u32) -> i32>("victim");
        let start = start % cpus;
        // SAFETY: the function reads values alone.
        let seen: Vec<i32> = (0..cpus).map(|i| unsafe { victim(cpus, start as i32, i) }).collect();
        prop_assert_eq!(seen[0], start as i32);
        let mut sorted = seen;
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(0..cpus as i32));
    }
}
