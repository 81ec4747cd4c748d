// SPDX-License-Identifier: GPL-2.0-only
//! How far a replay is from its recording, and what the recording lacks: for `try`, and for `compare` of a recording.

use comparison::replay::Went;
use comparison::{Contender, Plan};
use policy::Told;
use record::Source;
use report::text::{percent, plural, time};
use report::{Recording, Results, Summary};
use terminal::{Failure, Progress};

/// Linux's own class.
pub const DEFAULT: &str = "default";
/// A replay with a greater distance from its own recording says little of other policies.
pub const DISTANCE_MAX: f64 = 0.10;
/// A warning is given if other load has at least this part of the CPU time.
pub const OTHERS_WARNED: f64 = 0.05;

/// Compares the replay with its recording. Adds the distance to the result, with warnings.
pub fn add(results: &mut Results, plan: &Plan) {
    let Some(went) = plan.job.went() else { return };
    let under = went.under.as_deref().unwrap_or(DEFAULT);
    let own = match replayed_s(&results.summary, under) {
        Some(s) => Ok(s),
        None => replayed_under(plan, under),
    };
    let recording = held(went, own.as_ref().ok().copied());
    // An answer mentions other load itself if it matters.
    let told = busy(&recording).filter(|_| plan.contenders.len() > 1);
    let lines = lines(&recording, results.setting.cpus, own.err().as_ref());
    results.notes.extend(lines.into_iter().filter(|line| Some(line) != told.as_ref()));
    results.details.extend(told);
    let told = |contender: &Contender| contender.policy()?.policy.told(2);
    results.notes.extend(
        plan.contenders
            .iter()
            .filter(|contender| matches!(told(contender), Some(Told::Misses | Told::Levels)))
            .map(|contender| {
                format!(
                    "unknown: what {} would change, for misses and instructions are not recorded",
                    contender.label()
                )
            }),
    );
    results.recording = Some(recording);
}

fn replayed_s(summary: &[Summary], under: &str) -> Option<f64> {
    summary.iter().find(|one| one.policy == under).map(|one| one.elapsed_s.median)
}

/// Length of the replay under a policy that takes no part in the comparison.
fn replayed_under(plan: &Plan, under: &str) -> Result<f64, Failure> {
    let contenders = vec![Contender::parse(under)?];
    let alone = Plan { contenders, events: false, ..plan.clone() };
    let measured = alone.run(&Progress::new(1))?;
    let results = Results::new(alone.setting(), &measured.outcomes, false);
    replayed_s(&results.summary, under).ok_or_else(|| Failure::run("it has no run"))
}

/// The recording for the result. `replayed_s`: the median of its replays under the scheduler in charge at recording, if
/// known.
pub fn held(went: &Went, replayed_s: Option<f64>) -> Recording {
    let distance = replayed_s.map(|s| s / went.elapsed_s - 1.0);
    Recording {
        cpus: went.cpus,
        source: match went.source {
            Source::Tracepoints => "tracepoints",
            Source::Procfs => "procfs",
            Source::Import => "import",
        }
        .into(),
        elapsed_s: went.elapsed_s,
        under: went.under.clone().unwrap_or_else(|| DEFAULT.into()),
        replayed_s,
        distance: distance.filter(|distance| distance.is_finite()),
        others: went.others,
        affinity: went.affinity,
        lacks: lacks(went),
    }
}

/// Facts that a replay would need and the recording lacks.
fn lacks(went: &Went) -> Vec<String> {
    let mut lacks = Vec::new();
    if !went.affinity {
        lacks.push("on which CPUs each task may run: in the replay each may run on all");
    }
    match went.source {
        Source::Tracepoints => {}
        Source::Procfs => lacks.push("wakeups, and what tasks wait for"),
        Source::Import => lacks.push("which threads share memory, and what wakeups came through"),
    }
    lacks.into_iter().map(String::from).collect()
}

