// SPDX-License-Identifier: GPL-2.0-only
//! A task's steps as a flat list, and its progress in them.

use std::collections::VecDeque;
use std::rc::Rc;

use workload::{Happened, More, ObjectId, Played, Script, Step, Steps, Then, Workload};

use crate::ids::TaskId;

/// One operation. Loops are jumps, so that a place in a program is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Run {
        work_ns: u64,
    },
    Runtime {
        wall_ns: u64,
    },
    /// Writes to memory.
    Mem {
        bytes: u32,
    },
    /// Writes to a device that takes everything, one buffer per system call.
    Io {
        bytes: u32,
        buffer: u32,
    },
    Sleep {
        ns: u64,
    },
    /// Sleeps until the task's delay is over.
    Delay,
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
    /// Opens it once all tasks are there.
    Open,
    /// A kernel thread waits for its timer.
    Rest,
    Yield,
    /// The mask of this number among the task's.
    Cpus(u32),
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
    Connect {
        listener: ObjectId,
        connection: ObjectId,
    },
    Accept {
        listener: ObjectId,
        accepted: ObjectId,
    },
    Give {
        tokens: ObjectId,
        more: More,
        sync: bool,
    },
    Contend {
        ns: u64,
    },
    Take(ObjectId),
    TakeWithin {
        tokens: ObjectId,
        ns: u64,
        work_ns: u64,
    },
    Fork(usize),
    /// The place where the recorded script is played, one operation after the other.
    Script,
    /// Enters a loop of `times` rounds; None is forever.
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
    /// For an error: the event as in a workload's file, and the name of the object it waits for.
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
            Op::Accept { listener, .. } => format!("accept {}", name(listener)),
            Op::Take(tokens) | Op::TakeWithin { tokens, .. } => format!("take {}", name(tokens)),
            other => format!("{other:?}"),
        }
    }
}

/// The progress of a task.
#[derive(Debug)]
pub(crate) struct Cursor {
    program: Rc<[Op]>,
    at: usize,
    /// The present operation.
    op: Op,
    /// The operation after it, if it is to be repeated.
    again: Option<Op>,
    /// Work done in asking again, ns.
    asked_ns: f64,
    /// The rest to play at [`Op::Script`], and the number of its acts that were counted.
    script: Option<Steps>,
    ended: usize,
    /// Rounds left of each loop it is in, the innermost last.
    loops: Vec<Option<u64>>,
    /// Its progress in the present operation; each operation counts for itself from 0.
    pub phase: u8,
    /// Work left of the present `Run`, ns on the reference CPU.
    pub left: f64,
    /// It is to end: the present operation is its last, and a `Run` is over when it is next accounted for.
    pub ends: bool,
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
    /// Tasks that the present system call still has to wake.
    pub to_wake: VecDeque<TaskId>,
    /// Whether the system call in which it has given a token goes on.
    pub giving: More,
    /// The workload's start plus the task's delay: timers count from there.
    pub origin_ns: u64,
}

impl Cursor {
    pub fn new(program: Rc<[Op]>, script: Option<&Script>, origin_ns: u64) -> Self {
        let mut cursor = Cursor {
            origin_ns,
            op: program[0],
            again: None,
            asked_ns: 0.0,
            program,
            at: 0,
            script: script.map(Script::steps),
            ended: 0,
            loops: Vec::new(),
            phase: 0,
            left: 0.0,
            ends: false,
            debt: 0.0,
            until_ns: 0,
            bytes: 0,
            timers: Vec::new(),
            done: 0.0,
            to_wake: VecDeque::new(),
            giving: More::No,
        };
        cursor.load();
        cursor
    }

    #[inline]
    pub fn op(&self) -> Op {
        self.op
    }

    /// It plays a recording: kernel time is part of its recorded work.
    pub fn recorded(&self) -> bool {
        self.script.is_some()
    }

    /// Its progress in its script, with the time it has worked and what has happened meanwhile.
    pub fn played(&self, worked_ns: f64, happened: Happened) -> Played {
        let acts = self.script.as_ref().map_or(0, Steps::done);
        let into_ns = match self.op {
            Op::Run { work_ns } if self.phase == 1 => (work_ns as f64 - self.left).max(0.0),
            _ => 0.0,
        };
        Played { acts, into_ns: self.asked_ns + into_ns, worked_ns, happened }
    }

    /// Work done in asking again for a token, ns.
    pub fn asked_ns(&self) -> f64 {
        self.asked_ns
    }

    /// The next finished act of its script that was not counted yet, if any: its work, ns, and the action after it.
    pub fn act_ended(&mut self) -> Option<(u64, Then)> {
        let script = self.script.as_ref()?;
        // The last act is not finished while its action is under way; all are finished after the script.
        let begins = matches!(self.op, Op::Run { .. }) && self.again.is_none();
        let behind = self.program[self.at] != Op::Script;
        let ended = script.done() - usize::from(!begins && !behind && script.done() > 0);
        if self.ended >= ended {
            return None;
        }
        self.ended += 1;
        script.act(self.ended - 1)
    }

