// SPDX-License-Identifier: GPL-2.0-only
//! CPUs of a machine of any shape: a table with a row for the place of each.

use crate::CpuSet;
use crate::machine::Cpu;

/// For each CPU its core, its last-level cache, its node, and its kind of core.
pub type Rows = Vec<[u16; 4]>;

/// The CPUs that these rows describe; their numbers follow from the order of the rows.
pub(crate) fn placed(rows: &Rows, kinds: usize) -> Result<Vec<Cpu>, String> {
    if rows.is_empty() || rows.len() > CpuSet::MAX {
        return Err(format!("{} rows: a machine has 1 to {} CPUs", rows.len(), CpuSet::MAX));
    }
    let cpus: Vec<Cpu> = rows
        .iter()
        .map(|&[core, llc, node, core_type]| Cpu { core, llc, node, core_type })
        .collect();
    dense("core", cpus.iter().map(|cpu| cpu.core))?;
    dense("cache", cpus.iter().map(|cpu| cpu.llc))?;
    dense("node", cpus.iter().map(|cpu| cpu.node))?;
    if cpus.iter().any(|cpu| usize::from(cpu.core_type) >= kinds) {
        return Err(format!("a kind of core has no rate: there are {kinds}, numbered from 0"));
    }
    for (at, cpu) in cpus.iter().enumerate() {
        for other in &cpus[..at] {
            if other.core == cpu.core && (other.llc, other.core_type) != (cpu.llc, cpu.core_type) {
                return Err(format!("core {} is under two caches, or of two kinds", cpu.core));
            }
            if other.llc == cpu.llc && other.node != cpu.node {
                return Err(format!("cache {} is on two nodes", cpu.llc));
            }
        }
    }
    Ok(cpus)
}

/// Every number from 0 to the greatest occurs.
fn dense(what: &str, numbers: impl Iterator<Item = u16>) -> Result<(), String> {
    let mut all: Vec<u16> = numbers.collect();
    all.sort_unstable();
    all.dedup();
    match all.iter().enumerate().find(|(at, number)| *at != usize::from(**number)) {
        Some((at, _)) => Err(format!("no CPU has {what} {at}; number them from 0")),
        None => Ok(()),
    }
}
