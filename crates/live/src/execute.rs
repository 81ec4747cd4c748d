// SPDX-License-Identifier: GPL-2.0-only
//! One execution of a workload: a command, or our worker on a workload file.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, setsid,
    waitpid,
};
use rustix::time::{ClockId, Timespec, clock_gettime};
use trace::Tid;
use worker::Report;

use crate::program::{GROUP, SESSION, fields, numbered, text};
use crate::written::{LOOK, Said, Show, Written, again};

/// How often a request to stop is checked.
const LISTEN: Duration = Duration::from_millis(200);
/// Lines of a failed command's output that its error carries.
const LAST_LINES: usize = 10;

/// An execution to run.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its name in errors.
    pub name: String,
    /// The file of its standard output; only the end of the output stays in it.
    pub output: PathBuf,
    /// The file of its standard error.
    pub errors: PathBuf,
    /// The file of our worker's report, if it is our worker.
    pub report: Option<PathBuf>,
    /// It is ended after this time.
    pub limit: Duration,
    /// It is ended when this is set. None: it is never set, so nothing has to check it while the command runs.
    pub stop: Option<Arc<AtomicBool>>,
}

/// The end of an execution that was asked to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// A command that failed, or did not end in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Broken {
    /// One line, which ends with the last line of the command's output.
    pub why: String,
    /// The last lines of its output.
    pub last: Vec<String>,
}

/// The result of one execution.
#[derive(Clone, Debug)]
pub struct Executed {
    /// On CLOCK_MONOTONIC, as is the end.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The end of its standard output.
    pub output: String,
    /// The end of its standard error.
    pub errors: String,
    usage: Usage,
    report: Option<Report>,
}

