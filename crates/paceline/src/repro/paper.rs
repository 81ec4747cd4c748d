// SPDX-License-Identifier: GPL-2.0-only
//! A paper as data: what it published, what is measured for it, and what is to be reached.

use std::collections::BTreeMap;

use record::Detail;
use serde::{Deserialize, Serialize};
use workload::vector::Beside;

use super::answers::{Answers, Asked};
use super::domains::Placed;
use super::exact::{Exact, Mixes};
use super::judge::Gate;
use super::long::{Expense, Long};
use super::mixes::Simulated;
use super::neighbours::{Neighbours, Taken};
use super::simulator::Of;
use super::tenants::By;
use super::trials::{Trial, TrialValue};
use super::views::View;
use crate::failure::Failure;

/// The papers that `repro` knows: name and text of `papers/NAME.toml`.
pub const PAPERS: &[(&str, &str)] = &[
    ("flsched", include_str!("../../../../papers/flsched.toml")),
    ("cas", include_str!("../../../../papers/cas.toml")),
    ("min-fair", include_str!("../../../../papers/min-fair.toml")),
    ("dino", include_str!("../../../../papers/dino.toml")),
    ("avx-fair", include_str!("../../../../papers/avx-fair.toml")),
    ("record", include_str!("../../../../papers/record.toml")),
    ("live", include_str!("../../../../papers/live.toml")),
    ("simulator", include_str!("../../../../papers/simulator.toml")),
];

/// A paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// What `repro` takes.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors, and where it was shown.
    pub source: String,
    /// What is run, by name.
    #[serde(default)]
    pub experiment: BTreeMap<String, Experiment>,
    /// What is run at many points, by name.
    #[serde(default)]
    pub sweep: BTreeMap<String, Sweep>,
    /// Mixes of programs on uneven cores, simulated, by name.
    #[serde(default)]
    pub trial: BTreeMap<String, Trial>,
    /// Programs beside others whose vector code slows them, by name.
    #[serde(default)]
    pub neighbours: BTreeMap<String, Neighbours>,
    /// All mixes of a list of programs, planned and not run.
    #[serde(default)]
    pub mixes: Option<Mixes>,
    /// Its charts, drawn again from sweeps.
    #[serde(default)]
    pub view: Vec<View>,
    /// Its figures, in the order in which they are shown.
    pub figure: Vec<Figure>,
}

/// One comparison that figures are taken from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `vm` or `sim`.
    pub ground: Ground,
    /// The policies, as `--policy` takes them.
    pub policies: String,
    /// What runs.
    pub job: Job,
    /// Simulated machine, or the one that the guest passes for.
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
    /// A frequency license that was granted stays, in the guest's model of them.
    #[serde(default)]
    pub permanent_license: bool,
    /// Which kind each of its CPUs passes for, as `--core-types` takes it.
    #[serde(default)]
    pub core_types: Option<String>,
    /// Its kernel does not move pages by itself.
    #[serde(default)]
    pub no_numa_balancing: bool,
    /// What policies are told of programs beforehand, as `--profile` has it.
    #[serde(default)]
    pub profile: policy::Profile,
    /// Its clock.
    #[serde(default)]
    pub clock: Option<GuestClock>,
    /// Longest turn of a guest's CPU where CPUs run in turn, in µs.
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
    /// Record each policy's runs, too, for replays.
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
    /// What its table is called.
    pub title: String,
    /// Simulated machine.
    pub machine: String,
    /// It is booted with so many of its CPUs; with all of them where this is missing.
    #[serde(default)]
    pub cpus: Option<usize>,
    /// The policies, as `--policy` takes them.
    pub policies: String,
    /// What runs.
    pub jobs: Jobs,
    /// All tasks are there before any begins. Without it each begins as soon as it is made, and the
    /// first may keep the one that makes them from its CPU.
    #[serde(default)]
    pub together: bool,
    /// Costs that are known as ranges only: beside the machine's own values each of them is set to
    /// the least and to the greatest of its range, one at a time. With `--quick`, the first alone.
    #[serde(default)]
    pub swept: Vec<String>,
    /// What programs do and touch that is known as ranges only, such as `chat.shared_pages`: in the
    /// same way. With `--quick`, none.
    #[serde(default)]
    pub touched: Vec<String>,
    /// A CPU that goes away for a while in each run.
    #[serde(default)]
    pub unplug: Option<Unplug>,
    /// Seeds at each point. With `--quick`, one.
    pub seeds: usize,
}

