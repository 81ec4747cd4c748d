// SPDX-License-Identifier: GPL-2.0-only
//! Guaranteed parts of the fast cores: for threads by nice, programs, cgroups by weight, and pinned tasks; also when
//! cores go offline and tasks come in crowds.

use std::collections::BTreeMap;

use machine::{find, stalled_for};
use policy::Instance;
use sim::{Change, Fault, Scenario, Scheduler, run};
use trace::Outcome;
use workload::{Group, Task, Workload};

use crate::common;
use crate::common::{burn, task, workload};

const MS: u64 = 1_000_000;
/// Speed on the fast cores of the talk's machine, relative to the slow ones.
const SPEEDUPS: [f64; 4] = [3.4, 2.6, 2.1, 1.7];

/// A task that burns for ever, `s2.6-7`: the tenant and the speedup are in its name.
fn burner(speedup: f64, at: usize) -> Task {
    let slow = find("phenom-2f4s").unwrap().core_rates[1];
    let stalled = stalled_for(speedup, slow).unwrap();
    Task { stalled, ..task(&format!("s{speedup}-{at}"), vec![burn(1_000_000)]) }
}

fn speedup(name: &str) -> f64 {
    name[1..].split('-').next().unwrap().parse().unwrap()
}

fn scenario(policy: &str, job: &Workload) -> Scenario {
    let machine = find("phenom-2f4s").unwrap();
    let instance = Instance::parse(policy, uneven::ALL).unwrap();
    let mut scenario = Scenario::new(machine, job.clone(), Scheduler::Policy(instance));
    let burners = job.tasks.iter().filter(|task| task.name.starts_with('s'));
    scenario.profile =
        burners.map(|task| (task.name.clone(), vec![speedup(&task.name), 1.0])).collect();
    scenario.options.counters = false;
    scenario
}

/// Work of each tenant, in seconds of a slow core, and its CPU time in s; tenants by `of`.
fn done(job: &Workload, outcome: &Outcome, of: &dyn Fn(&Task) -> usize) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (at, task) in job.tasks.iter().enumerate().filter(|(_, task)| task.name.starts_with('s')) {
        let seen = &outcome.observed.tasks[&(at as u32 + 1)];
        let (fast, slow) = (seen.kind_ns[0] as f64 / 1e9, seen.kind_ns[1] as f64 / 1e9);
        let sum = sums.entry(of(task)).or_default();
        sum.0 += fast * speedup(&task.name) + slow;
        sum.1 += fast + slow;
    }
    sums.into_values().collect()
}

/// Performance of each tenant under min-fair(85 %), relative to max-fair with the same tenants; and CPU times under
/// min-fair. Some tenant must gain: otherwise a policy that does nothing would pass.
fn guaranteed(job: &Workload, knobs: &str, of: &dyn Fn(&Task) -> usize) -> (Vec<f64>, Vec<f64>) {
    let (relative, cpu) = kept(job, knobs, of);
    assert!(relative.iter().any(|relative| *relative > 1.05), "no tenant gained: {relative:?}");
    (relative, cpu)
}

/// The same, whether or not a tenant gains.
fn kept(job: &Workload, knobs: &str, of: &dyn Fn(&Task) -> usize) -> (Vec<f64>, Vec<f64>) {
    let run = |policy: &str| {
        let outcome = run(&scenario(&format!("{policy}:deviations=0{knobs}"), job)).unwrap();
        done(job, &outcome, of)
    };
    let (fair, ours) = (run("max-fair"), run("min-fair"));
    let relative: Vec<f64> = ours.iter().zip(&fair).map(|(ours, fair)| ours.0 / fair.0).collect();
    for relative in &relative {
        assert!(*relative > 0.84, "{relative} of fair performance: {ours:?} of {fair:?}");
    }
    (relative, ours.into_iter().map(|(_, cpu)| cpu).collect())
}

fn for_10_s(tasks: Vec<Task>) -> Workload {
    Workload { duration_ns: Some(10_000 * MS), ..workload(tasks) }
}

