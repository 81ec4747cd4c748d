// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that no policy can help: a real-time task keeps every CPU that they may run on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::program::text;

/// Real-time tasks keep a CPU if together they ran on it for this part of the time.
const KEPT: f64 = 0.8;
/// A runnable task that ran for less than this part of the time is waiting; the kernel gives it some even behind a
/// real-time task.
const WAITS: f64 = 0.1;
/// At least the observer itself, a real-time task, and a waiting task are runnable.
const RUNNABLE_MIN: u64 = 3;

/// A task that waits behind real-time tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Behind {
    /// The task.
    pub task: Named,
    /// Every CPU that it may run on.
    pub cpus: Vec<usize>,
    /// The real-time task that has most of the first of them.
    pub real_time: Named,
    /// Its CPU time since the last look.
    pub ran: Duration,
    /// Time since the last look.
    pub passed: Duration,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name in the kernel.
    pub name: String,
    /// Thread id.
    pub tid: i32,
}

/// Looks for waiting tasks periodically.
#[derive(Debug)]
pub struct Lookout {
    at: Instant,
    /// CPU time of runnable threads, by thread id.
    ran: BTreeMap<i32, Duration>,
    told: BTreeSet<i32>,
}

/// A thread that runs or waits for a CPU.
struct Runnable {
    task: Named,
    cpu: usize,
    real_time: bool,
    ran: Duration,
}

impl Lookout {
    /// A lookout that has seen no task yet.
    pub fn new() -> Self {
        Lookout { at: Instant::now(), ran: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// Tasks that have waited behind real-time tasks since the last look; each is reported once.
    pub fn look(&mut self) -> Vec<Behind> {
        let (now, passed) = (Instant::now(), self.at.elapsed());
        let threads = if runnable() >= RUNNABLE_MIN { threads() } else { Vec::new() };
        let waiting = self.waiting(&threads, passed, affinity);
        let found: BTreeSet<i32> = waiting.iter().map(|behind| behind.task.tid).collect();
        let new = waiting.into_iter().filter(|behind| !self.told.contains(&behind.task.tid));
        let new = new.collect();
        self.told = found;
        self.ran = threads.iter().map(|thread| (thread.task.tid, thread.ran)).collect();
        self.at = now;
        new
    }

    fn waiting(
        &self,
        threads: &[Runnable],
        passed: Duration,
        affinity: impl Fn(i32) -> Vec<usize>,
    ) -> Vec<Behind> {
        let part = |thread: &Runnable| {
            let ran = thread.ran.saturating_sub(*self.ran.get(&thread.task.tid)?);
            Some((ran, ran.as_secs_f64() / passed.as_secs_f64()))
        };
        // By CPU: the part that real-time tasks had together, and the one that had most.
        let mut kept: BTreeMap<usize, (f64, f64, &Runnable)> = BTreeMap::new();
        for thread in threads.iter().filter(|thread| thread.real_time) {
            let Some((_, part)) = part(thread) else { continue };
            let (all, most, keeper) = kept.entry(thread.cpu).or_insert((0.0, part, thread));
            *all += part;
            if part > *most {
                (*most, *keeper) = (part, thread);
            }
        }
        kept.retain(|_, (all, ..)| *all > KEPT);
        let behind = |thread: &Runnable| {
            let (ran, part) = part(thread)?;
            if kept.is_empty() || thread.real_time || part > WAITS {
                return None;
            }
            let cpus = affinity(thread.task.tid);
            let (.., keeper) = kept.get(cpus.first()?)?;
            cpus.iter().all(|cpu| kept.contains_key(cpu)).then(|| Behind {
                task: thread.task.clone(),
                real_time: keeper.task.clone(),
                cpus,
                ran,
                passed,
            })
        };
        threads.iter().filter_map(behind).collect()
    }
}

impl Default for Lookout {
    fn default() -> Self {
        Self::new()
    }
}

/// How many threads run or wait for a CPU. Cheap: usually there is no task to look for.
fn runnable() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = text.split(' ').nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(running, _)| running.parse().ok()).unwrap_or(0)
}

