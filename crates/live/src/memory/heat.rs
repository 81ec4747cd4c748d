// SPDX-License-Identifier: GPL-2.0-only
//! Which parts of a process's memory are used most, if the processor samples memory accesses: Intel's precise loads
//! (`mem-loads`), AMD's instruction-based sampling.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libbpf_sys::{perf_event_attr, perf_event_header, perf_event_mmap_page};

use crate::mapped::Mapped;
use crate::perf_event::{Target, opened};

/// Most threads of a process that are sampled.
const THREADS_MAX: usize = 64;
/// Duration of sampling.
const WINDOW: Duration = Duration::from_millis(50);
/// Pages of a thread's ring of samples, besides the first; a power of two.
const PAGES: usize = 8;
const PAGE: usize = 4096;
/// One of this many accesses is sampled.
const PERIOD: u64 = 1009;
/// include/uapi/linux/perf_event.h
const SAMPLE_ADDR: u64 = 1 << 3;
const RECORD_SAMPLE: u32 = 9;

/// The event to sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Event {
    kind: u32,
    config: u64,
    config1: u64,
    config2: u64,
    period: u64,
    precise: u64,
    /// User accesses only: not every unit can exclude the kernel.
    own_alone: bool,
}

/// Samples in each page, by its first address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heat(BTreeMap<u64, u32>);

impl Heat {
    /// Samples a process for a moment; empty if nothing can be sampled.
    pub fn of(pid: u32) -> Heat {
        event(Path::new("/")).map_or(Heat::default(), |event| Heat::sampled(pid, event))
    }

    fn sampled(pid: u32, event: Event) -> Heat {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let rings: Vec<Ring> =
            threads.take(THREADS_MAX).filter_map(|tid| Ring::open(tid, event).ok()).collect();
        if rings.is_empty() {
            return Heat::default();
        }
        std::thread::sleep(WINDOW);
        let mut heat = Heat::default();
        rings.iter().flat_map(Ring::addresses).for_each(|address| heat.meet(address));
        heat
    }

    pub(super) fn meet(&mut self, address: u64) {
        *self.0.entry(address & !(PAGE as u64 - 1)).or_default() += 1;
    }

    /// Samples of the memory between two addresses.
    pub fn within(&self, from: u64, to: u64) -> u32 {
        self.0.range(from..to).map(|(_, met)| met).sum()
    }
}

/// How this processor samples accesses, according to the kernel. None: it does not.
fn event(root: &Path) -> Option<Event> {
    let units = root.join("sys/bus/event_source/devices");
    let read = |file: &str| fs::read_to_string(units.join(file)).ok();
    let kind = |unit: &str| read(&format!("{unit}/type"))?.trim().parse().ok();
    for unit in ["cpu", "cpu_core"] {
        let Some(words) = read(&format!("{unit}/events/mem-loads")) else { continue };
        let value = |key: &str| {
            let words = words.trim().split(',').filter_map(|word| word.split_once('='));
            let hex = words.filter(|(name, _)| *name == key).map(|(_, hex)| hex).next()?;
            u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()
        };
        let config = value("event")? | value("umask").unwrap_or(0) << 8;
        let config1 = value("ldlat").unwrap_or(0);
        let precise = Event { period: PERIOD, precise: 2, own_alone: true, ..Event::default() };
        return Some(Event { kind: kind(unit)?, config, config1, ..precise });
    }
    /// Count operations and not cycles.
    const OPERATIONS: u64 = 1 << 19;
    let kind = kind("ibs_op")?;
    /// The kernel filters samples in software, if it can; otherwise it refuses to exclude anything.
    const FILTER: u64 = 1;
    let own_alone = units.join("ibs_op/format/swfilt").exists();
    let config2 = if own_alone { FILTER } else { 0 };
    // Its period is in steps of 16.
    let period = PERIOD * 16;
    Some(Event { kind, config: OPERATIONS, config2, period, own_alone, ..Event::default() })
}

/// Samples of one thread.
struct Ring {
    memory: Mapped,
    _counter: OwnedFd,
}

const RING: usize = (1 + PAGES) * PAGE;

