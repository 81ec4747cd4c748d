// SPDX-License-Identifier: GPL-2.0-only
//! One run of the workload under one policy: bare, then observed.

use std::time::Duration;

use live::Observer;
use policy::Topology;
use trace::Outcome;

use super::execute::{Executed, execute};
use super::{Host, Run, load};
use crate::job::{Job, Measured, Message};

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
    let bare = checked(execute(job), &mut attached)?;
    let outcome = Outcome {
        policy: run.policy.label.clone(),
        run: run.run,
        boot: run.boot,
        elapsed_ns: bare.end_ns - bare.start_ns,
        progress: bare.progress(),
        extra: bare.extra(),
        output: bare.output,
        ..Outcome::default()
    };
    let mut measured = Measured { outcome, recording: None, record_bytes: 0 };
    if job.observe {
        tell(host, run, "observed")?;
        let observer = Observer::attach(topology.llc.len())?;
        settle();
        let seen = checked(execute(job), &mut attached)?;
        // the last of its tasks are still on their way out
        settle();
        let (recording, records) = observer.finish(seen.start_ns, seen.end_ns)?;
        host.send_records(records.as_slice())?;
        measured.record_bytes = records.as_slice().len();
        measured.recording = Some(recording);
        // thread ids are those of the observed run
        measured.outcome.progress = seen.progress();
        measured.outcome.names = seen.names();
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

/// A policy that was thrown out explains a workload's failure better than the workload does.
fn checked(
    executed: anyhow::Result<Executed>,
    attached: &mut Option<live::Attached>,
) -> anyhow::Result<Executed> {
    attached.as_mut().map_or(Ok(()), live::Attached::verify)?;
    executed
}

/// Lets deferred work of the last run end: freeing memory, RCU, dying tasks.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}
