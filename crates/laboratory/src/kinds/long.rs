// SPDX-License-Identifier: GPL-2.0-only
//! Costs of a long recording: the simulator's hackbench as text of `perf script`, imported and replayed by this very
//! program, as a user does it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use sim::{Scenario, Scheduler};
use terminal::{Failure, scratch};
use trace::{Event, Kind, Tid};
use workload::hackbench::{Channel, Hackbench};

use crate::kind::{self, Sample, Setting};
use crate::measure::Laboratory;

/// Messages of the run that shows how many events a message takes.
const TRIED: u64 = 100;
/// Factor for more of them than that, so that there are enough.
const MORE: f64 = 1.2;
/// How often a process's peak memory is read.
const LOOK: Duration = Duration::from_millis(10);

/// Costs of importing and replaying a long recording.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Long {
    /// The recording.
    of: Recording,
    /// The kind of cost.
    what: Expense,
}

impl kind::Kind for Long {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        lab.progress.phase("a long recording");
        Ok(vec![lab.kept::<Longs>().measure(&self.of, self.what)?].into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("here"))
    }
}

/// A recording.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Recording {
    /// Least number of its events.
    events: u64,
    /// The machine of the recording and of its replay.
    machine: String,
}

/// The kind of cost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Expense {
    /// Import and replay one after the other, s.
    Time,
    /// The greater peak memory of the two, GB.
    Memory,
    /// Import alone, s.
    Import,
}

/// Costs of import and replay.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    import: Cost,
    replay: Cost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    s: f64,
    bytes: u64,
}

/// The recordings that were measured.
#[derive(Debug, Default)]
struct Longs(BTreeMap<Recording, Took>);

impl Longs {
    /// Returns a cost of a recording.
    fn measure(&mut self, long: &Recording, what: Expense) -> Result<f64, Failure> {
        let took = match self.0.get(long) {
            Some(took) => *took,
            None => *self.0.entry(long.clone()).or_insert(measured(long)?),
        };
        Ok(match what {
            Expense::Time => took.import.s + took.replay.s,
            Expense::Memory => took.import.bytes.max(took.replay.bytes) as f64 / 1e9,
            Expense::Import => took.import.s,
        })
    }
}

fn measured(long: &Recording) -> Result<Took, Failure> {
    let scratch = scratch::folder()?;
    let (text, trace) = (scratch.path().join("long.txt"), scratch.path().join("long.trace"));
    written(long, &text)?;
    let [import, compare, o, workload] = ["import", "compare", "-o", "--workload"].map(OsStr::new);
    let import = costs(&[import, text.as_os_str(), o, trace.as_os_str()])?;
    fs::remove_file(&text).map_err(|error| failed(&error))?;
    let on = ["--on", "sim", "--policy", "default", "--runs", "1", "--machine", &long.machine];
    let of = [compare, workload, trace.as_os_str()];
    let replay = costs(&of.into_iter().chain(on.map(OsStr::new)).collect::<Vec<_>>())?;
    Ok(Took { import, replay })
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::run(format!("a long recording: {why}"))
}

/// Runs this program.
fn costs(arguments: &[&OsStr]) -> Result<Cost, Failure> {
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let started = Instant::now();
    let mut child = Command::new(own)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(&error))?;
    let (status, bytes) = watched(&mut child).map_err(|error| failed(&error))?;
    match status.success() {
        true => Ok(Cost { s: started.elapsed().as_secs_f64(), bytes }),
        false => Err(failed(&format!("{} came to no end: {status}", arguments[0].display()))),
    }
}

/// Waits for a process. Returns its status, and its peak memory. `wait4` would include its parent's.
fn watched(child: &mut Child) -> std::io::Result<(ExitStatus, u64)> {
    let place = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let status = fs::read_to_string(&place).unwrap_or_default();
        most = most.max(high_water(&status).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            return Ok((status, most));
        }
        thread::sleep(LOOK);
    }
}

/// `VmHWM` of a process's status, in bytes.
pub fn high_water(status: &str) -> Option<u64> {
    live::bytes_of(status, "VmHWM:").map(|bytes| bytes as u64)
}

