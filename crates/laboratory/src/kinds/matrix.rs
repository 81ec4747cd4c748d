// SPDX-License-Identifier: GPL-2.0-only
//! A matrix of cells, each a machine under a load, simulated under every policy and compared with Linux's own class.
//!
//! A program's speed in a run is its work against its work under `default` with the same seed. A load that ends by
//! itself counts by its time. The speed of a cell is the geometric mean of its programs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use comparison::{Contender, contender};
use measuring::find_machine;
use policy::table::TYPES_MAX;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use report::heat::heat;
use report::stats::{median, quantile};
use report::text::digits;
use serde::Deserialize;
use sim::{Scenario, Scheduler};
use terminal::{Failure, Progress, meant};
use trace::Outcome;
use workload::{Workload, program_of};

use crate::extremes::least;
use crate::kind::{Kind, Sample, Setting};
use crate::loads::{Part, built};
use crate::measure::{Effort, Laboratory};
use crate::outcomes::wait_ns;
use crate::paper::Paper;
use crate::views::{Chart, View};

/// The class that all are compared with.
pub(super) const DEFAULT: &str = "default";
/// A policy whose gain is smaller has no gain that another could keep.
const GAIN: f64 = 0.02;
/// Shorter waits count as this long: no task is late by so little.
const WAIT_NS: f64 = 100_000.0;
/// A simulation that has not ended after this much time of its own is given up.
const LIMIT_NS: u64 = 1_000_000_000_000;

/// Machines and loads, and the policies that run on them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Policies of one mechanism each, for `--policy`.
    pub(super) singles: String,
    /// The others: those that are judged, and controls.
    policies: String,
    /// More of them, for cells without any of the effects.
    forced: String,
    /// Seeds of each cell; one with `--quick`.
    seeds: u64,
    /// What every program is promised where cores differ.
    promise: Promise,
    /// Loads by name.
    load: BTreeMap<String, Load>,
    /// The cells, by machine.
    on: Vec<On>,
}

/// A part of a program's fair performance.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    /// One of the policies: a program's performance under it is fair.
    fair: String,
    /// The part from which on the promise counts as kept.
    target: f64,
}

/// What runs in a cell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// Its parts, side by side.
    parts: Vec<Part>,
    /// How long, if no part ends by itself.
    #[serde(default = "four")]
    seconds: f64,
}

fn four() -> f64 {
    4.0
}

/// Cells of one machine: each load at each pressure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct On {
    /// The simulated machine.
    machine: String,
    /// Names of loads.
    loads: Vec<String>,
    /// Tasks for each CPU.
    pressure: Vec<f64>,
    /// It is the machine of a single policy's paper.
    #[serde(default)]
    home: bool,
    /// How many of the five effects the machine and the load have together.
    effects: usize,
    /// With `--quick` its first cell runs.
    #[serde(default)]
    quick: bool,
}

/// The work that each program is promised.
type Promised = BTreeMap<String, f64>;

/// A policy in a cell, seed by seed: against the default class.
#[derive(Debug, Clone, Default)]
struct Score {
    speed: Vec<f64>,
    worst_program: Vec<f64>,
    wait_p99: Vec<f64>,
    worst_wait: Vec<f64>,
}

/// A cell with its scores by policy.
#[derive(Debug)]
struct Cell {
    name: String,
    home: bool,
    effects: usize,
    scores: BTreeMap<String, Score>,
    /// Policies whose runs failed, and why.
    failed: BTreeMap<String, String>,
}

/// The cells of a paper, run once.
#[derive(Default)]
pub struct Cells {
    cells: Option<Rc<Vec<Cell>>>,
}

/// A value for each cell of the matrix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfCells {
    /// The policy.
    of: String,
    /// The value that is taken.
    value: Taken,
    /// Only cells with so many effects or more.
    #[serde(default)]
    effects: usize,
    /// Only homes of single policies.
    #[serde(default)]
    home: bool,
}

/// The value of a cell. Each is judged by the worse quartile of its seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Taken {
    /// Speed against the default class.
    Speed,
    /// The same for the program that does worst, of those that have less than they are promised.
    WorstProgram,
    /// 99th percentile of the waits, against the default class.
    WaitP99,
    /// The longest wait, against the default class.
    WorstWait,
    /// Gain over the default class, as a part of the gain of the single policy that gains most. Cells where none gains
    /// have no value.
    Kept,
}

