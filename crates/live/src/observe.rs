// SPDX-License-Identifier: GPL-2.0-only
//! Observes the scheduler: a BPF program writes down every switch and wakeup. Its records are folded into measures
//! afterwards, here or on another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::Context;
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use serde::{Deserialize, Serialize};
use trace::{Event, IDLE, Kind, Measures, Observed, Tid};

use crate::load::room_for;
use crate::log;
use crate::mapped::Mapped;
use crate::program::text;
use crate::variables::{bss, set_config, variables};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o"));

/// Records of one chunk, as in observe.bpf.c.
const CHUNK: usize = 1024;
/// Records may take this part of the free memory.
const MEMORY_SHARE: usize = 8;
/// Most bytes of records: the kernel reserves all of it at once.
const MEMORY_MAX: usize = 1 << 30;

/// `struct record` of observe.bpf.c.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    t_ns: u64,
    cpu: u16,
    kind: u8,
    flags: u8,
    a: u32,
    b: u32,
    e: u32,
    c: u64,
    d: u64,
}

const SIZE: usize = size_of::<Record>();
const SWITCH: u8 = 1;
const WAKE: u8 = 2;
const FORK: u8 = 3;
const NAME: u8 = 4;
const PREV_RUNNABLE: u8 = 1;
const PREV_DEAD: u8 = 2;
const BY_OWNER: u8 = 4;

/// The exit status of a shell that does not find a program, in the kernel's format.
const STATUS_127: u32 = 127 << 8;

/// The observer, attached. Dropping it detaches.
pub struct Observer {
    links: Vec<Link>,
    object: Object,
    records: Mapped,
    cpus: usize,
}

/// Facts about the observation beside the records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// CPUs of the machine.
    pub cpus: usize,
    /// The kind of core that policies take each CPU for.
    pub kinds: Vec<u16>,
    /// When the observed span began, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Measures are of the processes that the observer's owner has started, and all their descendants. Measures of the
    /// whole machine stand beside them.
    #[serde(default)]
    pub own: bool,
    /// Names of the tasks that were alive at the end.
    pub names: BTreeMap<Tid, String>,
}

/// The result of an observation.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Measures of all tasks, or of the owner's if [`Recording::own`].
    pub observed: Observed,
    /// Measures of all tasks, if `observed` has others.
    pub machine: Option<Observed>,
    /// Names of all tasks seen.
    pub names: BTreeMap<Tid, String>,
    /// How many of the measured processes ended with status 127: their program was not found.
    pub not_found: usize,
    /// CPU time of the processes that the observer's owner has started, and of all their descendants, ns.
    pub own_cpu_ns: u64,
}

impl Observer {
    /// Loads and attaches the program; records until [`Observer::finish`].
    pub fn attach(cpus: usize) -> anyhow::Result<Self> {
        room_for(cpus)?;
        let capacity = capacity()?;
        let (result, words) = log::listen(|| {
            let mut object = ObjectBuilder::default().name("observe")?.open_memory(PROGRAM)?;
            let (dev, ino) = pid_namespace()?;
            let config = [
                ("nr_cpus", (cpus as u32).to_ne_bytes().to_vec()),
                ("capacity", (capacity as u32).to_ne_bytes().to_vec()),
                ("owner_tgid", std::process::id().to_ne_bytes().to_vec()),
                ("owner_dev", dev.to_ne_bytes().to_vec()),
                ("owner_ino", ino.to_ne_bytes().to_vec()),
            ];
            set_config(&mut object, PROGRAM, &config)?;
            let mut records = object
                .maps_mut()
                .find(|map| map.name() == "records")
                .context("the observer has no map of records")?;
            records.set_max_entries(capacity as u32)?;
            Ok::<_, anyhow::Error>(object.load()?)
        });
        let object = result
            .with_context(|| format!("the kernel refuses the observer: {}", log::reason(&words)))?;
        let map = object.maps().find(|map| map.name() == "records");
        let map = map.context("the observer has no map of records")?;
        let records = Mapped::new(map, capacity * SIZE, false)?;
        let links: Result<Vec<Link>, _> =
            object.progs_mut().map(|program| program.attach()).collect();
        let links = links.context("the observer cannot be attached")?;
        Ok(Observer { links, object, records, cpus })
    }

