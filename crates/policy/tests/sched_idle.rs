// SPDX-License-Identifier: GPL-2.0-only
//! The handling of SCHED_IDLE tasks that policies share: policies/common/sched_idle.h.

use std::path::Path;
use std::sync::LazyLock;

use libloading::Library;

static C: LazyLock<Library> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sched_idle.c");
    let object = policy_build::test_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    // SAFETY: built from sched_idle.c, which has no constructors.
    unsafe { Library::new(object) }.unwrap()
});

macro_rules! call {
    ($name:ident($($arg:expr => $type:ty),*) -> $ret:ty) => {{
        let name = stringify!($name).as_bytes();
        // SAFETY: sched_idle.c declares it with these types.
        unsafe { C.get::<unsafe extern "C" fn($($type),*) -> $ret>(name).unwrap()($($arg),*) }
    }};
}

const NORMAL: u32 = 0;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
const EXT: u32 = 7;
const MS: u64 = 1_000_000;

#[test]
fn policies_of_tasks_are_told_apart() {
    let is_idle = [NORMAL, BATCH, IDLE, EXT].map(|policy| call!(is_idle(policy => u32) -> bool));
    assert_eq!(is_idle, [false, false, true, false]);
    let preempts = [NORMAL, BATCH, IDLE, EXT].map(|policy| call!(preempts(policy => u32) -> bool));
    assert_eq!(preempts, [true, false, false, true]);
}

#[test]
fn a_turn_is_no_longer_than_ten_ms() {
    let slice = |ms: u64| call!(slice(ms * MS => u64) -> u64);
    assert_eq!([3, 10, 100].map(slice), [3 * MS, 10 * MS, 10 * MS]);
}

/// Each of `waiting` tasks waits for as many gaps.
#[test]
fn waits_stay_bounded_however_many_wait() {
    let gap = |waiting: u32| call!(gap(waiting => u32, 4 * MS => u64) -> u64);
    assert_eq!([0, 1, 2, 20].map(gap), [2000 * MS, 2000 * MS, 1000 * MS, 100 * MS]);
    // Up to fifty of them have a turn in 100 ms; more have theirs within 5 s, as far as ticks allow it.
    assert_eq!([50, 100, 200].map(gap), [100 * MS, 50 * MS, 25 * MS]);
    assert_eq!(gap(100_000), 16 * MS);
    for waiting in 1..1500 {
        let wait_ns = u64::from(waiting) * gap(waiting);
        assert!((2000 * MS - 2000..25_000 * MS).contains(&wait_ns), "{waiting}: {wait_ns}");
    }
}

#[test]
fn a_cpu_with_a_sched_idle_task_is_claimed_once() {
    call!(start() -> ());
    let claim = |policy: u32, cpus: i32, from: i32| call!(claim(policy => u32, cpus => i32, from => i32) -> i32);
    let runs = |cpu: i32, idle: bool| call!(runs(cpu => i32, idle => bool) -> ());
    assert_eq!(claim(NORMAL, 4, 0), -1, "none runs");
    for cpu in [1, 3, 3] {
        runs(cpu, true);
    }
    assert_eq!(call!(how_many_run() -> u32), 2, "each CPU counts once");
    assert_eq!(claim(IDLE, 4, 0), -1, "a SCHED_IDLE task preempts none");
    assert_eq!(claim(NORMAL, 1, 0), -1, "it may not run there");
    assert_eq!(claim(BATCH, 4, 2), 3, "the nearest");
    assert_eq!(claim(NORMAL, 4, 2), 1, "the other is claimed");
    assert_eq!((claim(NORMAL, 4, 2), call!(how_many_run() -> u32)), (-1, 0));
    runs(3, true);
    runs(3, false);
    assert_eq!(claim(NORMAL, 4, 0), -1, "another task runs there by now");
}
