// SPDX-License-Identifier: GPL-2.0-only
//! Models of the NAS Parallel Benchmarks with OpenMP: work between barriers.
//!
//! A step consists of loops. A thread does its part of each loop and waits for the others at a barrier, where it spins
//! as libgomp does and then blocks. MG's loops get eight times shorter from level to level. LU sweeps planes in which
//! each thread spins on flags of its neighbours. Every number is data, with its source: `workloads/npb.toml`.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use crate::model::{Task, Workload};
use crate::step::{Object, ObjectId, Step};

/// A number of `npb.toml`: its unit, source and tag are for readers.
#[derive(Clone, Debug, Deserialize)]
struct Quantity {
    value: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Common {
    operations_per_s: Quantity,
    imbalance: Quantity,
    spins: Quantity,
    spins_oversubscribed: Quantity,
    spin_ns: Quantity,
}

#[derive(Clone, Debug, Deserialize)]
struct Kernel {
    gops: Quantity,
    steps: Quantity,
    barriers: Quantity,
    levels: Option<Quantity>,
    planes: Option<Quantity>,
    rows: Option<Quantity>,
}

impl Kernel {
    /// How often a thread waits for others in one step.
    fn waits(&self, size: Size) -> u64 {
        let number =
            |quantity: &Option<Quantity>, or| quantity.as_ref().map_or(or, |q| q.value) as u64;
        let loops = self.barriers.value as u64 * number(&self.levels, 1.0);
        loops + 2 * number(&self.planes, 0.0).min(size.planes_max)
    }
}

/// The benchmarks.
#[derive(Clone, Debug, Deserialize)]
pub struct Npb {
    common: Common,
    #[serde(flatten)]
    kernels: BTreeMap<String, Kernel>,
}

/// How a benchmark is run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// OpenMP threads.
    pub threads: usize,
    /// CPUs of the machine: libgomp spins less where threads outnumber them.
    pub cpus: usize,
    /// Limit on the number of steps, to bound a simulation.
    pub steps_max: u64,
    /// Limit on the number of planes of each sweep of LU; a thread's work in one plane stays the same.
    pub planes_max: u64,
    /// Seed of the imbalance.
    pub seed: u64,
}

impl Npb {
    /// The models that come with the program.
    pub fn embedded() -> Npb {
        let text = include_str!("../../../workloads/npb.toml");
        toml::from_str(text).expect("a test reads the embedded file")
    }

    /// Their names: bt, cg, ep, ft, is, lu, mg, sp.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// The workload of one benchmark, with as many steps as give each thread `work_ns` of work, alone on the reference
    /// CPU. It has fewer steps if each thread then has waited for others `waits` times. It has at least one step, and
    /// never more than `size` allows. None if there is no benchmark of this name.
    pub fn build_for(&self, name: &str, size: Size, work_ns: u64, waits: u64) -> Option<Workload> {
        let steps_max = self.steps(name, size, work_ns, waits)?.min(size.steps_max);
        self.build(name, Size { steps_max, ..size })
    }

    fn steps(&self, name: &str, size: Size, work_ns: u64, waits: u64) -> Option<u64> {
        let kernel = self.kernels.get(name)?;
        let by_work = (work_ns as f64 / self.step_ns(kernel, size.threads)).ceil() as u64;
        let by_waits = waits / kernel.waits(size).max(1);
        Some(by_work.min(by_waits).clamp(1, kernel.steps.value as u64))
    }

    /// One thread's work in one step, if evenly divided.
    fn step_ns(&self, kernel: &Kernel, threads: usize) -> f64 {
        let operations = kernel.gops.value * 1e9 / (kernel.steps.value * threads as f64);
        operations * 1e9 / self.common.operations_per_s.value
    }

    /// The workload of one benchmark; None if there is none of this name.
    pub fn build(&self, name: &str, size: Size) -> Option<Workload> {
        let kernel = self.kernels.get(name)?;
        let spins = match size.threads > size.cpus {
            true => &self.common.spins_oversubscribed,
            false => &self.common.spins,
        };
        let mut workload = Workload {
            name: format!("npb {name}, {} threads", size.threads),
            ..Workload::default()
        };
        let mut builder = Builder {
            size,
            spin_ns: (spins.value * self.common.spin_ns.value) as u64,
            imbalance: self.common.imbalance.value,
            step_ns: self.step_ns(kernel, size.threads),
            rng: Pcg64Mcg::seed_from_u64(size.seed),
            workload: &mut workload,
        };
        let steps = builder.step(kernel);
        let times = (kernel.steps.value as u64).min(size.steps_max);
        builder.tasks(steps, times);
        Some(workload)
    }
}

