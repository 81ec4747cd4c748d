// SPDX-License-Identifier: GPL-2.0-only
//! A paper as data: its published figures, how each is measured, and its target.

use std::collections::{BTreeMap, BTreeSet};

use comparison::On;
use record::Detail;
use serde::{Deserialize, Serialize};
use terminal::Failure;
use workload::hackbench::Channel;
use workload::vector::Beside;

use crate::expand::expanded;
use crate::judge::Gate;
use crate::kind::Measure;
use crate::kinds::exact::Mixes;
use crate::kinds::matrix::Matrix;
use crate::kinds::neighbours::Neighbours;
use crate::kinds::trials::Trial;
use crate::views::View;

/// The papers that `repro` knows: name and text of `papers/NAME.toml`.
pub const PAPERS: &[(&str, &str)] = &[
    ("flsched", include_str!("../../../papers/flsched.toml")),
    ("cas", include_str!("../../../papers/cas.toml")),
    ("min-fair", include_str!("../../../papers/min-fair.toml")),
    ("dino", include_str!("../../../papers/dino.toml")),
    ("avx-fair", include_str!("../../../papers/avx-fair.toml")),
    ("record", include_str!("../../../papers/record.toml")),
    ("live", include_str!("../../../papers/live.toml")),
    ("simulator", include_str!("../../../papers/simulator.toml")),
    ("peers", include_str!("../../../papers/peers.toml")),
    ("composed", include_str!("../../../papers/composed.toml")),
];

/// A paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its name for `repro`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors, and where it was presented.
    pub source: String,
    /// Experiments, by name.
    #[serde(default)]
    pub experiment: BTreeMap<String, Experiment>,
    /// Sweeps, by name.
    #[serde(default)]
    pub sweep: BTreeMap<String, Sweep>,
    /// Mixes of programs on uneven cores, simulated, by name.
    #[serde(default)]
    pub trial: BTreeMap<String, Trial>,
    /// Programs beside others with vector code that slows them, by name.
    #[serde(default)]
    pub neighbours: BTreeMap<String, Neighbours>,
    /// All mixes of a list of programs, planned and not run.
    #[serde(default)]
    pub mixes: Option<Mixes>,
    /// Cells, each a machine under a load, simulated under every policy.
    #[serde(default)]
    pub matrix: Option<Matrix>,
    /// Its charts, redrawn from sweeps.
    #[serde(default)]
    pub view: Vec<View>,
    /// Its figures, in the order in which they are shown.
    pub figure: Vec<Figure>,
}

impl Paper {
    /// Names of the sections that figures are taken from.
    pub fn sections(&self) -> BTreeSet<String> {
        let all = self.experiment.keys().chain(self.sweep.keys()).chain(self.trial.keys());
        all.chain(self.neighbours.keys()).cloned().collect()
    }
}

/// One comparison that figures are taken from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `vm` or `sim`.
    pub ground: On,
    /// The policies, for `--policy`.
    pub policies: String,
    /// Programs that load other people's schedulers. Those that are on this machine take part.
    #[serde(default)]
    pub peers: Vec<String>,
    /// The job.
    pub job: Job,
    /// The beginning of the names of the tasks whose waits and work are compared; all if missing.
    #[serde(default)]
    pub watched: Option<String>,
    /// Simulated machine, or the machine that the guest represents.
    #[serde(default)]
    pub machine: Option<String>,
    /// Costs of that machine that differ from its file, for sweeps.
    #[serde(default)]
    pub costs: BTreeMap<String, f64>,
    /// CPUs of the guest.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Its memory nodes.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Threads of each of its cores.
    #[serde(default)]
    pub smt: Option<u32>,
    /// A granted frequency license stays, in the guest's model of licenses.
    #[serde(default)]
    pub permanent_license: bool,
    /// The kind that each of its CPUs represents, for `--core-types`.
    #[serde(default)]
    pub core_types: Option<String>,
    /// Its kernel does not move pages by itself.
    #[serde(default)]
    pub no_numa_balancing: bool,
    /// Figures of programs for the policies, as in `--profile`.
    #[serde(default)]
    pub profile: policy::Profile,
    /// Its clock.
    #[serde(default)]
    pub clock: Option<vm::Clock>,
    /// Longest turn of a guest's CPU if CPUs run in turn, in µs.
    #[serde(default)]
    pub turn_us: Option<u64>,
    /// Boots of the guest, or seeds of the simulator.
    pub boots: usize,
    /// The same with `--quick`.
    pub quick_boots: usize,
    /// Runs of each policy in each boot.
    #[serde(default = "one")]
    pub runs: usize,
    /// The same with `--quick`.
    #[serde(default = "one")]
    pub quick_runs: usize,
    /// Record each policy's runs too, for replays.
    #[serde(default)]
    pub record: Option<Detail>,
    /// Count locks beyond the runqueue's own.
    #[serde(default)]
    pub locks: bool,
}

