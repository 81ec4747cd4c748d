// SPDX-License-Identifier: GPL-2.0-only
//! The seam: what a policy is to the rest of the house.
//!
//! A policy crate gives one or more [`Policy`] descriptions: plain data that names its knobs and
//! carries both builds of its C. A user's `flsched:slice=50ms` becomes an [`Instance`]. A ground
//! sets the instance's knobs and its own [`Topology`] as the policy's `CONFIG` variables and loads
//! it: into the kernel (`live`), or as a private native copy ([`native`]) into the simulator.
//!
//! **Invariant:** nothing here reads the machine, the clock or the environment.

use std::fmt;

use serde::{Deserialize, Serialize};

mod control;
mod instance;
mod keeper;
mod keeps;
mod knob;
mod memory;
pub mod native;
pub mod table;

pub use control::{Binds, Cgroup, Control, Plan, Profile, Program, Sources, Told, View};
pub use instance::{Instance, InstanceError};
pub use keeper::{Keeper, Place};
pub use keeps::{Extent, Keeps, Kept};
pub use knob::{Knob, KnobError, Unit};
pub use memory::{Counts, Memory, NoMemory};

/// A tick at the kernel's slowest, HZ=100.
pub const TICK_NS_MAX: u64 = 10_000_000;

/// Variables of a policy's C, each a u64, in which it may add up what it does; results have them under these names.
pub const TOTALS: [&str; 4] = ["refunded_ns", "surcharged_ns", "saved_looks", "saved_wide"];

/// A scheduler, as data.
pub struct Policy {
    /// What `--policy` takes.
    pub name: &'static str,
    /// One line for `paceline list`.
    pub summary: &'static str,
    /// A few lines more, with the talk or paper it comes from.
    pub about: &'static str,
    /// What can be set.
    pub knobs: &'static [Knob],
    /// The C name of its ops table without `_ops`.
    pub ops: &'static str,
    /// The BPF object.
    pub bpf: &'static [u8],
    /// The shared object for the simulator.
    pub native: &'static [u8],
    /// What an instance with these knobs declares it keeps; the simulator's checkers hold it to
    /// this.
    pub promises: fn(&Instance) -> Promises,
    /// What it keeps of nice values, scheduling policies, cgroups' settings and affinity.
    pub keeps: Keeps,
    /// What it decides in user space, every so often. None: its data plane decides all.
    pub control: Option<Plan>,
}

/// By its name: its objects are a MB.
impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Policy {
    /// What a kernel calls it while it is in charge: such a name has letters, digits, `_` and `.`.
    pub fn kernel_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// What it takes a profile's numbers for. None: it reads none.
    pub fn told(&self) -> Option<Told> {
        self.control.map(|plan| plan.told)
    }
}

/// What a variant of a policy declares it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// No CPU stays idle longer than this while a task it may run waits elsewhere; None: it may.
    pub idle_while_runnable_ns_max: Option<u64>,
    /// A runnable task waits at most `tasks ahead of it × this` plus one tick; None: unbounded.
    pub slice_ns_max: Option<u64>,
    /// Locks the policy itself takes, beyond the runqueue's: none of DSQ or BPF.
    pub lockless: bool,
    /// A runnable SCHED_IDLE task waits at most so long, whatever others do; None: nothing is said of it in particular.
    pub sched_idle_wait_ns_max: Option<u64>,
    /// A wakeup never makes a busy CPU switch.
    pub never_preempts: bool,
    /// CPU time is divided among cgroups by their `cpu.weight`.
    pub heeds_cgroup_weights: bool,
}

/// The machine as a policy sees it, by CPU number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Which last-level cache each CPU is under.
    pub llc: Vec<u16>,
    /// Which core each CPU is a hardware thread of.
    pub core: Vec<u16>,
    /// Which memory node each CPU belongs to.
    pub node: Vec<u16>,
    /// Which kind of core each CPU is, by how fast it is: 0 is the fastest.
    pub core_type: Vec<u16>,
    /// Whether each CPU was not there when this was read, so that nothing above is true of it; those not named were.
    pub missing: Vec<bool>,
    /// How far each memory node is from each, as ACPI's SLIT has it: 10 is itself. Has a row for each node, those
    /// without CPUs included; empty where nobody knows.
    pub node_distance: Vec<Vec<u32>>,
    /// Nanoseconds between two timer ticks of a busy CPU.
    pub tick_ns: u64,
    /// Its CPUs count what the policy goes by, and the policy may read it.
    pub reads_counters: bool,
    /// What its clocks follow, as far as that is known.
    pub clocks: Clocks,
}

impl Topology {
    /// How many kinds of cores there are.
    pub fn kinds(&self) -> usize {
        1 + usize::from(self.core_type.iter().copied().max().unwrap_or(0))
    }
}

/// What the clocks of a machine's cores follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Greatest clock of each license level, in kHz, with 1 active core of a package, with 2, …; empty: not known.
    pub turbo_khz: Vec<[u32; 3]>,
    /// How many levels of licenses there are.
    pub license_levels: u32,
    /// From the last instruction that needs a level until it is given back.
    pub release_ns: u64,
    /// From a request until the voltage is there.
    pub throttle_ns: u64,
    /// A core stands still for so long while its clock changes.
    pub halt_ns: u64,
}

impl Clocks {
    /// The same for a clock on which a CPU gets 1/`factor` of each second.
    #[must_use]
    pub fn dilated(&self, factor: u64) -> Clocks {
        Clocks {
            release_ns: self.release_ns * factor,
            throttle_ns: self.throttle_ns * factor,
            halt_ns: self.halt_ns * factor,
            ..self.clone()
        }
    }
}

/// The policy of this name, or an error that says which exist.
pub fn find(name: &str, registry: &[&'static Policy]) -> Result<&'static Policy, InstanceError> {
    registry.iter().copied().find(|policy| policy.name == name).ok_or_else(|| {
        InstanceError::UnknownPolicy {
            name: name.to_string(),
            known: registry.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", "),
        }
    })
}
