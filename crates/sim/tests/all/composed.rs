// SPDX-License-Identifier: GPL-2.0-only
//! The composed policy: each of its mechanisms does what it does in its own policy, and nothing where it is off.

use machine::find;
use sim::{Scenario, Traced, run, run_traced};
use trace::{Lengths, Outcome};
use workload::apps::Apps;
use workload::programs::Programs;
use workload::vector::{self, Beside, beside};
use workload::{Step, Task, Workload};

use crate::common::{self, groups, named};

const SECOND_NS: u64 = 1_000_000_000;

fn ran(machine: &str, workload: Workload, policy: &str) -> Traced {
    run_traced(&Scenario::new(find(machine).unwrap(), workload, named(policy))).unwrap()
}

fn work(outcome: &Outcome) -> Vec<f64> {
    outcome.progress.values().copied().collect()
}

#[test]
fn programs_share_uneven_cores_and_do_not_with_share_off() {
    let least = |policy: &str| {
        let workload = Programs::embedded().build("diverse").unwrap();
        let work = work(&ran("phenom-2f4s", workload, policy).outcome);
        work.iter().copied().fold(f64::INFINITY, f64::min) / 1e9
    };
    let (shared, own, off) = (least("paceline"), least("min-fair"), least("paceline:share=off"));
    assert!(shared > 1.2 * off, "the program that does worst: {shared} s, without shares {off} s");
    assert!((shared / own - 1.0).abs() < 0.1, "{shared} s, under min-fair {own} s");
}

/// Two tasks for each CPU: those that change places go on with each other's turns.
#[test]
fn tasks_that_change_places_do_not_make_others_wait() {
    let mut workload = Programs::embedded().build("diverse").unwrap();
    let again = workload.tasks.clone();
    workload.tasks.extend(again.into_iter().map(|task| Task { process: 8 + task.process, ..task }));
    let outcome = ran("phenom-2f4s", workload, "paceline:slice=3ms").outcome;
    let p99_ms = wait_p99_ms(&outcome);
    assert!(p99_ms < 7.0, "one wait in a hundred is longer than {p99_ms} ms: two slices");
    let moves = outcome.observed.migrations;
    assert!(moves > 1000, "{moves} changes of the CPU");
}

/// Threads that are given another domain, while some of its slower cores are idle.
#[test]
fn a_task_that_goes_home_does_not_wait_for_a_fast_core() {
    let tasks = common::devils(12);
    let workload = Workload { tasks, duration_ns: Some(20 * SECOND_NS), ..Workload::default() };
    let outcome = ran("arm-2x12", workload, "paceline").outcome;
    let waits = outcome.observed.tasks.values();
    let longest_ns = waits.map(|task| task.wait_max_ns).max().unwrap();
    assert!(longest_ns < 100_000, "one waits for {} us", longest_ns / 1000);
}

/// Trials of both mechanisms, on a machine where both gain: promises are checked meanwhile.
#[test]
fn trials_cost_little_where_mechanisms_gain() {
    let total = |policy: &str| {
        let programs = Programs::embedded().build("diverse").unwrap();
        let mut workload = devils();
        workload.tasks.extend(
            programs.tasks.into_iter().map(|task| Task { process: 16 + task.process, ..task }),
        );
        workload.duration_ns = Some(60 * SECOND_NS);
        let machine = find("arm-2x12").unwrap();
        let mut scenario = Scenario::new(machine, workload, named(policy));
        scenario.options.check = true;
        let outcome = run(&scenario).unwrap();
        let work = work(&outcome);
        (work.iter().map(|work| work.ln()).sum::<f64>() / work.len() as f64).exp()
    };
    let (with, without) = (total("paceline:trial=2s"), total("paceline:trial=0s"));
    assert!(with > 0.98 * without && with != without, "{with} ns of work, {without} without");
}

