// SPDX-License-Identifier: GPL-2.0-only
//! The start of every policy: CPU time, even shares, and the base's performance.

use crate::problem::{Base, CoreTypes, Problem};
use crate::{Error, cpu_time, even};

/// A checked problem, with all that follows from it under any policy.
pub(crate) struct Start<'a> {
    pub problem: &'a Problem,
    /// c, in cores.
    pub cpu: Vec<f64>,
    /// Types that a task can be put on.
    pub allowed: Vec<CoreTypes>,
    /// F: even shares of each task.
    pub even: Vec<Vec<f64>>,
    /// A base's speed, where the slowest core is 1.
    pub base: Vec<f64>,
    /// The same by the speeds that guarantees are computed with.
    pub cautious_base: Vec<f64>,
}

/// The least that every task gets.
#[derive(Clone, Copy)]
pub(crate) enum Least<'a> {
    /// No more than its floor.
    Nothing,
    /// T: a part of its base's performance, task by task.
    Targets(&'a [f64]),
    /// R: a part of its even share of each type but the slowest.
    PartOfEven(f64),
}

impl<'a> Start<'a> {
    /// Errors: an invalid problem.
    pub fn new(problem: &'a Problem) -> Result<Self, Error> {
        problem.check()?;
        let (cpu, allowed) = cpu_time::divide(problem);
        let even = even::shares(problem, &cpu, &allowed)?;
        let speed = |speeds: &[f64], task: usize| match problem.base {
            Base::MaxFair => dot(speeds, &even[task]),
            Base::SlowCore => speeds[speeds.len() - 1],
            Base::FastCore => speeds[0],
        };
        let of = |task: usize| &problem.tasks[task];
        let base = (0..cpu.len()).map(|task| speed(&of(task).speeds, task)).collect();
        let cautious_base = (0..cpu.len()).map(|task| speed(of(task).cautious(), task)).collect();
        Ok(Start { problem, cpu, allowed, even, base, cautious_base })
    }

    /// Whether a task's shares are open: it is not bound to one type.
    pub fn is_free(&self, task: usize) -> bool {
        self.allowed[task].count(self.problem.types()) > 1
    }

    /// Tasks whose shares are open.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.cpu.len()).filter(|task| self.is_free(*task))
    }

    /// Tasks whose shares are open, in the order of gain, most first; ties in the order given.
    pub fn by_gain(&self) -> Vec<usize> {
        let mut order: Vec<usize> = self.free().collect();
        let speeds = |task: &usize| &self.problem.tasks[*task].speeds;
        order.sort_by(|a, b| {
            let pairs = speeds(b).iter().zip(speeds(a));
            pairs
                .map(|(b, a)| b.total_cmp(a))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        order
    }

    /// Cores of each type that remain after tasks bound to it.
    pub fn left(&self) -> Vec<f64> {
        let mut left = self.problem.cores.clone();
        for task in (0..self.cpu.len()).filter(|task| !self.is_free(*task)) {
            self.allowed[task].iter(left.len()).for_each(|number| left[number] -= self.cpu[task]);
        }
        left.iter().map(|cores| cores.max(0.0)).collect()
    }

    /// The least fraction of its CPU time that a task has on a type, apart from targets.
    pub fn least(&self, task: usize, number: usize, least: Least) -> f64 {
        let even = self.even[task][number];
        let part = match least {
            Least::PartOfEven(part) if number + 1 < self.problem.types() => part * even,
            _ => 0.0,
        };
        self.problem.tasks[task].floor.min(even).max(part)
    }

    /// The greatest fast share of a task on two core types: its floor on slow cores stays.
    pub fn most(&self, task: usize) -> f64 {
        1.0 - self.least(task, 1, Least::Nothing)
    }

    /// r of a task with these shares and its CPU time.
    pub fn relative(&self, task: usize, shares: &[f64]) -> f64 {
        dot(&self.problem.tasks[task].speeds, shares) / self.base[task]
    }

    /// The same by the speeds that guarantees are computed with.
    pub fn cautious(&self, task: usize, shares: &[f64]) -> f64 {
        dot(self.problem.tasks[task].cautious(), shares) / self.cautious_base[task]
    }

    /// T of each task: its own, or the policy's.
    pub fn targets(&self, target: f64) -> Vec<f64> {
        self.problem.tasks.iter().map(|task| task.target.unwrap_or(target)).collect()
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Both shares of each task on two core types, from its fast share.
pub(crate) fn rows(fast: Vec<f64>) -> Vec<Vec<f64>> {
    fast.into_iter().map(|fast| vec![fast, 1.0 - fast]).collect()
}
