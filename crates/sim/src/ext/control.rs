// SPDX-License-Identifier: GPL-2.0-only
//! The policy's control plane, over the copy's own table of tasks.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use policy::native::Copy;
use policy::table::{RawTable, TaskTable};
use policy::{Control, Instance, Memory, NoMemory, Profile, Program, Topology, View};
use trace::{Placed, Placements};

use crate::cgroup::cgroup_id;
use crate::kernel::Kernel;

/// A control plane and the table that it shares with the data plane.
pub(super) struct Controller {
    control: Box<dyn Control>,
    table: TaskTable,
    /// Speeds as measured by the control plane, by thread: sums over all looks that gave one, and their number. None:
    /// not kept.
    measured: Option<BTreeMap<u32, (Vec<f64>, f64)>>,
    placements: Placements,
}

impl Controller {
    /// None: the policy has none. The copy must outlive it.
    pub fn new(
        instance: &Instance,
        topology: &Topology,
        profile: &Profile,
        copy: &Copy,
    ) -> Result<Option<Self>, String> {
        let Some(plan) = instance.policy.control else { return Ok(None) };
        let name = instance.policy.name;
        let table = copy.symbol("task_table").and_then(|at| NonNull::new(at.cast::<RawTable>()));
        let table = table.ok_or_else(|| format!("policy {name} has no table of tasks"))?;
        // SAFETY: it is a struct task_table of the copy, which outlives this.
        let table = unsafe { TaskTable::new(table) };
        Ok(Some(Controller {
            control: (plan.begin)(instance, topology, profile),
            table,
            measured: None,
            placements: Placements::default(),
        }))
    }

    /// Steps it; returns the ns until its next step.
    pub fn step(&mut self, k: &Kernel) -> u64 {
        let name_of =
            |tid: u32| k.tasks.get((tid as usize).wrapping_sub(1)).map(|t| t.name.clone());
        let program_of = |tid: u32| {
            let id = workload::program_of(&name_of(tid)?).to_string();
            Some(Program { id, path: None })
        };
        let cgroup_of = |id: u64| k.cgroups.get(id.checked_sub(cgroup_id(None))? as usize).copied();
        let view = View {
            now_ns: k.now_ns(),
            table: &self.table,
            name_of: &name_of,
            program_of: &program_of,
            parent_of: &|_| None,
            cgroup_of: &cgroup_of,
            memory: k.domains.as_deref().map_or(&NoMemory, |domains| domains as &dyn Memory),
            read: Default::default(),
        };
        let next_ns = self.control.step(&view);
        self.placements.look(k.now_ns(), self.control.placed().into_iter());
        if let Some(measured) = &mut self.measured {
            self.control.measured(&mut |tid, speeds| {
                let sum = measured.entry(tid).or_insert_with(|| (vec![0.0; speeds.len()], 0.0));
                sum.0.iter_mut().zip(speeds).for_each(|(sum, speed)| *sum += speed);
                sum.1 += 1.0;
            });
        }
        next_ns
    }

    /// Keeps its measurements from here on.
    pub fn keep_measured(&mut self) {
        self.measured = Some(BTreeMap::new());
    }

    /// Its placements of tasks.
    pub fn placed(&mut self) -> Vec<Placed> {
        self.placements.take()
    }

    /// Mean speeds of each thread, over all looks.
    pub fn measured(&self) -> BTreeMap<u32, Vec<f64>> {
        let mean = |(tid, (sum, looks)): (&u32, &(Vec<f64>, f64))| {
            (*tid, sum.iter().map(|sum| sum / looks).collect())
        };
        self.measured.iter().flatten().map(mean).collect()
    }
}
