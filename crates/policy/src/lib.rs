// SPDX-License-Identifier: GPL-2.0-only
//! The seam between policies and the other crates.
//!
//! A policy crate gives one or more [`Policy`] descriptions: plain data that names its knobs and carries both builds of
//! its C. A user's `flsched:slice=50ms` becomes an [`Instance`]. A ground sets the instance's knobs and its own
//! [`Topology`] as the policy's `CONFIG` variables. Then it loads it: into the kernel (`live`), or as a private native
//! copy ([`native`]) into the simulator.
//!
//! **Invariant:** nothing here reads the machine, the clock or the environment.

use std::fmt;

use serde::{Deserialize, Serialize};

mod build;
mod config;
mod control;
mod instance;
mod keeper;
mod keeps;
mod knob;
mod limits;
mod memory;
pub mod native;
mod site;
pub mod table;
mod together;

pub use build::{Build, Object, Variable, unpacked};
pub use control::{Binds, Cgroup, Control, Plan, Profile, Program, Quota, Sources, Told, View};
pub use instance::{Instance, InstanceError};
pub use keeper::{Keeper, Place};
pub use keeps::{Extent, Keeps, Kept};
pub use knob::{Knob, KnobError, Unit};
pub use limits::Limits;
pub use memory::{Counts, Memory, NoMemory};
pub use site::{Fit, Site};
pub use together::{Together, heeding_limits};

/// The longest tick of any kernel: HZ=100.
pub const TICK_NS_MAX: u64 = 10_000_000;

/// A scheduler, as data. A policy names what it has, and takes the rest from [`Policy::BARE`].
///
/// ```
/// use policy::{Instance, Knob, Policy, Promises, Unit};
///
/// // `policy_build::policy("mine", "src/bpf/main.bpf.c")` makes both, and `policy::built!(mine)` names them.
/// mod mine {
///     use policy::{Build, Variable};
///     pub const BUILD: Build = Build { ops: "mine", ..Build::NONE };
///     pub const SLICE_NS: Variable = Variable { symbol: Some("knob_slice_ns"), default: 5_000_000, tunable: true };
/// }
///
/// static MINE: Policy = Policy {
///     name: "mine",
///     summary: "the task with the least CPU time goes next",
///     knobs: &[Knob {
///         name: "slice",
///         variable: mine::SLICE_NS,
///         unit: Unit::Duration { min: 1_000_000, max: 100_000_000 },
///         help: "how long a task runs",
///     }],
///     build: mine::BUILD,
///     promises: |instance| Promises {
///         slice_ns_max: Some(instance.get("slice")),
///         ..Promises::default()
///     },
///     ..Policy::BARE
/// };
///
/// let mine = Instance::parse("mine:slice=10ms", &[&MINE]).unwrap();
/// assert_eq!(mine.get("slice"), 10_000_000);
/// assert_eq!((MINE.promises)(&mine).slice_ns_max, Some(10_000_000));
/// let error = Instance::parse("mine:slice=10s", &[&MINE]).unwrap_err();
/// assert!(error.to_string().contains("slice"), "{error}");
/// ```
pub struct Policy {
    /// Its name for `--policy`.
    pub name: &'static str,
    /// One line for `paceline list`.
    pub summary: &'static str,
    /// A few lines more, with the talk or paper it comes from.
    pub about: &'static str,
    /// Its knobs.
    pub knobs: &'static [Knob],
    /// Both builds of its C.
    pub build: Build,
    /// The promises of an instance with these knobs; the simulator's checkers enforce them.
    pub promises: fn(&Instance) -> Promises,
    /// How it treats nice values, scheduling policies, cgroups' settings and affinity.
    pub keeps: Keeps,
    /// Its control plane in user space. None: its data plane decides everything.
    pub control: Option<Plan>,
    /// Whether it fits a machine, for `paceline doctor`. None: it has nothing to say.
    pub fits: Option<fn(&Site) -> Fit>,
    /// Whether `paceline try` replays a recording under it.
    pub tried: Tried,
    /// It is a fault on purpose: it breaks what every policy has to keep, to show that this is caught.
    pub cheats: bool,
    /// Counters of its C, each a `u64`, that results list under these names.
    pub totals: &'static [&'static str],
    /// The variants of it that tests load in a guest.
    pub trials: Trials,
}

