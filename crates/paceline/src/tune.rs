// SPDX-License-Identifier: GPL-2.0-only
//! `paceline tune`: the values of a policy's knobs that are best for a workload.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use comparison::{Contender, Job, Plan, replay};
use measuring::THIS;
use report::text::digits;
use serde::Serialize;
use sweep::{Design, Mean, Objective, Purpose, Space, Tuned, paired, show};
use terminal::{Failure, Progress, interrupt, output, shell};

use crate::cli::{Cli, Real, Record, Tune, Verb};
use crate::sweeps::{
    again, count_kept, hand_over, opened, program, tell_when_interrupted, threads,
};
use crate::{export, record, request};

/// The policy if none is named.
const POLICY: &str = "paceline";
/// The longest simulation, on its own clock.
const LIMIT: Duration = Duration::from_secs(600);
/// Boots of a guest that confirm what was found.
const BOOTS: &str = "5";

/// What was found, and what a real kernel says of it.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    tuned: Tuned,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<Confirmed>,
}

/// How the defaults and what was found compare on a kernel.
#[derive(Serialize)]
struct Confirmed {
    ground: &'static str,
    /// How many times as good as the defaults, by boots or runs. None: the objective was not measured there.
    gain: Option<Mean>,
    /// Every run keeps the objective's limits.
    keeps_limits: bool,
    /// 99th percentile of waits under what was found, times that under the defaults.
    wait_p99: Option<f64>,
}

/// Searches, confirms, and shows what was found.
pub fn run(arguments: &Tune) -> Result<(), Failure> {
    let scratch = interrupt::guard()?;
    let ground = arguments.confirm;
    // What a ground refuses is told before the search.
    let policy = arguments.policy.as_deref().unwrap_or(POLICY);
    ground.map_or(Ok(()), |ground| comparison(arguments, &[policy], ground).map(drop))?;
    let (design, recorded) = design(arguments, scratch.path())?;
    check_files(arguments, &design)?;
    let stages = sweep::check(&design)?;
    let results = arguments.results.clone();
    let mut store = opened(&results.clone().unwrap_or_else(|| scratch.path().join("results")))?;
    if let Some(path) = results {
        tell_when_interrupted(path, 0, None);
    }
    let most = arguments.budget as usize;
    let progress = Progress::new(most as u64);
    progress.phase(&format!("{}: tuning {}", design.title, design.policies[0]));
    let (on, threads) = ((&design.inputs, &stages), threads(arguments.jobs));
    let tuned = sweep::tune(&design, &mut store, program()?, most, |left, store| {
        sweep::perform(left, on, store, threads, || {
            progress.step();
            count_kept();
            Ok(())
        })
    })?;
    drop(progress);
    let confirmed = match (&tuned.best, ground) {
        (Some(best), Some(ground)) => {
            Some(confirm(arguments, &[&tuned.policy, best], ground, &design.objective)?)
        }
        _ => None,
    };
    let answer = Answer { tuned, confirmed };
    let page = || show::tuned_page(&answer.tuned, &again());
    let report = arguments.report.as_deref();
    hand_over(&answer, || text(&answer), page, report, arguments.json)?;
    recorded
}

/// What is searched, and how a recorded command ended.
fn design(arguments: &Tune, scratch: &Path) -> Result<(Design, Result<(), Failure>), Failure> {
    if let Some(file) = &arguments.sweep {
        return Ok((Design::read(file, Purpose::Tune)?, Ok(())));
    }
    let policy = Contender::parse(arguments.policy.as_deref().unwrap_or(POLICY))?;
    let space = Space::of_words(&policy, &arguments.knob)?;
    let objective = arguments.objective.as_deref().unwrap_or("speed");
    let objective: Objective =
        objective.parse().map_err(|why| Failure::input(format!("--objective: {why}")))?;
    let mut ended = Ok(());
    let (title, workload) = match (&arguments.workload, &arguments.command[..]) {
        (Some(path), _) => (path.display().to_string(), path.display().to_string()),
        (None, []) => {
            return Err(Failure::input(
                "nothing to tune for; name a workload or a recording with --workload, a sweep with --sweep, or a command \
                 after --",
            ));
        }
        (None, command) => {
            let line = shell::line(command.iter().map(String::as_str));
            let job = Job::Command { argv: command.to_vec(), with: Vec::new() };
            match job.model() {
                Ok(_) => (line.clone(), line),
                Err(_) => {
                    let file = scratch.join("recording");
                    ended = recorded(command, &file)?;
                    (line, file.display().to_string())
                }
            }
        }
    };
    let machine = match &arguments.machine {
        Some(machine) => machine.clone(),
        None => machine_of(Path::new(&workload), !arguments.command.is_empty())?,
    };
    let limit_ns = LIMIT.as_nanos() as u64;
    let design = Design::of_one(&title, &workload, &machine, space, objective, limit_ns)?;
    Ok((design, ended))
}

