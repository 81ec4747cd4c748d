// SPDX-License-Identifier: GPL-2.0-only
//! The frequency license of a core: power-hungry vector code requests a lower clock, and keeps it for a while.
//!
//! A request goes up one level at a time. Until the voltage is there, the core issues wide instructions at a part of
//! its rate (throttled). It stands still while the clock changes (halted), and then goes on. A level is given back when
//! no thread has needed it for the release time. Observed so on Skylake-X and Skylake-W by Downs ("Gathering Intel on
//! Intel AVX-512 Transitions", 2020) and Khalil (thesis, KIT 2018).

/// Levels of vector code, and of licenses: 0 scalar, 1 heavy 256-bit or light 512-bit, 2 heavy 512-bit.
pub const LEVELS: usize = 3;

const NEVER: u64 = u64::MAX;

/// How a core's license changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LicenseLaw {
    /// From the last instruction that needs a level until it is given back.
    pub release_ns: u64,
    /// From a request until the voltage is there.
    pub throttle_ns: u64,
    /// How long the core stands still while the clock changes.
    pub halt_ns: u64,
    /// Rate of a thread that waits for a higher level, relative to its own rate.
    pub throttle_rate: f64,
}

/// The state of a core.
///
/// ```text
/// Steady --needs more--> Throttled --voltage--> Halted --clock--> Steady, a level up
/// Steady --release time over-------------------> Halted --clock--> Steady, down to what is needed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Runs at its level.
    Steady,
    /// Waits for the voltage of the next level, until this time.
    Throttled(u64),
    /// Changes its clock to this level, until this time.
    Halted(u8, u64),
}

/// The license of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct License {
    level: u8,
    phase: Phase,
    demand: u8,
    /// Until when each level is needed, or kept after the need has ended.
    held_until_ns: [u64; LEVELS],
}

impl Default for License {
    fn default() -> Self {
        License { level: 0, phase: Phase::Steady, demand: 0, held_until_ns: [NEVER, 0, 0] }
    }
}

impl License {
    /// The level of the core's clock.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The core's state.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Rate of a thread of the core that now needs `demand`, relative to its rate at the core's clock.
    pub fn rate(&self, demand: u8, law: &LicenseLaw) -> f64 {
        match self.phase {
            Phase::Throttled(_) if demand > self.level => law.throttle_rate,
            Phase::Halted(..) => 0.0,
            _ => 1.0,
        }
    }

    /// From `now_ns` on the threads of the core need this level. Returns when to call [`License::pass`] next.
    pub fn demand(&mut self, now_ns: u64, demand: u8, law: &LicenseLaw) -> Option<u64> {
        self.pass(now_ns, law);
        for level in 1..LEVELS {
            let (needed, needs) = (self.demand as usize >= level, demand as usize >= level);
            if needs {
                self.held_until_ns[level] = NEVER;
            } else if needed {
                self.held_until_ns[level] = now_ns + law.release_ns;
            }
        }
        self.demand = demand;
        self.pass(now_ns, law)
    }

    /// Time passes until `now_ns`. Returns the time of the next change, if the demand stays the same.
    pub fn pass(&mut self, now_ns: u64, law: &LicenseLaw) -> Option<u64> {
        let mut at_ns = None;
        loop {
            match self.phase {
                Phase::Throttled(until_ns) | Phase::Halted(_, until_ns) if until_ns > now_ns => {
                    return Some(until_ns);
                }
                Phase::Throttled(until_ns) => {
                    self.phase = Phase::Halted(self.level + 1, until_ns + law.halt_ns);
                }
                Phase::Halted(level, until_ns) => {
                    self.level = level;
                    self.phase = Phase::Steady;
                    at_ns = Some(until_ns);
                }
                Phase::Steady => {
                    // After a change that ended in the past, the next one begins at that time, not now.
                    let wanted = self.wanted(at_ns.unwrap_or(now_ns));
                    if wanted > self.level {
                        self.phase = Phase::Throttled(at_ns.unwrap_or(now_ns) + law.throttle_ns);
                    } else if let Some(free_ns) = self.given_back(now_ns) {
                        let from_ns = at_ns.map_or(free_ns, |at_ns| at_ns.max(free_ns));
                        let to = self.wanted(from_ns);
                        self.phase = Phase::Halted(to, from_ns + law.halt_ns);
                    } else {
                        return self.next_release();
                    }
                }
            }
        }
    }

    /// The highest level that is needed, or still kept, at a time.
    fn wanted(&self, at_ns: u64) -> u8 {
        (0..LEVELS).rev().find(|level| self.held_until_ns[*level] > at_ns).unwrap_or(0) as u8
    }

    /// When the release of the present level was due, if that has passed.
    fn given_back(&self, now_ns: u64) -> Option<u64> {
        let until_ns = self.held_until_ns[usize::from(self.level)];
        (until_ns <= now_ns).then_some(until_ns)
    }

    fn next_release(&self) -> Option<u64> {
        let until_ns = self.held_until_ns[usize::from(self.level)];
        (until_ns != NEVER).then_some(until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: LicenseLaw = LicenseLaw {
        release_ns: 675_000,
        throttle_ns: 14_600,
        halt_ns: 10_000,
        throttle_rate: 0.25,
    };

    #[test]
    fn a_request_for_the_highest_goes_by_way_of_the_middle() {
        let mut license = License::default();
        assert_eq!(license.demand(1_000, 2, &LAW), Some(15_600));
        assert_eq!((license.rate(2, &LAW), license.rate(0, &LAW)), (0.25, 1.0));
        assert_eq!(license.pass(15_600, &LAW), Some(25_600));
        assert_eq!(license.rate(0, &LAW), 0.0, "nothing runs while the clock changes");
        assert_eq!(license.pass(25_600, &LAW), Some(40_200));
        assert_eq!(license.level(), 1);
        license.pass(50_200, &LAW);
        assert_eq!((license.level(), license.phase()), (2, Phase::Steady));
    }

    #[test]
    fn level_outlives_the_need_for_it() {
        let mut license = License::default();
        license.demand(0, 2, &LAW);
        license.pass(1_000_000, &LAW);
        assert_eq!(license.demand(1_000_000, 0, &LAW), Some(1_675_000));
        license.pass(1_674_999, &LAW);
        assert_eq!((license.level(), license.phase()), (2, Phase::Steady));
        assert_eq!(license.pass(1_675_000, &LAW), Some(1_685_000));
        assert_eq!(license.pass(1_685_000, &LAW), None);
        assert_eq!(license.level(), 0, "both levels were needed last at the same time");
    }

    /// A level needed once in 0.6 ms is kept for ever.
    #[test]
    fn a_touch_before_the_release_keeps_the_level() {
        let mut license = License::default();
        for at in 0..100 {
            license.demand(at * 600_000, 2, &LAW);
            license.demand(at * 600_000 + 1_000, 0, &LAW);
            license.pass(at * 600_000 + 599_000, &LAW);
            assert_eq!(license.level(), 2, "touch {at}");
        }
    }
}
