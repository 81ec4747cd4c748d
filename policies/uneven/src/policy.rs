// SPDX-License-Identifier: GPL-2.0-only
//! The policies, by name, and the plan that each makes of a problem.

use crate::metrics::Deviation;
use crate::problem::{Base, Plan, Problem, check_target};
use crate::start::{Least, Start};
use crate::{Error, blend, equal, scaled, similar, surplus};

/// How slide 22 is read if there is more than one fast core. With one fast core and no more tasks
/// than cores, both readings are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// R of the even share for every task, the rest to those that gain most: the slide's steps.
    #[default]
    Greedy,
    /// For R of the time max-fair, for the rest max-perf: the slide's heading.
    Blend,
}

/// How the cores are shared.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// Every task alike against the problem's base: even shares of each type for max-fair (slide
    /// 4).
    MaxFair,
    /// The fast cores to the tasks that gain most (slide 3).
    MaxPerf,
    /// T of fair performance for every task, the rest to those that gain most (slide 8).
    MinFair {
        /// T.
        target: f64,
    },
    /// Like min-fair, and tasks of similar speed share alike (slide 9).
    SimilarMinFair {
        /// How much speeds of similar tasks may differ.
        similarity: f64,
        /// T.
        target: f64,
    },
    /// As much of max-perf as a uniformity allows, the rest fair.
    UniFair {
        /// The least uniformity.
        uniformity: f64,
        /// How it is measured.
        deviation: Deviation,
    },
    /// Like uni-fair, from similar-min-fair's shares: T holds too.
    MinUniFair {
        /// How much speeds of similar tasks may differ.
        similarity: f64,
        /// T.
        target: f64,
        /// The least uniformity.
        uniformity: f64,
        /// How it is measured.
        deviation: Deviation,
    },
    /// R max-fair, the rest max-perf (slide 22; Kwon and others, ISCA'11).
    RFair {
        /// R, from 0 to 1.
        ratio: f64,
        /// The reading of the slide.
        reading: Reading,
    },
    /// Every task at one level against this base, whatever the problem's is (slide 28; PACT'13).
    EqualProgress {
        /// Slow or fast cores.
        base: Base,
    },
    /// More tasks on a faster core (slide 21; SC'07).
    ScaledLoad {
        /// Computing power of each core type; None: the mean speed of the tasks on it.
        powers: Option<Vec<f64>>,
    },
    /// Max-perf and max-fair in alternate intervals (slide 23; PACT'13): its shares in the long
    /// run, which are uni-fair's. [`crate::GuaranteedFair`] is the scheme itself.
    GuaranteedFair {
        /// θ: max-fair's shares hold while the uniformity is below it.
        uniformity: f64,
        /// How it is measured.
        deviation: Deviation,
    },
}

/// Plans each task's shares under a policy. Errors: an invalid number of the problem or the policy,
/// or a target that cannot be kept.
pub fn plan(problem: &Problem, policy: &Policy) -> Result<Plan, Error> {
    policy.check(problem)?;
    let start = Start::new(problem)?;
    let (cpu, shares) = match policy {
        Policy::ScaledLoad { powers } => scaled::place(&start, powers.as_deref())?,
        _ => (start.cpu.clone(), shares(&start, policy)?),
    };
    let relative = shares
        .iter()
        .enumerate()
        .map(|(task, row)| start.relative(task, row) * (cpu[task] / start.cpu[task]));
    Ok(Plan { relative: relative.collect(), cpu, shares })
}

