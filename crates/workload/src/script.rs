// SPDX-License-Identifier: GPL-2.0-only
//! The behaviour of a recorded task, stored compactly: a recording has millions of steps, and all of its replays share
//! them.

use std::ops::AddAssign;
use std::sync::Arc;

use crate::step::{More, Moved, ObjectId, Step};

/// A piece of work, and the action after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Act {
    /// CPU time, ns.
    pub work_ns: f32,
    /// Events that happened to the task during it, and took a part of its CPU time.
    pub met: Met,
    /// The action after it.
    pub then: Then,
}

/// How often a task was interrupted within an act, or woke another; 255 is that or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// It blocked.
    pub waited: u8,
    /// It lost its CPU while it was still runnable.
    pub preempted: u8,
    /// It woke another.
    pub woke: u8,
}

impl Met {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Met) -> Met {
        Met {
            waited: self.waited.saturating_add(other.waited),
            preempted: self.preempted.saturating_add(other.preempted),
            woke: self.woke.saturating_add(other.woke),
        }
    }
}

/// The same for several acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// It blocked.
    pub waited: u32,
    /// It lost its CPU while it was still runnable.
    pub preempted: u32,
    /// It woke another.
    pub woke: u32,
}

impl From<Met> for Happened {
    fn from(Met { waited, preempted, woke }: Met) -> Self {
        Happened { waited: waited.into(), preempted: preempted.into(), woke: woke.into() }
    }
}

impl AddAssign for Happened {
    fn add_assign(&mut self, more: Happened) {
        self.waited += more.waited;
        self.preempted += more.preempted;
        self.woke += more.woke;
    }
}

/// CPU time to subtract from acts, since the simulated machine adds it, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cut {
    /// For each act.
    pub each_ns: f64,
    /// For each time that it blocked.
    pub waited_ns: f64,
    /// For each time that it was preempted.
    pub preempted_ns: f64,
    /// For each task that it woke.
    pub woke_ns: f64,
}

impl Cut {
    /// CPU time to subtract for what has happened, ns, without `each_ns`.
    pub fn of_ns(&self, happened: Happened) -> f64 {
        f64::from(happened.waited) * self.waited_ns
            + f64::from(happened.preempted) * self.preempted_ns
            + f64::from(happened.woke) * self.woke_ns
    }

    /// The rest of an act's work, ns: 0 or more.
    pub fn left_ns(&self, act: &Act) -> f64 {
        (f64::from(act.work_ns) - self.each_ns - self.of_ns(act.met.into())).max(0.0)
    }
}

/// The action of a task after a piece of work. Objects are indices into [`crate::Workload::objects`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Then {
    /// It ends.
    End,
    Read {
        channel: u32,
        bytes: u32,
    },
    Write {
        channel: u32,
        bytes: u32,
    },
    /// Begins a connection. `connection` is the first of its two channels, which are adjacent.
    Connect {
        listener: u32,
        connection: u32,
    },
    /// Accepts a connection, into the first of two adjacent [`crate::Object::Accepted`].
    Accept {
        listener: u32,
        accepted: u32,
    },
    /// Starts the task at this index of [`crate::Workload::tasks`].
    Fork(u32),
    Give {
        tokens: u32,
        more: More,
        sync: bool,
    },
    Take(u32),
    /// Takes a token, and polls for it in the way of this index in `agains` of [`Script::new`].
    TakeWithin {
        tokens: u32,
        again: u32,
    },
    /// Blocks for this long, µs.
    Wait(f32),
    /// Blocks for this long at a lock of the kernel's, µs.
    Contend(f32),
}

/// How a task polls for a token: it gives up after a while, works, and asks again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Again {
    /// How long it waits each time, ns.
    pub wait_ns: f64,
    /// CPU time before it asks again, ns. Nothing is subtracted from it: the machine's costs are subtracted from acts.
    pub work_ns: f64,
}

/// How far a task has got in its [`Script`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Played {
    /// Finished acts.
    pub acts: usize,
    /// Work done of the next act, and in asking again for a token, ns.
    pub into_ns: f64,
    /// How long it has worked in all, kernel code included, ns. If CPUs run in turn, only time in their turns counts.
    pub worked_ns: f64,
    /// Events that happened to it in the finished acts.
    pub happened: Happened,
}

/// A list of [`Act`]s, with the CPU time to subtract from each.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    acts: Arc<[Act]>,
    agains: Arc<[Again]>,
    cut: Cut,
    slack_ns: f64,
    moved: Moved,
}

