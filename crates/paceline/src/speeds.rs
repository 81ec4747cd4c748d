// SPDX-License-Identifier: GPL-2.0-only
//! What `run` knows of programs' speeds: what an operator said, what was measured before, what is measured now.

use std::path::PathBuf;
use std::time::Duration;

use live::{Attached, Counters};
use policy::{Instance, Profile, Told, Topology};
use report::text::plural;

use crate::cli::Run;
use crate::failure::Failure;
use crate::output;
use crate::profile::{self, Given};

/// How often what was measured is written down.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// Where speeds come from, and where they go.
pub struct Speeds {
    given: Option<Given>,
    told: Profile,
    memo: Option<PathBuf>,
    remembered: Profile,
    kept: Duration,
}

impl Speeds {
    /// Reads the files that were named.
    pub fn new(args: &Run, instance: &Instance, topology: &Topology) -> Result<Self, Failure> {
        let kinds = topology.kinds();
        let given = args.profile.as_deref().map(Given::read).transpose()?;
        let told = given.as_ref().map(|given| given.profile(kinds, [instance].into_iter()));
        let mut remembered = Profile::new();
        if let Some(memo) = &args.memo {
            if instance.policy.told() != Some(Told::Speeds) {
                return Err(Failure::input(
                    "--memo is for policies that share uneven cores, such as min-fair; name one",
                ));
            }
            report::probe(memo).map_err(|error| Failure::input(format!("--memo: {error}")))?;
            if memo.exists() {
                remembered = Given::read(memo)?.believed(kinds, instance);
            }
        }
        let (told, memo) = (told.transpose()?.unwrap_or_default(), args.memo.clone());
        Ok(Speeds { given, told, memo, remembered, kept: Duration::ZERO })
    }

    /// All that is known beforehand; what somebody said comes before what was measured.
    pub fn profile(&self) -> Profile {
        let mut all = self.remembered.clone();
        all.extend(self.told.clone());
        all
    }

    /// Where speeds come from, in a line.
    pub fn described(&self, attached: &Attached) -> String {
        let by = if attached.counts_at_switches() { ", read at switches" } else { "" };
        self.with(attached.counters(), by)
    }

    fn with(&self, counters: &Counters, by: &str) -> String {
        let counted = counters.describe();
        self.sum_up(match (counters.any(), counted.is_empty()) {
            (true, _) => Ok(format!("{counted}{by}")),
            (false, true) => Err("off".into()),
            (false, false) => Err(counted),
        })
    }

    /// The same, by what is counted, or why nothing is.
    pub fn sum_up(&self, counted: Result<String, String>) -> String {
        let counts = counted.is_ok();
        let mut parts = vec![match counted {
            Ok(counters) => format!("counters: {counters}"),
            Err(why) => format!("no counters ({why})"),
        }];
        if let Some(given) = &self.given {
            parts.push(format!("{} told", plural(given.len(), "program")));
        }
        if self.memo.is_some() {
            parts.push(format!("{} remembered", plural(self.remembered.len(), "program")));
        }
        if !counts && self.profile().is_empty() {
            parts.push("every task is taken for one that gains most (knob speedup_max)".into());
        }
        format!("speeds: {}", parts.join("; "))
    }

    /// Says which programs of the profile do not run; the command may still start them.
    pub fn warn(&self, args: &Run) {
        let Some(given) = self.given.as_ref().filter(|_| args.command.is_empty()) else { return };
        if let Some(warning) = given.warning(&live::absent(self.told.keys())) {
            output::say(&warning);
        }
    }

    /// Writes down what was measured, once in a while.
    pub fn keep_now_and_then(&mut self, learned: impl FnOnce() -> Profile, passed: Duration) {
        if passed >= self.kept + KEEP_EVERY {
            self.kept = passed;
            self.keep(learned());
        }
    }

    /// Writes down what was measured; a file that cannot be written does not end the policy.
    pub fn keep(&mut self, learned: Profile) {
        let Some(memo) = self.memo.as_ref().filter(|_| !learned.is_empty()) else { return };
        self.remembered.extend(learned);
        if let Err(error) = report::write_whole(memo, profile::write(&self.remembered)) {
            output::say(&format!("paceline: --memo: {error}"));
        }
    }
}
