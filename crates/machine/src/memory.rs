// SPDX-License-Identifier: GPL-2.0-only
//! TLBs and caches of a machine, as `[memory]` of its file gives them.

use crate::costs::table;

table! {
    /// Sizes and costs of TLBs and caches. A machine has none of this if its file has no `[memory]`.
    Memory, MEMORY, "memory";
    /// Bytes of a page of users' memory.
    page_bytes, "bytes", 1, 4096.0;
    /// Limit on address spaces with entries side by side in the TLB of a CPU, set by the kernel; 0: a change
    /// of the address space loses all entries that are not global.
    tlb_tags, "tags", 1, 0.0;
    /// Entries of the last data TLB before a page walk, for small pages.
    dtlb_entries, "entries", 1, 1.0;
    /// Its ways.
    dtlb_ways, "ways", 1, 1.0;
    /// Mean cost of a miss to a program.
    dtlb_miss_ns, "ns", 1, 0.0;
    /// Entries of the instruction TLB. Left out where one TLB serves both.
    itlb_entries, "entries", usize::MAX, 0.0;
    /// Its ways.
    itlb_ways, "ways", usize::MAX, 0.0;
    /// Mean cost of a miss to a program.
    itlb_miss_ns, "ns", 1, 0.0;
    /// Entries of the data TLB for large pages, which map the kernel. Left out if the kernel's entries share the other
    /// TLB.
    dtlb_large_entries, "entries", usize::MAX, 0.0;
    /// Their ways.
    dtlb_large_ways, "ways", usize::MAX, 0.0;
    /// Entries of the instruction TLB for large pages. Left out as those of the data TLB.
    itlb_large_entries, "entries", usize::MAX, 0.0;
    /// Their ways.
    itlb_large_ways, "ways", usize::MAX, 0.0;
    /// Bytes of a line of every cache.
    line_bytes, "bytes", 1, 64.0;
    /// First-level data cache, of a core.
    l1d_bytes, "bytes", 1, 1.0;
    /// Its ways.
    l1d_ways, "ways", 1, 1.0;
    /// Mean cost of a line that misses it and hits the next level, to a program.
    l1d_miss_ns, "ns", 1, 0.0;
    /// Second-level cache: shared by the cores of an LLC where there is no third, else of a core.
    l2_bytes, "bytes", 1, 1.0;
    /// Its ways.
    l2_ways, "ways", 1, 1.0;
    /// Mean cost of a line that misses it, beyond the miss of the level before.
    l2_miss_ns, "ns", 1, 0.0;
    /// Third-level cache, shared by the cores of an LLC. Left out where there is none.
    l3_bytes, "bytes", usize::MAX, 0.0;
    /// Its ways.
    l3_ways, "ways", usize::MAX, 0.0;
    /// Mean cost of a line that misses it, beyond the misses of the levels before.
    l3_miss_ns, "ns", usize::MAX, 0.0;
}
