// SPDX-License-Identifier: GPL-2.0-only
//! Errors of counters and clocks.
//!
//! Real counts vary from interval to interval for reasons that no model of a program has: interrupts, other data, a
//! multiplexed counter. Noise that is new at each switch would vanish from any average over an interval. So each factor
//! holds for as long as the talk's interval (slide 11), for each kind of core.
//!
//! `scx_bpf_now` is monotonic only on one CPU: the clocks of two CPUs may differ, and policies must cope with that.

/// How long a factor holds.
const HOLDS_NS: u64 = 2_000_000_000;

/// Factors on counts of tasks, normal around 1; and offsets of clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// Standard deviation of a factor.
    pub deviation: f64,
    /// Clocks are ahead by up to this.
    pub clock_skew_ns: u64,
    pub seed: u64,
}

impl Noise {
    /// The factor for this task on this kind of core at this time; one seed gives one factor.
    pub fn factor(&self, task: usize, kind: u16, t_ns: u64) -> f64 {
        if self.deviation == 0.0 {
            return 1.0;
        }
        let place = ((task as u64) << 40) ^ (u64::from(kind) << 32) ^ (t_ns / HOLDS_NS);
        let uniform = |n: u64| {
            (mixed(self.seed ^ mixed(place ^ (n << 60))) >> 11) as f64 / (1u64 << 53) as f64
        };
        // Box and Muller 1958.
        let radius = (-2.0 * (1.0 - uniform(1)).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * uniform(2)).cos();
        (1.0 + self.deviation * normal).max(0.0)
    }

    /// How far this CPU's clock is ahead of the simulation's, ns.
    pub fn ahead_ns(&self, cpu: usize) -> u64 {
        match self.clock_skew_ns {
            0 => 0,
            most_ns => mixed(self.seed ^ mixed(!(cpu as u64))) % (most_ns + 1),
        }
    }
}

/// SplitMix64 (Steele and others 2014): similar inputs give unrelated outputs.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_normal_around_one_and_hold_for_an_interval() {
        let noise = Noise { deviation: 0.05, clock_skew_ns: 0, seed: 7 };
        let all: Vec<f64> = (0..10_000)
            .map(|n| noise.factor(n % 100, (n % 2) as u16, n as u64 / 100 * HOLDS_NS))
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!((mean - 1.0).abs() < 0.003 && (variance.sqrt() - 0.05).abs() < 0.003, "{mean}");
        assert_eq!(noise.factor(3, 1, 0), noise.factor(3, 1, HOLDS_NS - 1));
        assert_ne!(noise.factor(3, 1, 0), noise.factor(3, 1, HOLDS_NS));
        assert_ne!(noise.factor(3, 0, 0), noise.factor(3, 1, 0));
        assert_eq!(Noise { deviation: 0.0, ..noise }.factor(1, 1, 1), 1.0);
    }

    #[test]
    fn clocks_are_ahead_by_up_to_what_is_asked_for() {
        let noise = Noise { deviation: 0.0, clock_skew_ns: 3, seed: 7 };
        let mut seen = [0; 5];
        (0..1000).for_each(|cpu| seen[noise.ahead_ns(cpu) as usize] += 1);
        assert!(seen[..4].iter().all(|times| *times > 150) && seen[4] == 0, "{seen:?}");
        assert_eq!(Noise { clock_skew_ns: 0, ..noise }.ahead_ns(5), 0);
    }
}
