// SPDX-License-Identifier: GPL-2.0-only
//! Puts readings into a machine's file. Each number is measured, derived from measured ones, taken from another file,
//! or unknown.

use std::collections::BTreeMap;

use live::measure::{Cache, Passers, Reading};
use machine::{
    Amount, COSTS, Description, Distance, Machine, Observation, Paths, Quantity, Stated, Tag,
};
use report::text::{percent, plural};
use terminal::Failure;

use super::fit::{Fitted, fit};
use super::predict::Program;
use super::raw::{ALONE, ALONE_WITH_SET, MOVED_BYTES, Raw, RingKey, pairs};

/// The machine that numbers are taken from if nothing can be measured.
const TAKEN_FROM: &str = "numa-2x4";

/// A file's content, the machine that it describes, and the program of its rings.
pub struct Described {
    pub description: Description,
    pub machine: Machine,
    pub program: Program,
}

/// Describes the machine of these readings.
pub fn describe(raw: &Raw, when: &str) -> Result<Described, Failure> {
    let place = raw.place.as_ref().expect("readings begin with it");
    let mut description = Description {
        name: "this".into(),
        summary: summary(place),
        preface: preface(place, when, busy(raw)),
        cpus: cpus(place),
        kind_rates: rates(raw),
        node_distance: Stated::new(
            place.distances.clone(),
            "SLIT",
            Tag::Sourced,
            "/sys/devices/system/node/node*/distance",
        ),
        lock: Stated::new("queued".into(), "kind", Tag::Sourced, "Linux 4.2 and later"),
        costs: costs(raw, place.tick_ns),
        paths: BTreeMap::new(),
        delayed: BTreeMap::new(),
        memory: memory(raw),
        observed: observed(raw),
    };
    let other = raw.other.unwrap_or(raw.home);
    let program = Program { kilobyte_ns: kilobyte_ns(raw).unwrap_or(0.0), home: raw.home, other };
    let fitted = fit(read(&description)?, raw, &program);
    apply(&mut description, raw, &fitted);
    let machine = read(&description)?;
    Ok(Described { machine, description, program })
}

fn read(description: &Description) -> Result<Machine, Failure> {
    let read = Machine::from_toml(&description.to_toml(), "the measured machine");
    read.map_err(|error| Failure::run(format!("measured what no machine can be: {error}")))
}

/// Reading a kilobyte in the first cache: a ring of one task with an array, less one without.
fn kilobyte_ns(raw: &Raw) -> Option<f64> {
    let (with, without) = (raw.hops_ns.get(&ALONE_WITH_SET)?, raw.hops_ns.get(&ALONE)?);
    Some(with.less(without).median / (MOVED_BYTES / 1024) as f64)
}

fn summary(place: &live::measure::Place) -> String {
    let cores = 1 + place.rows.iter().map(|row| row[0]).max().unwrap_or(0) as usize;
    let caches = 1 + place.rows.iter().map(|row| row[1]).max().unwrap_or(0) as usize;
    format!(
        "measured: {}, {}, {}, {}",
        plural(place.cpus.len(), "CPU"),
        plural(cores, "core"),
        plural(caches, "last-level cache"),
        plural(place.nodes.len(), "node")
    )
}

/// The CPUs by number and the kernel that all readings are of: on others it is another machine, whatever its shape.
pub fn holds_for(place: &live::measure::Place) -> String {
    format!("Linux {}, its CPUs {}.", live::kernel_release(), place.list())
}

/// If other tasks have more of the CPUs' time than this, readings are of a shared machine. A twentieth slows anything
/// that needs two CPUs by about as much, and the simulator is allowed 15 %.
const OTHERS_MAX: f64 = 0.05;
/// The beginning of the line in a file that says so.
const BUSY: &str = "Others had ";

/// A note about readings that were taken while other tasks used the machine; None: it was idle, as far as is known.
pub fn busy(raw: &Raw) -> Option<String> {
    let others = raw.others.filter(|others| *others > OTHERS_MAX)?;
    Some(format!(
        "{BUSY}{} of the CPU time while this was measured: its numbers are of a busy machine. Measure an idle one.",
        percent(others)
    ))
}

