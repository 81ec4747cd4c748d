// SPDX-License-Identifier: GPL-2.0-only
//! A guest with a stock kernel as a ground.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use machine::Machine;
use policy::table::TYPES_MAX;
use policy::{Profile, Told};
use report::Clock;
use report::text::plural;
use terminal::{Failure, Progress, output};

use crate::contender::{Contender, Outside};
use crate::job::Job;
use crate::measured::Measured;
use crate::plan::{Ground, On, Plan, not_found};

/// A guest in QEMU.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its CPUs, nodes and memory.
    pub shape: vm::Shape,
    /// Work rates of the kinds of cores, as parts of the fastest; empty if not known.
    pub rates: Vec<f64>,
    /// What its clock counts.
    pub clock: vm::Clock,
    /// Longest turn of a CPU, where CPUs run in turn.
    pub turn: Option<Duration>,
    /// How many times it is booted.
    pub boots: usize,
    /// Its kernel, if the user names one.
    pub kernel: Option<PathBuf>,
    /// Its emulator, if the user names one.
    pub emulator: Option<PathBuf>,
    /// Folder for kept boots.
    pub keep: Option<PathBuf>,
    /// Longest run, on its clock.
    pub limit: Duration,
    /// See [`vm::Request`].
    pub or_in_turn: bool,
}

impl Ground for Guest {
    fn on(&self) -> On {
        On::Vm
    }

    fn machine(&self) -> String {
        described(&self.shape)
    }

    fn cpus(&self) -> usize {
        self.shape.cpus
    }

    fn clock(&self) -> Clock {
        clock_of(self.clock)
    }

    fn kinds(&self) -> Result<usize, Failure> {
        Ok(policy::kinds(&self.shape.core_types))
    }

    fn run(&self, plan: &Plan, progress: &Progress) -> Result<Measured, Failure> {
        let agent = std::env::current_exe().map_err(|error| {
            Failure::run(format!("cannot find this program's own file: {error}"))
        })?;
        let bars = progress.bars();
        let request = vm::Request { say: progress.log(), ..self.request(plan)? };
        let kernel = vm::kernel::find(self.kernel.as_deref(), None, bars).map_err(of_vm)?;
        let (outcomes, notes) = vm::run_noted(&request, &agent, bars).map_err(of_vm)?;
        Ok(Measured { outcomes, notes, kernel: Some(kernel.release), ..Measured::default() })
    }

    fn lacks(&self, program: &str) -> String {
        match vm::which(program.as_ref()) {
            Ok(path) => format!(
                "`{program}` was not found in the guest, and did not run; add --with {}",
                path.display()
            ),
            Err(_) => not_found(program),
        }
    }

    fn confirmed_by(&self) -> Option<On> {
        Some(On::Here)
    }
}

impl Guest {
    fn request(&self, plan: &Plan) -> Result<vm::Request, Failure> {
        Ok(vm::Request {
            policies: plan.contenders.iter().map(reference).collect(),
            workload: match (&plan.job, plan.job.json()?) {
                (Job::Command { argv, with }, _) => vm::WorkloadRef::Command {
                    argv: argv.iter().map(Into::into).collect(),
                    with: with.clone(),
                },
                (job, json) => {
                    vm::WorkloadRef::RtApp { name: job.name(), json: json.unwrap_or_default() }
                }
            },
            shape: self.shape.clone(),
            clock: self.clock,
            turn: self.turn,
            boots: self.boots,
            runs_per_boot: plan.runs,
            kernel: self.kernel.clone(),
            emulator: self.emulator.clone(),
            cache: None,
            observe: plan.observe,
            record: plan.record,
            count_locks: plan.locks,
            seed: plan.seed,
            profile: profile(plan, &self.rates),
            limit: self.limit,
            or_in_turn: self.or_in_turn,
            plugin: None,
            keep: self.keep.clone().map(|folder| vm::Keep {
                folder,
                write: |path, bytes| Ok(report::write_whole(path, bytes)?),
            }),
            say: None,
            show: plan.show.then_some(output::say as fn(&str)),
        })
    }
}

