// SPDX-License-Identifier: GPL-2.0-only
//! The simulator itself, on this machine: what a switch costs it, how much memory it takes, whether random cases come
//! out well, and whether it says of this machine what this machine does.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use policy::Instance;
use report::stats::median;
use serde::Deserialize;
use sim::yardstick::{calibration, eight_cpus, many_cpus, mix};
use sim::{Scenario, Scheduler};

use super::long::high_water;
use crate::failure::Failure;
use crate::measure;
use crate::progress::Progress;

/// The registry that cases are made with: a seed says the same to `cargo run --release -p sim --example swarm SEED`.
#[path = "../../../sim/tests/all/common/shipped.rs"]
#[allow(dead_code, reason = "this takes the list alone")]
mod shipped;

/// Seeds after which it says where it is: a night is many of them.
const PART: u64 = 5_000;
/// Steps of the loop that costs are held against.
const STEPS: u64 = 1_000;
/// That many are timed at once.
const LOOPS: u64 = 10_000;

/// Runs of each.
const RUNS: usize = 5;

/// A mix of tasks under `flsched`, on 8 CPUs or on 228.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Whose machine: `eight` or `many`.
    cpus: Cpus,
    /// How many tasks.
    tasks: usize,
    /// How long it is simulated.
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

/// What is measured.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Of {
    /// What a switch costs, with all its callbacks and hardware effects: ns of this machine's, run by run.
    Switch(Mix),
    /// The same, of what 1,000 steps of a loop of known length take.
    Steps(Mix),
    /// How many times as much is done in a while by two runs at once, on two cores.
    Two(Mix),
    /// The most memory that this program had by the end of the run, MB.
    Memory(Mix),
    /// The same, of what it had by the end of a run half as long.
    Growth(Mix),
    /// How many of the random cases failed, of as many as it takes for so many decisions.
    Swarm {
        /// Of whom runs next.
        decisions: u64,
        /// The same with `--quick`.
        quick_decisions: u64,
        /// The first seed.
        first: u64,
    },
    /// How far what it says of a hop of a ring of pipes on this machine is from what was, at the worst of all rings.
    Rings,
    /// How long `paceline measure` takes, s.
    Measure,
}

/// What is known of it: the most memory that this process had, in runs of a mix for so many ms.
#[derive(Debug, Default)]
pub struct Costs(BTreeMap<(Mix, u64), f64>);

impl Costs {
    fn peak_bytes(&mut self, mix: Mix, duration_ms: u64) -> Result<f64, Failure> {
        if let Some(bytes) = self.0.get(&(mix, duration_ms)) {
            return Ok(*bytes);
        }
        let bytes = mix.peak_bytes(duration_ms)?;
        self.0.insert((mix, duration_ms), bytes);
        Ok(bytes)
    }

    /// Measures it.
    pub fn take(&mut self, of: &Of, quick: bool, progress: &Progress) -> Result<Vec<f64>, Failure> {
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
                    // Before and after: a machine's speed may be another by then.
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
                each(&|| Ok(measure::farthest(progress)?.unwrap_or(f64::NAN)))
            }
            Of::Measure => {
                progress.phase("paceline measure");
                let began = Instant::now();
                measure::farthest(progress)?;
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

    /// The most memory that this process has had, in a run of this length.
    fn peak_bytes(&self, duration_ms: u64) -> Result<f64, Failure> {
        let scenario = self.scenario(duration_ms);
        // VmHWM begins anew (proc.rst), at what this process has now.
        fs::write("/proc/self/clear_refs", "5").map_err(failed)?;
        sim::run(&scenario).map_err(failed)?;
        let status = fs::read_to_string("/proc/self/status").map_err(failed)?;
        let most = high_water(&status).ok_or_else(|| failed("the kernel does not tell VmHWM"))?;
        Ok(most as f64)
    }
}

/// What 1,000 steps take, ns.
fn steps_ns() -> f64 {
    let one = || {
        let began = Instant::now();
        black_box(calibration(black_box(STEPS * LOOPS)));
        began.elapsed().as_nanos() as f64 / LOOPS as f64
    };
    let times: Vec<f64> = (0..5).map(|_| one()).collect();
    median(&times).unwrap_or(f64::NAN)
}

/// How many cases from this seed on failed, of as many as it takes. Each is said, with its seed.
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
        let part = sim::swarm(seed..seed + PART, shipped::SHIPPED);
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
