// SPDX-License-Identifier: GPL-2.0-only
//! Speeds from counters: instructions a second on each core type, interval by interval (slide 10).
//!
//! A sample is the number of instructions of a task on a type in an interval, over the CPU time
//! there in which they were counted. Samples that are too short, or faster than any core, are left
//! out; the rest are averaged. The plan ranks tasks by the mean, which changes only when the mean
//! has clearly moved. Guarantees use the upper end of the possible speeds: too low an estimate
//! would break a guarantee, too high a one only costs throughput. An unknown task counts as one
//! that gains most.

use crate::Task;

/// A task's counts on a core type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Retired instructions.
    pub instructions: u64,
    /// The CPU time in which they were counted, in ns.
    pub counted_ns: u64,
    /// CPU time, in ns.
    pub time_ns: u64,
}

impl Counts {
    /// Adds counts from elsewhere.
    pub fn add(&mut self, more: Counts) {
        self.instructions = self.instructions.saturating_add(more.instructions);
        self.counted_ns = self.counted_ns.saturating_add(more.counted_ns);
        self.time_ns = self.time_ns.saturating_add(more.time_ns);
    }

    /// Counts since `before`; None if a counter went backwards: it was reset, or wrapped.
    pub fn since(self, before: Counts) -> Option<Counts> {
        Some(Counts {
            instructions: self.instructions.checked_sub(before.instructions)?,
            counted_ns: self.counted_ns.checked_sub(before.counted_ns)?,
            time_ns: self.time_ns.checked_sub(before.time_ns)?,
        })
    }
}

/// How samples are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Less CPU time on a type than this, in ns, is no sample.
    pub sample_min_ns: u64,
    /// No type is more than this many times as fast as a slower one: other samples are left out.
    pub ratio_max: f64,
    /// This many samples are averaged with equal weight; later ones count `new` each.
    pub alike: u32,
    /// Part of a later sample in the average.
    pub new: f64,
    /// s_max: speeds of an unknown task, fastest type first.
    pub unknown: Vec<f64>,
    /// How many standard deviations the upper end is above the mean.
    pub deviations: f64,
    /// The assumed relative standard deviation of a sample, while there are few.
    pub noise: f64,
    /// The ranking follows the mean once it has moved by this part of itself.
    pub hysteresis: f64,
    /// The frequency of each type, in any unit, if types differ in nothing else. Speeds on
    /// unmeasured types then follow from two measured ones.
    pub frequencies: Option<Vec<f64>>,
}

impl Rules {
    /// Rules for core types with these greatest speeds, fastest type first.
    pub fn new(unknown: Vec<f64>) -> Self {
        Rules {
            sample_min_ns: 1_200_000,
            ratio_max: 1.15 * unknown[0],
            alike: 5,
            new: 0.3,
            unknown,
            deviations: 2.0,
            noise: 0.05,
            hysteresis: 0.02,
            frequencies: None,
        }
    }
}

/// An average of samples with their spread.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Average {
    samples: u32,
    /// Instructions a ns.
    ips: f64,
    /// Mean of squared relative deviations.
    spread: f64,
}

impl Average {
    fn add(&mut self, ips: f64, rules: &Rules) {
        self.samples = self.samples.saturating_add(1);
        let part =
            if self.samples <= rules.alike { 1.0 / f64::from(self.samples) } else { rules.new };
        let change = ips - self.ips;
        self.ips += part * change;
        let deviation = change / self.ips;
        self.spread = (1.0 - part) * (self.spread + part * deviation * deviation);
    }

    /// The relative variance of the average. With few samples some noise is assumed.
    fn variance(&self, rules: &Rules) -> f64 {
        const ASSUMED: f64 = 2.0; // samples that `noise` counts for
        let most = (2.0 - rules.new) / rules.new; // samples in an exponential average
        let samples = f64::from(self.samples).min(most.max(f64::from(rules.alike)));
        let spread = (self.spread * samples + rules.noise.powi(2) * ASSUMED) / (samples + ASSUMED);
        spread / samples
    }
}