/// A CPU that goes away, in ms after the start, and comes back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unplug {
    /// Which.
    pub cpu: usize,
    /// When it goes.
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
    /// Models by their names, as `compare` takes them (`together`, `rotate-7`).
    Models {
        /// Names.
        names: Vec<String>,
        /// The same with `--quick`.
        quick_names: Vec<String>,
    },
    /// Hogs for half of the CPUs and as many sleepers, for so long.
    Busy {
        /// How long.
        duration_ms: u64,
    },
    /// Rings of pipes over working sets: of threads, of processes, and of one task alone.
    Ring {
        /// Tasks of a ring.
        tasks: usize,
        /// Arrays that each of them sums up.
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
        /// A run has as many steps as keep a thread at work for so long.
        work_ms: u64,
        /// By the entries of `tasks_per_thread`, how often a thread may wait for others at most: with
        /// more threads than CPUs every wait is a sleep, and takes long to simulate.
        waits: Vec<u64>,
        /// In the same way, planes of each of LU's sweeps at most: threads that share a CPU hand a
        /// plane over once in two slices.
        planes: Vec<u64>,
    },
}

/// What hackbench's messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// `-p`.
    Pipe,
    /// The default.
    Socket,
}

/// Where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ground {
    /// The simulator.
    Sim,
    /// The guest.
    Vm,
}

impl Ground {
    /// As results write it.
    pub fn name(self) -> &'static str {
        match self {
            Ground::Sim => "sim",
            Ground::Vm => "vm",
        }
    }
}

/// The guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestClock {
    /// Work, time constants scaled.
    Dilated,
    /// Work, nothing scaled.
    Icount,
    /// Real time.
    Threads,
}

/// What runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Job {
    /// A command line; `sim` models hackbench.
    Command(String),
    /// A script that a shell runs, on the guest alone.
    Shell {
        /// What follows `sh -c`.
        script: String,
        /// Programs of this machine that it needs, by name.
        programs: Vec<String>,
    },
    /// The same, where the script comes along (`workloads/NAME.sh`).
    Script {
        /// Its name.
        name: String,
        /// Programs of this machine that it needs, by name.
        programs: Vec<String>,
    },
    /// A fault that is done to the guest under each policy in turn, which `paceline run` loads there.
    Fault {
        /// Its name in `faults`.
        name: String,
        /// Programs of this machine that it needs beyond hackbench and chrt.
        #[serde(default)]
        programs: Vec<String>,
        /// Lines of shell before it, such as values that it looks at.
        #[serde(default)]
        before: String,
    },
    /// A workload that comes along (`workloads/NAME.json`), or a model by its name (`chat`,
    /// `ring-threads-3-64`).
    File(String),
    /// So many tasks that each burn `work_ms` of thread CPU time.
    Burners {
        /// How many.
        tasks: usize,
        /// CPU time of each.
        work_ms: u64,
    },
    /// Hogs for half the CPUs, as many sleepers, and a group of hackbench, for this long.
    Mixed {
        /// CPUs it is sized for.
        cpus: usize,
        /// On the wall clock.
        duration_ms: u64,
    },
    /// A program beside another whose vector code slows it, without pauses.
    Beside {
        /// Threads of the culprit and of the victim.
        threads: [usize; 2],
        /// Which run of the three that unfairness is made of.
        how: Beside,
        /// How long.
        duration_ms: u64,
    },
    /// Two tasks that hand a byte to and fro through two pipes.
    PingPong {
        /// Round trips: each is two wakeups.
        rounds: u64,
        /// A task `wide` runs first, for 0.4 s.
        #[serde(default)]
        after_wide: bool,
    },
    /// One task that does what the two of `pingpong` do, without anybody to wake.
    Alone {
        /// As many writes and reads as `pingpong` has.
        rounds: u64,
    },
}

