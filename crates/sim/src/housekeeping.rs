// SPDX-License-Identifier: GPL-2.0-only
//! A machine's kernel threads ([`machine::Housekeeper`]): tasks of the class, observed like any other. No task forks
//! them, and no run is prolonged for them.
//!
//! Their timers are those of the timer wheel: checked in the ticks of CPUs that have ticks, and late without ticks. So
//! no event is queued for them, and a stuck workload is still found stuck.

mod engine;

use machine::{CpuSet, Each, Housekeeper};
use rand::RngExt;

use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::program::Op;

/// All such threads of a run.
#[derive(Default)]
pub(crate) struct Housekeeping {
    keepers: Vec<Keeper>,
    /// The clock that timers are rounded on, at the begin of the run.
    clock_ns: u64,
}

struct Keeper {
    task: TaskId,
    kind: Housekeeper,
    /// Number of its CPU or node.
    number: u64,
    /// The CPUs it belongs to. While none of these is online it may run anywhere.
    cpus: CpuSet,
    /// When its timer expires; None while it has work.
    due_ns: Option<u64>,
}

impl Housekeeping {
    /// Makes the machine's threads. Draws random numbers only if there are some.
    pub fn make(&mut self, k: &mut Kernel) {
        let kinds = k.machine.housekeepers.clone();
        let longest_ns = kinds.iter().map(|kind| kind.period_ns.saturating_mul(kind.step_ns)).max();
        let Some(longest_ns) = longest_ns else { return };
        self.clock_ns = k.rng.random_range(0..longest_ns);
        let (cpus, nodes) = (k.machine.cpus.len(), k.machine.node_distance.len());
        for kind in kinds {
            for number in 0..if kind.each == Each::Cpu { cpus } else { nodes } {
                let task = keeper(k, &kind, number);
                let mut keeper = Keeper {
                    task,
                    kind: kind.clone(),
                    number: number as u64,
                    cpus: k.tasks[task].allowed,
                    due_ns: None,
                };
                let rest_ns = k.rng.random_range(0..kind.period_ns);
                keeper.due_ns = Some(keeper.first_ns(self.clock_ns, rest_ns) - self.clock_ns);
                self.keepers.push(keeper);
            }
        }
    }
}

impl Keeper {
    /// When a timer that was set before the run expires, on the clock; `rest_ns` is the rest of a period that is not
    /// aligned to the clock.
    fn first_ns(&self, clock_ns: u64, rest_ns: u64) -> u64 {
        let Housekeeper { period_ns, step_ns, skew_ns, .. } = self.kind;
        let at_ns = match skew_ns {
            None => clock_ns + rest_ns,
            Some(skew_ns) => {
                let skew_ns = self.number * skew_ns;
                (clock_ns + skew_ns).next_multiple_of(period_ns).saturating_sub(skew_ns)
            }
        };
        step_after(at_ns.max(clock_ns), step_ns)
    }

    /// When a timer that is set now expires, on the clock.
    fn expires_ns(&self, clock_ns: u64) -> u64 {
        let Housekeeper { period_ns, step_ns, skew_ns, .. } = self.kind;
        let at_ns = match skew_ns {
            None => clock_ns + period_ns,
            Some(skew_ns) => {
                // The full period nearest to the next one.
                let skew_ns = self.number * skew_ns;
                let late_ns = (clock_ns + skew_ns) % period_ns;
                let full_ns = clock_ns + skew_ns - late_ns + period_ns;
                let down = late_ns < period_ns / 4;
                (if down { full_ns } else { full_ns + period_ns }).saturating_sub(skew_ns)
            }
        };
        step_after(at_ns, step_ns)
    }
}

/// The timer wheel's next step. No timer may expire early, so a timer that is due at a step waits for the next
/// (`calc_index`).
fn step_after(at_ns: u64, step_ns: u64) -> u64 {
    (at_ns / step_ns + 1) * step_ns
}

/// The thread of a kind for one CPU or node.
fn keeper(k: &mut Kernel, kind: &Housekeeper, number: usize) -> TaskId {
    let belongs = |cpu: &CpuId| match kind.each {
        Each::Cpu => *cpu == number,
        Each::Node => usize::from(k.machine.cpus[*cpu].node) == number,
    };
    let allowed: CpuSet = k.machine.all().iter().filter(belongs).collect();
    let program = [
        Op::Loop { times: None },
        Op::Run { work_ns: kind.work_ns },
        Op::Rest,
        Op::Again { start: 1 },
    ];
    k.add_thread(format!("{}/{number}", kind.name), allowed, &program)
}
