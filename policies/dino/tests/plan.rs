// SPDX-License-Identifier: GPL-2.0-only
//! Properties of plans, for any threads.

use std::collections::BTreeMap;

use dino::{Class, Domains, Move, Part, Spread, Thread, di, dino, memory};
use proptest::prelude::*;

fn some_class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Turtle), Just(Class::Devil), Just(Class::SuperDevil)]
}

fn some_domains() -> impl Strategy<Value = Domains> {
    proptest::collection::vec(0usize..6, 1..7)
        .prop_filter("somewhere to run", |cpus| cpus.iter().any(|cpus| *cpus > 0))
        .prop_map(|cpus| Domains { cpus, distance: Vec::new() })
}

/// Threads of these classes, in the domains of `at`.
fn of(classes: &[Class], at: &[usize]) -> Vec<Thread> {
    let thread = |(id, class): (usize, &Class)| Thread {
        at: at.get(id).copied(),
        ..Thread::new(id as u64, 1.0, *class)
    };
    classes.iter().enumerate().map(thread).collect()
}

proptest! {
    /// The invariant: if every thread keeps its class, no thread moves.
    #[test]
    fn unchanged_classes_move_no_thread(
        domains in some_domains(),
        history in proptest::collection::vec(proptest::collection::vec(some_class(), 1..40), 1..5),
    ) {
        let mut at: Vec<usize> = Vec::new();
        for classes in &history {
            at = dino(&of(classes, &at), &domains);
            prop_assert_eq!(&dino(&of(classes, &at), &domains), &at);
        }
    }

    /// Two threads that swap classes cause two moves at most.
    #[test]
    fn two_that_swap_classes_are_two_moves(
        classes in proptest::collection::vec(some_class(), 2..40),
        one in 0usize..40,
        other in 0usize..40,
    ) {
        let domains = Domains::alike(4, 4);
        let at = dino(&of(&classes, &[]), &domains);
        let (one, other) = (one % classes.len(), other % classes.len());
        let mut swapped = classes.clone();
        swapped.swap(one, other);
        let mut threads = of(&swapped, &at);
        threads.iter_mut().zip(&classes).for_each(|(thread, was)| thread.changed = thread.class != *was);
        let then = dino(&threads, &domains);
        let moved = at.iter().zip(&then).filter(|(a, b)| a != b).count();
        prop_assert!(moved <= 2, "{moved} moved");
    }

    /// If a thread ends, the others stay, except for the few that another domain's share now
    /// covers.
    #[test]
    fn an_ended_thread_moves_few_others(classes in proptest::collection::vec(some_class(), 2..33), ends in 0usize..33) {
        let domains = Domains::alike(4, 4);
        let at = dino(&of(&classes, &[]), &domains);
        let ends = ends % classes.len();
        let mut left = of(&classes, &at);
        left.remove(ends);
        let before: Vec<usize> = left.iter().map(|thread| thread.at.unwrap()).collect();
        let then = dino(&left, &domains);
        let moved = before.iter().zip(&then).filter(|(a, b)| a != b).count();
        prop_assert!(moved <= 6, "{moved} of {} moved", left.len());
    }

    #[test]
    fn every_thread_is_where_it_may_run(
        domains in some_domains(),
        threads in proptest::collection::vec((some_class(), 0u64..64, 0.0f64..300.0), 0..60),
    ) {
        let threads: Vec<Thread> = threads
            .into_iter()
            .enumerate()
            .map(|(id, (class, allowed, mpki))| Thread { allowed, ..Thread::new(id as u64, mpki, class) })
            .collect();
        for at in [
            dino(&threads, &domains),
            di(&threads, &domains, Spread::Pairs),
            di(&threads, &domains, Spread::Deal),
        ] {
            prop_assert_eq!(at.len(), threads.len());
            for (thread, at) in threads.iter().zip(at) {
                prop_assert!(domains.cpus[at] > 0, "no CPU there");
                let some = domains.used().any(|domain| thread.allowed >> domain & 1 == 1);
                prop_assert!(!some || thread.allowed >> at & 1 == 1, "not allowed there");
            }
        }
    }

    /// No domain has more than its part of the threads, nor of any class by more than a few.
    #[test]
    fn crowds_are_even(classes in proptest::collection::vec(some_class(), 0..100)) {
        let domains = Domains::alike(4, 4);
        let at = dino(&of(&classes, &[]), &domains);
        let most = 4.max(classes.len().div_ceil(4));
        let mut crowd: BTreeMap<(usize, Class), usize> = BTreeMap::new();
        at.iter().zip(&classes).for_each(|(at, class)| *crowd.entry((*at, *class)).or_default() += 1);
        for domain in 0..4 {
            prop_assert!(at.iter().filter(|at| **at == domain).count() <= most);
        }
        for class in Class::ALL {
            let of = |domain: usize| crowd.get(&(domain, class)).copied().unwrap_or(0);
            let counts = [of(0), of(1), of(2), of(3)];
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 2, "{counts:?}");
        }
    }
}

