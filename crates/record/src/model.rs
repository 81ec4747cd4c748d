// SPDX-License-Identifier: GPL-2.0-only
//! The workload that a recording holds, for a machine.
//!
//! A task's time on a CPU includes the kernel's work for it: switches, wakeups, system calls. A model of the machine
//! charges these itself. [`Fit`] subtracts from each piece of work what the model adds when the recording is replayed
//! under its own scheduler. So no cost is guessed, and none is counted twice.

use std::collections::BTreeMap;

use trace::Tid;
use workload::hackbench::{PIPE_BYTES, SOCKET_BYTES, SOCKET_OVERHEAD_BYTES};
use workload::{
    Act, Again, Causes, Cut, Fair, Met, More, Object, Played, RealTime, Script, Task, Then,
    Workload,
};

use crate::connections::Connection;
use crate::gil::{HAS_NS, INTERVAL_NS, Lock, Threads};
use crate::replay::{Channel, Item, Key, Replay, What};
use crate::{Carrier, Class};

/// A full pipe makes writers wait at least this often.
const WAITS_MIN: u64 = 10;

/// Messages that have been taken out or put in by calls that have not returned.
const ABOUT: u32 = 2;

/// Bytes of a pipe's page.
const PAGE: u32 = 4096;

/// Time subtracted from each piece of each task's work, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fit {
    /// From each piece of a task, in any case.
    cut_ns: Vec<f64>,
    /// Costs of waiting, being preempted and waking in the recording, as far as it shows them.
    took: Cut,
    /// Costs that the model added for these, and what it added to any other piece of a task. Which task a wakeup or a
    /// switch is charged to is chance, so these are means of the replays so far. The first replay is left out: in it,
    /// every cost counted twice.
    adds: Cut,
    adds_ns: Vec<f64>,
    replays: usize,
}

/// Figures of a task of the workload in the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The thread.
    pub tid: Tid,
    /// Its last name.
    pub name: String,
    /// Time on a CPU, without the recorder's part of it, ns.
    pub cpu_ns: u64,
    /// The part of it in which it worked, if CPUs ran in turn; else the same.
    pub work_ns: f64,
    /// Times that it left a CPU.
    pub switches: u64,
}

impl Fit {
    /// A fit that subtracts nothing.
    pub fn none(replay: &Replay) -> Self {
        let nothing = vec![0.0; replay.tasks.len()];
        Fit {
            cut_ns: nothing.clone(),
            adds_ns: nothing,
            took: took(&replay.tasks),
            ..Fit::default()
        }
    }

    /// More waits of a task in a replay than in the recording do not reduce its work further: the fit compares the
    /// costs of the same acts.
    pub fn better(&self, replay: &Replay, shown: &[Played], added: &Cut) -> Self {
        let mut better = Fit { replays: self.replays + 1, ..self.clone() };
        let part = 1.0 / self.replays.max(1) as f64;
        let mean = |before_ns: f64, now_ns: f64| before_ns + (now_ns - before_ns) * part;
        let more = self.takes_more();
        better.adds = Cut {
            each_ns: 0.0,
            waited_ns: mean(self.adds.waited_ns, added.waited_ns - more.waited_ns),
            preempted_ns: mean(self.adds.preempted_ns, added.preempted_ns),
            woke_ns: mean(self.adds.woke_ns, added.woke_ns - more.woke_ns),
        };
        let by_what = better.by_what();
        let (mut all_ns, mut acts) = (0.0, 0.0);
        let mut idle = Vec::new();
        for (at, (task, shown)) in replay.tasks.iter().zip(shown).enumerate() {
            let done = &task.acts[..shown.acts.min(task.acts.len())];
            if done.is_empty() {
                idle.push(at);
                continue;
            }
            let length = done.len() as f64;
            let own_ns = left(done, self.cut(at)) + added.of_ns(shown.happened);
            let adds_ns = (shown.worked_ns - shown.into_ns - own_ns) / length;
            better.adds_ns[at] = mean(self.adds_ns[at], adds_ns);
            let happened_ns = done.iter().map(|act| by_what.of_ns(act.met.into()));
            let took_ns = better.adds_ns[at] * length + happened_ns.sum::<f64>();
            let wanted_ns = (left(done, Cut::default()) - took_ns).max(0.0);
            better.cut_ns[at] = cut_for(done, by_what, wanted_ns);
            all_ns += better.cut_ns[at] * length;
            acts += length;
        }
        for at in idle {
            better.cut_ns[at] = if acts > 0.0 { all_ns / acts } else { 0.0 };
        }
        better
    }

