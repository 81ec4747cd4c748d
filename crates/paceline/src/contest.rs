// SPDX-License-Identifier: GPL-2.0-only
//! Policies compared with the first one: how much faster each is, and what that costs, in words.

use report::figure::range;
use report::stats::median;
use report::text::{count, digits, time};
use report::{Beside, Costs, Results, Run, Slowed, Spread, Summary};

/// A smaller gain does not count: neither the simulator nor a run is that exact.
pub const GAIN_MIN: f64 = 0.03;
/// A cost with a smaller increase is not worth a "but".
const WORSE: f64 = 1.05;
/// A task with a smaller part of all CPU time does not show how fair a policy is.
const TASK_MIN: f64 = 0.01;

/// A policy with the figures of its replays.
#[derive(Clone, Debug, Default)]
pub struct Contestant {
    /// Its label.
    pub policy: String,
    /// There are kernels that can load it.
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
        // A coarse recording does not show the switches that a policy would save.
        switches: one.context_switches.filter(|_| !is_coarse).map(|spread| spread.median),
        slowest: slowest(&results.runs, &one.policy, first),
    };
    results.summary.iter().map(of).collect()
}

/// The task with the greatest growth of its time on CPUs and waiting for one: the median of the runs' own ratios. Tasks
/// with little of the CPU time do not count.
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

/// Costs of a policy compared with the first one.
pub fn costs(one: &Contestant, first: &Contestant) -> Costs {
    let beside =
        |own: Option<f64>, of: Option<f64>| own.zip(of).map(|(own, first)| Beside { own, first });
    Costs {
        wait_p99_s: beside(one.wait_p99_s, first.wait_p99_s),
        worst_wait_s: beside(one.worst_wait_s, first.worst_wait_s),
        context_switches: beside(one.switches, first.switches),
        slowest_task: one.slowest.clone(),
    }
}

/// Phrases such as `99 % of waits are up to 11.0 ms (3.00 ms under default)` and `the longest is 80.0 ms (24.0 ms)`.
pub fn waits(costs: &Costs, first: &str) -> Vec<String> {
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

/// Costs other than waits.
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
    slower || all.into_iter().flatten().any(|cost| cost.grows(WORSE))
}

/// A phrase such as `1.14× faster than default (1.12–1.16)`.
pub fn faster(one: &Contestant, first: &str) -> String {
    let (gain, [least, greatest]) = gain(one);
    format!("{}× faster than {first}{}", digits(gain), range(least, greatest))
}

/// How many times as fast: the median, and the range.
pub fn gain(one: &Contestant) -> (f64, [f64; 2]) {
    let ratio = one.ratio.expect("it gains, so its ratio is known");
    (1.0 / ratio.median, [1.0 / ratio.max, 1.0 / ratio.min])
}

/// Its time as a part of the first policy's: the median.
pub fn middle(one: &Contestant) -> f64 {
    one.ratio.map_or(f64::INFINITY, |ratio| ratio.median)
}

/// A policy's costs, in a sentence that says whether they are higher than the first one's.
pub fn at_what_cost(one: &Contestant, first: &Contestant) -> Option<String> {
    let told = told_costs(one, first)?;
    Some(if is_worse(&costs(one, first)) { format!("Its cost: {told}") } else { told })
}

/// A policy's costs, in one sentence; None if none are known.
pub fn told_costs(one: &Contestant, first: &Contestant) -> Option<String> {
    let costs = costs(one, first);
    let told = [waits(&costs, &first.policy), rest(&costs, &first.policy)].concat();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Most policies with costs in words; if there are more, their costs are in the table.
const TOLD: usize = 2;

/// Costs of each of several policies that gain alike, if they are few; else costs of the first of them.
pub fn each_costs(alike: &[&Contestant], first: &Contestant) -> Vec<String> {
    let one = |one: &&Contestant| match told_costs(one, first) {
        Some(told) => format!("{}: {told}", one.policy),
        None => format!("The costs of {} are not known", one.policy),
    };
    match alike {
        [best, rest @ ..] if alike.len() > TOLD => {
            let names: Vec<&str> = rest.iter().map(|one| one.policy.as_str()).collect();
            vec![one(best), format!("The table has what {} cost", and(&names))]
        }
        few => few.iter().map(one).collect(),
    }
}

/// Joins names: `a`, `a and b`, `a, b and c`.
pub fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
