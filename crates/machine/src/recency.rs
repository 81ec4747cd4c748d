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
const NOTHING: f64 = 0.01;

/// Places whose lines are summed up together.
const BLOCK: usize = 16;
/// Sets of a group, at most.
pub(crate) const SETS_MAX: usize = 4;
/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    set: u32,
    /// The address space whose entries these are; 0: global ones, of the kernel.
    space: u32,
    /// Where the part of the set is that was touched before, and not since.
    older: u32,
    /// The place before this one that was given out to its address space.
    before: u32,
}

/// A part of a set: its place, and how many lines of it were there when it was touched last.
#[derive(Clone, Copy)]
struct Part {
    place: u32,
    held: f64,
}

impl Part {
    const NONE: Part = Part { place: 0, held: 0.0 };
}

/// The sets that one TLB or cache may still hold, in the order of their last use.
///
/// Places are given out in that order and not reused, so what lies behind a place was used after it; sums of
/// blocks of places make its distance a few additions, however long the list is.
#[derive(Clone, Debug)]
pub struct Recency {
    ways: f64,
    /// Lines beyond which nothing is left.
    most: f64,
    /// Of the table, by a line of distance.
    steps_per_line: f64,
    /// P(hit) at `STEPS` distances for each way; none of fully associative ones.
    hits: Vec<f64>,
    /// The most recent last; at most two of a set.
    entries: Vec<Entry>,
    /// Lines of each entry that were there when that part was touched last; 0: nobody's place any more.
    held: Vec<f64>,
    /// Lines held in each block of places.
    blocks: Vec<f64>,
    /// The place of the newest part of each set.
    newest: Vec<u32>,
    /// The last place that was given out to each address space.
    latest: Vec<u32>,
    /// Places that are somebody's, and where the oldest of them may be.
    live: usize,
    oldest: usize,
    total: f64,
}

impl Recency {
    /// Of so many lines (or entries), in so many ways.
    pub fn new(lines: f64, ways: f64) -> Self {
        let sets = (lines / ways).max(1.0);
        let table = |step: usize| poisson_below(step as f64 / STEPS as f64, ways as usize);
        let steps = (FORGOTTEN * ways) as usize * STEPS;
        let hits = if sets > 1.0 { (0..=steps).map(table).collect() } else { Vec::new() };
        Recency {
            ways,
            most: FORGOTTEN * sets * ways,
            steps_per_line: STEPS as f64 / sets,
            hits,
            entries: Vec::new(),
            held: Vec::new(),
            blocks: Vec::new(),
            newest: Vec::new(),
            latest: Vec::new(),
            live: 0,
            oldest: 0,
            total: 0.0,
        }
    }

    /// Probability that a line is still there after so many distinct others.
    #[inline]
    pub fn hit(&self, distance: f64) -> f64 {
        if self.hits.is_empty() {
            return f64::from(u8::from(distance <= self.ways));
        }
        let at = distance * self.steps_per_line;
        let low = at as u32 as usize;
        match self.hits.get(low..low + 2) {
            Some(pair) => pair[0] + (pair[1] - pair[0]) * (at - low as f64),
            None => 0.0,
        }
    }

    /// How many lines are left of each set of a group that is used together, `(set, lines)`; never more
    /// than its lines. No more than four sets; all have lines.
    #[inline]
    pub fn left(&self, group: &[(u32, f64)]) -> [f64; SETS_MAX] {
        let mut own = 0.0;
        let mut parts = [[Part::NONE; 2]; SETS_MAX];
        for (parts, (set, lines)) in parts.iter_mut().zip(group) {
            own += lines;
            *parts = self.parts(*set);
        }
        let mut left = [0.0; SETS_MAX];
        // Nearer than this lies all that is there: a large cache need not know how near.
        let all = self.hit(self.total + own) == 1.0;
        for (at, (_, lines)) in group.iter().enumerate().take(SETS_MAX) {
            for part in parts[at].iter().filter(|part| part.held > 0.0) {
                let hit = match all {
                    true => 1.0,
                    false => self.hit(self.others_behind(part.place, &parts[..group.len()]) + own),
                };
                left[at] += part.held * hit;
            }
            if left[at] > *lines {
                left[at] = *lines;
            }
        }
        left
    }

