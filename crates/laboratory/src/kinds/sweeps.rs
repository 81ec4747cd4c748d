// SPDX-License-Identifier: GPL-2.0-only
//! Figures from the points of a sweep. Points that a figure needs and that did not end are missing.

use std::collections::{BTreeMap, BTreeSet};

use report::stats::median;
use serde::Deserialize;
use terminal::Failure;

use crate::extremes::greatest;
use crate::kind::{Kind, Sample};
use crate::measure::Laboratory;
use crate::outcomes::{of_program, ratios};
use crate::paper::{Jobs, Quantity};
use crate::sweep::{self, Point};

/// What a figure needs of a sweep.
trait Needs {
    /// Whether it needs this policy at this point.
    fn needs(&self, policy: &str, point: &Point) -> bool;

    /// Why it is not to be taken from a point, if so: a line for each policy that did not end.
    fn unended(&self, point: &Point) -> impl Iterator<Item = String> {
        let failed = point.failed.iter().filter(|failed| self.needs(&failed.policy, point));
        failed.map(|failed| failed.why.clone())
    }

    /// Points and policies that it needs and that did not end.
    fn missing(&self, points: &[Point]) -> Vec<String> {
        let all: BTreeSet<String> = points.iter().flat_map(|point| self.unended(point)).collect();
        all.into_iter().collect()
    }

    /// A value of each point that is not missing. Empty if one has none.
    fn each<'p, T>(
        &self,
        points: impl Iterator<Item = &'p Point>,
        value: impl Fn(&Point) -> Option<T>,
    ) -> Vec<T> {
        let ended = points.filter(|point| self.unended(point).next().is_none());
        ended.map(value).collect::<Option<_>>().unwrap_or_default()
    }
}

/// `over / under` at every point of a sweep, the median of its seeds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// Name of the sweep.
    sweep: String,
    /// The compared quantity.
    quantity: Quantity,
    /// Policy of the dividend.
    over: String,
    /// Policy of the divisor.
    under: String,
    /// One job alone, by its label.
    #[serde(default)]
    job: Option<String>,
    /// One of several programs that ran side by side, by its name.
    #[serde(default)]
    program: Option<String>,
}

impl Points {
    fn is_of(&self, point: &Point) -> bool {
        self.job.as_ref().is_none_or(|job| *job == point.at.label)
    }
}

impl Needs for Points {
    fn needs(&self, policy: &str, point: &Point) -> bool {
        self.is_of(point) && [&self.over, &self.under].iter().any(|own| **own == policy)
    }
}

impl Kind for Points {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let points = lab.points(&self.sweep)?;
        let own = points.iter().filter(|point| self.is_of(point));
        let ratio = |point: &Point| {
            let outcomes = of_program(&point.outcomes, self.program.as_deref());
            median(&ratios(&outcomes, &self.over, &self.under, self.quantity))
        };
        let values = self.each(own, ratio);
        Ok(Sample { values, missing: self.missing(&points), ..Sample::default() })
    }
}

/// The greatest of `points` for each set of costs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Name of the sweep.
    sweep: String,
    /// The compared quantity.
    quantity: Quantity,
    /// Policy of the dividend.
    over: String,
    /// Policy of the divisor.
    under: String,
}

impl Needs for Best {
    fn needs(&self, policy: &str, _: &Point) -> bool {
        [&self.over, &self.under].iter().any(|own| **own == policy)
    }
}

impl Kind for Best {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let points = lab.points(&self.sweep)?;
        let ratio = |point: &Point| {
            Some((point.costs, point.ratio(self.quantity, &self.over, &self.under)?))
        };
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        for (costs, ratio) in self.each(points.iter(), ratio) {
            let most = best.entry(costs).or_insert(ratio);
            *most = greatest([*most, ratio]);
        }
        let values = best.into_values().collect();
        Ok(Sample { values, missing: self.missing(&points), ..Sample::default() })
    }
}

/// A policy's own value for one job, for each set of costs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// Name of the sweep.
    sweep: String,
    /// The quantity.
    quantity: Quantity,
    /// The policy.
    of: String,
    /// The job, by its label.
    job: String,
}

impl Needs for At {
    fn needs(&self, policy: &str, point: &Point) -> bool {
        self.job == point.at.label && self.of == policy
    }
}

impl Kind for At {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let points = lab.points(&self.sweep)?;
        let own = points.iter().filter(|point| self.job == point.at.label);
        let values = self.each(own, |point| point.value(self.quantity, &self.of));
        Ok(Sample { values, missing: self.missing(&points), ..Sample::default() })
    }
}

/// Cost of a switch in a ring of processes, divided by the cost in a ring of threads, for each working set within
/// bounds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rings {
    /// Name of a sweep over rings.
    sweep: String,
    /// The policy.
    of: String,
    /// Least working set of a task, in KB.
    from_kb: u64,
    /// Greatest.
    to_kb: u64,
}

impl Needs for Rings {
    fn needs(&self, policy: &str, point: &Point) -> bool {
        let within = self.from_kb as f64..=self.to_kb as f64;
        point.costs == 0 && point.at.x.is_some_and(|kb| within.contains(&kb)) && self.of == policy
    }
}

impl Kind for Rings {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let Jobs::Ring { tasks, .. } = lab.sweep(&self.sweep)?.jobs else {
            return Err(Failure::input(format!("sweep {} has no rings", self.sweep)));
        };
        let points = lab.points(&self.sweep)?;
        let within = self.from_kb..=self.to_kb;
        let costs = sweep::switch_costs(&points, &self.of, tasks);
        let own = costs.into_iter().filter(|cost| within.contains(&cost.kilobytes));
        let values = own.map(|cost| cost.processes_s / cost.threads_s).collect();
        Ok(Sample { values, missing: self.missing(&points), ..Sample::default() })
    }
}

