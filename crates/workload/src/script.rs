// SPDX-License-Identifier: GPL-2.0-only
//! What a recorded task did, kept short: a recording has millions of steps, and all of its replays share them.

use std::sync::Arc;

use crate::model::{More, ObjectId, Step};

/// Work, and what comes after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Act {
    /// CPU time, ns.
    pub work_ns: f32,
    /// What comes after it.
    pub then: Then,
}

/// What a task does after a piece of work. Objects are indices into [`crate::Workload::objects`].
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
    /// Begins a connection: the first of its two channels, which are next to each other.
    Connect {
        listener: u32,
        connection: u32,
    },
    /// Accepts one, into the first of two [`crate::Object::Accepted`].
    Accept {
        listener: u32,
        accepted: u32,
    },
    /// Starts the task at this index of [`crate::Workload::tasks`].
    Fork(u32),
    Give {
        tokens: u32,
        more: More,
    },
    Take(u32),
    /// Takes one, and asks for it as often as this one of [`Script::new`]'s ways to ask says.
    TakeWithin {
        tokens: u32,
        again: u32,
    },
    /// Blocks so long, µs.
    Wait(f32),
}

/// How a task asks for what it waits for: it gives up after a while, works, and asks again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Again {
    /// How long it waits each time, ns.
    pub wait_ns: f64,
    /// CPU time before it asks again, ns. Nothing is left out of it: what a machine adds is left out of acts.
    pub work_ns: f64,
}

/// A list of [`Act`]s, with what is left out of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    acts: Arc<[Act]>,
    agains: Arc<[Again]>,
    cut_ns: f64,
    slack_ns: f64,
}

impl Script {
    /// These, with `cut_ns` less work in each, and waits that end `slack_ns` earlier: what a machine adds. `agains`
    /// are the ways to ask again that [`Then::TakeWithin`] means.
    pub fn new(acts: Arc<[Act]>, agains: Arc<[Again]>, cut_ns: f64, slack_ns: f64) -> Self {
        Script { acts, agains, cut_ns, slack_ns }
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
        (f64::from(act.work_ns) - self.cut_ns).round() as u64
    }

    fn slept_ns(&self, ns: f64) -> u64 {
        (ns - self.slack_ns).max(0.0) as u64
    }

    fn then(&self, act: Act) -> Option<Step> {
        let id = |id: u32| id as ObjectId;
        Some(match act.then {
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
            Then::Give { tokens, more } => Step::Give { tokens: id(tokens), more },
            Then::Take(tokens) => Step::Take(id(tokens)),
            Then::TakeWithin { tokens, again } => {
                let Again { wait_ns, work_ns } = self.agains[again as usize];
                let (ns, work_ns) = (self.slept_ns(wait_ns), work_ns.round() as u64);
                Step::TakeWithin { tokens: id(tokens), ns, work_ns }
            }
            Then::Wait(us) => Step::Sleep { ns: self.slept_ns(f64::from(us) * 1000.0) },
        })
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
    /// Acts that are done.
    pub fn done(&self) -> usize {
        self.at
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
        let act = |work_ns, then| Act { work_ns, then };
        let acts = [
            act(100.0, Then::Take(3)),
            act(10.0, Then::Give { tokens: 1, more: More::Free }),
            act(60.0, Then::Wait(2.0)),
            act(20.0, Then::TakeWithin { tokens: 4, again: 0 }),
            act(50.0, Then::End),
        ];
        let again = Again { wait_ns: 3_000.0, work_ns: 70.0 };
        let script = Script::new(Arc::new(acts), Arc::new([again]), 20.0, 500.0);
        let steps: Vec<Step> = script.steps().collect();
        assert_eq!(
            steps,
            [
                Step::Run { work_ns: 80 },
                Step::Take(3),
                Step::Give { tokens: 1, more: More::Free },
                Step::Run { work_ns: 40 },
                Step::Sleep { ns: 1_500 },
                Step::TakeWithin { tokens: 4, ns: 2_500, work_ns: 70 },
                Step::Run { work_ns: 30 },
            ]
        );
        assert_eq!(size_of::<Act>(), 16);
    }
}
