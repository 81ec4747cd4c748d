// SPDX-License-Identifier: GPL-2.0-only
//! The result of a comparison, as `--json` prints it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace::{FunctionCost, IDLE, MemoryUse, Missed, Observed, Outcome, Tid};

use crate::stats::{Spread, median, paired_ratios};
use crate::{Answer, View};

/// The clock that a result's seconds are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// A guest with a clock that counts instructions.
    Icount,
    /// The same with several CPUs, and time constants multiplied by their number.
    Dilated,
    /// A guest with CPUs in turn, and the time that CPUs side by side would take.
    Parallel,
    /// A guest with CPUs that run side by side.
    Threads,
    /// This machine.
    Real,
    /// Virtual time of the simulator.
    Simulated,
}

impl Clock {
    /// Whether `elapsed_s` is guest work (instructions of all CPUs, at 1 ns each) and not time.
    pub fn counts_work(self) -> bool {
        matches!(self, Clock::Icount | Clock::Dilated)
    }

    /// The name of `elapsed_s` in tables.
    pub fn elapsed_name(self) -> &'static str {
        if self.counts_work() { "work" } else { "elapsed" }
    }

    /// The meaning of `elapsed_s`, in a sentence.
    pub fn elapsed_is(self) -> &'static str {
        match self {
            Clock::Icount | Clock::Dilated => {
                "guest work: instructions of all CPUs at 1 ns each, overhead included, no parallelism"
            }
            Clock::Parallel => {
                "time that CPUs side by side would take, at one instruction a nanosecond each"
            }
            Clock::Threads => "wall-clock time of emulated CPUs that run side by side: noisy",
            Clock::Real => "wall-clock time",
            Clock::Simulated => "virtual time of the simulated machine",
        }
    }

    /// As `--clock` and the JSON write it.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Icount => "icount",
            Clock::Dilated => "dilated",
            Clock::Parallel => "parallel",
            Clock::Threads => "threads",
            Clock::Real => "real",
            Clock::Simulated => "simulated",
        }
    }
}

/// The workload, the machine and the clock of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// `sim`, `vm` or `here`.
    pub ground: String,
    /// Name or shape of the machine.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// A file's name or a command line.
    pub workload: String,
    /// None: this ground's randomness has no seed.
    pub seed: Option<u64>,
    /// The clock of the seconds.
    pub clock: Clock,
    /// The kernel that ran, if one did.
    pub kernel: Option<String>,
}

/// A comparison: every run of every policy, and their summaries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The workload, the machine and the clock of a comparison.
    #[serde(flatten)]
    pub setting: Setting,
    /// The meaning of `elapsed_s`, in a sentence.
    #[serde(skip_deserializing)]
    pub elapsed_is: &'static str,
    /// Every run, in the order of execution.
    pub runs: Vec<Run>,
    /// One for each policy, in the user's order.
    pub summary: Vec<Summary>,
    /// Notes that a reader must know about these figures.
    pub notes: Vec<String>,
    /// Further facts about these figures.
    #[serde(default)]
    pub details: Vec<String>,
    /// The recording that was replayed, if the workload is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// The answer in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Pictures of each policy's first run.
    #[serde(skip)]
    pub views: Vec<View>,
}

/// A recording, and how closely its replay matches it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// CPUs of the machine that it was made on.
    pub cpus: usize,
    /// The source of the recording: `tracepoints`, `procfs` or `import`.
    pub source: String,
    /// How long the recorded workload took.
    pub elapsed_s: f64,
    /// The policy in charge during the recording.
    pub under: String,
    /// How long the replay takes under that policy: the median of its runs. None: not known.
    pub replayed_s: Option<f64>,
    /// How much longer the replay takes, as a part of the recorded time; below 0 if it is shorter. None: not known.
    pub distance: Option<f64>,
    /// The part of the machine's CPU time that other tasks had during the recording.
    pub others: f64,
    /// The recording says on which CPUs each task may run.
    pub affinity: bool,
    /// Facts that a replay would need and the recording lacks.
    pub lacks: Vec<String>,
}

