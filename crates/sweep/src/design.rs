// SPDX-License-Identifier: GPL-2.0-only
//! A sweep as its file describes it: factors, and the settings and variants that follow from them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use comparison::{Contender, contender};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::Deserialize;
use terminal::{Failure, files, meant};
use toml::Value;

use crate::choice::{Choice, Level, Scale, bad, default_of};
use crate::draw::coordinates;
use crate::input::{Input, Inputs};
use crate::objective::Objective;
use crate::run::Run;
use crate::search::Axis;

/// The keys of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    policy: Value,
    machine: Value,
    workload: Value,
    pressure: Option<Value>,
    seeds: Option<Value>,
    limit: Option<String>,
    objective: Option<String>,
    sample: Option<usize>,
    draw: Option<u64>,
    held_out: Option<Value>,
    #[serde(default)]
    knobs: BTreeMap<String, toml::Table>,
    #[serde(default)]
    costs: toml::Table,
}

/// A sweep.
#[derive(Debug)]
pub struct Design {
    /// Its title, or the name of its file.
    pub title: String,
    /// What a run is judged by.
    pub objective: Objective,
    /// The policies as they are listed. The first one is what all are compared with.
    pub policies: Vec<String>,
    /// Names of the factors that all policies have in common.
    pub factors: Vec<String>,
    /// Names of knobs that are varied, by the place of their policy.
    pub knobs: Vec<Vec<String>>,
    /// Seeds of each variant in each setting.
    pub seeds: Vec<u64>,
    /// All settings.
    pub settings: Vec<Setting>,
    /// Its machines and workloads.
    pub inputs: Inputs,
    /// Settings are drawn, and each has variants of its own.
    pub is_sample: bool,
    /// What is searched; None: all of it is run.
    pub space: Option<Space>,
    /// Workloads that confirm what a search found.
    pub held_out: Vec<Setting>,
    limit_ns: u64,
    costs: Vec<String>,
    machines: Vec<Input>,
    workloads: Vec<Input>,
}

/// The knobs of a policy that are searched, with their values.
#[derive(Debug)]
pub struct Space {
    /// The policy as it is listed.
    pub policy: String,
    /// Names of the knobs.
    pub knobs: Vec<String>,
    choices: Vec<Choice>,
}

/// What a file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run all of it.
    Sweep,
    /// To search the best values of a policy's knobs.
    Tune,
}

/// A value for each factor, and the variants that run there.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In the order of [`Design::factors`].
    pub levels: Vec<Level>,
    /// The first one is what all are compared with.
    pub variants: Arc<Vec<Variant>>,
}

impl Setting {
    /// Whether this variant of it is the one that all are compared with.
    pub fn is_base(&self, variant: &Variant) -> bool {
        std::ptr::eq(variant, &raw const self.variants[0])
    }
}

/// A policy with its knobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Index into [`Design::policies`].
    pub policy: usize,
    /// As `--policy` reads it.
    pub label: String,
    /// In the order of [`Design::knobs`]; empty: as it is listed.
    pub levels: Vec<Level>,
}

/// A factor with its values.
#[derive(Debug)]
struct Factor {
    name: String,
    choice: Choice,
}

/// More runs are refused as a likely mistake.
const RUNS_MAX: usize = 10_000_000;
/// Seeds without a word about them.
const SEEDS: i64 = 3;
/// Factors whose values are names.
const MACHINE: &str = "machine";
const WORKLOAD: &str = "workload";
const PRESSURE: &str = "pressure";
/// The knob that is tuned if none is named. Others may be promises, which are a user's own to make.
const SLICE: &str = "slice";

