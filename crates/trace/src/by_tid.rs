// SPDX-License-Identifier: GPL-2.0-only
//! A map from thread ids that is looked up at every event: two loads, whatever the ids are.
//!
//! A kernel gives ids of up to 4,194,304 (`PID_MAX_LIMIT`), and the ids of one run lie near each other. Places are
//! looked up in pages of ids. A page exists only if one of its ids is in use.

use crate::Tid;

/// Ids of a page.
const PAGE: usize = 256;
/// No place.
const NONE: u32 = u32::MAX;

/// A map from thread ids.
#[derive(Clone)]
pub(crate) struct ByTid<T> {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    entries: Vec<(Tid, T)>,
}

impl<T> Default for ByTid<T> {
    fn default() -> Self {
        ByTid { pages: Vec::new(), entries: Vec::new() }
    }
}

impl<T> ByTid<T> {
    #[inline]
    fn place(&self, tid: Tid) -> Option<usize> {
        let page = self.pages.get(tid as usize / PAGE)?.as_ref()?;
        Some(page[tid as usize % PAGE]).filter(|place| *place != NONE).map(|place| place as usize)
    }

    #[inline]
    pub fn get(&self, tid: Tid) -> Option<&T> {
        self.place(tid).map(|place| &self.entries[place].1)
    }

    #[inline]
    pub fn get_mut(&mut self, tid: Tid) -> Option<&mut T> {
        self.place(tid).map(|place| &mut self.entries[place].1)
    }

    /// The value of `tid`, or else the result of `make`.
    #[inline]
    pub fn get_or_insert_with(&mut self, tid: Tid, make: impl FnOnce() -> T) -> &mut T {
        let place = match self.place(tid) {
            Some(place) => place,
            None => self.insert(tid, make()),
        };
        &mut self.entries[place].1
    }

    #[cold]
    fn insert(&mut self, tid: Tid, value: T) -> usize {
        let at = tid as usize / PAGE;
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at].get_or_insert_with(|| Box::new([NONE; PAGE]));
        page[tid as usize % PAGE] = self.entries.len() as u32;
        self.entries.push((tid, value));
        self.entries.len() - 1
    }

    /// In the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (Tid, &T)> {
        self.entries.iter().map(|(tid, value)| (*tid, value))
    }

    /// In the order in which they came.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// In the order in which they came.
    pub fn into_entries(self) -> Vec<(Tid, T)> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_a_map() {
        let (mut fast, mut plain) = (ByTid::default(), BTreeMap::new());
        for n in 0..1000u32 {
            let tid = n.wrapping_mul(2_654_435_761) % 4_194_304 / (1 + n % 7);
            *fast.get_or_insert_with(tid, || 0) += n;
            *plain.entry(tid).or_insert(0) += n;
        }
        assert!(plain.iter().all(|(tid, value)| fast.get(*tid) == Some(value)));
        assert!((0..10_000).all(|tid| fast.get(tid) == plain.get(&tid)));
        assert_eq!(fast.into_entries().into_iter().collect::<BTreeMap<_, _>>(), plain);
    }
}
