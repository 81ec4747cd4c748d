// SPDX-License-Identifier: GPL-2.0-only
//! Statistics of short repetitions on a machine that others use too.

/// Statistics of repetitions: their median, and their quartiles as the spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Half of them are below.
    pub median: f64,
    /// A quarter of them are below.
    pub low: f64,
    /// Three quarters of them are below.
    pub high: f64,
}

impl Reading {
    /// None without samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|it| it.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |quarters: usize| {
            let place = last as f64 * quarters as f64 / 4.0;
            let (below, part) = (place.floor() as usize, place.fract());
            sorted[below] + (sorted[(below + 1).min(last)] - sorted[below]) * part
        };
        Some(Reading { median: at(2), low: at(1), high: at(3) })
    }

    /// The same in another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Reading { median, low, high } = self;
        Reading { median: factor * median, low: factor * low, high: factor * high }
    }

    /// The difference to another reading, never below 0; the spreads add up.
    #[must_use]
    pub fn less(self, other: &Reading) -> Self {
        Reading {
            median: (self.median - other.median).max(0.0),
            low: (self.low - other.high).max(0.0),
            high: (self.high - other.low).max(0.0),
        }
    }
}

/// Repetitions made together, and the time of a fixed piece of work beside them, which shows how fast the machine was
/// then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The repetitions.
    pub samples: Vec<f64>,
    /// The fixed piece of work, in ns.
    pub canary_ns: f64,
}

/// A batch is left out if its fixed work took longer than this multiple of the session's usual: another task was at
/// work on the same core.
const SLOWER: f64 = 1.08;

/// All samples of the undisturbed batches, or of the least disturbed one. `usual_ns` is the usual time of the fixed
/// work in the session.
pub fn merged(batches: &[Batch], usual_ns: f64) -> Vec<f64> {
    let calm = |batch: &&Batch| batch.canary_ns <= SLOWER * usual_ns;
    let samples: Vec<f64> =
        batches.iter().filter(calm).flat_map(|batch| &batch.samples).copied().collect();
    if !samples.is_empty() {
        return samples;
    }
    let least = batches.iter().min_by(|a, b| a.canary_ns.total_cmp(&b.canary_ns));
    least.map_or(Vec::new(), |batch| batch.samples.clone())
}

/// Times that the calling thread was preempted.
fn disturbances() -> i64 {
    // SAFETY: the call writes the struct it is given, of which zeros are a value
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

/// So many undisturbed repetitions. Empty if the CPU is never left alone for long enough.
pub(super) fn repeat(wanted: usize, mut once: impl FnMut() -> f64) -> Vec<f64> {
    const TRIES: usize = 4;
    let mut samples = Vec::with_capacity(wanted);
    once();
    for _ in 0..TRIES * wanted {
        let before = disturbances();
        let sample = once();
        if disturbances() == before {
            samples.push(sample);
        }
        if samples.len() == wanted {
            break;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_linear_between_samples() {
        let reading = Reading::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((reading.low, reading.median, reading.high), (1.75, 2.5, 3.25));
        assert_eq!(Reading::of(&[7.0]).map(|it| (it.low, it.high)), Some((7.0, 7.0)));
        assert_eq!(Reading::of(&[]), None);
        assert_eq!(Reading::of(&[f64::NAN]), None);
    }

    #[test]
    fn a_difference_is_never_negative_and_its_spread_is_wider() {
        let (a, b) = (Reading::of(&[4.0, 6.0]).unwrap(), Reading::of(&[1.0, 3.0]).unwrap());
        let both = a.less(&b);
        assert_eq!(both.median, 3.0);
        assert!(both.low <= 2.0 && both.high >= 4.0);
        assert_eq!(b.less(&a).median, 0.0);
        assert_eq!(a.times(2.0).median, 10.0);
    }

    #[test]
    fn disturbed_batches_do_not_count_unless_there_are_no_others() {
        let batch = |sample, canary_ns| Batch { samples: vec![sample], canary_ns };
        let batches = [batch(1.0, 100.0), batch(9.0, 150.0), batch(2.0, 104.0)];
        assert_eq!(merged(&batches, 100.0), [1.0, 2.0]);
        assert_eq!(merged(&batches, 50.0), [1.0], "the least disturbed one");
        assert!(merged(&[], 100.0).is_empty());
    }
}
