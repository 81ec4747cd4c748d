// SPDX-License-Identifier: GPL-2.0-only
//! The state of objects through which tasks interact; `channel.rs` has that of pipes and sockets.

mod engine;
mod gil;
mod listener;

use std::collections::VecDeque;

use crate::account::Func;
use crate::channel::{Pipe, Socket};
use crate::ids::TaskId;
use crate::kernel::Kernel;
use crate::line::Line;
use crate::lock::LockId;

/// [`crate::program::Cursor::phase`] of a task that spins at a barrier.
pub(crate) const SPINNING: u8 = 1;
/// Of a task that blocks there.
const BLOCKED: u8 = 2;
/// Of a task that may go on.
pub(crate) const RELEASED: u8 = 3;

/// An hour of spinning, after which a task that waits for a flag goes on spinning.
const FOREVER_NS: f64 = 3.6e12;

/// Names under which the locks of objects are counted: they are not the scheduler's.
pub(crate) const PLACES: [&str; 3] = ["futex", "pipe", "socket"];

/// An object and its state.
pub(crate) enum Object {
    Mutex(Futex),
    Condition(Futex),
    Suspension(Futex),
    Barrier(Barrier),
    Flag(Flag),
    Timer,
    Tokens(Tokens),
    Gil(Gil),
    Listener(Listener),
    Accepted(Accepted),
    Pipe(Pipe),
    Socket(Socket),
}

/// A word in user memory, and the tasks that wait for it in the kernel.
pub(crate) struct Futex {
    /// The task that holds the mutex.
    owner: Option<TaskId>,
    waiters: VecDeque<TaskId>,
    line: Line,
    bucket: LockId,
}

/// The gate where all tasks of a workload wait for its start.
pub(crate) struct Gate {
    parties: usize,
    ready: usize,
    waiters: VecDeque<TaskId>,
    /// The task that waits to open it.
    opener: Option<TaskId>,
    bucket: LockId,
}

impl Gate {
    pub fn new(parties: usize, k: &mut Kernel) -> Self {
        let bucket = k.new_lock("futex");
        Gate { parties, ready: 0, waiters: VecDeque::new(), opener: None, bucket }
    }
}

pub(crate) struct Barrier {
    parties: usize,
    spin_ns: u64,
    arrived: usize,
    spinners: Vec<TaskId>,
    futex: Futex,
}

/// Tokens that one task waits for, and others give.
#[derive(Default)]
pub(crate) struct Tokens {
    count: u64,
    waiters: VecDeque<TaskId>,
}

/// A word in user memory that threads watch by spinning.
pub(crate) struct Flag {
    up: bool,
    /// Tasks that spin until it is up, or down.
    spinners: Vec<(TaskId, bool)>,
    line: Line,
}

/// Kernel functions of objects.
pub(crate) struct Funcs {
    pub pipe_write: Func,
    pub pipe_read: Func,
    pub unix_stream_sendmsg: Func,
    pub unix_stream_recvmsg: Func,
    pub wake_up_common: Func,
    pub prepare_to_wait: Func,
    futex_wait: Func,
    futex_wake: Func,
    user_lock: Func,
    hrtimer_nanosleep: Func,
}

impl Funcs {
    pub fn new(k: &Kernel) -> Self {
        Funcs {
            pipe_write: k.function("pipe_write"),
            pipe_read: k.function("pipe_read"),
            unix_stream_sendmsg: k.function("unix_stream_sendmsg"),
            unix_stream_recvmsg: k.function("unix_stream_recvmsg"),
            wake_up_common: k.function("wake_up_common"),
            prepare_to_wait: k.function("prepare_to_wait"),
            futex_wait: k.function("futex_wait"),
            futex_wake: k.function("futex_wake"),
            user_lock: k.function("user_lock"),
            hrtimer_nanosleep: k.function("hrtimer_nanosleep"),
        }
    }
}

impl Object {
    /// One of a workload, as it is before the start.
    pub fn new(object: &workload::Object, k: &mut Kernel) -> Self {
        match object {
            workload::Object::Mutex => Object::Mutex(Futex::new(k)),
            workload::Object::Condition => Object::Condition(Futex::new(k)),
            workload::Object::Suspension => Object::Suspension(Futex::new(k)),
            workload::Object::Barrier { parties, spin_ns } => Object::Barrier(Barrier {
                parties: *parties as usize,
                spin_ns: *spin_ns,
                arrived: 0,
                spinners: Vec::new(),
                futex: Futex::new(k),
            }),
            workload::Object::Flag => Object::Flag(Flag {
                up: false,
                spinners: Vec::new(),
                line: Line::new(k.this_cpu()),
            }),
            workload::Object::Timer => Object::Timer,
            workload::Object::Tokens => Object::Tokens(Tokens::default()),
            workload::Object::Gil { interval_ns, ask_ns } => {
                Object::Gil(Gil::new(*interval_ns, *ask_ns))
            }
            workload::Object::Listener => Object::Listener(Listener::default()),
            workload::Object::Accepted => Object::Accepted(Accepted::default()),
            workload::Object::Pipe { capacity } => Object::Pipe(Pipe::new(*capacity, k)),
            workload::Object::Packets { messages } => Object::Pipe(Pipe::of_packets(*messages, k)),
            workload::Object::Socket { capacity, overhead } => {
                Object::Socket(Socket::new(*capacity, *overhead, k))
            }
        }
    }
}

impl Futex {
    fn new(k: &mut Kernel) -> Self {
        Futex {
            owner: None,
            waiters: VecDeque::new(),
            line: Line::new(k.this_cpu()),
            bucket: k.new_lock("futex"),
        }
    }
}

/// The lock.
#[derive(Default)]
pub(crate) struct Gil {
    interval_ns: u64,
    ask_ns: u64,
    holder: Option<TaskId>,
    /// The last holder, and how often another thread took it.
    last: Option<TaskId>,
    switches: u64,
    /// Tasks that wait until it is free, and since which switch. A task here that is awake has waited for long enough.
    waiters: VecDeque<(TaskId, u64)>,
    /// One of them has asked for it.
    asked: bool,
    /// The task that has released it and woken the first waiter, and not left the mutex around that; and the tasks that
    /// wait for that task.
    within: Option<TaskId>,
    outside: VecDeque<TaskId>,
    /// The lock was asked of that task, which will wait until another one has it.
    was_asked: bool,
    switching: Option<TaskId>,
}

impl Gil {
    pub fn new(interval_ns: u64, ask_ns: u64) -> Self {
        Gil { interval_ns, ask_ns, ..Gil::default() }
    }

    /// Releases it. Returns the task to wake.
    fn drop(&mut self) -> Option<TaskId> {
        self.holder = None;
        self.asked = false;
        self.waiters.pop_front().map(|(waiter, _)| waiter)
    }
}

/// A listening socket.
#[derive(Default)]
pub(crate) struct Listener {
    /// Connections that are not accepted yet, by the first of their two channels.
    begun: VecDeque<usize>,
    waiters: VecDeque<TaskId>,
}

/// One direction of a connection, once it was accepted, and the tasks that wait for that.
#[derive(Default)]
pub(crate) struct Accepted {
    channel: Option<usize>,
    waiters: Vec<TaskId>,
}

/// The object at this index, which must be of this kind: a workload's reader ensures that.
macro_rules! object {
    ($engine:expr, $kind:ident, $id:expr) => {
        match &mut $engine.objects[$id] {
            Object::$kind(object) => object,
            _ => return $engine.wrong_kind($id, stringify!($kind)),
        }
    };
}
pub(crate) use object;
