// SPDX-License-Identifier: GPL-2.0-only
//! The steps of a task, and the objects that they concern.

use crate::hw::Vector;

/// Index into [`crate::Workload::objects`].
pub type ObjectId = usize;

/// Whether a system call that has given a token goes on to give another. Its task leaves its CPU in between only if the
/// kernel preempts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// That was the last token.
    No,
    /// It gives another, and the woken task may run in the meantime: a futex wake does so.
    Free,
    /// It gives another, and holds the lock of the wait queue. Every waiter needs that lock to leave the queue
    /// (`__wake_up_common_lock` and `remove_wait_queue` of the kernel), so no task goes on before the last is woken.
    Locked,
}

/// One thing a task does. Lengths of work are CPU time on the reference CPU of the machine (an
/// otherwise idle core of its fastest type); all other times are on the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Burns this much CPU time: rt-app's `run`.
    Run {
        /// Work, as CPU time.
        work_ns: u64,
    },
    /// Stays busy until this much wall time has passed: rt-app's `runtime`.
    Runtime {
        /// Wall time.
        wall_ns: u64,
    },
    /// Writes to memory of its own, a buffer over and over: rt-app's `mem`.
    Mem {
        /// Bytes that are written.
        bytes: u32,
        /// Bytes of the buffer: `mem_buffer_size`.
        buffer: u32,
    },
    /// Writes to /dev/null, one buffer per system call: rt-app's `iorun`.
    Io {
        /// Bytes that are written.
        bytes: u32,
        /// Bytes of the buffer: `mem_buffer_size`.
        buffer: u32,
    },
    /// Blocks for this long.
    Sleep {
        /// Wall time.
        ns: u64,
    },
    /// Blocks until `last + period`, which becomes the new `last`; at first `last` is the start of the
    /// workload plus the task's delay, as in rt-app. Does not block if that is past; then `last`
    /// becomes the present where `relative`, and stays on the grid where not.
    Timer {
        /// An [`Object::Timer`].
        timer: ObjectId,
        /// Its period.
        period_ns: u64,
        /// A missed expiry moves the grid.
        relative: bool,
    },
    /// Takes a mutex, or blocks until it is free.
    Lock(ObjectId),
    /// Gives a mutex back and wakes one waiter.
    Unlock(ObjectId),
    /// Waits for a condition; the mutex is released meanwhile and held again afterwards.
    Wait {
        /// An [`Object::Condition`].
        condition: ObjectId,
        /// The [`Object::Mutex`] the task holds.
        mutex: ObjectId,
    },
    /// Wakes one waiter of a condition.
    Signal(ObjectId),
    /// Wakes all waiters of a condition.
    Broadcast(ObjectId),
    /// Waits until all parties of a barrier have arrived.
    Barrier(ObjectId),
    /// Spins until a flag is up, or down. It reads memory and makes no system call, however long it takes.
    Await {
        /// An [`Object::Flag`].
        flag: ObjectId,
        /// The state to wait for.
        up: bool,
    },
    /// Raises or lowers a flag: one store.
    Set {
        /// An [`Object::Flag`].
        flag: ObjectId,
        /// The new state.
        up: bool,
    },
    /// Blocks until a task resumes this name: rt-app's `suspend`.
    Suspend(ObjectId),
    /// Wakes all tasks that are suspended there.
    Resume(ObjectId),
    /// Lets other tasks run first (yield).
    Yield,
    /// May run on these CPUs from here on; None is all. If the mask does not change, it makes no system call.
    Cpus(Option<Vec<usize>>),
    /// Another phase of a program begins: from here on [`crate::Task::stalled`] is this. It takes no time.
    Stalled {
        /// 0 to 1.
        part: f64,
    },
    /// Another phase of a program begins: from here on [`crate::Demand::mpki`] is this. It takes no time.
    Mpki {
        /// Misses in 1,000 instructions.
        mpki: f64,
    },
    /// Another phase of a program begins: from here on [`crate::Task::vector`] is this. It takes no time.
    Vector(Vector),
    /// Writes into a pipe or socket; blocks while it is full.
    Write {
        /// An [`Object::Pipe`], [`Object::Packets`] or [`Object::Socket`].
        channel: ObjectId,
        /// Bytes of one message.
        bytes: u32,
    },
    /// Reads as much from a pipe or socket as one message of `bytes` holds; blocks while it is empty.
    Read {
        /// An [`Object::Pipe`], [`Object::Packets`] or [`Object::Socket`].
        channel: ObjectId,
        /// Bytes of one message.
        bytes: u32,
    },
    /// Begins a connection, and wakes a task that waits to accept one. It takes no time of its own but for the wakeup.
    Connect {
        /// An [`Object::Listener`].
        listener: ObjectId,
        /// The channel that it sends to; the next channel is the one it receives from.
        connection: ObjectId,
    },
    /// Accepts the connection that arrived first, or waits for one. It takes no time of its own but for the wait.
    Accept {
        /// An [`Object::Listener`].
        listener: ObjectId,
        /// The [`Object::Accepted`] that it receives from afterwards; the next object is the one it sends to.
        accepted: ObjectId,
    },
    /// Gives a token, and wakes a task that waits for one. It takes no time of its own but for the wakeup.
    Give {
        /// An [`Object::Tokens`].
        tokens: ObjectId,
        /// Whether the system call in which it happens gives another.
        more: More,
        /// Whether the waker says that it is about to block (`WF_SYNC`), as a task does that writes into a pipe, or
        /// ends.
        sync: bool,
    },
    /// Waits for a lock of the kernel's, which other tasks hold for `ns`. It takes no time of its own but for the wait.
    Contend {
        /// How long.
        ns: u64,
    },
    /// Takes a token of an [`Object::Tokens`], or waits for one. It takes no time of its own but for the wait.
    Take(ObjectId),
    /// The same, but gives up waiting after a while, works a little, and asks again, until it has one.
    TakeWithin {
        /// An [`Object::Tokens`].
        tokens: ObjectId,
        /// How long it waits each time.
        ns: u64,
        /// CPU time before it asks again, ns on the reference CPU.
        work_ns: u64,
    },
    /// Starts the task at this index of [`crate::Workload::tasks`].
    Fork(usize),
    /// Does `steps` again and again.
    Repeat {
        /// How often; None is until the workload's duration is over.
        times: Option<u64>,
        /// The repeated steps.
        steps: Vec<Step>,
    },
}

