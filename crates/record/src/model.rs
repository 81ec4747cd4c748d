// SPDX-License-Identifier: GPL-2.0-only
//! The workload that a recording holds, for a machine.
//!
//! A task's time on a CPU has what the kernel did for it in it: switches, wakeups, system calls. A model of
//! the machine charges for those itself. [`Fit`] takes out of each piece of work what the model is seen to
//! add when the recording is replayed under the scheduler that it was made under: no cost is guessed, and
//! none is counted twice.

use std::collections::BTreeMap;

use trace::{Event, IDLE, Kind, Tid};
use workload::hackbench::{PIPE_BYTES, SOCKET_BYTES, SOCKET_OVERHEAD_BYTES};
use workload::{Object, Step, Task, Workload};

use crate::Carrier;
use crate::replay::{Channel, Item, Key, Replay, What};

/// Bytes of a pipe's page.
const PAGE: u32 = 4096;

/// What is taken out of each piece of each task's work, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fit {
    cut_ns: Vec<f64>,
}

/// What was seen of a task of the workload in the recording itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The thread.
    pub tid: Tid,
    /// What it was called last.
    pub name: String,
    /// Time on a CPU, without the recorder's part of it, ns.
    pub cpu_ns: u64,
    /// The part of it in which it worked, where CPUs ran in turn; else the same.
    pub work_ns: f64,
    /// Times it left a CPU.
    pub switches: u64,
}

impl Fit {
    /// Nothing is taken out.
    pub fn none(replay: &Replay) -> Self {
        Fit { cut_ns: vec![0.0; replay.tasks.len()] }
    }

    /// A better one: under this one, a replay has shown each task to work so long, in the workload's order.
    pub fn better(&self, replay: &Replay, shown_ns: &[f64]) -> Self {
        let one = |(index, cut_ns): (usize, &f64)| {
            let pieces = replay.pieces(index);
            let wanted_ns: f64 = pieces.iter().sum();
            let added_ns = shown_ns.get(index).copied().unwrap_or(0.0) - left(&pieces, *cut_ns);
            cut_for(&pieces, (wanted_ns - added_ns).max(0.0))
        };
        Fit { cut_ns: self.cut_ns.iter().enumerate().map(one).collect() }
    }
}

/// What is left of all pieces where so much is taken from each.
fn left(pieces: &[f64], cut_ns: f64) -> f64 {
    pieces.iter().map(|piece| (piece - cut_ns).max(0.0)).sum()
}

