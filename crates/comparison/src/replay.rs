// SPDX-License-Identifier: GPL-2.0-only
//! Recordings as workloads: read, and fitted to the machine that they are replayed on.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use machine::Machine;
use policy::Instance;
use record::{Fit, Header, Reader, Replay, Source, Summary};
use report::text::{count, percent, plural};
use sim::{Scenario, Scheduler, SimError};
use terminal::{Failure, output};
use workload::Workload;

use crate::contender::{Contender, POLICIES};

/// Replays for fitting: each one shows the effect of the fit before it.
const FITTED: usize = 5;

/// Note for a recording in which tasks wake each other through pipes, and their data was not recorded.
pub const UNSEEN: &str = "most of its wakeups came through pipes or local sockets, and what was in those it does not tell: \
                      believe directions only, or record with --calls";

/// Whether a file has the beginning of a recording.
pub fn is_recording(path: &Path) -> bool {
    let mut first = [0; 8];
    // A pipe is not even opened: that would wait for a writer.
    if !path.metadata().is_ok_and(|there| there.is_file()) {
        return false;
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"PACELINE"
}

/// How a recording went.
#[derive(Clone, Debug, Default)]
pub struct Went {
    /// CPUs of the machine that it was made on.
    pub cpus: usize,
    /// The source of the recording.
    pub source: Source,
    /// The recording says on which CPUs each task may run.
    pub affinity: bool,
    /// How long the workload took.
    pub elapsed_s: f64,
    /// The part of the machine's CPU time that other tasks had meanwhile.
    pub others: f64,
    /// The policy in charge during the recording, if it is one of ours. None: Linux's own class, as far as is known.
    pub under: Option<String>,
    /// It is from procfs: the part of the CPU time that it missed, if known.
    pub coarse: Option<Option<f64>>,
    /// Its tasks wake each other through pipes and local sockets, and the data of these was not recorded.
    pub talks_unseen: bool,
    /// Further doubts about a replay, for the reader.
    pub doubts: Vec<String>,
}

impl Went {
    /// Whether there are doubts other than data that was not recorded.
    pub fn is_doubtful(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt != UNSEEN)
    }

    /// Notes about the recording for the reader of a replay.
    pub fn notes(&self) -> Vec<String> {
        let coarse = self.coarse.map(|unseen| format!("the recording is {}", coarse(unseen)));
        let doubts = self.doubts.iter().map(|doubt| format!("the recording: {doubt}"));
        coarse.into_iter().chain(doubts).collect()
    }
}

/// A note about a recording of procfs.
pub fn coarse(unseen: Option<f64>) -> String {
    let unseen = unseen.map_or("an unknown part".to_string(), percent);
    format!(
        "coarse: sampled from procfs, wakeups not known; {unseen} of the CPU time is missing, of threads that ended \
         between two samples"
    )
}

/// Whether a recording says on which CPUs each task may run.
fn knows_affinity(header: &Header) -> bool {
    header.source != Source::Import
}

/// Number of CPUs of the recording's machine.
pub fn recorded_cpus(path: &Path) -> Result<usize, Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| cannot(&error))?;
    let reader = Reader::new(BufReader::new(file)).map_err(|error| cannot(&error))?;
    Ok(reader.header().cpus)
}

/// Reads a recording. Returns its workload, and how it went, with doubts about it.
pub fn read(path: &Path, machine: &Machine) -> Result<(Workload, Went), Failure> {
    let cannot = |why: &dyn std::fmt::Display| Failure::input(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| cannot(&error))?;
    let (header, replay, summary) = taken_in(BufReader::with_capacity(1 << 20, file), machine)
        .map_err(|error| cannot(&error))?;
    if replay.is_empty() {
        return Err(cannot(&"nothing of the workload is in it; record a command that runs longer"));
    }
    let (under, doubt) = made_under(header.scheduler.as_deref());
    let unseen = replay.talks_unseen().then(|| UNSEEN.to_string());
    let deadline = Some(replay.deadline_tasks()).filter(|count| *count > 0).map(|count| {
        format!(
            "{} of the deadline class, which the simulator does not have: replayed as SCHED_FIFO of the highest priority",
            plural(count, "task")
        )
    });
    let doubts = doubts(&summary).into_iter().chain(doubt).chain(deadline).chain(unseen);
    let doubts: Vec<String> = doubts.collect();
    for line in &doubts {
        output::say(&format!("paceline: {}: {line}", path.display()));
    }
    let name = path.display().to_string();
    let elapsed_ns = replay.elapsed_ns() as f64;
    let others = replay.others_ns() as f64 / (elapsed_ns * replay.cpus() as f64).max(1.0);
    let coarse = replay.coarse().then(|| {
        let unseen_ns = summary.ending.as_ref()?.unseen_ns? as f64;
        let seen_ns: u64 = replay.recorded().iter().map(|task| task.cpu_ns).sum();
        Some(unseen_ns / (unseen_ns + seen_ns as f64).max(1.0))
    });
    let recorded = under.as_ref().map_or(Ok(Scheduler::Default), Contender::scheduler)?;
    let under = under.map(|contender| contender.label().to_string());
    let went = Went {
        cpus: header.cpus,
        source: header.source,
        affinity: knows_affinity(&header),
        elapsed_s: elapsed_ns / 1e9,
        others,
        under,
        coarse,
        talks_unseen: replay.talks_unseen(),
        doubts,
    };
    Ok((fitted(&replay, &name, machine, &recorded)?, went))
}

