// SPDX-License-Identifier: GPL-2.0-only
//! When clocks change: the engine's part of `frequency.rs`.

use std::collections::BTreeSet;

use super::Clocks;
use crate::engine::Engine;
use crate::event::Due;
use crate::ids::CpuId;

impl Engine {
    /// Another task runs on a CPU from now on, or its task's code changes: its license, and all clocks of its package,
    /// may change.
    pub(crate) fn code_changes(&mut self, cpu: CpuId, t_ns: u64) {
        let k = &mut self.k;
        let Some(clocks) = &mut k.clocks else { return };
        let code = k.cpus[cpu].curr.map(|task| k.tasks[task].vector);
        if clocks.code[cpu] == code {
            return;
        }
        let number = clocks.core_of[cpu];
        let node = clocks.cores[number].node;
        clocks.accrue_package(node, t_ns);
        let before = rates(clocks);
        clocks.code[cpu] = code;
        let needs = clocks.cores[number].cpus.iter().filter_map(|cpu| clocks.code[*cpu]).max();
        let law = clocks.model.license;
        let core = &mut clocks.cores[number];
        let next = law.and_then(|law| core.license.demand(t_ns, needs.unwrap_or(0), &law));
        self.license_due(number, next);
        self.clocks_change(node, &before, t_ns);
    }

    /// A governor allows no clock above this from now on.
    pub(crate) fn govern(&mut self, ghz: f64, t_ns: u64) {
        let Some(clocks) = &mut self.k.clocks else { return };
        let before = rates(clocks);
        clocks.governed_ghz = ghz;
        let nodes: BTreeSet<usize> = clocks.cores.iter().map(|core| core.node).collect();
        for node in nodes {
            if let Some(clocks) = &mut self.k.clocks {
                clocks.accrue_package(node, t_ns);
            }
            self.clocks_change(node, &before, t_ns);
        }
    }

    /// The license of a core changes.
    pub(crate) fn on_license(&mut self, number: usize, timer: u32, t_ns: u64) {
        let Some(clocks) = &mut self.k.clocks else { return };
        if clocks.cores[number].timer != timer {
            return;
        }
        let Some(law) = clocks.model.license else { return };
        let node = clocks.cores[number].node;
        clocks.accrue_package(node, t_ns);
        let before = rates(clocks);
        let next = clocks.cores[number].license.pass(t_ns, &law);
        self.license_due(number, next);
        self.clocks_change(node, &before, t_ns);
    }

    fn license_due(&mut self, number: usize, next: Option<u64>) {
        let Some(clocks) = &mut self.k.clocks else { return };
        let core = &mut clocks.cores[number];
        core.timer += 1;
        if let Some(at_ns) = next {
            let (core, timer) = (number as u16, core.timer);
            self.k.queue.push(at_ns, Due::License { core, timer });
        }
    }

    /// Tasks on cores with a changed clock have another speed from now on.
    fn clocks_change(&mut self, node: usize, before: &[f64], t_ns: u64) {
        let Some(clocks) = &mut self.k.clocks else { return };
        clocks.settle(node);
        let after = rates(clocks);
        for cpu in 0..after.len() {
            if before[cpu] != after[cpu] {
                self.rerate(cpu, t_ns);
            }
        }
    }
}

/// The rate of every CPU.
fn rates(clocks: &Clocks) -> Vec<f64> {
    (0..clocks.code.len()).map(|cpu| clocks.rate(cpu)).collect()
}
