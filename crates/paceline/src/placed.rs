// SPDX-License-Identifier: GPL-2.0-only
//! Threads with a new memory domain since the last report.

use serde_json::{Value, json};
use trace::{Placements, Tid};

/// Threads that a line names; it counts the others.
const NAMED: usize = 6;

/// Follows the placement of threads.
#[derive(Debug, Default)]
pub struct Moves(Placements);

/// A thread with a new domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    tid: Tid,
    name: String,
    domain: usize,
}

impl Moves {
    /// Threads that have been placed elsewhere since the last call, or for the first time.
    pub fn since(&mut self, placed: &[(Tid, usize)]) -> Vec<Move> {
        self.0.look(0, placed.iter().copied());
        let name = |tid| live::thread_name(tid).unwrap_or_default();
        let moved = self.0.take().into_iter();
        moved.map(|own| Move { tid: own.tid, name: name(own.tid), domain: own.domain }).collect()
    }
}

/// A line: `mcf[231] to domain 2, gcc[232] to domain 0 and 5 more`. None: no thread has moved.
pub fn line(moves: &[Move]) -> Option<String> {
    let named = moves.iter().take(NAMED);
    let parts: Vec<String> =
        named.map(|own| format!("{}[{}] to domain {}", own.name, own.tid, own.domain)).collect();
    let more = match moves.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!parts.is_empty()).then(|| parts.join(", ") + &more)
}

/// All moves, for programs.
pub fn json(moves: &[Move]) -> Value {
    let one = |own: &Move| json!({"tid": own.tid, "name": own.name, "domain": own.domain});
    moves.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_reported_once_and_many_are_counted() {
        let mut moves = Moves::default();
        let own = std::process::id();
        let first = moves.since(&[(own, 2)]);
        let name = live::thread_name(own).unwrap();
        assert_eq!(line(&first).unwrap(), format!("{name}[{own}] to domain 2"));
        assert_eq!(json(&first)[0]["domain"], 2);
        assert_eq!(line(&moves.since(&[(own, 2)])), None);
        let many: Vec<(Tid, usize)> = (0..10).map(|at| (u32::MAX - at, 0)).collect();
        assert!(line(&moves.since(&many)).unwrap().ends_with(" and 4 more"));
    }
}
