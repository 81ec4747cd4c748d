// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a workload: each task's work between its waits, and what it waited for.
//!
//! Problem: a recording shows a program under one scheduler. Its behaviour under another follows only from the
//! program's own demands: how much each task works, and what must happen before it continues.
//!
//! Approach: time on a CPU is work. A wait that another task ended is a token: one task gives it and the other takes
//! it, in either order. A task that runs later may find the token and not wait. A wait that a timer or a device ended
//! takes as long as it did. But a task may give up waiting and ask for the same again until another task wakes it. It
//! then waits for that task, and asks as often as necessary.
//!
//! Reads and writes of connections within the machine are such waits, and, if every call was recorded, those of pipes
//! and local sockets. A full channel delays its writer. A wait that a call on a channel ended is no token if the woken
//! task reads or writes that channel itself. With a token as well, both would have it wait for one of its writers, and
//! that writer for it.
//!
//! A task that wakes many waiters in one queue of the kernel's (a pipe's, a socket's) holds the queue's lock meanwhile.
//! Each waiter needs that lock to leave the queue, so none continues before the last is woken. Waiters at a futex do
//! not need it.
//!
//! The kernel's own threads take CPUs from the others as they did in the recording. They wait for timers and devices as
//! long as they did, and for tasks of the workload as other tasks do.
//!
//! A coarse recording has samples alone, without reasons for waits: each thread works and sleeps in turn, for as long
//! as the samples say.
//!
//! On a machine with CPUs that run in turn on one clock (a guest under icount) a task works only during its CPU's
//! turns.

mod calls;
mod lock;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trace::Tid;
use workload::{Act, Again, Met, Object};

use crate::clocks::Clocks;
use crate::connections::Connections;
use crate::gil::{HAS_NS, NO_WORD, Threads, Words};
use crate::{Carrier, Ending, Event, Header, Kind, Left, Sample, Source, TaskInfo};

/// Most work between two wakeups of one system call, ns.
const WAKE_MAX_NS: f64 = 20_000.0;

/// This many waits, wakeups and calls of a recording are enough to fit it to a machine.
const FITTED_BY: usize = 1_000_000;

/// This many events show when turns end.
const TURNS_SHOWN_BY: usize = 20_000;

/// Most turns of one sample: more do not improve a replay.
const TURNS_MAX: u32 = 1000;
/// Fewer wakeups through pipes and sockets than this are not worth a note.
const TALKED_MOST: u64 = 1000;

/// The contents of a recording, before it is fitted to a machine.
#[derive(Debug)]
pub struct Replay {
    of_command: bool,
    coarse: bool,
    recorder: Option<Tid>,
    /// Time for writing an event down, ns: part of the recorded work of the task, but not its own.
    hook_ns: f64,
    call_hook_ns: f64,
    /// All calls are known, and may still show what carried a wakeup.
    calls: bool,
    /// Wakeups of tasks by tasks, and how many of these were through pipes and local sockets.
    woke: u64,
    talked: u64,
    cpus: Vec<Cpu>,
    clocks: Clocks,
    /// Events before it is known when turns end, if there are turns.
    early: Option<Vec<Event>>,
    known: BTreeMap<Tid, TaskInfo>,
    parent: BTreeMap<Tid, Tid>,
    /// The current index in `tasks` of each thread.
    index: BTreeMap<Tid, usize>,
    processes: BTreeMap<Tid, usize>,
    pub(crate) tasks: Vec<Task>,
    /// Number of the workload's own tasks, which come first when it is finished; the others are the kernel's.
    pub(crate) own: usize,
    wakes: Vec<Wake>,
    /// Free places in `wakes`.
    free: Vec<usize>,
    /// The index in `channels` of each key.
    numbers: BTreeMap<Key, u32>,
    pub(crate) channels: Vec<(Key, Channel)>,
    pub(crate) connections: Connections,
    /// Observations of each process's threads, and the words by which they woke each other.
    pub(crate) threads: BTreeMap<usize, Threads>,
    pub(crate) words: Words,
    /// The interpreter's lock of each process that has one; known when it is finished.
    pub(crate) gils: BTreeMap<usize, u32>,
    /// Objects that its tasks share; known when it is finished.
    pub(crate) objects: Vec<Object>,
    /// How tasks ask again for what they wait for; known when it is finished.
    pub(crate) agains: Arc<[Again]>,
    items: usize,
    /// When enough had happened to fit it to a machine.
    pub(crate) part_ns: Option<u64>,
    pub(crate) started_ns: Option<u64>,
    pub(crate) ended_ns: u64,
    pub(crate) others_ns: u64,
    /// Work of the recorder's own tasks during the workload.
    pub(crate) recorder_ns: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    current: Tid,
    known: bool,
    since_ns: u64,
    since_ran_ns: u64,
}