/// One run of one policy. All times are in seconds; None: the ground did not observe it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Run {
    pub policy: String,
    pub run: usize,
    pub boot: usize,
    /// See [`Clock::elapsed_is`].
    pub elapsed_s: f64,
    /// Energy of the processors meanwhile, J; of all that ran.
    pub energy_j: Option<f64>,
    pub context_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub address_space_switches: Option<u64>,
    pub migrations: Option<u64>,
    pub idle_s: Option<f64>,
    pub idle_while_runnable_s: Option<f64>,
    /// The same as a part of all CPU time of the observed run, 0 to 1.
    pub idle_while_runnable_share: Option<f64>,
    pub wait_p50_s: Option<f64>,
    pub wait_p95_s: Option<f64>,
    pub wait_p99_s: Option<f64>,
    pub wait_max_s: Option<f64>,
    /// CPU time of all tasks, their system calls included.
    pub process_s: Option<f64>,
    /// Figures of all tasks of the machine, if the figures above are of the workload's tasks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineRun>,
    /// Misses of TLBs and caches. None: this ground, or this workload, has no such figures.
    #[serde(flatten)]
    pub memory: Memory,
    /// Programs that ran side by side, by name; None as for `memory`.
    pub programs: Option<BTreeMap<String, ProgramRun>>,
    /// Always null: moved pages are not counted. The key stays.
    #[serde(default)]
    pub page_moves: (),
    #[serde(default)]
    pub tasks: Vec<TaskRun>,
    /// Always null: each task's time alone on the machine is not measured. The key stays.
    #[serde(default)]
    pub fairness: (),
    /// Lock acquisitions in scheduler code beyond the runqueue's own, by place; None: not counted.
    pub locks: Option<BTreeMap<String, u64>>,
    #[serde(default)]
    pub functions: BTreeMap<String, Function>,
    #[serde(flatten)]
    pub extra: BTreeMap<String, f64>,
}

/// The figures of [`Run`] for all tasks of the machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MachineRun {
    pub context_switches: u64,
    pub involuntary_switches: u64,
    pub address_space_switches: u64,
    pub migrations: u64,
    pub idle_while_runnable_s: f64,
    pub wait_p50_s: f64,
    pub wait_p95_s: f64,
    pub wait_p99_s: f64,
    pub wait_max_s: f64,
    pub process_s: f64,
}

/// One task of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TaskRun {
    pub name: String,
    pub tid: Tid,
    pub cpu_s: f64,
    /// CPU time on each kind of core, the fastest first; absent if all cores are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kind_s: Vec<f64>,
    /// Switches because it waited or ended; then those in which it was preempted.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// Times that it ran on another CPU than before.
    pub migrations: u64,
    /// Waits for a CPU that ended with one, and their total time. A wait that is unfinished at the end is in neither.
    pub waits: u64,
    pub wait_s: f64,
    /// The longest wait, an unfinished one included. It exceeds `wait_s` if the unfinished wait is longer.
    pub wait_max_s: f64,
    /// In the workload's own unit; None: this ground cannot know.
    pub progress: Option<f64>,
    /// Memory domains that the policy placed it in, in order; absent if it placed the task in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<usize>,
    /// Bytes of its memory on each node at its end; absent if not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resident: Vec<u64>,
    #[serde(flatten)]
    pub memory: Memory,
}

/// Misses of TLBs and caches, and the CPU time they cost; all None if not known.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Memory {
    pub dtlb_user_misses: Option<u64>,
    pub dtlb_kernel_misses: Option<u64>,
    pub itlb_user_misses: Option<u64>,
    pub itlb_kernel_misses: Option<u64>,
    /// Misses of the last level.
    pub cache_misses: Option<u64>,
    /// CPU time that these misses cost, and misses of nearer caches.
    pub miss_s: Option<f64>,
}

impl Memory {
    /// Misses of both TLBs, for user and kernel pages. None: not known.
    pub fn tlb(&self) -> Option<u64> {
        let data = self.dtlb_user_misses? + self.dtlb_kernel_misses?;
        Some(data + self.itlb_user_misses? + self.itlb_kernel_misses?)
    }
}

