// SPDX-License-Identifier: GPL-2.0-only
//! Reads a machine from TOML, with errors that name the place.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::CpuSet;
use crate::costs::{CostName, RATE_MIN, Table};
use crate::fabric::{Fabric, Links};
use crate::machine::{Capacities, Cpu, Each, Housekeeper, LockKind, Machine, MachineError, Ticks};
use crate::observed::Observation;
use crate::places::{Rows, placed};
use crate::quantity::{Quantity, Stated};
use crate::read_frequency::{Clocks, frequency};
use crate::source::{Source, parse};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    summary: String,
    #[serde(default = "none")]
    topology: Option<Topology>,
    #[serde(default = "none")]
    places: Option<Places>,
    kernel: Kernel,
    costs: Given,
    #[serde(default)]
    paths: BTreeMap<String, Spanned<Quantity>>,
    #[serde(default, rename = "from-idle")]
    from_idle: BTreeMap<String, Spanned<Quantity>>,
    #[serde(default)]
    delayed: BTreeMap<String, Spanned<Quantity>>,
    #[serde(default)]
    housekeeping: BTreeMap<String, Keeper>,
    #[serde(default = "none")]
    memory: Option<Given>,
    #[serde(default = "none")]
    fabric: Option<Given>,
    #[serde(default = "none")]
    links: Option<Joined>,
    frequency: Option<Clocks>,
    #[serde(default)]
    observed: BTreeMap<String, Observation>,
}

/// How memory nodes are joined.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Joined {
    latency_ns: Spanned<Quantity<Vec<Vec<f64>>>>,
    /// From, to, GB/s in each direction.
    links: Quantity<Vec<(usize, usize, f64)>>,
}

/// A section of numbers as the file has it.
type Given = BTreeMap<Spanned<String>, Spanned<Stated>>;

/// A machine of any shape: a row for each of its CPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Places {
    cpus: Spanned<Quantity<Rows>>,
    /// Work rate of each kind of core, relative to the fastest.
    kind_rates: Spanned<Quantity<Vec<f64>>>,
    #[serde(default = "none")]
    node_distance: Option<Spanned<Quantity<Vec<Vec<u32>>>>>,
}

/// A machine with nodes, caches and cores that are all alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topology {
    nodes: Spanned<Quantity<usize>>,
    llcs_per_node: Spanned<Quantity<usize>>,
    cores_per_llc: Spanned<Quantity<usize>>,
    threads_per_core: Spanned<Quantity<usize>>,
    numbering: Quantity<Numbering>,
    #[serde(default = "none")]
    node_distance: Option<Spanned<Quantity<Vec<Vec<u32>>>>>,
    /// Work rate of each core of an LLC, relative to the fastest; all alike if it is missing.
    #[serde(default = "none")]
    core_rates: Option<Spanned<Quantity<Vec<f64>>>>,
}

fn none<T>() -> Option<T> {
    None
}

/// How the threads of a core are numbered.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Numbering {
    /// 0 and 1 share a core.
    Adjacent,
    /// First one thread of each core, then the second of each.
    Spread,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    lock: Quantity<LockKind>,
    ticks: Option<Quantity<Ticks>>,
    capacities: Option<Quantity<Capacities>>,
}

/// Kernel threads of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keeper {
    each: Quantity<Each>,
    period_ns: Spanned<Quantity>,
    step_ns: Spanned<Quantity>,
    #[serde(default = "none")]
    skew_ns: Option<Spanned<Quantity>>,
    work_ns: Spanned<Quantity>,
}

impl Machine {
    /// Reads a description; `path` names it in errors.
    ///
    /// # Errors
    /// Names the line and what was expected there.
    pub fn from_toml(text: &str, path: &str) -> Result<Self, MachineError> {
        machine(text, path)
    }
}

