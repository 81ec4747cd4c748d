// SPDX-License-Identifier: GPL-2.0-only
//! Gates: whether a measurement reaches its target. Pure functions.
//!
//! A gate is judged by the quartile that is worse for it, so that a lucky half of the boots is not enough; a single
//! value is its own quartile. For `fails GATE` it is the quartile that is better for the gate inside: a cheat that
//! passes in most of its boots has not failed.

use std::fmt;
use std::str::FromStr;

use report::stats::quantile;
use serde::Deserialize;

/// A target. As text:
///
/// - `>= 1.3`, `> 1`, `<= 0.05`, `every >= 0.98`, `every <= 1`, `= 0`
/// - `all`: every run had the required result
/// - `within range`: the published figure lies in the range of ours
/// - `ideal within 0.01`: each value is this near to the value without costs
/// - `fails <= 0.01`: a cheat is to miss that gate
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Gate {
    /// The lower quartile reaches this.
    AtLeast(f64),
    /// The lower quartile is greater than this: equal is not enough.
    MoreThan(f64),
    /// The upper quartile stays below this.
    AtMost(f64),
    /// No value is below this.
    EveryAtLeast(f64),
    /// No value is above this.
    EveryAtMost(f64),
    /// Every value is this.
    Exactly(f64),
    /// Every run had the required result: 1, and not 0.
    All,
    /// The published figure lies between the least and the greatest of ours.
    WithinRange,
    /// Every value is this near to the value that it would have without costs.
    NearIdeal(f64),
    /// The gate inside does not hold, not even by its better quartile: a yardstick that a cheat passes measures
    /// nothing. The gate inside has a bound.
    Fails(Box<Gate>),
}

const QUARTILE: f64 = 0.25;

/// The outcome of a gate, and the figure that decided it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it holds.
    pub holds: bool,
    /// The value that was compared.
    pub decided_by: f64,
}

impl Gate {
    /// Judges values for which the values without costs are known.
    pub fn judge_with(
        &self,
        values: &[f64],
        published: Option<f64>,
        ideal: &[f64],
    ) -> Option<Verdict> {
        match self {
            Gate::NearIdeal(bound) => {
                Gate::AtMost(*bound).judge_by(0.0, &far(values, ideal)?, published)
            }
            Gate::Fails(gate) => match **gate {
                Gate::NearIdeal(bound) => Gate::Fails(Box::new(Gate::AtMost(bound)))
                    .judge(&far(values, ideal)?, published),
                _ => self.judge(values, published),
            },
            _ => self.judge(values, published),
        }
    }

    /// Judges `values`, one for each boot, seed or point of a sweep. None without values, if one is no number, or
    /// without the published figure if the gate needs it: unknown is never a pass.
    pub fn judge(&self, values: &[f64], published: Option<f64>) -> Option<Verdict> {
        self.judge_by(QUARTILE, values, published)
    }

    /// Judges by the quantile `part` from the end that is worse for the gate.
    fn judge_by(&self, part: f64, values: &[f64], published: Option<f64>) -> Option<Verdict> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let at = |q| quantile(values, q);
        match self {
            Gate::AtLeast(bound) => {
                let decided_by = at(part)?;
                Some(Verdict { holds: decided_by >= *bound, decided_by })
            }
            Gate::MoreThan(bound) => {
                let decided_by = at(part)?;
                Some(Verdict { holds: decided_by > *bound, decided_by })
            }
            Gate::AtMost(bound) => {
                let decided_by = at(1.0 - part)?;
                Some(Verdict { holds: decided_by <= *bound, decided_by })
            }
            Gate::EveryAtLeast(bound) => Gate::AtLeast(*bound).judge_by(0.0, values, published),
            Gate::EveryAtMost(bound) => Gate::AtMost(*bound).judge_by(0.0, values, published),
            Gate::Exactly(wanted) => {
                let other = values.iter().copied().find(|value| value != wanted);
                Some(Verdict { holds: other.is_none(), decided_by: other.unwrap_or(*wanted) })
            }
            Gate::All => Gate::Exactly(1.0).judge(values, published),
            Gate::WithinRange => {
                let published = published?;
                let (least, greatest) = (at(0.0)?, at(1.0)?);
                let nearest = published.clamp(least, greatest);
                Some(Verdict { holds: nearest == published, decided_by: nearest })
            }
            Gate::NearIdeal(_) => None,
            Gate::Fails(gate) => {
                let gate = match **gate {
                    // One value that misses it is enough for a policy to fail, but not for a cheat.
                    Gate::EveryAtLeast(bound) => &Gate::AtLeast(bound),
                    Gate::EveryAtMost(bound) => &Gate::AtMost(bound),
                    ref gate => gate,
                };
                let verdict = gate.judge_by(1.0 - part, values, published)?;
                Some(Verdict { holds: !verdict.holds, ..verdict })
            }
        }
    }
}

