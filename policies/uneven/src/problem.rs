// SPDX-License-Identifier: GPL-2.0-only
//! The input of a plan, and the plan: plain data.

use crate::Error;
use crate::limits::{SPEED_MAX, TYPES_MAX};

/// A set of core types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreTypes(u32);

impl CoreTypes {
    /// Every type.
    pub const ALL: CoreTypes = CoreTypes(u32::MAX);

    /// These types, counted from 0, the fastest.
    pub fn of(types: &[usize]) -> Self {
        CoreTypes(
            types
                .iter()
                .filter(|number| **number < TYPES_MAX)
                .fold(0, |set, number| set | 1 << number),
        )
    }

    /// Whether a type is one of them.
    pub fn has(self, number: usize) -> bool {
        self.0 >> number & 1 == 1
    }

    /// Its types.
    pub(crate) fn iter(self, types: usize) -> impl Iterator<Item = usize> {
        (0..types).filter(move |number| self.has(*number))
    }

    pub(crate) fn count(self, types: usize) -> usize {
        self.iter(types).count()
    }

    pub(crate) fn without(self, other: CoreTypes) -> Self {
        CoreTypes(self.0 & !other.0)
    }

    pub(crate) fn with(self, other: CoreTypes) -> Self {
        CoreTypes(self.0 | other.0)
    }

    pub(crate) fn within(self, other: CoreTypes) -> bool {
        self.0 & !other.0 == 0
    }

    /// Every set of `types` types but the empty one.
    pub(crate) fn subsets(types: usize) -> impl Iterator<Item = CoreTypes> {
        (1..1u32 << types).map(CoreTypes)
    }

    fn among(self, types: usize) -> Self {
        CoreTypes(self.0 & ((1 << types) - 1))
    }
}

/// A tenant: a thread, a program, a cgroup, or a VM's CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// s: its speed on each core type, fastest type first; 1 on the slowest.
    pub speeds: Vec<f64>,
    /// The same for its guarantee, if `speeds` is an estimate: the upper end of the possible
    /// speeds.
    pub bound: Option<Vec<f64>>,
    /// Its part of the CPU time relative to others', as `cpu.weight`; 1 is even.
    pub weight: f64,
    /// T: its own target, instead of the policy's.
    pub target: Option<f64>,
    /// The types that it may run on.
    pub allowed: CoreTypes,
    /// CPUs that it can use at once: threads, 1 for a thread.
    pub width: f64,
    /// The least fraction of its CPU time on each type, so that its speeds can be measured (slide
    /// 10). At most an even share.
    pub floor: f64,
}

impl Task {
    /// A thread like all others, with these speeds, fastest type first.
    pub fn new(speeds: Vec<f64>) -> Self {
        Task {
            speeds,
            bound: None,
            weight: 1.0,
            target: None,
            allowed: CoreTypes::ALL,
            width: 1.0,
            floor: 0.0,
        }
    }

    /// The same for two core types: s, the fast-core speedup.
    pub fn with_speedup(s: f64) -> Self {
        Task::new(vec![s, 1.0])
    }

    /// The speeds that its guarantee is computed with.
    pub(crate) fn cautious(&self) -> &[f64] {
        self.bound.as_deref().unwrap_or(&self.speeds)
    }
}

/// The reference of fairness (slide 28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// Every task has an even share of each core type (Kwon and others, ISCA'11).
    #[default]
    MaxFair,
    /// Every task runs on slow cores.
    SlowCore,
    /// Every task runs on fast cores: equal slowdown from an isolated run there (Van Craeynest and
    /// others, PACT'13).
    FastCore,
}

/// Cores, and the tasks that share them.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// m: how many cores of each type there are, fastest type first; fractions are capacity.
    pub cores: Vec<f64>,
    /// In an order that decides ties.
    pub tasks: Vec<Task>,
    /// The reference of fairness.
    pub base: Base,
}

impl Problem {
    /// Two core types and a thread for each speedup, measured against max-fair.
    pub fn two_types(fast: f64, slow: f64, speedups: &[f64]) -> Self {
        let tasks = speedups.iter().map(|s| Task::with_speedup(*s)).collect();
        Problem { cores: vec![fast, slow], tasks, base: Base::MaxFair }
    }

    /// How many core types there are.
    pub fn types(&self) -> usize {
        self.cores.len()
    }

    /// The types that a task may run on, of those that there are.
    pub(crate) fn allowed(&self, task: usize) -> CoreTypes {
        self.tasks[task].allowed.among(self.types())
    }

    /// Errors: any invalid number.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.cores.is_empty() {
            return Err(Error::NoTypes);
        }
        if self.types() > TYPES_MAX {
            return Err(Error::ManyTypes(self.types()));
        }
        if let Some(lacking) = self.cores.iter().position(|cores| !is_positive(*cores)) {
            return Err(Error::NoCores { number: lacking + 1, cores: self.cores[lacking] });
        }
        if self.tasks.is_empty() {
            return Err(Error::NoTasks);
        }
        (0..self.tasks.len()).try_for_each(|task| self.check_task(task))
    }

    fn check_task(&self, index: usize) -> Result<(), Error> {
        let (task, number) = (&self.tasks[index], index + 1);
        check_speeds(number, &task.speeds, self.types())?;
        if let Some(bound) = &task.bound {
            check_speeds(number, bound, self.types())?;
        }
        let wrong = |what, value, wanted| Err(Error::Number { task: number, what, value, wanted });
        if !(1e-9..=1e9).contains(&task.weight) {
            return wrong("weight", task.weight, "between 1e-9 and 1e9; 1 is even");
        }
        if !is_positive(task.width) {
            return wrong("width", task.width, "the CPUs it can use at once, 1 for a thread");
        }
        if !(0.0..=1.0).contains(&task.floor) {
            return wrong("floor", task.floor, "a fraction of its CPU time, 0 to 1");
        }
        if let Some(target) = task.target {
            check_target(target, self.base).map_err(|wanted| Error::Number {
                task: number,
                what: "target",
                value: target,
                wanted,
            })?;
        }
        match self.allowed(index).count(self.types()) {
            0 => Err(Error::Nowhere(number)),
            _ => Ok(()),
        }
    }
}

/// Errors: the valid targets against this base.
pub(crate) fn check_target(target: f64, base: Base) -> Result<(), &'static str> {
    let most = if base == Base::SlowCore { SPEED_MAX } else { 1.0 };
    match (0.0..=most).contains(&target) {
        true => Ok(()),
        false if base == Base::SlowCore => {
            Err("how many times a slow core's performance, 0 to 100")
        }
        false => Err("a fraction of fair performance, 0 to 1, such as 0.85"),
    }
}

fn check_speeds(task: usize, speeds: &[f64], types: usize) -> Result<(), Error> {
    if speeds.len() != types {
        return Err(Error::Speeds { task, given: speeds.len(), types });
    }
    if let Some(speed) = speeds.iter().find(|speed| !(1.0..=SPEED_MAX).contains(*speed)) {
        return Err(Error::Speed { task, speed: *speed });
    }
    match speeds.last() {
        Some(speed) if *speed != 1.0 => Err(Error::Slowest { task, speed: *speed }),
        _ => Ok(()),
    }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The shares of each task; tasks in the order of the problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// c: CPU time, in cores.
    pub cpu: Vec<f64>,
    /// f: the fraction of that on each core type, fastest first; a task's fractions add up to 1.
    pub shares: Vec<Vec<f64>>,
    /// r: performance relative to the base.
    pub relative: Vec<f64>,
}
