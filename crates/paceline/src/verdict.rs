// SPDX-License-Identifier: GPL-2.0-only
//! The answer of `compare`: which policy needs less than the first one, by how much, how sure that is, and what it
//! costs.
//!
//! A comparison of a recording is answered as by `try` (`attempt/answer.rs`), as its replay has an error of its
//! own. All others are judged by the runs alone. A policy *gains* if the median of its runs' own ratios is below 1 by
//! [`GAIN_MIN`] or more, and each run needs less.

use comparison::{Job, On, Plan};
use report::figure::range;
use report::text::{digits, percent};
use report::{Answer, Clock, Results, Spread, Verdict};
use terminal::shell::line;

use crate::contest::{
    Contestant, GAIN_MIN, and, contestants, costs, each_costs, faster, gain, middle, told_costs,
    waits,
};
use crate::nearness::DEFAULT;
use crate::{attempt, doctor};

/// Adds the answer, if there is anything to compare with the first policy.
pub fn add(results: &mut Results, plan: &Plan) {
    if plan.contenders.len() < 2 {
        return;
    }
    if plan.job.went().is_some() {
        return attempt::add_answer(results, plan, None);
    }
    let contestants = contestants(results, false, |label| plan.is_real(label));
    let lasts = plan.job.lasts();
    let mut answer = of(results.setting.clock, &contestants, &report::progress(results), lasts);
    answer.next = answer.policy.as_ref().filter(|_| answer.gain.is_some()).and_then(|policy| {
        let real = contestants.iter().any(|one| one.policy == *policy && one.is_real);
        next(plan, &contestants[0].policy, policy).filter(|_| real)
    });
    results.answer = Some(answer);
}

/// The change of each policy between two results side by side ([`Results::beside`]). `error`: the distance of replays
/// from their recordings, 0 if they are no replays.
pub fn before_and_after(both: &Results, error: f64) -> Answer {
    let what = if both.setting.clock.counts_work() { "work" } else { "time" };
    let (mut changed, mut same) = (Vec::new(), Vec::new());
    for one in &both.summary {
        let Some(policy) = one.policy.strip_suffix(" (before)") else { continue };
        let ratios = both.ratios_to(&format!("{policy} (after)"), &one.policy);
        let Some(ratio) = Spread::of(&ratios) else { continue };
        let apart = (ratio.median - 1.0).abs() >= GAIN_MIN.max(error);
        match apart && (ratio.min > 1.0 || ratio.max < 1.0) {
            true => changed.push(format!("{policy} takes {}", times_before(ratio, what))),
            false => same.push(policy.to_string()),
        }
    }
    let details = match same.is_empty() || changed.is_empty() {
        true => Vec::new(),
        false => vec![format!("No difference under {}", same.join(", "))],
    };
    let headline = match &changed[..] {
        [] => "No difference between before and after".to_string(),
        changed => changed.join(", and "),
    };
    let mut answer = Answer::new(Verdict::None, headline, details);
    if both.summary.iter().any(|one| one.runs < 2) {
        answer.add("Take this as a direction: one run does not tell a change from chance".into());
    }
    if error > 0.0 {
        let off = percent(error);
        answer
            .add(format!("A change below {off} is none: so far are replays off their recordings"));
    }
    answer
}

/// A phrase such as `2.00× the time it took before (1.98–2.01)`.
fn times_before(ratio: Spread, what: &str) -> String {
    // JSON does not keep the last bit of a number.
    let differ = ratio.max - ratio.min > 1e-9;
    let range = if differ { range(ratio.min, ratio.max) } else { String::new() };
    format!("{}× the {what} it took before{range}", digits(ratio.median))
}

/// How a policy compares.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Gains,
    Loses,
    None,
    Unknown,
}

fn change(one: &Contestant) -> Change {
    let Some(ratio) = one.ratio.filter(|ratio| ratio.median.is_finite() && ratio.min > 0.0) else {
        return Change::Unknown;
    };
    match () {
        () if 1.0 - ratio.median >= GAIN_MIN && ratio.max < 1.0 => Change::Gains,
        () if ratio.median - 1.0 >= GAIN_MIN && ratio.min > 1.0 => Change::Loses,
        () => Change::None,
    }
}