impl Design {
    /// Reads a sweep's file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn read(path: &Path, purpose: Purpose) -> Result<Self, Failure> {
        let text = files::text_of(path, "it is no text")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Design::parse(&path.display().to_string(), &text, folder, purpose)
    }

    /// Reads the text of a sweep's file; it names other files from this folder on.
    ///
    /// # Errors
    /// Something in it is wrong.
    pub fn parse(name: &str, text: &str, folder: &Path, purpose: Purpose) -> Result<Self, Failure> {
        let of: File = toml::from_str(text).map_err(|error| unclear(name, text, &error))?;
        let words = |key: &str, value: &Value| {
            words(value).map_err(|why| bad(name, key, why)).and_then(|words| {
                match words.is_empty() {
                    true => Err(bad(name, key, "the list is empty; name one")),
                    false => Ok(words),
                }
            })
        };
        let mut policies = contender::parse_all(&words("policy", &of.policy)?)?;
        let mut inputs = Inputs::new(folder);
        let (machines, workloads) = (words(MACHINE, &of.machine)?, words(WORKLOAD, &of.workload)?);
        let machine_inputs: Vec<Input> =
            machines.iter().map(|one| inputs.add_machine(one)).collect::<Result<_, _>>()?;
        let mut workload_inputs: Vec<Input> =
            workloads.iter().map(|one| inputs.add_workload(one)).collect::<Result<_, _>>()?;
        let listed = |key: &str, words: &[String]| {
            let choice = Choice::words(words).map_err(|why| bad(name, key, why))?;
            Ok::<_, Failure>(Factor { name: key.to_string(), choice })
        };
        let mut factors = vec![listed(WORKLOAD, &workloads)?, listed(MACHINE, &machines)?];
        if let Some(value) = &of.pressure {
            factors.push(Factor { name: PRESSURE.into(), choice: pressure(name, value)? });
        }
        for (cost, value) in &of.costs {
            let key = format!("costs.{cost}");
            let range = machine_inputs.iter().find_map(|it| inputs.machine(it).range(cost));
            let choice = Choice::read(value, Scale::Number, range);
            let choice = choice.map_err(|why| bad(name, &key, why))?;
            for machine in &machine_inputs {
                for value in choice.ends() {
                    let set = inputs.machine(machine).clone().with_cost(cost, value);
                    set.map_err(|error| bad(name, &key, error))?;
                }
            }
            factors.push(Factor { name: cost.clone(), choice });
        }
        let mut knobs = knobs(name, &policies, &of.knobs)?;
        let space = match purpose {
            Purpose::Sweep => None,
            Purpose::Tune => Some(Space::taken(name, &mut policies, &mut knobs)?),
        };
        let seeds = seeds(name, of.seeds.as_ref())?;
        let limit = of.limit.as_deref().unwrap_or("10min");
        let limit = humantime::parse_duration(limit)
            .map_err(|_| bad(name, "limit", "expected a time such as 60s"))?;
        let objective = of.objective.as_deref().unwrap_or("speed");
        let objective = objective.parse().map_err(|why| bad(name, "objective", why))?;
        let drawn = Drawn { file: name, policies: &policies, factors: &factors, knobs: &knobs };
        let settings = match of.sample {
            None => drawn.grid(seeds.len())?,
            Some(points) => drawn.sample(points, seeds.len(), of.draw.unwrap_or(1))?,
        };
        let held_out = match (&of.held_out, purpose) {
            (None, _) => Vec::new(),
            (Some(_), Purpose::Sweep) => {
                return Err(bad(name, "held_out", "is for `paceline tune`; take it out"));
            }
            (Some(value), Purpose::Tune) => {
                let held_out = words("held_out", value)?;
                for one in &held_out {
                    if workloads.contains(one) {
                        let why = format!("{one} is a workload of the search; name others");
                        return Err(bad(name, "held_out", why));
                    }
                    let input = inputs.add_workload(one)?;
                    workload_inputs.push(input);
                }
                elsewhere(&settings, &held_out)
            }
        };
        let names = |factors: &[Factor]| factors.iter().map(|it| it.name.clone()).collect();
        Ok(Design {
            title: of.title.unwrap_or_else(|| name.to_string()),
            objective,
            policies: policies.iter().map(|one| one.label().to_string()).collect(),
            factors: names(&factors),
            knobs: knobs.iter().map(|own| names(own)).collect(),
            seeds,
            settings,
            inputs,
            is_sample: of.sample.is_some(),
            space,
            held_out,
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            costs: of.costs.keys().cloned().collect(),
            machines: machine_inputs,
            workloads: workload_inputs,
        })
    }

    /// One workload on one machine, for a search of a policy's knobs.
    ///
    /// # Errors
    /// There is no such machine or workload.
    pub fn of_one(
        title: &str,
        workload: &str,
        machine: &str,
        space: Space,
        objective: Objective,
        limit_ns: u64,
    ) -> Result<Self, Failure> {
        let mut inputs = Inputs::new("".as_ref());
        let (machine, workload) = (inputs.add_machine(machine)?, inputs.add_workload(workload)?);
        let level = |input: &Input| Level { text: input.name.clone(), number: None };
        let policy = Variant { policy: 0, label: space.policy.clone(), levels: Vec::new() };
        let levels = [&workload, &machine].map(level).to_vec();
        Ok(Design {
            title: title.to_string(),
            objective,
            policies: vec![space.policy.clone()],
            factors: [WORKLOAD, MACHINE].map(String::from).to_vec(),
            knobs: vec![Vec::new()],
            seeds: vec![1],
            settings: vec![Setting { levels, variants: Arc::new(vec![policy]) }],
            inputs,
            is_sample: false,
            space: Some(space),
            held_out: Vec::new(),
            limit_ns,
            costs: Vec::new(),
            machines: vec![machine],
            workloads: vec![workload],
        })
    }

    /// The place of a factor among those that all policies have in common; every sweep has workloads and machines.
    pub fn place_of(&self, factor: &str) -> usize {
        self.factors.iter().position(|known| known == factor).expect("every sweep has it")
    }

    /// Where a setting is: its workload, machine and pressure.
    pub fn place(&self, setting: &Setting) -> String {
        let all = self.factors.iter().zip(&setting.levels);
        let known = |name: &str| !self.costs.iter().any(|cost| cost == name);
        let word = |(name, level): (&String, &Level)| match name.as_str() {
            PRESSURE => format!("× {}", level.text),
            MACHINE => format!("on {}", level.text),
            _ => level.text.clone(),
        };
        all.filter(|(name, _)| known(name)).map(word).collect::<Vec<_>>().join(" ")
    }

    /// A setting in words: where it is, and its costs.
    pub fn describe(&self, setting: &Setting) -> String {
        let costs = self.factors.iter().zip(&setting.levels);
        let costs = costs.filter(|(name, _)| self.costs.contains(name));
        let costs = costs.map(|(name, level)| format!(", {name}={}", level.text));
        self.place(setting) + &costs.collect::<String>()
    }

    /// A run.
    pub fn run(&self, setting: &Setting, variant: &Variant, seed: u64) -> Run {
        let level = |name: &str| {
            let at = self.factors.iter().position(|factor| factor == name)?;
            Some(&setting.levels[at])
        };
        let named = |inputs: &[Input], name: &str| {
            let wanted = &level(name).expect("every sweep has it").text;
            inputs.iter().find(|it| it.name == *wanted).expect("it was added").clone()
        };
        let costs = self.costs.iter().filter_map(|cost| Some((cost.clone(), level(cost)?.number?)));
        Run {
            policy: variant.label.clone(),
            machine: named(&self.machines, MACHINE),
            costs: costs.collect(),
            workload: named(&self.workloads, WORKLOAD),
            pressure: level(PRESSURE).and_then(|it| it.number).unwrap_or(1.0) as u32,
            seed,
            limit_ns: self.limit_ns,
        }
    }
}

