// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a file, and how one is written.
//!
//! Sixteen bytes identify the format; a [`Header`] follows as JSON, then sections. A section holds records of one CPU
//! in the order in which they were written. Or it is the time up to which all records have been handed over, or the
//! [`Ending`]. Everything is aligned to 16 bytes. A file without an ending was cut off; it is sound up to its last
//! complete record.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::raw::{RAW_SIZE, Raw};

/// The first bytes of the file.
pub(crate) const MAGIC: &[u8; 8] = b"PACELINE";
/// Version of the layout. A reader refuses newer ones.
pub(crate) const VERSION: u32 = 6;
/// Tags of sections.
pub(crate) const RECORDS: u32 = u32::from_le_bytes(*b"RECS");
pub(crate) const TIME: u32 = u32::from_le_bytes(*b"TIME");
pub(crate) const ENDING: u32 = u32::from_le_bytes(*b"ENDS");
/// A header or an ending is shorter than this.
pub(crate) const TEXT_MAX: usize = 1 << 20;
/// Bytes of a command that are kept: arguments may be longer than a whole header.
const COMMAND_MAX: usize = 4 << 10;

/// The source of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The kernel's tracepoints: every event.
    #[default]
    Tracepoints,
    /// Samples of procfs: how long threads ran and waited, but not what they waited for.
    Procfs,
    /// Another tool's recording: switches and wakeups, without carriers.
    Import,
}

/// Which events are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Switches and wakeups, and what network connections carry.
    Waits,
    /// Every call that moves data through a pipe or socket as well.
    Calls,
}

/// Facts known before the first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Hardware threads of the machine.
    pub cpus: usize,
    /// The recorded command, in words; a long one is cut off.
    pub command: String,
    /// The kernel's release.
    pub kernel: String,
    /// The source of the recording.
    pub source: Source,
    /// It has every call that moved data through a pipe or socket.
    #[serde(default)]
    pub calls: bool,
    /// A CPU's time for writing an event down, ns; 0: not known.
    #[serde(default)]
    pub hook_ns: f64,
    /// The same for the end of a call, if calls are recorded, ns.
    #[serde(default)]
    pub call_hook_ns: f64,
    /// The recorder's own process, which is not part of the workload.
    #[serde(default)]
    pub recorder: Option<u32>,
    /// The workload is what that process started, with all descendants; if false, the whole machine.
    #[serde(default)]
    pub children: bool,
    /// The sched_ext scheduler in charge of all tasks at the beginning. None: the kernel's own class, or not known.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Time between samples of threads, ns, for [`Source::Procfs`].
    #[serde(default)]
    pub sample_ns: u64,
}

/// Facts known at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// When the recording ended, ns since it began.
    pub end_ns: u64,
    /// Events that were lost because there was no room.
    pub lost: u64,
    /// When the command was started and when it had ended, ns since the recording began.
    #[serde(default)]
    pub command_ns: Option<(u64, u64)>,
    /// CPU time of the command in no sample, of threads that ended before they were sampled. None: not known.
    #[serde(default)]
    pub unseen_ns: Option<u64>,
    /// CPU time of other tasks, the recorder included, that no event shows. None: not known.
    #[serde(default)]
    pub others_ns: Option<u64>,
}

/// Why writing ended: most often a full disk. Everything written before is sound.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WriteError(#[from] io::Error);

/// Writes a recording.
pub struct Writer<W: Write> {
    out: W,
    written: u64,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// As writing fails.
    pub fn new(mut out: W, header: &Header) -> Result<Self, WriteError> {
        let header = Header { command: shortened(&header.command), ..header.clone() };
        let text = padded(serde_json::to_vec(&header).expect("a header is plain data"));
        let mut first = Vec::from(*MAGIC);
        first.extend(VERSION.to_le_bytes());
        first.extend((text.len() as u32).to_le_bytes());
        first.extend(text);
        out.write_all(&first)?;
        Ok(Writer { out, written: first.len() as u64, records: 0 })
    }

    /// Records of one CPU, in the order in which it wrote them.
    ///
    /// # Errors
    /// As writing fails.
    pub fn records(&mut self, cpu: u32, records: &[Raw]) -> Result<(), WriteError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity((records.len() + 1) * RAW_SIZE);
        bytes.extend(section(RECORDS, cpu, records.len() as u32, 0));
        records.iter().for_each(|raw| bytes.extend(raw.to_bytes()));
        self.put(&bytes)?;
        self.records += records.len() as u64;
        Ok(())
    }

    /// Marks a time: everything recorded before it is in the file by the next call.
    ///
    /// # Errors
    /// As writing fails.
    pub fn time(&mut self, t_ns: u64) -> Result<(), WriteError> {
        self.put(&section(TIME, 0, t_ns as u32, (t_ns >> 32) as u32))
    }

    /// Ends the file. Returns the output, its length, and its number of records.
    ///
    /// # Errors
    /// As writing fails.
    pub fn finish(mut self, ending: &Ending) -> Result<(W, u64, u64), WriteError> {
        let text = padded(serde_json::to_vec(ending).expect("an ending is plain data"));
        let mut bytes = Vec::from(section(ENDING, 0, text.len() as u32, 0));
        bytes.extend(text);
        self.put(&bytes)?;
        self.out.flush()?;
        Ok((self.out, self.written, self.records))
    }

    /// Bytes and records that were written completely: these are kept if writing fails.
    pub fn so_far(&self) -> (u64, u64) {
        (self.written, self.records)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn section(tag: u32, cpu: u32, low: u32, high: u32) -> [u8; RAW_SIZE] {
    let mut bytes = [0; RAW_SIZE];
    for (place, word) in bytes.chunks_exact_mut(4).zip([tag, cpu, low, high]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn shortened(command: &str) -> String {
    if command.len() <= COMMAND_MAX {
        return command.to_string();
    }
    let cut = (0..=COMMAND_MAX).rev().find(|at| command.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &command[..cut])
}

/// Pads JSON with blanks, which it allows at the end.
fn padded(mut text: Vec<u8>) -> Vec<u8> {
    text.resize(text.len().next_multiple_of(RAW_SIZE), b' ');
    text
}