    /// Added to the model's own costs of waiting and waking, to match the recording's.
    fn takes_more(&self) -> Cut {
        let more = |took_ns: f64, adds_ns: f64| (took_ns - adds_ns).max(0.0);
        match self.replays {
            0 => Cut::default(),
            _ => Cut {
                waited_ns: more(self.took.waited_ns, self.adds.waited_ns),
                woke_ns: more(self.took.woke_ns, self.adds.woke_ns),
                ..Cut::default()
            },
        }
    }

    /// The replay's charge for each of these.
    fn by_what(&self) -> Cut {
        let more = self.takes_more();
        Cut {
            waited_ns: self.adds.waited_ns + more.waited_ns,
            woke_ns: self.adds.woke_ns + more.woke_ns,
            ..self.adds
        }
    }

    /// The time to subtract from a task's work.
    fn cut(&self, task: usize) -> Cut {
        Cut { each_ns: self.cut_ns.get(task).copied().unwrap_or(0.0), ..self.by_what() }
    }
}

/// Costs of waiting, being preempted and waking, from calls that moved data: the recording has all of these, and not
/// only those that waited or woke. Other acts before a call say nothing about its costs.
fn took(tasks: &[crate::replay::Task]) -> Cut {
    let mut causes = Causes::default();
    for act in tasks.iter().flat_map(|task| task.acts.iter()) {
        if matches!(act.then, Then::Read { .. } | Then::Write { .. }) {
            let ns = act.work_ns.into();
            causes.add(act.then, act.met.into(), ns, ns);
        }
    }
    causes.take()
}

/// The work that remains after this is subtracted from each act.
fn left(acts: &[Act], cut: Cut) -> f64 {
    acts.iter().map(|act| cut.left_ns(act)).sum()
}

