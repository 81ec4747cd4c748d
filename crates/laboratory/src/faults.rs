// SPDX-License-Identifier: GPL-2.0-only
//! Faults that a policy has to survive: the scripts of `faults/`. `kinds/faults.rs` reads their lines about each run.

use terminal::Failure;

/// Functions for every script.
const PRELUDE: &str = include_str!("../../../faults/prelude.sh");
/// Does the fault to each policy, looks for leftovers, and prints the outcome.
const EACH: &str = include_str!("../../../faults/each.sh");

/// The faults by name: text of `faults/NAME.sh`.
const FAULTS: &[(&str, &str)] = &[
    ("fork-bomb", include_str!("../../../faults/fork-bomb.sh")),
    ("hotplug", include_str!("../../../faults/hotplug.sh")),
    ("keeps", include_str!("../../../faults/keeps.sh")),
    ("kill-loader", include_str!("../../../faults/kill-loader.sh")),
    ("limits", include_str!("../../../faults/limits.sh")),
    ("many-cpus", include_str!("../../../faults/many-cpus.sh")),
    ("pages", include_str!("../../../faults/pages.sh")),
    ("rebinds", include_str!("../../../faults/rebinds.sh")),
    ("reclasses", include_str!("../../../faults/reclasses.sh")),
    ("repin", include_str!("../../../faults/repin.sh")),
    ("rt-hog", include_str!("../../../faults/rt-hog.sh")),
    ("siege", include_str!("../../../faults/siege.sh")),
    ("idle", include_str!("../../../faults/idle.sh")),
    ("second", include_str!("../../../faults/second.sh")),
    ("starve", include_str!("../../../faults/starve.sh")),
    ("stress", include_str!("../../../faults/stress.sh")),
    ("visited", include_str!("../../../faults/visited.sh")),
];

/// Programs of this machine that every fault needs.
pub const PROGRAMS: [&str; 2] = ["hackbench", "chrt"];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_policies() {
        let text = script("starve", "", &["cas", "rr"]).unwrap();
        assert!(text.contains("POLICIES='cas rr'"), "{text}");
        let error = script("flood", "", &[]).unwrap_err().to_string();
        assert!(error.contains("there are: fork-bomb, hotplug"), "{error}");
    }
}
