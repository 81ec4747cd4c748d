// SPDX-License-Identifier: GPL-2.0-only
//! One run of the workload under one policy, and its way to the host.

use std::cell::RefCell;

use live::{Scheduler, Scope, Show, Standing, Trial};
use policy::Topology;

use super::execute::execute;
use super::host::Host;
use crate::job::{Job, Measured, Message};

/// One run under one scheduler.
pub(crate) struct Run<'a> {
    /// The scheduler's name in results.
    pub label: &'a str,
    pub scheduler: Scheduler<'a>,
    pub run: usize,
    pub boot: usize,
    /// How the workload's first process is scheduled.
    pub standing: Standing,
}

/// Measures one run. Its records are sent before the message.
pub(crate) fn one(
    host: &mut Host,
    job: &Job,
    run: &Run<'_>,
    topology: &Topology,
) -> anyhow::Result<Measured> {
    let trial = Trial {
        label: run.label,
        scheduler: run.scheduler,
        profile: &job.profile,
        scope: Scope::All,
        own: false,
        run: run.run,
        boot: run.boot,
        observe: job.observe,
        record: job.record,
        count_locks: job.count_locks,
    };
    // Both send to the host: the next step, and the workload's output.
    let (shared, step) = (RefCell::new(&mut *host), RefCell::new(String::new()));
    let mut say = |text: &str| {
        *step.borrow_mut() = text.to_string();
        shared.borrow_mut().tell(&Message::Step { text: text.to_string() })
    };
    let mut run_once = |spared| {
        let mut show = |line: &str| {
            let (step, line) = (step.borrow().clone(), line.to_string());
            // If the host does not listen, the next step finds out.
            let _ = shared.borrow_mut().tell(&Message::Wrote { step, line });
        };
        execute(job, run.standing, spared, job.show.then_some(&mut show as Show<'_>))
    };
    let mut tried = trial.run(topology, &mut say, &mut run_once)?;
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
