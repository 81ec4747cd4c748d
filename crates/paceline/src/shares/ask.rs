// SPDX-License-Identifier: GPL-2.0-only
//! The request of `paceline shares`: options checked against the policy, turned into a problem.

use terminal::Failure;
use uneven::{Base, Deviation, Policy, Problem, Reading, Task};

use crate::cli::{ShareBase, SharePolicy, ShareReading, Shares};

/// The values of the talk and its figures: 85 % of fair performance, speeds within 0.2 (slide 13).
const TARGET: f64 = 0.85;
const SIMILARITY: f64 = 0.2;
/// Slide 23's threshold.
const UNIFORMITY: f64 = 0.85;
/// Slide 22's example.
const RATIO: f64 = 0.5;

/// A problem, and the policy that is to solve it.
pub struct Asked {
    pub problem: Problem,
    pub policy: Policy,
    name: String,
}

impl Asked {
    /// Errors: an option that the policy does not take, or lists of different lengths.
    pub fn new(arguments: &Shares) -> Result<Self, Failure> {
        check_options(arguments)?;
        let base = match arguments.base {
            None | Some(ShareBase::MaxFair) => Base::MaxFair,
            Some(ShareBase::Slow) => Base::SlowCore,
            Some(ShareBase::Fast) => Base::FastCore,
        };
        let problem = Problem { cores: arguments.cores.clone(), tasks: tasks(arguments)?, base };
        Ok(Asked { problem, policy: policy(arguments)?, name: name(arguments.policy) })
    }

    /// A heading with the policy and its problem.
    pub fn heading(&self) -> String {
        let cores: Vec<String> = self.problem.cores.iter().map(f64::to_string).collect();
        let tasks = report::text::plural(self.problem.tasks.len(), "task");
        format!("{} for {tasks} on {} cores, fastest first", self.name, cores.join(" + "))
    }

    /// Names of the core types.
    pub fn type_names(&self) -> Vec<String> {
        match self.problem.types() {
            2 => vec!["fast".into(), "slow".into()],
            types => (1..=types).map(|number| format!("type {number}")).collect(),
        }
    }

    /// The base of fairness.
    pub fn base_name(&self) -> &'static str {
        match self.problem.base {
            Base::MaxFair => "max-fair",
            Base::SlowCore => "a slow core of its own",
            Base::FastCore => "a fast core of its own",
        }
    }

    /// The policy's name, for `--policy`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn name(policy: SharePolicy) -> String {
    use clap::ValueEnum;
    let value = policy.to_possible_value().expect("no policy is hidden");
    value.get_name().to_string()
}

/// Refuses options that the policy does not take.
fn check_options(arguments: &Shares) -> Result<(), Failure> {
    use SharePolicy::{EqualProgress, GuaranteedFair, MinFair, MinUniFair};
    use SharePolicy::{RFair, ScaledLoad, SimilarMinFair, UniFair};
    let targeted = [MinFair, SimilarMinFair, MinUniFair];
    let options: [(&str, bool, &[SharePolicy]); 8] = [
        ("--target", arguments.target.is_some(), &targeted),
        ("--targets", !arguments.targets.is_empty(), &targeted),
        ("--sweep", arguments.sweep, &targeted),
        ("--similarity", arguments.similarity.is_some(), &[SimilarMinFair, MinUniFair]),
        ("--uniformity", arguments.uniformity.is_some(), &[UniFair, MinUniFair, GuaranteedFair]),
        ("--ratio", arguments.ratio.is_some(), &[RFair]),
        ("--reading", arguments.reading.is_some(), &[RFair]),
        ("--powers", !arguments.powers.is_empty(), &[ScaledLoad]),
    ];
    for (option, given, takers) in options {
        if given && !takers.contains(&arguments.policy) {
            let takers: Vec<String> = takers.iter().map(|taker| name(*taker)).collect();
            return Err(Failure::input(format!(
                "{option} is for {}; {} does not take it",
                takers.join(", "),
                name(arguments.policy)
            )));
        }
    }
    match (arguments.policy, arguments.base) {
        (EqualProgress, Some(ShareBase::MaxFair)) => Err(Failure::input(
            "equal progress relative to max-fair is max-fair; use --base fast or slow",
        )),
        _ => Ok(()),
    }
}

fn policy(arguments: &Shares) -> Result<Policy, Failure> {
    let target = arguments.target.unwrap_or(TARGET);
    let similarity = arguments.similarity.unwrap_or(SIMILARITY);
    let uniformity = arguments.uniformity.unwrap_or(UNIFORMITY);
    let deviation = Deviation::Sample;
    Ok(match arguments.policy {
        SharePolicy::MaxFair => Policy::MaxFair,
        SharePolicy::MaxPerf => Policy::MaxPerf,
        SharePolicy::MinFair => Policy::MinFair { target },
        SharePolicy::SimilarMinFair => Policy::SimilarMinFair { similarity, target },
        SharePolicy::UniFair => Policy::UniFair { uniformity, deviation },
        SharePolicy::MinUniFair => Policy::MinUniFair { similarity, target, uniformity, deviation },
        SharePolicy::RFair => Policy::RFair {
            ratio: arguments.ratio.unwrap_or(RATIO),
            reading: match arguments.reading {
                None | Some(ShareReading::Greedy) => Reading::Greedy,
                Some(ShareReading::Blend) => Reading::Blend,
            },
        },
        SharePolicy::EqualProgress => Policy::EqualProgress {
            base: match arguments.base {
                Some(ShareBase::Slow) => Base::SlowCore,
                _ => Base::FastCore,
            },
        },
        SharePolicy::ScaledLoad => Policy::ScaledLoad {
            powers: (!arguments.powers.is_empty()).then(|| arguments.powers.clone()),
        },
        SharePolicy::GuaranteedFair => Policy::GuaranteedFair { uniformity, deviation },
    })
}

fn tasks(arguments: &Shares) -> Result<Vec<Task>, Failure> {
    let types = arguments.cores.len();
    let count = arguments.speedups.len();
    for (option, list) in [("--weights", &arguments.weights), ("--targets", &arguments.targets)] {
        if !list.is_empty() && list.len() != count {
            return Err(Failure::input(format!(
                "{option} has {} numbers for {count} tasks; give one for each of --speedups",
                list.len()
            )));
        }
    }
    let task = |(index, row): (usize, &String)| -> Result<Task, Failure> {
        let mut task = Task::new(speeds(row, types)?);
        task.weight = arguments.weights.get(index).copied().unwrap_or(1.0);
        task.target = arguments.targets.get(index).copied();
        Ok(task)
    };
    arguments.speedups.iter().enumerate().map(task).collect()
}

/// Speeds on each type but the slowest. The slowest type's speed, 1, may be included.
fn speeds(row: &str, types: usize) -> Result<Vec<f64>, Failure> {
    let numbers: Result<Vec<f64>, _> = row.split('/').map(|part| part.trim().parse()).collect();
    let mut speeds = numbers.map_err(|_| {
        Failure::input(format!(
            "--speedups: `{row}` is no speed; write 3.5, or 3.5/2 for three core types"
        ))
    })?;
    if speeds.len() + 1 == types {
        speeds.push(1.0);
    }
    match speeds.len() == types {
        true => Ok(speeds),
        false => Err(Failure::input(format!(
            "--speedups: `{row}` has {} speeds for {types} core types; give one for each type but the \
             slowest, as 3.5/2 for three",
            speeds.len()
        ))),
    }
}