impl Ring {
    fn open(tid: u32, event: Event) -> anyhow::Result<Ring> {
        let mut wanted = perf_event_attr {
            type_: event.kind,
            size: size_of::<perf_event_attr>() as u32,
            config: event.config,
            sample_type: SAMPLE_ADDR,
            ..perf_event_attr::default()
        };
        wanted.__bindgen_anon_1.sample_period = event.period;
        wanted.__bindgen_anon_3.config1 = event.config1;
        wanted.set_precise_ip(event.precise);
        wanted.__bindgen_anon_4.config2 = event.config2;
        wanted.set_exclude_kernel(event.own_alone.into());
        let counter = opened(&wanted, Target::Thread(tid))?;
        let memory = Mapped::new(&counter, RING, false)?;
        Ok(Ring { memory, _counter: counter })
    }

    /// Addresses of the samples so far. As the ring is not read before, the kernel stops when it is full.
    fn addresses(&self) -> Vec<u64> {
        const SAMPLE: usize = size_of::<perf_event_header>() + size_of::<u64>();
        // SAFETY: the first page is the kernel's, which only writes whole words of it
        let written = unsafe {
            let page = self.memory.start.cast::<perf_event_mmap_page>().as_ptr();
            (&raw const (*page).data_head).read_volatile() as usize
        };
        fence(Ordering::Acquire);
        let written = written.min(PAGES * PAGE);
        let word = |at: usize| -> u64 {
            // SAFETY: within the mapping, and before the head, where nothing is written any more
            unsafe { self.memory.start.add(PAGE + at).cast::<u64>().read() }
        };
        let (mut at, mut addresses) = (0, Vec::new());
        while at + SAMPLE <= written {
            let header = word(at);
            let (kind, size) = (header as u32, (header >> 48) as usize);
            if kind == RECORD_SAMPLE {
                addresses.push(word(at + size_of::<perf_event_header>()));
            }
            at += size.max(size_of::<perf_event_header>());
        }
        addresses.retain(|address| *address != 0);
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page faults have addresses as well, and exist on every machine.
    const FAULTS: Event = Event {
        kind: 1,
        config: 2,
        config1: 0,
        config2: 0,
        period: 1,
        precise: 0,
        own_alone: true,
    };

    #[test]
    fn samples_are_where_memory_was_touched() {
        let ring = Ring::open(rustix::thread::gettid().as_raw_nonzero().get() as u32, FAULTS)
            .expect("a thread may count its own page faults");
        let touched = vec![0u8; 100 * PAGE];
        for page in touched.chunks(PAGE) {
            // SAFETY: reads and writes its own first byte
            unsafe { (page.as_ptr() as *mut u8).write_volatile(1) };
        }
        let mut heat = Heat::default();
        ring.addresses().into_iter().for_each(|address| heat.meet(address));
        let from = touched.as_ptr() as u64;
        let met = heat.within(from & !(PAGE as u64 - 1), from + touched.len() as u64);
        assert!(met >= 90, "{met} of 100 pages");
        assert_eq!(heat.within(0, PAGE as u64), 0);
    }

    #[test]
    fn a_processor_says_how_it_samples() {
        let root = tempfile::tempdir().unwrap();
        let units = root.path().join("sys/bus/event_source/devices");
        assert_eq!(event(root.path()), None);
        fs::create_dir_all(units.join("ibs_op")).unwrap();
        fs::write(units.join("ibs_op/type"), "11\n").unwrap();
        let amd = event(root.path()).unwrap();
        assert_eq!((amd.kind, amd.config), (11, 1 << 19));
        assert_eq!(
            (amd.own_alone, amd.config2),
            (false, 0),
            "nothing is left out without a filter"
        );
        fs::create_dir_all(units.join("ibs_op/format")).unwrap();
        fs::write(units.join("ibs_op/format/swfilt"), "config2:0\n").unwrap();
        let filtered = event(root.path()).unwrap();
        assert_eq!((filtered.own_alone, filtered.config2), (true, 1));
        fs::create_dir_all(units.join("cpu/events")).unwrap();
        fs::write(units.join("cpu/type"), "4\n").unwrap();
        fs::write(units.join("cpu/events/mem-loads"), "event=0xcd,umask=0x1,ldlat=3\n").unwrap();
        let intel = event(root.path()).unwrap();
        assert_eq!((intel.kind, intel.config, intel.config1, intel.precise), (4, 0x1cd, 3, 2));
        assert!(intel.own_alone);
    }

    #[test]
    fn nothing_is_known_of_an_ended_process() {
        assert_eq!(Heat::sampled(u32::MAX / 2, FAULTS), Heat::default());
    }
}
