// SPDX-License-Identifier: GPL-2.0-only
//! A comparison's inputs, checked before anything runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::{CpuSet, Machine};
use policy::Profile;
use policy::table::TYPES_MAX;
use record::Detail;
use report::Clock;
use report::text::plural;
use workload::apps::Apps;
use workload::npb::{Npb, Size};
use workload::programs::Programs;
use workload::{Dialect, Workload};

use crate::cli::{self, Ground};
use crate::contender::{self, Class, Contender, Model};
use crate::failure::{Failure, failed};
use crate::files::text_of;
use crate::here::{self, Here};
use crate::machines::{core_types, find_machine};
use crate::profile::Given;
use crate::replay::Went;
use crate::{hackbench, meant, output, replay, turbo};

/// A comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The participants, in the order of the results.
    pub contenders: Vec<Contender>,
    /// The job that runs under each.
    pub job: Job,
    /// The ground.
    pub place: Place,
    /// Runs of each contender; if the ground boots, in each boot.
    pub runs: usize,
    /// The seed of the first run; others follow from it.
    pub seed: u64,
    /// Speeds of programs on each kind of core, from the user's profile.
    pub profile: Profile,
    /// The file of the profile.
    pub profile_file: Option<PathBuf>,
    /// Count locks beyond the runqueue's own.
    pub locks: bool,
    /// Show the workload's output as it is written.
    pub show: bool,
    /// Run it again with the observer attached, if the ground is a guest.
    pub observe: bool,
    /// Run it once more with the recorder.
    pub record: Option<Detail>,
    /// Keep the scheduling events of each contender's first run, if the ground is simulated.
    pub events: bool,
}

/// The job that runs.
#[derive(Clone, Debug)]
pub enum Job {
    /// A program and its arguments, and files that it needs and that cannot be found automatically.
    Command { argv: Vec<String>, with: Vec<PathBuf> },
    /// A workload: its name, each task's acts, its text if it was read from one, and whether all tasks exist before any
    /// begins, as with `worker`.
    Model {
        name: String,
        json: Option<String>,
        together: bool,
        workload: Box<Workload>,
        /// How its recording went, if it is a replay.
        went: Option<Box<Went>>,
        /// Its name for `--workload`; None: it has none.
        named: Option<String>,
    },
    /// A recording, which is fitted to the machine.
    Recording(PathBuf),
    /// A model of a NAS benchmark, sized for the machine: `tasks` tasks for each of its CPUs.
    Npb { name: String, tasks: usize },
}

/// The ground of a comparison.
#[derive(Clone, Debug)]
pub enum Place {
    /// The simulator; `named` is the user's name for the machine, or a file. Faults happen in each run.
    Sim { machine: Box<Machine>, named: String, limit: Duration, faults: Vec<sim::Fault> },
    /// The guest.
    Vm {
        shape: vm::Shape,
        /// Work rates of the kinds of cores, as parts of the fastest; empty if not known.
        rates: Vec<f64>,
        clock: vm::Clock,
        turn: Option<Duration>,
        boots: usize,
        kernel: Option<PathBuf>,
        /// Folder for kept boots.
        keep: Option<PathBuf>,
        limit: Duration,
        /// See [`vm::Request`].
        or_in_turn: bool,
    },
    /// This machine.
    Here(Here),
}

/// Built-in workloads: name and rt-app JSON.
pub const WORKLOADS: &[(&str, &str)] = &[
    ("agree-1", include_str!("../../../workloads/agree-1.json")),
    ("agree-2", include_str!("../../../workloads/agree-2.json")),
    ("agree-3", include_str!("../../../workloads/agree-3.json")),
    ("domains-16", include_str!("../../../workloads/domains-16.json")),
    ("domains-200", include_str!("../../../workloads/domains-200.json")),
    ("share", include_str!("../../../workloads/share.json")),
    ("uneven-6", include_str!("../../../workloads/uneven-6.json")),
    ("uneven-programs", include_str!("../../../workloads/uneven-programs.json")),
    ("uneven-cgroups", include_str!("../../../workloads/uneven-cgroups.json")),
    ("uneven-nice", include_str!("../../../workloads/uneven-nice.json")),
    ("x265-avx2", include_str!("../../../workloads/x265-avx2.json")),
    ("x265-avx512", include_str!("../../../workloads/x265-avx512.json")),
];

