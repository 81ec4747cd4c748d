// SPDX-License-Identifier: GPL-2.0-only
//! Real-time tasks, and the class below them on the CPUs they take.

use policy::Instance;
use sim::{Change, Fault, Scenario, Scheduler, Traced, run_traced};
use trace::{Kind, Tid};
use workload::{More, Object, RealTime, Step, Task, Workload};

use crate::common;
use crate::common::{MS, burn, cores, every_scheduler, scenario, task, workload};

fn traced(scenario: &Scenario) -> Traced {
    run_traced(scenario).unwrap_or_else(|error| panic!("{:?}: {error}", scenario.scheduler))
}

fn realtime(name: &str, realtime: RealTime, steps: Vec<Step>) -> Task {
    Task { realtime, ..task(name, steps) }
}

/// The order in which tasks got a CPU, idling left out.
fn turns(traced: &Traced) -> Vec<Tid> {
    let next = |event: &trace::Event| match event.kind {
        Kind::Switch { next, .. } if next != trace::IDLE => Some(next),
        _ => None,
    };
    traced.events.iter().filter_map(next).collect()
}

fn ended_ms(traced: &Traced) -> Vec<u64> {
    traced.ended_ns.iter().map(|ns| ns.expect("all end") / MS).collect()
}

#[test]
fn fifo_runs_to_its_end_and_the_higher_priority_first() {
    for scheduler in every_scheduler() {
        let low = Task { delay_ns: 10 * MS, ..realtime("low", RealTime::Fifo(1), vec![burn(100)]) };
        let high =
            Task { delay_ns: 30 * MS, ..realtime("high", RealTime::Fifo(2), vec![burn(50)]) };
        let load = workload(vec![task("fair", vec![burn(100)]), low, high]);
        let traced = traced(&scenario(cores(1), load, scheduler));
        let ended_ms = ended_ms(&traced);
        let name = &traced.outcome.policy;
        assert!((80..83).contains(&ended_ms[2]), "{name}: {ended_ms:?}");
        assert!((160..164).contains(&ended_ms[1]), "{name}: {ended_ms:?}");
        assert!((250..256).contains(&ended_ms[0]), "{name}: {ended_ms:?}");
    }
}

#[test]
fn of_one_priority_fifo_goes_on_and_rr_takes_turns() {
    let both = |policy: RealTime| {
        let load =
            workload(["a", "b"].map(|name| realtime(name, policy, vec![burn(250)])).to_vec());
        traced(&scenario(cores(1), load, Scheduler::Default))
    };
    let fifo = both(RealTime::Fifo(5));
    assert!((250..254).contains(&ended_ms(&fifo)[0]), "{:?}", ended_ms(&fifo));
    let rr = both(RealTime::Rr(5));
    let took: Vec<Tid> = turns(&rr).into_iter().filter(|tid| *tid <= 2).collect();
    assert_eq!(took, [1, 2, 1, 2, 1, 2], "of 100 ms each");
    assert!((448..454).contains(&ended_ms(&rr)[0]), "{:?}", ended_ms(&rr));
}

#[test]
fn yielding_task_goes_behind_its_priority() {
    let yields = vec![burn(5), Step::Yield, burn(5)];
    let load =
        workload(["a", "b"].map(|name| realtime(name, RealTime::Fifo(5), yields.clone())).to_vec());
    let traced = traced(&scenario(cores(1), load, Scheduler::Default));
    let took: Vec<Tid> = turns(&traced).into_iter().filter(|tid| *tid <= 2).collect();
    assert_eq!(took, [1, 2, 1, 2]);
}

/// Three real-time tasks on two CPUs: one must wait, and goes wherever a CPU gets free first.
#[test]
fn waiting_task_is_pushed_and_pulled_to_where_it_can_run() {
    for scheduler in every_scheduler() {
        let of = |name, ms, prio| realtime(name, RealTime::Fifo(prio), vec![burn(ms)]);
        let late = Task { delay_ns: 5 * MS, ..of("late", 20, 9) };
        let load = workload(vec![of("long", 60, 5), of("short", 30, 5), late]);
        let traced = traced(&scenario(cores(2), load, scheduler));
        let mut ended_ms = ended_ms(&traced);
        let name = traced.outcome.policy.clone();
        assert!((25..28).contains(&ended_ms.remove(2)), "{name}: no task keeps it waiting");
        // 110 ms on two CPUs, one after the other without a gap.
        assert!(*ended_ms.iter().max().unwrap() < 84, "{name}: {ended_ms:?}");
    }
}

