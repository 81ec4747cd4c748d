// SPDX-License-Identifier: GPL-2.0-only
//! What a user wants of a run, as a text: `speed`, `p99:web`, `throughput s.t. p99 <= 5ms`.

use std::fmt;
use std::str::FromStr;

use report::text::{digits, time};

use crate::measured::{Measured, WAIT_LEAST_NS};

/// A program that did nothing counts as if it had done this part of what it did elsewhere.
const WORK_LEAST: f64 = 1e-9;

/// What a run is judged by, and what it has to keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    quantity: Quantity,
    limits: Vec<Limit>,
    text: String,
}

/// A quantity, of one program or of all.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    what: What,
    of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The geometric mean over programs of their work, or the time of a job that ends.
    Speed,
    /// Time from start to end.
    Elapsed,
    /// Work in a second, or runs in a second of a job that ends.
    Throughput,
    /// A quantile of the waits for a CPU; 1: the longest.
    Wait(Quantile),
    /// Context switches.
    Switches,
    /// Moves from a CPU to another.
    Migrations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantile {
    Median,
    P95,
    P99,
    Longest,
}

/// The names of quantities.
const NAMES: [(&str, What); 9] = [
    ("speed", What::Speed),
    ("elapsed", What::Elapsed),
    ("throughput", What::Throughput),
    ("p50", What::Wait(Quantile::Median)),
    ("p95", What::Wait(Quantile::P95)),
    ("p99", What::Wait(Quantile::P99)),
    ("longest", What::Wait(Quantile::Longest)),
    ("switches", What::Switches),
    ("migrations", What::Migrations),
];

/// A bound that a run has to keep.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    quantity: Quantity,
    at_most: bool,
    bound: f64,
    text: String,
}

/// Why a text is no objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoObjective(String);

impl fmt::Display for NoObjective {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Objective {
    type Err = NoObjective;

    fn from_str(text: &str) -> Result<Self, NoObjective> {
        let (goal, limits) = match text.split_once("s.t.") {
            Some((goal, limits)) => (goal, limits.split(" and ").map(Limit::read).collect()),
            None => (text, Ok(Vec::new())),
        };
        Ok(Objective { quantity: Quantity::read(goal)?, limits: limits?, text: words(text) })
    }
}

impl Quantity {
    fn read(text: &str) -> Result<Self, NoObjective> {
        let (name, of) = match text.trim().split_once(':') {
            Some((name, of)) => (name.trim(), Some(of.trim().to_string())),
            None => (text.trim(), None),
        };
        let what = NAMES.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        let what = what.ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            let energy = match name {
                "joules" => "sim does not know energy; ",
                _ => "",
            };
            NoObjective(format!(
                "`{name}` cannot be measured; {energy}there are: {}",
                known.join(", ")
            ))
        })?;
        let of_one = matches!(what, What::Speed | What::Throughput | What::Wait(_));
        match of {
            Some(program) if program.is_empty() => {
                Err(NoObjective(format!("`{name}:` names no program; write {name}:PROGRAM")))
            }
            Some(_) if !of_one => {
                Err(NoObjective(format!("{name} is of the whole run; write {name} alone")))
            }
            of => Ok(Quantity { what, of }),
        }
    }

    /// Whether it is a time, s.
    fn is_time(&self) -> bool {
        matches!(self.what, What::Elapsed | What::Wait(_))
    }

    /// Whether less of it is better.
    fn is_cost(&self) -> bool {
        !matches!(self.what, What::Speed | What::Throughput)
    }

    /// Its value in a run. None: it was not observed, such as waits of a program that never waited.
    fn value(&self, run: &Measured) -> Option<f64> {
        let wait = |which: Quantile| {
            let waits = match &self.of {
                Some(program) => &run.programs.get(program)?.wait,
                None => &run.wait,
            };
            let ns = match which {
                Quantile::Median => waits.p50_ns,
                Quantile::P95 => waits.p95_ns,
                Quantile::P99 => waits.p99_ns,
                Quantile::Longest => waits.max_ns,
            };
            Some(ns.max(WAIT_LEAST_NS) as f64 / 1e9)
        };
        let elapsed_s = run.elapsed_ns as f64 / 1e9;
        match self.what {
            What::Elapsed => Some(elapsed_s),
            // A ratio to none tells nothing.
            What::Switches => Some(run.switches.max(1) as f64),
            What::Migrations => Some(run.migrations.max(1) as f64),
            What::Wait(which) => wait(which),
            What::Speed | What::Throughput => {
                let work = |program: &str| run.programs.get(program)?.work;
                let work = match &self.of {
                    Some(program) => Some(work(program)?),
                    None => run.work(),
                };
                Some(work.unwrap_or(1.0) / elapsed_s.max(1e-9))
            }
        }
    }
}

impl Limit {
    fn read(text: &str) -> Result<Self, NoObjective> {
        let signs = [("<=", true), ("≤", true), (">=", false), ("≥", false)];
        let found = signs.iter().find_map(|(sign, at_most)| {
            text.split_once(sign).map(|(quantity, bound)| (quantity, bound.trim(), *at_most))
        });
        let Some((quantity, bound, at_most)) = found else {
            let text = text.trim();
            return Err(NoObjective(format!("`{text}` is no limit; write such as p99 <= 5ms")));
        };
        let text = words(text);
        let quantity = Quantity::read(quantity)?;
        let value = match quantity.is_time() {
            true => humantime::parse_duration(bound).ok().map(|time| time.as_secs_f64()),
            false => bound.parse().ok().filter(|number: &f64| number.is_finite()),
        };
        let form = if quantity.is_time() { "a time such as 5ms" } else { "a number" };
        let bound = value.ok_or_else(|| NoObjective(format!("`{bound}`: expected {form}")))?;
        Ok(Limit { quantity, at_most, bound, text })
    }

