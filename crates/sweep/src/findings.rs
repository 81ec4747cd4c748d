// SPDX-License-Identifier: GPL-2.0-only
//! What a sweep found: what each variant gains, what matters, which one is best where.
//!
//! A run's gain is its objective against that of the first variant with the same seed in the same setting. Gains are
//! averaged as logarithms: twice and half as good are none together. What chance does to an average is seen by seeds:
//! the average is made for each seed, and the seeds' averages differ.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use terminal::Failure;

use crate::choice::Level;
use crate::design::{Design, Setting, Variant};
use crate::digest::Digest;
use crate::run::Came;
use crate::statistics::{Chance, Explained, Mean};
use crate::store::Store;

/// Factors and pairs that explain less are not listed.
pub const EXPLAINS: f64 = 0.01;
/// A factor with more numbers than that is divided into [`PARTS`] parts; one that is drawn always.
const NUMBERS: usize = 8;
const PARTS: usize = 4;

/// What a sweep found.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// Title of the sweep.
    pub title: String,
    /// What runs are judged by.
    pub objective: String,
    /// What all are compared with.
    pub base: String,
    /// Settings, and seeds in each.
    pub settings: usize,
    /// How many seeds each has.
    pub seeds: usize,
    /// All variants; of a sample, all policies.
    pub variants: Vec<OfVariant>,
    /// Which variant does best on each machine.
    pub winners: Vec<Winner>,
    /// What matters, by policy.
    pub effects: Vec<Effects>,
    /// Variants than which no other gains more and waits less.
    pub frontier: Vec<Point>,
    /// The gain of each variant in each place.
    pub map: Map,
    /// Runs that failed.
    pub failed: Vec<Lost>,
}

impl Findings {
    /// The runs that failed, if for them no variant can be compared with the first one.
    pub fn nothing_for(&self) -> Option<&Lost> {
        let (base, others) = self.variants.split_first()?;
        let compared = if others.is_empty() { std::slice::from_ref(base) } else { others };
        if compared.iter().any(|variant| variant.gain.is_some()) {
            return None;
        }
        let of_base = self.failed.iter().find(|lost| lost.label == self.base);
        of_base.or_else(|| self.failed.first())
    }
}

/// A variant over all settings.
#[derive(Clone, Debug, Serialize)]
pub struct OfVariant {
    /// Its label.
    pub label: String,
    /// How many times as good as the first one; above 1 is better. None: no run has both.
    pub gain: Option<Mean>,
    /// The setting where it gains least, in words, and its gain there.
    pub worst: Option<(String, f64)>,
    /// 99th percentile of waits against the first one; above 1 is longer.
    pub wait_p99: Option<f64>,
    /// The part of its runs that keeps the objective's limits. None: it has none.
    pub keeps_limits: Option<f64>,
    /// Runs that failed.
    pub failed: usize,
    /// Runs without a gain: it failed, or the first variant did, or one of both lacks the quantity.
    pub without_gain: usize,
}

/// The variant that does best on a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Winner {
    /// The machine.
    pub machine: String,
    /// The variant that gains most of those without a failed run, and that keep the limits.
    pub label: String,
    /// Its gain on this machine.
    pub gain: Mean,
    /// Whether chance would explain the gain. With one seed that is not known, and it counts as such.
    pub by_chance: bool,
    /// Whether the first variant breaks a limit, or fails, on this machine.
    pub base_is_out: bool,
}

/// How a policy's gain depends on each factor.
#[derive(Clone, Debug, Serialize)]
pub struct Effects {
    /// The policy.
    pub policy: String,
    /// Each factor, that which explains most first.
    pub factors: Vec<Effect>,
    /// Pairs that explain more than both factors alone.
    pub pairs: Vec<Pair>,
}

/// A factor's effect.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// The factor.
    pub factor: String,
    /// The part of all differences that it explains, 0 to 1.
    pub explains: f64,
    /// The mean gain at each value.
    pub at: Vec<(String, Mean)>,
}

/// Two factors that depend on each other.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Both factors.
    pub factors: [String; 2],
    /// The part of all differences that they explain together, beyond each alone.
    pub explains: f64,
    /// Values of the first.
    pub rows: Vec<String>,
    /// Values of the second.
    pub columns: Vec<String>,
    /// The mean gain at each pair of values; None: there was none.
    pub gains: Vec<Vec<Option<f64>>>,
}

