// SPDX-License-Identifier: GPL-2.0-only
//! What a sweep costs beside its simulations: `cargo run --release -p sweep --example many -- [RUNS]`, with 10,000 runs
//! of 5 s of 8 CPUs if their number is not given.
//!
//! The same runs are done one after the other without a sweep, by a sweep on one thread, and by a sweep on two. It shows
//! how much more CPU time the sweep takes than its simulations, how much sooner two threads are done than one, and the
//! memory of the process from the first tenth to the end. The three take turns, so that a noisy machine is noisy for all.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sweep::{Design, Digest, Purpose, Run, Stages, Store, missing, perform};
use terminal::Failure;

const LOAD: &str = r#"{"global": {"duration": 5}, "tasks": {
    "hog": {"instance": 8, "run": 10000, "loop": -1},
    "web": {"instance": 8, "run": 500, "sleep": 9500, "loop": -1}}}"#;

/// A sweep has at most 1,000 seeds, so 10,000 runs need ten policies.
const POLICIES: [&str; 10] = [
    "default",
    "flsched",
    "flsched:slice=2ms",
    "cas",
    "cas:threshold=0",
    "avx-fair",
    "o1",
    "rr",
    "fifo",
    "paceline",
];

/// The runs are split into this many parts. Each part is done in all three ways.
const PARTS: usize = 10;

/// The time that something took: of all CPUs, and of a clock on the wall.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    cpu: Duration,
    wall: Duration,
}

impl Took {
    fn add<E>(&mut self, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let (cpu, wall) = (cpu_time(), Instant::now());
        work()?;
        self.cpu += cpu_time() - cpu;
        self.wall += wall.elapsed();
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Memory of this process, MB.
fn resident() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(Failure::run)?;
    let pages =
        text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default();
    Ok(pages * rustix::param::page_size() as f64 / 1e6)
}

fn main() -> Result<(), Failure> {
    let runs = std::env::args().nth(1).map_or(Ok(10_000), |runs| runs.parse::<usize>());
    let runs = runs.map_err(Failure::input)?;
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    std::fs::write(folder.path().join("load.json"), LOAD).map_err(Failure::run)?;
    let text = format!(
        "policy = {POLICIES:?}\nmachine = \"numa-2x4\"\nworkload = \"load.json\"\nseeds = {}\n",
        runs.div_ceil(POLICIES.len())
    );
    let design = Design::parse("many", &text, folder.path(), Purpose::Sweep)?;
    let stages = Stages::default();
    let on = (&design.inputs, &stages);
    let all: Vec<(Digest, Run)> =
        missing(&design, None, Digest::of_this_program().map_err(Failure::run)?).left;
    let store = |name: &str| Store::open(&folder.path().join(name));
    let (mut of_one, mut of_two) = (store("one")?, store("two")?);
    let (mut bare, mut one, mut two) = (Took::default(), Took::default(), Took::default());
    println!("{} runs of 5 s of 8 CPUs", all.len());
    let mut memory = Vec::new();
    for part in all.chunks(all.len().div_ceil(PARTS)) {
        bare.add(|| part.iter().try_for_each(|(_, run)| run.simulate(on.0, on.1).map(drop)))?;
        one.add(|| perform(part, on, &mut of_one, 1, || Ok(())))?;
        two.add(|| perform(part, on, &mut of_two, 2, || Ok(())))?;
        memory.push(resident()?);
    }
    let ratio = |above: Duration, below: Duration| above.as_secs_f64() / below.as_secs_f64();
    let each = bare.cpu.as_secs_f64() * 1e3 / all.len() as f64;
    println!("CPU time of a simulation: {each:.2} ms");
    println!("a sweep's CPU time beyond that: {:.2} %", 100.0 * (ratio(one.cpu, bare.cpu) - 1.0));
    println!("two threads against one: {:.2} times as fast", ratio(one.wall, two.wall));
    let cpus = ratio(two.cpu, two.wall);
    println!(
        "CPU time of two threads: {:.2} times that of one, on {cpus:.2} CPUs",
        ratio(two.cpu, one.cpu)
    );
    let (first, last) = (memory[0], memory[memory.len() - 1]);
    println!("memory: {first:.1} MB after the first tenth, {last:.1} MB at the end");
    Ok(())
}