/// The estimate of a task's speeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimator {
    averages: Vec<Average>,
    /// Told speeds, until enough was measured.
    profile: Option<Vec<f64>>,
    ranking: Option<Vec<f64>>,
}

impl Estimator {
    /// An estimator without any knowledge, for this many core types.
    pub fn new(types: usize) -> Self {
        Estimator { averages: vec![Average::default(); types], profile: None, ranking: None }
    }

    /// Speeds from a profile, fastest type first, until enough was measured.
    pub fn profiled(speeds: &[f64]) -> Self {
        let known = Some(speeds.to_vec());
        Estimator { profile: known.clone(), ranking: known, ..Estimator::new(speeds.len()) }
    }

    /// Sets told speeds, fastest type first, which hold until enough was measured.
    pub fn tell(&mut self, speeds: &[f64]) {
        self.profile = Some(speeds.to_vec());
        if self.averages.iter().any(|average| average.samples == 0) {
            self.ranking = self.profile.clone();
        }
    }

    /// An estimator for another run of the same program (slide 27): its averages, as two samples at
    /// most.
    pub fn remembered(&self) -> Self {
        let mut again = self.clone();
        again.averages.iter_mut().for_each(|average| average.samples = average.samples.min(2));
        again
    }

    /// An estimator for a child: it ranks like its parent, without a guarantee based on that.
    pub fn descended(&self) -> Self {
        Estimator { ranking: self.ranking.clone(), ..Estimator::new(self.averages.len()) }
    }

    /// Drops all measurements: a counter that failed now may have failed before.
    pub fn forget(&mut self) {
        self.averages.fill(Average::default());
        self.ranking = self.profile.clone();
    }

    /// Whether anything was measured.
    pub fn is_sampled(&self) -> bool {
        self.averages.iter().any(|average| average.samples > 0)
    }

    /// Whether its speeds are known, measured or told.
    pub fn is_known(&self, rules: &Rules) -> bool {
        self.mean(rules).is_some()
    }

    /// Whether its speeds are measured.
    pub fn is_measured(&self, rules: &Rules) -> bool {
        self.all(rules).is_some()
    }

    /// Adds an interval's counts on each type, fastest first. Returns whether any was a sample. A
    /// task that ran and retired nothing on a type measured before has a broken counter: it is
    /// unknown again.
    pub fn update(&mut self, counts: &[Counts], rules: &Rules) -> bool {
        let silent = |(counts, average): (&Counts, &Average)| {
            average.samples > 0 && is_silent(*counts, rules)
        };
        if counts.iter().zip(&self.averages).any(silent) {
            self.forget();
            return false;
        }
        let mut samples: Vec<Option<f64>> =
            counts.iter().map(|counts| sample(*counts, rules)).collect();
        if !is_plausible(&samples, rules) {
            return false;
        }
        samples.resize(self.averages.len(), None);
        for (average, sample) in self.averages.iter_mut().zip(&samples) {
            if let Some(ips) = sample {
                average.add(*ips, rules);
            }
        }
        self.rank(rules);
        samples.iter().any(Option::is_some)
    }

    /// Speeds, fastest type first, 1 on the slowest; None while too few types are measured.
    pub fn mean(&self, rules: &Rules) -> Option<Vec<f64>> {
        let Some(ips) = self.all(rules) else { return self.profile.clone() };
        let slowest = *ips.last()?;
        let mut speeds: Vec<f64> = ips.iter().map(|ips| (ips / slowest).max(1.0)).collect();
        *speeds.last_mut()? = 1.0;
        Some(speeds)
    }

