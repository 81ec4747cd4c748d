// SPDX-License-Identifier: GPL-2.0-only
//! The guest: a stock sched_ext kernel in QEMU, without KVM.
//!
//! [`run()`] boots the kernel a few times under software emulation. In each boot the [`guest`] agent
//! (this same executable, as `/init`) runs the workload under each policy in turn and reports an
//! outcome per run. [`kernel`] gets a kernel and [`probe`]s it first.

mod closure;
mod cores;
mod emulator;
mod folders;
pub mod guest;
mod image;
mod job;
mod kept;
pub mod kernel;
mod lookup;
pub mod probe;
mod qemu;
mod request;
mod run;
mod shell;
mod system;
mod traced;

pub use closure::which;
pub use cores::{Taken, take_cores};
pub use emulator::emulator;
pub use kernel::Kernel;
pub use lookup::{Missing, missing, nowhere};
pub use request::{BadInput, Clock, Keep, PolicyRef, Request, Shape, WorkloadRef};
pub use run::{run, run_noted, run_traced};
pub use system::System;
pub use traced::Traced;