impl Kind for OfCells {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (singles, cells) = cells(lab)?;
        let mut sample = Sample::default();
        let wanted = |cell: &&Cell| cell.effects >= self.effects && (cell.home || !self.home);
        for cell in cells.iter().filter(wanted) {
            match self.value_of(cell, &singles) {
                Some(value) => sample.values.extend(value),
                None => sample.missing.push(cell.name.clone()),
            }
            if let Some(why) = cell.failed.get(&self.of) {
                sample.lost.push(format!("{}: {why}", cell.name));
            }
        }
        Ok(sample)
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

impl OfCells {
    /// The outer None: it was not measured. The inner one: the cell has no such value.
    fn value_of(&self, cell: &Cell, singles: &[String]) -> Option<Option<f64>> {
        let score = cell.scores.get(&self.of)?;
        let low = |values: &[f64]| quantile(values, 0.25);
        let high = |values: &[f64]| quantile(values, 0.75);
        Some(Some(match self.value {
            Taken::Speed => low(&score.speed)?,
            Taken::WorstProgram => low(&score.worst_program)?,
            Taken::WaitP99 => high(&score.wait_p99)?,
            Taken::WorstWait => high(&score.worst_wait)?,
            Taken::Kept => {
                let best = cell.best(singles)?;
                if best < 1.0 + GAIN {
                    return Some(None);
                }
                (low(&score.speed)? - 1.0) / (best - 1.0)
            }
        }))
    }
}

/// What a policy costs in cells without any of the effects, as a part of the speed under another: for each seed the
/// geometric mean over cells.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostInCells {
    /// The policy.
    of: String,
    /// The other one.
    than: String,
}

impl Kind for CostInCells {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (_, cells) = cells(lab)?;
        let mut sample = Sample::default();
        let mut by_cell: Vec<Vec<f64>> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.effects == 0) {
            match (cell.scores.get(&self.of), cell.scores.get(&self.than)) {
                (Some(own), Some(other)) => {
                    let ratios = own.speed.iter().zip(&other.speed).map(|(own, other)| own / other);
                    by_cell.push(ratios.collect());
                }
                _ => {
                    sample.missing.push(cell.name.clone());
                    let failed = [&self.of, &self.than].map(|name| cell.failed.get(name));
                    let told = |why: &String| format!("{}: {why}", cell.name);
                    sample.lost.extend(failed.into_iter().flatten().map(told));
                }
            }
        }
        let seeds = by_cell.first().map_or(0, Vec::len);
        let mean = |seed: usize| geometric_mean(by_cell.iter().map(|ratios| ratios[seed]));
        sample.values = (0..seeds).map(|seed| 1.0 - mean(seed)).collect();
        Ok(sample)
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("sim"))
    }
}

impl Cell {
    /// A policy's median speed.
    fn speed(&self, policy: &str) -> Option<f64> {
        median(&self.scores.get(policy)?.speed)
    }

    /// The speed of the single policy that gains most.
    fn best(&self, singles: &[String]) -> Option<f64> {
        singles.iter().filter_map(|name| self.speed(name)).max_by(f64::total_cmp)
    }
}

/// The names of the single policies, and all cells. They run if they have not run yet.
fn cells(lab: &mut Laboratory) -> Result<(Vec<String>, Rc<Vec<Cell>>), Failure> {
    let matrix = Matrix::of(lab.paper)?;
    let singles = contender::parse_all(std::slice::from_ref(&matrix.singles))?;
    let singles = singles.iter().map(|single| single.label().to_string()).collect();
    let (effort, progress) = (lab.effort.clone(), lab.progress);
    let kept = lab.kept::<Cells>();
    let cells = match &kept.cells {
        Some(cells) => cells.clone(),
        None => kept.cells.insert(Rc::new(matrix.run(&effort, progress)?)).clone(),
    };
    Ok((singles, cells))
}

impl Matrix {
    /// That of a paper.
    pub(super) fn of(paper: &Paper) -> Result<&Matrix, Failure> {
        let none = || Failure::input(format!("papers/{}.toml has no [matrix]", paper.name));
        paper.matrix.as_ref().ok_or_else(none)
    }

