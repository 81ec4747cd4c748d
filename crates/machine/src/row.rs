// SPDX-License-Identifier: GPL-2.0-only
//! Rows of numbers, with arithmetic on all of them at once.

use std::array;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A number for each TLB or cache of a list: its lines (or pages), as a rule.
// Aligned as vectors of the processor's are.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(16))]
pub struct Row<const N: usize>(pub [f64; N]);

impl<const N: usize> Row<N> {
    /// Nothing in any column.
    pub const ZERO: Self = Row([0.0; N]);

    /// Whether it is [`Self::ZERO`]; no number is negative.
    pub fn is_zero(&self) -> bool {
        !self.0.iter().any(|lines| *lines > 0.0)
    }

    /// The lesser of each pair.
    pub fn min(self, most: Self) -> Self {
        self.with(most, |lines, most| if lines < most { lines } else { most })
    }

    /// Combines each pair by `of`.
    pub fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Row(array::from_fn(|column| of(self.0[column], other.0[column])))
    }
}

impl<const N: usize> Add for Row<N> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
}

impl<const N: usize> Sub for Row<N> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
}

impl<const N: usize> Mul for Row<N> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
}

impl<const N: usize> AddAssign for Row<N> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