    /// Stops recording. Err within: the number of lost records; measures with holes are worse than none.
    pub fn finish(
        mut self,
        start_ns: u64,
        end_ns: u64,
    ) -> anyhow::Result<Result<(Recording, RecordedBytes), u64>> {
        self.links.clear();
        let state = self.state()?;
        if state.lost > 0 {
            return Ok(Err(state.lost));
        }
        let names = task_names();
        let kinds = Vec::new();
        let own = false;
        let recording = Recording { cpus: self.cpus, kinds, start_ns, end_ns, own, names };
        let length = state.chunks * CHUNK * SIZE;
        Ok(Ok((recording, RecordedBytes { mapped: self.records, length })))
    }

    /// Reads `cursors` and `taken` out of the program's `.bss`.
    fn state(&self) -> anyhow::Result<ProgramState> {
        let bytes = bss(&self.object)?;
        let places = variables(PROGRAM, ".bss")?;
        let place = |name: &str| places.get(name).copied().context("the observer's state moved");
        let (cursors, length) = place("cursors")?;
        let (taken, _) = place("taken")?;
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8"));
        let lost = (cursors..cursors + length).step_by(64).map(|cursor| number(cursor + 8)).sum();
        let chunks = u32::from_ne_bytes(bytes[taken..taken + 4].try_into().expect("4 bytes"));
        Ok(ProgramState { lost, chunks: chunks as usize })
    }
}

struct ProgramState {
    lost: u64,
    chunks: usize,
}

/// The records as they lie in the kernel's memory.
pub struct RecordedBytes {
    mapped: Mapped,
    length: usize,
}

impl RecordedBytes {
    /// All chunks that were taken.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is at least this long and lives as long as self; no program writes to it since the
        // observer was detached
        unsafe { std::slice::from_raw_parts(self.mapped.start.as_ptr(), self.length) }
    }
}

/// Folds records into measures; `each` is called with every measured event, in order.
pub fn fold(
    recording: &Recording,
    bytes: &[u8],
    mut each: impl FnMut(&Event),
) -> anyhow::Result<Seen> {
    let mut records = parse(bytes)?;
    records.sort_by_key(|record| record.t_ns);
    let mut names = recording.names.clone();
    names.extend(records.iter().filter(|record| record.kind == NAME).map(|record| {
        let text: Vec<u8> =
            [record.c, record.d].iter().flat_map(|part| part.to_ne_bytes()).collect();
        (record.a, String::from_utf8_lossy(&text).trim_end_matches('\0').to_string())
    }));
    let descendants = descendants(&records);
    anyhow::ensure!(
        !recording.own || !descendants.is_empty(),
        "the observer did not see the command begin"
    );
    let own = recording.own.then(|| descendants.clone());
    let whole = Measures::new(recording.cpus).with_kinds(&recording.kinds);
    let of_own = own.clone().map(|own| whole.clone().only(own));
    let mut all = [Some(whole), of_own];
    for (cpu, (tid, mm)) in running_at(recording, &records) {
        all.iter_mut().flatten().for_each(|measures| measures.running(cpu, tid, mm));
    }
    // the span starts here, before its first record
    let start = Kind::Affinity { tid: IDLE, cpus: Vec::new() };
    let start = Event { t_ns: recording.start_ns, cpu: 0, kind: start };
    all.iter_mut().flatten().for_each(|measures| measures.event(&start));
    let mut allowed = BTreeMap::new();
    let span = recording.start_ns..recording.end_ns;
    let in_span = || records.iter().filter(|record| span.contains(&record.t_ns));
    for record in in_span() {
        for kind in events(record, &mut allowed) {
            let event = Event { t_ns: record.t_ns, cpu: record.cpu.into(), kind };
            all.iter_mut().flatten().for_each(|measures| measures.event(&event));
            each(&event);
        }
    }
    // A process may leave its CPU for the last time after the span has ended.
    let status = |record: &&Record| record.kind == NAME && record.e == STATUS_127;
    let measured = |record: &&Record| own.as_ref().is_none_or(|own| own.contains(&record.a));
    let since = |record: &&Record| record.t_ns >= recording.start_ns;
    let not_found = records.iter().filter(status).filter(measured).filter(since).count();
    let [mut whole, of_own] = all.map(|measures| {
        let mut observed = measures?.finish(recording.end_ns);
        observed.tasks.remove(&IDLE);
        Some(observed)
    });
    names.retain(|tid, _| whole.iter().any(|whole| whole.tasks.contains_key(tid)));
    let own_cpu_ns = whole.iter().flat_map(|whole| &whole.tasks);
    let own_cpu_ns = own_cpu_ns.filter(|(tid, _)| descendants.contains(tid));
    let own_cpu_ns = own_cpu_ns.map(|(_, task)| task.cpu_ns).sum();
    let observed = of_own.or_else(|| whole.take()).unwrap_or_default();
    Ok(Seen { observed, machine: whole, names, not_found, own_cpu_ns })
}

