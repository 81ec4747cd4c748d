// SPDX-License-Identifier: GPL-2.0-only
//! rt-app JSON: refused, or a workload.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = workload::rtapp::parse("it", text);
    }
});