/// One of several programs that ran side by side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProgramRun {
    pub threads: usize,
    pub process_s: f64,
    /// None: it did not end.
    pub elapsed_s: Option<f64>,
    #[serde(flatten)]
    pub memory: Memory,
}

/// Calls of a scheduler function and their time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Function {
    pub count: u64,
    pub s: f64,
}

/// The summary of one policy's runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub policy: String,
    pub runs: usize,
    pub elapsed_s: Spread,
    /// Its `elapsed_s` divided by the first policy's in the same boot and run: the median of those ratios, below 1 if
    /// it needs less. None: no run has a partner.
    pub vs_first: Option<f64>,
    /// The range of those ratios.
    pub vs_first_range: Option<Spread>,
    pub energy_j: Option<Spread>,
    /// Figures of all tasks of the machine, if the figures below are of the workload's tasks alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineSummary>,
    pub context_switches: Option<Spread>,
    pub involuntary_switches: Option<Spread>,
    pub address_space_switches: Option<Spread>,
    pub migrations: Option<Spread>,
    pub idle_while_runnable_s: Option<Spread>,
    pub idle_while_runnable_share: Option<Spread>,
    pub wait_p99_s: Option<Spread>,
    pub wait_max_s: Option<Spread>,
    /// The longest wait of all runs; every table calls it the worst wait.
    pub worst_wait_s: Option<f64>,
    pub process_s: Option<Spread>,
    pub dtlb_user_misses: Option<Spread>,
    pub dtlb_kernel_misses: Option<Spread>,
    pub itlb_user_misses: Option<Spread>,
    pub itlb_kernel_misses: Option<Spread>,
    pub cache_misses: Option<Spread>,
    pub miss_s: Option<Spread>,
    /// Acquisitions at all places together; None: not counted.
    pub locks: Option<Spread>,
}

/// The whole machine during the runs of one policy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MachineSummary {
    pub context_switches: Spread,
    pub involuntary_switches: Spread,
    pub address_space_switches: Spread,
    pub migrations: Spread,
    pub idle_while_runnable_s: Spread,
    pub wait_p99_s: Spread,
    pub wait_max_s: Spread,
    pub process_s: Spread,
}

/// Name of the row for the whole machine, below a policy's row for the workload's tasks alone.
const WHOLE_MACHINE: &str = "- whole machine";

impl Summary {
    /// This summary for all tasks of the machine, if it is of the workload's tasks alone.
    pub fn whole_machine(&self) -> Option<Summary> {
        let machine = self.machine?;
        Some(Summary {
            policy: WHOLE_MACHINE.to_string(),
            machine: None,
            context_switches: Some(machine.context_switches),
            involuntary_switches: Some(machine.involuntary_switches),
            address_space_switches: Some(machine.address_space_switches),
            migrations: Some(machine.migrations),
            idle_while_runnable_s: Some(machine.idle_while_runnable_s),
            idle_while_runnable_share: None,
            wait_p99_s: Some(machine.wait_p99_s),
            wait_max_s: Some(machine.wait_max_s),
            worst_wait_s: Some(machine.wait_max_s.max),
            locks: None,
            ..self.clone()
        })
    }
}

impl MachineSummary {
    /// None: no run has these figures.
    fn of(runs: &[&Run]) -> Option<Self> {
        let runs: Vec<MachineRun> = runs.iter().filter_map(|run| run.machine).collect();
        let spread = |value: fn(&MachineRun) -> f64| {
            Spread::of(&runs.iter().map(value).collect::<Vec<f64>>())
        };
        Some(MachineSummary {
            context_switches: spread(|run| run.context_switches as f64)?,
            involuntary_switches: spread(|run| run.involuntary_switches as f64)?,
            address_space_switches: spread(|run| run.address_space_switches as f64)?,
            migrations: spread(|run| run.migrations as f64)?,
            idle_while_runnable_s: spread(|run| run.idle_while_runnable_s)?,
            wait_p99_s: spread(|run| run.wait_p99_s)?,
            wait_max_s: spread(|run| run.wait_max_s)?,
            process_s: spread(|run| run.process_s)?,
        })
    }
}