/// The scheduler in charge during the recording, by its sched_ext name, if it is a policy of ours; and a note about it
/// for the reader.
fn made_under(scheduler: Option<&str>) -> (Option<Contender>, Option<String>) {
    let Some(name) = scheduler else { return (None, None) };
    match POLICIES.iter().find(|policy| policy.kernel_name() == name) {
        Some(policy) => (
            Some(Contender::Policy(Instance::default(policy))),
            Some(format!(
                "it was made under {}, whose knobs it does not tell; taken as its defaults",
                policy.name
            )),
        ),
        None => (
            None,
            Some(format!(
                "it was made under the scheduler {name}, and is taken for one made under Linux's own class: record \
                 without it"
            )),
        ),
    }
}

/// The header and contents of a recording, for this machine, and the findings of reading it.
pub fn taken_in(
    from: impl Read,
    machine: &Machine,
) -> Result<(Header, Replay, Summary), record::ReadError> {
    taken(from, machine.costs.turn_ns)
}

/// The same. `turn_ns`: the recorded CPUs ran one after the other on one clock, for at most this long each.
pub fn taken(
    from: impl Read,
    turn_ns: f64,
) -> Result<(Header, Replay, Summary), record::ReadError> {
    let reader = Reader::new(from)?;
    let replay = Replay::new(reader.header(), turn_ns);
    taken_into(reader, replay)
}

/// The same with the recorder's time, which a machine with a recorder charges: the reference for its own replay.
pub fn as_it_was(
    from: impl Read,
    machine: &Machine,
) -> Result<(Replay, Machine), record::ReadError> {
    let reader = Reader::new(from)?;
    let Header { hook_ns, call_hook_ns, .. } = *reader.header();
    let mut observed = machine.clone();
    observed.costs.observe_after_ns += hook_ns;
    observed.costs.observe_call_ns += call_hook_ns;
    let replay = Replay::new(reader.header(), machine.costs.turn_ns).with_hooks();
    taken_into(reader, replay).map(|(_, replay, _)| (replay, observed))
}

fn taken_into<R: Read>(
    mut reader: Reader<R>,
    mut replay: Replay,
) -> Result<(Header, Replay, Summary), record::ReadError> {
    while let Some(event) = reader.next_event()? {
        replay.event(&event);
    }
    let (header, summary) = (reader.header().clone(), reader.summary().clone());
    replay.finish(summary.ending.as_ref());
    Ok((header, replay, summary))
}

/// Doubts about a recording that is not useless.
fn doubts(summary: &Summary) -> Vec<String> {
    let mut doubts = Vec::new();
    match &summary.ending {
        None => doubts.push("it was cut off; what it has is replayed".to_string()),
        Some(ending) if ending.lost > 0 => doubts.push(format!(
            "{} events are missing: some waits may be for others than they were",
            count(ending.lost as f64)
        )),
        Some(_) => {}
    }
    if summary.disordered > 0 {
        let events = count(summary.disordered as f64);
        doubts.push(format!("{events} events came later than their time: clocks have jumped"));
    }
    doubts
}

/// The workload, without the costs that this machine's model charges itself, as replays under the recording's own
/// scheduler show them.
pub fn fitted(
    replay: &Replay,
    name: &str,
    machine: &Machine,
    recorded: &Scheduler,
) -> Result<Workload, Failure> {
    let slack_ns = machine.costs.timer_slack_ns;
    let mut fit = Fit::none(replay);
    let mut round = 0;
    loop {
        let mut workload = replay.workload(name, machine.cpus.len(), slack_ns, &fit);
        if round < FITTED {
            workload.duration_ns = replay.part_ns();
        }
        let mut scenario =
            Scenario::new(machine.clone(), workload, recorded.clone()).seed(round as u64 + 1);
        // A limit for any length: a replay that takes ten times as long is useless.
        scenario.options.cap_ns =
            scenario.options.cap_ns.max(replay.elapsed_ns().saturating_mul(10));
        if round == FITTED {
            return Ok(scenario.workload);
        }
        let traced = sim::run_traced(&scenario).map_err(|error| match error {
            // A recording has no limit that the user could raise.
            SimError::Cap { .. } | SimError::Stuck { .. } => Failure::input(format!(
                "{name}: its replay comes to no end: the recording lacks what its tasks wait for; record again"
            )),
            error => Failure::run(format!("{name} cannot be replayed: {error}")),
        })?;
        fit = fit.better(replay, &traced.played, &traced.added);
        round += 1;
    }
}
