// SPDX-License-Identifier: GPL-2.0-only
//! What a recording says happened.

use trace::Tid;

/// Something that happened at `t_ns` on `cpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording began; never decreasing.
    pub t_ns: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The CPU left `prev` for `next`; 0 is its idle task.
    Switch {
        /// Who left the CPU.
        prev: Tid,
        /// Who got it.
        next: Tid,
        /// Why.
        left: Left,
    },
    /// Who ran on this CPU, or an interrupt, began to wake somebody; who was just about to leave its own CPU
    /// may do so only afterwards.
    Wake {
        /// Who is woken.
        tid: Tid,
        /// What the wakeup came by.
        by: Carrier,
        /// Which channel or futex, where it is one.
        object: u32,
    },
    /// Who is woken next waits in a call that would give up by itself after some time.
    Timed {
        /// Who.
        tid: Tid,
        /// Which call, and on what: the same for a thread that gives up and asks for the same again.
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
        /// Who forked.
        parent: Tid,
        /// The new thread.
        child: Tid,
    },
    /// A thread runs another program from now on.
    Exec {
        /// Which.
        tid: Tid,
        /// Its number until now: the same, but of a thread that was not the first of its process.
        old: Tid,
    },
    /// A thread will never run again once it leaves its CPU.
    Exit {
        /// Which.
        tid: Tid,
    },
    /// What is known of a thread, from now on.
    Task(TaskInfo),
    /// What a thread has done since it was looked at last: all that a coarse recording knows.
    Sample(Sample),
    /// Who runs on this CPU has taken bytes out of a channel; the call ends now, or soon.
    Read {
        /// Which channel.
        object: u32,
        /// How many.
        bytes: u32,
        /// What it is.
        channel: Carrier,
    },
    /// Who runs on this CPU has put bytes into a channel; the call ends now, or soon.
    Write {
        /// Which channel.
        object: u32,
        /// How many.
        bytes: u32,
        /// What it is.
        channel: Carrier,
    },
    /// Who runs on this CPU has begun a network connection.
    Connect {
        /// The channel that it sends to.
        sends: u32,
        /// The channel that it receives from.
        receives: u32,
        /// The last bits of its server's port.
        port: u8,
    },
    /// Who runs on this CPU has accepted one: the two as its client has them.
    Accept {
        /// What its client sends to.
        sends: u32,
        /// What its client receives from.
        receives: u32,
        /// The last bits of its server's port.
        port: u8,
    },
}

/// What a thread did for a while, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Which.
    pub tid: Tid,
    /// Time on a CPU, ns.
    pub ran_ns: u32,
    /// Time that it was runnable and had none, ns.
    pub waited_ns: u32,
    /// Times that it got one.
    pub slices: u32,
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It waits for something.
    Blocked,
    /// It could have gone on.
    Preempted,
    /// It ended.
    Dead,
    /// It waits for a lock of the kernel's that another has: a mutex, a semaphore, a page. Or for a device.
    AtLock,
}

/// What a wakeup came by, or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A task's own doing, whatever it was: a signal, its end, a lock of the kernel's.
    Task,
    /// A device's interrupt.
    Interrupt,
    /// Work behind an interrupt: packets from elsewhere, most often.
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
    /// Data goes from task to task through it, and who waits for some does so in a queue of the kernel's.
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
    /// SCHED_DEADLINE, whose runtime and period no event tells.
    Deadline,
}

impl Class {
    /// The class of the kernel's number for a policy (include/uapi/linux/sched.h), at this real-time priority; None: there
    /// is none. sched_ext's policy (7) is that of ordinary tasks.
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

    /// The class that the kernel's priority `prio` of the scheduling events tells (include/linux/sched/prio.h): -1 is a
    /// deadline task's, 0 to 98 are real-time ones'. FIFO is not told from RR by it, nor batch and idle from other.
    pub fn of_prio(prio: i32) -> Class {
        match prio {
            ..0 => Class::Deadline,
            0..99 => Class::Fifo(99 - prio as u8),
            _ => Class::Other,
        }
    }
}

/// What is known of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Which.
    pub tid: Tid,
    /// Its process: threads of one share an address space.
    pub pid: Tid,
    /// −20 to 19.
    pub nice: i8,
    /// Its scheduling class.
    pub class: Class,
    /// It is one of the kernel's own.
    pub kernel: bool,
    /// The first 64 of the CPUs it may use; all ones: any.
    pub cpus: u64,
    /// How often it had woken another than the time before, as Linux counts (`wakee_flips`): halved each second, and
    /// handed on to who is made by it. 255: that or more; 0 where it is not known.
    pub wakee_flips: u8,
    /// The kernel's 15 bytes of its name.
    pub name: String,
}

impl TaskInfo {
    /// A thread of which nothing else is known: as most are, and without a name.
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
