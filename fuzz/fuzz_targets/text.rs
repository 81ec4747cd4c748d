// SPDX-License-Identifier: GPL-2.0-only
//! Text of perf, trace-cmd and ftrace: it is refused, or imported and replayed.
#![no_main]

mod replayed;

use libfuzzer_sys::fuzz_target;
use record::import::{import, survey};

fuzz_target!(|text: &[u8]| {
    let Ok(found) = survey(text) else { return };
    let (file, ..) = import(text, &found, "text", Vec::new()).expect("what was surveyed is imported");
    assert!(found.doubts.unattributed() <= 1.0);
    replayed::replayed(&file);
});
