// SPDX-License-Identifier: GPL-2.0-only
//! Knowledge of programs, their speeds or their misses: from a profile, from earlier measurements, and from
//! present ones.

use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use comparison::profile::{self, Given};
use comparison::turbo;
use live::Attached;
use policy::{Instance, Profile, Topology};
use report::text::plural;
use terminal::{Failure, output};
use uneven::REMEMBERED;

/// Time between writes of the measurements.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// What a user tells of programs.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// A file with figures of programs.
    pub profile: Option<PathBuf>,
    /// A file for measurements.
    pub memo: Option<PathBuf>,
    /// Something else is counted than what the policy goes by.
    pub counts_otherwise: bool,
}

/// The sources of these figures, and the file for measurements.
pub struct Known {
    given: Option<Given>,
    told: Profile,
    memo: Option<PathBuf>,
    remembered: Profile,
    kept: Duration,
}

impl Known {
    /// Reads the named files.
    pub fn new(from: &Told, instance: &Instance, topology: &Topology) -> Result<Self, Failure> {
        let kinds = topology.kinds();
        let numbers = instance.policy.told(kinds);
        if numbers == Some(policy::Told::Misses) && from.counts_otherwise {
            return Err(Failure::input(format!(
                "--counter: {} counts misses of each thread, and nothing in their place; leave it out",
                instance.policy.name
            )));
        }
        let given = from.profile.as_deref().map(Given::read).transpose()?;
        let told = given.as_ref().map(|given| given.profile(kinds, [instance].into_iter()));
        let mut remembered = Profile::new();
        if let Some(memo) = &from.memo {
            if numbers != Some(policy::Told::Speeds) {
                return Err(Failure::input(
                    "--memo is for policies that share uneven cores, such as min-fair; name one",
                ));
            }
            report::probe(memo).map_err(|error| Failure::input(format!("--memo: {error}")))?;
            if memo.exists() {
                remembered = Given::read(memo)?.believed(kinds, instance);
                remembered.retain(|id, _| outlasts(id));
            }
        }
        let (told, memo) = (told.transpose()?.unwrap_or_default(), from.memo.clone());
        Ok(Known { given, told, memo, remembered, kept: Duration::ZERO })
    }

    /// All figures known in advance; the profile takes precedence over measurements.
    pub fn profile(&self) -> Profile {
        let mut all = self.remembered.clone();
        all.extend(self.told.clone());
        all
    }

    /// Where what the policy knows of programs comes from, in a line. A policy that works without says what it lacks
    /// itself.
    pub fn sources(
        &self,
        instance: &Instance,
        topology: &Topology,
        attached: &Attached,
    ) -> Option<String> {
        let clocks = &topology.clocks;
        match instance.policy.told(topology.kinds())? {
            policy::Told::Speeds => Some(self.speeds(attached)),
            policy::Told::Misses => Some(self.misses(live::counts_misses())),
            policy::Told::Levels => {
                let needs_clocks = instance.policy.told(2) == Some(policy::Told::Levels);
                let says = needs_clocks || !clocks.turbo_khz.is_empty();
                says.then(|| turbo::described(instance, clocks, attached.counters()))
            }
        }
    }

    /// The sources of speeds, in a line.
    fn speeds(&self, attached: &Attached) -> String {
        let by = if attached.counts_at_switches() { ", read at switches" } else { "" };
        let counters = attached.counters();
        let counted = counters.describe();
        self.speeds_by(match (counters.any(), counted.is_empty()) {
            (true, _) => Ok(format!("{counted}{by}")),
            (false, true) => Err("off".into()),
            (false, false) => Err(counted),
        })
    }

    /// The same, from the counters, or from the reason why there are none.
    pub fn speeds_by(&self, counted: Result<String, String>) -> String {
        let counts = counted.is_ok();
        let mut parts = vec![match counted {
            Ok(counters) => format!("counters: {counters}"),
            Err(why) => format!("no counters ({why})"),
        }];
        parts.extend(self.told_of());
        if self.memo.is_some() {
            parts.push(format!("{} remembered", plural(self.remembered.len(), "program")));
        }
        if !counts && self.profile().is_empty() {
            parts.push("every task is taken for one that gains most".into());
        }
        format!("speeds: {}", parts.join("; "))
    }

    /// The sources of misses, in a line; `counted`: the reason why they are not counted.
    pub fn misses(&self, counted: Result<(), String>) -> String {
        let parts: Vec<String> = match (counted, self.told_of()) {
            (Ok(()), told) => iter::once("counted of each thread".into()).chain(told).collect(),
            (Err(why), Some(told)) => vec![format!("no counters ({why})"), told],
            (Err(why), None) => vec![
                format!("unknown, for there are no counters ({why})"),
                "no thread is placed: give --profile".into(),
            ],
        };
        format!("misses: {}", parts.join("; "))
    }

    /// How many programs are in the profile.
    fn told_of(&self) -> Option<String> {
        let given = self.given.as_ref()?;
        Some(format!("{} told", plural(given.count(), "program")))
    }

