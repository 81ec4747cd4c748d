// SPDX-License-Identifier: GPL-2.0-only
//! A trace of Perfetto's, as its recorders write it and ui.perfetto.dev saves it.
//!
//! Source: Perfetto's protos/perfetto/trace (trace_packet, ps/process_tree, ftrace/ftrace_event_bundle,
//! ftrace/ftrace_event, ftrace/sched). Their field numbers never change. Events are grouped by CPU, seconds at a time:
//! the trace is read completely and sorted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use quick_protobuf::BytesReader;
use trace::{IDLE, Tid};

use super::error::ImportError;
use super::fields::{Named, What, left_in};
use super::line::Event;
use super::survey::{Survey, Surveying, Thread};
use super::write::{Found, Second};
use crate::{Carrier, Left};

/// A trace's first packet may be longer than any text's first line.
const TEXT_LINE_MAX: u64 = 1 << 16;

/// A group of packets that claims to be larger than this is invalid.
const UNPACKED_MAX: usize = 64 << 20;
/// Most bytes of all groups of a trace, beside one group, for each of its bytes: recorders pack them to a tenth at
/// best.
const UNPACKED_PER_BYTE: usize = 32;

/// `common_flags` of events (include/linux/trace_events.h).
const HARDIRQ: u64 = 0x08;
const SOFTIRQ: u64 = 0x10;

/// Contents of such a trace, in the order of time.
#[derive(Debug, Default)]
pub struct Timeline {
    events: Vec<Stored>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    threads: BTreeMap<Tid, Thread>,
    lost: u64,
    /// The time from which each CPU's events are known, if the trace says so.
    begins: BTreeMap<u32, u64>,
    /// The machine to read packets of; None: any.
    machine: Option<u32>,
    /// Machines that have scheduling events.
    machines: BTreeSet<u32>,
    /// Bytes that groups of packets may still unpack to.
    room: usize,
    /// The thread on each CPU: compact events name only the next thread.
    current: BTreeMap<u32, Who>,
}

/// A thread as an event names it: the place of its name.
#[derive(Clone, Copy, Debug, Default)]
struct Who {
    name: u32,
    tid: Tid,
    prio: Option<i32>,
}

#[derive(Debug)]
struct Stored {
    t_ns: u64,
    cpu: u32,
    flags: Option<Carrier>,
    said: Said,
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Switch { prev: Option<Who>, next: Who, left: Left },
    Waking(Who),
    Wakeup(Who),
    New(Who, u32),
    Fork { parent: Tid, child: Tid },
    Exec { tid: Tid, old: Tid },
    Exit { tid: Tid },
    Interrupt { of: Carrier, entered: bool },
}

/// A value of a message's field.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// Calls `take` with each field of a message. False: the rest is no message.
fn each<'a>(message: &'a [u8], mut take: impl FnMut(u32, Value<'a>)) -> bool {
    let mut reader = BytesReader::from_bytes(message);
    while !reader.is_eof() {
        let Ok(tag) = reader.next_tag(message) else { return false };
        let value = match tag & 7 {
            0 => reader.read_uint64(message).map(Value::Number),
            1 => reader.read_fixed64(message).map(Value::Number),
            2 => reader.read_bytes(message).map(Value::Bytes),
            5 => reader.read_fixed32(message).map(|number| Value::Number(number.into())),
            _ => return false,
        };
        match value {
            Ok(value) => take(tag >> 3, value),
            Err(_) => return false,
        }
    }
    true
}

/// A message's first fields, by their numbers: as numbers, and as bytes.
fn numbers<const N: usize>(message: &[u8]) -> ([u64; N], [&[u8]; N]) {
    let (mut numbers, mut texts) = ([0; N], [&[][..]; N]);
    each(message, |field, value| {
        if let Some(number) = numbers.get_mut(field as usize) {
            *number = value.number();
            texts[field as usize] = value.bytes();
        }
    });
    (numbers, texts)
}

