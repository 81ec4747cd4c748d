// SPDX-License-Identifier: GPL-2.0-only
//! Reads a recording from its beginning to its end, in memory that does not grow with it.
//!
//! CPUs wrote their records independently. The reader sorts them by time within the span in which records were handed
//! over. A record that is later than that, as after a clock jumped back, counts as an event of its arrival.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{ErrorKind, Read};

use crate::file::{ENDING, Ending, Header, MAGIC, RECORDS, TEXT_MAX, TIME, VERSION};
use crate::raw::{Decoder, RAW_SIZE, Raw};
use crate::{Event, Kind};

/// Most CPUs of a recording.
const CPUS_MAX: u32 = 4096;
/// Most records that wait for earlier ones; a well-behaved file has far fewer.
const WAITING_MAX: usize = 8 << 20;

/// A recording ends before this: 78 hours.
const END_MAX_NS: u64 = 1 << 48;

/// Records of a section that are read before due ones are returned.
const PART: u32 = 1 << 16;

/// Why a file cannot be read as a recording.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReadError {
    #[error("it is empty; record again")]
    Empty,
    #[error("it is no recording of paceline's; `paceline import` reads text of perf and trace-cmd")]
    Foreign,
    #[error(
        "it is a recording of layout {0}, and this is written for {VERSION}; take a newer paceline"
    )]
    Newer(u32),
    #[error("it ends within its first lines; record again")]
    Short,
    #[error("its header is damaged ({0}); record again")]
    Header(String),
    #[error("it is damaged at byte {at} ({what}); record again")]
    Damaged { at: u64, what: &'static str },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Findings of reading to the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Records in the file.
    pub records: u64,
    /// Records that arrived later than their time allows.
    pub disordered: u64,
    /// The recorder's ending; None: the file was cut off.
    pub ending: Option<Ending>,
    /// Time of the last event.
    pub last_ns: u64,
}

