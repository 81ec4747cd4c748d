// SPDX-License-Identifier: GPL-2.0-only
//! A task's steps as a flat list, and how far it has got.

use std::collections::VecDeque;
use std::rc::Rc;

use workload::{ObjectId, Step, Workload};

use crate::task::TaskId;

/// One operation. Loops are jumps, so that a place in a program is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Run {
        work_ns: u64,
    },
    Runtime {
        wall_ns: u64,
    },
    Sleep {
        ns: u64,
    },
    Timer {
        timer: ObjectId,
        period_ns: u64,
        relative: bool,
    },
    Lock(ObjectId),
    Unlock(ObjectId),
    Wait {
        condition: ObjectId,
        mutex: ObjectId,
    },
    Signal {
        condition: ObjectId,
        all: bool,
    },
    Barrier(ObjectId),
    Await {
        flag: ObjectId,
        up: bool,
    },
    Set {
        flag: ObjectId,
        up: bool,
    },
    Suspend(ObjectId),
    Resume(ObjectId),
    /// Waits at the gate before a workload's start.
    Gate,
    /// Opens it once all are there.
    Open,
    /// A thread of the kernel's own waits for its timer.
    Rest,
    Yield,
    Stalled {
        part: f64,
    },
    Mpki {
        mpki: f64,
    },
    Vector {
        level: u8,
    },
    Write {
        channel: ObjectId,
        bytes: u32,
    },
    Read {
        channel: ObjectId,
        bytes: u32,
    },
    Give {
        tokens: ObjectId,
        more: bool,
    },
    Take(ObjectId),
    Fork(usize),
    /// Enters a loop that runs so often; None is forever.
    Loop {
        times: Option<u64>,
    },
    /// Goes back to `start` while there are rounds left.
    Again {
        start: usize,
    },
    Exit,
}

impl Op {
    /// For an error: the event as a workload's file has it, and the name of what it waits for.
    pub fn describe(self, workload: &Workload) -> String {
        let name = |id| workload.object_name(id);
        match self {
            Op::Lock(mutex) => format!("lock {}", name(mutex)),
            Op::Unlock(mutex) => format!("unlock {}", name(mutex)),
            Op::Wait { condition, mutex } => {
                format!("wait {} with mutex {}", name(condition), name(mutex))
            }
            Op::Signal { condition, all: false } => format!("signal {}", name(condition)),
            Op::Signal { condition, all: true } => format!("broad {}", name(condition)),
            Op::Barrier(barrier) => format!("barrier {}", name(barrier)),
            Op::Await { flag, .. } => format!("await {}", name(flag)),
            Op::Set { flag, .. } => format!("set {}", name(flag)),
            Op::Suspend(at) => format!("suspend {}", name(at)),
            Op::Resume(at) => format!("resume {}", name(at)),
            Op::Write { channel, .. } => format!("write {}", name(channel)),
            Op::Read { channel, .. } => format!("read {}", name(channel)),
            Op::Take(tokens) => format!("take {}", name(tokens)),
            other => format!("{other:?}"),
        }
    }
}

/// How far a task has got.
#[derive(Debug)]
pub(crate) struct Cursor {
    program: Rc<[Op]>,
    at: usize,
    /// Rounds left of each loop it is in, the innermost last.
    loops: Vec<Option<u64>>,
    /// How far it is in the present operation; each operation counts for itself from 0.
    pub phase: u8,
    /// Work left of the present `Run`, ns on the reference CPU.
    pub left: f64,
    /// CPU time to be spent before anything else: caches and TLB to fill.
    pub debt: f64,
    /// Wall time at which the present operation ends.
    pub until_ns: u64,
    /// Bytes of the present message that have gone through.
    pub bytes: u32,
    /// Next expiry of each timer it has used.
    pub timers: Vec<(ObjectId, u64)>,
    /// Work done, ns on the reference CPU.
    pub done: f64,
    /// Who is still to be woken by the system call it is in.
    pub to_wake: VecDeque<TaskId>,
    /// The system call in which it has given a token goes on.
    pub giving: bool,
    /// The workload's start plus the task's delay: timers count from there.
    pub origin_ns: u64,
}

impl Cursor {
    pub fn new(program: Rc<[Op]>, origin_ns: u64) -> Self {
        Cursor {
            origin_ns,
            program,
            at: 0,
            loops: Vec::new(),
            phase: 0,
            left: 0.0,
            debt: 0.0,
            until_ns: 0,
            bytes: 0,
            timers: Vec::new(),
            done: 0.0,
            to_wake: VecDeque::new(),
            giving: false,
        }
    }

    #[inline]
    pub fn op(&self) -> Op {
        self.program[self.at]
    }