/// Errors that the caller can fix have exit code 2; all others are failed runs.
pub fn of_vm(error: anyhow::Error) -> Failure {
    let full = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::StorageFull)
    };
    if let Some(bad) = error.downcast_ref::<vm::BadInput>() {
        return Failure::input(bad);
    }
    match error.chain().any(full) {
        true => {
            Failure::input(format!("{error:#}; make room, or set TMPDIR to where there is some"))
        }
        false => {
            output::say_last(&error);
            Failure::run(format!("{error:#}"))
        }
    }
}

/// Figures of each task of the workload for the policies' control planes: what counters would show, which a guest does
/// not have. Figures from the user take precedence.
fn profile(plan: &Plan, rates: &[f64]) -> Profile {
    let Job::Model { workload, .. } = &plan.job else { return plan.profile.clone() };
    let numbers = |told: Told, task: &workload::Task| match told {
        Told::Misses => Some(vec![task.memory?.mpki]),
        Told::Levels => Some(vec![f64::from(task.widest().level())]),
        Told::Speeds if rates.is_empty() => None,
        Told::Speeds => Some(machine::speeds(rates, task.stalled)),
    };
    // If policies need different figures, the first policy's are used.
    let kinds = rates.len().max(1);
    let mut policies = plan.contenders.iter().filter_map(Contender::policy);
    let told = policies.find_map(|own| own.policy.told(kinds));
    let known = |task: &workload::Task| Some((task.name.clone(), numbers(told?, task)?));
    let mut profile: Profile = workload.tasks.iter().filter_map(known).collect();
    profile.extend(plan.profile.clone());
    profile
}

fn reference(contender: &Contender) -> vm::PolicyRef {
    match contender {
        Contender::Class(_) => vm::PolicyRef::Default,
        Contender::Policy(instance) => vm::PolicyRef::Instance(instance.clone()),
        Contender::Program(Outside { label, argv }) => {
            vm::PolicyRef::Program { label: label.clone(), argv: argv.clone() }
        }
    }
}

/// A guest with `cpus` CPUs; `distance` is that of any other node.
pub fn guest_shape(cpus: u32, nodes: u32, smt: u32, distance: Option<u32>) -> vm::Shape {
    let row =
        |from| (0..nodes).map(move |to| if from == to { 10 } else { distance.unwrap_or(20) as u8 });
    vm::Shape {
        cpus: cpus as usize,
        nodes: nodes as usize,
        smt: smt as usize,
        distances: match distance {
            Some(_) => (0..nodes).map(|from| row(from).collect()).collect(),
            None => Vec::new(),
        },
        ..vm::Shape::default()
    }
}

/// The guest that is most like a machine: its threads, nodes, distances and kinds of cores.
pub fn shape_of(machine: &Machine) -> vm::Shape {
    let mut cores: Vec<u16> = machine.cpus.iter().map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    vm::Shape {
        cpus: machine.cpus.len(),
        nodes: machine.node_distance.len(),
        smt: machine.cpus.len() / cores.len().max(1),
        distances: machine
            .node_distance
            .iter()
            .map(|row| row.iter().map(|distance| (*distance).min(254) as u8).collect())
            .collect(),
        core_types: match machine.kinds(TYPES_MAX) {
            one if one.rates.len() == 1 => Vec::new(),
            kinds => kinds.of,
        },
        clocks: sim::clocks(machine),
        ..vm::Shape::default()
    }
}

/// A guest's clock in results.
pub fn clock_of(clock: vm::Clock) -> Clock {
    match clock {
        vm::Clock::Parallel => Clock::Parallel,
        vm::Clock::Dilated => Clock::Dilated,
        vm::Clock::Icount => Clock::Icount,
        vm::Clock::Threads => Clock::Threads,
    }
}

fn described(shape: &vm::Shape) -> String {
    let mut text = plural(shape.cpus, "CPU");
    if shape.nodes > 1 {
        text += &format!(", {}", plural(shape.nodes, "node"));
    }
    if shape.smt > 1 {
        text += &format!(", {} a core", plural(shape.smt, "thread"));
    }
    text
}
