// SPDX-License-Identifier: GPL-2.0-only
//! Guaranteed fairness (slide 23; Van Craeynest and others, PACT'13): each interval, of 1 ms there,
//! uses the shares of either max-fair or max-perf.

use crate::metrics::{Deviation, uniformity};

/// The policy whose shares hold in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Even shares.
    MaxFair,
    /// The fast cores to the tasks that gain most.
    MaxPerf,
}

/// Progress so far, and what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuaranteedFair {
    threshold: f64,
    deviation: Deviation,
    progress: Vec<f64>,
}

impl GuaranteedFair {
    /// θ, from 0 to 1, and the number of tasks; no task has made progress yet.
    pub fn new(threshold: f64, tasks: usize, deviation: Deviation) -> Self {
        GuaranteedFair { threshold, deviation, progress: vec![0.0; tasks] }
    }

    /// Adds each task's progress in an interval, as a part of what the base would have reached in
    /// it.
    pub fn step(&mut self, relative: &[f64]) -> Mode {
        self.progress.iter_mut().zip(relative).for_each(|(all, new)| *all += new);
        self.decide(self.uniformity())
    }

    /// Uniformity of all progress so far.
    pub fn uniformity(&self) -> f64 {
        uniformity(&self.progress, self.deviation)
    }

    /// The next interval's mode at a uniformity.
    pub fn decide(&self, uniformity: f64) -> Mode {
        if uniformity < self.threshold { Mode::MaxFair } else { Mode::MaxPerf }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slide_23_alternates_as_printed() {
        let machine = GuaranteedFair::new(0.85, 2, Deviation::Sample);
        let printed = [0.93, 0.86, 0.79, 0.83, 0.87, 0.80, 0.85];
        let modes = printed.map(|uniformity| machine.decide(uniformity));
        use Mode::{MaxFair, MaxPerf};
        assert_eq!(modes, [MaxPerf, MaxPerf, MaxFair, MaxFair, MaxPerf, MaxFair, MaxPerf]);
    }
}