/// One task's acts.
#[derive(Debug)]
pub(crate) struct Task {
    pub tid: Tid,
    pub info: TaskInfo,
    pub process: usize,
    pub forked: bool,
    /// When it was first runnable, ns.
    pub start_ns: u64,
    /// Its acts, until the recording is finished.
    pub items: Vec<Item>,
    /// Its acts, after that. `asked_ns`: its work in asking again for what it waited for, which is not in `acts`, ns.
    pub acts: Arc<[Act]>,
    pub asked_ns: f64,
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// Times that it left one.
    pub switches: u64,
    on: Option<On>,
    /// When it last got its CPU, ns.
    came_ns: u64,
    /// Work since the last item, and what happened to it since; and the recorder's part of all its work.
    work_ns: f64,
    met: Met,
    pub hooks_ns: f64,
    /// The recorder's estimated part of its work that has not been subtracted yet.
    owed_ns: f64,
    blocked: Option<Blocked>,
    /// The call that it is about to be woken from, if the call has a timeout.
    timed: Option<u32>,
    /// The carrier of its last wakeup of another task, if it has had its CPU since.
    waking: Option<(Carrier, u32)>,
    /// Channels that it was seen to read or write.
    channels: BTreeSet<Key>,
    dead: bool,
    /// Work since it last dropped an interpreter's lock, if there is one, ns; and whether it holds it now.
    stint_ns: f64,
    has_lock: bool,
    /// When it was last sampled, left a CPU or was woken, and how long it has slept since it last worked. Negative if
    /// the kernel counted its running time late.
    looked_ns: u64,
    slept_ns: f64,
}

/// The CPU that a task has, the time up to which its work is counted, and how long the CPU had run then.
#[derive(Clone, Copy, Debug)]
struct On {
    cpu: usize,
    since_ns: u64,
    since_ran_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Blocked {
    since_ns: u64,
    item: usize,
    /// When and how it was woken.
    woken: Option<(u64, Woken)>,
    /// The call that it waited in, if the call has a timeout.
    timed: Option<u32>,
    at_lock: bool,
}

#[derive(Clone, Copy, Debug)]
enum Woken {
    By(usize),
    Timer,
    Outside,
}

/// Work, and the act after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Item {
    pub work_ns: f32,
    pub met: Met,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum What {
    Nothing,
    /// From one of the channels.
    Read {
        channel: u32,
        bytes: u32,
    },
    Write {
        channel: u32,
        bytes: u32,
    },
    /// Begins one of the connections.
    Connect(u32),
    Accept(u32),
    Fork(u32),
    /// Gives a token to a task, at one of the words.
    Give {
        to: u32,
        word: u32,
        sync: bool,
    },
    /// Gives a token, and the system call continues with the next one. `locked`: it holds the lock of a queue until
    /// then.
    GiveMore {
        to: u32,
        word: u32,
        sync: bool,
        locked: bool,
    },
    /// Takes its own token.
    Take {
        word: u32,
    },
    /// Takes its own token, in a call with a timeout.
    TakeWithin {
        call: u32,
        word: u32,
    },
    /// Took its own token in such a call, but a channel carried it: the next item takes from the channel.
    Found {
        call: u32,
    },
    /// Waits for something from outside, for so many µs.
    Wait(f32),
    /// Waits for a lock of the kernel's, for so many µs.
    Contend(f32),
    /// Waits until a call gives up, for so many µs.
    GiveUp {
        call: u32,
        us: f32,
    },
}

/// A channel's name and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub u32, pub u8);

impl Key {
    fn is_tcp(self) -> bool {
        self.1 == Carrier::Tcp as u8
    }
}

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub read: u64,
    pub written: u64,
    /// Most bytes that it held.
    pub most: u64,
    /// The size of its messages, as long as they are alike.
    pub size: Option<u32>,
    pub mixed: bool,
    /// Times that a waiting writer was woken, and the sum of the bytes that it held at these times.
    pub waits: u64,
    pub held_at_waits: u64,
}