/// The time to subtract from each act, besides `by_what`, so that `wanted_ns` remain. Negative if the acts are too
/// short.
fn cut_for(acts: &[Act], by_what: Cut, wanted_ns: f64) -> f64 {
    let left_ns = |act: &Act| f64::from(act.work_ns) - by_what.of_ns(act.met.into());
    let least = acts.iter().map(left_ns).fold(0.0, f64::min);
    let most = acts.iter().map(left_ns).fold(0.0, f64::max);
    let (mut low, mut high) = (least - wanted_ns, most);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match left(acts, Cut { each_ns: middle, ..by_what }) > wanted_ns {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

impl Replay {
    /// Number of tasks, without the kernel's own.
    pub fn len(&self) -> usize {
        self.own
    }

    /// Whether it has no tasks.
    pub fn is_empty(&self) -> bool {
        self.own == 0
    }

    /// From the start of the workload to its end, ns. With one CPU, or with CPUs that run in turn on one clock, without
    /// the time of the recorder.
    pub fn elapsed_ns(&self) -> u64 {
        let whole_ns = self.ended_ns.saturating_sub(self.started_ns.unwrap_or(0));
        if !self.in_turn() && self.cpus() != 1 {
            return whole_ns;
        }
        let hooks_ns: f64 = self.tasks.iter().map(|task| task.hooks_ns).sum();
        whole_ns.saturating_sub((hooks_ns + self.recorder_ns) as u64)
    }

    /// Number of tasks of the deadline class, which the simulator does not have.
    pub fn deadline_tasks(&self) -> usize {
        self.tasks.iter().filter(|task| task.info.class == Class::Deadline).count()
    }

    /// CPU time of tasks that are not the workload's during it, ns.
    pub fn others_ns(&self) -> u64 {
        self.others_ns
    }

    /// Each task's figures in the recording, in the workload's order.
    pub fn recorded(&self) -> Vec<Recorded> {
        let one = |task: &crate::replay::Task| {
            let work_ns = left(&task.acts, Cut::default()) + task.asked_ns;
            let own = 1.0 - task.hooks_ns / (work_ns + task.hooks_ns).max(1.0);
            Recorded {
                tid: task.tid,
                name: task.info.name.clone(),
                cpu_ns: (task.cpu_ns as f64 * own).round() as u64,
                work_ns,
                switches: task.switches,
            }
        };
        self.tasks[..self.own].iter().map(one).collect()
    }

    /// The workload, on a machine with `cpus` CPUs. Its timers may be late by `slack_ns`.
    pub fn workload(&self, name: &str, cpus: usize, slack_ns: f64, fit: &Fit) -> Workload {
        let since_ns = self.started_ns.unwrap_or(0);
        let tasks = self.tasks.iter().enumerate().map(|(index, task)| Task {
            name: task.info.name.clone(),
            process: task.process,
            cpus: allowed(task.info.cpus, self.cpus(), cpus),
            nice: task.info.nice.clamp(-20, 19),
            realtime: realtime(task.info.class),
            fair: fair(task.info.class),
            kernel: task.info.kernel,
            wakee_flips: task.info.wakee_flips.into(),
            gil: self.gils.get(&task.process).map(|gil| *gil as usize),
            delay_ns: if task.forked { 0 } else { task.start_ns.saturating_sub(since_ns) },
            forked: task.forked,
            script: Some(Script::new(
                task.acts.clone(),
                self.agains.clone(),
                fit.cut(index),
                slack_ns,
            )),
            ..Task::default()
        });
        let tasks = tasks.collect();
        let (name, mut objects) = (name.to_string(), self.objects.clone());
        for object in &mut objects {
            if let Object::Gil { interval_ns, .. } = object {
                *interval_ns = interval_ns.saturating_sub(slack_ns as u64);
            }
        }
        let takes_more = fit.takes_more();
        Workload { name, tasks, objects, recorded: true, takes_more, ..Workload::default() }
    }

    /// Length of a first part of the workload that is enough to fit it; None: all of it is needed.
    pub fn part_ns(&self) -> Option<u64> {
        Some(self.part_ns?.saturating_sub(self.started_ns.unwrap_or(0)).max(1))
    }

    /// Moves the kernel's own tasks behind the others.
    fn kernel_last(&mut self) {
        let kernel = |task: &crate::replay::Task| task.info.kernel;
        self.own = self.tasks.iter().filter(|task| !kernel(task)).count();
        let (mut own, mut last) = (0..self.own as u32, self.own as u32..);
        let place = |task| if kernel(task) { last.next() } else { own.next() };
        let places: Vec<u32> = self.tasks.iter().filter_map(place).collect();
        for Item { what, .. } in self.tasks.iter_mut().flat_map(|task| &mut task.items) {
            if let What::Fork(task)
            | What::Give { to: task, .. }
            | What::GiveMore { to: task, .. } = what
            {
                *task = places[*task as usize];
            }
        }
        self.tasks.sort_by_key(kernel);
    }

    /// Ends the recording: each task's acts become a script, and what the tasks share becomes objects.
    pub(crate) fn seal(&mut self) {
        self.kernel_last();
        let mut objects = Objects::new(&self.channels, &self.connections.all);
        let takers = self.tasks.iter().map(|task| {
            let takes =
                |item: &Item| matches!(item.what, What::Take { .. } | What::TakeWithin { .. });
            let takes = task.items.iter().any(takes);
            takes.then(|| objects.add(Object::Tokens))
        });
        let tokens: Vec<Option<u32>> = takers.collect();
        let asked = Asked::of(&self.tasks);
        let lock_of = |(process, threads): (&usize, &Threads)| Some((*process, threads.lock()?));
        let mut locks: BTreeMap<usize, Lock> = self.threads.iter().filter_map(lock_of).collect();
        locks.retain(|process, lock| {
            let Some(Again { wait_ns, work_ns }) = asks_for(&self.tasks, *process, lock) else {
                return false;
            };
            let gil = Object::Gil { interval_ns: wait_ns as u64, ask_ns: work_ns as u64 };
            self.gils.insert(*process, objects.add(gil));
            true
        });
        let of_locks = self.words.of_locks(&locks);
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let items = std::mem::take(&mut task.items);
            let (process, own) = (task.process, tokens[index]);
            let mut emit = Emit {
                objects: &mut objects,
                tokens: &tokens,
                asked: &asked,
                process,
                own,
                lock: locks.get(&process),
                of_locks: &of_locks,
            };
            let (acts, asked_ns) = emit.acts(&items);
            (task.acts, task.asked_ns) = (acts.into(), asked_ns);
        }
        (self.objects, self.agains) = (objects.all, asked.ways.into());
    }
}

/// The simulator's class for a class. A deadline task precedes all others: its runtime and period are not known.
fn realtime(class: Class) -> RealTime {
    match class {
        Class::Fifo(priority) => RealTime::Fifo(priority),
        Class::RoundRobin(priority) => RealTime::Rr(priority),
        Class::Deadline => RealTime::Fifo(RealTime::MAX),
        Class::Other | Class::Batch | Class::Idle => RealTime::No,
    }
}

fn fair(class: Class) -> Fair {
    match class {
        Class::Batch => Fair::Batch,
        Class::Idle => Fair::Idle,
        _ => Fair::Normal,
    }
}

/// The CPUs of a mask that the machine has; None: all.
fn allowed(mask: u64, recorded: usize, cpus: usize) -> Option<Vec<usize>> {
    let own: Vec<usize> = (0..cpus.min(64)).filter(|cpu| mask >> cpu & 1 == 1).collect();
    let any = (0..recorded.min(64)).all(|cpu| mask >> cpu & 1 == 1);
    (!any && !own.is_empty()).then_some(own)
}

/// Objects of the workload, and the bytes of each channel that are still to be skipped or written.
struct Objects {
    all: Vec<Object>,
    of: Vec<Option<Open>>,
    connections: Vec<Option<Link>>,
}

struct Open {
    read_at: u32,
    written_at: u32,
    /// Bytes read that no recorded task has written, and bytes written that are read. Others are left out: the first
    /// bytes read, and the last written.
    unread: u64,
    unwritten: u64,
}

/// A connection that the first task to arrive accepts.
#[derive(Clone, Copy)]
struct Link {
    listener: u32,
    /// The first of its two channels, and the first of the two ends of the connection that is accepted in its place.
    connection: u32,
    accepted: u32,
}

impl Objects {
    fn new(channels: &[(Key, Channel)], connections: &[Connection]) -> Self {
        let mut objects = Objects { all: Vec::new(), of: Vec::new(), connections: Vec::new() };
        let mut ends = vec![None; channels.len()];
        let mut listeners = BTreeMap::new();
        for (number, connection) in connections.iter().enumerate() {
            let link = connection.is_whole().then(|| {
                let alike = connection.alike(number);
                let listener =
                    *listeners.entry(alike).or_insert_with(|| objects.add(Object::Listener));
                let pair = [connection.sends, connection.receives].map(|at| &channels[at as usize]);
                let [to, back] = pair.map(|(key, channel)| objects.add(object(*key, channel)));
                let [from, reply] = [(); 2].map(|()| objects.add(Object::Accepted));
                ends[connection.sends as usize] = Some((from, to));
                ends[connection.receives as usize] = Some((back, reply));
                Link { listener, connection: to, accepted: from }
            });
            objects.connections.push(link);
        }
        for ((key, channel), ends) in channels.iter().zip(ends) {
            let both = channel.both();
            let open = (both > 0).then(|| {
                let (from, to) = ends.unwrap_or_else(|| {
                    let object = objects.add(object(*key, channel));
                    (object, object)
                });
                Open { read_at: from, written_at: to, unread: channel.read - both, unwritten: both }
            });
            objects.of.push(open);
        }
        objects
    }

    fn add(&mut self, object: Object) -> u32 {
        self.all.push(object);
        self.all.len() as u32 - 1
    }

    fn read(&mut self, channel: u32, bytes: u32) -> Option<Then> {
        let open = self.of[channel as usize].as_mut()?;
        let skipped = open.unread.min(bytes.into());
        open.unread -= skipped;
        let bytes = bytes - skipped as u32;
        (bytes > 0).then_some(Then::Read { channel: open.read_at, bytes })
    }

    fn write(&mut self, channel: u32, bytes: u32) -> Option<Then> {
        let open = self.of[channel as usize].as_mut()?;
        let bytes = open.unwritten.min(bytes.into()) as u32;
        open.unwritten -= u64::from(bytes);
        (bytes > 0).then_some(Then::Write { channel: open.written_at, bytes })
    }

    fn connect(&self, at: u32) -> Option<Then> {
        let Link { listener, connection, .. } = self.connections[at as usize]?;
        Some(Then::Connect { listener, connection })
    }

    fn accept(&self, at: u32) -> Option<Then> {
        let Link { listener, accepted, .. } = self.connections[at as usize]?;
        Some(Then::Accept { listener, accepted })
    }
}

impl Channel {
    /// Bytes that were written and read.
    fn both(&self) -> u64 {
        self.read.min(self.written)
    }

    /// Bytes that were written and not read yet.
    pub(crate) fn held(&self) -> u64 {
        self.written.saturating_sub(self.read)
    }

    /// A pipe that was seen to be full. If it holds fewer messages than fit into a page, it keeps them apart; else it
    /// has that many pages. None: it was not full, or its messages differ. Writers also wait for a task inside it,
    /// however much it holds. They wait for room when it holds about as much as it ever did.
    fn full_pipe(&self) -> Option<Object> {
        let size = self.size.filter(|size| !self.mixed && (1..=PAGE).contains(size))?;
        if self.waits < WAITS_MIN {
            return None;
        }
        let messages = self.held_at_waits as f64 / self.waits as f64 / f64::from(size);
        let in_page = f64::from(PAGE / size);
        // Linux has powers of two. A task that is about to return from a call makes it look a little larger or smaller.
        let power_of_two = |number: f64| 1 << number.max(1.0).log2().round() as u32;
        let (object, holds) = match messages < in_page {
            true => {
                let messages = power_of_two(messages);
                (Object::Packets { messages }, messages)
            }
            false => {
                let pages = power_of_two(messages / in_page);
                (Object::Pipe { capacity: pages * PAGE }, pages * (PAGE / size))
            }
        };
        let most = self.most / u64::from(size);
        (most <= u64::from(holds + ABOUT)).then_some(object)
    }
}

/// Sockets keep messages apart, and a model of one takes a whole message at a time. If sizes differ, and for
/// connections, a stream of bytes is used instead.
fn object(Key(_, kind): Key, channel: &Channel) -> Object {
    if kind == Carrier::UnixSocket as u8 && !channel.mixed {
        return Object::Socket { capacity: SOCKET_BYTES, overhead: SOCKET_OVERHEAD_BYTES };
    }
    if let Some(pipe) = channel.full_pipe().filter(|_| kind == Carrier::Pipe as u8) {
        return pipe;
    }
    let (least, most) = match kind == Carrier::Pipe as u8 {
        true => (PIPE_BYTES, channel.most),
        // Modelled as a pipe. A pipe's pages are left partly empty by messages that do not fit into the rest of a page.
        // A replay does not read bytes that no recorded task has written.
        false => (SOCKET_BYTES, 2 * (channel.most + channel.read - channel.both())),
    };
    let most = u32::try_from(most).unwrap_or(u32::MAX - PAGE);
    Object::Pipe { capacity: least.max(most.next_multiple_of(PAGE)) }
}

/// How threads of each process ask again in each call with a timeout: the mean of the recording.
#[derive(Default)]
struct Asked {
    of: BTreeMap<(usize, u32), u32>,
    ways: Vec<Again>,
}

impl Asked {
    fn of(tasks: &[crate::replay::Task]) -> Self {
        let mut sums: BTreeMap<(usize, u32), (f64, Again)> = BTreeMap::new();
        for task in tasks {
            for (at, item) in task.items.iter().enumerate() {
                let What::GiveUp { call, us } = item.what else { continue };
                let Some((_, work_ns)) = asks_again(&task.items, at, call) else { continue };
                let (times, sum) = sums.entry((task.process, call)).or_default();
                *times += 1.0;
                sum.wait_ns += f64::from(us) * 1000.0;
                sum.work_ns += work_ns;
            }
        }
        let mut asked = Asked::default();
        for (which, (times, Again { wait_ns, work_ns })) in sums {
            asked.of.insert(which, asked.ways.len() as u32);
            asked.ways.push(Again { wait_ns: wait_ns / times, work_ns: work_ns / times });
        }
        asked
    }
}

/// How threads ask for their interpreter's lock, on average. None: they do not wait about as long as for one.
fn asks_for(tasks: &[crate::replay::Task], process: usize, lock: &Lock) -> Option<Again> {
    let (mut times, mut sum) = (0.0, Again::default());
    for task in tasks.iter().filter(|task| task.process == process) {
        for two in task.items.windows(2) {
            let What::GiveUp { call, us } = two[0].what else { continue };
            if call == lock.call && f64::from(two[1].work_ns) <= HAS_NS {
                times += 1.0;
                sum.wait_ns += f64::from(us) * 1000.0;
                sum.work_ns += f64::from(two[1].work_ns);
            }
        }
    }
    let mean = Again { wait_ns: sum.wait_ns / times, work_ns: sum.work_ns / times };
    INTERVAL_NS.contains(&mean.wait_ns).then_some(mean)
}

/// The item where a thread that gives up in this call asks for the same again, and its work until then, ns. None: it
/// does something else first.
fn asks_again(items: &[Item], at: usize, call: u32) -> Option<(usize, f64)> {
    let later = at + 1 + items[at + 1..].iter().position(|item| item.what != What::Nothing)?;
    let same = match items[later].what {
        What::TakeWithin { call, .. } | What::Found { call } | What::GiveUp { call, .. } => {
            Some(call)
        }
        _ => None,
    };
    let work_ns = items[at + 1..=later].iter().map(|item| f64::from(item.work_ns)).sum();
    (same == Some(call)).then_some((later, work_ns))
}

/// The item where a thread that gives up in this call gets what it waits for, and its work until then, ns. An error is
/// the item where it asks for the last time: it never gets it.
fn gets(items: &[Item], at: usize, call: u32) -> Result<(usize, f64), usize> {
    let (mut at, mut all_ns) = (at, 0.0);
    loop {
        let (later, work_ns) = asks_again(items, at, call).ok_or(at)?;
        (at, all_ns) = (later, all_ns + work_ns);
        if matches!(items[at].what, What::TakeWithin { .. } | What::Found { .. }) {
            return Ok((at, all_ns));
        }
    }
}

struct Emit<'a> {
    objects: &'a mut Objects,
    tokens: &'a [Option<u32>],
    asked: &'a Asked,
    process: usize,
    /// The task's own tokens.
    own: Option<u32>,
    /// Its interpreter's lock, and for each word whether it belongs to such a lock.
    lock: Option<&'a Lock>,
    of_locks: &'a [bool],
}