impl Space {
    /// Knobs of a policy as a command line names them: `slice`, `slice=1ms..50ms`, `pull=true,false`. Without any, its
    /// `slice`.
    ///
    /// # Errors
    /// The policy has no such knob, or no such value of it.
    pub fn of_words(policy: &Contender, words: &[String]) -> Result<Self, Failure> {
        let label = policy.label();
        let Some(instance) = policy.policy() else {
            return Err(Failure::input(format!(
                "{label} has no knobs; name a policy that has some"
            )));
        };
        let known = instance.policy.knobs;
        let names = || known.iter().map(|knob| knob.name).collect::<Vec<_>>();
        let default = [SLICE.to_string()];
        let words = if words.is_empty() { &default } else { words };
        let (mut knobs, mut choices) = (Vec::new(), Vec::new());
        for word in words {
            let (name, values) =
                word.split_once('=').map_or((word.as_str(), None), |(name, it)| (name, Some(it)));
            let at = known.iter().position(|knob| knob.name == name).ok_or_else(|| {
                let proposal = meant::proposal(name, names());
                Failure::input(format!(
                    "--knob {word}: {label} has no such knob; {proposal}it has: {}",
                    names().join(", ")
                ))
            })?;
            let knob = &known[at];
            if instance.values[at] != knob.variable.default {
                return Err(Failure::input(format!(
                    "--knob {word}: {label} sets it, too; take it out of one of them"
                )));
            }
            if knobs.iter().any(|known| known == name) {
                return Err(Failure::input(format!(
                    "--knob {word}: {name} is named twice; name it once"
                )));
            }
            let choice = Choice::of_knob(knob, values);
            choices.push(choice.map_err(|why| Failure::input(format!("--knob {word}: {why}")))?);
            knobs.push(name.to_string());
        }
        Ok(Space { policy: label.to_string(), knobs, choices })
    }

