// SPDX-License-Identifier: GPL-2.0-only
//! The part of a set that TLBs and caches still hold some time after it was touched.
//!
//! # Problem
//! A simulation makes millions of switches and cannot follow addresses. It knows which sets of lines (or pages) were
//! touched, one after the other, and how large each is.
//!
//! # Approach
//! The stack distance of a line is the number of distinct other lines touched since it was touched last. Take a cache
//! of `S` sets and `K` ways with LRU in each set. A line at distance `d` is still there if fewer than `K` of those `d`
//! lines fell into its set. If lines fall independently, that is binomial, and for many sets nearly
//!
//! ```text
//! P(hit | d) = P(Poisson(d / S) < K)
//! ```
//!
//! (Smith, 1978; Hill and Smith, Evaluating Associativity in CPU Caches, IEEE Transactions on Computers 38(12), 1989).
//! Lines of physically indexed caches fall so because pages do. With one set, it is a step: a hit while `d < K`.
//!
//! A program goes through its sets again in each of its turns on a CPU. So all lines of them have about one distance:
//! the lines that others touched since, and the program's own. So a list of the sets in the order of their last use is
//! enough. If a turn was cut short, the untouched part of a set keeps the older place. Sets touched so long ago that
//! nothing of them can be left are forgotten: the list has as many entries as sets fit into a few times the capacity.
//!
//! All TLBs and caches of a core see the same sets used in the same order. So they have one list. An entry holds a row
//! of numbers: the lines held of a set, one number for each TLB or cache.

use std::ops::Range;
use std::rc::Rc;
use std::{array, mem};

use crate::group::{Group, SETS, lines_of, rest};
use crate::plenty::Plenty;
use crate::row::Row;

/// Parts of the table of hits, per way.
const STEPS: usize = 32;
/// Beyond this multiple of its capacity nothing is left in a cache.
const FORGOTTEN: f64 = 3.0;
/// A hit with at least this probability counts as certain.
const CERTAIN: f64 = 1.0 - 1e-12;

/// Places in a block; the lines of a block have one sum.
const BLOCK: usize = 16;
/// No place: the first place is unused.
const NONE: u32 = 0;

/// One TLB or cache.
#[derive(Clone, Debug)]
struct Column {
    ways: f64,
    /// Lines beyond which nothing is left, and up to which everything is.
    most: f64,
    all: f64,
    /// Steps of the table for a line of distance.
    steps_per_line: f64,
    /// P(hit) at `STEPS` distances for each way; empty for fully associative columns.
    hits: Rc<[f64]>,
}

impl Column {
    fn new(lines: f64, ways: f64) -> Self {
        let sets = (lines / ways.max(1.0)).max(1.0);
        let table = |step: usize| poisson_below(step as f64 / STEPS as f64, ways as usize);
        let steps = (FORGOTTEN * ways) as usize * STEPS;
        let hits: Rc<[f64]> =
            if sets > 1.0 { (0..=steps).map(table).collect() } else { Rc::new([]) };
        let steps_per_line = STEPS as f64 / sets;
        let all = match hits.iter().position(|hit| *hit < CERTAIN) {
            Some(step) => (step as f64 - 1.0) / steps_per_line,
            None => ways,
        };
        Column { ways, most: FORGOTTEN * sets * ways, all, steps_per_line, hits }
    }

    /// Probability that a line is still there after `distance` distinct others.
    fn hit(&self, distance: f64) -> f64 {
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
}

#[derive(Clone, Copy, Debug)]
struct Entry<const N: usize> {
    /// Lines that were there when this part of the set was touched last; none: the place is unused.
    held: Row<N>,
    set: u32,
    /// The address space of these entries; 0: global ones, of the kernel.
    space: u32,
    /// The place of the part of the set that was touched before this one, and not since.
    older: u32,
    /// The previous place that was given out to its address space.
    before: u32,
}

/// The sets that `N` TLBs and caches may still hold, in the order of their last use. Each is a column. All columns see
/// the same uses, but each holds its own number of lines (or pages) of a set, or none.
///
/// Places are given out in that order and not reused, so any later place was used later. Sums of blocks of places make
/// its distance a few additions, however long the list is.
#[derive(Clone, Debug)]
pub struct Recency<const N: usize> {
    columns: [Column; N],
    /// The most recent last; at most two of a set in each column.
    entries: Vec<Entry<N>>,
    /// Lines held in each block of places, and in all of them.
    blocks: Vec<Row<N>>,
    total: Row<N>,
    /// The place of the newest part of each set.
    newest: Vec<u32>,
    /// The last place that was given out to each address space.
    latest: Vec<u32>,
    /// Where the oldest lines of each column may be.
    oldest: [usize; N],
    /// Places that have seen a flush of all address spaces.
    flushed: usize,
    /// The list is compacted beyond so many places.
    full: usize,
    /// Replaces the list if all sets fit.
    plenty: Option<Plenty<N>>,
}

impl<const N: usize> Recency<N> {
    /// For columns of so many lines (or entries) and ways; 0 lines if there is no such TLB or cache.
    pub fn new(sizes: [(f64, f64); N]) -> Self {
        let none = Entry { held: Row::ZERO, set: 0, space: 0, older: NONE, before: NONE };
        Recency {
            columns: sizes.map(|(lines, ways)| Column::new(lines, ways)),
            entries: vec![none],
            blocks: vec![Row::ZERO],
            total: Row::ZERO,
            newest: Vec::new(),
            latest: Vec::new(),
            oldest: [0; N],
            flushed: 0,
            full: 4 * BLOCK,
            plenty: None,
        }
    }

