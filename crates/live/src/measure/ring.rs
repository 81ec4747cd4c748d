// SPDX-License-Identifier: GPL-2.0-only
//! A ring of tasks that pass a token through pipes, and tasks that yield to each other. They show the costs of wakeups,
//! sleeps and switches, and of lost entries of TLBs and caches (lat_ctx of LMbench).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};

use super::array::{Array, LINE, Pages, touch};
use super::place::{on, pin};
use super::reading::Batch;

/// The tasks that pass the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passers {
    /// Threads of one process, which share one array.
    Threads,
    /// Processes, with an array each.
    Processes,
}

/// A ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The tasks that pass the token.
    pub passers: Passers,
    /// Their number. A single task passes the token to itself, without a switch.
    pub tasks: usize,
    /// Bytes that each reads whenever it has the token: 0, or a power of two of at least a line.
    pub bytes: usize,
    /// They are SCHED_BATCH: a wakeup never preempts.
    pub batch: bool,
    /// Their CPUs: task n runs on the nth of the list, cyclically.
    pub cpus: Vec<usize>,
}

/// Approximate length of a repetition: much less than other tasks' turns on the CPU.
const SAMPLE_NS: u128 = 500_000;
/// Hops before the first repetition.
const WARM_UP: usize = 300;

/// One task's ends, and the words that it reads.
struct Task<'a> {
    read: OwnedFd,
    write: OwnedFd,
    words: &'a [u64],
    lines: usize,
}

impl Task<'_> {
    /// Receives the token, works, passes it on. False: there is no token any more.
    fn pass(&self) -> bool {
        let mut token = [0u8];
        if !matches!(rustix::io::read(&self.read, &mut token[..]), Ok(1)) {
            return false;
        }
        if self.lines > 0 {
            touch(self.words, self.lines);
        }
        matches!(rustix::io::write(&self.write, &token), Ok(1))
    }
}

/// Times of a hop, in ns, of so many repetitions.
pub fn hops(ring: &Ring, samples: usize) -> io::Result<Batch> {
    let (first, ring) = (ring.cpus[0], ring.clone());
    on(first, move || {
        be_batch(ring.batch)?;
        let canary_ns = canary_ns();
        let samples = match ring.passers {
            Passers::Threads => among_threads(&ring, samples)?,
            Passers::Processes => among_processes(&ring, samples)?,
        };
        Ok(Batch { samples, canary_ns: canary_ns.max(self::canary_ns()) })
    })?
}

/// A fixed piece of kernel work, which shows the present speed of the CPU.
fn canary_ns() -> f64 {
    const CALLS: u32 = 400;
    let once = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..3).map(|_| once()).fold(f64::MAX, f64::min)
}

fn be_batch(batch: bool) -> io::Result<()> {
    if !batch {
        return Ok(());
    }
    // SAFETY: plain numbers; zeros are the priority that this class has
    let done = unsafe {
        let nothing: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const nothing)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The ends that each task reads from and writes to.
fn ends(tasks: usize) -> io::Result<Vec<(OwnedFd, OwnedFd)>> {
    let pipes = (0..tasks).map(|_| Ok(pipe_with(PipeFlags::CLOEXEC)?));
    let (reads, mut writes): (Vec<OwnedFd>, Vec<OwnedFd>) =
        pipes.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
    writes.rotate_left(1);
    Ok(reads.into_iter().zip(writes).collect())
}

fn among_threads(ring: &Ring, samples: usize) -> io::Result<Vec<f64>> {
    let array = Array::new(ring.bytes, Pages::Small)?;
    let mut tasks: Vec<Task> = ends(ring.tasks)?
        .into_iter()
        .map(|(read, write)| Task { read, write, words: array.words(), lines: ring.bytes / LINE })
        .collect();
    let first = tasks.remove(0);
    thread::scope(|scope| {
        for (at, task) in tasks.into_iter().enumerate() {
            let cpu = ring.cpus[(at + 1) % ring.cpus.len()];
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, move || {
                // A task that cannot be pinned ends the ring: its pipe closes.
                if pin(cpu).is_ok() {
                    while task.pass() {}
                }
            })?;
        }
        let clocks = Clocks::of(ring, &[]);
        time(first, ring.tasks, samples, &clocks)
    })
}