fn machine(text: &str, path: &str) -> Result<Machine, MachineError> {
    let source = Source { text, path };
    let file: File = parse(&source)?;
    let Shape { cpus, core_rates, threads, node_distance } = match (&file.topology, &file.places) {
        (Some(topology), None) => regular(&source, topology)?,
        (None, Some(places)) => irregular(&source, places)?,
        _ => {
            let what = "expected either [topology] or [places]";
            return Err(source.error(0..0, what));
        }
    };
    let mut seen = Seen::default();
    let costs = table(&source, &file.costs, threads, &mut seen)?;
    let memory = match &file.memory {
        Some(given) => Some(table(&source, given, threads, &mut seen)?),
        None => None,
    };
    let fabric = match (&file.fabric, file.links) {
        (Some(given), Some(joined)) => {
            let nodes = node_distance.len();
            let joined = links(&source, joined, nodes)?;
            Some((table::<Fabric>(&source, given, threads, &mut seen)?, joined))
        }
        (None, None) => None,
        _ => {
            return Err(
                source.error(0..0, "[fabric] and [links] go together: one of them is missing")
            );
        }
    };
    let mut cores: Vec<u16> = cpus.iter().map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let clocks = file.frequency.as_ref().map(|given| frequency(&source, given, cores.len()));
    Ok(Machine {
        fabric,
        frequency: clocks.transpose()?,
        node_distance,
        name: file.name,
        summary: file.summary,
        cpus,
        core_rates,
        lock: file.kernel.lock.value,
        ticks: file.kernel.ticks.map_or(Ticks::Apart, |ticks| ticks.value),
        capacities: file.kernel.capacities.map_or(Capacities::Hidden, |given| given.value),
        housekeepers: housekeepers(&source, file.housekeeping)?,
        costs,
        paths: lengths(&source, file.paths)?,
        from_idle: lengths(&source, file.from_idle)?,
        delayed: lengths(&source, file.delayed)?,
        memory,
        sources: seen.sources,
        unknown: seen.unknown,
        observed: file.observed,
    })
}

fn links(source: &Source<'_>, joined: Joined, nodes: usize) -> Result<Links, MachineError> {
    let span = joined.latency_ns.span();
    let latency_ns = joined.latency_ns.into_inner().value;
    if latency_ns.len() != nodes {
        let what = format!("latency_ns: expected a row for each of {nodes} nodes");
        return Err(source.error(span, what));
    }
    Links::new(latency_ns, joined.links.value).map_err(|what| source.error(span, what))
}

/// Where the CPUs are.
struct Shape {
    cpus: Vec<Cpu>,
    core_rates: Vec<f64>,
    threads: usize,
    node_distance: Vec<Vec<u32>>,
}

fn regular(source: &Source, topology: &Topology) -> Result<Shape, MachineError> {
    let (cpus, core_rates) = cpus(source, topology)?;
    let nodes = topology.nodes.get_ref().value;
    let node_distance = distances(source, nodes, topology.node_distance.as_ref())?;
    let threads = topology.threads_per_core.get_ref().value;
    Ok(Shape { cpus, core_rates, threads, node_distance })
}

fn irregular(source: &Source, places: &Places) -> Result<Shape, MachineError> {
    let at_rates = |what: String| source.error(places.kind_rates.span(), what);
    let core_rates = places.kind_rates.get_ref().value.clone();
    if core_rates.is_empty() || !core_rates.iter().all(is_rate) {
        return Err(at_rates(format!("kind_rates: expected rates from {RATE_MIN} to 1")));
    }
    let rows = &places.cpus.get_ref().value;
    let cpus = placed(rows, core_rates.len())
        .map_err(|what| source.error(places.cpus.span(), format!("cpus: {what}")))?;
    let nodes = 1 + cpus.iter().map(|cpu| cpu.node).max().unwrap_or(0) as usize;
    let node_distance = distances(source, nodes, places.node_distance.as_ref())?;
    let of_core = |core: u16| cpus.iter().filter(|cpu| cpu.core == core).count();
    let threads = cpus.iter().map(|cpu| of_core(cpu.core)).max().unwrap_or(1);
    Ok(Shape { cpus, core_rates, threads, node_distance })
}

fn is_rate(rate: &f64) -> bool {
    (RATE_MIN..=1.0).contains(rate)
}

