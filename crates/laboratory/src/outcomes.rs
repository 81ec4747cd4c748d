// SPDX-License-Identifier: GPL-2.0-only
//! Figures taken from the outcomes of one experiment. Pure functions.

use report::stats::paired_ratios;
use trace::{Lengths, Outcome, TaskObserved};
use workload::program_of;

use crate::paper::Quantity;

/// A value for each run, by boot and run.
pub type ByRun = Vec<((usize, usize), f64)>;

/// One quantity of one policy, run by run. Empty if the ground did not measure it in each run: no gate is judged by an
/// incomplete set.
pub fn values(outcomes: &[Outcome], policy: &str, quantity: Quantity) -> ByRun {
    let own = outcomes.iter().filter(|outcome| outcome.policy == policy);
    let one = |outcome: &Outcome| Some(((outcome.boot, outcome.run), value(outcome, quantity)?));
    own.map(one).collect::<Option<_>>().unwrap_or_default()
}

/// The values alone.
pub fn bare(values: ByRun) -> Vec<f64> {
    values.into_iter().map(|(_, value)| value).collect()
}

/// `over / under`, run by run of the same boot. A count of 0 counts as 1, so that a policy without any cannot win by
/// more than is certain.
pub fn ratios(outcomes: &[Outcome], over: &str, under: &str, quantity: Quantity) -> Vec<f64> {
    let over = values(outcomes, over, quantity);
    let mut under = values(outcomes, under, quantity);
    if quantity.is_count() {
        under.iter_mut().for_each(|(_, count)| *count = count.max(1.0));
    }
    paired(&over, &under)
}

/// `over / under` of the same run of the same boot. Empty if one has no counterpart, or a divisor is 0.
pub fn paired(over: &ByRun, under: &ByRun) -> Vec<f64> {
    let ratios = paired_ratios(over, under);
    match ratios.len() == over.len() && over.len() == under.len() {
        true => ratios,
        false => Vec::new(),
    }
}

/// The same runs from one program's view: its tasks, its misses, its end. Empty if one of them does not know the
/// program, or it did not end there.
pub fn of_program(outcomes: &[Outcome], program: Option<&str>) -> Vec<Outcome> {
    match program {
        None => outcomes.to_vec(),
        Some(name) => {
            let parts = outcomes.iter().map(|outcome| part(outcome, name));
            parts.collect::<Option<_>>().unwrap_or_default()
        }
    }
}

/// The policies of these runs, in the order of the runs.
pub fn policies<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for outcome in outcomes {
        if !names.contains(&outcome.policy) {
            names.push(outcome.policy.clone());
        }
    }
    names
}

/// The same runs as tasks of a name have them: of no others are there waits, CPU time or work.
pub fn of_tasks(outcomes: &[Outcome], name: Option<&str>) -> Vec<Outcome> {
    let mut own = outcomes.to_vec();
    let Some(name) = name else { return own };
    for outcome in &mut own {
        let named = |tid: &u32| outcome.names.get(tid).is_some_and(|task| task.starts_with(name));
        outcome.observed.tasks.retain(|tid, _| named(tid));
        outcome.progress.retain(|tid, _| named(tid));
    }
    own
}

/// A quantile of the waits of these tasks, taken together, ns. None if none of them waited.
pub fn wait_ns<'t>(tasks: impl Iterator<Item = &'t TaskObserved>, at: f64) -> Option<f64> {
    let mut all = Lengths::default();
    tasks.for_each(|task| all.merge(&task.wait_lengths));
    all.quantile(at).map(|ns| ns as f64)
}

fn part(outcome: &Outcome, name: &str) -> Option<Outcome> {
    let mut part = outcome.clone();
    let memory = part.memory.as_mut()?;
    let program = memory.programs.get(name)?;
    memory.total = program.missed;
    part.elapsed_ns = program.elapsed_ns?;
    let names = &part.names;
    part.observed
        .tasks
        .retain(|tid, _| names.get(tid).is_some_and(|task| program_of(task) == name));
    Some(part)
}

