// SPDX-License-Identifier: GPL-2.0-only
//! The hardware's costs for the work of a kernel.
//!
//! One table names every cost with its unit. The same costs hold for every policy.

/// Name and unit of one number, as a section of a machine file must have them.
#[derive(Debug, PartialEq, Eq)]
pub struct CostName {
    /// Its key.
    pub name: &'static str,
    /// The unit it must be given in.
    pub unit: &'static str,
    /// It may be left out of a machine with fewer hardware threads to a core; usize::MAX: always.
    pub threads: usize,
}

/// The least rate of a core or a thread, relative to the fastest. No machine's cores differ by more; a run with slower
/// ones would not end.
pub(crate) const RATE_MIN: f64 = 1e-3;
/// Shorter turns would make a run endless.
const TURN_MIN_NS: f64 = 1000.0;

impl CostName {
    /// Why it cannot have this value. None: it can.
    pub(crate) fn refused(&self, value: f64) -> Option<String> {
        let (least, most) = match self.name.starts_with("smt_rate") {
            true => (RATE_MIN, 1.0),
            false => self.bounds(),
        };
        match () {
            () if self.name == "turn_ns" && value > 0.0 && value < TURN_MIN_NS => {
                Some(format!("expected 0, for CPUs side by side, or a number from {TURN_MIN_NS}"))
            }
            () if !(least..=most).contains(&value) => {
                Some(format!("expected a number from {least} to {most}"))
            }
            () => None,
        }
    }

    /// Bounds of a number. They are far wider than any machine; beyond them a run would not end, or its clock of 64 bits
    /// would overflow.
    fn bounds(&self) -> (f64, f64) {
        match (self.name, self.unit) {
            // no kernel has HZ above 10,000, and a tick longer than its period leaves no time for anything else
            ("tick_period_ns", _) => (1e5, 1e9),
            (_, "ns") => (0.0, 1e9),
            (_, "GHz" | "cycles/instruction") => (1e-3, 1e3),
            (_, "GB/s" | "MPKI") => (1e-3, 1e6),
            ("overlap" | "copy_stall", _) => (0.0, 0.99),
            (_, "entries" | "ways") => (1.0, 1e9),
            (_, "bytes") => (1.0, 1e15),
            // as many as any architecture has: 16 bits
            (_, "tags") => (0.0, 65536.0),
            _ => (0.0, 1e6),
        }
    }
}

/// A table of named numbers that a section of a machine file gives.
pub(crate) trait Table: Default {
    /// The section's name, for errors.
    const SECTION: &'static str;
    /// Every number it may have.
    const NAMES: &'static [CostName];
    /// Where the number of this name is kept.
    fn slot(&mut self, name: &str) -> Option<&mut f64>;
}

