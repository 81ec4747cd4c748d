// SPDX-License-Identifier: GPL-2.0-only
//! The measures, on streams short enough to check by hand.

use proptest::prelude::*;
use trace::{Event, IDLE, Kind, Measures, Observed, Tid};

fn at(t_ns: u64, cpu: u32, kind: Kind) -> Event {
    Event { t_ns, cpu, kind }
}

fn wake(t_ns: u64, tid: Tid, target: u32) -> Event {
    at(t_ns, 0, Kind::Wake { tid, target })
}

fn switch(t_ns: u64, cpu: u32, prev: Tid, next: Tid, prev_runnable: bool) -> Event {
    let next_mm = if next == IDLE { 0 } else { u64::from(next / 10) };
    at(t_ns, cpu, Kind::Switch { prev, next, prev_runnable, next_mm })
}

fn observe(cpus: usize, events: &[Event], end_ns: u64) -> Observed {
    let mut measures = Measures::new(cpus);
    events.iter().for_each(|event| measures.event(event));
    measures.finish(end_ns)
}

#[test]
fn a_switch_is_involuntary_only_where_the_task_could_have_gone_on() {
    let seen = observe(
        1,
        &[
            wake(0, 11, 0),
            switch(1, 0, IDLE, 11, false),
            wake(2, 12, 0),
            switch(5, 0, 11, 12, true),
            switch(9, 0, 12, 11, false),
            switch(12, 0, 11, IDLE, false),
        ],
        20,
    );
    assert_eq!((seen.context_switches, seen.involuntary_switches), (3, 1));
    assert_eq!(seen.tasks[&11].cpu_ns, 4 + 3);
    assert_eq!(seen.tasks[&12].cpu_ns, 4);
    assert_eq!(seen.tasks[&11].wait_max_ns, 4, "from being preempted to running again");
    assert_eq!(seen.idle_ns, 1 + 8);
}

#[test]
fn idling_and_kernel_threads_keep_the_address_space() {
    let kernel_thread = 3; // tids below 10 have no address space here
    let seen = observe(
        1,
        &[
            switch(0, 0, IDLE, 11, false),
            switch(1, 0, 11, kernel_thread, false),
            switch(2, 0, kernel_thread, 12, false),
            switch(3, 0, 12, IDLE, false),
            switch(4, 0, IDLE, 13, false),
            switch(5, 0, 13, 21, false),
            switch(6, 0, 21, 11, false),
        ],
        10,
    );
    assert_eq!(seen.address_space_switches, 2, "1 to 2 and back; nothing else");
}

#[test]
fn idle_while_runnable_counts_a_waiting_task_once_however_many_cpus_idle() {
    let seen = observe(
        4,
        &[switch(0, 0, IDLE, 11, false), wake(10, 12, 0), switch(30, 2, IDLE, 12, false)],
        100,
    );
    assert_eq!(seen.idle_while_runnable_ns, 20);
    assert_eq!(seen.wakeup_in_flight_ns, 0, "it waited behind a busy CPU");
}

#[test]
fn a_wakeup_on_its_way_to_an_idle_cpu_is_told_apart() {
    let seen = observe(2, &[wake(10, 11, 1), switch(14, 1, IDLE, 11, false)], 50);
    assert_eq!(seen.idle_while_runnable_ns, 4);
    assert_eq!(seen.wakeup_in_flight_ns, 4);
}

#[test]
fn a_task_that_may_not_run_there_does_not_make_idling_wrong() {
    let pinned = |tid| at(0, 0, Kind::Affinity { tid, cpus: vec![0b01] });
    let seen = observe(2, &[pinned(12), switch(0, 0, IDLE, 11, false), wake(0, 12, 0)], 100);
    assert_eq!(seen.idle_while_runnable_ns, 0);
    assert_eq!(seen.tasks[&12].wait_max_ns, 100, "but it waited, and never ran");
    assert_eq!(seen.wait.max_ns, 100);
}

