// SPDX-License-Identifier: GPL-2.0-only
//! The answer of `try`: one pure function from what the replays came to.
//!
//! One statistic decides and is shown: the ratio of a policy's time to the first policy's with the same seed, as the
//! median of the replays and their range. A policy *gains* where that median is below 1 by [`GAIN_MIN`] or more, by
//! more than chance (each replay is faster) and by more than the replay's own error (its distance from the recording).

use report::stats::median;
use report::text::{count, digits, percent, plural, time};
use report::{Answer, Beside, Costs, Recording, Results, Run, Slowed, Spread, Summary, Verdict};

use super::next::Ways;
use crate::nearness::{DISTANCE_MAX, OTHERS_WARNED};

/// A gain below this is none: the simulator is not that good.
const GAIN_MIN: f64 = 0.03;
/// With more other load than this, elapsed times cannot be compared.
const OTHERS_MAX: f64 = 0.20;
/// With more of its CPU time unseen than this, a coarse recording says little.
const UNSEEN_MAX: f64 = 0.20;
/// Waits that grow to more than this many times what they were are told before anything else.
const TAIL_MAX: f64 = 2.0;
/// A cost that grows by less is not worth a "but".
const WORSE: f64 = 1.05;
/// A task with less of all CPU time than this does not show how fair a policy is.
const TASK_MIN: f64 = 0.01;

/// A policy, as its replays were.
#[derive(Clone, Debug, Default)]
pub struct Contestant {
    /// Its label.
    pub policy: String,
    /// There are kernels that can have it.
    pub is_real: bool,
    /// Replays under it.
    pub runs: usize,
    /// Its time as a part of the first policy's, by seed.
    pub ratio: Option<Spread>,
    /// 99 % of waits are shorter: the median of the runs.
    pub wait_p99_s: Option<f64>,
    /// The longest wait of all runs.
    pub worst_wait_s: Option<f64>,
    /// Context switches: the median of the runs.
    pub switches: Option<f64>,
    /// The task that loses most, or gains least.
    pub slowest: Option<Slowed>,
}

/// All that an answer rests on; the first contestant is what the others are held against.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The recording, and how near its replay comes.
    pub recording: Recording,
    /// CPUs of the machine that it was replayed on.
    pub cpus: usize,
    /// It is of procfs: which part of the CPU time it has not seen, where that is known.
    pub coarse: Option<Option<f64>>,
    /// Tasks talked through pipes and local sockets, and what was in those was not recorded.
    pub talks_unseen: bool,
    /// Something else was said against the recording.
    pub is_doubtful: bool,
    /// The policies.
    pub contestants: Vec<Contestant>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was recorded, or nothing can be held to it.
    Unknown,
    /// The replay is of another machine.
    OtherMachine,
    /// The replay is far off, and others had the machine.
    OffAndBusy,
    /// The replay is far off, and pipes were not recorded.
    OffAndUnseen,
    /// The replay is far off, and nobody knows why.
    Off,
    /// Others had the machine.
    Busy,
    /// The samples of procfs missed too much.
    Missed,
    /// One replay of each policy does not tell chance from gain.
    OneRun,
}

/// What became of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// It is faster, beyond chance and error.
    Gains,
    /// It may be faster: in the middle, and not in each replay.
    NotAlways,
    /// It is faster by less than the replay is off.
    BelowError,
    /// It makes no difference that a replay can show.
    None,
    /// It is slower.
    Loses,
    /// No replay of it can be held against the first policy's.
    Unknown,
}

/// The contestants of a result, in its order.
pub fn contestants(
    results: &Results,
    is_coarse: bool,
    is_real: impl Fn(&str) -> bool,
) -> Vec<Contestant> {
    let first = results.summary.first().map_or("", |one| one.policy.as_str());
    let of = |one: &Summary| Contestant {
        policy: one.policy.clone(),
        is_real: is_real(&one.policy),
        runs: one.runs,
        ratio: one.vs_first_range,
        wait_p99_s: one.wait_p99_s.map(|spread| spread.median),
        worst_wait_s: one.worst_wait_s,
        // Switches that a policy would save are in no coarse recording.
        switches: one.context_switches.filter(|_| !is_coarse).map(|spread| spread.median),
        slowest: slowest(&results.runs, &one.policy, first),
    };
    results.summary.iter().map(of).collect()
}

