// SPDX-License-Identifier: GPL-2.0-only
//! A run of a workload under one policy on this kernel: bare, then observed, then with locks counted.

use std::time::Duration;

use policy::{Instance, Profile, Topology};
use record::{Detail, Header};
use rustix::process::Pid;
use trace::Outcome;

use crate::recorder::Recorder;
use crate::{
    Attached, Callback, Counting, Energy, Executed, LockCounter, Locks, Observer, Outside,
    RecordedBytes, Recording, Scope, Seen, load,
};

/// A scheduler to put in charge.
#[derive(Clone, Copy, Debug)]
pub enum Scheduler<'a> {
    /// Linux's own class.
    Own,
    /// One of our policies.
    Policy(&'a Instance),
    /// A program that loads one: its words.
    Program(&'a [String]),
}

/// A scheduler in charge.
enum InCharge {
    Own,
    Policy(Box<Attached>),
    Program(Outside),
}

impl InCharge {
    /// Our policy, if it is one.
    fn policy(&self) -> Option<&Attached> {
        match self {
            InCharge::Policy(attached) => Some(attached),
            InCharge::Own | InCharge::Program(_) => None,
        }
    }

    /// The leader of the process group that must outlive what a workload leaves behind.
    fn program(&self) -> Option<Pid> {
        match self {
            InCharge::Program(outside) => Some(outside.pid()),
            InCharge::Own | InCharge::Policy(_) => None,
        }
    }

    fn verify(&mut self) -> anyhow::Result<()> {
        match self {
            InCharge::Own => Ok(()),
            InCharge::Policy(attached) => attached.verify(),
            InCharge::Program(outside) => outside.verify(),
        }
    }

    fn end(self) -> anyhow::Result<()> {
        match self {
            InCharge::Own => Ok(()),
            InCharge::Policy(attached) => attached.detach(),
            InCharge::Program(outside) => outside.end(),
        }
    }
}

/// A scheduler's run of a command, and how to observe it.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The scheduler's name in results.
    pub label: &'a str,
    /// The scheduler.
    pub scheduler: Scheduler<'a>,
    /// Known figures of programs.
    pub profile: &'a Profile,
    /// The tasks that the policy is in charge of.
    pub scope: Scope,
    /// Number of the run of this scheduler, in its boot.
    pub run: usize,
    /// Number of the boot.
    pub boot: usize,
    /// Switches, waits and migrations are those of the command and its descendants, beside those of the machine: for a
    /// machine with other users.
    pub own: bool,
    /// Run it a second time with the observer attached.
    pub observe: bool,
    /// Run it once more and record it.
    pub record: Option<Detail>,
    /// Run it once more and count locks taken in scheduler code.
    pub count_locks: bool,
}

/// The result.
pub struct Tried {
    /// Without `observed`, which is folded from the records: see [`crate::fold`].
    pub outcome: Outcome,
    /// The observer's records.
    pub recorded: Option<(Recording, RecordedBytes)>,
    /// Callbacks that the policy wrote down, if it does.
    pub callbacks: Vec<Callback>,
}

