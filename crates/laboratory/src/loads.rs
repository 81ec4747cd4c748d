// SPDX-License-Identifier: GPL-2.0-only
//! Loads that are sized for a machine: so many tasks for each CPU, of programs that `workloads/` describes.

use serde::Deserialize;
use terminal::Failure;
use workload::apps::Apps;
use workload::hackbench::{Channel, Hackbench, Worker};
use workload::npb::{Npb, Size};
use workload::programs::{Features, Programs};
use workload::vector::{self, Beside, beside};
use workload::{DomainMixes, Step, Task, Workload};

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000 * MS;
/// Work of a hog between two looks at the clock.
const HOG_NS: u64 = 10 * MS;

/// What runs, or a part of it. `tasks` of all of them follows from the number of CPUs and the pressure.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Part {
    /// hackbench: a group of 40 tasks for 8 CPUs at a pressure of 1.
    Messages {
        /// Pipes or sockets.
        channel: Channel,
        /// Messages from each sender to each receiver.
        loops: u64,
    },
    /// A NAS benchmark: threads that wait for each other.
    Npb {
        /// Its name, such as `lu`.
        name: String,
        /// Work of a thread.
        work_ms: u64,
    },
    /// A model of `workloads/apps.toml`, whose size is its own.
    Model(String),
    /// Programs of `workloads/programs.toml`, each a process of one thread.
    Programs(Vec<String>),
    /// Programs of `workloads/domains.toml`, in the same way.
    Memory(Vec<String>),
    /// A program of vector code and one of scalar code, with half of the threads each.
    Beside {
        /// The one with vector code.
        culprit: String,
        /// The other.
        victim: String,
    },
    /// Processes that never wait.
    Hogs {
        /// Only so many for each CPU at a pressure of 1.
        part: f64,
    },
    /// Processes that work and sleep.
    Sleepers {
        /// Only so many for each CPU at a pressure of 1.
        part: f64,
        /// Work between two sleeps, µs.
        work_us: u64,
        /// Length of a sleep, µs.
        sleep_us: u64,
    },
}

impl Part {
    /// Whether it ends by itself. Any other goes on until its time is over.
    fn ends(&self) -> bool {
        matches!(self, Part::Messages { .. } | Part::Npb { .. } | Part::Model(_))
    }

    fn build(&self, cpus: usize, pressure: f64) -> Result<Workload, Failure> {
        let sized = |part: f64| ((cpus as f64 * pressure * part).round() as usize).max(1);
        let tasks = sized(1.0);
        let unknown = |name: &str| Failure::input(format!("no program is called {name}"));
        Ok(match self {
            Part::Messages { channel, loops } => Hackbench {
                groups: sized(1.0 / 8.0),
                loops: *loops,
                channel: *channel,
                worker: Worker::Process,
                ..Hackbench::default()
            }
            .build(),
            Part::Npb { name, work_ms } => {
                let size =
                    Size { threads: tasks, cpus, steps_max: u64::MAX, planes_max: 8, seed: 1 };
                let built = Npb::embedded().build_for(name, size, work_ms * MS, 1000);
                built.ok_or_else(|| unknown(name))?
            }
            Part::Model(name) => Apps::embedded().build(name).ok_or_else(|| unknown(name))?,
            Part::Programs(names) => {
                let programs = Programs::embedded();
                let work_ns = (programs.work_s * SECOND_NS as f64) as u64;
                let task = |at: usize| {
                    let name = &names[at % names.len()];
                    let program = programs.get(name).ok_or_else(|| unknown(name))?;
                    let called = format!("{name}-{at}");
                    Ok(program.task(&called, at + 1, None, work_ns, Features::ALL))
                };
                let tasks = (0..tasks).map(task).collect::<Result<_, Failure>>()?;
                Workload { tasks, ..Workload::default() }
            }
            Part::Memory(names) => {
                let all = names.iter().cycle().take(tasks).map(String::as_str);
                let built = DomainMixes::embedded().alone(all);
                built.ok_or_else(|| unknown(&names.join(", ")))?
            }
            Part::Beside { culprit, victim } => {
                let programs = vector::Programs::embedded();
                let culprit = programs.culprit(culprit).ok_or_else(|| unknown(culprit))?;
                let victim = programs.victim(victim).ok_or_else(|| unknown(victim))?;
                beside(culprit, victim, [sized(0.5); 2], Beside::Mixed, SECOND_NS)
            }
            Part::Hogs { part } => repeated("hog", sized(*part), &[Step::Run { work_ns: HOG_NS }]),
            Part::Sleepers { part, work_us, sleep_us } => {
                let work = Step::Run { work_ns: work_us * 1000 };
                let steps = [work, Step::Sleep { ns: sleep_us * 1000 }];
                repeated("sleeper", sized(*part), &steps)
            }
        })
    }
}

