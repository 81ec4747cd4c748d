// SPDX-License-Identifier: GPL-2.0-only
//! The simulator's prediction for a pipe ring on a machine.

use live::measure::Passers;
use machine::Machine;
use sim::{Scenario, Scheduler};
use trace::Outcome;
use workload::apps::{self, Apps};
use workload::{Fair, Step, Task, Workload};

use super::raw::{RingKey, Yielders};

/// Hops of two runs: the difference excludes their common start and end. Many, as ticks move a short ring from one
/// pattern of preemption to another.
const HOPS: [usize; 2] = [5_000, 30_000];

/// The measuring program's own work in a hop.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Time for reading a kilobyte in its first cache, ns.
    pub kilobyte_ns: f64,
    /// The CPU that it is on, and another one, as rows of the machine.
    pub home: usize,
    pub other: usize,
}

/// Time of a hop, ns. None: the simulation failed.
pub fn hop_ns(machine: &Machine, program: &Program, key: RingKey) -> Option<f64> {
    let ring = match key.passers {
        Passers::Threads => apps::Ring::Threads,
        Passers::Processes => apps::Ring::Processes,
    };
    let elapsed_ns = |rounds: usize| {
        let apps =
            OWN.iter().try_fold(Apps::embedded(), |apps, (name, value)| apps.with(name, *value))?;
        let apps = apps.with("ring.rounds", rounds as f64)?;
        let apps = apps.with("ring.sum_ns_per_kb", program.kilobyte_ns)?;
        let mut workload = apps.ring(ring, key.tasks, key.bytes as u64);
        for (at, task) in workload.tasks.iter_mut().enumerate() {
            let away = key.apart && at % 2 == 1;
            task.cpus = Some(vec![if away { program.other } else { program.home }]);
            task.fair = if key.batch { Fair::Batch } else { Fair::Normal };
        }
        run(machine, workload).map(|outcome| outcome.elapsed_ns as f64)
    };
    let [few, many] = HOPS.map(|hops| hops / key.tasks);
    let hops = (many - few) * key.tasks;
    Some((elapsed_ns(many)? - elapsed_ns(few)?) / hops as f64)
}

/// Memory that the ring's program touches beside its array. The program is compiled into this one: it is a loop over a
/// call and a sum, on a page of stack.
const OWN: [(&str, f64); 5] = [
    ("ring.touch_us", 0.02),
    ("ring.own_pages", 2.0),
    ("ring.own_bytes", 512.0),
    ("ring.code_pages", 4.0),
    ("ring.code_bytes", 2048.0),
];

/// Time of a `sched_yield`, for each of the tasks that take turns, ns.
pub fn yield_ns(machine: &Machine, program: &Program, (passers, tasks): Yielders) -> Option<f64> {
    let elapsed_ns = |times: usize| {
        let task = |at: usize| Task {
            name: format!("yield-{at}"),
            process: if passers == Passers::Processes { at } else { 0 },
            cpus: Some(vec![program.home]),
            steps: vec![Step::Repeat { times: Some(times as u64), steps: vec![Step::Yield] }],
            ..Task::default()
        };
        let workload = Workload { tasks: (0..tasks).map(task).collect(), ..Workload::default() };
        run(machine, workload).map(|outcome| outcome.elapsed_ns as f64)
    };
    let [few, many] = HOPS.map(|turns| turns / tasks);
    let turns = (many - few) * tasks;
    Some((elapsed_ns(many)? - elapsed_ns(few)?) / turns as f64)
}

fn run(machine: &Machine, workload: Workload) -> Option<Outcome> {
    let mut scenario = Scenario::new(machine.clone(), workload, Scheduler::Default);
    scenario.options.together = true;
    sim::run(&scenario).ok()
}