/// Memory-bound tasks, all in one domain at first.
fn devils() -> Workload {
    let tasks = common::devils(16);
    Workload { tasks, duration_ns: Some(20 * SECOND_NS), ..Workload::default() }
}

#[test]
fn threads_stay_in_the_domains_that_they_are_given() {
    let on = ran("opteron-8356", devils(), "paceline").outcome;
    assert!(!on.placed.is_empty(), "no thread was placed");
    let off = ran("opteron-8356", devils(), "paceline:place=off").outcome;
    assert!(off.placed.is_empty(), "{} places", off.placed.len());
    let (with, without): (f64, f64) = (work(&on).iter().sum(), work(&off).iter().sum());
    assert!(with > 0.97 * without, "{with} ns of work, without places {without}");
    assert!(on.observed.migrations < 20 * 16, "{} migrations", on.observed.migrations);
}

/// On a machine with two domains, each with two kinds of cores.
#[test]
fn threads_are_placed_and_share_fast_cores_at_once() {
    let outcome = ran("arm-2x12", devils(), "paceline").outcome;
    let is_placed = |tid: &&u32| outcome.domains_of(**tid).last().is_some();
    let placed = outcome.progress.keys().filter(is_placed).count();
    assert!(placed >= 12, "{placed} of 16 threads are placed");
    let fast: u64 = outcome.observed.tasks.values().filter_map(|task| task.kind_ns.first()).sum();
    let all: u64 = outcome.observed.tasks.values().flat_map(|task| &task.kind_ns).sum();
    assert!(
        fast as f64 > 0.4 * all as f64,
        "there is a fast core for half of them: {fast} of {all} ns"
    );
}

/// Tasks wait for their last CPUs, so it is a matter of comparing queues, also across domains.
#[test]
fn hogs_that_come_one_by_one_get_alike_in_all_domains() {
    let hog = |at: usize| Task {
        name: format!("hog-{at}"),
        process: at + 1,
        delay_ns: at as u64 * 2_000_000,
        steps: vec![Step::Run { work_ns: 1000 * SECOND_NS }],
        ..Task::default()
    };
    let tasks = (0..23).map(hog).collect();
    let workload = Workload { tasks, duration_ns: Some(4 * SECOND_NS), ..Workload::default() };
    let outcome = ran("opteron-8356", workload, "paceline").outcome;
    let tasks = outcome.progress.keys().map(|tid| &outcome.observed.tasks[tid]);
    let cpu_s: Vec<f64> = tasks.map(|task| task.cpu_ns as f64 / 1e9).collect();
    let even = 16.0 * 4.0 / 23.0;
    assert!(cpu_s.iter().all(|cpu| (cpu / even - 1.0).abs() < 0.1), "{even} s each: {cpu_s:?}");
}

/// A task that runs for long wakes many, one after the other: none goes before those that woke earlier.
#[test]
fn of_many_threads_that_wake_at_once_none_has_to_wait_for_the_others_to_end() {
    let workload = Apps::embedded().build("together").unwrap();
    let longest = |policy| {
        let outcome = ran("core2duo-1.86", workload.clone(), policy).outcome;
        outcome.observed.tasks.values().map(|task| task.wait_max_ns).max().unwrap() as f64 / 1e9
    };
    let [own, default] = ["paceline", "default"].map(longest);
    assert!(own < 2.0 * default, "{own} s, under default {default} s");
}

