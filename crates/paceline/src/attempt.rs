// SPDX-License-Identifier: GPL-2.0-only
//! `try`: from a command to an answer. It is recorded here, replayed in sim under several policies, and what would
//! change is said in words.

use std::path::PathBuf;
use std::time::Duration;

use machine::Machine;
use policy::Profile;
use policy::table::TYPES_MAX;
use report::text::{count, digits, percent, time};
use report::{Results, Summary};

use crate::cli::{Record, Try};
use crate::compare::hand_over;
use crate::contender::{self, Contender};
use crate::failure::Failure;
use crate::machines::find_machine;
use crate::plan::{Job, Place, Plan, SEED, check_learners};
use crate::progress::Progress;
use crate::replay::Went;
use crate::{export, ground, interrupt, output, record, replay};

/// Longest that a replay may take on the simulated clock.
const LIMIT: Duration = Duration::from_secs(3600);
/// A gain below this is none: the simulator is not that good.
const GAIN_MIN: f64 = 0.03;
/// A replay that is farther from its own recording than this is not believed.
const DISTANCE_MAX: f64 = 0.15;
/// With more of the CPU time than this for others, elapsed times cannot be compared.
const OTHERS_MAX: f64 = 0.05;

const DEFAULT: &str = "default";
/// On any machine.
const EVEN: &str = "default,flsched,cas,o1";
/// On one whose cores are not all alike.
const UNEVEN: &str = "default,flsched,cas,o1,min-fair,max-fair,max-perf";

/// Records, replays, answers.
pub fn run(args: &Try) -> Result<(), Failure> {
    let named = match &args.policy[..] {
        [] => None,
        named => Some(default_first(contender::parse_all(named)?)?),
    };
    check_learners(named.as_deref().unwrap_or_default(), false)?;
    vm::which(args.command[0].as_ref()).map_err(Failure::input)?;
    // To measure this machine takes a while; these take part on any.
    check(args, named.as_deref().unwrap_or(&contender::parse_all(&[EVEN.to_string()])?))?;
    let scratch = interrupt::guard()?;
    let machine = find_machine(&args.machine)?;
    let contenders = match named {
        Some(named) => named,
        None => contender::parse_all(&[applying(&machine).to_string()])?,
    };
    check(args, &contenders)?;
    let file = args.output.clone().unwrap_or_else(|| scratch.path().join("trace"));
    let kept = record::take_quietly(&recording(args, file.clone()))?;
    let (workload, went) = replay::read(&file, &machine)?;
    let mut job = Job::replayed(workload, went.clone());
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
            limit: LIMIT.max(Duration::from_secs_f64(10.0 * went.elapsed_s)),
            faults: Vec::new(),
        },
        runs: args.runs as usize,
        seed: SEED,
        profile: Profile::new(),
        profile_file: None,
        locks: false,
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
    results.notes.extend(answer(&results.summary, &went));
    let report = Some(args.report.as_path());
    let shown = hand_over(&results, &measured, &args.exports, report, args.json);
    output::end(shown, kept.ended)
}

/// Refuses what could not be written when all is done.
fn check(args: &Try, contenders: &[Contender]) -> Result<(), Failure> {
    let output = args.output.iter().map(|path| ("-o", path.clone()));
    let written: Vec<_> = output.chain([("--report", args.report.clone())]).collect();
    let mut read = record::programs(&args.command);
    read.push(("the machine's file", PathBuf::from(&args.machine)));
    export::check(&args.exports, contenders, &written, &read)
}

/// Others are held against Linux's own class, under which it was recorded.
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
    Record { output, duration: None, calls: args.calls, perfetto: None, json: args.json, command }
}

/// Policies that it is replayed under on such a machine where none is named.
fn applying(machine: &Machine) -> &'static str {
    if machine.kinds(TYPES_MAX).rates.len() > 1 { UNEVEN } else { EVEN }
}

