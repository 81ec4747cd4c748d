// SPDX-License-Identifier: GPL-2.0-only
//! Latency and bandwidth of caches, of memory and of the walks of page tables, and the copying of pages.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use worker::bytes_of;

use super::array::{Array, LINE, Pages, Walk, circle, follow};
use super::chips::page_bytes;
use super::place::on;
use super::reading::{Reading, repeat};

const SAMPLES: usize = 40;
/// Accesses of one repetition: much shorter than other tasks' turns on the CPU.
const ACCESSES: usize = 1 << 15;
/// Bytes of one repetition if they are read in sequence.
const STRETCH: usize = 1 << 20;

/// Time for a line when so many bytes, a power of two, are read again and again by independent loads.
pub fn touch_ns(cpu: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let array = Array::new(bytes, Pages::Large)?;
        Ok(walked(&array, bytes / LINE, LINE))
    })?
}

fn walked(array: &Array, lines: usize, stride: usize) -> Option<Reading> {
    let mut walk = Walk::new(lines, stride);
    // Small sets are warm after this; large ones never are.
    walk.on(array.words(), lines.min(1 << 20));
    let once = || {
        let start = Instant::now();
        walk.on(array.words(), ACCESSES);
        start.elapsed().as_nanos() as f64 / ACCESSES as f64
    };
    Reading::of(&repeat(SAMPLES, once))
}

/// Time for a line when each load waits for the one before.
pub fn chase_ns(cpu: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let mut array = Array::new(bytes, Pages::Large)?;
        Ok(chased(&mut array, bytes))
    })?
}

fn chased(array: &mut Array, bytes: usize) -> Option<Reading> {
    let lines = bytes / LINE;
    circle(array.words_mut(), lines);
    let mut at = follow(array.words(), 0, lines.min(1 << 18));
    let once = || {
        let start = Instant::now();
        at = follow(array.words(), at, ACCESSES / 4);
        start.elapsed().as_nanos() as f64 / (ACCESSES / 4) as f64
    };
    Reading::of(&repeat(SAMPLES, once))
}

/// Cost of a page walk: so many lines, a power of two, on a small page each, less as many adjacent lines. Zero while
/// the TLB holds all of them, a miss each if it holds few.
pub fn page_walk_ns(cpu: usize, pages: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let of = |stride: usize, kind: Pages| -> io::Result<Option<Reading>> {
            Ok(walked(&Array::new(pages * stride, kind)?, pages, stride))
        };
        let (spread, dense) = (of(page_bytes(), Pages::Small)?, of(LINE, Pages::Large)?);
        Ok(spread.zip(dense).map(|(spread, dense)| spread.less(&dense)))
    })?
}

/// Reading in sequence, in bytes a ns.
pub fn bandwidth_gbs(cpu: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || Ok(streamed(&Array::new(bytes, Pages::Large)?)))?
}

fn streamed(array: &Array) -> Option<Reading> {
    let mut stretches = array.words().chunks_exact(STRETCH / 8).cycle();
    stretches.clone().next()?;
    let once = || {
        let stretch = stretches.next().unwrap_or_default();
        let start = Instant::now();
        std::hint::black_box(stretch.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
        size_of_val(stretch) as f64 / start.elapsed().as_nanos() as f64
    };
    Reading::of(&repeat(SAMPLES, once))
}

/// Latency of another node's memory for a CPU, in ns. The kernel refuses if it has no nodes.
pub fn node_latency_ns(cpu: usize, node: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || Ok(chased(&mut on_node(bytes, node)?, bytes)))?
}

/// Bandwidth of another node's memory for a CPU, in bytes a ns.
pub fn node_bandwidth_gbs(cpu: usize, node: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let mut array = on_node(bytes, node)?;
        array.words_mut().fill(1);
        Ok(streamed(&array))
    })?
}

/// Bytes of a node's memory that are free or in files that are not in use. If a process bound to the node takes more
/// than that, the kernel may end it. None: there is no such node, or the kernel does not say.
pub fn node_free_bytes(node: usize) -> Option<usize> {
    free_below(Path::new("/"), node)
}

fn free_below(root: &Path, node: usize) -> Option<usize> {
    let file = root.join(format!("sys/devices/system/node/node{node}/meminfo"));
    let text = fs::read_to_string(file).ok()?;
    let idle = bytes_of(&text, " Inactive(file):").unwrap_or(0);
    Some(bytes_of(&text, " MemFree:")? + idle)
}

fn on_node(bytes: usize, node: usize) -> io::Result<Array> {
    Array::with(bytes, Pages::Large, |at, bytes| bind(at, bytes, node))
}