struct Builder<'w> {
    size: Size,
    spin_ns: u64,
    imbalance: f64,
    /// One thread's work in one step, if evenly divided.
    step_ns: f64,
    rng: Pcg64Mcg,
    workload: &'w mut Workload,
}

impl Builder<'_> {
    /// The steps of each thread in one step of the benchmark.
    fn step(&mut self, kernel: &Kernel) -> Vec<Vec<Step>> {
        let mut threads = vec![Vec::new(); self.size.threads];
        // A sweep of planes does half of what LU computes, forward and back, and ends at a barrier.
        let planes = kernel.planes.as_ref().map_or(0, |planes| planes.value as usize);
        let barriers = kernel.barriers.value as usize;
        let loops = if planes > 0 { barriers - SWEEPS } else { barriers.max(1) };
        let ends = barriers > 0;
        let barrier = self.barrier(self.size.threads);
        let looped_ns = if planes > 0 { self.step_ns / 2.0 } else { self.step_ns };
        for share in level_shares(kernel.levels.as_ref().map_or(1, |levels| levels.value as u32)) {
            for _ in 0..loops {
                self.work(&mut threads, looped_ns * share / loops as f64);
                if ends {
                    threads.iter_mut().for_each(|steps| steps.push(Step::Barrier(barrier)));
                }
            }
        }
        if planes > 0 {
            let sweeps_ns = (self.step_ns - looped_ns) * threads.len() as f64;
            // A flag belongs to a row: threads beyond the rows have none, and wait for the sweep's end.
            let rows = kernel.rows.as_ref().map_or(threads.len(), |rows| rows.value as usize);
            let sharing = rows.min(threads.len());
            let plane_ns = sweeps_ns / (SWEEPS * planes * sharing) as f64;
            let planes = planes.min(self.size.planes_max as usize);
            let flags: Vec<ObjectId> = (0..sharing).map(|_| self.flag()).collect();
            for forward in [true, false] {
                self.sweep(&mut threads[..sharing], &flags, (planes, plane_ns), forward);
                threads.iter_mut().for_each(|steps| steps.push(Step::Barrier(barrier)));
            }
        }
        threads
    }

    /// Lower or upper sweep, as in blts and buts of LU/lu.c. A thread starts a plane when the neighbour before it has
    /// raised its flag, and the neighbour behind it has lowered the thread's own. Both are done with that plane then.
    fn sweep(
        &mut self,
        threads: &mut [Vec<Step>],
        flags: &[ObjectId],
        (planes, plane_ns): (usize, f64),
        forward: bool,
    ) {
        let count = threads.len();
        for _ in 0..planes {
            for (at, steps) in threads.iter_mut().enumerate() {
                let (left, right) = (at.checked_sub(1), Some(at + 1).filter(|at| *at < count));
                let (before, behind) = if forward { (left, right) } else { (right, left) };
                let (before, own) = (before.map(|at| flags[at]), behind.map(|_| flags[at]));
                let work_ns = self.part_ns(plane_ns);
                steps.extend(before.map(|flag| Step::Await { flag, up: true }));
                steps.extend(own.map(|flag| Step::Await { flag, up: false }));
                steps.push(Step::Run { work_ns });
                steps.extend(before.map(|flag| Step::Set { flag, up: false }));
                steps.extend(own.map(|flag| Step::Set { flag, up: true }));
            }
        }
    }

    fn work(&mut self, threads: &mut [Vec<Step>], mean_ns: f64) {
        for steps in threads {
            let work_ns = self.part_ns(mean_ns);
            steps.push(Step::Run { work_ns });
        }
    }

    fn part_ns(&mut self, mean_ns: f64) -> u64 {
        let off = self.imbalance * (2.0 * self.rng.random::<f64>() - 1.0);
        (mean_ns * (1.0 + off)).max(1.0) as u64
    }

    fn barrier(&mut self, parties: usize) -> ObjectId {
        let barrier = Object::Barrier { parties: parties as u32, spin_ns: self.spin_ns };
        self.workload.objects.push(barrier);
        self.workload.objects.len() - 1
    }

    fn flag(&mut self) -> ObjectId {
        self.workload.objects.push(Object::Flag);
        self.workload.objects.len() - 1
    }

    /// As in libgomp's team, all threads wait for each other before the first loop starts.
    fn tasks(&mut self, threads: Vec<Vec<Step>>, times: u64) {
        let dock = self.barrier(threads.len());
        for (at, steps) in threads.into_iter().enumerate() {
            let steps = vec![Step::Barrier(dock), Step::Repeat { times: Some(times), steps }];
            self.workload.tasks.push(Task { name: format!("omp-{at}"), steps, ..Task::default() });
        }
    }
}

