// SPDX-License-Identifier: GPL-2.0-only
//! The callbacks of the `probe` policy, in the order in which the kernel made them.
//!
//! The policy keeps them in two variables, which any other policy may have as well:
//!
//! - `struct callback callbacks[]`, 24 bytes each: `u64 t_ns` on CLOCK_MONOTONIC, `u32 op` (an index
//!   into the table below), `s32 pid` of the thread it is about or 0, `s32 cpu`, 4 bytes unused;
//! - `u64 callbacks_made`: how many were made, also those that found no room.
//!
//! `dispatch` is about the thread that ran last (`prev`), if there was one.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use trace::Tid;

use crate::Attached;
use crate::variables::{bss, variables};

/// Members of `struct sched_ext_ops`, by their number in probe.bpf.c.
const OPS: &[&str] = &[
    "select_cpu",
    "enqueue",
    "dequeue",
    "dispatch",
    "tick",
    "runnable",
    "running",
    "stopping",
    "quiescent",
    "set_weight",
    "init_task",
    "exit_task",
    "enable",
];

/// One callback of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// When it was called, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The CPU that it was called on.
    pub cpu: u32,
    /// Its name in `struct sched_ext_ops`.
    pub op: String,
    /// The thread it is about, if any.
    pub tid: Option<Tid>,
}

impl Attached {
    /// Whether the policy writes down its callbacks.
    pub fn notes_callbacks(&self) -> bool {
        variables(self.bpf(), ".bss").is_ok_and(|places| places.contains_key("callbacks_made"))
    }

    /// All callbacks since the policy was loaded. Fails if some found no room, or if the policy writes none down.
    pub fn callbacks(&self) -> anyhow::Result<Vec<Callback>> {
        let places = variables(self.bpf(), ".bss")?;
        let place = |name: &str| {
            places.get(name).copied().context("this policy writes down no callbacks; `probe` does")
        };
        let ((start, length), (made, _)) = (place("callbacks")?, place("callbacks_made")?);
        let bytes = bss(self.object())?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let (made, room) = (word(made) as usize, length / 24);
        anyhow::ensure!(made <= room, "{made} callbacks, but room for {room}: run less");
        let callback = |at: usize| Callback {
            t_ns: word(at),
            op: OPS.get(half(at + 8) as usize).unwrap_or(&"?").to_string(),
            tid: Some(half(at + 12)).filter(|tid| *tid != 0),
            cpu: half(at + 16),
        };
        let mut callbacks: Vec<_> = (0..made).map(|index| callback(start + 24 * index)).collect();
        callbacks.sort_by_key(|callback| callback.t_ns);
        Ok(callbacks)
    }
}
