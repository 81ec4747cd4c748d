// SPDX-License-Identifier: GPL-2.0-only
//! Costs of a machine in whole ns, as they are charged. They do not change during a run, and most are needed several
//! times at each switch.

use machine::{Costs, Distance};

macro_rules! whole {
    ($($name:ident),*) => {
        /// The machine's costs of the same names.
        pub(crate) struct Whole {
            $(pub $name: u64,)*
            /// By distance of the CPU that wrote a line last.
            lines: [LineCost; 5],
        }

        impl Whole {
            pub fn new(costs: &Costs) -> Self {
                let line = |ns: f64| LineCost {
                    fetch_ns: ns as u64,
                    atomic_ns: (ns + costs.atomic_ns) as u64,
                };
                Whole {
                    $($name: costs.$name as u64,)*
                    lines: [
                        0.0,
                        costs.line_core_ns,
                        costs.line_llc_ns,
                        costs.line_node_ns,
                        costs.line_remote_ns,
                    ]
                    .map(line),
                }
            }
        }
    };
}

whole!(
    idle_exit_ns,
    ipi_delivery_ns,
    ipi_send_ns,
    irq_ns,
    kfunc_ns,
    mm_switch_ns,
    observe_after_ns,
    observe_before_ns,
    register_switch_ns,
    syscall_ns,
    tick_period_ns,
    timer_ns,
    timer_rearm_ns
);

/// A CPU's cost of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineCost {
    /// To fetch it.
    pub fetch_ns: u64,
    /// To fetch it and do an atomic operation on it.
    pub atomic_ns: u64,
}

impl Whole {
    /// For a line that a CPU at this distance wrote last.
    #[inline]
    pub fn line(&self, distance: Distance) -> LineCost {
        self.lines[distance as usize]
    }
}