fn housekeepers(
    source: &Source<'_>,
    given: BTreeMap<String, Keeper>,
) -> Result<Vec<Housekeeper>, MachineError> {
    let ns = |name: &str, what: &str, bounds: (f64, f64), quantity: &Spanned<Quantity>| {
        let Quantity { value, unit, .. } = quantity.get_ref();
        let (least, most) = bounds;
        if unit != "ns" || !(least..=most).contains(value) {
            let what =
                format!("{name}: {what}: expected a number from {least} to {most}, unit \"ns\"");
            return Err(source.error(quantity.span(), what));
        }
        Ok(*value as u64)
    };
    let keeper = |(name, keeper): (String, Keeper)| {
        let skew = keeper.skew_ns.map(|skew| ns(&name, "skew_ns", (0.0, 1e9), &skew));
        let skew_ns = skew.transpose()?;
        Ok(Housekeeper {
            each: keeper.each.value,
            // A clock of 64 bits counts periods times steps.
            period_ns: ns(&name, "period_ns", (1.0, 1e10), &keeper.period_ns)?,
            step_ns: ns(&name, "step_ns", (1.0, 1e9), &keeper.step_ns)?,
            skew_ns,
            work_ns: ns(&name, "work_ns", (1.0, 1e9), &keeper.work_ns)?,
            name,
        })
    };
    given.into_iter().map(keeper).collect()
}

/// Path lengths of a section of their own.
fn lengths(
    source: &Source<'_>,
    given: BTreeMap<String, Spanned<Quantity>>,
) -> Result<BTreeMap<String, f64>, MachineError> {
    let length = |(name, quantity): (String, Spanned<Quantity>)| {
        let Quantity { value, unit, .. } = quantity.get_ref();
        if unit != "instructions" || !(0.0..=1e9).contains(value) {
            let what =
                format!("{name}: expected a number from 0 to 1000000000, unit \"instructions\"");
            return Err(source.error(quantity.span(), what));
        }
        Ok((name, *value))
    };
    given.into_iter().map(length).collect()
}

fn count(source: &Source, name: &str, q: &Spanned<Quantity<usize>>) -> Result<usize, MachineError> {
    match q.get_ref().value {
        0 => Err(source.error(q.span(), format!("{name} is 0: a machine needs at least one CPU"))),
        n => Ok(n),
    }
}

fn cpus(source: &Source, topology: &Topology) -> Result<(Vec<Cpu>, Vec<f64>), MachineError> {
    let nodes = count(source, "nodes", &topology.nodes)?;
    let llcs = count(source, "llcs_per_node", &topology.llcs_per_node)?;
    let cores = count(source, "cores_per_llc", &topology.cores_per_llc)?;
    let threads = count(source, "threads_per_core", &topology.threads_per_core)?;
    let total_cores = nodes.saturating_mul(llcs).saturating_mul(cores);
    let total = total_cores.saturating_mul(threads);
    if total > CpuSet::MAX {
        let what = format!("{total} CPUs: at most {} are supported", CpuSet::MAX);
        return Err(source.error(topology.nodes.span(), what));
    }
    let (core_rates, core_type) = core_types(source, topology, cores)?;
    let place = |cpu: usize| {
        let core = match topology.numbering.value {
            Numbering::Adjacent => cpu / threads,
            Numbering::Spread => cpu % total_cores,
        };
        Cpu {
            core: core as u16,
            llc: (core / cores) as u16,
            node: (core / cores / llcs) as u16,
            core_type: core_type[core % cores],
        }
    };
    Ok(((0..total).map(place).collect(), core_rates))
}

/// The distinct rates, fastest first, and the index into them of each core of an LLC.
fn core_types(
    source: &Source,
    topology: &Topology,
    cores: usize,
) -> Result<(Vec<f64>, Vec<u16>), MachineError> {
    let Some(given) = &topology.core_rates else { return Ok((vec![1.0], vec![0; cores])) };
    let rates = &given.get_ref().value;
    if rates.len() != cores || !rates.iter().all(is_rate) {
        let what = format!("core_rates: expected {cores} rates, each from {RATE_MIN} to 1");
        return Err(source.error(given.span(), what));
    }
    let mut kinds = rates.clone();
    kinds.sort_by(|a, b| b.total_cmp(a));
    kinds.dedup();
    let kind = |rate: &f64| kinds.iter().position(|kind| kind == rate).unwrap_or(0) as u16;
    let core_type = rates.iter().map(kind).collect();
    Ok((kinds, core_type))
}