/// What would change, in words; the first policy is Linux's own, beside which others stand.
fn answer(summary: &[Summary], went: &Went) -> Vec<String> {
    let Some((first, others)) = summary.split_first() else { return Vec::new() };
    let coarse = went.coarse.is_some();
    let mut lines = nearness(summary, went);
    lines.extend(others.iter().map(|one| change(one, first, coarse)));
    lines.push(choice(first, others));
    if coarse {
        lines.push(
            "unknown: how many switches and waits a policy would save; record with sudo, and not in a container, for \
             that"
                .to_string(),
        );
    }
    lines.push(
        "unknown: what page placement (dino) or vector units (avx-fair) would change, for misses and \
         instructions are not recorded"
            .to_string(),
    );
    lines
}

/// How far the replay under what was in charge is from the recording itself, and whether that is to be believed.
fn nearness(summary: &[Summary], went: &Went) -> Vec<String> {
    let under = went.under.as_deref().unwrap_or(DEFAULT);
    let Some(own) = summary.iter().find(|one| one.policy == under) else {
        return vec![format!(
            "recorded under {under}: it took {}; how near a replay comes is not known, for it is none of these: name \
             it with --policy",
            time(went.elapsed_s)
        )];
    };
    let replayed_s = own.elapsed_s.median;
    let distance = replayed_s / went.elapsed_s - 1.0;
    let mut lines = vec![format!(
        "recorded: it took {}; its replay under {under} takes {}, {} {}",
        time(went.elapsed_s),
        time(replayed_s),
        percent(distance.abs()),
        if distance < 0.0 { "less" } else { "more" },
    )];
    if went.others > OTHERS_MAX {
        lines.push(format!(
            "others had {} of the CPU time meanwhile; a replay has the machine for itself, so record again on \
             an idle machine",
            percent(went.others)
        ));
    }
    if !distance.is_finite() || distance.abs() > DISTANCE_MAX {
        lines.push(format!(
            "a replay that is {} off its own recording says little of other policies: it does not know \
             something of this machine or of the command",
            percent(distance.abs())
        ));
    }
    lines
}

/// What one policy would change. What threads wait for is in no coarse recording, nor are switches that would be saved.
fn change(one: &Summary, first: &Summary, coarse: bool) -> String {
    let switches = match (one.context_switches, first.context_switches) {
        (Some(own), Some(of)) if of.median > 0.0 && !coarse => format!(
            ", {} switches where {} has {}",
            count(own.median),
            first.policy,
            count(of.median)
        ),
        _ => String::new(),
    };
    let ratio = one.vs_first.unwrap_or(f64::NAN);
    let range = one.vs_first_range.map_or(String::new(), |range| {
        format!(" ({} to {})", digits(range.min), digits(range.max))
    });
    format!("{}: {} times the time of {}{range}{switches}", one.policy, digits(ratio), first.policy)
}

