// SPDX-License-Identifier: GPL-2.0-only
//! Address spaces with TLB entries side by side on a CPU.

/// The effect of a new address space on a CPU's TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: its entries are still valid.
    Keep,
    /// Its tag belonged to this other space, which loses its entries.
    Evict(u32),
    /// All entries that are not global are lost.
    FlushAll,
}

/// The tags of one CPU. A new address space takes the tag that was given out the longest ago, even if its owner has
/// used it since. Linux on x86 does so (`choose_new_asid` in arch/x86/mm/tlb.c goes round the `TLB_NR_DYN_ASIDS` tags).
#[derive(Clone, Debug)]
pub struct Tags {
    spaces: Vec<u32>,
    next: usize,
    present: u32,
}

impl Tags {
    /// With `tags` tags; 0: entries carry none.
    pub fn new(tags: usize) -> Self {
        Tags { spaces: vec![0; tags], next: 0, present: 0 }
    }

    /// The CPU now uses this address space, which is not 0.
    pub fn change(&mut self, space: u32) -> Change {
        if std::mem::replace(&mut self.present, space) == space {
            return Change::Keep;
        }
        if self.spaces.is_empty() {
            return Change::FlushAll;
        }
        if self.spaces.contains(&space) {
            return Change::Keep;
        }
        let evicted = std::mem::replace(&mut self.spaces[self.next], space);
        self.next = (self.next + 1) % self.spaces.len();
        if evicted == 0 { Change::Keep } else { Change::Evict(evicted) }
    }

    /// Whether this address space has a tag here.
    pub fn has(&self, space: u32) -> bool {
        self.present == space || self.spaces.contains(&space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tags_every_change_flushes() {
        let mut tags = Tags::new(0);
        let seen = [1, 1, 2, 1].map(|space| tags.change(space));
        assert_eq!(seen, [Change::FlushAll, Change::Keep, Change::FlushAll, Change::FlushAll]);
    }

    #[test]
    fn six_tags_hold_six_spaces_and_a_seventh_evicts_the_oldest() {
        let mut tags = Tags::new(6);
        for space in [1, 2, 3, 4, 5, 6, 1, 2, 3] {
            assert_eq!(tags.change(space), Change::Keep);
        }
        // Space 1 was used a moment ago; its tag is the oldest all the same.
        assert_eq!(tags.change(7), Change::Evict(1));
        assert!(tags.has(2) && !tags.has(1));
    }

    #[test]
    fn seven_spaces_in_a_circle_miss_every_time() {
        let mut tags = Tags::new(6);
        (1..=7).for_each(|space| {
            tags.change(space);
        });
        for space in (1..=7).cycle().take(50) {
            assert!(matches!(tags.change(space), Change::Evict(_)));
        }
    }
}
