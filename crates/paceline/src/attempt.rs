// SPDX-License-Identifier: GPL-2.0-only
//! `try`: from a command to an answer. It is recorded here and replayed in sim under several policies. The answer says
//! in words what would change.

mod answer;
mod next;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use comparison::plan::{check_learners, check_simulated};
use comparison::{Contender, Job, Plan, Simulated, contender, replay};
use measuring::{THIS, find_machine};
use report::Results;
use terminal::{Failure, Progress, interrupt, output};

use crate::cli::{Record, Try};
use crate::nearness::DEFAULT;
use crate::present::hand_over;
use crate::tried::{applying, everywhere, untold};
use crate::{contest, doctor, export, nearness, record};
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
    check_simulated(named.as_deref().unwrap_or_default())?;
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
    let ground = Arc::new(Simulated {
        machine: Box::new(machine),
        named: args.machine.clone(),
        limit,
        faults: Vec::new(),
    });
    let plan = Plan {
        runs: args.runs.unwrap_or(RUNS) as usize,
        events: args.exports.take_events(),
        ..Plan::new(contenders, job, ground)
    };
    let progress = Progress::new(plan.steps());
    progress.phase(&format!("replays under {}", plan.labels()));
    let measured = plan.run(&progress)?;
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
            contenders.splice(..0, contender::parse_all(&[DEFAULT.to_string()])?).for_each(drop);
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
    results.details.extend(not_simulated());
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

/// Schedulers of this machine that the simulator has no model of; None: there are none.
fn not_simulated() -> Option<String> {
    let found = contender::schedulers_in(&std::env::var_os("PATH").unwrap_or_default());
    let first = found.first()?;
    Some(format!(
        "not simulated: {}; compare --on vm --policy default,exec:{first} runs one in a guest",
        found.join(", ")
    ))
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
