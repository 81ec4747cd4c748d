// SPDX-License-Identifier: GPL-2.0-only
//! Programs on a machine of several memory domains, simulated: results of DI-Plain, DI-Migrate and DINO.
//!
//! A run is a mix of `workloads/domains.toml` for so many seconds. Its tasks start in an order that depends on the
//! seed, so their first places are random, as on a machine in use. A program's gain is its work against that in
//! `default`'s run of the same seed.

use std::collections::BTreeMap;
use std::rc::Rc;

use machine::{Machine, Runs, factors, shared_speeds};
use measuring::find_machine;
use policy::Instance;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use report::plot::{self, Band};
use report::stats::median;
use serde::Deserialize;
use sim::{Scenario, Scheduler, Traced, Whereabouts};
use terminal::{Failure, Progress};
use trace::Outcome;
use workload::{DomainMixes, Step, Task, Workload, program_of};

use crate::extremes;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::views::{Chart, View};

const SECOND_NS: u64 = 1_000_000_000;
/// Seeds and seconds of a run, and the same with `--quick`.
const FULL: (u64, u64) = (8, 300);
const QUICK: (u64, u64) = (2, 100);
/// A move has paid if the thread does at least this part more afterwards.
const PAID: f64 = 0.01;
/// Seconds before and after a move that are compared.
const SEEN: usize = 5;

/// Programs on a machine of several memory domains, simulated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    what: What,
    /// One mix, or several: then there is a value for each.
    #[serde(default)]
    mixes: Vec<String>,
    /// For `--policy`.
    #[serde(default)]
    policy: String,
    /// The policy it is compared with.
    #[serde(default = "default_class")]
    against: String,
    #[serde(default = "talks_machine")]
    machine: String,
    /// Multiples of the machine's costs, of `links` (bandwidth) and of `distance` (the extra time of remote access): a
    /// value for each of these sets.
    #[serde(default)]
    scales: Vec<BTreeMap<String, f64>>,
    /// Published latencies, ns, or rates at which pages are copied, GB/s.
    #[serde(default)]
    at: Vec<f64>,
}

