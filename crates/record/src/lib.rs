// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of what a scheduler did on a real machine.
//!
//! A recording is a file of 16-byte [`Raw`] records, as the kernel's side writes them, behind a [`Header`]. [`Reader`]
//! returns them as [`Event`]s in the order of time. [`Writer`] leaves a sound file even if it is interrupted.
//! [`import`] converts other tools' text. [`Replay`] turns a recording's tasks and their acts into a workload.

mod clocks;
mod connections;
mod event;
mod file;
mod gil;
pub mod import;
mod model;
mod raw;
mod read;
mod replay;

pub use event::{Carrier, Class, Event, Kind, Left, Sample, TaskInfo};
pub use file::{Detail, Ending, Header, Source, WriteError, Writer};
pub use model::{Fit, Recorded};
pub use raw::{RAW_SIZE, Raw, sample_group, task_group};
pub use read::{ReadError, Reader, Summary};
pub use replay::Replay;