/// The default seed: any number would do, but the same each time.
pub const SEED: u64 = 1;
/// The default number of boots of the guest.
const BOOTS: u32 = 3;
/// The default simulated machine.
const MACHINE: &str = "numa-2x4";
/// The default number of CPUs of the guest.
const CPUS: u32 = 8;
const NODES: u32 = 4;

/// The longest limit: the kernel's timers take no more than some hundred years.
const LIMIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn limit(arguments: &cli::Compare) -> Duration {
    Duration::from(arguments.limit).min(LIMIT_MAX)
}

impl Plan {
    /// Whether there are kernels that can load the policy of this label.
    pub fn is_real(&self, label: &str) -> bool {
        let mut own = self.contenders.iter().filter(|one| one.label() == label);
        own.any(|one| !matches!(one, Contender::Class(class) if !class.in_guest))
    }

    /// Checks the command line.
    pub fn new(arguments: &cli::Compare) -> Result<Self, Failure> {
        let contenders = contender::parse_all(&arguments.policy)?;
        let mut job = Job::new(arguments)?;
        if Duration::from(arguments.limit).is_zero() {
            return Err(Failure::input("--limit: expected a time of more than 0, such as 90s"));
        }
        if arguments.on != Ground::Sim {
            let why =
                "is for --on sim; `paceline record --perfetto` has the timeline of a real kernel";
            refuse(&[("--perfetto", arguments.exports.perfetto.is_some())], why)?;
        }
        let place = match arguments.on {
            Ground::Sim => sim(arguments, &contenders, &mut job)?,
            Ground::Vm => vm(arguments, &contenders, &job)?,
            Ground::Here => Place::Here(here(arguments, &contenders, &job)?),
        };
        let profile = match &arguments.profile {
            Some(file) => profile(file, &contenders, &job, &place)?,
            None => Profile::new(),
        };
        Ok(Plan {
            contenders,
            profile,
            profile_file: arguments.profile.clone(),
            job,
            place,
            runs: arguments.runs.unwrap_or(1) as usize,
            seed: arguments.seed.unwrap_or(SEED),
            locks: arguments.locks,
            show: arguments.show_output,
            observe: true,
            record: None,
            events: arguments.exports.take_events(),
        })
    }

    /// Steps of its progress, if the ground has no bars of its own.
    pub fn steps(&self) -> u64 {
        match self.place {
            Place::Here(_) => (self.runs * self.contenders.len()) as u64,
            Place::Sim { .. } | Place::Vm { .. } => 1,
        }
    }

    /// Its contenders, for a line of progress.
    pub fn labels(&self) -> String {
        self.contenders.iter().map(Contender::label).collect::<Vec<_>>().join(", ")
    }

    /// The kernel that the user named.
    pub fn kernel(&self) -> Option<&Path> {
        match &self.place {
            Place::Vm { kernel, .. } => kernel.as_deref(),
            Place::Sim { .. } | Place::Here(_) => None,
        }
    }

    /// The result's description of the ground.
    pub fn setting(&self) -> report::Setting {
        let (ground, machine, cpus, clock) = match &self.place {
            Place::Sim { machine, .. } => {
                ("sim", machine.name.clone(), machine.cpus.len(), Clock::Simulated)
            }
            Place::Vm { shape, clock, .. } => {
                ("vm", described(shape), shape.cpus, clock_of(*clock))
            }
            Place::Here(here) => ("here", "this machine".into(), here.cpus, Clock::Real),
        };
        report::Setting {
            ground: ground.into(),
            machine,
            cpus,
            workload: self.job.name(),
            seed: (!matches!(self.place, Place::Here(_))).then_some(self.seed),
            clock,
            kernel: None,
        }
    }
}

impl Job {
    fn new(arguments: &cli::Compare) -> Result<Self, Failure> {
        match &arguments.workload {
            Some(path) => match npb(path) {
                Some(job) => Ok(job),
                None => Job::file(path),
            },
            None if arguments.command.is_empty() => Err(Failure::input(
                "nothing to run; name a workload, rt-app JSON or a recording with --workload, or a command after --",
            )),
            None => {
                Ok(Job::Command { argv: arguments.command.clone(), with: arguments.with.clone() })
            }
        }
    }