/// The processes that the observer's owner has started, and all their descendants.
fn descendants(records: &[Record]) -> BTreeSet<Tid> {
    let mut own = BTreeSet::new();
    for record in records.iter().filter(|record| record.kind == FORK) {
        if record.flags & BY_OWNER != 0 || own.contains(&record.e) {
            own.insert(record.a);
        }
    }
    own
}

/// The PID namespace of this process, by the kernel's device and inode.
fn pid_namespace() -> anyhow::Result<(u64, u64)> {
    const PLACE: &str = "/proc/self/ns/pid";
    let found = fs::metadata(PLACE).context(PLACE)?;
    let dev = found.dev();
    // The kernel's own form of a device number has 20 bits for the minor one.
    let dev = u64::from(libc::major(dev)) << 20 | u64::from(libc::minor(dev));
    Ok((dev, found.ino()))
}

/// The events of one record, in the order in which they hold.
fn events(record: &Record, allowed: &mut BTreeMap<Tid, u64>) -> Vec<Kind> {
    let Record { a, b, c, d, flags, .. } = *record;
    let mut affinity = |tid: Tid| {
        let before = allowed.insert(tid, d).unwrap_or(u64::MAX);
        let cpus = if d == u64::MAX { Vec::new() } else { vec![d] };
        (before != d).then_some(Kind::Affinity { tid, cpus })
    };
    let wake = Kind::Wake { tid: a, target: b };
    match record.kind {
        SWITCH => {
            let prev_runnable = flags & PREV_RUNNABLE != 0;
            let exit = (flags & PREV_DEAD != 0).then_some(Kind::Exit { tid: a });
            let moved = if prev_runnable && a != IDLE { affinity(a) } else { None };
            let switch = Kind::Switch { prev: a, next: b, prev_runnable, next_mm: c };
            exit.into_iter().chain(moved).chain([switch]).collect()
        }
        WAKE => affinity(a).into_iter().chain([wake]).collect(),
        FORK => {
            let moved = affinity(a);
            [Kind::Fork { tid: a }].into_iter().chain(moved).chain([wake]).collect()
        }
        _ => Vec::new(),
    }
}

/// The task on each CPU when the span began: the last one switched to before, else the first one switched from after.
fn running_at(recording: &Recording, records: &[Record]) -> BTreeMap<u32, (Tid, u64)> {
    let mut running = BTreeMap::new();
    for record in records.iter().filter(|record| record.kind == SWITCH) {
        let cpu = u32::from(record.cpu);
        if record.t_ns < recording.start_ns {
            running.insert(cpu, (record.b, record.c));
        } else {
            running.entry(cpu).or_insert((record.a, 0));
        }
    }
    running
}