/// One task wakes another: two items, and the channel of the waker.
#[derive(Clone, Copy, Debug)]
struct Wake {
    waker: usize,
    waker_item: usize,
    woken: usize,
    woken_item: Option<usize>,
    given: Option<Key>,
    /// Bytes in the channel at that time.
    held: u64,
    word: u32,
    /// The connection that the waker begins.
    begins: Option<u32>,
}

impl Replay {
    /// The replay of a recording with this header. `turn_ns`: its CPUs ran one after the other on one clock, for at
    /// most this long each; 0: side by side.
    pub fn new(header: &Header, turn_ns: f64) -> Self {
        Replay {
            of_command: header.children,
            coarse: header.source == Source::Procfs,
            recorder: header.recorder,
            hook_ns: header.hook_ns,
            call_hook_ns: header.call_hook_ns,
            calls: header.calls,
            woke: 0,
            talked: 0,
            cpus: vec![Cpu::default(); header.cpus],
            clocks: Clocks::new(header.cpus, turn_ns),
            early: (turn_ns > 0.0).then(Vec::new),
            known: BTreeMap::new(),
            parent: BTreeMap::new(),
            index: BTreeMap::new(),
            processes: BTreeMap::new(),
            tasks: Vec::new(),
            own: 0,
            wakes: Vec::new(),
            free: Vec::new(),
            numbers: BTreeMap::new(),
            channels: Vec::new(),
            connections: Connections::default(),
            threads: BTreeMap::new(),
            words: Words::default(),
            gils: BTreeMap::new(),
            objects: Vec::new(),
            agains: Arc::default(),
            items: 0,
            part_ns: None,
            started_ns: None,
            ended_ns: 0,
            others_ns: 0,
            recorder_ns: 0.0,
        }
    }

    /// Takes in the next event.
    pub fn event(&mut self, event: &Event) {
        match &mut self.early {
            None => self.take_in(event),
            Some(early) => {
                early.push(event.clone());
                if early.len() == TURNS_SHOWN_BY {
                    self.take_in_early();
                }
            }
        }
    }

    fn take_in_early(&mut self) {
        if let Some(early) = self.early.take() {
            self.clocks.find_turns(&early);
            early.iter().for_each(|event| self.take_in(event));
        }
    }

    fn take_in(&mut self, event: &Event) {
        let cpu = event.cpu as usize;
        self.clocks.advance(event.t_ns, Some(cpu));
        match &event.kind {
            Kind::Switch { prev, next, left } => self.switch(cpu, *prev, *next, *left),
            Kind::Wake { tid, by, object } => self.wake(cpu, *tid, *by, *object),
            Kind::Timed { tid, call } => {
                if let Some(task) = self.of(*tid) {
                    self.tasks[task].timed = Some(*call);
                }
            }
            Kind::Fork { parent, child } => {
                self.parent.insert(*child, *parent);
            }
            Kind::Start { tid, .. } => self.start(cpu, *tid),
            Kind::Exec { tid, old } => self.exec(cpu, *tid, *old),
            Kind::Exit { tid } => {
                if let Some(task) = self.of(*tid) {
                    self.tasks[task].dead = true;
                    self.pause(task);
                    self.lets_go(task);
                    if self.coarse {
                        self.ends(task);
                    }
                }
            }
            Kind::Sample(sample) => self.sampled(sample),
            Kind::Task(info) => self.describe(info),
            Kind::Read { object, bytes, channel } => {
                self.call(cpu, Key(*object, *channel as u8), *bytes, true);
            }
            Kind::Write { object, bytes, channel } => {
                self.call(cpu, Key(*object, *channel as u8), *bytes, false);
            }
            Kind::Connect { sends, receives, port } => self.connect(cpu, *sends, *receives, *port),
            Kind::Accept { sends, .. } => self.accept(cpu, *sends),
        }
    }

