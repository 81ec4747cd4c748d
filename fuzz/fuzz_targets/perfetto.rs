// SPDX-License-Identifier: GPL-2.0-only
//! Perfetto traces: refused, or imported and replayed.
#![no_main]

mod replayed;

use libfuzzer_sys::fuzz_target;
use record::import::Timeline;

fuzz_target!(|bytes: &[u8]| {
    let Ok(timeline) = Timeline::read(bytes, None) else { return };
    let Ok(found) = timeline.survey() else { return };
    let (file, ..) = timeline.import(&found, "trace", Vec::new()).expect("what was surveyed is imported");
    replayed::replayed(&file);
});
