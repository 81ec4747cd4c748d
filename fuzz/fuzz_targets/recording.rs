// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of our own: refused, or replayed.
#![no_main]

mod replayed;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| replayed::replayed(file));
