// SPDX-License-Identifier: GPL-2.0-only
//! How far simulated runs are from the guest's, for the same file and policy. Pure functions.

use std::collections::BTreeMap;

use report::stats::{median, quantile};
use trace::Outcome;

use super::paper::Agreed;

/// Kernels keep this much of a thread's name.
const NAME_MAX: usize = 15;

/// The distance between the runs of two grounds; `names` are the workload's tasks, for a guest has
/// others too. None where a ground measured nothing.
pub fn distance(
    what: Agreed,
    guest: &[&Outcome],
    sim: &[&Outcome],
    names: &[String],
) -> Option<f64> {
    match what {
        Agreed::CpuShare => share_distance(guest, sim, names),
        Agreed::Switches => {
            let of = |runs: &[&Outcome]| median(&each(runs, |run| Some(switches(run, names))));
            let (guest, sim) = (of(guest)?, of(sim)?);
            (guest > 0.0).then(|| (sim / guest - 1.0).abs())
        }
        Agreed::Migrations => {
            outside(guest, sim, |run| Some(total(run, names, |task| task.migrations)))
        }
        Agreed::Wait50 => outside(guest, sim, |run| Some(run.observed.wait.p50_ns as f64)),
        Agreed::Wait95 => outside(guest, sim, |run| Some(run.observed.wait.p95_ns as f64)),
        Agreed::Wait99 => outside(guest, sim, |run| Some(run.observed.wait.p99_ns as f64)),
    }
}

/// 0 where the simulator's median lies between the least and the greatest of the guest's runs, else
/// how far outside, relative to the bound that it misses.
fn outside(
    guest: &[&Outcome],
    sim: &[&Outcome],
    value: impl Fn(&Outcome) -> Option<f64>,
) -> Option<f64> {
    let guest = each(guest, &value);
    let (least, greatest) = (quantile(&guest, 0.0)?, quantile(&guest, 1.0)?);
    let middle = median(&each(sim, &value))?;
    Some(if middle < least {
        (least - middle) / least
    } else if middle > greatest {
        (middle - greatest) / greatest.max(1.0)
    } else {
        0.0
    })
}

fn each(runs: &[&Outcome], value: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
    let observed = runs.iter().filter(|run| run.observed.elapsed_ns > 0);
    observed.filter_map(|run| value(run)).collect()
}

/// The greatest difference of a task's part of the CPU time of all, in points.
fn share_distance(guest: &[&Outcome], sim: &[&Outcome], names: &[String]) -> Option<f64> {
    let of = |runs: &[&Outcome], name: &str| {
        median(&each(runs, |run| shares(run, names).get(name).copied()))
    };
    let distances: Option<Vec<f64>> = names
        .iter()
        .map(|name| Some((of(guest, cut(name))? - of(sim, cut(name))?).abs() * 100.0))
        .collect();
    quantile(&distances?, 1.0)
}

/// Each name's part of the CPU time of all names; tasks of one name are taken together.
fn shares<'a>(run: &Outcome, names: &'a [String]) -> BTreeMap<&'a str, f64> {
    let mut shares: BTreeMap<&str, f64> = names.iter().map(|name| (cut(name), 0.0)).collect();
    for (tid, task) in &run.observed.tasks {
        let name = run.names.get(tid).map_or("", |name| cut(name));
        if let Some(share) = shares.get_mut(name) {
            *share += task.cpu_ns as f64;
        }
    }
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all.max(1.0));
    shares
}

fn switches(run: &Outcome, names: &[String]) -> f64 {
    total(run, names, |task| task.voluntary + task.involuntary)
}

fn total(run: &Outcome, names: &[String], value: fn(&trace::TaskObserved) -> u64) -> f64 {
    let own = run.observed.tasks.iter().filter(|(tid, _)| {
        let name = run.names.get(tid).map_or("", |name| cut(name));
        names.iter().any(|known| cut(known) == name)
    });
    own.map(|(_, task)| value(task)).sum::<u64>() as f64
}

fn cut(name: &str) -> &str {
    name.char_indices().nth(NAME_MAX).map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Observed, TaskObserved};

    fn run(cpu_ns: [u64; 3], migrations: u64) -> Outcome {
        let mut observed = Observed { elapsed_ns: 1, ..Observed::default() };
        let mut names = BTreeMap::new();
        for (tid, name) in [(1, "a"), (2, "b"), (3, "kworker")] {
            let cpu_ns = cpu_ns[tid as usize - 1];
            let task = TaskObserved { cpu_ns, migrations, voluntary: cpu_ns, ..Default::default() };
            observed.tasks.insert(tid, task);
            names.insert(tid, name.to_string());
        }
        Outcome { observed, names, ..Outcome::default() }
    }

    fn names() -> Vec<String> {
        vec!["a".into(), "b".into()]
    }

    #[test]
    fn shares_are_of_the_workload_and_not_of_the_guest() {
        let (guest, sim) = (run([60, 40, 900], 0), run([50, 50, 0], 0));
        let points = distance(Agreed::CpuShare, &[&guest], &[&sim], &names()).unwrap();
        assert!((points - 10.0).abs() < 1e-9, "{points}");
        let switches = distance(Agreed::Switches, &[&guest], &[&sim], &names());
        assert_eq!(switches, Some(0.0), "the kworker's do not count");
    }

    #[test]
    fn inside_the_spread_is_no_distance() {
        let guests = [run([1, 1, 1], 10), run([1, 1, 1], 20)];
        let guest: Vec<&Outcome> = guests.iter().collect();
        let at = |migrations| {
            let sim = run([1, 1, 1], migrations);
            distance(Agreed::Migrations, &guest, &[&sim], &names()).unwrap()
        };
        assert_eq!(at(15), 0.0);
        assert_eq!(at(5), 0.5);
        assert_eq!(at(30), 0.5);
    }

    #[test]
    fn nothing_observed_is_no_agreement() {
        let (blind, sim) = (Outcome::default(), run([1, 1, 1], 0));
        for what in [Agreed::CpuShare, Agreed::Switches, Agreed::Migrations, Agreed::Wait99] {
            assert_eq!(distance(what, &[&blind], &[&sim], &names()), None, "{what:?}");
        }
    }
}
