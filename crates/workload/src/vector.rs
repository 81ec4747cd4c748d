// SPDX-License-Identifier: GPL-2.0-only
//! Vector code: its width, and programs that run it for a part of their time, or never.
//!
//! `"hw": {"vector": "avx512"}` of a task gives the kind of its work; an event `"vector"` begins another phase.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::hw::Vector;
use crate::model::{Task, Workload};
use crate::step::Step;

impl Task {
    /// The widest code of the task.
    pub fn widest(&self) -> Vector {
        self.vector.max(widest(&self.steps))
    }
}

fn widest(steps: &[Step]) -> Vector {
    let of = |step: &Step| match step {
        Step::Vector(vector) => *vector,
        Step::Repeat { steps, .. } => widest(steps),
        _ => Vector::None,
    };
    steps.iter().map(of).max().unwrap_or_default()
}

/// A program that runs wide code in rounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Culprit {
    vector: Width,
    period_us: u64,
    duty: f64,
    pause_us: u64,
    every: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Width {
    Avx2,
    Avx512,
}

/// A program that runs beside the culprit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Victim {
    run_us: u64,
    pause_us: u64,
    every: u64,
    stalled: f64,
}

/// Which programs run side by side: tasks of the first are named `a-N`, tasks of the second `b-N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// The culprit and the victim.
    Mixed,
    /// The same, with the culprit's wide code switched off: the baseline for the victim.
    Scalar,
    /// The culprit beside itself: the baseline for the culprit.
    Culprits,
}

/// All programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    culprits: BTreeMap<String, Culprit>,
    victims: BTreeMap<String, Victim>,
}

const US: u64 = 1000;

impl Programs {
    /// The programs that are compiled in.
    pub fn embedded() -> Programs {
        let text = include_str!("../../../workloads/vector.toml");
        toml::from_str(text).expect("a test reads the embedded file")
    }

    /// Names of the victims, in order.
    pub fn victims(&self) -> impl Iterator<Item = &str> {
        self.victims.keys().map(String::as_str)
    }

    /// The culprit of this name.
    pub fn culprit(&self, name: &str) -> Option<&Culprit> {
        self.culprits.get(name)
    }

    /// The victim of this name.
    pub fn victim(&self, name: &str) -> Option<&Victim> {
        self.victims.get(name)
    }
}

impl Culprit {
    /// The same with another part of its work in wide code.
    #[must_use]
    pub fn with_duty(&self, duty: f64) -> Culprit {
        Culprit { duty, ..self.clone() }
    }

    fn steps(&self, wide: bool) -> Vec<Step> {
        let wide = match (wide, self.vector) {
            (false, _) => Vector::None,
            (true, Width::Avx2) => Vector::Avx2,
            (true, Width::Avx512) => Vector::Avx512,
        };
        let run = |part: f64| Step::Run { work_ns: (part * (self.period_us * US) as f64) as u64 };
        let mut round = Vec::new();
        for (vector, part) in [(wide, self.duty), (Vector::None, 1.0 - self.duty)] {
            if part > 0.0 {
                round.extend([Step::Vector(vector), run(part)]);
            }
        }
        paused(round, self.every, self.pause_us)
    }
}

impl Victim {
    fn steps(&self) -> Vec<Step> {
        paused(vec![Step::Run { work_ns: self.run_us * US }], self.every, self.pause_us)
    }
}

fn paused(round: Vec<Step>, every: u64, pause_us: u64) -> Vec<Step> {
    match pause_us {
        0 => round,
        _ => {
            let rounds = (0..every).flat_map(|_| round.clone());
            rounds.chain([Step::Sleep { ns: pause_us * US }]).collect()
        }
    }
}

/// `threads` threads of both programs for `duration_ns`. The threads of each program form one process.
pub fn beside(
    culprit: &Culprit,
    victim: &Victim,
    threads: [usize; 2],
    how: Beside,
    duration_ns: u64,
) -> Workload {
    let task = |name: &str, at: usize, steps: Vec<Step>, stalled: f64| Task {
        name: format!("{name}-{at}"),
        process: usize::from(name == "b") + 1,
        steps: vec![Step::Repeat { times: None, steps }],
        stalled,
        // Stagger the rounds of different threads.
        delay_ns: at as u64 * 37 * US,
        ..Task::default()
    };
    let first = (0..threads[0]).map(|at| task("a", at, culprit.steps(how != Beside::Scalar), 0.0));
    let second = (0..threads[1]).map(|at| match how {
        Beside::Culprits => task("b", at, culprit.steps(true), 0.0),
        _ => task("b", at, victim.steps(), victim.stalled),
    });
    Workload {
        name: "mix".into(),
        tasks: first.chain(second).collect(),
        duration_ns: Some(duration_ns),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, rtapp, write};

    /// The steps of one round with all repetitions expanded.
    fn unrolled(steps: &[Step]) -> Vec<Step> {
        let one = |step: &Step| match step {
            Step::Repeat { times, steps } => {
                let round = unrolled(steps);
                (0..times.unwrap_or(1)).flat_map(|_| round.clone()).collect()
            }
            step => vec![step.clone()],
        };
        steps.iter().flat_map(one).collect()
    }

    #[test]
    fn files_have_the_same_programs() {
        let programs = Programs::embedded();
        for (culprit, text) in [
            ("x265-avx512", include_str!("../../../workloads/x265-avx512.json")),
            ("x265-avx2", include_str!("../../../workloads/x265-avx2.json")),
        ] {
            let read = rtapp::parse(culprit, text).unwrap();
            let mut threads = BTreeMap::new();
            for task in &read.tasks {
                let (name, _) = task.name.rsplit_once('-').unwrap();
                *threads.entry(name.to_string()).or_insert(0) += 1;
                let (steps, stalled) = match programs.victim(name) {
                    Some(victim) => (victim.steps(), victim.stalled),
                    None => (programs.culprit(culprit).unwrap().steps(true), 0.0),
                };
                assert_eq!(unrolled(&task.steps), unrolled(&steps), "{name}");
                assert_eq!(task.stalled, stalled, "{name}");
            }
            assert_eq!(threads.remove("x265"), Some(32));
            assert!(threads.keys().map(String::as_str).eq(programs.victims()), "{threads:?}");
            assert!(threads.values().all(|own| *own == 4), "{threads:?}");
        }
    }

    #[test]
    fn mixes_can_be_written_and_read() {
        let programs = Programs::embedded();
        assert_eq!(programs.victims().count(), 8);
        let culprit = programs.culprit("x265-avx512").unwrap();
        for name in programs.victims() {
            for how in [Beside::Mixed, Beside::Scalar, Beside::Culprits] {
                let victim = programs.victim(name).unwrap();
                let mix = beside(culprit, victim, [2, 3], how, 1_000_000_000);
                let text = write(&mix, Dialect::Paceline).unwrap();
                let read = rtapp::parse("mix.json", &text).unwrap();
                assert_eq!(read.tasks, mix.tasks, "{name}");
                let wide = Step::Vector(Vector::Avx512);
                let wide = |task: &Task| format!("{:?}", task.steps).contains(&format!("{wide:?}"));
                let culprits = mix.tasks.iter().filter(|task| wide(task)).count();
                assert_eq!(culprits, [2, 0, 5][how as usize], "{name} {how:?}");
            }
        }
    }
}
