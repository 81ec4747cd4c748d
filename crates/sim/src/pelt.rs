// SPDX-License-Identifier: GPL-2.0-only
//! Load, utilisation and number of runnable tasks, as averages that halve in 32 periods of 1024 µs:
//! kernel/sched/pelt.c.
//!
//! Only additions, multiplications and divisions, so that every machine gets the same numbers.

/// 1024 units of 1024 ns.
const PERIOD_NS: u64 = 1024 * 1024;
/// y with y^32 = 1/2.
const Y: f64 = 0.978_572_062_087_700_1;
/// −ln y, for parts of a period.
const RATE: f64 = std::f64::consts::LN_2 / 32.0;
/// After so many half-lives the average is 0.
const HALVES_MAX: u64 = 40;

/// `struct sched_avg`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Avg {
    at_ns: u64,
    /// Weight times the part of time runnable.
    pub load: f64,
    /// 1024 times the part of time running.
    pub util: f64,
    /// 1024 times the number of runnable tasks.
    pub runnable: f64,
}

impl Avg {
    /// A new task counts as fully loaded (`init_entity_runnable_average`).
    pub fn new(now_ns: u64, weight: u64) -> Self {
        Avg { at_ns: now_ns, load: weight as f64, ..Avg::default() }
    }

    /// The initial estimate for a new task of this weight, on a runqueue with average `rq` and a CPU of this capacity
    /// (`post_init_entity_util_avg`).
    pub fn guess(&mut self, rq: &Avg, weight: u64, capacity: f64) {
        let room = (capacity - rq.util) / 2.0;
        if room > 0.0 {
            let like_others = rq.util * weight as f64 / (rq.load + 1.0);
            self.util = if rq.util < 1.0 { room } else { like_others.min(room) };
        }
        self.runnable = self.util;
    }

    /// Advances to `now_ns`: meanwhile `runnable` tasks of `weight` together were runnable, and one was running or
    /// none.
    pub fn update(&mut self, now_ns: u64, weight: u64, runnable: usize, running: bool) {
        self.update_at(1.0, now_ns, weight, runnable, running);
    }

    /// The same on a CPU that is busy and has `rate` of the greatest capacity: time passes by so much more slowly, so
    /// that a task's utilisation is the same on all CPUs (`update_rq_clock_pelt`).
    pub fn update_at(
        &mut self,
        rate: f64,
        now_ns: u64,
        weight: u64,
        runnable: usize,
        running: bool,
    ) {
        if now_ns <= self.at_ns {
            return;
        }
        let passed_ns = now_ns - self.at_ns;
        let left = decay(if rate == 1.0 { passed_ns } else { (passed_ns as f64 * rate) as u64 });
        let util = if running { 1024.0 } else { 0.0 };
        self.load = self.load * left + weight as f64 * (1.0 - left);
        self.util = self.util * left + util * (1.0 - left);
        self.runnable = self.runnable * left + 1024.0 * runnable as f64 * (1.0 - left);
        self.at_ns = now_ns;
    }

    /// The same with another load.
    pub fn with_load(&self, load: f64) -> Self {
        Avg { load, ..*self }
    }

    /// Its clock has stood until now.
    pub fn skip_to(&mut self, now_ns: u64) {
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// A task's average joins a runqueue's (`attach_entity_load_avg`).
    pub fn add(&mut self, other: &Avg) {
        self.load += other.load;
        self.util += other.util;
        self.runnable += other.runnable;
    }

    /// A task's average leaves a runqueue's (`detach_entity_load_avg`).
    pub fn sub(&mut self, other: &Avg) {
        self.load = (self.load - other.load).max(0.0);
        self.util = (self.util - other.util).max(0.0);
        self.runnable = (self.runnable - other.runnable).max(0.0);
    }
}

/// A task's estimated utilisation after a sleep (`util_est`): made of its utilisation at the ends of its turns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    pub util: f64,
    /// The period of the average that it was last made from: it is made once from each (UTIL_AVG_UNCHANGED).
    made_in: u64,
}

