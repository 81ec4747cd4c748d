// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler does now: per CPU, per kind of core and memory node, per cgroup and per program, under any
//! scheduler. [`run`] shows it in a terminal, or prints it.

pub mod figures;
mod keys;
pub mod screen;
mod shown;
mod text;

pub use shown::{Form, run};