    fn run(&self, effort: &Effort, progress: &Progress) -> Result<Vec<Cell>, Failure> {
        let policies = [DEFAULT, &self.singles, &self.policies, &self.forced].map(String::from);
        let forced = contender::parse_all(&policies)?;
        let usual = contender::parse_all(&policies[..3])?;
        let mut places: Vec<_> = self.on.iter().flat_map(|on| on.cells(effort.quick)).collect();
        places.retain(|place| is_wanted(&effort.cells, &named(*place)));
        let seeds = if effort.quick { 1 } else { self.seeds };
        let mut cells = Vec::new();
        for (at, (on, load, pressure)) in places.iter().enumerate() {
            let name = named((on, load, *pressure));
            progress.phase(&format!("cell {} of {}: {name}", at + 1, places.len()));
            let contenders = if on.effects == 0 { &forced } else { &usual };
            let outcomes = self.outcomes(on, load, *pressure, contenders, seeds)?;
            let kinds = find_machine(&on.machine)?.kinds(TYPES_MAX).rates.len();
            let promise = (kinds > 1).then_some(&self.promise);
            cells.push(Cell::of(name, on, &outcomes, contenders, promise));
        }
        Ok(cells)
    }

    /// A load for so many CPUs.
    pub(super) fn load(&self, name: &str, cpus: usize, pressure: f64) -> Result<Workload, Failure> {
        let known = || Failure::input(format!("the matrix has no load {name}"));
        let of = self.load.get(name).ok_or_else(known)?;
        built(name, &of.parts, cpus, pressure, of.seconds)
    }

    /// Every policy with every seed, as many at a time as there are processors.
    fn outcomes(
        &self,
        on: &On,
        load: &str,
        pressure: f64,
        contenders: &[Contender],
        seeds: u64,
    ) -> Result<Vec<Vec<Result<Outcome, String>>>, Failure> {
        let machine = find_machine(&on.machine)?;
        let workload = self.load(load, machine.cpus.len(), pressure)?;
        let scenarios = scenarios(contenders, seeds, |scheduler, seed| {
            let workload = in_any_order(workload.clone(), seed);
            let mut scenario = Scenario::new(machine.clone(), workload, scheduler);
            scenario.options.cap_ns = LIMIT_NS;
            scenario
        })?;
        let outcomes = sim::run_all(&scenarios);
        let outcomes: Vec<_> =
            outcomes.into_iter().map(|one| one.map_err(|error| error.to_string())).collect();
        Ok(outcomes.chunks(seeds as usize).map(<[_]>::to_vec).collect())
    }
}

/// One for each seed of each contender, made from its scheduler and the seed.
pub(super) fn scenarios(
    contenders: &[Contender],
    seeds: u64,
    scenario: impl Fn(Scheduler, u64) -> Scenario,
) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = Vec::new();
    for contender in contenders {
        for seed in 0..seeds {
            scenarios.push(scenario(contender.scheduler()?, seed).seed(seed));
        }
    }
    Ok(scenarios)
}

/// The name of a cell.
fn named((on, load, pressure): (&On, &String, f64)) -> String {
    format!("{}, {load} × {pressure}", on.machine)
}

fn is_wanted(cells: &[String], name: &str) -> bool {
    cells.is_empty() || cells.iter().any(|text| name.contains(text.as_str()))
}

/// Refuses a text for `--cells` that no cell of these papers has in its name.
pub fn check(papers: &[Paper], cells: &[String]) -> Result<(), Failure> {
    let all = papers.iter().filter_map(|paper| paper.matrix.as_ref());
    let names: Vec<String> =
        all.flat_map(|matrix| matrix.on.iter().flat_map(|on| on.cells(false)).map(named)).collect();
    let unknown = cells
        .iter()
        .find(|text| text.is_empty() || !names.iter().any(|it| it.contains(text.as_str())));
    match (unknown, names.first()) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Failure::input("--cells is for papers with a matrix: composed")),
        (Some(text), Some(one)) => Err(Failure::input(format!(
            "--cells {text} matches no cell; {}name a part, as of \"{one}\"",
            meant::proposal(text, names.iter().map(String::as_str))
        ))),
    }
}

impl On {
    fn cells(&self, quick: bool) -> impl Iterator<Item = (&On, &String, f64)> {
        let all = self.loads.iter();
        let all = all.flat_map(move |load| self.pressure.iter().map(move |at| (self, load, *at)));
        let most = match (quick, self.quick) {
            (false, _) => usize::MAX,
            (true, quick) => usize::from(quick),
        };
        all.take(most)
    }
}

