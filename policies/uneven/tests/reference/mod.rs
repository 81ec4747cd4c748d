// SPDX-License-Identifier: GPL-2.0-only
//! The linear programs that shares have to solve, written down from their definition and handed to
//! a solver that the crate itself does not use.

use microlp::{ComparisonOp, OptimizationDirection, Variable};
use uneven::{Base, Problem};

/// The least that every task gets.
#[derive(Clone, Copy)]
pub enum Least {
    Nothing,
    /// A part of the base's performance.
    Target(f64),
    /// A part of the even share of each type but the slowest.
    PartOfEven(f64),
}

/// F of each type where every task may run anywhere: fast cores first.
pub fn even(problem: &Problem, cpu: &[f64]) -> Vec<f64> {
    let time: f64 = cpu.iter().sum();
    let mut rest = time;
    let part = |cores: &f64| {
        let used = cores.min(rest);
        rest -= used;
        used / time
    };
    problem.cores.iter().map(part).collect()
}

/// A base's speed for each task.
pub fn base(problem: &Problem, even: &[f64]) -> Vec<f64> {
    let of = |speeds: &Vec<f64>| match problem.base {
        Base::MaxFair => speeds.iter().zip(even).map(|(speed, part)| speed * part).sum(),
        Base::SlowCore => speeds[speeds.len() - 1],
        Base::FastCore => speeds[0],
    };
    problem.tasks.iter().map(|task| of(&task.speeds)).collect()
}

/// The greatest sum of c r over all shares.
pub fn most(problem: &Problem, cpu: &[f64], least: Least) -> f64 {
    let even = even(problem, cpu);
    let base = base(problem, &even);
    let mut program = microlp::Problem::new(OptimizationDirection::Maximize);
    let vars = times(&mut program, problem, cpu, |task, number| {
        problem.tasks[task].speeds[number] / base[task]
    });
    for (task, own) in vars.iter().enumerate() {
        match least {
            Least::Nothing => {}
            Least::Target(target) => {
                let terms: Vec<_> =
                    own.iter().copied().zip(problem.tasks[task].speeds.iter().copied()).collect();
                program.add_constraint(terms, ComparisonOp::Ge, target * base[task] * cpu[task]);
            }
            Least::PartOfEven(part) => {
                for (number, var) in own.iter().enumerate().take(even.len() - 1) {
                    let wanted = part * even[number] * cpu[task];
                    program.add_constraint([(*var, 1.0)], ComparisonOp::Ge, wanted);
                }
            }
        }
    }
    program.solve().unwrap().into_solution().unwrap().objective()
}

/// The greatest level that every task can reach.
pub fn level(problem: &Problem, cpu: &[f64]) -> f64 {
    let base = base(problem, &even(problem, cpu));
    let mut program = microlp::Problem::new(OptimizationDirection::Maximize);
    let level = program.add_var(1.0, (0.0, f64::INFINITY));
    let vars = times(&mut program, problem, cpu, |_, _| 0.0);
    for (task, own) in vars.iter().enumerate() {
        let speeds = problem.tasks[task].speeds.iter().copied();
        let mut terms: Vec<_> = own.iter().copied().zip(speeds).collect();
        terms.push((level, -base[task] * cpu[task]));
        program.add_constraint(terms, ComparisonOp::Ge, 0.0);
    }
    program.solve().unwrap().into_solution().unwrap().objective()
}

/// A variable for the time of each task on each type, with the rows of all cores and of all time.
fn times(
    program: &mut microlp::Problem,
    problem: &Problem,
    cpu: &[f64],
    gain: impl Fn(usize, usize) -> f64,
) -> Vec<Vec<Variable>> {
    let types = problem.cores.len();
    let mut vars = Vec::new();
    for (task, cpu) in cpu.iter().enumerate() {
        let own: Vec<Variable> = (0..types)
            .map(|number| program.add_var(gain(task, number), (0.0, f64::INFINITY)))
            .collect();
        let all: Vec<_> = own.iter().map(|var| (*var, 1.0)).collect();
        program.add_constraint(all, ComparisonOp::Eq, *cpu);
        vars.push(own);
    }
    for (number, cores) in problem.cores.iter().enumerate() {
        let used: Vec<_> = vars.iter().map(|own| (own[number], 1.0)).collect();
        program.add_constraint(used, ComparisonOp::Le, *cores);
    }
    vars
}
