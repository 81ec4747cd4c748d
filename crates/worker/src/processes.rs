// SPDX-License-Identifier: GPL-2.0-only
//! Starts the processes of a workload, opens the gate, stops them in time and leaves none behind.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, pidfd_open,
    set_parent_process_death_signal, setrlimit, waitpid,
};
use rustix::thread::sched_getaffinity;
use workload::Workload;

use crate::burn::{timespec, wall_ns};
use crate::channel::Channel;
use crate::error::Error;
use crate::groups::Groups;
use crate::report::{Report, TaskReport};
use crate::shared::{Shared, Slot};
use crate::task::{Context, FAILURES, THREAD, fail};

/// Stack of a task's thread: its steps nest only as deep as their loops.
const STACK_BYTES: usize = 128 << 10;
/// How often sleeping threads are signalled again when all must end.
const NUDGE_NS: u64 = 10_000_000;
/// Signals before threads are killed.
const NUDGES_MAX: u32 = 500;

/// Runs a workload to its end, or for its duration.
///
/// # Errors
/// Says which task failed at which step; all processes are gone then.
pub fn run(workload: &Workload) -> Result<Report, Error> {
    check_cpus(workload)?;
    let system = |what: &'static str| move |cause: io::Error| Error::System { what, cause };
    let shared = Shared::new(workload.objects.len(), workload.tasks.len())
        .map_err(system("map shared memory"))?;
    raise_open_files();
    let channels: Vec<Option<Channel>> = workload
        .objects
        .iter()
        .map(Channel::open)
        .collect::<io::Result<_>>()
        .map_err(system("open the workload's channels"))?;
    // Dropped last: a group can be removed only after its tasks.
    let groups = Groups::make(workload)?;
    let context = Context { workload, shared: &shared, channels: &channels, groups: &groups };
    let mut processes = Processes { alive: Vec::new(), shared: &shared };
    for tasks in by_process(workload).values() {
        processes.start(&context, tasks).map_err(system("start a process"))?;
    }
    processes.open_gate(workload.tasks.len() as u32)?;
    let start_ns = shared.header().start_ns.load(Ordering::Acquire);
    processes.supervise(workload.duration_ns.map(|ns| start_ns + ns))?;
    report(workload, &shared, start_ns)
}

fn by_process(workload: &Workload) -> BTreeMap<usize, Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, task) in workload.tasks.iter().enumerate() {
        groups.entry(task.process).or_default().push(at);
    }
    groups
}

/// Before anything starts, finds tasks with no CPU of their mask on this machine.
fn check_cpus(workload: &Workload) -> Result<(), Error> {
    let here = sched_getaffinity(None)
        .map_err(|e| Error::System { what: "read the CPUs of this process", cause: e.into() })?;
    for task in &workload.tasks {
        let online = |cpu: &usize| *cpu < rustix::thread::CpuSet::MAX_CPU && here.is_set(*cpu);
        if let Some(cpus) = task.masks().into_iter().find(|cpus| !cpus.iter().any(online)) {
            return Err(Error::NoCpu { task: task.name.clone(), cpus: cpus.clone() });
        }
    }
    Ok(())
}

/// Many channels need many descriptors; if the hard limit is too low, opening them fails with an error.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

struct Process {
    pid: Pid,
    fd: OwnedFd,
}

/// The living children. Dropped early, it kills and reaps them.
struct Processes<'s> {
    alive: Vec<Process>,
    shared: &'s Shared,
}