/// Three pinned tasks wake on three CPUs. One of these runs a fourth task of their priority, which moves away for them.
#[test]
fn pinned_task_goes_before_one_of_its_priority_that_can_move() {
    for scheduler in every_scheduler() {
        let of = |name, ms| realtime(name, RealTime::Fifo(5), vec![burn(ms)]);
        let bound = |cpu| Task { delay_ns: 10 * MS, cpus: Some(vec![cpu]), ..of("bound", 20) };
        let free = Task { delay_ns: MS, ..of("free", 60) };
        let before = Task { cpus: Some(vec![3]), ..of("before", 5) };
        let load = workload(vec![free, bound(0), bound(1), bound(2), before]);
        let traced = traced(&scenario(cores(4), load, scheduler));
        let (ended_ms, name) = (ended_ms(&traced), &traced.outcome.policy);
        assert!(ended_ms[1..4].iter().all(|ms| (30..33).contains(ms)), "{name}: {ended_ms:?}");
        assert!((60..65).contains(&ended_ms[0]), "{name}: {ended_ms:?}");
    }
}

/// A task of the class below has its twentieth of the CPU of a real-time task. That task waits meanwhile and does not
/// go elsewhere, though it could: `push_rt_task` moves no task that outranks the running one.
#[test]
fn a_hog_stays_where_others_have_their_twentieth() {
    for scheduler in every_scheduler().into_iter().filter(|one| !matches!(one, Scheduler::Cfs)) {
        let hog = realtime("hog", RealTime::Fifo(5), vec![burn(4_000)]);
        let bound = |cpu| Task { cpus: Some(vec![cpu]), ..task("bound", vec![burn(4_000)]) };
        let load = workload(vec![bound(0), bound(1), hog]);
        let traced = traced(&scenario(cores(2), load, scheduler));
        let name = &traced.outcome.policy;
        let served =
            (0..2).any(|of| (150 * MS..260 * MS).contains(&ran_ns(&traced, 2, 0, 4_000 * MS)[of]));
        assert!(served, "{name}: {:?}", ran_ns(&traced, 2, 0, 4_000 * MS));
        assert_eq!(traced.outcome.observed.tasks[&3].migrations, 0, "{name}");
    }
}

/// A task wakes 400 that wait at a barrier, or each for a token of a recording's, all on one CPU. Meanwhile a real-time
/// task wakes `naps` times. The result is the tasks that get the CPU before the last is woken.
fn meanwhile(naps: u64, scheduler: &Scheduler, recorded: bool) -> Vec<Tid> {
    let nap = vec![Step::Run { work_ns: 1000 }, Step::Sleep { ns: 50_000 }];
    let nap = vec![Step::Repeat { times: Some(naps), steps: nap }];
    let mut opens = vec![Step::Sleep { ns: 50 * MS }, burn(20)];
    let mut waits = vec![Step::Barrier(0); 400];
    let mut objects = vec![Object::Barrier { parties: 401, spin_ns: 0 }];
    if recorded {
        let more = |tokens| if tokens < 399 { More::Free } else { More::No };
        let give = |tokens| Step::Give { tokens, more: more(tokens), sync: false };
        opens.extend((0..400).map(give));
        waits = (0..400).map(Step::Take).collect();
        objects = vec![Object::Tokens; 400];
    } else {
        opens.push(Step::Barrier(0));
    }
    let mut tasks = vec![realtime("naps", RealTime::Fifo(1), nap), task("opens", opens)];
    tasks.extend(waits.into_iter().map(|waits| task("waits", vec![waits])));
    let load = Workload { objects, recorded, ..workload(tasks) };
    let mut traced = traced(&scenario(cores(1), load, scheduler.clone()));
    let woken = |event: &trace::Event| matches!(event.kind, Kind::Wake { tid: 3.., .. });
    let wakes: Vec<u64> = traced.events.iter().filter(|it| woken(it)).map(|it| it.t_ns).collect();
    let opening = wakes[wakes.len() - 400]..=wakes[wakes.len() - 1];
    traced.events.retain(|event| opening.contains(&event.t_ns));
    turns(&traced)
}

#[test]
fn waker_of_many_is_preempted_in_between_if_the_kernel_preempts_itself() {
    for scheduler in every_scheduler() {
        let preempts = !matches!(scheduler, Scheduler::Cfs);
        for recorded in [false, true] {
            let gives_way = meanwhile(4000, &scheduler, recorded).contains(&1);
            assert_eq!(gives_way, preempts, "{scheduler:?}, recorded: {recorded}");
        }
    }
    // Linux's own class lets a woken task preempt lazily: on the way out of the kernel.
    assert!([false, true].iter().all(|it| meanwhile(1, &Scheduler::Default, *it).is_empty()));
}