impl From<&Observed> for MachineRun {
    fn from(seen: &Observed) -> Self {
        MachineRun {
            context_switches: seen.context_switches,
            involuntary_switches: seen.involuntary_switches,
            address_space_switches: seen.address_space_switches,
            migrations: seen.migrations,
            idle_while_runnable_s: seconds(seen.idle_while_runnable_ns),
            wait_p50_s: seconds(seen.wait.p50_ns),
            wait_p95_s: seconds(seen.wait.p95_ns),
            wait_p99_s: seconds(seen.wait.p99_ns),
            wait_max_s: seconds(seen.wait.max_ns),
            process_s: seconds(busy_ns(seen)),
        }
    }
}

/// CPU time of all measured tasks.
fn busy_ns(seen: &Observed) -> u64 {
    seen.tasks.values().map(|task| task.cpu_ns).sum()
}

impl Results {
    /// Each run's time as a multiple of the first policy's in the same boot and run; empty if ratios are withheld.
    pub fn ratios(&self, policy: &str) -> Vec<f64> {
        let shown = self.summary.iter().any(|one| one.policy == policy && one.vs_first.is_some());
        let first = self.summary.first().map_or("", |one| one.policy.as_str());
        if shown { self.ratios_to(policy, first) } else { Vec::new() }
    }

    /// Each run's time as a multiple of the other policy's.
    pub fn ratios_to(&self, policy: &str, other: &str) -> Vec<f64> {
        paired_ratios(&elapsed(&self.runs, policy), &elapsed(&self.runs, other))
    }

    /// Results of these outcomes. `locks`: the ground counted lock acquisitions.
    pub fn new(setting: Setting, outcomes: &[Outcome], locks: bool) -> Self {
        let runs: Vec<Run> = outcomes.iter().map(|outcome| Run::new(outcome, locks)).collect();
        let summary = summarize(&runs);
        let elapsed_is = setting.clock.elapsed_is();
        let first = |one: &Summary| outcomes.iter().find(|outcome| outcome.policy == one.policy);
        let views = summary.iter().filter_map(first).filter_map(View::new).collect();
        let (notes, details) = (Vec::new(), Vec::new());
        let (recording, answer) = (None, None);
        Results { setting, elapsed_is, runs, summary, notes, details, recording, answer, views }
    }

