// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what each task does, step by step, and the objects tasks meet at.
//!
//! A [`Workload`] is plain data. Pipes, sockets, locks and barriers are objects in it, so that who
//! blocks and who wakes whom follows from the order in which a policy runs the tasks.

mod model;

pub use model::{Object, ObjectId, Step, Task, Workload};
