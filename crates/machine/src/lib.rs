// SPDX-License-Identifier: GPL-2.0-only
//! The hardware: topology, costs and work rates, as pure functions.
//!
//! A [`Machine`] is read from TOML (`machines/*.toml`). Every number there is a table that gives its source, so
//! provenance is data, and a sweep can use a range. The lengths of the kernel's functions are in [`Paths`], shared by
//! all machines: instructions and cache lines, which a machine's [`Costs`] turn into time.
//!
//! **Invariant:** nothing here does I/O or knows the name of a policy.

mod costs;
mod cpus;
mod embedded;
mod fabric;
mod factors;
mod frequency;
mod group;
mod kinds;
mod license;
mod machine;
mod memory;
mod observed;
mod paths;
mod places;
mod plenty;
mod quantity;
mod rates;
mod read;
mod read_frequency;
mod recency;
mod row;
mod source;
mod tlb;
mod warmth;
mod write;

pub use costs::{COSTS, CostName, Costs};
pub use cpus::CpuSet;
pub use embedded::{find, names, plain};
pub use fabric::{
    Copy, FABRIC, Fabric, Links, Runs, Speed, alone, speeds as shared_speeds, speeds_by,
};
pub use factors::{Factors, factors};
pub use frequency::{Frequency, Power, Turbo};
pub use kinds::Kinds;
pub use license::{LEVELS, License, LicenseLaw, Phase};
pub use machine::{
    Capacities, Cpu, Distance, Each, Housekeeper, LockKind, Machine, MachineError, Ticks,
};
pub use memory::{MEMORY, Memory};
pub use observed::{Amount, Observation};
pub use paths::{Path, PathId, Paths};
pub use places::Rows;
pub use quantity::{Quantity, Stated, Tag};
pub use rates::{contended_rate, speeds, stalled_for, task_rate};
pub use tlb::Tags;
pub use warmth::{Footprint, Misses, Set, Touches, Turn, Warmth};
pub use write::Description;