/// A place in the plane of gains and waits.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The variant.
    pub label: String,
    /// Its gain.
    pub gain: f64,
    /// 99th percentile of waits against the first variant.
    pub wait_p99: f64,
    /// No other one gains more and waits less.
    pub best: bool,
}

/// Gains by place and variant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Map {
    /// Variants.
    pub columns: Vec<String>,
    /// Workload, machine and pressure, and the gain of each variant there; the place where they do worst first.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Runs that failed for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Lost {
    /// The variant.
    pub label: String,
    /// Why the first of them failed.
    pub why: String,
    /// How many.
    pub runs: usize,
}

/// A run with what came of it.
#[derive(Debug)]
pub struct Shown<'d, 'c> {
    /// The setting.
    pub setting: &'d Setting,
    /// The variant.
    pub variant: &'d Variant,
    /// The seed.
    pub seed: u64,
    /// What came of it.
    pub came: &'c Came,
    /// What came of the first variant.
    pub base: &'c Came,
    /// How many times as good it was as the first variant. None: one of both failed, or lacks the quantity.
    pub gain: Option<f64>,
}

/// Calls `show` for each run of a design whose results are all known: those of a variant in a setting follow each
/// other.
///
/// # Errors
/// Those of `show`, or a result is missing.
pub fn each<'d>(
    design: &'d Design,
    store: &Store,
    program: Digest,
    mut show: impl FnMut(&Shown<'d, '_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for setting in &design.settings {
        let came = |variant: &Variant, seed: u64| {
            let missing = || Failure::run("a result is missing; start the sweep again");
            store.get(design.run(setting, variant, seed).key(program))?.ok_or_else(missing)
        };
        let first = |seed: &u64| came(&setting.variants[0], *seed);
        let bases: Vec<Came> = design.seeds.iter().map(first).collect::<Result<_, _>>()?;
        for variant in setting.variants.iter() {
            for (seed, base) in design.seeds.iter().zip(&bases) {
                let own = came(variant, *seed)?;
                let gain = match (&own, base) {
                    (Came::Measured(own), Came::Measured(base)) => {
                        design.objective.ratio(own, base)
                    }
                    _ => None,
                };
                show(&Shown { setting, variant, seed: *seed, came: &own, base, gain })?;
            }
        }
    }
    Ok(())
}

/// A variant in a setting.
#[derive(Debug)]
struct Cell<'d> {
    setting: &'d Setting,
    variant: &'d Variant,
    /// The number of what it is counted as.
    group: usize,
    /// Logarithms of its gains, by seed. None: one of both runs failed.
    gains: Vec<Option<f64>>,
    /// Logarithms of its waits against those of the first variant.
    waits: Vec<f64>,
    /// Runs that keep the objective's limits, and runs that failed.
    kept: usize,
    failed: usize,
}

/// Finds what a sweep found.
///
/// # Errors
/// A result is missing.
pub fn findings(design: &Design, store: &Store, program: Digest) -> Result<Findings, Failure> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut groups: Vec<String> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut failed: BTreeMap<String, Lost> = BTreeMap::new();
    each(design, store, program, |run| {
        let is_new = cells.last().is_none_or(|last| {
            !std::ptr::eq(last.setting, run.setting) || !std::ptr::eq(last.variant, run.variant)
        });
        if is_new {
            let name = group_of(design, run.setting, run.variant);
            let group = *numbers.entry(name).or_insert_with_key(|name| {
                groups.push(name.clone());
                groups.len() - 1
            });
            let (setting, variant) = (run.setting, run.variant);
            let (gains, waits) = (Vec::new(), Vec::new());
            cells.push(Cell { setting, variant, group, gains, waits, kept: 0, failed: 0 });
        }
        let cell = cells.last_mut().expect("there is one");
        cell.gains.push(run.gain.map(f64::ln));
        match (run.came, run.base) {
            (Came::Failed(why), _) => {
                cell.failed += 1;
                let label = run.variant.label.clone();
                let lost = failed.entry(label.clone());
                lost.or_insert_with(|| Lost { label, why: why.clone(), runs: 0 }).runs += 1;
            }
            (Came::Measured(own), base) => {
                cell.kept += usize::from(design.objective.holds(own));
                if let Came::Measured(base) = base {
                    cell.waits.push(own.wait.longer_than(base.wait).ln());
                }
            }
        }
        Ok(())
    })?;
    let own = by_group(cells.iter(), groups.len());
    let variants: Vec<OfVariant> =
        groups.iter().zip(&own).map(|(name, own)| OfVariant::new(design, name, own)).collect();
    let policies = 0..design.policies.len();
    Ok(Findings {
        title: design.title.clone(),
        objective: design.objective.to_string(),
        base: groups.first().cloned().unwrap_or_default(),
        settings: design.settings.len(),
        seeds: design.seeds.len(),
        winners: winners(design, &groups, &cells),
        effects: policies.filter_map(|policy| Effects::new(design, policy, &cells)).collect(),
        frontier: frontier(&variants),
        map: Map::new(design, &groups, &cells),
        variants,
        failed: failed.into_values().collect(),
    })
}

