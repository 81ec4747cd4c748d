// SPDX-License-Identifier: GPL-2.0-only
//! The `CONFIG` variables that a ground sets before it loads a policy.

use crate::native::{MAX_CPUS, TURBO_CORES};
use crate::{Instance, Topology};

impl Instance {
    /// The C variable of each knob that the data plane reads, with its value. An object without one of them is not
    /// this policy's.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let knobs = self.policy.knobs.iter().zip(&self.values);
        knobs.filter_map(|(knob, value)| Some((knob.variable.symbol?, *value)))
    }
}

impl Topology {
    /// Its C variables: name and bytes. A policy need not have all of them.
    pub fn config(&self) -> Vec<(&'static str, Vec<u8>)> {
        let clocks = &self.clocks;
        let nr_cpus = self.llc.len() as u32;
        let missing: Vec<u8> = self.missing.iter().copied().map(u8::from).collect();
        let counts = u64::from(self.reads_counters);
        let khz = turbo(self).iter().flatten();
        vec![
            ("nr_cpus", nr_cpus.to_ne_bytes().to_vec()),
            ("cpu_llc", table(&self.llc)),
            ("cpu_sibling", table(&siblings(&self.core))),
            ("cpu_node", table(&self.node)),
            ("cpu_type", table(&self.core_type)),
            ("cpu_missing", missing),
            ("nr_types", (self.kinds() as u32).to_ne_bytes().to_vec()),
            ("tick_ns", self.tick_ns.to_ne_bytes().to_vec()),
            ("reads_counters", counts.to_ne_bytes().to_vec()),
            ("license_levels", clocks.license_levels.to_ne_bytes().to_vec()),
            ("license_release_ns", clocks.release_ns.to_ne_bytes().to_vec()),
            ("license_throttle_ns", clocks.throttle_ns.to_ne_bytes().to_vec()),
            ("license_halt_ns", clocks.halt_ns.to_ne_bytes().to_vec()),
            ("turbo_cores", (turbo(self).len() as u32).to_ne_bytes().to_vec()),
            ("turbo_khz", khz.flat_map(|khz| khz.to_ne_bytes()).collect()),
        ]
    }
}

/// The rows of the turbo table that fit into clocks.h's.
fn turbo(topology: &Topology) -> &[[u32; 3]] {
    let rows = &topology.clocks.turbo_khz;
    &rows[..rows.len().min(TURBO_CORES)]
}

/// The next CPU of each CPU's core, in a ring.
fn siblings(core: &[u16]) -> Vec<u16> {
    let next = |cpu: usize| {
        let others = (cpu + 1..core.len()).chain(0..=cpu);
        others.into_iter().find(|other| core[*other] == core[cpu]).unwrap_or(cpu) as u16
    };
    (0..core.len()).map(next).collect()
}

fn table(ids: &[u16]) -> Vec<u8> {
    assert!(ids.len() <= MAX_CPUS, "grounds refuse machines of more than {MAX_CPUS} CPUs");
    ids.iter().flat_map(|id| id.to_ne_bytes()).collect()
}