    /// Leaves the time for writing events down in the recorded work. The replay then shows what happened, and not what
    /// would have happened without a recorder.
    #[must_use]
    pub fn with_hooks(mut self) -> Self {
        (self.hook_ns, self.call_hook_ns) = (0.0, 0.0);
        self
    }

    /// Its CPUs ran one after the other on one clock.
    pub(crate) fn in_turn(&self) -> bool {
        self.clocks.in_turn()
    }

    /// CPUs of the machine it was recorded on.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Only known: how long threads ran and slept.
    pub fn coarse(&self) -> bool {
        self.coarse
    }

    /// Its tasks wake each other often, mostly through pipes and local sockets, and the data of these is not known.
    pub fn talks_unseen(&self) -> bool {
        !self.calls && self.talked >= TALKED_MOST && 2 * self.talked > self.woke
    }

    /// Ends the recording.
    pub fn finish(&mut self, ending: Option<&Ending>) {
        self.take_in_early();
        if let Some(ending) = ending {
            self.clocks.advance(ending.end_ns, None);
            self.others_ns += ending.others_ns.unwrap_or(0);
        }
        for task in 0..self.tasks.len() {
            self.pause(task);
            self.put(task, What::Nothing);
            // A task that still waits was about to be woken, or waits for ever as far as the recording shows.
            self.resumes(task);
        }
        for wake in 0..self.wakes.len() {
            self.settle(wake);
        }
        for wake in 0..self.wakes.len() {
            self.look_for_room(wake);
        }
        let command_ns = ending.and_then(|ending| ending.command_ns);
        if let Some((_, to_ns)) = command_ns.filter(|_| self.of_command) {
            self.ended_ns = to_ns;
        } else if !self.of_command {
            self.ended_ns = self.now_ns();
        }
        (self.wakes, self.free, self.index, self.known) = Default::default();
        self.seal();
    }

    fn now_ns(&self) -> u64 {
        self.clocks.now_ns()
    }

    /// The workload's task of a thread.
    fn of(&mut self, tid: Tid) -> Option<usize> {
        self.index.get(&tid).copied()
    }

    fn describe(&mut self, info: &TaskInfo) {
        self.known.insert(info.tid, info.clone());
        match self.of(info.tid) {
            Some(task) => {
                // Its number of flips now says nothing about its earlier acts.
                let wakee_flips = self.tasks[task].info.wakee_flips;
                self.tasks[task].info = TaskInfo { wakee_flips, ..info.clone() };
            }
            None if self.now_ns() == 0 => self.there(info),
            None => {}
        }
    }

    /// Adds a thread that existed before the recording began.
    fn there(&mut self, info: &TaskInfo) {
        if !self.of_command && !info.kernel && Some(info.pid) != self.recorder {
            self.add(info.clone(), false);
        }
    }

    fn add(&mut self, info: TaskInfo, forked: bool) -> usize {
        let fresh = self.processes.len() + 1;
        // A process's first thread begins it, whichever process had its number before.
        let process = match info.tid == info.pid {
            true => {
                self.processes.insert(info.pid, fresh + self.tasks.len());
                fresh + self.tasks.len()
            }
            false => *self.processes.entry(info.pid).or_insert(fresh + self.tasks.len()),
        };
        self.index.insert(info.tid, self.tasks.len());
        self.tasks.push(Task {
            tid: info.tid,
            info,
            process,
            forked,
            start_ns: self.now_ns(),
            items: Vec::new(),
            acts: Arc::default(),
            asked_ns: 0.0,
            cpu_ns: 0,
            switches: 0,
            on: None,
            came_ns: 0,
            work_ns: 0.0,
            met: Met::default(),
            hooks_ns: 0.0,
            owed_ns: 0.0,
            blocked: None,
            timed: None,
            waking: None,
            channels: BTreeSet::new(),
            dead: false,
            stint_ns: 0.0,
            has_lock: false,
            looked_ns: self.now_ns(),
            slept_ns: 0.0,
        });
        self.tasks.len() - 1
    }

