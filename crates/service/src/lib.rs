// SPDX-License-Identifier: GPL-2.0-only
//! A policy as a service of this machine.
//!
//! [`serve`] is the service: it keeps the policy of its config file in charge ([`Config`]), goes on with the next one if
//! the kernel ejects it ([`ladder`]), and does what an administrator asks ([`request`]). [`Known`] is what is known of
//! programs, for `paceline run` as well.

mod clock;
mod config;
mod daemon;
mod diary;
mod known;
pub mod ladder;
mod listener;
mod metrics;
mod power;
pub mod request;
mod scrape;
mod scx_stats;
mod seat;
pub mod status;
mod voice;

pub use config::{AfterCrash, CONFIG, Config};
pub use daemon::serve;
pub use known::{Known, Told};
