// SPDX-License-Identifier: GPL-2.0-only
//! Clocks of cores: turbo by license level and active cores, and the limit that power sets on them.

use crate::license::{LEVELS, LicenseLaw};

/// The rules of a machine's clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequency {
    /// Greatest clocks.
    pub turbo: Turbo,
    /// How licenses change. None: the part has none, and all code runs at level 0.
    pub license: Option<LicenseLaw>,
    /// The power of its cores, and its limit. None: not known, and never a limit.
    pub power: Option<Power>,
}

impl Frequency {
    /// Number of license levels.
    pub fn levels(&self) -> usize {
        if self.license.is_some() { LEVELS } else { 1 }
    }
}

/// Greatest clock of each license level by the number of active cores of the package.
#[derive(Clone, Debug, PartialEq)]
pub struct Turbo {
    /// With 1 active core, 2, …: GHz of each level. Never empty; the last entry holds for more cores, too.
    by_active: Vec<[f64; LEVELS]>,
}

impl Turbo {
    /// A table of rows: a number of active cores, and GHz of each level with up to so many. None if cores do not rise
    /// from row to row, a clock is not above 0, or a clock rises with cores or level.
    pub fn new(rows: &[(usize, [f64; LEVELS])]) -> Option<Self> {
        let mut by_active: Vec<[f64; LEVELS]> = Vec::new();
        for (cores, ghz) in rows {
            let falls = ghz.windows(2).all(|pair| pair[0] >= pair[1]);
            let last = by_active.last();
            let slower =
                last.is_none_or(|last| last.iter().zip(ghz).all(|(last, own)| last >= own));
            if *cores <= by_active.len() || !falls || !slower || !ghz.iter().all(|ghz| *ghz > 0.0) {
                return None;
            }
            by_active.resize(*cores, *ghz);
        }
        (!by_active.is_empty()).then_some(Turbo { by_active })
    }

    /// GHz of a level with `active` active cores.
    #[inline]
    pub fn ghz(&self, level: u8, active: usize) -> f64 {
        let row = active.clamp(1, self.by_active.len()) - 1;
        self.by_active[row][usize::from(level).min(LEVELS - 1)]
    }

    /// kHz of each level, with 1 active core, with 2, ….
    pub(crate) fn khz(&self) -> Vec<[u32; LEVELS]> {
        let khz = |ghz: &f64| (ghz * 1e6).round() as u32;
        self.by_active.iter().map(|row| row.each_ref().map(khz)).collect()
    }

    /// The greatest number of active cores that it distinguishes.
    pub fn cores(&self) -> usize {
        self.by_active.len()
    }
}

/// Power of a package: a constant part, and for each active core the cube of its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// The package's limit.
    pub limit_w: f64,
    /// The part that does not depend on cores.
    pub base_w: f64,
    /// Power of a core at the machine's `clock_ghz`, by the level of the code that it runs.
    pub core_w: [f64; LEVELS],
}

impl Power {
    /// Power of a core at a clock, given as a part of the machine's.
    pub fn core_w(&self, code: u8, clock: f64) -> f64 {
        self.core_w[usize::from(code).min(LEVELS - 1)] * clock.powi(3)
    }

    /// The greatest common clock, as a part of the machine's, within the limit of a package. Each core runs code of a
    /// level and no faster than its own clock. None: the limit slows no core.
    pub fn clock(&self, cores: &[(u8, f64)]) -> Option<f64> {
        let drawn = |(code, clock): &(u8, f64)| self.core_w(*code, *clock);
        let mut rest = (self.limit_w - self.base_w).max(0.0);
        if cores.iter().map(drawn).sum::<f64>() <= rest {
            return None;
        }
        let mut weight: f64 = cores.iter().map(|(code, _)| self.core_w(*code, 1.0)).sum();
        let mut slowest_first = cores.to_vec();
        slowest_first.sort_by(|a, b| a.1.total_cmp(&b.1));
        // A core slower than the common clock keeps its own, and leaves more power to the others.
        for core in &slowest_first {
            let common = (rest / weight).cbrt();
            if core.1 >= common {
                return Some(common);
            }
            rest -= drawn(core);
            weight -= self.core_w(core.0, 1.0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gold() -> Turbo {
        Turbo::new(&[(2, [3.7, 3.6, 3.5]), (16, [2.8, 2.4, 1.9])]).unwrap()
    }

    #[test]
    fn more_cores_and_wider_code_are_slower() {
        let turbo = gold();
        assert_eq!((turbo.ghz(0, 0), turbo.ghz(0, 2), turbo.ghz(0, 3)), (3.7, 3.7, 2.8));
        assert_eq!((turbo.ghz(2, 16), turbo.ghz(2, 99), turbo.cores()), (1.9, 1.9, 16));
    }

    #[test]
    fn tables_that_make_no_sense_are_none() {
        let row = [2.0, 2.0, 2.0];
        assert_eq!(Turbo::new(&[]), None);
        assert_eq!(Turbo::new(&[(2, row), (2, row)]), None, "no more cores than before");
        assert_eq!(Turbo::new(&[(2, row), (4, [2.0, 2.0, 2.1])]), None, "rises with cores");
        assert_eq!(Turbo::new(&[(2, [2.0, 2.1, 2.0])]), None, "rises with the level");
        assert_eq!(Turbo::new(&[(2, [0.0, 0.0, 0.0])]), None);
    }

    #[test]
    fn a_limit_is_used_up_and_not_exceeded() {
        let power = Power { limit_w: 40.0, base_w: 8.0, core_w: [6.0, 9.0, 14.0] };
        assert_eq!(power.clock(&[(0, 1.0); 4]), None);
        let cores = [(0, 1.0), (0, 1.0), (2, 1.0), (2, 1.0), (0, 0.4)];
        let clock = power.clock(&cores).unwrap();
        let drawn: f64 = cores.iter().map(|(code, own)| power.core_w(*code, own.min(clock))).sum();
        assert!((drawn + power.base_w - power.limit_w).abs() < 1e-9, "{drawn}");
        assert!(clock > 0.4 && clock < 1.0);
    }
}