    /// The newest part of a set and the one before it.
    #[inline]
    fn parts(&self, set: u32) -> [Part; 2] {
        let newest = self.newest_of(set) as usize;
        let (Some(entry), Some(held)) = (self.entries.get(newest), self.held.get(newest)) else {
            return [Part::NONE; 2];
        };
        let older = match self.held.get(entry.older as usize) {
            Some(held) => Part { place: entry.older, held: *held },
            None => Part::NONE,
        };
        [Part { place: newest as u32, held: *held }, older]
    }

    /// Lines held behind a place that are in none of these parts.
    #[inline]
    fn others_behind(&self, place: u32, parts: &[[Part; 2]]) -> f64 {
        let mut own = 0.0;
        for part in parts.as_flattened() {
            own += if part.place > place { part.held } else { 0.0 };
        }
        self.behind(place as usize) - own
    }

    /// So great a part of each set of a group was used, all of which have lines; the rest of it was not.
    #[inline]
    pub fn used(&mut self, space: u32, group: &[(u32, f64)], part: f64) {
        if part <= 0.0 {
            return;
        }
        let part = part.min(1.0);
        for (set, lines) in group {
            let older = self.age(*set, part);
            self.entries.push(Entry { set: *set, space, older, before: NONE });
            self.held.push(lines * part);
            self.give_out(self.entries.len() - 1);
        }
        self.tidy();
    }

    /// What is nobody's goes, where it is the greater part.
    #[inline]
    pub fn tidy(&mut self) {
        self.forget();
        if self.entries.len() > 2 * self.live + 4 * BLOCK {
            self.close_up();
        }
    }

    /// `part` of a set has been used again, and is where it was no longer. Returns where the rest is.
    #[inline(always)]
    fn age(&mut self, set: u32, part: f64) -> u32 {
        let newest = self.newest_of(set);
        if newest == NONE {
            return NONE;
        }
        let (held, older) = (self.held[newest as usize], self.entries[newest as usize].older);
        let (kept, held) = match older {
            NONE => (newest, held),
            _ => (older, held + self.held[older as usize]),
        };
        if kept != newest {
            self.vacate(newest as usize);
        }
        let rest = held * (1.0 - part);
        if rest < NOTHING {
            self.vacate(kept as usize);
            return NONE;
        }
        self.entries[kept as usize].older = NONE;
        self.hold(kept as usize, rest);
        kept
    }

    /// The place where the newest part of a set is.
    #[inline]
    fn newest_of(&self, set: u32) -> u32 {
        self.newest.get(set as usize).copied().unwrap_or(NONE)
    }

    /// Lines held behind a place.
    #[inline]
    fn behind(&self, place: usize) -> f64 {
        let block = place / BLOCK;
        let end = self.held.len().min((block + 1) * BLOCK);
        let near: f64 = self.held[place + 1..end].iter().sum();
        near + self.blocks[block + 1..].iter().sum::<f64>()
    }

    /// A place at the end of the list, or of the part that has been gone through, is its entry's.
    #[inline(always)]
    fn give_out(&mut self, place: usize) {
        let (Entry { set, space, .. }, held) = (self.entries[place], self.held[place]);
        *slot(&mut self.newest, set) = place as u32;
        let latest = slot(&mut self.latest, space);
        self.entries[place].before = std::mem::replace(latest, place as u32);
        if place.is_multiple_of(BLOCK) {
            self.blocks.push(0.0);
        }
        self.blocks[place / BLOCK] += held;
        self.total += held;
        self.live += 1;
    }

    /// From now on so many lines are held at a place.
    #[inline]
    fn hold(&mut self, place: usize, held: f64) {
        let more = held - std::mem::replace(&mut self.held[place], held);
        self.blocks[place / BLOCK] += more;
        self.total += more;
    }

