// SPDX-License-Identifier: GPL-2.0-only
//! Reads rt-app's JSON into a [`Workload`].
//!
//! The language is that of rt-app 1.0 (`doc/tutorial.txt` of scheduler-tools/rt-app), with the extensions of its
//! `workgen`: comments, trailing commas and repeated keys. A key that is not modelled is refused by name and never
//! skipped. `"priority"` is a nice value of SCHED_OTHER and SCHED_IDLE, and a priority of SCHED_FIFO and SCHED_RR, with
//! a default of 10, as in rt-app. `mem` takes the time of copying as many bytes (`copy_byte_ns` of a machine, however
//! large the buffer is). `iorun` takes the time of a system call for each buffer: /dev/null ignores the data. Our
//! extensions, which rt-app itself ignores:
//!
//! - in a task, `"hw": {…}`: the memory it touches ([`crate::Hw`]);
//! - in a task, `"process": "name"`: its address space. Threads of one name share it; a name that begins with `unique`
//!   gives each instance its own; without it all tasks share one;
//! - `"channels": {"c": {"type": "pipe" | "socket", "capacity": BYTES, "overhead": BYTES}, "d": {"type": "packets",
//!   "messages": MESSAGES}}` beside `"tasks"` (or in `"resources"`), and the events `"write"` and `"read": {"ref": "c",
//!   "bytes": N}`;
//! - `"barriers": {"b": {"parties": N, "spin": µs}}`: a barrier that spins before it blocks;
//! - `"taskgroups": {"/web": {"weight": 200}}`: `cpu.weight` of groups that tasks name;
//! - `"policy": "SCHED_BATCH"`, with a nice value; rt-app itself refuses it;
//! - fractions of a µs, and of a second in `"duration"`.

use std::collections::BTreeMap;

use crate::events::{self, Scope};
use crate::groups::Groups;
use crate::hw::Hw;
use crate::json::{Error, Node, Source, unknown};
use crate::model::{Fair, RealTime, Task, Workload};
use crate::objects::{Objects, bytes};
use crate::script::Cut;
use crate::step::{Object, ObjectId, Step};

/// Reads the text of a workload file; `name` stands in errors, and without its directory and extension it becomes the
/// workload's name.
pub fn parse(name: &str, text: &str) -> Result<Workload, Error> {
    let source = Source::new(name, text);
    let root = source.root()?;
    let mut reader = Reader { buffer: MEM_BUFFER_BYTES, ..Reader::default() };
    let mut tasks = None;
    for (key, node) in root.members("a workload file")? {
        match key.as_str() {
            "tasks" => tasks = Some(node),
            "global" => reader.global(node)?,
            "resources" | "channels" | "barriers" => reader.declarations(node)?,
            "taskgroups" => reader.groups.declare(node)?,
            _ => {
                let known = "tasks, global, resources, channels, barriers, taskgroups";
                return Err(unknown(node, &key, known));
            }
        }
    }
    let tasks = tasks.ok_or_else(|| root.error("expected an object \"tasks\""))?;
    for (key, node) in tasks.members("tasks")? {
        let task = reader.definition(key, node)?;
        reader.definitions.push(task);
    }
    reader.finish(short_name(name), root)
}

fn short_name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".json").unwrap_or(file)
}

/// One entry of `"tasks"`.
struct Definition<'a> {
    node: Node<'a>,
    name: String,
    instances: usize,
    process: Process,
    /// Its steps hold indices of definitions in [`Step::Fork`].
    task: Task,
}

/// `"policy"`; it decides the meaning of `"priority"`.
#[derive(Clone, Copy, Default)]
enum Policy {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
}

impl Policy {
    fn fair(self) -> Fair {
        match self {
            Policy::Batch => Fair::Batch,
            Policy::Idle => Fair::Idle,
            Policy::Other | Policy::Fifo | Policy::Rr => Fair::Normal,
        }
    }
}

enum Process {
    Shared(usize),
    Unique,
}

/// A thread to be made.
#[derive(Clone)]
struct Wanted {
    definition: usize,
    number: usize,
    /// The definitions that led to it, to find a fork that never ends.
    lineage: Vec<usize>,
}

#[derive(Default)]
struct Reader<'a> {
    duration_ns: Option<u64>,
    /// The policy of tasks that name none.
    policy: Policy,
    /// Bytes of the buffer that `mem` and `iorun` write.
    buffer: u32,
    objects: Objects,
    groups: Groups,
    processes: BTreeMap<String, usize>,
    /// Process numbers given out, beside the common one.
    named_processes: usize,
    definitions: Vec<Definition<'a>>,
    /// Fork targets: their names, by the placeholder number in the steps.
    forks: Vec<(String, Node<'a>)>,
}