/// Numbers of a packed field, one after the other.
fn packed(bytes: &[u8]) -> Vec<u64> {
    let mut reader = BytesReader::from_bytes(bytes);
    let mut all = Vec::new();
    while !reader.is_eof() {
        let Ok(number) = reader.read_uint64(bytes) else { break };
        all.push(number);
    }
    all
}

/// Whether a file with these first bytes may be a trace: it has packets, and bytes that no text has.
pub fn may_be(first: &[u8]) -> bool {
    let in_text = |byte: &u8| *byte >= b' ' || byte.is_ascii_whitespace();
    has_packets(first) && !first.iter().all(in_text)
}

/// Whether consecutive packets begin here. A line's end is a packet's tag as well.
fn has_packets(first: &[u8]) -> bool {
    const PACKET: u8 = 1 << 3 | 2;
    const LOOKED_AT: usize = 4;
    let mut rest = first;
    for number in 0..LOOKED_AT {
        let Some(inner) = rest.strip_prefix(&[PACKET]) else {
            return number > 0 && rest.is_empty();
        };
        let mut reader = BytesReader::from_bytes(inner);
        let length = reader.read_uint64(inner).unwrap_or(u64::MAX);
        let begin = inner.len() - reader.len();
        match usize::try_from(length).ok().and_then(|length| inner[begin..].get(length..)) {
            Some(behind) => rest = behind,
            // A packet that is cut off here counts if one was before it, or if no line is as long.
            None => return number > 0 || length > TEXT_LINE_MAX,
        }
    }
    true
}

impl Timeline {
    /// Reads a trace, even an incomplete one. `machine` is the machine to read packets of, if there are several
    /// (`machine_id` of a packet; 0, the machine that recorded the trace, has none).
    ///
    /// # Errors
    /// No packet of it has a scheduling event, or several machines have and none is named.
    pub fn read(bytes: &[u8], machine: Option<u32>) -> Result<Self, ImportError> {
        let room = UNPACKED_MAX.saturating_add(bytes.len().saturating_mul(UNPACKED_PER_BYTE));
        let mut timeline = Timeline { room, machine, ..Timeline::default() };
        timeline.name(b"<idle>");
        // A trace that was cut off in a packet is incomplete.
        timeline.lost += u64::from(!timeline.packets(bytes, true));
        timeline.events.sort_by_key(|event| event.t_ns);
        let machines: Vec<String> = timeline.machines.iter().map(u32::to_string).collect();
        match machine {
            None if machines.len() > 1 => return Err(ImportError::Machines(machines.join(", "))),
            Some(id) if !timeline.machines.contains(&id) && !machines.is_empty() => {
                return Err(ImportError::NoMachine(id, machines.join(", ")));
            }
            _ => {}
        }
        match timeline.events.is_empty() {
            true => Err(ImportError::Foreign),
            false => Ok(timeline),
        }
    }

    /// `outer`: they are the trace's own. A group of packets contains no group: the depth would be unlimited.
    fn packets(&mut self, bytes: &[u8], outer: bool) -> bool {
        each(bytes, |field, value| {
            if field == 1 {
                self.packet(value.bytes(), outer);
            }
        })
    }

    fn packet(&mut self, packet: &[u8], outer: bool) {
        // The machine's number may follow its data.
        let mut machine = 0;
        each(packet, |field, value| {
            if field == 98 {
                machine = value.number() as u32;
            }
        });
        let wanted = self.machine.is_none_or(|wanted| wanted == machine);
        each(packet, |field, value| match field {
            1 => {
                self.machines.insert(machine);
                if wanted {
                    self.bundle(value.bytes());
                }
            }
            2 if wanted => self.tree(value.bytes()),
            50 if outer => {
                let limit = UNPACKED_MAX.min(self.room);
                match decompress_to_vec_zlib_with_limit(value.bytes(), limit) {
                    Ok(packets) => {
                        self.room -= packets.len();
                        self.packets(&packets, false);
                    }
                    Err(_) => self.lost += 1,
                }
            }
            // zstd_compressed_packets: no recorder of Linux writes them.
            50 | 133 => self.lost += 1,
            _ => {}
        });
    }