struct Waiting {
    t_ns: u64,
    number: u64,
    cpu: u32,
    kind: Kind,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.t_ns, self.number).cmp(&(other.t_ns, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// Reads a recording.
pub struct Reader<R> {
    from: R,
    at: u64,
    header: Header,
    decoders: BTreeMap<u32, Decoder>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    /// The time up to which all events are known, and the same after the next hand-over.
    sure_ns: u64,
    soon_ns: u64,
    ended: bool,
    /// A CPU, and its records that the section still has.
    left: (u32, u32),
    summary: Summary,
}

/// No recorder takes longer to write an event down.
const HOOK_MAX_NS: f64 = 1e6;

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is no recording, or cannot be read.
    pub fn new(mut from: R) -> Result<Self, ReadError> {
        let mut first = [0; RAW_SIZE];
        match fill(&mut from, &mut first)? {
            0 => return Err(ReadError::Empty),
            length if !MAGIC.starts_with(&first[..length.min(MAGIC.len())]) => {
                return Err(ReadError::Foreign);
            }
            RAW_SIZE => {}
            _ => return Err(ReadError::Short),
        }
        let half = |at: usize| u32::from_le_bytes(first[at..at + 4].try_into().expect("4 bytes"));
        let (version, length) = (half(8), half(12) as usize);
        if version > VERSION {
            return Err(ReadError::Newer(version));
        }
        let text = text(&mut from, length)?.ok_or(ReadError::Short)?;
        let header: Header =
            serde_json::from_slice(&text).map_err(|error| ReadError::Header(error.to_string()))?;
        if header.cpus == 0 || header.cpus > CPUS_MAX as usize {
            return Err(ReadError::Header(format!("{} CPUs", header.cpus)));
        }
        for hook_ns in [header.hook_ns, header.call_hook_ns] {
            if !(0.0..=HOOK_MAX_NS).contains(&hook_ns) {
                return Err(ReadError::Header(format!("{hook_ns:e} ns to write an event down")));
            }
        }
        Ok(Reader {
            from,
            at: (RAW_SIZE + length) as u64,
            header,
            decoders: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            number: 0,
            sure_ns: 0,
            soon_ns: 0,
            ended: false,
            left: (0, 0),
            summary: Summary::default(),
        })
    }

    /// Facts known before the first event.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Findings of reading so far; complete after the last event.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The next event; None at the end.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            let due = self.waiting.peek().is_some_and(|Reverse(first)| first.t_ns < self.sure_ns);
            if due || self.ended || self.waiting.len() > WAITING_MAX {
                let Some(Reverse(Waiting { t_ns, cpu, kind, .. })) = self.waiting.pop() else {
                    return Ok(None);
                };
                self.summary.disordered += u64::from(t_ns < self.summary.last_ns);
                self.summary.last_ns = self.summary.last_ns.max(t_ns);
                return Ok(Some(Event { t_ns: self.summary.last_ns, cpu, kind }));
            }
            match self.left {
                (_, 0) => self.section()?,
                (cpu, _) => self.some_records(cpu)?,
            }
        }
    }

    /// Reads a part of a section: a damaged one may claim any length.
    fn some_records(&mut self, cpu: u32) -> Result<(), ReadError> {
        let some = self.left.1.min(PART);
        self.left.1 -= some;
        for _ in 0..some {
            let mut bytes = [0; RAW_SIZE];
            let at = self.at;
            if !self.whole(&mut bytes)? {
                self.ended = true;
                self.left = (0, 0);
                return Ok(());
            }
            self.record(cpu, Raw::from_bytes(&bytes), at)?;
        }
        Ok(())
    }

    /// Begins a section. A file that ends in the middle of one was cut off, which is no error.
    fn section(&mut self) -> Result<(), ReadError> {
        let mut head = [0; RAW_SIZE];
        let at = self.at;
        if !self.whole(&mut head)? {
            self.ended = true;
            return Ok(());
        }
        let word = |place: usize| {
            u32::from_le_bytes(head[place * 4..place * 4 + 4].try_into().expect("4 bytes"))
        };
        let (cpu, low, high) = (word(1), word(2), word(3));
        match word(0) {
            TIME => {
                self.sure_ns = self.soon_ns;
                self.soon_ns = u64::from(low) | u64::from(high) << 32;
            }
            RECORDS if cpu as usize >= self.header.cpus => {
                return Err(ReadError::Damaged { at, what: "a CPU that the machine has not" });
            }
            RECORDS => self.left = (cpu, low),
            ENDING => {
                self.ended = true;
                let text = text(&mut self.from, low as usize)?;
                self.summary.ending = text.and_then(|text| serde_json::from_slice(&text).ok());
                if self.summary.ending.as_ref().is_some_and(|ending| !is_sound(ending)) {
                    return Err(ReadError::Damaged { at, what: "an end at no time" });
                }
            }
            _ => return Err(ReadError::Damaged { at, what: "no section begins there" }),
        }
        Ok(())
    }

    fn record(&mut self, cpu: u32, raw: Raw, at: u64) -> Result<(), ReadError> {
        self.summary.records += 1;
        let decoder = self.decoders.entry(cpu).or_default();
        let what = "no record of any kind";
        let decoded = decoder.decode(raw).map_err(|()| ReadError::Damaged { at, what })?;
        if let Some((t_ns, kind)) = decoded {
            self.number += 1;
            let number = self.number;
            self.waiting.push(Reverse(Waiting { t_ns, number, cpu, kind }));
        }
        Ok(())
    }

    /// Fills the buffer; false if the file ends before.
    fn whole(&mut self, bytes: &mut [u8]) -> Result<bool, ReadError> {
        let there = fill(&mut self.from, bytes)?;
        self.at += there as u64;
        Ok(there == bytes.len())
    }
}

/// Whether the command started, then ended, then the recording ended. No recording lasts longer than three days.
fn is_sound(ending: &Ending) -> bool {
    let (from_ns, to_ns) = ending.command_ns.unwrap_or_default();
    from_ns <= to_ns && to_ns <= ending.end_ns && ending.end_ns < END_MAX_NS
}

/// Reads until the buffer is full or the file ends.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<usize, ReadError> {
    let mut there = 0;
    while there < bytes.len() {
        match from.read(&mut bytes[there..]) {
            Ok(0) => break,
            Ok(more) => there += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(there)
}

/// Text of this length; None if the file ends before.
fn text(from: &mut impl Read, length: usize) -> Result<Option<Vec<u8>>, ReadError> {
    if length > TEXT_MAX {
        return Err(ReadError::Header(format!("{length} bytes of text")));
    }
    let mut text = vec![0; length];
    let there = fill(from, &mut text)?;
    Ok((there == length).then_some(text))
}
