// SPDX-License-Identifier: GPL-2.0-only
//! Filter: turns a thread's varying samples into one rate.
//!
//! The slides show none: each sample counts as it is. The authors' released scheduler keeps ten
//! samples and an accepted rate. The samples' mean replaces that rate if at least five have left it
//! and the mean is far from it.

use std::collections::VecDeque;

use crate::Cuts;

/// How many samples are kept.
pub const SAMPLES: usize = 10;
/// At least this many samples must have left the accepted rate.
pub const LEFT: usize = 5;
/// The samples' mean must be farther from the rate than this, in misses per 1,000 instructions.
pub const FAR: f64 = 3.0;
/// Accepted rates are whole multiples of this.
const STEP: f64 = 1.0;
/// How near a sample is to the accepted rate, as a part of it, if order counts and not class.
const NEAR: f64 = 0.3;

/// How samples become a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The last sample.
    Off,
    /// As the authors' released scheduler has it.
    Clavis,
}

/// When a sample has left the accepted rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leaves {
    /// It is more than 30 % away. A turtle's sample must also be above the devils' cut: DI.
    Rate(Cuts),
    /// It is of another class: DINO.
    Class(Cuts),
}

/// A thread's rate, in misses per 1,000 instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rate {
    accepted: Option<f64>,
    samples: VecDeque<f64>,
}

impl Rate {
    /// The accepted rate; None before the first sample.
    pub fn accepted(&self) -> Option<f64> {
        self.accepted
    }

    /// Adds a sample of one period. Returns whether the accepted rate has changed.
    pub fn sample(&mut self, mpki: f64, filter: Filter, leaves: Leaves) -> bool {
        let before = self.accepted;
        self.samples.truncate(SAMPLES - 1);
        self.samples.push_front(mpki);
        self.accepted = match (filter, before) {
            (Filter::Off, _) => Some(mpki),
            (Filter::Clavis, None) => Some(rounded(mpki)),
            (Filter::Clavis, Some(accepted)) => Some(self.filtered(accepted, leaves)),
        };
        before != self.accepted
    }

    fn filtered(&self, accepted: f64, leaves: Leaves) -> f64 {
        let left = |sample: &&f64| match leaves {
            Leaves::Class(cuts) => cuts.class(**sample) != cuts.class(accepted),
            Leaves::Rate(cuts) if accepted <= cuts.devil => **sample > cuts.devil,
            Leaves::Rate(_) => (**sample - accepted).abs() > NEAR * accepted,
        };
        let mean = self.samples.iter().sum::<f64>() / self.samples.len() as f64;
        match self.samples.iter().filter(left).count() >= LEFT && (mean - accepted).abs() > FAR {
            true => rounded(mean),
            false => accepted,
        }
    }
}

fn rounded(mpki: f64) -> f64 {
    (mpki / STEP).round() * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUTS: Cuts = Cuts { devil: 2.0, super_devil: 100.0 };

    fn after(samples: &[f64], leaves: Leaves) -> (f64, usize) {
        let mut rate = Rate::default();
        let mut changes = 0;
        for sample in samples {
            changes += usize::from(rate.sample(*sample, Filter::Clavis, leaves));
        }
        (rate.accepted().unwrap(), changes - 1)
    }

    #[test]
    fn a_step_is_accepted_once_half_of_the_samples_have_left() {
        let mut samples = vec![1.0; 10];
        samples.extend([40.0; 4]);
        assert_eq!(after(&samples, Leaves::Class(CUTS)), (1.0, 0));
        samples.push(40.0);
        assert_eq!(after(&samples, Leaves::Class(CUTS)), (21.0, 1), "the mean of ten samples");
    }

    #[test]
    fn noise_within_a_class_changes_nothing() {
        let noise: Vec<f64> = (0..200).map(|n| 30.0 + f64::from(n * 37 % 60)).collect();
        assert_eq!(after(&noise, Leaves::Class(CUTS)).1, 0);
        assert!(after(&noise, Leaves::Rate(CUTS)).1 > 0, "DI takes it for a change");
    }

    #[test]
    fn what_is_near_is_no_change() {
        let samples = [&[1.0; 10][..], &[3.9; 10]].concat();
        assert_eq!(after(&samples, Leaves::Class(CUTS)), (1.0, 0), "another class, but 2.9 away");
    }

    #[test]
    fn without_a_filter_each_sample_counts() {
        let mut rate = Rate::default();
        assert_eq!(rate.accepted(), None);
        for sample in [3.0, 70.0, 3.5] {
            assert!(rate.sample(sample, Filter::Off, Leaves::Class(CUTS)));
            assert_eq!(rate.accepted(), Some(sample));
        }
    }
}