/// What a variant is counted as: in a sample, each setting has variants of its own.
fn group_of(design: &Design, setting: &Setting, variant: &Variant) -> String {
    let has_knobs = !design.knobs[variant.policy].is_empty();
    match design.is_sample && has_knobs && !setting.is_base(variant) {
        true => format!("{}, knobs drawn", design.policies[variant.policy]),
        false => variant.label.clone(),
    }
}

/// The cells of each group, by its number.
fn by_group<'c, 'd>(
    cells: impl Iterator<Item = &'c Cell<'d>>,
    groups: usize,
) -> Vec<Vec<&'c Cell<'d>>> {
    let mut all = vec![Vec::new(); groups];
    for cell in cells {
        all[cell.group].push(cell);
    }
    all
}

impl Cell<'_> {
    /// Whether it has one with each seed.
    fn has_gains(&self) -> bool {
        self.gains.iter().all(Option::is_some)
    }

    /// Its mean over seeds. None: no seed has both runs.
    fn gain(&self) -> Option<f64> {
        let gains: Vec<f64> = self.gains.iter().copied().flatten().collect();
        Mean::of(&gains).map(|mean| mean.mean)
    }
}

/// The mean gain over cells: for each seed, then over seeds.
fn mean_gain<'c, 'd: 'c>(cells: impl Iterator<Item = &'c Cell<'d>> + Clone) -> Option<Mean> {
    best_gain(cells, 1)
}

/// The same of the best of so many variants.
fn best_gain<'c, 'd: 'c>(
    cells: impl Iterator<Item = &'c Cell<'d>> + Clone,
    of: usize,
) -> Option<Mean> {
    let seeds = cells.clone().next()?.gains.len();
    let of_seed = |seed: usize| {
        let gains: Vec<f64> = cells.clone().filter_map(|cell| cell.gains[seed]).collect();
        Mean::of(&gains).map(|mean| mean.mean)
    };
    let all: Vec<f64> = (0..seeds).filter_map(of_seed).collect();
    Mean::of_best(&all, of).map(Mean::exp)
}

impl OfVariant {
    fn new(design: &Design, label: &str, own: &[&Cell]) -> Self {
        let own = own.iter().copied();
        let worst = own
            .clone()
            .filter_map(|cell| Some((cell, cell.gain()?)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other));
        let waits: Vec<f64> = own.clone().flat_map(|cell| cell.waits.iter().copied()).collect();
        let runs: usize = own.clone().map(|cell| cell.gains.len()).sum();
        let kept: usize = own.clone().map(|cell| cell.kept).sum();
        OfVariant {
            label: label.to_string(),
            gain: mean_gain(own.clone()),
            worst: worst.map(|(cell, gain)| (design.describe(cell.setting), gain.exp())),
            wait_p99: Mean::of(&waits).map(|mean| mean.mean.exp()),
            keeps_limits: design.objective.has_limits().then(|| kept as f64 / runs.max(1) as f64),
            failed: own.clone().map(|cell| cell.failed).sum(),
            without_gain: own.flat_map(|cell| &cell.gains).filter(|gain| gain.is_none()).count(),
        }
    }
}

