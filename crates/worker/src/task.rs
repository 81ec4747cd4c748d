// SPDX-License-Identifier: GPL-2.0-only
//! One task: prepares its thread, waits for the start, does its steps, reports.

use std::ffi::CString;
use std::fs::File;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::process::{getpid, setpriority_process};
use rustix::thread::{
    ClockId, CpuSet, clock_nanosleep_absolute, gettid, sched_getaffinity, sched_setaffinity,
    sched_yield, set_name,
};
use workload::{Fair, Object, RealTime, Step, Task, Workload};

use crate::burn::{Burner, cpu_ns, timespec, wall_ns};
use crate::channel::{Broken, Channel};
use crate::groups::Groups;
use crate::memory::{self, Memory};
use crate::shared::{Header, Shared, Slot};
use crate::sync::{self, Stopped};

/// The possible failures of a task; its slot holds an index, from 1.
pub(crate) const FAILURES: &[&str] = &[
    "set its CPUs",
    "set its nice value",
    "write",
    "read",
    "start its thread",
    "enter its cgroup",
    "bind its memory to its nodes",
    "get its memory",
    "write to /dev/null",
    "become real-time (it needs root, or `ulimit -r` of its priority)",
];
pub(crate) const AFFINITY: u32 = 1;
pub(crate) const NICE: u32 = 2;
const WRITE: u32 = 3;
const READ: u32 = 4;
pub(crate) const THREAD: u32 = 5;
const GROUP: u32 = 6;
const NODES: u32 = 7;
const MEMORY: u32 = 8;
const DEVICE: u32 = 9;
const REALTIME: u32 = 10;

/// Context that all tasks of a workload share.
pub(crate) struct Context<'w> {
    pub(crate) workload: &'w Workload,
    pub(crate) shared: &'w Shared,
    /// By object; None if it is not a channel.
    pub(crate) channels: &'w [Option<Channel>],
    pub(crate) groups: &'w Groups,
}

/// Why a task ends before its last step.
enum Halt {
    Stopped,
    Failed(u32, Errno),
}

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Halt {
        Halt::Stopped
    }
}

impl Context<'_> {
    /// The life of the calling thread as this task.
    pub(crate) fn live(&self, at: usize) {
        let slot = self.shared.slot(at);
        slot.pid.store(getpid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        slot.tid.store(gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        let task = &self.workload.tasks[at];
        let anywhere = sched_getaffinity(None).unwrap_or_default();
        let memory = self.prepare(task);
        let lived = memory.as_ref().map_or(Ok(()), |_| self.at_the_gate(at, slot, anywhere));
        let end_ns = wall_ns();
        match memory {
            Ok(Some(memory)) => slot
                .resident
                .iter()
                .zip(memory.resident())
                .for_each(|(told, bytes)| told.store(bytes, Ordering::Relaxed)),
            Ok(None) => {}
            Err(halt) => self.end(at, halt),
        }
        lived.unwrap_or_else(|halt| self.end(at, halt));
        slot.end_ns.store(end_ns, Ordering::Release);
    }

    fn end(&self, at: usize, halt: Halt) {
        if let Halt::Failed(what, errno) = halt {
            fail(self.shared, at, what, errno);
        }
    }

    /// All preparations for the start. Returns the memory that the task asks for.
    fn prepare(&self, task: &Task) -> Result<Option<Memory>, Halt> {
        let short: Vec<u8> = task.name.bytes().filter(|b| *b != 0).take(15).collect();
        // A thread without its name still works.
        let _ = CString::new(short).map(|name| set_name(&name));
        if let Some(group) = task.group {
            self.groups.enter(group).map_err(|e| Halt::Failed(GROUP, e))?;
        }
        if let Some(cpus) = &task.cpus {
            place(&set_of(cpus))?;
        }
        if task.nice != 0 {
            setpriority_process(Some(gettid()), task.nice.into())
                .map_err(|e| Halt::Failed(NICE, e))?;
        }
        let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::NOMEM);
        set_policy(task).map_err(|e| Halt::Failed(REALTIME, errno(e)))?;
        // Bound until its memory is written.
        let bound = task.nodes.as_ref().map(|nodes| memory::bind(nodes));
        let _bound = bound.transpose().map_err(|e| Halt::Failed(NODES, errno(e)))?;
        let bytes = task.memory.map_or(0, |demand| demand.bytes);
        Memory::new(bytes).map_err(|e| Halt::Failed(MEMORY, errno(e)))
    }

    fn at_the_gate(&self, at: usize, slot: &Slot, anywhere: CpuSet) -> Result<(), Halt> {
        let (header, task) = (self.shared.header(), &self.workload.tasks[at]);
        header.ready.fetch_add(1, Ordering::AcqRel);
        sync::wake(&header.ready, 1);
        if task.forked {
            while slot.released.load(Ordering::Acquire) == 0 {
                sync::wait(header, &slot.released, 0)?;
            }
        }
        while header.open.load(Ordering::Acquire) == 0 {
            sync::wait(header, &header.open, 0)?;
        }
        let before = cpu_ns();
        let mut run = Run {
            context: self,
            header,
            slot,
            burner: Burner::new(),
            timers: vec![None; self.workload.objects.len()],
            origin_ns: header.start_ns.load(Ordering::Acquire) + task.delay_ns,
            cpus: task.cpus.clone(),
            anywhere,
            buffer: Vec::new(),
            device: None,
        };
        let done = run.life(task);
        slot.cpu_ns.store(cpu_ns() - before, Ordering::Relaxed);
        done
    }
}