/// The note about that in a machine's file, if it has one.
pub fn was_busy(text: &str) -> Option<&str> {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    lines.filter_map(|line| line.strip_prefix("# ")).find(|line| line.starts_with(BUSY))
}

fn preface(place: &live::measure::Place, when: &str, busy: Option<String>) -> Vec<String> {
    let mut lines = vec![
        format!("Measured by paceline measure on {when}. Ranges are quartiles of repetitions."),
        "Numbers with the tag \"unknown\" have no value: runs that need one are refused.".into(),
        holds_for(place),
    ];
    lines.extend(busy);
    if place.others > 0 {
        let what = "online CPUs are not for this process and are left out.";
        lines.push(format!("{} {what}", place.others));
    }
    lines
}

fn cpus(place: &live::measure::Place) -> Stated<machine::Rows> {
    let numbers: Vec<String> = place.cpus.iter().map(usize::to_string).collect();
    let source = format!(
        "/sys/devices/system/cpu, CPUs {} of the kernel: core, cache, node, kind of core",
        numbers.join(" ")
    );
    Stated::new(place.rows.clone(), "core, cache, node, kind", Tag::Sourced, source)
}

/// Speeds of the kinds of cores, as parts of the fastest; the kernel's value if one could not be measured.
fn rates(raw: &Raw) -> Stated<Vec<f64>> {
    let measured: Option<Vec<f64>> =
        raw.work_ns.iter().map(|reading| reading.map(|reading| 1.0 / reading.median)).collect();
    let told = raw.place.iter().flat_map(|place| &place.capacities).map(|it| f64::from(*it));
    let (speeds, tag, source) = match measured {
        Some(speeds) => (speeds, Tag::Measured, "a fixed piece of work on a core of each kind"),
        None => (told.collect(), Tag::Sourced, "cpu_capacity, or 1/2 for Intel's smaller cores"),
    };
    let most = speeds.iter().copied().fold(f64::MIN, f64::max);
    let rates = speeds.iter().map(|speed| (speed / most * 1e3).round() / 1e3).collect();
    Stated::new(rates, "1", tag, source)
}

/// A reading in the file's format.
fn stated(reading: Reading, unit: &str, tag: Tag, source: impl Into<String>) -> Stated {
    let Reading { median, low, high } = reading;
    Stated::new(median, unit, tag, source).within([low.min(median), high.max(median)])
}

/// A measured number, or unknown for this reason.
fn measured(reading: Option<Reading>, unit: &str, source: &str, why_not: &str) -> Stated {
    match reading {
        Some(reading) => stated(reading, unit, Tag::Measured, source),
        None => Stated::unknown(unit, why_not),
    }
}

/// Why a number is unknown that another attempt may find.
pub const DISTURBED: &str = "the CPU was never left alone for long enough, or the kernel refused";