impl Script {
    /// A script of `acts`, with `cut` subtracted from the work of each, and waits that end `slack_ns` earlier: the
    /// machine adds both again. [`Then::TakeWithin`] is an index into `agains`.
    pub fn new(acts: Arc<[Act]>, agains: Arc<[Again]>, cut: Cut, slack_ns: f64) -> Self {
        Script { acts, agains, cut, slack_ns, moved: Moved::default() }
    }

    /// The same of another copy of its workload.
    pub(crate) fn moved(self, moved: Moved) -> Self {
        Script { moved, ..self }
    }

    /// How many acts it has.
    pub fn len(&self) -> usize {
        self.acts.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// Its steps, in order.
    pub fn steps(&self) -> Steps {
        Steps { script: self.clone(), at: 0, worked: false }
    }

    fn work_ns(&self, act: Act) -> u64 {
        self.cut.left_ns(&act).round() as u64
    }

    fn slept_ns(&self, ns: f64) -> u64 {
        (ns - self.slack_ns).max(0.0) as u64
    }

    fn then(&self, act: Act) -> Option<Step> {
        let id = |id: u32| id as ObjectId;
        let step = match act.then {
            Then::End => return None,
            Then::Read { channel, bytes } => Step::Read { channel: id(channel), bytes },
            Then::Write { channel, bytes } => Step::Write { channel: id(channel), bytes },
            Then::Connect { listener, connection } => {
                Step::Connect { listener: id(listener), connection: id(connection) }
            }
            Then::Accept { listener, accepted } => {
                Step::Accept { listener: id(listener), accepted: id(accepted) }
            }
            Then::Fork(task) => Step::Fork(task as usize),
            Then::Give { tokens, more, sync } => Step::Give { tokens: id(tokens), more, sync },
            Then::Take(tokens) => Step::Take(id(tokens)),
            Then::TakeWithin { tokens, again } => {
                let Again { wait_ns, work_ns } = self.agains[again as usize];
                let (ns, work_ns) = (self.slept_ns(wait_ns), work_ns.round() as u64);
                Step::TakeWithin { tokens: id(tokens), ns, work_ns }
            }
            Then::Wait(us) => Step::Sleep { ns: self.slept_ns(f64::from(us) * 1000.0) },
            Then::Contend(us) => Step::Contend { ns: (f64::from(us) * 1000.0) as u64 },
        };
        Some(if self.moved == Moved::default() { step } else { step.moved(self.moved) })
    }
}

/// The steps of a [`Script`], made one by one.
#[derive(Debug)]
pub struct Steps {
    script: Script,
    at: usize,
    /// The work of the act at `at` is done.
    worked: bool,
}

impl Steps {
    /// Finished acts.
    pub fn done(&self) -> usize {
        self.at
    }

    /// The work of one of its acts, ns, and the action after it.
    pub fn act(&self, at: usize) -> Option<(u64, Then)> {
        let act = *self.script.acts.get(at)?;
        Some((self.script.work_ns(act), act.then))
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let act = *self.script.acts.get(self.at)?;
            if !std::mem::replace(&mut self.worked, true) {
                match self.script.work_ns(act) {
                    0 => {}
                    work_ns => return Some(Step::Run { work_ns }),
                }
            }
            (self.at, self.worked) = (self.at + 1, false);
            if let Some(step) = self.script.then(act) {
                return Some(step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_is_work_and_what_comes_after_it() {
        let act = |work_ns, then| Act { work_ns, met: Met::default(), then };
        let waited = Met { waited: 1, ..Met::default() };
        let acts = [
            Act { met: waited, ..act(107.0, Then::Take(3)) },
            act(10.0, Then::Give { tokens: 1, more: More::Free, sync: false }),
            act(60.0, Then::Wait(2.0)),
            act(20.0, Then::TakeWithin { tokens: 4, again: 0 }),
            act(50.0, Then::End),
        ];
        let again = Again { wait_ns: 3_000.0, work_ns: 70.0 };
        let cut = Cut { each_ns: 20.0, waited_ns: 7.0, preempted_ns: 1e9, woke_ns: 1e9 };
        let script = Script::new(Arc::new(acts), Arc::new([again]), cut, 500.0);
        let steps: Vec<Step> = script.steps().collect();
        assert_eq!(
            steps,
            [
                Step::Run { work_ns: 80 },
                Step::Take(3),
                Step::Give { tokens: 1, more: More::Free, sync: false },
                Step::Run { work_ns: 40 },
                Step::Sleep { ns: 1_500 },
                Step::TakeWithin { tokens: 4, ns: 2_500, work_ns: 70 },
                Step::Run { work_ns: 30 },
            ]
        );
        assert_eq!(size_of::<Act>(), 20);
    }
}
