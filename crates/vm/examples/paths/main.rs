// SPDX-License-Identifier: GPL-2.0-only
//! Measures machines/paths.toml: how many instructions the functions of a real kernel take.
//!
//! `cargo run -p vm --release --example paths > paths.toml` boots the guest several times with a plugin of QEMU
//! (plugin/paths.c) that counts them. Meanwhile hackbench and some system calls run, under Linux's own class and under
//! policies. It prints the whole file, with the median of a call and the range of its 5 % to 95 % quantiles. Lines of
//! functions that these runs do not reach stay unchanged. With a folder behind `--`, the counts of each boot are kept
//! there and not taken again.
//!
//! It needs a QEMU with plugins of API version 1 (4.2 to 8.2), hackbench, and clang.

mod calls;
mod functions;
#[path = "../plugin/mod.rs"]
mod plugin;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use functions::{BPF, FUNCTIONS, INLINED, Kind, PER_CPU};
use indicatif::MultiProgress;
use policies::POLICIES;
use policy::Instance;
use vm::{PolicyRef, Request, Shape, WorkloadRef};

/// Fewer calls than this are no basis for a length.
const CALLS_MIN: u64 = 20;
const FILE: &str = include_str!("../../../../machines/paths.toml");
const COMMAND: &str = "cargo run -p vm --release --example paths";

/// Calls by the instructions that each took.
type Histogram = BTreeMap<u64, u64>;
type Counts = BTreeMap<String, Histogram>;

/// One boot.
struct Run {
    cpus: usize,
    policy: &'static str,
    command: String,
}

fn main() {
    let mut words = std::env::args().skip(1);
    let result = match words.next().as_deref() {
        Some("guest") => vm::guest::main(&POLICIES),
        Some("work") => words.try_for_each(|name| calls::work(&name)),
        Some(folder) => measure(Some(Path::new(folder))),
        None => measure(None),
    };
    if let Err(error) = result {
        eprintln!("paths: {}", format!("{error:#}").replace('\n', "; "));
        std::process::exit(1);
    }
}

fn measure(kept: Option<&Path>) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let plugin = Plugin::build(scratch.path())?;
    let (release, symbols) = plugin.symbols()?;
    fs::write(&plugin.symbols, symbols)?;
    let mut all = Counts::new();
    let mut by_cpus: BTreeMap<usize, Counts> = BTreeMap::new();
    let runs = runs()?;
    for (number, run) in runs.iter().enumerate() {
        eprintln!(
            "{}/{}: {} CPUs, {}: {}",
            number + 1,
            runs.len(),
            run.cpus,
            run.policy,
            run.command
        );
        let place = kept.map(|folder| folder.join(format!("{number}-{}-{}", run.cpus, run.policy)));
        let counts = plugin.run(run, place.as_deref())?;
        for (name, histogram) in &counts {
            add(all.entry(name.clone()).or_default(), histogram);
            let of_shape = by_cpus.entry(run.cpus).or_default();
            add(of_shape.entry(name.clone()).or_default(), histogram);
        }
    }
    print_file(&all, &by_cpus, &release);
    Ok(())
}

/// All runs in which the plugin counts.
fn runs() -> anyhow::Result<Vec<Run>> {
    let exe = std::env::current_exe()?;
    let work = |names: &str| format!("{} work {names}", exe.display());
    let mut runs = Vec::new();
    for policy in ["default", "fifo", "flsched"] {
        let mut add = |cpus, command: String| runs.push(Run { cpus, policy, command });
        add(8, "hackbench -g 2 -l 50 -p".into());
        add(8, work(&calls::WORK.join(" ")));
        if policy == "default" {
            add(1, "hackbench -g 2 -l 50 -p".into());
            add(1, "hackbench -g 2 -l 50".into());
            add(4, work(&calls::WORK.join(" ")));
        }
    }
    Ok(runs)
}

/// The plugin and its two files.
struct Plugin {
    object: PathBuf,
    symbols: PathBuf,
    out: PathBuf,
}

impl Plugin {
    fn build(scratch: &Path) -> anyhow::Result<Self> {
        let object = plugin::build("paths", scratch)?;
        let (symbols, out) = (scratch.join("symbols"), scratch.join("out"));
        fs::write(&symbols, "")?;
        Ok(Plugin { object, symbols, out })
    }

