// SPDX-License-Identifier: GPL-2.0-only
//! A caller's request: what to run in the guest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use policy::{Instance, Profile};
use record::Detail;
use serde::{Deserialize, Serialize};

/// Everything about a comparison in the guest.
#[derive(Clone, Debug)]
pub struct Request {
    /// The schedulers, in the order of the results.
    pub policies: Vec<PolicyRef>,
    /// The workload that runs under each.
    pub workload: WorkloadRef,
    /// The machine.
    pub shape: Shape,
    /// The guest's clock.
    pub clock: Clock,
    /// Longest turn of a CPU on a clock of instructions; None is 20 µs with the clock `parallel`, and leaves it to the
    /// emulator with others.
    ///
    /// On such a clock the CPUs run one after the other. QEMU ends a turn when some timer of the guest is due: up to a
    /// tick later. A CPU that was just woken stays idle until its turn, and a CPU that writes into pipes fills them.
    /// That flatters policies that seldom switch, and shows as idle time with a wakeup in flight. Turns of 20 µs cost
    /// about a tenth of speed.
    pub turn: Option<Duration>,
    /// Number of boots.
    pub boots: usize,
    /// Runs of each policy in one boot.
    pub runs_per_boot: usize,
    /// A kernel image; None takes the cached one or fetches one.
    pub kernel: Option<PathBuf>,
    /// The emulator; None takes the distribution's, or the one with parallel turns for the clock that needs it.
    pub emulator: Option<PathBuf>,
    /// Where kernels are kept; None is `$XDG_CACHE_HOME/paceline`.
    pub cache: Option<PathBuf>,
    /// Repeat each run with the observer attached.
    pub observe: bool,
    /// Repeat each run once more and record it.
    pub record: Option<Detail>,
    /// Repeat each run once more and count locks taken in scheduler code.
    pub count_locks: bool,
    /// Varies the guest's random numbers (its memory layout among them) from boot to boot.
    pub seed: u64,
    /// Known figures of programs. Policies for uneven cores use them, as there are no counters.
    pub profile: Profile,
    /// Longest time on the guest's clock that one run of the workload may take.
    pub limit: Duration,
    /// If the emulator breaks a guest on the clock `threads`, boot it again with its CPUs one after the other, which
    /// cannot break it. For callers that want to know how a workload ends and not how fast it is.
    pub or_in_turn: bool,
    /// A plugin of the emulator with its arguments, as QEMU's `-plugin` takes it. It finds the
    /// kernel at the addresses that it was linked for.
    pub plugin: Option<String>,
    /// Where each boot's outcomes are kept, without events and callbacks; a kept boot is not repeated. None keeps
    /// nothing.
    pub keep: Option<Keep>,
    /// Called with a line about the progress of the runs, at most once a minute.
    pub say: Option<fn(&str)>,
    /// Called with each line that the workload writes, and its step, while it runs. That costs the guest some work,
    /// which is measured with the workload's.
    pub show: Option<fn(&str)>,
}

impl Request {
    /// One unobserved run of each policy, for at most 10 minutes, in one boot of one CPU. Its clock counts
    /// instructions.
    pub fn new(policies: Vec<PolicyRef>, workload: WorkloadRef) -> Self {
        Request {
            policies,
            workload,
            shape: Shape::default(),
            clock: Clock::Icount,
            turn: None,
            boots: 1,
            runs_per_boot: 1,
            kernel: None,
            emulator: None,
            cache: None,
            observe: false,
            record: None,
            count_locks: false,
            seed: 1,
            profile: Profile::new(),
            limit: Duration::from_secs(600),
            or_in_turn: false,
            plugin: None,
            keep: None,
            say: None,
            show: None,
        }
    }
}

/// Where each boot's outcomes are kept.
#[derive(Clone, Debug)]
pub struct Keep {
    /// Created if it does not exist.
    pub folder: PathBuf,
    /// Writes a file completely or not at all.
    pub write: fn(&Path, &[u8]) -> anyhow::Result<()>,
}

/// A scheduler.
#[derive(Clone, Debug)]
pub enum PolicyRef {
    /// Linux's own class.
    Default,
    /// One of our policies.
    Instance(Instance),
    /// A program of this machine that loads a scheduler, such as scx_bpfland.
    Program {
        /// Its name in results.
        label: String,
        /// The program, looked up in `PATH`, and its arguments.
        argv: Vec<String>,
    },
}

impl PolicyRef {
    /// Its name in results.
    pub fn label(&self) -> &str {
        match self {
            PolicyRef::Default => "default",
            PolicyRef::Instance(instance) => &instance.label,
            PolicyRef::Program { label, .. } => label,
        }
    }
}

