// SPDX-License-Identifier: GPL-2.0-only
//! How the command speaks: results and errors, progress, signals, files that a user names and temporary ones.
//!
//! Every crate that the command is made of prints through [`output`], and fails with a [`Failure`].

mod failure;
pub mod files;
pub mod interrupt;
pub mod meant;
mod outbox;
pub mod output;
mod progress;
pub mod scratch;
pub mod shell;

pub use failure::{Failure, failed};
pub use progress::{Progress, say_as_much_as};
