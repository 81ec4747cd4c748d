// SPDX-License-Identifier: GPL-2.0-only
//! The service's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A clock that goes on while the machine sleeps, and that is never set: pauses of policies go by it. It counts from
/// when the service found out, for the first time in this boot, what time it is.
pub struct Clock {
    /// When this boot began, s since 1970.
    pub boot_began_s: u64,
}

impl Clock {
    /// `known`: when this boot began, as an earlier life of the service took it.
    pub fn new(known: Option<u64>) -> Self {
        let wall_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Clock { boot_began_s: known.unwrap_or(wall_s.saturating_sub(booted_for_s())) }
    }

    /// s since 1970.
    pub fn now_s(&self) -> u64 {
        self.boot_began_s + booted_for_s()
    }
}

fn booted_for_s() -> u64 {
    clock_gettime(ClockId::Boottime).tv_sec.try_into().unwrap_or(0)
}