#[test]
fn affinity_is_matched_and_not_counted_twice() {
    // Two tasks pinned to CPU 1 and one to CPUs 1 and 2 wait; CPUs 1 and 2 idle: two could run.
    let only = |tid, cpus| at(0, 0, Kind::Affinity { tid, cpus: vec![cpus] });
    let seen = observe(
        3,
        &[
            only(11, 0b010),
            only(12, 0b010),
            only(13, 0b110),
            switch(0, 0, IDLE, 99, false),
            wake(0, 13, 0),
            wake(0, 11, 0),
            wake(0, 12, 0),
        ],
        10,
    );
    assert_eq!(seen.idle_while_runnable_ns, 20);
}

#[test]
fn everything_on_one_cpu_is_seen_as_idling_elsewhere() {
    let mut events = vec![switch(0, 0, IDLE, 11, false)];
    events.extend((12..18).map(|tid| wake(0, tid, 0)));
    let seen = observe(4, &events, 1000);
    assert_eq!(seen.idle_while_runnable_ns, 3 * 1000);
}

#[test]
fn wakeup_of_a_waiting_task_does_not_restart_its_wait() {
    let seen = observe(
        2,
        &[
            wake(0, 1, 0),
            switch(0, 0, IDLE, 1, false),
            wake(0, 2, 1),
            switch(0, 1, IDLE, 2, false),
            switch(10, 0, 1, 3, true),
            wake(60, 1, 1),
            switch(100, 1, 2, 1, false),
        ],
        100,
    );
    let task = &seen.tasks[&1];
    assert_eq!(
        (task.wait_max_ns, task.wait_ns, task.waits),
        (90, 90, 2),
        "the first was of no length"
    );
}

#[test]
fn a_task_that_ends_is_not_waiting() {
    let seen = observe(
        1,
        &[
            switch(0, 0, IDLE, 11, false),
            at(4, 0, Kind::Exit { tid: 11 }),
            switch(5, 0, 11, IDLE, true),
        ],
        50,
    );
    assert_eq!((seen.context_switches, seen.involuntary_switches), (1, 0));
    assert_eq!(seen.idle_while_runnable_ns, 0);
}

proptest! {
    /// Whatever happens, each CPU's time is either idle or some task's, to the nanosecond.
    #[test]
    fn every_nanosecond_is_accounted_for(
        steps in prop::collection::vec((0u64..50, 0u32..3, 0u32..5, any::<bool>()), 1..200),
        tail in 0u64..50,
    ) {
        let mut current = [IDLE; 3];
        let (mut measures, mut now, mut start) = (Measures::new(3), 0, None);
        for (gap, cpu, task, runnable) in steps {
            now += gap;
            start.get_or_insert(now);
            let next = if task == 0 || current.contains(&(task + 10)) { IDLE } else { task + 10 };
            let prev = std::mem::replace(&mut current[cpu as usize], next);
            if prev != next {
                measures.event(&switch(now, cpu, prev, next, runnable));
            } else {
                measures.event(&wake(now, 77, cpu));
            }
        }
        let end = now + tail;
        let seen = measures.finish(end);
        let busy: u64 = seen.tasks.values().map(|task| task.cpu_ns).sum();
        prop_assert_eq!(busy + seen.idle_ns, 3 * (end - start.unwrap()));
        prop_assert!(seen.idle_while_runnable_ns <= seen.idle_ns);
        prop_assert!(seen.wakeup_in_flight_ns <= seen.idle_while_runnable_ns);
        prop_assert!(seen.wait.p50_ns <= seen.wait.p99_ns && seen.wait.p99_ns <= seen.wait.max_ns);
    }
}