/// What was recorded here is replayed on this machine, and another recording on as many CPUs as it was made on.
fn machine_of(workload: &Path, here: bool) -> Result<String, Failure> {
    match (replay::is_recording(workload), here) {
        (false, _) => Ok(request::MACHINE.to_string()),
        (true, true) => Ok(THIS.to_string()),
        (true, false) => request::as_recorded(workload),
    }
}

/// Records a command. Returns how it ended.
fn recorded(command: &[String], file: &Path) -> Result<Result<(), Failure>, Failure> {
    let kept = record::take_quietly(&Record {
        output: file.to_path_buf(),
        duration: None,
        calls: false,
        perfetto: None,
        json: true,
        command: command.to_vec(),
    })?;
    Ok(kept.ended)
}

/// Refuses to write a file over another one, and files that cannot be written.
fn check_files(arguments: &Tune, design: &Design) -> Result<(), Failure> {
    let named = |option, path: &Option<PathBuf>| path.clone().map(|path| (option, path));
    let written = [named("--results", &arguments.results), named("--report", &arguments.report)];
    let written: Vec<_> = written.into_iter().flatten().collect();
    let mut read: Vec<_> = named("the sweep", &arguments.sweep).into_iter().collect();
    read.extend(design.inputs.files().iter().map(|path| ("what it is tuned for", path.clone())));
    export::check_files(&written, &read)
}

/// A comparison of these policies with the same command or workload.
fn comparison(arguments: &Tune, policies: &[&str], ground: Real) -> Result<Plan, Failure> {
    let (name, times) = match ground {
        Real::Vm => ("vm", "--boots"),
        Real::Here => ("here", "--runs"),
    };
    let mut words: Vec<OsString> =
        ["paceline", "compare", "--on", name, times, BOOTS].map(Into::into).to_vec();
    policies.iter().for_each(|policy| words.push(format!("--policy={policy}").into()));
    match (&arguments.workload, &arguments.command[..]) {
        (None, []) => {
            return Err(Failure::input(
                "--confirm needs a command after --, or a --workload that a kernel can run",
            ));
        }
        (Some(workload), _) => {
            let mut word = OsString::from("--workload=");
            word.push(workload);
            words.push(word);
        }
        (None, command) => {
            words.push("--".into());
            words.extend(command.iter().map(Into::into));
        }
    }
    match Cli::try_parse_from(words).map(|parsed| parsed.verb) {
        Ok(Verb::Compare(compare)) => request::plan(&compare),
        _ => Err(Failure::input(format!("{} cannot be compared on {name}", policies.join(", ")))),
    }
}

/// Runs it under the defaults and under what was found.
fn confirm(
    arguments: &Tune,
    policies: &[&str],
    ground: Real,
    objective: &Objective,
) -> Result<Confirmed, Failure> {
    let plan = comparison(arguments, policies, ground)?;
    let name = plan.ground.on().name();
    let progress = Progress::new(plan.steps());
    progress.phase(&format!("confirming it on {name}"));
    let measured = plan.run(&progress)?;
    drop(progress);
    if let Some(cut) = measured.cut {
        return Err(cut);
    }
    let (mut gains, mut waits, mut kept) = (Vec::new(), Vec::new(), true);
    let [base, own] = [0, 1].map(|at| plan.contenders[at].label());
    for (own, base) in paired(&measured.outcomes, own, base) {
        gains.extend(objective.ratio(&own, &base).map(f64::ln));
        waits.push(own.wait.longer_than(base.wait).ln());
        kept &= objective.holds(&own);
    }
    Ok(Confirmed {
        ground: name,
        gain: Mean::of(&gains).map(Mean::exp),
        keeps_limits: kept,
        wait_p99: Mean::of(&waits).map(|mean| mean.mean.exp()),
    })
}

fn text(answer: &Answer) -> String {
    let confirmed = answer.confirmed.as_ref().map_or(String::new(), |of| {
        let gain = of.gain.map_or("the objective was not measured".into(), |gain| {
            format!("{} times as good as the defaults", show::gain(gain))
        });
        let gain = if of.keeps_limits { gain } else { gain + ", and breaks a limit" };
        let waits = of.wait_p99.map_or(String::new(), |wait| {
            format!("; 99 % of waits are up to {} times as long", digits(wait))
        });
        format!("On {}: {gain}{waits}.\n\n", of.ground)
    });
    confirmed + &show::tuned_text(&answer.tuned, output::style())
}