/// The task whose time on CPUs and waiting for one grows most, of those with a part of the CPU time that counts: the
/// median of the runs' own ratios.
fn slowest(runs: &[Run], policy: &str, first: &str) -> Option<Slowed> {
    let of_first = |run: &Run| {
        let same = |other: &&Run| (other.boot, other.run) == (run.boot, run.run);
        runs.iter().filter(|other| other.policy == first).find(same)
    };
    let own = runs.iter().filter(|run| run.policy == policy);
    let pairs: Vec<(&Run, &Run)> = own.filter_map(|run| Some((run, of_first(run)?))).collect();
    let (_, base) = pairs.first()?;
    let all_s: f64 = base.tasks.iter().map(|task| task.cpu_s).sum();
    let counts = base.tasks.iter().filter(|task| task.cpu_s >= TASK_MIN * all_s);
    let ratio = |tid| {
        let time_s = |run: &Run| {
            let task = run.tasks.iter().find(|task| task.tid == tid)?;
            Some(task.cpu_s + task.wait_s).filter(|s| *s > 0.0)
        };
        let ratios: Option<Vec<f64>> =
            pairs.iter().map(|(own, base)| Some(time_s(own)? / time_s(base)?)).collect();
        median(&ratios?)
    };
    let slowed =
        counts.filter_map(|task| Some(Slowed { name: task.name.clone(), ratio: ratio(task.tid)? }));
    slowed.max_by(|one, other| one.ratio.total_cmp(&other.ratio))
}

/// The answer.
pub fn answer(case: &Case, ways: &Ways) -> Answer {
    let Some((first, others)) = case.contestants.split_first() else { return Answer::default() };
    if let Some(refusal) = refusal(case) {
        let next = ways.after(refusal, case.coarse.is_some());
        return Answer { why: refused(case, refusal), next: Some(next), ..Answer::default() };
    }
    let gains = |one: &&Contestant| one.is_real && change(case, one) == Change::Gains;
    let gaining: Vec<&Contestant> = others.iter().filter(gains).collect();
    let answer = match gaining.is_empty() {
        true => stay(case, first, others),
        false => recommend(case, first, &gaining, ways),
    };
    let weak = weak(case);
    let direction = match weak.is_empty() {
        true => String::new(),
        false => format!(". Take this as a direction and not as a figure: {}", weak.join(", and ")),
    };
    Answer { why: answer.why + &direction, weak, ..answer }
}

/// Whether the replay says too little, by its own checks.
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

fn refused(case: &Case, refusal: Refusal) -> String {
    let recording = &case.recording;
    let off = || {
        let far = percent(recording.distance.unwrap_or(f64::NAN).abs());
        format!("the replay under {} is {far} off its own recording", recording.under)
    };
    let others = || format!("others had {} of the CPU time", percent(recording.others));
    match refusal {
        Refusal::Unknown => {
            "how near a replay comes to its own recording is not known, record a command that runs longer".into()
        }
        Refusal::OtherMachine => format!(
            "it was recorded on {} and replayed on {}, so nothing shows how near the replay comes, replay it on this \
             machine",
            plural(recording.cpus, "CPU"),
            case.cpus
        ),
        Refusal::OffAndBusy => {
            format!("{}, and {}, record again on an idle machine", off(), others())
        }
        Refusal::Busy => format!("{}, record again on an idle machine", others()),
        Refusal::OffAndUnseen => format!(
            "{}, and what went through its pipes was not recorded, record again with --calls",
            off()
        ),
        Refusal::Off if case.coarse.is_some() => {
            format!("{}, and the recording is coarse, record again with sudo", off())
        }
        Refusal::Off => format!(
            "{}, though the machine was idle otherwise: the model lacks something of this machine or of the command, \
             compare on a real kernel",
            off()
        ),
        Refusal::Missed => format!(
            "the recording is coarse and has not seen {} of the CPU time, record again with sudo",
            percent(case.coarse.flatten().unwrap_or(f64::NAN))
        ),
        Refusal::OneRun => {
            "one replay of each policy does not tell a gain from chance, take --runs 5".into()
        }
    }
}

/// Why an answer is a direction and no figure.
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

