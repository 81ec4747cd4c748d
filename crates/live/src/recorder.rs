// SPDX-License-Identifier: GPL-2.0-only
//! Records this machine's scheduler: a BPF program writes events into rings, and a thread moves them from there to the
//! output.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, ProgramMut};
use record::{Class, Ending, Header, RAW_SIZE, Raw, TaskInfo, WriteError, Writer, task_group};
use std::os::fd::{AsFd, AsRawFd};

use crate::execute::now_ns;
use crate::hooks::Timed;
use crate::load::room_for;
use crate::log;
use crate::mapped::Mapped;
use crate::process::outrank_thread;
use crate::program::{fields, name, numbered, text};
use crate::tracefs;
use crate::variables::{bss, set_config, variables};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"));

/// How often rings are emptied.
const PERIOD: Duration = Duration::from_millis(50);
/// Records of a CPU's ring, if the machine has few CPUs: 2.6 million a second fit.
const RING: usize = 1 << 17;
/// Bytes of all rings together.
const BYTES_MAX: usize = 256 << 20;

/// A running recording. Dropping it ends it without its last lines.
pub struct Recorder<W: Write + Send + 'static> {
    kernel: Kernel,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Writer<W>, Option<WriteError>)>,
    start_ns: u64,
}

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded<W> {
    /// The output; None if writing failed.
    pub out: Option<W>,
    /// Records written.
    pub records: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Events that are missing.
    pub lost: Lost,
    /// Why writing ended before the recording did; everything written before is sound.
    pub cut: Option<WriteError>,
}

/// Events that are missing from a recording, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// There was no room: earlier events were not removed in time.
    pub no_room: u64,
    /// The kernel did not call the recorder, because it was running there already.
    pub not_called: u64,
}

impl Lost {
    /// Their total.
    pub fn all(self) -> u64 {
        self.no_room + self.not_called
    }
}

/// The program in the kernel.
struct Kernel {
    links: Vec<Link>,
    object: Object,
}

/// The rings, and how far each was emptied.
struct Rings {
    mapped: Mapped,
    size: usize,
    taken: Vec<u64>,
    buffer: Vec<Raw>,
}

impl<W: Write + Send + 'static> Recorder<W> {
    /// Begins to record the whole machine, with the header's number of CPUs, into `out`.
    ///
    /// Fails if the kernel does not permit it, has no tracepoints to attach to, or has more CPUs than there is room
    /// for.
    pub fn start(out: W, mut header: Header) -> anyhow::Result<Self> {
        room_for(header.cpus)?;
        let size = (BYTES_MAX / RAW_SIZE / header.cpus.max(1)).min(RING);
        let size = 1 << size.max(1024).ilog2();
        header.recorder = Some(std::process::id());
        let alone = Timed::take();
        let start_ns = now_ns();
        let (kernel, mut rings) = attach(&header, size, start_ns)?;
        if let (Ok(alone), Ok(seen)) = (alone, Timed::take()) {
            (header.hook_ns, header.call_hook_ns) = seen.more_than(alone);
        }
        (0..header.cpus).for_each(|cpu| while !rings.take(cpu).is_empty() {});
        let mut writer = Writer::new(out, &header)?;
        let there: Vec<Raw> = tasks().iter().flat_map(|info| task_group(0, info)).collect();
        writer.records(0, &there)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let name = std::thread::Builder::new().name("recorder".into());
        let thread = name.spawn(move || empty(rings, writer, &told, start_ns))?;
        Ok(Recorder { kernel, stop, thread, start_ns })
    }

    /// The beginning, on CLOCK_MONOTONIC.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Whether writing has failed already: then there is no use in continuing.
    pub fn is_cut(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the recording. `command_ns`: the start and end of the command, on CLOCK_MONOTONIC.
    ///
    /// Fails if the kernel does not say what was lost.
    pub fn finish(mut self, command_ns: Option<(u64, u64)>) -> anyhow::Result<Recorded<W>> {
        self.kernel.links.clear();
        let end_ns = now_ns() - self.start_ns;
        self.stop.store(true, Ordering::Release);
        let (writer, mut cut) =
            self.thread.join().map_err(|_| anyhow::anyhow!("the recorder fell over"))?;
        let lost = self.kernel.lost()?;
        let (mut bytes, mut records) = writer.so_far();
        let since = |t_ns: u64| t_ns.saturating_sub(self.start_ns);
        let command_ns = command_ns.map(|(from, to)| (since(from), since(to)));
        let mut out = None;
        if cut.is_none() {
            let ending = Ending { end_ns, lost: lost.all(), command_ns, ..Ending::default() };
            match writer.finish(&ending) {
                Ok((whole, length, all)) => {
                    (out, bytes, records) = (Some(whole), length, all);
                }
                Err(error) => cut = Some(error),
            }
        }
        Ok(Recorded { out, records, bytes, lost, cut })
    }
}