/// If times differ by less than this, the workload runs for a fixed time, and not to its end.
const SAME: f64 = 0.005;

/// `progress`: how far programs got under each policy, if that differs. `lasts`: the workload runs for a fixed time.
fn of(clock: Clock, contestants: &[Contestant], progress: &[String], lasts: bool) -> Answer {
    let Some((first, others)) = contestants.split_first() else { return Answer::default() };
    let takes_as_long = |one: &Contestant| {
        one.ratio
            .is_some_and(|ratio| (ratio.min - 1.0).abs() < SAME && (ratio.max - 1.0).abs() < SAME)
    };
    if (lasts || !progress.is_empty()) && others.iter().all(takes_as_long) {
        let far = if progress.is_empty() { "equally" } else { "differently" };
        let headline = format!("The workload runs for a time, in which programs get {far} far");
        let told =
            progress.iter().map(|told| format!("{told} of what they do under {}", first.policy));
        return Answer::new(Verdict::None, headline, told.chain(growing(first, others)).collect());
    }
    let mut gaining: Vec<&Contestant> =
        others.iter().filter(|one| change(one) == Change::Gains).collect();
    gaining.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let mut answer = match &gaining[..] {
        [] => none_gains(clock, first, others),
        [best, rest @ ..] => gains(clock, first, best, rest),
    };
    if contestants.iter().any(|one| one.runs < 2) {
        answer.weak.push("one run of each policy does not tell a gain from chance".into());
        answer.add(
            "Take this as a direction: one run of each policy does not tell a gain from chance"
                .into(),
        );
    }
    if clock.counts_work() {
        answer.add(
            "Work is instructions of all CPUs and not time: see idle while runnable beside it"
                .into(),
        );
    }
    answer
}

fn gains(clock: Clock, first: &Contestant, best: &Contestant, rest: &[&Contestant]) -> Answer {
    let (times, range) = gain(best);
    let cost = costs(best, first);
    let (alike, rest): (Vec<&Contestant>, Vec<&Contestant>) =
        rest.iter().partition(|one| are_alike(best, one));
    let grow = if cost.tail_grows() { ", but waits grow" } else { "" };
    let names: Vec<&str> = [best].iter().chain(&alike).map(|one| one.policy.as_str()).collect();
    let (verdict, headline) = match alike.is_empty() {
        true => (Verdict::Try, format!("{}{grow}", less(clock, best, first))),
        false => {
            let all: Vec<String> =
                [best].iter().chain(&alike).map(|one| less(clock, one, first)).collect();
            (Verdict::Tie, format!("{} gain alike: {}{grow}", and(&names), all.join(", ")))
        }
    };
    let mut details: Vec<String> = match alike.is_empty() {
        true => told_costs(best, first).into_iter().collect(),
        false => each_costs(&[&[best], &alike[..]].concat(), first),
    };
    let others: Vec<String> = rest.iter().map(|one| less(clock, one, first)).collect();
    details.extend((!others.is_empty()).then(|| others.join("; ")));
    Answer {
        policy: Some(best.policy.clone()),
        alike: match names.len() {
            1 => Vec::new(),
            _ => names.into_iter().map(String::from).collect(),
        },
        gain: Some(times),
        range: Some(range),
        costs: Some(cost),
        ..Answer::new(verdict, headline, details)
    }
}

/// Whether the runs cannot tell two policies apart.
fn are_alike(one: &Contestant, other: &Contestant) -> bool {
    let both = one.ratio.zip(other.ratio);
    both.is_some_and(|(a, b)| a.overlaps(&b) || (a.median - b.median).abs() < GAIN_MIN)
}