/// Distinct values of a factor, in the design's order.
fn distinct<'l>(levels: impl Iterator<Item = &'l Level>) -> Vec<&'l Level> {
    let mut seen = HashSet::new();
    levels.filter(|level| seen.insert(&level.text)).collect()
}

fn winners(design: &Design, groups: &[String], cells: &[Cell]) -> Vec<Winner> {
    let at = design.place_of("machine");
    let machines = distinct(design.settings.iter().map(|setting| &setting.levels[at]));
    let winner = |machine: &&Level| {
        let there = cells.iter().filter(|cell| cell.setting.levels[at] == **machine);
        let sound = |cell: &&Cell| {
            let keeps = !design.objective.has_limits() || cell.kept == cell.gains.len();
            cell.has_gains() && keeps
        };
        let gain = |own: &Vec<&Cell>| {
            let is_sound = own.iter().all(sound);
            is_sound.then(|| best_gain(own.iter().copied(), groups.len() - 1)).flatten()
        };
        let gains: Vec<Option<Mean>> = by_group(there, groups.len()).iter().map(gain).collect();
        // The last of equals counts: the first variant, which all are compared with.
        let all =
            gains.iter().enumerate().rev().filter_map(|(group, gain)| Some((group, (*gain)?)));
        let (group, gain) = all.max_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean))?;
        Some(Winner {
            machine: machine.text.clone(),
            label: groups[group].clone(),
            gain,
            by_chance: group > 0 && !gain.is_above(1.0),
            base_is_out: gains[0].is_none(),
        })
    };
    machines.iter().filter_map(winner).collect()
}

/// The values of a factor in all cells, as groups of them.
struct Grouped {
    factor: String,
    names: Vec<String>,
    of: Vec<usize>,
}

impl Grouped {
    /// None: the factor has one value.
    fn new(factor: &str, levels: &[&Level], drawn: bool) -> Option<Self> {
        let all = distinct(levels.iter().copied());
        let numbers: Vec<f64> = all.iter().filter_map(|level| level.number).collect();
        let (names, of): (Vec<String>, Vec<usize>) = match all.len() {
            0 | 1 => return None,
            many if (drawn || many > NUMBERS) && many > PARTS && numbers.len() == many => {
                let mut sorted = all.clone();
                sorted.sort_by(|one, other| {
                    let number = |level: &Level| level.number.unwrap_or(0.0);
                    number(one).total_cmp(&number(other))
                });
                let parts = sorted.chunks(many.div_ceil(PARTS));
                let name = |part: &[&Level]| match part {
                    [first, .., last] => format!("{} to {}", first.text, last.text),
                    [one] => one.text.clone(),
                    [] => String::new(),
                };
                let names = parts.clone().map(name).collect();
                let part = |level: &&Level| {
                    parts.clone().position(|part| part.contains(level)).expect("it is one of all")
                };
                (names, levels.iter().map(part).collect())
            }
            _ => {
                let names = all.iter().map(|level| level.text.clone()).collect();
                let place = |level: &&Level| {
                    all.iter().position(|known| known == level).expect("it is one of all")
                };
                (names, levels.iter().map(place).collect())
            }
        };
        Some(Grouped { factor: factor.to_string(), names, of })
    }
}