#[test]
fn nice_divides_cpu_time_and_the_guarantee_holds_for_each() {
    let nice = [-5, 0, 5];
    let of = |at: usize| Task { nice: nice[at % 3], ..burner(SPEEDUPS[at % 4], at) };
    let job = for_10_s((0..18).map(of).collect());
    let (_, cpu) = guaranteed(&job, "", &|task| (task.nice + 5) as usize);
    // sched_prio_to_weight: 3121, 1024, 335; no task gets more than a CPU.
    let all: f64 = cpu.iter().sum();
    let parts: Vec<f64> = cpu.iter().map(|cpu| cpu / all).collect();
    for (part, weight) in parts.iter().zip([3121.0, 1024.0, 335.0]) {
        assert!((part - weight / 4480.0).abs() < 0.03, "{parts:?}");
    }
}

/// A plan counts by the same weights as the data plane. Six tasks of nice -20 leave the others a twentieth of the CPU
/// time, so there is little to gain.
#[test]
fn the_nicest_and_the_least_nice_have_their_guarantee() {
    for (nice, gain) in [(-20, 1.03), (19, 1.05)] {
        let of = |at: usize| Task {
            nice: if at < 6 { nice } else { 0 },
            ..burner(SPEEDUPS[if at < 6 { 0 } else { 3 }], at)
        };
        let job = for_10_s((0..36).map(of).collect());
        let relative = kept(&job, "", &|task| usize::from(task.nice == 0)).0;
        assert!(relative.iter().any(|relative| *relative > gain), "nice {nice}: {relative:?}");
    }
}

#[test]
fn programs_are_guaranteed_as_a_whole() {
    // Of 1, 2, 4 and 8 threads.
    let threads = (0..4).flat_map(|program| (0..1 << program).map(move |at| (program, at)));
    let thread = |(program, at): (usize, usize)| Task {
        process: program,
        ..burner(SPEEDUPS[program], 10 * program + at)
    };
    let job = for_10_s(threads.map(thread).collect());
    for inside in ["even", "utility"] {
        let knobs = format!(",tenant=program,inside={inside}");
        guaranteed(&job, &knobs, &|task| task.process);
    }
}

#[test]
fn the_thread_of_a_program_that_gains_most_has_its_fast_share() {
    // Each program has one thread that gains and one that does not.
    let thread = |at: usize| Task {
        process: at / 2,
        ..burner(if at.is_multiple_of(2) { 3.4 } else { 1.2 }, at)
    };
    let job = for_10_s((0..6).map(thread).collect());
    let fast = |inside: &str| {
        let policy = format!("max-fair:deviations=0,tenant=program,inside={inside}");
        let seen = run(&scenario(&policy, &job)).unwrap().observed.tasks;
        let share = |at: u32| seen[&(at + 1)].kind_ns[0] as f64 / seen[&(at + 1)].cpu_ns as f64;
        [share(0), share(1)]
    };
    let (even, utility) = (fast("even"), fast("utility"));
    assert!((even[0] - 1.0 / 3.0).abs() < 0.02 && (even[1] - 1.0 / 3.0).abs() < 0.02, "{even:?}");
    assert!((utility[0] - 2.0 / 3.0).abs() < 0.02 && utility[1] < 0.02, "{utility:?}");
}

#[test]
fn cgroups_divide_cpu_time_by_weight_and_each_is_guaranteed() {
    let groups = [("/a", 100), ("/b", 200), ("/c", 400)];
    let member = |at: usize| Task { group: Some(at % 3), ..burner(SPEEDUPS[at % 3], at) };
    let mut job = for_10_s((0..21).map(member).collect());
    job.groups = groups.map(|(path, weight)| Group { weight, ..Group::new(path) }).to_vec();
    let (_, cpu) = guaranteed(&job, ",tenant=cgroup", &|task| task.group.unwrap());
    let all: f64 = cpu.iter().sum();
    for (cpu, weight) in cpu.iter().zip([1.0, 2.0, 4.0]) {
        assert!((cpu / all - weight / 7.0).abs() < 0.02, "{cpu} s of {all} s, weight {weight}");
    }
    // Without cgroups as tenants all threads have the same.
    let outcome = run(&scenario("min-fair:deviations=0", &job)).unwrap();
    let flat = done(&job, &outcome, &|task| task.group.unwrap());
    assert!((flat[0].1 / flat[2].1 - 1.0).abs() < 0.05, "{flat:?}");
}

