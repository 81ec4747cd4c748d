// SPDX-License-Identifier: GPL-2.0-only
//! Threads of our own that may block in the kernel: in a file of a server that does not answer, or on another process's
//! memory.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the thread's end is checked.
const LOOK: Duration = Duration::from_millis(1);

/// Waits for a thread that was told to end, but at most `patience`: after that it is left behind, with all that it
/// owns. Returns whether it has ended.
pub(crate) fn end_within(thread: JoinHandle<()>, patience: Duration) -> bool {
    let began = Instant::now();
    while !thread.is_finished() {
        if began.elapsed() >= patience {
            return false;
        }
        thread::sleep(LOOK);
    }
    // A thread that panicked has printed its message.
    let _ = thread.join();
    true
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let (go, gone) = channel::<()>();
        let stands = thread::spawn(move || {
            let _ = gone.recv();
        });
        assert!(!end_within(stands, Duration::from_millis(20)));
        drop(go);
        assert!(end_within(thread::spawn(|| {}), Duration::from_secs(60)));
    }
}
