// SPDX-License-Identifier: GPL-2.0-only
//! The memory that `cas` uses, beside the talk's figure of its own (slide 39).

use std::path::Path;

/// The overhead of Linux 7.2 for a task's storage (struct bpf_local_storage in 192 bytes; an
/// element of 128 bytes, of which 40 are ours), and for a queue (scx_bpf_create_dsq: 128 bytes, 32
/// for each CPU).
const KERNEL_TASK: u64 = 192 + 128 - 40;
const KERNEL_DSQ: u64 = 128;
const KERNEL_DSQ_CPU: u64 = 32;

#[test]
fn six_programs_of_1700_threads_cost_less_than_the_talk_says() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory.c");
    let object = policy_build::test_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    let bytes = |name: &str| {
        // SAFETY: built from memory.c, which has no constructors and declares both so.
        unsafe {
            let library = libloading::Library::new(&object).unwrap();
            library.get::<unsafe extern "C" fn() -> u64>(name.as_bytes()).unwrap()()
        }
    };
    assert!(bytes("task_bytes") <= 40, "slide 39: about 40 bytes a thread");
    let (threads, cpus, slots) = (1_700, 2, 16);
    let own = threads * bytes("task_bytes") + bytes("tables_bytes");
    let queues = cpus * (slots + 1) * (KERNEL_DSQ + cpus * KERNEL_DSQ_CPU);
    let kernel = threads * KERNEL_TASK + queues;
    assert!(own + kernel <= 970_000, "slide 39: 970 K for six groups, not {own} and {kernel}");
}
