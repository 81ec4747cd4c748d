// SPDX-License-Identifier: GPL-2.0-only
//! Figures from the runs of one experiment or two: quantities, and their distances from a bound or an ideal.

use comparison::Contender;
use serde::Deserialize;
use terminal::Failure;
use trace::Outcome;

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::outcomes::{bare, of_program, paired, ratios, share_error_s, values};
use crate::paper::{Job, Quantity};

/// `over / under` of one quantity, run by run of the same boot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Name of the experiment.
    experiment: String,
    /// The compared quantity.
    quantity: Quantity,
    /// Policy of the dividend.
    over: String,
    /// Policy of the divisor.
    under: String,
    /// One of several programs that ran side by side, by its name.
    #[serde(default)]
    program: Option<String>,
}

impl Kind for Ratio {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = of_program(&lab.outcomes(&self.experiment)?, self.program.as_deref());
        Ok(ratios(&outcomes, &self.over, &self.under, self.quantity).into())
    }

    fn policies(&self) -> Option<Vec<&str>> {
        Some(vec![&self.over, &self.under])
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// One quantity of one policy, run by run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Name of the experiment.
    experiment: String,
    /// The quantity.
    quantity: Quantity,
    /// The policy.
    of: String,
    /// One of several programs that ran side by side, by its name.
    #[serde(default)]
    program: Option<String>,
}

impl Kind for Value {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = of_program(&lab.outcomes(&self.experiment)?, self.program.as_deref());
        Ok(bare(values(&outcomes, &self.of, self.quantity)).into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// How much longer one experiment takes than another of the same job, as a part of it, run by run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Longer {
    /// Name of the experiment.
    experiment: String,
    /// The experiment that it is compared with.
    than: String,
    /// The policy.
    of: String,
}

impl Kind for Longer {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (own, other) = (lab.outcomes(&self.experiment)?, lab.outcomes(&self.than)?);
        let took = |outcomes: &[Outcome]| values(outcomes, &self.of, Quantity::Elapsed);
        let ratios = paired(&took(&own), &took(&other));
        Ok(ratios.into_iter().map(|ratio| ratio - 1.0).collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// Elapsed time against the ideal: the burners' work divided evenly among the CPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Makespan {
    /// Name of an experiment with burners.
    experiment: String,
    /// The policy.
    of: String,
}

impl Kind for Makespan {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let experiment = lab.experiment(&self.experiment)?;
        let Job::Burners { tasks, work_ms } = experiment.job else {
            let name = &self.experiment;
            return Err(Failure::input(format!("experiment {name} has no burners")));
        };
        let cpus = f64::from(experiment.cpus.unwrap_or(1));
        let ideal_s = tasks as f64 / cpus * work_ms as f64 / 1e3;
        let elapsed = values(&lab.outcomes(&self.experiment)?, &self.of, Quantity::Elapsed);
        let ratios = elapsed.into_iter().map(|(_, elapsed_s)| elapsed_s / ideal_s);
        Ok(ratios.collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// Worst wait against the bound of a policy's slice: `ahead` slices and one tick.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitBound {
    /// Name of the experiment.
    experiment: String,
    /// The policy. Its slice is the bound's.
    of: String,
    /// Tasks that can be ahead of a task in its queue.
    ahead: u64,
    /// A tick, in ms.
    tick_ms: f64,
}

impl Kind for WaitBound {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let bound_s = self.ahead as f64 * slice_s(&self.of)? + self.tick_ms / 1e3;
        let waits = values(&lab.outcomes(&self.experiment)?, &self.of, Quantity::WorstWait);
        let ratios = waits.into_iter().map(|(_, wait_s)| wait_s / bound_s);
        Ok(ratios.collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// The slice of a policy, from its label or the default.
fn slice_s(label: &str) -> Result<f64, Failure> {
    match Contender::parse(label)? {
        Contender::Policy(instance) => {
            let slice_ns = instance.promises().slice_ns_max;
            slice_ns.map(|ns| ns as f64 / 1e9).ok_or_else(|| {
                Failure::input(format!("{label} promises no slice, so no wait is bounded"))
            })
        }
        other => Err(Failure::input(format!("{} has no slice", other.label()))),
    }
}

/// The greatest difference between a task's CPU time and an even share, in slices, if all of a file's tasks were
/// runnable all the time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareError {
    /// Name of an experiment with such a file.
    experiment: String,
    /// The policy.
    of: String,
    /// A slice, in ms.
    slice_ms: f64,
}

impl Kind for ShareError {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        let own = outcomes.iter().filter(|outcome| outcome.policy == self.of);
        let errors = own.map(|run| Some(share_error_s(run)? * 1e3 / self.slice_ms));
        Ok(errors.collect::<Option<Vec<_>>>().unwrap_or_default().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}
