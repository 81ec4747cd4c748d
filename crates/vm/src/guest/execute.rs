// SPDX-License-Identifier: GPL-2.0-only
//! One execution of the workload, in a guest with files restored for it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use live::{Executed, Execution, Show, Standing};
use policy::{Instance, Policy};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Pid;

use super::machine::{busybox, mount_tmpfs};
use crate::folders::{APPLETS, PATH, PROGRAMS};
use crate::job::{Job, JobWorkload};

/// The argument behind `guest` that makes this program the worker. The workload's name, its file and the report's
/// follow.
pub(crate) const WORKER: &str = "worker";

/// The argument behind `guest` that makes this program say how many instructions the verifier walks. Policies follow.
pub(crate) const VERIFIED: &str = "verified";

/// Prints a line for each program of these policies: the policy, the program, how many instructions the verifier walked.
pub(crate) fn verified(registry: &[&'static Policy]) -> ! {
    for label in std::env::args().skip(3) {
        let counted = Instance::parse(&label, registry)
            .map_err(anyhow::Error::from)
            .and_then(|instance| live::verified(&instance));
        match counted {
            Ok(programs) => {
                for (program, instructions) in programs {
                    println!("{label} {program} {instructions}");
                }
            }
            Err(error) => {
                eprintln!("{label}: {error:#}");
                std::process::exit(1);
            }
        }
    }
    std::process::exit(0)
}

/// The agent's path in a guest.
const AGENT: &str = "/init";

/// The workload's output, in [`crate::folders::WRITTEN`].
const OUTPUT: &str = "/run/written/output";
const ERRORS: &str = "/run/written/errors";
const WORKLOAD: &str = "/run/workload.json";
const REPORT: &str = "/run/report.json";
/// Shared memory is a file system of its own.
const SHARED: &str = "/dev/shm";
/// Paths of `--with`, untouched.
const KEPT: &str = "/.kept";

/// Runs the workload once and removes everything it leaves behind, but for the process group `spared`; `show` is called
/// with its output.
pub(crate) fn execute(
    job: &Job,
    standing: Standing,
    spared: Option<Pid>,
    show: Option<Show<'_>>,
) -> anyhow::Result<Executed> {
    restore(&job.workload)?;
    let (mut command, name, report) = command(&job.workload)?;
    command.env_clear().env("PATH", format!("{PATH}:{PROGRAMS}:{APPLETS}"));
    command.env("HOME", "/tmp").env("LANG", "C.UTF-8").env("TERM", "dumb");
    standing.give(&mut command);
    let what = Execution {
        name,
        output: OUTPUT.into(),
        errors: ERRORS.into(),
        report: report.map(Into::into),
        limit: Duration::from_secs_f64(job.limit_s),
        stop: None,
    };
    let clear = || match spared {
        Some(spared) => live::end_all_but(spared),
        None => clear(),
    };
    live::execute(command, &what, |_| clear(), show)
}

/// Restores files as they were packed: what one execution built must not spare the next one work.
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

/// This program as the worker that runs a workload file and writes its report; `agent` is its path.
///
/// It begins in [`super::main`]. Errors call the workload `name`.
pub fn worker_command(
    agent: impl AsRef<Path>,
    name: &str,
    file: impl AsRef<Path>,
    report: impl AsRef<Path>,
) -> Command {
    let mut command = Command::new(agent.as_ref());
    command.args(["guest", WORKER, name]).args([file.as_ref(), report.as_ref()]);
    command
}

/// The child's side of [`worker_command`].
pub(crate) fn worker() -> ! {
    let words: Vec<String> = std::env::args().skip(3).collect();
    let result = match &words[..] {
        [name, file, report] => live::work(name, file.as_ref(), report.as_ref()),
        _ => {
            Err(anyhow::anyhow!("a worker takes a name, a workload file and where its report goes"))
        }
    };
    if let Err(error) = result {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
    std::process::exit(0)
}

/// The command, its name, and the path of its report.
fn command(workload: &JobWorkload) -> anyhow::Result<(Command, String, Option<&'static str>)> {
    match workload {
        JobWorkload::Command { program, argv, folder, .. } => {
            let mut command = Command::new(program);
            command.arg0(&argv[0]).args(&argv[1..]).current_dir(folder);
            Ok((command, argv[0].clone(), None))
        }
        JobWorkload::RtApp { name, json } => {
            fs::write(WORKLOAD, json)?;
            let command = worker_command(AGENT, name, WORKLOAD, REPORT);
            Ok((command, name.clone(), Some(REPORT)))
        }
    }
}

/// Ends processes that the workload left behind: its daemons would disturb the next run.
fn clear() {
    // SAFETY: as process 1 this spares the agent and kernel threads
    unsafe { libc::kill(-1, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: the status outlives the call
    while unsafe { libc::waitpid(-1, &mut status, 0) } > 0 {}
}