#[test]
fn a_group_within_a_group_divides_what_that_has() {
    let member = |at: usize| Task { group: Some(at % 3), ..burner(2.6, at) };
    let mut job = for_10_s((0..18).map(member).collect());
    let group = |path: &str| Group::new(path);
    // Two of the tasks' three groups share a parent group.
    job.groups = vec![group("/alone"), group("/both/a"), group("/both/b"), group("/both")];
    let policy = "max-fair:deviations=0,tenant=cgroup";
    let outcome = run(&scenario(policy, &job)).unwrap();
    let got = done(&job, &outcome, &|task| task.group.unwrap());
    let all: f64 = got.iter().map(|(_, cpu)| cpu).sum();
    for ((_, cpu), part) in got.iter().zip([0.5, 0.25, 0.25]) {
        assert!((cpu / all - part).abs() < 0.02, "{got:?}");
    }
}

#[test]
fn task_bound_to_a_kind_of_core_has_its_share_first() {
    // Two are pinned to fast cores, two to slow ones, six are free; one is bound to one core of each kind.
    let bound = |at: usize| match at {
        0 | 1 => Some(vec![0, 1]),
        2 | 3 => Some(vec![2, 3, 4, 5]),
        4 => Some(vec![1, 2]),
        _ => None,
    };
    let of = |at: usize| Task { cpus: bound(at), ..burner(SPEEDUPS[at % 4], at) };
    let job = for_10_s((0..11).map(of).collect());
    let at = |task: &Task| task.name.rsplit('-').next().unwrap().parse().unwrap();
    let (_, cpu) = guaranteed(&job, "", &at);
    let even = 60.0 / 11.0;
    for cpu in &cpu {
        assert!((cpu / even - 1.0).abs() < 0.1, "{cpu} s of CPU time, {even} is even");
    }
}

#[test]
fn when_the_last_fast_core_goes_all_share_the_slow_ones_and_it_comes_back() {
    let job = for_10_s((0..6).map(|at| burner(SPEEDUPS[at % 4], at)).collect());
    let mut gone = scenario("min-fair:deviations=0,interval=100ms", &job);
    let at = |ms: u64, change| Fault { at_ns: ms * MS, change };
    gone.faults = vec![at(100, Change::Offline(0)), at(100, Change::Offline(1))];
    let outcome = run(&gone).unwrap();
    let cpu: Vec<f64> =
        done(&job, &outcome, &|task| task.name.rsplit('-').next().unwrap().parse().unwrap())
            .iter()
            .map(|(_, cpu)| *cpu)
            .collect();
    for cpu in &cpu {
        assert!((cpu / (40.0 / 6.0) - 1.0).abs() < 0.05, "{cpu:?}");
    }
    gone.faults.extend([at(200, Change::Online(0)), at(200, Change::Online(1))]);
    let outcome = run(&gone).unwrap();
    let fast = |at: u32| outcome.observed.tasks[&(at + 1)].kind_ns[0] as f64 / 1e10;
    // min-fair's plan for these speeds: the guarantee of the slowest, and no task gets less.
    let planned = uneven::plan(
        &uneven::Problem::two_types(2.0, 4.0, &[3.4, 2.6, 2.1, 1.7, 3.4, 2.6]),
        &uneven::Policy::MinFair { target: 0.85 },
    );
    for (at, row) in planned.unwrap().shares.iter().enumerate() {
        assert!((fast(at as u32) - row[0]).abs() < 0.04, "task {at}: {} {row:?}", fast(at as u32));
    }
}

#[test]
fn a_thousand_that_come_and_go_a_second_take_no_guarantee_away() {
    let mut tasks: Vec<Task> = (0..6).map(|at| burner(SPEEDUPS[at % 4], at)).collect();
    let short = |at: u64| Task {
        delay_ns: 1000 * MS + at * MS,
        ..task(&format!("x{at}"), vec![common::burn(0), workload::Step::Run { work_ns: MS / 2 }])
    };
    tasks.extend((0..4000).map(short));
    let job = Workload { duration_ns: Some(5000 * MS), ..workload(tasks) };
    let at = |task: &Task| task.name.rsplit('-').next().unwrap().parse().unwrap();
    guaranteed(&job, "", &at);
}