fn hog(at_ms: u64, cpu: usize, for_ms: u64) -> Fault {
    Fault { at_ns: at_ms * MS, change: Change::Hog { cpu, for_ns: for_ms * MS, priority: 50 } }
}

fn spinners(n: usize, ms: u64) -> Workload {
    let mut load = workload((0..n).map(|n| task(&format!("t{n}"), vec![burn(100_000)])).collect());
    load.duration_ns = Some(ms * MS);
    load
}

/// How long each of the first `n` tasks has run within this time, ns.
fn ran_ns(traced: &Traced, n: usize, from_ns: u64, to_ns: u64) -> Vec<u64> {
    let (mut ran_ns, mut since_ns) = (vec![0; n], vec![None; n]);
    let of = |tid: Tid| (tid as usize).checked_sub(1).filter(|at| *at < n);
    for event in &traced.events {
        let Kind::Switch { prev, next, .. } = event.kind else { continue };
        let t_ns = event.t_ns.clamp(from_ns, to_ns);
        if let Some(at) = of(prev) {
            ran_ns[at] += t_ns - since_ns[at].take().unwrap_or(t_ns);
        }
        if let Some(at) = of(next) {
            since_ns[at] = Some(t_ns);
        }
    }
    let on = |since_ns: Option<u64>| since_ns.map_or(0, |since_ns| to_ns - since_ns);
    ran_ns.iter().zip(since_ns).map(|(ran_ns, since)| ran_ns + on(since)).collect()
}

/// The least that each is to get of a fair part, in percent.
fn part(name: &str) -> u64 {
    match name {
        // By load and capacity, in steps: it moves a task back now and then.
        "default" | "cfs" => 50,
        _ => 75,
    }
}

/// Four tasks on two CPUs, one of which is taken: all share the other, and the rest of the taken one.
#[test]
fn tasks_leave_a_cpu_that_a_hog_takes() {
    let mut short = Vec::new();
    for scheduler in every_scheduler() {
        let mut scenario = scenario(cores(2), spinners(4, 5_500), scheduler);
        scenario.faults = vec![hog(500, 1, 5_000)];
        let traced = traced(&scenario);
        let name = &traced.outcome.policy;
        let mut ran_ns = ran_ns(&traced, 4, 600 * MS, 5_500 * MS);
        ran_ns.sort_unstable();
        let fair_ns = 4_900 * MS / 4;
        if ran_ns[0] * 100 < fair_ns * part(name) {
            short.push(format!("{name}: {ran_ns:?} of {fair_ns}"));
        }
    }
    assert!(short.is_empty(), "{}", short.join("\n"));
}

/// One CPU goes offline shortly after a hog had it, and the next has a hog: all tasks share the remaining one. A policy
/// that counts the first twice, as taken and as offline, concludes that no CPU is left.
#[test]
fn a_cpu_that_goes_while_it_is_taken_is_away_once() {
    let mut short = Vec::new();
    for scheduler in every_scheduler() {
        let mut scenario = scenario(cores(3), spinners(4, 5_500), scheduler);
        let goes = Fault { at_ns: 450 * MS, change: Change::Offline(2) };
        scenario.faults = vec![hog(200, 2, 200), goes, hog(500, 0, 5_000)];
        let traced = traced(&scenario);
        let name = &traced.outcome.policy;
        let ran_ns = ran_ns(&traced, 4, 600 * MS, 5_500 * MS);
        let fair_ns = 4_900 * MS / 4;
        if ran_ns.iter().any(|ns| *ns * 100 < fair_ns * part(name)) {
            short.push(format!("{name}: {ran_ns:?} of {fair_ns}"));
        }
    }
    assert!(short.is_empty(), "{}", short.join("\n"));
}

/// It cannot leave: it gets its twentieth of each second, and ends after the hog. The others share their CPU as if it
/// were not there.
#[test]
fn a_task_that_is_bound_behind_a_hog_is_not_lost() {
    let mut short = Vec::new();
    for scheduler in every_scheduler() {
        let bound = Task { cpus: Some(vec![1]), ..task("bound", vec![burn(400)]) };
        let free = (0..3).map(|n| task(&format!("free{n}"), vec![burn(5_000)]));
        let load = workload(free.chain([bound]).collect());
        let mut scenario = scenario(cores(2), load, scheduler);
        scenario.faults = vec![hog(20, 1, 4_000)];
        let traced = traced(&scenario);
        let name = &traced.outcome.policy;
        let ran_ns = ran_ns(&traced, 4, 100 * MS, 4_000 * MS);
        let ended_ms = ended_ms(&traced)[3];
        let fair_ns = 3_900 * MS / 3;
        let shared = ran_ns[..3].iter().all(|ns| *ns * 100 >= fair_ns * part(name));
        if !shared || ran_ns[3] < 60 * MS || ended_ms > 8_000 {
            short.push(format!("{name}: {ran_ns:?} of {fair_ns}, ended at {ended_ms} ms"));
        }
    }
    assert!(short.is_empty(), "{}", short.join("\n"));
}

