// SPDX-License-Identifier: GPL-2.0-only
//! A policy that promises to take no locks takes none: neither locks of queues nor its own.

use trace::Outcome;

use super::checker::Violation;

/// Locks beyond the runqueue's, if the policy promises none.
pub(crate) fn check(lockless: bool, outcome: &Outcome) -> Option<Violation> {
    let (place, count) = outcome.locks.iter().find(|(_, count)| **count > 0)?;
    lockless.then(|| Violation {
        checker: "lockless",
        t_ns: outcome.elapsed_ns,
        what: format!("took {count} locks of `{place}`, and promises none"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_found_where_none_is_promised() {
        let mut outcome = Outcome::default();
        assert_eq!(check(true, &outcome), None);
        outcome.locks.insert("dsq".into(), 1);
        assert!(check(true, &outcome).is_some());
        assert_eq!(check(false, &outcome), None);
    }
}
