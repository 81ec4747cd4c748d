// SPDX-License-Identifier: GPL-2.0-only
//! Memory domains: which threads share a memory controller, and where their pages are.
//!
//! **Problem.** Threads that miss the last-level cache slow each other down if they share a memory
//! controller or a link. Spreading them helps, and on a NUMA machine only if their pages follow.
//! But moving pages is slow, and loads the same controllers and links.
//!
//! **Approach.** Threads are put into three classes by their misses ([`Class`]). How many of each
//! class run in a domain depends only on how many there are. A thread is moved, with its memory,
//! only when it changes class ([`dino`]). Its forerunners sort by misses and spread the list
//! ([`di`]): DI-Plain without the pages, DI-Migrate with them.
//!
//! **Source.** Blagodurov, Zhuravlev, Dashti, Fedorova: *A Case for NUMA-aware Contention
//! Management on Multicore Systems* (talk of 21 slides; USENIX ATC 2011). Slide numbers are those
//! of the talk. What the slides leave open follows the authors' released scheduler (Clavis), where
//! a comment says so.
//!
//! **Invariant:** the control plane does no I/O and reads no clock, environment or hash order.

mod class;
mod control;
mod filter;
mod gate;
mod layout;
mod plan;
mod policies;
mod relabel;

pub use class::{Class, Cuts};
pub use filter::{FAR, Filter, LEFT, Leaves, Rate, SAMPLES};
pub use gate::Gate;
pub use layout::{Domains, Spread, snake, spread};
pub use plan::{Move, Part, Thread, di, dino, memory};
pub use policies::{ALL, DI_MIGRATE, DI_PLAIN, DINO, homes};
