// SPDX-License-Identifier: GPL-2.0-only
//! For a policy that promises that a wakeup never makes a busy CPU switch. A runnable task leaves its CPU only if it
//! yields, its slice has ended, or another CPU has nothing to run and takes it over. A tick sees the end of a slice, or
//! the next call that makes the CPU schedule.

use machine::Machine;
use trace::{Event, IDLE, Kind, Tid};

use super::above::Above;
use super::checker::{Checker, Hint, in_flight_ns};

pub(super) struct Preemption {
    /// When each CPU last checked for the end of a slice, and when a task was last woken onto it.
    cpus: Vec<Cpu>,
    /// Tasks of a class above: they take a CPU from any task.
    above: Above,
    disturbed: bool,
    near_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    looked_ns: Option<u64>,
    wake_ns: Option<u64>,
    /// The last task that yielded here.
    yielded: Option<Tid>,
    /// When another CPU's dispatch last wanted its task to leave. The CPU may see that long after, and its next task then
    /// leaves instead.
    wanted_ns: Option<u64>,
    /// A task has left since.
    gave: bool,
}

impl Preemption {
    pub fn new(machine: &Machine) -> Self {
        Preemption {
            cpus: vec![Cpu::default(); machine.cpus.len()],
            above: Above::default(),
            disturbed: false,
            near_ns: in_flight_ns(machine),
        }
    }
}

impl Checker for Preemption {
    fn name(&self) -> &'static str {
        "preemption"
    }

    fn hint(&mut self, t_ns: u64, cpu: u32, hint: Hint) {
        match hint {
            Hint::Tick | Hint::SliceOver => self.cpus[cpu as usize].looked_ns = Some(t_ns),
            Hint::Yield(tid) => self.cpus[cpu as usize].yielded = Some(tid),
            Hint::RealTime(_) => self.above.hint(hint),
            Hint::Wants(other) => {
                let other = &mut self.cpus[other as usize];
                (other.wanted_ns, other.gave) = (Some(t_ns), false);
            }
            Hint::Disturbed => self.disturbed = true,
            Hint::Offline | Hint::Online | Hint::Regrouped => {}
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            Kind::Wake { target, .. } => self.cpus[target as usize].wake_ns = Some(event.t_ns),
            Kind::Switch { prev, next, prev_runnable, .. } if prev != IDLE && prev_runnable => {
                let near = |t: Option<u64>| t.is_some_and(|t| event.t_ns - t <= self.near_ns);
                let cpu = self.cpus[event.cpu as usize];
                let own_will = cpu.yielded == Some(prev);
                let above = self.above.has(prev) || self.above.has(next);
                let wanted = if cpu.gave { near(cpu.wanted_ns) } else { cpu.wanted_ns.is_some() };
                let allowed = own_will || wanted || above || self.disturbed;
                if near(cpu.wake_ns) && !near(cpu.looked_ns) && !allowed {
                    return Err(format!(
                        "CPU {} left {prev} for {next} at a wakeup, with no tick near",
                        event.cpu
                    ));
                }
                self.cpus[event.cpu as usize].gave = true;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{switch, wake};
    use super::*;

    fn preempts(hint: Option<Hint>) -> bool {
        let mut checker = Preemption::new(&machine::find("numa-2x4").unwrap());
        checker.event(&switch(0, 0, IDLE, 1, false)).unwrap();
        checker.event(&wake(1_000_000, 2, 0)).unwrap();
        if let Some(hint) = hint {
            checker.hint(1_000_100, 0, hint);
        }
        checker.event(&switch(1_000_500, 0, 1, 2, true)).is_err()
    }

    #[test]
    fn a_wakeup_that_makes_a_busy_cpu_switch_is_found() {
        assert!(preempts(None));
        assert!(!preempts(Some(Hint::Tick)), "a slice ended");
        assert!(!preempts(Some(Hint::SliceOver)), "it had ended before");
        assert!(!preempts(Some(Hint::Yield(1))), "it gave way itself");
        assert!(preempts(Some(Hint::Yield(9))), "another callback did");
        assert!(!preempts(Some(Hint::RealTime(2))), "a higher class did");
    }

    #[test]
    fn a_task_may_leave_for_a_cpu_that_asked_for_it() {
        let mut checker = Preemption::new(&machine::find("numa-2x4").unwrap());
        let mut leaves = |t_ns, prev, next| {
            checker.event(&wake(t_ns, next, 0)).unwrap();
            checker.hint(t_ns + 100, 5, Hint::Wants(if t_ns > 1_500_000 { 3 } else { 0 }));
            checker.event(&switch(t_ns + 500, 0, prev, next, true))
        };
        assert_eq!(leaves(1_000_000, 1, 2), Ok(()));
        assert!(leaves(2_000_000, 2, 1).is_err(), "it asked another CPU this time");
    }
}
