// SPDX-License-Identifier: GPL-2.0-only
//! The job of a comparison: a command, a workload, or a recording.

use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::Machine;
use terminal::files::text_of;
use terminal::{Failure, meant};
use workload::apps::Apps;
use workload::npb::{Npb, Size};
use workload::programs::Programs;
use workload::{Dialect, Workload};

use crate::hackbench;
use crate::replay::{self, Went};

/// The default seed: any number would do, but the same each time.
pub const SEED: u64 = 1;

/// The job that runs.
#[derive(Clone, Debug)]
pub enum Job {
    /// A command.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Files that it needs and that cannot be found automatically.
        with: Vec<PathBuf>,
    },
    /// A workload.
    Model {
        /// Its name in results.
        name: String,
        /// Its text, if it was read from one.
        json: Option<String>,
        /// Whether all tasks exist before any begins, as with `worker`.
        together: bool,
        /// Each task's acts.
        workload: Box<Workload>,
        /// How its recording went, if it is a replay.
        went: Option<Box<Went>>,
        /// Its name for `--workload`; None: it has none.
        named: Option<String>,
    },
    /// A recording, which is fitted to the machine.
    Recording(PathBuf),
    /// A model of a NAS benchmark, sized for the machine.
    Npb {
        /// The benchmark, such as `lu`.
        name: String,
        /// Tasks for each CPU.
        tasks: usize,
    },
}

/// Built-in workloads: name and rt-app JSON.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("agree-1", include_str!("../../../workloads/agree-1.json")),
    ("agree-2", include_str!("../../../workloads/agree-2.json")),
    ("agree-3", include_str!("../../../workloads/agree-3.json")),
    ("barriers-4", include_str!("../../../workloads/barriers-4.json")),
    ("barriers-8", include_str!("../../../workloads/barriers-8.json")),
    ("barriers-12", include_str!("../../../workloads/barriers-12.json")),
    ("domains-16", include_str!("../../../workloads/domains-16.json")),
    ("domains-200", include_str!("../../../workloads/domains-200.json")),
    ("pulses-8", include_str!("../../../workloads/pulses-8.json")),
    ("pulses-1", include_str!("../../../workloads/pulses-1.json")),
    ("pulses-16", include_str!("../../../workloads/pulses-16.json")),
    ("requests-4", include_str!("../../../workloads/requests-4.json")),
    ("requests-8", include_str!("../../../workloads/requests-8.json")),
    ("requests-16", include_str!("../../../workloads/requests-16.json")),
    ("server-cgroup", include_str!("../../../workloads/server-cgroup.json")),
    ("share", include_str!("../../../workloads/share.json")),
    ("uneven-6", include_str!("../../../workloads/uneven-6.json")),
    ("uneven-programs", include_str!("../../../workloads/uneven-programs.json")),
    ("uneven-cgroups", include_str!("../../../workloads/uneven-cgroups.json")),
    ("uneven-nice", include_str!("../../../workloads/uneven-nice.json")),
    ("x265-avx2", include_str!("../../../workloads/x265-avx2.json")),
    ("x265-avx512", include_str!("../../../workloads/x265-avx512.json")),
];

impl Job {
    /// A workload by its name or file; a recording is read when the machine is known.
    pub fn named(path: &Path) -> Result<Self, Failure> {
        npb(path).map_or_else(|| Job::file(path), Ok)
    }

    /// What comes along under this name, whatever files there are.
    pub fn built_in(name: &str) -> Option<Self> {
        let file = || {
            let (_, json) = WORKLOADS.iter().find(|(known, _)| *known == name)?;
            Job::of_json(name.to_string(), json.to_string()).ok()
        };
        Job::modelled(name).or_else(|| npb_named(name)).or_else(file)
    }

    /// The model of a program of this name.
    fn modelled(name: &str) -> Option<Self> {
        let model = Apps::embedded().build(name).or_else(|| Programs::embedded().build(name));
        model.map(Job::together)
    }

    /// Of a text, which is kept.
    fn of_json(name: String, json: String) -> Result<Self, Failure> {
        let workload = Box::new(workload::rtapp::parse(&name, &json).map_err(Failure::input)?);
        Ok(Job::Model {
            named: Some(name.clone()),
            name,
            json: Some(json),
            together: true,
            workload,
            went: None,
        })
    }