/// Takes pages of a mapping of our own from this node, when they are touched.
pub(crate) fn bind(at: *mut libc::c_void, bytes: usize, node: usize) -> io::Result<()> {
    let mut mask = [0u64; 16];
    let word = mask.get_mut(node / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node % 64);
    let bits = 1 + 8 * size_of_val(&mask);
    // SAFETY: the kernel reads the mask, and only changes where pages come from
    let done = unsafe {
        let (strict, mask) = (libc::MPOL_BIND, mask.as_ptr());
        libc::syscall(libc::SYS_mbind, at, bytes, strict, mask, bits, 0)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Copying a small page to another place, both in memory and not in caches. In all so many bytes are copied, a power of
/// two of at least a megabyte.
pub fn page_copy_ns(cpu: usize, bytes: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        if bytes < STRETCH {
            return Ok(None);
        }
        let page = page_bytes();
        let from = Array::new(bytes, Pages::Small)?;
        let mut to = Array::new(bytes, Pages::Small)?;
        let mut at = 0;
        let once = || {
            let range = at..at + STRETCH / 8;
            at = (at + STRETCH / 8) % (bytes / 8);
            let start = Instant::now();
            let (to, from) = (&mut to.words_mut()[range.clone()], &from.words()[range]);
            let pairs = to.chunks_mut(page / 8).zip(from.chunks(page / 8));
            pairs.for_each(|(to, from)| to.copy_from_slice(from));
            start.elapsed().as_nanos() as f64 / (STRETCH / page) as f64
        };
        Ok(Reading::of(&repeat(SAMPLES, once)))
    })?
}

/// Moving a page from one node to another by the kernel: move_pages(2).
pub fn page_move_ns(cpu: usize, from: usize, to: usize) -> io::Result<Option<Reading>> {
    const PAGES: usize = 256;
    on(cpu, || {
        let page = page_bytes();
        let mut array = on_node(PAGES * page, from)?;
        array.words_mut().fill(1);
        let first = array.words().as_ptr() as usize;
        let pages: Vec<usize> = (0..PAGES).map(|at| first + at * page).collect();
        let mut status = vec![0i32; PAGES];
        let mut shift = |to: usize| {
            let nodes = vec![to as i32; PAGES];
            let start = Instant::now();
            // SAFETY: the kernel reads and writes as many entries as are told; the pages are ours
            let done = unsafe {
                let (pages, nodes) = (pages.as_ptr(), nodes.as_ptr());
                let (status, flags) = (status.as_mut_ptr(), 1 << 1); // MPOL_MF_MOVE
                libc::syscall(libc::SYS_move_pages, 0, PAGES, pages, nodes, status, flags)
            };
            let spent_ns = start.elapsed().as_nanos() as f64;
            let moved = done == 0 && status.iter().all(|node| *node == to as i32);
            moved.then_some(spent_ns / PAGES as f64)
        };
        let mut times = Vec::new();
        for _ in 0..SAMPLES {
            times.extend(shift(to));
            times.extend(shift(from));
        }
        Ok(Reading::of(&times))
    })?
}

#[cfg(test)]
mod tests {
    use super::super::place;
    use super::*;

    #[test]
    fn memory_takes_time() {
        let cpu = place().unwrap().cpus[0];
        let some = [
            touch_ns(cpu, 4096),
            chase_ns(cpu, 4096),
            bandwidth_gbs(cpu, 1 << 20),
            page_copy_ns(cpu, 1 << 20),
        ];
        for reading in some.into_iter().filter_map(|reading| reading.unwrap()) {
            assert!(0.0 < reading.low && reading.low <= reading.high, "{reading:?}");
        }
        assert!(page_walk_ns(cpu, 256).unwrap().is_none_or(|walk| walk.median < 1e6));
    }

    #[test]
    fn a_node_that_is_not_there_has_no_latency() {
        let cpu = place().unwrap().cpus[0];
        assert!(node_latency_ns(cpu, 1000, 1 << 20).is_err());
        assert_eq!(node_free_bytes(1000), None);
    }

    #[test]
    fn free_memory_of_a_node_is_read_as_the_kernel_writes_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/node/node2");
        fs::create_dir_all(&folder).unwrap();
        let text = "Node 2 MemTotal:       4000 kB\nNode 2 MemFree:         300 kB\n";
        fs::write(folder.join("meminfo"), text).unwrap();
        assert_eq!(free_below(root.path(), 2), Some(300 << 10));
        fs::write(folder.join("meminfo"), text.to_string() + "Node 2 Inactive(file): 50 kB\n")
            .unwrap();
        assert_eq!(free_below(root.path(), 2), Some(350 << 10));
        assert_eq!(free_below(root.path(), 0), None);
    }
}