/// Keys of rt-app's `"global"` that do not affect the behaviour of tasks.
const IGNORED_GLOBALS: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "cumulative_slack",
    "frag",
];

/// Default of `mem_buffer_size`, bytes.
pub(crate) const MEM_BUFFER_BYTES: u32 = 4 << 20;

/// Default priority of a real-time task (DEFAULT_THREAD_PRIORITY).
const PRIORITY: u8 = 10;

/// Limit on tasks of a workload, forked tasks included: more fit into no machine's memory.
const TASKS_MAX: usize = 1_000_000;

const TASK_KEYS: &str = "instance, loop, phases, cpus, nodes_membind, priority, policy, delay, process, taskgroup, hw, or an event";

impl<'a> Reader<'a> {
    fn global(&mut self, node: Node<'a>) -> Result<(), Error> {
        for (key, value) in node.members("global")? {
            match key.as_str() {
                "duration" => self.duration_ns = duration(value)?,
                "default_policy" => self.policy = policy(value)?,
                "mem_buffer_size" => self.buffer = bytes(value, "mem_buffer_size")?,
                "io_device" => io_device(value)?,
                "pi_enabled" => {
                    if value.text() == "true" {
                        return Err(value.error("pi_enabled: priority inheritance is not modelled"));
                    }
                }
                _ if IGNORED_GLOBALS.contains(&key.as_str()) => {}
                _ => {
                    let known = format!(
                        "duration, default_policy, pi_enabled, mem_buffer_size, io_device, {}",
                        IGNORED_GLOBALS.join(", ")
                    );
                    return Err(unknown(value, &key, &known));
                }
            }
        }
        Ok(())
    }

    /// `"resources"`, `"channels"`, `"barriers"`. rt-app's own resources need no declaration.
    fn declarations(&mut self, node: Node<'a>) -> Result<(), Error> {
        for (name, value) in node.members("resources")? {
            let (mut kind, mut capacity, mut messages, mut overhead) = (None, None, None, None);
            let (mut parties, mut spin_ns) = (None, 0);
            for (key, field) in value.members(&name)? {
                match key.as_str() {
                    "type" => kind = Some(field.string("type")?),
                    "capacity" => capacity = Some(bytes(field, "capacity")?),
                    "messages" => messages = Some(bytes(field, "messages")?),
                    "overhead" => overhead = Some(bytes(field, "overhead")?),
                    "parties" => parties = Some(bytes(field, "parties")?),
                    "spin" => spin_ns = field.micros("spin")?,
                    "target" | "access" => {}
                    _ => {
                        let known = "type, capacity, messages, overhead, parties, spin";
                        return Err(unknown(field, &key, known));
                    }
                }
            }
            let object = match (kind.as_deref(), parties) {
                (Some("pipe"), _) => {
                    Object::Pipe { capacity: capacity.unwrap_or(crate::hackbench::PIPE_BYTES) }
                }
                (Some("packets"), _) => {
                    Object::Packets { messages: messages.unwrap_or(crate::hackbench::PIPE_PAGES) }
                }
                (Some("socket"), _) => Object::Socket {
                    capacity: capacity.unwrap_or(crate::hackbench::SOCKET_BYTES),
                    overhead: overhead.unwrap_or(crate::hackbench::SOCKET_OVERHEAD_BYTES),
                },
                (None, Some(parties)) => Object::Barrier { parties, spin_ns },
                (
                    Some(
                        "mutex" | "wait" | "signal" | "broadcast" | "sync" | "timer" | "run"
                        | "sleep",
                    ),
                    _,
                ) => {
                    continue;
                }
                _ => {
                    let wanted = "\"type\": \"pipe\" or \"socket\", or a barrier's \"parties\"";
                    return Err(value.error(format!("{name}: expected {wanted}")));
                }
            };
            let barrier = matches!(object, Object::Barrier { .. });
            let kind = if barrier { "barrier" } else { "channel" };
            // Tasks are read later, so an object of this name was declared too.
            if self.objects.find(kind, &name).is_some() {
                return Err(value.error(format!(
                    "{name}: there is a {kind} of this name before; give one of them another"
                )));
            }
            let id = self.objects.get(kind, name, || object);
            if barrier {
                self.objects.fixed.push(id);
            }
        }
        Ok(())
    }

