// SPDX-License-Identifier: GPL-2.0-only
//! What each mechanism gains, measured: now and then one of them rests for a second, and tasks execute more or less.
//!
//! A trial has three spans of [`SPAN_NS`]: as before, the other way, as before. Each task's instructions a second in
//! the one in the middle are compared with the mean of those around it, so what changes slowly has no effect. A
//! mechanism that costs something in [`TRIALS`] trials in a row rests, until it gains something in as many. The state
//! changes at most once in a span.

use std::collections::{BTreeMap, VecDeque};

/// Length of a span, ns.
const SPAN_NS: u64 = 1_000_000_000;
/// Trials before a mechanism's state changes for good.
const TRIALS: usize = 4;
/// A gain or cost that matters, as a part of the tasks' speed.
const MATTERS: f64 = 0.005;
/// The pause before the next trial while the last one spoke for a change, ns.
const SOON_NS: u64 = 1_000_000_000;
/// The longest pause between two trials, ns.
const PAUSE_NS_MAX: u64 = 600_000_000_000;
/// A task that executes less of the time is left out: how much it executes depends on what it waits for.
const BUSY: f64 = 0.1;

/// A task, by slot and generation.
pub(crate) type Key = (u32, u32);

/// What a task has executed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Executed {
    /// Instructions.
    pub instructions: u64,
    /// CPU time, ns.
    pub ran_ns: u64,
}

/// All tasks whose instructions are counted.
pub(crate) type Counted = BTreeMap<Key, Executed>;

/// Trials of mechanisms, by their numbers.
pub(crate) struct Trials {
    arms: Vec<Arm>,
    running: Option<Running>,
    /// The pause before a mechanism's first trial, ns; 0: there are none.
    first_ns: u64,
}

/// What is known of one mechanism.
#[derive(Clone, Debug, Default)]
struct Arm {
    /// Whether it rests, as it costs more than it gains.
    rests: bool,
    /// Its gains in the last trials: logarithms of speeds with it over speeds without it.
    gains: VecDeque<f64>,
    /// When its next trial begins; None: it has nothing to work on now.
    due_ns: Option<u64>,
    pause_ns: u64,
}

/// The trial that is under way.
struct Running {
    at: usize,
    began_ns: u64,
    before: Counted,
    /// Speeds of tasks in the spans that are over.
    spans: Vec<BTreeMap<Key, Speed>>,
}

/// A task in a span.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Instructions a second.
    rate: f64,
    /// CPU time, as a part of the span.
    busy: f64,
}

/// The answer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The mechanisms that rest, a bit for each.
    pub rest: u64,
    /// When the next step is due, ns from now.
    pub next_ns: u64,
}

impl Trials {
    /// For so many mechanisms, each tried for the first time after it has worked for `first_ns`; 0: never.
    pub fn new(mechanisms: usize, first_ns: u64) -> Self {
        Trials { arms: vec![Arm::default(); mechanisms], running: None, first_ns }
    }

    /// Goes on, where `can` has a bit for each mechanism that has something to work on and may rest.
    pub fn step(&mut self, now_ns: u64, can: u64, counted: &dyn Fn() -> Counted) -> Now {
        if self.first_ns == 0 {
            return Now { rest: 0, next_ns: PAUSE_NS_MAX };
        }
        for (at, arm) in self.arms.iter_mut().enumerate() {
            match (can >> at & 1 == 1, arm.due_ns) {
                (true, None) => {
                    arm.pause_ns = self.first_ns;
                    arm.due_ns = Some(now_ns + self.first_ns);
                }
                (false, Some(_)) => *arm = Arm::default(),
                _ => {}
            }
        }
        if self.running.as_ref().is_some_and(|running| can >> running.at & 1 == 0) {
            self.running = None;
        }
        match self.running.take() {
            Some(running) if now_ns < running.began_ns + SPAN_NS => self.running = Some(running),
            Some(running) => self.end_span(running, now_ns, counted()),
            None => {
                let is_due = |arm: &Arm| arm.due_ns.is_some_and(|due_ns| due_ns <= now_ns);
                if let Some(at) = self.arms.iter().position(is_due) {
                    let (before, spans) = (counted(), Vec::new());
                    self.running = Some(Running { at, began_ns: now_ns, before, spans });
                }
            }
        }
        Now { rest: self.rest(), next_ns: self.next_ns(now_ns) }
    }