/// Two hogs for each of eight CPUs, and eight tasks that compute for 0.5 ms every 10 ms.
#[test]
fn short_tasks_wait_little_beside_hogs_that_get_alike() {
    let task = |at: usize| {
        let pulse = [Step::Run { work_ns: 500_000 }, Step::Sleep { ns: 9_500_000 }];
        let steps = match at {
            0..16 => vec![Step::Run { work_ns: 1000 * SECOND_NS }],
            _ => vec![Step::Repeat { times: None, steps: pulse.to_vec() }],
        };
        Task { name: format!("task-{at}"), process: at + 1, steps, ..Task::default() }
    };
    let tasks: Vec<Task> = (0..24).map(task).collect();
    let workload = Workload { tasks, duration_ns: Some(2 * SECOND_NS), ..Workload::default() };
    let outcome = |policy| ran("numa-2x4", workload.clone(), policy).outcome;
    let (own, default) = (outcome("paceline"), outcome("default"));
    let sleeps = |outcome: &Outcome| {
        let short = outcome.observed.tasks.values().filter(|task| task.voluntary > 100);
        let (waited, waits) =
            short.fold((0, 0), |sum, task| (sum.0 + task.wait_ns, sum.1 + task.waits));
        waited as f64 / waits as f64 / 1e6
    };
    let (short, usual) = (sleeps(&own), sleeps(&default));
    assert!(short < 0.2 && 5.0 * short < usual, "{short} ms on average, under default {usual}");
    let hogs = own.observed.tasks.values().filter(|task| task.cpu_ns > SECOND_NS / 2);
    let cpu_s: Vec<f64> = hogs.map(|task| task.cpu_ns as f64 / 1e9).collect();
    let mean = cpu_s.iter().sum::<f64>() / cpu_s.len() as f64;
    assert_eq!(cpu_s.len(), 16);
    assert!(cpu_s.iter().all(|cpu| (cpu / mean - 1.0).abs() < 0.05), "{mean} s each: {cpu_s:?}");
}

/// 99 % of all waits are up to this.
fn wait_p99_ms(outcome: &Outcome) -> f64 {
    let mut waits = Lengths::default();
    outcome.observed.tasks.values().for_each(|task| waits.merge(&task.wait_lengths));
    waits.quantile(0.99).unwrap() as f64 / 1e6
}

/// Threads that pass messages come after each other, but not so far behind that they wait for long.
#[test]
fn threads_that_chat_wait_little_longer_than_under_default() {
    let wait_ms = |policy: &str| {
        let seeded = |seed| {
            let chat = Apps::embedded().build("chat").unwrap();
            let scenario = Scenario::new(find("exynos-4210").unwrap(), chat, named(policy));
            wait_p99_ms(&run(&scenario.seed(seed)).unwrap())
        };
        (0..3).map(seeded).sum::<f64>() / 3.0
    };
    let [own, default] = ["paceline", "default"].map(wait_ms);
    assert!(own < 1.3 * default, "{own} ms, under default {default} ms");
}

/// Threads of a program with 512-bit code, and as many of another program.
fn beside_vectors(victim: &str, threads: usize) -> Workload {
    let programs = vector::Programs::embedded();
    let culprit = programs.culprit("x265-avx512").unwrap();
    let victim = programs.victim(victim).unwrap();
    beside(culprit, victim, [threads; 2], Beside::Mixed, 2 * SECOND_NS)
}

/// Work of the program with vector code, and of the other one, ns.
fn both(outcome: &Outcome) -> [f64; 2] {
    let work = work(outcome);
    let (culprits, victims) = work.split_at(work.len() / 2);
    [culprits.iter().sum(), victims.iter().sum()]
}

#[test]
fn a_task_does_not_pay_for_a_clock_that_another_lowers() {
    let of = |policy: &str| {
        let mut workload = beside_vectors("nginx", 1);
        workload.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
        both(&ran("xeon-w-2104", workload, policy).outcome)
    };
    let [on, off] = ["paceline:order=off", "paceline:order=off,charge=off"].map(of);
    assert!(on[1] > 1.05 * off[1], "the victim: {on:?}, without the charge {off:?}");
    assert!(on[0] < 0.98 * off[0], "the culprit: {on:?}, without the charge {off:?}");
}

