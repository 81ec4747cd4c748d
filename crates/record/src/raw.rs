// SPDX-License-Identifier: GPL-2.0-only
//! One record of 16 bytes: the kernel's side writes it, and files hold it.
//!
//! The first word has the time in its low 48 bits (ns since the recording began: 78 hours), then the kind and a byte.
//! The byte's meaning depends on the kind. Two halves follow. Four records in a row describe a thread: its number, its
//! CPUs, its scheduling class, its name. Two records are a sample: how long a thread ran, how long it waited. `live`
//! writes the same from BPF.

use trace::Tid;

use crate::{Carrier, Class, Event, Kind, Left, Sample, TaskInfo};

/// Bytes of a record.
pub const RAW_SIZE: usize = 16;

const SWITCH: u8 = 1;
const WAKE: u8 = 2;
const START: u8 = 3;
const FORK: u8 = 4;
const EXEC: u8 = 5;
const EXIT: u8 = 6;
const READ: u8 = 7;
const WRITE: u8 = 8;
const TASK: u8 = 9;
const CPUS: u8 = 10;
const NAME: u8 = 11;
const RAN: u8 = 12;
const WAITED: u8 = 13;
const TIMED: u8 = 14;
const CONNECT: u8 = 15;
const ACCEPT: u8 = 16;
/// Older recordings do not have it.
const CLASS: u8 = 17;

/// Bit of a task's byte: it is the kernel's own. The other bits are its nice value, from 0.
const KERNEL: u8 = 0x80;
const NICE_0: i8 = 20;

const CARRIERS: [Carrier; 8] = [
    Carrier::Task,
    Carrier::Interrupt,
    Carrier::Softirq,
    Carrier::Timer,
    Carrier::Pipe,
    Carrier::UnixSocket,
    Carrier::Tcp,
    Carrier::Futex,
];

/// A record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    /// Time, kind, and a byte of it.
    pub word: u64,
    /// Most often a thread.
    pub a: u32,
    /// Another, or a number.
    pub b: u32,
}

impl Raw {
    /// The record in its bytes.
    pub fn from_bytes(bytes: &[u8; RAW_SIZE]) -> Raw {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Raw { word: u64::from(half(0)) | u64::from(half(4)) << 32, a: half(8), b: half(12) }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; RAW_SIZE] {
        let mut bytes = [0; RAW_SIZE];
        bytes[..8].copy_from_slice(&self.word.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.a.to_le_bytes());
        bytes[12..].copy_from_slice(&self.b.to_le_bytes());
        bytes
    }

    fn new(t_ns: u64, kind: u8, byte: u8, a: u32, b: u32) -> Raw {
        let t_ns = t_ns & ((1 << 48) - 1);
        Raw { word: t_ns | u64::from(kind) << 48 | u64::from(byte) << 56, a, b }
    }

    /// When it was written, ns.
    pub fn t_ns(self) -> u64 {
        self.word & ((1 << 48) - 1)
    }

    fn kind(self) -> u8 {
        (self.word >> 48) as u8
    }

    fn byte(self) -> u8 {
        (self.word >> 56) as u8
    }

    /// The record of an event; None for a [`Kind::Task`], which takes a [`task_group`], and a [`Kind::Sample`], which
    /// takes a [`sample_group`].
    pub fn of(event: &Event) -> Option<Raw> {
        let (kind, byte, a, b) = match event.kind {
            Kind::Switch { prev, next, left } => (SWITCH, left as u8, prev, next),
            Kind::Wake { tid, by, object } => (WAKE, by as u8, tid, object),
            Kind::Timed { tid, call } => (TIMED, 0, tid, call),
            Kind::Start { tid, target } => (START, 0, tid, target),
            Kind::Fork { parent, child } => (FORK, 0, parent, child),
            Kind::Exec { tid, old } => (EXEC, 0, tid, old),
            Kind::Exit { tid } => (EXIT, 0, tid, 0),
            Kind::Read { object, bytes, channel } => (READ, channel as u8, object, bytes),
            Kind::Write { object, bytes, channel } => (WRITE, channel as u8, object, bytes),
            Kind::Connect { sends, receives, port } => (CONNECT, port, sends, receives),
            Kind::Accept { sends, receives, port } => (ACCEPT, port, sends, receives),
            Kind::Task(_) | Kind::Sample(_) => return None,
        };
        Some(Raw::new(event.t_ns, kind, byte, a, b))
    }
}

