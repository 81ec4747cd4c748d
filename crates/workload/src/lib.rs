// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what each task does, step by step, and the objects through which tasks interact.
//!
//! A [`Workload`] is plain data. Pipes, sockets, locks and barriers are objects in it. So the order in which a policy
//! runs the tasks decides which task blocks and which task wakes another. It is read from rt-app's JSON
//! ([`rtapp::parse`]) and written as such ([`write()`]), or built from a model of a known program ([`hackbench`],
//! [`npb`], [`apps`], [`programs`]); [`mix`] has yardsticks.

pub mod apps;
mod causes;
mod copies;
mod domains;
mod events;
mod groups;
pub mod hackbench;
mod hw;
mod json;
pub mod mix;
mod model;
pub mod npb;
mod objects;
pub mod programs;
pub mod rtapp;
mod script;
mod step;
pub mod vector;
mod write;

pub use causes::Causes;
pub use domains::DomainMixes;
pub use hw::{Demand, Hw, Touched, Vector};
pub use json::Error;
pub use model::{Fair, Group, Max, RealTime, Task, Workload, program_of};
pub use script::{Act, Again, Cut, Happened, Met, Played, Script, Steps, Then};
pub use step::{More, Object, ObjectId, Step};
pub use write::{Dialect, Unwritable, write};