/// A server's threads sleep for 0.06 ms after 0.8 ms. If they moved for that, all CPUs would change the clock all the
/// time.
#[test]
fn threads_that_nap_stay_where_they_are() {
    let workload = Workload { duration_ns: Some(10 * SECOND_NS), ..beside_vectors("nginx", 4) };
    let of = |policy: &str| {
        let outcome = ran("xeon-w-2104", workload.clone(), policy).outcome;
        let mut cpu_ns = [0, 0];
        for (at, tid) in outcome.progress.keys().enumerate() {
            cpu_ns[at / 4] += outcome.observed.tasks[tid].cpu_ns;
        }
        let work: f64 = both(&outcome).iter().sum();
        (work, outcome.observed.migrations, cpu_ns[0] as f64 / cpu_ns[1] as f64)
    };
    let (own, moves, part) = of("paceline:charge=off,order=off");
    let (default, ..) = of("default");
    assert!(own > 1.02 * default, "{own} ns of work, {default} under default");
    assert!(moves < 500, "{moves} changes of the CPU");
    assert!((part - 1.0).abs() < 0.1, "CPU time of vector code over the other's: {part}");
}

/// Two threads of a core need one license level: siblings gather on both.
#[test]
fn threads_of_a_program_gather_on_cores() {
    let of = |policy: &str| {
        both(&ran("xeon-gold-6130", beside_vectors("kernel-build", 32), policy).outcome)
    };
    let [on, off] = ["paceline:charge=off", "paceline:charge=off,order=off"].map(of);
    assert!(on[1] > 1.1 * off[1], "{} ns of the other's work, one after another {}", on[1], off[1]);
    assert!(on[0] > 0.98 * off[0], "{} ns of vector code, one after another {}", on[0], off[0]);
}

/// Two tasks for each of 32 CPUs, whose tasks do not pay alike: what one CPU takes from another it gives back.
#[test]
fn cpus_exchange_tasks_where_their_queues_drift_apart() {
    let workload = beside_vectors("kernel-build", 32);
    let outcome = ran("xeon-gold-6130", workload, "paceline:order=off,slice=3ms").outcome;
    let p99_ms = wait_p99_ms(&outcome);
    assert!(p99_ms < 7.0, "one wait in a hundred is longer than {p99_ms} ms: two slices");
}

/// Two programs of four threads each on two CPUs.
#[test]
fn threads_of_a_program_run_in_a_row_where_the_tlb_has_no_tags() {
    let task = |at: usize| {
        let turn = vec![Step::Run { work_ns: 800_000 }, Step::Sleep { ns: 200_000 }];
        let steps = vec![Step::Repeat { times: None, steps: turn }];
        Task { name: format!("task-{at}"), process: 1 + at / 4, steps, ..Task::default() }
    };
    let tasks: Vec<Task> = (0..8).map(task).collect();
    let workload = Workload { tasks, duration_ns: Some(2 * SECOND_NS), ..Workload::default() };
    let of = |machine, policy| {
        ran(machine, workload.clone(), policy).outcome.observed.address_space_switches
    };
    let [on, off] = ["paceline", "paceline:order=off"].map(|policy| of("core2duo-1.86", policy));
    assert!(5 * on < off, "{on} changes of the address space, by virtual time alone {off}");
    let [auto, off] = ["paceline", "paceline:order=off"].map(|policy| of("exynos-4210", policy));
    assert_eq!(auto, off, "its TLB has tags");
}

#[test]
fn cgroups_get_their_parts_on_each_level() {
    let two = || find("plain-2").unwrap();
    groups::parts_follow_weights(&groups::parts(two(), "paceline", 2, ""));
    let even = groups::parts(two(), "paceline:cgroups=ignore", 2, "");
    assert!((even["xx"] - even["zz"]).abs() < 1.0, "without weights: {even:?}");
}

#[test]
fn what_a_cgroup_leaves_goes_to_those_beside_it() {
    let own = groups::parts(find("plain-2").unwrap(), "paceline", 2, "yy");
    groups::outer_parts_follow_weights(&own);
    assert!((own["yy"] - 2.5).abs() < 0.2, "{own:?}");
}