/// The four records that describe a thread.
pub fn task_group(t_ns: u64, info: &TaskInfo) -> [Raw; 4] {
    let nice = (info.nice.clamp(-20, 19) + NICE_0) as u8;
    let byte = nice | if info.kernel { KERNEL } else { 0 };
    let mut name = [0; RAW_SIZE];
    let places = (0..6).chain([7]).chain(8..16);
    places.zip(info.name.bytes()).for_each(|(place, letter)| name[place] = letter);
    name[6] = NAME;
    let (policy, priority) = info.class.policy();
    [
        Raw::new(t_ns, TASK, byte, info.tid, info.pid),
        Raw::new(t_ns, CPUS, info.wakee_flips, info.cpus as u32, (info.cpus >> 32) as u32),
        Raw::new(t_ns, CLASS, policy, priority, 0),
        Raw::from_bytes(&name),
    ]
}

/// The two records of a sample.
pub fn sample_group(t_ns: u64, sample: &Sample) -> [Raw; 2] {
    let Sample { tid, ran_ns, waited_ns, slices } = *sample;
    [Raw::new(t_ns, RAN, 0, tid, ran_ns), Raw::new(t_ns, WAITED, 0, waited_ns, slices)]
}

/// Assembles the records of one CPU into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// A thread, and the time of its first record; its CPUs and name have not arrived yet.
    task: Option<(u64, TaskInfo)>,
    /// A thread's time on CPUs, ns; its waiting time has not arrived yet.
    ran: Option<(Tid, u32)>,
}

impl Decoder {
    /// The event that a record completes, with its time. None: not complete yet. An error: it is no record.
    pub fn decode(&mut self, raw: Raw) -> Result<Option<(u64, Kind)>, ()> {
        let Raw { a, b, .. } = raw;
        let carrier = || CARRIERS.get(usize::from(raw.byte())).copied().ok_or(());
        let kind = match raw.kind() {
            SWITCH => {
                let left = match raw.byte() {
                    0 => Left::Blocked,
                    1 => Left::Preempted,
                    2 => Left::Dead,
                    3 => Left::AtLock,
                    _ => return Err(()),
                };
                Kind::Switch { prev: a, next: b, left }
            }
            WAKE => Kind::Wake { tid: a, by: carrier()?, object: b },
            TIMED => Kind::Timed { tid: a, call: b },
            START => Kind::Start { tid: a, target: b },
            FORK => Kind::Fork { parent: a, child: b },
            // Older recordings have no second number.
            EXEC => Kind::Exec { tid: a, old: if b == 0 { a } else { b } },
            EXIT => Kind::Exit { tid: a },
            READ => Kind::Read { object: a, bytes: b, channel: carrier()? },
            WRITE => Kind::Write { object: a, bytes: b, channel: carrier()? },
            CONNECT => Kind::Connect { sends: a, receives: b, port: raw.byte() },
            ACCEPT => Kind::Accept { sends: a, receives: b, port: raw.byte() },
            TASK => {
                self.task = Some((raw.t_ns(), described(a, b, raw.byte())));
                return Ok(None);
            }
            CPUS => {
                if let Some((_, info)) = &mut self.task {
                    info.cpus = u64::from(a) | u64::from(b) << 32;
                    info.wakee_flips = raw.byte();
                }
                return Ok(None);
            }
            CLASS => {
                if let Some((_, info)) = &mut self.task {
                    info.class = Class::of_policy(raw.byte(), a).ok_or(())?;
                }
                return Ok(None);
            }
            NAME => {
                let Some((t_ns, mut info)) = self.task.take() else { return Ok(None) };
                info.name = name(raw);
                return Ok(Some((t_ns, Kind::Task(info))));
            }
            RAN => {
                self.ran = Some((a, b));
                return Ok(None);
            }
            WAITED => {
                let Some((tid, ran_ns)) = self.ran.take() else { return Ok(None) };
                Kind::Sample(Sample { tid, ran_ns, waited_ns: a, slices: b })
            }
            _ => return Err(()),
        };
        Ok(Some((raw.t_ns(), kind)))
    }
}

