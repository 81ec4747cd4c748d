// SPDX-License-Identifier: GPL-2.0-only
//! The model of a workload.

use crate::hw::{Demand, Hw, Vector};
use crate::script::{Cut, Script};
use crate::step::{Object, ObjectId, Step};

/// Tasks and the objects through which they interact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Named after its file, or by the code that built it.
    pub name: String,
    /// Stop after this long even if tasks remain; None runs until all have ended.
    pub duration_ns: Option<u64>,
    /// Every thread, instances already expanded.
    pub tasks: Vec<Task>,
    /// Pipes, locks, barriers.
    pub objects: Vec<Object>,
    /// The file's name of each object; empty if the workload is not from a file.
    pub object_names: Vec<String>,
    /// The barrier at which the first task starts the clock that the program itself reports its time
    /// by, as hackbench does; None where it reports none.
    pub timed_from: Option<ObjectId>,
    /// It is a recording: work is what CPUs were seen to do, with all system calls in it.
    pub recorded: bool,
    /// CPU time that waiting and waking took where it was recorded, beyond what the simulator charges; `each_ns` is
    /// unused.
    pub takes_more: Cut,
    /// Cgroups that tasks belong to; a group stands after its parent.
    pub groups: Vec<Group>,
}

/// A cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its path from the root of the hierarchy, such as `/web/workers`.
    pub path: String,
    /// `cpu.weight`, 1 to 10000; default 100.
    pub weight: u32,
    /// `cpu.idle`: it runs where no other group wants the CPU.
    pub idle: bool,
    /// `cpu.max`, if it limits.
    pub max: Option<Max>,
}

/// `cpu.max` of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Max {
    /// CPU time in each period, µs; 1,000 or more.
    pub quota_us: u64,
    /// The period, µs; 1,000 to 1,000,000.
    pub period_us: u64,
    /// `cpu.max.burst`: how much can be saved up, µs; at most the quota.
    pub burst_us: u64,
}

impl Group {
    /// Default `cpu.weight` of a group.
    pub const WEIGHT: u32 = 100;

    /// A group of this path that divides CPU time evenly.
    pub fn new(path: impl Into<String>) -> Self {
        Group { path: path.into(), weight: Group::WEIGHT, idle: false, max: None }
    }

    /// Whether this group is the other one, or within it.
    pub fn is_within(&self, other: &Group) -> bool {
        let rest = self.path.strip_prefix(&other.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path of its parent group; empty for the root.
    pub fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }
}

impl Workload {
    /// An object's name: as in the file, or made of its kind and number.
    pub fn object_name(&self, id: ObjectId) -> String {
        let made_up = || self.objects.get(id).map_or(format!("object{id}"), |it| it.numbered(id));
        self.object_names.get(id).cloned().unwrap_or_else(made_up)
    }

    /// Whether any task is real-time.
    pub fn has_realtime(&self) -> bool {
        self.tasks.iter().any(|task| task.realtime.yes())
    }
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Shown in tables; instances carry `-0`, `-1`, … behind the name.
    pub name: String,
    /// Threads with one number share an address space.
    pub process: usize,
    /// CPUs it may run on; None is all.
    pub cpus: Option<Vec<usize>>,
    /// Memory nodes that its memory comes from; None is the one where it runs first.
    pub nodes: Option<Vec<usize>>,
    /// −20 to 19.
    pub nice: i8,
    /// Which of [`Workload::groups`] it is in; None is the root.
    pub group: Option<usize>,
    /// Its policy in the fair class. Ignored for a real-time task.
    pub fair: Fair,
    /// It goes before all tasks that are not real-time, whatever their nice values.
    pub realtime: RealTime,
    /// A kernel thread: it has no address space, and no run is prolonged to wait for it.
    pub kernel: bool,
    /// It becomes runnable this long after the start.
    pub delay_ns: u64,
    /// Not started with the workload: a [`Step::Fork`] starts it.
    pub forked: bool,
    /// Its steps, once; repetition is [`Step::Repeat`]. It ends after the last step.
    pub steps: Vec<Step>,
    /// Its recorded behaviour, after its steps. Only the simulator plays it.
    pub script: Option<Script>,
    /// The memory it touches (rt-app JSON's `"hw"`, which rt-app itself ignores). None: not known.
    pub hw: Option<Hw>,
    /// The part of its time on the reference CPU, 0 to 1, in which it waits for memory. A faster core does not shorten
    /// that part (`"stalled"` in `"hw"`).
    pub stalled: f64,
    /// How much it presses on the last-level cache while it runs, 0 to 1 (`"pressure"` in `"hw"`). Stalls of other
    /// tasks under that cache take longer; the machine says by how much (`llc_contention`).
    pub pressure: f64,
    /// Its demand on memory (`"memory"` in `"hw"`). None: negligible.
    pub memory: Option<Demand>,
    /// The kind of instructions its work is made of (`"vector"` in `"hw"`), until a [`Step::Vector`] changes it.
    pub vector: Vector,
    /// The [`Object::Gil`] that it must hold while it works. Only the simulator supports it.
    pub gil: Option<ObjectId>,
    /// How often its creator had woken a task other than the last one it woke, as Linux counts (`wakee_flips`). Only
    /// the simulator supports it.
    pub wakee_flips: u32,
}

/// The scheduling policy of a task that is not real-time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fair {
    /// SCHED_OTHER, which the kernel calls SCHED_NORMAL.
    #[default]
    Normal,
    /// SCHED_BATCH: when the task wakes, it preempts no other. rt-app does not support it.
    Batch,
    /// SCHED_IDLE: the task weighs 3, where nice 19 weighs 15 and nice 0 weighs 1024, whatever its nice value is. When it
    /// wakes, it preempts no other, and a waking task of another policy preempts it at once.
    Idle,
}

impl Fair {
    /// The number of the policy in the kernel (`p->policy`): SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE.
    #[inline]
    pub fn number(self) -> u32 {
        match self {
            Fair::Normal => 0,
            Fair::Batch => 3,
            Fair::Idle => 5,
        }
    }
}

/// Whether a task is of the kernel's real-time class, and its priority, 1 to 99: the higher goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RealTime {
    /// Not real-time.
    #[default]
    No,
    /// SCHED_FIFO: it runs until it blocks, yields, or a higher priority comes.
    Fifo(u8),
    /// SCHED_RR: tasks of one priority take turns.
    Rr(u8),
}

impl RealTime {
    /// The highest priority.
    pub const MAX: u8 = 99;

    /// Whether it is real-time.
    #[inline]
    pub fn yes(self) -> bool {
        self != RealTime::No
    }

    /// Its priority; 0 if it is not real-time.
    #[inline]
    pub fn priority(self) -> u8 {
        match self {
            RealTime::No => 0,
            RealTime::Fifo(priority) | RealTime::Rr(priority) => priority,
        }
    }
}

/// The program of a task, which is the task's name before a dash: instances are called `web-0`, `web-1`.
pub fn program_of(task: &str) -> &str {
    task.split('-').next().unwrap_or(task)
}

impl Task {
    /// Every set of CPUs that it names: its own, and those of its phases.
    pub fn masks(&self) -> Vec<&Vec<usize>> {
        fn of<'t>(steps: &'t [Step], masks: &mut Vec<&'t Vec<usize>>) {
            for step in steps {
                match step {
                    Step::Cpus(cpus) => masks.extend(cpus),
                    Step::Repeat { steps, .. } => of(steps, masks),
                    _ => {}
                }
            }
        }
        let mut masks = self.cpus.iter().collect();
        of(&self.steps, &mut masks);
        masks
    }
}
