// SPDX-License-Identifier: GPL-2.0-only
//! Two levels for programs of many threads (slide 26). The plan shares the cores among programs,
//! and this module shares a program's part among its threads.
//!
//! A program is a [`crate::Task`] whose `width` is the number of its threads. Under the first
//! scheme its speeds come from all its threads' counters together, and its threads share alike
//! ([`evenly`]). Under the second its speed is the greatest utility of its threads: how much faster
//! the program gets with that thread on a fast core. That thread takes the program's fast share
//! first ([`by_utility`]).

/// A thread of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thread {
    /// Its part of the program's CPU time, in cores.
    pub cpu: f64,
    /// The gain of the whole program if this thread runs on a fast core; any unit.
    pub utility: f64,
}

/// Shares of each thread: those of the program.
pub fn evenly(program: &[f64], threads: &[Thread]) -> Vec<Vec<f64>> {
    vec![program.to_vec(); threads.len()]
}

/// Shares of each thread: the time on the fastest type goes to the thread of the greatest utility,
/// up to all its time, then to the next one; ties in the order given.
pub fn by_utility(program: &[f64], threads: &[Thread]) -> Vec<Vec<f64>> {
    let total: f64 = threads.iter().map(|thread| thread.cpu).sum();
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by(|a, b| threads[*b].utility.total_cmp(&threads[*a].utility));
    let mut shares = vec![vec![0.0; program.len()]; threads.len()];
    let mut left: Vec<f64> = program.iter().map(|part| part * total).collect();
    for thread in order {
        let cpu = threads[thread].cpu;
        let mut open = cpu;
        let mut last = 0;
        for (number, left) in left.iter_mut().enumerate() {
            let taken = left.min(open);
            shares[thread][number] = taken / cpu;
            *left -= taken;
            open -= taken;
            if taken > 0.0 {
                last = number;
            }
        }
        shares[thread][last] += open / cpu; // the rest by rounding
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_gains_most_takes_the_fast_share() {
        let thread = |utility| Thread { cpu: 1.0, utility };
        let threads = [thread(1.2), thread(3.0), thread(2.0), thread(1.0)];
        let shares = by_utility(&[0.375, 0.625], &threads);
        assert_eq!(shares, [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]);
        assert_eq!(evenly(&[0.375, 0.625], &threads), vec![vec![0.375, 0.625]; 4]);
    }
}
