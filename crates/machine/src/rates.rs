// SPDX-License-Identifier: GPL-2.0-only
//! The speed of a task by the kind of its core.

/// Work rate of a task on a core, relative to its rate on the reference CPU; above 0 and at most 1.
///
/// `core_rate` is the core's speed without stalls (its frequency, say). `stalled` is the part of the task's time on the
/// reference CPU that takes as long on any core, because it waits for memory:
///
/// ```text
/// time = (1 − stalled) / core_rate + stalled
/// ```
///
/// Koala (Snowdon and others, EuroSys 2009) splits time into the same two parts: one scales with frequency and one does
/// not. The min-fair talk names it for cores that differ in frequency (slide 19).
#[inline]
pub fn task_rate(core_rate: f64, stalled: f64) -> f64 {
    contended_rate(core_rate, stalled, 0.0)
}

/// The same with stalls that take longer by the part `longer`, because other tasks press on the cache. A run of 1 s on
/// the reference CPU alone takes `(1 − stalled) / core_rate + stalled · (1 + longer)`.
///
/// The talk leaves the effect of shared caches out (slide 20). Zhuravlev and others (ASPLOS 2010) found the co-runners'
/// cache traffic to be the best predictor of a program's slowdown.
#[inline]
pub fn contended_rate(core_rate: f64, stalled: f64, longer: f64) -> f64 {
    match stalled == 0.0 {
        true => core_rate,
        false => 1.0 / ((1.0 - stalled) / core_rate + stalled * (1.0 + longer)),
    }
}

/// The speeds of a task on cores of these rates, relative to its speed on the last, the slowest.
pub fn speeds(core_rates: &[f64], stalled: f64) -> Vec<f64> {
    let slowest = core_rates.last().map_or(1.0, |rate| task_rate(*rate, stalled));
    core_rates.iter().map(|rate| task_rate(*rate, stalled) / slowest).collect()
}

/// The part of its time that a task must be stalled to be `speedup` times as fast on the reference CPU as on a core of
/// this rate; None if no part makes it so.
pub fn stalled_for(speedup: f64, core_rate: f64) -> Option<f64> {
    let most = 1.0 / core_rate - 1.0;
    let stalled = 1.0 - (speedup - 1.0) / most;
    (most > 0.0 && (0.0..=1.0).contains(&stalled)).then_some(stalled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slide 20 of the min-fair talk: speedups from 1.7 to 3.5 where one core is 3.5 times as fast.
    #[test]
    fn what_waits_gains_less() {
        let slow = 0.8 / 2.8;
        assert!((1.0 / task_rate(slow, 0.0) - 3.5).abs() < 1e-12);
        assert!((1.0 / task_rate(slow, 0.72) - 1.7).abs() < 1e-12);
        assert_eq!(task_rate(slow, 1.0), 1.0);
        let stalled = stalled_for(1.7, slow).unwrap();
        assert!((stalled - 0.72).abs() < 1e-12);
        assert_eq!((stalled_for(3.6, slow), stalled_for(2.0, 1.0)), (None, None));
    }
}