/// How many of the sweep's other policies take fewer locks than this one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fewer {
    /// Name of the sweep.
    sweep: String,
    /// The policy that they are compared with.
    than: String,
    /// Policies that do not count.
    besides: Vec<String>,
}

impl Needs for Fewer {
    fn needs(&self, policy: &str, _: &Point) -> bool {
        !self.besides.iter().any(|other| other == policy)
    }
}

impl Kind for Fewer {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let points = lab.points(&self.sweep)?;
        let fewer = points.iter().map(|point| fewer_locks(point, &self.than, &self.besides));
        let values = fewer.collect::<Option<_>>().unwrap_or_default();
        Ok(Sample { values, missing: self.missing(&points), ..Sample::default() })
    }
}

/// How many policies take fewer locks than `than`; None if one of them has no count.
fn fewer_locks(point: &Point, than: &str, besides: &[String]) -> Option<f64> {
    let locks = |policy: &str| point.value(Quantity::Locks, policy);
    let others: BTreeSet<&str> = point.outcomes.iter().map(|run| run.policy.as_str()).collect();
    let counts = |policy: &&str| **policy != *than && !besides.iter().any(|other| other == *policy);
    let own = locks(than)?;
    let others: Option<Vec<f64>> = others.into_iter().filter(counts).map(locks).collect();
    Some(others?.into_iter().filter(|locks| *locks < own).count() as f64)
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use trace::Outcome;

    use super::*;
    use crate::sweep::Failed;

    fn point(label: &str, costs: usize, failed: &[&str]) -> Point {
        let why = |policy: &str| format!("{label}: {policy} does not end");
        let one = |policy: &&str| Failed { policy: policy.to_string(), why: why(policy) };
        Point {
            costs,
            set: String::new(),
            at: sweep::At { label: label.into(), series: String::new(), x: Some(64.0) },
            outcomes: Vec::new(),
            failed: failed.iter().map(one).collect(),
        }
    }

    /// A kind with these keys, on one line each.
    fn kind<T: DeserializeOwned>(keys: &str) -> T {
        toml::from_str(&keys.replace(", ", "\n")).unwrap()
    }

    #[test]
    fn what_a_figure_is_not_taken_from_may_come_to_no_end() {
        let all = [point("a", 0, &["cas"]), point("b", 0, &[]), point("b", 1, &["cfs"])];
        let of = r#"sweep = "s", quantity = "elapsed""#;
        let points = |keys: &str| kind::<Points>(&format!("{of}, {keys}")).missing(&all).len();
        assert_eq!(points(r#"over = "o1", under = "cas""#), 1);
        assert_eq!(points(r#"over = "cfs", under = "cas""#), 2);
        assert_eq!(points(r#"over = "o1", under = "cas", job = "a""#), 1);
        assert_eq!(points(r#"over = "o1", under = "cas", job = "b""#), 0);
        let best = |keys: &str| kind::<Best>(&format!("{of}, {keys}")).missing(&all).len();
        assert_eq!(best(r#"over = "cfs", under = "cas""#), 2);
        assert_eq!(best(r#"over = "cfs", under = "o1""#), 1);
        let at = |keys: &str| kind::<At>(&format!("{of}, {keys}")).missing(&all).len();
        assert_eq!(at(r#"of = "cfs", job = "b""#), 1);
        assert_eq!(at(r#"of = "cfs", job = "a""#), 0);
        let rings = |to_kb: u64| {
            let keys = format!(r#"sweep = "s", of = "cas", from_kb = 16, to_kb = {to_kb}"#);
            kind::<Rings>(&keys).missing(&all).len()
        };
        assert_eq!((rings(64), rings(32)), (1, 0));
        let fewer: Fewer = kind(r#"sweep = "s", than = "o1", besides = ["cas"]"#);
        assert_eq!(fewer.missing(&all).len(), 1);
    }

    #[test]
    fn a_point_without_a_value_leaves_none() {
        let at: At = kind(r#"sweep = "s", quantity = "elapsed", of = "cas", job = "a""#);
        let taken = |points: &[Point], of_first: Option<f64>| {
            at.each(points.iter(), |point| if point.costs == 0 { of_first } else { Some(2.0) })
        };
        let ended = [point("a", 0, &[]), point("a", 1, &[])];
        assert_eq!(taken(&ended, Some(1.0)), [1.0, 2.0]);
        assert!(taken(&ended, None).is_empty(), "it ended, and was not measured");
        let unended = [point("a", 0, &["cas"]), point("a", 1, &[])];
        assert_eq!(taken(&unended, None), [2.0], "the first is told as missing");
    }

    #[test]
    fn a_policy_that_did_not_end_has_not_taken_fewer_locks() {
        let run = |policy: &str, locks: u64| Outcome {
            policy: policy.into(),
            locks: [("dsq".to_string(), locks)].into(),
            extra: [("spinlock_ns".to_string(), 1.0)].into(),
            ..Outcome::default()
        };
        let mut point = point("a", 0, &[]);
        assert_eq!(fewer_locks(&point, "rr", &[]), None);
        point.outcomes = vec![run("rr", 9), run("rr:without=a", 8), run("rr:without=b", 9)];
        assert_eq!(fewer_locks(&point, "rr", &[]), Some(1.0));
        assert_eq!(fewer_locks(&point, "rr", &["rr:without=a".into()]), Some(0.0));
        point.outcomes.remove(0);
        assert_eq!(fewer_locks(&point, "rr", &[]), None);
    }
}