    /// The command begins: the recorder's earlier processes, and their waits, are not part of it.
    fn begin(&mut self) {
        self.started_ns = Some(self.now_ns());
        (self.others_ns, self.recorder_ns, self.items, self.part_ns) = Default::default();
        (self.tasks, self.index, self.processes) = Default::default();
        (self.wakes, self.free, self.numbers, self.channels) = Default::default();
        (self.connections, self.threads, self.words) = Default::default();
    }

    /// A thread of the kernel's own is woken for the first time: from now on its acts take CPUs from others. Threads
    /// that move tasks are left out: they carry out decisions of the recorded scheduler [kernel/stop_machine.c].
    fn kernel_begins(&mut self, tid: Tid) {
        if self.started_ns.is_none() && self.of_command {
            return;
        }
        let Some(info) = self.known.get(&tid) else { return };
        if info.kernel && !info.name.starts_with("migration/") {
            self.add(info.clone(), false);
        }
    }

    /// Whether a thread is of the recorder's own process.
    fn is_recorder(&self, tid: Tid) -> bool {
        self.known.get(&tid).is_some_and(|it| Some(it.pid) == self.recorder)
    }

    fn start(&mut self, cpu: usize, tid: Tid) {
        let parent = self.parent.remove(&tid).unwrap_or(self.cpus[cpu].current);
        self.lose(tid, None);
        self.index.remove(&tid);
        let unknown = || TaskInfo { name: format!("thread-{tid}"), ..TaskInfo::new(tid, tid) };
        let info = self.known.get(&tid).cloned().unwrap_or_else(unknown);
        let by_recorder = self.is_recorder(parent) && Some(info.pid) != self.recorder;
        if let Some(forker) = self.of(parent) {
            let child = self.add(info, true);
            self.pause(forker);
            self.put(forker, What::Fork(child as u32));
        } else if by_recorder && self.of_command {
            if self.tasks.iter().all(|task| task.dead || task.info.kernel) {
                self.begin();
            }
            self.add(info, false);
        } else if !self.of_command && !info.kernel && Some(info.pid) != self.recorder {
            self.add(info, false);
        }
    }

    fn switch(&mut self, cpu: usize, prev: Tid, next: Tid, left: Left) {
        let Cpu { current, known, since_ns, since_ran_ns } = self.cpus[cpu];
        let own = self.of(current).is_some_and(|task| !self.tasks[task].info.kernel);
        if let (true, false, Some(started_ns)) = (current != 0, own, self.started_ns) {
            self.others_ns += self.now_ns() - since_ns.max(started_ns);
            if self.is_recorder(current) && since_ns >= started_ns {
                self.recorder_ns += (self.clocks.ran_ns(cpu) - since_ran_ns) as f64;
            }
        }
        self.clocks.set_busy(cpu, next != 0);
        let (since_ns, since_ran_ns) = (self.now_ns(), self.clocks.ran_ns(cpu));
        self.cpus[cpu] = Cpu { current: next, known: true, since_ns, since_ran_ns };
        if known && current != prev {
            self.lose(current, Some(cpu));
        }
        if let Some(task) = self.of(prev).filter(|_| prev != 0) {
            if self.tasks[task].blocked.is_some_and(|blocked| blocked.item != usize::MAX) {
                // The switch by which it got this CPU is missing.
                self.resumes(task);
            }
            if !known {
                // It had this CPU before the recording began, or since it was last seen elsewhere.
                let since_ns = self.tasks[task].looked_ns;
                let since_ran_ns = since_ns.min(self.clocks.ran_ns(cpu));
                self.tasks[task].on.get_or_insert(On { cpu, since_ns, since_ran_ns });
            }
            self.pause(task);
            self.hook(task, self.hook_ns);
            self.tasks[task].on = None;
            self.tasks[task].waking = None;
            let for_recorder = left == Left::Preempted && self.is_recorder(next);
            self.tasks[task].switches += u64::from(!for_recorder);
            match left {
                Left::Preempted => {
                    let met = &mut self.tasks[task].met;
                    met.preempted = met.preempted.saturating_add(1);
                }
                Left::Dead => self.ends(task),
                Left::Blocked => self.blocks(task, false),
                Left::AtLock => self.blocks(task, true),
            }
        }
        if let Some(task) = self.of(next).filter(|_| next != 0) {
            self.resumes(task);
            self.tasks[task].on = Some(On { cpu, since_ns, since_ran_ns });
            self.tasks[task].came_ns = since_ns;
        }
    }

