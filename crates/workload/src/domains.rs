// SPDX-License-Identifier: GPL-2.0-only
//! Programs that never stop, for machines of several memory domains: devils, turtles, ranks of MPI jobs and threads of
//! servers. Every number is data, and says that it is made up: `workloads/domains.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::hw::Demand;
use crate::model::{Task, Workload};
use crate::step::{Object, Step};

const SECOND_NS: f64 = 1e9;
/// Work of a rank between two barriers, ns.
const MEET_NS: u64 = 200_000_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    /// Misses in 1,000 instructions, and work in s.
    phases: Vec<(f64, f64)>,
    cpi: f64,
    megabytes: u64,
    /// Of a program that sleeps in between: work and sleep.
    #[serde(default)]
    work_ms: u64,
    #[serde(default)]
    sleep_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    summary: String,
    /// Processes of one thread each.
    #[serde(default)]
    alone: Vec<String>,
    /// Jobs, each with its number of single-threaded processes that wait for each other at a barrier.
    #[serde(default)]
    jobs: Vec<(String, u32)>,
    /// Servers, each a process with its number of threads.
    #[serde(default)]
    servers: Vec<(String, u32)>,
}

/// All programs and mixes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainMixes {
    programs: BTreeMap<String, Program>,
    mixes: BTreeMap<String, Mix>,
}

impl DomainMixes {
    /// The mixes that are compiled in.
    pub fn embedded() -> DomainMixes {
        let text = include_str!("../../../workloads/domains.toml");
        toml::from_str(text).expect("a test reads the embedded file")
    }

    /// Each mix by its name, with a line about it.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mixes.iter().map(|(name, mix)| (name.as_str(), mix.summary.as_str()))
    }

    /// These programs, each a process of one thread that never ends. None: a program is not known.
    pub fn alone<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<Workload> {
        let task = |(at, name): (usize, &str)| {
            Some(self.programs.get(name)?.task(format!("{name}.{at}-0"), at + 1, None))
        };
        Some(Workload {
            tasks: names.enumerate().map(task).collect::<Option<_>>()?,
            ..Workload::default()
        })
    }

    /// A mix that runs for `duration_ns`. Tasks are named after their program, or their job. None: there is no such
    /// mix.
    pub fn build(&self, name: &str, duration_ns: u64) -> Option<Workload> {
        let mix = self.mixes.get(name)?;
        let mut workload = Workload {
            name: name.to_string(),
            duration_ns: Some(duration_ns),
            ..Workload::default()
        };
        workload.tasks = self.alone(mix.alone.iter().map(String::as_str))?.tasks;
        let mut process = workload.tasks.len();
        for (at, (name, ranks)) in mix.jobs.iter().enumerate() {
            workload.objects.push(Object::Barrier { parties: *ranks, spin_ns: 0 });
            for rank in 0..*ranks {
                process += 1;
                let program = self.programs.get(name)?.shifted(rank);
                workload.tasks.push(program.task(format!("{name}.{at}-{rank}"), process, Some(at)));
            }
        }
        for (at, (name, threads)) in mix.servers.iter().enumerate() {
            process += 1;
            for thread in 0..*threads {
                let program = self.programs.get(name)?;
                workload.tasks.push(program.task(format!("{name}.{at}-{thread}"), process, None));
            }
        }
        Some(workload)
    }
}

impl Program {
    /// The same program, begun in another phase: ranks of a job are not in step.
    fn shifted(&self, rank: u32) -> Program {
        let mut program = self.clone();
        let phases = program.phases.len();
        program.phases.rotate_left(rank as usize % phases);
        program
    }

    fn task(&self, name: String, process: usize, barrier: Option<usize>) -> Task {
        let phase = |(mpki, work_s): &(f64, f64)| {
            let work_ns = (work_s * SECOND_NS) as u64;
            let mut steps = vec![Step::Mpki { mpki: *mpki }];
            steps.push(match (barrier, self.work_ms) {
                (Some(barrier), _) => Step::Repeat {
                    times: Some((work_ns / MEET_NS).max(1)),
                    steps: vec![Step::Run { work_ns: MEET_NS }, Step::Barrier(barrier)],
                },
                (None, 0) => Step::Run { work_ns },
                (None, work_ms) => Step::Repeat {
                    times: Some((work_ns / (work_ms * 1_000_000)).max(1)),
                    steps: vec![
                        Step::Run { work_ns: work_ms * 1_000_000 },
                        Step::Sleep { ns: self.sleep_ms * 1_000_000 },
                    ],
                },
            });
            steps
        };
        let demand = Demand {
            mpki: self.phases[0].0,
            cpi: self.cpi,
            bytes: self.megabytes << 20,
            overlap: None,
        };
        let steps = self.phases.iter().flat_map(phase).collect();
        Task {
            name,
            process,
            steps: vec![Step::Repeat { times: None, steps }],
            memory: Some(demand),
            ..Task::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, write};

    #[test]
    fn every_mix_can_be_built_and_sent_to_a_guest() {
        let mixes = DomainMixes::embedded();
        for (name, _) in mixes.all() {
            let mix = mixes.build(name, 1_000_000_000).unwrap();
            assert!(mix.tasks.iter().all(|task| task.memory.is_some()), "{name}");
            let json = write(&mix, Dialect::Paceline).unwrap();
            assert_eq!(crate::rtapp::parse(name, &json).unwrap().tasks, mix.tasks, "{name}");
        }
        assert!(mixes.build("odd", 1).is_none());
    }
}