/// The distance of each value from its ideal. None unless that is known of each.
fn far(values: &[f64], ideal: &[f64]) -> Option<Vec<f64>> {
    let far = values.iter().zip(ideal).map(|(value, ideal)| (value - ideal).abs());
    (values.len() == ideal.len()).then(|| far.collect())
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "within range" => return Ok(Gate::WithinRange),
            "all" => return Ok(Gate::All),
            _ => {}
        }
        if let Some(gate) = text.strip_prefix("fails ") {
            return match gate.parse()? {
                Gate::All | Gate::Exactly(_) | Gate::WithinRange | Gate::Fails(_) => Err(format!(
                    "gate `{text}`: one value of many would be enough for it; name a bound"
                )),
                gate => Ok(Gate::Fails(Box::new(gate))),
            };
        }
        let bound = |sign| text.strip_prefix(sign).and_then(|text| text.trim().parse().ok());
        if let Some(bound) = text.strip_prefix("ideal within") {
            return bound
                .trim()
                .parse()
                .map(Gate::NearIdeal)
                .map_err(|_| format!("gate `{text}`: expected a number after `within`"));
        }
        bound(">=")
            .map(Gate::AtLeast)
            .or_else(|| bound(">").map(Gate::MoreThan))
            .or_else(|| bound("<=").map(Gate::AtMost))
            .or_else(|| bound("every >=").map(Gate::EveryAtLeast))
            .or_else(|| bound("every <=").map(Gate::EveryAtMost))
            .or_else(|| bound("=").map(Gate::Exactly))
            .ok_or_else(|| {
                format!("gate `{text}`: expected >= N, > N, <= N, every >= N, every <= N, = N, all, within range or fails GATE")
            })
    }
}