/// Costs before the fit, which replaces some of them.
fn costs(raw: &Raw, tick_ns: u64) -> BTreeMap<&'static str, Stated> {
    let taken = machine::find(TAKEN_FROM).expect("it comes along");
    let mut costs = BTreeMap::new();
    // First the numbers taken from another file; better-known ones replace them.
    for name in COSTS.iter().filter(|name| name.threads == 1) {
        if let Some(Quantity { value, unit, source, .. }) = taken.sources.get(name.name) {
            let source = format!("not measured: taken from machines/{TAKEN_FROM}.toml ({source})");
            costs.insert(name.name, Stated::new(*value, unit, Tag::Assumed, source));
        }
    }
    let mut put = |name: &'static str, stated: Stated| drop(costs.insert(name, stated));
    let call = "getppid, again and again";
    put("syscall_ns", measured(raw.syscall_ns, "ns", call, DISTURBED));
    let chain = "a chain of exclusive ors and rotations, a cycle each";
    put("clock_ghz", measured(raw.clock_ghz, "GHz", chain, DISTURBED));
    let atomic = "fetch_add on a line of its own";
    put("atomic_ns", measured(raw.atomic_ns, "ns", atomic, DISTURBED));
    let copy = "4,096 bytes through a pipe less 1 byte, in and out";
    put("copy_byte_ns", measured(raw.copy_byte_ns, "ns", copy, DISTURBED));
    let timer = "timerfd_settime of the next timer to expire, less of one that is not";
    put("timer_ns", measured(raw.timer_ns, "ns", timer, DISTURBED));
    let tick = "resolution of CLOCK_MONOTONIC_COARSE";
    put("tick_period_ns", Stated::new(tick_ns as f64, "ns", Tag::Measured, tick));
    if let Some(slack_ns) = raw.timer_slack_ns {
        let source = "prctl(PR_GET_TIMERSLACK)";
        put("timer_slack_ns", Stated::new(slack_ns, "ns", Tag::Measured, source));
    }
    put("ticket_slope", Stated::unknown("1", "queued locks have none"));
    for (others, name) in ["smt_rate_2", "smt_rate_3", "smt_rate_4"].into_iter().enumerate() {
        put(name, beside(raw, others));
    }
    let place = raw.place.as_ref().expect("readings begin with it");
    let pairs = pairs(place, raw.home);
    for (far, line, moved) in [
        (Distance::Core, "line_core_ns", "migrate_core_ns"),
        (Distance::Llc, "line_llc_ns", "migrate_llc_ns"),
        (Distance::Node, "line_node_ns", "migrate_node_ns"),
        (Distance::Remote, "line_remote_ns", "migrate_remote_ns"),
    ] {
        let none = match pairs.contains_key(&far) {
            true => DISTURBED,
            false => "no two CPUs of this process are that far apart",
        };
        let source = "half of a line's way there and back between two CPUs";
        put(line, measured(raw.transfer_ns.get(&far).copied(), "ns", source, none));
        let source = format!(
            "a task that wrote {} KB goes through them at another CPU, the first time less the second",
            MOVED_BYTES / 1024
        );
        put(moved, measured(raw.refetch_ns.get(&far).copied(), "ns", &source, none));
    }
    refills(raw, &mut put);
    interrupts(raw, &taken, &mut put);
    costs
}

fn beside(raw: &Raw, others: usize) -> Stated {
    let alone = raw.work_ns.get(raw.beside_kind).copied().flatten();
    match alone.zip(raw.beside_ns.get(others).copied().flatten()) {
        Some((alone, beside)) => {
            let rate = (alone.median / beside.median).min(1.0);
            let low = (alone.low / beside.high).min(rate);
            let range = [low, (alone.high / beside.low).clamp(rate, 1.0)];
            let source = "a fixed piece of work, alone and beside others on the core's threads";
            Stated::new(rate, "1", Tag::Measured, source).within(range)
        }
        None if others < raw.beside_ns.len() => Stated::unknown("1", DISTURBED),
        None => Stated::unknown("1", "no core has more threads for this process"),
    }
}