/// Programs that see connections. A kernel that lacks a function they attach to is recorded without them.
const CONNECTIONS: [&str; 2] = ["on_accepted", "on_connected"];
/// Programs that see connections' data, if not every call is recorded.
const CARRIED: [&str; 2] = ["on_sent", "on_received"];
/// Programs that see waits for the kernel's own locks. They attach by name.
const LOCKS: [&str; 2] = ["on_lock", "on_lock_end"];

fn attach(header: &Header, size: usize, start_ns: u64) -> anyhow::Result<(Kernel, Rings)> {
    let cpus = header.cpus;
    let with = |optional: &[&str]| load(header, size, start_ns, optional);
    let object = with(&[CONNECTIONS, CARRIED].concat())
        .or_else(|_| with(&CARRIED))
        .or_else(|_| with(&[]))?;
    let map = object.maps().find(|map| map.name() == "records").context("it has no rings")?;
    let mapped = Mapped::new(map, cpus * size * RAW_SIZE, true)?;
    let rings = Rings { mapped, size, taken: vec![0; cpus], buffer: Vec::new() };
    let (links, words) = log::listen(|| {
        let link = |program: ProgramMut<'_>| {
            let link = program.attach();
            (link.is_ok() || !is_optional(&program.name().to_string_lossy())).then_some(link)
        };
        tracefs::with(|| object.progs_mut().filter(loaded).filter_map(link).collect())
    });
    let links: Result<Vec<Link>, _> = links?;
    let links = links.with_context(|| format!("the kernel refuses: {}", log::reason(&words)))?;
    Ok((Kernel { links, object }, rings))
}

fn is_optional(name: &str) -> bool {
    [&CONNECTIONS, &CARRIED, &LOCKS].iter().any(|those| those.contains(&name))
}

/// Loads the programs into the kernel. `optional`: those to load that not every kernel can have.
fn load(header: &Header, size: usize, start_ns: u64, optional: &[&str]) -> anyhow::Result<Object> {
    let cpus = header.cpus;
    let (result, words) = log::listen(|| {
        let mut object = ObjectBuilder::default().name("record")?.open_memory(PROGRAM)?;
        let config = [
            ("nr_cpus", (cpus as u32).to_ne_bytes().to_vec()),
            ("ring_size", (size as u32).to_ne_bytes().to_vec()),
            ("start_ns", start_ns.to_ne_bytes().to_vec()),
        ];
        set_config(&mut object, PROGRAM, &config)?;
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let name = name.as_str();
            let load = match name {
                "on_system_call" => header.calls,
                _ if header.calls && CARRIED.contains(&name) => false,
                _ => optional.contains(&name) || LOCKS.contains(&name) || !is_optional(name),
            };
            program.set_autoload(load);
        }
        let records = object.maps_mut().find(|map| map.name() == "records");
        records.context("it has no rings")?.set_max_entries((cpus * size) as u32)?;
        Ok::<_, anyhow::Error>(object.load()?)
    });
    result.with_context(|| format!("the kernel refuses: {}", log::reason(&words)))
}

fn loaded(program: &ProgramMut<'_>) -> bool {
    program.as_fd().as_raw_fd() >= 0
}

impl Kernel {
    /// Records that found no room, and hooks that were skipped because they were running already.
    fn lost(&self) -> anyhow::Result<Lost> {
        let bytes = bss(&self.object)?;
        let places = variables(PROGRAM, ".bss")?;
        let (rings, length) = *places.get("rings").context("the recorder's state moved")?;
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8"));
        let no_room = (rings..rings + length).step_by(64).map(|ring| number(ring + 8)).sum();
        let mut lost = Lost { no_room, not_called: 0 };
        for program in self.object.progs().filter(|program| program.as_fd().as_raw_fd() >= 0) {
            let descriptor = program.as_fd().as_raw_fd();
            let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"));
            let missed = text.unwrap_or_default().lines().find_map(|line| {
                line.strip_prefix("recursion_misses:")?.trim().parse::<u64>().ok()
            });
            lost.not_called += missed.unwrap_or(0);
        }
        Ok(lost)
    }
}