    /// The kernel's release, and its symbols as the plugin reads them.
    fn symbols(&self) -> anyhow::Result<(String, String)> {
        let names: Vec<_> = FUNCTIONS.iter().flat_map(|f| f.symbols).copied().collect();
        let pattern = names.join("|");
        let command = format!(
            "uname -r; grep -E ' [tTwW] ({pattern})([.](isra|constprop|part)[.][0-9]+)*$' /proc/kallsyms"
        );
        let output = self.boot(1, "default", &command)?;
        let (release, lines) = output.split_once('\n').context("the guest says nothing")?;
        let mut text = String::new();
        for line in lines.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(symbol)) = (words.next(), words.nth(1)) else { continue };
            let base = symbol.split('.').next().unwrap_or(symbol);
            let Some(function) = FUNCTIONS.iter().find(|f| f.symbols.contains(&base)) else {
                continue;
            };
            text += &format!("{address} {} {}\n", function.kind.letter(), function.name);
        }
        for function in FUNCTIONS {
            if !text.lines().any(|line| line.ends_with(&format!(" {}", function.name))) {
                eprintln!("{}: not in this kernel, or inlined", function.name);
            }
        }
        let release = release.split('+').next().unwrap_or(release);
        Ok((release.to_string(), text))
    }

    /// Counts a run, or reads the counts that are kept at this place.
    fn run(&self, run: &Run, kept: Option<&Path>) -> anyhow::Result<Counts> {
        let text = match kept.and_then(|file| fs::read_to_string(file).ok()) {
            Some(text) => text,
            None => {
                self.boot(run.cpus, run.policy, &format!("sync; {} && sync", run.command))?;
                fs::read_to_string(&self.out).context("the plugin wrote nothing")?
            }
        };
        if let Some(file) = kept {
            fs::write(file, &text).with_context(|| file.display().to_string())?;
        }
        let mut counts = Counts::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_string();
            if let (Some(Ok(own)), Some(Ok(calls))) =
                (words.next().map(str::parse), words.next().map(str::parse))
            {
                counts.entry(name).or_default().insert(own, calls);
            }
        }
        Ok(counts)
    }

    /// Boots, runs, and returns the command's output.
    fn boot(&self, cpus: usize, policy: &str, command: &str) -> anyhow::Result<String> {
        let policy = match policy {
            "default" => PolicyRef::Default,
            name => PolicyRef::Instance(Instance::parse(name, &POLICIES)?),
        };
        let exe = std::env::current_exe()?;
        let workload = WorkloadRef::Command {
            argv: ["sh", "-c", command].iter().map(Into::into).collect(),
            with: vec![exe.clone(), vm::which("hackbench".as_ref())?],
        };
        let request = Request {
            shape: Shape { cpus, ..Shape::default() },
            turn: Some(Duration::from_micros(20)),
            plugin: Some(format!(
                "{},symbols={},out={}",
                self.object.display(),
                self.symbols.display(),
                self.out.display()
            )),
            ..Request::new(vec![policy], workload)
        };
        let outcomes = vm::run(&request, &exe, &MultiProgress::new())?;
        let outcome = outcomes.into_iter().next().context("the guest ran nothing")?;
        Ok(outcome.output)
    }
}

fn add(to: &mut Histogram, from: &Histogram) {
    for (own, calls) in from {
        *to.entry(*own).or_default() += calls;
    }
}

/// The number of calls, and the quantile of their counts.
fn quantile(histogram: &Histogram, part: f64) -> (u64, u64) {
    let calls: u64 = histogram.values().sum();
    let mut seen = 0;
    for (own, count) in histogram {
        seen += count;
        if seen as f64 >= part * calls as f64 {
            return (calls, *own);
        }
    }
    (calls, 0)
}

fn print_file(all: &Counts, by_cpus: &BTreeMap<usize, Counts>, release: &str) {
    let mut other_kernel = false;
    for line in FILE.lines() {
        if line.starts_with('[') {
            other_kernel = line == "[scheduler-2-6-38]";
        }
        let name = line.split_once(" = {").map(|(name, _)| name).filter(|_| !other_kernel);
        let measured = name.and_then(|name| line_of(name, all, by_cpus, release));
        println!("{}", measured.as_deref().unwrap_or(line));
        if let (Some(name), None) = (name, measured) {
            eprintln!("{name}: not reached, left as it is");
        }
    }
}