    /// Reads rt-app JSON, or a built-in workload by its name; a recording is read when the machine is known.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        if let Some(workload) = Apps::embedded().build(&name).filter(|_| !path.exists()) {
            return Ok(Job::together(workload));
        }
        if let Some(workload) = Programs::embedded().build(&name).filter(|_| !path.exists()) {
            return Ok(Job::together(workload));
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

/// A profile file's figures for this job on this machine. Warns of programs that do not run.
fn profile(
    file: &Path,
    contenders: &[Contender],
    job: &Job,
    place: &Place,
) -> Result<Profile, Failure> {
    let of_cpus = |types: &[u16]| 1 + usize::from(types.iter().copied().max().unwrap_or(0));
    let kinds = match place {
        Place::Sim { machine, .. } => machine.core_rates.len(),
        Place::Vm { shape, .. } => of_cpus(&shape.core_types),
        Place::Here(_) => of_cpus(&live::topology().map_err(failed)?.core_type),
    };
    let given = Given::read(file)?;
    let profile = given.profile(kinds, contenders.iter().filter_map(Contender::policy))?;
    let tasks: Vec<String> = match (job, place) {
        (Job::Model { workload, .. }, _) => {
            workload.tasks.iter().map(|task| task.name.clone()).collect()
        }
        (_, Place::Sim { .. }) => job.model()?.tasks.into_iter().map(|task| task.name).collect(),
        // It is not known which programs a command will start.
        _ => return Ok(profile),
    };
    let (profile, absent) = given.of_tasks(&profile, tasks.iter().map(String::as_str))?;
    if let Some(warning) = given.warning(&absent) {
        output::say(&warning);
    }
    Ok(profile)
}

fn only_replayed(path: &Path) -> Failure {
    Failure::input(format!("{} is a recording, which sim replays; use --on sim", path.display()))
}

fn only_a_model(npb: &str) -> Failure {
    Failure::input(format!("npb-{npb} is a model; use --on sim"))
}

fn sim(
    arguments: &cli::Compare,
    contenders: &[Contender],
    job: &mut Job,
) -> Result<Place, Failure> {
    refuse(&of_guest(arguments), "is for --on vm; sim takes --machine, --seed and --runs")?;
    only_here(arguments)?;
    let why = "shows what a workload writes, and on sim nothing runs that writes; leave it out";
    refuse(&[("--show-output", arguments.show_output)], why)?;
    let named = match (&arguments.machine.machine, &*job) {
        (Some(named), _) => named.clone(),
        (None, Job::Recording(path)) => as_recorded(path)?,
        (None, _) => MACHINE.to_string(),
    };
    let machine = find_machine(&named)?;
    if let Job::Npb { name, tasks } = job {
        *job = Job::built(benchmark(name, *tasks, machine.cpus.len())?);
    }
    if let Job::Recording(path) = job {
        let (workload, went) = replay::read(path, &machine)?;
        *job = Job::replayed(workload, went);
    }
    let workload = job.model()?;
    check_affinity(&workload, machine.cpus.len())?;
    check_learners(contenders, workload.tasks.iter().any(|task| task.hw.is_some()))?;
    let limit = limit(arguments);
    Ok(Place::Sim { machine: Box::new(machine), named, limit, faults: Vec::new() })
}

/// The plain machine with as many CPUs as the recording's: nothing else is known of the recording's machine.
fn as_recorded(path: &Path) -> Result<String, Failure> {
    let cpus = replay::recorded_cpus(path)?;
    machine::plain(cpus).map(|machine| machine.name).ok_or_else(|| {
        Failure::input(format!(
            "{}: recorded on {cpus} CPUs, more than sim has room for ({}); name a machine with --machine",
            path.display(),
            CpuSet::MAX
        ))
    })
}

/// Refuses policies that learn from memory accesses of tasks, if there are none: no recording has them.
pub fn check_learners(contenders: &[Contender], touches: bool) -> Result<(), Failure> {
    let learns = |contender: &&Contender| {
        matches!(contender, Contender::Class(Class { model: Model::Related(_), .. }))
    };
    match contenders.iter().find(learns).filter(|_| !touches) {
        None => Ok(()),
        Some(contender) => {
            let why = sim::SimError::NothingTouched;
            Err(Failure::input(format!("{}: {why}", contender.label())))
        }
    }
}

/// Refuses contenders that cannot run on a real kernel.
fn check_real(contenders: &[Contender]) -> Result<(), Failure> {
    let absent = contenders.iter().find_map(|contender| match contender {
        Contender::Class(class) if !class.in_guest => Some(class.name),
        _ => None,
    });
    match absent {
        None => Ok(()),
        Some(name) => Err(Failure::input(format!(
            "no kernel of today has {name}; use --on sim, or --policy default"
        ))),
    }
}

/// Checks all conditions of a comparison on this machine before anything is loaded.
fn here(arguments: &cli::Compare, contenders: &[Contender], job: &Job) -> Result<Here, Failure> {
    let why =
        "is not for --on here, which has the machine, kernel and chance that it has; leave it out";
    refuse(&of_guest(arguments), why)?;
    let chosen =
        [("--machine", arguments.machine.machine.is_some()), ("--seed", arguments.seed.is_some())];
    refuse(&chosen, why)?;
    check_real(contenders)?;
    let cpus = live::topology().map_err(failed)?.llc.len();
    match job {
        Job::Command { argv, .. } => {
            let program = vm::which(argv[0].as_ref()).map_err(Failure::input)?;
            let argv: Vec<_> = argv.iter().map(Into::into).collect();
            let is_there =
                |word: &str| vm::which(word.as_ref()).is_ok() || Path::new(word).exists();
            let missing = vm::missing(&argv, &program, &is_there);
            if let Some(one) = missing.iter().find(|one| one.sure) {
                return Err(Failure::input(vm::nowhere(one)));
            }
        }
        Job::Model { workload, .. } => check_affinity(workload, cpus)?,
        Job::Npb { name, .. } => return Err(only_a_model(name)),
        Job::Recording(path) => return Err(only_replayed(path)),
    }
    let policies: Vec<_> = contenders.iter().filter_map(Contender::policy).collect();
    if arguments.partial && policies.is_empty() {
        return Err(Failure::input("--partial is for policies that are loaded; name one"));
    }
    if !policies.is_empty() {
        here::may_load()?;
    }
    for policy in policies {
        here::heed_numbers(policy)?;
        here::heed_limits(policy, arguments.partial, arguments.ignore_cgroup_limits)?;
    }
    if arguments.locks {
        // If this fails, the user is told before the runs.
        live::LockCounter::attach(cpus)
            .map_err(|error| Failure::input(format!("--locks: {error:#}; leave it out")))?;
    }
    let scope = if arguments.partial { live::Scope::Asking } else { live::Scope::All };
    let clocks = arguments.clocks.as_deref().map(turbo::of).transpose()?;
    Ok(Here { cpus, scope, clocks, limit: limit(arguments) })
}

fn vm(arguments: &cli::Compare, contenders: &[Contender], job: &Job) -> Result<Place, Failure> {
    check_real(contenders)?;
    only_here(arguments)?;
    if !matches!(job, Job::Command { .. }) {
        let why = "is for a command's files, and a workload needs none; leave it out";
        refuse(&[("--with", !arguments.with.is_empty())], why)?;
    }
    let wanted = &arguments.machine;
    let (mut shape, rates) = match &wanted.machine {
        Some(name) => {
            let machine = find_machine(name)?;
            (shape_of(&machine), machine.kinds(TYPES_MAX).rates)
        }
        None => {
            let cpus = wanted.cpus.unwrap_or(CPUS);
            let nodes = wanted.nodes.unwrap_or(if wanted.cpus.is_some() { 1 } else { NODES });
            (guest_shape(cpus, nodes, wanted.smt.unwrap_or(1), wanted.distance), Vec::new())
        }
    };
    if let Some(kinds) = &wanted.core_types {
        shape.core_types = core_types(kinds, shape.cpus, &[])?;
    }
    shape.check().map_err(Failure::input)?;
    let clock = arguments.clock.unwrap_or(cli::Clock::Dilated);
    check_turn(arguments.turn.map(Into::into), clock, shape.cpus)?;
    if let Job::Model { workload, .. } = job {
        check_affinity(workload, shape.cpus)?;
    }
    Ok(Place::Vm {
        shape,
        rates,
        clock: match clock {
            cli::Clock::Dilated => vm::Clock::Dilated,
            cli::Clock::Icount => vm::Clock::Icount,
            cli::Clock::Threads => vm::Clock::Threads,
        },
        turn: arguments.turn.map(Into::into),
        boots: arguments.boots.unwrap_or(BOOTS) as usize,
        kernel: arguments.kernel.clone(),
        keep: None,
        limit: limit(arguments),
        or_in_turn: false,
    })
}

/// Refuses options that only make sense on the user's own kernel.
fn only_here(arguments: &cli::Compare) -> Result<(), Failure> {
    let given = [
        ("--partial", arguments.partial),
        ("--clocks", arguments.clocks.is_some()),
        ("--ignore-cgroup-limits", arguments.ignore_cgroup_limits),
    ];
    refuse(&given, "is for --on here")
}

/// Options of the guest, and whether they were given.
fn of_guest(arguments: &cli::Compare) -> [(&'static str, bool); 10] {
    let machine = &arguments.machine;
    [
        ("--clock", arguments.clock.is_some()),
        ("--turn", arguments.turn.is_some()),
        ("--boots", arguments.boots.is_some()),
        ("--kernel", arguments.kernel.is_some()),
        ("--with", !arguments.with.is_empty()),
        ("--cpus", machine.cpus.is_some()),
        ("--nodes", machine.nodes.is_some()),
        ("--smt", machine.smt.is_some()),
        ("--distance", machine.distance.is_some()),
        ("--core-types", machine.core_types.is_some()),
    ]
}

/// Fails with the first option that was given.
fn refuse(options: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::input(format!("{option} {why}"))),
    }
}