    /// The event of a thread's leaving this CPU is missing, so its acts there since it was last seen are not known. It
    /// may have been seen on another CPU since. None: any CPU that it is believed to have.
    fn lose(&mut self, tid: Tid, cpu: Option<usize>) {
        let Some(task) = self.of(tid) else { return };
        let has = self.tasks[task].on.map(|on| on.cpu);
        if cpu.is_none() || has == cpu {
            self.lets_go(task);
            self.tasks[task].on = None;
        }
    }

    /// If another thread than a process's first calls exec, the first thread ends, and the caller continues under its
    /// number.
    fn exec(&mut self, cpu: usize, tid: Tid, old: Tid) {
        let Some(task) = self.of(old).filter(|_| old != tid) else { return };
        self.lose(tid, None);
        self.index.remove(&old);
        self.index.insert(tid, task);
        self.tasks[task].tid = tid;
        if self.cpus[cpu].current == old {
            self.cpus[cpu].current = tid;
        }
    }

    /// Takes in a sample of a thread: it worked and slept in turn, once for each time that it got a CPU.
    fn sampled(&mut self, sample: &Sample) {
        let Some(task) = self.of(sample.tid) else { return };
        let now_ns = self.now_ns();
        let of = &mut self.tasks[task];
        let since_ns = std::mem::replace(&mut of.looked_ns, now_ns);
        let (ran_ns, waited_ns) = (f64::from(sample.ran_ns), f64::from(sample.waited_ns));
        of.cpu_ns += u64::from(sample.ran_ns);
        of.switches += u64::from(sample.slices);
        of.slept_ns += (now_ns - since_ns) as f64 - ran_ns - waited_ns;
        // A task that got no new CPU had it all the time, or a later sample shows that it slept.
        let went_on = sample.slices == 0 && sample.ran_ns > 0;
        if went_on || of.slept_ns <= 0.0 {
            of.work_ns += ran_ns;
            return;
        }
        let slept_ns = std::mem::take(&mut of.slept_ns);
        if let Some(Item { what: What::Wait(us), .. }) = of.items.last_mut()
            && of.work_ns + ran_ns == 0.0
        {
            *us += (slept_ns / 1000.0) as f32;
            return;
        }
        let turns = sample.slices.clamp(1, TURNS_MAX);
        for _ in 0..turns {
            self.tasks[task].work_ns += ran_ns / f64::from(turns);
            self.put(task, What::Wait((slept_ns / 1000.0 / f64::from(turns)) as f32));
        }
    }

    /// Credits a task for its work until now.
    fn pause(&mut self, task: usize) {
        self.credit(task);
        let of = &mut self.tasks[task];
        if !of.has_lock && !of.dead && of.stint_ns > HAS_NS {
            of.has_lock = true;
            let process = of.process;
            let others = self.others_with_lock(task);
            self.threads.entry(process).or_default().takes(others);
        }
    }

    fn credit(&mut self, task: usize) {
        let now_ns = self.now_ns();
        let task = &mut self.tasks[task];
        if let Some(On { cpu, since_ns, since_ran_ns }) = &mut task.on {
            let ran_ns = self.clocks.ran_ns(*cpu);
            task.cpu_ns += now_ns - *since_ns;
            task.work_ns += (ran_ns - *since_ran_ns) as f64;
            task.stint_ns += (ran_ns - *since_ran_ns) as f64;
            (*since_ns, *since_ran_ns) = (now_ns, ran_ns);
            task.looked_ns = now_ns;
        }
    }

    /// Subtracts the time for writing an event of this task down, which is a mean. If it exceeds the task's work, later
    /// events pay the rest.
    fn hook(&mut self, task: usize, hook_ns: f64) {
        let task = &mut self.tasks[task];
        task.owed_ns += hook_ns;
        let own_ns = task.owed_ns.min(task.work_ns);
        task.owed_ns -= own_ns;
        task.work_ns -= own_ns;
        task.hooks_ns += own_ns;
    }

