// SPDX-License-Identifier: GPL-2.0-only
//! The answer of `try`: one pure function of the replays' results.
//!
//! One statistic decides and is shown: the ratio of a policy's time to the first policy's with the same seed. It has
//! the median of the replays and their range. A policy *gains* under three conditions. The median is below 1 by
//! [`GAIN_MIN`] or more. The gain is more than chance (each replay is faster). It is more than the replay's own error
//! (its distance from the recording).

use report::figure::range;
use report::text::{count, digits, percent, plural};
use report::{Answer, Recording, Spread, Verdict};

use super::next::{Refusal, Ways};
use crate::contest::{
    Contestant, GAIN_MIN, and, at_what_cost, costs, each_costs, faster, gain, middle, told_costs,
    waits,
};
use crate::nearness::{DISTANCE_MAX, OTHERS_WARNED};

/// With more other load than this, elapsed times cannot be compared.
const OTHERS_MAX: f64 = 0.20;
/// With more of its CPU time unseen than this, a coarse recording says little.
const UNSEEN_MAX: f64 = 0.20;

/// Everything that an answer depends on; all contestants are compared with the first.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The recording, and the distance of its replay.
    pub recording: Recording,
    /// CPUs of the machine that it was replayed on.
    pub cpus: usize,
    /// It is from procfs: the part of the CPU time that it missed, if known.
    pub coarse: Option<Option<f64>>,
    /// Tasks woke each other through pipes and local sockets, and the data of these was not recorded.
    pub talks_unseen: bool,
    /// There are other doubts about the recording.
    pub is_doubtful: bool,
    /// The policies.
    pub contestants: Vec<Contestant>,
}

/// How a policy compares.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// It is faster by more than chance and error.
    Gains,
    /// It may be faster: in the median, but not in each replay.
    NotAlways,
    /// It is faster by less than the replay's error.
    BelowError,
    /// The replay shows no difference.
    None,
    /// It is slower.
    Loses,
    /// No replay of it can be compared with the first policy's.
    Unknown,
}

/// The answer; `ways`: commands that can be run next, if known.
pub fn answer(case: &Case, ways: Option<&Ways>) -> Answer {
    let Some((first, others)) = case.contestants.split_first() else { return Answer::default() };
    if let Some(refusal) = refusal(case) {
        let (what, advice) = refused(case, refusal);
        let next = ways.map(|ways| ways.after(refusal, case.coarse.is_some()));
        let said = Answer::new(Verdict::None, format!("No answer: {what}"), vec![advice]);
        return Answer { next, ..said };
    }
    let gains = |one: &&Contestant| one.is_real && change(case, one) == Change::Gains;
    let gaining: Vec<&Contestant> = others.iter().filter(gains).collect();
    let mut answer = match gaining.is_empty() {
        true => stay(case, first, others),
        false => recommend(case, first, &gaining, ways),
    };
    answer.weak = weak(case);
    if !answer.weak.is_empty() {
        let why = answer.weak.join(", and ");
        answer.add(format!("Take this as a direction and not as a figure: {why}"));
    }
    answer
}

/// Why the replay shows too little, by its own checks; None: it shows enough.
fn refusal(case: &Case) -> Option<Refusal> {
    let recording = &case.recording;
    if recording.cpus != case.cpus {
        return Some(Refusal::OtherMachine);
    }
    let Some(distance) = recording.distance.filter(|distance| distance.is_finite()) else {
        return Some(Refusal::Unknown);
    };
    if distance.abs() > DISTANCE_MAX {
        return Some(match () {
            () if recording.others > OTHERS_WARNED => Refusal::OffAndBusy,
            () if case.talks_unseen => Refusal::OffAndUnseen,
            () => Refusal::Off,
        });
    }
    match case.coarse.flatten() {
        _ if recording.others > OTHERS_MAX => Some(Refusal::Busy),
        Some(unseen) if unseen > UNSEEN_MAX => Some(Refusal::Missed),
        _ if case.contestants.iter().any(|one| one.runs < 2) => Some(Refusal::OneRun),
        _ => None,
    }
}