proptest! {
    /// By Hall's deficiency: no set of tasks gets more CPUs than may run its tasks.
    #[test]
    fn as_many_wait_in_vain_as_no_set_of_them_can_avoid(
        masks in prop::collection::vec(0u8..32, 0..7),
        idle in 0u8..32,
    ) {
        const CPUS: [usize; 5] = [0, 1, 63, 64, 69];
        let mut measures = Measures::new(70);
        for cpu in 0..70 {
            let idles = CPUS.iter().position(|of| *of == cpu).is_some_and(|at| idle >> at & 1 == 1);
            if !idles {
                measures.running(cpu as u32, 100 + cpu as Tid, 1);
            }
        }
        for (tid, mask) in (1..).zip(&masks) {
            let mut cpus = vec![0; 2];
            for (at, cpu) in CPUS.iter().enumerate() {
                cpus[cpu / 64] |= u64::from(mask >> at & 1) << (cpu % 64);
            }
            // An empty mask would mean any CPU, so add one that does not idle.
            cpus[0] |= 1 << 5;
            measures.event(&at(0, 5, Kind::Affinity { tid, cpus }));
            measures.event(&wake(0, tid, 5));
        }
        let all = (0..1u32 << masks.len()).map(|some| {
            let theirs = masks.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
            let usable = theirs.fold(0, |all, (_, mask)| all | (mask & idle));
            masks.len() as u32 - some.count_ones() + usable.count_ones()
        });
        let seen = measures.finish(1);
        prop_assert_eq!(seen.idle_while_runnable_ns, u64::from(all.min().unwrap()));
    }
}

proptest! {
    /// Measures restricted to some tasks equal these tasks' part in the measures of all.
    #[test]
    fn measures_of_some_tasks_are_their_part_of_all(
        steps in prop::collection::vec((0u64..50, 0u32..3, 0u32..5, any::<bool>()), 1..200),
        some in prop::collection::btree_set(11u32..15, 0..4),
    ) {
        let mut both = [Measures::new(3), Measures::new(3).only(some.clone())];
        let (mut current, mut now) = ([IDLE; 3], 0);
        for (gap, cpu, task, runnable) in steps {
            now += gap;
            let next = if task == 0 || current.contains(&(task + 10)) { IDLE } else { task + 10 };
            let prev = std::mem::replace(&mut current[cpu as usize], next);
            let event = match prev != next {
                true => switch(now, cpu, prev, next, runnable),
                false => wake(now, 10 + task, cpu),
            };
            both.iter_mut().for_each(|measures| measures.event(&event));
        }
        let [mut all, own] = both.map(|measures| measures.finish(now + 10));
        prop_assert!(own.idle_while_runnable_ns <= all.idle_while_runnable_ns);
        prop_assert_eq!((own.idle_ns, own.elapsed_ns), (all.idle_ns, all.elapsed_ns));
        all.tasks.retain(|tid, _| some.contains(tid));
        prop_assert_eq!(&own.tasks, &all.tasks);
        let sum = |of: fn(&trace::TaskObserved) -> u64| own.tasks.values().map(of).sum::<u64>();
        prop_assert_eq!(own.context_switches, sum(|task| task.voluntary + task.involuntary));
        prop_assert_eq!(own.involuntary_switches, sum(|task| task.involuntary));
        prop_assert_eq!(own.migrations, sum(|task| task.migrations));
        let longest = own.tasks.values().map(|task| task.wait_max_ns).max().unwrap_or(0);
        // The histogram of all waits keeps three digits.
        prop_assert!((longest..=longest + longest / 500).contains(&own.wait.max_ns));
    }
}

#[test]
fn a_cpu_idles_in_vain_only_for_tasks_that_are_measured() {
    let in_vain = |only: Option<Tid>| {
        let mut measures = Measures::new(2);
        if let Some(tid) = only {
            measures = measures.only([tid].into());
        }
        measures.event(&switch(0, 0, IDLE, 1, false));
        measures.event(&wake(10, 2, 0));
        measures.finish(30).idle_while_runnable_ns
    };
    assert_eq!([in_vain(None), in_vain(Some(2)), in_vain(Some(1))], [20, 20, 0]);
}
