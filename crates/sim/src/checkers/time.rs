// SPDX-License-Identifier: GPL-2.0-only
//! Every nanosecond of every CPU is accounted for exactly once.

use trace::Observed;

use super::checker::Violation;
use crate::cpu::Spent;

/// Each CPU was idle, in the kernel, or in a task's own code. The times of tasks and of idling in the trace have the
/// same sum.
pub(crate) fn check(elapsed_ns: u64, spent: &[Spent], observed: &Observed) -> Option<Violation> {
    let violation = |what| Some(Violation { checker: "time", t_ns: elapsed_ns, what });
    for (cpu, spent) in spent.iter().enumerate() {
        let sum_ns = spent.idle_ns + spent.kernel_ns + spent.user_ns;
        if sum_ns < elapsed_ns {
            return violation(format!("CPU {cpu}: {sum_ns} of {elapsed_ns} ns accounted for"));
        }
    }
    let tasks_ns: u64 = observed.tasks.values().map(|task| task.cpu_ns).sum();
    let seen_ns = tasks_ns + observed.idle_ns;
    let there_ns = observed.elapsed_ns * spent.len() as u64;
    match seen_ns == there_ns {
        true => None,
        false => violation(format!("tasks and idling took {seen_ns} of {there_ns} ns")),
    }
}

#[cfg(test)]
mod tests {
    use trace::TaskObserved;

    use super::*;

    fn seen(cpu_ns: u64, idle_ns: u64) -> Observed {
        let task = TaskObserved { cpu_ns, ..TaskObserved::default() };
        Observed { elapsed_ns: 100, idle_ns, tasks: [(1, task)].into(), ..Observed::default() }
    }

    #[test]
    fn a_lost_nanosecond_is_found() {
        let whole = Spent { idle_ns: 50, kernel_ns: 20, user_ns: 30 };
        let short = Spent { user_ns: 29, ..whole };
        assert_eq!(check(100, &[whole, whole], &seen(120, 80)), None);
        assert!(check(100, &[whole, short], &seen(120, 80)).is_some());
    }

    #[test]
    fn time_counted_twice_is_found() {
        let whole = Spent { idle_ns: 50, kernel_ns: 20, user_ns: 30 };
        assert!(check(100, &[whole, whole], &seen(121, 80)).is_some());
    }
}
