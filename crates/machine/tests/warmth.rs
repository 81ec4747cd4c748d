// SPDX-License-Identifier: GPL-2.0-only
//! The pages and lines that a task finds: properties on random footprints, and shapes known from measurements.

use std::rc::Rc;

use machine::{Footprint, Machine, Misses, Set, Turn, Warmth, find};
use proptest::prelude::*;

fn set(id: u32, pages: f64) -> Set {
    Set { id, pages, bytes: pages * 4096.0 }
}

/// Task `number` of process `space`: `own` pages of its own, and `shared` of its process's.
fn task(number: u32, space: u32, own: f64, shared: f64) -> Footprint {
    Footprint {
        space,
        own: set(1000 + number, own),
        shared: set(100 + space, shared),
        code: set(200 + space, 10.0),
        kernel_own: set(5000 + number, 1.0),
        kernel_shared: set(1, 4.0),
        kernel_code: set(2, 2.0),
        reach_ns: 20_000.0,
    }
}

fn enter(warmth: &mut Warmth, cpu: usize, task: &Footprint) -> Turn {
    let touches = Rc::new(warmth.touches(task));
    warmth.enter(cpu, &touches)
}

/// One turn of `work_ns` on CPU 0: all misses of it.
fn turn(warmth: &mut Warmth, task: &Footprint, work_ns: f64) -> Misses {
    warmth.change_space(0, task.space);
    let touches = Rc::new(warmth.touches(task));
    let mut turn = warmth.enter(0, &touches);
    let mut misses = turn.kernel;
    let worked = turn.worked(work_ns);
    misses.add(&worked, 1.0);
    warmth.leave(0, &touches, &turn);
    misses
}

/// Misses of the last round of all tasks, when they take turns.
fn rotate(machine: &Machine, tasks: &[Footprint], work_ns: f64) -> Misses {
    let mut warmth = Warmth::new(machine).unwrap();
    let mut last = Misses::default();
    for _ in 0..8 {
        last = Misses::default();
        for task in tasks {
            let misses = turn(&mut warmth, task, work_ns);
            last.add(&misses, 1.0);
        }
    }
    last
}

fn core2() -> Machine {
    find("core2duo-1.86").unwrap()
}

fn tagged(tags: f64) -> Machine {
    core2().with_cost("tlb_tags", tags).unwrap()
}

fn counts(misses: &Misses) -> [f64; 6] {
    let Misses { dtlb_user, dtlb_kernel, itlb_user, itlb_kernel, cache, ns } = *misses;
    [dtlb_user, dtlb_kernel, itlb_user, itlb_kernel, cache, ns]
}

