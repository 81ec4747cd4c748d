// SPDX-License-Identifier: GPL-2.0-only
//! The message storm of rt-tests' `hackbench`, as objects and steps.
//!
//! Source: src/hackbench/hackbench.c of rt-tests. Main starts, group by group, `fds` receivers and then `fds` senders.
//! Each tells main through one common channel that it is ready, and waits; when all have, main wakes them together. A
//! sender writes one message to each receiver of its group in turn, `loops` times; a receiver reads `fds × loops`
//! messages from its own channel and ends. The time that it reports begins when all are ready and ends when all have
//! ended, so it excludes the forks.
//!
//! The wake-up is a poll on a descriptor that main writes once. Here it is a barrier of all tasks. The only difference:
//! a worker that main overtakes is waited for.

use serde::Deserialize;

use crate::model::{Task, Workload};
use crate::step::{Object, ObjectId, Step};

/// Pages that a pipe has (pipe(7)).
pub const PIPE_PAGES: u32 = 16;

/// Bytes that a pipe holds.
pub const PIPE_BYTES: u32 = PIPE_PAGES * 4096;

/// Bytes that a socket holds: `net.core.wmem_default`, which is 256 packets of `SKB_TRUESIZE(256)` (include/net/sock.h
/// of the kernel).
pub const SOCKET_BYTES: u32 = 212_992;

/// Bookkeeping of a message up to 192 bytes long. The hundred bytes of hackbench have a truesize of 768, so 278
/// messages fill a socket (212,992 / 768, rounded up). Derived: sk_buff 256, its data rounded to 128 with
/// skb_shared_info 320 in a block of 512.
pub const SOCKET_OVERHEAD_BYTES: u32 = 668;

/// The channel between senders and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// `-p`.
    Pipe,
    /// The default: an AF_UNIX stream socket.
    Socket,
}

/// The kind of a sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// `-T`: all share one address space.
    Thread,
    /// The default: each has its own.
    Process,
}

/// hackbench's options.
#[derive(Clone, Copy, Debug)]
pub struct Hackbench {
    /// `-g`.
    pub groups: usize,
    /// `-l`: messages from each sender to each receiver of its group.
    pub loops: u64,
    /// `-s`: bytes of a message.
    pub bytes: u32,
    /// `-f`: senders of a group, and receivers.
    pub fds: usize,
    /// `-p`.
    pub channel: Channel,
    /// `-T`.
    pub worker: Worker,
}

impl Default for Hackbench {
    /// hackbench without options.
    fn default() -> Hackbench {
        let (channel, worker) = (Channel::Socket, Worker::Process);
        Hackbench { groups: 10, loops: 100, bytes: 100, fds: 20, channel, worker }
    }
}

impl Hackbench {
    /// Messages in all.
    pub fn messages(&self) -> u64 {
        self.groups as u64 * (self.fds * self.fds) as u64 * self.loops
    }

    /// The workload; task 0 is main.
    pub fn build(&self) -> Workload {
        let workers = self.groups * self.fds * 2;
        let kind = if self.channel == Channel::Pipe { "-p" } else { "" };
        let mut workload = Workload {
            name: format!("hackbench -g {} -l {} {kind}", self.groups, self.loops)
                .trim_end()
                .to_string(),
            ..Workload::default()
        };
        let ready = self.channel(&mut workload);
        workload.objects.push(Object::Barrier { parties: workers as u32 + 1, spin_ns: 0 });
        let go = workload.objects.len() - 1;
        workload.timed_from = Some(go);
        workload.tasks.push(self.main(workers, ready, go));
        for group in 0..self.groups {
            self.group(&mut workload, group, ready, go);
        }
        workload
    }

    fn main(&self, workers: usize, ready: ObjectId, go: ObjectId) -> Task {
        let mut steps: Vec<Step> = (1..=workers).map(Step::Fork).collect();
        steps.push(Step::Repeat {
            times: Some(workers as u64),
            steps: vec![Step::Read { channel: ready, bytes: 1 }],
        });
        steps.push(Step::Barrier(go));
        Task { name: "main".to_string(), steps, ..Task::default() }
    }

