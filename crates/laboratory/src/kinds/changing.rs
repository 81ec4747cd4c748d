// SPDX-License-Identifier: GPL-2.0-only
//! A load that changes: one load of the matrix after another, each with the same start after the last one's. An oracle
//! that switches schedulers with the load, at no cost, has in each the best speed of the default class and the policies
//! of one mechanism.

use std::collections::BTreeMap;

use comparison::{Contender, contender};
use measuring::find_machine;
use serde::Deserialize;
use sim::{Change, Fault, Scenario, Traced};
use terminal::Failure;
use workload::{Task, Workload, program_of};

use crate::kind::{Kind, Sample, Setting};
use crate::kinds::matrix::{DEFAULT, Matrix, geometric_mean, scenarios};
use crate::measure::Laboratory;

const SECOND_NS: f64 = 1e9;

/// A policy's speed under a load that changes, as a part of an oracle's: a value for each seed. Speeds are geometric
/// means of programs, then of loads. A program's speed is its work until the next load begins, or the inverse of its
/// time if it ends by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changing {
    /// The policy.
    of: String,
    /// The simulated machine.
    machine: String,
    /// Loads of the matrix, in order. Only the first may have objects that tasks share.
    loads: Vec<String>,
    /// Time from one load to the next.
    every_s: f64,
    /// Seeds; one with `--quick`.
    seeds: u64,
}

impl Kind for Changing {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let matrix = Matrix::of(lab.paper)?;
        let singles = contender::parse_all(&[DEFAULT, &matrix.singles].map(String::from))?;
        let own = Contender::parse(&self.of)?;
        let loads = self.loads(matrix)?;
        let seeds = if lab.effort.quick { 1 } else { self.seeds };
        lab.progress.phase(&format!("loads that change on {}", self.machine));
        let speeds = self.speeds(&[own], &loads, seeds)?;
        let mut best = vec![vec![0.0_f64; loads.len()]; seeds as usize];
        for (at, load) in loads.iter().enumerate() {
            lab.progress.phase(&format!("{} alone on {}", self.loads[at], self.machine));
            for (seed, speeds) in self.speeds(&singles, std::slice::from_ref(load), seeds)? {
                best[seed][at] = best[seed][at].max(speeds[0]);
            }
        }
        let ratio = |(seed, speeds): (usize, Vec<f64>)| {
            geometric_mean(speeds.iter().zip(&best[seed]).map(|(own, best)| own / best))
        };
        Ok(speeds.into_iter().map(ratio).collect::<Vec<_>>().into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

impl Changing {
    fn loads(&self, matrix: &Matrix) -> Result<Vec<Workload>, Failure> {
        let cpus = find_machine(&self.machine)?.cpus.len();
        self.loads.iter().map(|name| matrix.load(name, cpus, 1.0)).collect()
    }

    fn every_ns(&self) -> u64 {
        (self.every_s * SECOND_NS) as u64
    }

    /// These loads one after another, and the ends of their tasks.
    fn sequence(&self, loads: &[Workload]) -> Result<(Workload, Vec<Fault>), Failure> {
        let mut all = Workload { tasks: Vec::new(), duration_ns: None, ..loads[0].clone() };
        let mut ends = Vec::new();
        for (at, load) in loads.iter().enumerate() {
            if at > 0 && !load.objects.is_empty() {
                let why = format!("load {} has objects: it has to be the first one", load.name);
                return Err(Failure::input(why));
            }
            let first = all.tasks.iter().map(|task| task.process).max().unwrap_or(0);
            let begins_ns = at as u64 * self.every_ns();
            for task in &load.tasks {
                if load.duration_ns.is_some() {
                    let at_ns = begins_ns + self.every_ns();
                    ends.push(Fault { at_ns, change: Change::End(all.tasks.len()) });
                }
                all.tasks.push(Task {
                    process: first + task.process,
                    delay_ns: begins_ns + task.delay_ns,
                    ..task.clone()
                });
            }
        }
        Ok((all, ends))
    }

    /// For each policy and seed: the seed, and the speed in each load.
    fn speeds(
        &self,
        contenders: &[Contender],
        loads: &[Workload],
        seeds: u64,
    ) -> Result<Vec<(usize, Vec<f64>)>, Failure> {
        let machine = find_machine(&self.machine)?;
        let (workload, ends) = self.sequence(loads)?;
        let scenarios = scenarios(contenders, seeds, |scheduler, _| Scenario {
            faults: ends.clone(),
            ..Scenario::new(machine.clone(), workload.clone(), scheduler)
        })?;
        let ran = sim::trace_all(&scenarios).into_iter().enumerate().map(|(at, traced)| {
            let traced = traced.map_err(|error| Failure::run(error.to_string()))?;
            Ok((at % seeds as usize, self.speed(&workload, &traced, loads)?))
        });
        ran.collect()
    }

    /// The speed in each load.
    fn speed(
        &self,
        workload: &Workload,
        traced: &Traced,
        loads: &[Workload],
    ) -> Result<Vec<f64>, Failure> {
        let mut programs: Vec<BTreeMap<&str, f64>> = vec![BTreeMap::new(); loads.len()];
        let of_tasks =
            workload.tasks.iter().zip(&traced.ended_ns).zip(traced.outcome.progress.values());
        let numbers =
            loads.iter().enumerate().flat_map(|(at, load)| load.tasks.iter().map(move |_| at));
        for (at, ((task, ended_ns), work_ns)) in numbers.zip(of_tasks) {
            let name = program_of(&task.name);
            if loads[at].duration_ns.is_some() {
                *programs[at].entry(name).or_default() += work_ns;
                continue;
            }
            let begun_ns = at as u64 * self.every_ns();
            let took_ns = ended_ns.filter(|ended_ns| *ended_ns < begun_ns + self.every_ns());
            let late = || Failure::input(format!("{name} runs into the next load"));
            let speed = SECOND_NS / (took_ns.ok_or_else(late)? - begun_ns).max(1) as f64;
            let slowest = programs[at].entry(name).or_insert(speed);
            *slowest = slowest.min(speed);
        }
        let mean =
            |of: BTreeMap<&str, f64>| geometric_mean(of.into_values().map(|speed| speed.max(1e-9)));
        Ok(programs.into_iter().map(mean).collect())
    }
}
