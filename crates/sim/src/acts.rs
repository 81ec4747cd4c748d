// SPDX-License-Identifier: GPL-2.0-only
//! What the model adds to what a recorded task does, told apart by what happens to it meanwhile.
//!
//! # Problem
//! The time that a recording has for an act is the kernel's in part: a read that waits takes three times as long as one
//! that finds data. A replay charges for that itself, and in it others may wait than did.
//!
//! # Approach
//! Each act that ends has taken its own work and what the model has added. That is regressed on how often the task has
//! waited, was preempted, and woke others meanwhile, within acts of one kind: what a call costs at any rate is the same
//! for all of those, and left to the fit of each task.

use workload::{Cut, Then};

/// Kinds of acts, by what comes after the work.
const KINDS: usize = 6;

/// What is looked for: of waiting, being preempted, waking.
const CAUSES: usize = 3;

/// An act of a kind that seldom varies says little; so many acts' worth of doubt in each of the three.
const DOUBT: f64 = 1.0;

/// Sums over acts of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    acts: f64,
    causes: [f64; CAUSES],
    added: f64,
    squares: [[f64; CAUSES]; CAUSES],
    products: [f64; CAUSES],
}

/// What is known when an act begins.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    worked_ns: f64,
    asked_ns: f64,
    met: [u32; CAUSES],
}

/// Of all recorded tasks of a run.
#[derive(Debug)]
pub(crate) struct Acts {
    marks: Vec<Mark>,
    sums: [Sums; KINDS],
}

/// How often a task has waited, was preempted, and woke another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    pub waited: u32,
    pub preempted: u32,
    pub woke: u32,
}

impl Acts {
    pub fn new(tasks: usize) -> Self {
        Acts { marks: vec![Mark::default(); tasks], sums: [Sums::default(); KINDS] }
    }

    /// A task has come to the end of an act: until now it has worked so long, asked again for so long, and so much has
    /// happened to it. The act had so much work, and this came after it.
    pub fn ended(
        &mut self,
        task: usize,
        worked_ns: f64,
        asked_ns: f64,
        all: Happened,
        work_ns: f64,
        then: Then,
    ) {
        let met = [all.waited, all.preempted, all.woke];
        let now = Mark { worked_ns, asked_ns, met };
        let before = std::mem::replace(&mut self.marks[task], now);
        let added_ns = worked_ns - before.worked_ns - (asked_ns - before.asked_ns) - work_ns;
        let causes: [f64; CAUSES] = std::array::from_fn(|at| f64::from(met[at] - before.met[at]));
        let sums = &mut self.sums[kind(then)];
        sums.acts += 1.0;
        sums.added += added_ns;
        for (at, times) in causes.into_iter().enumerate() {
            sums.causes[at] += times;
            sums.products[at] += times * added_ns;
            sums.squares[at] =
                std::array::from_fn(|other| sums.squares[at][other] + times * causes[other]);
        }
    }

    /// What each of the three adds, ns; never less than nothing.
    pub fn added(&self) -> Cut {
        let (mut matrix, mut wanted) = ([[0.0; CAUSES]; CAUSES], [0.0; CAUSES]);
        for sums in self.sums.iter().filter(|sums| sums.acts > 0.0) {
            for at in 0..CAUSES {
                wanted[at] += sums.products[at] - sums.causes[at] * sums.added / sums.acts;
                matrix[at] = std::array::from_fn(|other| {
                    let alone = sums.causes[at] * sums.causes[other] / sums.acts;
                    matrix[at][other] + sums.squares[at][other] - alone
                });
            }
        }
        (0..CAUSES).for_each(|at| matrix[at][at] += DOUBT);
        let [waited_ns, preempted_ns, woke_ns] = solved(matrix, wanted).map(|ns| ns.max(0.0));
        Cut { each_ns: 0.0, waited_ns, preempted_ns, woke_ns }
    }
}

fn kind(then: Then) -> usize {
    match then {
        Then::Read { .. } => 0,
        Then::Write { .. } => 1,
        Then::Give { .. } => 2,
        Then::Take(_) | Then::TakeWithin { .. } => 3,
        Then::Wait(_) => 4,
        Then::End | Then::Fork(_) | Then::Connect { .. } | Then::Accept { .. } => 5,
    }
}

/// Solves linear equations with a matrix that is symmetric and positive definite.
fn solved(mut matrix: [[f64; CAUSES]; CAUSES], mut wanted: [f64; CAUSES]) -> [f64; CAUSES] {
    for at in 0..CAUSES {
        for below in at + 1..CAUSES {
            let times = matrix[below][at] / matrix[at][at];
            matrix[below] =
                std::array::from_fn(|column| matrix[below][column] - times * matrix[at][column]);
            wanted[below] -= times * wanted[at];
        }
    }
    for at in (0..CAUSES).rev() {
        let known: f64 = (at + 1..CAUSES).map(|later| matrix[at][later] * wanted[later]).sum();
        wanted[at] = (wanted[at] - known) / matrix[at][at];
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_adds_is_told_apart() {
        let mut acts = Acts::new(1);
        let (mut worked_ns, mut all) = (0.0, Happened::default());
        for round in 0..1000_u32 {
            let [waited, preempted, woke] =
                [round % 3 == 0, round % 7 == 0, round % 2 == 0].map(u32::from);
            all.waited += waited;
            all.preempted += preempted;
            all.woke += woke;
            let (base_ns, then) = match round % 5 {
                0 => (900.0, Then::Take(0)),
                _ => (300.0, Then::Read { channel: 0, bytes: 1 }),
            };
            let causes = [(waited, 4000.0), (preempted, 2500.0), (woke, 3000.0)];
            worked_ns += 70.0
                + base_ns
                + causes.map(|(times, ns)| f64::from(times) * ns).iter().sum::<f64>();
            acts.ended(0, worked_ns, 0.0, all, 70.0, then);
        }
        let Cut { each_ns, waited_ns, preempted_ns, woke_ns } = acts.added();
        assert_eq!(each_ns, 0.0);
        let near = |ns: f64, wanted: f64| (ns / wanted - 1.0).abs() < 0.02;
        assert!(near(waited_ns, 4000.0) && near(preempted_ns, 2500.0) && near(woke_ns, 3000.0));
    }

    #[test]
    fn of_what_never_happens_nothing_is_known() {
        let mut acts = Acts::new(1);
        acts.ended(0, 100.0, 0.0, Happened::default(), 70.0, Then::Take(0));
        assert_eq!(acts.added(), Cut::default());
        assert_eq!(Acts::new(0).added(), Cut::default());
    }
}