    fn definition(&mut self, name: String, node: Node<'a>) -> Result<Definition<'a>, Error> {
        let members = node.members(&name)?;
        let find = |key: &str| members.iter().rev().find(|(k, _)| k == key).map(|(_, v)| *v);
        let instances = find("instance").map_or(Ok(1), |v| v.integer("instance"))?;
        let instances = usize::try_from(instances)
            .ok()
            .filter(|n| *n <= TASKS_MAX)
            .ok_or_else(|| node.error(format!("{name}: instance: expected 0 to 1000000")))?;
        let mut task = Task { name: name.clone(), ..Task::default() };
        let mut process = Process::Shared(0);
        let mut body = None;
        for (key, value) in &members {
            match key.as_str() {
                "instance" => {}
                "loop" => {}
                "phases" => body = Some(*value),
                "cpus" => task.cpus = Some(numbers("cpus", "CPU", *value)?),
                "nodes_membind" => {
                    task.nodes = Some(numbers("nodes_membind", "node", *value)?);
                }
                "priority" | "policy" => {}
                "delay" => task.delay_ns = value.micros("delay")?,
                "hw" => {
                    let said = Hw::parse(*value)?;
                    (task.hw, task.stalled, task.pressure, task.vector) =
                        (said.touches, said.stalled, said.pressure, said.vector);
                    task.memory = said.memory;
                }
                "process" => process = self.process(value.string("process")?),
                "taskgroup" => task.group = Some(self.groups.of(*value)?),
                _ => events::expect(key, *value, TASK_KEYS)?,
            }
        }
        let policy = find("policy").map_or(Ok(self.policy), policy)?;
        let realtime = || find("priority").map_or(Ok(PRIORITY), priority);
        task.fair = policy.fair();
        match policy {
            Policy::Other | Policy::Batch | Policy::Idle => {
                task.nice = find("priority").map_or(Ok(0), nice)?;
            }
            Policy::Fifo => task.realtime = RealTime::Fifo(realtime()?),
            Policy::Rr => task.realtime = RealTime::Rr(realtime()?),
        }
        let mut scope = Scope {
            objects: &mut self.objects,
            forks: &mut self.forks,
            task: &name,
            threads: instances as u32,
            buffer: self.buffer,
            held: Vec::new(),
        };
        task.steps = match body {
            Some(phases) => {
                let mut steps = Vec::new();
                let times = find("loop").map_or(Ok(None), loop_count)?;
                let phases = phases.members("phases")?;
                let mut moves = false;
                for (_, value) in &phases {
                    moves |= phase_cpus(*value)?.is_some();
                }
                for (phase, value) in &phases {
                    if moves {
                        steps.push(Step::Cpus(phase_cpus(*value)?.or_else(|| task.cpus.clone())));
                    }
                    steps.extend(read_phase(&mut scope, phase, *value, times == Some(1))?);
                }
                repeat(times, steps)
            }
            None => {
                let times = find("loop").map_or(Ok(None), phase_loop)?;
                let steps = scope.steps(&members, times == Some(1))?;
                repeat(times, steps)
            }
        };
        let mut absolute = Vec::new();
        absolute_timers(&task.steps, &mut absolute);
        make_absolute(&mut task.steps, &absolute);
        if task.steps.is_empty() {
            return Err(node.error(format!("{name}: expected at least one event")));
        }
        Ok(Definition { node, name, instances, process, task })
    }

    fn process(&mut self, name: String) -> Process {
        if name.starts_with("unique") {
            return Process::Unique;
        }
        let next = &mut self.named_processes;
        Process::Shared(*self.processes.entry(name).or_insert_with(|| {
            *next += 1;
            *next
        }))
    }

    fn finish(mut self, name: &str, root: Node) -> Result<Workload, Error> {
        let tasks = self.expand()?;
        if tasks.is_empty() {
            return Err(root.error("expected at least one task with an instance"));
        }
        for definition in &self.definitions {
            if self.duration_ns.is_none() && endless(&definition.task.steps) {
                return Err(definition.node.error(format!(
                    "{} loops for ever and \"global\" has no \"duration\": give one, or a \"loop\"",
                    definition.name
                )));
            }
        }
        Ok(Workload {
            name: name.to_string(),
            duration_ns: self.duration_ns,
            tasks,
            object_names: self.objects.names_in_order(),
            objects: self.objects.all,
            timed_from: None,
            recorded: false,
            takes_more: Cut::default(),
            groups: self.groups.all,
        })
    }

    /// Every thread: the instances, then for each fork a thread of its own.
    fn expand(&mut self) -> Result<Vec<Task>, Error> {
        let too_many = |of: &Definition| {
            let what =
                format!("{}: more than {TASKS_MAX} tasks; have fewer, or fork less", of.name);
            Err(of.node.error(what))
        };
        let mut wanted = Vec::new();
        for (definition, of) in self.definitions.iter().enumerate() {
            if wanted.len() + of.instances > TASKS_MAX {
                return too_many(of);
            }
            for number in 0..of.instances {
                wanted.push(Wanted { definition, number, lineage: vec![definition] });
            }
        }
        let started = wanted.len();
        let mut next_number: Vec<usize> = self.definitions.iter().map(|d| d.instances).collect();
        let mut tasks: Vec<Task> = Vec::new();
        while tasks.len() < wanted.len() {
            let Wanted { definition, lineage, .. } = wanted[tasks.len()].clone();
            let mut task = self.instance(definition);
            task.forked = tasks.len() >= started;
            for target in fork_targets(&mut task.steps) {
                let definition = self.fork_definition(*target, &lineage)?;
                if wanted.len() == TASKS_MAX {
                    return too_many(&self.definitions[definition]);
                }
                let lineage = lineage.iter().copied().chain([definition]).collect();
                *target = wanted.len();
                wanted.push(Wanted { definition, number: next_number[definition], lineage });
                next_number[definition] += 1;
            }
            tasks.push(task);
        }
        for (task, Wanted { definition, number, .. }) in tasks.iter_mut().zip(&wanted) {
            if next_number[*definition] > 1 {
                task.name = format!("{}-{number}", task.name);
            }
        }
        Ok(tasks)
    }

    fn fork_definition(&self, target: usize, lineage: &[usize]) -> Result<usize, Error> {
        let (name, node) = &self.forks[target];
        let names: Vec<&str> = self.definitions.iter().map(|d| d.name.as_str()).collect();
        let found = names.iter().position(|known| known == name).ok_or_else(|| {
            node.error(format!("fork: no task {name}; there are {}", names.join(", ")))
        })?;
        if lineage.contains(&found) {
            return Err(node.error(format!("fork: {name} would fork itself for ever")));
        }
        let counted = |id: &ObjectId| !self.objects.fixed.contains(id);
        if let Some(id) = barriers(&self.definitions[found].task.steps).into_iter().find(counted) {
            return Err(node.error(format!(
                "fork: {name} meets others at {}, whose parties are counted before any fork; declare it in \
                 \"barriers\" with its \"parties\"",
                self.objects.names_in_order()[id]
            )));
        }
        Ok(found)
    }

    fn instance(&mut self, definition: usize) -> Task {
        let of = &self.definitions[definition];
        let mut task = of.task.clone();
        task.process = match of.process {
            Process::Shared(number) => number,
            Process::Unique => {
                self.named_processes += 1;
                self.named_processes
            }
        };
        task
    }
}

/// The CPUs of a phase. A phase that names none has the task's.
fn phase_cpus(phase: Node) -> Result<Option<Vec<usize>>, Error> {
    let members = phase.members("a phase")?;
    let cpus = members.iter().rev().find(|(key, _)| key == "cpus");
    cpus.map(|(_, value)| numbers("cpus", "CPU", *value)).transpose()
}

fn read_phase<'a>(
    scope: &mut Scope<'_, 'a>,
    phase: &str,
    node: Node<'a>,
    once: bool,
) -> Result<Vec<Step>, Error> {
    let members = node.members(phase)?;
    let mut times = Some(1);
    for (key, value) in &members {
        match key.as_str() {
            "loop" => times = phase_loop(*value)?,
            "cpus" => {}
            "priority" | "policy" | "nodes_membind" | "taskgroup" => {
                let problem =
                    format!("{key} of a phase is not modelled; set it for the whole task");
                return Err(value.error(problem));
            }
            _ => events::expect(key, *value, "loop, cpus, or an event")?,
        }
    }
    let steps = scope.steps(&members, once && times == Some(1))?;
    if steps.is_empty() {
        return Err(node.error(format!("phase {phase}: expected at least one event")));
    }
    Ok(repeat(times, steps))
}