fn value(outcome: &Outcome, quantity: Quantity) -> Option<f64> {
    let seen = &outcome.observed;
    let seconds = |ns: u64| ns as f64 / 1e9;
    if quantity.is_observed() && seen.elapsed_ns == 0 {
        return None;
    }
    Some(match quantity {
        Quantity::Elapsed => seconds(outcome.elapsed_ns),
        Quantity::OwnTime => *outcome.extra.get("own_time_s")?,
        Quantity::Switches => seen.context_switches as f64,
        Quantity::Involuntary => seen.involuntary_switches as f64,
        Quantity::MmSwitches => seen.address_space_switches as f64,
        Quantity::Migrations => seen.migrations as f64,
        Quantity::IdleShare => idle_share(outcome)?,
        Quantity::WorstWait => seconds(seen.wait.max_ns),
        Quantity::WaitP50 => wait_ns(seen.tasks.values(), 0.5)? / 1e9,
        Quantity::WaitP99 => wait_ns(seen.tasks.values(), 0.99)? / 1e9,
        Quantity::WaitP999 => wait_ns(seen.tasks.values(), 0.999)? / 1e9,
        Quantity::Work => {
            let work_ns = outcome.progress.values().sum::<f64>();
            (work_ns > 0.0).then_some(work_ns / 1e9)?
        }
        Quantity::Locks => {
            let taken = outcome.locks.values().sum::<u64>() as f64;
            counts_locks(outcome).then_some(taken)?
        }
        Quantity::SchedulerTime => {
            let functions = outcome.functions.values();
            (!outcome.functions.is_empty())
                .then(|| seconds(functions.map(|function| function.ns).sum()))?
        }
        Quantity::SpinTime => outcome.extra.get("spinlock_ns").map(|ns| ns / 1e9)?,
        Quantity::CodeTime => {
            let calls = outcome.extra.get("bpf_calls").filter(|calls| **calls > 0.0)?;
            outcome.extra.get("bpf_time_ns")? / calls / 1e9
        }
        Quantity::CodePerSwitch => {
            let time_ns = outcome.extra.get("bpf_time_ns").filter(|ns| **ns > 0.0)?;
            time_ns / seen.context_switches.max(1) as f64 / 1e9
        }
        Quantity::TlbMisses => outcome.memory.as_ref()?.total.tlb() as f64,
        Quantity::DtlbMisses => {
            let missed = &outcome.memory.as_ref()?.total;
            (missed.dtlb_user + missed.dtlb_kernel) as f64
        }
        Quantity::ItlbMisses => {
            let missed = &outcome.memory.as_ref()?.total;
            (missed.itlb_user + missed.itlb_kernel) as f64
        }
        Quantity::CacheMisses => outcome.memory.as_ref()?.total.cache as f64,
        Quantity::MissTime => seconds(outcome.memory.as_ref()?.total.ns),
        Quantity::ProcessTime => seconds(seen.tasks.values().map(|task| task.cpu_ns).sum()),
        Quantity::ControlShare => outcome.extra.get("control_s")? / seconds(seen.elapsed_ns),
        Quantity::MoverShare => outcome.extra.get("mover_s")? / seconds(seen.elapsed_ns),
    })
}

/// Whether locks were counted: then the runqueues' own were seen, by their number in a kernel and by their time in the
/// simulator.
fn counts_locks(outcome: &Outcome) -> bool {
    let seen = |name| outcome.extra.get(name).is_some_and(|seen| *seen > 0.0);
    seen("runqueue_locks") || seen("spinlock_ns")
}

/// The greatest distance of a file's task from an even share of their total, in s of CPU time. A task that was not seen
/// had none.
pub fn share_error_s(outcome: &Outcome) -> Option<f64> {
    let cpu_ns = |tid| outcome.observed.tasks.get(tid).map_or(0, |task| task.cpu_ns);
    let had: Vec<f64> = outcome.progress.keys().map(|tid| cpu_ns(tid) as f64).collect();
    let even = had.iter().sum::<f64>() / had.len() as f64;
    let far = had.iter().map(|own| (own - even).abs());
    (even > 0.0).then(|| far.fold(0.0, f64::max) / 1e9)
}

