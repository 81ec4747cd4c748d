// SPDX-License-Identifier: GPL-2.0-only
//! Gate: whether a plan is worth its moves.
//!
//! Misses alone do no harm, and most moves do not pay (slide 19). A plan is put in force only if a
//! domain's memory is near saturation. It must also save more waiting, over the time that classes
//! are expected to last, than copying the pages costs their owners.

/// A machine's memory, as far as the gate needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The bandwidth of a domain's memory, bytes a second.
    pub bandwidth: f64,
    /// Below this part of the bandwidth no thread waits for long.
    pub busy: f64,
    /// The speed of copying pages, bytes a second.
    pub copies: f64,
}

/// The part of its accesses' time that a thread waits: about a third, as caches prefetch and cores
/// run ahead.
const EXPOSED: f64 = 0.3;
/// The highest load of a memory that is assumed: near 1 waiting has no bound.
const FULL: f64 = 0.95;

impl Gate {
    /// CPU seconds lost in a second to waiting for memory, given the bytes a second that each
    /// domain's memory is asked for. It is the mean length of an M/M/1 queue for each.
    pub fn waiting(&self, asked: &[f64]) -> f64 {
        let of = |asked: &f64| {
            let full = (asked / self.bandwidth).min(FULL);
            EXPOSED * full * full / (1.0 - full)
        };
        asked.iter().map(of).sum()
    }

    /// Whether to act. `now` and `then` are the bytes a second that each domain's memory is asked
    /// for, `dwell_s` how long that is expected to last, and `bytes` how many are to be moved.
    pub fn opens(&self, now: &[f64], then: &[f64], dwell_s: f64, bytes: u64) -> bool {
        let fullest = now.iter().copied().fold(0.0, f64::max) / self.bandwidth;
        let gain_s = (self.waiting(now) - self.waiting(then)) * dwell_s;
        // While its pages are copied, a thread progresses at the speed of the copying.
        let cost_s = bytes as f64 / self.copies;
        fullest >= self.busy && gain_s > cost_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: Gate = Gate { bandwidth: 6e9, busy: 0.5, copies: 0.6e9 };

    #[test]
    fn gate_stays_closed_while_no_thread_waits() {
        assert!(!GATE.opens(&[2e9, 0.0], &[1e9, 1e9], 1e6, 0));
        assert!(GATE.opens(&[5.5e9, 0.0], &[2.75e9, 2.75e9], 60.0, 1_000_000_000));
    }

    #[test]
    fn what_does_not_last_is_not_worth_its_copies() {
        let (now, then) = ([5.5e9, 0.0], [2.75e9, 2.75e9]);
        assert!(!GATE.opens(&now, &then, 0.1, 1_000_000_000));
        assert!(!GATE.opens(&now, &now, 1e6, 1), "nothing is gained");
        assert!(!GATE.opens(&[9e9, 9e9], &[9e9, 9e9], 1e6, 0), "all of them full");
    }
}
