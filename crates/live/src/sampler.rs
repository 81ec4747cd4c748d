// SPDX-License-Identifier: GPL-2.0-only
//! Records what a command does as far as procfs shows it, which needs no rights. At intervals it reads how long each of
//! the command's threads has run, and has waited for a CPU.
//!
//! Procfs does not show what a thread waits for, or what wakes it. A thread that ends between two looks takes its time
//! since the last look with it. The sum of that is known at the end, from the kernel's account of the command.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use record::{
    Ending, Event, Header, Kind, Raw, Sample, Source, TaskInfo, WriteError, Writer, sample_group,
    task_group,
};
use rustix::process::set_child_subreaper;

use crate::execute::now_ns;
use crate::program::{numbered, parent};
use crate::recorder::{Lost, Recorded, described};

/// Time between looks.
const PERIOD: Duration = Duration::from_millis(10);
/// Looks between readings of a thread's name and CPUs.
const LOOKS: u64 = 8;

/// A running coarse recording.
pub struct Sampler<W: Write + Send + 'static> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Writer<W>, u64, Option<WriteError>)>,
    start_ns: u64,
    used_before_ns: u64,
    busy_before_ns: Option<u64>,
}

impl<W: Write + Send + 'static> Sampler<W> {
    /// Begins to look at the processes that this one will start.
    ///
    /// Fails if the kernel does not show how long threads run, or the parents of processes.
    pub fn start(out: W, mut header: Header) -> anyhow::Result<Self> {
        let own = std::process::id();
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        if schedstat(own, thread).is_none() || children(own, thread).is_none() {
            bail!("this kernel has no /proc/PID/task/TID/schedstat or children");
        }
        // An orphan becomes a child of this process and stays visible.
        set_child_subreaper(Some(rustix::process::getpid()))
            .context("cannot become a subreaper")?;
        header.recorder = Some(own);
        header.source = Source::Procfs;
        header.sample_ns = PERIOD.as_nanos() as u64;
        let mut writer = Writer::new(out, &header)?;
        let itself = described(own, own).context("this process is not in /proc")?;
        writer.records(0, &task_group(0, &itself))?;
        let start_ns = now_ns();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let name = std::thread::Builder::new().name("sampler".into());
        let thread = name.spawn(move || look_on(writer, &told, start_ns))?;
        let (used_before_ns, busy_before_ns) = (children_used_ns(), busy_ns());
        Ok(Sampler { stop, thread, start_ns, used_before_ns, busy_before_ns })
    }

    /// Whether writing has failed already: then there is no use in continuing.
    pub fn is_cut(&self) -> bool {
        self.thread.is_finished()
    }

    /// Looks once more, calls `reap` to wait for the command, and ends the recording. `reap` returns the start and end
    /// of the command, on CLOCK_MONOTONIC, if it has ended. Returns also the part of its CPU time that no look has
    /// seen.
    pub fn finish(
        self,
        command_ns: Option<(u64, u64)>,
        reap: impl FnOnce(),
    ) -> anyhow::Result<(Recorded<W>, Option<f64>)> {
        let end_ns = now_ns() - self.start_ns;
        let busy_ns =
            busy_ns().zip(self.busy_before_ns).map(|(after, before)| after.saturating_sub(before));
        self.stop.store(true, Ordering::Release);
        let (writer, seen_ns, mut cut) =
            self.thread.join().map_err(|_| anyhow::anyhow!("the sampler fell over"))?;
        reap();
        let used_ns = children_used_ns() - self.used_before_ns;
        // A child that was not waited for is in no account yet.
        let known = used_ns > 0;
        let unseen_ns = known.then(|| used_ns.saturating_sub(seen_ns));
        let (mut bytes, mut records) = writer.so_far();
        let since = |t_ns: u64| t_ns.saturating_sub(self.start_ns);
        let command_ns = command_ns.map(|(from, to)| (since(from), since(to)));
        let mut out = None;
        if cut.is_none() {
            let others_ns = busy_ns.filter(|_| known).map(|busy| busy.saturating_sub(used_ns));
            match writer.finish(&Ending { end_ns, lost: 0, command_ns, unseen_ns, others_ns }) {
                Ok((whole, length, all)) => {
                    (out, bytes, records) = (Some(whole), length, all);
                }
                Err(error) => cut = Some(error),
            }
        }
        let unseen = unseen_ns.map(|ns| ns as f64 / used_ns as f64);
        Ok((Recorded { out, records, bytes, lost: Lost::default(), cut }, unseen))
    }
}

