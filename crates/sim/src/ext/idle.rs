// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs are idle, and the kernel's own choice among them (kernel/sched/ext/idle.c).

use machine::CpuSet;

use super::flags::{EBUSY, PICK_IDLE_CORE, WAKE_SYNC};
use crate::account::Func;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::line::Line;

/// The idle masks, and the inputs of the search for an idle CPU.
pub(super) struct Idle {
    cpus: CpuSet,
    /// CPUs of fully idle cores.
    cores: CpuSet,
    /// Each mask is a line that all CPUs read and write.
    cpus_line: Line,
    cores_line: Line,
    /// `sched_smt_active`.
    smt: bool,
    /// CPUs under the cache of each CPU; None if all are under one.
    llc: Option<Vec<CpuSet>>,
    /// CPUs of the node of each CPU; None if the node has no CPUs beyond the cache's.
    node: Option<Vec<CpuSet>>,
    select_cpu_dfl: Func,
    pick_idle_cpu: Func,
    test_and_clear: Func,
    update_idle: Func,
}

/// `cpu_smt_mask`: the threads of a CPU's core that are online.
fn core(k: &Kernel, cpu: CpuId) -> CpuSet {
    k.siblings(cpu).and(&k.online)
}

impl Idle {
    pub fn new(k: &Kernel) -> Self {
        let mut idle = Idle {
            cpus: k.online,
            cores: k.online,
            cpus_line: Line::new(0),
            cores_line: Line::new(0),
            smt: false,
            llc: None,
            node: None,
            select_cpu_dfl: k.function("scx_select_cpu_dfl"),
            pick_idle_cpu: k.function("scx_pick_idle_cpu"),
            test_and_clear: k.function("scx_test_and_clear_cpu_idle"),
            update_idle: k.function("update_idle_scx"),
        };
        idle.update_topology(k);
        idle
    }

    /// `scx_idle_update_selcpu_topology`: caches matter if there are several, nodes if they differ from the caches. The
    /// kernel looks at the first CPU online.
    pub fn update_topology(&mut self, k: &Kernel) {
        let same = |f: fn(&machine::Cpu) -> u16| -> Vec<CpuSet> {
            let place = |cpu: usize| f(&k.machine.cpus[cpu]);
            let peers = |cpu| k.online.iter().filter(|other| place(*other) == place(cpu)).collect();
            (0..k.cpus.len()).map(peers).collect()
        };
        self.smt = k.online.iter().any(|cpu| core(k, cpu).len() > 1);
        let Some(first) = k.online.lowest() else { return };
        let online = k.online.len();
        // A domain of one CPU is not built, so its span counts as none.
        let weight = |spans: &[CpuSet], cpu: usize| Some(spans[cpu].len()).filter(|n| *n > 1);
        let llc = same(|cpu| cpu.llc);
        let node = same(|cpu| cpu.node);
        let mismatch = k.online.iter().any(|cpu| weight(&llc, cpu) != weight(&node, cpu));
        let nodes = k.machine.node_distance.len();
        let by_node = nodes > 1 && node[first].len() < online && mismatch;
        self.llc = weight(&llc, first).filter(|n| *n < online).map(|_| llc);
        self.node = by_node.then_some(node);
    }

    /// `update_builtin_idle`: the CPU begins or ceases to be idle.
    pub fn update(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool) {
        k.enter(self.update_idle);
        k.atomic(&mut self.cpus_line);
        let idle = idle && k.cpus[cpu].online;
        match idle {
            true => self.cpus.add(cpu),
            false => self.cpus.remove(cpu),
        }
        if self.smt {
            let core = core(k, cpu);
            if !idle {
                k.atomic(&mut self.cores_line);
                self.cores = self.cores.without(&core);
            } else if core.within(&self.cpus) {
                k.atomic(&mut self.cores_line);
                self.cores = self.cores.or(&core);
            }
        }
        k.leave();
    }

    /// Whether the mask has the CPU.
    pub fn has(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.read(&mut self.cpus_line);
        self.cpus.has(cpu)
    }

