// SPDX-License-Identifier: GPL-2.0-only
//! `try`: from a command to an answer. It is recorded here and replayed in sim under several policies. The answer says
//! in words what would change.

mod answer;
mod next;

use std::path::PathBuf;
use std::time::Duration;

use machine::Machine;
use policies::POLICIES;
use policy::table::TYPES_MAX;
use policy::{Profile, Tried};
use report::Results;

use crate::cli::{Record, Try};
use crate::compare::hand_over;
use crate::contender::{self, Contender};
use crate::failure::Failure;
use crate::machines::find_machine;
use crate::measure::THIS;
use crate::nearness::DEFAULT;
use crate::plan::{Job, Place, Plan, SEED, check_learners};
use crate::progress::Progress;
use crate::{contest, doctor, export, ground, interrupt, nearness, output, record, replay};
use answer::Case;
use next::Ways;

/// Longest replay, on the simulated clock.
const LIMIT: Duration = Duration::from_secs(3600);
/// Replays under each policy.
const RUNS: u32 = 5;

/// Records, replays, answers.
pub fn run(args: &Try) -> Result<(), Failure> {
    let named = match &args.policy[..] {
        [] => None,
        named => Some(default_first(contender::parse_all(named)?)?),
    };
    check_learners(named.as_deref().unwrap_or_default(), false)?;
    vm::which(args.command[0].as_ref()).map_err(Failure::input)?;
    // Measuring this machine takes a while, so these policies are checked before; they take part on any machine.
    check(args, named.as_deref().unwrap_or(&contender::parse_all(&[everywhere()])?))?;
    let scratch = interrupt::guard()?;
    let machine = find_machine(&args.machine)?;
    let contenders = match named {
        Some(named) => named,
        None => contender::parse_all(&[applying(&machine)])?,
    };
    check(args, &contenders)?;
    let file = args.output.clone().unwrap_or_else(|| scratch.path().join("trace"));
    let kept = record::take_quietly(&recording(args, file.clone()))?;
    let (workload, went) = replay::read(&file, &machine)?;
    let limit = LIMIT.max(Duration::from_secs_f64(10.0 * went.elapsed_s));
    let mut job = Job::replayed(workload, went);
    if let Job::Model { name, named, .. } = &mut job {
        *name = args.command.join(" ");
        *named = args.output.as_ref().map(|path| path.display().to_string());
    }
    let plan = Plan {
        contenders,
        job,
        place: Place::Sim {
            machine: Box::new(machine),
            named: args.machine.clone(),
            limit,
            faults: Vec::new(),
        },
        runs: args.runs.unwrap_or(RUNS) as usize,
        seed: SEED,
        profile: Profile::new(),
        profile_file: None,
        locks: false,
        show: false,
        observe: true,
        record: None,
        events: args.exports.take_events(),
    };
    let progress = Progress::new(plan.steps());
    progress.phase(&format!("replays under {}", plan.labels()));
    let measured = ground::run(&plan, &progress)?;
    drop(progress);
    let mut results = Results::new(plan.setting(), &measured.outcomes, false);
    results.notes.clone_from(&measured.notes);
    if kept.interrupted {
        results.notes.push("interrupted: what the command did until then was replayed".into());
    }
    nearness::add(&mut results, &plan);
    add_answer(&mut results, &plan, Some(args));
    let report = Some(args.report.as_path());
    let shown = hand_over(&results, &measured, &args.exports, report, &args.form);
    output::end(shown, kept.ended)
}

/// Refuses files that could not be written at the end.
fn check(args: &Try, contenders: &[Contender]) -> Result<(), Failure> {
    let output = args.output.iter().map(|path| ("-o", path.clone()));
    let written: Vec<_> = output.chain([("--report", args.report.clone())]).collect();
    let mut read = record::programs(&args.command);
    read.push(("the machine's file", PathBuf::from(&args.machine)));
    export::check(&args.exports, contenders, &written, &read)
}

/// Puts Linux's own class first: the recording was made under it, and others are compared with it.
fn default_first(mut contenders: Vec<Contender>) -> Result<Vec<Contender>, Failure> {
    match contenders.iter().position(|contender| contender.label() == DEFAULT) {
        Some(at) => contenders[..=at].rotate_right(1),
        None => {
            contenders.splice(..0, contender::parse_all(&[DEFAULT.to_string()])?).for_each(drop)
        }
    }
    Ok(contenders)
}