proptest! {
    #[test]
    fn a_round_misses_no_more_than_it_touches(
        turns in prop::collection::vec((0u32..12, 0u32..4, 0.0f64..600.0, 0.0f64..600.0, 0.0f64..1.0), 1..60),
        machine in prop::sample::select(vec!["core2duo-1.86", "exynos-4210", "xeon-e5-2699", "xeon-phi-31s1p"]),
    ) {
        let mut warmth = Warmth::new(&find(machine).unwrap()).unwrap();
        for (number, space, own, shared, part) in turns {
            let one = task(number * 4 + space, 1 + space, own, shared);
            let misses = turn(&mut warmth, &one, one.reach_ns * part);
            prop_assert!(counts(&misses).iter().all(|n| *n >= 0.0), "{misses:?}");
            let slack = 1e-6;
            prop_assert!(misses.dtlb_user <= part * (own + shared) + slack, "{misses:?}");
            prop_assert!(misses.itlb_user <= part * 10.0 + slack, "{misses:?}");
            prop_assert!(misses.dtlb_kernel <= 5.0 + slack && misses.itlb_kernel <= 2.0 + slack);
            let lines = 4096.0 / 32.0 * (part * (own + shared + 10.0) + 7.0);
            prop_assert!(misses.cache <= lines + slack, "{misses:?}");
        }
    }

    #[test]
    fn tags_never_add_misses(
        order in prop::collection::vec(0usize..9, 1..80),
        pages in 1.0f64..60.0,
        tags in 1u32..9,
    ) {
        let tasks: Vec<_> = (0..9).map(|n| task(n, 1 + n / 2, pages, pages)).collect();
        let mut plain = Warmth::new(&core2()).unwrap();
        let mut with = Warmth::new(&tagged(f64::from(tags))).unwrap();
        let (mut sum_plain, mut sum_with) = (0.0, 0.0);
        for at in order {
            let lost = turn(&mut plain, &tasks[at], 20_000.0);
            let kept = turn(&mut with, &tasks[at], 20_000.0);
            sum_plain += lost.dtlb_user + lost.itlb_user;
            sum_with += kept.dtlb_user + kept.itlb_user;
        }
        prop_assert!(sum_with <= sum_plain + 1e-6, "{sum_with} {sum_plain}");
    }

    #[test]
    fn misses_grow_with_the_working_set(pages in 0.0f64..700.0, more in 0.0f64..200.0) {
        let misses = |pages| {
            let tasks: Vec<_> = (0..3).map(|n| task(n, 1 + n, pages, 0.0)).collect();
            rotate(&core2(), &tasks, 20_000.0)
        };
        let (small, large) = (misses(pages), misses(pages + more));
        for (less, more) in counts(&small).into_iter().zip(counts(&large)) {
            prop_assert!(less <= more * (1.0 + 1e-6) + 1e-6, "{small:?} {large:?}");
        }
    }

    #[test]
    fn effort_and_work_are_inverse(work in 0.0f64..100_000.0, before in 0.0f64..40_000.0) {
        let mut warmth = Warmth::new(&core2()).unwrap();
        let mut turn = enter(&mut warmth, 0, &task(1, 1, 300.0, 100.0));
        turn.worked(before);
        prop_assert!((turn.work_ns(turn.effort_ns(work)) - work).abs() < 1e-6 * (1.0 + work));
    }

    #[test]
    fn siblings_of_one_set_pay_nothing_for_a_switch(pages in 1.0f64..700.0) {
        let machine = core2();
        let siblings = [task(1, 1, 0.0, pages), task(2, 1, 0.0, pages)];
        let alone = [siblings[0], siblings[0]];
        let (switching, going_on) = (rotate(&machine, &siblings, 20_000.0), rotate(&machine, &alone, 20_000.0));
        prop_assert!((switching.dtlb_user - going_on.dtlb_user).abs() < 1e-6);
        prop_assert!((switching.itlb_user - going_on.itlb_user).abs() < 1e-6);
    }
}

/// A turn that is cut into pieces, with no other task in between, fetches no more than a whole one.
#[test]
fn pieces_of_a_turn_sum_up() {
    let machine = core2();
    let one = task(1, 1, 8.0, 4.0);
    let mut whole = Warmth::new(&machine).unwrap();
    let expected = turn(&mut whole, &one, one.reach_ns).dtlb_user;
    let mut cut = Warmth::new(&machine).unwrap();
    let sum: f64 = (0..200).map(|_| turn(&mut cut, &one, one.reach_ns / 20.0).dtlb_user).sum();
    assert!(sum <= expected * 1.02, "{sum} {expected}");
    assert!(sum >= expected * 0.98, "{sum} {expected}");
}

/// Without tags a switch to another address space walks for every page again, at a fixed cost per walk.
#[test]
fn a_flush_costs_a_walk_a_page() {
    let machine = core2();
    let memory = machine.memory.clone().unwrap();
    let tasks = [task(1, 1, 20.0, 0.0), task(2, 2, 20.0, 0.0)];
    let misses = rotate(&machine, &tasks, 20_000.0);
    assert_eq!((misses.dtlb_user.round(), misses.itlb_user.round()), (40.0, 20.0));
    let walks = 40.0 * memory.dtlb_miss_ns + 20.0 * memory.itlb_miss_ns;
    assert!(misses.ns >= walks, "{misses:?}");
    // 28 pages of data and 80 KB of lines: L1 cannot hold two such sets, the L2 can.
    assert!(misses.cache < 1.0, "{misses:?}");
    assert!(misses.dtlb_kernel + misses.itlb_kernel < 0.5, "global entries survive: {misses:?}");
}

