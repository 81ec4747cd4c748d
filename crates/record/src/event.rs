// SPDX-License-Identifier: GPL-2.0-only
//! The events of a recording.

use trace::Tid;

/// An event at `t_ns` on `cpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording began; never decreasing.
    pub t_ns: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The event itself.
    pub kind: Kind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The CPU left `prev` for `next`; 0 is its idle task.
    Switch {
        /// The task that left the CPU.
        prev: Tid,
        /// The task that got it.
        next: Tid,
        /// Why `prev` left.
        left: Left,
    },
    /// The task on this CPU, or an interrupt, began to wake a task. A woken task that was about to leave its own CPU
    /// may leave it only afterwards.
    Wake {
        /// The woken task.
        tid: Tid,
        /// The carrier of the wakeup.
        by: Carrier,
        /// The channel or futex, if the carrier is one.
        object: u32,
    },
    /// The next woken task waits in a call with a timeout.
    Timed {
        /// The waiting task.
        tid: Tid,
        /// The call and its object: the same number if a thread gives up and asks for the same again.
        call: u32,
    },
    /// A new thread was made runnable for the first time.
    Start {
        /// The new thread.
        tid: Tid,
        /// The CPU it was placed on.
        target: u32,
    },
    /// `parent` made `child`, which [`Kind::Start`] makes runnable.
    Fork {
        /// The forking task.
        parent: Tid,
        /// The new thread.
        child: Tid,
    },
    /// A thread runs another program from now on.
    Exec {
        /// The thread.
        tid: Tid,
        /// Its number until now: differs if it was not the first thread of its process.
        old: Tid,
    },
    /// A thread will never run again once it leaves its CPU.
    Exit {
        /// The thread.
        tid: Tid,
    },
    /// A thread's description, from now on.
    Task(TaskInfo),
    /// A thread's sums since its last sample. A coarse recording has nothing else.
    Sample(Sample),
    /// The task on this CPU has taken bytes out of a channel; the call ends now, or soon.
    Read {
        /// The channel.
        object: u32,
        /// Number of bytes.
        bytes: u32,
        /// Kind of the channel.
        channel: Carrier,
    },
    /// The task on this CPU has put bytes into a channel; the call ends now, or soon.
    Write {
        /// The channel.
        object: u32,
        /// Number of bytes.
        bytes: u32,
        /// Kind of the channel.
        channel: Carrier,
    },
    /// The task on this CPU has begun a network connection.
    Connect {
        /// The channel that it sends to.
        sends: u32,
        /// The channel that it receives from.
        receives: u32,
        /// The last bits of its server's port.
        port: u8,
    },
    /// The task on this CPU has accepted a connection. The channels are named as its client names them.
    Accept {
        /// The channel that its client sends to.
        sends: u32,
        /// The channel that its client receives from.
        receives: u32,
        /// The last bits of its server's port.
        port: u8,
    },
}

/// Sums of a thread's behaviour during an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The thread.
    pub tid: Tid,
    /// Time on a CPU, ns.
    pub ran_ns: u32,
    /// Time that it was runnable without a CPU, ns.
    pub waited_ns: u32,
    /// Times that it got a CPU.
    pub slices: u32,
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It waits for something.
    Blocked,
    /// It was preempted, although runnable.
    Preempted,
    /// It ended.
    Dead,
    /// It waits for a lock of the kernel's that another task has: a mutex, a semaphore, a page. Or for a device.
    AtLock,
}

/// The carrier of a wakeup or of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A task, by any other act: a signal, its end, a lock of the kernel's.
    Task,
    /// A device's interrupt.
    Interrupt,
    /// Work behind an interrupt: most often packets from another machine.
    Softirq,
    /// A timer.
    Timer,
    /// A pipe.
    Pipe,
    /// A local stream socket.
    UnixSocket,
    /// A network connection within this machine.
    Tcp,
    /// A futex: a lock, a condition, a thread's end.
    Futex,
}

impl Carrier {
    /// Data passes from task to task through it, and readers wait for data in a queue of the kernel's.
    pub(crate) fn is_channel(self) -> bool {
        matches!(self, Carrier::Pipe | Carrier::UnixSocket | Carrier::Tcp)
    }
}

/// The scheduling class of a thread, and its priority there (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER, by nice value.
    #[default]
    Other,
    /// SCHED_BATCH, by nice value.
    Batch,
    /// SCHED_IDLE: below every nice value.
    Idle,
    /// SCHED_FIFO, at a priority of 1 to 99.
    Fifo(u8),
    /// SCHED_RR, at a priority of 1 to 99.
    RoundRobin(u8),
    /// SCHED_DEADLINE; no event has its runtime and period.
    Deadline,
}

impl Class {
    /// The class of the kernel's number for a policy (include/uapi/linux/sched.h), at this real-time priority; None:
    /// there is none. sched_ext's policy (7) counts as that of ordinary tasks.
    pub fn of_policy(policy: u8, priority: u32) -> Option<Class> {
        let real_time = || u8::try_from(priority).ok().filter(|it| (1..=99).contains(it));
        Some(match policy {
            0 | 7 => Class::Other,
            1 => Class::Fifo(real_time()?),
            2 => Class::RoundRobin(real_time()?),
            3 => Class::Batch,
            5 => Class::Idle,
            6 => Class::Deadline,
            _ => return None,
        })
    }

    /// The kernel's number for the policy, and the real-time priority.
    pub(crate) fn policy(self) -> (u8, u32) {
        match self {
            Class::Other => (0, 0),
            Class::Fifo(priority) => (1, priority.into()),
            Class::RoundRobin(priority) => (2, priority.into()),
            Class::Batch => (3, 0),
            Class::Idle => (5, 0),
            Class::Deadline => (6, 0),
        }
    }

    /// The class of a priority `prio` in the scheduling events (include/linux/sched/prio.h): -1 is a deadline task's, 0
    /// to 98 are real-time. `prio` does not tell FIFO from RR, nor batch and idle from other.
    pub fn of_prio(prio: i32) -> Class {
        match prio {
            ..0 => Class::Deadline,
            0..99 => Class::Fifo(99 - prio as u8),
            _ => Class::Other,
        }
    }
}

/// Description of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The thread.
    pub tid: Tid,
    /// Its process: threads of one share an address space.
    pub pid: Tid,
    /// −20 to 19.
    pub nice: i8,
    /// Its scheduling class.
    pub class: Class,
    /// It is one of the kernel's own.
    pub kernel: bool,
    /// The first 64 of the CPUs that it may use; all ones: any.
    pub cpus: u64,
    /// How often it woke another task than the time before, as Linux counts (`wakee_flips`): halved each second, and
    /// inherited by new tasks. 255: that or more; 0 if not known.
    pub wakee_flips: u8,
    /// The kernel's 15 bytes of its name.
    pub name: String,
}

impl TaskInfo {
    /// A thread with nothing else known: defaults, and no name.
    pub fn new(tid: Tid, pid: Tid) -> Self {
        TaskInfo {
            tid,
            pid,
            nice: 0,
            class: Class::Other,
            kernel: false,
            cpus: u64::MAX,
            wakee_flips: 0,
            name: String::new(),
        }
    }
}