    fn put(&mut self, task: usize, what: What) -> usize {
        self.items += 1;
        if self.items == FITTED_BY {
            self.part_ns = Some(self.now_ns());
        }
        let task = &mut self.tasks[task];
        let (work_ns, met) = (std::mem::take(&mut task.work_ns), std::mem::take(&mut task.met));
        task.items.push(Item { work_ns: work_ns as f32, met, what });
        task.items.len() - 1
    }

    fn ends(&mut self, task: usize) {
        self.lets_go(task);
        if self.coarse {
            let tid = self.tasks[task].tid;
            self.sampled(&Sample { tid, ..Sample::default() });
        }
        self.put(task, What::Nothing);
        if !self.tasks[task].info.kernel {
            self.ended_ns = self.now_ns();
        }
        let tid = self.tasks[task].tid;
        if self.index.get(&tid) == Some(&task) {
            self.index.remove(&tid);
        }
    }

    fn blocks(&mut self, task: usize, at_lock: bool) {
        if !at_lock {
            self.lets_go(task);
        }
        self.tasks[task].met.waited += 1;
        let item = self.put(task, What::Take { word: NO_WORD });
        // A wakeup that came while the task was leaving its CPU is kept: it may have been for this wait.
        let early = self.tasks[task].blocked.take();
        let (woken, timed) = early.map_or((None, None), |blocked| (blocked.woken, blocked.timed));
        let since_ns = self.now_ns();
        self.tasks[task].blocked = Some(Blocked { since_ns, item, woken, timed, at_lock });
    }

    fn wake(&mut self, cpu: usize, tid: Tid, by: Carrier, object: u32) {
        let Some(woken) = self.of(tid) else { return self.kernel_begins(tid) };
        let current = self.cpus[cpu].current;
        let given = by.is_channel().then_some(Key(object, by as u8));
        let by_task = given.is_some() || matches!(by, Carrier::Task | Carrier::Futex);
        let waker = self.of(current).filter(|_| by_task && current != 0);
        let how = match waker {
            None if by == Carrier::Timer => Woken::Timer,
            None => Woken::Outside,
            Some(waker) => {
                self.pause(waker);
                self.hook(waker, self.hook_ns);
                self.same_call(waker, by, object);
                self.woke += 1;
                self.talked += u64::from(matches!(by, Carrier::Pipe | Carrier::UnixSocket));
                let word = match by {
                    Carrier::Futex => self.woken_at(waker, woken, object),
                    _ => NO_WORD,
                };
                let begins = match self.tasks[waker].items.last() {
                    Some(Item { what: What::Connect(at), .. }) if by == Carrier::Tcp => Some(*at),
                    _ => None,
                };
                if by == Carrier::Tcp && object == 0 {
                    self.connections.ends(self.tasks[waker].process, woken);
                }
                self.tasks[waker].met.woke += 1;
                // `__wake_up_sync_key`: of pipes, sockets, and a child's end.
                let sync = by.is_channel() || by == Carrier::Task && self.tasks[waker].dead;
                let waker_item = self.put(waker, What::Give { to: woken as u32, word, sync });
                let woken_item = None;
                let number = given.and_then(|key| self.numbers.get(&key));
                let held = number.map_or(0, |number| self.channels[*number as usize].1.held());
                let wake = Wake { waker, waker_item, woken, woken_item, given, held, word, begins };
                Woken::By(self.keep(wake))
            }
        };
        let now_ns = self.now_ns();
        let woken_at = Some((now_ns, how));
        let timed = self.tasks[woken].timed.take();
        if let (Woken::Timer, Some(call)) = (how, timed) {
            self.gives_up(woken, call);
        }
        self.tasks[woken].looked_ns = now_ns;
        let task = &self.tasks[woken];
        let (runs, fresh) = (task.on.is_some(), task.items.is_empty() && !task.forked);
        let (since_ns, item, at_lock) = match task.blocked {
            Some(Blocked { since_ns, item, at_lock, .. }) => {
                // If the holder had lost its CPU, that caused the wait, and another scheduler may not preempt it.
                let ran = |waker: usize| self.tasks[waker].came_ns <= since_ns;
                (since_ns, item, at_lock && waker.is_some_and(ran))
            }
            // It still runs, and is about to leave its CPU.
            None if runs => (now_ns, usize::MAX, false),
            // It was already waiting before the recording began.
            None if fresh => {
                let item = self.put(woken, What::Take { word: NO_WORD });
                (self.tasks[woken].start_ns, item, false)
            }
            None => return,
        };
        self.tasks[woken].blocked =
            Some(Blocked { since_ns, item, woken: woken_at, timed, at_lock });
    }