/// The fastest of five CPUs idles when it is taken, and no policy is told. Each of the others has one task, which goes
/// on.
#[test]
fn no_task_is_sent_to_an_idle_cpu_that_a_hog_has_taken() {
    let mut machine = cores(5);
    machine.core_rates = vec![1.0, 0.5];
    machine.cpus[1..].iter_mut().for_each(|cpu| cpu.core_type = 1);
    for scheduler in every_scheduler() {
        let mut load = spinners(4, 500);
        load.tasks.iter_mut().for_each(|task| task.delay_ns = 20 * MS);
        let mut scenario = scenario(machine.clone(), load, scheduler);
        scenario.faults = vec![hog(10, 0, 1_000)];
        let traced = traced(&scenario);
        let ran_ns = ran_ns(&traced, 4, 30 * MS, 500 * MS);
        let all = ran_ns.iter().all(|ns| *ns > 465 * MS);
        assert!(all, "{}: {ran_ns:?} of 470 ms", traced.outcome.policy);
    }
}

/// Three tasks may run on two CPUs. One goes offline; the other is first taken by a real-time task, which does `steps`
/// from then on. Each of the three must run for at least `least` ms in each second.
fn each_has_ms(steps: &[Step], least: u64) {
    let mut short = Vec::new();
    for scheduler in every_scheduler() {
        let again = Step::Repeat { times: None, steps: steps.to_vec() };
        let visitor = realtime("visitor", RealTime::Fifo(7), vec![burn(300), again]);
        let mut load = spinners(7, 4_600);
        load.tasks[..3].iter_mut().for_each(|task| task.cpus = Some(vec![2, 3]));
        load.tasks.push(Task { cpus: Some(vec![2]), ..visitor });
        let mut scenario = scenario(cores(4), load, scheduler);
        scenario.faults = vec![Fault { at_ns: 500 * MS, change: Change::Offline(3) }];
        let traced = traced(&scenario);
        let ran_ns = ran_ns(&traced, 3, 600 * MS, 4_600 * MS);
        if ran_ns.iter().any(|ns| *ns < 4 * least * MS) {
            short.push(format!("{}: {ran_ns:?}", traced.outcome.policy));
        }
    }
    assert!(short.is_empty(), "{}", short.join("\n"));
}

/// It had the CPU for a while once, and has run for a moment ten times a second since.
#[test]
fn a_cpu_that_is_visited_is_not_taken() {
    each_has_ms(&[Step::Sleep { ns: 100 * MS }, Step::Run { work_ns: MS / 10 }], 250);
}

#[test]
fn task_of_an_offline_cpu_has_the_part_of_one_that_is_taken() {
    each_has_ms(&[burn(1000)], 10);
}

/// Once each time, whatever happens until the policy has the CPU again.
#[test]
fn a_policy_hears_once_that_a_cpu_is_taken_and_that_it_is_back() {
    for scheduler in every_scheduler().split_off(2) {
        let nap = Step::Sleep { ns: 20 * MS };
        let mut often = realtime("often", RealTime::Fifo(7), vec![nap, burn(3)]);
        often.steps = vec![Step::Repeat { times: Some(10), steps: often.steps }];
        often.cpus = Some(vec![0]);
        let load = workload(vec![task("fair", vec![burn(400)]), often]);
        let traced = traced(&scenario(cores(1), load, scheduler));
        let name = &traced.outcome.policy;
        let calls: Vec<&str> = traced.callbacks.iter().map(|call| call.op).collect();
        let of = |op: &str| calls.iter().filter(|call| **call == op).count();
        assert_eq!((of("cpu_release"), of("cpu_acquire")), (10, 10), "{name}");
        let both = calls.iter().filter(|call| call.starts_with("cpu_"));
        let order: Vec<_> = both.collect();
        assert!(order.chunks(2).all(|pair| *pair[0] == "cpu_release"), "{name}: {order:?}");
    }
}

/// A real-time task that wakes on a CPU each 4 ms, for 0.1 ms.
fn visitor(cpu: usize) -> Task {
    Task { cpus: Some(vec![cpu]), ..comes(None, 4) }
}