    /// Warns of programs in the profile that do not run.
    pub fn warn(&self) {
        let Some(given) = &self.given else { return };
        if let Some(warning) = given.warning(&live::absent(self.told.keys())) {
            output::say(&warning);
        }
    }

    /// Writes the measurements, at intervals.
    pub fn keep_now_and_then(&mut self, learned: impl FnOnce() -> Profile, passed: Duration) {
        if passed >= self.kept + KEEP_EVERY {
            self.kept = passed;
            self.keep(learned());
        }
    }

    /// Writes the measurements; a file that cannot be written does not end the policy.
    pub fn keep(&mut self, learned: Profile) {
        let learned: Profile = learned.into_iter().filter(|(id, _)| outlasts(id)).collect();
        let Some(memo) = self.memo.as_ref().filter(|_| !learned.is_empty()) else { return };
        remember(&mut self.remembered, learned);
        if let Err(error) = report::write_whole(memo, profile::write(&self.remembered)) {
            output::say(&format!("paceline: --memo: {error}"));
        }
    }
}

/// Whether an id stays the same program's for days: a file's inode, and its time, may be another's by then.
fn outlasts(id: &str) -> bool {
    !id.starts_with(live::BY_FILE)
}

/// Adds the measurements. If there are too many programs, some that were not measured in this run are dropped. Which of
/// those ran last is not known.
fn remember(remembered: &mut Profile, learned: Profile) {
    remembered.retain(|id, _| !learned.contains_key(id));
    while !remembered.is_empty() && remembered.len() + learned.len() > REMEMBERED {
        remembered.pop_first();
    }
    remembered.extend(learned);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(policy: &'static policy::Policy, told: &Told) -> Result<Known, Failure> {
        Known::new(told, &Instance::default(policy), &Topology::default())
    }

    #[test]
    fn what_is_said_of_misses_is_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.toml");
        std::fs::write(&file, "[programs]\nmcf = 38\n").unwrap();
        let untold = known(&dino::DINO, &Told::default()).unwrap();
        let told = known(&dino::DINO, &Told { profile: Some(file), ..Told::default() }).unwrap();
        let no = || Err("no such device".to_string());
        for (known, counted, said) in [
            (&untold, Ok(()), "misses: counted of each thread"),
            (&told, Ok(()), "misses: counted of each thread; 1 program told"),
            (&told, no(), "misses: no counters (no such device); 1 program told"),
            (
                &untold,
                no(),
                "misses: unknown, for there are no counters (no such device); no thread is placed: give --profile",
            ),
        ] {
            assert_eq!(known.misses(counted), said);
        }
    }

    #[test]
    fn a_policy_that_counts_misses_takes_no_other_counter() {
        let otherwise = Told { counts_otherwise: true, ..Told::default() };
        let error = known(&dino::DINO, &otherwise).err().unwrap().to_string();
        assert!(error.starts_with("--counter: dino counts misses"), "{error}");
        assert!(known(&uneven::MIN_FAIR, &otherwise).is_ok());
        assert!(known(&dino::DINO, &Told::default()).is_ok());
    }

    fn measured(ids: impl Iterator<Item = String>) -> Profile {
        ids.map(|id| (id, vec![2.0, 1.0])).collect()
    }

    #[test]
    fn a_memo_keeps_so_many_programs_and_those_of_this_run_first() {
        let ids = |from: usize, to| (from..to).map(|id| format!("build-id:{id:08x}"));
        let mut remembered = measured(ids(10, 10 + REMEMBERED));
        remember(&mut remembered, measured(ids(0, 3).chain(ids(20, 21))));
        assert_eq!(remembered.len(), REMEMBERED);
        let here = |id: usize| remembered.contains_key(&format!("build-id:{id:08x}"));
        assert_eq!([0, 2, 10, 12, 13, 20].map(here), [true, true, false, false, true, true]);
    }

    #[test]
    fn a_memo_has_no_program_that_goes_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let memo = folder.path().join("memo.toml");
        let ids = |ids: [&str; 2]| measured(ids.map(String::from).into_iter());
        std::fs::write(&memo, profile::write(&ids(["build-id:aa", "file:1:2"]))).unwrap();
        let topology = Topology { core_type: vec![0, 1], ..Topology::default() };
        let told = Told { memo: Some(memo.clone()), ..Told::default() };
        let instance = Instance::default(&uneven::MIN_FAIR);
        let mut known = Known::new(&told, &instance, &topology).unwrap();
        assert_eq!(known.profile().keys().collect::<Vec<_>>(), ["build-id:aa"]);
        known.keep(measured(["file:1:2:3.0".to_string()].into_iter()));
        assert!(std::fs::read_to_string(&memo).unwrap().contains("file:1:2"), "nothing is kept");
        known.keep(ids(["build-id:bb", "file:1:2:3.0"]));
        let kept = std::fs::read_to_string(&memo).unwrap();
        assert!(kept.contains("build-id:aa") && kept.contains("build-id:bb"), "{kept}");
        assert!(!kept.contains("file:"), "{kept}");
    }
}