/// Processes that repeat these steps. Their phases differ.
fn repeated(name: &str, tasks: usize, steps: &[Step]) -> Workload {
    let task = |at: usize| Task {
        name: format!("{name}-{at}"),
        process: at + 1,
        delay_ns: at as u64 * 370_000,
        steps: vec![Step::Repeat { times: None, steps: steps.to_vec() }],
        ..Task::default()
    };
    Workload { tasks: (0..tasks).map(task).collect(), ..Workload::default() }
}

/// The parts together, for a machine of `cpus` CPUs with `pressure` tasks for each. Parts that go on until their time is
/// over run for `seconds`. A part that ends by itself has to be alone.
pub fn built(
    name: &str,
    parts: &[Part],
    cpus: usize,
    pressure: f64,
    seconds: f64,
) -> Result<Workload, Failure> {
    let duration_ns = (seconds * SECOND_NS as f64) as u64;
    if let [part] = parts
        && part.ends()
    {
        return Ok(Workload { name: name.to_string(), ..part.build(cpus, pressure)? });
    }
    let mut all =
        Workload { name: name.to_string(), duration_ns: Some(duration_ns), ..Workload::default() };
    for part in parts {
        let own = part.build(cpus, pressure)?;
        if part.ends() || !own.objects.is_empty() {
            let why = format!("load {name}: a part that ends by itself has to be alone");
            return Err(Failure::input(why));
        }
        let first = all.tasks.iter().map(|task| task.process).max().unwrap_or(0);
        all.tasks.extend(
            own.tasks.into_iter().map(|task| Task { process: first + task.process, ..task }),
        );
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<Part> {
        #[derive(Deserialize)]
        struct Line {
            load: Vec<Part>,
        }
        toml::from_str::<Line>(&format!("load = [{text}]")).unwrap().load
    }

    #[test]
    fn tasks_follow_cpus_and_pressure() {
        let count = |text: &str, cpus, pressure| {
            built("load", &parts(text), cpus, pressure, 1.0).unwrap().tasks.len()
        };
        assert_eq!(count("{ programs = ['p01', 'p23'] }", 6, 0.5), 3);
        assert_eq!(count("{ memory = ['d1', 't1'] }", 16, 2.0), 32);
        assert_eq!(count("{ beside = { culprit = 'x265-avx2', victim = 'ferret' } }", 8, 1.0), 8);
        assert_eq!(count("{ messages = { channel = 'pipe', loops = 1 } }", 16, 1.0), 81);
        assert_eq!(count("{ hogs = { part = 0.5 } }, { hogs = { part = 1 } }", 4, 1.0), 6);
    }

    #[test]
    fn parts_are_processes_of_their_own() {
        let text =
            "{ hogs = { part = 1 } }, { sleepers = { part = 1, work_us = 1, sleep_us = 1 } }";
        let load = built("load", &parts(text), 2, 1.0, 0.5).unwrap();
        let processes: Vec<usize> = load.tasks.iter().map(|task| task.process).collect();
        assert_eq!((processes, load.duration_ns), (vec![1, 2, 3, 4], Some(500_000_000)));
    }

    #[test]
    fn a_part_that_ends_by_itself_is_alone_and_has_no_duration() {
        let load = built("load", &parts("{ model = 'chat' }"), 2, 1.0, 0.5).unwrap();
        assert_eq!(load.duration_ns, None);
        let both = parts("{ model = 'chat' }, { hogs = { part = 1 } }");
        let refused = built("both", &both, 2, 1.0, 0.5).unwrap_err().to_string();
        assert!(refused.contains("both") && refused.contains("alone"), "{refused}");
    }
}