/// Once is no repetition.
fn repeat(times: Option<u64>, steps: Vec<Step>) -> Vec<Step> {
    if times == Some(1) { steps } else { vec![Step::Repeat { times, steps }] }
}

/// Loop count of a phase, or of a task without phases, which counts as one phase.
fn phase_loop(value: Node) -> Result<Option<u64>, Error> {
    match loop_count(value)? {
        Some(0) => {
            Err(value.error("loop: 0 is endless in rt-app for a phase; expected -1, or 1 or more"))
        }
        times => Ok(times),
    }
}

fn loop_count(node: Node) -> Result<Option<u64>, Error> {
    match node.integer("loop")? {
        -1 => Ok(None),
        n => u64::try_from(n)
            .map(Some)
            .map_err(|_| node.error(format!("loop: expected -1, 0 or more, found {n}"))),
    }
}

fn duration(node: Node) -> Result<Option<u64>, Error> {
    match serde_json::from_str::<f64>(node.text()) {
        Ok(-1.0) => Ok(None),
        Ok(s) if s > 0.0 && s <= 1e6 => Ok(Some((s * 1e9).round() as u64)),
        _ => Err(node.error(format!(
            "duration: expected seconds, more than 0, or -1 for no limit, found {}",
            node.text()
        ))),
    }
}

