// SPDX-License-Identifier: GPL-2.0-only
//! Shared by several targets: reads a recording to its end, and makes a workload of it.

use record::{Fit, Reader, Replay};

/// Reads a recording and makes a workload of it, if it is one.
pub fn replayed(file: &[u8]) {
    let Ok(mut reader) = Reader::new(file) else { return };
    let mut replay = Replay::new(reader.header(), 0.0);
    while let Ok(Some(event)) = reader.next_event() {
        replay.event(&event);
    }
    replay.finish(reader.summary().ending.as_ref());
    let workload = replay.workload("it", 8, 50_000.0, &Fit::none(&replay));
    assert!(workload.tasks.len() >= replay.len());
}
