// SPDX-License-Identifier: GPL-2.0-only
//! Figures from faults: whether each policy survived each run, or was caught, by the lines of the script.

use comparison::{Contender, contender};
use serde::Deserialize;
use terminal::Failure;
use trace::Outcome;

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;

/// Whether a policy survived each run of a fault: 1, or 0.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survived {
    /// Name of an experiment with a fault.
    experiment: String,
}

impl Kind for Survived {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        Ok(sample(&all_faced(&self.experiment, lab)?, |run| run.why.is_none()))
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// Whether a cheat was caught in each run of a fault: 1, or 0.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caught {
    /// Name of an experiment with a fault.
    experiment: String,
    /// Part of the message about the caught cheat.
    by: String,
}

impl Kind for Caught {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        Ok(sample(&all_faced(&self.experiment, lab)?, |run| run.is_caught(&self.by)))
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// 1 for each run that is as wanted, and 0 for the others. Lost runs are told in either case.
fn sample(runs: &[Faced], is_as_wanted: impl Fn(&Faced) -> bool) -> Sample {
    Sample {
        values: runs.iter().map(|run| f64::from(is_as_wanted(run))).collect(),
        lost: runs.iter().filter_map(Faced::told).collect(),
        ..Sample::default()
    }
}

/// The outcome of each run of a fault under each policy.
fn all_faced(experiment: &str, lab: &mut Laboratory) -> Result<Vec<Faced>, Failure> {
    let policies = std::slice::from_ref(&lab.experiment(experiment)?.policies);
    let policies = contender::parse_all(policies)?;
    let labels: Vec<&str> = policies.iter().map(Contender::label).collect();
    let outcomes = lab.outcomes(experiment)?;
    Ok(outcomes.iter().flat_map(|outcome| faced(outcome, &labels)).collect())
}

/// The outcome of one run under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Faced {
    policy: String,
    run: usize,
    /// Why it was not survived.
    why: Option<String>,
}

impl Faced {
    /// Whether it was lost for this reason.
    fn is_caught(&self, by: &str) -> bool {
        self.why.as_ref().is_some_and(|why| why.contains(by))
    }

    /// A lost run in one line.
    fn told(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(format!("{}, run {}: {why}", self.policy, self.run + 1))
    }
}

/// An outcome for each policy: a policy that the script does not mention is lost.
fn faced(outcome: &Outcome, policies: &[&str]) -> Vec<Faced> {
    let of = |policy: &&str| {
        let said = outcome.output.lines().find_map(|line| verdict(line, policy));
        let why = said.unwrap_or_else(|| Some("the script did not come to its end".to_string()));
        Faced { policy: policy.to_string(), run: outcome.run, why }
    };
    policies.iter().map(of).collect()
}

/// A line's verdict on a policy: None if it is about another; else why it was lost, if it was.
fn verdict(line: &str, policy: &str) -> Option<Option<String>> {
    if line.strip_prefix("survived ") == Some(policy) {
        return Some(None);
    }
    let why = line.strip_prefix("lost ")?.strip_prefix(policy)?.strip_prefix(": ")?;
    Some(Some(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(output: &str) -> Vec<Option<String>> {
        let outcome = Outcome { output: output.to_string(), ..Outcome::default() };
        faced(&outcome, &["cas", "cas:slots=2"]).into_iter().map(|faced| faced.why).collect()
    }

    #[test]
    fn silence_is_a_loss() {
        assert_eq!(why("survived cas\nsurvived cas:slots=2\n"), [None, None]);
        let lost = why("survived cas:slots=2\n");
        assert!(lost[0].is_some() && lost[1].is_none(), "{lost:?}");
        let lost = why("noise\nlost cas: never: x: y\n");
        assert_eq!(lost[0].as_deref(), Some("never: x: y"));
        assert!(lost[1].is_some());
        assert!(why("survived cas, nearly").iter().all(Option::is_some));
    }
}
