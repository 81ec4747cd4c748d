// SPDX-License-Identifier: GPL-2.0-only
//! Where a process's pages are, from /proc/PID/numa_maps, and which of its memory can be moved.

use std::collections::BTreeSet;

use crate::program::text;

/// Bytes of a process's own memory on each node. None: it has ended, or we may not read it.
pub(super) fn of(pid: u32) -> Option<Vec<u64>> {
    Some(nodes(&text(format!("/proc/{pid}/numa_maps")).ok()?))
}

/// Sums up `N0=12 N1=3 kernelpagesize_kB=4` of each line with pages that are no file's: files' pages are not moved.
fn nodes(text: &str) -> Vec<u64> {
    let mut nodes = Vec::new();
    for line in text.lines().filter(|line| line.contains(" anon=")) {
        let size = line.split(' ').find_map(|word| word.strip_prefix("kernelpagesize_kB="));
        let size: u64 = size.and_then(|kb| kb.parse().ok()).unwrap_or(4);
        for word in line.split(' ') {
            let node = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
            let Some((Ok(node), Ok(pages))) =
                node.map(|(node, pages)| (node.parse::<usize>(), pages.parse::<u64>()))
            else {
                continue;
            };
            if node >= nodes.len() {
                nodes.resize(node + 1, 0);
            }
            nodes[node] += pages * size * 1024;
        }
    }
    nodes
}

/// Addresses of a process's own writable memory that no other process has mapped: what is worth moving. Libraries and
/// shared memory stay, and so does memory with a placement of its own.
pub(super) fn ranges(pid: u32) -> std::io::Result<Vec<(u64, u64)>> {
    let mut ranges = own(&text(format!("/proc/{pid}/maps"))?);
    // Kernels without NUMA have no such file.
    let placed = placed(&text(format!("/proc/{pid}/numa_maps")).unwrap_or_default());
    ranges.retain(|(from, _)| !placed.contains(from));
    Ok(ranges)
}

/// First addresses of memory with a policy of its own or its thread's (`bind:1`, `interleave:0-3`, `prefer:0`), as
/// `numactl` sets it. The kernel's own balancing leaves it alone as well (`vma_policy_mof` of mm/mempolicy.c).
fn placed(text: &str) -> BTreeSet<u64> {
    let of = |line: &str| {
        let mut words = line.split(' ');
        let (from, policy) = (words.next()?, words.next()?);
        match policy {
            "default" | "local" => None,
            _ => u64::from_str_radix(from, 16).ok(),
        }
    };
    text.lines().filter_map(of).collect()
}

fn own(text: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let private = words
            .next()?
            .get(1..4)
            .is_some_and(|flags| flags.starts_with('w') && flags.ends_with('p'));
        let address = |hex: &str| u64::from_str_radix(hex, 16).ok();
        private.then_some((address(from)?, address(to)?))
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::memory::bind;

    #[test]
    fn pages_are_summed_by_node_and_size() {
        let text = "7f00 default anon=30 dirty=30 N0=10 N2=20 kernelpagesize_kB=4\n\
                    7f10 bind:1 file=/lib/x.so mapped=3 N0=3 kernelpagesize_kB=4\n\
                    7f20 default anon=1 huge N1=1 kernelpagesize_kB=2048\nbad\n";
        assert_eq!(nodes(text), [10 * 4096, 2 << 20, 20 * 4096], "libraries stay where they are");
        assert!(nodes("").is_empty());
    }

    #[test]
    fn only_a_process_s_own_memory_is_moved() {
        let text = "5000-7000 r-xp 00000000 08:01 1 /bin/x\n7000-8000 rw-p 00000000 08:01 1 /bin/x\n\
                    a000-b000 rw-s 00000000 00:05 9 /dev/shm/y\nc000-f000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(own(text), [(0x7000, 0x8000), (0xc000, 0xf000)]);
    }

    #[test]
    fn what_has_a_policy_is_placed() {
        let text = "7f00 default anon=30 N0=10\n7f10 bind:1 anon=3 N1=3\n7f20 local anon=1\n\
                    7f30 prefer (many):0-1 anon=1\n7f40 interleave=static:0-3\nbad\n";
        assert_eq!(placed(text), [0x7f10, 0x7f30, 0x7f40].into());
    }

    /// Pages in the middle of a mapping are bound to the first node: those before and behind them can be moved.
    #[test]
    fn memory_that_is_bound_is_not_moved() {
        const PAGE: usize = 4096;
        let own = vec![1u8; 4 * PAGE];
        let pages = (own.as_ptr() as usize).next_multiple_of(PAGE);
        let bound = bind((pages + PAGE) as *mut libc::c_void, PAGE, 0);
        let ranges = ranges(std::process::id()).unwrap();
        let movable = |page: usize| {
            let address = (pages + page * PAGE) as u64;
            ranges.iter().any(|(from, to)| (*from..*to).contains(&address))
        };
        // Kernels without NUMA have no such policies.
        assert_eq!([0, 1, 2].map(movable), [true, bound.is_err(), true]);
    }

    #[test]
    fn our_own_pages_are_somewhere() {
        // Kernels without NUMA have no such file.
        if let Some(nodes) = of(std::process::id()) {
            assert!(nodes.iter().sum::<u64>() > 0);
        }
        assert!(ranges(std::process::id()).unwrap().len() > 2);
    }
}
