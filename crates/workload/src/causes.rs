// SPDX-License-Identifier: GPL-2.0-only
//! Separates the CPU time of waiting, of being preempted and of waking others: by regression over acts.
//!
//! Only acts of one kind are compared, because a call of that kind has a fixed cost that is the same for all of them.

use crate::script::{Cut, Happened, Then};

/// Kinds of acts, by what comes after the work.
const KINDS: usize = 6;

/// The causes to estimate: waiting, being preempted, waking.
const CAUSES: usize = 3;

/// Regularization of each of the three: a cause that was seen seldom gets a small estimate.
const DOUBT: f64 = 1.0;

/// An act of this length has half the weight of a short one, and longer acts have ever less, ns. Other things that
/// happen during a long act, such as ticks, exceed the quantity to estimate.
const LONG_NS: f64 = 20_000.0;

/// Sums over acts of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    acts: f64,
    causes: [f64; CAUSES],
    ns: f64,
    squares: [[f64; CAUSES]; CAUSES],
    products: [f64; CAUSES],
}

/// Lengths of acts, and what happened in them.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    sums: [Sums; KINDS],
}

impl Causes {
    /// Adds an act of `work_ns` of work that took `ns`, in which `happened` happened to its task.
    pub fn add(&mut self, then: Then, happened: Happened, work_ns: f64, ns: f64) {
        let says = 1.0 / (1.0 + (work_ns / LONG_NS).powi(2));
        let Happened { waited, preempted, woke } = happened;
        let times = [waited, preempted, woke].map(f64::from);
        let sums = &mut self.sums[kind(then)];
        sums.acts += says;
        sums.ns += says * ns;
        for (at, often) in times.into_iter().enumerate() {
            sums.causes[at] += says * often;
            sums.products[at] += says * often * ns;
            sums.squares[at] =
                std::array::from_fn(|other| sums.squares[at][other] + says * often * times[other]);
        }
    }

    /// CPU time of each of the three, ns: never negative, and 0 if no effect was seen.
    pub fn take(&self) -> Cut {
        let (mut matrix, mut wanted) = ([[0.0; CAUSES]; CAUSES], [0.0; CAUSES]);
        for sums in self.sums.iter().filter(|sums| sums.acts > 0.0) {
            for at in 0..CAUSES {
                wanted[at] += sums.products[at] - sums.causes[at] * sums.ns / sums.acts;
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
        Then::Take(_) | Then::TakeWithin { .. } | Then::Contend(_) => 3,
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
    fn what_each_takes_is_told_apart() {
        let mut causes = Causes::default();
        for round in 0..1000_u32 {
            let [waited, preempted, woke] = [3, 7, 2].map(|every| u32::from(round % every == 0));
            let happened = Happened { waited, preempted, woke };
            let (base_ns, then) = match round % 5 {
                0 => (900.0, Then::Take(0)),
                _ => (300.0, Then::Read { channel: 0, bytes: 1 }),
            };
            let take =
                Cut { waited_ns: 4000.0, preempted_ns: 2500.0, woke_ns: 3000.0, each_ns: 0.0 };
            causes.add(then, happened, base_ns, base_ns + take.of_ns(happened));
            // One is long, and something else happened in it.
            if round == 500 {
                let preempted = Happened { preempted: 5, ..happened };
                causes.add(then, preempted, 36e6, 197_000.0);
            }
        }
        let Cut { each_ns, waited_ns, preempted_ns, woke_ns } = causes.take();
        assert_eq!(each_ns, 0.0);
        let near = |ns: f64, wanted: f64| (ns / wanted - 1.0).abs() < 0.02;
        assert!(near(waited_ns, 4000.0) && near(preempted_ns, 2500.0) && near(woke_ns, 3000.0));
    }

    #[test]
    fn of_what_never_happens_nothing_is_known() {
        let mut causes = Causes::default();
        assert_eq!(causes.take(), Cut::default());
        causes.add(Then::Take(0), Happened::default(), 70.0, 70.0);
        assert_eq!(causes.take(), Cut::default());
    }
}