/// Writes the text.
fn written(long: &Recording, path: &Path) -> Result<(), Failure> {
    let tried = played(&long.machine, TRIED)?.1.len() as f64;
    let loops = (long.events as f64 / tried * TRIED as f64 * MORE).ceil() as u64;
    let (names, events) = played(&long.machine, loops)?;
    let had = events.len() as u64;
    if had < long.events {
        return Err(failed(&format!("it has {had} events, and is to have {}", long.events)));
    }
    let file = File::create(path).map_err(|error| failed(&error))?;
    write(BufWriter::new(file), &names, &events).map_err(|error| failed(&error))
}

type Played = (BTreeMap<Tid, String>, Vec<Event>);

fn played(machine: &str, loops: u64) -> Result<Played, Failure> {
    let machine = measuring::find_machine(machine)?;
    let load = Hackbench { loops, channel: Channel::Pipe, ..Hackbench::default() };
    let mut scenario = Scenario::new(machine, load.build(), Scheduler::Default);
    scenario.options.record.events = true;
    let traced = sim::run_traced(&scenario).map_err(|error| failed(&error))?;
    Ok((traced.outcome.names, traced.events))
}

/// In the format of `perf script` for a recording of `perf sched record`.
fn write(
    mut out: impl Write,
    names: &BTreeMap<Tid, String>,
    events: &[Event],
) -> std::io::Result<()> {
    let name = |tid: Tid| match tid {
        0 => "swapper",
        tid => names.get(&tid).map_or("?", String::as_str),
    };
    let mut current: BTreeMap<u32, Tid> = BTreeMap::new();
    let mut fresh = None;
    for Event { t_ns, cpu, kind } in events {
        let by = current.get(cpu).copied().unwrap_or(0);
        let (s, ns) = (t_ns / 1_000_000_000, t_ns % 1_000_000_000);
        let mut line = |event: std::fmt::Arguments| {
            writeln!(out, "{:>16} {by:>5} [{cpu:03}] {s:>5}.{ns:09}: sched:{event}", name(by))
        };
        match kind {
            Kind::Switch { prev, next, prev_runnable, .. } => {
                let state = if *prev_runnable { "R" } else { "S" };
                line(format_args!(
                    "sched_switch: prev_comm={} prev_pid={prev} prev_prio=120 prev_state={state} ==> \
                     next_comm={} next_pid={next} next_prio=120",
                    name(*prev),
                    name(*next)
                ))?;
                current.insert(*cpu, *next);
            }
            Kind::Wake { tid, target } => {
                let event = if fresh.take() == Some(*tid) { "wakeup_new" } else { "waking" };
                line(format_args!(
                    "sched_{event}: comm={} pid={tid} prio=120 target_cpu={target:03}",
                    name(*tid)
                ))?;
            }
            Kind::Fork { tid } => {
                line(format_args!(
                    "sched_process_fork: comm={} pid={by} child_comm={} child_pid={tid}",
                    name(by),
                    name(*tid)
                ))?;
                fresh = Some(*tid);
            }
            Kind::Exit { tid } => {
                line(format_args!("sched_process_exit: comm={} pid={tid} prio=120", name(*tid)))?;
            }
            Kind::Affinity { .. } => {}
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use record::import::{import, survey};

    use super::*;

    #[test]
    fn what_is_written_is_what_happened() {
        let (names, events) = played("numa-2x4", 2).unwrap();
        let mut text = Vec::new();
        write(&mut text, &names, &events).unwrap();
        let found = survey(&text[..]).unwrap();
        let of = |event: &&Event| !matches!(event.kind, Kind::Affinity { .. });
        assert_eq!(found.events as usize, events.iter().filter(of).count());
        let (trace, ..) = import(&text[..], &found, "hackbench", Vec::new()).unwrap();
        let machine = measuring::find_machine("numa-2x4").unwrap();
        let (_, replay, _) = comparison::replay::taken_in(&trace[..], &machine).unwrap();
        let switches =
            |event: &&Event| matches!(event.kind, Kind::Switch { prev, .. } if prev != 0);
        let seen: u64 = replay.recorded().iter().map(|task| task.switches).sum();
        assert_eq!(seen as usize, events.iter().filter(switches).count());
    }

    #[test]
    fn memory_is_what_a_process_had_at_most() {
        assert_eq!(high_water("Name:\tx\nVmHWM:\t    1024 kB\nVmRSS: 3 kB\n"), Some(1 << 20));
        assert_eq!(high_water("Name:\tx\n"), None, "it has ended");
    }
}
