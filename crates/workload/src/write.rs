// SPDX-License-Identifier: GPL-2.0-only
//! Writes a [`Workload`] as rt-app's JSON.
//!
//! rt-app has two levels of loops, a task's and a phase's, and names for what the model numbers. So names are made up
//! (`mutex0`, `barrier3`, …). Reading the text back gives the same workload but for the objects' names and numbers:
//! objects are numbered in the order of their first use.

use serde_json::{Map, Value, json};

use crate::hw::{Hw, Vector};
use crate::model::{Fair, Group, RealTime, Task, Workload};
use crate::rtapp::MEM_BUFFER_BYTES;
use crate::step::{Object, ObjectId, Step};

/// The reader that the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// rt-app itself: an unknown key is an error.
    RtApp,
    /// [`crate::rtapp::parse`], with its additions.
    Paceline,
}

/// Why a workload cannot be written, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {task}: {problem}")]
pub struct Unwritable {
    /// The task where it was found.
    pub task: String,
    /// The part that the dialect cannot express.
    pub problem: String,
}

/// The workload as JSON text.
pub fn write(workload: &Workload, dialect: Dialect) -> Result<String, Unwritable> {
    let mut tasks = Map::new();
    for (at, task) in workload.tasks.iter().enumerate() {
        let writer = Writer { workload, dialect, task, at };
        tasks.insert(task.name.clone(), writer.task()?);
    }
    let mut root = Map::new();
    root.insert("global".to_string(), global(workload, dialect)?);
    if dialect == Dialect::Paceline {
        declare(workload, &mut root);
    }
    root.insert("tasks".to_string(), Value::Object(tasks));
    // Plain maps and numbers: this cannot fail.
    Ok(serde_json::to_string_pretty(&Value::Object(root)).unwrap_or_default() + "\n")
}

fn global(workload: &Workload, dialect: Dialect) -> Result<Value, Unwritable> {
    let duration = match workload.duration_ns {
        None => json!(-1),
        Some(ns) if ns % 1_000_000_000 == 0 => json!(ns / 1_000_000_000),
        Some(ns) if dialect == Dialect::Paceline => json!(ns as f64 / 1e9),
        Some(ns) => {
            let problem = format!("a duration of {ns} ns; rt-app takes whole seconds");
            return Err(Unwritable { task: workload.name.clone(), problem });
        }
    };
    let mut buffers = Vec::new();
    workload.tasks.iter().for_each(|task| buffers_of(&task.steps, &mut buffers));
    let buffer = buffers.first().copied();
    if buffers.iter().any(|other| Some(*other) != buffer) {
        let problem = "buffers of several sizes; rt-app has one mem_buffer_size".to_string();
        return Err(Unwritable { task: workload.name.clone(), problem });
    }
    Ok(json!({
        "duration": duration,
        "default_policy": "SCHED_OTHER",
        "calibration": "CPU0",
        "lock_pages": false,
        "log_size": "disable",
        "mem_buffer_size": buffer.unwrap_or(MEM_BUFFER_BYTES),
    }))
}

fn buffers_of(steps: &[Step], out: &mut Vec<u32>) {
    for step in steps {
        match step {
            Step::Mem { buffer, .. } | Step::Io { buffer, .. } => out.push(*buffer),
            Step::Repeat { steps, .. } => buffers_of(steps, out),
            _ => {}
        }
    }
}