/// All runnable threads. A thread that ends meanwhile is left out.
fn threads() -> Vec<Runnable> {
    let numbers = |folder: &str| -> Vec<i32> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let of_process = |pid: i32| {
        let folder = format!("/proc/{pid}/task");
        let thread = |tid: i32| {
            let stat = text(format!("{folder}/{tid}/stat")).ok()?;
            let schedstat = || fs::read_to_string(format!("{folder}/{tid}/schedstat")).ok();
            parse(tid, &stat, schedstat)
        };
        numbers(&folder).into_iter().filter_map(thread).collect::<Vec<_>>()
    };
    numbers("/proc").into_iter().flat_map(of_process).collect()
}

/// None if the thread sleeps.
fn parse(tid: i32, stat: &str, schedstat: impl Fn() -> Option<String>) -> Option<Runnable> {
    const CPU: usize = 36;
    const POLICY: usize = 38;
    /// SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
    const REAL_TIME: [&str; 3] = ["1", "2", "6"];
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    if *fields.first()? != "R" {
        return None;
    }
    let ran_ns = schedstat()?.split(' ').next()?.parse().ok()?;
    Some(Runnable {
        task: Named { name: name.to_string(), tid },
        cpu: fields.get(CPU)?.parse().ok()?,
        real_time: REAL_TIME.contains(fields.get(POLICY)?),
        ran: Duration::from_nanos(ran_ns),
    })
}

/// CPUs that a thread may run on; empty if it has ended.
fn affinity(tid: i32) -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(tid)).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: i32, cpu: usize, real_time: bool, ran_ms: u64) -> Runnable {
        let task = Named { name: format!("t{tid}"), tid };
        Runnable { task, cpu, real_time, ran: Duration::from_millis(ran_ms) }
    }

    fn waiting(threads: &[Runnable], affinity: fn(i32) -> Vec<usize>) -> Vec<i32> {
        let mut lookout = Lookout::new();
        lookout.ran = (1..=9).map(|tid| (tid, Duration::ZERO)).collect();
        let found = lookout.waiting(threads, Duration::from_secs(2), affinity);
        found.iter().map(|behind| behind.task.tid).collect()
    }

    #[test]
    fn only_a_task_without_another_cpu_is_behind() {
        let hog = || thread(1, 1, true, 1990);
        let pinned = |ran_ms| thread(2, 1, false, ran_ms);
        assert_eq!(waiting(&[hog(), pinned(0)], |_| vec![1]), [2]);
        assert_eq!(waiting(&[hog(), pinned(100)], |_| vec![1]), [2], "the kernel's mercy");
        assert!(waiting(&[hog(), pinned(300)], |_| vec![1]).is_empty(), "it runs");
        assert!(waiting(&[hog(), pinned(0)], |_| vec![0, 1]).is_empty(), "it may go");
        assert!(waiting(&[hog(), pinned(0)], |_| vec![]).is_empty(), "it is gone");
        let both = [hog(), thread(3, 0, true, 1900), pinned(0)];
        assert_eq!(waiting(&both, |_| vec![0, 1]), [2]);
        let by_turns = [thread(1, 1, true, 900), thread(3, 1, true, 1000), pinned(0)];
        assert_eq!(waiting(&by_turns, |_| vec![1]), [2], "neither alone");
    }

    #[test]
    fn a_real_time_task_that_sleeps_keeps_nothing() {
        let now_and_then = [thread(1, 1, true, 900), thread(2, 1, false, 0)];
        assert!(waiting(&now_and_then, |_| vec![1]).is_empty());
        let unknown = [thread(10, 1, true, 1990), thread(2, 1, false, 0)];
        assert!(waiting(&unknown, |_| vec![1]).is_empty(), "it is not known since when");
    }

    #[test]
    fn a_thread_is_read_from_the_kernels_files() {
        let stat = "7 (a) (b) R 1 1 1 0 -1 4 0 0 0 0 9 9 0 0 -51 0 1 0 4 5 6 7 8 9 1 2 3 4 5 6 7 8 0 0 17 3 50 1 0 0";
        let found = parse(7, stat, || Some("2000000 5 1\n".to_string())).unwrap();
        assert_eq!((found.task.name.as_str(), found.cpu, found.real_time), ("a) (b", 3, true));
        assert_eq!(found.ran, Duration::from_millis(2));
        assert!(parse(7, &stat.replace(" R ", " S "), || None).is_none(), "it sleeps");
    }
}