impl Kind for Placed {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (quick, progress) = (lab.effort.quick, lab.progress);
        Ok(lab.kept::<Simulator>().measure(self, quick, progress)?.into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

fn default_class() -> String {
    "default".into()
}

fn talks_machine() -> String {
    "opteron-8356".into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Mean gain of all programs, for each seed; for several mixes or scales, the median of each.
    Gain,
    /// Each program's slowest run against its slowest run under the other policy: the mean of all programs.
    Slowest,
    /// The same for the program that gains least.
    SlowestLeast,
    /// Moves of memory per hour.
    MovesPerHour,
    /// Moves of memory as a part of the other policy's, for each mix.
    Moves,
    /// Gain less the other policy's, for each seed, in points.
    Beyond,
    /// The copy rate at which the gain is 0, GB/s.
    BreakEven,
    /// Correlation of misses and degradation under the policy, all programs of all mixes.
    Correlation,
    /// The part of moves of memory after which the thread does more.
    Paid,
    /// The lesser of MC and IC as a multiple of the greater of CA and RL.
    Factors,
    /// Greatest relative error of a pointer chaser's latency against the published ones: local, then farther and
    /// farther.
    Latency,
}

/// One run.
struct Run {
    /// Work of each program, in s of running alone.
    programs: BTreeMap<String, f64>,
    moves: f64,
    seconds: f64,
    tasks: Vec<Task>,
    whereabouts: Vec<Whereabouts>,
}

/// Runs by machine, scale, mix and policy, each made once.
#[derive(Default)]
pub struct Simulator {
    runs: BTreeMap<String, Rc<Vec<Run>>>,
}

type Scale = BTreeMap<String, f64>;

impl Simulator {
    /// The value of the figure.
    fn measure(
        &mut self,
        wanted: &Placed,
        quick: bool,
        progress: &Progress,
    ) -> Result<Vec<f64>, Failure> {
        match wanted.what {
            What::Factors => return Ok(vec![dominance(&find_machine(&wanted.machine)?)?]),
            What::Latency => {
                return Ok(vec![latency_error(&find_machine(&wanted.machine)?, &wanted.at)?]);
            }
            What::BreakEven => return self.break_even(wanted, quick, progress),
            _ => {}
        }
        let none = [Scale::new()];
        let scales: &[Scale] = if wanted.scales.is_empty() { &none } else { &wanted.scales };
        let each = wanted.mixes.len() > 1 || scales.len() > 1;
        let (mut values, mut misses, mut paid) = (Vec::new(), Vec::new(), (0.0, 0.0));
        for scale in scales {
            for mix in &wanted.mixes {
                let mut runs =
                    |policy: &str| self.runs(wanted, scale, mix, policy, quick, progress);
                let own = runs(&wanted.policy)?;
                match wanted.what {
                    What::Correlation => misses.extend(own.iter().flat_map(pain)),
                    What::Paid => own.iter().for_each(|run| {
                        let (yes, all) = paid_moves(run);
                        paid = (paid.0 + yes, paid.1 + all);
                    }),
                    What::MovesPerHour => {
                        values.extend(own.iter().map(|run| 3600.0 * run.moves / run.seconds));
                    }
                    _ => {
                        let other = runs(&wanted.against)?;
                        let base = runs("default")?;
                        let found = compared(wanted.what, &own, &other, &base);
                        match each {
                            true => values.extend(median(&found)),
                            false => values.extend(found),
                        }
                    }
                }
            }
        }
        Ok(match wanted.what {
            What::Correlation => vec![correlation(&misses)],
            What::Paid if paid.1 > 0.0 => vec![paid.0 / paid.1],
            What::Paid => Vec::new(),
            _ => values,
        })
    }

    /// Tries copy rates, from the slowest, and returns the rate at which the gain changes sign. Empty if it does not.
    fn break_even(
        &mut self,
        wanted: &Placed,
        quick: bool,
        progress: &Progress,
    ) -> Result<Vec<f64>, Failure> {
        let machine = find_machine(&wanted.machine)?;
        let own_gbs = machine.fabric.as_ref().map_or(1.0, |(fabric, _)| fabric.copy_gbs);
        let mut last: Option<(f64, f64)> = None;
        for rate in &wanted.at {
            let scale = Scale::from([("copy_gbs".to_string(), rate / own_gbs)]);
            let gain = Placed { what: What::Gain, scales: vec![scale], ..wanted.clone() };
            let Some(gain) = median(&self.measure(&gain, quick, progress)?) else { continue };
            progress.known(&format!("  {} at {rate} GB/s: {:.1} %", wanted.policy, 100.0 * gain));
            if let Some((slower, before)) = last.filter(|(_, before)| *before < 0.0 && gain >= 0.0)
            {
                let part = -before / (gain - before);
                return Ok(vec![slower * (rate / slower).powf(part)]);
            }
            last = Some((*rate, gain));
        }
        Ok(Vec::new())
    }

    fn runs(
        &mut self,
        wanted: &Placed,
        scale: &Scale,
        mix: &str,
        policy: &str,
        quick: bool,
        progress: &Progress,
    ) -> Result<Rc<Vec<Run>>, Failure> {
        let key = format!("{} {scale:?} {mix} {policy}", wanted.machine);
        if let Some(runs) = self.runs.get(&key) {
            return Ok(runs.clone());
        }
        progress.phase(&key);
        let machine = scaled(find_machine(&wanted.machine)?, scale)?;
        let (seeds, seconds) = if quick { QUICK } else { FULL };
        let scenarios: Result<Vec<Scenario>, Failure> =
            (0..seeds).map(|seed| scenario(&machine, mix, policy, seed, seconds)).collect();
        let scenarios = scenarios?;
        let mut runs = Vec::new();
        for (traced, scenario) in sim::trace_all(&scenarios).into_iter().zip(scenarios) {
            let traced =
                traced.map_err(|error| Failure::run(format!("{policy}, {mix}: {error}")))?;
            runs.push(run(traced, scenario.workload, seconds as f64)?);
        }
        let runs = Rc::new(runs);
        self.runs.insert(key, runs.clone());
        Ok(runs)
    }

    /// See [`Shown::Domains`](crate::views::Shown::Domains).
    pub fn chart(
        &mut self,
        view: &View,
        mix: &str,
        policies: &[String],
        quick: bool,
        progress: &Progress,
    ) -> Result<Chart, Failure> {
        let mut chart = Chart::of(view);
        chart.headings =
            ["policy", "moves of memory", "work, alone = 1"].map(String::from).to_vec();
        let wanted = Placed {
            what: What::Gain,
            mixes: vec![mix.to_string()],
            policy: String::new(),
            against: default_class(),
            machine: talks_machine(),
            scales: Vec::new(),
            at: Vec::new(),
        };
        for policy in policies {
            let runs = self.runs(&wanted, &Scale::new(), mix, policy, quick, progress)?;
            let Some(run) = runs.first() else { continue };
            let done: f64 =
                run.programs.values().sum::<f64>() / run.tasks.len() as f64 / run.seconds;
            chart.rows.push(vec![policy.clone(), format!("{}", run.moves), format!("{done:.3}")]);
            let caption = format!(
                "{mix} under {policy}: the node that each thread ran on, and that of most of its pages"
            );
            let svg = plot::bands(&caption, "seconds; a colour for each node", &bands(run));
            chart.plots.push((caption, svg));
        }
        Ok(chart)
    }
}

fn compared(what: What, own: &[Run], other: &[Run], base: &[Run]) -> Vec<f64> {
    let gains = |runs: &[Run]| -> Vec<f64> {
        runs.iter().zip(base).map(|(run, base)| gain(run, base)).collect()
    };
    let against: Vec<f64> = own.iter().zip(other).map(|(run, other)| gain(run, other)).collect();
    match what {
        What::Gain => against,
        What::Beyond => {
            gains(own).iter().zip(gains(other)).map(|(own, other)| 100.0 * (own - other)).collect()
        }
        What::Slowest => {
            vec![slowest(own, other).iter().sum::<f64>() / slowest(own, other).len() as f64]
        }
        What::SlowestLeast => vec![extremes::least(slowest(own, other))],
        What::Moves => {
            let sum = |runs: &[Run]| runs.iter().map(|run| run.moves).sum::<f64>();
            // No policy moves anything: no more than the other one does.
            vec![if sum(own) == 0.0 { 0.0 } else { sum(own) / sum(other) }]
        }
        _ => Vec::new(),
    }
}

/// Mean gain of all programs.
fn gain(run: &Run, base: &Run) -> f64 {
    let gains = run.programs.iter().map(|(name, done)| done / base.programs[name] - 1.0);
    gains.sum::<f64>() / run.programs.len() as f64
}

/// Each program's slowest run, against its slowest under the other policy.
fn slowest(own: &[Run], other: &[Run]) -> Vec<f64> {
    let least =
        |runs: &[Run], name: &str| extremes::least(runs.iter().map(|run| run.programs[name]));
    let names = own.first().map(|run| run.programs.keys().cloned().collect::<Vec<_>>());
    names.into_iter().flatten().map(|name| least(own, &name) / least(other, &name) - 1.0).collect()
}

fn scaled(mut machine: Machine, scale: &Scale) -> Result<Machine, Failure> {
    for (name, factor) in scale {
        let (bandwidth, distance) = match name.as_str() {
            "links" => (*factor, 1.0),
            "distance" => (1.0, *factor),
            _ => {
                machine = machine.with_scale(name, *factor).map_err(Failure::input)?;
                continue;
            }
        };
        machine.fabric =
            machine.fabric.map(|(fabric, links)| (fabric, links.scaled(bandwidth, distance)));
    }
    Ok(machine)
}

fn scenario(
    machine: &Machine,
    mix: &str,
    policy: &str,
    seed: u64,
    seconds: u64,
) -> Result<Scenario, Failure> {
    let mixes = DomainMixes::embedded();
    let mut workload = mixes.build(mix, seconds * SECOND_NS).ok_or_else(|| {
        let known: Vec<&str> = mixes.all().map(|(name, _)| name).collect();
        Failure::input(format!("no mix is called {mix}; there are: {}", known.join(", ")))
    })?;
    let mut random = Pcg64::seed_from_u64(seed);
    for at in (1..workload.tasks.len()).rev() {
        workload.tasks.swap(at, random.random_range(0..=at));
    }
    let scheduler = match policy {
        "default" => Scheduler::Default,
        _ => Scheduler::Policy(Instance::parse(policy, dino::ALL).map_err(Failure::input)?),
    };
    Ok(Scenario::new(machine.clone(), workload, scheduler).seed(seed))
}

fn run(traced: Traced, workload: Workload, seconds: f64) -> Result<Run, Failure> {
    let mut programs: BTreeMap<String, f64> = BTreeMap::new();
    for (task, done) in workload.tasks.iter().zip(traced.outcome.progress.values()) {
        *programs.entry(program_of(&task.name).to_string()).or_default() += done / 1e9;
    }
    Ok(Run {
        programs,
        moves: moves(&traced.outcome)?,
        seconds,
        tasks: workload.tasks,
        whereabouts: traced.whereabouts,
    })
}

fn moves(outcome: &Outcome) -> Result<f64, Failure> {
    let moves = outcome.extra.get("memory_moves").copied();
    moves.ok_or_else(|| {
        Failure::run(format!("{}: moves of memory were not counted", outcome.policy))
    })
}

/// Misses of each program in 1,000 instructions, and how much slower it was than alone.
fn pain(run: &Run) -> Vec<(f64, f64)> {
    let of = |task: &Task| {
        let own =
            || run.tasks.iter().filter(|other| program_of(&other.name) == program_of(&task.name));
        let done = run.programs[program_of(&task.name)] / own().count() as f64;
        (mean_mpki(&task.steps).0, 1.0 - done / run.seconds)
    };
    run.tasks.iter().map(of).collect()
}

/// Mean misses of steps, weighted by their work, and the work, ns.
fn mean_mpki(steps: &[Step]) -> (f64, f64) {
    let (mut mpki, mut sum, mut all) = (0.0, 0.0, 0.0);
    for step in steps {
        match step {
            Step::Mpki { mpki: next } => mpki = *next,
            Step::Run { work_ns } => {
                sum += mpki * *work_ns as f64;
                all += *work_ns as f64;
            }
            Step::Repeat { times, steps } => {
                let (inner, work) = mean_mpki(steps);
                let work = work * times.unwrap_or(1) as f64;
                // A repetition without phases of its own belongs to the phase around it.
                let own = steps
                    .iter()
                    .any(|step| matches!(step, Step::Mpki { .. } | Step::Repeat { .. }));
                sum += if own { inner } else { mpki } * work;
                all += work;
            }
            _ => {}
        }
    }
    (if all > 0.0 { sum / all } else { 0.0 }, all)
}

fn correlation(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let both = sum(&|point| (point.0 - x) * (point.1 - y));
    let (own, other) = (sum(&|point| (point.0 - x).powi(2)), sum(&|point| (point.1 - y).powi(2)));
    both / (own * other).sqrt()
}

/// Moves of memory after which the thread does more than before, and all moves that can be judged.
fn paid_moves(run: &Run) -> (f64, f64) {
    let (mut yes, mut all) = (0.0, 0.0);
    let at = &run.whereabouts;
    for (id, task) in run.tasks.iter().enumerate() {
        let did = |from: usize| (at[from + SEEN].done[id] - at[from].done[id]).max(0.0);
        for second in 1 + SEEN..at.len().saturating_sub(2 + SEEN) {
            if at[second - 1].home(task.process) != at[second].home(task.process) {
                all += 1.0;
                yes += f64::from(u8::from(did(second + 1) > (1.0 + PAID) * did(second - 1 - SEEN)));
            }
        }
    }
    (yes, all)
}

/// Two rows for each thread: the nodes it ran on, and those of its pages.
fn bands(run: &Run) -> Vec<(String, Vec<Band>)> {
    let mut rows = Vec::new();
    let mut order: Vec<usize> = (0..run.tasks.len()).collect();
    order.sort_by(|a, b| run.tasks[*a].name.cmp(&run.tasks[*b].name));
    for id in order {
        let task = &run.tasks[id];
        let ran = |at: &Whereabouts| at.threads[id];
        let lay = |at: &Whereabouts| at.home(task.process);
        rows.push((format!("{} runs", task.name), stretches(run, &ran)));
        rows.push((format!("{} pages", task.name), stretches(run, &lay)));
    }
    rows
}

fn stretches(run: &Run, of: &dyn Fn(&Whereabouts) -> Option<usize>) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for at in &run.whereabouts {
        let (from, Some(node)) = (at.at_ns as f64 / 1e9, of(at)) else { continue };
        match bands.last_mut() {
            Some((_, to, last)) if *last == node => *to = from + 1.0,
            _ => bands.push((from, from + 1.0, node)),
        }
    }
    bands
}

fn dominance(machine: &Machine) -> Result<f64, Failure> {
    let Some((fabric, links)) = &machine.fabric else {
        return Err(Failure::input(format!("machine {} has no [fabric]", machine.name)));
    };
    let ips = machine.costs.clock_ghz * 1e9 / 0.8;
    let of = factors(fabric, links, ips, 30.0);
    Ok(of.controller.min(of.interconnect) / of.cache.max(of.remote))
}

/// A pointer chaser on the first node, with its memory on a node at each other distance.
fn latency_error(machine: &Machine, published_ns: &[f64]) -> Result<f64, Failure> {
    let Some((fabric, links)) = &machine.fabric else {
        return Err(Failure::input(format!("machine {} has no [fabric]", machine.name)));
    };
    let nodes = links.latency_ns.len();
    let mut worst: f64 = 0.0;
    for (hops, published) in published_ns.iter().enumerate() {
        let Some(node) = (0..nodes).find(|node| links.hops(0, *node) == hops) else {
            return Err(Failure::input(format!(
                "no node of {} is {hops} links away",
                machine.name
            )));
        };
        let pages = (0..nodes).map(|at| f64::from(u8::from(at == node))).collect();
        let ips = machine.costs.clock_ghz * 1e9;
        let run =
            Runs { node: 0, llc: 0, ips, mpki: 1000.0, pages, overlap: Some(0.0), copied: false };
        let speed = shared_speeds(fabric, links, &[run], &[])[0];
        let latency_ns = (1.0 / speed.ips - 1.0 / ips) * 1e9;
        worst = extremes::greatest([worst, (latency_ns / published - 1.0).abs()]);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_without_a_count_are_an_error() {
        let mut outcome = Outcome::default();
        assert!(moves(&outcome).is_err());
        outcome.extra.insert("memory_moves".into(), 0.0);
        assert_eq!(moves(&outcome), Ok(0.0));
    }
}