/// By how much the numbers of a copy are greater than those of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub objects: usize,
    pub tasks: usize,
}

impl Step {
    /// The same of another copy.
    pub(crate) fn moved(&self, by: Moved) -> Step {
        let id = |id: ObjectId| id + by.objects;
        match self.clone() {
            Step::Timer { timer, period_ns, relative } => {
                Step::Timer { timer: id(timer), period_ns, relative }
            }
            Step::Lock(lock) => Step::Lock(id(lock)),
            Step::Unlock(lock) => Step::Unlock(id(lock)),
            Step::Wait { condition, mutex } => {
                Step::Wait { condition: id(condition), mutex: id(mutex) }
            }
            Step::Signal(condition) => Step::Signal(id(condition)),
            Step::Broadcast(condition) => Step::Broadcast(id(condition)),
            Step::Barrier(barrier) => Step::Barrier(id(barrier)),
            Step::Await { flag, up } => Step::Await { flag: id(flag), up },
            Step::Set { flag, up } => Step::Set { flag: id(flag), up },
            Step::Suspend(name) => Step::Suspend(id(name)),
            Step::Resume(name) => Step::Resume(id(name)),
            Step::Write { channel, bytes } => Step::Write { channel: id(channel), bytes },
            Step::Read { channel, bytes } => Step::Read { channel: id(channel), bytes },
            Step::Connect { listener, connection } => {
                Step::Connect { listener: id(listener), connection: id(connection) }
            }
            Step::Accept { listener, accepted } => {
                Step::Accept { listener: id(listener), accepted: id(accepted) }
            }
            Step::Give { tokens, more, sync } => Step::Give { tokens: id(tokens), more, sync },
            Step::Take(tokens) => Step::Take(id(tokens)),
            Step::TakeWithin { tokens, ns, work_ns } => {
                Step::TakeWithin { tokens: id(tokens), ns, work_ns }
            }
            Step::Fork(task) => Step::Fork(task + by.tasks),
            Step::Repeat { times, steps } => {
                Step::Repeat { times, steps: steps.iter().map(|step| step.moved(by)).collect() }
            }
            same @ (Step::Run { .. }
            | Step::Runtime { .. }
            | Step::Mem { .. }
            | Step::Io { .. }
            | Step::Sleep { .. }
            | Step::Yield
            | Step::Cpus(_)
            | Step::Stalled { .. }
            | Step::Mpki { .. }
            | Step::Vector(_)
            | Step::Contend { .. }) => same,
        }
    }
}