impl Trial<'_> {
    /// Puts the scheduler in charge, calls `execute` once for each way to look at it, and ends it. `say` is called with
    /// each next step. `execute` gets the leader of the process group that is the scheduler, if it is one.
    ///
    /// Fails if the scheduler cannot be loaded or was ejected, and as `execute` does.
    pub fn run(
        &self,
        topology: &Topology,
        say: &mut dyn FnMut(&str) -> anyhow::Result<()>,
        execute: &mut dyn FnMut(Option<Pid>) -> anyhow::Result<Executed>,
    ) -> anyhow::Result<Tried> {
        let mut tell = |how: &str| say(&format!("{} run {} {how}", self.label, self.run + 1));
        tell("alone")?;
        let counting = Counting::default();
        let mut charge = match self.scheduler {
            Scheduler::Own => InCharge::Own,
            Scheduler::Policy(instance) => {
                let attached = load(instance, topology, self.profile, self.scope, counting)?;
                InCharge::Policy(Box::new(attached))
            }
            Scheduler::Program(argv) => InCharge::Program(Outside::start(self.label, argv)?),
        };
        let mut run = |charge: &mut InCharge| checked(execute(charge.program()), charge);
        settle();
        let (bare, energy_j) = Energy::during(|| run(&mut charge));
        let bare = bare?;
        let mut extra = bare.extra();
        if let Some(attached) = charge.policy() {
            extra.extend(program_time(attached)?);
            extra.extend(attached.totals()?);
        }
        let mut tried = Tried {
            outcome: Outcome {
                policy: self.label.to_string(),
                run: self.run,
                boot: self.boot,
                elapsed_ns: bare.end_ns - bare.start_ns,
                energy_j,
                progress: bare.progress(),
                resident: bare.resident(),
                extra,
                names: bare.names(),
                output: bare.output,
                errors: bare.errors,
                ..Outcome::default()
            },
            recorded: None,
            callbacks: Vec::new(),
        };
        if self.observe {
            tell("observed")?;
            let observer = Observer::attach(topology.llc.len())?;
            settle();
            if let Some(attached) = charge.policy() {
                attached.keep();
            }
            let seen = run(&mut charge)?;
            let attached = charge.policy();
            tried.add_errors(&seen);
            // the last of its tasks are still exiting
            settle();
            match observer.finish(seen.start_ns, seen.end_ns)? {
                Ok((mut recording, records)) => {
                    recording.kinds.clone_from(&topology.core_type);
                    recording.own = self.own;
                    tried.recorded = Some((recording, records));
                }
                // The bare run's results are valid all the same.
                Err(lost) => {
                    tried.outcome.extra.insert(trace::OBSERVER_LOST.to_string(), lost as f64);
                }
            }
            // thread ids are those of the observed run
            tried.outcome.progress = seen.progress();
            tried.outcome.names = seen.names();
            tried.outcome.resident = seen.resident();
            tried.outcome.charged = attached.map(Attached::charged).unwrap_or_default();
            tried.outcome.charged.retain(|tid, _| tried.outcome.names.contains_key(tid));
            tried.outcome.placed = attached.map(Attached::placed).unwrap_or_default();
            tried.outcome.placed.retain(|placed| tried.outcome.names.contains_key(&placed.tid));
            let control_ns = attached.and_then(Attached::control_ns);
            for (name, ns) in ["control_s", "mover_s"].into_iter().zip(control_ns.iter().flatten())
            {
                tried.outcome.extra.insert(name.to_string(), *ns as f64 / 1e9);
            }
            let counted = ("observed_children_switches".to_string(), seen.counted_switches());
            tried.outcome.extra.extend([counted]);
        }
        if let Some(detail) = self.record {
            tell("recorded")?;
            let calls = detail == Detail::Calls;
            let cpus = topology.llc.len();
            let scheduler = crate::kernel::scheduler();
            let header = Header { cpus, calls, scheduler, children: true, ..Header::default() };
            let recorder = Recorder::start(Vec::new(), header)?;
            settle();
            let seen = run(&mut charge)?;
            tried.add_errors(&seen);
            let recorded = recorder.finish(Some((seen.start_ns, seen.end_ns)))?;
            tried.outcome.recording = recorded.out.unwrap_or_default();
        }
        if self.count_locks {
            tell("with locks counted")?;
            let counter = LockCounter::attach(topology.llc.len())?;
            settle();
            tried.add_errors(&run(&mut charge)?);
            add_locks(&mut tried.outcome, counter.finish()?, &charge);
        }
        if let Some(attached) = charge.policy().filter(|attached| attached.notes_callbacks()) {
            tried.callbacks = attached.callbacks()?;
        }
        settle();
        charge.end()?;
        Ok(tried)
    }
}

impl Tried {
    /// An observed execution may complain where the bare one did not.
    fn add_errors(&mut self, executed: &Executed) {
        if self.outcome.errors.trim().is_empty() {
            self.outcome.errors.clone_from(&executed.errors);
        }
    }

    /// The whole outcome, if the records are still here.
    pub fn folded(self) -> anyhow::Result<Outcome> {
        let Some((recording, records)) = self.recorded else { return Ok(self.outcome) };
        complete(self.outcome, &recording, records.as_slice(), |_| {})
    }
}

/// The outcome with the observer's measures; `look` is called with each event.
pub fn complete(
    mut outcome: Outcome,
    recording: &Recording,
    records: &[u8],
    look: impl FnMut(&trace::Event),
) -> anyhow::Result<Outcome> {
    let seen = crate::fold(recording, records, look)?;
    let Seen { observed, machine, mut names, not_found, own_cpu_ns } = seen;
    // the worker knows its tasks by more than the kernel's 15 bytes
    names.extend(std::mem::take(&mut outcome.names));
    (outcome.observed, outcome.names) = (observed, names);
    outcome.machine = machine.map(Box::new);
    outcome.extra.insert(trace::OWN_CPU.to_string(), own_cpu_ns as f64 / 1e9);
    if not_found > 0 {
        outcome.extra.insert(trace::NOT_FOUND.to_string(), not_found as f64);
    }
    Ok(outcome)
}

/// The order of turns in a round: in each next round, the first one moves to the end.
pub fn rotated(round: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..of).map(move |place| (place + round) % of)
}

/// Time of the policy's programs in the bare run, if the workload made the kernel count it.
fn program_time(attached: &Attached) -> anyhow::Result<Vec<(String, f64)>> {
    let (time_ns, calls) = attached.program_time()?;
    if calls == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![("bpf_time_ns".into(), time_ns as f64), ("bpf_calls".into(), calls as f64)])
}

/// The locks that count are those of the class in charge; others' locks stand beside them.
fn add_locks(outcome: &mut Outcome, locks: Locks, charge: &InCharge) {
    let Locks { runqueue, task_list, ext, other } = locks;
    let is_own_class = matches!(charge, InCharge::Own);
    let (mut own, others) = if is_own_class { (other, ext) } else { (ext, other) };
    let calls = charge.policy().map_or(0, Attached::spin_lock_calls) as u64;
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

/// A scheduler's ejection explains a workload's failure better than the workload does.
fn checked(executed: anyhow::Result<Executed>, charge: &mut InCharge) -> anyhow::Result<Executed> {
    charge.verify()?;
    executed
}

/// Lets deferred work of the last run end: freeing memory, RCU, dying tasks.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

#[cfg(test)]
mod tests {
    use super::rotated;

    #[test]
    fn each_comes_first_in_its_round() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| rotated(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }
}