/// Declares objects that rt-app needs no declaration for, or does not have.
fn declare(workload: &Workload, root: &mut Map<String, Value>) {
    let (mut channels, mut barriers) = (Map::new(), Map::new());
    for (id, object) in workload.objects.iter().enumerate() {
        match object {
            Object::Pipe { capacity } => {
                channels.insert(object.numbered(id), json!({"type": "pipe", "capacity": capacity}));
            }
            Object::Packets { messages } => {
                let packets = json!({"type": "packets", "messages": messages});
                channels.insert(object.numbered(id), packets);
            }
            Object::Socket { capacity, overhead } => {
                let socket = json!({"type": "socket", "capacity": capacity, "overhead": overhead});
                channels.insert(object.numbered(id), socket);
            }
            Object::Barrier { parties, spin_ns } => {
                let barrier = json!({"parties": parties, "spin": micros(*spin_ns)});
                barriers.insert(object.numbered(id), barrier);
            }
            _ => {}
        }
    }
    let groups = workload.groups.iter().map(|of| (of.path.clone(), group(of))).collect();
    for (key, map) in [("channels", channels), ("barriers", barriers), ("taskgroups", groups)] {
        if !map.is_empty() {
            root.insert(key.to_string(), Value::Object(map));
        }
    }
}

fn group(of: &Group) -> Value {
    let mut group = json!({"weight": of.weight, "idle": of.idle});
    if let Some(max) = of.max {
        group["max"] = json!(format!("{} {}", max.quota_us, max.period_us));
        group["burst"] = json!(max.burst_us);
    }
    group
}

/// Whole µs as an integer, since rt-app takes nothing else.
fn micros(ns: u64) -> Value {
    if ns.is_multiple_of(1000) { json!(ns / 1000) } else { json!(ns as f64 / 1000.0) }
}

struct Writer<'w> {
    workload: &'w Workload,
    dialect: Dialect,
    task: &'w Task,
    at: usize,
}