/// Which to try first, and why; none where no gain stands out of the spread.
fn choice(first: &Summary, others: &[Summary]) -> String {
    let better = |one: &&Summary| {
        one.vs_first_range.is_some_and(|range| range.max < 1.0)
            && one.vs_first.is_some_and(|ratio| ratio <= 1.0 - GAIN_MIN)
    };
    let best = others
        .iter()
        .filter(better)
        .min_by(|a, b| a.elapsed_s.median.total_cmp(&b.elapsed_s.median));
    match best {
        None => format!(
            "answer: stay with {}; no policy gains {} in every replay",
            first.policy,
            percent(GAIN_MIN)
        ),
        Some(one) => format!(
            "answer: try {} first; in every replay it takes less time than {}, {} less in the middle",
            one.policy,
            first.policy,
            percent(1.0 - one.vs_first.unwrap_or(1.0))
        ),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use report::Setting;
    use trace::Outcome;

    use super::*;
    use crate::cli::Cli;

    fn summary(of: &[(&str, &[u64])]) -> Vec<Summary> {
        let runs = |(policy, times): &(&str, &[u64])| {
            let run = |(run, ms): (usize, &u64)| Outcome {
                policy: policy.to_string(),
                run,
                elapsed_ns: ms * 1_000_000,
                ..Outcome::default()
            };
            times.iter().enumerate().map(run).collect::<Vec<_>>()
        };
        let outcomes: Vec<Outcome> = of.iter().flat_map(runs).collect();
        let setting = Setting {
            ground: "sim".into(),
            machine: "m".into(),
            cpus: 2,
            workload: "w".into(),
            seed: None,
            clock: report::Clock::Simulated,
            kernel: None,
        };
        Results::new(setting, &outcomes, false).summary
    }

    fn last_but_one(of: &[(&str, &[u64])], recorded_s: f64) -> String {
        let lines = answer(&summary(of), &Went { elapsed_s: recorded_s, ..Went::default() });
        lines[lines.len() - 2].clone()
    }

    #[test]
    fn the_help_names_who_takes_part() {
        let command = Cli::command();
        let attempt = command.find_subcommand("try").unwrap();
        let policy = attempt.get_arguments().find(|it| it.get_id() == "policy").unwrap();
        let (help, more) = (policy.get_help().unwrap().to_string(), &UNEVEN[EVEN.len() + 1..]);
        assert!(
            help.ends_with(&format!("[default: {EVEN}; with uneven cores also {more}]")),
            "{help}"
        );
        assert!(UNEVEN.starts_with(EVEN));
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

    #[test]
    fn a_gain_has_to_stand_out_of_the_spread() {
        let base: (&str, &[u64]) = ("default", &[100, 104]);
        let said = last_but_one(&[base, ("cas", &[80, 83]), ("flsched", &[90, 91])], 0.1);
        assert!(said.starts_with("answer: try cas first;"), "{said}");
        let said = last_but_one(&[base, ("cas", &[80, 105])], 0.1);
        assert!(said.starts_with("answer: stay with default;"), "{said}");
        let said = last_but_one(&[base, ("cas", &[99, 103])], 0.1);
        assert!(said.starts_with("answer: stay with default;"), "{said}");
    }

    #[test]
    fn what_a_coarse_recording_lacks_is_unknown() {
        let mut summary = summary(&[("default", &[100, 100]), ("cas", &[50, 50])]);
        for one in &mut summary {
            let most = one.elapsed_s;
            one.context_switches = Some(most);
        }
        let said = |coarse| {
            let went = Went { elapsed_s: 0.1, coarse, ..Went::default() };
            answer(&summary, &went).join("\n")
        };
        let unknown = "unknown: how many switches and waits";
        assert!(said(None).contains("switches where default has") && !said(None).contains(unknown));
        let coarse = said(Some(None));
        assert!(!coarse.contains("switches where") && coarse.contains(unknown), "{coarse}");
    }

    #[test]
    fn a_replay_is_held_to_what_was_in_charge() {
        let summary = summary(&[("default", &[200, 200]), ("cas", &[100, 100])]);
        let first = |under: Option<&str>| {
            let under = under.map(String::from);
            answer(&summary, &Went { elapsed_s: 0.1, under, ..Went::default() }).swap_remove(0)
        };
        assert!(first(None).contains("under default takes 200 ms"), "{}", first(None));
        assert!(first(Some("cas")).contains("under cas takes 100 ms"), "{}", first(Some("cas")));
        assert!(first(Some("o1")).contains("how near a replay comes is not known"));
    }

    #[test]
    fn a_replay_that_is_off_is_not_believed() {
        let lines = |elapsed_s, others| {
            let went = Went { elapsed_s, others, ..Went::default() };
            answer(&summary(&[("default", &[100, 100])]), &went).join("\n")
        };
        assert!(!lines(0.1, 0.0).contains("says little"));
        assert!(lines(0.2, 0.0).contains("50.0 % off its own recording"), "{}", lines(0.2, 0.0));
        assert!(lines(0.0, 0.0).contains("says little"), "nothing was recorded");
        assert!(lines(0.2, 0.5).contains("others had 50.0 % of the CPU time"));
    }
}