/// A phrase such as `flsched is 1.14× faster than default (1.12–1.16)`, or `flsched needs 0.71× the work of default
/// (0.69–0.73)`.
fn less(clock: Clock, one: &Contestant, first: &Contestant) -> String {
    match clock.counts_work() {
        true => format!("{} needs {}", one.policy, part(one.ratio, "work", first)),
        false => format!("{} is {}", one.policy, faster(one, &first.policy)),
    }
}

/// A phrase such as `0.71× the work of default (0.69–0.73)`.
fn part(ratio: Option<Spread>, what: &str, first: &Contestant) -> String {
    let Some(ratio) = ratio else {
        return format!("an unknown part of the {what} of {}", first.policy);
    };
    let range = range(ratio.min, ratio.max);
    format!("{}× the {what} of {}{range}", digits(ratio.median), first.policy)
}

fn none_gains(clock: Clock, first: &Contestant, others: &[Contestant]) -> Answer {
    let what = if clock.counts_work() { "work" } else { "time" };
    let one = |one: &Contestant| match change(one) {
        Change::Unknown => format!("{}: not known", one.policy),
        Change::Loses => format!("{} needs {}", one.policy, part(one.ratio, what, first)),
        _ => format!("{}: no difference, {}", one.policy, part(one.ratio, what, first)),
    };
    let (headline, details) = match others {
        [other] if change(other) == Change::None => (
            format!("No difference: {} needs {}", other.policy, part(other.ratio, what, first)),
            Vec::new(),
        ),
        [other] => (one(other), Vec::new()),
        others => {
            let all: Vec<String> = others.iter().map(one).collect();
            (format!("No policy needs less {what} than {}", first.policy), vec![all.join("; ")])
        }
    };
    let details = details.into_iter().chain(growing(first, others)).collect();
    let said = Answer::new(Verdict::Stay, headline, details);
    Answer { policy: Some(first.policy.clone()), ..said }
}

/// Policies that lengthen waits without any other change.
fn growing(first: &Contestant, others: &[Contestant]) -> Vec<String> {
    let grows = others.iter().filter(|one| costs(one, first).tail_grows());
    let told = grows.map(|one| {
        let waits = waits(&costs(one, first), &first.policy).join(", ");
        format!("Waits grow under {}: {waits}", one.policy)
    });
    told.collect()
}