/// On which machines `paceline try` replays a recording under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// On none.
    Never,
    /// On every machine.
    Everywhere,
    /// On machines with several kinds of core.
    OnUnevenCores,
    /// On none, for a recording does not tell what its effect would be.
    Lacks {
        /// Its effect.
        effect: &'static str,
        /// What the effect depends on, which is not recorded.
        on: &'static str,
    },
}

/// The variants of a policy that tests load in a guest, as a user names them. One policy of each build without knobs
/// has to be among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    /// In tests of each change, whose time is short.
    pub day: &'static [&'static str],
    /// In tests of the night.
    pub night: &'static [&'static str],
}

impl Trials {
    /// No variants: for a policy whose build another one's trials cover.
    pub const NONE: Trials = Trials { day: &[], night: &[] };
}

/// Prints the name only: the objects are a MB.
impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Policy {
    /// A policy that declares nothing.
    pub const BARE: Policy = Policy {
        name: "",
        summary: "",
        about: "",
        knobs: &[],
        build: Build::NONE,
        promises: |_| Promises::default(),
        keeps: Keeps::NOTHING,
        control: None,
        fits: None,
        tried: Tried::Never,
        cheats: false,
        totals: &[],
        trials: Trials::NONE,
    };

    /// The kernel's name for it while it is in charge: such a name has letters, digits, `_` and `.`.
    pub fn kernel_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The meaning it gives to a profile's numbers on a machine with this many kinds of cores. None: it reads no
    /// profile.
    pub fn told(&self, kinds: usize) -> Option<Told> {
        self.control.map(|plan| (plan.told)(kinds))
    }
}

/// The properties that a variant of a policy declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// No CPU stays idle longer than this while a task that may run on it waits elsewhere; None: unbounded.
    pub idle_while_runnable_ns_max: Option<u64>,
    /// A runnable task waits at most `tasks ahead of it × this` plus one tick; None: unbounded.
    pub slice_ns_max: Option<u64>,
    /// The policy itself takes no lock beyond the runqueue's: none of DSQs or BPF.
    pub lockless: bool,
    /// A runnable SCHED_IDLE task waits at most this long, whatever other tasks do; None: no bound of its own.
    pub sched_idle_wait_ns_max: Option<u64>,
    /// A wakeup never makes a busy CPU switch.
    pub never_preempts: bool,
    /// CPU time is divided among cgroups by their `cpu.weight`.
    pub heeds_cgroup_weights: bool,
    /// A cgroup's tasks have no more CPU time than its `cpu.max`.
    pub heeds_cgroup_limits: bool,
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
    /// The kind of each CPU's core, by speed: 0 is the fastest.
    pub core_type: Vec<u16>,
    /// Whether each CPU was missing when this was read, so that nothing above holds for it. CPUs beyond the list were
    /// present.
    pub missing: Vec<bool>,
    /// Distance between each two memory nodes, as in ACPI's SLIT: 10 is to itself. Has a row for each node, those
    /// without CPUs included; empty if not known.
    pub node_distance: Vec<Vec<u32>>,
    /// Nanoseconds between two timer ticks of a busy CPU.
    pub tick_ns: u64,
    /// Its CPUs have the counters that the policy uses, and the policy may read them.
    pub reads_counters: bool,
    /// The rules of its clocks, as far as they are known.
    pub clocks: Clocks,
    /// The TLB distinguishes entries of several address spaces; None: not known.
    pub tlb_tags: Option<bool>,
}

impl Topology {
    /// Number of CPUs that were present.
    pub fn present(&self) -> usize {
        self.llc.len() - self.missing.iter().filter(|missing| **missing).count()
    }

    /// Number of kinds of cores.
    pub fn kinds(&self) -> usize {
        kinds(&self.core_type)
    }
}

/// Number of kinds of cores, from the kind of each CPU's core.
pub fn kinds(core_types: &[u16]) -> usize {
    1 + usize::from(core_types.iter().copied().max().unwrap_or(0))
}

/// The rules of a machine's core clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Greatest clock of each license level, in kHz, by the number of active cores of a package, from 1; empty: not
    /// known.
    pub turbo_khz: Vec<[u32; 3]>,
    /// Number of license levels.
    pub license_levels: u32,
    /// Time from the last instruction that needs a level until the level is given back.
    pub release_ns: u64,
    /// Time from a request until the voltage is reached.
    pub throttle_ns: u64,
    /// Time that a core stands still while its clock changes.
    pub halt_ns: u64,
}

impl Clocks {
    /// These rules for a clock on which a CPU gets 1/`factor` of each second.
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