    /// Reads rt-app JSON, or a built-in workload by its name; a recording is read when the machine is known.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        if let Some(model) = Job::modelled(&name).filter(|_| !path.exists()) {
            return Ok(model);
        }
        if replay::is_recording(path) {
            return Ok(Job::Recording(path.to_path_buf()));
        }
        let json = match WORKLOADS.iter().find(|(known, _)| *known == name) {
            Some((_, json)) => json.to_string(),
            None if is_bare(path) && !path.exists() => {
                return Err(Failure::input(format!(
                    "no workload is called `{name}`; {}`paceline list workloads` shows those that come along; \
                     or name a file",
                    meant::proposal(&name, WORKLOADS.iter().map(|(known, _)| *known))
                )));
            }
            None => text_of(path, "it is neither rt-app JSON nor a recording")?,
        };
        if json.is_empty() {
            return Err(Failure::input(format!(
                "{name}: it is empty; write rt-app JSON, or record again"
            )));
        }
        Job::of_json(name, json)
    }

    /// A workload built by the caller; its tasks begin as soon as each is made.
    pub fn built(workload: Workload) -> Self {
        Job::model_of(workload, false)
    }

    fn model_of(workload: Workload, together: bool) -> Self {
        let name = workload.name.clone();
        Job::Model {
            named: Some(name.clone()),
            name,
            json: None,
            together,
            workload: Box::new(workload),
            went: None,
        }
    }

    /// The workload of a recording.
    pub fn replayed(workload: Workload, how: Went) -> Self {
        let mut job = Job::built(workload);
        if let Job::Model { went, .. } = &mut job {
            *went = Some(Box::new(how));
        }
        job
    }

    /// How its recording went, if it is a replay.
    pub fn went(&self) -> Option<&Went> {
        match self {
            Job::Model { went, .. } => went.as_deref(),
            _ => None,
        }
    }

    /// Whether it runs for a fixed time, whatever its progress.
    pub fn lasts(&self) -> bool {
        match self {
            Job::Model { workload, .. } => workload.duration_ns.is_some(),
            _ => false,
        }
    }

    /// Notes about it for the reader.
    pub fn notes(&self) -> Vec<String> {
        self.went().map_or(Vec::new(), Went::notes)
    }

    /// A workload built by the caller; its tasks all exist before any begins.
    pub fn together(workload: Workload) -> Self {
        Job::model_of(workload, true)
    }

    /// Whether all tasks exist before any begins.
    pub fn starts_together(&self) -> bool {
        matches!(self, Job::Model { together: true, .. })
    }

    /// Its name in results.
    pub fn name(&self) -> String {
        match self {
            Job::Command { argv, .. } => argv.join(" "),
            Job::Model { name, .. } => name.clone(),
            Job::Recording(path) => path.display().to_string(),
            Job::Npb { name, .. } => format!("npb-{name}"),
        }
    }

    /// rt-app JSON for `worker`; a command has none.
    pub fn json(&self) -> Result<Option<String>, Failure> {
        match self {
            Job::Command { .. } => Ok(None),
            Job::Npb { name, .. } => Err(only_a_model(name)),
            Job::Recording(path) => Err(only_replayed(path)),
            Job::Model { json: Some(json), .. } => Ok(Some(json.clone())),
            Job::Model { workload, .. } => {
                workload::write(workload, Dialect::Paceline).map(Some).map_err(Failure::input)
            }
        }
    }

    /// The simulator's workload.
    pub fn model(&self) -> Result<Workload, Failure> {
        let argv = match self {
            Job::Npb { name, .. } => return Err(only_a_model(name)),
            Job::Recording(path) => return Err(only_replayed(path)),
            Job::Model { workload, .. } => return Ok((**workload).clone()),
            Job::Command { argv, .. } => argv,
        };
        match hackbench::model(argv) {
            Some(model) => Ok(model.map_err(Failure::Input)?.build()),
            None => Err(Failure::input(format!(
                "sim cannot run {}; record it (`paceline record -o job.trace -- COMMAND`) and name --workload \
                 job.trace, or use --on vm",
                argv[0]
            ))),
        }
    }
}

impl Job {
    /// Fits a job that is sized for its machine, or is a recording, to this one.
    pub fn fit(self, machine: &Machine) -> Result<Self, Failure> {
        Ok(match self {
            Job::Npb { name, tasks } => Job::built(benchmark(&name, tasks, machine.cpus.len())?),
            Job::Recording(path) => {
                let (workload, went) = replay::read(&path, machine)?;
                Job::replayed(workload, went)
            }
            job @ (Job::Command { .. } | Job::Model { .. }) => job,
        })
    }
}

fn only_replayed(path: &Path) -> Failure {
    Failure::input(format!("{} is a recording, which sim replays; use --on sim", path.display()))
}

fn only_a_model(npb: &str) -> Failure {
    Failure::input(format!("npb-{npb} is a model; use --on sim"))
}

/// A word without folder and ending counts as the name of something built in.
fn is_bare(path: &Path) -> bool {
    path.extension().is_none() && path.components().count() == 1
}

/// `npb-NAME` or `npb-NAME-TASKS`, unless there is such a file.
fn npb(path: &Path) -> Option<Job> {
    npb_named(path.to_str()?).filter(|_| !path.exists())
}

fn npb_named(name: &str) -> Option<Job> {
    let text = name.strip_prefix("npb-")?;
    let (name, tasks) = text.split_once('-').unwrap_or((text, "1"));
    let tasks = tasks.parse().ok().filter(|tasks| (1..=16).contains(tasks))?;
    Some(Job::Npb { name: name.to_string(), tasks })
}

/// A model of a NAS benchmark has enough steps to keep a thread at work for this long. With fewer, the start of its
/// team would be most of it.
const NPB_WORK: Duration = Duration::from_secs(1);

/// But it ends when a thread has waited this often, and LU's sweeps after as many planes. With more threads than CPUs
/// every wait is a sleep, or lasts for other threads' slices.
const NPB_WAITS: u64 = 15_000;
const NPB_WAITS_SHARED: u64 = 150;
const NPB_PLANES_SHARED: u64 = 20;

fn benchmark(name: &str, tasks: usize, cpus: usize) -> Result<Workload, Failure> {
    let models = Npb::embedded();
    let (waits, planes_max) = match tasks {
        1 => (NPB_WAITS, u64::MAX),
        _ => (NPB_WAITS_SHARED, NPB_PLANES_SHARED),
    };
    let size = Size { threads: tasks * cpus, cpus, steps_max: u64::MAX, planes_max, seed: SEED };
    let workload = models.build_for(name, size, NPB_WORK.as_nanos() as u64, waits);
    workload.map(|built| Workload { name: format!("npb-{name}-{tasks}"), ..built }).ok_or_else(
        || {
            let known: Vec<String> = models.names().map(|name| format!("npb-{name}")).collect();
            Failure::input(format!(
                "no workload is called npb-{name}; there are: {}",
                known.join(", ")
            ))
        },
    )
}