macro_rules! table {
    ($(#[doc = $about:literal])* $table:ident, $names:ident, $section:literal;
     $($(#[doc = $doc:literal])* $name:ident, $unit:literal, $threads:expr, $default:expr;)*) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $table {
            $($(#[doc = $doc])* pub $name: f64,)*
        }

        /// Every number of the table.
        pub const $names: &[$crate::costs::CostName] = &[
            $($crate::costs::CostName {
                name: stringify!($name),
                unit: $unit,
                threads: $threads,
            },)*
        ];

        impl Default for $table {
            fn default() -> Self {
                $table { $($name: $default,)* }
            }
        }

        impl $table {
            /// The number of this name, or None where there is none.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }

        impl $crate::costs::Table for $table {
            const SECTION: &'static str = $section;
            const NAMES: &'static [$crate::costs::CostName] = $names;

            fn slot(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use table;

table! {
    /// Costs by name; units are last in the name. All are at least 0.
    Costs, COSTS, "costs";
    /// Clock of a core.
    clock_ghz, "GHz", 1, 1.0;
    /// Cycles per instruction of kernel code on a core with idle other threads.
    kernel_cpi, "cycles/instruction", 1, 1.0;
    /// Progress of one of two busy threads of a core, relative to its progress alone.
    smt_rate_2, "1", 2, 1.0;
    /// Progress of one of three.
    smt_rate_3, "1", 3, 1.0;
    /// Progress of one of four.
    smt_rate_4, "1", 4, 1.0;
    /// Saving and loading the register state, beyond the instructions of the switch.
    register_switch_ns, "ns", 1, 0.0;
    /// Changing the address space, beyond the instructions: loading the page-table root, and the
    /// flush where entries carry no tag.
    mm_switch_ns, "ns", 1, 0.0;
    /// User time lost to a cold TLB after the address space has changed.
    mm_refill_ns, "ns", 1, 0.0;
    /// User time lost to colder private caches after another task has run on the CPU.
    switch_refill_ns, "ns", 1, 0.0;
    /// User time lost by a task that starts on another thread of its last core.
    migrate_core_ns, "ns", 1, 0.0;
    /// User time lost by a task that starts on another core of its last cache.
    migrate_llc_ns, "ns", 1, 0.0;
    /// User time lost by a task that starts under another cache of its last node.
    migrate_node_ns, "ns", 1, 0.0;
    /// User time lost by a task that starts on another node.
    migrate_remote_ns, "ns", 1, 0.0;
    /// Entering and leaving an interrupt.
    irq_ns, "ns", 1, 0.0;
    /// Time between two ticks of a busy CPU: 1/HZ of the kernel that ran there.
    tick_period_ns, "ns", 1, 4_000_000.0;
    /// Programming the timer for the next tick.
    timer_ns, "ns", 1, 0.0;
    /// The sender's cost of an interrupt to another CPU.
    ipi_send_ns, "ns", 1, 0.0;
    /// From sending until the other CPU enters it.
    ipi_delivery_ns, "ns", 1, 0.0;
    /// Leaving the idle state.
    idle_exit_ns, "ns", 1, 0.0;
    /// Entering and leaving a system call.
    syscall_ns, "ns", 1, 0.0;
    /// Calling a BPF callback through its trampoline, beyond the policy's own instructions.
    callback_ns, "ns", 1, 0.0;
    /// Calling a kfunc from BPF, beyond its own instructions.
    kfunc_ns, "ns", 1, 0.0;
    /// An atomic operation on a line that this CPU owns.
    atomic_ns, "ns", 1, 0.0;
    /// Fetching a line that another thread of the core wrote last.
    line_core_ns, "ns", 1, 0.0;
    /// Fetching a line that another core of the cache wrote last.
    line_llc_ns, "ns", 1, 0.0;
    /// Fetching a line that a core under another cache of the node wrote last.
    line_node_ns, "ns", 1, 0.0;
    /// Fetching a line that another node wrote last.
    line_remote_ns, "ns", 1, 0.0;
    /// Ticket locks: each further waiter lengthens the handoff by this part of it, as all of them
    /// fetch the line again (a in h·(1 + a·waiters)). Queued locks ignore it.
    ticket_slope, "1", 1, 0.0;
    /// Factor for the path lengths of Linux 2.6.38's own functions.
    paths_2_6_38, "1", usize::MAX, 1.0;
    /// Timer slack of the kernel: 50 µs unless prctl(2) PR_SET_TIMERSLACK sets another.
    timer_slack_ns, "ns", usize::MAX, 50_000.0;
    /// Restarting the tick that an idle CPU has stopped.
    tick_restart_ns, "ns", usize::MAX, 0.0;
    /// Extra cost of that if no timer of this CPU expires before that tick.
    tick_program_ns, "ns", usize::MAX, 0.0;
    /// The part of a timer's interrupt after the timer's own function.
    timer_rearm_ns, "ns", usize::MAX, 0.0;
    /// Cost of one scheduling event to an observer, until it reads the clock.
    observe_before_ns, "ns", usize::MAX, 0.0;
    /// Cost from there on.
    observe_after_ns, "ns", usize::MAX, 0.0;
    /// Its cost for a returning read or write of a channel, if it records those.
    observe_call_ns, "ns", usize::MAX, 0.0;
    /// Time between two looks of a task at its CPU clock, to see whether its work is done.
    burn_look_ns, "ns", usize::MAX, 0.0;
    /// Time from the last look to the task's next action.
    burn_end_ns, "ns", usize::MAX, 0.0;
    /// Longest turn of a CPU of an emulator that runs its CPUs one after the other on one clock; 0
    /// where they run side by side.
    turn_ns, "ns", usize::MAX, 0.0;
    /// Cost of making a thread to its creator, in user code and page faults, if a workload's tasks are all made before
    /// it starts.
    thread_make_ns, "ns", usize::MAX, 0.0;
    /// Work of a new thread before it is ready for such a start.
    thread_start_ns, "ns", usize::MAX, 0.0;
    /// Lengthening of a task's stalls, as a part of them, for each unit of pressure of the tasks that run on the other
    /// cores of its last-level cache ([`contended_rate`](crate::contended_rate)).
    llc_contention, "1", usize::MAX, 0.0;
    /// A trap at the first use of vector registers that were disabled, from there to the task's next instruction.
    vector_trap_ns, "ns", usize::MAX, 0.0;
    /// A policy reads one of the CPU's own counters.
    counter_read_ns, "ns", usize::MAX, 0.0;
    /// Copying a byte between user and kernel.
    copy_byte_ns, "ns", 1, 0.0;
}

impl Costs {
    /// One instruction of kernel code, in ns, on a core with idle other threads.
    pub fn instruction_ns(&self) -> f64 {
        self.kernel_cpi / self.clock_ghz
    }

    /// Progress of one of `busy` busy threads of a core, relative to its progress alone.
    pub fn smt_rate(&self, busy: usize) -> f64 {
        match busy {
            0 | 1 => 1.0,
            2 => self.smt_rate_2,
            3 => self.smt_rate_3,
            _ => self.smt_rate_4,
        }
    }
}