fn among_processes(ring: &Ring, samples: usize) -> io::Result<Vec<f64>> {
    let mut array = Array::new(ring.bytes, Pages::Small)?;
    // Waited for last, when the pipes are closed and the children end.
    let mut children = Children(Vec::new());
    let mut ends: Vec<Option<(OwnedFd, OwnedFd)>> =
        ends(ring.tasks)?.into_iter().map(Some).collect();
    let lines = ring.bytes / LINE;
    for at in 1..ring.tasks {
        let cpu = ring.cpus[at % ring.cpus.len()];
        // SAFETY: the child makes system calls and reads memory, and never returns: it needs no lock that another
        // thread held
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                let own = ends[at].take();
                // Other tasks' ends, if kept open, would prevent the ring from ending.
                ends.clear();
                // Writing makes the pages its own.
                array.words_mut().fill(1);
                if let Some((read, write)) = own {
                    let _ = set_parent_process_death_signal(Some(Signal::KILL));
                    let task = Task { read, write, words: array.words(), lines };
                    if pin(cpu).is_ok() {
                        while task.pass() {}
                    }
                }
                // SAFETY: ends this process at once; nothing of the parent's is flushed twice
                unsafe { libc::_exit(0) }
            }
            pid => children.0.extend(Pid::from_raw(pid)),
        }
    }
    let first = ends[0].take();
    ends.clear();
    let Some((read, write)) = first else { return Ok(Vec::new()) };
    // Writing makes its pages its own, as the children's are; each fork has made them shared.
    array.words_mut().fill(1);
    let task = Task { read, write, words: array.words(), lines };
    let clocks = Clocks::of(ring, &children.0);
    time(task, ring.tasks, samples, &clocks)
}

/// CPU clocks of all tasks, if they share one CPU. Together they run all the time, unless another task had it.
struct Clocks(Vec<libc::clockid_t>);

impl Clocks {
    /// A repetition counts if the tasks had at least this part of the time.
    const SHARE: f64 = 0.97;
    /// Most attempts for each wanted repetition.
    const TRIES: usize = 5;

    fn of(ring: &Ring, children: &[Pid]) -> Self {
        if ring.cpus.len() > 1 { Clocks(Vec::new()) } else { Clocks::with(children) }
    }

    fn with(children: &[Pid]) -> Self {
        let clock = |child: &Pid| {
            let mut clock = 0;
            // SAFETY: the call writes the number it is given
            let error =
                unsafe { libc::clock_getcpuclockid(child.as_raw_nonzero().get(), &raw mut clock) };
            (error == 0).then_some(clock)
        };
        let own = [libc::CLOCK_PROCESS_CPUTIME_ID];
        Clocks(own.into_iter().chain(children.iter().filter_map(clock)).collect())
    }

    fn now_ns(&self) -> f64 {
        let one = |clock: &libc::clockid_t| {
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the call writes the struct it is given
            unsafe { libc::clock_gettime(*clock, &raw mut now) };
            now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
        };
        self.0.iter().map(one).sum()
    }

    /// Repeats until enough repetitions were undisturbed, or too many were disturbed. A repetition returns its time
    /// in ns.
    fn take(
        &self,
        wanted: usize,
        mut once: impl FnMut() -> io::Result<f64>,
    ) -> io::Result<Vec<f64>> {
        let mut times = Vec::with_capacity(wanted);
        for _ in 0..Clocks::TRIES * wanted {
            let before_ns = self.now_ns();
            let spent_ns = once()?;
            if self.0.is_empty() || self.now_ns() - before_ns >= Clocks::SHARE * spent_ns {
                times.push(spent_ns);
            }
            if times.len() == wanted {
                break;
            }
        }
        Ok(times)
    }
}

/// Waits for the children: without a token they end.
struct Children(Vec<Pid>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &self.0 {
            while matches!(
                waitpid(Some(*child), WaitOptions::empty()),
                Err(rustix::io::Errno::INTR)
            ) {}
        }
    }
}