impl Emit<'_> {
    /// A task's acts, and its work in asking again, ns.
    fn acts(&mut self, items: &[Item]) -> (Vec<Act>, f64) {
        let mut acts = Vec::with_capacity(items.len());
        let (mut work_ns, mut asked_ns, mut met) = (0.0, 0.0, Met::default());
        // It asks in vain up to this item, as far as the recording shows.
        let (mut at, mut in_vain) = (0, 0);
        let mut asks = false;
        while let Some(Item { work_ns: more_ns, met: more, what }) = items.get(at) {
            let more_ns = f64::from(*more_ns);
            // A replay models the asking for an interpreter's lock itself.
            match std::mem::take(&mut asks) && more_ns <= HAS_NS {
                true => asked_ns += more_ns,
                false => (work_ns, met) = (work_ns + more_ns, met.and(*more)),
            }
            let mut what = *what;
            if let What::GiveUp { call, .. } = what {
                asks = self.is_at_lock(what);
                match (!asks && at >= in_vain).then(|| gets(items, at, call)) {
                    None => {}
                    Some(Ok((later, again_ns))) => {
                        (at, what) = (later, items[later].what);
                        // A task that waits at a channel does not ask again.
                        let to = match what {
                            What::Found { .. } => &mut work_ns,
                            _ => &mut asked_ns,
                        };
                        *to += again_ns;
                    }
                    Some(Err(last)) => in_vain = last + 1,
                }
            }
            if let Some(then) = self.then(what) {
                let (work_ns, met) = (std::mem::take(&mut work_ns), std::mem::take(&mut met));
                acts.push(Act { work_ns: work_ns as f32, met, then });
            }
            at += 1;
        }
        if work_ns > 0.0 {
            acts.push(Act { work_ns: work_ns as f32, met, then: Then::End });
        }
        end_calls(&mut acts);
        (acts, asked_ns)
    }

    fn give(&self, task: u32, more: More, sync: bool) -> Option<Then> {
        let tokens = self.tokens.get(task as usize).copied().flatten()?;
        Some(Then::Give { tokens, more, sync })
    }

    /// Whether it is at its interpreter's lock, which a replay models itself.
    fn is_at_lock(&self, what: What) -> bool {
        let Some(lock) = self.lock else { return false };
        match what {
            What::GiveUp { call, .. } => call == lock.call,
            What::Give { word, .. }
            | What::GiveMore { word, .. }
            | What::Take { word }
            | What::TakeWithin { word, .. } => self.of_locks.get(word as usize) == Some(&true),
            _ => false,
        }
    }

    fn then(&mut self, what: What) -> Option<Then> {
        if self.is_at_lock(what) {
            return None;
        }
        match what {
            What::Nothing | What::Found { .. } => None,
            What::Connect(at) => self.objects.connect(at),
            What::Accept(at) => self.objects.accept(at),
            What::Read { channel, bytes } => self.objects.read(channel, bytes),
            What::Write { channel, bytes } => self.objects.write(channel, bytes),
            What::Fork(task) => Some(Then::Fork(task)),
            What::Give { to, sync, .. } => self.give(to, More::No, sync),
            What::GiveMore { to, sync, locked: false, .. } => self.give(to, More::Free, sync),
            What::GiveMore { to, sync, locked: true, .. } => self.give(to, More::Locked, sync),
            What::Take { .. } => self.own.map(Then::Take),
            What::TakeWithin { call, .. } => {
                let tokens = self.own?;
                Some(match self.asked.of.get(&(self.process, call)) {
                    Some(again) => Then::TakeWithin { tokens, again: *again },
                    None => Then::Take(tokens),
                })
            }
            What::Wait(us) | What::GiveUp { us, .. } => Some(Then::Wait(us)),
            What::Contend(us) => Some(Then::Contend(us)),
        }
    }
}