impl Cell {
    fn of(
        name: String,
        on: &On,
        outcomes: &[Vec<Result<Outcome, String>>],
        contenders: &[Contender],
        promise: Option<&Promise>,
    ) -> Self {
        let fair = promise.and_then(|promise| {
            let at = contenders.iter().position(|one| one.label() == promise.fair)?;
            Some((promise, &outcomes[at]))
        });
        let promised = |seed: usize| {
            let (promise, fair) = fair?;
            let part = |(name, done): (&str, f64)| (name.to_string(), promise.target * done);
            Some(work(fair[seed].as_ref().ok()?).into_iter().map(part).collect())
        };
        let promised: Vec<Option<Promised>> = (0..outcomes[0].len()).map(promised).collect();
        let (mut scores, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for (contender, runs) in contenders.iter().zip(outcomes) {
            let mut score = Score::default();
            for ((own, base), promised) in runs.iter().zip(&outcomes[0]).zip(&promised) {
                match (own, base) {
                    (Ok(own), Ok(base)) => score.add(own, base, promised.as_ref()),
                    (Err(why), _) | (_, Err(why)) => {
                        failed.insert(contender.label().to_string(), why.clone());
                    }
                }
            }
            if !failed.contains_key(contender.label()) {
                scores.insert(contender.label().to_string(), score);
            }
        }
        Cell { name, home: on.home, effects: on.effects, scores, failed }
    }
}

impl Score {
    /// With the work that each program is promised, if one is.
    fn add(&mut self, own: &Outcome, base: &Outcome, promised: Option<&Promised>) {
        let speeds = speeds(own, base);
        self.speed.push(geometric_mean(speeds.iter().map(|(_, speed)| speed.max(1e-9))));
        let (done, waits) = (work(own), waiting(own));
        let has_promised = |name: &str| {
            let promised = promised.and_then(|promised| promised.get(name));
            let kept =
                promised.zip(done.get(name)).is_some_and(|(promised, done)| done >= promised);
            kept && !waits.contains(name)
        };
        let programs = speeds.into_iter();
        let counts =
            |(name, speed): (&str, f64)| if has_promised(name) { speed.max(1.0) } else { speed };
        self.worst_program.push(least(programs.map(counts)));
        let p99 = |of: &Outcome| wait_ns(of.observed.tasks.values(), 0.99).unwrap_or(0.0);
        let worst = |of: &Outcome| of.observed.wait.max_ns as f64;
        let ratio = |own: f64, base: f64| own.max(WAIT_NS) / base.max(WAIT_NS);
        self.wait_p99.push(ratio(p99(own), p99(base)));
        self.worst_wait.push(ratio(worst(own), worst(base)));
    }
}

pub(super) fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

/// Tasks that go on until their time is over start in an order that depends on the seed. So their first places are
/// random, as on a machine in use.
fn in_any_order(mut workload: Workload, seed: u64) -> Workload {
    let mut random = Pcg64::seed_from_u64(seed);
    if workload.duration_ns.is_some() {
        workload.tasks.shuffle(&mut random);
    }
    workload
}

/// Each program's speed, by name. A load that ends by itself is one program without a name.
fn speeds<'o>(own: &Outcome, base: &'o Outcome) -> Vec<(&'o str, f64)> {
    let (done, before) = (work(own), work(base));
    if done.is_empty() || before.is_empty() {
        return vec![("", base.elapsed_ns as f64 / own.elapsed_ns.max(1) as f64)];
    }
    let speed = |name: &str, base: f64| done.get(name).copied().unwrap_or(0.0) / base;
    before.into_iter().map(|(name, base)| (name, speed(name, base))).collect()
}

fn program_in(outcome: &Outcome, tid: u32) -> &str {
    outcome.names.get(&tid).map_or("", |name| program_of(name))
}

/// Programs that sleep or wait: they may be slow although they have all CPU time that they are promised.
fn waiting(outcome: &Outcome) -> BTreeSet<&str> {
    let waits = outcome.observed.tasks.iter().filter(|(_, task)| task.voluntary > 1);
    waits.map(|(tid, _)| program_in(outcome, *tid)).collect()
}

/// Work of each program. None if the load ends by itself.
fn work(outcome: &Outcome) -> BTreeMap<&str, f64> {
    let mut work: BTreeMap<&str, f64> = BTreeMap::new();
    for (tid, done) in &outcome.progress {
        *work.entry(program_in(outcome, *tid)).or_default() += done;
    }
    work.retain(|_, done| *done > 0.0);
    work
}