fn parse(bytes: &[u8]) -> anyhow::Result<Vec<Record>> {
    anyhow::ensure!(
        bytes.len().is_multiple_of(SIZE),
        "the recording ends in the middle of a record"
    );
    let records = bytes.chunks_exact(SIZE).map(|chunk| {
        let word = |at: usize| u64::from_ne_bytes(chunk[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_ne_bytes(chunk[at..at + 4].try_into().expect("4 bytes"));
        Record {
            t_ns: word(0),
            cpu: u16::from_ne_bytes([chunk[8], chunk[9]]),
            kind: chunk[10],
            flags: chunk[11],
            a: half(12),
            b: half(16),
            e: half(20),
            c: word(24),
            d: word(32),
        }
    });
    Ok(records.filter(|record| record.kind != 0).collect())
}

/// How many records fit, in whole chunks.
fn capacity() -> anyhow::Result<usize> {
    let free = worker::available_bytes().context("/proc/meminfo does not say what is available")?;
    Ok(fitting(free))
}

/// How many records fit if so many bytes are free.
fn fitting(free: usize) -> usize {
    let bytes = (free / MEMORY_SHARE).min(MEMORY_MAX);
    // Record numbers have 32 bits.
    let chunks = (bytes / (CHUNK * SIZE)).clamp(1, u32::MAX as usize / CHUNK);
    chunks * CHUNK
}

/// Names of all living tasks.
fn task_names() -> BTreeMap<Tid, String> {
    let mut names = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let tasks = fs::read_dir(process.path().join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let tid = task.file_name().to_str().and_then(|text| text.parse().ok());
            let name = text(task.path().join("comm"));
            if let (Some(tid), Ok(name)) = (tid, name) {
                names.insert(tid, name.trim_end().to_string());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend(record.t_ns.to_ne_bytes());
            bytes.extend(record.cpu.to_ne_bytes());
            bytes.extend([record.kind, record.flags]);
            bytes.extend([record.a, record.b, record.e].iter().flat_map(|half| half.to_ne_bytes()));
            bytes.extend([record.c, record.d].iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes
    }

    fn switch(t_ns: u64, cpu: u16, prev: Tid, next: Tid, mm: u64, flags: u8) -> Record {
        let kind = SWITCH;
        Record { t_ns, cpu, kind, flags, a: prev, b: next, c: mm, d: u64::MAX, e: 0 }
    }

    #[test]
    fn chunks_of_two_cpus_become_one_story() {
        let wake = Record { t_ns: 120, kind: WAKE, a: 7, b: 1, d: u64::MAX, ..Record::default() };
        let name = u64::from_ne_bytes(*b"worker\0\0");
        let named = Record { t_ns: 200, cpu: 1, kind: NAME, a: 7, c: name, ..Record::default() };
        // CPU 1's chunk lies before CPU 0's, with unused records behind both
        let records = [
            switch(150, 1, 0, 7, 70, 0),
            switch(200, 1, 7, 0, 0, PREV_DEAD),
            named,
            Record::default(),
            switch(90, 0, 0, 5, 50, 0),
            wake,
            switch(180, 0, 5, 6, 60, PREV_RUNNABLE),
            Record::default(),
        ];
        let recording = Recording { cpus: 2, start_ns: 100, end_ns: 300, ..Recording::default() };
        let Seen { observed: seen, names, .. } =
            fold(&recording, &bytes(&records), |_| ()).unwrap();
        assert_eq!(seen.elapsed_ns, 200);
        assert_eq!(seen.context_switches, 2);
        assert_eq!(seen.involuntary_switches, 1);
        assert_eq!(seen.address_space_switches, 1, "50 to 60 on CPU 0; CPU 1 had none before");
        assert_eq!(seen.tasks[&7].cpu_ns, 50);
        assert_eq!(seen.tasks[&5].cpu_ns, 80, "from the start of the span, not from 90");
        assert_eq!(seen.wait.max_ns, 120, "5 waits from 180 to the end");
        assert_eq!(seen.idle_while_runnable_ns, 30 + 100, "7 in flight, then 5 beside idle CPU 1");
        assert_eq!(names[&7], "worker");
    }

    #[test]
    fn a_pinned_task_does_not_make_other_cpus_guilty() {
        let mut wake = Record { t_ns: 110, kind: WAKE, a: 7, b: 0, ..Record::default() };
        wake.d = 1;
        let busy = switch(101, 0, 0, 5, 50, 0);
        let recording = Recording { cpus: 2, start_ns: 100, end_ns: 200, ..Recording::default() };
        let seen = fold(&recording, &bytes(&[busy, wake]), |_| ()).unwrap().observed;
        assert_eq!(seen.idle_while_runnable_ns, 0);
        wake.d = u64::MAX;
        let seen = fold(&recording, &bytes(&[busy, wake]), |_| ()).unwrap().observed;
        assert_eq!(seen.idle_while_runnable_ns, 90);
    }

    /// 7 is a child of the owner, 8 a child of 7, and 9 of another process.
    #[test]
    fn measures_are_those_of_the_command_and_its_descendants() {
        let fork = |t_ns, tid, parent, flags| {
            let (kind, d) = (FORK, u64::MAX);
            Record { t_ns, kind, flags, a: tid, e: parent, d, ..Record::default() }
        };
        let ended = |t_ns, tid, status: u32| Record {
            t_ns,
            kind: NAME,
            a: tid,
            e: status << 8,
            ..Record::default()
        };
        let records = [
            fork(90, 7, 3, BY_OWNER),
            switch(100, 0, 0, 7, 70, 0),
            fork(110, 8, 7, 0),
            fork(120, 9, 4, 0),
            switch(130, 0, 7, 9, 90, PREV_RUNNABLE),
            switch(150, 0, 9, 8, 80, PREV_RUNNABLE),
            ended(160, 8, 127),
            ended(170, 9, 127),
            switch(170, 0, 8, 7, 70, PREV_DEAD),
        ];
        let mut recording =
            Recording { cpus: 1, start_ns: 95, end_ns: 200, ..Recording::default() };
        let whole = fold(&recording, &bytes(&records), |_| ()).unwrap();
        assert!(whole.machine.is_none());
        recording.own = true;
        let seen = fold(&recording, &bytes(&records), |_| ()).unwrap();
        assert_eq!(seen.machine.as_ref(), Some(&whole.observed));
        let own = &seen.observed;
        assert_eq!(own.tasks.keys().copied().collect::<Vec<_>>(), [7, 8]);
        assert_eq!((own.context_switches, whole.observed.context_switches), (2, 3));
        assert_eq!((own.involuntary_switches, whole.observed.involuntary_switches), (1, 2));
        assert_eq!((seen.not_found, whole.not_found), (1, 2));
        assert_eq!((seen.own_cpu_ns, whole.own_cpu_ns), (30 + 20 + 30, 30 + 20 + 30));
        assert_eq!(own.wait.max_ns, 40, "8 and 7 waited for 40 ns");
        assert_eq!(whole.observed.wait.max_ns, 50, "9 waits since 150");
        assert_eq!(own.idle_ns, whole.observed.idle_ns);
        let none = [switch(100, 0, 0, 7, 70, 0)];
        assert!(fold(&recording, &bytes(&none), |_| ()).is_err(), "its begin was not observed");
    }

    #[test]
    fn more_memory_holds_more_records() {
        assert_eq!(fitting(0), CHUNK);
        assert_eq!(fitting(8 * 10 * CHUNK * SIZE), 10 * CHUNK);
        let (some, much) = (fitting(4 << 30), fitting(64 << 30));
        assert!(some > 12_000_000 && some * SIZE <= (4 << 30) / MEMORY_SHARE, "{some}");
        assert!(much > some && much * SIZE <= MEMORY_MAX, "{much}");
    }

    #[test]
    fn a_cut_recording_is_refused() {
        assert!(fold(&Recording::default(), &[0; SIZE + 1], |_| ()).is_err());
    }
}
