// SPDX-License-Identifier: GPL-2.0-only
//! One run of the workload under one policy: bare, then observed.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use live::Observer;
use policy::Topology;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use trace::Outcome;

use super::machine::{APPLETS, PATH};
use super::{Host, Run, load};
use crate::job::{Job, JobWorkload, Measured, Message};

/// What the workload prints is kept up to this many bytes.
const OUTPUT_MAX: usize = 64 << 10;
const OUTPUT: &str = "/run/output";

/// Measures one run.
pub(crate) fn one(
    host: &mut Host,
    job: &Job,
    run: &Run<'_>,
    topology: &Topology,
) -> anyhow::Result<Measured> {
    tell(host, run, "alone")?;
    let mut attached = load(run, topology)?;
    settle();
    let bare = execute(job)?;
    verify(&mut attached)?;
    let outcome = Outcome {
        policy: run.policy.label.clone(),
        run: run.run,
        boot: run.boot,
        elapsed_ns: bare.end_ns - bare.start_ns,
        output: bare.output,
        extra: bare.usage.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        ..Outcome::default()
    };
    let mut measured = Measured { outcome, recording: None, record_bytes: 0 };
    if job.observe {
        tell(host, run, "observed")?;
        let observer = Observer::attach(topology.llc.len())?;
        settle();
        let executed = execute(job)?;
        settle();
        let (recording, records) = observer.finish(executed.start_ns, executed.end_ns)?;
        host.send_records(records.as_slice())?;
        measured.record_bytes = records.as_slice().len();
        measured.recording = Some(recording);
        verify(&mut attached)?;
    }
    settle();
    if let Some(attached) = attached {
        attached.detach()?;
    }
    Ok(measured)
}

fn tell(host: &mut Host, run: &Run<'_>, how: &str) -> anyhow::Result<()> {
    let text = format!("{} run {} {how}", run.policy.label, run.run + 1);
    host.tell(&Message::Step { text })
}

fn verify(attached: &mut Option<live::Attached>) -> anyhow::Result<()> {
    attached.as_mut().map_or(Ok(()), live::Attached::verify)
}

/// Lets deferred work of the last run end: freeing memory, RCU, dying tasks.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

/// What one execution came to.
struct Executed {
    start_ns: u64,
    end_ns: u64,
    output: String,
    usage: Vec<(&'static str, f64)>,
}

fn execute(job: &Job) -> anyhow::Result<Executed> {
    let limit = Duration::from_secs_f64(job.limit_s);
    let JobWorkload::Command { program, argv, folder } = &job.workload else {
        bail!("the guest cannot run this workload");
    };
    let output = File::create(OUTPUT)?;
    let mut command = Command::new(program);
    command.arg0(&argv[0]).args(&argv[1..]).current_dir(folder);
    command.env_clear().env("PATH", format!("{PATH}:{APPLETS}"));
    command.env("HOME", "/tmp").env("LANG", "C.UTF-8").env("TERM", "dumb");
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    // a session of its own, as a terminal or a service manager would start it
    // SAFETY: setsid may be called between fork and exec
    unsafe { command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(Into::into)) };
    let before = usage();
    let start_ns = now_ns();
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let ended = wait(&child, limit)?;
    let end_ns = now_ns();
    let output = fs::read(OUTPUT)?;
    let output = String::from_utf8_lossy(&output[output.len().saturating_sub(OUTPUT_MAX)..]);
    let output = output.into_owned();
    let last = || output.trim_end().lines().next_back().unwrap_or("no output").to_string();
    match ended {
        Some(0) => {}
        Some(status) => bail!("{} failed with status {status}: {}", argv[0], last()),
        None => bail!("{} did not end within {} s of guest time: {}", argv[0], job.limit_s, last()),
    }
    let used =
        usage().into_iter().zip(before).map(|((name, after), (_, before))| (name, after - before));
    let usage = used.collect();
    clear();
    Ok(Executed { start_ns, end_ns, output, usage })
}

/// The child's exit status, 128 and more for a signal; None where the limit passed.
fn wait(child: &Child, limit: Duration) -> anyhow::Result<Option<i32>> {
    let pid = Pid::from_child(child);
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = rustix::time::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
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
fn usage() -> Vec<(&'static str, f64)> {
    // SAFETY: all zeroes is a valid rusage, and the call writes it whole
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    vec![
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