    fn end_span(&mut self, mut running: Running, now_ns: u64, counted: Counted) {
        let span_ns = now_ns - running.began_ns;
        running.spans.push(speeds(&running.before, &counted, span_ns));
        if let [before, between, after] = &running.spans[..] {
            let other = change(before, between, after);
            self.arms[running.at].tried(now_ns, other, self.first_ns);
            return;
        }
        self.running = Some(Running { before: counted, began_ns: now_ns, ..running });
    }

    fn rest(&self) -> u64 {
        let turned = self.running.as_ref().filter(|running| running.spans.len() == 1);
        let turned = turned.map(|running| running.at);
        let rests = |at: &usize| self.arms[*at].rests != (turned == Some(*at));
        (0..self.arms.len()).filter(rests).map(|at| 1 << at).sum()
    }

    fn next_ns(&self, now_ns: u64) -> u64 {
        let due_ns = match &self.running {
            Some(running) => Some(running.began_ns + SPAN_NS),
            None => self.arms.iter().filter_map(|arm| arm.due_ns).min(),
        };
        due_ns.map_or(PAUSE_NS_MAX, |due_ns| due_ns.saturating_sub(now_ns).max(1))
    }

    /// What a mechanism costs, as a part of the tasks' speed, if it rests for that.
    pub fn cost(&self, at: usize) -> Option<f64> {
        let arm = &self.arms[at];
        arm.rests.then(|| 1.0 - mean(&arm.gains).exp())
    }
}

impl Arm {
    /// A trial is over: the tasks' speed changed by this logarithm while the mechanism was the other way. None: too few
    /// tasks executed in all spans.
    fn tried(&mut self, now_ns: u64, other: Option<f64>, first_ns: u64) {
        let speaks = other.is_some_and(|other| other > MATTERS);
        match other {
            Some(other) => {
                self.gains.truncate(TRIALS - 1);
                self.gains.push_front(if self.rests { other } else { -other });
            }
            // Other tasks run: what was found holds for them no more than for those before.
            None => self.pause_ns = first_ns / 2,
        }
        if self.gains.len() == TRIALS && self.is_settled() {
            // The gains stay: they are the reason until there are as many new ones.
            self.rests = !self.rests;
            self.due_ns = Some(now_ns + self.pause_ns);
            return;
        }
        let pause_ns = match speaks {
            true => SOON_NS,
            false => {
                self.pause_ns = (2 * self.pause_ns).min(PAUSE_NS_MAX);
                self.pause_ns
            }
        };
        self.due_ns = Some(now_ns + pause_ns);
    }

    /// Whether the last trials say that the mechanism does better the other way: all but certainly, and by enough.
    fn is_settled(&self) -> bool {
        let mean = mean(&self.gains);
        let spread = self.gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>();
        let error = (spread / (TRIALS * (TRIALS - 1)) as f64).sqrt();
        let toward = if self.rests { mean } else { -mean };
        toward > MATTERS && toward > 2.0 * error
    }
}

fn mean(gains: &VecDeque<f64>) -> f64 {
    gains.iter().sum::<f64>() / gains.len().max(1) as f64
}

/// How fast each task was that executed for much of a span.
fn speeds(before: &Counted, after: &Counted, span_ns: u64) -> BTreeMap<Key, Speed> {
    let speed = |(key, now): (&Key, &Executed)| {
        let was = before.get(key)?;
        let busy = now.ran_ns.saturating_sub(was.ran_ns) as f64 / span_ns.max(1) as f64;
        let done = now.instructions.saturating_sub(was.instructions) as f64;
        let rate = done / (span_ns.max(1) as f64 / 1e9);
        (busy >= BUSY && rate > 0.0).then_some((*key, Speed { rate, busy }))
    };
    after.iter().filter_map(speed).collect()
}

