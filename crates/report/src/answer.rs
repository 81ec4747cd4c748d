// SPDX-License-Identifier: GPL-2.0-only
//! What `try` answers, as `--json` prints it.

use serde::{Deserialize, Serialize};

use crate::text::sentence;

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Try a policy.
    Try,
    /// Stay with the first one.
    Stay,
    /// Several policies gain alike.
    Tie,
    /// The replay says too little for an answer.
    #[default]
    None,
}

/// An answer, with what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What to do.
    pub verdict: Verdict,
    /// The policy to try, the cheapest of those that gain alike, or the one to stay with. None: no answer.
    pub policy: Option<String>,
    /// All policies that gain alike, where it is a tie.
    pub alike: Vec<String>,
    /// How many times as fast as the first policy: from the median of the replays' own ratios.
    pub gain: Option<f64>,
    /// The range of the same: least and greatest.
    pub range: Option<[f64; 2]>,
    /// What the gain costs.
    pub costs: Option<Costs>,
    /// Why it is to be taken as a direction and not as a figure; empty where it is not.
    pub weak: Vec<String>,
    /// The answer in one sentence.
    pub headline: String,
    /// What it costs and what speaks against it, a sentence each.
    pub details: Vec<String>,
    /// All of that in one text.
    pub why: String,
    /// The command to run next, quoted for a shell. None: there is nothing to do.
    pub next: Option<String>,
}

impl Answer {
    /// A verdict in words: a sentence, and a sentence for each detail.
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

    /// Whether waits grow under what it names.
    pub fn is_costly(&self) -> bool {
        self.costs.as_ref().is_some_and(Costs::tail_grows)
    }

    fn join(&mut self) {
        let sentences = [&self.headline].into_iter().chain(&self.details);
        self.why = sentences.map(|it| sentence(it)).collect::<Vec<_>>().join(" ");
    }
}

/// What a policy's gain costs. None: not known.
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

/// Waits that grow to more than this many times what they were are told before anything else.
const TAIL_MAX: f64 = 2.0;

impl Costs {
    /// Whether 99 % of waits, or the longest, grow by so much that this is told first.
    pub fn tail_grows(&self) -> bool {
        let grows = |wait: Option<Beside>| wait.is_some_and(|wait| wait.grows(TAIL_MAX));
        grows(self.wait_p99_s) || grows(self.worst_wait_s)
    }
}

/// A figure beside the first policy's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The policy's.
    pub own: f64,
    /// The first policy's.
    pub first: f64,
}

impl Beside {
    /// Whether it is more than so many times the first policy's.
    pub fn grows(&self, times: f64) -> bool {
        self.own > times * self.first
    }
}

/// A task, and how much longer it takes than under the first policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowed {
    /// What it is called.
    pub name: String,
    /// Its time on CPUs and waiting for one, as a multiple of what that is under the first policy: the median of the
    /// runs' own ratios.
    pub ratio: f64,
}
