// SPDX-License-Identifier: GPL-2.0-only
//! Kernel threads: they take CPUs from the workload's tasks, and are none of them.

use machine::{Each, Housekeeper, Machine, Ticks};
use sim::{Change, Fault, Record, Scheduler, SimError, Traced, run, run_traced};
use trace::Kind;
use workload::{Step, Workload};

use crate::common::{MS, burn, cores, policy, scenario, task, workload};

const PERIOD_NS: u64 = 100 * MS;
const STEP_NS: u64 = 32 * MS;

fn keeper(each: Each, skew_ns: Option<u64>) -> Housekeeper {
    let (period_ns, step_ns, work_ns) = (PERIOD_NS, STEP_NS, 5_000);
    Housekeeper { name: "keeper".into(), each, period_ns, step_ns, skew_ns, work_ns }
}

fn machine(kept: Vec<Housekeeper>) -> Machine {
    Machine { housekeepers: kept, ticks: Ticks::Together, ..cores(2) }
}

fn hogs() -> Workload {
    workload(vec![task("hog-0", vec![burn(1000)]), task("hog-1", vec![burn(1000)])])
}

fn traced(machine: Machine, seed: u64) -> Traced {
    let mut scenario = scenario(machine, hogs(), Scheduler::Default).seed(seed);
    scenario.options.record = Record { events: true, ..Record::default() };
    run_traced(&scenario).unwrap()
}

/// When each keeper was woken.
fn wakes(traced: &Traced, name: &str) -> Vec<u64> {
    let own = |tid: &u32| traced.outcome.names.get(tid).is_some_and(|it| it == name);
    let woken = |event: &trace::Event| match &event.kind {
        Kind::Wake { tid, .. } if own(tid) => Some(event.t_ns),
        _ => None,
    };
    traced.events.iter().filter_map(woken).collect()
}

#[test]
fn each_cpu_has_its_own_which_stays_there() {
    let traced = traced(machine(vec![keeper(Each::Cpu, None)]), 1);
    for cpu in 0..2 {
        let name = format!("keeper/{cpu}");
        // 100 ms become 128, as timers expire at multiples of 32; the tick comes after that.
        assert!((6..=9).contains(&wakes(&traced, &name).len()), "{name}");
        let ran_at = |event: &trace::Event| match event.kind {
            Kind::Switch { next, .. } if traced.outcome.names.get(&next) == Some(&name) => {
                Some(event.cpu)
            }
            _ => None,
        };
        assert!(traced.events.iter().filter_map(ran_at).all(|at| at == cpu));
    }
}

#[test]
fn a_timer_expires_at_a_step_after_the_period() {
    let traced = traced(machine(vec![keeper(Each::Node, None)]), 3);
    let wakes = wakes(&traced, "keeper/0");
    let tick_ns = cores(1).costs.tick_period_ns as u64;
    for pair in wakes.windows(2) {
        let apart_ns = pair[1] - pair[0];
        assert!((PERIOD_NS..=PERIOD_NS + STEP_NS + tick_ns).contains(&apart_ns), "{apart_ns}");
    }
}

#[test]
fn rounded_periods_are_those_of_the_clock() {
    let traced = traced(machine(vec![keeper(Each::Cpu, Some(0))]), 5);
    let (first, second) = (wakes(&traced, "keeper/0"), wakes(&traced, "keeper/1"));
    // 100 ms of the clock; a period is skipped if the step after it is as near to the next but one.
    assert!(first.len().abs_diff(second.len()) <= 1 && (8..=11).contains(&first.len()));
    let tick_ns = cores(1).costs.tick_period_ns as u64;
    for at_ns in &first[1..first.len() - 1] {
        let nearest_ns = second.iter().map(|other| other.abs_diff(*at_ns)).min().unwrap();
        assert!(nearest_ns <= tick_ns, "without a skew all expire together: {nearest_ns}");
    }
}

#[test]
fn they_are_seen_and_are_not_the_workload() {
    let outcome = traced(machine(vec![keeper(Each::Cpu, None)]), 1).outcome;
    let keepers: Vec<_> = outcome.names.iter().filter(|(_, it)| it.starts_with("keeper")).collect();
    assert_eq!(keepers.len(), 2);
    for (tid, _) in keepers {
        assert!(outcome.observed.tasks[tid].cpu_ns > 0);
        assert!(!outcome.progress.contains_key(tid), "their work is no task's progress");
    }
    let without = traced(machine(Vec::new()), 1).outcome;
    assert_eq!(
        outcome.observed.address_space_switches, without.observed.address_space_switches,
        "the address space stays loaded while they run"
    );
}

#[test]
fn a_run_ends_without_them_and_gets_stuck_in_spite_of_them() {
    let kept = || machine(vec![keeper(Each::Cpu, None), keeper(Each::Node, None)]);
    let short = scenario(kept(), workload(vec![task("a", vec![burn(1)])]), Scheduler::Default);
    assert!(run(&short).unwrap().elapsed_ns < 10 * MS);
    let waits = Workload {
        objects: vec![workload::Object::Suspension],
        ..workload(vec![task("waits", vec![burn(300), Step::Suspend(0)])])
    };
    match run(&scenario(kept(), waits, Scheduler::Default)) {
        Err(SimError::Stuck { left, .. }) => {
            assert!(left.contains("waits") && !left.contains("keeper"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_seed_decides_when() {
    let at = |seed| wakes(&traced(machine(vec![keeper(Each::Cpu, None)]), seed), "keeper/0");
    assert_eq!(at(1), at(1));
    assert_ne!(at(1), at(2));
}

/// The kernel breaks its affinity for that time, and binds it again.
#[test]
fn a_thread_of_a_cpu_that_goes_offline_works_elsewhere_meanwhile() {
    let busy = Housekeeper { work_ns: 20 * MS, ..keeper(Each::Cpu, None) };
    for scheduler in [Scheduler::Default, Scheduler::Cfs, policy("all")] {
        let mut scenario = scenario(machine(vec![busy.clone()]), hogs(), scheduler).seed(1);
        // Every 8 ms CPU 1 is offline for 4 ms: also while its thread has work.
        let away = |n: u64| [(8 * n, Change::Offline(1)), (8 * n + 4, Change::Online(1))];
        let faults = (1..100).flat_map(away);
        scenario.faults =
            faults.map(|(at_ms, change)| Fault { at_ns: at_ms * MS, change }).collect();
        let traced = run_traced(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let own = |tid: &u32| traced.outcome.names.get(tid).is_some_and(|it| it == "keeper/1");
        let places: Vec<(u64, u32)> = traced
            .events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::Switch { next, .. } if own(&next) => Some((event.t_ns / MS, event.cpu)),
                _ => None,
            })
            .collect();
        let name = &traced.outcome.policy;
        assert!(places.iter().any(|(_, cpu)| *cpu == 0), "{name}: {places:?}");
        let here = |(ms, cpu): &(u64, u32)| *cpu == 1 && *ms > 900;
        assert!(places.iter().any(here), "{name}: {places:?}");
        for (ms, cpu) in places.iter().filter(|(ms, _)| *ms < 796 && ms % 4 > 0) {
            assert_eq!(u64::from(*cpu), u64::from(ms / 4 % 2 == 1 || *ms < 8), "{name}, {ms} ms");
        }
    }
}