impl Effects {
    /// None: the policy is what all are compared with, or nothing is varied.
    fn new(design: &Design, policy: usize, cells: &[Cell]) -> Option<Self> {
        let is_own = |cell: &&Cell| {
            let is_base = cell.setting.is_base(cell.variant);
            let has_levels = cell.variant.levels.len() == design.knobs[policy].len();
            cell.variant.policy == policy && has_levels && (!is_base || policy == 0)
        };
        let own: Vec<&Cell> = cells.iter().filter(is_own).filter(|cell| cell.has_gains()).collect();
        let common = design.factors.iter().enumerate().filter_map(|(at, factor)| {
            let levels: Vec<&Level> = own.iter().map(|cell| &cell.setting.levels[at]).collect();
            Grouped::new(factor, &levels, design.is_sample)
        });
        let knobs = design.knobs[policy].iter().enumerate().filter_map(|(at, knob)| {
            let levels: Vec<&Level> = own.iter().map(|cell| &cell.variant.levels[at]).collect();
            Grouped::new(knob, &levels, design.is_sample)
        });
        let factors: Vec<Grouped> = common.chain(knobs).collect();
        let values: Vec<f64> = own.iter().filter_map(|cell| cell.gain()).collect();
        if factors.is_empty() || values.iter().all(|value| *value == values[0]) {
            return None;
        }
        let by_seed = own.iter().map(|cell| cell.gains.iter().copied().flatten().collect());
        let chance = if design.is_sample { Chance::Rest } else { Chance::Seeds };
        let explained = Explained::new(by_seed.collect(), chance);
        let mut effects: Vec<Effect> = factors
            .iter()
            .map(|factor| Effect {
                factor: factor.factor.clone(),
                explains: explained.by(&factor.of),
                at: factor.means(&own),
            })
            .collect();
        effects.sort_by(|one, other| other.explains.total_cmp(&one.explains));
        let mut pairs = Vec::new();
        for (at, one) in factors.iter().enumerate() {
            for other in &factors[at + 1..] {
                let explains = explained.by_both(&one.of, &other.of);
                if let Some(explains) = explains.filter(|explains| *explains >= EXPLAINS) {
                    pairs.push(Pair::new(one, other, explains, &own));
                }
            }
        }
        pairs.sort_by(|one, other| other.explains.total_cmp(&one.explains));
        Some(Effects { policy: design.policies[policy].clone(), factors: effects, pairs })
    }
}

impl Grouped {
    fn means(&self, cells: &[&Cell]) -> Vec<(String, Mean)> {
        let at = |(group, name): (usize, &String)| {
            let own = cells.iter().zip(&self.of).filter(|(_, of)| **of == group);
            Some((name.clone(), mean_gain(own.map(|(cell, _)| *cell))?))
        };
        self.names.iter().enumerate().filter_map(at).collect()
    }
}

impl Pair {
    fn new(one: &Grouped, other: &Grouped, explains: f64, cells: &[&Cell]) -> Self {
        let gain = |row: usize, column: usize| {
            let own = cells.iter().zip(one.of.iter().zip(&other.of));
            let own = own.filter(|(_, (a, b))| (**a, **b) == (row, column));
            mean_gain(own.map(|(cell, _)| *cell)).map(|mean| mean.mean)
        };
        let columns = 0..other.names.len();
        let row = |row: usize| columns.clone().map(|column| gain(row, column)).collect();
        Pair {
            factors: [one.factor.clone(), other.factor.clone()],
            explains,
            rows: one.names.clone(),
            columns: other.names.clone(),
            gains: (0..one.names.len()).map(row).collect(),
        }
    }
}

/// All variants without a failed run, and that keep the limits, by gain and wait.
fn frontier(variants: &[OfVariant]) -> Vec<Point> {
    let sound =
        |of: &&OfVariant| of.without_gain == 0 && of.keeps_limits.is_none_or(|kept| kept == 1.0);
    let places: Vec<(&str, f64, f64)> = variants
        .iter()
        .filter(sound)
        .filter_map(|of| Some((of.label.as_str(), of.gain?.mean, of.wait_p99?)))
        .collect();
    let point = |(label, gain, wait_p99): &(&str, f64, f64)| {
        let is_better = |(_, other, wait): &(&str, f64, f64)| {
            other >= gain && wait <= wait_p99 && (other > gain || wait < wait_p99)
        };
        let best = !places.iter().any(is_better);
        Point { label: label.to_string(), gain: *gain, wait_p99: *wait_p99, best }
    };
    places.iter().map(point).collect()
}

impl Map {
    fn new(design: &Design, groups: &[String], cells: &[Cell]) -> Self {
        let mut places: BTreeMap<String, Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            places.entry(design.place(cell.setting)).or_default().push(cell);
        }
        let row = |(place, own): (String, Vec<&Cell>)| {
            let gain = |own: &Vec<&Cell>| mean_gain(own.iter().copied()).map(|mean| mean.mean);
            let own = by_group(own.into_iter(), groups.len());
            (place, own.iter().map(gain).collect::<Vec<_>>())
        };
        let mut rows: Vec<(String, Vec<Option<f64>>)> = places.into_iter().map(row).collect();
        let least =
            |gains: &[Option<f64>]| gains.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        rows.sort_by(|(_, one), (_, other)| least(one).total_cmp(&least(other)));
        Map { columns: groups.to_vec(), rows }
    }
}