/// Gives the calling thread the task's scheduling policy. Its nice value stays.
fn set_policy(task: &Task) -> std::io::Result<()> {
    let policy = match (task.realtime, task.fair) {
        (RealTime::Fifo(_), _) => libc::SCHED_FIFO,
        (RealTime::Rr(_), _) => libc::SCHED_RR,
        (RealTime::No, Fair::Normal) => return Ok(()),
        (RealTime::No, Fair::Batch) => libc::SCHED_BATCH,
        (RealTime::No, Fair::Idle) => libc::SCHED_IDLE,
    };
    let parameter = libc::sched_param { sched_priority: task.realtime.priority().into() };
    // SAFETY: the parameter outlives the call, which keeps no pointer to it
    match unsafe { libc::sched_setscheduler(0, policy, &parameter) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Notes why a task ended, and ends all.
pub(crate) fn fail(shared: &Shared, at: usize, what: u32, errno: Errno) {
    let slot = shared.slot(at);
    slot.errno.store(errno.raw_os_error(), Ordering::Relaxed);
    slot.failure.store(what, Ordering::Release);
    shared.header().stop.store(1, Ordering::Release);
}

/// The state of a task in its steps.
struct Run<'a> {
    context: &'a Context<'a>,
    header: &'a Header,
    slot: &'a Slot,
    burner: Burner,
    /// The last expiry of each timer, on the monotonic clock.
    timers: Vec<Option<u64>>,
    /// The workload's start plus the task's delay.
    origin_ns: u64,
    /// CPUs it may run on; None is its CPUs from before its first own change.
    cpus: Option<Vec<usize>>,
    anywhere: CpuSet,
    /// The buffer it writes, and the device it writes to; both exist once needed.
    buffer: Vec<u8>,
    device: Option<File>,
}

impl Run<'_> {
    fn life(&mut self, task: &Task) -> Result<(), Halt> {
        if task.delay_ns > 0 {
            self.sleep_until(self.origin_ns)?;
        }
        self.steps(&task.steps)
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Halt> {
        for step in steps {
            if self.header.stopped() {
                return Err(Halt::Stopped);
            }
            match step {
                Step::Repeat { times, steps } => self.repeat(*times, steps)?,
                step => {
                    self.step(step)?;
                    add(&self.slot.steps, 1);
                }
            }
        }
        Ok(())
    }

    fn repeat(&mut self, times: Option<u64>, steps: &[Step]) -> Result<(), Halt> {
        let mut done = 0;
        while times.is_none_or(|times| done < times) {
            self.steps(steps)?;
            if steps.is_empty() {
                return Ok(());
            }
            done += 1;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Halt> {
        let (shared, header) = (self.context.shared, self.header);
        let object = |id: usize| shared.object(id);
        match step {
            Step::Run { work_ns } => {
                let burnt = self.burner.burn(*work_ns, || header.stopped());
                add(&self.slot.work_ns, burnt.min(*work_ns));
            }
            Step::Runtime { wall_ns: length } => {
                self.burner.burn_until(wall_ns() + length, || header.stopped());
            }
            Step::Mem { bytes, buffer } => self.fill(*bytes as usize, *buffer as usize),
            Step::Io { bytes, buffer } => {
                self.write_device(*bytes as usize, *buffer as usize)
                    .map_err(|e| Halt::Failed(DEVICE, e))?;
            }
            Step::Sleep { ns } => self.sleep_until(wall_ns() + ns)?,
            Step::Timer { timer, period_ns, relative } => {
                self.timer(*timer, *period_ns, *relative)?;
            }
            Step::Lock(mutex) => sync::lock(header, object(*mutex))?,
            Step::Unlock(mutex) => sync::unlock(object(*mutex)),
            Step::Wait { condition, mutex } => {
                sync::condition_wait(header, object(*condition), object(*mutex))?;
            }
            Step::Signal(condition) => sync::signal(object(*condition), 1),
            Step::Broadcast(condition) => sync::signal(object(*condition), u32::MAX >> 1),
            Step::Barrier(id) => {
                if let Object::Barrier { parties, spin_ns } = self.context.workload.objects[*id] {
                    sync::barrier(header, object(*id), parties, spin_ns)?;
                }
            }
            Step::Await { flag, up } => sync::await_flag(header, object(*flag), *up)?,
            Step::Set { flag, up } => object(*flag).a.store((*up).into(), Ordering::Release),
            Step::Suspend(id) => sync::suspend(header, object(*id))?,
            Step::Resume(id) => sync::signal(object(*id), u32::MAX >> 1),
            Step::Yield => sched_yield(),
            Step::Cpus(cpus) if *cpus == self.cpus => {}
            Step::Cpus(cpus) => {
                place(&cpus.as_deref().map_or(self.anywhere, set_of))?;
                self.cpus.clone_from(cpus);
            }
            // On real cores, real programs decide about stalls and clocks.
            Step::Stalled { .. } | Step::Mpki { .. } | Step::Vector(_) => {}
            Step::Write { channel, bytes } => self.message(*channel, WRITE, *bytes)?,
            Step::Read { channel, bytes } => self.message(*channel, READ, *bytes)?,
            Step::Fork(task) => {
                let released = &shared.slot(*task).released;
                released.store(1, Ordering::Release);
                sync::wake(released, 1);
            }
            // A recording's waits: no file has those.
            Step::Connect { .. }
            | Step::Accept { .. }
            | Step::Give { .. }
            | Step::Contend { .. }
            | Step::Take(_)
            | Step::TakeWithin { .. }
            | Step::Repeat { .. } => {}
        }
        Ok(())
    }

    fn buffer(&mut self, size: usize) -> &mut [u8] {
        self.buffer.resize(self.buffer.len().max(size), 0);
        &mut self.buffer[..size]
    }

    fn fill(&mut self, mut bytes: usize, size: usize) {
        while bytes > 0 && !self.header.stopped() {
            let part = bytes.min(size);
            std::hint::black_box(&mut self.buffer(size)[..part]).fill(0);
            bytes -= part;
        }
    }

    fn write_device(&mut self, mut bytes: usize, size: usize) -> Result<(), Errno> {
        let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let device = match self.device.take() {
            Some(device) => device,
            None => File::options().write(true).open("/dev/null").map_err(errno)?,
        };
        while bytes > 0 && !self.header.stopped() {
            let part = bytes.min(size);
            bytes -= rustix::io::write(&device, &self.buffer(size)[..part])?;
        }
        self.device = Some(device);
        Ok(())
    }

    fn message(&mut self, channel: usize, what: u32, bytes: u32) -> Result<(), Halt> {
        let Some(channel) = &self.context.channels[channel] else {
            return Err(Halt::Failed(what, Errno::BADF));
        };
        let (bytes, stopped) = (bytes as usize, || self.header.stopped());
        let done = match what {
            WRITE => channel.write(bytes, stopped),
            _ => channel.read(bytes, stopped),
        };
        done.map_err(|broken| match broken {
            Broken::Stopped => Halt::Stopped,
            Broken::Failed(errno) => Halt::Failed(what, errno),
        })
    }

    /// As the model's [`Step::Timer`] says.
    fn timer(&mut self, timer: usize, period_ns: u64, relative: bool) -> Result<(), Halt> {
        let next = self.timers[timer].unwrap_or(self.origin_ns) + period_ns;
        self.timers[timer] = Some(next);
        let now = wall_ns();
        if now < next {
            return self.sleep_until(next);
        }
        if relative {
            self.timers[timer] = Some(now);
        }
        Ok(())
    }

    fn sleep_until(&self, until_ns: u64) -> Result<(), Halt> {
        let until = timespec(until_ns);
        while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {
            if self.header.stopped() {
                return Err(Halt::Stopped);
            }
        }
        Ok(())
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    set
}

fn place(set: &CpuSet) -> Result<(), Halt> {
    sched_setaffinity(None, set).map_err(|e| Halt::Failed(AFFINITY, e))
}

/// Only the task itself writes, so this needs no locked instruction.
fn add(counter: &std::sync::atomic::AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_the_fair_policy_of_its_task() {
        let policy_of = |fair| {
            let lives = move || {
                set_policy(&Task { fair, ..Task::default() }).unwrap();
                // SAFETY: 0 is the calling thread
                unsafe { libc::sched_getscheduler(0) }
            };
            std::thread::spawn(lives).join().unwrap()
        };
        let all = [Fair::Normal, Fair::Batch, Fair::Idle].map(policy_of);
        assert_eq!(all, [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE]);
    }
}
