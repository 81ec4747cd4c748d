// SPDX-License-Identifier: GPL-2.0-only
//! How often a CPU looks for tasks elsewhere before it idles: in proportion to its successes.

/// A CPU's record of such passes over one of its domains (`struct sched_domain`).
#[derive(Clone, Debug)]
pub(super) struct NewIdle {
    calls: u32,
    successes: u32,
    /// Passes made, of 1,024.
    ratio: u32,
    stamp_ns: u64,
}

impl NewIdle {
    /// As `sd_init` leaves it.
    pub fn new() -> Self {
        NewIdle { calls: 512, successes: 256, ratio: 512, stamp_ns: 0 }
    }

    /// NI_RANDOM: whether a pass is made, and if so how many passes it stands for.
    pub fn dice(&mut self, now_ns: u64, random: u32) -> Option<u32> {
        if self.ratio >= 1024 {
            return Some(1);
        }
        let weight = 1 + self.ratio;
        if random % 1024 > weight {
            self.count(now_ns, 0);
            return None;
        }
        Some((1024 + weight / 2) / weight)
    }

    /// `update_newidle_stats`, with NI_RATE: passes that are rare are always made.
    pub fn count(&mut self, now_ns: u64, successes: u32) {
        self.calls += 1;
        self.successes += successes;
        if self.calls >= 1024 {
            let rarity = now_ns.saturating_sub(self.stamp_ns) >> 22;
            self.ratio = (rarity as u32).saturating_add(self.successes).min(1024);
            self.stamp_ns = now_ns;
            self.calls /= 2;
            self.successes /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of passes made, of those asked for: `every_ns` apart, each successful or none.
    fn made(every_ns: u64, successful: bool) -> f64 {
        let mut newidle = NewIdle::new();
        let calls = 20_000;
        let count = |call: u64| {
            let now_ns = call * every_ns;
            let random = (call as u32).wrapping_mul(2_654_435_761) >> 16;
            let weight = newidle.dice(now_ns, random);
            if let Some(weight) = weight {
                newidle.count(now_ns, if successful { weight } else { 0 });
            }
            u32::from(weight.is_some())
        };
        f64::from((0..calls).map(count).sum::<u32>()) / calls as f64
    }

    #[test]
    fn passes_that_find_nothing_become_rare() {
        let often_ns = 10_000;
        assert!(made(often_ns, false) < 0.1, "{}", made(often_ns, false));
        assert!(made(often_ns, true) > 0.7, "{}", made(often_ns, true));
    }

    #[test]
    fn rare_passes_are_always_made() {
        let rarely_ns = 10_000_000;
        assert!(made(rarely_ns, false) > 0.9, "{}", made(rarely_ns, false));
    }
}