/// A workload.
#[derive(Clone, Debug)]
pub enum WorkloadRef {
    /// A program of this machine with its arguments.
    Command {
        /// The program, looked up in `PATH`, and its arguments.
        argv: Vec<OsString>,
        /// Files and folders that it needs and that cannot be found automatically.
        with: Vec<PathBuf>,
    },
    /// rt-app JSON, run by our own worker.
    RtApp {
        /// Name of the file in errors.
        name: String,
        /// The file's text.
        json: String,
    },
}

/// The guest's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hardware threads.
    pub cpus: usize,
    /// Memory nodes; divides the number of cores.
    pub nodes: usize,
    /// Hardware threads of a core; divides `cpus`.
    pub smt: usize,
    /// Distances between nodes, row by row. Empty: 10 from a node to itself and 20 to all others.
    pub distances: Vec<Vec<u8>>,
    /// Memory in MiB, spread evenly over the nodes.
    pub memory_mib: usize,
    /// The kind of core that policies take each CPU for, the fastest first; emulated CPUs are all alike. Empty: one
    /// kind.
    pub core_types: Vec<u16>,
    /// The clocks that policies assume: an emulated machine has none of its own.
    pub clocks: policy::Clocks,
    /// Its kernel moves pages between nodes by itself, which is the kernel's default.
    pub numa_balancing: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            cpus: 1,
            nodes: 1,
            smt: 1,
            distances: Vec::new(),
            memory_mib: 2048,
            core_types: Vec::new(),
            clocks: policy::Clocks::default(),
            numa_balancing: true,
        }
    }
}

/// What the guest's clock counts. But for the last, CPUs run in turn, one instruction a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The time that CPUs side by side would take, at an instruction a nanosecond: needs script/parallel-qemu
    Parallel,
    /// Instructions of all CPUs, with time constants scaled by their number
    Dilated,
    /// Instructions of all CPUs: exact with one CPU, misleading with more
    Icount,
    /// Real time, CPUs side by side: noisy
    Threads,
}

impl Clock {
    /// Whether one host thread runs the guest's CPUs, in turn, on a clock of instructions.
    pub(crate) fn counts_instructions(self) -> bool {
        self != Clock::Threads
    }
}

/// An error that the caller can fix: a missing program, an unsound kernel, an impossible machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl Shape {
    /// Refuses a machine that QEMU could not build.
    pub fn check(&self) -> Result<(), BadInput> {
        let Shape { cpus, nodes, smt, .. } = *self;
        let bad = |why: String| Err(BadInput(why));
        if cpus == 0 || nodes == 0 || smt == 0 {
            return bad("a guest needs at least 1 CPU, 1 node and 1 thread a core".into());
        }
        if cpus > policy::native::MAX_CPUS.min(255) {
            return bad(format!("a guest has at most 255 CPUs, not {cpus}"));
        }
        if cpus % smt != 0 || (cpus / smt) % nodes != 0 {
            return bad(format!(
                "{cpus} CPUs cannot be split into {nodes} nodes of whole {smt}-thread cores; \
                 have a multiple of {}",
                nodes * smt
            ));
        }
        let square =
            self.distances.len() == nodes && self.distances.iter().all(|row| row.len() == nodes);
        if !self.distances.is_empty() && !square {
            return bad(format!("distances must be {nodes} rows of {nodes} numbers"));
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, distance) in row.iter().enumerate() {
                if (from == to) != (*distance == 10) || *distance < 10 {
                    return bad(format!(
                        "distance {distance} from node {from} to {to}: 10 is local, remote is more"
                    ));
                }
            }
        }
        if !self.core_types.is_empty() && self.core_types.len() != cpus {
            return bad(format!("{} kinds of cores for {cpus} CPUs", self.core_types.len()));
        }
        if self.memory_mib < 512 || !self.memory_mib.is_multiple_of(nodes) {
            return bad(format!(
                "{} MiB of memory: at least 512, a multiple of the {nodes} nodes",
                self.memory_mib
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_machines_are_refused() {
        let refuse = |shape: Shape, part: &str| {
            let words = shape.check().unwrap_err().to_string();
            assert!(words.contains(part), "{words}");
        };
        refuse(Shape { cpus: 0, ..Shape::default() }, "at least 1 CPU");
        refuse(Shape { cpus: 6, nodes: 4, ..Shape::default() }, "cannot be split");
        refuse(Shape { cpus: 3, smt: 2, ..Shape::default() }, "cannot be split");
        refuse(Shape { cpus: 2, nodes: 2, distances: vec![vec![10]], ..Shape::default() }, "rows");
        let distances = vec![vec![10, 10], vec![20, 10]];
        refuse(Shape { cpus: 2, nodes: 2, distances, ..Shape::default() }, "10 is local");
        refuse(Shape { memory_mib: 64, ..Shape::default() }, "at least 512");
        let shape = Shape { cpus: 8, nodes: 4, smt: 2, ..Shape::default() };
        assert!(shape.check().is_ok());
    }
}
