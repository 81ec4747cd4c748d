// SPDX-License-Identifier: GPL-2.0-only
//! Threads of our own that may stand still in the kernel: in a file of a server that does not answer, or waiting for
//! another process's memory.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Waits for one that was told to end, but no longer than this: then it is left behind, with all that it owns. Whether
/// it has ended.
pub(crate) fn end_within(thread: JoinHandle<()>, patience: Duration) -> bool {
    let began = Instant::now();
    while !thread.is_finished() {
        if began.elapsed() >= patience {
            return false;
        }
        thread::sleep(LOOK);
    }
    // One that panicked has said so.
    let _ = thread.join();
    true
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_does_not_end_is_left_behind() {
        let (go, gone) = channel::<()>();
        let stands = thread::spawn(move || {
            let _ = gone.recv();
        });
        assert!(!end_within(stands, Duration::from_millis(20)));
        drop(go);
        assert!(end_within(thread::spawn(|| {}), Duration::from_secs(60)));
    }
}
