// SPDX-License-Identifier: GPL-2.0-only
//! The answer of `compare`: which policy needs less than the first one, by how much, how sure that is, and what it costs.
//!
//! A comparison of a recording is answered as `try` answers ([`crate::attempt::answer`]), as its replay has an error of
//! its own. All others are judged by the runs alone: a policy *gains* where the median of its runs' own ratios is below 1
//! by [`GAIN_MIN`] or more, and each run needs less.

use report::text::digits;
use report::{Answer, Clock, Results, Spread, Verdict};

use crate::contest::{
    Contestant, contestants, costs, faster, gain, middle, tail_grows, told_costs,
};
use crate::plan::{Job, Place, Plan};
use crate::shell::line;
use crate::{attempt, doctor};

/// A gain below this is called no difference.
const GAIN_MIN: f64 = 0.03;

/// Adds the answer, where there is something to hold against the first policy.
pub fn add(results: &mut Results, plan: &Plan) {
    if plan.contenders.len() < 2 {
        return;
    }
    if plan.job.went().is_some() {
        return attempt::add_answer(results, plan, None);
    }
    let contestants = contestants(results, false, |label| plan.is_real(label));
    let mut answer = of(results.setting.clock, &contestants);
    answer.next = answer.policy.as_ref().filter(|_| answer.gain.is_some()).and_then(|policy| {
        let real = contestants.iter().any(|one| one.policy == *policy && one.is_real);
        next(plan, &contestants[0].policy, policy).filter(|_| real)
    });
    results.answer = Some(answer);
}

/// What became of a policy.
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

fn of(clock: Clock, contestants: &[Contestant]) -> Answer {
    let Some((first, others)) = contestants.split_first() else { return Answer::default() };
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
    let grow = if tail_grows(&cost) { ", but waits grow" } else { "" };
    let headline = format!("{}{grow}", less(clock, best, first));
    let mut details = told_costs(best, first);
    details.extend((!rest.is_empty()).then(|| {
        let all: Vec<String> = rest.iter().map(|one| less(clock, one, first)).collect();
        all.join("; ")
    }));
    Answer {
        policy: Some(best.policy.clone()),
        gain: Some(times),
        range: Some(range),
        costs: Some(cost),
        ..Answer::new(Verdict::Try, headline, details)
    }
}

/// `flsched is 1.14× faster than default (1.12–1.16)`, or `flsched needs 0.71× the work of default (0.69–0.73)`.
fn less(clock: Clock, one: &Contestant, first: &Contestant) -> String {
    match clock.counts_work() {
        true => format!("{} needs {}", one.policy, part(one.ratio, "work", first)),
        false => format!("{} is {}", one.policy, faster(one, &first.policy)),
    }
}

/// `0.71× the work of default (0.69–0.73)`.
fn part(ratio: Option<Spread>, what: &str, first: &Contestant) -> String {
    let Some(ratio) = ratio else {
        return format!("an unknown part of the {what} of {}", first.policy);
    };
    let range = match ratio.max > ratio.min {
        true => format!(" ({}–{})", digits(ratio.min), digits(ratio.max)),
        false => String::new(),
    };
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
    let said = Answer::new(Verdict::Stay, headline, details);
    Answer { policy: Some(first.policy.clone()), ..said }
}

/// The next nearer to the machine: from the simulator to a guest, from there to this kernel, from there to be in charge.
fn next(plan: &Plan, first: &str, policy: &str) -> Option<String> {
    let Job::Command { argv, .. } = &plan.job else { return None };
    let both = format!("{first},{policy}");
    let before: &[&str] = match plan.place {
        Place::Sim { .. } => &["compare", "--on", "vm", "--policy", &both],
        Place::Vm { .. } if doctor::obstacle().is_some() => return None,
        Place::Vm { .. } => &["compare", "--on", "here", "--runs", "5", "--policy", &both],
        Place::Here(_) => &["run", policy, "--for", "60s"],
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
        of(clock, &[&[first], others].concat())
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
    fn one_run_is_a_direction() {
        let answer = said(Clock::Real, &[contestant("cas", &[0.5], 3.0)]);
        assert!(answer.why.contains("Take this as a direction"), "{}", answer.why);
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