/// The line of the file for a measured name.
fn line_of(
    name: &str,
    all: &Counts,
    by_cpus: &BTreeMap<usize, Counts>,
    release: &str,
) -> Option<String> {
    if let Some((_, looks)) = PER_CPU.iter().find(|(per_cpu, _)| *per_cpu == name) {
        return per_cpu(name, looks, by_cpus, release);
    }
    if let Some((_, whole, part)) = INLINED.iter().find(|(inlined, ..)| *inlined == name) {
        return inlined(name, whole, *part, all, release);
    }
    let histogram = all.get(name)?;
    let function = FUNCTIONS.iter().find(|f| f.name == name && f.kind != Kind::Apart);
    let (calls, median) = quantile(histogram, 0.5);
    if calls < CALLS_MIN || (function.is_none() && name != BPF) {
        return None;
    }
    let range = [quantile(histogram, 0.05).1, quantile(histogram, 0.95).1];
    let symbols = function.map_or("programs of fifo and flsched".into(), |f| f.symbols.join(", "));
    let note = function.map_or("", |f| f.note);
    let note = if note.is_empty() { String::new() } else { format!("; {note}") };
    if name == BPF {
        let sum: u64 = histogram.iter().map(|(own, calls)| own * calls).sum();
        let mean = (sum as f64 / calls as f64).round();
        let range = [range[0].min(mean as u64), range[1].max(mean as u64)];
        return Some(line(
            name,
            mean,
            range,
            &format!("mean of {calls} calls of {symbols}"),
            release,
        ));
    }
    let source = format!("median of {calls} calls of {symbols}{note}");
    Some(line(name, median as f64, range, &source, release))
}

/// The line of an inlined function, as a part of the function that contains it.
fn inlined(name: &str, whole: &str, part: f64, all: &Counts, release: &str) -> Option<String> {
    let histogram = all.get(whole)?;
    let (calls, median) = quantile(histogram, 0.5);
    let share = |own: u64| (own as f64 * part).round();
    let range = [0.05, 0.95].map(|at| share(quantile(histogram, at).1) as u64);
    let source = match part {
        0.0 => format!("inlined in {whole}, whose length has it"),
        part => format!("{part} of the median of {calls} calls of {whole}, which has it inlined"),
    };
    let line = line(name, share(median), range, &source, release);
    (calls >= CALLS_MIN).then(|| line.replace("\"measured\"", "\"derived\""))
}

/// How much one more CPU adds to a call, from the smallest and the largest shape with such calls.
fn per_cpu(
    name: &str,
    looks: &str,
    by_cpus: &BTreeMap<usize, Counts>,
    release: &str,
) -> Option<String> {
    let medians = by_cpus.iter().filter_map(|(cpus, counts)| {
        let (calls, median) = quantile(counts.get(looks)?, 0.5);
        (calls >= CALLS_MIN && *cpus > 1).then_some((*cpus, calls, median as f64))
    });
    let medians: Vec<_> = medians.collect();
    let ((few, _, low), (many, calls, high)) = (*medians.first()?, *medians.last()?);
    if few == many {
        return None;
    }
    let slope = ((high - low) / (many - few) as f64).round();
    let whole = (high / many as f64).round();
    let range = [slope.min(whole) as u64, slope.max(whole) as u64];
    let source = format!(
        "for each CPU looked at: median of {looks} ({calls} calls) with {many} CPUs less that with \
         {few}; the range has all of it, shared by the CPUs, at its other end"
    );
    Some(line(name, slope, range, &source, release))
}

fn line(name: &str, value: f64, range: [u64; 2], source: &str, release: &str) -> String {
    let [low, high] = range;
    format!(
        "{name} = {{ value = {value}, range = [{low}, {high}], unit = \"instructions\", \
         source = \"guest, Linux {release}, icount, {COMMAND}: {source}\", tag = \"measured\" }}"
    )
}
