// SPDX-License-Identifier: GPL-2.0-only
//! The machines that come with the program, and plain ones of any number of CPUs.

use crate::CpuSet;
use crate::machine::{Cpu, Machine, MachineError, PLAIN};

const EMBEDDED: &[(&str, &str)] = &[
    ("arm-2x12", include_str!("../../../machines/arm-2x12.toml")),
    ("core-ultra-28w", include_str!("../../../machines/core-ultra-28w.toml")),
    ("core-ultra-255h", include_str!("../../../machines/core-ultra-255h.toml")),
    ("die-8", include_str!("../../../machines/die-8.toml")),
    ("icount-1", include_str!("../../../machines/icount-1.toml")),
    ("icount-2x4", include_str!("../../../machines/icount-2x4.toml")),
    ("core2duo-1.86", include_str!("../../../machines/core2duo-1.86.toml")),
    ("exynos-4210", include_str!("../../../machines/exynos-4210.toml")),
    ("numa-2x4", include_str!("../../../machines/numa-2x4.toml")),
    ("opteron-8356", include_str!("../../../machines/opteron-8356.toml")),
    ("odroid-xu3", include_str!("../../../machines/odroid-xu3.toml")),
    ("phenom-2f4s", include_str!("../../../machines/phenom-2f4s.toml")),
    ("power-8", include_str!("../../../machines/power-8.toml")),
    ("tensor-g1", include_str!("../../../machines/tensor-g1.toml")),
    ("xeon-5160-2s", include_str!("../../../machines/xeon-5160-2s.toml")),
    ("xeon-6248-avx", include_str!("../../../machines/xeon-6248-avx.toml")),
    ("xeon-6248-snc", include_str!("../../../machines/xeon-6248-snc.toml")),
    ("xeon-e5-2699", include_str!("../../../machines/xeon-e5-2699.toml")),
    ("xeon-gold-6130", include_str!("../../../machines/xeon-gold-6130.toml")),
    ("xeon-phi-31s1p", include_str!("../../../machines/xeon-phi-31s1p.toml")),
    ("xeon-w-2104", include_str!("../../../machines/xeon-w-2104.toml")),
];

/// Names of the machines that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The machine that a plain one takes its costs from.
const ORDINARY: &str = "numa-2x4";

/// A plain machine of `cpus` CPUs: one node, one last-level cache, no SMT, the costs of `numa-2x4`. None: `cpus` is 0
/// or more than the simulator supports.
pub fn plain(cpus: usize) -> Option<Machine> {
    if cpus == 0 || cpus > CpuSet::MAX {
        return None;
    }
    let place = |core| Cpu { core, llc: 0, node: 0, core_type: 0 };
    Some(Machine {
        name: format!("{PLAIN}{cpus}"),
        summary: format!("one node of {cpus} cores that share a cache, no SMT; {ORDINARY}'s costs"),
        cpus: (0..cpus as u16).map(place).collect(),
        node_distance: vec![vec![10]],
        ..find(ORDINARY).expect("it comes along")
    })
}

/// The machine of this name that comes with the program, or an error that says which exist.
pub fn find(name: &str) -> Result<Machine, MachineError> {
    if let Some(cpus) = name.strip_prefix(PLAIN) {
        return cpus
            .parse()
            .ok()
            .and_then(plain)
            .ok_or_else(|| MachineError::BadPlain { name: name.to_string(), most: CpuSet::MAX });
    }
    match EMBEDDED.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => Machine::from_toml(text, &format!("machines/{name}.toml")),
        None => Err(MachineError::Unknown {
            name: name.to_string(),
            known: names().chain(["plain-N (N CPUs)"]).collect::<Vec<_>>().join(", "),
        }),
    }
}
