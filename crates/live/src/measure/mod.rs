// SPDX-License-Identifier: GPL-2.0-only
//! Measures this machine, without root: one file for each quantity.
//!
//! Each measurement runs on threads of its own, pinned if necessary; their masks end with them. A quantity that cannot
//! be measured is None or empty: it is never made up. Many short repetitions are taken, and those during which another
//! task got the CPU do not count.

mod array;
mod call;
mod chips;
mod line;
pub(crate) mod memory;
mod place;
mod reading;
mod ring;
mod speed;

pub use array::LINE;
pub use call::{atomic_ns, barrier_ns, copy_byte_ns, syscall_ns, timer_ns, timer_slack_ns};
pub use chips::{Cache, Caches, Tlb, caches, page_bytes, tags, tlbs};
pub use line::{refetch_ns, transfer_ns};
pub use memory::{
    bandwidth_gbs, chase_ns, node_bandwidth_gbs, node_free_bytes, node_latency_ns, page_copy_ns,
    page_move_ns, page_walk_ns, touch_ns,
};
pub use place::{Place, place};
pub use reading::{Batch, Reading, merged};
pub use ring::{Passers, Ring, hops, yields};
pub use speed::{clock_ghz, side_by_side, vector_drop, work_ns};
pub use worker::available_bytes;