fn one() -> usize {
    1
}

/// Simulations of one machine at every point of a grid: jobs times costs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Title of its table.
    pub title: String,
    /// Simulated machine.
    pub machine: String,
    /// It is booted with so many of its CPUs; all if missing.
    #[serde(default)]
    pub cpus: Option<usize>,
    /// The policies, for `--policy`.
    pub policies: String,
    /// The jobs.
    pub jobs: Jobs,
    /// All tasks exist before any begins. Without it each begins as soon as it is made, and the first may preempt the
    /// task that makes them.
    #[serde(default)]
    pub together: bool,
    /// Costs that are only known as ranges. Beside the machine's own values, each of them is set to the least and to
    /// the greatest of its range, one at a time. With `--quick`, the first alone.
    #[serde(default)]
    pub swept: Vec<String>,
    /// Properties of programs that are only known as ranges, such as `chat.shared_pages`: in the same way. With
    /// `--quick`, none.
    #[serde(default)]
    pub touched: Vec<String>,
    /// A CPU that goes offline for a while in each run.
    #[serde(default)]
    pub unplug: Option<Unplug>,
    /// Seeds at each point. With `--quick`, one.
    pub seeds: usize,
}

/// A CPU that goes offline, in ms after the start, and comes back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unplug {
    /// The CPU.
    pub cpu: usize,
    /// When it goes offline.
    pub from_ms: u64,
    /// When it is back.
    pub to_ms: u64,
}

/// The jobs of a sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Jobs {
    /// The model of hackbench, pipes (`p`) and sockets, as slide 18 labels them.
    Hackbench {
        /// Group counts.
        groups: Vec<usize>,
        /// The same with `--quick`.
        quick_groups: Vec<usize>,
        /// Messages from each sender to each receiver.
        loops: u64,
        /// Pipes, sockets or both.
        channels: Vec<Channel>,
    },
    /// Models by their names, as for `compare` (`together`, `rotate-7`).
    Models {
        /// Names.
        names: Vec<String>,
        /// The same with `--quick`.
        quick_names: Vec<String>,
    },
    /// Hogs for half of the CPUs and as many sleepers, for so long.
    Busy {
        /// Their duration.
        duration_ms: u64,
    },
    /// Rings of pipes over working sets: of threads, of processes, and of one task alone.
    Ring {
        /// Tasks of a ring.
        tasks: usize,
        /// Arrays that each task sums up.
        kilobytes: Vec<u64>,
        /// The same with `--quick`.
        quick_kilobytes: Vec<u64>,
    },
    /// The models of the NAS benchmarks.
    Npb {
        /// Names; the paper's own list may be unknown.
        names: Vec<String>,
        /// The same with `--quick`.
        quick_names: Vec<String>,
        /// Tasks for each hardware thread.
        tasks_per_thread: Vec<usize>,
        /// A run has enough steps to keep a thread at work for this long.
        work_ms: u64,
        /// By the entries of `tasks_per_thread`, the most waits of a thread for others: with more threads than CPUs
        /// every wait is a sleep, and takes long to simulate.
        waits: Vec<u64>,
        /// In the same way, most planes of each of LU's sweeps: threads that share a CPU hand a plane over once in two
        /// slices.
        planes: Vec<u64>,
    },
}