/// The logarithm of the tasks' speed between two spans, against the mean of both. Tasks count by their CPU time. None
/// if those that executed in all three spans had less than half of it.
fn change(
    before: &BTreeMap<Key, Speed>,
    between: &BTreeMap<Key, Speed>,
    after: &BTreeMap<Key, Speed>,
) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (key, speed) in between {
        if let (Some(first), Some(last)) = (before.get(key), after.get(key)) {
            let mean = (first.rate + last.rate) / 2.0;
            sum += speed.busy * (speed.rate / mean).ln();
            weight += speed.busy;
        }
    }
    let all: f64 = between.values().map(|speed| speed.busy).sum();
    (weight > 0.0 && weight >= all / 2.0).then(|| sum / weight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST_NS: u64 = 30 * SPAN_NS;

    /// A machine with one mechanism, whose tasks do `gain` times as much while it works.
    struct Bench {
        trials: Trials,
        counted: Counted,
        now_ns: u64,
        rests: bool,
        changes_ns: Vec<u64>,
    }

    impl Bench {
        fn new() -> Self {
            let counted = (0..4).map(|slot| ((slot, 1), Executed::default())).collect();
            let trials = Trials::new(1, FIRST_NS);
            Bench { trials, counted, now_ns: 0, rests: false, changes_ns: Vec::new() }
        }

        /// So many seconds, with steps when they are due; `gain` is of the number of the step.
        fn run(&mut self, seconds: u64, gain: impl Fn(usize) -> f64) {
            let end_ns = self.now_ns + seconds * SPAN_NS;
            let mut steps = 0;
            while self.now_ns < end_ns {
                let now = self.trials.step(self.now_ns, 1, &|| self.counted.clone());
                if (now.rest == 1) != self.rests {
                    self.rests = now.rest == 1;
                    self.changes_ns.push(self.now_ns);
                }
                let passed_ns = now.next_ns.min(end_ns - self.now_ns);
                let gain = if self.rests { 1.0 } else { gain(steps) };
                for (at, task) in self.counted.values_mut().enumerate() {
                    task.instructions += (passed_ns as f64 * gain * (1 + at) as f64) as u64;
                    task.ran_ns += passed_ns;
                }
                self.now_ns += passed_ns;
                steps += 1;
            }
        }

        fn seconds_at_rest(&self) -> u64 {
            let ends = self.changes_ns.iter().copied().chain([self.now_ns]).collect::<Vec<_>>();
            ends.chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[1] - pair[0]).sum::<u64>()
                / SPAN_NS
        }
    }

    #[test]
    fn a_mechanism_that_gains_is_tried_more_and_more_seldom() {
        let mut bench = Bench::new();
        bench.run(3600, |_| 1.05);
        assert!(!bench.rests);
        assert!((5..12).contains(&bench.seconds_at_rest()), "{} s", bench.seconds_at_rest());
    }

    #[test]
    fn a_mechanism_that_costs_rests_until_it_gains() {
        let mut bench = Bench::new();
        bench.run(50, |_| 0.97);
        assert!(bench.rests, "it costs 3 % in each of four trials");
        let cost = bench.trials.cost(0).unwrap();
        assert!((cost - 0.03).abs() < 0.001, "{cost}");
        bench.run(1800, |_| 0.97);
        assert!(bench.rests && bench.seconds_at_rest() > 1750, "{} s", bench.seconds_at_rest());
        bench.run(1800, |_| 1.04);
        assert!(!bench.rests, "it gains now");
    }

    #[test]
    fn a_mechanism_without_effect_stays() {
        let mut bench = Bench::new();
        bench.run(3600, |_| 1.0);
        assert!(!bench.rests && bench.trials.cost(0).is_none());
    }

    #[test]
    fn a_load_that_changes_says_nothing() {
        let mut bench = Bench::new();
        bench.run(31, |_| 1.0);
        assert!(bench.trials.running.is_some());
        let other = |mut bench: Bench, slot: u32| {
            let counted = std::mem::take(&mut bench.counted);
            bench.counted = counted.into_values().map(|task| ((slot, 1), task)).collect();
            bench.run(1, |_| 0.5);
            bench
        };
        let bench = other(other(bench, 50), 60);
        assert!(bench.trials.arms[0].gains.is_empty());
    }

    #[test]
    fn one_that_has_nothing_to_work_on_is_not_tried() {
        let mut trials = Trials::new(2, FIRST_NS);
        let none = || Counted::new();
        trials.step(0, 0b01, &none);
        let now = trials.step(FIRST_NS, 0b10, &none);
        assert_eq!((now.rest, now.next_ns), (0, FIRST_NS), "the other one's time begins");
        assert!(trials.running.is_none());
        let never = Trials::new(2, 0).step(9 * FIRST_NS, 0b11, &none);
        assert_eq!(never, Now { rest: 0, next_ns: PAUSE_NS_MAX });
    }

    proptest! {
        #[test]
        fn it_changes_at_most_once_a_second(gains in prop::collection::vec(0.8..1.2f64, 1..40)) {
            let mut bench = Bench::new();
            bench.run(2000, |step| gains[step % gains.len()]);
            for pair in bench.changes_ns.windows(2) {
                prop_assert!(pair[1] - pair[0] >= SPAN_NS, "{:?}", bench.changes_ns);
            }
        }
    }
}
