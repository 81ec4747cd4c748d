// SPDX-License-Identifier: GPL-2.0-only
//! What the command line takes. The doc comments here are the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use comparison::On;
use live::{Counting, Event, Reader};

use crate::{complete, tried};

/// Published schedulers on stock Linux: see what each would do to your workload before loading it
#[derive(Parser, Debug)]
#[command(name = "paceline", version, max_term_width = 100)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
    /// Say nothing of progress; errors and warnings are still told
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more of progress: each step on a line of its own
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Show policies with their knobs, and the machines and workloads that come along
    #[command(
        after_help = "Examples:\n  paceline list\n  paceline list flsched\n  paceline list machines\n  paceline list xeon-phi-31s1p --json"
    )]
    List(List),
    /// Run one workload under several policies, side by side
    #[command(
        after_help = "Examples:\n  paceline compare --on vm --policy default,flsched -- hackbench -g 4 -l 60 -p\n  paceline compare --on sim --machine xeon-phi-31s1p --policy cfs,flsched -- hackbench -g 10 -l 20\n  paceline compare --on sim --policy default,flsched:slice=50ms,cas --runs 5 --workload job.trace\n  paceline compare --on here --policy default,flsched --runs 5 -- make -j8"
    )]
    Compare(Box<Compare>),
    /// Measure the figures that a talk or paper published, and print ours beside them
    #[command(
        after_help = "Examples:\n  paceline repro flsched --quick\n  paceline repro cas --list\n  paceline repro dino --only factors"
    )]
    Repro(Repro),
    /// Simulate thousands of runs that one file describes, and say what matters
    #[command(
        after_help = "Examples:\n  paceline sweep slices.toml\n  paceline sweep slices.toml --list\n  paceline sweep slices.toml --csv runs.csv --report slices.html"
    )]
    Sweep(Sweep),
    /// Search the values of a policy's knobs that are best for a workload, and confirm them
    #[command(
        after_help = "Examples:\n  paceline tune --policy flsched -- ./job\n  paceline tune --policy flsched --knob slice=1ms..50ms --knob pull --objective p99:web --workload job.trace\n  paceline tune --sweep slices.toml --report tuned.html"
    )]
    Tune(Box<Tune>),
    /// Put a policy in charge of this machine, until Ctrl-C (needs root, unless --by affinity)
    #[command(
        after_help = "Examples:\n  paceline run flsched --for 60s\n  paceline run cas -- make -j8\n  paceline run min-fair --by affinity --for 60s"
    )]
    Run(Run),
    /// Keep the policy of a config file in charge of this machine, for a service manager (needs root)
    #[command(
        after_help = "Examples:\n  paceline serve\n  paceline serve --config /etc/paceline/paceline.toml --check"
    )]
    Serve(Serve),
    /// Say what the service has in charge, and what happened
    #[command(after_help = "Examples:\n  paceline status\n  paceline status --json")]
    Status(Status),
    /// Show what each CPU, cgroup and program has and waits for, under any scheduler (needs root)
    #[command(
        after_help = "Examples:\n  paceline top\n  paceline top --every 500ms\n  paceline top --once\n  paceline top --json"
    )]
    Top(Top),
    /// Have the service put another policy in charge; if it fails, the one before is back
    #[command(
        after_help = "Examples:\n  paceline switch cas\n  paceline switch flsched:slice=5ms\n  paceline switch default"
    )]
    Switch(Switch),
    /// Have the service change a knob of the policy in charge, without loading it again
    #[command(after_help = "Examples:\n  paceline set slice=2ms")]
    Set(Set),
    /// Have the service read its config file again, and follow it
    #[command(after_help = "Examples:\n  paceline reload")]
    Reload(Reload),
    /// Say whether policies can be loaded on this machine, and how to mend what is missing
    #[command(after_help = "Examples:\n  paceline doctor\n  paceline doctor --json")]
    Doctor(Doctor),
    /// Measure what this machine is, for the simulator, in less than a minute and without root
    #[command(
        after_help = "Examples:\n  paceline measure -o mine.toml\n  paceline measure --check"
    )]
    Measure(Measure),
    /// Record a command here, replay it under several policies, and say which to try
    #[command(
        after_help = "Examples:\n  paceline try -- make -j8\n  paceline try --calls -- ./server --for-a-minute\n  paceline try --policy default,cas --wide -- ./job"
    )]
    Try(Try),
    /// Record what the scheduler of this machine does, for a command or for a time
    #[command(
        after_help = "Examples:\n  paceline record -o job.trace -- ./job\n  paceline record --for 10s -o machine.trace"
    )]
    Record(Record),
    /// Make a recording of what `perf script` or `trace-cmd report` print
    #[command(
        after_help = "Examples:\n  paceline import perf.txt -o job.trace\n  paceline import trace.pftrace --partial-trace"
    )]
    Import(Import),
    /// Say what each task would get on uneven cores under a policy, without running anything
    #[command(
        after_help = "Examples:\n  paceline shares --policy min-fair --cores 2,4 --speedups 3.5,3.1,2.7,2.3,2.0,1.7\n  paceline shares --policy min-fair --cores 2,4 --speedups 3.5,3.1,1.7 --sweep --report sweep.html"
    )]
    Shares(Box<Shares>),
    /// Make a report of what `compare --json` or `try --json` printed, or of two such results side by side
    #[command(
        after_help = "Examples:\n  paceline report result.json -o report.html\n  paceline report before.json after.json -o both.html"
    )]
    Report(Report),
    /// Show the defaults that config files give to `compare` and `try`
    #[command(after_help = "Examples:\n  paceline config")]
    Config(Config),
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the command, or of one of its verbs
    #[command(hide = true)]
    Man {
        /// A verb
        verb: Option<String>,
        /// Write the pages of the command and of all verbs into this folder
        #[arg(long, value_name = "DIR", conflicts_with = "verb")]
        all: Option<PathBuf>,
    },
    /// What runs inside a guest, and runs rt-app JSON for real
    #[command(hide = true)]
    Guest {
        /// Given by the ground
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub struct List {
    /// Show policies, machines, workloads or figures; or one policy with its knobs, one machine with its costs, or one
    /// workload, by its name [default: policies, machines and workloads]
    #[arg(value_name = "KIND|NAME", add = ArgValueCompleter::new(complete::listed))]
    pub what: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// What `--json` printed; two results of one workload are held against each other, as before and after
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    pub results: Vec<PathBuf>,
    /// Write the report to this file: one HTML page that needs nothing else
    #[arg(long, short, value_name = "FILE", default_value = "paceline.html")]
    pub output: PathBuf,
    #[command(flatten)]
    pub form: Form,
}

/// Arguments of `config`.
#[derive(Args, Debug)]
pub struct Config {
    /// Print them as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sweep`.
#[derive(Args, Debug)]
pub struct Sweep {
    /// What to run: policies, knobs, machines, workloads and seeds, as TOML
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keep each run's result in this file; runs that are in it already are not run again [default: FILE with the ending
    /// .results]
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Say how many runs there are, and how many of them are known, without running any
    #[arg(long, conflicts_with_all = ["csv", "report", "json"])]
    pub list: bool,
    /// Runs at a time [default: one for each CPU]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 1024>)]
    pub jobs: Option<u32>,
    /// Write a table with a row for each run
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a report: one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print what was found as one JSON object; all else goes to standard error
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tune`.
#[derive(Args, Debug)]
pub struct Tune {
    /// The policy, with knobs that stay as they are: NAME:knob=value,knob=value [default: paceline]
    #[arg(long, value_name = "POLICY", add = ArgValueCompleter::new(complete::policies))]
    pub policy: Option<String>,
    /// A knob that is searched, and its values: NAME, NAME=FROM..TO, or NAME=VALUE,VALUE; may be repeated [default: slice]
    #[arg(long, value_name = "KNOB", conflicts_with = "sweep")]
    pub knob: Vec<String>,
    /// What is to be better: speed, elapsed, throughput, p50, p95, p99, longest, switches or migrations; of one program
    /// as in p99:web; with limits as in "throughput s.t. p99:web <= 5ms" [default: speed]
    #[arg(long, value_name = "TEXT", conflicts_with = "sweep")]
    pub objective: Option<String>,
    /// A simulated machine: a name, a TOML file, or this [default: numa-2x4; for a recording, plain-N of its number of
    /// CPUs]
    #[arg(long, value_name = "MACHINE", conflicts_with = "sweep", add = ArgValueCompleter::new(complete::machines))]
    pub machine: Option<String>,
    /// A workload that comes along (see `paceline list`), rt-app JSON, or a recording
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["sweep", "command"], add = ArgValueCompleter::new(complete::workloads))]
    pub workload: Option<PathBuf>,
    /// A sweep's file: the knobs of one policy are searched, for all its workloads and machines together
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "policy"])]
    pub sweep: Option<PathBuf>,
    /// Most simulations of the search; what confirms it comes on top
    #[arg(long, value_name = "N", default_value = "200", allow_negative_numbers = true, value_parser = whole::<10, 1_000_000>)]
    pub budget: u32,
    /// Run the defaults and what was found on this ground, too
    #[arg(long, value_name = "GROUND", conflicts_with = "sweep")]
    pub confirm: Option<Real>,
    /// Keep each run's result in this file; runs that are in it already are not run again
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Simulations at a time [default: one for each CPU]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 1024>)]
    pub jobs: Option<u32>,
    /// Write a report: one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print what was found as one JSON object; all else goes to standard error
    #[arg(long)]
    pub json: bool,
    /// A command, after `--`: it is recorded here (needs root), or modelled if it is hackbench
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Grounds that run programs.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// A stock kernel in QEMU
    Vm,
    /// This machine's own kernel (needs root)
    Here,
}

/// A time, or how one is given.
fn time(text: &str) -> Result<humantime::Duration, String> {
    time_such_as("60s", text)
}

/// The same, of a turn of a CPU.
fn turn(text: &str) -> Result<humantime::Duration, String> {
    time_such_as("20us", text)
}

fn time_such_as(example: &str, text: &str) -> Result<humantime::Duration, String> {
    text.parse().map_err(|_| format!("expected a time such as {example}"))
}

/// A whole number within bounds.
fn whole<const LEAST: u32, const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}"))
}

/// A whole number that anything may be.
fn any_whole<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number from 0".into())
}

/// A number.
fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number such as 0.85".into())
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct Compare {
    /// Where to run
    #[arg(long, value_name = "GROUND")]
    pub on: On,
    /// Policies, comma-separated, each with its knobs: A,B:knob=value,knob=value; `exec:PROGRAM ARGUMENTS` is a
    /// scheduler that a program loads, such as exec:scx_bpfland (vm and here); may be repeated [default: that of a
    /// config file]
    #[arg(long, value_name = "POLICIES", add = ArgValueCompleter::new(complete::policies))]
    pub policy: Vec<String>,
    /// An option of exec: schedulers that takes a time, without its dashes, such as slice-us: it is multiplied by the
    /// number of CPUs where the clock is dilated; may be repeated (vm only)
    #[arg(long, value_name = "NAME")]
    pub scale_option: Vec<String>,
    #[command(flatten)]
    pub machine: Machine,
    /// A workload that comes along (see `paceline list`), rt-app JSON, or a recording (sim)
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "command", add = ArgValueCompleter::new(complete::workloads))]
    pub workload: Option<PathBuf>,
    /// What the guest's clock counts (vm only) [default: parallel where there is an emulator for it, else dilated]
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<vm::Clock>,
    /// Longest turn of a CPU where CPUs run in turn, such as 20us: shorter turns tell more of
    /// wakeups between CPUs, and take longer (vm, not with clock threads)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = turn)]
    pub turn: Option<humantime::Duration>,
    /// How many times the guest is booted; the policies take turns in each (vm only) [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 1000>)]
    pub boots: Option<u32>,
    /// Runs of each policy: in each boot, or each with another seed on sim [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 1000>)]
    pub runs: Option<u32>,
    /// The seed of chance: of the simulator, or of the guest's memory layout [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = any_whole::<u64>)]
    pub seed: Option<u64>,
    /// The guest's kernel: a bzImage, its config beside it (vm only)
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// The emulator: QEMU for x86-64 [default: the distribution's; for clock parallel that of script/parallel-qemu]
    /// (vm only)
    #[arg(long, value_name = "FILE")]
    pub qemu: Option<PathBuf>,
    /// Longest that one run may take on the ground's own clock, such as 90s
    #[arg(long, value_name = "TIME", default_value = "10min", allow_hyphen_values = true, value_parser = time)]
    pub limit: humantime::Duration,
    /// A file or folder that the command needs in the guest; may be repeated (vm only)
    #[arg(long, value_name = "PATH")]
    pub with: Vec<PathBuf>,
    /// What is known of programs: TOML with `NAME = NUMBER` under `[programs]`, a speedup for min-fair, misses
    /// for dino, a license level for avx-fair; for paceline a speedup, or a level where all cores are alike
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Count the locks that the scheduler takes beyond the runqueue's own
    #[arg(long)]
    pub locks: bool,
    /// Put policies in charge of the workload alone, which asks for SCHED_EXT (here only)
    #[arg(long)]
    pub partial: bool,
    /// A machine that has the turbo table and the licenses of this one, for paceline and avx-fair: a
    /// name or a TOML file (here
    /// only)
    #[arg(long, value_name = "MACHINE", add = ArgValueCompleter::new(complete::machines))]
    pub clocks: Option<String>,
    /// Load policies although cgroups have limits (cpu.max, cpu.weight) that they would ignore (here only)
    #[arg(long)]
    pub ignore_cgroup_limits: bool,
    /// Show on standard error what the workload writes, as it does (vm and here; in a guest that takes work, which is
    /// measured too)
    #[arg(long)]
    pub show_output: bool,
    #[command(flatten)]
    pub form: Form,
    /// Write a report: one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub exports: Exports,
    /// A command to run, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How a comparison is shown.
#[derive(Args, Debug, Default)]
pub struct Form {
    /// Show every figure, and what each means
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// Print the result as one JSON object; all else goes to standard error
    #[arg(long)]
    pub json: bool,
}

/// Files for other programs.
#[derive(Args, Debug)]
pub struct Exports {
    /// Write the timeline of the first run to this file, for ui.perfetto.dev; of several policies, each has a file
    /// with its name before the ending (sim only)
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write tables into this folder: runs.csv, tasks.csv, and of sim intervals.csv, which task had which CPU when in each
    /// policy's first run
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
}

impl Exports {
    /// Whether they take the events of a run.
    pub fn take_events(&self) -> bool {
        self.perfetto.is_some() || self.csv.is_some()
    }
}

/// How uneven cores are shared.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharePolicy {
    /// Every task has an even share of each core type
    MaxFair,
    /// The fast cores to those that gain most
    MaxPerf,
    /// A part of fair performance for every task (--target), the rest to those that gain most
    MinFair,
    /// The same, where tasks of similar speed (--similarity) share alike
    SimilarMinFair,
    /// As much of max-perf as a uniformity allows (--uniformity)
    UniFair,
    /// The same from similar-min-fair's shares
    MinUniFair,
    /// A part max-fair (--ratio), the rest max-perf
    RFair,
    /// Every task at one level relative to a fast core, or to a slow one (--base slow)
    EqualProgress,
    /// More tasks on a faster core, whatever they gain
    ScaledLoad,
    /// Max-fair's turn while uniformity is below --uniformity, else max-perf's; in the long run
    GuaranteedFair,
}

/// What fairness is measured against.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareBase {
    /// An even share of each core type
    MaxFair,
    /// A slow core of its own
    Slow,
    /// A fast core of its own
    Fast,
}

/// How r-fair is read where there are several fast cores.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareReading {
    /// Even shares are cut to the ratio, and what is free goes to those that gain most
    Greedy,
    /// So much of the time max-fair, else max-perf
    Blend,
}

/// Arguments of `shares`.
#[derive(Args, Debug)]
pub struct Shares {
    /// The policy
    #[arg(long, value_name = "POLICY")]
    pub policy: SharePolicy,
    /// How many cores there are of each type, fastest type first: 2,4
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        required = true,
        allow_hyphen_values = true,
        value_parser = number
    )]
    pub cores: Vec<f64>,
    /// How many times as fast each task is on a fast core as on a slow one: 3.5,3.1,1.7; with more core
    /// types on each but the slowest, fastest first: 3.5/2,3.1/1.8
    #[arg(
        long,
        value_name = "S,S",
        value_delimiter = ',',
        required = true,
        allow_hyphen_values = true
    )]
    pub speedups: Vec<String>,
    /// The part of fair performance that every task keeps [default: 0.85]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = number)]
    pub target: Option<f64>,
    /// A target for each task, in place of --target
    #[arg(long, value_name = "T,T", value_delimiter = ',', allow_hyphen_values = true, value_parser = number)]
    pub targets: Vec<f64>,
    /// How much speeds of similar tasks may differ [default: 0.2]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = number)]
    pub similarity: Option<f64>,
    /// The least uniformity [default: 0.85]
    #[arg(long, value_name = "U", allow_negative_numbers = true, value_parser = number)]
    pub uniformity: Option<f64>,
    /// The part that is max-fair [default: 0.5]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = number)]
    pub ratio: Option<f64>,
    /// How r-fair is read [default: greedy]
    #[arg(long, value_name = "READING")]
    pub reading: Option<ShareReading>,
    /// Computing power of each core type, for scaled-load [default: its tasks' mean speed]
    #[arg(long, value_name = "P,P", value_delimiter = ',', allow_hyphen_values = true, value_parser = number)]
    pub powers: Vec<f64>,
    /// What fairness is measured against [default: max-fair]
    #[arg(long, value_name = "BASE")]
    pub base: Option<ShareBase>,
    /// CPU time of each task relative to others', as nice values or cpu.weight give it [default: even]
    #[arg(long, value_name = "W,W", value_delimiter = ',', allow_hyphen_values = true, value_parser = number)]
    pub weights: Vec<f64>,
    /// Go through targets from 0 to 1, with throughput, minimum, uniformity and the energy that the same
    /// work takes relative to max-fair. Of energy it is assumed that a core draws the same whoever runs on
    /// it, and that all policies keep the same cores busy: then what throughput gains, energy saves
    #[arg(long, conflicts_with_all = ["target", "targets"])]
    pub sweep: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a plot of the sweep: one HTML page that needs nothing else
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub report: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Print one array with an object for each finding
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `measure`.
#[derive(Args, Debug)]
pub struct Measure {
    /// Write the machine to this file, for --machine; without it, it is printed, unless --check is given
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Hold the simulator to this machine: pipe rings of 1 to 16 tasks, as measured and as it says
    /// of the machine as measured; exit code 1 if one is farther away than 15 %
    #[arg(long)]
    pub check: bool,
}

/// Arguments of `try`.
#[derive(Args, Debug)]
pub struct Try {
    #[arg(long, value_name = "POLICIES", help = tried::help(), add = ArgValueCompleter::new(complete::policies))]
    pub policy: Vec<String>,
    /// Replay on this machine instead of the one under this command: a name, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "this", add = ArgValueCompleter::new(complete::machines))]
    pub machine: String,
    /// Replays under each policy, each with another seed [default: 5]
    #[arg(long, value_name = "N", value_parser = whole::<1, 1000>)]
    pub runs: Option<u32>,
    /// Record every read and write of pipes and sockets too, as `record --calls` does: for commands whose tasks
    /// talk through them
    #[arg(long)]
    pub calls: bool,
    /// Keep the recording in this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the report to this file
    #[arg(long, value_name = "FILE", default_value = "paceline-try.html")]
    pub report: PathBuf,
    #[command(flatten)]
    pub exports: Exports,
    #[command(flatten)]
    pub form: Form,
    /// The command, after `--`
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub command: Vec<String>,
}

/// Arguments of `record`.
#[derive(Args, Debug)]
pub struct Record {
    /// Write the recording to this file
    #[arg(long, short, value_name = "FILE", default_value = "paceline.trace")]
    pub output: PathBuf,
    /// End it after this time, such as 10s; a command goes on without it
    #[arg(long = "for", alias = "duration", value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub duration: Option<humantime::Duration>,
    /// Record every read and write of pipes and sockets too, and not only those that a task waits for: a
    /// replay knows then when a pipe is full. It costs every system call; a recording without takes little
    #[arg(long)]
    pub calls: bool,
    /// Write its timeline to this file too, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Print what was recorded as one JSON object; the command's output goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Run this command, after `--`, and record until it ends; its status is passed on
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct Import {
    /// Text of `perf script`, of `trace-cmd report`, or of ftrace's own `trace` file; or a trace of Perfetto's. Any of
    /// them may be compressed by gzip. docs/src/guides/record-and-replay.md has the commands that record what a good replay
    /// needs
    #[arg(value_name = "FILE")]
    pub text: PathBuf,
    /// Take a trace of which more than 5 % of the CPU time cannot be attributed to any task
    #[arg(long)]
    pub partial_trace: bool,
    /// The machine to import, where a trace of Perfetto's is of several (0 is the one that recorded it)
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = any_whole::<u32>)]
    pub machine_id: Option<u32>,
    /// Write the recording to this file
    #[arg(long, short, value_name = "FILE", default_value = "paceline.trace")]
    pub output: PathBuf,
    /// Write its timeline to this file too, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Print what was imported as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How a policy is put in force.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// As a scheduler in the kernel (6.12 or later)
    SchedExt,
    /// By threads' masks of CPUs, ten times a second, on any kernel: for policies of uneven cores and memory
    /// domains
    Affinity,
}

/// What is counted.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// What the policy goes by, where CPUs count it: retired instructions, cycles at each license level, or
    /// misses of the last-level cache
    Own,
    /// Nanoseconds: says nothing, and shows that the way from counters to the policy is open
    CpuClock,
    /// Nothing: what --profile says is all that is known
    Off,
}

/// The program that reads counters.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBy {
    /// The policy, where the kernel lets it
    Either,
    /// A program of our own at each switch
    Switches,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct Run {
    /// The policy, with its knobs: NAME or NAME:knob=value,knob=value
    #[arg(default_value = "paceline", add = ArgValueCompleter::new(complete::policies))]
    pub policy: String,
    /// Take only tasks that ask for SCHED_EXT; the command does
    #[arg(long)]
    pub partial: bool,
    /// Unload after this time, such as 60s; a command goes on without it
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    pub duration: Option<humantime::Duration>,
    /// How often to say how the machine fares
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true, value_parser = time)]
    pub stats: humantime::Duration,
    /// Print that as JSON, a line each; the command's output goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Say what a policy of memory domains would place and move, and place and move nothing. It is
    /// loaded all the same, and schedules every task: only with --by affinity does Linux's own class go on
    #[arg(long)]
    pub dry_run: bool,
    /// How the policy is put in force
    #[arg(long, value_name = "WAY", default_value = "sched-ext")]
    pub by: By,
    /// What is known of programs: TOML with `NAME = NUMBER` under `[programs]`, a speedup for min-fair, misses
    /// for dino, a license level for avx-fair; for paceline a speedup, or a level where all cores are alike
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Remember in this file how fast executables were measured to be, and start from it the next time
    #[arg(long, value_name = "FILE")]
    pub memo: Option<PathBuf>,
    /// What is counted of tasks; of policies of memory domains it cannot be chosen
    #[arg(long, value_name = "EVENT", default_value = "own")]
    pub counter: Counter,
    /// The program that reads counters
    #[arg(long, hide = true, default_value = "either")]
    pub counted_by: CountedBy,
    /// Which kind of core the policy takes each CPU for, the fastest kind first, such as
    /// 0-1=fast,2-5=slow [default: as the kernel says]
    #[arg(long, value_name = "CPUS=KIND,...")]
    pub core_types: Option<String>,
    /// A machine that has the turbo table and the licenses of this one, for paceline and avx-fair: a
    /// name or a TOML file
    #[arg(long, value_name = "MACHINE", add = ArgValueCompleter::new(complete::machines))]
    pub clocks: Option<String>,
    /// Load it although cgroups have limits (cpu.max, cpu.weight) that it would ignore
    #[arg(long)]
    pub ignore_cgroup_limits: bool,
    /// Run this command, after `--`, and unload when it ends; its status is passed on
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// The config file: the policies, the preferred one first, and how the service goes about them
    #[arg(long, value_name = "FILE", default_value = service::CONFIG)]
    pub config: PathBuf,
    /// Only check the config file
    #[arg(long)]
    pub check: bool,
}
/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct Top {
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true, value_parser = time)]
    pub every: humantime::Duration,
    /// Print it as text once, and end; with --json, as JSON
    #[arg(long)]
    pub once: bool,
    /// Print it as JSON, a line each
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `switch`.
#[derive(Args, Debug)]
pub struct Switch {
    /// The policy, with its knobs: NAME or NAME:knob=value,knob=value; default is Linux's own class
    #[arg(value_name = "POLICY", add = ArgValueCompleter::new(complete::policies))]
    pub policy: String,
    /// Print what changed as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `set`.
#[derive(Args, Debug)]
pub struct Set {
    /// The knob and its new value
    #[arg(value_name = "KNOB=VALUE")]
    pub knob: String,
    /// Print what changed as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `reload`.
#[derive(Args, Debug)]
pub struct Reload {
    /// Print what changed as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Run {
    /// What is told of programs.
    pub fn told(&self) -> service::Told {
        service::Told {
            profile: self.profile.clone(),
            memo: self.memo.clone(),
            counts_otherwise: self.counter != Counter::Own,
        }
    }

    /// What is counted for the policy.
    pub fn counting(&self) -> Counting {
        Counting {
            event: match self.counter {
                Counter::Own => Event::Own,
                Counter::CpuClock => Event::CpuClock,
                Counter::Off => Event::Nothing,
            },
            reader: match self.counted_by {
                CountedBy::Either => Reader::Either,
                CountedBy::Switches => Reader::Switches,
            },
        }
    }
}

/// What it runs on.
#[derive(Args, Debug, Default)]
pub struct Machine {
    /// A machine that comes along (see `paceline list`), a TOML file, or `this`: the machine under
    /// this command, as measured [default on sim: numa-2x4; for a recording, plain-N of its number of CPUs]
    #[arg(
        long,
        value_name = "NAME|FILE",
        conflicts_with_all = ["cpus", "nodes", "smt", "distance"],
        add = ArgValueCompleter::new(complete::machines)
    )]
    pub machine: Option<String>,
    /// CPUs of the guest (vm only) [default: 8, on 4 nodes]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 255>)]
    pub cpus: Option<u32>,
    /// Memory nodes among which its CPUs are divided (vm only) [default: 4; 1 with --cpus]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 64>)]
    pub nodes: Option<u32>,
    /// Threads of a core (vm only) [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<1, 8>)]
    pub smt: Option<u32>,
    /// Which kind of core policies take each of the guest's CPUs for, the fastest kind first, such as
    /// 0-1=fast,2-5=slow (vm only; emulated cores are all alike)
    #[arg(long, value_name = "CPUS=KIND,...")]
    pub core_types: Option<String>,
    /// How far another node is, where the own node is 10 (vm only) [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<11, 254>)]
    pub distance: Option<u32>,
}

/// Arguments of `repro`.
#[derive(Args, Debug)]
pub struct Repro {
    /// flsched, cas, min-fair, dino, avx-fair; record (replays held to a guest), live (faults), simulator (its cost), peers
    /// (other people's schedulers), composed (one scheduler in place of five); or all
    #[arg(add = ArgValueCompleter::new(complete::papers))]
    pub name: String,
    /// Fewer boots, seeds and sizes: minutes instead of hours, and wider spreads
    #[arg(long)]
    pub quick: bool,
    /// Only the figure of this name, or else those whose name contains it; several with commas, or repeated
    #[arg(long, value_name = "TEXT", value_delimiter = ',', add = ArgValueCompleter::new(complete::figures))]
    pub only: Vec<String>,
    /// Show only the cells of the matrix whose name contains this, and judge no gate; may be repeated (composed only)
    #[arg(long, value_name = "TEXT")]
    pub cells: Vec<String>,
    /// Show the figures' names, what each measures and its gate, and measure nothing
    #[arg(long, conflicts_with_all = ["report", "keep"])]
    pub list: bool,
    /// The guest's kernel: a bzImage, its config beside it
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Keep what each boot of the guest came to in this folder, and each figure that the simulator has measured, and go on
    /// from those that are there: those of this very build, kernel and experiment
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Say what changed since this output of an earlier `repro --json`
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub since: Option<PathBuf>,
    /// Print one array with an object for each figure and each chart
    #[arg(long)]
    pub json: bool,
    /// Write a report: one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