fn described(tid: Tid, pid: Tid, byte: u8) -> TaskInfo {
    let nice = (byte & !KERNEL) as i8 - NICE_0;
    TaskInfo { nice, kernel: byte & KERNEL != 0, ..TaskInfo::new(tid, pid) }
}

fn name(raw: Raw) -> String {
    let bytes = raw.to_bytes();
    let letters: Vec<u8> = (0..6).chain([7]).chain(8..16).map(|at| bytes[at]).collect();
    let end = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
    String::from_utf8_lossy(&letters[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(event: &Event) -> (u64, Kind) {
        let raw = Raw::of(event).unwrap();
        let bytes = raw.to_bytes();
        Decoder::default().decode(Raw::from_bytes(&bytes)).unwrap().unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let kinds = [
            Kind::Switch { prev: 7, next: 0, left: Left::Dead },
            Kind::Switch { prev: 7, next: 8, left: Left::AtLock },
            Kind::Wake { tid: u32::MAX, by: Carrier::Futex, object: 63 },
            Kind::Timed { tid: 8, call: 0xffff_0000 },
            Kind::Start { tid: 8, target: 1 },
            Kind::Fork { parent: 7, child: 8 },
            Kind::Exec { tid: 8, old: 9 },
            Kind::Exit { tid: 8 },
            Kind::Read { object: 0xdead_beef, bytes: 100, channel: Carrier::Pipe },
            Kind::Write { object: 1, bytes: u32::MAX, channel: Carrier::Tcp },
            Kind::Connect { sends: 3, receives: 4, port: 80 },
            Kind::Accept { sends: 3, receives: 4, port: 255 },
        ];
        for kind in kinds {
            let event = Event { t_ns: 281_474_976_710_655, cpu: 0, kind };
            assert_eq!(round(&event), (event.t_ns, event.kind));
        }
    }

    #[test]
    fn a_thread_is_four_records() {
        let classes =
            [Class::Fifo(99), Class::RoundRobin(1), Class::Deadline, Class::Idle, Class::Batch];
        for (name, class) in ["sh", "", "fifteen-letters", "a", "b"].into_iter().zip(classes) {
            let info = TaskInfo {
                tid: 5,
                pid: 4,
                nice: -20,
                class,
                kernel: true,
                cpus: 3 << 40,
                wakee_flips: 9,
                name: name.into(),
            };
            let mut decoder = Decoder::default();
            let [thread, cpus, class, name] = task_group(9, &info);
            for raw in [thread, cpus, class] {
                assert_eq!(decoder.decode(raw), Ok(None));
            }
            assert_eq!(decoder.decode(name), Ok(Some((9, Kind::Task(info)))));
        }
    }

    #[test]
    fn a_sample_is_two_records() {
        let sample = Sample { tid: 7, ran_ns: u32::MAX, waited_ns: 3, slices: 9 };
        let mut decoder = Decoder::default();
        let [ran, waited] = sample_group(11, &sample);
        assert_eq!(decoder.decode(waited), Ok(None), "the first one is missing");
        assert_eq!(decoder.decode(ran), Ok(None));
        assert_eq!(decoder.decode(waited), Ok(Some((11, Kind::Sample(sample)))));
    }

    #[test]
    fn what_is_no_record_is_told() {
        let mut decoder = Decoder::default();
        assert!(decoder.decode(Raw::default()).is_err());
        assert!(decoder.decode(Raw::new(0, 200, 0, 0, 0)).is_err());
        assert!(decoder.decode(Raw::new(0, WAKE, 200, 0, 0)).is_err());
        for (policy, priority) in [(1, 0), (1, 100), (4, 0), (200, 0)] {
            decoder.decode(Raw::new(0, TASK, 20, 1, 1)).unwrap();
            assert!(decoder.decode(Raw::new(0, CLASS, policy, priority, 0)).is_err());
        }
    }
}