/// Checks that the emulator can keep the turns, on a clock with turns.
fn check_turn(turn: Option<Duration>, clock: cli::Clock, cpus: usize) -> Result<(), Failure> {
    let possible = Duration::from_micros(1)..=Duration::from_secs(1);
    match turn {
        Some(_) if clock == cli::Clock::Threads => Err(Failure::input(
            "--turn is for CPUs that run in turn; with --clock threads they run side by side",
        )),
        Some(turn) if !possible.contains(&turn) => {
            Err(Failure::input("--turn: expected a time from 1us to 1s, such as 20us"))
        }
        Some(_) if cpus > 127 => Err(Failure::input(
            "--turn: the emulator has short turns for up to 127 CPUs; take fewer CPUs, or leave --turn out",
        )),
        _ => Ok(()),
    }
}

/// A word without folder and ending counts as the name of something built in.
fn is_bare(path: &Path) -> bool {
    path.extension().is_none() && path.components().count() == 1
}

/// `npb-NAME` or `npb-NAME-TASKS`, unless there is such a file.
fn npb(path: &Path) -> Option<Job> {
    let text = path.to_str()?.strip_prefix("npb-")?;
    let (name, tasks) = text.split_once('-').unwrap_or((text, "1"));
    let tasks = tasks.parse().ok().filter(|tasks| (1..=16).contains(tasks))?;
    (!path.exists()).then(|| Job::Npb { name: name.to_string(), tasks })
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

/// Refuses a task that may run on no CPU of the machine: it would wait for ever.
fn check_affinity(workload: &Workload, cpus: usize) -> Result<(), Failure> {
    let nowhere = |mask: &Vec<usize>| !mask.iter().any(|cpu| *cpu < cpus);
    match workload.tasks.iter().find(|task| task.masks().into_iter().any(nowhere)) {
        None => Ok(()),
        Some(task) => Err(Failure::input(format!(
            "{}: task {} may run on none of the machine's CPUs (0 to {}); name one of them",
            workload.name,
            task.name,
            cpus.saturating_sub(1)
        ))),
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

fn clock_of(clock: vm::Clock) -> Clock {
    match clock {
        vm::Clock::Dilated => Clock::Dilated,
        vm::Clock::Icount => Clock::Icount,
        vm::Clock::Threads => Clock::Threads,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The help has them as text.
    #[test]
    fn the_help_names_the_defaults() {
        let command = cli::Cli::command();
        let compare = command.find_subcommand("compare").unwrap();
        for (option, default) in [
            (
                "machine",
                format!(
                    "[default on sim: {MACHINE}; for a recording, plain-N of its number of CPUs]"
                ),
            ),
            ("cpus", format!("(vm only) [default: {CPUS}, on {NODES} nodes]")),
            ("nodes", format!("(vm only) [default: {NODES}; 1 with --cpus]")),
            ("boots", format!("(vm only) [default: {BOOTS}]")),
            ("seed", format!("[default: {SEED}]")),
        ] {
            let argument = compare.get_arguments().find(|it| it.get_id() == option).unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.ends_with(&default), "{option}: {help}");
        }
    }
}
