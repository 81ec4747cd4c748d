// SPDX-License-Identifier: GPL-2.0-only
//! Machine files: refused, or a machine.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = machine::Machine::from_toml(text, "it");
    }
});
