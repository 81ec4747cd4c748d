// SPDX-License-Identifier: GPL-2.0-only
//! Names that options take, for completion in a shell.

use std::ffi::OsStr;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use comparison::{POLICIES, WORKLOADS, contender};

/// Kinds that can be listed.
pub const KINDS: [&str; 4] = ["policies", "machines", "workloads", "figures"];

/// Names with this beginning.
fn beginning(typed: &str, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    names.filter(|name| name.starts_with(typed)).map(CompletionCandidate::new).collect()
}

/// The same, and files.
fn or_files(typed: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let mut found = beginning(&typed.to_string_lossy(), names);
    found.extend(PathCompleter::file().complete(typed));
    found
}

/// Policies, behind the last comma; behind a colon, knobs. Commas separate knobs too, so either may follow a knob.
pub fn policies(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let (before, last) = match typed.rfind(',') {
        Some(comma) => typed.split_at(comma + 1),
        None => ("", &*typed),
    };
    let found: Vec<String> = match last.split_once(':') {
        Some((name, _)) => knobs(name).map(|knob| format!("{before}{name}:{knob}=")).collect(),
        None => {
            let open = before.rsplit(',').find_map(|part| part.split_once(':'));
            let knobs = open.into_iter().flat_map(|(name, _)| knobs(name));
            let names = contender::names().map(String::from);
            names
                .chain(knobs.map(|knob| format!("{knob}=")))
                .map(|end| format!("{before}{end}"))
                .collect()
        }
    };
    beginning(&typed, found.into_iter())
}

fn knobs(policy: &str) -> impl Iterator<Item = &'static str> {
    let own = POLICIES.iter().find(|own| own.name == policy);
    own.into_iter().flat_map(|own| own.knobs.iter().map(|knob| knob.name))
}

/// Built-in machines, `this`, and files.
pub fn machines(typed: &OsStr) -> Vec<CompletionCandidate> {
    or_files(typed, machine::names().chain(["this"]).map(String::from))
}

/// Built-in workloads, and files.
pub fn workloads(typed: &OsStr) -> Vec<CompletionCandidate> {
    or_files(typed, WORKLOADS.iter().map(|(name, _)| name.to_string()))
}

/// Names for `repro`.
pub fn papers(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(&typed.to_string_lossy(), laboratory::papers().map(String::from))
}

/// Figures of all papers.
pub fn figures(typed: &OsStr) -> Vec<CompletionCandidate> {
    beginning(&typed.to_string_lossy(), laboratory::figure_names().into_iter())
}

/// Names for `list`.
pub fn listed(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = KINDS.into_iter().chain(contender::names()).chain(machine::names());
    let names = names.chain(WORKLOADS.iter().map(|(name, _)| *name)).map(String::from);
    beginning(&typed.to_string_lossy(), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: Vec<CompletionCandidate>) -> Vec<String> {
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn policies_go_on_behind_a_comma_and_knobs_behind_a_colon() {
        let policies = |typed: &str| words(policies(OsStr::new(typed)));
        assert_eq!(policies("fls"), ["flsched"]);
        assert_eq!(policies("default,avx"), ["default,avx-fair"]);
        assert!(policies("flsched:").contains(&"flsched:slice=".to_string()));
        assert_eq!(policies("flsched:sl"), ["flsched:slice="]);
        let both = policies("default,flsched:slice=5ms,p");
        for wanted in ["parekh", "pile", "pull="] {
            let wanted = format!("default,flsched:slice=5ms,{wanted}");
            assert!(both.contains(&wanted), "{wanted}: {both:?}");
        }
        assert!(policies("nonsense").is_empty());
    }

    #[test]
    fn machines_workloads_papers_and_figures_are_known() {
        assert_eq!(words(machines(OsStr::new("phenom-2"))), ["phenom-2f4s"]);
        assert!(words(workloads(OsStr::new("uneven"))).contains(&"uneven-6".to_string()));
        assert_eq!(words(papers(OsStr::new("min"))), ["min-fair"]);
        assert_eq!(words(figures(OsStr::new("turns-sockets-4-p"))), ["turns-sockets-4-pull"]);
        assert_eq!(words(listed(OsStr::new("polic"))), ["policies"]);
    }
}
