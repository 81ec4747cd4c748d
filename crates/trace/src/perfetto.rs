// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling events as a file that ui.perfetto.dev opens: four messages of its protobuf are enough.
//!
//! Source: Perfetto's protos/perfetto/trace (trace_packet, ps/process_tree, ftrace/ftrace_event_bundle, ftrace/sched).
//! Their field numbers never change.

use std::collections::BTreeMap;
use std::io::{self, Write};

use quick_protobuf::Writer;

use crate::Tid;

/// Bytes of one CPU's events that are put into one packet.
const BUNDLE: usize = 1 << 16;
/// Priority of a task of nice 0. Nothing here depends on it.
const PRIO: u64 = 120;

/// Numbers of fields.
mod fields {
    pub const PACKET: u64 = 1;
    pub const FTRACE_EVENTS: u64 = 1;
    pub const PROCESS_TREE: u64 = 2;
    pub const PROCESSES: u64 = 1;
    pub const THREADS: u64 = 2;
    pub const CPU: u64 = 1;
    pub const EVENT: u64 = 2;
    pub const TIMESTAMP: u64 = 1;
    pub const PID: u64 = 2;
    pub const SCHED_SWITCH: u64 = 4;
    pub const SCHED_WAKING: u64 = 20;
}

/// Why a task left its CPU: `prev_state` of the kernel's tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It could go on.
    Runnable = 0,
    /// It waits.
    Asleep = 1,
    /// It has ended.
    Dead = 16,
}

/// Writes such a file, event by event. Events of one CPU come in the order of time.
pub struct Perfetto<W: Write> {
    out: W,
    names: BTreeMap<Tid, String>,
    current: Vec<Tid>,
    events: Vec<Vec<u8>>,
}

impl<W: Write> Perfetto<W> {
    /// For a machine of `cpus` CPUs.
    pub fn new(out: W, cpus: usize) -> Self {
        let (current, events) = (vec![0; cpus], vec![Vec::new(); cpus]);
        Perfetto { out, names: BTreeMap::new(), current, events }
    }

    /// A thread, its name from now on, and its process.
    ///
    /// # Errors
    /// As writing fails.
    pub fn thread(&mut self, tid: Tid, process: Tid, name: &str) -> io::Result<()> {
        self.names.insert(tid, name.to_string());
        let mut one = Vec::new();
        number(&mut one, 1, tid.into());
        text(&mut one, 2, name);
        number(&mut one, 3, process.into());
        let mut tree = Vec::new();
        if tid == process {
            let mut whole = Vec::new();
            number(&mut whole, 1, tid.into());
            text(&mut whole, 3, name);
            bytes(&mut tree, fields::PROCESSES, &whole);
        }
        bytes(&mut tree, fields::THREADS, &one);
        self.packet(fields::PROCESS_TREE, &tree)
    }

    /// A CPU switches to `next`; 0 is its idle task.
    ///
    /// # Errors
    /// As writing fails.
    pub fn switch(
        &mut self,
        t_ns: u64,
        cpu: u32,
        prev: Tid,
        state: State,
        next: Tid,
    ) -> io::Result<()> {
        let mut body = Vec::new();
        text(&mut body, 1, self.name(prev));
        number(&mut body, 2, prev.into());
        number(&mut body, 3, PRIO);
        number(&mut body, 4, state as u64);
        text(&mut body, 5, self.name(next));
        number(&mut body, 6, next.into());
        number(&mut body, 7, PRIO);
        self.event(t_ns, cpu, prev, fields::SCHED_SWITCH, &body)?;
        self.current[cpu as usize] = next;
        Ok(())
    }

    /// The task that runs on this CPU wakes `tid`, which goes to `target`.
    ///
    /// # Errors
    /// As writing fails.
    pub fn waking(&mut self, t_ns: u64, cpu: u32, tid: Tid, target: u32) -> io::Result<()> {
        let mut body = Vec::new();
        text(&mut body, 1, self.name(tid));
        number(&mut body, 2, tid.into());
        number(&mut body, 3, PRIO);
        number(&mut body, 4, 1);
        number(&mut body, 5, target.into());
        self.event(t_ns, cpu, self.current[cpu as usize], fields::SCHED_WAKING, &body)
    }