/// One figure: of the paper, or one that this project holds itself to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Short and unique: what `--only` looks at.
    pub name: String,
    /// Where the paper has it, or what of the paper it checks.
    pub figure: String,
    /// What is measured, in words.
    pub metric: String,
    /// The published number. None: it was not published.
    #[serde(default)]
    pub published: Option<f64>,
    /// What the paper says where it gives no number.
    #[serde(default)]
    pub published_as: Option<String>,
    /// Unit of `published` and ours; `1` is a ratio.
    pub unit: String,
    /// What is to be reached. None: only reported.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// How it is measured. None: it cannot be, and `why` says so.
    #[serde(default)]
    pub measure: Option<Measure>,
    /// What a reader must know.
    #[serde(default)]
    pub why: Option<String>,
}

/// What a replay is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Foretold {
    /// Elapsed time: work, on a clock of instructions.
    Elapsed,
    /// Context switches of the workload's tasks.
    Switches,
    /// Those to another address space, of all tasks.
    MmSwitches,
    /// CPU time of each task: the sum of all differences, of the sum of all times.
    CpuTime,
}

/// How a figure is taken from runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case")]
pub enum Measure {
    /// Computed without a run.
    Exact {
        /// What.
        of: Exact,
    },
    /// Mixes of the paper's programs, simulated.
    Mixes(Simulated),
    /// Programs on a machine of several memory domains, simulated.
    Domains(Placed),
    /// Programs beside others whose vector code slows them.
    Neighbours {
        /// Who.
        of: String,
        /// Under which policy.
        policy: String,
        /// What is taken.
        value: Taken,
        /// The policy that it is held against.
        #[serde(default)]
        against: Option<String>,
    },
    /// The same in a guest, by virtual cycles.
    Virtual {
        /// Names of three experiments of one shape: both programs, the culprit without wide code, culprits alone.
        experiments: [String; 3],
        /// Under which policy.
        of: String,
        /// What is taken.
        value: Taken,
        /// Neighbours that are simulated, as whom they should fare: their difference is taken, in points.
        #[serde(default)]
        agrees: Option<String>,
    },
    /// How many more instructions a wakeup takes under `of` than under `than`, by a pair that wake each other.
    Dearer {
        /// Name of the experiment.
        pair: String,
        /// Whose.
        of: String,
        /// Less whose.
        than: String,
    },
    /// How near the part of a task's CPU time on the fastest kind of core is to what its policy plans, 1 being just
    /// that: of the task that is farthest, in each run of each policy.
    SharesReached {
        /// Name of the experiment.
        experiment: String,
    },
    /// A value of simulated mixes under a policy.
    Trial {
        /// Name of the trial.
        trial: String,
        /// Who schedules.
        policy: String,
        /// What is taken.
        value: TrialValue,
        /// The run that it is held against: max-fair's where this is missing.
        #[serde(default)]
        against: Option<String>,
        /// Whose plan is the ideal: the policy's own where this is missing.
        #[serde(default)]
        ideal: Option<String>,
    },
    /// How near the work that each task did by the policy's own account of its placement is to the work by what an
    /// observer saw, both by the machine's model, 1 being just that: of the task that is farthest, in each run.
    Wiring {
        /// Name of an experiment on uneven cores in a guest.
        experiment: String,
    },
    /// The part of a workload's tasks that were placed in the same domains one after the other in the guest as in the
    /// simulator, which is given the same profile: in each run.
    Placed {
        /// Name of an experiment in a guest with memory nodes.
        experiment: String,
    },
    /// As `wiring`, on a machine of several memory domains, but for speed: by the policy's own account of where threads
    /// ran and pages were brought, against that by where an observer saw threads run and tasks found their pages.
    Resident {
        /// Name of an experiment in a guest with memory nodes, one kind of core for each.
        experiment: String,
    },
    /// How much longer one experiment takes than another of the same job, as a part: run by run.
    Longer {
        /// Name of the experiment.
        experiment: String,
        /// Of the one that it is held against.
        than: String,
        /// Under which policy.
        of: String,
    },
    /// The performance of the tenant that is worst off, as a part of what it had under `fair`, boot by boot.
    Guaranteed {
        /// Name of an experiment on uneven cores.
        experiment: String,
        /// Who is a tenant.
        by: By,
        /// Whose guarantee.
        of: String,
        /// Against whom.
        fair: String,
    },
    /// The greatest difference between a tenant's part of all CPU time and what it is to have.
    CpuError {
        /// Name of an experiment on uneven cores.
        experiment: String,
        /// Who is a tenant.
        by: By,
        /// Under which policy.
        of: String,
        /// By cgroup, in the order of the file; or by nice value, from the lowest.
        parts: Vec<f64>,
    },
    /// How far a replay of what was recorded under one policy is from what happened under another, or under the
    /// same: as a part of that, boot by boot.
    Predicted {
        /// Name of an experiment in a guest that records.
        experiment: String,
        /// The guest as a machine. None: the other boots foretell each, which no replay can be better at.
        machine: Option<String>,
        /// Whose runs were recorded.
        from: String,
        /// Whose are foretold.
        of: String,
        /// What of them.
        what: Foretold,
    },
    /// What it costs to import and to replay a long recording.
    Long {
        /// Of what.
        of: Long,
        /// What of it.
        what: Expense,
    },
    /// What `try` answers to loads that are recorded on this machine.
    Answers {
        /// To which.
        of: Answers,
        /// What of the answers.
        what: Asked,
    },
    /// The simulator itself, on this machine.
    Simulator {
        /// What of it.
        of: Of,
    },
    /// `over / under` of one quantity, run by run of the same boot.
    Ratio {
        /// Name of the experiment.
        experiment: String,
        /// What is compared.
        quantity: Quantity,
        /// Whose value is divided.
        over: String,
        /// By whose.
        under: String,
        /// Of one of several programs that ran side by side, by its name.
        #[serde(default)]
        program: Option<String>,
    },
    /// One quantity of one policy, run by run.
    Value {
        /// Name of the experiment.
        experiment: String,
        /// What is shown.
        quantity: Quantity,
        /// Whose.
        of: String,
        /// Of one of several programs that ran side by side, by its name.
        #[serde(default)]
        program: Option<String>,
    },
    /// Elapsed time against the ideal: the burners' work divided evenly among the CPUs.
    Makespan {
        /// Name of an experiment with burners.
        experiment: String,
        /// Whose.
        of: String,
    },
    /// Worst wait against what a policy's slice allows: `ahead` slices and one tick.
    WaitBound {
        /// Name of the experiment.
        experiment: String,
        /// Whose; its slice is the bound's.
        of: String,
        /// Tasks that can be ahead of one in its queue.
        ahead: u64,
        /// A tick, in ms.
        tick_ms: f64,
    },
    /// Which runs of a fault all was well after: 1, or 0.
    Survived {
        /// Name of an experiment with a fault.
        experiment: String,
    },
    /// In which runs of a fault somebody cheated and was caught: 1, or 0.
    Caught {
        /// Name of an experiment with a fault.
        experiment: String,
        /// Part of what is said of who is caught.
        by: String,
    },
    /// The greatest difference between a task's CPU time and an even share, in slices, where all of a
    /// file's tasks could always run.
    ShareError {
        /// Name of an experiment with such a file.
        experiment: String,
        /// Whose.
        of: String,
        /// A slice, in ms.
        slice_ms: f64,
    },
    /// Work of a wakeup: what a ping-pong pair costs beyond one task that does the same reads and
    /// writes alone, for each wakeup. With `over`, that of `of` divided by that of `over`.
    Wakeup {
        /// Name of the experiment with the pair.
        pair: String,
        /// Name of the experiment with one task.
        floor: String,
        /// Whose.
        of: String,
        /// Divided by whose.
        #[serde(default)]
        over: Option<String>,
    },
    /// `over / under` at every point of a sweep, the median of its seeds.
    Points {
        /// Name of the sweep.
        sweep: String,
        /// What is compared.
        quantity: Quantity,
        /// Whose value is divided.
        over: String,
        /// By whose.
        under: String,
        /// One job alone, by its label.
        #[serde(default)]
        job: Option<String>,
        /// Of one of several programs that ran side by side, by its name.
        #[serde(default)]
        program: Option<String>,
    },
    /// A policy's own value of one job, for each set of costs.
    At {
        /// Name of the sweep.
        sweep: String,
        /// What is shown.
        quantity: Quantity,
        /// Whose.
        of: String,
        /// The job, by its label.
        job: String,
    },
    /// The greatest of `points` for each set of costs.
    Best {
        /// Name of the sweep.
        sweep: String,
        /// What is compared.
        quantity: Quantity,
        /// Whose value is divided.
        over: String,
        /// By whose.
        under: String,
    },
    /// What a switch costs in a ring of processes, divided by what it costs in one of threads: for
    /// each working set within bounds.
    Rings {
        /// Name of the sweep, whose jobs are rings.
        sweep: String,
        /// Under which policy.
        of: String,
        /// Least working set of a task, in KB.
        from_kb: u64,
        /// Greatest.
        to_kb: u64,
    },
    /// How many of the sweep's other policies take fewer locks than this one.
    Fewer {
        /// Name of the sweep.
        sweep: String,
        /// Than whom.
        than: String,
        /// Policies that do not count.
        besides: Vec<String>,
    },
    /// How far the simulator is from the guest, at the worst of some files.
    Agreement {
        /// Names of experiments on the guest.
        guest: Vec<String>,
        /// Those of the same files on the simulator, in the same order.
        sim: Vec<String>,
        /// Under which policy.
        of: String,
        /// What is held against each other.
        what: Agreed,
    },
}

