// SPDX-License-Identifier: GPL-2.0-only
//! Figures over several experiments, one a load: how a policy does in each of them.

use std::iter;

use report::stats::median;
use serde::Deserialize;
use terminal::Failure;

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::outcomes::{bare, policies, ratios, values};
use crate::paper::Quantity;

/// `over / under` of one quantity in each experiment, of the tasks that it watches: the median of its boots. Without
/// `under`, the quantity of `over`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Names of the experiments.
    experiments: Vec<String>,
    /// The compared quantity.
    quantity: Quantity,
    /// Policy of the dividend.
    over: String,
    /// Policy of the divisor.
    #[serde(default)]
    under: Option<String>,
}

impl Kind for Rows {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let mut sample = Sample::default();
        for name in &self.experiments {
            let outcomes = lab.watched(name)?;
            let own = || bare(values(&outcomes, &self.over, self.quantity));
            let against = |under: &String| ratios(&outcomes, &self.over, under, self.quantity);
            match median(&self.under.as_ref().map_or_else(own, against)) {
                Some(value) => sample.values.push(value),
                None => sample.missing.push(name.clone()),
            }
        }
        Ok(sample)
    }

    fn policies(&self) -> Option<Vec<&str>> {
        Some(iter::once(&*self.over).chain(self.under.as_deref()).collect())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(first(&self.experiments)?)
    }
}

/// In how many experiments a policy has at most a part of what the best of the peers has, by medians. Nothing if none
/// of the peers is on this machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsWon {
    /// Names of the experiments.
    experiments: Vec<String>,
    /// The compared quantity.
    quantity: Quantity,
    /// The policy.
    of: String,
    /// The part.
    part: f64,
}

impl Kind for RowsWon {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (mut won, mut any, mut lost) = (0, false, Vec::new());
        for name in &self.experiments {
            let peers = lab.experiment(name)?.peers.clone();
            let outcomes = lab.outcomes(name)?;
            lost.extend(lab.about(name).failed.into_iter().map(|why| format!("{name}: {why}")));
            let middle = |policy: &str| median(&bare(values(&outcomes, policy, self.quantity)));
            let best = peers.iter().filter_map(|peer| middle(peer)).reduce(f64::min);
            let (Some(own), Some(best)) = (middle(&self.of), best) else { continue };
            any = true;
            won += usize::from(own <= self.part * best);
        }
        let values = if any { vec![won as f64] } else { Vec::new() };
        Ok(Sample { values, lost, ..Sample::default() })
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(first(&self.experiments)?)
    }
}

/// How near a policy is to the best of all others in each experiment, by medians: the best time divided by its own, or
/// its own work divided by the greatest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsBest {
    /// Names of the experiments.
    experiments: Vec<String>,
    /// The compared quantity.
    quantity: Quantity,
    /// The policy.
    of: String,
}

impl Kind for RowsBest {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let mut sample = Sample::default();
        for name in &self.experiments {
            let peers = lab.experiment(name)?.peers.clone();
            let outcomes = lab.watched(name)?;
            let failed = lab.about(name).failed;
            sample.lost.extend(failed.into_iter().map(|why| format!("{name}: {why}")));
            let middle = |policy: &str| median(&bare(values(&outcomes, policy, self.quantity)));
            // Without any peer, nobody knows how good the best one is.
            if !peers.iter().any(|peer| middle(peer).is_some()) {
                sample.missing.push(format!("{name}: a peer"));
                continue;
            }
            let (known, unknown): (Vec<_>, Vec<_>) =
                policies(&outcomes).into_iter().partition(|policy| middle(policy).is_some());
            sample.missing.extend(unknown.into_iter().map(|policy| format!("{name}: {policy}")));
            let others = known.iter().filter(|policy| **policy != self.of);
            let others = others.filter_map(|policy| middle(policy));
            let best = match self.quantity {
                Quantity::Work => others.reduce(f64::max),
                _ => others.reduce(f64::min),
            };
            let near = |(own, best): (f64, f64)| match self.quantity {
                Quantity::Work => own / best,
                _ => best / own,
            };
            match middle(&self.of).zip(best) {
                Some(both) => sample.values.push(near(both)),
                None => sample.missing.push(name.clone()),
            }
        }
        Ok(sample)
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(first(&self.experiments)?)
    }
}

/// By how much later the tasks that an experiment watches run under a policy than under another, in each experiment: the
/// 99th percentile of their waits in a boot, the median of boots, ms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// Names of the experiments.
    experiments: Vec<String>,
    /// The policy.
    of: String,
    /// The policy that it is compared with.
    than: String,
}

impl Kind for Later {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let mut sample = Sample::default();
        for name in &self.experiments {
            let outcomes = lab.watched(name)?;
            let wait_s = |policy: &str| median(&bare(values(&outcomes, policy, Quantity::WaitP99)));
            match (wait_s(&self.of), wait_s(&self.than)) {
                (Some(of), Some(than)) => sample.values.push((of - than) * 1e3),
                _ => sample.missing.push(name.clone()),
            }
        }
        Ok(sample)
    }

    fn policies(&self) -> Option<Vec<&str>> {
        Some(vec![&self.of, &self.than])
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(first(&self.experiments)?)
    }
}

fn first(experiments: &[String]) -> Result<&str, Failure> {
    let first = experiments.first().map(String::as_str);
    first.ok_or_else(|| Failure::input("a figure over experiments names none"))
}