    /// A place is nobody's any more.
    #[inline(always)]
    fn vacate(&mut self, place: usize) {
        self.hold(place, 0.0);
        let Entry { set, older, .. } = self.entries[place];
        let newest = self.newest[set as usize];
        match newest == place as u32 {
            true => self.newest[set as usize] = older,
            false => self.entries[newest as usize].older = NONE,
        }
        self.live -= 1;
    }

    /// All entries of this address space are lost.
    pub fn flush(&mut self, space: u32) {
        let mut place = match self.latest.get_mut(space as usize) {
            Some(latest) => std::mem::replace(latest, NONE),
            None => NONE,
        };
        let mut lost: u32 = NONE;
        // Turned round: the oldest goes first.
        while place != NONE {
            let before = std::mem::replace(&mut self.entries[place as usize].before, lost);
            (lost, place) = (place, before);
        }
        while lost != NONE {
            if self.held[lost as usize] > 0.0 {
                self.vacate(lost as usize);
            }
            lost = self.entries[lost as usize].before;
        }
        self.pass_over();
    }

    /// All entries are lost that are not global.
    pub fn flush_all(&mut self) {
        for place in self.oldest..self.entries.len() {
            if self.held[place] > 0.0 && self.entries[place].space != 0 {
                self.vacate(place);
            }
        }
        self.pass_over();
    }

    /// Places that are nobody's are not looked at again.
    #[inline]
    fn pass_over(&mut self) {
        while self.held.get(self.oldest).is_some_and(|held| *held == 0.0) {
            self.oldest += 1;
        }
    }

    /// Gives out the places anew, in the same order.
    #[inline(never)]
    fn close_up(&mut self) {
        self.blocks.clear();
        self.latest.fill(NONE);
        (self.live, self.oldest, self.total) = (0, 0, 0.0);
        let mut kept = 0;
        for place in 0..self.entries.len() {
            if self.held[place] > 0.0 {
                self.held[kept] = self.held[place];
                self.entries[kept] = self.entries[place];
                self.newest[self.entries[kept].set as usize] = NONE;
                kept += 1;
            }
        }
        self.held.truncate(kept);
        self.entries.truncate(kept);
        for place in 0..kept {
            self.entries[place].older = self.newest_of(self.entries[place].set);
            self.give_out(place);
        }
    }

    /// What lies farther back than anything can be found is nobody's.
    #[inline]
    fn forget(&mut self) {
        while self.total > self.most && self.live > 1 {
            if self.held[self.oldest] > 0.0 {
                self.vacate(self.oldest);
            }
            self.oldest += 1;
        }
    }
}

/// The place that a list has for this number.
#[inline]
fn slot(list: &mut Vec<u32>, number: u32) -> &mut u32 {
    if number as usize >= list.len() {
        lengthen(list, number);
    }
    &mut list[number as usize]
}

