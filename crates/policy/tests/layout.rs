// SPDX-License-Identifier: GPL-2.0-only
//! C and Rust agree on every struct that passes between them.

use std::mem::{offset_of, size_of};
use std::path::Path;

use policy::native::{
    Cgroup, ClockCounts, Kernel, MAX_CPUS, SchedExtEntity, SchedExtOps, ScxExitInfo,
    ScxInitTaskArgs, TaskStruct,
};

macro_rules! layout {
    ($($type:ty { $($field:ident)* })*) => {
        vec![$($((concat!(stringify!($type), ".", stringify!($field)), offset_of!($type, $field)),)*
             (concat!("size of ", stringify!($type)), size_of::<$type>()),)*]
    };
}

#[test]
fn c_and_rust_lay_out_the_same_structs() {
    let mut expected = layout! {
        SchedExtEntity { weight flags slice dsq_vtime }
        TaskStruct { pid tgid flags nr_cpus_allowed static_prio policy cpus_ptr mm scx }
        ScxInitTaskArgs { fork cgroup }
        Cgroup { kn }
        ScxExitInfo { kind exit_code reason msg dump }
        SchedExtOps {
            select_cpu enqueue dequeue dispatch tick runnable running stopping quiescent set_weight
            set_cpumask update_idle cpu_acquire cpu_release cpu_online cpu_offline init_task exit_task enable disable cgroup_move
            init exit flags timeout_ms name exit_dump_len dump_cpu dump_task
        }
        Kernel {
            runtime create_dsq dsq_nr_queued dsq_insert dsq_insert_vtime dsq_move_to_local
            select_cpu_dfl test_and_clear_cpu_idle pick_idle_cpu kick_cpu task_cpu cpu_allowed
            set_slice set_dsq_vtime now_ns this_cpu random_u32 task_storage_get spin_lock
            spin_unlock error dsq_peek_vtime dsq_next cpu_instructions clock_counts vector_used
            task_xfeatures reenqueue_local reenqueue_here cpu_is_active goes_anywhere has_siblings forker
            dsq_take cpu_idles cpu_curr dsq_move_vtime timer_start
        }
        ClockCounts { cycles limited_ns energy_uj }
    };
    expected.push(("MAX_CPUS", MAX_CPUS));

    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout.c");
    let object = policy_build::test_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    // SAFETY: the object was just built from layout.c, which defines both symbols.
    let seen = unsafe {
        let library = libloading::Library::new(object).unwrap();
        let len = **library.get::<*const u64>(b"layout_len").unwrap() as usize;
        let layout = *library.get::<*const u64>(b"layout").unwrap();
        std::slice::from_raw_parts(layout, len).to_vec()
    };
    assert_eq!(seen.len(), expected.len());
    for ((name, rust), c) in expected.into_iter().zip(seen) {
        assert_eq!(rust as u64, c, "{name}: Rust has {rust}, C has {c}");
    }
}
