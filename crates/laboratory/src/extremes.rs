// SPDX-License-Identifier: GPL-2.0-only
//! The greatest and the least of some values. `f64::max` and `f64::min` would ignore unknown values.

/// The greatest; NaN if a value is NaN. Without values, a number that passes no gate.
pub fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, |most, value| known(most, value, f64::max))
}

/// The least, in the same way.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, |least, value| known(least, value, f64::min))
}

fn known(so_far: f64, value: f64, of: fn(f64, f64) -> f64) -> f64 {
    if so_far.is_nan() || value.is_nan() { f64::NAN } else { of(so_far, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_unknown_makes_the_end_unknown() {
        assert_eq!((greatest([1.0, 3.0, 2.0]), least([2.0, 1.0, 3.0])), (3.0, 1.0));
        for values in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [1.0, 2.0, f64::NAN]] {
            assert!(greatest(values).is_nan() && least(values).is_nan(), "{values:?}");
        }
        assert!(greatest([]).is_infinite() && least([]).is_infinite());
    }
}
