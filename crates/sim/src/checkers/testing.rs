// SPDX-License-Identifier: GPL-2.0-only
//! Events for the checkers' tests.

use trace::{Event, Kind, Tid};

use super::checker::Checker;

pub fn wake(t_ns: u64, tid: Tid, target: u32) -> Event {
    Event { t_ns, cpu: target, kind: Kind::Wake { tid, target } }
}

pub fn switch(t_ns: u64, cpu: u32, prev: Tid, next: Tid, prev_runnable: bool) -> Event {
    Event { t_ns, cpu, kind: Kind::Switch { prev, next, prev_runnable, next_mm: 1 } }
}

/// The checker's answer to these events.
pub fn say(mut checker: impl Checker, events: &[Event]) -> Result<(), String> {
    events.iter().try_for_each(|event| checker.event(event))?;
    checker.finish(events.last().map_or(0, |event| event.t_ns))
}
