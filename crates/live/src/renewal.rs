// SPDX-License-Identifier: GPL-2.0-only
//! Counters of CPUs that went and came back: the kernel takes a CPU's events away with it (perf_event_exit_cpu), also
//! while the machine sleeps, and does not bring them back.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::counters::{self, Whom};

/// A read asks the CPU itself, and wakes it where it idles: not more often than this.
const LOOK: Duration = Duration::from_secs(2);

/// One of a CPU's counters, in a policy's map.
pub(crate) struct Renewed {
    cpu: usize,
    /// Its type and config.
    event: (u32, u64),
    counter: OwnedFd,
    /// Where the policy reads it.
    map: MapHandle,
    /// For how long it had counted at the last look, ns.
    counted_ns: Option<u64>,
}

/// Opens again what has stopped, until it is dropped.
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
        // It has nothing to say.
        self.thread.take().map(JoinHandle::join);
    }
}

impl Renewed {
    pub fn new(cpu: usize, event: (u32, u64), counter: OwnedFd, map: MapHandle) -> Self {
        Renewed { cpu, event, counter, map, counted_ns: None }
    }

    /// Puts it where the policy reads it.
    pub fn put(&self) -> libbpf_rs::Result<()> {
        let (key, value) = ((self.cpu as u32).to_ne_bytes(), self.counter.as_raw_fd());
        self.map.update(&key, &value.to_ne_bytes(), MapFlags::ANY)
    }

    fn look(&mut self) {
        let now = self.enabled_ns();
        let stands = now.is_some() && now == self.counted_ns;
        self.counted_ns = now;
        let (kind, config) = self.event;
        // It cannot be opened while the CPU is away.
        if stands && let Ok(counter) = counters::open(kind, config, Whom::Cpu(self.cpu)) {
            (self.counter, self.counted_ns) = (counter, None);
            let _ = self.put();
        }
    }

    /// For how long it has counted; None where others have its place in the counter unit.
    fn enabled_ns(&self) -> Option<u64> {
        let mut said = [0; 16];
        let length = rustix::io::read(&self.counter, &mut said).ok()?;
        let (_count, enabled) = said.split_at(8);
        (length == said.len()).then(|| u64::from_ne_bytes(enabled.try_into().expect("8 bytes")))
    }
}
