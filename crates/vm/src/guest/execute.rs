// SPDX-License-Identifier: GPL-2.0-only
//! One execution of the workload: a command of the user's, or our worker on rt-app JSON.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};
use rustix::time::{ClockId, Timespec, clock_gettime};
use trace::Tid;
use worker::Report;

use super::machine::{APPLETS, PATH, busybox, mount_tmpfs};
use crate::job::{JOB, Job, JobWorkload};

/// The argument behind `guest` that makes this program the worker.
pub(crate) const WORKER: &str = "worker";

/// What the workload prints is kept up to this many bytes, from its end.
const OUTPUT_MAX: usize = 64 << 10;
const OUTPUT: &str = "/run/output";
const REPORT: &str = "/run/report.json";
/// Shared memory is a file system of its own.
const SHARED: &str = "/dev/shm";
/// Paths of `--with`, untouched.
const KEPT: &str = "/.kept";

/// What one execution came to.
pub(crate) struct Executed {
    /// On CLOCK_MONOTONIC, as is the end.
    pub start_ns: u64,
    pub end_ns: u64,
    pub output: String,
    usage: Usage,
    report: Option<Report>,
}

type Usage = [(&'static str, f64); 4];

/// Runs the workload once and leaves nothing of it behind.
pub(crate) fn execute(job: &Job) -> anyhow::Result<Executed> {
    restore(&job.workload)?;
    let (mut command, name) = command(&job.workload);
    let output = File::create(OUTPUT)?;
    command.env_clear().env("PATH", format!("{PATH}:{APPLETS}"));
    command.env("HOME", "/tmp").env("LANG", "C.UTF-8").env("TERM", "dumb");
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    // a session of its own, as a terminal or a service manager would start it
    // SAFETY: setsid may be called between fork and exec
    unsafe { command.pre_exec(|| setsid().map(|_| ()).map_err(Into::into)) };
    let before = usage();
    let start_ns = now_ns();
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let ended = wait(&child, Duration::from_secs_f64(job.limit_s))?;
    let end_ns = now_ns();
    let mut usage = usage();
    for ((_, after), (_, before)) in usage.iter_mut().zip(before) {
        *after -= before;
    }
    clear();
    let output = fs::read(OUTPUT)?;
    let output = String::from_utf8_lossy(&output[output.len().saturating_sub(OUTPUT_MAX)..]);
    let last = || output.trim_end().lines().next_back().unwrap_or("no output").to_string();
    match ended {
        Some(0) => {}
        Some(status @ 129..=192) => {
            bail!("{name} failed with status {status} (signal {}): {}", status - 128, last())
        }
        Some(status) => bail!("{name} failed with status {status}: {}", last()),
        None => bail!("{name} did not end within {} s of guest time: {}", job.limit_s, last()),
    }
    let mut executed =
        Executed { start_ns, end_ns, output: output.into_owned(), usage, report: None };
    if let JobWorkload::RtApp { .. } = job.workload {
        executed.take_report()?;
    }
    Ok(executed)
}

impl Executed {
    /// The worker knows when its tasks started together: building them is not part of the workload.
    fn take_report(&mut self) -> anyhow::Result<()> {
        let report: Report = serde_json::from_slice(&fs::read(REPORT)?)?;
        self.start_ns = report.start_ns;
        self.end_ns = report.start_ns + report.elapsed_ns;
        self.report = Some(report);
        Ok(())
    }

    /// How far each task got: the CPU time, in ns, that it was asked to burn and did.
    pub(crate) fn progress(&self) -> BTreeMap<Tid, f64> {
        let tasks = self.report.iter().flat_map(|report| &report.tasks);
        tasks.map(|task| (task.tid, task.work_ns as f64)).collect()
    }

    /// Names as the workload has them.
    pub(crate) fn names(&self) -> BTreeMap<Tid, String> {
        let tasks = self.report.iter().flat_map(|report| &report.tasks);
        tasks.map(|task| (task.tid, task.name.clone())).collect()
    }

    /// Switches as the kernel itself counts them for processes that have ended.
    pub(crate) fn counted_switches(&self) -> f64 {
        let switches = self.usage.iter().filter(|(name, _)| name.ends_with("_switches"));
        switches.map(|(_, count)| count).sum()
    }

    /// What else is known: resource usage, and the time that the program itself reports.
    pub(crate) fn extra(&self) -> BTreeMap<String, f64> {
        let usage = self.usage.iter().map(|(name, value)| (name.to_string(), *value));
        let own = own_time_s(&self.output).map(|time| ("own_time_s".to_string(), time));
        usage.chain(own).collect()
    }
}

/// Lays out files as they were packed: what one execution built must not spare the next one work.
fn restore(workload: &JobWorkload) -> anyhow::Result<()> {
    unmount(SHARED, UnmountFlags::DETACH)?;
    mount_tmpfs(SHARED)?;
    let JobWorkload::Command { with, .. } = workload else { return Ok(()) };
    for (number, path) in with.iter().enumerate() {
        let kept = format!("{KEPT}/{number}");
        match Path::new(&kept).exists() {
            true => busybox(&["rm", "-rf", path])?,
            false => {
                fs::create_dir_all(KEPT)?;
                fs::rename(path, &kept).with_context(|| format!("keeping {path}"))?;
            }
        }
        busybox(&["cp", "-a", &kept, path])?;
    }
    Ok(())
}

/// hackbench's `Time: 0.245`: how long messages took, without the creation of its processes.
fn own_time_s(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("Time: ")?.trim().parse().ok())
}

/// The child's side of a worker: runs the job's workload and writes its report.
pub(crate) fn worker() -> ! {
    let run = || {
        let job: Job = serde_json::from_slice(&fs::read(JOB)?)?;
        let JobWorkload::RtApp { name, json } = &job.workload else {
            bail!("this job has a command and no workload file");
        };
        let report = worker::run(&workload::rtapp::parse(name, json)?)?;
        fs::write(REPORT, serde_json::to_vec(&report)?)?;
        Ok(())
    };
    if let Err(error) = run() {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
    std::process::exit(0)
}

fn command(workload: &JobWorkload) -> (Command, String) {
    match workload {
        JobWorkload::Command { program, argv, folder, .. } => {
            let mut command = Command::new(program);
            command.arg0(&argv[0]).args(&argv[1..]).current_dir(folder);
            (command, argv[0].clone())
        }
        JobWorkload::RtApp { name, .. } => {
            let mut command = Command::new("/init");
            command.args(["guest", WORKER]);
            (command, name.clone())
        }
    }
}

/// The child's exit status, 128 and more for a signal; None where the limit passed.
fn wait(child: &Child, limit: Duration) -> anyhow::Result<Option<i32>> {
    let pid = Pid::from_child(child);
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let ready = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit))?;
    if ready == 0 {
        return Ok(None);
    }
    let mut status = 0;
    // SAFETY: the status outlives the call
    let reaped = unsafe { libc::waitpid(pid.as_raw_nonzero().get(), &mut status, 0) };
    anyhow::ensure!(reaped > 0, "cannot wait: {}", std::io::Error::last_os_error());
    Ok(Some(match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => 128 + libc::WTERMSIG(status),
    }))
}

/// The clock of the observer's records.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time and switches of all children waited for until now.
fn usage() -> Usage {
    // SAFETY: all zeroes is a valid rusage, and the call writes it whole
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    [
        ("children_user_s", seconds(usage.ru_utime)),
        ("children_system_s", seconds(usage.ru_stime)),
        ("children_voluntary_switches", usage.ru_nvcsw as f64),
        ("children_involuntary_switches", usage.ru_nivcsw as f64),
    ]
}

/// Ends what the workload left behind: its daemons would disturb the next run.
fn clear() {
    // SAFETY: as process 1 this spares the agent and kernel threads
    unsafe { libc::kill(-1, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: the status outlives the call
    while unsafe { libc::waitpid(-1, &mut status, 0) } > 0 {}
}

#[cfg(test)]
mod tests {
    use super::own_time_s;

    #[test]
    fn hackbench_says_how_long_its_messages_took() {
        assert_eq!(own_time_s("Running in process mode\nTime: 0.245\n"), Some(0.245));
        assert_eq!(own_time_s("no time\nTime: soon\n"), None);
    }
}
