// SPDX-License-Identifier: GPL-2.0-only
//! What a TLB or a cache still holds of a set that was touched some time ago.
//!
//! # Problem
//! A simulation makes millions of switches and cannot follow addresses. What it knows is which sets
//! of lines (or pages) were touched, one after the other, and how large each is.
//!
//! # Approach
//! The stack distance of a line is the number of distinct other lines touched since it was touched
//! last. In a cache of `S` sets and `K` ways with LRU in each set, a line whose distance is `d` is
//! still there when fewer than `K` of those `d` lines fell into its set. Where lines fall
//! independently that is binomial, and for many sets nearly
//!
//! ```text
//! P(hit | d) = P(Poisson(d / S) < K)
//! ```
//!
//! (Smith, 1978; Hill and Smith, Evaluating Associativity in CPU Caches, IEEE Transactions on
//! Computers 38(12), 1989). Lines of physically indexed caches fall so because pages do. Where there
//! is one set, it is a step: a hit while `d < K`.
//!
//! A program goes through its sets again in each of its turns on a CPU, so all lines of them have about
//! one distance: what others touched since, and the program's own. So a list of the sets in the
//! order of their last use is enough; where a turn was cut short, the part of a set that it did not
//! get to keeps the older place. What was touched so long ago that nothing of it can be left
//! is forgotten: the list has as many entries as sets fit into a few times the capacity.

/// Parts of the table of hits, per way.
const STEPS: usize = 32;
/// Beyond so many times its capacity nothing is left in a cache.
const FORGOTTEN: f64 = 3.0;

/// Less than this of a set is as good as nothing, in lines.
const NOTHING: f32 = 0.01;

#[derive(Clone, Copy, Debug)]
struct Entry {
    set: u32,
    /// The address space whose entries these are; 0: global ones, of the kernel.
    space: u32,
    /// Lines of it that were there when this part was touched last.
    held: f32,
    /// Another part of the set was touched before, and not since.
    more: bool,
}

/// The sets that one TLB or cache may still hold, in the order of their last use.
#[derive(Clone, Debug)]
pub struct Recency {
    sets: f64,
    ways: f64,
    /// P(hit) at `STEPS` distances for each way; none of fully associative ones.
    hits: Vec<f64>,
    /// The most recent last; at most two of a set.
    entries: Vec<Entry>,
    total: f64,
}

impl Recency {
    /// Of so many lines (or entries), in so many ways.
    pub fn new(lines: f64, ways: f64) -> Self {
        let sets = (lines / ways).max(1.0);
        let table = |step: usize| poisson_below(step as f64 / STEPS as f64, ways as usize);
        let steps = (FORGOTTEN * ways) as usize * STEPS;
        let hits = if sets > 1.0 { (0..=steps).map(table).collect() } else { Vec::new() };
        Recency { sets, ways, hits, entries: Vec::new(), total: 0.0 }
    }

    /// Probability that a line is still there after so many distinct others.
    pub fn hit(&self, distance: f64) -> f64 {
        if self.hits.is_empty() {
            return f64::from(u8::from(distance <= self.ways));
        }
        let at = distance / self.sets * STEPS as f64;
        let (low, part) = (at as usize, at.fract());
        match self.hits.get(low..low + 2) {
            Some(pair) => pair[0] + (pair[1] - pair[0]) * part,
            None => 0.0,
        }
    }

    /// How many lines are left of each set of a group that is used together, `(set, lines)`; never more
    /// than its lines. Sets of no lines are left out.
    pub fn left<const N: usize>(&self, group: &[(u32, f64); N]) -> [f64; N] {
        let own: f64 = group.iter().map(|(_, lines)| lines).sum();
        let mut left = [0.0; N];
        let mut others = 0.0;
        let mut missing = group.iter().filter(|(_, lines)| *lines > 0.0).count();
        for entry in self.entries.iter().rev() {
            if missing == 0 {
                break;
            }
            match group.iter().position(|(set, lines)| *set == entry.set && *lines > 0.0) {
                Some(at) => {
                    left[at] += f64::from(entry.held) * self.hit(others + own);
                    missing -= usize::from(!entry.more);
                }
                None => others += f64::from(entry.held),
            }
        }
        for (left, (_, lines)) in left.iter_mut().zip(group) {
            *left = left.min(*lines);
        }
        left
    }

    /// So great a part of each set of a group was used; the rest of it was not.
    pub fn used<const N: usize>(&mut self, space: u32, group: &[(u32, f64); N], part: f64) {
        if part <= 0.0 {
            return;
        }
        for (set, lines) in group.iter().filter(|(_, lines)| *lines > 0.0) {
            let more = self.age(*set, part.min(1.0) as f32);
            let held = (lines * part.min(1.0)) as f32;
            self.entries.push(Entry { set: *set, space, held, more });
            self.total += f64::from(held);
        }
        self.forget();
    }