/// What a simulation and a guest are to agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreed {
    /// Each task's part of the CPU time of all: the greatest difference, in points.
    CpuShare,
    /// Switches of the workload's tasks: relative difference.
    Switches,
    /// Migrations: how far outside the spread of the guest's runs, relative; 0 is inside.
    Migrations,
    /// Median wait: as migrations.
    Wait50,
    /// 95 % of waits are shorter: as migrations.
    Wait95,
    /// 99 % of waits are shorter: as migrations.
    Wait99,
}

/// What is measured of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Guest work or elapsed time, in s: what the clock counts.
    Elapsed,
    /// What the benchmark itself reports of its timed part, in s: hackbench's `Time:`, without the
    /// forks before and the exits after.
    OwnTime,
    /// Switches of all kinds.
    Switches,
    /// Switches of tasks that could have gone on.
    Involuntary,
    /// Switches to another address space than the last one; idling and kernel threads keep it.
    MmSwitches,
    /// Moves from one CPU to another.
    Migrations,
    /// Idle-while-runnable as a part of all CPU time.
    IdleShare,
    /// The longest wait of a runnable task, in s.
    WorstWait,
    /// Locks beyond the runqueue's own.
    Locks,
    /// Time in scheduler functions, in s.
    SchedulerTime,
    /// Time spinning for locks, in s.
    SpinTime,
    /// What a callback of the policy takes, in s, where the kernel counts it.
    CodeTime,
    /// What the policy's own code takes for each switch, in s.
    CodePerSwitch,
    /// Misses of both TLBs, users' pages and the kernel's.
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
    /// That of what moves memory for it.
    MoverShare,
}

