// SPDX-License-Identifier: GPL-2.0-only
//! A set of CPUs.

use std::fmt;

const WORDS: usize = CpuSet::MAX / 64;

/// A set of CPU numbers below [`CpuSet::MAX`]. Cheap to copy.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// One more than the highest CPU number.
    pub const MAX: usize = 512;

    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet { words: [0; WORDS] };

    /// The CPUs `0..n`.
    pub fn first(n: usize) -> Self {
        (0..n).collect()
    }

    /// Whether `cpu` is in it.
    #[inline]
    pub fn has(&self, cpu: usize) -> bool {
        cpu < Self::MAX && self.words[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Puts `cpu` in.
    #[inline]
    pub fn add(&mut self, cpu: usize) {
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Takes `cpu` out.
    #[inline]
    pub fn remove(&mut self, cpu: usize) {
        self.words[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is exactly one.
    #[inline]
    pub fn is_one(&self) -> bool {
        let mut there = self.words.iter().filter(|word| **word != 0);
        there.next().is_some_and(|word| word.is_power_of_two()) && there.next().is_none()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The lowest of them.
    #[inline]
    pub fn lowest(&self) -> Option<usize> {
        let at = self.words.iter().position(|word| *word != 0)?;
        Some(at * 64 + self.words[at].trailing_zeros() as usize)
    }

    /// Whether the sets have a CPU in common.
    #[inline]
    pub fn meets(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).fold(0, |all, (a, b)| all | a & b) != 0
    }

    /// The CPUs in both.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & b)
    }

    /// The CPUs in either.
    #[inline]
    #[must_use]
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a | b)
    }

    /// The CPUs not in `other`.
    #[inline]
    #[must_use]
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether every one of them is in `other`.
    #[inline]
    pub fn within(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    /// From low to high.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let set = *self;
        (0..WORDS).flat_map(move |at| {
            let mut word = set.words[at];
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// From `start` upwards and then from 0, as the kernel's `for_each_cpu_wrap`.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let (set, split) = (*self, start);
        set.iter()
            .filter(move |cpu| *cpu >= split)
            .chain(set.iter().take_while(move |cpu| *cpu < split))
    }

    /// The first of them from `start` upwards and then from 0, as the kernel's `cpumask_next_wrap`.
    #[inline]
    pub fn next_from(&self, start: usize) -> Option<usize> {
        let (first, bit) = (start / 64, start % 64);
        let Some(word) = self.words.get(first).map(|word| word >> bit << bit) else {
            return self.lowest();
        };
        if word != 0 {
            return Some(first * 64 + word.trailing_zeros() as usize);
        }
        let later = (first + 1..WORDS).find(|at| self.words[*at] != 0);
        match later {
            Some(at) => Some(at * 64 + self.words[at].trailing_zeros() as usize),
            None => self.lowest(),
        }
    }

    /// As 64-bit words, lowest first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    fn zip(&self, other: &CpuSet, f: impl Fn(u64, u64) -> u64) -> CpuSet {
        CpuSet { words: std::array::from_fn(|at| f(self.words[at], other.words[at])) }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = CpuSet::EMPTY;
        cpus.into_iter().for_each(|cpu| set.add(cpu));
        set
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_set().entries(self.iter()).finish()
    }
}