/// A system call that wakes many ends with the last wakeup that is left in it.
fn end_calls(acts: &mut [Act]) {
    let mut goes_on = false;
    for Act { then, .. } in acts.iter_mut().rev() {
        match then {
            Then::Give { more, .. } => {
                if !goes_on {
                    *more = More::No;
                }
                goes_on = true;
            }
            _ => goes_on = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use workload::Happened;

    use super::*;

    fn act(work_ns: f32, then: Then) -> Act {
        Act { work_ns, met: Met::default(), then }
    }

    #[test]
    fn what_is_cut_leaves_what_is_wanted() {
        let mut acts = [100.0, 10.0, 40.0].map(|work_ns| act(work_ns, Then::Take(0)));
        acts[1].met.waited = 2;
        let left_of = |wanted_ns, by_what| {
            let each_ns = cut_for(&acts, by_what, wanted_ns);
            left(&acts, Cut { each_ns, ..by_what })
        };
        let waits = Cut { waited_ns: 80.0, ..Cut::default() };
        for by_what in [Cut::default(), waits] {
            assert!((left_of(90.0, by_what) - 90.0).abs() < 1e-6);
            assert!((left_of(180.0, by_what) - 180.0).abs() < 1e-6, "less than nothing");
            assert!(left_of(0.0, by_what) < 1e-6);
        }
        assert_eq!(cut_for(&[], Cut::default(), 0.0), 0.0);
    }

    #[test]
    fn a_call_ends_with_its_last_wakeup() {
        let give = |more| act(5.0, Then::Give { tokens: 0, more, sync: false });
        let take = act(5.0, Then::Take(1));
        let (free, no) = (More::Free, More::No);
        let mut acts = [give(free), give(free), take, give(free), act(5.0, Then::End)];
        end_calls(&mut acts);
        let ended = [give(free), give(no), take, give(no), act(5.0, Then::End)];
        assert_eq!(acts, ended);
    }

    #[test]
    fn an_act_has_what_happened_in_it() {
        use crate::{Event, Kind, Left, TaskInfo};
        let mut replay = Replay::new(&crate::Header { cpus: 1, ..Default::default() }, 0.0);
        let mut now_ns = 0;
        let mut happens = |kind| {
            now_ns += 1000 * u64::from(!matches!(kind, Kind::Task(_)));
            replay.event(&Event { t_ns: now_ns, cpu: 0, kind });
        };
        for tid in [5, 6] {
            happens(Kind::Task(TaskInfo::new(tid, tid)));
        }
        let switch = |prev, next, left| Kind::Switch { prev, next, left };
        for kind in [
            switch(0, 5, Left::Preempted),
            switch(5, 0, Left::Preempted),
            switch(0, 5, Left::Preempted),
            switch(5, 6, Left::Blocked),
            Kind::Wake { tid: 5, by: Carrier::Task, object: 0 },
            switch(6, 5, Left::Preempted),
            Kind::Exit { tid: 5 },
            switch(5, 6, Left::Dead),
        ] {
            happens(kind);
        }
        replay.finish(None);
        let met = |task: usize, act: usize| {
            let Met { waited, preempted, woke } = replay.tasks[task].acts[act].met;
            (waited, preempted, woke)
        };
        assert_eq!(met(0, 0), (1, 1, 0), "it was preempted, and blocked");
        assert_eq!(met(1, 0), (0, 0, 1), "it woke the other");
        assert_eq!(met(1, 1), (0, 1, 0), "and lost its CPU to it");
    }

    #[test]
    fn what_a_part_has_shown_holds_for_all() {
        let mut replay = Replay::new(&crate::Header { cpus: 1, ..Default::default() }, 0.0);
        for tid in [5, 6] {
            let kind = crate::Kind::Task(crate::TaskInfo::new(tid, tid));
            replay.event(&crate::Event { t_ns: 0, cpu: 0, kind });
        }
        let acts = [100.0, 50.0, 80.0, 70.0].map(|work_ns| act(work_ns, Then::Wait(1.0)));
        replay.tasks.iter_mut().for_each(|task| task.acts = acts.into());
        // Two acts and half of the third, each 10 ns longer; the other task did not begin.
        let first =
            Played { worked_ns: 150.0 + 40.0 + 20.0, acts: 2, into_ns: 40.0, ..Played::default() };
        let fit = Fit::none(&replay).better(&replay, &[first, Played::default()], &Cut::default());
        assert!(fit.cut_ns.iter().all(|cut_ns| (cut_ns - 10.0).abs() < 1e-6), "{fit:?}");
    }

    /// A recording of one task with these acts.
    fn recorded(acts: &[Act]) -> Replay {
        let mut replay = Replay::new(&crate::Header { cpus: 1, ..Default::default() }, 0.0);
        let kind = crate::Kind::Task(crate::TaskInfo::new(5, 5));
        replay.event(&crate::Event { t_ns: 0, cpu: 0, kind });
        replay.tasks[0].acts = acts.into();
        replay
    }

    #[test]
    fn waits_that_a_replay_has_and_the_recording_had_not_take_nothing_out() {
        let mut acts = [100.0; 4].map(|work_ns| act(work_ns, Then::Wait(1.0)));
        acts[1] = Act { work_ns: 130.0, met: Met { waited: 1, ..Met::default() }, ..acts[1] };
        let replay = recorded(&acts);
        let added = Cut { waited_ns: 30.0, ..Cut::default() };
        for waited in [0, 1, 3] {
            // Each act is 10 ns longer.
            let worked_ns = 430.0 + 40.0 + 30.0 * f64::from(waited);
            let happened = Happened { waited, ..Happened::default() };
            let shown = Played { acts: 4, into_ns: 0.0, worked_ns, happened };
            let fit = Fit::none(&replay).better(&replay, &[shown], &added);
            assert!((fit.cut_ns[0] - 10.0).abs() < 1e-6, "{waited}: {fit:?}");
        }
    }

    #[test]
    fn what_waiting_took_beyond_the_model_is_found_once() {
        let read = |waited: u8| Act {
            met: Met { waited, ..Met::default() },
            ..act(1000.0 + 5000.0 * f32::from(waited), Then::Read { channel: 0, bytes: 1 })
        };
        let acts: Vec<Act> = (0..40_000).map(|at| read(u8::from(at % 4 == 0))).collect();
        let replay = recorded(&acts);
        let mut fit = Fit::none(&replay);
        assert_eq!(fit.takes_more(), Cut::default(), "nothing is known of the model");
        for _ in 0..3 {
            let added = Cut { waited_ns: 4000.0 + fit.takes_more().waited_ns, ..Cut::default() };
            fit = fit.better(&replay, &[Played::default()], &added);
            assert!((fit.takes_more().waited_ns - 1000.0).abs() < 5.0, "{fit:?}");
            assert!((fit.by_what().waited_ns - 5000.0).abs() < 5.0, "{fit:?}");
        }
    }

    #[test]
    fn masks_of_the_recording_hold_on_the_machine() {
        assert_eq!(allowed(u64::MAX, 8, 4), None);
        assert_eq!(allowed(0b11, 2, 4), None, "all that there were");
        assert_eq!(allowed(0b10, 2, 4), Some(vec![1]));
        assert_eq!(allowed(0b1000_0000, 8, 4), None, "none of them is left");
    }
}