/// Empties the rings until told to stop, and once more after that.
fn empty<W: Write>(
    mut rings: Rings,
    mut writer: Writer<W>,
    stop: &AtomicBool,
    start_ns: u64,
) -> (Writer<W>, Option<WriteError>) {
    // Above the recorded tasks, or a busy machine fills the rings first. Without the right to, losses are counted.
    let _ = outrank_thread();
    loop {
        let last = stop.load(Ordering::Acquire);
        let until_ns = now_ns() - start_ns;
        for cpu in 0..rings.taken.len() {
            if let Err(error) = writer.records(cpu as u32, rings.take(cpu)) {
                return (writer, Some(error));
            }
        }
        if let Err(error) = writer.time(until_ns) {
            return (writer, Some(error));
        }
        if last {
            return (writer, None);
        }
        std::thread::sleep(PERIOD);
    }
}

impl Rings {
    /// A CPU's new records, at most a ring of them.
    fn take(&mut self, cpu: usize) -> &[Raw] {
        self.buffer.clear();
        while self.buffer.len() < self.size {
            let place = cpu * self.size + self.taken[cpu] as usize % self.size;
            // SAFETY: the place is within the mapping; the kernel's side writes it with plain stores,
            // the first word last, and not again before that is 0
            let slot = unsafe {
                let first = self.mapped.start.as_ptr().cast::<[AtomicU64; 2]>().add(place);
                &*first
            };
            let word = slot[0].load(Ordering::Acquire);
            if word == 0 {
                break;
            }
            let halves = slot[1].load(Ordering::Relaxed);
            self.buffer.push(Raw { word, a: halves as u32, b: (halves >> 32) as u32 });
            slot[0].store(0, Ordering::Release);
            self.taken[cpu] += 1;
        }
        &self.buffer
    }
}

/// Every present thread.
fn tasks() -> Vec<TaskInfo> {
    let of =
        |pid: u32| numbered(&format!("/proc/{pid}/task")).into_iter().map(move |tid| (pid, tid));
    numbered("/proc")
        .into_iter()
        .flat_map(of)
        .filter_map(|(pid, tid)| described(pid, tid))
        .collect()
}

pub(crate) fn described(pid: u32, tid: u32) -> Option<TaskInfo> {
    const KERNEL: u64 = 0x20_0000;
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = text(format!("{folder}/stat")).ok()?;
    let fields = fields(&stat)?;
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let status = text(format!("{folder}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"));
    Some(TaskInfo {
        nice: fields.get(16)?.parse().ok()?,
        class: class(fields.get(38)?, fields.get(37)?).unwrap_or_default(),
        kernel: flags & KERNEL != 0,
        cpus: mask.and_then(first_cpus).unwrap_or(u64::MAX),
        name: name(tid)?,
        ..TaskInfo::new(tid, pid)
    })
}

/// The scheduling class, by the policy and real-time priority of `/proc/PID/stat`.
fn class(policy: &str, priority: &str) -> Option<Class> {
    Class::of_policy(policy.parse().ok()?, priority.parse().ok()?)
}

/// The last 64 bits of a mask such as `ff,ffffffff`. A mask of all CPUs restricts nothing.
fn first_cpus(mask: &str) -> Option<u64> {
    let words: Vec<u32> = mask
        .trim()
        .split(',')
        .map(|word| u32::from_str_radix(word, 16).ok())
        .collect::<Option<_>>()?;
    let mut last = words.iter().rev();
    let low = u64::from(*last.next()?);
    Some(low | u64::from(last.next().copied().unwrap_or(0)) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_from_their_end() {
        assert_eq!(first_cpus("\tf\n"), Some(15));
        assert_eq!(first_cpus("1,00000002,80000000"), Some(0x2_8000_0000));
        assert_eq!(first_cpus("none"), None);
    }

    #[test]
    fn a_machine_of_more_cpus_than_there_is_room_for_is_refused() {
        let start = |cpus| Recorder::start(Vec::new(), Header { cpus, ..Header::default() });
        let refused = start(513).err().unwrap().to_string();
        assert!(
            refused.contains("513 CPUs") && refused.contains("boot with nr_cpus=512"),
            "{refused}"
        );
        let observed = crate::Observer::attach(513).err().unwrap().to_string();
        assert_eq!(observed, refused);
    }

    #[test]
    fn this_thread_is_described() {
        let own = std::process::id();
        let info = described(own, own).unwrap();
        assert_eq!((info.tid, info.pid, info.kernel), (own, own, false));
        assert!(!info.name.is_empty() && info.cpus != 0);
    }
}
