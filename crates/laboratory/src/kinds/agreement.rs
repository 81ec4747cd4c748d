// SPDX-License-Identifier: GPL-2.0-only
//! Distances of simulated runs from the guest's, for the same file and policy.

use std::collections::BTreeMap;

use report::stats::{median, quantile};
use serde::Deserialize;
use terminal::Failure;
use trace::Outcome;

use crate::experiment;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::outcomes::wait_ns;

/// Kernels keep this much of a thread's name.
const NAME_MAX: usize = 15;

/// How far the simulator is from the guest, at the worst of some files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Names of experiments on the guest.
    guest: Vec<String>,
    /// Names of the same files' experiments on the simulator, in the same order.
    sim: Vec<String>,
    /// The policy.
    of: String,
    /// The compared quantity.
    what: Agreed,
}

/// Quantities that a simulation and a guest are to agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreed {
    /// Each task's part of all CPU time: the greatest difference, in points.
    CpuShare,
    /// Switches of the workload's tasks: relative difference.
    Switches,
    /// Migrations: how far outside the spread of the guest's runs, relative; 0 is inside.
    Migrations,
    /// Median wait: as for migrations.
    Wait50,
    /// 95th percentile of waits: as for migrations.
    Wait95,
    /// 99th percentile of waits: as for migrations.
    Wait99,
}

impl Kind for Agreement {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let mut worst = Vec::new();
        for (guest, sim) in self.guest.iter().zip(&self.sim) {
            let names = experiment::task_names(&lab.experiment(guest)?.job)?;
            let (guest, sim) = (lab.outcomes(guest)?, lab.outcomes(sim)?);
            let (guest, sim) = (self.own(&guest), self.own(&sim));
            match distance(self.what, &guest, &sim, &names) {
                Some(distance) => worst.push(distance),
                None => return Ok(Sample::default()),
            }
        }
        // The gate applies to each file, so the worst decides.
        Ok(quantile(&worst, 1.0).into_iter().collect::<Vec<_>>().into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        if let Some(first) = self.guest.first() {
            lab.experiment(first)?;
        }
        Ok(Setting::without_clock("sim and vm"))
    }
}

impl Agreement {
    /// The runs of its policy.
    fn own<'o>(&self, all: &'o [Outcome]) -> Vec<&'o Outcome> {
        all.iter().filter(|one| one.policy == self.of).collect()
    }
}

/// The distance between the runs of two grounds. `names` are the workload's tasks: a guest has other tasks too. None if
/// a ground measured nothing.
fn distance(what: Agreed, guest: &[&Outcome], sim: &[&Outcome], names: &[String]) -> Option<f64> {
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
        Agreed::Wait50 => outside(guest, sim, |run| wait(run, names, 0.5)),
        Agreed::Wait95 => outside(guest, sim, |run| wait(run, names, 0.95)),
        Agreed::Wait99 => outside(guest, sim, |run| wait(run, names, 0.99)),
    }
}

/// A quantile of the waits of the workload's tasks, ns.
fn wait(run: &Outcome, names: &[String], at: f64) -> Option<f64> {
    wait_ns(own(run, names), at)
}

/// 0 if the simulator's median lies between the least and the greatest of the guest's runs. Else its distance outside,
/// relative to the nearest bound.
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

/// The greatest difference of a task's part of all CPU time, in points. Tasks of one kind (a file's `instance`s) differ
/// only by chance, so they are compared by rank: the least with the least, and so on.
fn share_distance(guest: &[&Outcome], sim: &[&Outcome], names: &[String]) -> Option<f64> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    names.iter().for_each(|name| *kinds.entry(kind(name)).or_default() += 1);
    let of = |runs: &[&Outcome], kind: &str, rank: usize| {
        median(&each(runs, |run| shares(run, names).get(kind)?.get(rank).copied()))
    };
    let mut distances = Vec::new();
    for (kind, count) in kinds {
        for rank in 0..count {
            distances.push((of(guest, kind, rank)? - of(sim, kind, rank)?).abs() * 100.0);
        }
    }
    quantile(&distances, 1.0)
}

/// By kind, each task's part of the workload's CPU time, the least first. A task that was not seen has none.
fn shares<'a>(run: &Outcome, names: &'a [String]) -> BTreeMap<&'a str, Vec<f64>> {
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for name in names {
        let ns: u64 = own(run, std::slice::from_ref(name)).map(|task| task.cpu_ns).sum();
        shares.entry(kind(name)).or_default().push(ns as f64);
    }
    let all: f64 = shares.values().flatten().sum();
    for kind in shares.values_mut() {
        kind.iter_mut().for_each(|share| *share /= all.max(1.0));
        kind.sort_by(f64::total_cmp);
    }
    shares
}

/// The name that a file gives all instances of a task: without the number behind it.
fn kind(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => kind,
        _ => name,
    }
}

/// Measures of the tasks of these names.
fn own<'a>(run: &'a Outcome, names: &'a [String]) -> impl Iterator<Item = &'a trace::TaskObserved> {
    run.observed.tasks.iter().filter_map(move |(tid, task)| {
        let name = run.names.get(tid).map_or("", |name| cut(name));
        names.iter().any(|known| cut(known) == name).then_some(task)
    })
}

fn switches(run: &Outcome, names: &[String]) -> f64 {
    total(run, names, |task| task.voluntary + task.involuntary)
}

fn total(run: &Outcome, names: &[String], value: fn(&trace::TaskObserved) -> u64) -> f64 {
    own(run, names).map(value).sum::<u64>() as f64
}

/// The part of a name that the kernel keeps.
pub(super) fn cut(name: &str) -> &str {
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
    fn instances_are_compared_by_rank() {
        let names = ["hog-0".to_string(), "hog-1".to_string()];
        let named = |cpu_ns: [u64; 2]| {
            let mut run = run([cpu_ns[0], cpu_ns[1], 0], 0);
            run.names = [(1, names[0].clone()), (2, names[1].clone())].into();
            run
        };
        let (guest, same, other) = (named([70, 30]), named([30, 70]), named([50, 50]));
        let points = |sim: &Outcome| distance(Agreed::CpuShare, &[&guest], &[sim], &names).unwrap();
        assert!(points(&same).abs() < 1e-9);
        assert!((points(&other) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn waits_are_those_of_the_workload() {
        let with_waits = |ns: [u64; 3]| {
            let mut run = run([1; 3], 0);
            for (task, ns) in run.observed.tasks.values_mut().zip(ns) {
                (0..10).for_each(|_| task.wait_lengths.add(ns));
            }
            run
        };
        let (guest, sim) = (with_waits([100, 100, 9_000]), with_waits([100, 100, 1]));
        let of = |sim: &Outcome| distance(Agreed::Wait99, &[&guest], &[sim], &names()).unwrap();
        assert_eq!(of(&sim), 0.0, "the kworker's do not count");
        assert!(of(&with_waits([100, 200, 1])) > 0.9);
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
