// SPDX-License-Identifier: GPL-2.0-only
//! The simulator itself, on this machine: the cost of a switch, its memory, whether random cases pass, and whether its
//! predictions for this machine are right.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use measuring::Measurement;
use policies::HONEST;
use policy::Instance;
use report::stats::median;
use serde::Deserialize;
use sim::yardstick::{calibration, eight_cpus, many_cpus, mix};
use sim::{Scenario, Scheduler};
use terminal::{Failure, Progress};

use super::long::high_water;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;

/// Seeds between updates of the progress: a night has many of them.
const PART: u64 = 5_000;
/// Steps of the loop that costs are compared with.
const STEPS: u64 = 1_000;
/// Loops that are timed together.
const LOOPS: u64 = 10_000;

/// Runs of each.
const RUNS: usize = 5;

/// The simulator itself, on this machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulator {
    /// The quantity.
    of: Of,
}

impl Kind for Simulator {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (quick, progress) = (lab.effort.quick, lab.progress);
        Ok(lab.kept::<Costs>().take(&self.of, quick, progress)?.into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("here"))
    }
}

/// A mix of tasks under `flsched`, on 8 CPUs or on 228.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Mix {
    /// The machine: `eight` or `many`.
    cpus: Cpus,
    /// Number of tasks.
    tasks: usize,
    /// Simulated duration.
    duration_ms: u64,
    /// The same with `--quick`.
    quick_duration_ms: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Cpus {
    Eight,
    Many,
}

/// The measured quantity.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Of {
    /// Cost of a switch, with all its callbacks and hardware effects: ns on this machine, run by run.
    Switch(Mix),
    /// The same, as a multiple of 1,000 steps of a loop of known length.
    Steps(Mix),
    /// The work of two runs at once, on two cores, as a multiple of one run's in the same time.
    Two(Mix),
    /// Peak memory of this program by the end of the run, MB.
    Memory(Mix),
    /// The same, as a multiple of the peak of a run half as long.
    Growth(Mix),
    /// How many random cases failed, of as many as give this many decisions.
    Swarm {
        /// Decisions about which task runs next.
        decisions: u64,
        /// The same with `--quick`.
        quick_decisions: u64,
        /// The first seed.
        first: u64,
    },
    /// The worst relative error of its predictions for a hop of a ring of pipes on this machine.
    Rings,
    /// Time of `paceline measure`, s.
    Measure,
}

/// Known costs: peak memory of this process, in runs of a mix for so many ms.
#[derive(Debug, Default)]
struct Costs(BTreeMap<(Mix, u64), f64>);

impl Costs {
    fn peak_bytes(&mut self, mix: Mix, duration_ms: u64) -> Result<f64, Failure> {
        if let Some(bytes) = self.0.get(&(mix, duration_ms)) {
            return Ok(*bytes);
        }
        let bytes = mix.peak_bytes(duration_ms)?;
        self.0.insert((mix, duration_ms), bytes);
        Ok(bytes)
    }

    /// Measures a quantity.
    fn take(&mut self, of: &Of, quick: bool, progress: &Progress) -> Result<Vec<f64>, Failure> {
        if cfg!(debug_assertions) && !matches!(of, Of::Swarm { .. }) {
            return Err(Failure::input(
                "what the simulator costs is not to be seen in a debug build: cargo build --release, then target/release/paceline",
            ));
        }
        let runs = if quick { 1 } else { RUNS };
        let each = |one: &dyn Fn() -> Result<f64, Failure>| (0..runs).map(|_| one()).collect();
        match of {
            Of::Switch(mix) => {
                progress.phase("switches of the simulator");
                each(&|| mix.switch_ns(quick))
            }
            Of::Steps(mix) => {
                progress.phase("switches of the simulator, beside a loop of known length");
                each(&|| {
                    // Before and after: the machine's speed may have changed.
                    let before_ns = steps_ns();
                    let switch_ns = mix.switch_ns(quick)?;
                    Ok(switch_ns / f64::midpoint(before_ns, steps_ns()))
                })
            }
            Of::Two(mix) => {
                progress.phase("two runs at once");
                each(&|| mix.two_at_once(quick))
            }
            Of::Memory(mix) => {
                progress.phase("memory of a long run");
                Ok(vec![self.peak_bytes(*mix, mix.duration_ms(quick))? / 1e6])
            }
            Of::Growth(mix) => {
                progress.phase("memory of a long run, and of one half as long");
                let whole = mix.duration_ms(quick);
                let half = self.peak_bytes(*mix, whole / 2)?;
                Ok(vec![self.peak_bytes(*mix, whole)? / half])
            }
            Of::Swarm { decisions, quick_decisions, first } => {
                let enough = if quick { *quick_decisions } else { *decisions };
                swarm(*first, enough, progress)
            }
            Of::Rings => {
                progress.phase("rings of pipes on this machine");
                each(&|| Ok(Measurement::take_with(progress)?.check().farthest.unwrap_or(f64::NAN)))
            }
            Of::Measure => {
                progress.phase("paceline measure");
                let began = Instant::now();
                Measurement::take_with(progress)?.check();
                Ok(vec![began.elapsed().as_secs_f64()])
            }
        }
    }
}

