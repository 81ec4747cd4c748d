// SPDX-License-Identifier: GPL-2.0-only
//! Baselines: what the published policies are measured against.

use policy::{Knob, Policy, Promises, Unit};

/// One global queue, first come, first served.
pub static FIFO: Policy = Policy {
    name: "fifo",
    summary: "one global queue, first come, first served: the least sched_ext can do",
    about: "A bare FIFO for comparison. No paper; see scx_simple of the kernel's tools/sched_ext.",
    knobs: &[Knob {
        name: "slice",
        symbol: "knob_slice_ns",
        unit: Unit::Duration { min: 100_000, max: 1_000_000_000 },
        default: 20_000_000,
        help: "how long a task runs before the next one's turn",
    }],
    ops: "fifo",
    bpf: include_bytes!(concat!(env!("OUT_DIR"), "/fifo.bpf.o")),
    native: include_bytes!(concat!(env!("OUT_DIR"), "/fifo.so")),
    promises: |instance| Promises {
        idle_while_runnable_ns_max: Some(0),
        slice_ns_max: Some(instance.get("slice")),
        lockless: false,
        never_preempts: true,
    },
};