impl Quantity {
    /// As the paper's file writes it, in words.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).expect("a name is plain data");
        name.as_str().unwrap_or_default().replace('-', " ")
    }

    /// Whether it comes from the ground's observer, which may be absent.
    pub fn is_observed(self) -> bool {
        use Quantity::{
            CodePerSwitch, IdleShare, Involuntary, Migrations, MmSwitches, ProcessTime,
        };
        use Quantity::{Switches, WorstWait};
        matches!(
            self,
            Switches
                | Involuntary
                | MmSwitches
                | Migrations
                | IdleShare
                | WorstWait
                | ProcessTime
                | CodePerSwitch
        )
    }

    /// Whether it is a count, of which none at all is possible.
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
            toml::from_str(text)
                .map_err(|error| Failure::input(format!("papers/{name}.toml: {error}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::views::Shown;
    use super::*;
    use crate::{cli, contender};

    #[test]
    fn the_help_names_every_paper() {
        let command = cli::Cli::command();
        let repro = command.find_subcommand("repro").unwrap();
        let name = repro.get_arguments().find(|it| it.get_id() == "name").unwrap();
        let help = name.get_help().unwrap().to_string();
        let words: Vec<&str> =
            help.split(|letter: char| !"-".contains(letter) && !letter.is_alphanumeric()).collect();
        for (name, _) in PAPERS {
            assert!(words.contains(name), "{name}: {help}");
        }
    }

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
                    super::super::experiment::workload(&experiment.job).unwrap();
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