/// Starts the token and times its rounds; when this task's ends close, the ring ends.
fn time(task: Task, tasks: usize, samples: usize, clocks: &Clocks) -> io::Result<Vec<f64>> {
    let broken = || io::Error::other("a ring of pipes broke");
    let warm_up = (WARM_UP / tasks).max(8);
    rustix::io::write(&task.write, &[1u8])?;
    // The first rounds make pages and fill caches; the next ones show how long a round is.
    let mut round_ns = u128::MAX;
    for _ in 0..4 {
        let start = Instant::now();
        if !(0..warm_up).all(|_| task.pass()) {
            return Err(broken());
        }
        round_ns = round_ns.min(start.elapsed().as_nanos() / warm_up as u128);
    }
    let rounds = (SAMPLE_NS / round_ns.max(1)).clamp(4, 5000) as usize;
    let times = clocks.take(samples, || {
        let start = Instant::now();
        match (0..rounds).all(|_| task.pass()) {
            true => Ok(start.elapsed().as_nanos() as f64),
            false => Err(broken()),
        }
    })?;
    Ok(times.into_iter().map(|ns| ns / (rounds * tasks) as f64).collect())
}

/// Times from one `sched_yield` of a task to its next one, divided by the number of tasks, in ns. A single task is
/// never switched.
pub fn yields(passers: Passers, tasks: usize, cpu: usize, samples: usize) -> io::Result<Batch> {
    const TURNS: usize = 300;
    on(cpu, || {
        let canary_ns = canary_ns();
        let stop = AtomicBool::new(false);
        let measure = |children: &[Pid]| {
            Clocks::with(children).take(samples, || {
                let start = Instant::now();
                (0..TURNS).for_each(|_| rustix::thread::sched_yield());
                Ok(start.elapsed().as_nanos() as f64)
            })
        };
        let times = match passers {
            Passers::Threads => thread::scope(|scope| {
                for _ in 1..tasks {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            rustix::thread::sched_yield();
                        }
                    });
                }
                let times = measure(&[]);
                stop.store(true, Ordering::Relaxed);
                times
            }),
            Passers::Processes => {
                let children = yielding(tasks - 1)?;
                let times = measure(&children.0);
                for child in &children.0 {
                    rustix::process::kill_process(*child, Signal::KILL)?;
                }
                times
            }
        }?;
        let samples = times.into_iter().map(|ns| ns / (TURNS * tasks) as f64).collect();
        Ok(Batch { samples, canary_ns: canary_ns.max(self::canary_ns()) })
    })?
}

/// Processes that only yield, until they are killed.
fn yielding(count: usize) -> io::Result<Children> {
    let mut children = Children(Vec::new());
    let parent = rustix::process::getpid();
    for _ in 0..count {
        // SAFETY: as in `among_processes`
        match unsafe { libc::fork() } {
            -1 => {
                for child in &children.0 {
                    let _ = rustix::process::kill_process(*child, Signal::KILL);
                }
                return Err(io::Error::last_os_error());
            }
            0 => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                // A parent that had ended before sends no signal. Checked once: repeated checks would be part of the
                // measurement.
                if rustix::process::getppid() != Some(parent) {
                    // SAFETY: as in `among_processes`
                    unsafe { libc::_exit(0) }
                }
                loop {
                    rustix::thread::sched_yield();
                }
            }
            pid => children.0.extend(Pid::from_raw(pid)),
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::super::place;
    use super::*;

    #[test]
    fn a_ring_turns_with_threads_and_with_processes() {
        let cpu = place().unwrap().cpus[0];
        for passers in [Passers::Threads, Passers::Processes] {
            for tasks in [1, 2, 5] {
                for (bytes, batch) in [(0, true), (8192, false)] {
                    let ring = Ring { passers, tasks, bytes, batch, cpus: vec![cpu] };
                    let batch = hops(&ring, 3).unwrap();
                    // On a busy machine there may be no undisturbed one.
                    assert!(batch.samples.len() <= 3);
                    assert!(batch.samples.iter().all(|hop| *hop > 0.0), "{ring:?}");
                }
            }
            assert!(yields(passers, 2, cpu, 2).unwrap().samples.len() <= 2);
        }
    }
}