    /// Promises that only sets of numbers below `sets` are used, `all` lines together, in groups of at most `group`
    /// lines, and that none is flushed. Call it before any use. Returns whether there is room for all.
    pub fn expect(&mut self, sets: usize, all: Row<N>, group: Row<N>) -> bool {
        // No distance exceeds the lines held and the lines asked for; the margin is for rounding.
        let fits = |(column, lines): (&Column, f64)| 1.001 * lines <= column.all;
        let all_fit = self.columns.iter().zip((all + group).0).all(fits);
        self.plenty = all_fit.then(|| Plenty::new(sets));
        all_fit
    }

    /// Lines left of each set of a group; never more than its lines.
    pub fn left(&self, group: &Group<N>) -> [Row<N>; SETS] {
        if let Some(plenty) = &self.plenty {
            return plenty.left(group);
        }
        let mut distance = lines_of(group);
        // All held lines lie nearer than this: a large cache need not know how near.
        let near = self.total + distance;
        if self.columns.iter().zip(near.0).all(|(column, near)| near <= column.all) {
            return group.map(|(set, lines)| self.held_of(set).min(lines));
        }
        let mut left = [Row::ZERO; SETS];
        // From the end of the list, and the newest place of each set that is still to come.
        let mut end = self.entries.len();
        let mut next = group.map(|(set, lines)| match lines.is_zero() {
            true => NONE,
            false => self.newest_of(set),
        });
        loop {
            let at = (1..SETS).fold(0, |at, other| if next[other] > next[at] { other } else { at });
            if next[at] == NONE {
                break;
            }
            let place = next[at] as usize;
            if place + 1 < end {
                self.add_between(place + 1, end, &mut distance);
            }
            let entry = &self.entries[place];
            left[at] += entry.held * self.hits(&entry.held, &distance);
            (next[at], end) = (entry.older, place);
        }
        for (left, (_, lines)) in left.iter_mut().zip(group) {
            *left = left.min(*lines);
        }
        left
    }

    /// Lines left of each set of a group that is gone through again, together with `others` lines.
    pub fn left_again(&self, group: &Group<N>, others: Row<N>) -> [Row<N>; SETS] {
        let own = lines_of(group);
        let hits = self.hits(&own, &(own + others));
        group.map(|(_, lines)| lines * hits)
    }

    /// Probability that a line is still there after `distance` distinct others, in columns that have lines.
    // Inlined, rows become single numbers; the same here and below.
    #[inline(never)]
    fn hits(&self, lines: &Row<N>, distance: &Row<N>) -> Row<N> {
        Row(array::from_fn(|at| match lines.0[at] > 0.0 {
            true => self.columns[at].hit(distance.0[at]),
            false => 0.0,
        }))
    }

    /// Adds the lines held from `from` on and before `end`.
    #[inline(never)]
    fn add_between(&self, from: usize, end: usize, sum: &mut Row<N>) {
        let (first, last) = (from.div_ceil(BLOCK), end / BLOCK);
        let (near, far) = match first < last {
            true => (from..first * BLOCK, last * BLOCK..end),
            false => (from..end, end..end),
        };
        let mut lines = *sum;
        self.entries[near].iter().for_each(|entry| lines += entry.held);
        self.blocks[first.min(last)..last].iter().for_each(|block| lines += *block);
        self.entries[far].iter().for_each(|entry| lines += entry.held);
        *sum = lines;
    }

