// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of figures, by subject. A new kind is a struct in a file here, a line of [`KINDS`], and a row of
//! `docs/src/reference/paper-files.md`.

pub mod agreement;
pub mod answers;
pub mod bench;
mod changing;
pub mod domains;
pub mod exact;
mod experiments;
mod faults;
mod long;
pub mod matrix;
pub mod mixes;
pub mod neighbours;
mod peers;
mod placements;
mod predicted;
mod simulator;
mod sweeps;
mod tenants;
pub mod trials;
mod tuned;
mod wakeups;

use super::kind::{Read, read};

/// The kinds by their names in paper files, in the order of the page.
pub const KINDS: &[(&str, Read)] = &[
    ("ratio", read::<experiments::Ratio>),
    ("value", read::<experiments::Value>),
    ("rows", read::<peers::Rows>),
    ("later", read::<peers::Later>),
    ("rows-won", read::<peers::RowsWon>),
    ("rows-best", read::<peers::RowsBest>),
    ("makespan", read::<experiments::Makespan>),
    ("wait-bound", read::<experiments::WaitBound>),
    ("share-error", read::<experiments::ShareError>),
    ("shares-reached", read::<tenants::SharesReached>),
    ("wakeup", read::<wakeups::Wakeup>),
    ("dearer", read::<wakeups::Dearer>),
    ("longer", read::<experiments::Longer>),
    ("guaranteed", read::<tenants::Guaranteed>),
    ("cpu-error", read::<tenants::CpuError>),
    ("survived", read::<faults::Survived>),
    ("caught", read::<faults::Caught>),
    ("wiring", read::<tenants::Wiring>),
    ("placed", read::<placements::Placed>),
    ("resident", read::<placements::Resident>),
    ("predicted", read::<predicted::Predicted>),
    ("tuned", read::<tuned::Tuned>),
    ("agreement", read::<agreement::Agreement>),
    ("points", read::<sweeps::Points>),
    ("best", read::<sweeps::Best>),
    ("at", read::<sweeps::At>),
    ("rings", read::<sweeps::Rings>),
    ("fewer", read::<sweeps::Fewer>),
    ("trial", read::<trials::Tried>),
    ("mixes", read::<mixes::Simulated>),
    ("domains", read::<domains::Placed>),
    ("neighbours", read::<neighbours::Simulated>),
    ("virtual", read::<neighbours::Virtual>),
    ("cells", read::<matrix::OfCells>),
    ("cells-cost", read::<matrix::CostInCells>),
    ("changing", read::<changing::Changing>),
    ("exact", read::<exact::Exact>),
    ("long", read::<long::Long>),
    ("answers", read::<answers::Answers>),
    ("simulator", read::<simulator::Simulator>),
];