/// Why there is no answer, and what to do about it.
fn refused(case: &Case, refusal: Refusal) -> (String, String) {
    const IDLE: &str = "Record again on an idle machine";
    const ROOT: &str = "Record again with sudo";
    let recording = &case.recording;
    let off = || {
        let far = percent(recording.distance.unwrap_or(f64::NAN).abs());
        format!("the replay under {} is {far} off its own recording", recording.under)
    };
    let others = || format!("others had {} of the CPU time", percent(recording.others));
    let (what, advice) = match refusal {
        Refusal::Unknown => (
            "how near a replay comes to its own recording is not known".into(),
            "Record a command that runs longer",
        ),
        Refusal::OtherMachine => (
            format!(
                "it was recorded on {} and replayed on {}, so nothing shows how near the replay comes",
                plural(recording.cpus, "CPU"),
                case.cpus
            ),
            "Replay it on this machine",
        ),
        Refusal::OffAndBusy => (format!("{}, and {}", off(), others()), IDLE),
        Refusal::Busy => (others(), IDLE),
        Refusal::OffAndUnseen => (
            format!("{}, and what went through its pipes was not recorded", off()),
            "Record again with --calls",
        ),
        Refusal::Off if case.coarse.is_some() => {
            (format!("{}, and the recording is coarse", off()), ROOT)
        }
        Refusal::Off => (
            off(),
            "No other task had much of the CPUs, so the model lacks something of this machine or of the command: \
             compare on a real kernel",
        ),
        Refusal::Missed => {
            let unseen = percent(case.coarse.flatten().unwrap_or(f64::NAN));
            (format!("the recording is coarse and has not seen {unseen} of the CPU time"), ROOT)
        }
        Refusal::OneRun => {
            ("one replay of each policy does not tell a gain from chance".into(), "Take --runs 5")
        }
    };
    (what, advice.into())
}

/// Why an answer is a direction and not a figure.
fn weak(case: &Case) -> Vec<String> {
    let others = case.recording.others;
    let busy =
        (others > OTHERS_WARNED).then(|| format!("others had {} of the CPU time", percent(others)));
    let coarse = case.coarse.map(|unseen| match unseen {
        Some(part) if part > 0.0 => {
            format!("the recording is coarse and has not seen {} of the CPU time", percent(part))
        }
        _ => "the recording is coarse".into(),
    });
    let said = [
        (case.talks_unseen, "what went through its pipes was not recorded"),
        (case.is_doubtful, "the recording is doubtful (see above)"),
        (!case.recording.affinity, "the recording lacks on which CPUs tasks may run"),
    ];
    let said = said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, why)| why.to_string());
    busy.into_iter().chain(coarse).chain(said).collect()
}

/// The replay's own error.
fn error(case: &Case) -> f64 {
    case.recording.distance.map_or(f64::INFINITY, f64::abs)
}

fn change(case: &Case, one: &Contestant) -> Change {
    let is_sound = |ratio: &Spread| {
        let ordered = ratio.min <= ratio.median && ratio.median <= ratio.max;
        ordered && ratio.min > 0.0 && ratio.max.is_finite()
    };
    let Some(ratio) = one.ratio.filter(is_sound) else { return Change::Unknown };
    let gain = 1.0 - ratio.median;
    let (is_chance, is_error) = (ratio.max >= 1.0, gain <= error(case));
    match () {
        () if -gain >= GAIN_MIN && ratio.min > 1.0 && -gain > error(case) => Change::Loses,
        () if gain < GAIN_MIN || is_chance && is_error => Change::None,
        () if is_chance => Change::NotAlways,
        () if is_error => Change::BelowError,
        () => Change::Gains,
    }
}

/// The effect of one policy.
pub fn line(case: &Case, one: &Contestant) -> String {
    let Some(first) = case.contestants.first() else { return String::new() };
    let ratio = one.ratio.map_or("an unknown part of".into(), |ratio| {
        format!("{}×{}", digits(ratio.median), range(ratio.min, ratio.max))
    });
    let switches = one.switches.zip(first.switches).map_or(String::new(), |(own, of)| {
        format!(", {} switches where {} has {}", count(own), first.policy, count(of))
    });
    let what = match change(case, one) {
        _ if refusal(case).is_some() => "",
        Change::Gains if !one.is_real => ": a model, which no kernel has",
        Change::NotAlways => ": faster in the middle, not in every replay",
        Change::BelowError => ": less than the replay's own error",
        Change::None => ": no difference",
        Change::Gains | Change::Loses | Change::Unknown => "",
    };
    format!("{}: {ratio} the time of {}{switches}{what}", one.policy, first.policy)
}