fn shares(start: &Start, policy: &Policy) -> Result<Vec<Vec<f64>>, Error> {
    match policy {
        // Every task is bound to one type: there is nothing to choose.
        _ if start.free().next().is_none() => Ok(start.even.clone()),
        Policy::MaxFair | Policy::ScaledLoad { .. } => equal::fairest(start),
        Policy::MaxPerf => surplus::best(start, Least::Nothing),
        Policy::MinFair { target } => surplus::best(start, Least::Targets(&start.targets(*target))),
        Policy::SimilarMinFair { similarity, target } => similar(start, *similarity, *target),
        Policy::UniFair { uniformity, deviation }
        | Policy::GuaranteedFair { uniformity, deviation } => {
            let unfair = surplus::best(start, Least::Nothing)?;
            let fair = equal::fairest(start)?;
            Ok(blend::to_uniformity(start, &fair, unfair, *uniformity, *deviation))
        }
        Policy::MinUniFair { similarity, target, uniformity, deviation } => {
            let unfair = similar(start, *similarity, *target)?;
            let fair = equal::fairest(start)?;
            Ok(blend::to_uniformity(start, &fair, unfair, *uniformity, *deviation))
        }
        Policy::RFair { ratio, reading: Reading::Greedy } => {
            surplus::best(start, Least::PartOfEven(*ratio))
        }
        Policy::RFair { ratio, reading: Reading::Blend } => {
            let unfair = surplus::best(start, Least::Nothing)?;
            Ok(blend::mix(&start.even, &unfair, 1.0 - ratio))
        }
        Policy::EqualProgress { base } => {
            let problem = Problem { base: *base, ..start.problem.clone() };
            equal::fairest(&Start::new(&problem)?)
        }
    }
}

fn similar(start: &Start, similarity: f64, target: f64) -> Result<Vec<Vec<f64>>, Error> {
    let targets = start.targets(target);
    let mut shares = surplus::best(start, Least::Targets(&targets))?;
    similar::even_out(start, &mut shares, similarity, &targets);
    Ok(shares)
}

impl Policy {
    /// The same policy with another target; None if it has no target.
    pub fn with_target(&self, target: f64) -> Option<Policy> {
        let mut policy = self.clone();
        match &mut policy {
            Policy::MinFair { target: own }
            | Policy::SimilarMinFair { target: own, .. }
            | Policy::MinUniFair { target: own, .. } => *own = target,
            _ => return None,
        }
        Some(policy)
    }

    /// Errors: an invalid number.
    fn check(&self, problem: &Problem) -> Result<(), Error> {
        let wrong = |what, value, wanted| Err(Error::Parameter { what, value, wanted });
        let part = |what, value: f64, wanted| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => wrong(what, value, wanted),
        };
        if let Policy::MinFair { target }
        | Policy::SimilarMinFair { target, .. }
        | Policy::MinUniFair { target, .. } = self
        {
            check_target(*target, problem.base)
                .or_else(|wanted| wrong("the target", *target, wanted))?;
        }
        if let Policy::SimilarMinFair { similarity, .. } | Policy::MinUniFair { similarity, .. } =
            self
            && !(*similarity >= 0.0 && similarity.is_finite())
        {
            return wrong(
                "the similarity",
                *similarity,
                "a difference of speeds, 0 or more, such as 0.2",
            );
        }
        match self {
            Policy::UniFair { uniformity, .. }
            | Policy::MinUniFair { uniformity, .. }
            | Policy::GuaranteedFair { uniformity, .. } => {
                part("the uniformity", *uniformity, "0 to 1, such as 0.85")
            }
            Policy::RFair { ratio, .. } => {
                part("the ratio", *ratio, "the part that is max-fair, 0 to 1, such as 0.5")
            }
            Policy::ScaledLoad { powers: Some(powers) } => check_powers(powers, problem.types()),
            _ => Ok(()),
        }
    }
}

fn check_powers(powers: &[f64], types: usize) -> Result<(), Error> {
    let wanted = "one number above 0 for each core type";
    if powers.len() != types {
        let value = powers.len() as f64;
        return Err(Error::Parameter { what: "the number of computing powers", value, wanted });
    }
    match powers.iter().find(|power| !(power.is_finite() && **power > 0.0)) {
        Some(power) => Err(Error::Parameter { what: "a computing power", value: *power, wanted }),
        None => Ok(()),
    }
}
