// SPDX-License-Identifier: GPL-2.0-only
//! One run of the workload under one policy: bare, then observed.

use std::time::Duration;

use live::{LockCounter, Locks, Observer};
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
    let mut extra = bare.extra();
    extra.extend(program_time(&attached)?);
    let outcome = Outcome {
        policy: run.policy.label.clone(),
        run: run.run,
        boot: run.boot,
        elapsed_ns: bare.end_ns - bare.start_ns,
        progress: bare.progress(),
        extra,
        names: bare.names(),
        output: bare.output,
        ..Outcome::default()
    };
    let mut measured =
        Measured { outcome, recording: None, record_bytes: 0, callbacks: Vec::new() };
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
        let counted = ("observed_children_switches".to_string(), seen.counted_switches());
        measured.outcome.extra.extend([counted]);
    }
    if job.count_locks {
        tell(host, run, "with locks counted")?;
        let counter = LockCounter::attach(topology.llc.len())?;
        settle();
        checked(execute(job), &mut attached)?;
        add_locks(&mut measured.outcome, counter.finish()?, attached.as_ref());
    }
    if let Some(attached) = attached.as_ref().filter(|attached| attached.notes_callbacks()) {
        measured.callbacks = attached.callbacks()?;
    }
    settle();
    if let Some(attached) = attached {
        attached.detach()?;
    }
    Ok(measured)
}

/// What the policy's programs took in the bare run, where the workload had the kernel count it.
fn program_time(attached: &Option<live::Attached>) -> anyhow::Result<Vec<(String, f64)>> {
    let Some(attached) = attached else { return Ok(Vec::new()) };
    let (time_ns, calls) = attached.program_time()?;
    if calls == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![("bpf_time_ns".into(), time_ns as f64), ("bpf_calls".into(), calls as f64)])
}

/// What counts is the class in charge; what others took stands beside it.
fn add_locks(outcome: &mut Outcome, locks: Locks, attached: Option<&live::Attached>) {
    let Locks { runqueue, task_list, ext, other } = locks;
    let (mut own, others) = if attached.is_some() { (ext, other) } else { (other, ext) };
    let calls = attached.map_or(0, live::Attached::spin_lock_calls) as u64;
    if calls > 0 {
        own.insert("bpf_spin_lock (call sites)".into(), calls);
    }
    outcome.locks = own;
    let beside = [
        ("runqueue_locks", runqueue),
        ("task_list_locks", task_list),
        ("other_class_locks", others.values().sum()),
    ];
    outcome.extra.extend(beside.map(|(name, count)| (name.to_string(), count as f64)));
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