impl Estimate {
    /// UTIL_EST_MARGIN: smaller decreases are ignored.
    const MARGIN: f64 = 10.0;

    /// `util_est_update`: the task goes to sleep. The estimate grows at once, and falls by a quarter of the difference.
    /// It does not fall if the task waited for its CPU. Returns the change.
    pub fn sleeps(&mut self, avg: &Avg) -> f64 {
        let period = avg.at_ns / PERIOD_NS;
        if std::mem::replace(&mut self.made_in, period) == period {
            return 0.0;
        }
        let more = avg.util - self.util;
        let waited = avg.util + Self::MARGIN < avg.runnable;
        let change = match more {
            more if more >= 0.0 => more,
            more if -more < Self::MARGIN || waited => 0.0,
            more => more / 4.0,
        };
        self.util += change;
        change
    }

    /// `task_util_est`.
    pub fn of(&self, avg: &Avg) -> f64 {
        avg.util.max(self.util)
    }
}

/// The factor that is left of an average after this long without activity.
fn decay(ns: u64) -> f64 {
    let periods = ns / PERIOD_NS;
    let halves = periods / 32;
    if halves >= HALVES_MAX {
        return 0.0;
    }
    let whole = (0..periods % 32).fold(1.0 / (1u64 << halves) as f64, |left, _| left * Y);
    let x = (ns % PERIOD_NS) as f64 / PERIOD_NS as f64 * RATE;
    whole * (1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_after_32_periods() {
        assert!((decay(32 * PERIOD_NS) - 0.5).abs() < 1e-9);
        assert!((decay(64 * PERIOD_NS) - 0.25).abs() < 1e-9);
        assert_eq!(decay(10_000_000_000_000), 0.0);
    }

    #[test]
    fn utilisation_estimate_survives_a_sleep() {
        let (mut avg, mut estimate) = (Avg::default(), Estimate::default());
        let at = |periods: u64| periods * PERIOD_NS;
        avg.update(at(32), 1024, 1, true);
        assert!((estimate.sleeps(&avg) - 512.0).abs() < 1.0, "it grows at once");
        avg.update(at(64), 0, 0, false);
        assert!((estimate.of(&avg) - 512.0).abs() < 1.0, "whatever it has slept");
        // The average has halved by now.
        assert!((estimate.sleeps(&avg) + 64.0).abs() < 1.0, "it falls by a quarter");
        assert_eq!(estimate.sleeps(&avg), 0.0, "of the same it is made once");
        let known = estimate.util;
        avg.update(at(96), 1024, 1, false);
        assert!(avg.util + 100.0 < avg.runnable && avg.util < known);
        assert_eq!(estimate.sleeps(&avg), 0.0, "it has waited for its CPU");
    }

    #[test]
    fn steps_of_any_length_come_to_the_same() {
        let (mut long, mut short) = (Avg::default(), Avg::default());
        long.update(50_000_000, 1024, 1, true);
        (1..=500).for_each(|step| short.update(step * 100_000, 1024, 1, true));
        assert!((long.util - short.util).abs() < 2.0, "{long:?} {short:?}");
        assert!(long.util > 600.0 && long.util < 1024.0);
        assert!((long.runnable - long.util).abs() < 1e-6, "{long:?}");
    }

    #[test]
    fn a_new_task_is_taken_for_half_of_what_is_left_or_one_like_the_others() {
        let guessed = |util, load| {
            let mut new = Avg::new(0, 1024);
            new.guess(&Avg { util, load, ..Avg::default() }, 1024, 1024.0);
            new.util
        };
        assert_eq!(guessed(0.0, 0.0), 512.0);
        assert_eq!(guessed(1024.0, 1024.0), 0.0, "nothing is left");
        assert!((guessed(200.0, 1023.0) - 200.0).abs() < 1.0);
    }
}
