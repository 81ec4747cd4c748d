// SPDX-License-Identifier: GPL-2.0-only
//! Programs that never wait, for machines of uneven cores. Each has its own gain from a fast core, its phases, and its
//! pressure on the shared cache. Every number is data, and says that it is made up: `workloads/programs.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::{Task, Workload};
use crate::step::Step;

/// How many times as fast the fast cores are for which speedups were given: 2.8 GHz against 0.8 GHz.
const RATIO: f64 = 3.5;
/// Part of a period's work in the first phase, which is the less stalled one.
const FIRST: f64 = 0.6;
/// Default length of a mix.
const MIX_NS: u64 = 20_000_000_000;
const SECOND_NS: f64 = 1e9;

/// One program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// How many times as fast it is on a fast core of the talk's machine, over a whole run.
    pub speedup: f64,
    /// How much more stalled its second phase is than its first.
    contrast: f64,
    /// Work in which it goes through both once, s.
    period_s: f64,
    /// See [`Task::pressure`].
    pressure: f64,
}

/// The features of a program that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// It has phases; without, it is the same all along.
    pub phases: bool,
    /// It presses on the cache.
    pub pressure: bool,
}

impl Features {
    /// All features.
    pub const ALL: Features = Features { phases: true, pressure: true };
}

impl Program {
    /// The part of its time on a fast core that it is stalled.
    pub fn stalled(&self) -> f64 {
        rounded(1.0 - (self.speedup - 1.0) / (RATIO - 1.0))
    }

    /// A task that runs `work_ns` of work, repeated or once, named by `called`.
    pub fn task(
        &self,
        called: &str,
        process: usize,
        times: Option<u64>,
        work_ns: u64,
        with: Features,
    ) -> Task {
        let steps = match with.phases && self.contrast > 0.0 {
            true => self.phases(work_ns),
            false => vec![Step::Run { work_ns }],
        };
        Task {
            name: called.to_string(),
            process,
            steps: vec![Step::Repeat { times, steps }],
            stalled: self.stalled(),
            pressure: if with.pressure { self.pressure } else { 0.0 },
            ..Task::default()
        }
    }

    /// A run: whole periods, as many as come nearest to `work_ns`, so that its speedup is that of the program.
    fn phases(&self, work_ns: u64) -> Vec<Step> {
        let periods = (work_ns as f64 / SECOND_NS / self.period_s).round().max(1.0);
        let period_ns = work_ns as f64 / periods;
        let phase = |part: f64, off: f64| {
            let stalled = rounded((self.stalled() + off * self.contrast).clamp(0.0, 1.0));
            [Step::Stalled { part: stalled }, Step::Run { work_ns: (part * period_ns) as u64 }]
        };
        let period = [phase(FIRST, FIRST - 1.0), phase(1.0 - FIRST, FIRST)].concat();
        (0..periods as usize).flat_map(|_| period.clone()).collect()
    }
}

/// Rounds to the digits that JSON keeps.
fn rounded(part: f64) -> f64 {
    (part * 1e6).round() / 1e6
}

/// All programs, and mixes by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Work of one run, s on a fast core.
    pub work_s: f64,
    mixes: BTreeMap<String, Vec<String>>,
    programs: BTreeMap<String, Program>,
}

/// Mixes that have a name of their own.
pub const MIXES: &[&str] = &["diverse", "similar"];

impl Programs {
    /// The programs that are compiled in.
    pub fn embedded() -> Programs {
        let text = include_str!("../../../workloads/programs.toml");
        toml::from_str(text).expect("a test reads the embedded file")
    }

    /// Every program by its name, in order.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.programs.iter().map(|(name, program)| (name.as_str(), program))
    }

    /// The program of this name.
    pub fn get(&self, name: &str) -> Option<&Program> {
        self.programs.get(name)
    }

    /// The names in a mix: `diverse`, `similar`, or `mix-NAME-NAME-…`. None: there is no such mix or program.
    pub fn mix(&self, name: &str) -> Option<Vec<String>> {
        let names = match name.strip_prefix("mix-") {
            Some(names) => names.split('-').map(String::from).collect(),
            None => self.mixes.get(name)?.clone(),
        };
        names.iter().all(|name| self.programs.contains_key(name)).then_some(names)
    }

    /// A mix as a workload that runs for 20 s: every program again and again, each task named after it and its
    /// place. None: there is no such mix.
    pub fn build(&self, name: &str) -> Option<Workload> {
        let work_ns = (self.work_s * SECOND_NS) as u64;
        let task = |(at, program): (usize, &String)| {
            let called = format!("{program}-{at}");
            self.programs[program].task(&called, at + 1, None, work_ns, Features::ALL)
        };
        Some(Workload {
            name: name.to_string(),
            tasks: self.mix(name)?.iter().enumerate().map(task).collect(),
            duration_ns: Some(MIX_NS),
            ..Workload::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, write};

    #[test]
    fn programs_are_as_many_and_gain_as_much_as_published() {
        let programs = Programs::embedded();
        assert_eq!(programs.all().count(), 23);
        let speedups: Vec<f64> = programs.all().map(|(_, program)| program.speedup).collect();
        assert_eq!((speedups[0], speedups[22]), (3.5, 1.7), "slide 20");
        assert!(speedups.windows(2).all(|pair| pair[0] >= pair[1]));
        for name in MIXES {
            assert_eq!(programs.mix(name).unwrap().len(), 6, "{name}");
        }
        assert_eq!((programs.mix("mix-p01-p99"), programs.mix("odd")), (None, None));
    }

    #[test]
    fn phases_leave_the_speedup_of_a_run_as_it_is() {
        for (name, program) in Programs::embedded().all() {
            let task = program.task(name, 0, Some(1), 10_000_000_000, Features::ALL);
            let Step::Repeat { steps, .. } = &task.steps[0] else { panic!("no run") };
            let (mut stalled, mut work, mut lost) = (task.stalled, 0.0, 0.0);
            for step in steps {
                match step {
                    Step::Stalled { part } => stalled = *part,
                    Step::Run { work_ns } => {
                        work += *work_ns as f64;
                        lost += stalled * *work_ns as f64;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!((lost / work - program.stalled()).abs() < 1e-5, "{name}");
            assert!((work / 1e10 - 1.0).abs() < 1e-6, "{name}");
            assert!((program.speedup - (1.0 + 2.5 * (1.0 - lost / work))).abs() < 1e-4, "{name}");
        }
    }

    #[test]
    fn a_mix_can_be_sent_to_a_guest() {
        let mix = Programs::embedded().build("diverse").unwrap();
        let json = write(&mix, Dialect::Paceline).unwrap();
        assert_eq!(crate::rtapp::parse("diverse", &json).unwrap().tasks, mix.tasks);
    }
}