/// A row for each cell and policy, and a heat map with the cell where `of` does worst on top.
pub fn chart(view: &View, of: &str, lab: &mut Laboratory) -> Result<Chart, Failure> {
    let (singles, cells) = cells(lab)?;
    let mut chart = Chart::of(view);
    let headings = ["cell", "policy", "speed", "worst program", "wait p99", "worst wait"];
    chart.headings = headings.map(String::from).to_vec();
    let mut sorted: Vec<&Cell> = cells.iter().collect();
    sorted.sort_by(|a, b| {
        let of = |cell: &Cell| cell.speed(of).unwrap_or(0.0);
        of(a).total_cmp(&of(b))
    });
    let mut columns = vec![of.to_string(), DEFAULT.to_string()];
    columns.extend(singles);
    for cell in &sorted {
        let more = cell.scores.keys().filter(|name| !columns.contains(name)).cloned();
        columns.extend(more.collect::<Vec<_>>());
    }
    for cell in &sorted {
        for name in &columns {
            let Some(score) = cell.scores.get(name) else { continue };
            let show = |values: &[f64]| median(values).map_or("–".into(), digits);
            let values = [&score.speed, &score.worst_program, &score.wait_p99, &score.worst_wait];
            let row = [cell.name.clone(), name.clone()].into_iter();
            chart.rows.push(row.chain(values.map(|values| show(values))).collect());
        }
    }
    let rows: Vec<(String, Vec<Option<f64>>)> = sorted
        .iter()
        .map(|cell| (cell.name.clone(), columns.iter().map(|name| cell.speed(name)).collect()))
        .collect();
    let caption = format!("{}: speed, against {DEFAULT}", chart.title);
    let map = heat(&caption, &columns, &rows);
    chart.plots.push((caption, map));
    Ok(chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::find;

    fn matrix() -> Matrix {
        find("composed").unwrap().remove(0).matrix.unwrap()
    }

    #[test]
    fn every_cell_has_a_machine_and_a_load_with_tasks() {
        let matrix = matrix();
        let cells: Vec<_> = matrix.on.iter().flat_map(|on| on.cells(false)).collect();
        assert!(cells.len() >= 60, "{} cells", cells.len());
        for (on, load, pressure) in cells {
            let machine = find_machine(&on.machine).unwrap();
            let of = &matrix.load[load];
            let workload = built(load, &of.parts, machine.cpus.len(), pressure, of.seconds);
            assert!(!workload.unwrap().tasks.is_empty(), "{} {load}", on.machine);
        }
        assert!(matrix.on.iter().flat_map(|on| on.cells(true)).count() < 10);
    }

    fn outcome(work: &[(&str, f64)], elapsed_ns: u64) -> Outcome {
        let mut outcome = Outcome { elapsed_ns, ..Outcome::default() };
        for (at, (name, done)) in work.iter().enumerate() {
            outcome.names.insert(at as u32, name.to_string());
            outcome.progress.insert(at as u32, *done);
        }
        outcome
    }

    #[test]
    fn a_program_counts_by_the_work_of_all_its_tasks() {
        let base = outcome(&[("a-0", 1.0), ("a-1", 3.0), ("b-0", 2.0)], 10);
        let own = outcome(&[("a-0", 4.0), ("a-1", 4.0), ("b-0", 1.0)], 10);
        let mut score = Score::default();
        score.add(&own, &base, None);
        assert_eq!((score.speed[0], score.worst_program[0]), (1.0, 0.5));
        assert_eq!(score.wait_p99, [1.0], "no task waited");
    }

    #[test]
    fn a_program_that_has_what_it_is_promised_is_not_the_worst() {
        let base = outcome(&[("a", 4.0), ("b", 5.0)], 10);
        let own = outcome(&[("a", 3.0), ("b", 4.5)], 10);
        let promises =
            |of: [(&str, f64); 2]| of.map(|(name, work)| (name.to_string(), work)).into();
        let worst = |promised: [(&'static str, f64); 2]| {
            let mut score = Score::default();
            score.add(&own, &base, Some(&promises(promised)));
            score.worst_program[0]
        };
        assert_eq!(worst([("a", 3.1), ("b", 4.6)]), 0.75);
        assert_eq!(worst([("a", 3.0), ("b", 4.6)]), 0.9);
        assert_eq!(worst([("a", 2.9), ("b", 0.0)]), 1.0);
        let mut score = Score::default();
        let mut sleeper = own.clone();
        sleeper.observed.tasks.entry(0).or_default().voluntary = 100;
        score.add(&sleeper, &base, Some(&promises([("a", 2.9), ("b", 0.0)])));
        assert_eq!(score.worst_program, [0.75], "it sleeps");
    }

    #[test]
    fn a_load_that_ends_by_itself_counts_by_its_time() {
        assert_eq!(speeds(&outcome(&[], 50), &outcome(&[], 100)), [("", 2.0)]);
    }
}