    /// Lines held of a set.
    fn held_of(&self, set: u32) -> Row<N> {
        let (mut held, mut place) = (Row::ZERO, self.newest_of(set));
        while place != NONE {
            let entry = &self.entries[place as usize];
            held += entry.held;
            place = entry.older;
        }
        held
    }

    /// The place of the newest part of a set.
    fn newest_of(&self, set: u32) -> u32 {
        self.newest.get(set as usize).copied().unwrap_or(NONE)
    }

    /// The part `part` of each set of a group was used; the rest was not.
    pub fn used(&mut self, space: u32, group: &Group<N>, part: f64) {
        if part <= 0.0 {
            return;
        }
        let part = part.min(1.0);
        if let Some(plenty) = &mut self.plenty {
            return plenty.used(group, part);
        }
        for (set, lines) in group.iter().filter(|(_, lines)| !lines.is_zero()) {
            let place = self.entries.len();
            let held = *lines * Row([part; N]);
            self.entries.push(Entry { held, set: *set, space, older: NONE, before: NONE });
            self.give_out(place);
            match part < 1.0 {
                true => self.age(place, 1.0 - part),
                false => self.leave(place),
            }
        }
        self.forget();
        if self.entries.len() > self.full {
            self.close_up();
        }
    }

    /// Gives a place at the end of the list, or of its compacted part, to its entry.
    #[inline(always)]
    fn give_out(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        entry.older = mem::replace(slot(&mut self.newest, entry.set), place as u32);
        entry.before = mem::replace(slot(&mut self.latest, entry.space), place as u32);
        if place.is_multiple_of(BLOCK) {
            self.blocks.push(Row::ZERO);
        }
        self.blocks[place / BLOCK] += entry.held;
        self.total += entry.held;
    }

    /// Moves all of a set to this place: older places hold none of it.
    fn leave(&mut self, newest: usize) {
        let mut place = mem::replace(&mut self.entries[newest].older, NONE);
        while place != NONE {
            self.hold(place as usize, Row::ZERO);
            place = self.entries[place as usize].older;
        }
    }

    /// Leaves the part `part` of a set at places older than this one: in each column at the place of its oldest lines.
    fn age(&mut self, newest: usize, part: f64) {
        let (mut held, mut oldest) = (Row::ZERO, Row::ZERO);
        let mut place = self.entries[newest].older;
        while place != NONE {
            let entry = &self.entries[place as usize];
            let at = f64::from(place);
            held += entry.held;
            oldest = oldest.with(entry.held, |oldest, held| if held > 0.0 { at } else { oldest });
            place = entry.older;
        }
        let rest = rest(held, part);
        let mut last = newest;
        place = self.entries[newest].older;
        while place != NONE {
            let at = f64::from(place);
            let held = rest.with(oldest, |rest, oldest| if oldest == at { rest } else { 0.0 });
            self.hold(place as usize, held);
            if !held.is_zero() {
                self.entries[last].older = place;
                last = place as usize;
            }
            place = self.entries[place as usize].older;
        }
        self.entries[last].older = NONE;
    }

    /// Sets the lines held at a place.
    fn hold(&mut self, place: usize, lines: Row<N>) {
        let held = &mut self.entries[place].held;
        let more = lines - mem::replace(held, lines);
        self.blocks[place / BLOCK] += more;
        self.total += more;
    }

    /// Drops the lines that lie too far back for any hit.
    fn forget(&mut self) {
        for column in 0..N {
            while self.total.0[column] > self.columns[column].most
                && self.oldest[column] + 1 < self.entries.len()
            {
                self.lose(self.oldest[column], column);
                self.oldest[column] += 1;
            }
        }
    }

    /// Drops the lines that a column holds at a place.
    fn lose(&mut self, place: usize, column: usize) {
        let lines = mem::take(&mut self.entries[place].held.0[column]);
        self.blocks[place / BLOCK].0[column] -= lines;
        self.total.0[column] -= lines;
    }

    /// Drops all entries of this address space from these columns.
    pub fn flush(&mut self, space: u32, columns: Range<usize>) {
        let Some(latest) = self.latest.get_mut(space as usize) else { return };
        let mut place = mem::replace(latest, NONE);
        while place != NONE {
            columns.clone().for_each(|column| self.lose(place as usize, column));
            place = self.entries[place as usize].before;
        }
    }

