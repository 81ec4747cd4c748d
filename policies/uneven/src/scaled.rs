// SPDX-License-Identifier: GPL-2.0-only
//! Scaled load balancing (slide 21; Li and others, SC'07): more tasks on a faster core, whatever
//! they gain.
//!
//! A core's scaled load is the weight of its tasks divided by its computing power, one number for
//! each type. Threads are placed one after another, in the order given, where the scaled load stays
//! least. They stay there, so one thread has all its time on one type.

use crate::Error;
use crate::problem::Problem;
use crate::start::Start;

/// CPU time of each task, and its shares. `powers`: computing power of each type; by default the
/// mean speed of all tasks on it. Errors: fractional cores.
pub(crate) fn place(
    start: &Start,
    powers: Option<&[f64]>,
) -> Result<(Vec<f64>, Vec<Vec<f64>>), Error> {
    let problem = start.problem;
    let powers = powers.map_or_else(|| mean_speeds(problem), <[f64]>::to_vec);
    let mut cores = cores(problem)?;
    let mut placed = Vec::new();
    for (index, task) in problem.tasks.iter().enumerate() {
        let threads = task.width.ceil();
        let weight = task.weight / threads;
        for _ in 0..threads as usize {
            let allowed = problem.allowed(index);
            let scaled = |core: &Core| (core.load + weight) / powers[core.number];
            let free = cores.iter_mut().filter(|core| allowed.has(core.number));
            let core = free.min_by(|a, b| scaled(a).total_cmp(&scaled(b)));
            let core = core.expect("a task may run on one type at least");
            core.load += weight;
            placed.push((index, weight, core.at));
        }
    }
    let mut times = vec![vec![0.0; problem.types()]; problem.tasks.len()];
    for (task, weight, core) in placed {
        times[task][cores[core].number] += weight / cores[core].load;
    }
    let cpu: Vec<f64> = times.iter().map(|times| times.iter().sum()).collect();
    for (times, cpu) in times.iter_mut().zip(&cpu) {
        times.iter_mut().for_each(|time| *time /= cpu);
    }
    Ok((cpu, times))
}

struct Core {
    at: usize,
    number: usize,
    load: f64,
}

/// Every core, fastest first.
fn cores(problem: &Problem) -> Result<Vec<Core>, Error> {
    let mut all = Vec::new();
    for (number, cores) in problem.cores.iter().enumerate() {
        if cores.fract() != 0.0 {
            return Err(Error::Fraction { number: number + 1, cores: *cores });
        }
        for _ in 0..*cores as usize {
            all.push(Core { at: all.len(), number, load: 0.0 });
        }
    }
    Ok(all)
}

fn mean_speeds(problem: &Problem) -> Vec<f64> {
    let mean = |number: usize| {
        problem.tasks.iter().map(|task| task.speeds[number]).sum::<f64>()
            / problem.tasks.len() as f64
    };
    (0..problem.types()).map(mean).collect()
}