#[test]
fn new_thread_goes_to_its_pages_or_else_to_the_nearest_domain() {
    let mut domains = Domains::alike(4, 1);
    domains.distance = vec![
        vec![10, 20, 20, 30],
        vec![20, 10, 30, 20],
        vec![20, 30, 10, 20],
        vec![30, 20, 20, 10],
    ];
    let mut one = Thread::new(9, 50.0, Class::Devil);
    one.resident = vec![10, 0, 400, 30];
    assert_eq!(dino(&[one.clone()], &domains), [0], "one place for a devil, and that is the first");
    let others: Vec<Thread> = (0..3).map(|id| Thread::new(id, 50.0, Class::Devil)).collect();
    let all = [others, vec![one]].concat();
    assert_eq!(dino(&all, &domains)[3], 3, "by the order of comers, this is left");
    let mut all = all;
    all[3].id = 0;
    all[0].id = 9;
    assert_eq!(dino(&all, &domains)[3], 2, "most of its pages are there");
    // It has to leave node 3, and no node holds any of its pages: 1 and 2 are nearer than 0.
    all[3].resident = Vec::new();
    all[3].at = Some(3);
    all[0] = Thread { allowed: 1 << 3, at: Some(3), ..all[0].clone() };
    assert_eq!(dino(&all[..], &domains)[3], 1);
}

#[test]
fn a_domain_without_cpus_keeps_no_thread() {
    let mut domains = Domains::alike(3, 2);
    let at = dino(&of(&[Class::Devil; 6], &[]), &domains);
    domains.cpus[1] = 0;
    let then = dino(&of(&[Class::Devil; 6], &at), &domains);
    for (before, then) in at.iter().zip(&then) {
        assert_ne!(*then, 1);
        assert!(*before == 1 || before == then, "the others stay");
    }
}

#[test]
fn ten_thousand_threads_are_planned_at_once() {
    let classes: Vec<Class> = (0..10_000).map(|n| Class::ALL[n % 7 % 3]).collect();
    let domains = Domains::alike(8, 24);
    let at = dino(&of(&classes, &[]), &domains);
    assert!((0..8).all(|domain| at.iter().filter(|at| **at == domain).count() == 1250));
    assert_eq!(dino(&of(&classes, &at), &domains), at);
}

fn part(unit: u64, devil: bool, to: usize, moved: bool) -> Part {
    Part { unit, devil, to, moved }
}

#[test]
fn memory_goes_where_most_of_its_devils_are() {
    let moves = |parts: &[Part]| memory(parts);
    assert_eq!(moves(&[part(1, true, 2, true)]), [Move { unit: 1, to: 2 }]);
    assert_eq!(moves(&[part(1, true, 2, false)]), [], "a thread that did not move pulls nothing");
    let split = [part(1, true, 0, false), part(1, true, 2, true)];
    assert_eq!(moves(&split), [], "as many here as there");
    let most = [part(1, true, 0, false), part(1, true, 2, true), part(1, true, 2, false)];
    assert_eq!(moves(&most), [Move { unit: 1, to: 2 }]);
    let turtles = [part(1, true, 0, false), part(1, false, 2, true), part(1, false, 2, true)];
    assert_eq!(moves(&turtles), [], "turtles have no say where there is a devil");
    assert_eq!(moves(&[part(3, false, 1, true)]), [Move { unit: 3, to: 1 }]);
}
