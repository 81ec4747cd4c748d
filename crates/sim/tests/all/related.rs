// SPDX-License-Identifier: GPL-2.0-only
//! Two earlier ways to find siblings, as arms of comparison. Each finds existing siblings, pays for finding them, and
//! is told nothing else.

use machine::find;
use policy::Instance;
use sim::{Related, Scenario, Scheduler, run};
use trace::Outcome;
use workload::apps::Apps;

fn cas() -> Instance {
    Instance::default(&cas::CAS)
}

fn o1() -> Scheduler {
    Scheduler::Policy(Instance::default(&cas::O1))
}

fn related(how: Related) -> Scheduler {
    Scheduler::Related(cas(), how)
}

/// A model of 2 processes on two CPUs.
fn on(model: &str, scheduler: Scheduler) -> Outcome {
    let workload = Apps::embedded().build(model).unwrap();
    let scenario = Scenario::new(find("core2duo-1.86").unwrap(), workload, scheduler);
    run(&scenario).unwrap_or_else(|error| panic!("{error}"))
}

fn spaces(outcome: &Outcome) -> u64 {
    outcome.observed.address_space_switches
}

/// Threads of a program share its data: a scheduler that traces that runs them in a row.
#[test]
fn tracing_finds_siblings() {
    let (before, traced) = (on("chat", o1()), on("chat", related(Related::Traced)));
    assert!(spaces(&traced) * 4 < spaces(&before), "{} {}", spaces(&traced), spaces(&before));
}

/// Threads that share nothing are not grouped, and tracing them costs time.
#[test]
fn tracing_those_that_share_nothing_only_costs() {
    let (before, traced) = (on("apart", o1()), on("apart", related(Related::Traced)));
    let (before_ns, traced_ns) = (before.elapsed_ns as f64, traced.elapsed_ns as f64);
    assert!(traced_ns > 1.05 * before_ns, "{traced_ns} {before_ns}");
    assert!(spaces(&traced) * 2 > spaces(&before), "{} {}", spaces(&traced), spaces(&before));
}

/// A thread that missed little after another is grouped with it: fewer changes than without, more than with the address
/// space known.
#[test]
fn sampling_finds_some_siblings() {
    let (before, sampled) = (on("chat", o1()), on("chat", related(Related::Sampled)));
    let known = on("chat", Scheduler::Policy(cas()));
    assert!(spaces(&sampled) * 10 < spaces(&before) * 8, "{}", spaces(&sampled));
    assert!(spaces(&known) < spaces(&sampled), "{} {}", spaces(&known), spaces(&sampled));
}

#[test]
fn without_what_tasks_touch_there_is_nothing_to_learn() {
    let mut silent = Apps::embedded().build("apart").unwrap();
    silent.tasks.iter_mut().for_each(|task| task.hw = None);
    let machine = find("core2duo-1.86").unwrap();
    let error = run(&Scenario::new(machine, silent, related(Related::Sampled))).unwrap_err();
    assert!(error.to_string().contains("needs a workload that says so"), "{error}");
}