/// Busy time of the machine's CPUs since boot.
fn busy_ns() -> Option<u64> {
    busy_ticks(&fs::read_to_string("/proc/stat").ok()?)
        .map(|ticks| ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// The first line's sum without idle time, and without guests' time, which other fields include.
fn busy_ticks(stat: &str) -> Option<u64> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let times: Vec<u64> = times.map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
    let idle = |place: &usize| *place == 3 || *place == 4;
    Some((0..times.len().min(8)).filter(|place| !idle(place)).map(|place| times[place]).sum())
}

/// CPU time of all children that were waited for, and of theirs.
fn children_used_ns() -> u64 {
    // SAFETY: the kernel fills the structure, which outlives the call
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Looks at intervals until told to stop, and once more after that. Returns also the CPU time that it has seen.
fn look_on<W: Write>(
    mut writer: Writer<W>,
    stop: &AtomicBool,
    start_ns: u64,
) -> (Writer<W>, u64, Option<WriteError>) {
    let mut looks = Looks { own: std::process::id(), ..Looks::default() };
    loop {
        let last = stop.load(Ordering::Acquire);
        let t_ns = now_ns() - start_ns;
        let records = looks.look(t_ns);
        if let Err(error) = writer.records(0, &records).and_then(|()| writer.time(t_ns)) {
            return (writer, looks.seen_ns, Some(error));
        }
        if last {
            return (writer, looks.seen_ns, None);
        }
        let took_ns = now_ns() - start_ns - t_ns;
        std::thread::sleep(PERIOD.saturating_sub(Duration::from_nanos(took_ns)));
    }
}

/// State of the command's threads.
#[derive(Default)]
struct Looks {
    own: u32,
    threads: BTreeMap<u32, Thread>,
    number: u64,
    last_ns: u64,
    seen_ns: u64,
}

struct Thread {
    info: TaskInfo,
    stat: Stat,
    number: u64,
}

/// How long a thread ran and waited, ns, and how often it got a CPU.
#[derive(Clone, Copy, Default)]
struct Stat {
    ran_ns: u64,
    waited_ns: u64,
    slices: u64,
}

impl Looks {
    /// Looks at all threads; returns the news as records.
    fn look(&mut self, t_ns: u64) -> Vec<Raw> {
        self.number += 1;
        let mut records = Vec::new();
        let mut todo = started_by(self.own);
        while let Some(pid) = todo.pop() {
            for tid in numbered(&format!("/proc/{pid}/task")) {
                if let Some(stat) = schedstat(pid, tid) {
                    self.thread(pid, tid, stat, t_ns, &mut records);
                }
                todo.extend(children(pid, tid).unwrap_or_default());
            }
        }
        let number = self.number;
        self.threads.retain(|tid, thread| {
            let there = thread.number == number;
            if !there {
                records.extend(raw(t_ns, Kind::Exit { tid: *tid }));
            }
            there
        });
        self.last_ns = t_ns;
        records
    }

    fn thread(&mut self, pid: u32, tid: u32, stat: Stat, t_ns: u64, records: &mut Vec<Raw>) {
        let known = self.threads.get(&tid);
        // If a counter went backwards, another thread has got this number.
        let fresh = known.is_none_or(|known| {
            stat.ran_ns < known.stat.ran_ns
                || stat.slices < known.stat.slices
                || known.info.pid != pid
        });
        if fresh {
            let Some(info) = described(pid, tid) else { return };
            if known.is_some() {
                records.extend(raw(t_ns, Kind::Exit { tid }));
            }
            // It has begun since the last look.
            let from_ns = self.last_ns;
            let by = if tid == pid { parent(pid).unwrap_or(0) } else { pid };
            records.extend(task_group(from_ns, &info));
            records.extend(raw(from_ns, Kind::Fork { parent: by, child: tid }));
            records.extend(raw(from_ns, Kind::Start { tid, target: 0 }));
            self.threads.insert(tid, Thread { info, stat: Stat::default(), number: self.number });
        } else if (self.number + u64::from(tid)).is_multiple_of(LOOKS)
            && let Some(info) = described(pid, tid)
            && let Some(known) = self.threads.get_mut(&tid)
            && known.info != info
        {
            records.extend(task_group(t_ns, &info));
            known.info = info;
        }
        let Some(known) = self.threads.get_mut(&tid) else { return };
        let (before, short) = (known.stat, |of: u64| u32::try_from(of).unwrap_or(u32::MAX));
        (known.stat, known.number) = (stat, self.number);
        let ran_ns = stat.ran_ns - before.ran_ns;
        let sample = Sample {
            tid,
            ran_ns: short(ran_ns),
            waited_ns: short(stat.waited_ns.saturating_sub(before.waited_ns)),
            slices: short(stat.slices - before.slices),
        };
        self.seen_ns += ran_ns;
        // A thread that did nothing needs no record.
        if sample != (Sample { tid, ..Sample::default() }) {
            records.extend(sample_group(t_ns, &sample));
        }
    }
}

fn raw(t_ns: u64, kind: Kind) -> Option<Raw> {
    Raw::of(&Event { t_ns, cpu: 0, kind })
}

/// Processes that this one has started, and orphans among their descendants.
fn started_by(pid: u32) -> Vec<u32> {
    let threads = numbered(&format!("/proc/{pid}/task"));
    threads.into_iter().filter_map(|tid| children(pid, tid)).flatten().collect()
}

fn children(pid: u32, tid: u32) -> Option<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok()?;
    Some(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

fn schedstat(pid: u32, tid: u32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    let [ran_ns, waited_ns, slices] = [numbers.next()??, numbers.next()??, numbers.next()??];
    Some(Stat { ran_ns, waited_ns, slices })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_waits_for_a_disk_are_not_busy_time() {
        let stat = "cpu  1 10 100 5000 5000 1000 10000 100000 7 7\ncpu0 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(111_111));
        assert_eq!(busy_ticks("intr 1"), None);
        assert!(busy_ns() > Some(0));
    }

    #[test]
    fn a_thread_says_how_long_it_ran() {
        let own = std::process::id();
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let stat = || schedstat(own, thread).unwrap();
        let before = stat();
        while stat().ran_ns < before.ran_ns + 1_000_000 {}
        assert!(stat().slices > 0);
        assert!(schedstat(own, 0).is_none() && children(own, 0).is_none());
    }
}