    /// Drops all entries that are not global from these columns.
    pub fn flush_all(&mut self, columns: Range<usize>) {
        for place in mem::replace(&mut self.flushed, self.entries.len())..self.entries.len() {
            if self.entries[place].space != 0 {
                columns.clone().for_each(|column| self.lose(place, column));
            }
        }
    }

    /// Compacts the list: renumbers the places in order and drops unused ones.
    #[inline(never)]
    fn close_up(&mut self) {
        self.blocks.truncate(1);
        self.blocks[0] = Row::ZERO;
        self.total = Row::ZERO;
        self.newest.fill(NONE);
        self.latest.fill(NONE);
        let mut kept = 1;
        for place in 1..self.entries.len() {
            let entry = self.entries[place];
            if !entry.held.is_zero() {
                self.entries[kept] = entry;
                self.give_out(kept);
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        let first = |at: usize| self.entries.iter().position(|entry| entry.held.0[at] > 0.0);
        self.oldest = array::from_fn(|at| first(at).unwrap_or(kept - 1));
        self.flushed = 0;
        self.full = 4 * kept + 4 * BLOCK;
    }
}

/// The slot of this number in a list, which grows as needed.
fn slot(list: &mut Vec<u32>, number: u32) -> &mut u32 {
    if number as usize >= list.len() {
        return lengthened(list, number);
    }
    &mut list[number as usize]
}

#[cold]
fn lengthened(list: &mut Vec<u32>, number: u32) -> &mut u32 {
    list.resize(number as usize + 1, NONE);
    &mut list[number as usize]
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
    use crate::group::NOTHING;

    /// A list of one column, in which the first of these sets are used together.
    fn group<const M: usize>(sets: [(u32, f64); M]) -> Group<1> {
        array::from_fn(|at| {
            sets.get(at).map_or((0, Row::ZERO), |(set, lines)| (*set, Row([*lines])))
        })
    }

    fn left(list: &Recency<1>, set: u32, lines: f64) -> f64 {
        list.left(&group([(set, lines)]))[0].0[0]
    }

    #[test]
    fn hits_fall_as_the_distance_grows() {
        let cache = Column::new(32_768.0, 8.0);
        let hits: Vec<f64> = (0..100).map(|n| cache.hit(f64::from(n) * 1000.0)).collect();
        assert!(hits.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12), "{hits:?}");
        assert_eq!(cache.hit(0.0), 1.0);
        assert_eq!(cache.hit(1e9), 0.0);
        // Poisson(8) is below 8 in 45.3 % of cases: tables of the distribution.
        assert!((cache.hit(32_768.0) - 0.453).abs() < 0.001);
    }

    #[test]
    fn one_set_is_a_step() {
        let tlb = Column::new(64.0, 64.0);
        assert_eq!((tlb.hit(64.0), tlb.hit(65.0)), (1.0, 0.0));
    }

    #[test]
    fn what_was_not_used_is_not_there() {
        let mut cache = Recency::new([(1024.0, 8.0)]);
        assert_eq!(left(&cache, 1, 10.0), 0.0);
        cache.used(1, &group([(1, 10.0)]), 1.0);
        assert!(left(&cache, 1, 10.0) > 9.99);
        cache.used(2, &group([(2, 100_000.0)]), 1.0);
        assert_eq!(left(&cache, 1, 10.0), 0.0);
    }

    #[test]
    fn a_flush_takes_one_space_or_all_but_global_entries() {
        let mut tlb = Recency::new([(1024.0, 4.0), (1024.0, 4.0)]);
        let lines = |set| (set, Row([5.0, 5.0]));
        let none = (0, Row::ZERO);
        tlb.used(0, &[lines(9), none, none], 1.0);
        tlb.used(1, &[lines(1), none, none], 1.0);
        tlb.used(2, &[lines(2), none, none], 1.0);
        let left = |list: &Recency<2>| {
            let left = list.left(&[lines(1), lines(2), lines(9)]);
            [0, 1].map(|column| left.map(|left| left.0[column].round()))
        };
        assert_eq!(left(&tlb), [[5.0; 3]; 2]);
        tlb.flush(1, 0..1);
        assert_eq!(left(&tlb), [[0.0, 5.0, 5.0], [5.0; 3]]);
        tlb.flush_all(0..1);
        assert_eq!(left(&tlb), [[0.0, 0.0, 5.0], [5.0; 3]]);
    }

    #[test]
    fn a_part_that_is_not_used_ages() {
        let mut cache = Recency::new([(32_768.0, 8.0)]);
        cache.used(1, &group([(1, 1000.0)]), 1.0);
        cache.used(1, &group([(2, 20_000.0)]), 1.0);
        let all_old = left(&cache, 1, 1000.0);
        for _ in 0..10 {
            cache.used(1, &group([(1, 1000.0)]), 0.05);
        }
        let some_new = left(&cache, 1, 1000.0);
        assert!(all_old < some_new && some_new < 1000.0, "{all_old} {some_new}");
        let of_it = |entry: &&Entry<1>| entry.set == 1 && !entry.held.is_zero();
        assert_eq!(cache.entries.iter().filter(of_it).count(), 2);
        cache.used(1, &group([(1, 1000.0)]), 1.0);
        assert!(left(&cache, 1, 1000.0) > 999.0);
    }

    /// A plain column: a list in the order of last use, searched from its end.
    #[derive(Default)]
    struct Plain {
        entries: Vec<(u32, u32, f64)>,
    }

    impl Plain {
        fn left(&self, column: &Column, group: &[(u32, f64); SETS]) -> [f64; SETS] {
            let own: f64 = group.iter().map(|(_, lines)| lines).sum();
            let (mut left, mut others) = ([0.0; SETS], 0.0);
            for (set, _, held) in self.entries.iter().rev() {
                match group.iter().position(|(of, lines)| of == set && *lines > 0.0) {
                    Some(at) => left[at] += held * column.hit(others + own),
                    None => others += held,
                }
            }
            array::from_fn(|at| left[at].min(group[at].1))
        }

        fn used(&mut self, most: f64, space: u32, group: &[(u32, f64); SETS], part: f64) {
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
        /// Each column is a plain list of its own, whatever the others hold.
        #[test]
        fn it_is_what_the_plain_lists_are(
            turns in proptest::collection::vec(
                (0_u32..12, 0_u32..12, 1_u32..=8, 0_u32..20), 1..200),
        ) {
            // Two TLBs, one of them of one set, and a cache, which no flush empties.
            let tlbs = 0..2;
            let mut list = Recency::new([(128.0, 4.0), (16.0, 16.0), (512.0, 8.0)]);
            let mut plain: [Plain; 3] = Default::default();
            let lines = |set: u32| {
                let pages = f64::from(set);
                Row([pages * pages, if set.is_multiple_of(3) { 0.0 } else { pages }, 2.0 * pages * pages])
            };
            for (one, other, part, flush) in turns {
                let other = if one == other { 0 } else { other };
                let unused = ((one + flush) % 12, Row::ZERO);
                let group = [(one, lines(one)), (other, lines(other)), unused];
                let of_column = |column: usize| group.map(|(set, lines)| (set, lines.0[column]));
                let left = list.left(&group);
                for (column, plain) in plain.iter().enumerate() {
                    let wanted = plain.left(&list.columns[column], &of_column(column));
                    for (seen, wanted) in left.map(|left| left.0[column]).into_iter().zip(wanted) {
                        proptest::prop_assert!((seen - wanted).abs() < 1e-6, "{seen} for {wanted}");
                    }
                }
                let part = f64::from(part) / 8.0;
                list.used(one % 3, &group, part);
                for (column, plain) in plain.iter_mut().enumerate() {
                    plain.used(list.columns[column].most, one % 3, &of_column(column), part);
                }
                match flush {
                    0 => list.flush_all(tlbs.clone()),
                    space @ 1..=2 => list.flush(space, tlbs.clone()),
                    _ => {}
                }
                for plain in &mut plain[tlbs.clone()] {
                    plain.entries.retain(|(_, space, _)| match flush {
                        0 => *space == 0,
                        1..=2 => *space != flush,
                        _ => true,
                    });
                }
            }
        }
    }

    #[test]
    fn the_list_stays_short() {
        let mut list = Recency::new([(256.0, 4.0), (64.0, 4.0)]);
        for set in 0..100_000 {
            list.used(1, &[(set, Row([4.0, 16.0])), (0, Row::ZERO), (0, Row::ZERO)], 1.0);
        }
        let live = list.entries.iter().filter(|entry| !entry.held.is_zero()).count();
        assert!(live <= 3 * 256 / 4, "{live}");
        assert!(list.entries.len() <= 4 * (live + 1 + BLOCK), "{}", list.entries.len());
        let mut sum = Row::ZERO;
        list.entries.iter().for_each(|entry| sum += entry.held);
        assert_eq!(sum, list.total);
    }
}