impl Mix {
    fn duration_ms(&self, quick: bool) -> u64 {
        if quick { self.quick_duration_ms } else { self.duration_ms }
    }

    fn scenario(&self, duration_ms: u64) -> Scenario {
        let machine = match self.cpus {
            Cpus::Eight => eight_cpus(),
            Cpus::Many => many_cpus(),
        };
        let flsched = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
        Scenario::new(machine, mix(self.tasks, duration_ms), flsched)
    }

    fn switch_ns(&self, quick: bool) -> Result<f64, Failure> {
        let scenario = self.scenario(self.duration_ms(quick));
        let began = Instant::now();
        let outcome = sim::run(&scenario).map_err(failed)?;
        Ok(began.elapsed().as_nanos() as f64 / outcome.observed.context_switches as f64)
    }

    fn two_at_once(&self, quick: bool) -> Result<f64, Failure> {
        let scenario = self.scenario(self.duration_ms(quick));
        let began = Instant::now();
        sim::run(&scenario).map_err(failed)?;
        let one = began.elapsed();
        let began = Instant::now();
        for run in sim::run_all(&[scenario.clone(), scenario]) {
            run.map_err(failed)?;
        }
        Ok(2.0 * one.as_secs_f64() / began.elapsed().as_secs_f64())
    }

    /// Peak memory of this process, in a run of this length.
    fn peak_bytes(&self, duration_ms: u64) -> Result<f64, Failure> {
        let scenario = self.scenario(duration_ms);
        // Resets VmHWM (proc.rst) to the process's present memory.
        fs::write("/proc/self/clear_refs", "5").map_err(failed)?;
        sim::run(&scenario).map_err(failed)?;
        let status = fs::read_to_string("/proc/self/status").map_err(failed)?;
        let most = high_water(&status).ok_or_else(|| failed("the kernel does not tell VmHWM"))?;
        Ok(most as f64)
    }
}

/// Time of 1,000 steps, ns.
fn steps_ns() -> f64 {
    let one = || {
        let began = Instant::now();
        black_box(calibration(black_box(STEPS * LOOPS)));
        began.elapsed().as_nanos() as f64 / LOOPS as f64
    };
    let times: Vec<f64> = (0..5).map(|_| one()).collect();
    median(&times).unwrap_or(f64::NAN)
}

/// How many cases from this seed on failed, of as many as are needed. Each is printed, with its seed.
fn swarm(first: u64, enough: u64, progress: &Progress) -> Result<Vec<f64>, Failure> {
    let (mut decisions, mut failed) = (0, 0);
    let mut seed = first;
    while decisions < enough {
        progress.phase(&format!(
            "random cases: {} so far, {:.2e} of {:.0e} decisions, {} failed",
            seed - first,
            decisions as f64,
            enough as f64,
            failed
        ));
        // Of the same policies as `cargo run --release -p sim --example swarm SEED`, where a seed means the same.
        let part = sim::swarm(seed..seed + PART, &HONEST);
        decisions += part.decisions;
        failed += part.failures.len();
        for failure in part.failures {
            progress.known(&format!("seed {}: {}: {}", failure.seed, failure.what, failure.error));
        }
        seed += PART;
    }
    progress.known(&format!(
        "seeds {first} to {seed}: {:.2e} decisions, {failed} failed",
        decisions as f64
    ));
    Ok(vec![failed as f64])
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::run(format!("the simulator's own cost: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    fn a_debug_build_says_nothing_of_costs() {
        let mix = Mix { cpus: Cpus::Eight, tasks: 4, duration_ms: 1, quick_duration_ms: 1 };
        let refused = Costs::default().take(&Of::Switch(mix), true, &Progress::new(1)).unwrap_err();
        assert!(refused.to_string().contains("cargo build --release"), "{refused}");
    }
}