fn io_device(node: Node) -> Result<(), Error> {
    match node.string("io_device")?.as_str() {
        "/dev/null" => Ok(()),
        other => Err(node.error(format!("io_device {other} is not modelled; only /dev/null is"))),
    }
}

fn policy(node: Node) -> Result<Policy, Error> {
    match node.string("policy")?.as_str() {
        "SCHED_OTHER" => Ok(Policy::Other),
        "SCHED_BATCH" => Ok(Policy::Batch),
        "SCHED_IDLE" => Ok(Policy::Idle),
        "SCHED_FIFO" => Ok(Policy::Fifo),
        "SCHED_RR" => Ok(Policy::Rr),
        other => Err(node.error(format!(
            "policy {other} is not modelled; SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO and SCHED_RR are"
        ))),
    }
}

fn priority(node: Node) -> Result<u8, Error> {
    let n = node.integer("priority")?;
    u8::try_from(n).ok().filter(|n| (1..=RealTime::MAX).contains(n)).ok_or_else(|| {
        node.error(format!("priority: expected 1 to 99 of a real-time task, found {n}"))
    })
}

fn nice(node: Node) -> Result<i8, Error> {
    let n = node.integer("priority")?;
    i8::try_from(n)
        .ok()
        .filter(|n| (-20..=19).contains(n))
        .ok_or_else(|| node.error(format!("priority: expected nice −20 to 19, found {n}")))
}

/// A set of CPUs or nodes.
fn numbers(key: &str, what: &str, node: Node) -> Result<Vec<usize>, Error> {
    let mut numbers = Vec::new();
    for element in node.elements(key)? {
        let number = element.integer(key)?;
        let number = usize::try_from(number).map_err(|_| {
            element.error(format!("{key}: expected {what} numbers, found {number}"))
        })?;
        numbers.push(number);
    }
    if numbers.is_empty() {
        return Err(node.error(format!("{key}: expected at least one {what}")));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn endless(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Repeat { times, steps } => times.is_none() || endless(steps),
        _ => false,
    })
}

/// The timers that a step calls absolute. The mode belongs to the timer. rt-app reads all steps before it runs any, so
/// one such step makes all uses of the timer absolute, earlier ones too.
fn absolute_timers(steps: &[Step], out: &mut Vec<ObjectId>) {
    for step in steps {
        match step {
            Step::Timer { timer, relative: false, .. } => out.push(*timer),
            Step::Repeat { steps, .. } => absolute_timers(steps, out),
            _ => {}
        }
    }
}

fn make_absolute(steps: &mut [Step], timers: &[ObjectId]) {
    for step in steps {
        match step {
            Step::Timer { timer, relative, .. } => *relative &= !timers.contains(timer),
            Step::Repeat { steps, .. } => make_absolute(steps, timers),
            _ => {}
        }
    }
}

/// The barriers that steps name.
fn barriers(steps: &[Step]) -> Vec<ObjectId> {
    let of = |step: &Step| match step {
        Step::Barrier(id) => vec![*id],
        Step::Repeat { steps, .. } => barriers(steps),
        _ => Vec::new(),
    };
    steps.iter().flat_map(of).collect()
}

/// The targets of a task's forks; none is inside a loop.
fn fork_targets(steps: &mut [Step]) -> impl Iterator<Item = &mut usize> {
    steps.iter_mut().filter_map(|step| match step {
        Step::Fork(target) => Some(target),
        _ => None,
    })
}