fn stay(case: &Case, first: &Contestant, others: &[Contestant]) -> Answer {
    let off = percent(error(case));
    let headline = format!(
        "Stay with {}: no policy gains more than chance and the replay's own error ({off}) explain",
        first.policy
    );
    let detail = |one: &Contestant| {
        let gain = percent(1.0 - one.ratio?.median);
        match change(case, one) {
            Change::NotAlways => {
                Some(format!("{} takes {gain} less time, not in every replay", one.policy))
            }
            Change::BelowError => {
                Some(format!("{} takes {gain} less time, and the replay is {off} off", one.policy))
            }
            _ => None,
        }
    };
    let details = others.iter().filter(|one| one.is_real).filter_map(detail).collect();
    let said = Answer::new(Verdict::Stay, headline, details);
    Answer { policy: Some(first.policy.clone()), ..said }
}

/// Whether two policies gain alike, within chance, the simulator's exactness, or its error.
fn are_alike(case: &Case, one: &Contestant, other: &Contestant) -> bool {
    let (Some(a), Some(b)) = (one.ratio, other.ratio) else { return false };
    a.overlaps(&b) || (a.median - b.median).abs() <= GAIN_MIN.max(error(case))
}

/// Of the policies that gain, the fastest that does not lengthen waits; if all of them do, the fastest.
fn recommend(
    case: &Case,
    first: &Contestant,
    gaining: &[&Contestant],
    ways: Option<&Ways>,
) -> Answer {
    let (costly, calm): (Vec<&Contestant>, Vec<&Contestant>) =
        gaining.iter().partition(|one| costs(one, first).tail_grows());
    let pool = if calm.is_empty() { &costly } else { &calm };
    let fastest = pool.iter().min_by(|a, b| middle(a).total_cmp(&middle(b)));
    let fastest = *fastest.expect("one gains, at a cost or not");
    let mut alike: Vec<&Contestant> =
        pool.iter().copied().filter(|one| are_alike(case, fastest, one)).collect();
    alike.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let (headline, mut details) = match (&alike[..], calm.is_empty()) {
        ([one], false) => (
            format!("Try {} first: {}", one.policy, faster(one, &first.policy)),
            at_what_cost(one, first).into_iter().collect(),
        ),
        ([one], true) => (
            format!("Waits grow under {}, which is {}", one.policy, faster(one, &first.policy)),
            told_costs(one, first).into_iter().collect(),
        ),
        (alike, false) => (gain_alike(alike, first), each_costs(alike, first)),
        (alike, true) => (
            format!("Waits grow with each that is faster: {}", gain_alike(alike, first)),
            each_costs(alike, first),
        ),
    };
    if calm.is_empty() {
        details.push("Try it where that does not matter".into());
    }
    let passed_over = costly.iter().filter(|one| !calm.is_empty() && middle(one) < middle(fastest));
    details.extend(passed_over.map(|one| {
        let waits = waits(&costs(one, first), &first.policy).join(", ");
        format!("{} is {}, but {waits}", one.policy, faster(one, &first.policy))
    }));
    if ways.is_some_and(|ways| ways.obstacle.is_some()) {
        details
            .push("No policy can be loaded here: see it in a guest, and `paceline doctor`".into());
    }
    let p99 = |one: &Contestant| one.wait_p99_s.unwrap_or(f64::INFINITY);
    let cheapest = alike.iter().min_by(|a, b| p99(a).total_cmp(&p99(b)));
    let chosen = *cheapest.expect("the fastest is one of them");
    let names: Vec<&str> = alike.iter().map(|one| one.policy.as_str()).collect();
    let (times, range) = gain(chosen);
    let verdict = if alike.len() > 1 { Verdict::Tie } else { Verdict::Try };
    Answer {
        policy: Some(chosen.policy.clone()),
        gain: Some(times),
        range: Some(range),
        costs: Some(costs(chosen, first)),
        next: ways.map(|ways| ways.to_try(&first.policy, &names)),
        alike: match names.len() {
            1 => Vec::new(),
            _ => names.into_iter().map(String::from).collect(),
        },
        ..Answer::new(verdict, headline, details)
    }
}

/// A phrase such as `flsched and cas gain alike: 1.14× faster than default (1.12–1.16), 1.13× ...`. Of more than two,
/// the range of their medians; the table has each.
fn gain_alike(alike: &[&Contestant], first: &Contestant) -> String {
    let names: Vec<&str> = alike.iter().map(|one| one.policy.as_str()).collect();
    let gains = match alike {
        [best, _, .., last] => {
            let (most, least) = (digits(gain(best).0), digits(gain(last).0));
            vec![format!("{least} to {most}× faster than {}", first.policy)]
        }
        few => few.iter().map(|one| faster(one, &first.policy)).collect(),
    };
    format!("{} gain alike: {}", and(&names), gains.join(", "))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