    /// A task that wakes by the same object shortly after the last wakeup is still in the same system call, which wakes
    /// many.
    fn same_call(&mut self, waker: usize, by: Carrier, object: u32) {
        let task = &mut self.tasks[waker];
        let before = task.waking.replace((by, object));
        let soon = object != 0 && before == Some((by, object)) && task.work_ns < WAKE_MAX_NS;
        if let Some(Item { what, .. }) = task.items.last_mut().filter(|_| soon)
            && let What::Give { to, word, sync } = *what
        {
            *what = What::GiveMore { to, word, sync, locked: by.is_channel() };
        }
    }

    fn keep(&mut self, wake: Wake) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.wakes[place] = wake;
                place
            }
            None => {
                self.wakes.push(wake);
                self.wakes.len() - 1
            }
        }
    }

    /// It has a CPU again: now it is known what it waited for, except for the channel.
    fn resumes(&mut self, task: usize) {
        let Some(blocked) = self.tasks[task].blocked.take() else { return };
        if blocked.item == usize::MAX {
            return;
        }
        let us = |t_ns: u64| t_ns.saturating_sub(blocked.since_ns) as f32 / 1000.0;
        match blocked.woken {
            Some((t_ns, Woken::By(wake))) if self.was_at_lock(&blocked, wake) => {
                // No task takes the waker's token.
                self.settle(wake);
                self.free.push(wake);
                self.tasks[task].items[blocked.item].what = What::Contend(us(t_ns));
            }
            Some((_, Woken::By(wake))) => {
                self.wakes[wake].woken_item = Some(blocked.item);
                let word = self.wakes[wake].word;
                self.tasks[task].items[blocked.item].what = match blocked.timed {
                    Some(call) => What::TakeWithin { call, word },
                    None => What::Take { word },
                };
                // Otherwise it stays a token: nothing later can change that, and a long recording has many.
                let known = self.calls || self.wakes[wake].given.is_some_and(Key::is_tcp);
                if !known {
                    self.free.push(wake);
                }
            }
            Some((t_ns, how)) => {
                let us = us(t_ns);
                self.tasks[task].items[blocked.item].what = match (how, blocked.timed) {
                    (Woken::Timer, Some(call)) => What::GiveUp { call, us },
                    _ => What::Wait(us),
                };
            }
            None => self.tasks[task].items[blocked.item].what = What::Nothing,
        }
    }

    /// Whether it waited for a lock of the kernel's. Its holder was a matter of chance, and may not hold it in a
    /// replay. A replay models the locks of pipes and sockets itself, if it has these.
    fn was_at_lock(&self, blocked: &Blocked, wake: usize) -> bool {
        blocked.at_lock && !(self.calls && self.wakes[wake].given.is_some())
    }

    /// Decides whether a wakeup of one task by another is a token or was carried by a channel.
    fn settle(&mut self, wake: usize) {
        let Wake { waker, waker_item, woken, woken_item, given, begins, .. } = self.wakes[wake];
        let carried = match begins {
            Some(at) => self.connections.all[at as usize].is_accepted_by(woken),
            None => given.is_some_and(|key| self.tasks[woken].channels.contains(&key)),
        };
        if carried || woken_item.is_none() {
            self.tasks[waker].items[waker_item].what = What::Nothing;
        }
        if let Some(item) = woken_item.filter(|_| carried) {
            let what = &mut self.tasks[woken].items[item].what;
            *what = match *what {
                What::TakeWithin { call, .. } => What::Found { call },
                _ => What::Nothing,
            };
        }
    }
}