#[cold]
fn lengthen(list: &mut Vec<u32>, number: u32) {
    list.resize(number as usize + 1, NONE);
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
        assert_eq!(cache.left(&[(1, 10.0)])[0], 0.0);
        cache.used(1, &[(1, 10.0)], 1.0);
        assert!(cache.left(&[(1, 10.0)])[0] > 9.99);
        cache.used(2, &[(2, 100_000.0)], 1.0);
        assert_eq!(cache.left(&[(1, 10.0)])[0], 0.0);
    }

    #[test]
    fn a_flush_takes_one_space_or_all_but_global_entries() {
        let mut tlb = Recency::new(1024.0, 4.0);
        tlb.used(0, &[(9, 5.0)], 1.0);
        tlb.used(1, &[(1, 5.0)], 1.0);
        tlb.used(2, &[(2, 5.0)], 1.0);
        let left = |tlb: &Recency| {
            let [a, b, c, _] = tlb.left(&[(1, 5.0), (2, 5.0), (9, 5.0)]).map(f64::round);
            [a, b, c]
        };
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
        let of_it = |place: &usize| cache.entries[*place].set == 1 && cache.held[*place] > 0.0;
        assert_eq!((0..cache.held.len()).filter(of_it).count(), 2);
        cache.used(1, &[(1, 1000.0)], 1.0);
        assert!(cache.left(&[(1, 1000.0)])[0] > 999.0);
    }

    /// The same, said plainly: a list of who was used last, looked through from its end.
    #[derive(Default)]
    struct Plain {
        entries: Vec<(u32, u32, f64)>,
    }

    impl Plain {
        fn left(&self, like: &Recency, group: &[(u32, f64); 2]) -> [f64; 2] {
            let own: f64 = group.iter().map(|(_, lines)| lines).sum();
            let (mut left, mut others) = ([0.0; 2], 0.0);
            for (set, _, held) in self.entries.iter().rev() {
                match group.iter().position(|(of, lines)| of == set && *lines > 0.0) {
                    Some(at) => left[at] += held * like.hit(others + own),
                    None => others += held,
                }
            }
            std::array::from_fn(|at| left[at].min(group[at].1))
        }

        fn used(&mut self, most: f64, space: u32, group: &[(u32, f64); 2], part: f64) {
            for (set, lines) in group.iter().filter(|(_, lines)| *lines > 0.0) {
                let mut of_set = self.entries.iter().filter(|(of, ..)| of == set);
                let oldest = of_set.next().map(|(_, space, _)| *space);
                let rest = (1.0 - part)
                    * (self.entries.iter().filter(|e| e.0 == *set))
                        .map(|(.., held)| held)
                        .sum::<f64>();
                let at = self.entries.iter().position(|(of, ..)| of == set);
                let before = at.map(|at| self.entries[..at].len());
                self.entries.retain(|(of, ..)| of != set);
                if let (Some(at), Some(space)) = (before, oldest)
                    && rest >= NOTHING
                {
                    self.entries.insert(at, (*set, space, rest));
                }
                self.entries.push((*set, space, lines * part));
            }
            let total = |entries: &[(u32, u32, f64)]| entries.iter().map(|e| e.2).sum::<f64>();
            while total(&self.entries) > most && self.entries.len() > 1 {
                self.entries.remove(0);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn it_is_what_the_plain_list_is(
            turns in proptest::collection::vec(
                (0_u32..12, 0_u32..12, 1_u32..=8, 0_u32..20), 1..200),
        ) {
            let mut cache = Recency::new(128.0, 4.0);
            let mut plain = Plain::default();
            for (one, other, part, flush) in turns {
                let lines = |set: u32| (set, f64::from(set * set));
                let group = [lines(one), if one == other { (0, 0.0) } else { lines(other) }];
                let there: Vec<_> = group.into_iter().filter(|(_, lines)| *lines > 0.0).collect();
                let wanted = plain.left(&cache, &group);
                let seen = group.map(|(set, _)| {
                    let at = there.iter().position(|(of, _)| *of == set);
                    at.map_or(0.0, |at| cache.left(&there)[at])
                });
                for (seen, wanted) in seen.iter().zip(wanted) {
                    proptest::prop_assert!((seen - wanted).abs() < 1e-6, "{seen} for {wanted}");
                }
                cache.used(one % 3, &there, f64::from(part) / 8.0);
                plain.used(3.0 * 128.0, one % 3, &group, f64::from(part) / 8.0);
                match flush {
                    0 => {
                        cache.flush_all();
                        plain.entries.retain(|(_, space, _)| *space == 0);
                    }
                    space @ 1..=2 => {
                        cache.flush(space);
                        plain.entries.retain(|(_, of, _)| *of != space);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_list_stays_short() {
        let mut tlb = Recency::new(256.0, 4.0);
        for set in 0..100_000 {
            tlb.used(1, &[(set, 4.0)], 1.0);
        }
        assert!(tlb.live <= 3 * 256 / 4, "{}", tlb.live);
        assert!(tlb.entries.len() <= 2 * tlb.live + 4 * BLOCK, "{}", tlb.entries.len());
        let sum: f64 = tlb.held.iter().sum();
        assert!((sum - tlb.total).abs() < 1e-6);
    }
}