fn distances(
    source: &Source,
    nodes: usize,
    given: Option<&Spanned<Quantity<Vec<Vec<u32>>>>>,
) -> Result<Vec<Vec<u32>>, MachineError> {
    let Some(given) = given else {
        let far = |a, b| if a == b { 10 } else { 20 };
        return Ok((0..nodes).map(|a| (0..nodes).map(|b| far(a, b)).collect()).collect());
    };
    let matrix = &given.get_ref().value;
    if matrix.len() != nodes || matrix.iter().any(|row| row.len() != nodes) {
        let what = format!("node_distance: expected {nodes} rows of {nodes} numbers");
        return Err(source.error(given.span(), what));
    }
    for (a, row) in matrix.iter().enumerate() {
        for (b, far) in row.iter().enumerate() {
            // As in Linux (`slit_valid`); 255 means unreachable.
            let (fits, wanted) = match a == b {
                true => (*far == 10, "10, as it is the same node"),
                false => ((11..=254).contains(far), "11 to 254, as a node is 10 from itself"),
            };
            if !fits {
                let what =
                    format!("node_distance: {far} from node {a} to node {b}: expected {wanted}");
                return Err(source.error(given.span(), what));
            }
        }
    }
    Ok(matrix.clone())
}

/// Costs that were given, and the costs that a file says are unknown, with the reason.
#[derive(Default)]
struct Seen {
    sources: BTreeMap<&'static str, Quantity>,
    unknown: BTreeMap<&'static str, String>,
}

/// Reads one section: only numbers of its table, each with its unit, and all mandatory ones.
fn table<T: Table>(
    source: &Source,
    given: &Given,
    threads: usize,
    seen: &mut Seen,
) -> Result<T, MachineError> {
    let mut table = T::default();
    for (key, stated) in given {
        let name = T::NAMES.iter().find(|name| name.name == key.get_ref()).ok_or_else(|| {
            let known = T::NAMES.iter().map(|name| name.name).collect::<Vec<_>>().join(", ");
            source.error(
                key.span(),
                format!("no cost is called `{}`; there are: {known}", key.get_ref()),
            )
        })?;
        let at_value = |what| source.error(stated.span(), format!("{}: {what}", name.name));
        match stated.get_ref().clone().known().map_err(at_value)? {
            None => {
                seen.unknown.insert(name.name, stated.get_ref().source.clone());
            }
            Some(quantity) => {
                check(source, name, &quantity, stated.span())?;
                *table.slot(name.name).expect("the table has it") = quantity.value;
                seen.sources.insert(name.name, quantity);
            }
        }
    }
    let told = |name: &str| seen.sources.contains_key(name) || seen.unknown.contains_key(name);
    let missing = T::NAMES.iter().find(|name| name.threads <= threads && !told(name.name));
    match missing {
        Some(name) => {
            let at = source.text.find(&format!("[{}", T::SECTION)).unwrap_or(0);
            let what = format!("[{}] lacks {} ({})", T::SECTION, name.name, name.unit);
            Err(source.error(at..at, what))
        }
        None => Ok(table),
    }
}

fn check(
    source: &Source,
    cost: &CostName,
    given: &Quantity,
    span: Range<usize>,
) -> Result<(), MachineError> {
    let Quantity { value, range, unit, .. } = given;
    let [low, high] = range.unwrap_or([*value, *value]);
    let what = match cost.refused(*value) {
        _ if unit != cost.unit => format!("unit \"{unit}\": expected \"{}\"", cost.unit),
        Some(why) => why,
        None if !(low <= *value && *value <= high) => {
            format!("value {value} is outside its range")
        }
        None => return Ok(()),
    };
    Err(source.error(span, format!("{}: {what}", cost.name)))
}