    /// `scx_idle_test_and_clear_cpu`: claims the CPU if it is idle.
    pub fn claim(&mut self, k: &mut Kernel, cpu: CpuId) -> bool {
        k.call(self.test_and_clear);
        if self.smt {
            k.read(&mut self.cores_line);
            if !self.cores.is_empty() {
                self.claim_core(k, cpu);
            }
        }
        k.atomic(&mut self.cpus_line);
        let was = self.cpus.has(cpu);
        self.cpus.remove(cpu);
        was
    }

    /// The CPU's core is no longer fully idle.
    fn claim_core(&mut self, k: &mut Kernel, cpu: CpuId) {
        let core = core(k, cpu);
        if core.meets(&self.cores) || self.cores.has(cpu) {
            k.atomic(&mut self.cores_line);
            self.cores = self.cores.without(&core);
            self.cores.remove(cpu);
        }
    }

    /// `scx_pick_idle_cpu`: claims an idle CPU of `allowed`, of a fully idle core if there is one.
    pub fn pick(&mut self, k: &mut Kernel, allowed: &CpuSet, flags: u64) -> Option<CpuId> {
        k.enter(self.pick_idle_cpu);
        let found = self.pick_in(k, allowed, flags);
        k.leave();
        found
    }

    fn pick_in(&mut self, k: &mut Kernel, allowed: &CpuSet, flags: u64) -> Option<CpuId> {
        loop {
            let mut found = None;
            if self.smt {
                k.read(&mut self.cores_line);
                found = k.any_and_distribute(&self.cores, allowed);
                if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            if found.is_none() {
                k.read(&mut self.cpus_line);
                found = k.any_and_distribute(&self.cpus, allowed);
            }
            let cpu = found?;
            if self.claim(k, cpu) {
                return Some(cpu);
            }
        }
    }

    /// `scx_select_cpu_dfl`: claims and returns the best idle CPU for a waking task, or `-EBUSY`. `local_nr` is the
    /// number of tasks that wait in this CPU's local queue.
    pub fn select(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
        local_nr: usize,
    ) -> Result<CpuId, i32> {
        k.enter(self.select_cpu_dfl);
        let found = self.select_in(k, task, prev, wake_flags, local_nr);
        k.leave();
        found.ok_or(-EBUSY)
    }

    fn select_in(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
        local_nr: usize,
    ) -> Option<CpuId> {
        let allowed = k.tasks[task].allowed;
        let prev_allowed = allowed.has(prev);
        let within = |spans: &Option<Vec<CpuSet>>| {
            spans.as_ref().map(|spans| spans[prev].and(&allowed)).filter(|set| !set.is_empty())
        };
        let (llc, node) = (within(&self.llc), within(&self.node));
        let sets = [llc.as_ref(), node.as_ref(), Some(&allowed)];
        if wake_flags & WAKE_SYNC != 0 {
            let this = k.this_cpu();
            if prev_allowed && k.share_cache(this, prev) && self.claim(k, prev) {
                return Some(prev);
            }
            let exiting = k.cpus[this].curr.is_some_and(|curr| k.tasks[curr].exiting);
            k.read(&mut self.cpus_line);
            if !exiting && local_nr == 0 && !self.cpus.is_empty() && allowed.has(this) {
                self.claim(k, this);
                return Some(this);
            }
        }
        if self.smt {
            if prev_allowed && self.cores.has(prev) && self.claim(k, prev) {
                return Some(prev);
            }
            for set in sets.into_iter().flatten() {
                if let Some(cpu) = self.pick(k, set, PICK_IDLE_CORE) {
                    return Some(cpu);
                }
            }
        }
        if prev_allowed && self.claim(k, prev) {
            return Some(prev);
        }
        if self.smt {
            let thread = |k: &Kernel, at| k.thread_of_core(prev, at);
            let mut at = 0;
            while let Some(cpu) = thread(k, at) {
                let usable = cpu != prev && allowed.has(cpu) && k.online.has(cpu);
                if usable && self.claim(k, cpu) {
                    return Some(cpu);
                }
                at += 1;
            }
        }
        for set in sets.into_iter().flatten() {
            if let Some(cpu) = self.pick(k, set, 0) {
                return Some(cpu);
            }
        }
        None
    }
}