/// Six spaces keep their entries under six tags. A seventh makes all lose theirs: Linux's tags go round.
#[test]
fn the_seventh_space_is_one_too_many() {
    let rotating = |spaces| {
        let tasks: Vec<_> = (0..spaces).map(|n| task(n, 1 + n, 16.0, 0.0)).collect();
        rotate(&tagged(6.0), &tasks, 20_000.0).dtlb_user / f64::from(spaces)
    };
    assert!(rotating(6) < 1.5, "{}", rotating(6));
    assert!(rotating(7) > 15.9, "{}", rotating(7));
}

/// lat_ctx's shape: a switch is cheap while all sets fit into the cache together. Then the cost rises to a miss for
/// every line, and stays there.
#[test]
fn the_cost_of_a_switch_rises_when_the_sets_exceed_the_cache() {
    let missed = |pages: f64| {
        let tasks: Vec<_> = (0..4).map(|n| task(n, 1 + n, pages, 0.0)).collect();
        let touched = 4.0 * (pages + 10.0) * 64.0;
        rotate(&core2(), &tasks, 20_000.0).cache / touched
    };
    let at = [16.0, 64.0, 128.0, 256.0, 512.0].map(missed);
    assert!(at.windows(2).all(|pair| pair[0] <= pair[1]), "{at:?}");
    assert!(at[0] < 0.01 && at[1] < 0.2, "fits: {at:?}");
    assert!(at[3] > 0.9, "twice the cache: {at:?}");
}

/// Threads of a core share its TLB, other cores do not.
#[test]
fn threads_of_a_core_share() {
    let machine = find("xeon-e5-2699").unwrap();
    let one = task(1, 1, 40.0, 0.0);
    let sibling = (1..machine.cpus.len())
        .find(|cpu| machine.cpus[*cpu].core == machine.cpus[0].core)
        .unwrap();
    let mut warmth = Warmth::new(&machine).unwrap();
    turn(&mut warmth, &one, one.reach_ns);
    for (cpu, warm) in [(sibling, true), (1, false)] {
        warmth.change_space(cpu, 1);
        let mut turn = enter(&mut warmth, cpu, &one);
        let misses = turn.worked(one.reach_ns);
        assert_eq!(misses.dtlb_user < 1.0, warm, "CPU {cpu}: {misses:?}");
    }
}

#[test]
fn a_machine_that_does_not_say_has_none() {
    assert!(Warmth::new(&find("numa-2x4").unwrap()).is_none());
}

/// Two hardware threads of a core. A task misses more in each further round beside a task of other pages, hardly more
/// beside a sibling that shares its pages, and no more if the other thread idles.
#[test]
fn hardware_threads_of_a_core_push_out_what_they_do_not_share() {
    let machine = find("xeon-e5-2699").unwrap();
    let first = |core: u16| machine.cpus.iter().position(|cpu| cpu.core == core).unwrap();
    let beside = machine.cpus.iter().rposition(|cpu| cpu.core == 0).unwrap();
    let again = |other: Option<(usize, Footprint)>| {
        let mut warmth = Warmth::new(&machine).unwrap();
        if let Some((cpu, other)) = other {
            enter(&mut warmth, cpu, &other);
        }
        let task = task(1, 1, 4.0, 40.0);
        let mut turn = enter(&mut warmth, first(0), &task);
        turn.worked(task.reach_ns);
        turn.worked(task.reach_ns).ns
    };
    let alone = again(None);
    let sibling = again(Some((beside, task(2, 1, 4.0, 40.0))));
    let stranger = again(Some((beside, task(2, 2, 4.0, 40.0))));
    assert!(alone <= sibling, "{alone} {sibling}");
    assert!((sibling - alone) * 4.0 < stranger - alone, "{alone} {sibling} {stranger}");
    let elsewhere = again(Some((first(1), task(2, 2, 4.0, 40.0))));
    assert_eq!(elsewhere, alone, "another core's caches are its own");
}