type Usage = [(&'static str, f64); 4];

/// Runs the command once, in a session of its own as a terminal or a service manager would start it. Then calls
/// `clear`, which ends the processes it left behind. `show` is called with lines as they are written.
///
/// Fails if it cannot be started, fails itself ([`Broken`]) or does not end in time.
pub fn execute(
    mut command: Command,
    what: &Execution,
    clear: impl FnOnce(Pid),
    mut show: Option<Show<'_>>,
) -> anyhow::Result<Executed> {
    let Execution { name, limit, .. } = what;
    let written = Written::create(&what.output, &what.errors);
    let mut written = written.with_context(|| what.output.display().to_string())?;
    let [output, errors] = written.ends()?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    // SAFETY: setsid may be called between fork and exec
    unsafe { command.pre_exec(|| setsid().map(|_| ()).map_err(Into::into)) };
    let before = usage();
    let start_ns = now_ns();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    // Only the command keeps the files' ends open.
    drop(command);
    let stop = what.stop.as_deref();
    let ended = wait(&mut child, *limit, stop, &mut written, again(&mut show));
    let end_ns = now_ns();
    let mut usage = usage();
    for ((_, after), (_, before)) in usage.iter_mut().zip(before) {
        *after -= before;
    }
    clear(Pid::from_child(&child));
    // A command that exceeded its limit has ended now, unless `clear` has waited for it.
    let _ = child.wait();
    let said = written.finish(show)?;
    let broken = |how: String| {
        let last = said.last_lines(LAST_LINES);
        let line = last.last().map_or("no output", String::as_str);
        Broken { why: format!("{name} {how}: {line}"), last }
    };
    match ended? {
        Some(0) => {}
        Some(status @ 129..=192) => {
            bail!(broken(format!("failed with status {status} (signal {})", status - 128)))
        }
        Some(status) => bail!(broken(format!("failed with status {status}"))),
        None => bail!(broken(format!("did not end within {} s", limit.as_secs_f64()))),
    }
    let Said { output, errors, .. } = said;
    let mut executed = Executed { start_ns, end_ns, output, errors, usage, report: None };
    if let Some(report) = &what.report {
        executed.take_report(report)?;
    }
    Ok(executed)
}

/// The worker's side: runs a workload file and writes its report.
pub fn work(name: &str, file: &Path, report: &Path) -> anyhow::Result<()> {
    let json = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let done = worker::run(&workload::rtapp::parse(name, &json)?)?;
    fs::write(report, serde_json::to_vec(&done)?).with_context(|| report.display().to_string())
}

/// Ends all processes left of a command's session, in whatever process groups: for a machine with other users.
pub fn end_session(leader: Pid) {
    /// A process forked during one pass is found by the next.
    const PASSES: usize = 100;
    let session = leader.as_raw_pid().to_string();
    let is_left = |pid: &u32| {
        let stat = text(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = fields(&stat).unwrap_or_default();
        of.get(SESSION) == Some(&session.as_str()) && of.first().is_some_and(|state| *state != "Z")
    };
    // The whole group at once, or a process that forks faster than /proc is read would escape. It may be empty.
    let _ = kill_process_group(leader, Signal::KILL);
    for _ in 0..PASSES {
        let left: Vec<u32> = numbered("/proc").into_iter().filter(is_left).collect();
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends all processes but this one and one process group, and waits for them: for the first process of a guest.
pub fn end_all_but(spared: Pid) {
    let spared = spared.as_raw_pid().to_string();
    let is_left = |pid: &u32| {
        let stat = text(format!("/proc/{pid}/stat")).unwrap_or_default();
        let group = fields(&stat).and_then(|of| of.get(GROUP).map(ToString::to_string));
        // The kernel's threads are in group 0.
        *pid != std::process::id() && group.is_some_and(|group| group != "0" && group != spared)
    };
    loop {
        let left: Vec<u32> = numbered("/proc").into_iter().filter(is_left).collect();
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
            // It may have ended meanwhile, and may be the child of another one that ends.
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

impl Executed {
    /// The worker knows when its tasks started together: building them is not part of the workload.
    fn take_report(&mut self, path: &Path) -> anyhow::Result<()> {
        let report: Report = serde_json::from_slice(&fs::read(path)?)?;
        self.start_ns = report.start_ns;
        self.end_ns = report.start_ns + report.elapsed_ns;
        self.report = Some(report);
        Ok(())
    }

    /// Progress of each task: the CPU time, in ns, of the work that it was asked for and did.
    pub(crate) fn progress(&self) -> BTreeMap<Tid, f64> {
        let tasks = self.report.iter().flat_map(|report| &report.tasks);
        tasks.map(|task| (task.tid, task.work_ns as f64)).collect()
    }

    /// Bytes of each task's memory on each node at its end, for tasks that asked for memory.
    pub(crate) fn resident(&self) -> BTreeMap<Tid, Vec<u64>> {
        let tasks = self.report.iter().flat_map(|report| &report.tasks);
        let some = tasks.filter(|task| !task.resident.is_empty());
        some.map(|task| (task.tid, task.resident.clone())).collect()
    }

    /// Names of tasks in the workload.
    pub(crate) fn names(&self) -> BTreeMap<Tid, String> {
        let tasks = self.report.iter().flat_map(|report| &report.tasks);
        tasks.map(|task| (task.tid, task.name.clone())).collect()
    }

    /// Switches by the kernel's own count, for processes that have ended.
    pub(crate) fn counted_switches(&self) -> f64 {
        let switches = self.usage.iter().filter(|(name, _)| name.ends_with("_switches"));
        switches.map(|(_, count)| count).sum()
    }

    /// Further figures: resource usage, and the time that the program itself reports.
    pub(crate) fn extra(&self) -> BTreeMap<String, f64> {
        let usage = self.usage.iter().map(|(name, value)| (name.to_string(), *value));
        let own = own_time_s(&self.output).map(|time| ("own_time_s".to_string(), time));
        usage.chain(own).collect()
    }
}

/// hackbench's `Time: 0.245`: how long messages took, without the creation of its processes.
fn own_time_s(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("Time: ")?.trim().parse().ok())
}

/// The child's exit status, 128 and more for a signal; None if the limit passed.
fn wait(
    child: &mut Child,
    limit: Duration,
    stop: Option<&AtomicBool>,
    written: &mut Written,
    mut show: Option<Show<'_>>,
) -> anyhow::Result<Option<i32>> {
    let descriptor = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let started = Instant::now();
    // Nothing checks anything while the command is quiet, unless `stop` has to be checked.
    let (mut quiet, mut looked) = (true, started);
    loop {
        let rest = limit.saturating_sub(started.elapsed());
        let rest = if stop.is_some() { rest.min(LISTEN) } else { rest };
        let rest = if quiet { rest } else { rest.min(LOOK) };
        let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        let mut ready = [descriptor.as_fd(), written.watch()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut ready, Some(&rest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [ended, wrote] = ready.map(|one| !one.revents().is_empty());
        if ended {
            break;
        }
        if wrote {
            written.disarm();
            (quiet, looked) = (false, Instant::now());
        } else if !quiet && looked.elapsed() >= LOOK {
            looked = Instant::now();
            quiet = !written.look(again(&mut show))?;
            if quiet {
                written.arm()?;
                // Output from before the watch existed wakes nothing.
                quiet = !written.look(again(&mut show))?;
            }
        }
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            bail!(Interrupted);
        }
        if started.elapsed() >= limit {
            return Ok(None);
        }
    }
    let status = child.wait().context("cannot wait")?;
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)))
}

/// The clock of the observer's records, and of the recorder's: CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// CPU time of the calling thread.
pub(crate) fn cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hackbench_says_how_long_its_messages_took() {
        assert_eq!(own_time_s("Running in process mode\nTime: 0.245\n"), Some(0.245));
        assert_eq!(own_time_s("no time\nTime: soon\n"), None);
    }

    fn shell(script: &str, limit: Duration) -> anyhow::Result<Executed> {
        shown(script, limit, &mut Vec::new())
    }

    fn shown(script: &str, limit: Duration, lines: &mut Vec<String>) -> anyhow::Result<Executed> {
        let folder = tempfile::tempdir().unwrap();
        let [output, errors] = ["output", "errors"].map(|name| folder.path().join(name));
        let stop = None;
        let what = Execution { name: "it".into(), output, errors, report: None, limit, stop };
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut show = |line: &str| lines.push(line.to_string());
        execute(command, &what, end_session, Some(&mut show))
    }

    #[test]
    fn what_it_says_is_kept_and_what_it_leaves_is_ended() {
        const LONG: Duration = Duration::from_secs(600);
        // A shell that controls jobs gives each a process group of its own.
        let jobs = "set -m; sleep 1000 & echo $!; set +m; sleep 1000 & echo $!; echo Time: 0.5";
        let executed = shell(jobs, LONG).unwrap();
        assert_eq!(executed.extra()["own_time_s"], 0.5);
        for left in executed.output.lines().take(2) {
            let stat = fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
            assert!(!stat.contains("(sleep)") || stat.contains(") Z"), "{stat}");
        }
        let why = |script, limit| shell(script, limit).unwrap_err().to_string();
        assert_eq!(why("echo no; exit 3", LONG), "it failed with status 3: no");
        assert_eq!(why("kill -9 $$", LONG), "it failed with status 137 (signal 9): no output");
        let short = Duration::from_millis(50);
        assert_eq!(why("echo busy; sleep 1000", short), "it did not end within 0.05 s: busy");
    }
    #[test]
    fn what_goes_to_standard_error_is_told_apart_and_comes_with_a_failure() {
        const LONG: Duration = Duration::from_secs(600);
        let executed = shell("echo well; nosuchprog-x & wait; true", LONG).unwrap();
        assert_eq!(executed.output, "well\n");
        assert!(executed.errors.contains("nosuchprog-x"), "{}", executed.errors);
        let error = shell("echo begun; echo torn >&2; exit 127", LONG).unwrap_err();
        let broken = error.downcast_ref::<Broken>().unwrap();
        assert_eq!(broken.why, "it failed with status 127: torn");
        assert_eq!(broken.last, ["begun", "torn"]);
    }

    /// The command waits until a line of its own has been shown.
    #[test]
    fn lines_are_shown_while_the_command_runs() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let script = format!("echo now; until [ -e {} ]; do sleep 0.05; done", seen.display());
        let [output, errors] = ["output", "errors"].map(|name| folder.path().join(name));
        let (limit, stop) = (Duration::from_secs(600), None);
        let what = Execution { name: "it".into(), output, errors, report: None, limit, stop };
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let mut show = |line: &str| {
            assert_eq!(line, "now");
            fs::write(&seen, "").unwrap();
        };
        execute(command, &what, end_session, Some(&mut show)).unwrap();
    }
}
