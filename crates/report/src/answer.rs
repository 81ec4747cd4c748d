// SPDX-License-Identifier: GPL-2.0-only
//! The answer of `try`, as `--json` prints it.

use serde::{Deserialize, Serialize};

use crate::text::sentence;

/// The advice to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Try a policy.
    Try,
    /// Stay with the first one.
    Stay,
    /// Several policies gain alike.
    Tie,
    /// The replay shows too little for an answer.
    #[default]
    None,
}

/// An answer, with what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The advice to the user.
    pub verdict: Verdict,
    /// The policy to try, the cheapest of those that gain alike, or the one to stay with. None: no answer.
    pub policy: Option<String>,
    /// All policies that gain alike, if it is a tie.
    pub alike: Vec<String>,
    /// How many times as fast as the first policy: from the median of the replays' own ratios.
    pub gain: Option<f64>,
    /// The least and the greatest such ratio.
    pub range: Option<[f64; 2]>,
    /// Costs of the gain.
    pub costs: Option<Costs>,
    /// Why the gain is a direction and not a figure; empty if it is a figure.
    pub weak: Vec<String>,
    /// The answer in one sentence.
    pub headline: String,
    /// Costs and objections, a sentence each.
    pub details: Vec<String>,
    /// The headline and all details in one text.
    pub why: String,
    /// The command to run next, quoted for a shell. None: there is nothing to do.
    pub next: Option<String>,
}

impl Answer {
    /// A verdict in words: a headline, and a sentence for each detail.
    pub fn new(verdict: Verdict, headline: String, details: Vec<String>) -> Self {
        let mut answer = Answer { verdict, headline, details, ..Answer::default() };
        answer.join();
        answer
    }

    /// Adds a detail.
    pub fn add(&mut self, detail: String) {
        self.details.push(detail);
        self.join();
    }

    /// Whether waits grow under the named policy.
    pub fn is_costly(&self) -> bool {
        self.costs.as_ref().is_some_and(Costs::tail_grows)
    }

    fn join(&mut self) {
        let sentences = [&self.headline].into_iter().chain(&self.details);
        self.why = sentences.map(|it| sentence(it)).collect::<Vec<_>>().join(" ");
    }
}

/// Costs of a policy's gain. None: not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// 99 % of waits are shorter: the median of the runs.
    pub wait_p99_s: Option<Beside>,
    /// The longest wait of all runs.
    pub worst_wait_s: Option<Beside>,
    /// Context switches: the median of the runs.
    pub context_switches: Option<Beside>,
    /// The task that loses most, or gains least.
    pub slowest_task: Option<Slowed>,
}

/// Waits that grow to more than this multiple are mentioned before anything else.
const TAIL_MAX: f64 = 2.0;

impl Costs {
    /// Whether the 99th percentile of waits, or the longest wait, grows enough to be mentioned first.
    pub fn tail_grows(&self) -> bool {
        let grows = |wait: Option<Beside>| wait.is_some_and(|wait| wait.grows(TAIL_MAX));
        grows(self.wait_p99_s) || grows(self.worst_wait_s)
    }
}

/// A figure beside the first policy's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The figure of the policy.
    pub own: f64,
    /// The figure of the first policy.
    pub first: f64,
}

impl Beside {
    /// Whether it is more than `times` the first policy's.
    pub fn grows(&self, times: f64) -> bool {
        self.own > times * self.first
    }
}

/// A task, and how much longer it takes than under the first policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowed {
    /// Name of the task.
    pub name: String,
    /// Its time on CPUs and waiting for one, divided by the same under the first policy: the median of the runs' own
    /// ratios.
    pub ratio: f64,
}