/// What to take from each so that so much is left; less than nothing where they are too short.
fn cut_for(pieces: &[f64], wanted_ns: f64) -> f64 {
    if pieces.is_empty() {
        return 0.0;
    }
    let most = pieces.iter().copied().fold(0.0, f64::max);
    let (mut low, mut high) = (-wanted_ns / pieces.len() as f64, most);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match left(pieces, middle) > wanted_ns {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// How long each thread worked, by scheduling events of CPUs that run in turn: during a CPU's part of the
/// time, one in as many as are busy.
pub fn worked_in_turn(events: &[Event], cpus: usize) -> BTreeMap<Tid, f64> {
    let mut current = vec![IDLE; cpus];
    let mut since_ns = vec![0.0; cpus];
    let mut all: BTreeMap<Tid, f64> = BTreeMap::new();
    let (mut busy, mut last_ns, mut worked_ns) = (0usize, 0, 0.0);
    for event in events {
        worked_ns += event.t_ns.saturating_sub(last_ns) as f64 / busy.max(1) as f64;
        last_ns = event.t_ns.max(last_ns);
        let Kind::Switch { next, .. } = event.kind else { continue };
        let cpu = event.cpu as usize;
        if current[cpu] != IDLE {
            *all.entry(current[cpu]).or_default() += worked_ns - since_ns[cpu];
        }
        busy = busy + usize::from(next != IDLE) - usize::from(current[cpu] != IDLE);
        (current[cpu], since_ns[cpu]) = (next, worked_ns);
    }
    for (cpu, tid) in current.into_iter().enumerate().filter(|(_, tid)| *tid != IDLE) {
        *all.entry(tid).or_default() += worked_ns - since_ns[cpu];
    }
    all
}

impl Replay {
    /// How many tasks it has.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// From the start of the workload to its end, ns; where CPUs run in turn on one clock, without what recording
    /// took of it.
    pub fn elapsed_ns(&self) -> u64 {
        let hooks_ns: f64 = self.tasks.iter().map(|task| task.hooks_ns).sum();
        let hooks_ns = if self.in_turn() { hooks_ns as u64 } else { 0 };
        self.ended_ns.saturating_sub(self.started_ns.unwrap_or(0)).saturating_sub(hooks_ns)
    }

    /// CPU time that tasks had meanwhile that are not the workload's, ns.
    pub fn others_ns(&self) -> u64 {
        self.others_ns
    }

    /// What was seen of each task, in the workload's order.
    pub fn recorded(&self) -> Vec<Recorded> {
        let one = |task: &crate::replay::Task| {
            let work_ns: f64 = task.items.iter().map(|item| f64::from(item.work_ns)).sum();
            let own = 1.0 - task.hooks_ns / (work_ns + task.hooks_ns).max(1.0);
            Recorded {
                tid: task.tid,
                name: task.info.name.clone(),
                cpu_ns: (task.cpu_ns as f64 * own).round() as u64,
                work_ns,
                switches: task.switches,
            }
        };
        self.tasks.iter().map(one).collect()
    }

    /// A task's pieces of work: what lies between two things that it does.
    fn pieces(&self, index: usize) -> Vec<f64> {
        let mut pieces = Vec::new();
        let mut work_ns = 0.0;
        for Item { work_ns: more_ns, what } in &self.tasks[index].items {
            work_ns += f64::from(*more_ns);
            if *what != What::Nothing {
                pieces.push(std::mem::take(&mut work_ns));
            }
        }
        if work_ns > 0.0 {
            pieces.push(work_ns);
        }
        pieces
    }

    /// The workload, on a machine of so many CPUs whose kernel may be late with a timer by `slack_ns`.
    pub fn workload(&self, name: &str, cpus: usize, slack_ns: f64, fit: &Fit) -> Workload {
        let mut objects = Objects::new(&self.channels);
        let takers = self.tasks.iter().map(|task| {
            let takes = task.items.iter().any(|item| item.what == What::Take);
            takes.then(|| objects.add(Object::Tokens))
        });
        let tokens: Vec<Option<usize>> = takers.collect();
        let tasks = self.tasks.iter().enumerate().map(|(index, task)| {
            let cut_ns = fit.cut_ns.get(index).copied().unwrap_or(0.0);
            let mut emit = Emit { objects: &mut objects, tokens: &tokens, slack_ns, cut_ns };
            let since_ns = self.started_ns.unwrap_or(0);
            Task {
                name: task.info.name.clone(),
                process: task.process,
                cpus: allowed(task.info.cpus, self.cpus(), cpus),
                nice: task.info.nice.clamp(-20, 19),
                delay_ns: if task.forked { 0 } else { task.start_ns.saturating_sub(since_ns) },
                forked: task.forked,
                steps: emit.steps(&task.items, tokens[index]),
                ..Task::default()
            }
        });
        let tasks = tasks.collect();
        let (name, objects) = (name.to_string(), objects.all);
        Workload { name, tasks, objects, recorded: true, ..Workload::default() }
    }
}

/// The CPUs of a mask that the machine has, if they are not all.
fn allowed(mask: u64, recorded: usize, cpus: usize) -> Option<Vec<usize>> {
    let own: Vec<usize> = (0..cpus.min(64)).filter(|cpu| mask >> cpu & 1 == 1).collect();
    let any = (0..recorded.min(64)).all(|cpu| mask >> cpu & 1 == 1);
    (!any && !own.is_empty()).then_some(own)
}

/// Objects of the workload, and how much of what each carried is still to be said.
struct Objects {
    all: Vec<Object>,
    of: BTreeMap<(u32, u8), Open>,
}

struct Open {
    object: usize,
    /// Bytes that were read of what nobody here has written, or written and not read: those are left out,
    /// the first read and the last written.
    unread: u64,
    unwritten: u64,
}

impl Objects {
    fn new(channels: &BTreeMap<(u32, u8), Channel>) -> Self {
        let mut objects = Objects { all: Vec::new(), of: BTreeMap::new() };
        for (key, channel) in channels {
            let both = channel.read.min(channel.written);
            if both == 0 {
                continue;
            }
            let object = objects.add(object(*key, channel));
            let open = Open { object, unread: channel.read - both, unwritten: both };
            objects.of.insert(*key, open);
        }
        objects
    }

    fn add(&mut self, object: Object) -> usize {
        self.all.push(object);
        self.all.len() - 1
    }

    fn read(&mut self, Key(name, kind): Key, bytes: u32) -> Option<Step> {
        let open = self.of.get_mut(&(name, kind))?;
        let skipped = open.unread.min(bytes.into());
        open.unread -= skipped;
        let bytes = bytes - skipped as u32;
        (bytes > 0).then_some(Step::Read { channel: open.object, bytes })
    }

    fn write(&mut self, Key(name, kind): Key, bytes: u32) -> Option<Step> {
        let open = self.of.get_mut(&(name, kind))?;
        let bytes = open.unwritten.min(bytes.into());
        open.unwritten -= bytes;
        (bytes > 0).then_some(Step::Write { channel: open.object, bytes: bytes as u32 })
    }
}

/// Sockets keep messages apart, and a model of one takes a whole one at a time: where sizes differ, and for
/// connections, a stream of bytes stands for it.
fn object((_, kind): (u32, u8), channel: &Channel) -> Object {
    let least = if kind == Carrier::Pipe as u8 { PIPE_BYTES } else { SOCKET_BYTES };
    if kind == Carrier::UnixSocket as u8 && !channel.mixed {
        return Object::Socket { capacity: SOCKET_BYTES, overhead: SOCKET_OVERHEAD_BYTES };
    }
    let most = u32::try_from(channel.most).unwrap_or(u32::MAX - PAGE);
    Object::Pipe { capacity: least.max(most.next_multiple_of(PAGE)) }
}

struct Emit<'a> {
    objects: &'a mut Objects,
    tokens: &'a [Option<usize>],
    slack_ns: f64,
    cut_ns: f64,
}

impl Emit<'_> {
    fn steps(&mut self, items: &[Item], own: Option<usize>) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut work_ns = 0.0;
        for Item { work_ns: more_ns, what } in items {
            work_ns += f64::from(*more_ns);
            if *what == What::Nothing {
                continue;
            }
            self.run(&mut steps, std::mem::take(&mut work_ns));
            steps.extend(self.step(*what, own));
        }
        if work_ns > 0.0 {
            self.run(&mut steps, work_ns);
        }
        end_calls(&mut steps);
        steps
    }

    fn run(&self, steps: &mut Vec<Step>, work_ns: f64) {
        let work_ns = (work_ns - self.cut_ns).round() as u64;
        match steps.last_mut() {
            _ if work_ns == 0 => {}
            Some(Step::Run { work_ns: before_ns }) => *before_ns += work_ns,
            _ => steps.push(Step::Run { work_ns }),
        }
    }

    fn give(&self, task: u32, more: bool) -> Option<Step> {
        let tokens = self.tokens.get(task as usize).copied().flatten()?;
        Some(Step::Give { tokens, more })
    }

    fn step(&mut self, what: What, own: Option<usize>) -> Option<Step> {
        match what {
            What::Nothing => None,
            What::Read { channel, bytes } => self.objects.read(channel, bytes),
            What::Write { channel, bytes } => self.objects.write(channel, bytes),
            What::Fork(task) => Some(Step::Fork(task as usize)),
            What::Give(task) => self.give(task, false),
            What::GiveMore(task) => self.give(task, true),
            What::Take => own.map(Step::Take),
            What::Wait(us) => {
                let ns = (f64::from(us) * 1000.0 - self.slack_ns).max(0.0) as u64;
                Some(Step::Sleep { ns })
            }
        }
    }
}

