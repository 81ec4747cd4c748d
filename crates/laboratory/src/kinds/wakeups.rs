// SPDX-License-Identifier: GPL-2.0-only
//! Figures of a wakeup's work, from pairs of tasks that wake each other.

use report::stats::median;
use serde::Deserialize;
use terminal::Failure;

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::outcomes::{ByRun, bare, paired, values};
use crate::paper::{Job, Quantity};

/// Work of a wakeup: what a ping-pong pair costs beyond one task that does the same reads and writes alone, for
/// each wakeup. With `over`, that of `of` divided by that of `over`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wakeup {
    /// Name of the experiment with the pair.
    pair: String,
    /// Name of the experiment with one task.
    floor: String,
    /// The policy.
    of: String,
    /// Policy of the divisor.
    #[serde(default)]
    over: Option<String>,
}

impl Kind for Wakeup {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let own = self.wakeup_ns(&self.of, lab)?;
        Ok(match &self.over {
            None => bare(own).into(),
            Some(over) => paired(&own, &self.wakeup_ns(over, lab)?).into(),
        })
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.pair)
    }
}

impl Wakeup {
    /// Work of one wakeup in ns of guest time, which under icount are instructions.
    fn wakeup_ns(&self, of: &str, lab: &mut Laboratory) -> Result<ByRun, Failure> {
        let wakeups = wakeups(&self.pair, lab)?;
        let pair = values(&lab.outcomes(&self.pair)?, of, Quantity::Elapsed);
        let floor = bare(values(&lab.outcomes(&self.floor)?, of, Quantity::Elapsed));
        let Some(floor_s) = median(&floor) else { return Ok(Vec::new()) };
        let own = pair.into_iter().map(|(run, pair_s)| (run, (pair_s - floor_s) * 1e9 / wakeups));
        Ok(own.collect())
    }
}

/// Wakeups of a ping-pong pair: two for each round.
fn wakeups(pair: &str, lab: &Laboratory) -> Result<f64, Failure> {
    match lab.experiment(pair)?.job {
        Job::PingPong { rounds, .. } => Ok(2.0 * rounds as f64),
        _ => Err(Failure::input(format!("experiment {pair} is no ping-pong"))),
    }
}

/// Extra instructions of a wakeup under `of` over those under `than`, from a pair of tasks that wake each other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dearer {
    /// Name of the experiment.
    pair: String,
    /// The policy.
    of: String,
    /// The policy with the instructions to subtract.
    than: String,
}

impl Kind for Dearer {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let wakeups = wakeups(&self.pair, lab)?;
        let outcomes = lab.outcomes(&self.pair)?;
        let took = |policy: &str| values(&outcomes, policy, Quantity::Elapsed);
        let (own, others) = (took(&self.of), bare(took(&self.than)));
        let other_s = median(&others).unwrap_or(f64::NAN);
        let more = own.into_iter().map(|(_, own_s)| (own_s - other_s) * 1e9 / wakeups);
        Ok(more.collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.pair)
    }
}