/// Time that tasks of unknown working sets lose.
fn refills(raw: &Raw, put: &mut impl FnMut(&'static str, Stated)) {
    let (few, many) = raw.spaces();
    let processes = |tasks, bytes| {
        let key = RingKey::new(Passers::Processes, tasks, bytes).batch();
        raw.hops_ns.get(&key).copied()
    };
    let sets = processes(few, MOVED_BYTES).zip(processes(few, 0));
    let sums = raw.hops_ns.get(&ALONE_WITH_SET).zip(raw.hops_ns.get(&ALONE));
    let cold = sets
        .zip(sums)
        .map(|((with, without), (sum, none))| with.less(&without).less(&sum.less(none)));
    let source = format!(
        "ring of {few} batch processes: what {} KB take longer than those of one task",
        MOVED_BYTES / 1024
    );
    put("switch_refill_ns", derived(cold, "ns", &source));
    let flush = processes(many, 0).zip(processes(few, 0)).map(|(many, few)| many.less(&few));
    let source = format!(
        "none while the TLB tells the processes apart; range: to what a ring of {many} batch processes takes \
         longer than one of {few}"
    );
    put(
        "mm_refill_ns",
        match flush {
            // Without tags every change of the address space is a flush, and the whole loss is charged each time.
            Some(flush) if raw.tags == Some(0) => derived(Some(flush), "ns", &source),
            Some(flush) => Stated::new(0.0, "ns", Tag::Derived, source).within([0.0, flush.high]),
            None => Stated::unknown("ns", DISTURBED),
        },
    );
}

fn derived(reading: Option<Reading>, unit: &str, source: &str) -> Stated {
    match reading {
        Some(reading) => stated(reading, unit, Tag::Derived, source),
        None => Stated::unknown(unit, DISTURBED),
    }
}

/// An interrupt of another CPU: its total is measured, and its parts are in the other file's proportions.
fn interrupts(raw: &Raw, taken: &Machine, put: &mut impl FnMut(&'static str, Stated)) {
    let parts = [
        ("ipi_send_ns", taken.costs.ipi_send_ns),
        ("ipi_delivery_ns", taken.costs.ipi_delivery_ns),
        ("irq_ns", taken.costs.irq_ns),
    ];
    let whole_ns: f64 = parts.iter().map(|part| part.1).sum();
    match raw.barrier_ns.zip(raw.syscall_ns).map(|(barrier, call)| barrier.less(&call)) {
        Some(reading) => {
            for (name, part_ns) in parts {
                let source = format!(
                    "membarrier(2) with a thread on another CPU, less syscall_ns: {part_ns} of {whole_ns} \
                     parts of it, as in machines/{TAKEN_FROM}.toml"
                );
                put(name, stated(reading.times(part_ns / whole_ns), "ns", Tag::Derived, source));
            }
        }
        None => {
            let alone = raw.other.is_none();
            let why = if alone { "there is no other CPU to interrupt" } else { DISTURBED };
            put("ipi_send_ns", Stated::unknown("ns", why));
            put("ipi_delivery_ns", Stated::unknown("ns", why));
        }
    }
}

fn memory(raw: &Raw) -> BTreeMap<&'static str, Stated> {
    let mut memory = BTreeMap::new();
    let mut put = |name: &'static str, stated: Stated| drop(memory.insert(name, stated));
    let page = page_bytes();
    put("page_bytes", Stated::new(page, "bytes", Tag::Sourced, "sysconf(_SC_PAGESIZE)"));
    let tags = "pcid in /proc/cpuinfo; TLB_NR_DYN_ASIDS, arch/x86/include/asm/tlbflush.h";
    put(
        "tlb_tags",
        match raw.tags {
            Some(tags_of) => Stated::new(f64::from(tags_of), "tags", Tag::Sourced, tags),
            None => Stated::unknown("tags", "this architecture does not tell"),
        },
    );
    let walk = "a line of each of many times as many small pages as the TLB holds, less as many lines \
                side by side; loads do not wait for each other";
    tlbs(raw, NO_TLB, &mut put);
    let few_pages = "more pages than TLBs hold are more than a quarter of the memory that is free";
    let why_not = if raw.has_many_pages() { DISTURBED } else { few_pages };
    put("dtlb_miss_ns", measured(raw.page_walk_ns(), "ns", walk, why_not));
    put("itlb_miss_ns", Stated::unknown("ns", DISTURBED));
    let no_cache = "/sys does not tell of this machine's caches";
    put(
        "line_bytes",
        match raw.caches.line {
            Some(bytes) => Stated::new(bytes as f64, "bytes", Tag::Sourced, "/sys, cache/index0"),
            None => Stated::unknown("bytes", no_cache),
        },
    );
    let mut level = 0;
    let all = [
        (raw.caches.l1d, ["l1d_bytes", "l1d_ways", "l1d_miss_ns"]),
        (raw.caches.l2, ["l2_bytes", "l2_ways", "l2_miss_ns"]),
        (raw.caches.l3, ["l3_bytes", "l3_ways", "l3_miss_ns"]),
    ];
    for (cache, [bytes, ways, miss]) in all {
        let Some(Cache { bytes: size, ways: of }) = cache else {
            // The third level is left out if there is none.
            if !bytes.starts_with("l3") {
                put(bytes, Stated::unknown("bytes", no_cache));
                put(ways, Stated::unknown("ways", no_cache));
                put(miss, Stated::unknown("ns", no_cache));
            }
            continue;
        };
        put(bytes, Stated::new(size as f64, "bytes", Tag::Sourced, "/sys, cache"));
        put(ways, Stated::new(of as f64, "ways", Tag::Sourced, "/sys, cache"));
        put(miss, miss_ns(raw, level));
        level += 1;
    }
    memory
}

const NO_TLB: &str =
    "neither does the processor report its TLBs (CPUID), nor could they be told by trying";

/// Whether the cost of a flush of the TLB can be separated: its size and its tags are known.
fn knows_tlb(raw: &Raw) -> bool {
    raw.tags.is_some() && (raw.dtlb.is_some() || raw.pages_held().is_some())
}

/// The processor's report, unless more pages than that were seen to fit: a hypervisor may hide how sizes are to be
/// read.
fn tlbs(raw: &Raw, unknown: &str, put: &mut impl FnMut(&'static str, Stated)) {
    let held = raw.pages_held();
    let cpuid = "CPUID: the last TLB for pages of 4 KB";
    let told = raw.dtlb.map(|tlb| tlb.entries as usize);
    // A hypervisor that hides the size of one TLB hides that of the other.
    let factor = match (held, told) {
        (Some(held), Some(told)) if held > told => (held / told) as f64,
        _ => 1.0,
    };
    let source = match factor > 1.0 {
        true => format!("{cpuid}, times {factor}, as so many data pages cost next to nothing"),
        false => cpuid.to_string(),
    };
    let tag = if factor > 1.0 { Tag::Measured } else { Tag::Sourced };
    for (tlb, entries, ways) in
        [(raw.dtlb, "dtlb_entries", "dtlb_ways"), (raw.itlb, "itlb_entries", "itlb_ways")]
    {
        match (tlb, held) {
            (Some(tlb), _) => {
                let size = factor * f64::from(tlb.entries);
                put(entries, Stated::new(size, "entries", tag, source.clone()));
                put(ways, Stated::new(f64::from(tlb.ways), "ways", Tag::Sourced, cpuid));
            }
            // Without a TLB of its own, code is in the other one.
            (None, _) if entries.starts_with("itlb") => {}
            (None, Some(held)) => {
                const WAYS: f64 = 4.0;
                let source = "as so many pages cost next to nothing";
                put(entries, Stated::new(held as f64, "entries", Tag::Measured, source));
                let source = "usual for TLBs of this size";
                put(ways, Stated::new(WAYS, "ways", Tag::Assumed, source).within([1.0, 16.0]));
            }
            (None, None) => {
                put(entries, Stated::unknown("entries", unknown));
                put(ways, Stated::unknown("ways", unknown));
            }
        }
    }
}

fn page_bytes() -> f64 {
    live::measure::page_bytes() as f64
}

/// A line of the next level less one of this level.
fn miss_ns(raw: &Raw, level: usize) -> Stated {
    let of = |all: &[Option<Reading>]| {
        let pair = all.get(level).copied().flatten().zip(all.get(level + 1).copied().flatten());
        pair.map(|(near, far)| far.less(&near))
    };
    let (Some(touch), chase) = (of(&raw.touch_ns), of(&raw.chase_ns)) else {
        let is_last = level + 1 == raw.levels().len();
        return Stated::unknown("ns", if is_last { memory_unknown(raw) } else { DISTURBED });
    };
    let most = chase.map_or(touch.high, |chase| chase.high).max(touch.median);
    let source = "lines in an order that no prefetcher guesses, of the next level less this one: loads \
                  that do not wait for each other; range: to loads that do";
    Stated::new(touch.median, "ns", Tag::Measured, source).within([touch.low, most])
}

/// Why nothing is known of the memory behind all caches.
fn memory_unknown(raw: &Raw) -> &'static str {
    match raw.memory_bytes {
        Some(_) => DISTURBED,
        None => {
            "the last cache keeps too much of 1 GiB, or of a quarter of the memory that is free"
        }
    }
}

/// Observations that are no cost.
fn observed(raw: &Raw) -> BTreeMap<String, Observation> {
    let mut observed = BTreeMap::new();
    let mut put = |name: &str, it: Observation| drop(observed.insert(name.to_string(), it));
    let one = |reading: Option<Reading>, unit: &str, source: &str, why_not: &str| match reading {
        Some(Reading { median, low, high }) => {
            Stated::new(Amount::One(median), unit, Tag::Measured, source)
                .within([low.min(median), high.max(median)])
        }
        None => Stated::unknown(unit, why_not),
    };
    let levels: Vec<f64> = raw.levels().iter().map(|bytes| *bytes as f64).collect();
    let row = |all: &[Option<Reading>], what: &str| {
        let numbers: Option<Vec<f64>> = all.iter().map(|it| it.map(|it| it.median)).collect();
        match numbers {
            Some(numbers) if !numbers.is_empty() => {
                Stated::new(Amount::Row(numbers), "ns", Tag::Measured, what)
            }
            _ => Stated::unknown("ns", DISTURBED),
        }
    };
    let sizes = "bytes gone through: in each cache, and in none";
    put("sizes", Stated::new(Amount::Row(levels), "bytes", Tag::Derived, sizes));
    let side = "a line at each of these sizes, loads that do not wait for each other";
    put("line_ns", row(&raw.touch_ns, side));
    put(
        "latency_ns",
        row(&raw.chase_ns, "a line at each of these sizes, each load after the other"),
    );
    let stream = "reading one word after the other, from memory";
    put("bandwidth", one(raw.bandwidth_gbs, "bytes/ns", stream, memory_unknown(raw)));
    let copy = format!("copying pages of {} KB in memory", page_bytes() / 1024.0);
    put("page_copy_ns", one(raw.page_copy_ns, "ns", &copy, memory_unknown(raw)));
    put("page_move_ns", one(raw.page_move_ns, "ns", "move_pages(2) of 256 pages", ONE_NODE));
    let nodes = raw.place.as_ref().map_or(&[][..], |place| &place.nodes);
    put("node_latency_ns", between_nodes(&raw.node_latency_ns, nodes, "ns"));
    put("node_bandwidth", between_nodes(&raw.node_bandwidth_gbs, nodes, "bytes/ns"));
    let none = "the processor has no vector instructions that are known to slow it down";
    let (name, drop_of) = match raw.vector_drop {
        Some((name, reading)) => (name, Some(reading)),
        None => ("", None),
    };
    let source = format!("scalar speed just after 20 ms of {name}, of that before");
    put("vector_drop", one(drop_of, "1", &source, none));
    put("membarrier_ns", one(raw.barrier_ns, "ns", "membarrier(2), one other CPU", "no other CPU"));
    for (name, hops) in rings(raw) {
        let source = "a hop of rings of pipes of 1, 2 and so on tasks on one CPU, medians";
        put(&name, Stated::new(Amount::Row(hops), "ns", Tag::Measured, source));
    }
    let apart = RingKey { apart: true, ..RingKey::new(Passers::Threads, 2, 0) };
    let apart = raw.hops_ns.get(&apart).copied();
    let two = "a hop of a ring of two threads on two CPUs";
    put("hop_between_cpus_ns", one(apart, "ns", two, "there is no other CPU for this process"));
    for ((passers, tasks), reading) in &raw.yields_ns {
        let passer = if *passers == Passers::Threads { "threads" } else { "processes" };
        let name = format!("yield-{passer}-{tasks}");
        put(&name, one(Some(*reading), "ns", "sched_yield, of each that takes turns", DISTURBED));
    }
    observed
}

const ONE_NODE: &str = "one node, or the kernel refused";

/// A row for each node's CPUs, a column for the memory of each of these nodes. A memory with a missing value has no
/// column.
fn between_nodes(rows: &[Vec<Option<f64>>], nodes: &[usize], unit: &str) -> Observation {
    let told = |to: &usize| rows.iter().all(|row| row[*to].is_some());
    let (known, unknown): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(told);
    if known.is_empty() {
        return Stated::unknown(unit, ONE_NODE);
    }
    let row = |row: &Vec<Option<f64>>| known.iter().filter_map(|to| row[*to]).collect();
    let mut source = "from the CPUs of each node to the memory of each".to_string();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|to| nodes[*to].to_string()).collect();
        source += &format!(
            ", without node {}: it has too little that is free, or it was too disturbed",
            names.join(", node ")
        );
    }
    Stated::new(Amount::Table(rows.iter().map(row).collect()), unit, Tag::Measured, source)
}

