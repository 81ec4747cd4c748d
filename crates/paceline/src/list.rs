// SPDX-License-Identifier: GPL-2.0-only
//! `paceline list`: the available policies, machines, workloads and figures.

use comparison::{CLASSES, Contender, POLICIES, WORKLOADS, contender};
use machine::Machine;
use policy::table::TYPES_MAX;
use policy::{Instance, Policy};
use report::text::{Align, plural, table, wrapped};
use serde_json::{Value, json};
use terminal::{Failure, meant, output};
use workload::Workload;
use workload::apps::Apps;
use workload::npb::Npb;
use workload::programs::Programs;

use crate::cli::List;
use crate::complete::KINDS;

/// Shows everything, one kind, or one item.
pub fn run(list: &List) -> Result<(), Failure> {
    let shown = match list.what.as_deref() {
        None => Shown {
            text: policies().text + "\n" + &machines().text + "\n" + &workloads().text,
            json: json!({
                "policies": policies().json, "machines": machines().json, "workloads": workloads().json,
            }),
        },
        Some("policies") => policies(),
        Some("machines") => machines(),
        Some("workloads") => workloads(),
        Some("figures") => {
            let (text, json) = laboratory::figures()?;
            Shown { text, json }
        }
        Some(name) => one(name)?,
    };
    output::print(&match list.json {
        true => serde_json::to_string_pretty(&shown.json).expect("it is plain data") + "\n",
        false => shown.text,
    })
}

/// The same for people and for programs.
struct Shown {
    text: String,
    json: Value,
}

/// The policy, machine or workload of this name.
fn one(name: &str) -> Result<Shown, Failure> {
    let base = name.split(':').next().unwrap_or_default();
    if contender::names().any(|known| known == base) {
        return Ok(match Contender::parse(name)? {
            Contender::Class(class) => Shown {
                text: format!("{}: {}\n", class.name, class.summary),
                json: class_json(class),
            },
            Contender::Policy(instance) => one_policy(instance.policy),
            Contender::Program(_) => unreachable!("a program has no name among these"),
        });
    }
    if let Ok(machine) = machine::find(name) {
        return Ok(one_machine(&machine));
    }
    let model = || Apps::embedded().build(name).or_else(|| Programs::embedded().build(name));
    let workload = embedded().find(|workload| workload.name == name).or_else(model);
    if let Some(workload) = workload {
        return Ok(one_workload(&workload));
    }
    let known = KINDS.into_iter().chain(contender::names()).chain(machine::names());
    let known = known.chain(WORKLOADS.iter().map(|(known, _)| *known));
    Err(Failure::input(format!(
        "no policy, machine or workload is called `{name}`; {}`paceline list policies`, `list machines` and \
         `list workloads` show what there is",
        meant::proposal(name, known)
    )))
}

fn policies() -> Shown {
    let classes = CLASSES
        .iter()
        .map(|class| vec![class.name.to_string(), class.summary.to_string(), String::new()]);
    let policies = POLICIES.iter().map(|policy| {
        let knobs: Vec<&str> = policy.knobs.iter().map(|knob| knob.name).collect();
        vec![policy.name.to_string(), policy.summary.to_string(), knobs.join(", ")]
    });
    let rows: Vec<Vec<String>> = classes.chain(policies).collect();
    let text = left(&["policy", "what it does", "knobs"], &rows)
        + "\npaceline list POLICY shows a policy's knobs with their units, ranges and defaults.\n";
    let json = CLASSES.iter().map(class_json).chain(POLICIES.iter().map(|own| policy_json(own)));
    Shown { text, json: json.collect() }
}

fn class_json(class: &contender::Class) -> Value {
    json!({"name": class.name, "summary": class.summary, "knobs": []})
}

fn policy_json(policy: &Policy) -> Value {
    let defaults = policy.knobs.iter().map(|knob| {
        json!({
            "name": knob.name, "default": knob.format(knob.variable.default),
            "values": knob.unit.to_string(), "help": knob.help,
        })
    });
    json!({
        "name": policy.name, "summary": policy.summary, "about": policy.about,
        "keeps": policy.keeps, "knobs": defaults.collect::<Vec<_>>(),
    })
}