/// The job of an experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Job {
    /// A command line; `sim` models hackbench.
    Command(String),
    /// A script that a shell runs, on the guest alone.
    Shell {
        /// The text for `sh -c`.
        script: String,
        /// Programs of this machine that it needs, by name.
        programs: Vec<String>,
    },
    /// A built-in script (`workloads/NAME.sh`).
    Script {
        /// Its name.
        name: String,
        /// Programs of this machine that it needs, by name.
        programs: Vec<String>,
    },
    /// A fault, done in the guest to each policy in turn; `paceline run` loads them there.
    Fault {
        /// Its name in `faults`.
        name: String,
        /// Programs of this machine that it needs beyond hackbench and chrt.
        #[serde(default)]
        programs: Vec<String>,
        /// Lines of shell before it, such as values that it reads.
        #[serde(default)]
        before: String,
    },
    /// A built-in workload (`workloads/NAME.json`), or a model by its name (`chat`, `ring-threads-3-64`).
    File(String),
    /// So many tasks that each burn `work_ms` of thread CPU time.
    Burners {
        /// Number of tasks.
        tasks: usize,
        /// CPU time of each.
        work_ms: u64,
    },
    /// Hogs for half the CPUs, as many sleepers, and a group of hackbench, for this long.
    Mixed {
        /// CPUs it is sized for.
        cpus: usize,
        /// Duration on the wall clock.
        duration_ms: u64,
    },
    /// A program beside another with vector code that slows it, without pauses.
    Beside {
        /// Threads of the culprit and of the victim.
        threads: [usize; 2],
        /// The run, of the three that unfairness is made of.
        how: Beside,
        /// Their duration.
        duration_ms: u64,
    },
    /// Two tasks that hand a byte back and forth through two pipes.
    PingPong {
        /// Round trips: each is two wakeups.
        rounds: u64,
        /// A task `wide` runs first, for 0.4 s.
        #[serde(default)]
        after_wide: bool,
    },
    /// One task that does the same as the two of `pingpong`, without a wakeup.
    Alone {
        /// As many writes and reads as `pingpong` has.
        rounds: u64,
    },
}

/// One figure: of the paper, or a target of this project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Short and unique, for `--only`.
    pub name: String,
    /// Its place in the paper, or the claim of the paper that it checks.
    pub figure: String,
    /// The metric, in words.
    pub metric: String,
    /// The published number. None: it was not published.
    #[serde(default)]
    pub published: Option<f64>,
    /// The paper's words if it gives no number.
    #[serde(default)]
    pub published_as: Option<String>,
    /// Unit of `published` and ours; `1` is a ratio.
    pub unit: String,
    /// The target. None: only reported.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// How it is measured. None: it cannot be, and `why` says so.
    #[serde(default)]
    pub measure: Option<Measure>,
    /// A note for the reader.
    #[serde(default)]
    pub why: Option<String>,
}

/// Quantities of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Guest work or elapsed time, in s: whatever the clock counts.
    Elapsed,
    /// The benchmark's own report of its timed part, in s: hackbench's `Time:`, without the forks before and the exits
    /// after.
    OwnTime,
    /// Switches of all kinds.
    Switches,
    /// Switches of preempted tasks.
    Involuntary,
    /// Switches to another address space than the last one; idling and kernel threads keep it.
    MmSwitches,
    /// Moves from one CPU to another.
    Migrations,
    /// Idle-while-runnable as a part of all CPU time.
    IdleShare,
    /// The longest wait of a runnable task, in s.
    WorstWait,
    /// Half of the waits of runnable tasks are at most this, in s.
    WaitP50,
    /// 99 % of them are.
    WaitP99,
    /// 99.9 % of them are.
    WaitP999,
    /// Work that tasks of a file did, in s of CPU time.
    Work,
    /// Locks beyond the runqueue's own.
    Locks,
    /// Time in scheduler functions, in s.
    SchedulerTime,
    /// Time spinning for locks, in s.
    SpinTime,
    /// Time of a callback of the policy, in s, if the kernel counts it.
    CodeTime,
    /// Time of the policy's own code for each switch, in s.
    CodePerSwitch,
    /// Misses of both TLBs, for user and kernel pages.
    TlbMisses,
    /// Misses of the data TLB.
    DtlbMisses,
    /// Misses of the instruction TLB.
    ItlbMisses,
    /// Misses of the last-level cache.
    CacheMisses,
    /// CPU time lost to misses, in s.
    MissTime,
    /// CPU time of all tasks, their system calls included, in s.
    ProcessTime,
    /// CPU time of the control plane, as a part of a core.
    ControlShare,
    /// CPU time of the mover of its memory, as a part of a core.
    MoverShare,
}

