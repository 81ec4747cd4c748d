// SPDX-License-Identifier: GPL-2.0-only
//! A replay's prediction, compared with the real run.

use std::collections::{BTreeMap, BTreeSet};

use comparison::{contender, replay};
use machine::Machine;
use record::Replay;
use report::stats::median;
use serde::Deserialize;
use sim::{Scenario, Scheduler};
use terminal::Failure;
use trace::{Outcome, TaskObserved};

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;

/// How far a replay of a recording under one policy is from the real run under another, or under the same. As a
/// part of the real run, boot by boot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Name of an experiment in a guest that records.
    experiment: String,
    /// The guest as a machine. None: the other boots predict each boot, and no replay can be better at that.
    machine: Option<String>,
    /// The policy of the recorded runs.
    from: String,
    /// The policy of the predicted runs.
    of: String,
    /// The predicted quantity.
    what: Foretold,
}

impl Kind for Predicted {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        let (from, of, what) = (&self.from, &self.of, self.what);
        Ok(match &self.machine {
            Some(machine) => distances(&outcomes, machine, from, of, what)?.into(),
            None => between_boots(&outcomes, from, of, what)?.into(),
        })
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// The predicted quantity of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Foretold {
    /// Elapsed time: work, on a clock of instructions.
    Elapsed,
    /// Context switches of the workload's tasks.
    Switches,
    /// Switches to another address space, of all tasks.
    MmSwitches,
    /// CPU time of each task: the sum of all differences as a part of the sum of all times.
    CpuTime,
}

/// Seeds of a replay; their median is compared with the real run.
const SEEDS: u64 = 5;

/// For each recorded run of `from`, the relative distance of the replay under `of` from `of`'s run in that boot. If
/// both are the same policy, the distance from the recorded run itself. Empty if one of its runs has no such value.
fn distances(
    outcomes: &[Outcome],
    machine: &str,
    from: &str,
    of: &str,
    what: Foretold,
) -> Result<Vec<f64>, Failure> {
    let machine = measuring::find_machine(machine)?;
    let mut distances = Vec::new();
    let recorded: Vec<&Outcome> = outcomes.iter().filter(|run| run.policy == from).collect();
    if recorded.iter().any(|run| run.recording.is_empty()) {
        return Ok(Vec::new());
    }
    for run in recorded {
        let recording = run.recording.as_slice();
        // A replay of the same policy includes the recorder's costs; a predicted run had no recorder.
        let replay = match from == of {
            true => replay::as_it_was(recording, &machine),
            false => replay::taken_in(recording, &machine)
                .map(|(_, replay, _)| (replay, machine.clone())),
        };
        let (replay, machine) = replay.map_err(unreadable)?;
        let foretold = foretold(&replay, &machine, from, of)?;
        let happened: Vec<Seen> = match from == of {
            true => vec![Seen::recorded(&replay)],
            false => {
                let same = |other: &&Outcome| other.policy == of && other.boot == run.boot;
                let names = names(&replay);
                outcomes
                    .iter()
                    .filter(same)
                    .map(|other| Seen::of(other, |name| names.contains(name)))
                    .collect()
            }
        };
        distances.push(distance(&foretold, &happened, what));
    }
    Ok(distances.into_iter().collect::<Option<_>>().unwrap_or_default())
}

