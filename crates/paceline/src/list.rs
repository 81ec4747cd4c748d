// SPDX-License-Identifier: GPL-2.0-only
//! `paceline list`: what there is to choose from.

use policy::{Instance, Policy};
use report::text::{Align, table, wrapped};
use workload::npb::Npb;

use crate::cli::List;
use crate::contender::{CLASSES, Contender, POLICIES};
use crate::failure::Failure;
use crate::output;
use crate::plan::WORKLOADS;

/// Shows everything, or one policy.
pub fn run(list: &List) -> Result<(), Failure> {
    let text = match &list.policy {
        None => all(),
        Some(name) => match Contender::parse(name)? {
            Contender::Class(class) => format!("{}: {}\n", class.name, class.summary),
            Contender::Policy(instance) => one(instance.policy),
        },
    };
    output::print(&text)
}

fn all() -> String {
    let policies = POLICIES.iter().map(|policy| {
        let knobs: Vec<&str> = policy.knobs.iter().map(|knob| knob.name).collect();
        vec![policy.name.to_string(), policy.summary.to_string(), knobs.join(", ")]
    });
    let classes = CLASSES
        .iter()
        .map(|class| vec![class.name.to_string(), class.summary.to_string(), String::new()]);
    let rows: Vec<Vec<String>> = classes.chain(policies).collect();
    left(&["policy", "what it does", "knobs"], &rows)
        + "\npaceline list POLICY shows a policy's knobs with their units, ranges and defaults.\n\n"
        + &machines()
        + "\n"
        + &workloads()
}

fn machines() -> String {
    let rows: Vec<Vec<String>> = machine::names()
        .filter_map(|name| machine::find(name).ok())
        .map(|machine| vec![machine.name, machine.cpus.len().to_string(), machine.summary])
        .collect();
    left(&["machine", "CPUs", "what it is"], &rows) + "\n" + &wrapped(PLAIN, output::style())
}

const PLAIN: &str = "plain-N is a machine of N CPUs: one node whose cores share a cache, with numa-2x4's costs. A \
                     recording of N CPUs is replayed on it where no machine is named.";

fn workloads() -> String {
    let rows: Vec<Vec<String>> = WORKLOADS
        .iter()
        .filter_map(|(name, json)| workload::rtapp::parse(name, json).ok())
        .map(|workload| vec![workload.name, workload.tasks.len().to_string()])
        .collect();
    left(&["workload", "tasks"], &rows)
        + "\n"
        + &wrapped(COMMANDS, output::style())
        + &wrapped(&models(), output::style())
}

/// Workloads that are command lines.
const COMMANDS: &str = "hackbench [-g N] [-l N] [-s BYTES] [-f N] [-p] [-T|-P] runs on vm and here, and is modelled on \
    sim; other commands run on vm and here, on sim as recordings.";

/// Workloads that are built and not read.
fn models() -> String {
    format!(
        "models for sim, which say what they touch of memory: {}; ring-threads-K-KB, ring-apart-K-KB \
         and ring-processes-K-KB pass a token round K tasks that sum up arrays of KB kilobytes; \
         rotate-P: threads of P processes take turns on a CPU; \
         pipelines-P: P processes whose threads hand a request on; \
         crowd-P: P servers that are never out of work; \
         npb-NAME[-TASKS]: a NAS benchmark ({}), so many tasks a CPU (1 to 16). \
         For uneven cores: {}, and mix-P-P-..., mixes of 23 made-up programs p01 to p23.",
        workload::apps::NAMES.join(", "),
        Npb::embedded().names().collect::<Vec<_>>().join(", "),
        workload::programs::MIXES.join(", ")
    )
}

fn one(policy: &'static Policy) -> String {
    let mut text = format!("{}: {}\n\n", policy.name, policy.summary);
    text += &wrapped(policy.about, output::style());
    text += "\n";
    text += &kept(policy);
    if policy.knobs.is_empty() {
        return text + "\nIt has no knobs.\n";
    }
    let defaults = Instance::default(policy);
    let rows: Vec<Vec<String>> = policy
        .knobs
        .iter()
        .zip(&defaults.values)
        .map(|(knob, value)| {
            vec![
                knob.name.to_string(),
                knob.format(*value),
                knob.unit.to_string(),
                knob.help.to_string(),
            ]
        })
        .collect();
    text += "\n";
    text += &left(&["knob", "default", "values", "what it does"], &rows);
    let first = &policy.knobs[0];
    text += &format!("\n--policy {}:{}={}\n", policy.name, first.name, first.format(first.default));
    text
}

/// What it keeps of what the kernel is asked for.
fn kept(policy: &Policy) -> String {
    let rows = policy.keeps.rows().map(|(what, kept)| {
        vec![what.to_string(), kept.kept.word().to_string(), kept.how.to_string()]
    });
    left(&["what", "kept", "how"], &rows)
}

fn left(headings: &[&str], rows: &[Vec<String>]) -> String {
    table(headings, rows, Align::Left, output::style())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the name of the policy's C.
    const READMES: [(&str, &str); 10] = [
        ("flsched", include_str!("../../../policies/flsched/README.md")),
        ("cas", include_str!("../../../policies/cas/README.md")),
        ("o1", include_str!("../../../policies/cas/README.md")),
        ("uneven", include_str!("../../../policies/uneven/README.md")),
        ("dino", include_str!("../../../policies/dino/README.md")),
        ("avx", include_str!("../../../policies/avx/README.md")),
        ("fifo", BASELINE),
        ("rr", BASELINE),
        ("pile", BASELINE),
        ("starve", BASELINE),
    ];
    const BASELINE: &str = include_str!("../../../policies/baseline/README.md");

    #[test]
    fn readmes_say_what_list_says_of_what_is_kept() {
        for policy in POLICIES {
            let (_, readme) = READMES.iter().find(|(ops, _)| *ops == policy.ops).unwrap();
            for (what, kept) in policy.keeps.rows() {
                let line = format!("| {what} | {} | {} |", kept.kept.word(), kept.how);
                let said = readme.lines().any(|other| other == line);
                assert!(said, "the README of {} has no line\n{line}", policy.name);
            }
        }
    }

    #[test]
    fn what_is_kept_is_plain_data() {
        let json = serde_json::to_value(flsched::FLSCHED.keeps).unwrap();
        assert_eq!(json["sched_idle"]["kept"], "no");
        assert_eq!(json["affinity"]["kept"], "yes");
    }
}
