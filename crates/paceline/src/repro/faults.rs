// SPDX-License-Identifier: GPL-2.0-only
//! Faults that a policy has to survive: scripts of `faults/`, and their lines about each run.

use trace::Outcome;

use crate::failure::Failure;

/// Functions for every script.
const PRELUDE: &str = include_str!("../../../../faults/prelude.sh");
/// Does the fault to each policy, looks for leftovers, and prints the outcome.
const EACH: &str = include_str!("../../../../faults/each.sh");

/// The faults by name: text of `faults/NAME.sh`.
const FAULTS: &[(&str, &str)] = &[
    ("fork-bomb", include_str!("../../../../faults/fork-bomb.sh")),
    ("hotplug", include_str!("../../../../faults/hotplug.sh")),
    ("keeps", include_str!("../../../../faults/keeps.sh")),
    ("kill-loader", include_str!("../../../../faults/kill-loader.sh")),
    ("many-cpus", include_str!("../../../../faults/many-cpus.sh")),
    ("pages", include_str!("../../../../faults/pages.sh")),
    ("rebinds", include_str!("../../../../faults/rebinds.sh")),
    ("reclasses", include_str!("../../../../faults/reclasses.sh")),
    ("repin", include_str!("../../../../faults/repin.sh")),
    ("rt-hog", include_str!("../../../../faults/rt-hog.sh")),
    ("siege", include_str!("../../../../faults/siege.sh")),
    ("idle", include_str!("../../../../faults/idle.sh")),
    ("second", include_str!("../../../../faults/second.sh")),
    ("starve", include_str!("../../../../faults/starve.sh")),
    ("stress", include_str!("../../../../faults/stress.sh")),
    ("visited", include_str!("../../../../faults/visited.sh")),
];

/// Programs of this machine that every fault needs.
pub const PROGRAMS: [&str; 2] = ["hackbench", "chrt"];

/// The outcome of one run under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faced {
    policy: String,
    run: usize,
    /// Why it was not survived.
    pub why: Option<String>,
}

impl Faced {
    /// Whether it was lost for this reason.
    pub fn is_caught(&self, by: &str) -> bool {
        self.why.as_ref().is_some_and(|why| why.contains(by))
    }

    /// A lost run in one line.
    pub fn told(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(format!("{}, run {}: {why}", self.policy, self.run + 1))
    }
}

/// The text that a shell in the guest runs, as root.
pub fn script(name: &str, before: &str, policies: &[&str]) -> Result<String, Failure> {
    let Some((_, body)) = FAULTS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        return Err(Failure::input(format!("no fault is called `{name}`; there are: {known}")));
    };
    let policies = policies.join(" ");
    Ok(format!("{PRELUDE}\n{before}\nfault() {{\n{body}\n}}\nPOLICIES='{policies}'\n{EACH}"))
}

/// An outcome for each policy: a policy that the script does not mention is lost.
pub fn faced(outcome: &Outcome, policies: &[&str]) -> Vec<Faced> {
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

    #[test]
    fn a_script_names_its_policies() {
        let text = script("starve", "", &["cas", "rr"]).unwrap();
        assert!(text.contains("POLICIES='cas rr'"), "{text}");
        let error = script("flood", "", &[]).unwrap_err().to_string();
        assert!(error.contains("there are: fork-bomb, hotplug"), "{error}");
    }
}
