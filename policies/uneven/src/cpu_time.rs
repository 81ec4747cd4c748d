// SPDX-License-Identifier: GPL-2.0-only
//! c: how much CPU time each task gets, whatever the core types.
//!
//! CPU time is divided in proportion to weights, and no task gets more than its width. It is water
//! filling: all tasks rise to one level, each up to its own limit. If tasks are bound to some core
//! types, those that compete for the scarcest set of types are filled first, and the others share
//! the rest. That is the weighted max-min fair division. With K types there are 2^K - 1 sets to
//! examine.

use crate::problem::{CoreTypes, Problem};

/// CPU time in cores, and the types that a task can still be put on, task by task.
pub(crate) fn divide(problem: &Problem) -> (Vec<f64>, Vec<CoreTypes>) {
    let types = problem.types();
    let mut cpu: Vec<f64> = problem.tasks.iter().map(|task| task.width).collect();
    let mut allowed: Vec<CoreTypes> = (0..cpu.len()).map(|task| problem.allowed(task)).collect();
    let mut waiting: Vec<usize> = (0..cpu.len()).collect();
    while let Some((scarce, level)) = scarcest(problem, &allowed, &waiting) {
        let (served, rest) = waiting.iter().partition(|task| allowed[**task].within(scarce));
        waiting = rest;
        let served: Vec<usize> = served;
        for task in served {
            cpu[task] = brim(problem, task).min(level) * problem.tasks[task].weight;
        }
        for task in &waiting {
            allowed[*task] = allowed[*task].without(scarce);
        }
        if waiting.is_empty() || scarce.count(types) == types {
            break;
        }
    }
    (cpu, allowed)
}

/// The level at which a task has all the CPU time that it can use.
fn brim(problem: &Problem, task: usize) -> f64 {
    problem.tasks[task].width / problem.tasks[task].weight
}

/// The set of types whose tasks stay lowest, and their level; None if every task is full.
fn scarcest(
    problem: &Problem,
    allowed: &[CoreTypes],
    waiting: &[usize],
) -> Option<(CoreTypes, f64)> {
    let mut lowest: Option<(CoreTypes, f64)> = None;
    for set in CoreTypes::subsets(problem.types()) {
        let confined: Vec<usize> =
            waiting.iter().copied().filter(|task| allowed[*task].within(set)).collect();
        let reachable =
            confined.iter().fold(CoreTypes::of(&[]), |all, task| all.with(allowed[*task]));
        if reachable != set {
            continue;
        }
        let cores = set.iter(problem.types()).map(|number| problem.cores[number]).sum();
        if let Some(level) = water_level(problem, confined, cores)
            && lowest.is_none_or(|(_, least)| level < least)
        {
            lowest = Some((set, level));
        }
    }
    lowest
}

/// CPU time for each unit of weight if these tasks fill these cores; None if they cannot.
fn water_level(problem: &Problem, mut tasks: Vec<usize>, cores: f64) -> Option<f64> {
    tasks.sort_by(|a, b| brim(problem, *a).total_cmp(&brim(problem, *b)));
    let mut weight: f64 = tasks.iter().map(|task| problem.tasks[*task].weight).sum();
    let mut left = cores;
    for task in tasks {
        let level = left / weight;
        if level <= brim(problem, task) {
            return Some(level);
        }
        left -= problem.tasks[task].width;
        weight -= problem.tasks[task].weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Base, Task};

    fn cpu(cores: &[f64], tasks: Vec<Task>) -> Vec<f64> {
        divide(&Problem { cores: cores.to_vec(), tasks, base: Base::MaxFair }).0
    }

    fn task() -> Task {
        Task::with_speedup(2.0)
    }

    #[test]
    fn no_task_gets_more_than_its_width_and_the_rest_goes_by_weight() {
        assert_eq!(cpu(&[2.0, 4.0], vec![task(); 3]), [1.0; 3]);
        assert_eq!(cpu(&[2.0, 4.0], vec![task(); 12]), [0.5; 12]);
        let weighted = [1.0, 2.0, 4.0].map(|weight| Task { weight, ..task() });
        let wide = Task { weight: 1.0, width: 4.0, ..task() };
        assert_eq!(cpu(&[1.0, 1.0], weighted.to_vec()), [1.0 / 3.0, 2.0 / 3.0, 1.0]);
        assert_eq!(cpu(&[1.0, 2.0], vec![task(), wide]), [1.0, 2.0]);
    }

    #[test]
    fn those_that_are_bound_to_scarce_cores_share_them_and_the_others_take_the_rest() {
        let fast = Task { allowed: CoreTypes::of(&[0]), ..task() };
        let tasks = vec![fast.clone(), fast.clone(), fast, task(), task()];
        let third = 1.0 / 3.0;
        assert_eq!(cpu(&[1.0, 4.0], tasks), [third, third, third, 1.0, 1.0]);
    }
}