/// Sweeps of LU in a step.
const SWEEPS: usize = 2;

/// Parts of the work on each level, the finest first; they sum to 1.
fn level_shares(levels: u32) -> Vec<f64> {
    let parts: Vec<f64> = (0..levels).map(|level| 8f64.powi(-(level as i32))).collect();
    let sum: f64 = parts.iter().sum();
    parts.iter().map(|part| part / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { threads: 12, cpus: 12, steps_max: 3, planes_max: u64::MAX, seed: 1 };

    fn work_ns(steps: &[Step]) -> u64 {
        steps
            .iter()
            .map(|step| match step {
                Step::Run { work_ns } => *work_ns,
                Step::Repeat { times, steps } => times.unwrap_or(0) * work_ns(steps),
                _ => 0,
            })
            .sum()
    }

    #[test]
    fn all_eight_are_there() {
        let names: Vec<String> = Npb::embedded().names().map(String::from).collect();
        assert_eq!(names, ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp"]);
        assert!(Npb::embedded().build("dc", SIZE).is_none());
    }

    #[test]
    fn every_number_says_where_it_comes_from() {
        let text = include_str!("../../../workloads/npb.toml");
        let file: BTreeMap<String, BTreeMap<String, toml::Table>> = toml::from_str(text).unwrap();
        for (name, quantity) in file.values().flatten() {
            for key in ["value", "unit", "source", "tag"] {
                assert!(quantity.contains_key(key), "{name} lacks {key}");
            }
        }
    }

    #[test]
    fn the_work_does_not_depend_on_the_threads() {
        let npb = Npb::embedded();
        for name in npb.names() {
            let total = |threads| {
                let size = Size { threads, steps_max: u64::MAX, ..SIZE };
                let workload = npb.build(name, size).unwrap();
                workload.tasks.iter().map(|task| work_ns(&task.steps)).sum::<u64>() as f64
            };
            let gops = npb.kernels[name].gops.value * 1e9;
            let wanted_ns = gops * 1e9 / npb.common.operations_per_s.value;
            for threads in [4, 228] {
                let ratio = total(threads) / wanted_ns;
                assert!((0.95..1.05).contains(&ratio), "{name}, {threads} threads: {ratio}");
            }
        }
    }

    #[test]
    fn so_many_steps_keep_a_thread_at_work_for_so_long() {
        let npb = Npb::embedded();
        let size = Size { threads: 228, cpus: 228, planes_max: 10, ..SIZE };
        let worked_ns = |name, steps_max| {
            let workload = npb.build(name, Size { steps_max, ..size }).unwrap();
            work_ns(&workload.tasks[7].steps) as f64
        };
        let steps = npb.steps("cg", size, 100_000_000, u64::MAX).unwrap();
        let ratio = worked_ns("cg", steps) / 100e6;
        assert!((0.95..1.05).contains(&ratio), "{steps} steps of cg: {ratio}");
        assert_eq!(npb.steps("cg", size, u64::MAX, u64::MAX), Some(1875), "never more than all");
        assert_eq!(npb.steps("cg", size, u64::MAX, 70), Some(10), "seven waits a step");
        assert_eq!(
            npb.steps("lu", size, u64::MAX, 62),
            Some(2),
            "11 barriers and 20 planes a step"
        );
        assert_eq!(npb.steps("sp", size, 1, 1), Some(1), "one at least");
        assert_eq!(npb.steps("dc", size, 1, 1), None);
    }

    #[test]
    fn fewer_planes_are_no_shorter() {
        let planes = |planes_max| {
            let lu = Npb::embedded().build("lu", Size { planes_max, ..SIZE }).unwrap();
            let Step::Repeat { steps, .. } = &lu.tasks[5].steps[1] else { panic!() };
            let works = steps.iter().filter_map(|step| match step {
                Step::Run { work_ns } => Some(*work_ns),
                _ => None,
            });
            works.skip(9).collect::<Vec<u64>>()
        };
        let (few, all) = (planes(10), planes(u64::MAX));
        assert_eq!((few.len(), all.len()), (20, 200));
        let mean = |works: &[u64]| works.iter().sum::<u64>() as f64 / works.len() as f64;
        assert!((mean(&few) / mean(&all) - 1.0).abs() < 0.05);
    }

    #[test]
    fn threads_meet_as_often_as_each_other() {
        for name in ["bt", "mg", "lu", "sp"] {
            let workload = Npb::embedded().build(name, SIZE).unwrap();
            let mut uses = vec![0u64; workload.objects.len()];
            for task in &workload.tasks {
                let [dock, Step::Repeat { steps, .. }] = task.steps.as_slice() else { panic!() };
                for step in steps.iter().chain([dock]) {
                    if let Step::Barrier(id) = step {
                        uses[*id] += 1;
                    }
                }
            }
            for (uses, object) in uses.iter().zip(&workload.objects) {
                let Object::Barrier { parties, .. } = object else { continue };
                assert_eq!(uses % u64::from(*parties), 0, "{name}");
                assert!(*uses > 0, "{name}");
            }
        }
    }

    /// Each thread is run by hand as far as possible. No thread is stuck; no raised flag is raised again, and no
    /// lowered flag is lowered again.
    #[test]
    fn a_sweep_hands_each_plane_on() {
        let lu = Npb::embedded().build("lu", Size { planes_max: 4, steps_max: 1, ..SIZE }).unwrap();
        let swept = |task: &Task| match task.steps.as_slice() {
            [_, Step::Repeat { steps, .. }] => steps[18..].to_vec(),
            _ => panic!(),
        };
        let threads: Vec<Vec<Step>> = lu.tasks.iter().map(swept).collect();
        let (mut at, mut up) = (vec![0; threads.len()], vec![false; lu.objects.len()]);
        let (mut arrived, mut passed) = (vec![0; threads.len()], vec![0; threads.len()]);
        for _ in 0..1000 {
            for (thread, steps) in threads.iter().enumerate() {
                match steps.get(at[thread]) {
                    None => continue,
                    Some(Step::Await { flag, up: wanted }) if up[*flag] != *wanted => continue,
                    Some(Step::Set { flag, up: new }) => {
                        assert_ne!(std::mem::replace(&mut up[*flag], *new), *new);
                    }
                    Some(Step::Barrier(_)) => {
                        arrived[thread] = passed[thread] + 1;
                        if arrived.iter().any(|round| *round < arrived[thread]) {
                            continue;
                        }
                        passed[thread] += 1;
                    }
                    Some(_) => {}
                }
                at[thread] += 1;
            }
        }
        assert!(threads.iter().zip(&at).all(|(steps, at)| *at == steps.len()), "{at:?}");
        assert!(up.iter().all(|up| !up));
    }

    #[test]
    fn no_more_threads_sweep_than_there_are_rows() {
        let size = Size { threads: 228, cpus: 228, planes_max: 10, ..SIZE };
        let lu = Npb::embedded().build("lu", size).unwrap();
        let flags = lu.objects.iter().filter(|object| **object == Object::Flag).count();
        assert_eq!(flags, 100);
        let planes = |task: &Task| match task.steps.as_slice() {
            [_, Step::Repeat { steps, .. }] => {
                steps.iter().filter(|step| matches!(step, Step::Run { .. })).count() - 9
            }
            _ => panic!(),
        };
        assert_eq!((planes(&lu.tasks[99]), planes(&lu.tasks[100])), (20, 0));
    }

    #[test]
    fn one_seed_gives_one_workload() {
        let npb = Npb::embedded();
        assert_eq!(npb.build("cg", SIZE), npb.build("cg", SIZE));
        assert_ne!(npb.build("cg", SIZE), npb.build("cg", Size { seed: 2, ..SIZE }));
    }
}
