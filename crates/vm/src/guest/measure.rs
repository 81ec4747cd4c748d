// SPDX-License-Identifier: GPL-2.0-only
//! One run of the workload under one policy, on its way to the host.

use live::{Scope, Trial};
use policy::Topology;

use super::execute::execute;
use super::{Host, Run};
use crate::job::{Job, Measured, Message};

/// Measures one run; its records go ahead.
pub(crate) fn one(
    host: &mut Host,
    job: &Job,
    run: &Run<'_>,
    topology: &Topology,
) -> anyhow::Result<Measured> {
    let trial = Trial {
        label: &run.policy.label,
        instance: run.instance,
        profile: &job.profile,
        scope: Scope::Everyone,
        run: run.run,
        boot: run.boot,
        observe: job.observe,
        record: job.record,
        count_locks: job.count_locks,
    };
    let mut say = |text: &str| host.tell(&Message::Step { text: text.to_string() });
    let mut tried = trial.run(topology, &mut say, &mut || execute(job, run.standing))?;
    let recording = std::mem::take(&mut tried.outcome.recording);
    let mut measured = Measured {
        outcome: tried.outcome,
        recording: None,
        record_bytes: 0,
        recorded_bytes: recording.len(),
        callbacks: tried.callbacks,
    };
    if let Some((recording, records)) = tried.recorded {
        host.send_records(records.as_slice())?;
        measured.record_bytes = records.as_slice().len();
        measured.recording = Some(recording);
    }
    host.send_records(&recording)?;
    Ok(measured)
}