    /// Takes the policy whose knobs are varied out of a list: it is all that is run.
    fn taken(
        file: &str,
        policies: &mut Vec<Contender>,
        knobs: &mut Vec<Vec<Factor>>,
    ) -> Result<Self, Failure> {
        let varied: Vec<usize> = (0..knobs.len()).filter(|at| !knobs[*at].is_empty()).collect();
        let [at] = varied[..] else {
            let why = match varied.len() {
                0 => "no knob is varied; name knobs and their values under [knobs.POLICY]",
                _ => "knobs of several policies are varied; one policy is tuned at a time",
            };
            return Err(bad(file, "knobs", why));
        };
        let policy = policies[at].label().to_string();
        let (names, choices) = knobs[at].drain(..).map(|it| (it.name, it.choice)).unzip();
        *policies = vec![policies.swap_remove(at)];
        *knobs = vec![Vec::new()];
        Ok(Space { policy, knobs: names, choices })
    }

    /// How a search sees each knob.
    pub fn axes(&self) -> Vec<Axis> {
        let axis = |choice: &Choice| match choice.count() {
            Some(count) if !choice.is_ordered() => Axis::Words(count),
            _ => Axis::Ordered,
        };
        self.choices.iter().map(axis).collect()
    }

    /// The values of all knobs at a place.
    pub fn levels(&self, place: &[f64]) -> Vec<Level> {
        self.choices.iter().zip(place).map(|(choice, part)| choice.at(*part)).collect()
    }

    /// The place that is nearest to the defaults.
    pub fn defaults(&self) -> Vec<f64> {
        let read = Contender::parse(&self.policy).ok();
        let instance = read.as_ref().and_then(Contender::policy);
        let value = |knob: &String| {
            let knobs = instance?.policy.knobs;
            knobs.iter().find(|known| known.name == *knob).map(default_of)
        };
        let parts = self.knobs.iter().zip(&self.choices);
        parts.map(|(knob, choice)| choice.part_of(value(knob).unwrap_or(0.0))).collect()
    }

    /// The policy with these values, as results name it.
    pub fn label(&self, levels: &[Level]) -> String {
        with_knobs(&self.policy, self.knobs.iter().map(String::as_str), levels)
    }
}

/// A policy with these values of its knobs, as `--policy` reads it and results name it: knobs at their defaults are left
/// out.
fn with_knobs<'k>(policy: &str, knobs: impl Iterator<Item = &'k str>, levels: &[Level]) -> String {
    let mut label = policy.to_string();
    for (knob, level) in knobs.zip(levels) {
        label.push(if label.contains(':') { ',' } else { ':' });
        label += &format!("{knob}={}", level.text);
    }
    let read = Contender::parse(&label);
    read.map_or_else(|_| label.clone(), |contender| contender.label().to_string())
}