/// The next ground, nearer to the machine: from the simulator to a guest, then this kernel, then in charge.
fn next(plan: &Plan, first: &str, policy: &str) -> Option<String> {
    let Job::Command { argv, .. } = &plan.job else { return None };
    // No kernel has a model: Linux's own class stands in for it.
    let first = if plan.is_real(first) { first } else { DEFAULT };
    let both = format!("{first},{policy}");
    let before: &[&str] = match plan.ground.confirmed_by() {
        Some(On::Here) if doctor::obstacle().is_some() => return None,
        Some(On::Here) => &["compare", "--on", "here", "--runs", "5", "--policy", &both],
        Some(other) => &["compare", "--on", other.name(), "--policy", &both],
        None => &["run", policy, "--for", "60s"],
    };
    let words = ["paceline"].iter().chain(before).chain(&["--"]).copied();
    Some(line(words.chain(argv.iter().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contestant(policy: &str, ratios: &[f64], p99_ms: f64) -> Contestant {
        Contestant {
            policy: policy.into(),
            is_real: true,
            runs: ratios.len(),
            ratio: Spread::of(ratios),
            wait_p99_s: Some(p99_ms / 1e3),
            ..Contestant::default()
        }
    }

    fn said(clock: Clock, others: &[Contestant]) -> Answer {
        let first = contestant("default", &[1.0, 1.0, 1.0], 3.0);
        of(clock, &[&[first], others].concat(), &[], false)
    }

    #[test]
    fn a_gain_has_its_range_and_its_cost() {
        let answer = said(Clock::Simulated, &[contestant("cas", &[0.8, 0.82, 0.81], 5.0)]);
        assert_eq!(answer.headline, "cas is 1.23× faster than default (1.22–1.25)");
        assert_eq!(answer.details, ["99 % of waits are up to 5.00 ms (3.00 ms under default)"]);
        assert_eq!((answer.verdict, answer.policy.as_deref()), (Verdict::Try, Some("cas")));
    }

    #[test]
    fn work_is_not_called_faster() {
        let answer = said(Clock::Dilated, &[contestant("flsched", &[0.7, 0.73, 0.71], 9.0)]);
        let wanted = "flsched needs 0.71× the work of default (0.70–0.73), but waits grow";
        assert_eq!(answer.headline, wanted);
        assert!(answer.why.contains("not time"), "{}", answer.why);
    }

    #[test]
    fn what_chance_explains_is_no_difference() {
        for ratios in [[0.9, 1.01, 0.95], [0.98, 0.99, 0.985], [1.0, 1.2, 1.1]] {
            let answer = said(Clock::Real, &[contestant("cas", &ratios, 3.0)]);
            assert!(answer.headline.starts_with("No difference: cas needs"), "{}", answer.headline);
            assert_eq!((answer.verdict, answer.gain), (Verdict::Stay, None));
        }
        let slower = said(Clock::Real, &[contestant("cas", &[1.2, 1.3, 1.25], 3.0)]);
        assert_eq!(slower.headline, "cas needs 1.25× the time of default (1.20–1.30)");
        let lost = Contestant { ratio: None, ..contestant("cas", &[1.0, 1.0], 3.0) };
        assert_eq!(said(Clock::Real, &[lost]).headline, "cas: not known");
    }

    #[test]
    fn a_workload_that_runs_for_a_time_has_no_faster_policy() {
        let first = contestant("default", &[1.0, 1.0], 3.0);
        let told = ["cas: busy 1.19×, waits 0.64×".to_string()];
        let said = |ratios: &[f64]| {
            of(Clock::Simulated, &[first.clone(), contestant("cas", ratios, 4.0)], &told, false)
        };
        let answer = said(&[1.0, 1.001]);
        assert_eq!((answer.verdict, answer.gain), (Verdict::None, None));
        let wanted = "cas: busy 1.19×, waits 0.64× of what they do under default";
        assert_eq!(answer.details, [wanted]);
        assert_eq!(said(&[0.8, 0.8]).verdict, Verdict::Try, "it ran to its end");
        let cas = contestant("cas", &[1.0, 1.0], 9.0);
        let equal = of(Clock::Simulated, &[first.clone(), cas], &[], true);
        assert!(equal.headline.ends_with("programs get equally far"), "{}", equal.headline);
        let wanted =
            "Waits grow under cas: 99 % of waits are up to 9.00 ms (3.00 ms under default)";
        assert_eq!(equal.details, [wanted]);
    }

    #[test]
    fn one_run_is_a_direction() {
        let answer = said(Clock::Real, &[contestant("cas", &[0.5], 3.0)]);
        assert!(answer.why.contains("Take this as a direction"), "{}", answer.why);
    }

    #[test]
    fn policies_that_the_runs_cannot_tell_apart_gain_alike() {
        let others = [contestant("o1", &[0.8, 0.82], 3.0), contestant("cas", &[0.79, 0.83], 4.0)];
        let answer = said(Clock::Simulated, &others);
        assert!(
            answer.headline.starts_with("cas and o1 gain alike: ")
                || answer.headline.starts_with("o1 and cas gain alike: "),
            "{}",
            answer.headline
        );
        assert_eq!((answer.verdict, answer.alike.len()), (Verdict::Tie, 2));
        assert!(
            answer.details[0].contains("99 % of waits") && answer.details.len() == 2,
            "{:?}",
            answer.details
        );
    }

    #[test]
    fn of_several_the_fastest_is_named_first() {
        let others = [
            contestant("o1", &[0.9, 0.9], 3.0),
            contestant("cas", &[0.8, 0.8], 3.0),
            contestant("rr", &[1.3, 1.3], 3.0),
        ];
        let answer = said(Clock::Simulated, &others);
        assert_eq!(answer.headline, "cas is 1.25× faster than default");
        assert!(answer.why.ends_with("o1 is 1.11× faster than default."), "{}", answer.why);
    }
}