    /// `part` of a set has been used again, and is where it was no longer. Returns whether there is
    /// a rest.
    fn age(&mut self, set: u32, part: f32) -> bool {
        let Some(newest) = self.find(set, self.entries.len()) else { return false };
        let mut kept = newest;
        let mut held = self.entries[newest].held;
        self.total -= f64::from(held);
        if self.entries[newest].more
            && let Some(oldest) = self.find(set, newest)
        {
            self.total -= f64::from(self.entries[oldest].held);
            held += self.entries[oldest].held;
            self.entries.remove(newest);
            kept = oldest;
        }
        let rest = held * (1.0 - part);
        if rest < NOTHING {
            self.entries.remove(kept);
            return false;
        }
        self.entries[kept] = Entry { held: rest, more: false, ..self.entries[kept] };
        self.total += f64::from(rest);
        true
    }

    fn find(&self, set: u32, before: usize) -> Option<usize> {
        self.entries[..before].iter().rposition(|entry| entry.set == set)
    }

    /// All entries of this address space are lost.
    pub fn flush(&mut self, space: u32) {
        self.drop_if(|entry| entry.space == space);
    }

    /// All entries are lost that are not global.
    pub fn flush_all(&mut self) {
        self.drop_if(|entry| entry.space != 0);
    }

    fn drop_if(&mut self, lost: impl Fn(&Entry) -> bool) {
        self.entries.retain(|entry| !lost(entry));
        self.total = self.entries.iter().map(|entry| f64::from(entry.held)).sum();
    }

    fn forget(&mut self) {
        let most = FORGOTTEN * self.sets * self.ways;
        let mut oldest = 0;
        while self.total > most && oldest + 1 < self.entries.len() {
            self.total -= f64::from(self.entries[oldest].held);
            oldest += 1;
        }
        self.entries.drain(..oldest);
    }
}

/// P(Poisson(mean) < below).
fn poisson_below(mean: f64, below: usize) -> f64 {
    let mut term = (-mean).exp();
    let mut sum = 0.0;
    for n in 0..below {
        sum += term;
        term *= mean / (n + 1) as f64;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_fall_as_the_distance_grows() {
        let cache = Recency::new(32_768.0, 8.0);
        let hits: Vec<f64> = (0..100).map(|n| cache.hit(f64::from(n) * 1000.0)).collect();
        assert!(hits.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12), "{hits:?}");
        assert_eq!(cache.hit(0.0), 1.0);
        assert_eq!(cache.hit(1e9), 0.0);
        // Poisson(8) is below 8 in 45.3 % of cases: tables of the distribution.
        assert!((cache.hit(32_768.0) - 0.453).abs() < 0.001);
    }

    #[test]
    fn one_set_is_a_step() {
        let tlb = Recency::new(64.0, 64.0);
        assert_eq!((tlb.hit(64.0), tlb.hit(65.0)), (1.0, 0.0));
    }

    #[test]
    fn what_was_not_used_is_not_there() {
        let mut cache = Recency::new(1024.0, 8.0);
        assert_eq!(cache.left(&[(1, 10.0)]), [0.0]);
        cache.used(1, &[(1, 10.0)], 1.0);
        assert!(cache.left(&[(1, 10.0)])[0] > 9.99);
        cache.used(2, &[(2, 100_000.0)], 1.0);
        assert_eq!(cache.left(&[(1, 10.0)]), [0.0]);
    }

    #[test]
    fn a_flush_takes_one_space_or_all_but_global_entries() {
        let mut tlb = Recency::new(1024.0, 4.0);
        tlb.used(0, &[(9, 5.0)], 1.0);
        tlb.used(1, &[(1, 5.0)], 1.0);
        tlb.used(2, &[(2, 5.0)], 1.0);
        let left = |tlb: &Recency| tlb.left(&[(1, 5.0), (2, 5.0), (9, 5.0)]).map(f64::round);
        assert_eq!(left(&tlb), [5.0, 5.0, 5.0]);
        tlb.flush(1);
        assert_eq!(left(&tlb), [0.0, 5.0, 5.0]);
        tlb.flush_all();
        assert_eq!(left(&tlb), [0.0, 0.0, 5.0]);
    }

    #[test]
    fn a_part_that_is_not_used_ages() {
        let mut cache = Recency::new(32_768.0, 8.0);
        cache.used(1, &[(1, 1000.0)], 1.0);
        cache.used(1, &[(2, 20_000.0)], 1.0);
        let all_old = cache.left(&[(1, 1000.0)])[0];
        for _ in 0..10 {
            cache.used(1, &[(1, 1000.0)], 0.05);
        }
        let some_new = cache.left(&[(1, 1000.0)])[0];
        assert!(all_old < some_new && some_new < 1000.0, "{all_old} {some_new}");
        assert_eq!(cache.entries.iter().filter(|entry| entry.set == 1).count(), 2);
        cache.used(1, &[(1, 1000.0)], 1.0);
        assert!(cache.left(&[(1, 1000.0)])[0] > 999.0);
    }

    #[test]
    fn the_list_stays_short() {
        let mut tlb = Recency::new(256.0, 4.0);
        for set in 0..100_000 {
            tlb.used(1, &[(set, 4.0)], 1.0);
        }
        assert!(tlb.entries.len() <= 3 * 256 / 4, "{}", tlb.entries.len());
        let sum: f64 = tlb.entries.iter().map(|entry| f64::from(entry.held)).sum();
        assert!((sum - tlb.total).abs() < 1e-6);
    }
}