/// The same settings with other workloads.
fn elsewhere(settings: &[Setting], workloads: &[String]) -> Vec<Setting> {
    let mut all: Vec<Setting> = Vec::new();
    for setting in settings {
        for workload in workloads {
            let mut other = setting.clone();
            other.levels[0] = Level { text: workload.clone(), number: None };
            if !all.iter().any(|known| known.levels == other.levels) {
                all.push(other);
            }
        }
    }
    all
}

/// The error of TOML's reader in one line.
fn unclear(name: &str, text: &str, error: &toml::de::Error) -> Failure {
    let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
    let line = line.map_or(String::new(), |line| format!(" line {line}:"));
    let said: Vec<&str> = error.message().lines().map(str::trim).collect();
    Failure::input(format!("{name}:{line} {}", said.join(" ")))
}

/// A text, or a list of texts.
fn words(value: &Value) -> Result<Vec<String>, String> {
    let word = |value: &Value| value.as_str().map(String::from).ok_or("expected a name in quotes");
    match value {
        Value::Array(values) => Ok(values.iter().map(word).collect::<Result<_, _>>()?),
        one => Ok(vec![word(one)?]),
    }
}

fn pressure(file: &str, value: &Value) -> Result<Choice, Failure> {
    let choice =
        Choice::read(value, Scale::Number, None).map_err(|why| bad(file, PRESSURE, why))?;
    let is_whole = |level: &Level| {
        level.number.is_some_and(|number| number.fract() == 0.0 && (1.0..=1000.0).contains(&number))
    };
    match choice.levels().is_some_and(|levels| levels.iter().all(is_whole)) {
        true => Ok(choice),
        false => Err(bad(
            file,
            PRESSURE,
            "expected whole numbers from 1 to 1000: copies of the workload",
        )),
    }
}

fn seeds(file: &str, value: Option<&Value>) -> Result<Vec<u64>, Failure> {
    let wrong =
        || bad(file, "seeds", "expected how many, from 1 to 1000, or a list of whole numbers");
    match value.unwrap_or(&Value::Integer(SEEDS)) {
        Value::Integer(count @ 1..=1000) => Ok((1..=*count as u64).collect()),
        Value::Array(seeds) if !seeds.is_empty() => {
            let seed = |seed: &Value| u64::try_from(seed.as_integer()?).ok();
            let seeds: Vec<u64> =
                seeds.iter().map(seed).collect::<Option<_>>().ok_or_else(wrong)?;
            let twice = (1..seeds.len()).find(|at| seeds[..*at].contains(&seeds[*at]));
            twice.map_or(Ok(()), |at| {
                Err(bad(file, "seeds", format!("{} is named twice", seeds[at])))
            })?;
            Ok(seeds)
        }
        _ => Err(wrong()),
    }
}

/// The knobs that are varied, for each policy of the list.
fn knobs(
    file: &str,
    policies: &[Contender],
    tables: &BTreeMap<String, toml::Table>,
) -> Result<Vec<Vec<Factor>>, Failure> {
    let name = |one: &Contender| one.policy().map(|instance| instance.policy.name);
    for policy in tables.keys() {
        if !policies.iter().any(|one| name(one) == Some(policy.as_str())) {
            let proposal = meant::proposal(policy, policies.iter().filter_map(name));
            let why = format!(
                "no policy of the list is called `{policy}`; {proposal}take it out, or list it"
            );
            return Err(bad(file, &format!("knobs.{policy}"), why));
        }
    }
    let of = |one: &Contender| {
        let Some(instance) = one.policy() else { return Ok(Vec::new()) };
        let policy = instance.policy;
        let Some(table) = tables.get(policy.name) else { return Ok(Vec::new()) };
        let factor = |(key, value): (&String, &Value)| {
            let place = format!("knobs.{}.{key}", policy.name);
            let at = policy.knobs.iter().position(|knob| knob.name == *key).ok_or_else(|| {
                let known: Vec<&str> = policy.knobs.iter().map(|knob| knob.name).collect();
                let proposal = meant::proposal(key, known.iter().copied());
                bad(
                    file,
                    &place,
                    format!("there is no such knob; {proposal}there are: {}", known.join(", ")),
                )
            })?;
            let knob = &policy.knobs[at];
            if instance.values[at] != knob.variable.default {
                let why = format!("{} sets it, too; take it out of one of them", instance.label);
                return Err(bad(file, &place, why));
            }
            let choice = Choice::read(value, Scale::Knob(knob), None);
            let choice = choice.map_err(|why| bad(file, &place, why))?;
            Ok(Factor { name: key.clone(), choice })
        };
        table.iter().map(factor).collect()
    };
    policies.iter().map(of).collect()
}