    /// How a run breaks it. None: it does not.
    fn broken_by(&self, run: &Measured) -> Option<String> {
        let value = self.quantity.value(run);
        let holds = |value: f64| match self.at_most {
            true => value <= self.bound,
            false => value >= self.bound,
        };
        match value {
            Some(value) if holds(value) => None,
            Some(value) => {
                let value = if self.quantity.is_time() { time(value) } else { digits(value) };
                Some(format!("it breaks {}: {value}", self.text))
            }
            None => Some(format!("it has no figure for {}", self.text)),
        }
    }
}

/// A text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Objective {
    /// Whether a run keeps all limits.
    pub fn holds(&self, run: &Measured) -> bool {
        self.broken_by(run).is_none()
    }

    /// How a run breaks a limit. None: it keeps all.
    pub fn broken_by(&self, run: &Measured) -> Option<String> {
        self.limits.iter().find_map(|limit| limit.broken_by(run))
    }

    /// Whether it has limits.
    pub fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// How many times as good a run is as another with the same seed; above 1 is better. None: one of them does not
    /// have the quantity.
    pub fn ratio(&self, own: &Measured, base: &Measured) -> Option<f64> {
        if self.quantity.what == What::Speed && self.quantity.of.is_none() {
            return Some(own.speed_against(base));
        }
        let base_value = self.quantity.value(base)?;
        let did_nothing = || self.starved(own, base).then_some(base_value * WORK_LEAST);
        let own_value = did_nothing().or_else(|| self.quantity.value(own))?;
        let ratio = match self.quantity.is_cost() {
            true => base_value / own_value,
            false => own_value / base_value,
        };
        Some(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    }

    /// Whether the programs that it is about did something in the other run, and nothing in this one.
    fn starved(&self, own: &Measured, base: &Measured) -> bool {
        let work = |run: &Measured| match &self.quantity.of {
            Some(program) => run.programs.get(program).and_then(|of| of.work),
            None => run.work(),
        };
        !self.quantity.is_cost() && work(own).is_none() && work(base).is_some()
    }

    /// The programs that it names.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let quantities = std::iter::once(&self.quantity);
        let all = quantities.chain(self.limits.iter().map(|limit| &limit.quantity));
        all.filter_map(|quantity| quantity.of.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{OfProgram, Waits};

    fn run(elapsed_ns: u64, web_p99_ns: u64, work: Option<f64>) -> Measured {
        let wait = Waits { p99_ns: web_p99_ns, ..Waits::default() };
        let web = OfProgram { work, wait, ..OfProgram::default() };
        Measured { elapsed_ns, programs: [("web".into(), web)].into(), ..Measured::default() }
    }

    fn objective(text: &str) -> Objective {
        text.parse().unwrap()
    }

    #[test]
    fn more_is_better_of_speed_and_less_of_time() {
        let (slow, fast) = (run(2_000, 5_000, None), run(1_000, 20_000, None));
        assert_eq!(objective("speed").ratio(&fast, &slow), Some(2.0));
        assert_eq!(objective("elapsed").ratio(&fast, &slow), Some(2.0));
        assert_eq!(objective("throughput").ratio(&fast, &slow), Some(2.0));
        assert_eq!(objective("p99:web").ratio(&fast, &slow), Some(0.25));
        assert_eq!(objective("p99:db").ratio(&fast, &slow), None);
        assert_eq!(objective("switches").ratio(&fast, &slow), Some(1.0));
        let none = Measured { switches: 0, ..slow.clone() };
        let some = Measured { switches: 8, ..slow.clone() };
        assert_eq!(objective("switches").ratio(&none, &some), Some(8.0), "none is not perfect");
        let (starved, fed) = (run(1_000, 0, None), run(1_000, 0, Some(4.0)));
        assert!(objective("throughput:web").ratio(&starved, &fed).unwrap() < 1e-6);
        let (less, more) = (run(1_000, 0, Some(4.0)), run(1_000, 0, Some(6.0)));
        assert_eq!(objective("throughput:web").ratio(&more, &less), Some(1.5));
    }

    #[test]
    fn a_limit_is_kept_or_not() {
        let objective = objective("throughput  s.t. p99:web <= 5us and elapsed ≥ 1us");
        assert!(objective.holds(&run(1_000, 5_000, None)));
        let broken = |run: Measured| objective.broken_by(&run).unwrap();
        assert_eq!(broken(run(1_000, 6_000, None)), "it breaks p99:web <= 5us: 6.00 µs");
        assert_eq!(broken(run(999, 5_000, None)), "it breaks elapsed ≥ 1us: 999 ns");
        assert_eq!(objective.to_string(), "throughput s.t. p99:web <= 5us and elapsed ≥ 1us");
        assert_eq!(objective.programs().collect::<Vec<_>>(), ["web"]);
    }

    #[test]
    fn a_bad_objective_says_what_is_wrong() {
        for (text, why) in [
            ("fast", "there are: speed, elapsed"),
            ("joules", "does not know energy"),
            ("p99:", "names no program"),
            ("elapsed:web", "of the whole run"),
            ("speed s.t. p99", "is no limit"),
            ("speed s.t. p99 <= 5", "a time such as 5ms"),
            ("speed s.t. switches <= many", "a number"),
        ] {
            let error = Objective::from_str(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