    /// The upper end of the possible speeds; s_max while they are unknown.
    pub fn bound(&self, rules: &Rules) -> Vec<f64> {
        let Some(mut speeds) = self.mean(rules) else { return rules.unknown.clone() };
        let last = speeds.len() - 1;
        let unmeasured = rules.noise.powi(2);
        let of = |number: usize| match self.averages[number].samples {
            0 => self.measured().map(|known| known.variance(rules)).fold(unmeasured, f64::max),
            _ => self.averages[number].variance(rules),
        };
        for (number, speed) in speeds.iter_mut().enumerate().take(last) {
            let deviation = (of(number) + of(last)).sqrt();
            let upper = *speed * (rules.deviations * deviation).exp();
            *speed = upper.min(rules.ratio_max.max(*speed));
        }
        speeds
    }

    /// The task as input of a plan: ranked by its mean, guaranteed by its upper end.
    pub fn task(&self, rules: &Rules) -> Task {
        let unranked = || vec![1.0; self.averages.len()];
        let speeds = self.ranking.clone().unwrap_or_else(unranked);
        Task { bound: Some(self.bound(rules)), ..Task::new(speeds) }
    }

    fn measured(&self) -> impl Iterator<Item = &Average> {
        self.averages.iter().filter(|average| average.samples > 0)
    }

    /// Instructions a ns on every type, measured or inferred.
    fn all(&self, rules: &Rules) -> Option<Vec<f64>> {
        let known: Vec<(usize, f64)> = self
            .averages
            .iter()
            .enumerate()
            .filter(|(_, average)| average.samples > 0)
            .map(|(number, average)| (number, average.ips))
            .collect();
        if known.len() == self.averages.len() {
            return Some(known.into_iter().map(|(_, ips)| ips).collect());
        }
        let (first, last) = (*known.first()?, *known.last()?);
        let mut all = interpolate(rules.frequencies.as_deref()?, first, last)?;
        known.iter().for_each(|(number, ips)| all[*number] = *ips);
        Some(all)
    }

    /// Updates the ranking if the mean has clearly moved.
    fn rank(&mut self, rules: &Rules) {
        let Some(mean) = self.mean(rules) else { return };
        let moved = |held: &Vec<f64>| {
            let pairs = held.iter().zip(&mean);
            pairs.into_iter().any(|(held, mean)| (mean - held).abs() > rules.hysteresis * held)
        };
        if self.ranking.as_ref().is_none_or(moved) {
            self.ranking = Some(mean);
        }
    }
}

/// Whether a task ran for long enough, and nothing was counted.
fn is_silent(counts: Counts, rules: &Rules) -> bool {
    counts.instructions == 0 && counts.time_ns >= rules.sample_min_ns.max(1)
}

/// Instructions a ns; None if there is too little time.
fn sample(counts: Counts, rules: &Rules) -> Option<f64> {
    let enough = counts.counted_ns >= rules.sample_min_ns.max(1) && counts.instructions > 0;
    enough.then(|| counts.instructions as f64 / counts.counted_ns as f64)
}

/// Whether no type was slower than a slower one, or faster than possible.
fn is_plausible(samples: &[Option<f64>], rules: &Rules) -> bool {
    let known: Vec<f64> = samples.iter().flatten().copied().collect();
    known.windows(2).all(|pair| pair[0] >= pair[1] && pair[0] <= rules.ratio_max * pair[1])
}

/// Instructions a ns on every type, if types differ in frequency only and two were measured (type,
/// instructions a ns). An instruction takes C cycles, and a time M that does not depend on the
/// frequency. None: the same type or frequency twice.
pub fn interpolate(frequencies: &[f64], a: (usize, f64), b: (usize, f64)) -> Option<Vec<f64>> {
    let (period_a, period_b) = (1.0 / frequencies.get(a.0)?, 1.0 / frequencies.get(b.0)?);
    if period_a == period_b {
        return None;
    }
    let (time_a, time_b) = (1.0 / a.1, 1.0 / b.1);
    let cycles = ((time_b - time_a) / (period_b - period_a))
        .clamp(0.0, (time_a / period_a).min(time_b / period_b));
    let memory = time_a - cycles * period_a;
    Some(frequencies.iter().map(|frequency| 1.0 / (cycles / frequency + memory)).collect())
}
