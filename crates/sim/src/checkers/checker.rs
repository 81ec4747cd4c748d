// SPDX-License-Identifier: GPL-2.0-only
//! What a checker is, what it is told, and what it finds.

use machine::Machine;
use trace::{Event, Tid};

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// When it was first seen.
    pub t_ns: u64,
    /// The violation in words.
    pub what: String,
}

/// Facts for a checker beyond the events of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The CPU took its tick, or schedules because of one.
    Tick,
    /// The CPU saw that its task's slice is used up, at a tick or a call to schedule. That may be long after its end.
    SliceOver,
    /// The task yielded.
    Yield(Tid),
    /// A CPU that looks for its next task wants this other CPU to give its task up.
    Wants(u32),
    /// The task is real-time: of the class above, which no policy's promise covers. Sent before it first runs.
    RealTime(Tid),
    /// The task's properties or its CPU were changed from outside: no promise covers that.
    Disturbed,
    /// A task moved to another cgroup, or a cgroup's limit changed: no promise of limits covers that.
    Regrouped,
    /// The CPU goes offline.
    Offline,
    /// The CPU goes online again.
    Online,
}

/// Watches a run.
pub(crate) trait Checker {
    /// Its name.
    fn name(&self) -> &'static str;
    /// An event, in the order of time.
    fn event(&mut self, event: &Event) -> Result<(), String>;
    /// A hint, in the same order.
    fn hint(&mut self, _t_ns: u64, _cpu: u32, _hint: Hint) {}
    /// Whether it uses hints.
    fn hears_hints(&self) -> bool {
        true
    }
    /// The end.
    fn finish(&mut self, _t_ns: u64) -> Result<(), String> {
        Ok(())
    }
}

/// The longest wakeup or switch on this machine, ns: an interrupt to an idle CPU, and two passes of the scheduler with
/// cold lines, behind every other CPU at one lock. If CPUs run in turn, all others have their turn before the interrupt
/// is taken, and whenever a turn ends meanwhile.
pub(super) fn in_flight_ns(machine: &Machine) -> u64 {
    let cpus = machine.cpus.len() as f64;
    let instructions = 20_000.0 + 2_000.0 * cpus;
    let lines = 200.0 + 20.0 * cpus;
    let costs = &machine.costs;
    let slowest = costs.instruction_ns() / costs.smt_rate_4.min(costs.smt_rate_2);
    let interrupt = costs.ipi_delivery_ns + costs.ipi_send_ns + costs.idle_exit_ns + costs.irq_ns;
    let own_ns = 2.0 * interrupt + instructions * slowest + lines * costs.line_remote_ns;
    let turns = if costs.turn_ns > 0.0 { 1.0 + (own_ns / costs.turn_ns).ceil() } else { 0.0 };
    (own_ns + turns * (cpus - 1.0) * costs.turn_ns) as u64
}