/// Makes settings of factors.
struct Drawn<'d> {
    file: &'d str,
    policies: &'d [Contender],
    factors: &'d [Factor],
    knobs: &'d [Vec<Factor>],
}

impl Drawn<'_> {
    /// All combinations of all values.
    fn grid(&self, seeds: usize) -> Result<Vec<Setting>, Failure> {
        let mut variants = Vec::new();
        let mut count = 1_usize;
        for factor in self.factors {
            count = count.saturating_mul(self.levels(factor)?.len());
        }
        for (at, knobs) in self.knobs.iter().enumerate() {
            let mut own = 1_usize;
            for knob in knobs {
                own = own.saturating_mul(self.levels(knob)?.len());
            }
            self.check_count(own.saturating_mul(count).saturating_mul(seeds))?;
            if at == 0 && !knobs.is_empty() {
                variants.push(self.variant(0, Vec::new()));
            }
            for levels in product(knobs.iter().filter_map(|knob| knob.choice.levels())) {
                variants.push(self.variant(at, levels));
            }
        }
        let variants = Arc::new(once_each(variants));
        self.check_count(variants.len().saturating_mul(count).saturating_mul(seeds))?;
        let settings = product(self.factors.iter().filter_map(|factor| factor.choice.levels()));
        Ok(settings
            .into_iter()
            .map(|levels| Setting { levels, variants: variants.clone() })
            .collect())
    }

    fn levels<'f>(&self, factor: &'f Factor) -> Result<&'f [Level], Failure> {
        factor.choice.levels().ok_or_else(|| {
            let why = "a range needs `steps` here, or the file a `sample = N`";
            bad(self.file, &factor.name, why)
        })
    }

    /// Points of a Latin hypercube.
    fn sample(&self, points: usize, seeds: usize, draw: u64) -> Result<Vec<Setting>, Failure> {
        if points == 0 {
            return Err(bad(self.file, "sample", "expected a whole number of points from 1"));
        }
        let each = self.policies.len() + usize::from(!self.knobs[0].is_empty());
        self.check_count(points.saturating_mul(each).saturating_mul(seeds))?;
        let mut random = Pcg64::seed_from_u64(draw);
        let mut column = |factor: &Factor| {
            let drawn = coordinates(points, &mut random);
            drawn.into_iter().map(|at| factor.choice.at(at)).collect::<Vec<Level>>()
        };
        let common: Vec<Vec<Level>> = self.factors.iter().map(&mut column).collect();
        let own: Vec<Vec<Vec<Level>>> =
            self.knobs.iter().map(|knobs| knobs.iter().map(&mut column).collect()).collect();
        let row = |columns: &[Vec<Level>], point: usize| {
            columns.iter().map(|column| column[point].clone()).collect::<Vec<Level>>()
        };
        let setting = |point: usize| {
            let mut variants: Vec<Variant> = Vec::new();
            if !self.knobs[0].is_empty() {
                variants.push(self.variant(0, Vec::new()));
            }
            for (at, columns) in own.iter().enumerate() {
                variants.push(self.variant(at, row(columns, point)));
            }
            let variants = Arc::new(once_each(variants));
            Setting { levels: row(&common, point), variants }
        };
        Ok((0..points).map(setting).collect())
    }

    /// A policy of the list with these values of its knobs.
    fn variant(&self, policy: usize, levels: Vec<Level>) -> Variant {
        let knobs = self.knobs[policy].iter().map(|knob| knob.name.as_str());
        let label = with_knobs(self.policies[policy].label(), knobs, &levels);
        Variant { policy, label, levels }
    }

    fn check_count(&self, runs: usize) -> Result<(), Failure> {
        match runs > RUNS_MAX {
            true => Err(Failure::input(format!(
                "{}: these are {runs} runs, of at most {RUNS_MAX}; take `sample = N`, or fewer values",
                self.file
            ))),
            false => Ok(()),
        }
    }
}