/// A task that wakes `times` times, or for ever, each `each_ms`, for 0.1 ms.
fn comes(times: Option<u64>, each_ms: u64) -> Task {
    let steps = vec![Step::Run { work_ns: MS / 10 }, Step::Sleep { ns: each_ms * MS }];
    realtime("visitor", RealTime::Fifo(7), vec![Step::Repeat { times, steps }])
}

/// An interrupted task goes on: it has neither yielded nor had its turn.
#[test]
fn nice_means_the_same_where_a_real_time_task_wakes_often() {
    let mut wrong = Vec::new();
    for scheduler in every_scheduler().split_off(2) {
        let ran_ms = |visitors: Vec<Task>| {
            let mut load = spinners(3, 20_000);
            load.tasks.iter_mut().zip([-10, 0, 10]).for_each(|(task, nice)| task.nice = nice);
            load.tasks.extend(visitors);
            let traced = traced(&scenario(cores(1), load, scheduler.clone()));
            let ran_ns = ran_ns(&traced, 3, 0, 20_000 * MS);
            (traced.outcome.policy, ran_ns.into_iter().map(|ns| ns / MS).collect::<Vec<_>>())
        };
        let ((name, alone), (_, visited)) = (ran_ms(vec![]), ran_ms(vec![visitor(0)]));
        if alone.iter().zip(&visited).any(|(a, v)| a.abs_diff(*v) > a / 10 + 300) {
            wrong.push(format!("{name}: {visited:?} ms, and {alone:?} without it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// It takes a fortieth of a CPU, and no CPU pulls the tasks that wait there for that.
#[test]
fn tasks_do_not_leave_a_cpu_that_is_visited() {
    let mut uneven = Vec::new();
    for scheduler in every_scheduler() {
        let mut load = spinners(8, 10_000);
        load.tasks.push(visitor(0));
        let traced = traced(&scenario(cores(2), load, scheduler));
        let mut ran_ns = ran_ns(&traced, 8, 0, 10_000 * MS);
        ran_ns.sort_unstable();
        let name = &traced.outcome.policy;
        if ran_ns[7] * 3 > ran_ns[0] * 4 {
            uneven.push(format!("{name}: {ran_ns:?}"));
        }
    }
    assert!(uneven.is_empty(), "{}", uneven.join("\n"));
}

/// Real-time tasks wake on all CPUs, and many tasks wait. No task is sent from one end of a queue to another until the
/// kernel unloads the policy, and no task runs more than others for that.
#[test]
fn waiting_task_is_not_sent_around_when_all_cpus_are_visited() {
    let mut uneven = Vec::new();
    for scheduler in every_scheduler() {
        let mut load = spinners(40, 10_000);
        load.tasks.extend((0..4).map(visitor));
        let traced = traced(&scenario(cores(4), load, scheduler));
        let mut ran_ns = ran_ns(&traced, 40, 0, 10_000 * MS);
        ran_ns.sort_unstable();
        if ran_ns[39] * 3 > ran_ns[0] * 4 {
            uneven.push(format!("{}: {ran_ns:?}", traced.outcome.policy));
        }
    }
    assert!(uneven.is_empty(), "{}", uneven.join("\n"));
}

#[test]
fn a_policy_that_sends_a_task_around_for_ever_is_thrown_out() {
    let mut load = spinners(40, 10_000);
    load.tasks.extend((0..4).map(visitor));
    let error = run_traced(&scenario(cores(4), load, common::policy("sends"))).err();
    let error = error.expect("its CPUs are visited 256 times before a slice ends").to_string();
    assert!(error.contains("reenqueued 257 times without running"), "{error}");
}

/// Once no real-time task comes any more, flsched takes no locks again; and it takes none for one that comes seldom.
#[test]
fn flsched_is_lockless_but_while_real_time_tasks_come_often() {
    let locks = |times, each_ms, duration_ms| {
        let mut load = spinners(8, 60_000);
        load.duration_ns = Some(duration_ms * MS);
        load.tasks.push(comes(Some(times), each_ms));
        let scheduler = Scheduler::Policy(Instance::default(&flsched::FLSCHED));
        traced(&scenario(cores(2), load, scheduler)).outcome.locks.get("dsq").copied().unwrap_or(0)
    };
    let (soon, late) = (locks(100, 4, 2_000), locks(100, 4, 6_000));
    assert!(soon > 0 && late == soon, "{soon} locks in 2 s, {late} in 6 s");
    assert_eq!(locks(100, 50, 6_000), 0, "twenty times a second is seldom");
}