impl Processes<'_> {
    fn start(&mut self, context: &Context, tasks: &[usize]) -> io::Result<()> {
        let parent = rustix::process::getpid();
        // SAFETY: the child runs only `child`, which ends it; glibc's fork keeps its own allocator
        // usable there even if the caller has other threads.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child(context, tasks, parent),
            pid => {
                // fork gives a positive number here.
                let pid = Pid::from_raw(pid).ok_or_else(io::Error::last_os_error)?;
                let fd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| reap_now(pid))?;
                self.alive.push(Process { pid, fd });
                Ok(())
            }
        }
    }

    /// Starts all tasks together, once all are ready.
    fn open_gate(&mut self, tasks: u32) -> Result<(), Error> {
        let header = self.shared.header();
        loop {
            let ready = header.ready.load(Ordering::Acquire);
            if ready == tasks || header.stopped() {
                break;
            }
            let a_moment = timespec(NUDGE_NS);
            let flags = rustix::thread::futex::Flags::empty();
            let _ = rustix::thread::futex::wait(&header.ready, flags, ready, Some(&a_moment));
            if ready == header.ready.load(Ordering::Acquire) {
                self.reap()?;
            }
        }
        header.start_ns.store(wall_ns(), Ordering::Release);
        header.open.store(1, Ordering::Release);
        crate::sync::wake(&header.open, u32::MAX >> 1);
        Ok(())
    }

    /// Waits for all to end, or ends them at the deadline.
    fn supervise(&mut self, deadline_ns: Option<u64>) -> Result<(), Error> {
        let header = self.shared.header();
        let mut nudges = 0;
        while !self.alive.is_empty() {
            let now = wall_ns();
            if deadline_ns.is_some_and(|deadline| now >= deadline) {
                header.stop.store(1, Ordering::Release);
            }
            let timeout_ns = if header.stopped() {
                if nudges == NUDGES_MAX {
                    return Ok(()); // Dropping `self` kills what is left.
                }
                nudges += 1;
                self.nudge();
                Some(NUDGE_NS)
            } else {
                deadline_ns.map(|deadline| deadline - now)
            };
            self.wait(timeout_ns);
            self.reap()?;
        }
        Ok(())
    }

    fn wait(&self, timeout_ns: Option<u64>) {
        let mut fds: Vec<PollFd> =
            self.alive.iter().map(|p| PollFd::new(&p.fd, PollFlags::IN)).collect();
        // Interrupted or not, the caller looks again.
        let _ = poll(&mut fds, timeout_ns.map(timespec).as_ref());
    }

    /// Makes sleeping threads look at the stop flag: the signal does nothing but interrupt.
    fn nudge(&self) {
        let alive = |slot: &&crate::shared::Slot| slot.end_ns.load(Ordering::Acquire) == 0;
        for slot in self.shared.slots().filter(alive) {
            let pid = slot.pid.load(Ordering::Relaxed) as i32;
            let tid = slot.tid.load(Ordering::Relaxed) as i32;
            if self.alive.iter().any(|p| p.pid.as_raw_nonzero().get() == pid) {
                // SAFETY: plain numbers; an error is expected for a thread that is gone.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGUSR1) };
            }
        }
    }

    /// Takes note of children that have ended; one that was killed is an error.
    fn reap(&mut self) -> Result<(), Error> {
        let mut died = None;
        self.alive.retain(|process| match waitpid(Some(process.pid), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => true,
            Ok(Some((_, status))) => {
                if status.exit_status() != Some(0) {
                    let pid = process.pid.as_raw_nonzero().get() as u32;
                    let how = match status.terminating_signal() {
                        Some(signal) => format!("signal {signal}"),
                        None => format!("status {}", status.exit_status().unwrap_or_default()),
                    };
                    died = Some(Error::Died { pid, how });
                }
                false
            }
            Err(_) => false,
        });
        died.map_or(Ok(()), Err)
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        for process in &self.alive {
            reap_now(process.pid);
        }
    }
}

fn reap_now(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
}

/// The life of a child process: its tasks, one thread each, the first on the thread it has.
fn child(context: &Context, tasks: &[usize], parent: Pid) -> ! {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        if rustix::process::getppid() != Some(parent) {
            return; // The parent is gone already.
        }
        ignore_nudges();
        thread::scope(|scope| {
            for at in &tasks[1..] {
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                if let Err(e) = builder.spawn_scoped(scope, || context.live(*at)) {
                    let errno = Errno::from_io_error(&e).unwrap_or(Errno::AGAIN);
                    fail(context.shared, *at, THREAD, errno);
                    break;
                }
            }
            context.live(tasks[0]);
        });
    }));
    // SAFETY: ends this process at once; data in the parent's buffers is not ours to flush.
    unsafe { libc::_exit(i32::from(lived.is_err())) }
}

/// The nudge's signal interrupts system calls and does nothing else.
fn ignore_nudges() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int);
    // SAFETY: a zeroed sigaction has an empty mask and no flags; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

fn report(workload: &Workload, shared: &Shared, start_ns: u64) -> Result<Report, Error> {
    let mut report = Report { start_ns, ..Report::default() };
    let mut end_ns = start_ns;
    for (at, task) in workload.tasks.iter().enumerate() {
        let slot = shared.slot(at);
        let failure = slot.failure.load(Ordering::Acquire);
        if failure != 0 {
            let cause = io::Error::from_raw_os_error(slot.errno.load(Ordering::Relaxed));
            let what = FAILURES[failure as usize - 1];
            return Err(Error::Task { task: task.name.clone(), what, cause });
        }
        end_ns = end_ns.max(slot.end_ns.load(Ordering::Acquire));
        report.tasks.push(TaskReport {
            name: task.name.clone(),
            tid: slot.tid.load(Ordering::Relaxed),
            pid: slot.pid.load(Ordering::Relaxed),
            cpu_ns: slot.cpu_ns.load(Ordering::Relaxed),
            work_ns: slot.work_ns.load(Ordering::Relaxed),
            steps: slot.steps.load(Ordering::Relaxed),
            resident: resident(slot),
        });
    }
    report.elapsed_ns = end_ns - start_ns;
    Ok(report)
}

/// By node, up to the last node with any.
fn resident(slot: &Slot) -> Vec<u64> {
    let mut resident: Vec<u64> =
        slot.resident.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
    resident.truncate(resident.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1));
    resident
}