/// CPU time is that of tasks plus idle time; a run without any was not observed.
fn idle_share(outcome: &Outcome) -> Option<f64> {
    let seen = &outcome.observed;
    let busy: u64 = seen.tasks.values().map(|task| task.cpu_ns).sum();
    let all = busy + seen.idle_ns;
    (all > 0).then(|| seen.idle_while_runnable_ns as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use comparison::contender;
    use sim::Scenario;
    use trace::{MemoryUse, Missed, Observed, Program, TaskObserved};

    fn outcome(policy: &str, boot: usize, involuntary: u64) -> Outcome {
        let mut observed = Observed {
            elapsed_ns: 100,
            involuntary_switches: involuntary,
            idle_ns: 50,
            idle_while_runnable_ns: 25,
            ..Observed::default()
        };
        observed.tasks.insert(1, TaskObserved { cpu_ns: 150, ..TaskObserved::default() });
        Outcome { policy: policy.into(), boot, observed, ..Outcome::default() }
    }

    #[test]
    fn a_program_is_its_own_tasks() {
        let mut both = outcome("a", 0, 0);
        let task = |cpu_ns| TaskObserved { cpu_ns, ..TaskObserved::default() };
        both.observed.tasks = [(1, task(100)), (2, task(50))].into();
        both.names = [(1, "chat-0".to_string()), (2, "dacapo-0".to_string())].into();
        let missed = Missed { dtlb_user: 7, ..Missed::default() };
        let chat = Program { elapsed_ns: Some(60), missed, ..Program::default() };
        let programs = [("chat".to_string(), chat)].into();
        both.memory = Some(MemoryUse { programs, ..MemoryUse::default() });
        let of = |name, quantity| values(&of_program(&[both.clone()], Some(name)), "a", quantity);
        assert_eq!(of("chat", Quantity::ProcessTime), vec![((0, 0), 1e-7)]);
        assert_eq!(of("chat", Quantity::Elapsed), vec![((0, 0), 6e-8)]);
        assert_eq!(of("chat", Quantity::TlbMisses), vec![((0, 0), 7.0)]);
        assert!(of("dacapo", Quantity::TlbMisses).is_empty(), "it is not known of");
    }

    #[test]
    fn tasks_of_a_name_have_waits_and_work_of_their_own() {
        let mut both = outcome("a", 0, 0);
        let task = |wait_ns| {
            let mut task = TaskObserved::default();
            task.wait_lengths.add(wait_ns);
            task
        };
        both.observed.tasks = [(1, task(1000)), (2, task(9_000_000))].into();
        both.names = [(1, "worker-0".to_string()), (2, "batch-0".to_string())].into();
        both.progress = [(1, 2e9), (2, 7e9)].into();
        let of = |name, quantity| {
            bare(values(&of_tasks(std::slice::from_ref(&both), name), "a", quantity))
        };
        assert_eq!(of(Some("worker"), Quantity::Work), [2.0]);
        assert_eq!(of(None, Quantity::Work), [9.0]);
        assert!(of(Some("worker"), Quantity::WaitP99)[0] < 2e-6);
        assert!(of(None, Quantity::WaitP99)[0] > 8e-3);
        assert!(of(Some("other"), Quantity::WaitP99).is_empty(), "there is none");
    }

    #[test]
    fn a_share_is_off_by_what_one_task_has_more_or_less() {
        let of = |had: &[u64]| {
            let mut one = outcome("a", 0, 0);
            let tasks = had.iter().enumerate().map(|(at, ms)| {
                (at as u32, TaskObserved { cpu_ns: ms * 1_000_000, ..TaskObserved::default() })
            });
            one.observed.tasks = tasks.collect();
            one.progress = (0..=had.len() as u32).map(|tid| (tid, 1.0)).collect();
            share_error_s(&one)
        };
        assert_eq!(of(&[300, 300]), Some(0.2), "the third was never seen");
        assert_eq!(of(&[400, 300, 500, 400]), Some(0.32));
        assert_eq!(of(&[]), None, "nothing was observed");
    }

    #[test]
    fn no_switch_at_all_counts_as_one() {
        let outcomes =
            [outcome("a", 0, 30), outcome("b", 0, 0), outcome("a", 1, 40), outcome("b", 1, 4)];
        assert_eq!(ratios(&outcomes, "a", "b", Quantity::Involuntary), vec![30.0, 10.0]);
        assert_eq!(ratios(&outcomes, "b", "a", Quantity::Involuntary), vec![0.0, 0.1]);
    }

    #[test]
    fn a_run_without_a_counterpart_leaves_no_ratio() {
        let runs = [outcome("a", 0, 30), outcome("b", 0, 3), outcome("a", 1, 40)];
        assert!(ratios(&runs, "a", "b", Quantity::Involuntary).is_empty());
        assert!(ratios(&runs, "b", "a", Quantity::Involuntary).is_empty());
        assert!(paired(&vec![((0, 0), 1.0)], &vec![((0, 0), 0.0)]).is_empty());
    }

    #[test]
    fn a_benchmark_that_reports_its_own_time_is_taken_at_its_word() {
        let mut outcome = outcome("a", 0, 0);
        outcome.extra.insert("own_time_s".into(), 0.298);
        assert_eq!(values(&[outcome], "a", Quantity::OwnTime), vec![((0, 0), 0.298)]);
        assert!(values(&[super::Outcome::default()], "", Quantity::OwnTime).is_empty());
    }

    #[test]
    fn what_a_policys_code_takes_is_by_call_and_by_switch() {
        let mut outcome = outcome("a", 0, 0);
        outcome.observed.context_switches = 5;
        outcome.extra = [("bpf_time_ns".into(), 600.0), ("bpf_calls".into(), 20.0)].into();
        let of = |quantity| values(std::slice::from_ref(&outcome), "a", quantity);
        assert_eq!(of(Quantity::CodeTime), vec![((0, 0), 3e-8)]);
        assert_eq!(of(Quantity::CodePerSwitch), vec![((0, 0), 1.2e-7)]);
        let uncounted = Outcome { extra: [("bpf_calls".into(), 0.0)].into(), ..outcome.clone() };
        assert!(values(&[uncounted], "a", Quantity::CodeTime).is_empty());
    }

    #[test]
    fn idle_is_a_part_of_all_cpu_time() {
        let share = values(&[outcome("a", 0, 0)], "a", Quantity::IdleShare);
        assert_eq!(share, vec![((0, 0), 0.125)]);
        let unobserved = Outcome { policy: "a".into(), ..Outcome::default() };
        assert!(values(&[unobserved], "a", Quantity::IdleShare).is_empty());
    }

    #[test]
    fn there_are_no_locks_only_where_they_were_counted() {
        let locks = |extra: &[(&str, f64)]| {
            let extra = extra.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            values(&[Outcome { extra, ..outcome("a", 0, 0) }], "a", Quantity::Locks)
        };
        assert!(locks(&[]).is_empty());
        assert!(locks(&[("runqueue_locks", 0.0)]).is_empty(), "the counter saw nothing at all");
        assert_eq!(locks(&[("runqueue_locks", 7.0)]), vec![((0, 0), 0.0)]);
    }

    #[test]
    fn the_simulator_counts_locks() {
        let contenders = contender::parse_all(&["flsched,fifo".into()]).unwrap();
        let locks = contenders.iter().map(|contender| {
            let machine = machine::find("numa-2x4").unwrap();
            let workload = workload::mix::hogs_and_sleepers(8, 20_000_000);
            let run = sim::run(&Scenario::new(machine, workload, contender.scheduler().unwrap()));
            values(&[run.unwrap()], contender.label(), Quantity::Locks)[0].1
        });
        let locks: Vec<f64> = locks.collect();
        assert!(locks[0] == 0.0 && locks[1] > 0.0, "{locks:?}");
    }

    #[test]
    fn what_was_not_measured_is_missing_and_not_zero() {
        assert!(values(&[outcome("a", 0, 0)], "a", Quantity::SpinTime).is_empty());
        assert!(values(&[outcome("a", 0, 0)], "a", Quantity::SchedulerTime).is_empty());
    }
}