fn recording(args: &Try, output: PathBuf) -> Record {
    let command = args.command.clone();
    Record {
        output,
        duration: None,
        calls: args.calls,
        perfetto: None,
        json: args.form.json,
        command,
    }
}

/// Policies for the replay on such a machine if none is named.
fn applying(machine: &Machine) -> String {
    match machine.kinds(TYPES_MAX).rates.len() > 1 {
        true => format!("{},{}", everywhere(), tried(Tried::OnUnevenCores)),
        false => everywhere(),
    }
}

/// Policies for any machine.
fn everywhere() -> String {
    format!("{DEFAULT},{}", tried(Tried::Everywhere))
}

/// Policies that declare this, as `--policy` takes them.
fn tried(on_which: Tried) -> String {
    let policies = POLICIES.iter().filter(|policy| policy.tried == on_which);
    policies.map(|policy| policy.name).collect::<Vec<_>>().join(",")
}

/// The help of `--policy`.
pub fn help() -> String {
    format!(
        "Policies to replay it under, as `compare` takes them [default: {}; with uneven cores also {}]",
        everywhere(),
        tried(Tried::OnUnevenCores)
    )
}

/// The effects of policies that a recording cannot tell, and why.
fn untold() -> String {
    let lacking: Vec<_> = POLICIES
        .iter()
        .filter_map(|policy| match policy.tried {
            Tried::Lacks { effect, on } => Some((format!("{effect} ({})", policy.name), on)),
            _ => None,
        })
        .collect();
    let (effects, on): (Vec<String>, Vec<&str>) = lacking.into_iter().unzip();
    format!(
        "unknown: what {} would change, for {} are not recorded",
        effects.join(" or "),
        on.join(" and ")
    )
}

/// Adds the answer, and a line for each policy. `args`: the options of `try`, if this is one.
pub fn add_answer(results: &mut Results, plan: &Plan, args: Option<&Try>) {
    let (Some(went), Some(recording)) = (plan.job.went(), &results.recording) else { return };
    let is_coarse = went.coarse.is_some();
    let case = Case {
        recording: recording.clone(),
        cpus: results.setting.cpus,
        coarse: went.coarse,
        talks_unseen: went.talks_unseen,
        is_doubtful: went.is_doubtful(),
        contestants: contest::contestants(results, is_coarse, |label| plan.is_real(label)),
    };
    let others = case.contestants.iter().skip(1);
    results.details.extend(others.map(|one| answer::line(&case, one)));
    if is_coarse {
        results.details.push(
            "unknown: how many switches and waits a policy would save; record with sudo, and not in a container, for \
             that"
                .into(),
        );
    }
    let Some(args) = args else {
        results.answer = Some(answer::answer(&case, None));
        return;
    };
    results.details.push(untold());
    let real = case.contestants.iter().filter(|one| one.is_real);
    let ways = Ways {
        command: args.command.clone(),
        options: kept_options(args),
        machine: Some(args.machine.clone()).filter(|name| name != THIS),
        calls: args.calls,
        policies: real.map(|one| one.policy.clone()).collect(),
        obstacle: doctor::obstacle(),
    };
    results.answer = Some(answer::answer(&case, Some(&ways)));
}

/// Options of this `try` that the suggested next one keeps.
fn kept_options(args: &Try) -> Vec<String> {
    let policies = args.policy.iter().flat_map(|named| ["--policy".to_string(), named.clone()]);
    let output = args.output.iter().map(|path| path.display().to_string());
    policies.chain(output.flat_map(|path| ["-o".to_string(), path])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_take_part_where_they_have_an_effect() {
        assert_eq!(everywhere(), "default,flsched,cas,o1");
        let uneven = machine::find("phenom-2f4s").unwrap();
        assert_eq!(applying(&uneven), "default,flsched,cas,o1,max-fair,max-perf,min-fair");
        assert_eq!(applying(&machine::find("numa-2x4").unwrap()), everywhere());
        let wanted = "unknown: what page placement (dino) or vector units (avx-fair) would change, for misses and \
                      instructions are not recorded";
        assert_eq!(untold(), wanted);
    }

    #[test]
    fn others_are_held_against_linuxs_own_class() {
        let labels = |named: &str| {
            let all = default_first(contender::parse_all(&[named.to_string()]).unwrap()).unwrap();
            all.iter().map(Contender::label).collect::<Vec<_>>().join(",")
        };
        assert_eq!(labels("flsched,cas"), "default,flsched,cas");
        assert_eq!(labels("flsched,cas,default,o1"), "default,flsched,cas,o1");
        assert_eq!(labels("default,cas"), "default,cas");
    }
}