/// For each run of a policy, the relative distance of the runs of other boots. It is over the tasks that are recorded
/// under `from`, as for [`distances`]. Empty if one of its runs has no such value.
fn between_boots(
    outcomes: &[Outcome],
    from: &str,
    of: &str,
    what: Foretold,
) -> Result<Vec<f64>, Failure> {
    let runs = outcomes.iter().filter(|run| run.policy == of);
    let seen: Vec<(usize, Seen)> = match what {
        Foretold::CpuTime => {
            let runs: Vec<&Outcome> = runs.collect();
            if runs.iter().any(|run| run.recording.is_empty()) {
                return Ok(Vec::new());
            }
            let seen = |run: &&Outcome| {
                let cpu_ns = cpu_by_tid(&run.recording)?;
                Ok((run.boot, Seen { cpu_ns, ..Seen::default() }))
            };
            runs.iter().map(seen).collect::<Result<_, Failure>>()?
        }
        _ => {
            let Some(own) = own_names(outcomes, from, what)? else { return Ok(Vec::new()) };
            runs.map(|run| (run.boot, Seen::of(run, |name| own.contains(name)))).collect()
        }
    };
    let one = |(boot, run): &(usize, Seen)| {
        let others = seen.iter().filter(|(other, _)| other != boot);
        let others: Vec<Seen> = others.map(|(_, other)| other.clone()).collect();
        distance(&others, std::slice::from_ref(run), what)
    };
    Ok(seen.iter().map(one).collect::<Option<_>>().unwrap_or_default())
}

/// Names of the tasks that are recorded under a policy. None: a run has no recording, and its switches cannot be
/// attributed. Other quantities do not need it.
fn own_names(
    outcomes: &[Outcome],
    from: &str,
    what: Foretold,
) -> Result<Option<BTreeSet<String>>, Failure> {
    let mut own = BTreeSet::new();
    for run in outcomes.iter().filter(|run| run.policy == from) {
        if run.recording.is_empty() {
            if what == Foretold::Switches {
                return Ok(None);
            }
            continue;
        }
        // The turns of its CPUs do not matter for the names.
        let (_, replay, _) = replay::taken(run.recording.as_slice(), 0.0).map_err(unreadable)?;
        own.extend(names(&replay));
    }
    Ok(Some(own))
}

/// CPU time of each task of a recording, in the order of their start: in another boot of the same job, that is the same
/// task.
fn cpu_by_tid(recording: &[u8]) -> Result<Vec<f64>, Failure> {
    let (_, replay, _) = replay::taken(recording, 0.0).map_err(unreadable)?;
    let mut tasks = replay.recorded();
    tasks.sort_by_key(|task| task.tid);
    Ok(tasks.iter().map(|task| task.cpu_ns as f64).collect())
}

fn unreadable(error: record::ReadError) -> Failure {
    Failure::run(format!("the guest's recording: {error}"))
}

/// The compared quantities.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    elapsed_ns: f64,
    /// None: not observed.
    switches: Option<f64>,
    mm_switches: Option<f64>,
    /// CPU time of each task, by its place in the workload; empty if not known.
    cpu_ns: Vec<f64>,
}

impl Seen {
    fn recorded(replay: &Replay) -> Seen {
        let tasks = replay.recorded();
        Seen {
            elapsed_ns: replay.elapsed_ns() as f64,
            switches: Some(tasks.iter().map(|task| task.switches as f64).sum()),
            mm_switches: None,
            cpu_ns: tasks.iter().map(|task| task.cpu_ns as f64).collect(),
        }
    }

    /// From a run, for the tasks with the workload's names.
    fn of(run: &Outcome, own: impl Fn(&str) -> bool) -> Seen {
        let name = |tid: &u32| run.names.get(tid).map_or("", String::as_str);
        let tasks = run.observed.tasks.iter().filter(|(tid, _)| own(name(tid)));
        let switches = |task: &TaskObserved| (task.voluntary + task.involuntary) as f64;
        let observed = run.observed.elapsed_ns > 0;
        Seen {
            elapsed_ns: run.elapsed_ns as f64,
            switches: observed.then(|| tasks.map(|(_, task)| switches(task)).sum()),
            mm_switches: observed.then_some(run.observed.address_space_switches as f64),
            cpu_ns: Vec::new(),
        }
    }
}

fn names(replay: &Replay) -> BTreeSet<String> {
    replay.recorded().into_iter().map(|task| task.name).collect()
}

fn scheduler(policy: &str) -> Result<Scheduler, Failure> {
    match &contender::parse_all(&[policy.to_string()])?[..] {
        [contender] => contender.scheduler(),
        _ => Err(Failure::input(format!("{policy}: expected one policy"))),
    }
}

