// SPDX-License-Identifier: GPL-2.0-only
//! Messages between host and guest: one JSON job in, one JSON message a line out.

use std::path::PathBuf;
use std::time::Duration;

use live::{Callback, Recording};
use policy::{Clocks, Profile};
use record::Detail;
use serde::{Deserialize, Serialize};
use trace::Outcome;

use crate::{PolicyRef, WorkloadRef};

/// Where the job lies in the image.
pub(crate) const JOB: &str = "/job.json";
/// The virtio-serial port that messages go to.
pub(crate) const MESSAGES: &str = "messages";
/// The virtio-serial port that the observer's records go to.
pub(crate) const RECORDS: &str = "records";

/// The agent's work in one boot; the boot's number comes on the kernel's command line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub policies: Vec<JobPolicy>,
    pub workload: JobWorkload,
    pub runs: usize,
    /// Time constants are multiplied by this.
    pub dilation: u64,
    pub observe: bool,
    pub record: Option<Detail>,
    pub count_locks: bool,
    pub limit_s: f64,
    /// The agent says every [`BEAT`] that the guest is alive.
    pub beats: bool,
    /// The host is sent the workload's output as it is written.
    pub show: bool,
    /// The kind of core that each CPU represents, the fastest first; empty: all are alike.
    pub core_types: Vec<u16>,
    /// The clocks that the guest's cores represent.
    pub clocks: Clocks,
    /// Known facts about programs.
    pub profile: Profile,
    /// The kernel's type information is not yet known to be sound.
    pub probe: bool,
}

/// A scheduler, with its name in results.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobPolicy {
    pub label: String,
    pub scheduler: JobScheduler,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum JobScheduler {
    /// Linux's own class.
    Own,
    /// A policy by name and values; the guest's executable has the same registry.
    Policy { name: String, values: Vec<u64> },
    /// A program that loads one.
    Program { argv: Vec<String> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum JobWorkload {
    /// Every execution finds the paths in `with` as they were packed.
    Command {
        program: String,
        argv: Vec<String>,
        folder: String,
        with: Vec<String>,
    },
    RtApp {
        name: String,
        json: String,
    },
}

/// How often a guest says that it is alive, on its own clock.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// One line from the guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The agent is up, this long after the guest's start.
    Up { after_s: f64 },
    /// The guest's kernel still runs its most urgent thread.
    Alive,
    /// The agent's current step.
    Step { text: String },
    /// The workload wrote this line in this step.
    Wrote { step: String, line: String },
    /// One run is done.
    Outcome(Box<Measured>),
    /// It gives up; the reason is one line. `last`: if the workload failed, the last lines that it wrote.
    Failed { why: String, last: Vec<String> },
    /// All runs are done.
    Done,
}

/// An outcome without its `observed`, which the host folds from the records. Emulation would take seconds for this; the
/// host needs no time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub outcome: Outcome,
    pub recording: Option<Recording>,
    /// Bytes of records on their own port, sent before this message.
    pub record_bytes: usize,
    /// Bytes of a recording behind them.
    pub recorded_bytes: usize,
    /// Callbacks that the policy wrote down, if it does.
    pub callbacks: Vec<Callback>,
}

impl From<&PolicyRef> for JobPolicy {
    fn from(policy: &PolicyRef) -> Self {
        let scheduler = match policy {
            PolicyRef::Default => JobScheduler::Own,
            PolicyRef::Instance(instance) => JobScheduler::Policy {
                name: instance.policy.name.to_string(),
                values: instance.values.clone(),
            },
            PolicyRef::Program { argv, .. } => JobScheduler::Program { argv: argv.clone() },
        };
        JobPolicy { label: policy.label().to_string(), scheduler }
    }
}

impl JobWorkload {
    /// `program` is the place of `argv`'s first word, `folder` the working directory.
    pub(crate) fn new(workload: &WorkloadRef, program: &str, folder: &str) -> Self {
        match workload {
            WorkloadRef::Command { argv, with } => JobWorkload::Command {
                program: program.to_string(),
                argv: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                folder: folder.to_string(),
                with: restored(with),
            },
            WorkloadRef::RtApp { name, json } => {
                JobWorkload::RtApp { name: name.clone(), json: json.clone() }
            }
        }
    }
}

/// `/tmp` and these paths with links resolved, none inside another.
fn restored(with: &[PathBuf]) -> Vec<String> {
    let mut paths: Vec<PathBuf> = with.iter().filter_map(|path| path.canonicalize().ok()).collect();
    paths.push("/tmp".into());
    paths.sort();
    paths.dedup_by(|inner, outer| inner.starts_with(outer));
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::restored;

    #[test]
    fn a_path_inside_another_is_restored_with_it() {
        let with = ["/usr/bin".into(), "/usr".into(), "/tmp".into()];
        assert_eq!(restored(&with), ["/tmp", "/usr"]);
    }
}