    /// Does the present operation once more, after some work.
    pub fn ask_again(&mut self, work_ns: u64) {
        self.phase = 0;
        self.again = Some(self.op);
        self.op = Op::Run { work_ns };
    }

    /// It asks for its lock, which takes `work_ns` of work.
    pub fn asks(&mut self, work_ns: f64) {
        self.debt += work_ns;
        self.asked_ns += work_ns;
    }

    /// Goes on to the next operation.
    #[inline]
    pub fn next(&mut self) {
        self.phase = 0;
        self.bytes = 0;
        if self.ends {
            (self.again, self.script) = (None, None);
            self.at = self.program.len() - 1;
            return self.load();
        }
        if let Some(op) = self.again.take() {
            if let Op::Run { work_ns } = self.op {
                self.asked_ns += work_ns as f64;
            }
            self.op = op;
            return;
        }
        self.at += usize::from(self.program[self.at] != Op::Script);
        self.load();
    }

    #[inline]
    fn load(&mut self) {
        self.op = self.program[self.at];
        if self.op == Op::Script {
            self.op = self.play();
        }
    }

    /// The script's next operation; after the last one, the program's.
    fn play(&mut self) -> Op {
        match self.script.as_mut().and_then(Steps::next) {
            Some(step) => plain(&step).expect("what was recorded has no loops and masks"),
            None => {
                self.at += 1;
                self.program[self.at]
            }
        }
    }

    /// Enters a loop.
    pub fn enter(&mut self, times: Option<u64>) {
        self.loops.push(times);
        self.next();
    }

    /// Goes back to `start`, or on if no round is left.
    pub fn again(&mut self, start: usize) {
        let rounds = self.loops.last_mut().expect("a loop ends only where it began");
        match rounds {
            Some(1) => {
                self.loops.pop();
                self.next();
            }
            Some(n) => {
                *n -= 1;
                self.back_to(start);
            }
            None => self.back_to(start),
        }
    }

    fn back_to(&mut self, start: usize) {
        self.phase = 0;
        self.at = start;
        self.load();
    }
}

/// Flattens steps.
#[cfg(test)]
pub(crate) fn compile(steps: &[Step]) -> Rc<[Op]> {
    compile_between(&[], steps, &[]).0
}

/// Masks of CPUs; None is all.
type Masks = Vec<Option<Vec<usize>>>;

/// Flattens steps, with operations of the simulator's own before and after them. Also returns the masks that
/// [`Op::Cpus`] refers to.
pub(crate) fn compile_between(before: &[Op], steps: &[Step], after: &[Op]) -> (Rc<[Op]>, Masks) {
    let (mut ops, mut masks) = (before.to_vec(), Masks::new());
    append(steps, &mut ops, &mut masks);
    ops.push(Op::Script);
    ops.extend(after);
    ops.push(Op::Exit);
    (ops.into(), masks)
}

fn append(steps: &[Step], ops: &mut Vec<Op>, masks: &mut Masks) {
    for step in steps {
        match step {
            Step::Repeat { times: Some(0), .. } => {}
            Step::Repeat { steps, .. } if steps.is_empty() => {}
            Step::Repeat { times, steps } => {
                ops.push(Op::Loop { times: *times });
                let start = ops.len();
                append(steps, ops, masks);
                ops.push(Op::Again { start });
            }
            Step::Cpus(cpus) => {
                ops.push(Op::Cpus(masks.len() as u32));
                masks.push(cpus.clone());
            }
            step => ops.extend(plain(step)),
        }
    }
}

/// The operation of a step; None of a loop, and of a mask.
fn plain(step: &Step) -> Option<Op> {
    Some(match step {
        // A mask would make each operation large: it has a number instead, and recordings have none.
        Step::Repeat { .. } | Step::Cpus(_) => return None,
        Step::Run { work_ns } => Op::Run { work_ns: *work_ns },
        Step::Runtime { wall_ns } => Op::Runtime { wall_ns: *wall_ns },
        Step::Mem { bytes, .. } => Op::Mem { bytes: *bytes },
        Step::Io { bytes, buffer } => Op::Io { bytes: *bytes, buffer: *buffer },
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
        Step::Connect { listener, connection } => {
            Op::Connect { listener: *listener, connection: *connection }
        }
        Step::Accept { listener, accepted } => {
            Op::Accept { listener: *listener, accepted: *accepted }
        }
        Step::Contend { ns } => Op::Contend { ns: *ns },
        Step::Give { tokens, more, sync } => Op::Give { tokens: *tokens, more: *more, sync: *sync },
        Step::Take(tokens) => Op::Take(*tokens),
        Step::TakeWithin { tokens, ns, work_ns } => {
            Op::TakeWithin { tokens: *tokens, ns: *ns, work_ns: *work_ns }
        }
        Step::Fork(task) => Op::Fork(*task),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(steps: &[Step]) -> Vec<Op> {
        let mut at = Cursor::new(compile(steps), None, 0);
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