impl Writer<'_> {
    fn task(&self) -> Result<Value, Unwritable> {
        let task = self.task;
        let mut out = Map::new();
        if task.script.is_some() {
            return Err(
                self.error("what a recording saw it do, which is replayed by the simulator alone")
            );
        }
        if task.forked {
            out.insert("instance".to_string(), json!(0));
        }
        if let Some(cpus) = &task.cpus {
            out.insert("cpus".to_string(), json!(cpus));
        }
        if let Some(nodes) = &task.nodes {
            out.insert("nodes_membind".to_string(), json!(nodes));
        }
        let policy = match (task.realtime, task.fair) {
            (RealTime::Fifo(_), _) => Some(json!("SCHED_FIFO")),
            (RealTime::Rr(_), _) => Some(json!("SCHED_RR")),
            (RealTime::No, Fair::Normal) => None,
            (RealTime::No, Fair::Batch) => Some(self.ours(json!("SCHED_BATCH"), "SCHED_BATCH")?),
            (RealTime::No, Fair::Idle) => Some(json!("SCHED_IDLE")),
        };
        if let Some(policy) = policy {
            out.insert("policy".to_string(), policy);
        }
        if task.realtime.yes() {
            out.insert("priority".to_string(), json!(task.realtime.priority()));
        } else if task.nice != 0 {
            out.insert("priority".to_string(), json!(task.nice));
        }
        if task.delay_ns != 0 {
            out.insert("delay".to_string(), self.time(task.delay_ns)?);
        }
        if task.process != 0 {
            out.insert("process".to_string(), json!(format!("p{}", task.process)));
        }
        if let Some(group) = task.group {
            out.insert("taskgroup".to_string(), json!(self.workload.groups[group].path));
        }
        if self.dialect == Dialect::RtApp && self.workload.tasks[0].process != task.process {
            return Err(self.error("an address space of its own, which rt-app has not"));
        }
        let mut hw = task.hw.as_ref().map(Hw::json).unwrap_or_default();
        if task.stalled != 0.0 {
            hw.insert("stalled".to_string(), json!(task.stalled));
        }
        if task.pressure != 0.0 {
            hw.insert("pressure".to_string(), json!(task.pressure));
        }
        if let Some(memory) = &task.memory {
            hw.insert("memory".to_string(), memory.json());
        }
        if task.vector != Vector::None {
            hw.insert("vector".to_string(), json!(task.vector.name()));
        }
        if !hw.is_empty() {
            out.insert("hw".to_string(), Value::Object(hw));
        }
        let (times, body) = match task.steps.as_slice() {
            [Step::Repeat { times, steps }] => (*times, steps.as_slice()),
            steps => (Some(1), steps),
        };
        out.insert("loop".to_string(), loop_value(times));
        if body.iter().any(|step| is_loop(step) || is_place(step)) {
            out.insert("phases".to_string(), self.phases(body)?);
        } else {
            self.events(body, &mut out)?;
        }
        Ok(Value::Object(out))
    }

    /// Steps between loops make a phase that runs once; each phase after a [`Step::Cpus`] is on those CPUs.
    fn phases(&self, steps: &[Step]) -> Result<Value, Unwritable> {
        let mut phases = Map::new();
        let mut cpus = &self.task.cpus;
        if steps.iter().any(is_place) && !is_place(&steps[0]) {
            return Err(self.error("other CPUs from within a phase on"));
        }
        for run in steps.chunk_by(|a, b| !is_loop(a) && !is_loop(b) && !is_place(a) && !is_place(b))
        {
            let mut phase = Map::new();
            if cpus != &self.task.cpus {
                let problem = "a phase that may run anywhere, in a task that may not";
                let cpus = cpus.as_ref().ok_or_else(|| self.error(problem))?;
                phase.insert("cpus".to_string(), json!(cpus));
            }
            match run {
                [Step::Cpus(next)] => {
                    cpus = next;
                    continue;
                }
                [Step::Repeat { times: Some(0), .. }] => {
                    return Err(self.error("a phase that never runs"));
                }
                [Step::Repeat { times, steps }] => {
                    phase.insert("loop".to_string(), loop_value(*times));
                    self.events(steps, &mut phase)?;
                }
                events => self.events(events, &mut phase)?,
            }
            phases.insert(format!("phase{}", phases.len()), Value::Object(phase));
        }
        Ok(Value::Object(phases))
    }

    fn events(&self, steps: &[Step], out: &mut Map<String, Value>) -> Result<(), Unwritable> {
        for (at, step) in steps.iter().enumerate() {
            let (event, value) = self.event(step)?;
            out.insert(format!("{event}{at}"), value);
        }
        Ok(())
    }

    fn event(&self, step: &Step) -> Result<(&'static str, Value), Unwritable> {
        let named = |id: &ObjectId| json!(self.workload.objects[*id].numbered(*id));
        Ok(match step {
            Step::Run { work_ns } => ("run", self.time(*work_ns)?),
            Step::Runtime { wall_ns } => ("runtime", self.time(*wall_ns)?),
            Step::Mem { bytes, .. } => ("mem", json!(bytes)),
            Step::Io { bytes, .. } => ("iorun", json!(bytes)),
            Step::Sleep { ns } => ("sleep", self.time(*ns)?),
            Step::Timer { timer, period_ns, relative } => {
                let mode = if *relative { "relative" } else { "absolute" };
                let period = self.time(*period_ns)?;
                ("timer", json!({"ref": named(timer), "period": period, "mode": mode}))
            }
            Step::Lock(id) => ("lock", named(id)),
            Step::Unlock(id) => ("unlock", named(id)),
            Step::Wait { condition, mutex } => {
                ("wait", json!({"ref": named(condition), "mutex": named(mutex)}))
            }
            Step::Signal(id) => ("signal", named(id)),
            Step::Broadcast(id) => ("broad", named(id)),
            Step::Barrier(id) => ("barrier", self.barrier(*id)?),
            Step::Await { flag, up } => {
                ("await", self.ours(json!({"ref": named(flag), "up": up}), "flags")?)
            }
            Step::Set { flag, up } => {
                ("set", self.ours(json!({"ref": named(flag), "up": up}), "flags")?)
            }
            Step::Suspend(id) => ("suspend", self.suspension(*id)?),
            Step::Resume(id) => ("resume", self.suspension(*id)?),
            Step::Yield => ("yield", json!("")),
            Step::Stalled { part } => ("stalled", self.ours(json!(part), "phases of stalls")?),
            Step::Mpki { mpki } => ("mpki", self.ours(json!(mpki), "phases of misses")?),
            Step::Vector(vector) => {
                ("vector", self.ours(json!(vector.name()), "phases of vector code")?)
            }
            Step::Write { channel, bytes } => {
                ("write", self.ours(json!({"ref": named(channel), "bytes": bytes}), "channels")?)
            }
            Step::Read { channel, bytes } => {
                ("read", self.ours(json!({"ref": named(channel), "bytes": bytes}), "channels")?)
            }
            Step::Connect { .. }
            | Step::Accept { .. }
            | Step::Give { .. }
            | Step::Contend { .. }
            | Step::Take(_)
            | Step::TakeWithin { .. } => {
                return Err(self.error("waits of a recording"));
            }
            Step::Fork(task) => ("fork", json!(self.workload.tasks[*task].name)),
            Step::Cpus(_) => {
                return Err(self.error("other CPUs from within a phase on"));
            }
            Step::Repeat { .. } => {
                return Err(self.error("loops nested deeper than a task's and a phase's"));
            }
        })
    }

    /// rt-app counts a barrier's parties by the events that name it, and does not spin.
    fn barrier(&self, id: ObjectId) -> Result<Value, Unwritable> {
        let object = &self.workload.objects[id];
        if let (Object::Barrier { parties, spin_ns }, Dialect::RtApp) = (object, self.dialect) {
            if self.task.forked {
                return Err(self.error("a barrier in a forked task, which rt-app does not count"));
            }
            let uses: usize = self.workload.tasks.iter().map(|t| barrier_uses(&t.steps, id)).sum();
            if uses != *parties as usize || *spin_ns != 0 {
                return Err(self.error("a barrier that spins, or is named elsewhere than once"));
            }
        }
        Ok(json!(object.numbered(id)))
    }

    /// In rt-app a task suspends under its own name only.
    fn suspension(&self, id: ObjectId) -> Result<Value, Unwritable> {
        if self.dialect == Dialect::Paceline {
            return Ok(json!(self.workload.objects[id].numbered(id)));
        }
        let mut who = self.workload.tasks.iter().filter(|task| suspends(&task.steps, id));
        match (who.next(), who.next()) {
            (Some(task), None) => Ok(json!(task.name)),
            _ => Err(self.error("a suspension of several tasks or of none")),
        }
    }

    fn time(&self, ns: u64) -> Result<Value, Unwritable> {
        let whole = ns.is_multiple_of(1000) || self.dialect == Dialect::Paceline;
        whole.then(|| micros(ns)).ok_or_else(|| self.error("a time with a fraction of a µs"))
    }

    fn ours(&self, value: Value, what: &str) -> Result<Value, Unwritable> {
        match self.dialect {
            Dialect::Paceline => Ok(value),
            Dialect::RtApp => Err(self.error(&format!("{what}, which rt-app has not"))),
        }
    }

    fn error(&self, problem: &str) -> Unwritable {
        Unwritable { task: self.workload.tasks[self.at].name.clone(), problem: problem.to_string() }
    }
}

/// A phase on other CPUs begins.
fn is_place(step: &Step) -> bool {
    matches!(step, Step::Cpus(_))
}

fn is_loop(step: &Step) -> bool {
    matches!(step, Step::Repeat { .. })
}

fn loop_value(times: Option<u64>) -> Value {
    times.map_or(json!(-1), |n| json!(n))
}

fn barrier_uses(steps: &[Step], id: ObjectId) -> usize {
    let uses = |step: &Step| match step {
        Step::Barrier(used) => usize::from(*used == id),
        Step::Repeat { steps, .. } => barrier_uses(steps, id),
        _ => 0,
    };
    steps.iter().map(uses).sum()
}

fn suspends(steps: &[Step], id: ObjectId) -> bool {
    steps.iter().any(|step| match step {
        Step::Suspend(used) => *used == id,
        Step::Repeat { steps, .. } => suspends(steps, id),
        _ => false,
    })
}
