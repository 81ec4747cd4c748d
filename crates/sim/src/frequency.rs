// SPDX-License-Identifier: GPL-2.0-only
//! Clocks under the simulated tasks: each core's license, the turbo of its package, a limit on power.
//!
//! Absent if the machine's file does not describe clocks: then all cores always run at their rate. A node is a package.
//! A task's license demand follows from its vector code, whether it is in a system call or not. Kernel paths take as
//! long at any clock. A core that halts for a change of clock does no work.

mod engine;

use machine::{Frequency, LEVELS, License, Machine, Phase};

use crate::ids::CpuId;

/// Counters of a CPU, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// Cycles in which it was busy, by the license level of its core.
    pub cycles: [f64; LEVELS],
    /// Time in which the power limit held its core below its turbo, ns.
    pub limited_ns: f64,
    /// Energy of its core while it was busy, divided among the busy threads, µJ.
    pub energy_uj: f64,
}

#[derive(Clone, Debug)]
struct Core {
    license: License,
    ghz: f64,
    limited: bool,
    since_ns: u64,
    /// Counts its timers, to distinguish a late one from the present one.
    timer: u32,
    cpus: Vec<CpuId>,
    node: usize,
}

/// State of all clocks.
pub(crate) struct Clocks {
    model: Frequency,
    reference_ghz: f64,
    cores: Vec<Core>,
    core_of: Vec<usize>,
    /// Level of the code of each CPU's present task; None if it idles.
    code: Vec<Option<u8>>,
    counted: Vec<Counted>,
    /// The widest code of each CPU since the last request; None: there was no request, and nothing traps.
    used: Vec<Option<u8>>,
    /// Counters of clocks have failed.
    pub fail: bool,
    /// The highest clock that a governor allows.
    governed_ghz: f64,
}

impl Clocks {
    pub fn new(machine: &Machine) -> Option<Self> {
        let model = machine.frequency.clone()?;
        let count = 1 + machine.cpus.iter().map(|cpu| cpu.core).max()? as usize;
        let ghz = model.turbo.ghz(0, 1);
        let core = |number: usize| {
            let own = |cpu: &CpuId| usize::from(machine.cpus[*cpu].core) == number;
            let cpus: Vec<CpuId> = (0..machine.cpus.len()).filter(own).collect();
            Core {
                license: License::default(),
                ghz,
                limited: false,
                since_ns: 0,
                timer: 0,
                node: cpus.first().map_or(0, |cpu| usize::from(machine.cpus[*cpu].node)),
                cpus,
            }
        };
        Some(Clocks {
            reference_ghz: machine.costs.clock_ghz,
            cores: (0..count).map(core).collect(),
            core_of: machine.cpus.iter().map(|cpu| usize::from(cpu.core)).collect(),
            code: vec![None; machine.cpus.len()],
            counted: vec![Counted::default(); machine.cpus.len()],
            used: vec![None; machine.cpus.len()],
            fail: false,
            governed_ghz: f64::INFINITY,
            model,
        })
    }

    /// Speed of a CPU's present task by its clock, relative to the machine's own clock.
    pub fn rate(&self, cpu: CpuId) -> f64 {
        let core = &self.cores[self.core_of[cpu]];
        let code = self.code[cpu].unwrap_or(0);
        let issued = self.model.license.as_ref().map_or(1.0, |law| core.license.rate(code, law));
        // A halt ends with an event; until then the task is practically never due.
        (core.ghz / self.reference_ghz * issued).max(1e-6)
    }

    /// Counters of a CPU at a time. None: they have failed.
    pub fn counted(&mut self, cpu: CpuId, t_ns: u64) -> Option<Counted> {
        self.accrue(self.core_of[cpu], t_ns);
        (!self.fail).then_some(self.counted[cpu])
    }

    /// Counters begin at 0 again.
    pub fn restart(&mut self) {
        self.counted.fill(Counted::default());
    }

    /// The widest code that a CPU's tasks have run since the last call; from now on first uses trap.
    pub fn trapped(&mut self, cpu: CpuId) -> u8 {
        self.used[cpu].replace(0).unwrap_or(0)
    }

    /// Whether the present task's code traps now.
    pub fn traps(&mut self, cpu: CpuId) -> bool {
        let code = self.code[cpu].unwrap_or(0);
        match &mut self.used[cpu] {
            Some(used) if *used < code => {
                *used = code;
                true
            }
            _ => false,
        }
    }

    /// Updates a core's counters up to now.
    fn accrue(&mut self, number: usize, t_ns: u64) {
        let core = &mut self.cores[number];
        let from_ns = core.since_ns;
        core.since_ns = from_ns.max(t_ns);
        let ns = t_ns.saturating_sub(from_ns) as f64;
        let halted = matches!(core.license.phase(), Phase::Halted(..));
        let busy = core.cpus.iter().filter(|cpu| self.code[**cpu].is_some()).count();
        if ns == 0.0 || busy == 0 || halted {
            return;
        }
        let code = core.cpus.iter().filter_map(|cpu| self.code[*cpu]).max().unwrap_or(0);
        let clock = core.ghz / self.reference_ghz;
        let watts = self.model.power.as_ref().map_or(0.0, |power| power.core_w(code, clock));
        for cpu in core.cpus.iter().filter(|cpu| self.code[**cpu].is_some()) {
            let counted = &mut self.counted[*cpu];
            counted.cycles[usize::from(core.license.level())] += ns * core.ghz;
            counted.limited_ns += if core.limited { ns } else { 0.0 };
            counted.energy_uj += ns * watts / 1e3 / busy as f64;
        }
    }

    fn accrue_package(&mut self, node: usize, t_ns: u64) {
        for core in 0..self.cores.len() {
            if self.cores[core].node == node {
                self.accrue(core, t_ns);
            }
        }
    }

    /// Sets the clocks of a package's cores, after a change there.
    fn settle(&mut self, node: usize) {
        let busy = |core: &Core| core.cpus.iter().any(|cpu| self.code[*cpu].is_some());
        let active = self.cores.iter().filter(|core| core.node == node && busy(core)).count();
        let turbo = |core: &Core| self.model.turbo.ghz(core.license.level(), active);
        let of_package = || self.cores.iter().filter(|core| core.node == node);
        let limit = self.model.power.as_ref().and_then(|power| {
            let code = |core: &Core| core.cpus.iter().filter_map(|cpu| self.code[*cpu]).max();
            let drawn = |core: &Core| Some((code(core)?, turbo(core) / self.reference_ghz));
            power.clock(&of_package().filter_map(drawn).collect::<Vec<_>>())
        });
        let limit_ghz = limit.map_or(f64::INFINITY, |clock| clock * self.reference_ghz);
        let ghz: Vec<f64> = self.cores.iter().map(turbo).collect();
        for (core, turbo) in self.cores.iter_mut().zip(ghz).filter(|(core, _)| core.node == node) {
            core.ghz = turbo.min(limit_ghz).min(self.governed_ghz);
            core.limited = limit_ghz < turbo.min(self.governed_ghz);
        }
    }
}