fn foretold(
    replay: &Replay,
    machine: &Machine,
    from: &str,
    of: &str,
) -> Result<Vec<Seen>, Failure> {
    let workload = replay::fitted(replay, "recording", machine, &scheduler(from)?)?;
    let under = scheduler(of)?;
    let scenario =
        |seed| Scenario::new(machine.clone(), workload.clone(), under.clone()).seed(seed);
    let scenarios: Vec<Scenario> = (1..=SEEDS).map(scenario).collect();
    let tasks = replay.len() as u32;
    let mut seen = Vec::new();
    for run in sim::run_all(&scenarios) {
        let run = run.map_err(|error| Failure::run(format!("the replay: {error}")))?;
        let own = |(tid, task): (&u32, &TaskObserved)| {
            (1..=tasks).contains(tid).then(|| (*tid, task.clone()))
        };
        let own: BTreeMap<u32, TaskObserved> = run.observed.tasks.iter().filter_map(own).collect();
        let cpu = |tid| own.get(&tid).map_or(0.0, |task| task.cpu_ns as f64);
        let cpu_ns = (1..=tasks).map(cpu).collect();
        let mut run = run;
        run.observed.tasks = own;
        seen.push(Seen { cpu_ns, ..Seen::of(&run, |_| true) });
    }
    Ok(seen)
}

/// The distance between the medians of both; None if either was not observed.
fn distance(foretold: &[Seen], happened: &[Seen], what: Foretold) -> Option<f64> {
    let value = |seen: &Seen| match what {
        Foretold::Elapsed => Some(seen.elapsed_ns),
        Foretold::Switches => seen.switches,
        Foretold::MmSwitches => seen.mm_switches,
        Foretold::CpuTime => None,
    };
    if what == Foretold::CpuTime {
        return cpu_distance(foretold, happened);
    }
    let middle = |all: &[Seen]| median(&all.iter().map(value).collect::<Option<Vec<_>>>()?);
    let (foretold, happened) = (middle(foretold)?, middle(happened)?);
    (happened > 0.0).then(|| (foretold / happened - 1.0).abs())
}

fn cpu_distance(foretold: &[Seen], happened: &[Seen]) -> Option<f64> {
    let [happened] = happened else { return None };
    let all: f64 = happened.cpu_ns.iter().sum();
    let one = |(task, happened_ns): (usize, &f64)| {
        let runs: Option<Vec<f64>> =
            foretold.iter().map(|run| run.cpu_ns.get(task).copied()).collect();
        median(&runs?).map(|ns| (ns - happened_ns).abs())
    };
    let differences: Option<f64> = happened.cpu_ns.iter().enumerate().map(one).sum();
    differences.filter(|_| all > 0.0).map(|ns| ns / all)
}

#[cfg(test)]
mod tests {
    use record::import::{import, survey};

    use super::*;

    fn seen(elapsed_ns: f64, cpu_ns: [f64; 2]) -> Seen {
        Seen { elapsed_ns, cpu_ns: cpu_ns.to_vec(), ..Seen::default() }
    }