impl Quantity {
    /// Its name in the paper's file.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).expect("a name is plain data");
        name.as_str().unwrap_or_default().replace('-', " ")
    }

    /// Whether it needs the ground's observer, which may be absent.
    pub fn is_observed(self) -> bool {
        use Quantity::{
            CodePerSwitch, IdleShare, Involuntary, Migrations, MmSwitches, ProcessTime,
        };
        use Quantity::{Switches, WaitP50, WaitP99, WaitP999, WorstWait};
        matches!(
            self,
            Switches
                | Involuntary
                | MmSwitches
                | Migrations
                | IdleShare
                | WorstWait
                | WaitP50
                | WaitP99
                | WaitP999
                | ProcessTime
                | CodePerSwitch
        )
    }

    /// Whether it is a count, which may be 0.
    pub fn is_count(self) -> bool {
        use Quantity::{CacheMisses, DtlbMisses, ItlbMisses, TlbMisses};
        use Quantity::{Involuntary, Locks, Migrations, MmSwitches, Switches};
        matches!(
            self,
            Switches
                | Involuntary
                | MmSwitches
                | Migrations
                | Locks
                | TlbMisses
                | DtlbMisses
                | ItlbMisses
                | CacheMisses
        )
    }
}

/// The paper of this name, or all of them.
pub fn find(name: &str) -> Result<Vec<Paper>, Failure> {
    let wanted: Vec<_> =
        PAPERS.iter().filter(|(known, _)| name == "all" || *known == name).collect();
    if wanted.is_empty() {
        let known: Vec<&str> = PAPERS.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        return Err(Failure::input(format!(
            "no paper is called `{name}`; there are: all, {known}"
        )));
    }
    wanted
        .into_iter()
        .map(|(name, text)| {
            let paper = text.parse().and_then(|table| expanded(table).try_into());
            paper.map_err(|error| Failure::input(format!("papers/{name}.toml: {error}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::Shown;
    use comparison::contender;

    #[test]
    fn papers_can_be_read_and_name_only_what_is_there() {
        for paper in find("all").unwrap() {
            let mut names: Vec<&str> =
                paper.figure.iter().map(|figure| figure.name.as_str()).collect();
            names.extend(paper.view.iter().map(|view| view.name.as_str()));
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "a name stands twice");
            let experiments = paper.experiment.values().map(|experiment| &experiment.policies);
            let sweeps = paper.sweep.values().map(|sweep| &sweep.policies);
            for policies in experiments.chain(sweeps) {
                contender::parse_all(std::slice::from_ref(policies)).unwrap();
            }
            for experiment in paper.experiment.values() {
                if matches!(experiment.job, Job::File(_)) {
                    crate::experiment::workload(&experiment.job).unwrap();
                }
            }
            for sweep in paper.sweep.values() {
                let machine = machine::find(&sweep.machine).unwrap();
                for cost in &sweep.swept {
                    assert!(machine.range(cost).is_some(), "{cost} has no range");
                }
                for number in &sweep.touched {
                    let range = workload::apps::Apps::embedded().range(number);
                    assert!(range.is_some(), "{number} has no range");
                }
            }
            for view in &paper.view {
                let known = match view.shown {
                    Shown::Mixes | Shown::Simulated { .. } | Shown::Comparison { .. } => {
                        paper.mixes.is_some()
                    }
                    Shown::Trials { ref trials, .. } => {
                        trials.iter().all(|trial| paper.trial.contains_key(trial))
                    }
                    Shown::Neighbours { ref of, .. } => paper.neighbours.contains_key(of),
                    Shown::Domains { .. } => true,
                    Shown::Cells { .. } => paper.matrix.is_some(),
                    Shown::Bench { ref experiments } => {
                        experiments.iter().all(|name| paper.experiment.contains_key(name))
                    }
                    _ => paper.sweep.contains_key(&view.sweep),
                };
                assert!(known, "{}", view.name);
            }
        }
    }

    #[test]
    fn a_figure_is_published_or_says_why_not() {
        for figure in find("all").unwrap().iter().flat_map(|paper| &paper.figure) {
            let ours = figure.figure == "yardstick" || figure.measure.is_some();
            assert!(ours || figure.why.is_some(), "{}", figure.name);
            assert!(figure.gate.is_none() || figure.measure.is_some(), "{}", figure.name);
        }
    }
}
