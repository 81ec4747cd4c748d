// SPDX-License-Identifier: GPL-2.0-only
//! Memory for measurements: mapped, not from an allocator, so that its pages are known.

use std::hint::black_box;
use std::io;
use std::ptr;

use super::chips::page_bytes;

/// Bytes of a line, for distances between accesses; the machine's lines may be longer.
pub const LINE: usize = 64;

/// Size of pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// The smallest.
    Small,
    /// Large ones if possible, so that TLB misses do not count.
    Large,
}

/// Zeroed memory of its own, all of it populated.
pub(super) struct Array {
    words: *mut u64,
    bytes: usize,
}

// SAFETY: the memory is this value's own, like a box's
unsafe impl Send for Array {}
// SAFETY: shared references only read
unsafe impl Sync for Array {}

impl Array {
    /// So many bytes, at least a page; `prepare` may place them before they are touched.
    pub fn with(
        bytes: usize,
        pages: Pages,
        prepare: impl FnOnce(*mut libc::c_void, usize) -> io::Result<()>,
    ) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(page_bytes());
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which nothing else refers to
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let array = Array { words: at.cast(), bytes };
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Large => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the mapping was just made; kernels without large pages refuse, and have none
        unsafe { libc::madvise(at, bytes, advice) };
        prepare(at, bytes)?;
        Ok(array)
    }

    /// So many bytes, filled.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        let mut array = Array::with(bytes, pages, |_, _| Ok(()))?;
        array.words_mut().fill(1);
        Ok(array)
    }

    pub fn words(&self) -> &[u64] {
        // SAFETY: the mapping lasts as long as this value and is zeroed
        unsafe { std::slice::from_raw_parts(self.words, self.bytes / 8) }
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and no other reference exists
        unsafe { std::slice::from_raw_parts_mut(self.words, self.bytes / 8) }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `with`, and nothing can use it any more
        unsafe { libc::munmap(self.words.cast(), self.bytes) };
    }
}

/// A walk through the first `lines` lines, a power of two, in an order that no prefetcher guesses. No address depends
/// on what is read. Lines are `stride` bytes apart, a power of two of at least a line, each at another place within its
/// stride.
pub(super) struct Walk {
    lines: usize,
    stride: usize,
    at: usize,
}

impl Walk {
    pub fn new(lines: usize, stride: usize) -> Self {
        debug_assert!(lines.is_power_of_two() && stride.is_power_of_two() && stride >= LINE);
        Walk { lines, stride, at: 1 }
    }

    /// Reads a word of each of the next `count` lines.
    #[inline(never)]
    pub fn on(&mut self, words: &[u64], count: usize) -> u64 {
        let (mask, places, stride) = (self.lines - 1, self.stride / LINE - 1, self.stride);
        let (mut at, mut sum) = (self.at, 0u64);
        for _ in 0..count {
            // A linear congruence of full period: Knuth, The Art of Computer Programming 2, 3.2.1.2.
            at = at.wrapping_mul(0x5851_F42D).wrapping_add(0x1405_7B7F) & mask;
            let place = (at * stride + ((at * 5) & places) * LINE) / 8;
            sum = sum.wrapping_add(words[place]);
        }
        self.at = at;
        black_box(sum)
    }
}

/// Reads a word of each of the first `lines` lines.
pub(super) fn touch(words: &[u64], lines: usize) -> u64 {
    Walk::new(lines, LINE).on(words, lines)
}

/// Makes a circle of the first `lines` lines, each naming the next one, in an order from a seed.
pub(super) fn circle(words: &mut [u64], lines: usize) {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    // Sattolo's shuffle: one circle through all.
    for at in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % at as u64) as usize);
    }
    for (at, line) in order.iter().enumerate() {
        words[line * LINE / 8] = (order[(at + 1) % lines] * LINE / 8) as u64;
    }
}

/// Takes so many steps round the circle from a place in it; returns the last place.
#[inline(never)]
pub(super) fn follow(words: &[u64], from: u64, steps: usize) -> u64 {
    let mut at = from;
    for _ in 0..steps {
        at = words[at as usize];
    }
    black_box(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_touched_once() {
        let lines = 64;
        let mut array = Array::new(lines * LINE, Pages::Small).unwrap();
        array.words_mut().fill(0);
        for line in 0..lines {
            array.words_mut()[line * LINE / 8] = 1 << line;
        }
        assert_eq!(touch(array.words(), lines), u64::MAX);
    }

    #[test]
    fn the_circle_goes_through_all_lines() {
        let lines = 32;
        let mut array = Array::new(lines * LINE, Pages::Small).unwrap();
        circle(array.words_mut(), lines);
        let mut seen = std::collections::BTreeSet::new();
        seen.extend((0..lines).map(|steps| follow(array.words(), 0, steps)));
        assert_eq!(seen.len(), lines);
        assert_eq!(follow(array.words(), 0, lines), 0);
    }
}
