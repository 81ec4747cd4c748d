// SPDX-License-Identifier: GPL-2.0-only
//! What touches a running kernel: load a policy, observe the scheduler.
//!
//! The same code runs inside the guest of `vm` and, as root, on this machine.

mod callbacks;
mod kernel;
mod load;
mod locks;
mod log;
mod observe;
mod symbols;
mod topology;

pub use callbacks::Callback;
pub use kernel::{Messages, State, state};
pub use load::{Attached, load};
pub use locks::{LockCounter, Locks};
pub use observe::{Observer, RecordedBytes, Recording, Seen, fold};
pub use topology::{cpu_list, topology};