/// A system call that wakes many ends with the last of them that is left.
fn end_calls(steps: &mut [Step]) {
    let mut goes_on = false;
    for step in steps.iter_mut().rev() {
        match step {
            Step::Give { more, .. } => {
                *more &= goes_on;
                goes_on = true;
            }
            Step::Run { .. } => {}
            _ => goes_on = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_leaves_what_is_wanted() {
        let pieces = [100.0, 10.0, 40.0];
        assert!((left(&pieces, cut_for(&pieces, 90.0)) - 90.0).abs() < 1e-6);
        assert!((left(&pieces, cut_for(&pieces, 180.0)) - 180.0).abs() < 1e-6, "less than nothing");
        assert!(left(&pieces, cut_for(&pieces, 0.0)) < 1e-6);
        assert_eq!(cut_for(&[], 5.0), 0.0);
    }

    #[test]
    fn a_call_ends_with_its_last_wakeup() {
        let give = |more| Step::Give { tokens: 0, more };
        let run = Step::Run { work_ns: 5 };
        let mut steps =
            [give(true), run.clone(), give(true), Step::Take(1), give(true), run.clone()];
        end_calls(&mut steps);
        assert_eq!(steps, [give(true), run.clone(), give(false), Step::Take(1), give(false), run]);
    }

    #[test]
    fn masks_of_the_recording_hold_on_the_machine() {
        assert_eq!(allowed(u64::MAX, 8, 4), None);
        assert_eq!(allowed(0b11, 2, 4), None, "all that there were");
        assert_eq!(allowed(0b10, 2, 4), Some(vec![1]));
        assert_eq!(allowed(0b1000_0000, 8, 4), None, "none of them is left");
    }
}