impl TryFrom<String> for Gate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Gate::NearIdeal(bound) => write!(out, "ideal within {bound}"),
            Gate::AtLeast(bound) => write!(out, ">= {bound}"),
            Gate::MoreThan(bound) => write!(out, "> {bound}"),
            Gate::AtMost(bound) => write!(out, "<= {bound}"),
            Gate::EveryAtLeast(bound) => write!(out, "every >= {bound}"),
            Gate::EveryAtMost(bound) => write!(out, "every <= {bound}"),
            Gate::Exactly(bound) => write!(out, "= {bound}"),
            Gate::All => write!(out, "all"),
            Gate::WithinRange => write!(out, "within range"),
            Gate::Fails(gate) => write!(out, "fails {gate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(gate: &str, values: &[f64]) -> Option<bool> {
        let verdict = gate.parse::<Gate>().unwrap().judge(values, Some(3.12));
        verdict.map(|verdict| verdict.holds)
    }

    #[test]
    fn the_worse_quartile_decides() {
        let boots = [1.2, 1.4, 1.5, 1.6, 1.7];
        assert_eq!(holds(">= 1.4", &boots), Some(true));
        assert_eq!(holds(">= 1.5", &boots), Some(false), "the median alone would pass");
        assert_eq!(holds("<= 1.6", &boots), Some(true));
        assert_eq!(holds("<= 1.5", &boots), Some(false), "the median alone would pass");
    }

    #[test]
    fn equal_is_not_more() {
        assert_eq!(holds("> 1", &[1.01, 1.2]), Some(true));
        assert_eq!(holds("> 1", &[1.0, 1.0]), Some(false));
        assert_eq!(holds(">= 1", &[1.0, 1.0]), Some(true));
    }

    #[test]
    fn nothing_measured_is_not_a_pass() {
        for gate in [">= 0", "> 0", "<= 9", "= 0", "all", "within range", "fails <= 0"] {
            assert_eq!(holds(gate, &[]), None, "{gate}");
            for unknown in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert_eq!(holds(gate, &[1.0, unknown]), None, "{gate}");
            }
        }
        let gate: Gate = "within range".parse().unwrap();
        assert_eq!(gate.judge(&[1.0, 2.0], None), None);
    }

    #[test]
    fn a_published_figure_lies_within_ours_or_does_not() {
        assert_eq!(holds("within range", &[2.9, 3.4]), Some(true));
        assert_eq!(holds("within range", &[3.2, 3.4]), Some(false));
        assert_eq!(holds("within range", &[1.0, 3.0]), Some(false));
    }

    #[test]
    fn a_cheat_that_passes_is_a_failure() {
        assert_eq!(holds("fails <= 0.01", &[0.6, 0.7]), Some(true));
        assert_eq!(holds("fails <= 0.01", &[0.0, 0.0]), Some(false));
    }

    #[test]
    fn a_cheat_that_passes_in_most_of_its_boots_has_not_failed() {
        let boots = [0.5, 0.5, 0.5, 0.5, 1.2, 1.3, 1.4];
        assert_eq!(holds("<= 1.05", &boots), Some(false));
        assert_eq!(holds("fails <= 1.05", &boots), Some(false), "nor has it passed");
        assert_eq!(holds("fails <= 1.05", &[0.5, 1.1, 1.2, 1.3, 1.4]), Some(true));
        assert_eq!(holds("fails >= 1.1", &boots), Some(false));
        assert_eq!(holds("fails > 1.1", &boots), Some(false));
        assert_eq!(holds("fails >= 1.35", &boots), Some(true));
    }

    #[test]
    fn one_bad_point_of_many_is_seen() {
        let points = [1.0, 1.2, 1.3, 1.4, 0.9, 1.1, 1.5, 1.6];
        assert_eq!(holds(">= 0.98", &points), Some(true), "by its quartile alone it would pass");
        assert_eq!(holds("every >= 0.98", &points), Some(false));
        assert_eq!(holds("every >= 0.9", &points), Some(true));
        assert_eq!(holds("<= 1.45", &points), Some(true));
        assert_eq!(holds("every <= 1.45", &points), Some(false));
        assert_eq!(holds("every <= 1.6", &points), Some(true));
        assert_eq!(
            holds("fails every >= 0.98", &points),
            Some(false),
            "nor is a cheat caught by it"
        );
        assert_eq!(holds("fails every >= 0.98", &[0.9, 0.9, 0.95, 1.0]), Some(true));
    }

    #[test]
    fn exact_gates_look_at_every_value() {
        assert_eq!(holds("= 0", &[0.0, 0.0, 0.0]), Some(true));
        assert_eq!(holds("= 0", &[0.0, 0.0, 1.0]), Some(false));
    }

    #[test]
    fn one_lost_run_of_many_is_too_many() {
        assert_eq!(holds("all", &[1.0, 1.0, 1.0]), Some(true));
        assert_eq!(holds("all", &[1.0, 0.0, 1.0]), Some(false));
    }

    #[test]
    fn gates_read_as_they_are_written() {
        let gates = [
            ">= 1.3",
            "> 1",
            "<= 0.05",
            "every >= 0.98",
            "every <= 1",
            "= 0",
            "all",
            "within range",
            "fails <= 0.01",
        ];
        for text in gates {
            assert_eq!(text.parse::<Gate>().unwrap().to_string(), text);
        }
        assert!("about 3".parse::<Gate>().is_err());
        // A single differing value would be enough.
        for text in ["fails all", "fails = 0", "fails within range", "fails fails <= 1"] {
            assert!(text.parse::<Gate>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_value_is_near_its_own_ideal() {
        let gate: Gate = "ideal within 0.01".parse().unwrap();
        let holds = |values: &[f64], ideal: &[f64]| {
            gate.judge_with(values, None, ideal).map(|verdict| verdict.holds)
        };
        assert_eq!(holds(&[0.85, 1.0], &[0.845, 1.009]), Some(true));
        assert_eq!(holds(&[0.85, 1.0], &[0.845, 1.02]), Some(false));
        assert_eq!(holds(&[0.85, 1.0], &[0.85]), None, "an ideal for each");
        assert_eq!(holds(&[], &[]), None, "nothing was measured");
        assert_eq!(holds(&[f64::NAN], &[1.0]), None);
        let fails: Gate = "fails ideal within 0.01".parse().unwrap();
        assert!(fails.judge_with(&[0.5], None, &[0.85]).unwrap().holds);
        let (ideal, once) = ([0.8; 4], [0.5, 0.8, 0.8, 0.8]);
        assert!(!fails.judge_with(&once, None, &ideal).unwrap().holds, "one of many");
        assert!(fails.judge_with(&[0.5, 0.6, 0.7, 0.8], None, &ideal).unwrap().holds);
        assert_eq!(fails.judge_with(&[0.5], None, &[]), None);
        assert!("ideal within".parse::<Gate>().is_err());
    }
}