    fn tree(&mut self, tree: &[u8]) {
        each(tree, |field, value| match field {
            1 => {
                let ([_, pid, .., is_kernel], _) = numbers::<9>(value.bytes());
                let tid = pid as Tid;
                self.threads.insert(tid, Thread { pid: tid, kernel: is_kernel != 0 });
            }
            2 => {
                let ([_, tid, _, pid], _) = numbers::<4>(value.bytes());
                let kernel = self.threads.get(&(pid as Tid)).is_some_and(|thread| thread.kernel);
                self.threads.insert(tid as Tid, Thread { pid: pid as Tid, kernel });
            }
            _ => {}
        });
    }

    fn bundle(&mut self, bundle: &[u8]) {
        let ([_, cpu, _, lost, .., last_read_ns, previous_end_ns], _) = numbers::<11>(bundle);
        let cpu = cpu as u32;
        // The end of the bundle before, which may have been overwritten; older recorders have the last event that was
        // read.
        if let Some(from_ns) = [previous_end_ns, last_read_ns].into_iter().find(|t_ns| *t_ns > 0) {
            self.begins.entry(cpu).or_insert(from_ns);
        }
        // Their number is not known.
        self.lost = self.lost.saturating_add(lost);
        if lost > 0 {
            self.current.remove(&cpu);
        }
        each(bundle, |field, value| match field {
            2 => self.event(cpu, value.bytes()),
            4 => self.compact(cpu, value.bytes()),
            _ => {}
        });
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        let name = String::from_utf8_lossy(name).into_owned();
        let next = self.names.len() as u32;
        match self.numbers.get(&name) {
            Some(number) => *number,
            None => {
                self.names.push(name.clone());
                self.numbers.insert(name, next);
                next
            }
        }
    }

    fn who(&mut self, name: &[u8], tid: u64, prio: u64) -> Who {
        Who { name: self.name(name), tid: tid as Tid, prio: Some(prio as i32) }
    }

    fn put(&mut self, t_ns: u64, cpu: u32, flags: Option<Carrier>, said: Said) {
        self.events.push(Stored { t_ns, cpu, flags, said });
    }

    fn event(&mut self, cpu: u32, event: &[u8]) {
        let mut t_ns = 0;
        let mut said = None;
        each(event, |field, value| match field {
            1 => t_ns = value.number(),
            4 => {
                let ([_, _, prev, prev_prio, state, _, next, next_prio], texts) =
                    numbers::<8>(value.bytes());
                let prev = self.who(texts[1], prev, prev_prio);
                let next = self.who(texts[5], next, next_prio);
                self.current.insert(cpu, next);
                said = Some(Said::Switch { prev: Some(prev), next, left: left_in(state) });
            }
            17 | 20 | 114 => {
                let ([_, _, tid, prio, _, target], texts) = numbers::<6>(value.bytes());
                let who = self.who(texts[1], tid, prio);
                said = Some(match field {
                    17 => Said::Wakeup(who),
                    20 => Said::Waking(who),
                    _ => Said::New(who, target as u32),
                });
            }
            237 => {
                let ([_, _, tid, old], _) = numbers::<4>(value.bytes());
                said = Some(Said::Exec { tid: tid as Tid, old: old as Tid });
            }
            238 => {
                let ([_, _, tid], _) = numbers::<3>(value.bytes());
                said = Some(Said::Exit { tid: tid as Tid });
            }
            239 => {
                let ([_, _, parent, _, child], _) = numbers::<5>(value.bytes());
                said = Some(Said::Fork { parent: parent as Tid, child: child as Tid });
            }
            24 | 25 => said = Some(Said::Interrupt { of: Carrier::Softirq, entered: field == 24 }),
            36 | 37 => {
                said = Some(Said::Interrupt { of: Carrier::Interrupt, entered: field == 36 });
            }
            553 | 554 => said = Some(Said::Interrupt { of: Carrier::Timer, entered: field == 553 }),
            _ => {}
        });
        if let Some(said) = said {
            self.put(t_ns, cpu, None, said);
        }
    }