    /// Reads the object that `--json` prints and a report carries: everything but the pictures.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let mut results: Results = serde_json::from_str(text)?;
        results.elapsed_is = results.setting.clock.elapsed_is();
        Ok(results)
    }

    /// Joins two results of the same workload. Each policy's name says which result it is from; all are compared with
    /// the first policy of the first result.
    #[must_use]
    pub fn beside(mut self, mut other: Self, names: [&str; 2]) -> Self {
        for (results, name) in [(&mut self, names[0]), (&mut other, names[1])] {
            for run in &mut results.runs {
                run.policy = format!("{} ({name})", run.policy);
            }
            for note in &mut results.notes {
                *note = format!("{name}: {note}");
            }
        }
        let runs = [self.runs, other.runs].concat();
        Results {
            summary: summarize(&runs),
            runs,
            notes: [self.notes, other.notes].concat(),
            details: Vec::new(),
            recording: None,
            answer: None,
            views: Vec::new(),
            ..self
        }
    }

    /// Withholds the ratios of these policies to the first: their time is not that of the workload's work. If the first
    /// policy is among them, withholds all ratios.
    pub fn withhold_ratios(&mut self, policies: &BTreeSet<&str>) {
        let first = self.summary.first().map(|one| one.policy.clone());
        let all = first.is_some_and(|first| policies.contains(&*first));
        for one in self.summary.iter_mut().filter(|one| all || policies.contains(&*one.policy)) {
            (one.vs_first, one.vs_first_range) = (None, None);
        }
    }

    /// The object that `--json` prints.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result is plain data")
    }

    /// The object of [`Self::json`] for a page: on one line and without nulls. Of many tasks, only those of each
    /// policy's first run.
    pub(crate) fn json_for_page(&self) -> String {
        let mut all = serde_json::to_value(self).expect("a result is plain data");
        if self.has_many_tasks() {
            let mut known = BTreeSet::new();
            let runs = all["runs"].as_array_mut().into_iter().flatten();
            for (run, value) in self.runs.iter().zip(runs) {
                if !known.insert(&run.policy) {
                    value.as_object_mut().map(|run| run.remove("tasks"));
                }
            }
        }
        without_nulls(&mut all);
        all.to_string()
    }

    /// Whether there are too many tasks for a page that is to open at once.
    pub(crate) fn has_many_tasks(&self) -> bool {
        const MANY: usize = 2000;
        self.runs.iter().map(|run| run.tasks.len()).sum::<usize>() > MANY
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(all) => {
            all.retain(|_, value| !value.is_null());
            all.values_mut().for_each(without_nulls);
        }
        Value::Array(all) => all.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

impl Run {
    fn new(outcome: &Outcome, locks: bool) -> Self {
        let seen = &outcome.observed;
        let machine = outcome.machine.as_deref();
        let cpu_time_ns = (busy_ns(machine.unwrap_or(seen)) + seen.idle_ns) as f64;
        let observed = seen.elapsed_ns > 0;
        let count = |n: u64| observed.then_some(n);
        let time = |ns: u64| observed.then(|| seconds(ns));
        let share = |ns: u64| observed.then(|| ns as f64 / cpu_time_ns.max(1.0));
        Run {
            policy: outcome.policy.clone(),
            run: outcome.run,
            boot: outcome.boot,
            elapsed_s: seconds(outcome.elapsed_ns),
            energy_j: outcome.energy_j,
            context_switches: count(seen.context_switches),
            involuntary_switches: count(seen.involuntary_switches),
            address_space_switches: count(seen.address_space_switches),
            migrations: count(seen.migrations),
            idle_s: time(seen.idle_ns),
            idle_while_runnable_s: time(seen.idle_while_runnable_ns),
            idle_while_runnable_share: share(seen.idle_while_runnable_ns),
            wait_p50_s: time(seen.wait.p50_ns),
            wait_p95_s: time(seen.wait.p95_ns),
            wait_p99_s: time(seen.wait.p99_ns),
            wait_max_s: time(seen.wait.max_ns),
            process_s: time(busy_ns(seen)),
            machine: machine.map(Into::into),
            memory: outcome.memory.as_ref().map_or(Memory::default(), |memory| memory.total.into()),
            programs: outcome.memory.as_ref().map(programs),
            page_moves: (),
            tasks: tasks(outcome),
            fairness: (),
            locks: locks.then(|| outcome.locks.clone()),
            functions: outcome
                .functions
                .iter()
                .map(|(name, cost)| (name.clone(), cost.into()))
                .collect(),
            extra: outcome.extra.clone(),
        }
    }
}

impl From<Missed> for Memory {
    fn from(missed: Missed) -> Self {
        Memory {
            dtlb_user_misses: Some(missed.dtlb_user),
            dtlb_kernel_misses: Some(missed.dtlb_kernel),
            itlb_user_misses: Some(missed.itlb_user),
            itlb_kernel_misses: Some(missed.itlb_kernel),
            cache_misses: Some(missed.cache),
            miss_s: Some(seconds(missed.ns)),
        }
    }
}

impl From<&FunctionCost> for Function {
    fn from(cost: &FunctionCost) -> Self {
        Function { count: cost.count, s: seconds(cost.ns) }
    }
}

fn tasks(outcome: &Outcome) -> Vec<TaskRun> {
    let seen = outcome.observed.tasks.iter().filter(|(tid, _)| **tid != IDLE);
    seen.map(|(tid, task)| TaskRun {
        name: outcome.names.get(tid).cloned().unwrap_or_default(),
        tid: *tid,
        cpu_s: seconds(task.cpu_ns),
        kind_s: task.kind_ns.iter().map(|ns| seconds(*ns)).collect(),
        voluntary_switches: task.voluntary,
        involuntary_switches: task.involuntary,
        migrations: task.migrations,
        waits: task.waits,
        wait_s: seconds(task.wait_ns),
        wait_max_s: seconds(task.wait_max_ns),
        progress: outcome.progress.get(tid).copied(),
        domains: outcome.domains_of(*tid).collect(),
        resident: outcome.resident.get(tid).cloned().unwrap_or_default(),
        memory: outcome
            .memory
            .as_ref()
            .and_then(|memory| memory.tasks.get(tid))
            .map_or(Memory::default(), |missed| (*missed).into()),
    })
    .collect()
}

fn programs(memory: &MemoryUse) -> BTreeMap<String, ProgramRun> {
    let one = |(name, program): (&String, &trace::Program)| {
        let run = ProgramRun {
            threads: program.threads,
            process_s: seconds(program.process_ns),
            elapsed_s: program.elapsed_ns.map(seconds),
            memory: program.missed.into(),
        };
        (name.clone(), run)
    };
    memory.programs.iter().map(one).collect()
}

/// A policy's times by boot and run.
fn elapsed(runs: &[Run], policy: &str) -> Vec<((usize, usize), f64)> {
    let own = runs.iter().filter(|run| run.policy == policy);
    own.map(|run| ((run.boot, run.run), run.elapsed_s)).collect()
}

fn summarize(runs: &[Run]) -> Vec<Summary> {
    let mut policies: Vec<&str> = Vec::new();
    for run in runs {
        if !policies.contains(&run.policy.as_str()) {
            policies.push(&run.policy);
        }
    }
    let first = policies.first().map(|policy| elapsed(runs, policy)).unwrap_or_default();
    policies
        .iter()
        .map(|policy| {
            let own: Vec<&Run> = runs.iter().filter(|run| run.policy == *policy).collect();
            let ratios = paired_ratios(&elapsed(runs, policy), &first);
            summary_of(policy, &own, &ratios)
        })
        .collect()
}

fn summary_of(policy: &str, runs: &[&Run], ratios: &[f64]) -> Summary {
    let elapsed: Vec<f64> = runs.iter().map(|run| run.elapsed_s).collect();
    let spread = |value: fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
        Spread::of(&values)
    };
    let locks: Option<Vec<f64>> = runs
        .iter()
        .map(|run| run.locks.as_ref().map(|locks| locks.values().sum::<u64>() as f64))
        .collect();
    let wait_max_s = spread(|run| run.wait_max_s);
    Summary {
        policy: policy.to_string(),
        runs: runs.len(),
        elapsed_s: Spread::of(&elapsed).expect("a policy is listed for its runs"),
        vs_first: median(ratios),
        vs_first_range: Spread::of(ratios),
        energy_j: spread(|run| run.energy_j),
        machine: MachineSummary::of(runs),
        context_switches: spread(|run| run.context_switches.map(|n| n as f64)),
        involuntary_switches: spread(|run| run.involuntary_switches.map(|n| n as f64)),
        address_space_switches: spread(|run| run.address_space_switches.map(|n| n as f64)),
        migrations: spread(|run| run.migrations.map(|n| n as f64)),
        idle_while_runnable_s: spread(|run| run.idle_while_runnable_s),
        idle_while_runnable_share: spread(|run| run.idle_while_runnable_share),
        wait_p99_s: spread(|run| run.wait_p99_s),
        wait_max_s,
        worst_wait_s: wait_max_s.map(|spread| spread.max),
        process_s: spread(|run| run.process_s),
        dtlb_user_misses: spread(|run| run.memory.dtlb_user_misses.map(|n| n as f64)),
        dtlb_kernel_misses: spread(|run| run.memory.dtlb_kernel_misses.map(|n| n as f64)),
        itlb_user_misses: spread(|run| run.memory.itlb_user_misses.map(|n| n as f64)),
        itlb_kernel_misses: spread(|run| run.memory.itlb_kernel_misses.map(|n| n as f64)),
        cache_misses: spread(|run| run.memory.cache_misses.map(|n| n as f64)),
        miss_s: spread(|run| run.memory.miss_s),
        locks: locks.and_then(|locks| Spread::of(&locks)),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