/// What one policy would change.
pub fn line(case: &Case, one: &Contestant) -> String {
    let Some(first) = case.contestants.first() else { return String::new() };
    let ratio = one.ratio.map_or("an unknown part of".into(), |ratio| {
        let range = match ratio.max > ratio.min {
            true => format!(" ({}–{})", digits(ratio.min), digits(ratio.max)),
            false => String::new(),
        };
        format!("{}×{range}", digits(ratio.median))
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
    let mut why = format!(
        "stay with {}; no policy gains more than chance and the replay's own error ({off}) explain",
        first.policy
    );
    for one in others.iter().filter(|one| one.is_real) {
        let Some(ratio) = one.ratio else { continue };
        let gain = percent(1.0 - ratio.median);
        why += &match change(case, one) {
            Change::NotAlways => {
                format!("; {} takes {gain} less time, not in every replay", one.policy)
            }
            Change::BelowError => {
                format!("; {} takes {gain} less time, and the replay is {off} off", one.policy)
            }
            _ => String::new(),
        };
    }
    let (verdict, policy) = (Verdict::Stay, Some(first.policy.clone()));
    Answer { verdict, policy, why, ..Answer::default() }
}

fn costs(one: &Contestant, first: &Contestant) -> Costs {
    let beside =
        |own: Option<f64>, of: Option<f64>| own.zip(of).map(|(own, first)| Beside { own, first });
    Costs {
        wait_p99_s: beside(one.wait_p99_s, first.wait_p99_s),
        worst_wait_s: beside(one.worst_wait_s, first.worst_wait_s),
        context_switches: beside(one.switches, first.switches),
        slowest_task: one.slowest.clone(),
    }
}

/// Whether something costs more than so many times what it does under the first policy.
fn grows(cost: Option<Beside>, times: f64) -> bool {
    cost.is_some_and(|cost| cost.own > times * cost.first)
}

fn tail_grows(costs: &Costs) -> bool {
    grows(costs.wait_p99_s, TAIL_MAX) || grows(costs.worst_wait_s, TAIL_MAX)
}

/// `99 % of waits are up to 11.0 ms (3.00 ms under default)` and `the longest is 80.0 ms (24.0 ms)`.
fn waits(costs: &Costs, first: &str) -> Vec<String> {
    let under = format!(" under {first}");
    let p99 = costs.wait_p99_s.map(|wait| {
        let (own, of) = (time(wait.own), time(wait.first));
        format!("99 % of waits are up to {own} ({of}{under})")
    });
    let again = if p99.is_none() { under.as_str() } else { "" };
    let worst = costs.worst_wait_s.map(|wait| {
        let (own, of) = (time(wait.own), time(wait.first));
        format!("the longest is {own} ({of}{again})")
    });
    p99.into_iter().chain(worst).collect()
}

/// Costs beside waits.
fn rest(costs: &Costs, first: &str) -> Vec<String> {
    let switches = costs.context_switches.map(|switches| {
        format!("{} switches ({} under {first})", count(switches.own), count(switches.first))
    });
    let slowed = costs.slowest_task.as_ref().map(|task| match task.ratio > WORSE {
        true => format!("task {} takes {}× as long", task.name, digits(task.ratio)),
        false => "no task takes longer".to_string(),
    });
    switches.into_iter().chain(slowed).collect()
}

fn is_worse(costs: &Costs) -> bool {
    let all = [costs.wait_p99_s, costs.worst_wait_s, costs.context_switches];
    let slower = costs.slowest_task.as_ref().is_some_and(|task| task.ratio > WORSE);
    slower || all.into_iter().any(|cost| grows(cost, WORSE))
}

/// `1.14× faster than default (1.12–1.16)`.
fn faster(one: &Contestant, first: &str) -> String {
    let (gain, range) = gain(one);
    let range = match range[1] > range[0] {
        true => format!(" ({}–{})", digits(range[0]), digits(range[1])),
        false => String::new(),
    };
    format!("{}× faster than {first}{range}", digits(gain))
}

/// How many times as fast: the median, and the range.
fn gain(one: &Contestant) -> (f64, [f64; 2]) {
    let ratio = one.ratio.expect("it gains, so its ratio is known");
    (1.0 / ratio.median, [1.0 / ratio.max, 1.0 / ratio.min])
}

fn middle(one: &Contestant) -> f64 {
    one.ratio.map_or(f64::INFINITY, |ratio| ratio.median)
}

/// Whether the replays cannot tell two policies apart: by chance, by the simulator's own quality, or by its error.
fn are_alike(case: &Case, one: &Contestant, other: &Contestant) -> bool {
    let (Some(a), Some(b)) = (one.ratio, other.ratio) else { return false };
    let overlap = a.min <= b.max && b.min <= a.max;
    overlap || (a.median - b.median).abs() <= GAIN_MIN.max(error(case))
}

/// Of those that gain, the fastest whose waits do not grow; where all of them let waits grow, the fastest at that cost.
fn recommend(case: &Case, first: &Contestant, gaining: &[&Contestant], ways: &Ways) -> Answer {
    let (costly, calm): (Vec<&Contestant>, Vec<&Contestant>) =
        gaining.iter().partition(|one| tail_grows(&costs(one, first)));
    let pool = if calm.is_empty() { &costly } else { &calm };
    let fastest = pool.iter().min_by(|a, b| middle(a).total_cmp(&middle(b)));
    let fastest = *fastest.expect("one gains, at a cost or not");
    let mut alike: Vec<&Contestant> =
        pool.iter().copied().filter(|one| are_alike(case, fastest, one)).collect();
    alike.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let mut why = match (&alike[..], calm.is_empty()) {
        ([one], false) => try_one(one, first),
        ([one], true) => try_at_a_cost(one, first),
        (alike, false) => format!("{}; {}", gain_alike(alike, first), each(alike, first)),
        (alike, true) => format!(
            "waits grow with each that is faster: {}; where that does not matter, {}",
            each(alike, first),
            gain_alike(alike, first)
        ),
    };
    let passed_over = costly.iter().filter(|one| !calm.is_empty() && middle(one) < middle(fastest));
    for one in passed_over {
        let waits = waits(&costs(one, first), &first.policy).join(", ");
        why += &format!("; {} is {}, but {waits}", one.policy, faster(one, &first.policy));
    }
    if let Some(obstacle) = &ways.obstacle {
        why += &format!(
            ". No policy can be loaded here ({obstacle}): see it on a guest's kernel; `paceline doctor` says how to \
             mend that"
        );
    }
    let p99 = |one: &Contestant| one.wait_p99_s.unwrap_or(f64::INFINITY);
    let cheapest = alike.iter().min_by(|a, b| p99(a).total_cmp(&p99(b)));
    let chosen = *cheapest.expect("the fastest is one of them");
    let names: Vec<&str> = alike.iter().map(|one| one.policy.as_str()).collect();
    let (times, range) = gain(chosen);
    Answer {
        verdict: if alike.len() > 1 { Verdict::Tie } else { Verdict::Try },
        policy: Some(chosen.policy.clone()),
        gain: Some(times),
        range: Some(range),
        costs: Some(costs(chosen, first)),
        next: Some(ways.to_try(&first.policy, &names)),
        alike: match names.len() {
            1 => Vec::new(),
            _ => names.into_iter().map(String::from).collect(),
        },
        weak: Vec::new(),
        why,
    }
}

fn try_one(one: &Contestant, first: &Contestant) -> String {
    let costs = costs(one, first);
    let told = [waits(&costs, &first.policy), rest(&costs, &first.policy)].concat();
    let mut why = format!("try {} first: {}", one.policy, faster(one, &first.policy));
    if !told.is_empty() {
        let but = if is_worse(&costs) { "but" } else { "and" };
        why += &format!(", {but} {}", told.join(", "));
    }
    why
}

fn try_at_a_cost(one: &Contestant, first: &Contestant) -> String {
    let costs = costs(one, first);
    let rest = rest(&costs, &first.policy);
    let rest: String = rest.iter().map(|cost| format!(", {cost}")).collect();
    format!(
        "waits grow: {}; where that does not matter, try {}: {}{rest}",
        waits(&costs, &first.policy).join(", "),
        one.policy,
        faster(one, &first.policy)
    )
}

/// `flsched and cas gain alike: 1.14× faster than default (1.12–1.16), 1.13× ...`.
fn gain_alike(alike: &[&Contestant], first: &Contestant) -> String {
    let names: Vec<&str> = alike.iter().map(|one| one.policy.as_str()).collect();
    let gains: Vec<String> = alike.iter().map(|one| faster(one, &first.policy)).collect();
    format!("{} gain alike: {}", and(&names), gains.join(", "))
}

/// What each of several costs.
fn each(alike: &[&Contestant], first: &Contestant) -> String {
    let one = |one: &&Contestant| {
        let costs = costs(one, first);
        let told = [waits(&costs, &first.policy), rest(&costs, &first.policy)].concat();
        match told.is_empty() {
            true => format!("what {} costs is not known", one.policy),
            false => format!("with {} {}", one.policy, told.join(", ")),
        }
    };
    alike.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `a`, `a and b`, `a, b and c`.
fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