    /// Goes on to the next operation.
    #[inline]
    pub fn next(&mut self) {
        self.phase = 0;
        self.bytes = 0;
        self.at += 1;
    }

    /// Enters a loop.
    pub fn enter(&mut self, times: Option<u64>) {
        self.loops.push(times);
        self.next();
    }

    /// Goes back to `start`, or on where no round is left.
    pub fn again(&mut self, start: usize) {
        let rounds = self.loops.last_mut().expect("a loop ends only where it began");
        match rounds {
            Some(1) => {
                self.loops.pop();
                self.next();
            }
            Some(n) => {
                *n -= 1;
                self.phase = 0;
                self.at = start;
            }
            None => {
                self.phase = 0;
                self.at = start;
            }
        }
    }
}

/// Flattens steps.
#[cfg(test)]
pub(crate) fn compile(steps: &[Step]) -> Rc<[Op]> {
    compile_between(&[], steps, &[])
}

/// Flattens steps, with operations of the simulator's own before and after them.
pub(crate) fn compile_between(before: &[Op], steps: &[Step], after: &[Op]) -> Rc<[Op]> {
    let mut ops = before.to_vec();
    append(steps, &mut ops);
    ops.extend(after);
    ops.push(Op::Exit);
    ops.into()
}

fn append(steps: &[Step], ops: &mut Vec<Op>) {
    for step in steps {
        let op = match step {
            Step::Repeat { times: Some(0), .. } => continue,
            Step::Repeat { steps, .. } if steps.is_empty() => continue,
            Step::Repeat { times, steps } => {
                ops.push(Op::Loop { times: *times });
                let start = ops.len();
                append(steps, ops);
                Op::Again { start }
            }
            Step::Run { work_ns } => Op::Run { work_ns: *work_ns },
            Step::Runtime { wall_ns } => Op::Runtime { wall_ns: *wall_ns },
            Step::Sleep { ns } => Op::Sleep { ns: *ns },
            Step::Timer { timer, period_ns, relative } => {
                Op::Timer { timer: *timer, period_ns: *period_ns, relative: *relative }
            }
            Step::Lock(mutex) => Op::Lock(*mutex),
            Step::Unlock(mutex) => Op::Unlock(*mutex),
            Step::Wait { condition, mutex } => Op::Wait { condition: *condition, mutex: *mutex },
            Step::Signal(condition) => Op::Signal { condition: *condition, all: false },
            Step::Broadcast(condition) => Op::Signal { condition: *condition, all: true },
            Step::Barrier(barrier) => Op::Barrier(*barrier),
            Step::Await { flag, up } => Op::Await { flag: *flag, up: *up },
            Step::Set { flag, up } => Op::Set { flag: *flag, up: *up },
            Step::Suspend(at) => Op::Suspend(*at),
            Step::Resume(at) => Op::Resume(*at),
            Step::Yield => Op::Yield,
            Step::Stalled { part } => Op::Stalled { part: *part },
            Step::Mpki { mpki } => Op::Mpki { mpki: *mpki },
            Step::Vector(vector) => Op::Vector { level: vector.level() },
            Step::Write { channel, bytes } => Op::Write { channel: *channel, bytes: *bytes },
            Step::Read { channel, bytes } => Op::Read { channel: *channel, bytes: *bytes },
            Step::Give { tokens, more } => Op::Give { tokens: *tokens, more: *more },
            Step::Take(tokens) => Op::Take(*tokens),
            Step::Fork(task) => Op::Fork(*task),
        };
        ops.push(op);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(steps: &[Step]) -> Vec<Op> {
        let mut at = Cursor::new(compile(steps), 0);
        let mut seen = Vec::new();
        loop {
            match at.op() {
                Op::Exit => return seen,
                Op::Loop { times } => at.enter(times),
                Op::Again { start } => at.again(start),
                op => {
                    seen.push(op);
                    at.next();
                }
            }
        }
    }

    #[test]
    fn loops_run_as_often_as_they_say() {
        let inner = Step::Repeat { times: Some(2), steps: vec![Step::Yield] };
        let outer = Step::Repeat { times: Some(3), steps: vec![Step::Run { work_ns: 1 }, inner] };
        let ops = trail(&[outer, Step::Repeat { times: Some(0), steps: vec![Step::Yield] }]);
        assert_eq!(ops.iter().filter(|op| **op == Op::Yield).count(), 6);
        assert_eq!(ops.len(), 9);
    }

    #[test]
    fn an_empty_loop_is_left_out() {
        assert!(trail(&[Step::Repeat { times: None, steps: vec![] }]).is_empty());
    }
}