/// Hops by the number of tasks, for each kind of ring; a ring with a missing length ends there.
fn rings(raw: &Raw) -> BTreeMap<String, Vec<f64>> {
    let mut rings: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, reading) in raw.hops_ns.iter().filter(|(key, _)| !key.batch && !key.apart) {
        let passer = if key.passers == Passers::Threads { "threads" } else { "processes" };
        let row = rings.entry(format!("hop_{passer}_{}kb_ns", key.bytes / 1024)).or_default();
        if row.len() + 1 == key.tasks {
            row.push(reading.median);
        }
    }
    // Keys are sorted by tasks first, so each row is in order.
    rings
}

/// Puts the results of the fit into the file.
fn apply(description: &mut Description, raw: &Raw, fitted: &Fitted) {
    let cost = |value: Option<f64>, unit: &str, source: &str| match value {
        Some(value) => Stated::new(value, unit, Tag::Derived, source),
        None => Stated::unknown(unit, DISTURBED),
    };
    let found = [
        ("kernel_cpi", fitted.kernel_cpi, "cycles/instruction", "one task that yields"),
        ("register_switch_ns", fitted.register_switch_ns, "ns", "two threads that yield"),
        ("mm_switch_ns", fitted.mm_switch_ns, "ns", "two processes that yield"),
        ("idle_exit_ns", fitted.idle_exit_ns, "ns", "a pipe ring of two threads on two CPUs"),
    ];
    for (name, value, unit, what) in found {
        // A machine of one CPU has no other CPU to wake: the assumed value stays.
        if name == "idle_exit_ns" && value.is_none() {
            continue;
        }
        let source = format!("so that sim says of {what} what was measured");
        description.costs.insert(name, cost(value, unit, &source));
    }
    let cpi = fitted.kernel_cpi.zip(raw.clock_ghz);
    for (name, instructions) in [("callback_ns", 20.0), ("kfunc_ns", 5.0)] {
        let source =
            format!("about {instructions} instructions at kernel_cpi: no program can try it");
        let stated = match cpi {
            Some((cpi, clock)) => {
                let ns: f64 = instructions * cpi / clock.median;
                // As wide as machines/ has it for well-described processors.
                Stated::new(ns, "ns", Tag::Assumed, source).within([ns / 3.0, ns * 3.0])
            }
            None => Stated::unknown("ns", DISTURBED),
        };
        description.costs.insert(name, stated);
    }
    let (few, many) = raw.spaces();
    let source = format!(
        "so that sim says of rings of {many} and {few} batch processes that they differ as measured: what a flush costs \
         a page of code, the flush itself included"
    );
    let miss = match fitted.itlb_miss_ns {
        None if !knows_tlb(raw) => Stated::unknown("ns", NO_TLB),
        found => cost(found, "ns", &source),
    };
    description.memory.insert("itlb_miss_ns", miss);
    let paths = Paths::embedded();
    let lengths = |of: &mut BTreeMap<String, Stated>, names: &[&str], factor, what: &str| {
        let Some(factor) = factor else { return };
        for name in names {
            let length: f64 = factor * paths.get(paths.id(name)).instructions;
            let source = format!(
                "{factor:.2} times that of machines/paths.toml, so that sim says of {what} what was measured"
            );
            let stated = Stated::new(length, "instructions", Tag::Derived, source);
            of.insert((*name).to_string(), stated);
        }
    };
    let queue = ["enqueue_task_fair", "dequeue_task_fair"];
    let token = "one task that passes a token to itself through a pipe";
    lengths(&mut description.paths, &["pipe_read", "pipe_write"], fitted.pipe, token);
    let two = "a pipe ring of two threads";
    lengths(&mut description.delayed, &queue, fitted.delayed, two);
    let five = "a pipe ring of five threads";
    lengths(&mut description.paths, &queue, fitted.full, five);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two CPUs. Only its caches are known.
    fn unknown() -> Raw {
        let place = live::measure::Place {
            cpus: vec![0, 1],
            rows: vec![[0, 0, 0, 0], [1, 0, 0, 0]],
            capacities: vec![1024],
            nodes: vec![0],
            distances: vec![vec![10]],
            tick_ns: 4_000_000,
            others: 0,
        };
        let mut raw = Raw { place: Some(place), work_ns: vec![None], ..Raw::default() };
        let cache = |bytes| Some(Cache { bytes, ways: 8 });
        (raw.caches.l1d, raw.caches.l2, raw.caches.l3) =
            (cache(32 << 10), cache(1 << 20), cache(480 << 20));
        raw
    }

    #[test]
    fn a_node_that_gives_no_memory_costs_the_others_nothing() {
        let rows = vec![
            vec![Some(1.0), None, Some(2.0)],
            vec![Some(3.0), Some(4.0), Some(5.0)],
            vec![Some(6.0), None, Some(7.0)],
        ];
        let told = between_nodes(&rows, &[0, 2, 3], "ns");
        let table = vec![vec![1.0, 2.0], vec![3.0, 5.0], vec![6.0, 7.0]];
        assert_eq!(told.value, Some(Amount::Table(table)));
        assert!(told.source.contains("without node 2: "), "{}", told.source);
        assert_eq!(between_nodes(&[vec![None]], &[0], "ns").tag, Tag::Unknown);
        assert_eq!(between_nodes(&[], &[0], "ns").source, ONE_NODE);
    }

    #[test]
    fn a_file_says_which_cpus_and_kernel_it_holds_for() {
        let described = describe(&unknown(), "a day").unwrap_or_else(|why| panic!("{why}"));
        let (text, place) = (described.description.to_toml(), unknown().place.unwrap());
        let is_of = |text: &str, place| crate::measurement::is_of(text, &described.machine, place);
        assert!(text.contains(", its CPUs 0-1.\n"), "{text}");
        assert!(is_of(&text, &place));
        assert!(!is_of(&text.replace("# Linux ", "# Linux 1."), &place), "another kernel");
        let elsewhere = live::measure::Place { cpus: vec![0, 8], ..place.clone() };
        assert!(!is_of(&text, &elsewhere), "others of the same shape");
    }

    #[test]
    fn a_file_of_a_busy_machine_says_so() {
        let text = |others| {
            let described = describe(&Raw { others, ..unknown() }, "a day");
            described.unwrap_or_else(|why| panic!("{why}")).description.to_toml()
        };
        let busy = text(Some(0.3));
        assert!(was_busy(&busy).unwrap().starts_with("Others had 30.0 % of the CPU time"));
        assert_eq!((was_busy(&text(Some(0.01))), was_busy(&text(None))), (None, None));
    }

    #[test]
    fn only_what_another_try_may_find_is_said_to_have_been_disturbed() {
        let raw = Raw { other: Some(1), beside_ns: vec![None], ..unknown() };
        let costs = costs(&raw, 4_000_000);
        let disturbed = |name: &str| costs[name].source == DISTURBED;
        for name in ["line_llc_ns", "migrate_llc_ns", "smt_rate_2", "ipi_send_ns", "syscall_ns"] {
            assert!(disturbed(name), "{name}");
        }
        for name in ["line_core_ns", "migrate_remote_ns", "smt_rate_3", "ticket_slope"] {
            assert!(costs[name].tag == Tag::Unknown && !disturbed(name), "{name}");
        }
        let described = describe(&raw, "a day").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(described.description.memory["itlb_miss_ns"].source, NO_TLB);
    }

    #[test]
    fn what_a_hypervisor_hides_is_unknown_and_no_failure() {
        let described = describe(&unknown(), "a day").unwrap_or_else(|why| panic!("{why}"));
        let memory = &described.description.memory;
        for hidden in ["dtlb_entries", "dtlb_miss_ns", "itlb_miss_ns", "l3_miss_ns"] {
            assert_eq!(memory[hidden].tag, Tag::Unknown, "{hidden}");
        }
        assert!(memory["l3_miss_ns"].source.contains("keeps too much"));
        assert!(!memory.contains_key("itlb_entries"));
        assert_eq!(described.description.observed["bandwidth"].tag, Tag::Unknown);
    }
}