/// The distance of the replay from the recording, and whether it can be trusted, in words; `why`: it is not known.
pub fn lines(recording: &Recording, cpus: usize, why: Option<&Failure>) -> Vec<String> {
    let Recording { elapsed_s, under, .. } = recording;
    let mut lines = vec![match recording.replayed_s {
        None => {
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            format!(
                "recorded: it took {} under {under}; how near a replay comes is not known{why}",
                time(*elapsed_s)
            )
        }
        Some(s) => format!(
            "recorded: it took {}; its replay under {under} takes {}{}",
            time(*elapsed_s),
            time(s),
            recording.distance.map_or(String::new(), off),
        ),
    }];
    lines.extend(busy(recording));
    match recording.distance {
        _ if recording.cpus != cpus => lines.push(format!(
            "recorded on {} and replayed on {cpus}: how far the replay is from the recording says nothing of the model",
            plural(recording.cpus, "CPU")
        )),
        Some(distance) if distance.abs() > DISTANCE_MAX => lines.push(format!(
            "a replay that is {} off its own recording says little of other policies: it does not know something of \
             this machine or of the command",
            percent(distance.abs())
        )),
        None if recording.replayed_s.is_some() => {
            lines.push("nothing of it was recorded, so a replay says little".into());
        }
        _ => {}
    }
    lines.extend(recording.lacks.iter().map(|what| format!("the recording lacks {what}")));
    lines
}

/// A note that other tasks used the machine meanwhile, if they used much.
fn busy(recording: &Recording) -> Option<String> {
    (recording.others > OTHERS_WARNED).then(|| {
        format!(
            "others had {} of the CPU time meanwhile; a replay has the machine for itself, so record again on \
             an idle machine",
            percent(recording.others)
        )
    })
}

/// A phrase such as `, 3.10 % more`.
fn off(distance: f64) -> String {
    let than = if distance < 0.0 { "less" } else { "more" };
    format!(", {} {than}", percent(distance.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn went(elapsed_s: f64) -> Went {
        Went { cpus: 2, elapsed_s, affinity: true, ..Went::default() }
    }

    fn said(went: &Went, replayed_s: Option<f64>, cpus: usize) -> String {
        lines(&held(went, replayed_s), cpus, None).join("\n")
    }

    #[test]
    fn a_replay_that_is_off_is_not_believed() {
        let near = said(&went(0.1), Some(0.11), 2);
        let wanted = "recorded: it took 100 ms; its replay under default takes 110 ms, 10.0 % more";
        assert_eq!(near, wanted);
        assert!(
            said(&went(0.2), Some(0.1), 2).contains("50.0 % off its own recording says little")
        );
        assert!(said(&went(0.0), Some(0.1), 2).contains("says little"), "nothing was recorded");
        assert!(said(&went(0.1), None, 2).contains("is not known"));
    }

    #[test]
    fn another_number_of_cpus_makes_a_distance_say_nothing() {
        let said = said(&went(0.2), Some(0.1), 8);
        assert!(said.contains("recorded on 2 CPUs and replayed on 8"), "{said}");
        assert!(!said.contains("says little"), "{said}");
    }

    #[test]
    fn other_load_is_warned_of() {
        let with = |others| said(&Went { others, ..went(0.1) }, Some(0.1), 2);
        assert!(!with(0.05).contains("others had"));
        assert!(with(0.06).contains("others had 6.00 % of the CPU time"), "{}", with(0.06));
    }

    #[test]
    fn an_import_lacks_what_its_source_does_not_tell() {
        let import = Went { source: Source::Import, affinity: false, ..went(0.1) };
        let recording = held(&import, Some(0.1));
        assert_eq!((recording.source.as_str(), recording.affinity), ("import", false));
        assert_eq!(recording.lacks.len(), 2);
        let lacks = "the recording lacks on which CPUs each task may run";
        assert!(said(&import, Some(0.1), 2).contains(lacks));
        assert!(held(&went(0.1), Some(0.1)).lacks.is_empty());
    }
}