/// An object through which tasks interact.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A sleeping lock (futex). It is handed to no task: the woken waiter tries again.
    Mutex,
    /// A condition variable.
    Condition,
    /// A barrier for `parties` threads. Each spins for `spin_ns` before it blocks.
    Barrier {
        /// How many threads wait for each other.
        parties: u32,
        /// How long a thread spins, in wall time on its CPU, before it blocks on a futex.
        spin_ns: u64,
    },
    /// A word that is up or down, down at first, and that threads watch by spinning.
    Flag,
    /// A periodic timer; its state is per task.
    Timer,
    /// A rendezvous for suspend and resume.
    Suspension,
    /// One task waits for these and others give them: a recorded wait. Only the simulator supports it.
    Tokens,
    /// CPython's global interpreter lock. Of the tasks that need it one works at a time. It gives the lock up when it
    /// blocks, reads or writes, or when another task asks for it. Only the simulator supports it.
    Gil {
        /// How long a task waits before it asks.
        interval_ns: u64,
        /// CPU time for asking, ns on the reference CPU.
        ask_ns: u64,
    },
    /// A queue of connections to be accepted. Only the simulator supports it.
    Listener,
    /// One direction of the connection that was accepted into it. A task that reads or writes before that waits for it.
    /// Only the simulator supports it.
    Accepted,
    /// A pipe of `capacity` bytes: 65,536 on Linux, in pages; each message of up to a page that does not fit into the
    /// rest of the last page takes a new one.
    Pipe {
        /// Bytes it holds.
        capacity: u32,
    },
    /// A pipe that keeps messages of up to a page apart (`O_DIRECT`), each in a page of its own. A read takes one whole
    /// message.
    Packets {
        /// Messages it holds: a power of two on Linux.
        messages: u32,
    },
    /// A stream socket: a message is taken while less than `capacity` is held, so the last may
    /// overshoot; each costs its bytes and `overhead` bytes of bookkeeping (`skb->truesize`). A
    /// writer that found it full is woken when no more than a quarter is held (`unix_writable` in
    /// the kernel's net/unix/af_unix.c).
    Socket {
        /// Bytes it holds, bookkeeping included: `net.core.wmem_default`.
        capacity: u32,
        /// Bookkeeping bytes a message.
        overhead: u32,
    },
}

impl Object {
    /// A name for an object that has none.
    pub(crate) fn numbered(&self, id: ObjectId) -> String {
        let kind = match self {
            Object::Mutex => "mutex",
            Object::Condition => "condition",
            Object::Barrier { .. } => "barrier",
            Object::Flag => "flag",
            Object::Timer => "unique",
            Object::Suspension => "suspension",
            Object::Tokens => "tokens",
            Object::Gil { .. } => "gil",
            Object::Listener => "listener",
            Object::Accepted => "accepted",
            Object::Pipe { .. } => "pipe",
            Object::Packets { .. } => "packets",
            Object::Socket { .. } => "socket",
        };
        format!("{kind}{id}")
    }
}