fn machines() -> Shown {
    let all: Vec<Machine> = machine::names().filter_map(|name| machine::find(name).ok()).collect();
    let row = |machine: &Machine| {
        vec![machine.name.clone(), machine.cpus.len().to_string(), machine.summary.clone()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let text = left(&["machine", "CPUs", "what it is"], &rows)
        + "\n"
        + &wrapped(PLAIN, output::style())
        + "paceline list MACHINE shows what is known of one.\n";
    Shown { text, json: all.iter().map(machine_json).collect() }
}

const PLAIN: &str = "plain-N is a machine of N CPUs: one node whose cores share a cache, with numa-2x4's costs. A \
                     recording of N CPUs is replayed on it where no machine is named.";

fn machine_json(machine: &Machine) -> Value {
    let cost = |(name, of): (&&str, &machine::Quantity)| {
        json!({
            "name": name, "value": of.value, "range": of.range, "unit": of.unit, "tag": of.tag,
            "source": of.source,
        })
    };
    json!({
        "name": machine.name, "summary": machine.summary, "cpus": machine.cpus.len(),
        "cores": distinct(machine, |cpu| cpu.core), "caches": distinct(machine, |cpu| cpu.llc),
        "nodes": distinct(machine, |cpu| cpu.node), "core_rates": machine.core_rates,
        "models": models_of(machine), "costs": machine.sources.iter().map(cost).collect::<Vec<_>>(),
    })
}

fn distinct(machine: &Machine, of: fn(&machine::Cpu) -> u16) -> usize {
    let mut all: Vec<u16> = machine.cpus.iter().map(of).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Hardware effects that are modelled beside costs.
fn models_of(machine: &Machine) -> Vec<&'static str> {
    let all = [
        (machine.memory.is_some(), "TLBs and caches"),
        (machine.fabric.is_some(), "memory domains"),
        (machine.frequency.is_some(), "frequency"),
        (machine.kinds(TYPES_MAX).rates.len() > 1, "kinds of cores"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, what)| what).collect()
}

fn one_machine(machine: &Machine) -> Shown {
    let mut text = format!("{}: {}\n\n", machine.name, machine.summary);
    text += &format!(
        "{}, {}, {}, {}\n",
        plural(machine.cpus.len(), "CPU"),
        plural(distinct(machine, |cpu| cpu.core), "core"),
        plural(distinct(machine, |cpu| cpu.llc), "last-level cache"),
        plural(distinct(machine, |cpu| cpu.node), "memory node"),
    );
    let modelled = models_of(machine);
    text += &match modelled.is_empty() {
        true => "modelled: costs alone\n\n".to_string(),
        false => format!("modelled beside costs: {}\n\n", modelled.join(", ")),
    };
    let row = |(name, of): (&&str, &machine::Quantity)| {
        let range = of.range.map_or(String::new(), |[least, most]| format!("{least} to {most}"));
        let tag = serde_json::to_value(of.tag).expect("it is a word");
        let tag = tag.as_str().unwrap_or_default().to_string();
        let unit = if of.unit == "1" { "" } else { &of.unit };
        vec![name.to_string(), format!("{} {unit}", of.value).trim_end().to_string(), range, tag]
    };
    let rows: Vec<Vec<String>> = machine.sources.iter().map(row).collect();
    text += &left(&["cost", "value", "range", "how it is known"], &rows);
    text +=
        &format!("\n--on sim --machine {}; --json has the source of each number\n", machine.name);
    Shown { text, json: machine_json(machine) }
}

fn embedded() -> impl Iterator<Item = Workload> {
    WORKLOADS.iter().filter_map(|(name, json)| workload::rtapp::parse(name, json).ok())
}

fn workload_json(workload: &Workload) -> Value {
    json!({
        "name": workload.name, "tasks": workload.tasks.len(),
        "duration_s": workload.duration_ns.map(|ns| ns as f64 / 1e9),
    })
}

fn workloads() -> Shown {
    let rows: Vec<Vec<String>> =
        embedded().map(|workload| vec![workload.name, workload.tasks.len().to_string()]).collect();
    let text = left(&["workload", "tasks"], &rows)
        + "\n"
        + &wrapped(COMMANDS, output::style())
        + &wrapped(&models(), output::style());
    Shown { text, json: embedded().map(|workload| workload_json(&workload)).collect() }
}

fn one_workload(workload: &Workload) -> Shown {
    let mut programs: Vec<(String, usize)> = Vec::new();
    for task in &workload.tasks {
        let name = task.name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        match programs.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => programs.push((name.to_string(), 1)),
        }
    }
    let rows: Vec<Vec<String>> =
        programs.into_iter().map(|(name, count)| vec![name, count.to_string()]).collect();
    let until = workload.duration_ns.map_or("until all tasks end".into(), |ns| {
        format!("for {}", report::text::time(ns as f64 / 1e9))
    });
    let text = format!("{}: {}, {until}\n\n", workload.name, plural(workload.tasks.len(), "task"))
        + &left(&["program", "tasks"], &rows)
        + &format!("\n--workload {}\n", workload.name);
    Shown { text, json: workload_json(workload) }
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

fn one_policy(policy: &'static Policy) -> Shown {
    let mut text = format!("{}: {}\n\n", policy.name, policy.summary);
    text += &wrapped(policy.about, output::style());
    text += "\n";
    text += &kept(policy);
    text += &knobs(policy);
    Shown { text, json: policy_json(policy) }
}

fn knobs(policy: &'static Policy) -> String {
    let Some(first) = policy.knobs.first() else { return "\nIt has no knobs.\n".into() };
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
    let example =
        format!("{}:{}={}", policy.name, first.name, first.format(first.variable.default));
    format!(
        "\n{}\n--policy {example}\n",
        left(&["knob", "default", "values", "what it does"], &rows)
    )
}

/// The requests to the kernel that a policy honours.
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

    #[test]
    fn readmes_say_what_list_says_of_what_is_kept() {
        for policy in POLICIES.iter() {
            let readme = policies::folder_of(policy).expect("it ships").readme;
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