    fn group(&self, workload: &mut Workload, group: usize, ready: ObjectId, go: ObjectId) {
        let channels: Vec<ObjectId> = (0..self.fds).map(|_| self.channel(workload)).collect();
        let read = |channel: &ObjectId| {
            let read = Step::Read { channel: *channel, bytes: self.bytes };
            (self.loops * self.fds as u64, vec![read])
        };
        let write = |channel: &ObjectId| Step::Write { channel: *channel, bytes: self.bytes };
        let spray: Vec<Step> = channels.iter().map(write).collect();
        let receivers = channels.iter().map(read).enumerate().map(|(i, r)| ("receiver", i, r));
        let senders = (0..self.fds).map(|i| ("sender", i, (self.loops, spray.clone())));
        for (role, number, (times, steps)) in receivers.chain(senders) {
            let process = match self.worker {
                Worker::Thread => 0,
                Worker::Process => workload.tasks.len(),
            };
            workload.tasks.push(Task {
                name: format!("{role}-{group}-{number}"),
                process,
                forked: true,
                steps: vec![
                    Step::Write { channel: ready, bytes: 1 },
                    Step::Barrier(go),
                    Step::Repeat { times: Some(times), steps },
                ],
                ..Task::default()
            });
        }
    }

    fn channel(&self, workload: &mut Workload) -> ObjectId {
        workload.objects.push(match self.channel {
            Channel::Pipe => Object::Pipe { capacity: PIPE_BYTES },
            Channel::Socket => {
                Object::Socket { capacity: SOCKET_BYTES, overhead: SOCKET_OVERHEAD_BYTES }
            }
        });
        workload.objects.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Bytes written to and read from each channel.
    fn flows(workload: &Workload) -> BTreeMap<ObjectId, (u64, u64)> {
        fn add(steps: &[Step], times: u64, flows: &mut BTreeMap<ObjectId, (u64, u64)>) {
            for step in steps {
                match step {
                    Step::Write { channel, bytes } => {
                        flows.entry(*channel).or_default().0 += times * u64::from(*bytes);
                    }
                    Step::Read { channel, bytes } => {
                        flows.entry(*channel).or_default().1 += times * u64::from(*bytes);
                    }
                    Step::Repeat { times: n, steps } => add(steps, times * n.unwrap_or(1), flows),
                    _ => {}
                }
            }
        }
        let mut all = BTreeMap::new();
        workload.tasks.iter().for_each(|task| add(&task.steps, 1, &mut all));
        all
    }

    #[test]
    fn a_group_is_forty_tasks_and_main_starts_them_all() {
        let workload = Hackbench { groups: 4, ..Hackbench::default() }.build();
        assert_eq!(workload.tasks.len(), 1 + 4 * 40);
        assert!(!workload.tasks[0].forked && workload.tasks[1..].iter().all(|t| t.forked));
        let forks = workload.tasks[0].steps.iter().filter(|s| matches!(s, Step::Fork(_))).count();
        assert_eq!(forks, 160);
    }

    #[test]
    fn what_is_written_is_read() {
        let hackbench = Hackbench { groups: 3, loops: 7, fds: 5, ..Hackbench::default() };
        let flows = flows(&hackbench.build());
        assert!(flows.values().all(|(written, read)| written == read), "{flows:?}");
        let bytes: u64 = flows.values().map(|(written, _)| written).sum();
        assert_eq!(bytes, hackbench.messages() * 100 + 3 * 5 * 2);
    }

    #[test]
    fn processes_have_an_address_space_each_and_threads_share_one() {
        let of = |worker| {
            let workload = Hackbench { groups: 1, worker, ..Hackbench::default() }.build();
            let mut processes: Vec<usize> = workload.tasks.iter().map(|t| t.process).collect();
            processes.dedup();
            processes.len()
        };
        assert_eq!((of(Worker::Process), of(Worker::Thread)), (41, 1));
    }

    #[test]
    fn a_socket_holds_278_messages() {
        let message = 100 + SOCKET_OVERHEAD_BYTES;
        assert_eq!(SOCKET_BYTES.div_ceil(message), 278);
    }
}