    /// Switches and wakeups, a column for each of their fields.
    fn compact(&mut self, cpu: u32, compact: &[u8]) {
        let mut names = Vec::new();
        let mut columns: [Vec<u64>; 13] = Default::default();
        each(compact, |field, value| match field {
            5 => names.push(self.name(value.bytes())),
            1..13 => columns[field as usize].extend(packed(value.bytes())),
            _ => {}
        });
        let [
            _,
            switch_ns,
            states,
            tids,
            prios,
            _,
            comms,
            waking_ns,
            woken,
            _,
            woken_prios,
            woken_comms,
            flags,
        ] = columns;
        let who = |tids: &[u64], prios: &[u64], comms: &[u64], at: usize| {
            let name = *names.get(*comms.get(at)? as usize)?;
            Some(Who { name, tid: *tids.get(at)? as Tid, prio: prios.get(at).map(|it| *it as i32) })
        };
        let mut t_ns = 0u64;
        for (at, after_ns) in switch_ns.iter().enumerate() {
            t_ns = t_ns.wrapping_add(*after_ns);
            let Some(next) = who(&tids, &prios, &comms, at) else { break };
            // The thread that left at the first one is not known.
            let prev = self.current.insert(cpu, next);
            let left = left_in(states.get(at).copied().unwrap_or(0));
            self.put(t_ns, cpu, None, Said::Switch { prev, next, left });
        }
        let mut t_ns = 0u64;
        for (at, after_ns) in waking_ns.iter().enumerate() {
            t_ns = t_ns.wrapping_add(*after_ns);
            let Some(task) = who(&woken, &woken_prios, &woken_comms, at) else { break };
            let context = flags.get(at).map(|flags| match flags {
                _ if flags & HARDIRQ != 0 => Carrier::Interrupt,
                _ if flags & SOFTIRQ != 0 => Carrier::Softirq,
                _ => Carrier::Task,
            });
            self.put(t_ns, cpu, context, Said::Waking(task));
        }
    }

    fn named(&self, who: Who) -> Named<'_> {
        let name = self.names.get(who.name as usize).map_or("", String::as_str);
        Named { name, tid: who.tid, prio: who.prio.filter(|_| who.tid != IDLE) }
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.events.iter().map(|event| {
            let what = match event.said {
                Said::Switch { prev, next, left } => {
                    let prev = prev.map(|prev| self.named(prev));
                    What::Switch { prev, next: self.named(next), left }
                }
                Said::Waking(who) => What::Waking(self.named(who)),
                Said::Wakeup(who) => What::Wakeup(self.named(who)),
                Said::New(who, target) => What::WakeupNew(self.named(who), target),
                Said::Fork { parent, child } => What::Fork { parent, child },
                Said::Exec { tid, old } => What::Exec { tid, old },
                Said::Exit { tid } => What::Exit { tid },
                Said::Interrupt { of, entered } => What::Interrupt { of, entered },
            };
            let (process, source) = (None, None);
            Event { t_ns: event.t_ns, cpu: event.cpu, flags: event.flags, process, source, what }
        })
    }

    /// Reads it once, as [`super::survey()`] does.
    ///
    /// # Errors
    /// It lacks switches or wakeups.
    pub fn survey(&self) -> Result<Survey, ImportError> {
        let mut first = Surveying::new(self.threads.clone());
        first.lost(self.lost);
        for (number, event) in (1..).zip(self.events()) {
            first.take(number, &event)?;
            if number == 1 {
                self.begins.iter().for_each(|(cpu, from_ns)| first.begins(*cpu, Some(*from_ns)));
            }
        }
        first.end()
    }

    /// Writes it as a recording, as [`super::import`] does.
    ///
    /// # Errors
    /// As writing fails.
    pub fn import<W: Write>(
        &self,
        found: &Survey,
        command: &str,
        out: W,
    ) -> Result<Found<W>, ImportError> {
        let mut second = Second::begin(found, command, out)?;
        for event in self.events() {
            second.take(&event)?;
        }
        second.end()
    }
}