    #[test]
    fn a_boot_is_held_to_the_others() {
        let run = |policy: &str, boot, elapsed_ns| {
            let mut run = Outcome { policy: policy.into(), boot, ..Outcome::default() };
            run.elapsed_ns = elapsed_ns;
            run
        };
        let runs = [run("a", 0, 100), run("b", 1, 7), run("a", 1, 80), run("a", 2, 120)];
        let apart = |of| between_boots(&runs, "a", of, Foretold::Elapsed).unwrap();
        let distances = apart("a");
        let expected = [0.0, 30.0 / 80.0, 30.0 / 120.0];
        assert!(distances.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-9));
        assert_eq!(distances.len(), 3);
        assert!(apart("b").is_empty(), "there is no other boot");
    }

    /// A recording in which hackbench runs once, until this time.
    fn recording(until: &str) -> Vec<u8> {
        let text = "swapper-0 [000] 1.1: sched_waking: comm=hackbench pid=7 prio=120 target_cpu=000\n\
                    swapper-0 [000] 1.2: sched_switch: swapper/0:0 [120] R ==> hackbench:7 [120]\n\
                    hackbench-7 [000] UNTIL: sched_switch: hackbench:7 [120] S ==> swapper/0:0 [120]\n"
            .replace("UNTIL", until);
        let found = survey(text.as_bytes()).unwrap();
        import(text.as_bytes(), &found, "hackbench", Vec::new()).unwrap().0
    }

    #[test]
    fn what_a_boot_is_held_to_are_the_workloads_own_tasks() {
        let run = |boot, own: u64, others: u64| {
            let mut run = Outcome { policy: "a".into(), boot, ..Outcome::default() };
            run.observed.elapsed_ns = 1;
            for (tid, name, voluntary) in [(1, "hackbench", own), (2, "kworker/0:1", others)] {
                run.names.insert(tid, name.to_string());
                let seen = TaskObserved { voluntary, ..TaskObserved::default() };
                run.observed.tasks.insert(tid, seen);
            }
            run
        };
        let mut runs = [run(0, 100, 10), run(1, 100, 900)];
        let apart = |runs: &[Outcome]| between_boots(runs, "a", "a", Foretold::Switches).unwrap();
        assert!(apart(&runs).is_empty(), "whose they are is not known");
        runs[1].recording = recording("1.3");
        assert!(apart(&runs).is_empty(), "nor whose the first's are");
        runs[0].recording = recording("1.3");
        assert_eq!(apart(&runs), [0.0, 0.0], "the guest's own tasks do not count");
        runs[0].observed.elapsed_ns = 0;
        assert!(apart(&runs).is_empty(), "the first was not observed");
    }

    #[test]
    fn tasks_of_a_boot_are_held_to_those_of_the_others() {
        let run = |boot, until| {
            let mut run = Outcome { policy: "a".into(), boot, ..Outcome::default() };
            run.recording = recording(until);
            run
        };
        let mut runs = [run(0, "1.3"), run(1, "1.4")];
        let apart = |runs: &[Outcome]| between_boots(runs, "a", "a", Foretold::CpuTime).unwrap();
        let near = |got: f64, wanted: f64| (got - wanted).abs() < 1e-6;
        let distances = apart(&runs);
        assert!(near(distances[0], 1.0) && near(distances[1], 0.5), "{distances:?}");
        runs[1].recording.clear();
        assert!(apart(&runs).is_empty(), "of one nothing is known");
    }

    #[test]
    fn middles_are_compared() {
        let foretold =
            [seen(80.0, [10.0, 30.0]), seen(90.0, [10.0, 30.0]), seen(500.0, [10.0, 30.0])];
        let happened = [seen(100.0, [20.0, 20.0])];
        let of = |what| distance(&foretold, &happened, what);
        assert!((of(Foretold::Elapsed).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(of(Foretold::CpuTime), Some(0.5));
        assert_eq!(of(Foretold::Switches), None, "they were not observed");
        assert_eq!(of(Foretold::MmSwitches), None, "they were not observed");
    }

    #[test]
    fn what_one_run_lacks_is_not_known() {
        let run = |switches| Seen { switches, ..seen(1.0, [1.0, 1.0]) };
        let of = |foretold: &[Seen]| distance(foretold, &[run(Some(10.0))], Foretold::Switches);
        assert_eq!(of(&[run(Some(20.0)), run(Some(20.0))]), Some(1.0));
        assert_eq!(of(&[run(Some(20.0)), run(None)]), None);
        let lost = Outcome { policy: "a".into(), ..Outcome::default() };
        let away = distances(&[lost], "icount-1", "a", "a", Foretold::Elapsed).unwrap();
        assert!(away.is_empty(), "it has no recording");
    }
}