/// Every combination, the last list's values next to each other.
fn product<'l>(lists: impl Iterator<Item = &'l [Level]>) -> Vec<Vec<Level>> {
    lists.fold(vec![Vec::new()], |rows, list| {
        let longer = |row: &Vec<Level>| {
            let with = |level: &Level| row.iter().chain([level]).cloned().collect();
            list.iter().map(with).collect::<Vec<Vec<Level>>>()
        };
        rows.iter().flat_map(longer).collect()
    })
}

/// The same policy may be named by its default and by a knob's value that is the default.
fn once_each(variants: Vec<Variant>) -> Vec<Variant> {
    let mut all: Vec<Variant> = Vec::new();
    let mut places = HashMap::new();
    for variant in variants {
        match places.get(&variant.label).map(|at: &usize| &mut all[*at]) {
            Some(known) if known.levels.is_empty() => known.levels = variant.levels,
            Some(_) => {}
            None => {
                places.insert(variant.label.clone(), all.len());
                all.push(variant);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BOTH: &str = "machine = 'plain-2'\nworkload = 'agree-1'\n";

    fn parse(text: &str) -> Result<Design, String> {
        let (keys, tables) = text.split_once("\n[").unwrap_or((text, ""));
        let both = if keys.contains("machine") { "" } else { BOTH };
        let tables = if tables.is_empty() { String::new() } else { format!("[{tables}") };
        let text = format!("{both}{keys}\n{tables}\n");
        Design::parse("it.toml", &text, "".as_ref(), Purpose::Sweep)
            .map_err(|failure| failure.to_string())
    }

    fn labels(setting: &Setting) -> Vec<&str> {
        setting.variants.iter().map(|one| one.label.as_str()).collect()
    }

    /// Runs, with repetitions.
    fn count(design: &Design) -> usize {
        design.settings.iter().map(|at| at.variants.len() * design.seeds.len()).sum()
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let design = parse(
            "machine = ['plain-2', 'numa-2x4']\nworkload = 'agree-1'\npolicy = ['default', 'flsched', 'cas']\n\
             pressure = [1, 2]\nseeds = 2\n[knobs.flsched]\nslice = ['5ms', '50ms']\npull = [true, false]\n\
             [costs]\nipi_send_ns = [100, 200, 300]",
        )
        .unwrap();
        assert_eq!(design.settings.len(), 2 * 2 * 3);
        let all = labels(&design.settings[0]);
        assert_eq!((all[0], all.len(), all[5]), ("default", 6, "cas"));
        assert_eq!(count(&design), 12 * 6 * 2);
        let runs: BTreeSet<String> = design
            .settings
            .iter()
            .flat_map(|at| at.variants.iter().map(|one| design.run(at, one, 1)).collect::<Vec<_>>())
            .map(|run| serde_json::to_string(&run).unwrap())
            .collect();
        assert_eq!(runs.len(), 12 * 6);
    }

    #[test]
    fn a_first_policy_with_knobs_is_compared_with_itself_as_it_is_listed() {
        let design = parse("policy = 'min-fair'\n[knobs.min-fair]\ntarget = [0.85, 0.9]").unwrap();
        assert_eq!(labels(&design.settings[0]), ["min-fair", "min-fair:target=0.9"]);
        assert_eq!(
            design.settings[0].variants[0].levels.len(),
            1,
            "its default is one of the values"
        );
    }

    #[test]
    fn a_sample_has_each_part_of_each_range_once() {
        let text = "policy = ['default', 'min-fair']\nsample = 20\nseeds = [7]\n[knobs.min-fair]\n\
                    target = { from = 0.5, to = 1 }\n[costs]\nipi_send_ns = { from = 100, to = 300 }";
        let design = parse(text).unwrap();
        let parts = |value: &dyn Fn(&Setting) -> f64, from: f64, to: f64| {
            let part = |at: &Setting| ((value(at) - from) / (to - from) * 20.0) as usize;
            design.settings.iter().map(part).collect::<BTreeSet<usize>>().len()
        };
        let cost = |at: &Setting| at.levels.last().unwrap().number.unwrap();
        let target = |at: &Setting| at.variants[1].levels[0].number.unwrap() / 1e6;
        // A value that is rounded may be counted in the next part.
        assert!(parts(&cost, 100.0, 300.0) >= 18 && parts(&target, 0.5, 1.0) >= 18);
        assert_eq!((count(&design), design.seeds), (40, vec![7]));
        let again = parse(text).unwrap();
        assert_eq!(labels(&again.settings[3]), labels(&design.settings[3]));
        let other = parse(&format!("draw = 2\n{text}")).unwrap();
        assert_ne!(labels(&other.settings[3]), labels(&design.settings[3]));
    }

    #[test]
    fn a_bad_file_says_what_is_wrong_and_where() {
        for (text, why) in [
            ("policy = 'default'\nseed = 3", "line 4: unknown field `seed`"),
            ("policy = 'defualt'", "did you mean default"),
            ("policy = []", "policy: the list is empty"),
            ("policy = [1]", "policy: expected a name"),
            ("policy = 'default'\nseeds = 0", "seeds: expected how many"),
            ("policy = 'default'\nseeds = [1, 1]", "seeds: 1 is named twice"),
            ("policy = 'default'\npressure = 0.5", "pressure: expected whole numbers"),
            ("policy = 'default'\nlimit = 'long'", "limit: expected a time"),
            ("policy = 'default'\nobjective = 'fast'", "objective: `fast` cannot be measured"),
            ("policy = 'default'\nsample = 0", "sample: expected"),
            (
                "policy = 'default'\n[knobs.cas]\nslack = ['1ms']",
                "knobs.cas: no policy of the list",
            ),
            (
                "policy = 'cas'\n[knobs.cas]\nslak = ['1ms']",
                "knobs.cas.slak: there is no such knob; did you mean",
            ),
            ("policy = 'flsched:slice=9ms'\n[knobs.flsched]\nslice = ['1ms']", "sets it, too"),
            (
                "policy = 'flsched'\n[knobs.flsched]\nslice = ['1s', 'x']",
                "knobs.flsched.slice: slice=x: expected",
            ),
            (
                "policy = 'flsched'\n[knobs.flsched]\nslice = {from='1ms', to='9ms'}",
                "slice: a range needs `steps`",
            ),
            ("policy = 'default'\n[costs]\nipi_ns = [1]", "costs.ipi_ns:"),
            ("policy = 'default'\n[costs]\nipi_send_ns = [1, -5]", "costs.ipi_send_ns:"),
            (
                "policy = 'default'\n[costs]\ntick_period_ns = {from=0, to=9}",
                "costs.tick_period_ns:",
            ),
            (
                "policy = 'default'\nmachine = 'numa-3x'\nworkload = 'agree-1'",
                "no machine is called",
            ),
            (
                "policy = 'default'\nmachine = 'plain-2'\nworkload = 'agree'",
                "no workload is called",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn values_of_a_knob_that_may_be_off_are_whole() {
        let text = "policy = 'cas'\n[knobs.cas]\nslack = { from = '1ms', to = '50ms', steps = 3 }";
        let design = parse(text).unwrap();
        assert_eq!(
            labels(&design.settings[0])[1..],
            ["cas:slack=1ms", "cas:slack=26ms", "cas:slack=50ms"]
        );
    }

    #[test]
    fn too_many_runs_are_refused_before_they_are_made() {
        let slices: Vec<String> = (1..=200).map(|ms| format!("'{ms}ms'")).collect();
        let costs: Vec<String> = (1..=999).map(|ns| ns.to_string()).collect();
        let text = format!(
            "policy = 'flsched'\nseeds = 100\n[knobs.flsched]\nslice = [{}]\n[costs]\nipi_send_ns = [{}]",
            slices.join(","),
            costs.join(",")
        );
        let error = parse(&text).unwrap_err();
        assert!(error.contains("19980000 runs, of at most 10000000"), "{error}");
    }
}
