// SPDX-License-Identifier: GPL-2.0-only
//! Counters of CPUs that went offline and came back. The kernel removes a CPU's events with it (perf_event_exit_cpu),
//! also while the machine sleeps, and does not restore them. Nor does it restore events that once found no place in the
//! counter unit (merge_sched_in): they are pinned, so they are in error from then on.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::perf_event::{self, Target};

/// A read asks the CPU itself, and wakes an idle one: no more often than this.
const LOOK: Duration = Duration::from_secs(2);

/// One of a CPU's counters, in a policy's map.
pub(crate) struct Renewed {
    cpu: usize,
    /// Its type and config.
    event: (u32, u64),
    counter: OwnedFd,
    /// The policy's map.
    map: MapHandle,
    /// Its counting time at the last look, ns.
    counted_ns: Option<u64>,
}

/// Reopens stopped counters, until it is dropped.
pub(crate) struct Renewal {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Renewal {
    pub fn start(mut all: Vec<Renewed>) -> std::io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new().name("counters".into()).spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                all.iter_mut().for_each(Renewed::look);
            }
        })?;
        Ok(Renewal { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.end = None;
        // The thread returns nothing.
        self.thread.take().map(JoinHandle::join);
    }
}

impl Renewed {
    pub fn new(cpu: usize, event: (u32, u64), counter: OwnedFd, map: MapHandle) -> Self {
        Renewed { cpu, event, counter, map, counted_ns: None }
    }

    /// Puts it into the policy's map.
    pub fn put(&self) -> libbpf_rs::Result<()> {
        let (key, value) = ((self.cpu as u32).to_ne_bytes(), self.counter.as_raw_fd());
        self.map.update(&key, &value.to_ne_bytes(), MapFlags::ANY)
    }

    fn look(&mut self) {
        let now = self.enabled_ns();
        let stands = has_stopped(self.counted_ns, now);
        self.counted_ns = now;
        let (kind, config) = self.event;
        // It cannot be opened while the CPU is offline. If other events still have its place, it is in error again.
        if stands && let Ok(counter) = perf_event::open(kind, config, Target::Cpu(self.cpu)) {
            (self.counter, self.counted_ns) = (counter, None);
            let _ = self.put();
        }
    }

    /// Its counting time; None if other events had its place in the counter unit.
    fn enabled_ns(&self) -> Option<u64> {
        let mut said = [0; 16];
        let length = rustix::io::read(&self.counter, &mut said).ok()?;
        let (_count, enabled) = said.split_at(8);
        (length == said.len()).then(|| u64::from_ne_bytes(enabled.try_into().expect("8 bytes")))
    }
}

/// Whether it has stopped, from its counting times at the last look and now.
fn has_stopped(before: Option<u64>, now: Option<u64>) -> bool {
    now.is_none() || now == before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_or_has_lost_its_place_has_stopped() {
        assert!(!has_stopped(None, Some(5)), "the first look at it");
        assert!(!has_stopped(Some(5), Some(9)));
        assert!(has_stopped(Some(5), Some(5)), "its CPU went away");
        assert!(has_stopped(Some(5), None), "others have its place");
        assert!(has_stopped(None, None), "and it is in error from then on");
    }
}