    /// Writes the rest and returns the writer.
    ///
    /// # Errors
    /// As writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        (0..self.events.len()).try_for_each(|cpu| self.bundle(cpu))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn name(&self, tid: Tid) -> &str {
        match tid {
            0 => "swapper",
            tid => self.names.get(&tid).map_or("", String::as_str),
        }
    }

    fn event(&mut self, t_ns: u64, cpu: u32, by: Tid, kind: u64, body: &[u8]) -> io::Result<()> {
        let mut event = Vec::with_capacity(body.len() + 24);
        number(&mut event, fields::TIMESTAMP, t_ns);
        number(&mut event, fields::PID, by.into());
        bytes(&mut event, kind, body);
        let cpu = cpu as usize;
        bytes(&mut self.events[cpu], fields::EVENT, &event);
        if self.events[cpu].len() < BUNDLE { Ok(()) } else { self.bundle(cpu) }
    }

    fn bundle(&mut self, cpu: usize) -> io::Result<()> {
        let mut bundle = Vec::new();
        number(&mut bundle, fields::CPU, cpu as u64);
        bundle.append(&mut self.events[cpu]);
        self.packet(fields::FTRACE_EVENTS, &bundle)
    }

    fn packet(&mut self, kind: u64, body: &[u8]) -> io::Result<()> {
        let mut inner = Vec::with_capacity(body.len() + 8);
        bytes(&mut inner, kind, body);
        let mut packet = Vec::with_capacity(inner.len() + 8);
        bytes(&mut packet, fields::PACKET, &inner);
        self.out.write_all(&packet)
    }
}

/// One field of a message. Writing to memory does not fail.
fn field(
    out: &mut Vec<u8>,
    field: u64,
    kind: u64,
    write: impl FnMut(&mut Writer<&mut Vec<u8>>) -> quick_protobuf::Result<()>,
) {
    Writer::new(out).write_with_tag((field << 3 | kind) as u32, write).expect("memory takes all");
}

fn number(out: &mut Vec<u8>, number: u64, value: u64) {
    field(out, number, 0, |out| out.write_uint64(value));
}

fn bytes(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    field(out, number, 2, |out| out.write_bytes(value));
}

fn text(out: &mut Vec<u8>, number: u64, value: &str) {
    bytes(out, number, value.as_bytes());
}

#[cfg(test)]
mod tests {
    use quick_protobuf::BytesReader;

    use super::*;

    /// Fields of a message: their numbers, with a number, or bytes.
    fn fields(from: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let mut all = Vec::new();
        let mut reader = BytesReader::from_bytes(from);
        while !reader.is_eof() {
            let key = u64::from(reader.next_tag(from).unwrap());
            all.push(match key & 7 {
                2 => (key >> 3, 0, reader.read_bytes(from).unwrap().to_vec()),
                _ => (key >> 3, reader.read_uint64(from).unwrap(), Vec::new()),
            });
        }
        all
    }

    #[test]
    fn what_is_written_is_perfettos() {
        let mut file = Perfetto::new(Vec::new(), 2);
        file.thread(300, 300, "make").unwrap();
        file.thread(301, 300, "worker").unwrap();
        file.switch(1_000_000, 1, 0, State::Runnable, 301).unwrap();
        file.waking(1_000_500, 1, 300, 0).unwrap();
        file.switch(1_001_000, 1, 301, State::Asleep, 0).unwrap();
        let file = file.finish().unwrap();
        let packets: Vec<_> =
            fields(&file).iter().map(|(_, _, it)| fields(it)[0].clone()).collect();
        let kinds: Vec<u64> = packets.iter().map(|packet| packet.0).collect();
        assert_eq!(kinds, [2, 2, 1, 1], "two threads, a packet for each CPU");
        let (process, thread) = (&fields(&packets[0].2)[0], &fields(&packets[1].2)[0]);
        assert_eq!((process.0, fields(&process.2)[0].1), (1, 300));
        assert_eq!((thread.0, fields(&thread.2)[0].1, fields(&thread.2)[2].1), (2, 301, 300));
        let bundle = fields(&packets[3].2);
        assert_eq!((bundle[0].0, bundle[0].1, bundle.len()), (1, 1, 4));
        let events: Vec<_> = bundle[1..].iter().map(|(_, _, event)| fields(event)).collect();
        let brief = |event: &Vec<(u64, u64, Vec<u8>)>| (event[0].1, event[1].1, event[2].0);
        let seen: Vec<_> = events.iter().map(brief).collect();
        assert_eq!(seen, [(1_000_000, 0, 4), (1_000_500, 301, 20), (1_001_000, 301, 4)]);
        let last = fields(&events[2][2].2);
        assert_eq!((last[0].2.as_slice(), last[3].1, last[5].1), (&b"worker"[..], 1, 0));
    }
}
