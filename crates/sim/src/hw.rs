// SPDX-License-Identifier: GPL-2.0-only
//! TLBs and caches under the simulated tasks, for workloads that say what memory they touch.
//!
//! Absent if no task has `hw`: then switches cost the machine's flat figures, and nothing here runs. If it is present,
//! a task with `hw` pays for its misses instead of those figures (`mm_refill_ns`, `switch_refill_ns`, `migrate_*_ns`),
//! never both. All tasks are charged for loading the page-table root itself (`mm_switch_ns`). No cost depends on the
//! scheduler.

use std::collections::BTreeMap;
use std::rc::Rc;

use machine::{Footprint, Machine, Misses, Set, Touches, Turn, Warmth};
use workload::{Touched, Workload};

use crate::ids::{CpuId, TaskId};

/// State of the hardware, and the misses of each task.
pub(crate) struct Hw {
    warmth: Warmth,
    touches: Vec<Option<Rc<Touches>>>,
    /// The set of shared data that each task touches.
    shared: Vec<Option<u32>>,
    /// Misses that each CPU's present task has to expect in its turn.
    turns: Vec<Option<Turn>>,
    pub misses: Vec<Misses>,
    /// Factor on the time of work, while an observer records the touched sets.
    pub slowed: f64,
    /// Time lost to misses, and work, of a task after another on the same CPU, if sampling is on.
    pub sampled: Option<BTreeMap<(TaskId, TaskId), (f64, f64)>>,
    /// The task that left each CPU last.
    before: Vec<Option<TaskId>>,
}

impl Hw {
    /// For a workload that gives its tasks' memory, on a machine that describes its caches.
    pub fn new(machine: &Machine, workload: &Workload) -> Option<Self> {
        if workload.tasks.iter().all(|task| task.hw.is_none()) {
            return None;
        }
        let mut names = Names::default();
        let footprint = |(id, task): (usize, &workload::Task)| names.footprint(id, task);
        let footprints: Vec<_> = workload.tasks.iter().enumerate().map(footprint).collect();
        let mut warmth = Warmth::new(machine)?;
        let touches = |of: &Option<Footprint>| Some(Rc::new(warmth.touches(of.as_ref()?)));
        let touches: Vec<_> = footprints.iter().map(touches).collect();
        warmth.expect(touches.iter().flatten().map(|touches| &**touches));
        let shared = |of: &Option<Footprint>| {
            let shared = of.as_ref()?.shared;
            (shared.bytes > 0.0).then_some(shared.id)
        };
        Some(Hw {
            misses: vec![Misses::default(); footprints.len()],
            touches,
            shared: footprints.iter().map(shared).collect(),
            warmth,
            turns: vec![None; machine.cpus.len()],
            slowed: 1.0,
            sampled: None,
            before: vec![None; machine.cpus.len()],
        })
    }

    /// Forgets the misses up to now; caches stay warm.
    pub fn restart(&mut self) {
        self.misses.fill(Misses::default());
    }

    /// Whether it is known what memory this task touches. Not known of the thread that starts the others.
    pub fn knows(&self, task: TaskId) -> bool {
        self.touches.get(task).is_some_and(|touches| touches.is_some())
    }

    /// A CPU switches to a task of an address space. Returns the kernel's time for its own misses, ns.
    pub fn enter(&mut self, cpu: CpuId, task: TaskId, space: usize) -> f64 {
        self.warmth.change_space(cpu, space as u32);
        let Some(Some(touches)) = self.touches.get(task) else { return 0.0 };
        let turn = self.warmth.enter(cpu, touches);
        let kernel = turn.kernel;
        self.misses[task].add(&kernel, 1.0);
        self.turns[cpu] = Some(turn);
        kernel.ns
    }

    /// A task leaves a CPU.
    pub fn leave(&mut self, cpu: CpuId, task: TaskId) {
        if let (Some(turn), Some(Some(touches))) = (&self.turns[cpu], self.touches.get(task)) {
            self.warmth.leave(cpu, touches, turn);
            if self.sampled.is_some() {
                self.sample(cpu, task);
            }
        }
        self.turns[cpu] = None;
        self.before[cpu] = Some(task);
    }

    fn sample(&mut self, cpu: CpuId, task: TaskId) {
        let (Some(samples), Some(before)) = (&mut self.sampled, self.before[cpu]) else { return };
        if let Some(turn) = self.turns[cpu].as_ref().filter(|_| before != task) {
            let sum = samples.entry((before, task)).or_default();
            *sum = (sum.0 + turn.missed_ns() + turn.kernel.ns, sum.1 + turn.done_ns());
        }
    }

    /// The set of shared data that a task touches. None: none.
    pub fn shares(&self, task: TaskId) -> Option<u32> {
        self.shared.get(task).copied().flatten()
    }

    /// CPU time of `work_ns` of work of the CPU's present task, its misses included.
    pub fn effort_ns(&self, cpu: CpuId, work_ns: f64) -> f64 {
        self.turns[cpu].as_ref().map_or(work_ns, |turn| self.slowed * turn.effort_ns(work_ns))
    }

    /// Work that the CPU's present task gets done in `effort_ns` of CPU time, at most `most_ns`.
    pub fn worked_ns(&mut self, cpu: CpuId, task: TaskId, effort_ns: f64, most_ns: f64) -> f64 {
        let Some(turn) = &mut self.turns[cpu] else { return effort_ns.min(most_ns) };
        let work_ns = turn.work_ns(effort_ns / self.slowed).min(most_ns);
        let missed = turn.worked(work_ns);
        self.misses[task].add(&missed, 1.0);
        work_ns
    }
}

/// Numbers of sets: equal names share a set.
#[derive(Default)]
struct Names {
    known: BTreeMap<(&'static str, usize, String), u32>,
}

impl Names {
    fn set(&mut self, what: &'static str, of: usize, name: &str, touched: Touched) -> Set {
        let next = self.known.len() as u32 + 1;
        let id = *self.known.entry((what, of, name.to_string())).or_insert(next);
        Set { id, pages: f64::from(touched.pages), bytes: touched.bytes as f64 }
    }

    fn footprint(&mut self, id: TaskId, task: &workload::Task) -> Option<Footprint> {
        let hw = task.hw.as_ref()?;
        let process = task.process;
        Some(Footprint {
            space: process as u32 + 1,
            own: self.set("own", id, "", hw.own),
            shared: self.set("shared", process, &hw.shared_name, hw.shared),
            code: self.set("code", process, "", hw.code),
            kernel_own: self.set("kernel", id, "", hw.kernel),
            kernel_shared: self.set("kernel_shared", 0, "", hw.kernel_shared),
            kernel_code: self.set("kernel_code", 0, "", hw.kernel_code),
            reach_ns: hw.reach_ns as f64,
        })
    }
}
